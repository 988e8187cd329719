"""Logarithms of sums of exponentials with factors that have no logarithm of their own: large scores, masks, zeros."""

from __future__ import annotations

import pytest
import torch

from tests.emit.support import layer_class

TEXT = """
energy kept(d) {
  state x[token, d]
  given keep[token]
  E[i] = log(sum[j < i](keep[j] * exp(dot(x[i], given(x[j])))))
}
"""
SIZES = [1.0, 100.0]  # scores of size 1e4 in the second


@pytest.mark.parametrize("backend", ["generic", "torch"])
@pytest.mark.parametrize("size", SIZES)
def test_a_factor_that_is_0_hides_any_score(backend: str, size: float) -> None:
    layer = layer_class(TEXT)(d=4, backend=backend)
    x = (size * torch.randn(9, 4, generator=torch.Generator().manual_seed(0))).requires_grad_()
    keep = torch.tensor([0.0, 0, 1, 0, 2, 1, 0, 0.5, 1], requires_grad=True)
    value = layer.energy(x, keep=keep)
    scores = (x @ x.T).double()
    weights = keep.double().log() + torch.where(torch.ones(9, 9).tril(-1) > 0, 0.0, -torch.inf)
    expected = torch.logsumexp(scores + weights, -1)
    expected = torch.where(expected.isfinite(), expected, 0.0)
    torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-5)
    new = layer(x, keep=keep)
    assert torch.equal(new[:3], x[:3])  # nothing is kept before the third token
    for gradient in torch.autograd.grad(new.sum() + value.sum(), (x, keep)):
        assert bool(gradient.isfinite().all())


def test_definitions_that_double_at_each_of_many_levels_stay_small() -> None:
    levels = "\n".join(f"  p{n}[i] = p{n - 1}[i] + p{n - 1}[i]" for n in range(1, 41))
    text = f"energy doubled(d) {{\n  state x[token, d]\n  p0[i] = exp(norm2(x[i]))\n{levels}\n  E[i] = log(p40[i])\n}}"
    x = torch.tensor([[0.5, -1.0]], dtype=torch.float64)
    value = layer_class(text)(d=2, dtype=torch.float64).energy(x)
    torch.testing.assert_close(value, x.square().sum(-1) + 40 * torch.log(torch.tensor(2.0, dtype=torch.float64)))
