"""Sums over pairs of a row and a column, as kernels compute them: a tile of rows and columns at a time.

What is matched is `o_i = sum_j w_ij v_j` and `L_i = log sum_j exp(t_ij)`, where w and t are element-wise in inner
products `q_i . k_j`, in what varies with i or with j only, and in positions: softmax attention in all its forms, with
biases, caps, sinks and documents, as well as plain sums (sigmoid, polynomial, linear attention). Softmax weights and
the sums that use them become one kernel. Only the tensor program is looked at, after its tokens are split
(cemc/program/decode.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from cemc.program import kernel_nodes, nodes
from cemc.program.blocks import by_row_blocks
from cemc.program.decode import Split
from cemc.program.graph import Graph, in_order, operands
from cemc.program.nodes import Node, Operand
from cemc.program.rewrite import rewrite
from cemc.program.scalars import scalars_in
from cemc.recognise.group import Group
from cemc.recognise.tile import NoKernel, Softmax, TileBuilder, softmax_of

N = TypeVar("N", bound=Node)


@dataclass(frozen=True)
class PairKernels:
    """`step` with PairResult nodes, and what has no kernel by blocks of rows; None where there are no kernels, or no
    such blocks. `reasons`: why something has none."""

    step: dict[str, Node] | None
    reasons: tuple[str, ...]


def pair_kernels(split: Split, causal: bool, runtime: frozenset[str], graph: Graph) -> PairKernels:
    """The step with sums over pairs done by kernels. `runtime`: the names of the run-time axes."""
    matcher = _Matcher(split, runtime, graph)
    found = matcher.rewritten()
    reasons = tuple(matcher.reasons)
    if found is None:
        return PairKernels(None, reasons)
    left = [n for n in in_order(found.step.values()) if sum(axis in runtime for axis in n.dims) > 1]
    left = [n for n in left if not isinstance(n, nodes.Tensor)]
    if not left:
        return PairKernels(found.step, ())
    reasons = reasons or (f"{_called(left[-1])} is needed for every pair of tokens",)
    return PairKernels(by_row_blocks(found, runtime, causal, graph), reasons)


def _called(node: Node) -> str:
    return node.hint or "an intermediate value"


class _Matcher:
    def __init__(self, split: Split, runtime: frozenset[str], graph: Graph) -> None:
        self._step, self._roles, self._runtime, self._graph = split.step, split.roles, runtime, graph
        self._order = in_order(split.step.values())
        self._scalars = scalars_in(self._order)
        self._slots = self._slot_axes()
        self._groups: dict[tuple[object, ...], Group] = {}
        # For a node that a kernel computes: the group, the number of the result, and how to place it.
        self._places: dict[int, _Place] = {}
        # What has no kernel, and why.
        self._left: list[Node] = []
        self.reasons: dict[str, None] = {}

    def rewritten(self) -> Split | None:
        """None where there is no kernel."""
        levels = self._levels()
        for node in self._order:
            if isinstance(node, nodes.Einsum) and node.number in levels:
                self._tried(node, self._sum, levels)
        for node in self._order:
            if isinstance(node, nodes.LogSumExp) and node.number in levels:
                self._tried(node, self._log_sum_exp, levels)
        if not self._places:
            return None
        made: dict[int, kernel_nodes.Pairs] = {}

        def replaced(node: Node) -> Node | None:
            place = self._places.get(node.number)
            if place is None:
                return None
            key = id(place.group)
            if key not in made:
                made[key] = place.group.node()
            return place.value(made[key], self._graph)

        done: dict[int, Node] = {}
        step = rewrite(self._step, replaced, self._graph, done)
        return Split(step, self._roles | {done[n].number: roles for n, roles in self._roles.items() if n in done})

    def _slot_axes(self) -> set[str]:
        """Memory slots: axes of parameters over which weights are normalised, as attention does over tokens. An axis
        along which there are several sums over tokens or slots is none of them."""
        found: set[str] = set()
        shared: set[str] = set()
        for node in self._order:
            if isinstance(node, nodes.LogSumExp):
                reduced = {axis for branch in node.branches if len(branch.reduced) == 1 for axis in branch.reduced}
                found |= reduced - self._runtime
                shared |= set(node.dims) if reduced and self._has_row(node) else set()
            elif any(self._quadratic(each) for each in (node, *operands(node))):
                shared |= set(node.dims)
        return found - shared

    def _quadratic(self, node: Node) -> bool:
        return sum(axis in self._runtime for axis in node.dims) > 1

    # ------------------------------------------------------------------------------------------- what is a pair

    def _has_row(self, node: Node) -> bool:
        return any(role is True for role in self._roles.get(node.number, ()))

    def _pair(self, node: Node) -> tuple[int, int] | None:
        """The dimensions of a node over its row and its column, if it has one of each."""
        rows, columns = self._ends(node)
        if len(rows) > 1 or len(columns) > 1:
            raise NoKernel(f"{_called(node)} depends on more than a pair of tokens")
        return (rows[0], columns[0]) if columns else None

    def _ends(self, node: Node) -> tuple[list[int], list[int]]:
        """The dimensions of a node over rows and over columns; none if it has not both."""
        roles = self._roles.get(node.number, (False,) * len(node.dims))
        rows = [n for n, role in enumerate(roles) if role is True]
        columns = [n for n, axis in enumerate(node.dims) if axis in self._runtime and roles[n] is not True]
        if not columns and len(rows) == 1:
            slots = [n for n, axis in enumerate(node.dims) if axis in self._slots]
            columns = slots if len(slots) == 1 else []
        return (rows, columns) if rows and columns else ([], [])

    def _levels(self) -> dict[int, int]:
        """Nodes that reduce pairs, each with how many such it takes one after the other. What is on one level can be
        computed together."""
        reaches: dict[int, int] = {}
        levels: dict[int, int] = {}
        for node in self._order:
            below = max((reaches[child.number] for child in operands(node)), default=0)
            reads = any(self._ends(child)[0] for child in operands(node))
            if reads and not self._ends(node)[0]:
                # The weights' own normaliser is computed with them.
                below = levels[node.number] = below + (0 if isinstance(node, nodes.LogSumExp) else 1)
            reaches[node.number] = below
        return levels

    # -------------------------------------------------------------------------------------------------- reductions

    def _tried(self, node: N, match: Callable[[N, int], None], levels: Mapping[int, int]) -> None:
        """Matches a node. What is linear in the number of tokens may stay with torch, and no one need know why."""
        try:
            match(node, levels[node.number])
        except NoKernel as why:
            if any(self._quadratic(child) for child in operands(node)):
                self._left.append(node)
                self.reasons[why.reason] = None

    def _sum(self, node: nodes.Einsum, level: int) -> None:
        """Matches `node`, a sum over columns."""
        pairs = [o for o in node.operands if self._pair(o.node) is not None]
        ends = {tuple(o.at[n] for n in self._pair(o.node) or ()) for o in pairs}
        if len(ends) > 1 or any(len(set(o.at)) < len(o.at) for o in node.operands):
            raise NoKernel(f"{_called(node)} depends on more than a pair of tokens")
        ((row, column),) = ends
        others = [o for o in node.operands if o not in pairs]
        columns = [o for o in others if column in o.at]
        outside = [o for o in others if column not in o.at]
        if any(row in o.at for o in columns):
            raise NoKernel(f"{_called(node)} depends on more than a pair of tokens")
        weighed = {p for o in pairs for p in o.at}
        width = _own_axis(columns, weighed, column)
        axis = {p: o.node.dims[n] for o in node.operands for n, p in enumerate(o.at)}
        inner = weighed | {p for o in columns for p in o.at}
        anchor = max((o for o in pairs), key=lambda o: (isinstance(o.node, nodes.Weights), len(o.at), o.node.number))
        shared = [p for p in (*anchor.at, *sorted(inner)) if p not in (row, column, width)]
        shared = list(dict.fromkeys(shared))
        place = {p: n for n, p in enumerate([*shared, row, column])}
        softmax = self._softmax(pairs, place)
        # Sums can share a kernel if their frames are laid out by the same node.
        alone = set(shared) - set(anchor.at)
        key = (
            level,
            anchor.node.number,
            softmax.normaliser.number if softmax else None,
            node.number if alone else None,
        )
        group = self._groups.get(key)
        if group is None:
            group = Group(
                self._graph, self._scalars, tuple(axis[p] for p in shared), (axis[row], axis[column]), softmax,
                self._runtime,
            )  # fmt: skip
            self._groups[key] = group
        weights = [Operand(o.node, tuple(place[p] for p in o.at)) for o in pairs]
        placed = [Operand(o.node, tuple(place[p] if p != width else len(place) for p in o.at)) for o in columns]
        result = group.add(weights, placed, width is not None)
        frame = [*shared, row, *([width] if width is not None else [])]
        self._places[node.number] = _Place(group, result, tuple(frame), tuple(outside), node)

    def _softmax(self, pairs: list[Operand], place: Mapping[int, int]) -> Softmax | None:
        """The softmax weights that a product of `pairs` is linear in."""
        builder = TileBuilder(self._graph, self._scalars, self._runtime, len(place) - 2, None)
        for weights in builder.weights_in([Operand(o.node, tuple(place[p] for p in o.at)) for o in pairs]):
            softmax = softmax_of(weights, len(place) - 2)
            if softmax is not None and self._pair(softmax.normaliser) is None:
                return softmax
        return None

    def _log_sum_exp(self, node: nodes.LogSumExp, level: int) -> None:
        """A log-sum-exp over columns: that of softmax weights with a kernel, or a kernel of its own."""
        for group in self._groups.values():
            softmax = group.softmax
            if softmax is not None and _same_sum(softmax.normaliser, node):
                if node.empty == "minus infinity":
                    group.empty = node.empty
                self._places[node.number] = _Place(group, None, softmax.at, (), node)
                return
        if not any(self._quadratic(child) for child in operands(node)):
            # Over slots a log-sum-exp alone is nothing that a kernel does better.
            return
        if self._left and node.number in {each.number for each in in_order(self._left)}:
            # Its scores are computed anyway where its weights have no kernel.
            return
        branch, (row, column) = next(
            (branch, tuple(operand.at[n] for n in ends))
            for branch in node.branches
            for operand in (branch.scores, branch.mask)
            if operand is not None and (ends := self._pair(operand.node)) is not None
        )
        if len(branch.reduced) != 1 or column < len(node.dims) or row >= len(node.dims):
            raise NoKernel(f"{_called(node)} is a log-sum-exp over more than one axis")
        shared = [p for p in range(len(node.dims)) if p != row]
        place = {p: n for n, p in enumerate([*shared, row, column])}
        softmax = softmax_of_node(node, branch, place)
        axes = (node.dims[row], branch.reduced[0])
        group = Group(self._graph, self._scalars, tuple(node.dims[p] for p in shared), axes, softmax, self._runtime)
        self._groups[("log-sum-exp", node.number, level)] = group
        self._places[node.number] = _Place(group, None, (*shared, row), (), node)


def _same_sum(a: nodes.LogSumExp, b: nodes.LogSumExp) -> bool:
    """Whether two log-sum-exps are the same but for rows without columns."""

    def parts(branch: nodes.Branch) -> tuple[object, ...]:
        operands = [o and (o.node.number, o.at) for o in (branch.scores, branch.mask)]
        return (*operands, branch.reduced)

    return a.dims == b.dims and [parts(branch) for branch in a.branches] == [parts(branch) for branch in b.branches]


def softmax_of_node(node: nodes.LogSumExp, branch: nodes.Branch, place: Mapping[int, int]) -> Softmax:
    """A log-sum-exp by itself, placed in the frame of a kernel."""

    def placed(operand: Operand) -> Operand:
        return Operand(operand.node, tuple(place[p] for p in operand.at))

    sinks = []
    for other in node.branches:
        if other is not branch:
            if other.reduced:
                raise NoKernel(f"{_called(node)} is a log-sum-exp of more than one sum")
            sinks.append(_unmasked(placed(other.scores), other.mask, node))
    mask = None if branch.mask is None else placed(branch.mask)
    at = tuple(range(len(place) - 1))
    return Softmax(node, placed(branch.scores), mask, tuple(sinks), at)


def _unmasked(scores: Operand, mask: Operand | None, node: Node) -> Operand:
    if mask is not None:
        raise NoKernel(f"{_called(node)} is a log-sum-exp with a condition on one of its terms")
    return scores


@dataclass(frozen=True)
class _Place:
    """Where `node` comes from: result `result` of a group (None: its log-sum-exp), with dimensions at `frame` of the
    frame of `node`, multiplied by the operands `outside`."""

    group: Group
    result: int | None
    frame: tuple[int, ...]
    outside: tuple[Operand, ...]
    node: Node

    def value(self, pairs: kernel_nodes.Pairs, graph: Graph) -> Node:
        number = len(pairs.values) if self.result is None else self.result
        is_sum = self.result is not None and pairs.values[number] is not None
        dims = [*pairs.shared, pairs.row]
        if is_sum:
            key = pairs.keys[pairs.values[number] or 0]
            dims.append(key.node.dims[key.at.index(len(pairs.shared) + 1)])
        node = self.node
        result: Node = graph.make(
            kernel_nodes.PairResult, dims=tuple(dims), batched=pairs.batched, kind="real", pairs=pairs, result=number
        )
        if isinstance(node, nodes.LogSumExp) and node.empty != pairs.empty:
            own = nodes.Branch(Operand(result, tuple(range(len(dims)))), None, ())
            result = graph.make(
                nodes.LogSumExp, dims=tuple(dims), batched=pairs.batched, kind="real", branches=(own,), empty=node.empty
            )
        output = node.output if isinstance(node, nodes.Einsum) else tuple(range(len(node.dims)))
        if self.outside or set(self.frame) != set(output):
            return graph.make(
                nodes.Einsum, dims=node.dims, batched=node.batched, kind="real", hint=node.hint,
                operands=(Operand(result, self.frame), *self.outside), output=output,
            )  # fmt: skip
        at = tuple(output.index(p) for p in self.frame)
        if at == tuple(range(len(at))):
            return result
        return graph.make(
            nodes.Align, dims=node.dims, batched=node.batched, kind="real", operand=Operand(result, at), hint=node.hint
        )


def _own_axis(columns: list[Operand], weighed: set[int], column: int) -> int | None:
    """The frame position of the values' own axis, along which they are vectors; None if they are numbers."""
    own = [p for o in columns for p in o.at if p not in weighed and p != column]
    return own[-1] if own else None
