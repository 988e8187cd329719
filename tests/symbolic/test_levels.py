"""What is used twice at each of many levels is not unfolded as a tree: forty levels would be 2^40 terms."""

from __future__ import annotations

import sys
import time

import pytest

from cemc import symbolic
from cemc.compiler import Trace, compile_source
from cemc.diagnostics import CemError
from cemc.semantics import analyse
from cemc.semantics.future import later_reads
from cemc.source import Source
from cemc.syntax import parse

LEVELS = {
    "functions under an integral": (
        "function f0(z) = tanh(z) / 2",
        "function f{n}(z) = f{m}(z) * f{m}(z) + f{m}(z)",
        "sum(integral[f{m}](x[i]))",
    ),
    "polynomials under an integral": (
        "function f0(z) = z",
        "function f{n}(z) = f{m}(z) + z * f{m}(z)",
        "sum(integral[f{m}](x[i]))",
    ),
    "a logarithm of products": ("p0[i] = exp(x[i, 0])", "p{n}[i] = p{m}[i] * p{m}[i]", "log(p{m}[i])"),
    "a logarithm of sums over the past": (
        "p0[i] = exp(x[i, 0])",
        "p{n}[i] = p{m}[i] * p{m}[i] + sum[j <= i](p{m}[j])",
        "log(p{m}[i])",
    ),
    "shifts": ("p0[i] = x[i]", "p{n}[i] = tanh(p{m}[i]) * p{m}[i - 1] + p{m}[i]", "norm2(p{m}[i])"),
}  # fmt: skip


def text(name: str, count: int) -> str:
    first, level, energy = LEVELS[name]
    lines = [first, *(level.format(n=n, m=n - 1) for n in range(1, count)), f"E[i] = {energy.format(m=count - 1)}"]
    return "energy e(d) {\n  state x[token, d]\n  " + "\n  ".join(lines) + "\n}\n"


@pytest.mark.parametrize("name", LEVELS)
def test_compiled_soon(name: str) -> None:
    start = time.process_time()
    (result,) = compile_source(Source("test.cem", text(name, 30)), Trace())
    assert time.process_time() - start < 20
    assert len(result.code) < 100_000


@pytest.mark.parametrize("name", LEVELS)
def test_analysed_soon(name: str) -> None:
    source = Source("test.cem", text(name, 60))
    start = time.process_time()
    (energy,) = analyse(parse(source), source).energies
    list(later_reads(energy))
    assert time.process_time() - start < 5


def test_integrals_of_integrals() -> None:
    levels = "\n".join(f"  function f{n}(z) = integral[f{n - 1}](z) * f{n - 1}(z)" for n in range(1, 13))
    head = "energy e(d) {\n  state x[token, d]\n  function f0(z) = relu(z - 1)\n"
    source = Source("test.cem", f"{head}{levels}\n  E[i] = sum(integral[f12](x[i]))\n}}\n")
    start = time.process_time()
    compile_source(source, Trace())
    assert time.process_time() - start < 20


def test_a_hundred_definitions_one_on_the_other() -> None:
    levels = "\n".join(f"  h{n}[i] = rmsnorm(h{n - 1}[i])" for n in range(1, 101))
    head = "energy deep(d) {\n  state x[token, d]\n  h0[i] = x[i]\n"
    (result,) = compile_source(Source("test.cem", f"{head}{levels}\n  E[i] = sum(h100[i])\n}}\n"), Trace())
    assert result.causal


def test_what_is_too_deep_is_an_error_with_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*arguments: object) -> object:
        return endless(*arguments)

    monkeypatch.setattr(symbolic, "build", endless)
    with pytest.raises(CemError) as caught:
        compile_source(Source("test.cem", "energy deep(d) { state x[token, d] E[i] = norm2(x[i]) }"), Trace())
    assert str(caught.value).startswith(
        "test.cem:1:1: error: the definitions of `deep` build on one another more deeply"
    )
    assert sys.getrecursionlimit() < 50_000
