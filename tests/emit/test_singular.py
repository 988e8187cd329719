"""Singular branches that a condition guards, roots at 0, and logarithms of what is 0 in floating point."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.emit.support import layer_class

TEXT = "energy guarded(d) {{ state x[token, d] function f(u) = {} E[i] = sum(f(x[i])) }}"
SINC = [
    "where(u == 0, 1, sin(u) / u)",
    "where(u != 0, sin(u) / u, 1)",
    "where(not u == 0, sin(u) / u, 1)",
    "where(abs(u) < 1e-9, 1 - u^2 / 6, sin(u) / u)",
    "where(u > 0 or u < 0, sin(u) / u, 1)",
]
BACKENDS = ["generic", "torch"]


def gradients(layer: Any, x: torch.Tensor) -> list[torch.Tensor]:
    """The update, the energy, and the training gradients of both."""
    new, value = layer(x), layer.energy(x)
    return [new, value, *(torch.autograd.grad(each.sum(), x, retain_graph=True)[0] for each in (new, value))]


@pytest.mark.parametrize("function", SINC)
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_branch_not_taken_contributes_nothing(function: str, backend: str) -> None:
    x = torch.tensor([[0.0, 1.0], [-2.0, 0.0]], requires_grad=True)
    new, value, through_update, through_energy = gradients(layer_class(TEXT.format(function))(d=2, backend=backend), x)
    u = x.detach().double()
    slope = torch.where(u == 0, 0.0, (u * u.cos() - u.sin()) / (u * u))
    torch.testing.assert_close(new.double(), u - slope)
    torch.testing.assert_close(value.double(), torch.where(u == 0, 1.0, u.sin() / u).sum(-1))
    torch.testing.assert_close(through_energy.double(), slope)
    assert bool(through_update.isfinite().all())


POWERS = ["norm2(x[i]) ^ 0.5", "norm2(x[i]) ^ (1 / 2)", "norm2(x[i]) ^ 1.5", "sqrt(norm2(x[i]))"]


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_roots_at_0(power: str, backend: str) -> None:
    layer = layer_class(f"energy rooted(d) {{ state x[token, d] E[i] = {power} }}")(d=3, backend=backend)
    x = torch.zeros(2, 3, requires_grad=True)
    new, value, through_update, through_energy = gradients(layer, x)
    assert torch.equal(new, torch.zeros(2, 3)) and torch.equal(value, torch.zeros(2))
    assert bool(through_update.isfinite().all()) and torch.equal(through_energy, torch.zeros(2, 3))


@pytest.mark.parametrize("backend", BACKENDS)
def test_logarithms_of_probabilities(backend: str) -> None:
    text = """energy certain(d) {
      state x[token, d]
      p[i] = softmax(x[i])
      q[i] = sigmoid(x[i])
      E[i] = dot(p[i], log(p[i])) + sum(log(q[i])) + sum(log(given(softmax(x[i]))))
    }"""
    layer = layer_class(text)(d=3, backend=backend)
    x = torch.tensor([[1e4, 0.0, -1e4], [0.5, 0.0, -0.5]], requires_grad=True)
    new, value, through_update, through_energy = gradients(layer, x)
    u = x.detach().double()
    log_p, log_q = torch.log_softmax(u, -1), torch.nn.functional.logsigmoid(u)
    torch.testing.assert_close(value.double(), (log_p.exp() * log_p + log_q + log_p).sum(-1), rtol=1e-6, atol=1e-6)
    for each in (new, through_update, through_energy):
        assert bool(each.isfinite().all())
