"""Evaluation points: where an expression is evaluated.

The oracle evaluates an expression at a list of P points and returns a tensor `[P, *shape]`. A point is a batch
element and a position for every index variable in scope. What a condition excludes is left off the list, so it is never
evaluated and contributes nothing, neither a value nor a NaN, to any derivative.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from cemc.semantics.typed import Axis, Index

# The batch element, treated as one more index. Its name is no identifier, so no axis of a file is called that.
BATCH = Index("<batch>", -1, Axis("<batch>", runtime=True))


@dataclass(frozen=True)
class Points:
    """`positions[index]` is `[P]` (int64); `arguments`, the arguments of a function whose body is evaluated, are
    `[P]`.
    """

    count: int
    positions: Mapping[Index, Tensor]
    arguments: Mapping[str, Tensor] = field(default_factory=dict)

    def select(self, chosen: Tensor) -> Points:
        """The points at `chosen`, a list of numbers `[Q]` (int64)."""
        return Points(
            chosen.numel(),
            {index: position[chosen] for index, position in self.positions.items()},
            {name: argument[chosen] for name, argument in self.arguments.items()},
        )

    def times(self, indices: tuple[Index, ...], sizes: Mapping[Axis, int]) -> tuple[Points, Tensor]:
        """Every point with every tuple of the new `indices`, tuples in lexicographic order within each point; and the
        number `[P * tuples]` of the point each came from."""
        grid = grid_positions([sizes[index.axis] for index in indices])
        tuples = math.prod(sizes[index.axis] for index in indices)
        parent = torch.arange(self.count).repeat_interleave(tuples)
        old = self.select(parent)
        new = {index: column.repeat(self.count) for index, column in zip(indices, grid, strict=True)}
        return Points(self.count * tuples, {**old.positions, **new}, old.arguments), parent

    def project(self, indices: frozenset[Index], sizes: Mapping[Axis, int]) -> tuple[Points, Tensor]:
        """The distinct points when only `indices` are looked at, and for each of these points its number there
        `[P]`.
        """
        kept = [index for index in self.positions if index in indices]
        columns = [self.positions[index] for index in kept]
        codes, inverse = distinct(columns, [sizes[index.axis] for index in kept], self.count)
        return Points(codes[0].numel() if codes else 1, dict(zip(kept, codes, strict=True))), inverse


def everywhere(indices: Iterable[Index], sizes: Mapping[Axis, int]) -> Points:
    """The full grid over `indices`, the last fastest."""
    listed = tuple(indices)
    return Points(1, {}).times(listed, sizes)[0]


def grid_positions(sizes: list[int]) -> list[Tensor]:
    """One column `[product of sizes]` per axis: all tuples in lexicographic order."""
    if not sizes:
        return []
    return [column.reshape(-1) for column in torch.meshgrid(*(torch.arange(n) for n in sizes), indexing="ij")]


def encode(columns: list[Tensor], sizes: list[int]) -> Tensor:
    """One number per tuple `[P]`, in lexicographic order. Needs at least one column."""
    code = columns[0]
    for column, size in zip(columns[1:], sizes[1:], strict=True):
        code = code * size + column
    return code


def decode(code: Tensor, sizes: list[int]) -> list[Tensor]:
    """The inverse of `encode`."""
    columns = []
    for size in reversed(sizes):
        columns.append(code % size)
        code = code // size
    return columns[::-1]


def distinct(columns: list[Tensor], sizes: list[int], count: int) -> tuple[list[Tensor], Tensor]:
    """The distinct tuples among `count` of them, in lexicographic order, and for each tuple its number in that list."""
    if not columns:
        return [], torch.zeros(count, dtype=torch.int64)
    code = encode(columns, sizes)
    occurs = torch.zeros(math.prod(sizes), dtype=torch.bool)
    occurs[code] = True
    number = occurs.cumsum(0) - 1
    return decode(occurs.nonzero().squeeze(1), sizes), number[code]
