"""Which part of a step is quadratic in the number of tokens, and can be computed a block of rows at a time.

Values with a row and a column dimension are never needed for all rows at once: what reads them sums the columns away.
So they, and what lies between them, form a region whose inputs and results are linear in the number of tokens.
Computed by blocks of rows, and again in backward, it needs memory for one block.
"""

from __future__ import annotations

from cemc.program.decode import TOKEN, Split
from cemc.program.graph import Graph, in_order, operands
from cemc.program.nodes import Cached, Node, RegionResults, RowBlocks, RowResult, Size, Tensor
from cemc.program.rewrite import rewrite
from cemc.program.scalars import scalars_in


def by_row_blocks(split: Split, runtime: frozenset[str], causal: bool, graph: Graph) -> dict[str, Node] | None:
    """The step with its quadratic region as a RowBlocks node; None where there is none, or where a column is made of
    it (then all its rows must be there first). Columns are dimensions over any of the `runtime` axes that are not
    rows."""
    order = in_order(split.step.values())
    outputs = {node.number for node in split.step.values()}
    pairs = {n.number for n in order if _rows(split, n) and _columns(split, n, runtime)}
    below = _closure(order, pairs)
    if not pairs or any(isinstance(n, Cached) and n.operand.number in below for n in order):
        return None
    needed = _needed(order, pairs)
    # Between two pairs, a pair itself, or the first to read one.
    inside = {n.number for n in order if n.number in below and (n.number in needed or _reads(n, pairs))}
    read = {child.number for n in order if n.number not in inside for child in operands(n)} | outputs
    results = tuple(n for n in order if n.number in inside and n.number in read)
    if any(len(_rows(split, n)) != 1 or _columns(split, n, runtime) for n in results):
        return None
    scalars = scalars_in(order)
    children = dict.fromkeys(c for n in order if n.number in inside for c in operands(n) if c.number not in inside)
    reads = tuple(c for c in children if c.number not in scalars and not _is_parameter(c))
    nodes = [n for n in order if n.number in inside]
    named = {axis for n in nodes for p, axis in enumerate(n.dims) if p not in _rows(split, n)}
    named |= {n.axis for n in children if isinstance(n, Size)}
    seen = {axis for n in reads for p, axis in enumerate(n.dims) if p not in _rows(split, n)}
    if named & runtime - seen:
        # Nothing that goes into the region tells the length of an axis it runs over.
        return None
    blocks = graph.make(
        RowBlocks,
        dims=(),
        batched=True,
        kind="real",
        reads=reads,
        rows=tuple(_rows(split, n) for n in reads),
        columns=tuple(_columns(split, n, frozenset((TOKEN,))) for n in reads),
        region=RegionResults(results, tuple(_rows(split, n)[0] for n in results)),
        causal=causal,
    )
    outside = {
        node.number: graph.make(
            RowResult, hint=node.hint, dims=node.dims, batched=node.batched, kind=node.kind, blocks=blocks, result=n
        )
        for n, node in enumerate(results)
    }
    return rewrite(split.step, lambda node: outside.get(node.number), graph)


def _is_parameter(node: Node) -> bool:
    return isinstance(node, Tensor) and node.role == "parameter"


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
