"""Kinks, ties, empty reductions, guards and reads outside an axis."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from cemc.oracle.functions import softplus
from tests.oracle.support import close, oracle, random, real


def gradient(text: str, x: Tensor, d: int) -> Tensor:
    """The gradient of a parameterless energy of one state `x`, from its plain step."""
    return x - oracle(text, d=d).update({"x": x}, {})["x"]


def element_wise(expression: str) -> str:
    return f"energy e(d) {{ state x[token, d] E[i] = sum({expression}) }}"


@pytest.mark.parametrize(
    ("expression", "slopes"),
    [
        ("abs(x[i])", [-1.0, 0.0, 1.0]),
        ("sqrt(square(x[i]))", [-1.0, 0.0, 1.0]),
        ("relu(x[i])", [0.0, 0.0, 1.0]),
        ("max(x[i], 0)", [0.0, 1.0, 1.0]),
        ("max(0, x[i])", [0.0, 0.0, 1.0]),
        ("min(x[i], 0)", [1.0, 1.0, 0.0]),
    ],
)
def test_derivative_at_kinks(expression: str, slopes: list[float]) -> None:
    assert close(gradient(element_wise(expression), real(-2.0, 0.0, 2.0)[:, None], d=1), real(*slopes)[:, None])


def test_second_derivative_at_the_kink_of_a_root_is_no_nan() -> None:
    x = real(0.0, 4.0)[:, None]
    (second,) = torch.autograd.grad(gradient(element_wise("sqrt(x[i])"), x, d=1).sum(), x)
    assert close(second, real(0.0, -0.25 / 8)[:, None])


def test_derivatives_of_softplus_far_out() -> None:
    """Three of them, where the exponential is 0 or infinite as well."""
    u = torch.tensor([-1800.0, -2.0, 0.0, 3.0, 1800.0], dtype=torch.float64, requires_grad=True)
    s = torch.sigmoid(u.detach())
    expected = [torch.nn.functional.softplus(u.detach(), threshold=40), s, s * (1 - s), s * (1 - s) * (1 - 2 * s)]
    value = softplus(u)
    for each in expected:
        torch.testing.assert_close(value.detach(), each)
        (value,) = torch.autograd.grad(value.sum(), u, create_graph=True)


def test_first_maximum_takes_the_gradient() -> None:
    x = real(1.0, 3.0, 3.0, 2.0)
    text = "energy e(d) { state x[token, d] E[i] = max(x[i]) }"
    assert close(gradient(text, x[None], d=4), real(0.0, 1.0, 0.0, 0.0)[None])
    text = "energy e(d) { state x[token, d] E = sum[e](max[i](x[i][e])) }"
    assert close(gradient(text, x[:, None], d=1), real(0.0, 1.0, 0.0, 0.0)[:, None])


def test_first_maximum_counts_pairs_in_the_order_bound() -> None:
    x = real(1.0, 1.0)[:, None]
    text = "energy e(d) { state x[token, d] E = max[i, j if i != j](sum(x[i]) + 2 * sum(x[j])) }"
    assert close(gradient(text, x, d=1), real(1.0, 2.0)[:, None])


@pytest.mark.parametrize("kind", ["sum", "mean", "max", "logsumexp"])
def test_empty_row(kind: str) -> None:
    x = random(3, 2)
    text = f"energy e(d) {{ state x[token, d] E[i] = {kind}[j < i](dot(x[i], given(x[j]))) }}"
    energy = oracle(text, d=2).energy({"x": x}, {})
    assert float(energy[0].detach()) == 0.0
    assert bool(energy[1:].isfinite().all())
    g = gradient(text, x, d=2)
    assert close(g[0], torch.zeros(2, dtype=torch.float64))
    (training,) = torch.autograd.grad(g.square().sum(), x)
    assert bool(training.isfinite().all())
    assert float(training.norm()) > 0


def test_a_reduction_keeps_the_shape_of_its_body() -> None:
    x = random(4, 3)
    for kind, reduce in (
        ("sum", lambda v: v.sum(0)),
        ("mean", lambda v: v.mean(0)),
        ("max", lambda v: v.amax(0)),
        ("logsumexp", lambda v: v.logsumexp(0)),
    ):
        text = f"energy e(d) {{ state x[token, d] E[i] = dot(x[i], {kind}[j <= i](x[j])) }}"
        expected = torch.stack([x[i] @ reduce(x[: i + 1]) for i in range(4)])
        assert close(oracle(text, d=3).energy({"x": x}, {}), expected)


LEVELS = """
energy e(d) {{
  state x[token, d]
  L[i] = logsumexp[j < i](dot(x[i], given(x[j])))
  E[i] = {} + 0 * sum(x[i])
}}
"""


@pytest.mark.parametrize(
    ("expression", "first"),
    [
        ("L[i]", 0.0),
        ("L[i] + 1", 1.0),
        ("exp(L[i])", 0.0),
        ("exp(L[i] + 1)", 0.0),
        ("exp(2 * L[i])", 1.0),
        ("exp(0 - L[i])", 1.0),
        ("logsumexp[e in d](L[i] + 1)", 0.0),
        ("log(exp(L[i]) + exp(0.5))", 0.5),
        ("log(exp(L[i]))", 0.0),
        ("log(2 + exp(log(exp(L[i]))))", math.log(2)),
        ("log(sum[j < i](exp(dot(x[i], x[j]))))", 0.0),
        ("log(sum[j < i](2 * exp(dot(x[i], x[j]))) + exp(L[i]))", 0.0),
    ],
)
def test_empty_logsumexp_where_it_stands(expression: str, first: float) -> None:
    x = random(3, 2)
    energy = oracle(LEVELS.format(expression), d=2).energy({"x": x}, {})
    assert float(energy[0].detach()) == pytest.approx(first, abs=1e-14)
    (training,) = torch.autograd.grad(energy.sum(), x)
    assert bool(training.isfinite().all())


def test_empty_rows_inside_a_log_sum_exp_of_a_vector() -> None:
    x = random(3, 2)
    text = """
    energy e(d, h = 2) {
      state x[token, d]
      L[i, k in h] = logsumexp[j < i](dot(x[i], given(x[j])) + k)
      E[i] = logsumexp(L[i])
    }
    """
    scores = x @ x.T
    rows = [scores[i, :i].logsumexp(0) + math.log(1 + math.e) for i in (1, 2)]
    assert close(oracle(text, h=2, d=2).energy({"x": x}, {}), torch.stack([x.new_zeros(()), *rows]))


def test_a_branch_not_taken_contributes_nothing() -> None:
    x = real(0.0, 0.5, -1.0)[:, None]
    g = gradient(element_wise("where(norm2(x[i]) > 0, sin(x[i][e]) / x[i][e], 1)").replace("sum(", "sum[e]("), x, d=1)
    (training,) = torch.autograd.grad(g.sum(), x)
    s = x[1:].detach().requires_grad_()
    expected = (s * s.cos() - s.sin()) / s**2
    assert close(g, torch.cat((x.new_zeros(1, 1), expected)))
    assert close(training, torch.cat((x.new_zeros(1, 1), torch.autograd.grad(expected.sum(), s)[0])))


def test_what_a_condition_excludes_is_no_nan_through_a_definition() -> None:
    x = real(1.0, 2.0, 4.0)[:, None]
    text = """
    energy e(d) {
      state x[token, d]
      pair[i, j] = 1 / sqrt(norm2(x[i] - x[j]))
      E = sum[i, j if j < i](pair[i, j])
    }
    """
    (expected,) = torch.autograd.grad((1 / (x[1] - x[0]) + 1 / (x[2] - x[0]) + 1 / (x[2] - x[1])).sum(), x)
    g = gradient(text, x, d=1)
    assert close(g, expected)
    assert bool(torch.autograd.grad(g.square().sum(), x)[0].isfinite().all())


def test_reads_outside_are_zero() -> None:
    x = random(4, 3)
    text = "energy e(d) { state x[token, d] z[i] = exp(x[i]) E[i] = dot(x[i], z[i - 1]) + dot(z[i + 2], x[i]) }"
    z = torch.cat((x.new_zeros(1, 3), x.exp(), x.new_zeros(2, 3)))
    expected = torch.stack([x[i] @ (z[i] + z[i + 3]) for i in range(4)])
    assert close(oracle(text, d=3).energy({"x": x}, {}), expected)


def test_comparisons_that_read_outside_are_false() -> None:
    x = random(3, 1)
    doc = torch.tensor([0, 1, 1])
    text = """
    energy e(d) {
      state x[token, d]
      given doc[token]: int
      same[i] = where(doc[i - 1] == doc[i], 1, 0)
      other[i] = where(not doc[i - 1] == doc[i], 1, 0)
      E[i] = same[i] * sum(x[i]) + other[i] * sum(square(x[i]))
    }
    """
    expected = torch.stack([x.new_zeros(()), x[1, 0] ** 2, x[2, 0]])
    assert close(oracle(text, d=1).energy({"x": x}, {"doc": doc}), expected)


def test_look_ups_outside_a_table_are_zero() -> None:
    x, T = random(5, 2), random(3, 2, seed=1)
    kind = torch.tensor([0, 2, -1, 3, 1])
    text = """
    energy e(d, kinds) {
      state x[token, d]
      given kind[token]: int
      param T[kinds, d]
      E[i] = dot(T[kind[i]], x[i]) + dot(T[kind[i + 1]], x[i])
    }
    """
    rows = [T[0], T[2], x.new_zeros(2), x.new_zeros(2), T[1]]
    # kind[5] is outside the axis, so 0: the first row.
    after = [*rows[1:], T[0]]
    expected = torch.stack([(rows[i] + after[i]) @ x[i] for i in range(5)])
    found = oracle(text, {"T": T}, d=2, kinds=3).energy({"x": x}, {"kind": kind})
    assert close(found, expected)
    assert close(torch.autograd.grad(found.sum(), T)[0], torch.stack([x[0] + x[4], x[3] + x[4], x[0] + x[1]]))


def test_integer_exponents_of_negative_bases() -> None:
    x = real(-2.0, 0.0, 3.0)[:, None]
    assert close(gradient(element_wise("x[i]^3"), x, d=1), 3 * x**2)
    assert close(gradient(element_wise("x[i]^2"), x, d=1), 2 * x)
    assert close(gradient(element_wise("x[i]^d"), x, d=1), torch.ones_like(x))
