"""Antiderivatives by adaptive Gauss-Legendre quadrature, with the integrand as their derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

NODES = 15
MAX_BISECTIONS = 60  # enough to run a jump down to the last bit
MAX_PANELS = 512  # at work for one integral; a kink or a jump keeps one
TOLERANCE = 3e-15  # of the integral of |f|


def _gauss_legendre(count: int) -> tuple[Tensor, Tensor]:
    """Nodes and weights on [-1, 1], from the eigenvectors of the Jacobi matrix (Golub and Welsch)."""
    k = torch.arange(1, count, dtype=torch.float64)
    off_diagonal = k / torch.sqrt(4.0 * k * k - 1.0)
    nodes, vectors = torch.linalg.eigh(torch.diag(off_diagonal, 1) + torch.diag(off_diagonal, -1))
    return nodes, 2.0 * vectors[0].square()


def _at_the_ends(nodes: Tensor) -> Tensor:
    """What the values at `nodes` are multiplied by to give those at -1 and 1 of the polynomial through them: [2, N]."""
    apart = nodes[:, None] - nodes + torch.eye(len(nodes), dtype=torch.float64)
    ends = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    factors = (ends[:, None, None] - nodes) / apart
    return factors.masked_fill(torch.eye(len(nodes), dtype=torch.bool), 1.0).prod(-1)


def _panel(
    f: Callable[[Tensor], Tensor], low: Tensor, high: Tensor, rule: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """Integrals of f and of |f| over each [low, high], one panel each, and what a jump between the last node and an end
    may add to the first. All `[M]`; the second and third are not negative."""
    nodes, weights = rule
    half = 0.5 * (high - low)
    points = (0.5 * (high + low))[:, None] + half[:, None] * nodes
    values = f(points.reshape(-1)).reshape(points.shape)
    ends = f(torch.cat((low, high))).reshape(2, -1)
    jumps = (ends - _at_the_ends(nodes) @ values.T).abs()
    # At an end where f has a pole, the nodes tell.
    jump = torch.where(jumps.isfinite(), jumps, 0.0).amax(0) * half.abs() * (1.0 - nodes.amax())
    return half * (values * weights).sum(-1), half.abs() * (values.abs() * weights).sum(-1), jump


def quadrature(f: Callable[[Tensor], Tensor], upper: Tensor) -> Tensor:
    """Integral of f from 0 to each entry of `upper [M]`, in float64.

    A panel is accepted when halving it changes nothing, and f at its ends is what the nodes make expect; kinks and
    jumps are thereby closed in by bisection wherever they are, without having to be known."""
    rule = _gauss_legendre(NODES)
    low, high = torch.zeros_like(upper), upper
    owner = torch.arange(upper.numel())
    coarse, magnitude, _ = _panel(f, low, high, rule)
    total = torch.zeros_like(upper)
    for bisection in range(MAX_BISECTIONS):
        middle = 0.5 * (low + high)
        left, left_size, left_jump = _panel(f, low, middle, rule)
        right, right_size, right_jump = _panel(f, middle, high, rule)
        fine = left + right
        # Written so that NaN and infinities count as settled: an f not finite on the way is not finite at the end.
        error = torch.maximum((fine - coarse).abs(), torch.maximum(left_jump, right_jump))
        unsettled = error > TOLERANCE * torch.maximum(magnitude[owner], left_size + right_size)
        unsettled &= fine.isfinite() & (bisection < MAX_BISECTIONS - 1)
        # Near a pole f is rounding noise, and its integral infinite: no use in halving on.
        unsettled &= torch.bincount(owner[unsettled], minlength=upper.numel())[owner] < MAX_PANELS
        total = total.index_add(0, owner[~unsettled], fine[~unsettled])
        if not bool(unsettled.any()):
            break
        low, high = torch.cat((low[unsettled], middle[unsettled])), torch.cat((middle[unsettled], high[unsettled]))
        coarse = torch.cat((left[unsettled], right[unsettled]))
        owner = owner[unsettled].repeat(2)
    return total


class Antiderivative(torch.autograd.Function):
    """`apply(u, f)`: the antiderivative of f at u that is zero at 0; its derivative is f(u), of any order."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, f: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.save_for_backward(u)
        ctx.f = f
        return quadrature(f, u.detach().double().reshape(-1)).reshape(u.shape).to(u.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (u,) = ctx.saved_tensors
        return gradients[0] * ctx.f(u), None
