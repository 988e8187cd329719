"""The two energies of the paper against their gradients worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.oracle.support import close, oracle, random, same_gradients

ENERGIES = Path(__file__).parents[2] / "examples" / "energies"


def rmsnorm(x: Tensor) -> Tensor:
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def rotate(u: Tensor, sign: int = 1) -> Tensor:
    """`u [..., N, r]` rotated by position."""
    half = u.shape[-1] // 2
    frequency = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = sign * torch.arange(u.shape[-2], dtype=torch.float64)[:, None] * frequency
    first, second = u[..., :half], u[..., half:]
    return torch.cat((first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()), -1)


def attention_scores(x: Tensor, Q: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
    """Causal scores `[..., heads, N, N]` and rotated keys `[..., heads, N, r]`."""
    z = rmsnorm(x)
    q, u = (rotate(torch.einsum("krd,...nd->...knr", matrix, z)) for matrix in (Q, K))
    scores = q @ u.transpose(-1, -2) / math.sqrt(Q.shape[1])
    later = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf), u


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("length", [1, 7])
def test_attention(batch: tuple[int, ...], length: int) -> None:
    Q, K, eta, x = random(2, 4, 8), random(2, 4, 8, seed=1), random(8, seed=2), random(*batch, length, 8, seed=3)
    text = (ENERGIES / "cem_attention.cem").read_text()
    layer = oracle(text, {"Q": Q, "K": K, "eta": eta}, d=8, heads=2)
    scores, u = attention_scores(x, Q, K)
    by_hand = x + eta * torch.einsum("krd,...knr->...nd", Q, rotate(scores.softmax(-1) @ u, -1))
    found = layer.update({"x": x}, {})["x"]
    assert close(found, by_hand)
    assert same_gradients(found, by_hand, [x, Q, K, eta])
    energy = -2.0 * attention_scores(x, Q, K)[0].logsumexp(-1).sum(-2)
    assert close(layer.energy({"x": x}, {}), energy)
    assert same_gradients(layer.energy({"x": x}, {}), energy, [x, Q, K])


def test_attention_energy_at_a_context_is_differentiated_without_it() -> None:
    Q, K, x = random(2, 4, 8), random(2, 4, 8, seed=1), random(2, 5, 8, seed=3)
    text = (ENERGIES / "cem_attention.cem").read_text().replace("grad[z]", "grad[x]").replace("- eta *", "-")
    layer = oracle(text.replace("param eta[d] = 1", ""), {"Q": Q, "K": K}, d=8, heads=2)
    total = layer.energy({"x": x}, {}, context={"x": x.detach()}).sum()
    (gradient,) = torch.autograd.grad(total, x)
    assert close(layer.update({"x": x}, {})["x"], x - gradient)


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_gated_mlp(batch: tuple[int, ...]) -> None:
    W, V, x = random(12, 6), random(12, 6, seed=1), random(*batch, 5, 6, seed=2)
    layer = oracle((ENERGIES / "cem_mlp.cem").read_text(), {"W": W, "V": V}, d=6, f=12)
    z = rmsnorm(x)
    up = z @ W.T
    by_hand = x + (up * torch.sigmoid(up) * (z @ V.T)) @ W
    found = layer.update({"x": x}, {})["x"]
    assert close(found, by_hand)
    assert same_gradients(found, by_hand, [x, W, V])


def test_float32_is_computed_in_float32() -> None:
    W, V, x = (tensor.float() for tensor in (random(12, 6), random(12, 6, seed=1), random(5, 6, seed=2)))
    text = (ENERGIES / "cem_mlp.cem").read_text()
    single = oracle(text, {"W": W, "V": V}, dtype=torch.float32, d=6, f=12).update({"x": x}, {})["x"]
    double = oracle(text, {"W": W.double(), "V": V.double()}, d=6, f=12).update({"x": x.double()}, {})["x"]
    assert single.dtype == torch.float32
    assert 0 < float((single.double() - double).detach().norm() / double.detach().norm()) < 1e-5
