"""Antiderivatives by quadrature: value against mpmath's own quadrature, derivatives of every order, torch.compile."""

from __future__ import annotations

import math
from typing import Any

import mpmath  # type: ignore[import-untyped]
import pytest
import torch
from torch.nn import functional as F

from tests.emit.support import layer_class

TEXT = """
energy area(d) {
  state x[d]
  const slope = 2
  FUNCTION
  E = sum(integral[NAME](x))
}
"""


def layer(name: str, function: str = "") -> Any:
    return layer_class(TEXT.replace("NAME", name).replace("FUNCTION", function))(d=1, dtype=torch.float64)


def silu(z: Any) -> Any:
    return z / (1 + mpmath.exp(-z))


CASES = {
    "silu": ("silu", "", silu),
    "gelu": ("gelu", "", lambda z: z * (1 + mpmath.erf(z / mpmath.sqrt(2))) / 2),
    "tanh": ("tanh", "", mpmath.tanh),
    "softplus": ("softplus", "", lambda z: mpmath.log(1 + mpmath.exp(z))),
    "sigmoid": ("sigmoid", "", lambda z: 1 / (1 + mpmath.exp(-z))),
    "erf": ("erf", "", mpmath.erf),
    "relu": ("relu", "", lambda z: max(z, 0)),
    "exp": ("exp", "", mpmath.exp),
    "shifted relu": ("f", "function f(z) = relu(z - 1)", lambda z: max(z - 1, 0)),
    "two kinks": ("f", "function f(z) = abs(z + 2) * relu(3 - z)", lambda z: abs(z + 2) * max(3 - z, 0)),
    "constant": ("f", "function f(z) = slope", lambda z: 2),
    "squared relu": ("f", "function f(z) = square(relu(z))", lambda z: max(z, 0) ** 2),
    "leaky relu": ("f", "function f(z) = max(z, 0.1 * z)", lambda z: max(z, z / 10)),
    "polynomial": ("f", "function f(z) = slope * z^3 - z / d + 1", lambda z: 2 * z**3 - z + 1),
    "scaled tanh": ("f", "function f(z) = 3 * tanh(z / 2)", lambda z: 3 * mpmath.tanh(z / 2)),
    "shifted sine": ("f", "function f(z) = sin(3 * z + 1)", lambda z: mpmath.sin(3 * z + 1)),
    "bell": ("f", "function f(z) = z * exp(-z^2 / 2)", lambda z: z * mpmath.exp(-z * z / 2)),
    "rational": ("f", "function f(z) = (1 + z) / (1 + z^2)", lambda z: (1 + z) / (1 + z * z)),
    "with a constant": ("f", "function f(z) = silu(slope * z) / d", lambda z: silu(2 * z)),
}
KINKS = {"two kinks": (-2, 3), "shifted relu": (1,), "relu": (0,)}


@pytest.mark.parametrize("case", CASES)
def test_value(case: str) -> None:
    name, function, reference = CASES[case]
    area = layer(name, function)
    for end in (-40.0, -5.0, -0.3, 0.0, 1e-3, 0.7, 4.0, 30.0):
        if case == "shifted sine" and abs(end) > 5:
            continue  # too many periods for the reference below
        kinks = [k for k in KINKS.get(case, ()) if 0 < abs(k) < abs(end) and k * end > 0]
        inside = [end * 0.5**k for k in range(1, 8)]
        points = sorted([0.0, *kinks, *inside, end], key=abs)
        expected = float(mpmath.quad(reference, points))
        value = area.energy(torch.tensor([end], dtype=torch.float64)).item()
        assert value == pytest.approx(expected, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize(
    "case", ["silu", "squared relu", "bell", "polynomial", "two kinks", "with a constant", "constant"]
)
def test_derivatives(case: str) -> None:
    name, function, reference = CASES[case]
    area = layer(name, function)
    x = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(area.energy(x), x, create_graph=True)
    assert gradient.item() == pytest.approx(float(reference(mpmath.mpf(0.7))), rel=1e-12)
    if case != "constant":
        assert torch.autograd.gradgradcheck(area.energy, (x,))
    # The update itself needs no integral.
    torch.testing.assert_close(area(x), x - gradient)


def test_many_values_at_once_and_none() -> None:
    area = layer_class(TEXT.replace("NAME", "silu").replace("FUNCTION", ""))(d=3, dtype=torch.float64)
    x = torch.linspace(-3, 3, 12, dtype=torch.float64).reshape(2, 2, 3)
    each = torch.stack([layer("silu").energy(v[None]) for v in x.flatten()]).reshape(2, 2, 3)
    torch.testing.assert_close(area.energy(x), each.sum(-1))
    assert area.energy(x[:0]).shape == (0, 2)


def test_in_single_precision() -> None:
    area = layer_class(TEXT.replace("NAME", "silu").replace("FUNCTION", ""))(d=1)
    x = torch.tensor([3.0])
    exact = layer("silu").energy(x.double())
    torch.testing.assert_close(area.energy(x).double(), exact, rtol=1e-6, atol=0)


@pytest.mark.parametrize("end", [-3e4, 3e4])
def test_far_from_0(end: float) -> None:
    """Closed forms do not overflow before the integral does."""
    x = torch.tensor([end], dtype=torch.float64)
    for name, expected in (
        ("tanh", abs(end) - math.log(2)),
        ("sigmoid", max(end, 0) - math.log(2)),
        ("erf", abs(end) - 1 / math.sqrt(math.pi)),
    ):
        assert layer(name).energy(x).item() == pytest.approx(expected, rel=1e-14)
        single = layer_class(TEXT.replace("NAME", name).replace("FUNCTION", ""))(d=1)
        assert single.energy(x.float()).item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("function", ["silu(slope * z)", "z * exp(-z^2 / 2)"])
def test_compiled_and_transformed(function: str) -> None:
    area = layer("f", f"function f(z) = {function}")

    def f(z: torch.Tensor) -> torch.Tensor:
        return F.silu(2 * z) if "silu" in function else z * torch.exp(-z * z / 2)

    x = torch.tensor([0.7], dtype=torch.float64)

    def gradient(x: torch.Tensor) -> torch.Tensor:
        return torch.func.grad(lambda u: area.energy(u))(x)

    torch.testing.assert_close(gradient(x), f(x))
    torch.testing.assert_close(torch.func.vmap(gradient)(x[None]), f(x)[None])
    compiled = torch.compile(area.energy, fullgraph=True, backend="aot_eager")
    y = x.clone().requires_grad_()
    value = compiled(y)
    torch.testing.assert_close(value, area.energy(x))
    (slope,) = torch.autograd.grad(value, y)
    torch.testing.assert_close(slope, f(x))
