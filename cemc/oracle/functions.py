"""The oracle's own table of torch functions, with the conventions of the language at kinks.

Element-wise functions take and return tensors of one shape. Functions of a vector act on the last dimension; whatever
stands before it (evaluation points, see `points`) is carried along. Nothing here is shared with the compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

NORM_EPS = 1e-6
ROPE_BASE = 10000.0


def square_root(u: Tensor) -> Tensor:
    """sqrt with derivative 0 at 0. The root is never taken of the 0 itself, whose infinite slope times 0 would be
    NaN.
    """
    zero = u == 0
    return torch.where(zero, torch.zeros_like(u), torch.sqrt(torch.where(zero, torch.ones_like(u), u)))


def softplus(u: Tensor) -> Tensor:
    """log(1 + exp(u)), exact for large u as well (torch's own returns u above a threshold, and the second derivative of
    its logaddexp is NaN below -745)."""
    above = u > 0
    return torch.where(above, u, torch.zeros_like(u)) + torch.log1p(torch.exp(torch.where(above, -u, u)))


def gelu(u: Tensor) -> Tensor:
    """The exact one: u times the normal distribution function."""
    return 0.5 * u * (1.0 + torch.erf(u / math.sqrt(2.0)))


def larger(u: Tensor, v: Tensor) -> Tensor:
    """max(u, v); the first takes the gradient where they are equal."""
    return torch.where(u >= v, u, v)


def smaller(u: Tensor, v: Tensor) -> Tensor:
    """min(u, v); the first takes the gradient where they are equal."""
    return torch.where(u <= v, u, v)


UNARY: Mapping[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": square_root,
    "abs": torch.abs,  # derivative sign(u): 0 at 0
    "square": lambda u: u * u,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "softplus": softplus,
    "relu": torch.relu,  # derivative 0 at 0
    "silu": lambda u: u * torch.sigmoid(u),
    "gelu": gelu,
    "erf": torch.erf,
}

BINARY: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {"max": larger, "min": smaller}


def first_maximum(u: Tensor) -> Tensor:
    """Largest component; where several are equal the first takes the gradient."""
    return u.gather(-1, (u == u.amax(-1, keepdim=True)).int().argmax(-1, keepdim=True)).squeeze(-1)


def rmsnorm(u: Tensor, eps: Tensor) -> Tensor:
    return u / torch.sqrt(u.square().mean(-1, keepdim=True) + eps)


def layernorm(u: Tensor, eps: Tensor) -> Tensor:
    """With the biased variance and without learned gain."""
    centred = u - u.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + eps)


def normalize(u: Tensor, eps: Tensor) -> Tensor:
    return u / torch.sqrt(u.square().sum(-1, keepdim=True) + eps)


VECTOR_TO_SCALAR: Mapping[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda u: u.sum(-1),
    "mean": lambda u: u.mean(-1),
    "max": first_maximum,
}

NORMS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "rmsnorm": rmsnorm,
    "layernorm": layernorm,
    "normalize": normalize,
}


def rope(u: Tensor, position: Tensor, base: Tensor) -> Tensor:
    """Rotary rotation of `u [..., r]` by `position [...]`: pair p is components p and p + r/2, its angle is
    position * base^(-2p/r)."""
    half = u.shape[-1] // 2
    exponent = -2.0 * torch.arange(half, dtype=torch.float64) / u.shape[-1]
    angle = position[..., None] * base[..., None] ** exponent.to(base.dtype)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    first, second = u[..., :half], u[..., half:]
    return torch.cat((first * cosine - second * sine, first * sine + second * cosine), dim=-1)
