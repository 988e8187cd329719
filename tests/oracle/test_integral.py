"""Antiderivatives against closed forms, with their derivatives of every order."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cemc.oracle.quadrature import quadrature
from tests.oracle.support import close, oracle, real

POINTS = real(-30.0, -3.7, -1.0, -1e-3, 0.0, 1e-6, 0.4, 2.0, 25.0)

CLOSED: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": lambda u: torch.expm1(u),
    "sin": lambda u: 2 * torch.sin(u / 2) ** 2,
    "cos": torch.sin,
    "square": lambda u: u**3 / 3,
    "abs": lambda u: u * u.abs() / 2,
    "relu": lambda u: u.clamp(min=0) ** 2 / 2,
    "tanh": lambda u: torch.logaddexp(u, -u) - math.log(2),
    "sigmoid": lambda u: torch.logaddexp(u, torch.zeros_like(u)) - math.log(2),
    "erf": lambda u: u * torch.erf(u) + torch.expm1(-u * u) / math.sqrt(math.pi),
    "gelu": lambda u: (
        u * u / 4 * (1 + torch.erf(u / math.sqrt(2)))
        - torch.erf(u / math.sqrt(2)) / 4
        + u * torch.exp(-u * u / 2) / (2 * math.sqrt(2 * math.pi))
    ),
}

FILE = """
energy e(d) {
  state x[token, d]
  %s
  E[i] = sum(integral[%s](x[i]))
}
"""


def antiderivative(function: str, declaration: str = "") -> Tensor:
    """The integral at each of POINTS, each the one component of a token."""
    return oracle(FILE % (declaration, function), d=1).energy({"x": POINTS[:, None]}, {})


@pytest.mark.parametrize("function", sorted(CLOSED))
def test_builtin(function: str) -> None:
    assert close(antiderivative(function), CLOSED[function](POINTS), 1e-12)


@pytest.mark.parametrize("function", sorted(CLOSED))
def test_each_value_is_accurate_by_itself(function: str) -> None:
    found, closed = antiderivative(function), CLOSED[function](POINTS)
    away = POINTS.detach().abs() > 0.1  # nearer to 0 the closed forms cancel
    assert bool((((found - closed).abs() <= 1e-12 * closed.abs()) | ~away).all())


def test_silu_against_its_derivatives() -> None:
    value = antiderivative("silu")
    (first,) = torch.autograd.grad(value.sum(), POINTS, create_graph=True)
    assert close(first, POINTS * torch.sigmoid(POINTS))
    (second,) = torch.autograd.grad(first.sum(), POINTS, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), POINTS)
    s = torch.sigmoid(POINTS)
    assert close(second, s + POINTS * s * (1 - s))
    assert close(third, s * (1 - s) * (2 + POINTS * (1 - 2 * s)))


def test_kinks_anywhere() -> None:
    found = antiderivative("f", "function f(u) = max(abs(u - 0.3), 1)")
    # 1 on [-0.7, 1.3], else |u - 0.3|
    above = (POINTS - 0.3) ** 2 / 2
    expected = torch.where(POINTS > 1.3, 1.3 + above - 0.5, torch.where(POINTS < -0.7, -0.7 - above + 0.5, POINTS))
    assert close(found, expected, 1e-12)


def test_jump() -> None:
    found = antiderivative("f", "function f(u) = where(u > 1, 5, u)")
    assert close(found, torch.where(POINTS > 1, 0.5 + 5 * (POINTS - 1), POINTS**2 / 2), 1e-12)


def test_jump_just_before_the_end() -> None:
    """Between the last node and the end, where halving a panel shows nothing."""
    upper = 1.0 + torch.tensor([1e-2, 1e-3, 1e-4, 1e-6, 1e-9], dtype=torch.float64)
    found = quadrature(lambda z: torch.where(z > 1.0, 1.0, -1.0).double(), upper)
    assert close(found, (upper - 1.0) - 1.0, 1e-14)


def test_not_finite() -> None:
    found = antiderivative("f", "function f(u) = 1 / square(u - 1)").detach()
    below = POINTS.detach() < 0.5
    assert close(found[below], 1 / (1 - POINTS.detach()[below]) - 1, 1e-9)
    log = antiderivative("log").detach()
    assert bool(log[POINTS.detach() < 0].isnan().all())
    positive = POINTS.detach()[-2:]
    assert close(log[-2:], positive * positive.log() - positive, 1e-11)
