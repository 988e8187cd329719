"""The baseline: one attention and one MLP layer as in Llama, each with its own norm and residual."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rotate(u: Tensor, base: float = 10000.0) -> Tensor:
    """Rotary embedding of u [..., token, r] by position: components p and p + r/2 turn by position * base^(-2p/r)."""
    tokens, r = u.shape[-2:]
    frequency = base ** (-torch.arange(0, r, 2, device=u.device, dtype=torch.float32) / r)  # [r/2]
    angle = torch.arange(tokens, device=u.device, dtype=torch.float32)[:, None] * frequency  # [token, r/2]
    cos, sin = angle.cos().to(u.dtype), angle.sin().to(u.dtype)
    a, b = u.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class LlamaAttention(nn.Module):
    """x + O softmax((R Q z)(R K z)' / sqrt(r)) V z with z = rmsnorm(x) * gain, causal, R the rotary rotation."""

    causal = True

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(d, eps=1e-6)
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal weights with standard deviation 1/sqrt(width of the input)."""
        for linear in (self.qkv, self.out):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, token, d] -> [batch, token, d]."""
        heads = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1))  # [batch, token, 3, heads, r]
        q, k, v = heads.movedim(2, 0).transpose(2, 3)  # each [batch, heads, token, r]
        mixed = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(2))


class LlamaMlp(nn.Module):
    """x + D (silu(G z) * (U z)) with z = rmsnorm(x) * gain."""

    causal = True

    def __init__(self, d: int, f: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(d, eps=1e-6)
        self.gate = nn.Linear(d, f, bias=False)
        self.up = nn.Linear(d, f, bias=False)
        self.down = nn.Linear(f, d, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal weights with standard deviation 1/sqrt(width of the input)."""
        for linear in (self.gate, self.up, self.down):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """x [batch, token, d] -> [batch, token, d]."""
        z = self.norm(x)
        return x + self.down(F.silu(self.gate(z)) * self.up(z))
