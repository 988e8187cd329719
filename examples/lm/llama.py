"""The baseline: one attention and one MLP layer as in Llama, each with its own norm and residual.

Both are called, and decode with a cache, as generated layers do.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rotate(u: Tensor, first: int = 0, base: float = 10000.0) -> Tensor:
    """Rotary embedding of u [..., token, r], whose first token is at position `first`: components p and p + r/2 turn by
    position * base^(-2p/r)."""
    tokens, r = u.shape[-2:]
    frequency = base ** (-torch.arange(0, r, 2, device=u.device, dtype=torch.float32) / r)  # [r/2]
    position = torch.arange(first, first + tokens, device=u.device, dtype=torch.float32)
    angle = position[:, None] * frequency  # [token, r/2]
    cos, sin = angle.cos().to(u.dtype), angle.sin().to(u.dtype)
    a, b = u.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


class Cache:
    """Keys and values of past tokens, [batch, groups, token, r] each: None for a layer that remembers nothing."""

    def __init__(self) -> None:
        self.tokens = 0
        self.pair: tuple[Tensor, Tensor] | None = None

    def extend(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Those remembered, then these."""
        if self.pair is not None:
            key, value = (torch.cat(both, dim=-2) for both in zip(self.pair, (key, value), strict=True))
        self.pair = key, value
        return key, value

    def reorder(self, index: Tensor) -> None:
        """Take the sequences `index`, as beam search does."""
        if self.pair is not None:
            self.pair = self.pair[0][index], self.pair[1][index]

    def crop(self, tokens: int) -> None:
        """Forget all but the first `tokens` tokens."""
        self.tokens = tokens
        if self.pair is not None:
            self.pair = self.pair[0][..., :tokens, :], self.pair[1][..., :tokens, :]


class LlamaAttention(nn.Module):
    """x + O softmax((R Q z)(R K z)' / sqrt(r)) V z with z = rmsnorm(x) * gain, causal, R the rotary rotation.

    Grouped queries: `groups` of heads share their keys and values; by default every head has its own.
    """

    causal = True

    def __init__(self, d: int, heads: int, groups: int | None = None, **where: Any) -> None:
        super().__init__()
        self.heads, self.groups, self.r = heads, heads if groups is None else groups, d // heads
        if d % heads or heads % self.groups:
            raise ValueError(f"expected exact divisions, got d = {d}, heads = {heads}, groups = {self.groups}")
        self.norm = nn.RMSNorm(d, eps=1e-6, **where)
        self.q = nn.Linear(d, d, bias=False, **where)
        self.k = nn.Linear(d, self.groups * self.r, bias=False, **where)
        self.v = nn.Linear(d, self.groups * self.r, bias=False, **where)
        self.out = nn.Linear(d, d, bias=False, **where)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal weights with standard deviation 1/sqrt(width of the input)."""
        for linear in (self.q, self.k, self.v, self.out):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)

    def new_cache(self, batch_shape: tuple[int, ...], max_tokens: int) -> Cache:
        """What decoding remembers; it grows as needed."""
        return Cache()

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor | tuple[Tensor, Cache]:
        """x [batch, token, d] -> [batch, token, d], with the cache where there is one."""
        z, first = self.norm(x), 0 if cache is None else cache.tokens
        # each [batch, heads or groups, token, r]
        q, k, v = (linear(z).unflatten(-1, (-1, self.r)).transpose(1, 2) for linear in (self.q, self.k, self.v))
        q, k = rotate(q, first), rotate(k, first)
        if cache is not None:
            k, v = cache.extend(k, v)
            cache.tokens += x.shape[1]
        k, v = (u.repeat_interleave(self.heads // self.groups, dim=1) for u in (k, v))
        mask = None
        if first:
            mask = torch.ones(x.shape[1], k.shape[-2], dtype=torch.bool, device=x.device).tril(first)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        y = x + self.out(mixed.transpose(1, 2).flatten(2))
        return y if cache is None else (y, cache)


class LlamaMlp(nn.Module):
    """x + D (silu(G z) * (U z)) with z = rmsnorm(x) * gain."""

    causal = True

    def __init__(self, d: int, f: int, **where: Any) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(d, eps=1e-6, **where)
        self.gate = nn.Linear(d, f, bias=False, **where)
        self.up = nn.Linear(d, f, bias=False, **where)
        self.down = nn.Linear(f, d, bias=False, **where)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal weights with standard deviation 1/sqrt(width of the input)."""
        for linear in (self.gate, self.up, self.down):
            nn.init.normal_(linear.weight, std=linear.in_features**-0.5)

    def new_cache(self, batch_shape: tuple[int, ...], max_tokens: int) -> Cache:
        """Nothing but the number of tokens seen."""
        return Cache()

    def forward(self, x: Tensor, cache: Cache | None = None) -> Tensor | tuple[Tensor, Cache]:
        """x [batch, token, d] -> [batch, token, d], with the cache where there is one."""
        z = self.norm(x)
        y = x + self.down(F.silu(self.gate(z)) * self.up(z))
        if cache is None:
            return y
        cache.tokens += x.shape[1]
        return y, cache
