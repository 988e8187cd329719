"""What a kernel computes for one pair: the part of the program that depends on both a row and a column, as scalar
expressions over inner products, vectors over rows or columns, and positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from cemc.program import nodes
from cemc.program.expressions import Expressions, has_spelling, of_runtime
from cemc.program.graph import Graph, in_order, operands
from cemc.program.nodes import Node, Operand
from cemc.recognise.bounds import linear

# exp of it is 0 in every dtype, and times 0 it is 0.
_VERY_NEGATIVE = Fraction(-(10**6))


class NoKernel(Exception):
    """There is no kernel for a part of the program; `reason` says why, for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Softmax:
    """Softmax weights in the frame of a kernel, which is shared axes, row, column: exp(scores - normaliser) under
    `mask`.

    `sinks`: further terms of the normaliser, that depend on no column. `at`: the frame positions of the normaliser."""

    normaliser: nodes.LogSumExp
    scores: Operand
    mask: Operand | None
    sinks: tuple[Operand, ...]
    at: tuple[int, ...]


def softmax_of(weights: Operand, row: int) -> Softmax | None:
    """The softmax over columns that `weights` are, if their normaliser is a log-sum-exp of the same scores."""
    node = weights.node
    assert isinstance(node, nodes.Weights)
    normaliser, column = node.normaliser.node, row + 1
    if not isinstance(normaliser, nodes.LogSumExp) or column not in weights.at:
        return None
    j = weights.at.index(column)
    if j in node.normaliser.at:
        return None
    frame = (*node.normaliser.at, j)
    same = [
        b for b in normaliser.branches
        if len(b.reduced) == 1 and _same(b.scores, node.scores, frame) and _same(b.mask, node.mask, frame)
    ]  # fmt: skip
    sinks = [b for b in normaliser.branches if not same or b is not same[0]]
    if not same or any(b.reduced or b.mask is not None for b in sinks):
        return None

    def placed(operand: Operand, outer: Sequence[int]) -> Operand:
        return Operand(operand.node, tuple(outer[p] for p in operand.at))

    at = tuple(weights.at[p] for p in node.normaliser.at)
    if row not in at:
        return None
    mask = None if node.mask is None else placed(node.mask, weights.at)
    return Softmax(normaliser, placed(node.scores, weights.at), mask, tuple(placed(b.scores, at) for b in sinks), at)


def _same(inner: Operand | None, outer: Operand | None, frame: tuple[int, ...]) -> bool:
    if inner is None or outer is None:
        return inner is outer
    return inner.node is outer.node and tuple(frame[p] for p in inner.at) == outer.at


