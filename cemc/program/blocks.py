"""Which part of a step is quadratic in the number of tokens, and can be computed a block of rows at a time.

Values with a row and a column dimension are never needed for all rows at once: what reads them sums the columns away.
So they, and what lies between them, form a region whose inputs and results are linear in the number of tokens.
Computed by blocks of rows, and again in backward, it needs memory for one block.
"""

from __future__ import annotations

from cemc.program.decode import TOKEN, Roles, Split
from cemc.program.graph import Graph, in_order, operands
from cemc.program.nodes import (
    Expand,
    Gather,
    Node,
    Operand,
    OverRows,
    Recent,
    RegionResults,
    RowBlocks,
    RowResult,
    Size,
    Tensor,
)
from cemc.program.rewrite import rewrite
from cemc.program.scalars import scalars_in
from cemc.program.stages import Stages, stages
from cemc.program.window import Window, size_of


def by_row_blocks(split: Split, runtime: frozenset[str], causal: bool, graph: Graph) -> dict[str, Node] | None:
    """The step with each stage of its quadratic part as a RowBlocks node; None where there is none. Columns are
    dimensions over any of the `runtime` axes that are not rows."""
    order = in_order(split.step.values())
    found = stages(order, split.roles, runtime)
    outputs = {node.number for node in split.step.values()}
    regions = {stage: _inside(order, found, stage) for stage in sorted({found.stage[n] for n in found.below})}
    outside: dict[int, Node] = {}
    for stage, inside in regions.items():
        results = _results(order, found, regions, stage, outputs)
        region = None if results is None else _region(split, order, inside, results, runtime, causal, graph)
        if region is None or results is None:
            continue
        for n, node in enumerate(results):
            outside[node.number] = graph.make(
                RowResult, hint=node.hint, dims=node.dims, batched=node.batched, kind=node.kind, blocks=region, result=n
            )
    return rewrite(split.step, lambda node: outside.get(node.number), graph) if outside else None


def _inside(order: list[Node], found: Stages, stage: int) -> set[int]:
    """The nodes of a region: pairs of a stage, what lies between two, the first to read one; and the pairs of earlier
    stages that these read, which are computed again."""
    pairs = {number for number in found.pairs if found.stage[number] == stage}
    needed = set(pairs)
    for node in reversed(order):
        if node.number in needed:
            needed.update(child.number for child in operands(node))
    inside: set[int] = set()
    for n in reversed(order):
        if found.stage[n.number] == stage and n.number in found.below:
            between = n.number in needed or any(child.number in found.pairs for child in operands(n))
        else:
            between = n.number in inside
        if between:
            inside.add(n.number)
            inside.update(child.number for child in operands(n) if child.number in found.pairs)
    return inside


def _results(
    order: list[Node], found: Stages, regions: dict[int, set[int]], stage: int, outputs: set[int]
) -> tuple[Node, ...] | None:
    """The nodes of a region's own stage that something outside reads; None if a pair is one of them, which no other
    region computes for itself."""
    inside = regions[stage]
    everywhere = set().union(*regions.values())
    read = {child.number for n in order if n.number not in inside for child in operands(n)} | outputs
    for other in regions.values():
        # A pair of this region that another one computes again reads there what comes from here.
        if other is not inside:
            again = (c.number for n in order if n.number in other for c in operands(n))
            read.update(number for number in again if number not in other)
    alone = {child.number for n in order if n.number not in everywhere for child in operands(n)} | outputs
    own = [n for n in order if n.number in inside and found.stage[n.number] == stage]
    if any(n.number in found.pairs and n.number in alone for n in own):
        return None
    return tuple(n for n in own if n.number in read and n.number not in found.pairs)


def _region(
    split: Split, order: list[Node], inside: set[int], results: tuple[Node, ...], runtime: frozenset[str],
    causal: bool, graph: Graph,
) -> RowBlocks | None:  # fmt: skip
    """The RowBlocks node that computes `results`; None where it cannot be."""
    sums = {n.operand.number for n in order if isinstance(n, OverRows)}
    rows: list[int | None] = []
    for node in results:
        own = _rows(split, node)
        if node.number in sums and not own:
            rows.append(None)
        elif len(own) == 1 and not _columns(split, node, runtime):
            rows.append(own[0])
        else:
            return None
    scalars = scalars_in(order)
    nodes = [n for n in order if n.number in inside]
    children = dict.fromkeys(c for n in nodes for c in operands(n) if c.number not in inside)
    reads = tuple(c for c in children if c.number not in scalars and not _is_parameter(c))
    sizes = {n.axis for n in in_order(c for c in children if c.number in scalars) if isinstance(n, Size)}
    if not _tells_lengths(split, nodes, reads, sizes, runtime):
        return None
    columns = tuple(_columns(split, n, frozenset((TOKEN,))) for n in reads)
    windows = tuple(tuple(_window(split, n, p, graph) for p in each) for n, each in zip(reads, columns, strict=True))
    # Positions that are numbers, and tables read at computed places, begin at the first token; sums over rows have all
    # columns.
    fixed = TOKEN in sizes or any(_reads_places(n) for n in nodes) or None in rows
    return graph.make(
        RowBlocks, dims=(), batched=True, kind="real", reads=reads, rows=tuple(_rows(split, n) for n in reads),
        columns=columns, windows=windows, cut=not fixed and any(any(each) for each in windows),
        region=RegionResults(results, tuple(rows), reads), causal=causal,
    )  # fmt: skip


def _tells_lengths(
    split: Split, nodes: list[Node], reads: tuple[Node, ...], sizes: set[str], runtime: frozenset[str]
) -> bool:
    """Whether what goes into a region tells the length of each axis it runs over."""
    named = {axis for n in nodes for p, axis in enumerate(n.dims) if p not in _rows(split, n)} | sizes
    seen = {axis for n in reads for p, axis in enumerate(n.dims) if p not in _rows(split, n)}
    lengths = {pair for n in reads for pair in zip(n.dims, _roles(split, n), strict=True)}
    told = [n for n in nodes if isinstance(n, (Expand, Recent))]
    spread = {pair for n in told for pair in zip(n.dims, _roles(split, n), strict=True)}
    return not (named & runtime - seen) and all(axis not in runtime for axis, _ in spread - lengths)


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


def _reads_places(node: Node) -> bool:
    """Whether a node reads tokens at computed places."""
    if not isinstance(node, Gather):
        return False
    return any(a == TOKEN and isinstance(s, Operand) for a, s in zip(node.table.dims, node.subscripts, strict=True))
