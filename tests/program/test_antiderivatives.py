"""Which functions have a closed antiderivative, and which are left to quadrature."""

from __future__ import annotations

import time

import pytest
from sympy import Rational

from cemc.notation.nodes import ArgumentSymbol, ConstantSymbol, Expr, apply
from cemc.program import antiderivatives
from cemc.program.antiderivatives import closed_form
from cemc.program.kinks import kinks
from cemc.program.quadrature import agrees
from cemc.semantics import analyse
from cemc.source import Source
from cemc.symbolic.build import Builder
from cemc.syntax import parse

U = ArgumentSymbol("u")


def form(body: str) -> Expr | None:
    text = f"energy e(d) {{ state x[token, d] const a = 2 function f(z) = {body} E[i] = sum(integral[f](x[i])) }}"
    source = Source("test.cem", text)
    (energy,) = analyse(parse(source), source).energies
    integrand = Builder(energy).function("f", [U])
    return closed_form(integrand, U, kinks(integrand, U))


CLOSED = {
    "2": 2 * U,
    "z^3": U**4 / 4,
    "a * z^2 - z / 3": ConstantSymbol("a") * U**3 / 3 - U**2 / 6,
    "z * (1 + z)^2": U**2 / 2 + 2 * U**3 / 3 + U**4 / 4,
    "exp(2 * z)": apply("expm1", 2 * U) / 2,
    "z * exp(-z^2 / 2)": -apply("expm1", -(U**2) / 2),
    "1 / (1 + z^2)": apply("atan", U),
    "z / (1 + z^2)": apply("log1p", U**2) / 2,
}


@pytest.mark.parametrize("body", CLOSED)
def test_closed(body: str) -> None:
    assert form(body) == CLOSED[body]


@pytest.mark.parametrize(
    "body",
    ["relu(z)^2", "abs(z) * z^2", "where(z > 0, z, 0.1 * z)", "tanh(3 * z)", "sigmoid(z / 2)", "erf(z)",
     "sin(2 * z + 1)", "min(z, 2 * z)", "where(not z < 0, z^2, -z)"],
)  # fmt: skip
def test_closed_on_both_sides(body: str) -> None:
    assert form(body) is not None


OPEN = {
    "no form": ["silu(z)", "z * sigmoid(2 * z)", "softplus(z)", "sqrt(1 + z^2)", "exp(sin(z))", "gelu(z)"],
    "a kink elsewhere": ["relu(z - 1)", "max(min(z, 1), -1)", "where(z > 2, z, 0)", "abs(z^2 - 1)", "relu(z - a)"],
    "cancels near 0": ["z * exp(z)", "exp(z) - 1", "1 - cos(z)", "z^2 / (1 + z^2)^2", "where(z > 0, z, exp(z) - 1)"],
    "a pole": ["1 / z", "1 / (1 + z)", "1 / (z^2 - 2)", "1 / (1 + z)^2", "log(z)", "z^(1 / 3)", "1 / (z + 1 / 3)^4"],
    "a constant that may be 0": ["exp(a * z)", "tanh(a * z)", "1 / (a + z^2)"],
    "too large": ["z^40", "(1 + z)^30 * (2 - z)^30", "((z + 1)^9)^9", "exp(z)^3 * z^5 * cos(z)^2", "1 / (z^8 + 1)"],
}


@pytest.mark.parametrize("reason", OPEN)
def test_left_to_quadrature(reason: str) -> None:
    start = time.process_time()
    for body in OPEN[reason]:
        assert form(body) is None, body
    assert time.process_time() - start < 10


def test_forms_are_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A form that is wrong by one part in a million million is not used, nor one that is right on one side."""
    assert agrees(U**3 / 3, U**2, U)
    assert not agrees(U**3 * (1 + Rational(1, 10**11)) / 3, U**2, U)
    assert not agrees(apply("abs", U) ** 3 / 3, U**2, U)
    assert not agrees(apply("exp", U) - 1, apply("exp", U), U)  # cancels near 0
    monkeypatch.setattr(antiderivatives, "_antiderivative", lambda function: function)
    assert form("1 / (1 + z^2)") is None