class TileBuilder(Expressions):
    """Builds scalar expressions for the pairs of a frame: shared axes, then `row`, then the column.

    `softmax`: the weights that are a leaf. What the expressions read is collected in the lists of operands."""

    def __init__(
        self, graph: Graph, scalars: set[int], runtime: frozenset[str], row: int, softmax: Softmax | None
    ) -> None:
        super().__init__(graph)
        self._scalars, self._runtime, self.softmax = scalars, runtime, softmax
        self.row, self.column, self.width = row, row + 1, row + 2
        self.queries: list[Operand] = []
        self.keys: list[Operand] = []
        self.dots: list[tuple[int, int]] = []
        self.rows: list[Operand] = []
        self.columns: list[Operand] = []
        self.scalars: list[Operand] = []
        self.tables: list[Operand] = []
        self.offsets: list[Node] = []
        self.numbers: list[Node] = []
        self._known: dict[tuple[int, tuple[int, ...]], Node] = {}
        self._positional: dict[int, bool] = {}

    def kept(self) -> tuple[Any, ...]:
        """What has been collected so far, for `restore`."""
        return (*(list(items) for items in self._collected()), dict(self._known))

    def restore(self, kept: tuple[Any, ...]) -> None:
        """Forgets what was collected since: it was for something that has no kernel."""
        *lists, known = kept
        for items, old in zip(self._collected(), lists, strict=True):
            items[:] = old
        self._known = known

    def _collected(self) -> tuple[list[Any], ...]:
        return (
            self.queries, self.keys, self.dots, self.rows, self.columns, self.scalars, self.tables, self.offsets,
            self.numbers,
        )  # fmt: skip

    # -------------------------------------------------------------------------------------------------- expressions

    def expression(self, operand: Operand) -> Node:
        """The scalar expression for a value placed in the frame."""
        key = (operand.node.number, operand.at)
        if key not in self._known:
            self._known[key] = self._expression(operand.node, operand.at)
        return self._known[key]

    def _expression(self, node: Node, at: tuple[int, ...]) -> Node:
        both = self.row in at and self.column in at
        if not both and not self._is_positional(node):
            return self._leaf(node, at)
        match node:
            case nodes.Number():
                return node
            case nodes.Positions() | nodes.RowPositions() | nodes.RecentPositions():
                return self._positions(node, at)
            case nodes.Map() if has_spelling(node):
                parts = [self.expression(_inside(o, at)) for o in node.operands]
                return self.map(node.operation, parts, node.kind, node.hint)
            case nodes.Map():
                raise NoKernel(f"{node.operation} is evaluated for every pair of tokens, which Triton has not")
            case nodes.Weights():
                return self._weights(node, at)
            case nodes.Align() | nodes.Expand():
                return self.expression(_inside(node.operand, at))
            case nodes.Einsum():
                return self._einsum(node, at)
            case nodes.Distance():
                return self._distance(node, at)
            case nodes.Gather():
                return self._gather(node, at)
            case nodes.Size():
                return self._leaf(node, at)
        raise NoKernel(f"{node.hint or 'a reduction'} is needed for every pair of tokens")

    def weights_in(self, parts: Sequence[Operand]) -> list[Operand]:
        """The softmax weights among the factors of a product of values, looking into products."""
        found: list[Operand] = []
        for part in parts:
            node = part.node
            if isinstance(node, nodes.Weights):
                found.append(part)
            elif isinstance(node, nodes.Map) and node.operation == "mul":
                found += self.weights_in([_inside(o, part.at) for o in node.operands])
            elif isinstance(node, nodes.Map) and node.operation == "select":
                found += self.weights_in([_inside(o, part.at) for o in node.operands[1:]])
            elif isinstance(node, (nodes.Align, nodes.Expand)):
                found += self.weights_in([_inside(node.operand, part.at)])
            elif isinstance(node, nodes.Einsum) and not _summed(node):
                found += self.weights_in(self._factors(node, part.at))
        return found

    # ------------------------------------------------------------------------------------------------------- leaves

    def _positions(self, node: Node, at: tuple[int, ...]) -> Node:
        if at[0] == self.row:
            return self.leaf("i", "integer")
        if at[0] == self.column:
            return self.leaf("j", "integer")
        return self._leaf(node, at)

    def _is_positional(self, node: Node) -> bool:
        """Whether a value is made of positions, sizes and literals alone: cheaper computed than read."""
        for each in in_order([node], self._positional):
            if each.number not in self._positional:
                plain = (isinstance(each, nodes.Map) and each.kind != "real") or isinstance(
                    each, (nodes.Number, nodes.Size, nodes.Positions, nodes.RowPositions, nodes.RecentPositions)
                )  # fmt: skip
                if isinstance(each, nodes.Map) and each.operation == "real":
                    plain = True
                self._positional[each.number] = plain and all(self._positional[c.number] for c in operands(each))
        return self._positional[node.number]

    def _leaf(self, node: Node, at: tuple[int, ...]) -> Node:
        """What does not depend on the pair: an entry of a vector, or a number."""
        if isinstance(node, nodes.Number):
            return node
        if node.number in self._scalars and not of_runtime(node, self._runtime):
            return self.leaf(f"number {index_of(self.numbers, node)}", node.kind)
        where, kind = (self.rows, "row") if self.row in at else (self.columns, "column")
        if self.row not in at and self.column not in at:
            where, kind = self.scalars, "scalar"
        place = [self.row if p == self.column else p for p in at]
        return self.leaf(f"{kind} {index_of(where, Operand(node, tuple(place)))}", node.kind)

    # ----------------------------------------------------------------------------------------- structured operations

    def _weights(self, node: nodes.Weights, at: tuple[int, ...]) -> Node:
        softmax = self.softmax
        if softmax is not None:
            mine = softmax_of(Operand(node, at), self.row)
            if mine is not None and mine.normaliser is softmax.normaliser and _equal(mine.scores, softmax.scores):
                return self.leaf("p 0")
        scores, normaliser = (self.expression(_inside(o, at)) for o in (node.scores, node.normaliser))
        shifted = self.map("add", [scores, self.map("mul", [self.number(-1), normaliser])])
        if node.mask is None:
            return self.map("exp", [shifted])
        # The operand is made safe too: an infinity that is not selected would be a NaN in the derivative.
        mask = self.expression(_inside(node.mask, at))
        safe = self.map("exp", [self.map("select", [mask, shifted, self.number(_VERY_NEGATIVE)])])
        return self.map("select", [mask, safe, self.number(0)])

    def _einsum(self, node: nodes.Einsum, at: tuple[int, ...]) -> Node:
        """A product, or an inner product of something of the row and something of the column."""
        summed = _summed(node)
        parts = self._factors(node, at)
        if any(len(set(part.at)) < len(part.at) for part in parts):
            raise NoKernel(f"{node.hint or 'a score'} takes the diagonal of a matrix")
        if not summed:
            return self.map("mul", [self.expression(part) for part in parts])
        if any(self.row in part.at and self.column in part.at for part in parts):
            raise NoKernel(f"{node.hint or 'a score'} sums over an axis of something that depends on a pair of tokens")
        if len(summed) > 1:
            raise NoKernel(f"{node.hint or 'a score'} is an inner product over more than one axis")
        query = self._joined([p for p in parts if self.column not in p.at])
        key = self._joined([p for p in parts if self.column in p.at])
        if self.width not in query.at or self.width not in key.at:
            raise NoKernel(f"{node.hint or 'a score'} is not an inner product of a row and a column")
        return self._dot(*self._vectors(query, key))

    def _vectors(self, query: Operand, key: Operand) -> tuple[int, int]:
        """The numbers of vectors of rows and of columns; the frame has the column between row and width, they have
        not."""
        self._check_width(key)
        key = Operand(key.node, tuple(p - 1 if p >= self.column else p for p in key.at))
        query = Operand(query.node, tuple(p - 1 if p >= self.column else p for p in query.at))
        return index_of(self.queries, query), index_of(self.keys, key)

    def _check_width(self, vectors: Operand) -> None:
        if vectors.node.dims[vectors.at.index(self.width)] in self._runtime:
            raise NoKernel(f"{vectors.node.hint or 'an intermediate value'} is a vector along tokens")

    def _dot(self, query: int, key: int) -> Node:
        return self.leaf(f"dot {index_of(self.dots, (query, key))}")

    def _distance(self, node: nodes.Distance, at: tuple[int, ...]) -> Node:
        """A squared distance, of norms and an inner product of the same tiles."""
        first, second = (_inside(o, (*at, self.width)) for o in (node.query, node.key))
        if self.column in first.at:
            first, second = second, first
        if self.column in first.at or self.row in second.at:
            raise NoKernel("a distance of vectors that both depend on the column, or both on the row")
        query, key = self._vectors(first, second)
        norms = [self.leaf(f"query_square {query}"), self.leaf(f"key_square {key}")]
        product = self.map("mul", [self.number(-2), self._dot(query, key)])
        return self.map("clamp_min", [self.map("add", [*norms, product]), self.number(0)])

    def _factors(self, node: nodes.Einsum, at: tuple[int, ...]) -> list[Operand]:
        """The factors of a product placed at `at`; the axes it sums come after those of the frame, the width first."""
        place = dict(zip(node.output, at, strict=True))
        place |= {p: self.width + n for n, p in enumerate(_summed(node))}
        return [_inside(operand, [place.get(p, -1) for p in range(1 + max(place))]) for operand in node.operands]

    def _joined(self, parts: Sequence[Operand]) -> Operand:
        """The product of some factors, as a value of its own."""
        if len(parts) == 1:
            return parts[0]
        frame = sorted({p for part in parts for p in part.at})
        axis = {p: part.node.dims[n] for part in parts for n, p in enumerate(part.at)}
        node = self.graph.make(
            nodes.Einsum, dims=tuple(axis[p] for p in frame), batched=any(p.node.batched for p in parts), kind="real",
            operands=tuple(Operand(part.node, tuple(frame.index(p) for p in part.at)) for part in parts),
            output=tuple(range(len(frame))),
        )  # fmt: skip
        return Operand(node, tuple(frame))

    def key(self, parts: Sequence[Operand]) -> int:
        """The number of the values that a sum adds up: a product of vectors over columns, in the frame with a width."""
        joined = self._joined(parts)
        self._check_width(joined)
        return index_of(self.keys, Operand(joined.node, tuple(p - 1 if p >= self.column else p for p in joined.at)))

    def column_factor(self, parts: Sequence[Operand]) -> Node:
        """The product of numbers that a column has, as a factor of the weights."""
        joined = self._joined(parts)
        return self.expression(joined)

    def _gather(self, node: nodes.Gather, at: tuple[int, ...]) -> Node:
        """A table read at an offset between the positions of row and column."""
        computed = [(n, s) for n, s in enumerate(node.subscripts) if isinstance(s, Operand)]
        if len(computed) != 1 or node.kind != "real":
            raise NoKernel("a table read at more than one computed subscript")
        _, subscript = computed[0]
        placed = _inside(subscript, at)
        if not self._is_positional(subscript.node) or self.row not in placed.at or self.column not in placed.at:
            raise NoKernel("a table read at a subscript that is no offset between two positions")
        others = {m: at[s] for m, s in enumerate(node.subscripts) if isinstance(s, int)}
        if any(p in (self.row, self.column) for p in others.values()):
            raise NoKernel("a table read at a position and an offset")
        offset = self.expression(placed)
        form = linear(offset)
        if form is None or abs(form.get("i", 0)) != 1 or form.get("j", 0) != -form["i"]:
            raise NoKernel("a table read at a subscript that is no offset between two positions")
        table = Operand(node.table, tuple(others.get(m, self.row) for m in range(len(node.subscripts))))
        for number, (known, where) in enumerate(zip(self.tables, self.offsets, strict=True)):
            if _equal(known, table) and where is offset:
                return self.leaf(f"table {number}")
        self.tables.append(table)
        self.offsets.append(offset)
        return self.leaf(f"table {len(self.tables) - 1}")


def _inside(operand: Operand, at: Sequence[int]) -> Operand:
    """An operand of a node that is itself placed at `at`."""
    return Operand(operand.node, tuple(at[p] for p in operand.at))


def _summed(node: nodes.Einsum) -> list[int]:
    return sorted({p for o in node.operands for p in o.at} - set(node.output))


def _equal(a: Operand, b: Operand) -> bool:
    return a.node is b.node and a.at == b.at


def index_of(items: list[Any], item: object) -> int:
    """The place of an item in a list, to which it is added if it is new."""
    for n, known in enumerate(items):
        if known == item or (isinstance(item, Operand) and _equal(known, item)):
            return n
    items.append(item)
    return len(items) - 1
