"""One kernel in the making: the sums over pairs that share a softmax, or a frame, and can be computed together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cemc.program import kernel_nodes, nodes
from cemc.program.decode import TOKEN
from cemc.program.graph import Graph, in_order, operands
from cemc.program.nodes import Node, Operand
from cemc.recognise.backward import backward
from cemc.recognise.tile import NoKernel, Softmax, TileBuilder


class Group:
    """Collects sums; `node()` is the kernel that computes them, the same at each call. Raises NoKernel if there is no
    kernel for the softmax.

    `axes`: those of row and column. The frame is `shared`, row, column. `empty`: what the log-sum-exp of no column
    is."""

    def __init__(
        self, graph: Graph, scalars: set[int], shared: tuple[str, ...], axes: tuple[str, str],
        softmax: Softmax | None, runtime: frozenset[str],
    ) -> None:  # fmt: skip
        self.softmax = softmax
        self.empty: Literal["zero", "minus infinity"] = "zero" if softmax is None else softmax.normaliser.empty
        self._graph, self._shared, self._axes = graph, shared, axes
        self._tile = TileBuilder(graph, scalars, runtime, len(shared), softmax)
        self._sums: list[tuple[Node, Node | None, int | None]] = []
        self._node: kernel_nodes.Pairs | None = None
        kept = self._tile.kept()
        self._scores()
        self._tile.restore(kept)  # What the sums read comes first.

    def _scores(self) -> tuple[Node | None, Node | None]:
        """What the softmax is of, and its mask."""
        tile, softmax = self._tile, self.softmax
        if softmax is None:
            return None, None
        return tile.expression(softmax.scores), None if softmax.mask is None else tile.expression(softmax.mask)

    def add(self, weights: Sequence[Operand], columns: Sequence[Operand], vector: bool) -> int:
        """Adds a sum of a product of `weights` and of what varies with the column alone: `columns`, vectors along the
        width of the frame if `vector`. Returns the number of the result; raises NoKernel and adds nothing if there is
        no kernel for it."""
        kept = self._tile.kept()
        try:
            return self._added(weights, columns, vector)
        except NoKernel:
            self._tile.restore(kept)
            raise

    def _added(self, weights: Sequence[Operand], columns: Sequence[Operand], vector: bool) -> int:
        tile = self._tile
        parts = [tile.expression(weight) for weight in weights]
        value = None
        if vector:
            value = tile.key(columns)
        elif columns:
            parts.append(tile.column_factor(columns))
        weight = parts[0] if len(parts) == 1 else tile.map("mul", parts)
        mask, weight = self._unmasked(weight)
        if self.softmax is not None and _degree(weight, tile.leaf("p 0")) not in (0, 1):
            raise NoKernel("a sum of powers of softmax weights")
        self._sums.append((weight, mask, value))
        return len(self._sums) - 1

    def _unmasked(self, weight: Node) -> tuple[Node | None, Node]:
        """(mask, w) such that the weight is w where the mask holds, else 0."""
        if not isinstance(weight, nodes.Map) or weight.operation not in ("mul", "select", "real"):
            return None, weight
        if weight.operation == "real":
            truth = weight.operands[0].node
            return (truth, self._tile.number(1)) if truth.kind == "truth" else (None, weight)
        if weight.operation == "select":
            truth, then, otherwise = (o.node for o in weight.operands)
            if isinstance(otherwise, nodes.Number) and otherwise.value == 0:
                mask, inner = self._unmasked(then)
                return self._both(truth, mask), inner
            return None, weight
        masks: Node | None = None
        factors = []
        for operand in weight.operands:
            mask, inner = self._unmasked(operand.node)
            masks = mask if masks is None else self._both(masks, mask)
            if not (isinstance(inner, nodes.Number) and inner.value == 1):
                factors.append(inner)
        if masks is None:
            return None, weight
        if len(factors) < 2:
            return masks, factors[0] if factors else self._tile.number(1)
        return masks, self._tile.map("mul", factors)

    def _both(self, first: Node, second: Node | None) -> Node:
        return first if second is None or second is first else self._tile.map("and", [first, second], "truth")

    def node(self) -> kernel_nodes.Pairs:
        """The kernel."""
        if self._node is None:
            self._node = self._made()
        return self._node

    def _made(self) -> kernel_nodes.Pairs:
        tile, softmax = self._tile, self.softmax
        score, mask = self._scores()
        masks: list[Node | None]
        if softmax is not None:
            # Outside its mask a softmax weight is 0 anyway.
            masks = [None if m is mask else m for _, m, _ in self._sums]
        else:
            mask = self._sums[0][1]
            same = all(m is mask for _, m, _ in self._sums)
            masks = [None if same else m for _, m, _ in self._sums]
            mask = mask if same else None
        zero = tile.number(0)
        weights = tuple(
            weight if each is None else tile.map("select", [each, weight, zero])
            for (weight, _, _), each in zip(self._sums, masks, strict=True)
        )
        sinks = softmax.sinks if softmax is not None else ()
        derived = backward(score, weights, self._graph)
        tile_ = kernel_nodes.Tile(
            score, mask, weights, tuple(tile.offsets), derived.softmax, tuple(derived.leaves.items())
        )  # fmt: skip
        vectors = [*tile.rows, *tile.columns, *tile.scalars, *tile.tables, *sinks]
        if not tile.queries and not tile.keys and all(operand.node.kind != "real" for operand in vectors):
            # A kernel needs something to read, if only to know the device and the dtype.
            positions = nodes.RowPositions if self._axes[0] == TOKEN else nodes.Positions
            row = self._axes[0]
            node = self._graph.make(positions, dims=(row,), batched=False, kind="integer", axis=row)
            real = self._graph.make(
                nodes.Map, dims=(row,), batched=False, kind="real", operation="real", function=None,
                operands=(Operand(node, (0,)),),
            )  # fmt: skip
            tile.rows.append(Operand(real, (len(self._shared),)))
        read = [*tile.queries, *tile.keys, *tile.rows, *tile.columns, *tile.scalars, *tile.tables, *sinks]
        return self._graph.make(
            kernel_nodes.Pairs, dims=(), batched=any(o.node.batched for o in read), kind="real", shared=self._shared,
            row=self._axes[0], column=self._axes[1], queries=tuple(tile.queries), keys=tuple(tile.keys),
            dots=tuple(tile.dots), rows=tuple(tile.rows), columns=tuple(tile.columns), scalars=tuple(tile.scalars),
            tables=tuple(tile.tables), numbers=tuple(tile.numbers), sinks=tuple(sinks),
            values=tuple(value for _, _, value in self._sums), tile=tile_,
            empty=self.empty,
        )  # fmt: skip


def _degree(expression: Node, leaf: Node) -> int | None:
    """The degree of an expression in a leaf, if it is homogeneous in it: then its sum is, too."""
    degrees: dict[int, int | None] = {}
    for node in in_order([expression]):
        degrees[node.number] = _degree_of(node, leaf, degrees)
    return degrees[expression.number]


def _degree_of(node: Node, leaf: Node, degrees: dict[int, int | None]) -> int | None:
    if node is leaf:
        return 1
    parts = [degrees[child.number] for child in operands(node)]
    if not any(part != 0 for part in parts):
        return 0
    if not isinstance(node, nodes.Map) or None in parts:
        return None
    if node.operation == "mul":
        return sum(part for part in parts if part is not None)
    if node.operation == "select" and parts[0] == 0:
        kept = {part for part, o in zip(parts[1:], node.operands[1:], strict=True) if not _is_zero(o.node)}
        return kept.pop() if len(kept) == 1 else None
    if node.operation == "add":
        return parts[0] if len(set(parts)) == 1 else None
    return None


def _is_zero(node: Node) -> bool:
    return isinstance(node, nodes.Number) and node.value == 0
