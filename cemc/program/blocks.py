"""Which part of a step is quadratic in the number of tokens, and can be computed a block of rows at a time.

Values with a row and a column dimension are never needed for all rows at once: what reads them sums the columns away. So they,
and what lies between them, form a region whose inputs and results are linear in the number of tokens. Computed by
blocks of rows, and again in backward, it needs memory for one block.
"""

from __future__ import annotations

from dataclasses import dataclass

from cemc.program.decode import Split
from cemc.program.graph import in_order, operands
from cemc.program.nodes import Cached, Node


@dataclass(frozen=True)
class Region:
    """`inside`: the numbers of the nodes computed by blocks. `results`: those of them that are read outside, each with
    the dimension that runs over rows. `inputs`: what they read from outside, with the dimensions that run over rows and those
    that run over columns."""

    inside: frozenset[int]
    results: tuple[tuple[Node, int], ...]
    inputs: tuple[tuple[Node, tuple[int, ...], tuple[int, ...]], ...]


def quadratic_region(split: Split, runtime: frozenset[str]) -> Region | None:
    """The region, columns being dimensions over any of the `runtime` axes that are not rows; None where there is none, or where a column is made of it (then its rows must all be there first)."""
    order = in_order(split.step.values())
    outputs = {node.number for node in split.step.values()}
    pairs = {n.number for n in order if _rows(split, n) and _columns(split, n, runtime)}
    if not pairs:
        return None
    below = _closure(order, pairs)
    if any(isinstance(n, Cached) and n.operand.number in below for n in order):
        return None
    needed = _needed(order, pairs)
    # Between two pairs, a pair itself, or the first to read one.
    inside = {n.number for n in order if n.number in below and (n.number in needed or _reads(n, pairs))}
    nodes = [n for n in order if n.number in inside]
    outside = [n for n in order if n.number not in inside]
    read = {child.number for n in outside for child in operands(n)} | outputs
    results = [n for n in nodes if n.number in read]
    if any(len(_rows(split, n)) != 1 or _columns(split, n, runtime) for n in results):
        return None
    inputs = dict.fromkeys(c for n in nodes for c in operands(n) if c.number not in inside)
    return Region(
        frozenset(inside),
        tuple((n, _rows(split, n)[0]) for n in results),
        tuple((n, _rows(split, n), _columns(split, n, runtime)) for n in inputs),
    )


def _rows(split: Split, node: Node) -> tuple[int, ...]:
    roles = split.roles.get(node.number, ())
    return tuple(n for n, row in enumerate(roles) if row)


def _columns(split: Split, node: Node, runtime: frozenset[str]) -> tuple[int, ...]:
    roles = split.roles.get(node.number, (False,) * len(node.dims))
    return tuple(n for n, axis in enumerate(node.dims) if axis in runtime and not roles[n])


def _reads(node: Node, numbers: set[int]) -> bool:
    return any(child.number in numbers for child in operands(node))


def _closure(order: list[Node], numbers: set[int]) -> set[int]:
    """`numbers` and every node that depends on one of them."""
    found = set(numbers)
    for node in order:
        if _reads(node, found):
            found.add(node.number)
    return found


def _needed(order: list[Node], numbers: set[int]) -> set[int]:
    """`numbers` and every node that one of them depends on."""
    found = set(numbers)
    for node in reversed(order):
        if node.number in found:
            found.update(child.number for child in operands(node))
    return found
