"""The two layers of `examples/energies/` derived by hand, written for reading: what the generated ones must compute.

Nothing is shared with the compiler or with its output; scores and weights are formed in full.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def rms_normalised(x: Tensor) -> Tensor:
    """x / sqrt(mean(x^2) + 1e-6) over the last axis."""
    return x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def rotation(tokens: int, r: int) -> Tensor:
    """The rotary rotations as matrices R [token, r, r], so that undoing one is a transpose."""
    half = r // 2
    matrices = torch.zeros(tokens, r, r, dtype=torch.float64)
    for i in range(tokens):
        for p in range(half):
            angle = torch.tensor(i * 10000.0 ** (-2 * p / r), dtype=torch.float64)
            cos, sin = torch.cos(angle), torch.sin(angle)
            matrices[i, p, p] = matrices[i, p + half, p + half] = cos
            matrices[i, p, p + half] = -sin
            matrices[i, p + half, p] = sin
    return matrices


class ReferenceAttention(nn.Module):
    """x_i + eta * sum_k Q_k' R_i' sum_(j <= i) w_kij u_kj with u_kj = R_j K_k z_j.

    The weights w are the softmax over j of <R_i Q_k z_i, u_kj> / sqrt(r).
    """

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        r = d // heads
        self.Q = nn.Parameter(torch.randn(heads, r, d) / d**0.5)
        self.K = nn.Parameter(torch.randn(heads, r, d) / d**0.5)
        self.eta = nn.Parameter(torch.ones(d))

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, token, d] -> [batch, token, d]."""
        tokens, r = x.shape[-2], self.Q.shape[1]
        z = rms_normalised(x)
        R = rotation(tokens, r).to(x)
        query = torch.einsum("irs,ksd,bid->bkir", R, self.Q, z)
        key = torch.einsum("jrs,ksd,bjd->bkjr", R, self.K, z)
        scores = torch.einsum("bkir,bkjr->bkij", query, key) / r**0.5
        allowed = torch.ones(tokens, tokens, dtype=torch.bool).tril()
        weights = torch.softmax(scores.masked_fill(~allowed, float("-inf")), dim=-1)
        mixed = torch.einsum("bkij,bkjr->bkir", weights, key)
        return x + self.eta * torch.einsum("krd,isr,bkis->bid", self.Q, R, mixed)


class ReferenceMlp(nn.Module):
    """x + W' (silu(W z) * (V z))."""

    def __init__(self, d: int, f: int) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.randn(f, d) / d**0.5)
        self.V = nn.Parameter(torch.randn(f, d) / d**0.5)

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, token, d] -> [batch, token, d]."""
        z = rms_normalised(x)
        a = z @ self.W.T
        return x + (a * torch.sigmoid(a) * (z @ self.V.T)) @ self.W
