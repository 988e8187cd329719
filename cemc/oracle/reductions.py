"""Reductions of values at points, grouped by the point they came from. A group may be empty."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def reduce_groups(kind: str, values: Tensor, group: Tensor, groups: int, empty: float) -> Tensor:
    """Reduces `values [P, *shape]` over the points of each group to `[groups, *shape]`.

    `group [P]` is the number of each point's group, in ascending order. `empty` is the value of a logsumexp without
    terms.
    """
    if kind == "sum":
        return _sum(values, group, groups)
    if kind == "mean":
        counted = torch.bincount(group, minlength=groups).clamp(min=1)
        return _sum(values, group, groups) / counted.to(values.dtype).reshape(-1, *(1 for _ in values.shape[1:]))
    # Max and logsumexp look at single components, each its own group, since one may be minus infinity where another
    # is not.
    width = math.prod(values.shape[1:])
    component = (group[:, None] * width + torch.arange(width)).reshape(-1)
    reducer = {"max": _maximum, "logsumexp": _logsumexp}[kind]
    reduced = reducer(values.reshape(-1), component, groups * width, 0.0 if kind == "max" else empty)
    return reduced.reshape(groups, *values.shape[1:])


def logsumexp_vector(values: Tensor, empty: float) -> Tensor:
    """logsumexp over the last dimension of `values [P, n]`; `empty` where all its terms are minus infinity."""
    group = torch.arange(values.shape[0]).repeat_interleave(values.shape[1])
    return _logsumexp(values.reshape(-1), group, values.shape[0], empty)


def _sum(values: Tensor, group: Tensor, groups: int) -> Tensor:
    return values.new_zeros(groups, *values.shape[1:]).index_add(0, group, values)


def _largest(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """The largest of each group `[groups]`, not differentiable; minus infinity for an empty one."""
    start = values.new_full((groups,), -math.inf)
    return start.scatter_reduce(0, group, values.detach(), "amax")


def _maximum(values: Tensor, group: Tensor, groups: int, empty: float) -> Tensor:
    """The first of the largest of each group takes the gradient."""
    count = values.numel()
    candidate = (values.detach() == _largest(values, group, groups)[group]) | values.detach().isnan()
    number = torch.where(candidate, torch.arange(count), count)
    first = torch.full((groups,), count).scatter_reduce(0, group, number, "amin")
    filled = (first < count).nonzero().squeeze(1)
    return values.new_full((groups,), empty).index_put((filled,), values[first[filled]])


def _logsumexp(values: Tensor, group: Tensor, groups: int, empty: float) -> Tensor:
    """A term of minus infinity is no term: it comes from an empty logsumexp inside and has no gradient."""
    terms = (values.detach() != -math.inf).nonzero().squeeze(1)
    values, group = values[terms], group[terms]
    # The shift is a constant: it cancels from the value, and so from derivatives of every order.
    shift = _largest(values, group, groups)
    total = _sum(torch.exp(values - shift[group]), group, groups)
    filled = (torch.bincount(group, minlength=groups) > 0).nonzero().squeeze(1)
    return values.new_full((groups,), empty).index_put((filled,), shift[filled] + torch.log(total[filled]))
