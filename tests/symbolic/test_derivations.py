"""What is derived, as equations: the two layers of the paper, and energies that are easy to get wrong."""

from __future__ import annotations

import pytest

from cemc import symbolic
from cemc.semantics import analyse
from cemc.source import Source
from cemc.syntax import parse


def derived(body: str) -> str:
    """The last line of the equations of `energy e(d, r) {...}`: the update."""
    source = Source("test.cem", f"energy e(d, r) {{\n state x[token, d]\n{body}\n}}\n")
    (energy,) = analyse(parse(source), source).energies
    return symbolic.equations(symbolic.build(energy)).update[-1]


CASES = {
    # The bound index is not the point of evaluation; the derivative of a log-sum-exp by one of its terms is a softmax.
    "E[i] = -logsumexp[j <= i](dot(x[i], given(x[j])))": (
        "x[i, a] ← x[i, a] + sum[j](given(x[j, a]) * softmax[j ≤ i](part1[i, j]))"
    ),
    # Naive spelling, same update.
    "E[i] = -log(sum[j <= i](exp(dot(x[i], given(x[j])))))": (
        "x[i, a] ← x[i, a] + sum[j](given(x[j, a]) * softmax[j ≤ i](part1[i, j]))"
    ),
    # A global energy has the term of the token as a neighbour, with its mask.
    "E = sum[i](dot(x[i], x[i - 1]))": ("x[i, a] ← x[i, a] - x[i - 1, a] - x[i + 1, a]"),
    # tr(A'A) + tr(B'B): not zero.
    "param A[r, d]\n E[i] = norm2(A @ x[i]) + norm2(x[i])": (
        "x[i, a] ← -x[i, a] - 2 * sum[b, c](A[b, a] * A[b, c] * x[i, c])"
    ),
}


@pytest.mark.parametrize("body", CASES)
def test_update(body: str) -> None:
    assert derived(body) == CASES[body]


def test_a_definition_used_twice_at_each_of_many_levels_stays_small() -> None:
    """Reverse accumulation over tables: forty levels of two uses are forty adjoints, not 2^40 terms."""
    levels = "\n".join(f" h{n}[i] = tanh(h{n - 1}[i]) * h{n - 1}[i]" for n in range(1, 41))
    source = Source(
        "test.cem", f"energy e(d) {{\n state x[token, d]\n h0[i] = x[i]\n{levels}\n E[i] = norm2(h40[i])\n}}\n"
    )
    (energy,) = analyse(parse(source), source).energies
    built = symbolic.build(energy)
    assert len(built.tables.names()) < 200
    assert max(len(line) for line in symbolic.equations(built).update) < 400


def test_functions_that_call_functions_twice_stay_small() -> None:
    levels = "\n".join(f" function f{n}(z) = f{n - 1}(z) * f{n - 1}(z) + f{n - 1}(z)" for n in range(1, 31))
    text = f"energy e(d) {{\n state x[token, d]\n function f0(z) = tanh(z)\n{levels}\n E[i] = sum(f30(x[i]))\n}}\n"
    source = Source("test.cem", text)
    (energy,) = analyse(parse(source), source).energies
    built = symbolic.equations(symbolic.build(energy))
    assert sum(len(line) for line in (*built.energy, *built.update)) < 200_000
