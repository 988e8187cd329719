"""Distances of pairs: no vector for each pair, the same values and gradients, and no accuracy lost for it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.decoding.memory import peak
from tests.emit.support import generated, layer_class

ENERGIES = {
    "softmax": "E[i] = -logsumexp[j <= i](-norm2(x[i] - given(x[j])) / 2)",
    "plain sum": "E[i] = sum[j < i](exp(-norm2(given(x[j]) - x[i])))",
    "joint": "E[i] = -logsumexp[j in token](-norm2(x[i] - x[j]) / 2)",
    "joint, other maps": "param Q[r, d]\nparam K[r, d]\nE[i] = sum[j in token](exp(-norm2(Q @ x[i] - K @ x[j])))",
    "heads": "param Q[h, r, d]\nparam K[h, r, d]\n"
    "E[i] = -sum[k](logsumexp[j <= i](-norm2(Q[k] @ x[i] - K[k] @ given(x[j]))))",
    "one query for all heads": "param Q[r, d]\nparam K[h, r, d]\n"
    "E[i] = -sum[k](logsumexp[j <= i](-norm2(Q @ x[i] - K[k] @ given(x[j]))))",
    "learned centres": "param M[n, d]\nE[i] = -logsumexp[m](-norm2(x[i] - M[m]) / 2)",
    "three parts": "param M[d]\nE[i] = -logsumexp[j <= i](-norm2(x[i] - given(x[j]) + M) / 2)",
    "a multiple": "E[i] = -logsumexp[j <= i](-norm2(2 * x[i] - 3 * given(x[j])) / 20)",
    "a window": "E[i] = -logsumexp[i - 5 < j <= i](-norm2(x[i] - given(x[j])) / 2)",
    "a kernel with a kink": "E[i] = sum[j <= i](sqrt(norm2(x[i] - given(x[j]))))",
}
# The differences are needed as they are.
OTHERS = {
    "the first norm": "E[i] = sum[j <= i](sum(abs(x[i] - given(x[j]))))",
    "the norm and the difference": "E[i] = sum[j <= i](norm2(x[i] - given(x[j])) + sum(tanh(x[i] - given(x[j]))))",
}


ALL = {**ENERGIES, **OTHERS}


def text(name: str) -> str:
    return "energy e(d, h = 2, r = 3, n = 5) { state x[token, d]\n" + ALL[name] + " }"


def rms(value: Tensor) -> float:
    return float(value.detach().square().mean().sqrt())


def results(name: str, backend: str, x: Tensor, dtype: torch.dtype) -> list[Tensor]:
    """The update, and its gradients for a fixed cotangent."""
    torch.manual_seed(0)
    layer = layer_class(text(name))(d=x.shape[-1], backend=backend, dtype=torch.float64).to(dtype)
    x = x.to(dtype).requires_grad_()
    value = layer(x)
    cotangent = torch.randn(value.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
    return [value, *torch.autograd.grad((cotangent * value).sum(), [x, *layer.parameters()])]


@pytest.mark.parametrize("tokens", [0, 1, 140])
@pytest.mark.parametrize("name", ALL)
def test_equal_to_the_generic_program(name: str, tokens: int) -> None:
    assert ("cdist" in generated(text(name))) == (name in ENERGIES)
    x = torch.randn(2, tokens, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    for one, other in zip(*(results(name, b, x, torch.float64) for b in ("torch", "generic")), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "spread"),
    [("softmax", 1.0), ("softmax", 0.1), ("joint", 1.0), ("joint", 0.1), ("heads", 0.1), ("plain sum", 1.0)],
)
def test_as_exact_as_differences(name: str, spread: float) -> None:
    """Clusters far from the origin: with norms and inner products the distances would be wrong by 1e-3. (A plain sum of
    many near differences is exact to the rounding of its two parts.)"""
    x = 30 + spread * torch.randn(1, 60, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    exact = results(name, "generic", x, torch.float64)
    errors = []
    for backend in ("torch", "generic"):
        found = results(name, backend, x, torch.float32)
        errors.append([rms(a.double() - b) for a, b in zip(found, exact, strict=True)])
    for mine, eager, value in zip(*errors, exact, strict=True):
        assert mine <= 2 * eager + 3 * torch.finfo(torch.float32).eps * rms(value)


def step(layer: Any, x: Tensor) -> None:
    layer(x).sum().backward()


def test_no_vector_for_each_pair() -> None:
    """Memory does not depend on the width, but for what is as long as the tokens."""
    layers = {d: layer_class(text("softmax"))(d=d) for d in (2, 64)}
    sizes = {}
    for d, layer in layers.items():
        x = torch.randn(1, 512, d, requires_grad=True)
        sizes[d] = peak(partial(step, layer, x))
    assert sizes[64] < sizes[2] + 30 * 512 * 62 * 4
