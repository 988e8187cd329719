"""Which part of a step is quadratic in the number of tokens, and can be computed a block of rows at a time.

Values with a row and a column dimension are never needed for all rows at once: what reads them sums the columns away.
So they, and what lies between them, form a region whose inputs and results are linear in the number of tokens.
Computed by blocks of rows, and again in backward, it needs memory for one block.
"""

from __future__ import annotations

from cemc.program.decode import TOKEN, Roles, Split
from cemc.program.graph import Graph, in_order, operands
from cemc.program.nodes import (
    Cached,
    Expand,
    Gather,
    Node,
    Operand,
    Recent,
    RegionResults,
    RowBlocks,
    RowResult,
    Size,
    Tensor,
)
from cemc.program.rewrite import rewrite
from cemc.program.scalars import scalars_in
from cemc.program.window import Window, size_of


def by_row_blocks(split: Split, runtime: frozenset[str], causal: bool, graph: Graph) -> dict[str, Node] | None:
    """The step with its quadratic region as a RowBlocks node; None where there is none, or where a column is made of
    it (then all its rows must be there first). Columns are dimensions over any of the `runtime` axes that are not
    rows."""
    order = in_order(split.step.values())
    outputs = {node.number for node in split.step.values()}
    pairs = {n.number for n in order if _rows(split, n) and _columns(split, n, runtime) and not _taken(split, n)}
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
    sizes = {n.axis for n in in_order(c for c in children if c.number in scalars) if isinstance(n, Size)}
    named |= sizes
    seen = {axis for n in reads for p, axis in enumerate(n.dims) if p not in _rows(split, n)}
    lengths = {pair for n in reads for pair in zip(n.dims, _roles(split, n), strict=True)}
    told = [n for n in nodes if isinstance(n, (Expand, Recent))]
    spread = {pair for n in told for pair in zip(n.dims, _roles(split, n), strict=True)}
    if named & runtime - seen or any(axis in runtime for axis, _ in spread - lengths):
        # Nothing that goes into the region tells the length of an axis it runs over.
        return None
    columns = tuple(_columns(split, n, frozenset((TOKEN,))) for n in reads)
    windows = tuple(tuple(_window(split, n, p, graph) for p in each) for n, each in zip(reads, columns, strict=True))
    blocks = graph.make(
        RowBlocks,
        dims=(),
        batched=True,
        kind="real",
        reads=reads,
        rows=tuple(_rows(split, n) for n in reads),
        columns=columns,
        windows=windows,
        # Positions that are numbers, and tables read at computed places, begin at the first token.
        cut=TOKEN not in sizes and not any(_reads_places(n) for n in nodes) and any(any(each) for each in windows),
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


def _roles(split: Split, node: Node) -> Roles:
    return split.roles.get(node.number, (False,) * len(node.dims))


def _rows(split: Split, node: Node) -> tuple[int, ...]:
    return tuple(n for n, role in enumerate(_roles(split, node)) if role is True)


def _columns(split: Split, node: Node, runtime: frozenset[str]) -> tuple[int, ...]:
    roles = _roles(split, node)
    return tuple(n for n, axis in enumerate(node.dims) if axis in runtime and roles[n] is not True)


def _window(split: Split, node: Node, dim: int, graph: Graph) -> Node | None:
    """How many columns before itself a row reads along a dimension of a node; None for all."""
    role = _roles(split, node)[dim]
    return size_of(role, graph.make) if isinstance(role, Window) else None


def _taken(split: Split, node: Node) -> bool:
    """Whether a node takes rows out of a value of all columns, which no block has."""
    return isinstance(node, Recent) and _roles(split, node)[node.axis] is True


def _reads_places(node: Node) -> bool:
    """Whether a node reads tokens at computed places."""
    if not isinstance(node, Gather):
        return False
    return any(a == TOKEN and isinstance(s, Operand) for a, s in zip(node.table.dims, node.subscripts, strict=True))


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
