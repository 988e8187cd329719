"""What a decoder must remember: splits the tokens of a causal program into those of this call and those seen before.

Every token dimension is a *row* (a token whose result is wanted: only tokens of this call) or a *column* (a token that
is read: all tokens so far, or a window of the last ones). Rows are those of the result; an index that is summed, or
read at a computed place, is a column. A value with one token dimension that is wanted along columns is computed for
the rows of this call and appended to a cache; values with more are computed from such. As causality says that what
belongs to past tokens never changes, the result equals the full pass. What a sum's conditions leave out before some
token is not even asked for (window.py), so a cache keeps only what some sum can still see."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import Any

from cemc.program.graph import Graph, in_order, operands
from cemc.program.nodes import (
    Align,
    Attention,
    Branch,
    Cached,
    CumulativeSum,
    Distance,
    Einsum,
    Expand,
    FirstMax,
    Gather,
    LogSumExp,
    Map,
    Max,
    Node,
    Operand,
    OverRows,
    Positions,
    Recent,
    RecentPositions,
    RowPositions,
    Tensor,
)
from cemc.program.stages import Roles, Turner, stages
from cemc.program.window import Condition, Place, Reach, Role, Window, size_of, union

TOKEN = "token"

# No token before those of the call: what rows are among columns.
_ROWS = Window(((),))

# What a Cached node holds: the value it is made of, and along which dimension.
_Slot = tuple[int, int]


@dataclass(frozen=True)
class Unsupported(Exception):
    """The program cannot be split; `reason` says why, for people."""

    reason: str


@dataclass(frozen=True)
class Split:
    """A step with RowPositions and Cached nodes in place. `roles[n]`: the roles of the dimensions of node number n."""

    step: dict[str, Node]
    roles: dict[int, Roles]


def split_tokens(step: dict[str, Node], runtime: frozenset[str], graph: Graph, *, turns: bool = False) -> Split:
    """Splits the tokens of a step; raises Unsupported where a result has not exactly one token axis. `runtime`: the
    axes whose length only a call tells. `turns`: sums over columns may be made sums over rows, where that takes values
    that are there anyway; then the rows must be all tokens."""
    for name, node in step.items():
        if node.dims.count(TOKEN) != 1:
            raise Unsupported(f"state {name} has not exactly one token axis")
    order = in_order(step.values())
    reach = Reach(runtime)
    # What a slot must keep is known when all that read it are: at the second run.
    first = _Splitter(graph, order, reach, None, None)
    split = {name: first.visit(node, _rows_of(node)) for name, node in step.items()}
    turner = Turner(stages(in_order(split.values()), first.roles, runtime), first.known) if turns else None
    splitter = _Splitter(graph, order, reach, first.kept(), turner)
    split = {name: splitter.visit(node, _rows_of(node)) for name, node in step.items()}
    return Split(split, splitter.roles)


def _rows_of(node: Node) -> Roles:
    return tuple(axis == TOKEN for axis in node.dims)


class _Splitter:
    """`keep`: the window of each slot, by the value it is made of, None for all tokens; None at the first run, when
    they are not known. `turner`: which sums over columns to make sums over rows."""

    def __init__(
        self, graph: Graph, order: list[Node], reach: Reach, keep: dict[_Slot, Window | None] | None,
        turner: Turner | None,
    ) -> None:  # fmt: skip
        self._graph, self._reach, self._keep, self._turner = graph, reach, keep, turner
        self.roles: dict[int, Roles] = {}
        self.known: dict[tuple[int, Roles], Node] = {}
        self._slots: dict[_Slot, Cached] = {}
        self._asked: dict[_Slot, dict[tuple[_Slot, Role], None]] = {}
        self._multiples: dict[_Slot, _Slot] = {}
        # Values that vary with a tensor of the call, or take more than one token to compute; and those that vary with
        # the state.
        self._cacheable = _depends(order, lambda n: _is_of_tokens(n) or n.dims.count(TOKEN) > 1)
        self._state = _depends(order, lambda n: isinstance(n, Tensor) and n.role == "state")

    def kept(self) -> dict[_Slot, Window | None]:
        """The window of each slot that has in it all that was asked for, but for multiples of what has one anyway."""
        found: dict[_Slot, Window | None] = {}
        for asked in self._asked.values():
            windows = [role for _, role in asked if isinstance(role, Window)]
            whole = union(windows) if len(windows) == len(asked) else None
            found |= {value: whole for value, _ in asked}
        for value, base in self._multiples.items():
            if base in found:
                one, other = found[base], found.pop(value)
                found[base] = None if one is None or other is None else union([one, other])
        return found

    def visit(self, node: Node, roles: Roles) -> Node:
        """`node` with its token dimensions in the given roles."""
        key = (node.number, roles)
        if key not in self.known:
            self.known[key] = self._visit(node, roles)
            self.roles[self.known[key].number] = roles
        return self.known[key]

    def _visit(self, node: Node, roles: Roles) -> Node:
        tokens = [n for n, axis in enumerate(node.dims) if axis == TOKEN]
        columns = [n for n in tokens if roles[n] is not True]
        if isinstance(node, CumulativeSum) and node.axis in tokens:
            whole = (*roles[: node.axis], False, *roles[node.axis + 1 :])
            made = self._rebuilt(node, whole)
            self.roles[made.number] = whole
            return self._recent(made, whole, roles)
        if isinstance(node, FirstMax) and node.reduced and TOKEN in node.dims[-node.reduced :]:
            # Which token is the first maximum is not known of some tokens alone, so it is not put together of rows.
            whole = self._whole(node, roles)
            return self._rebuilt(node, roles) if whole == roles else self._recent(self.visit(node, whole), whole, roles)
        if len(tokens) == 1 and columns and node.number in self._cacheable and not self._is_cheap(node, columns[0]):
            return self._cached(node, columns[0], roles)
        if isinstance(node, Positions):
            return self._positions(node, roles[0])
        if isinstance(node, Tensor) and len(tokens) > 1 and node.role != "parameter":
            raise Unsupported(f"{node.name} has more than one token axis")
        return self._rebuilt(node, roles)

    def _positions(self, node: Positions, role: Role) -> Node:
        make = self._graph.make
        if role is True:
            return make(RowPositions, dims=node.dims, batched=False, kind="integer", axis=node.axis)
        if isinstance(role, Window):
            window = size_of(role, make)
            return make(RecentPositions, dims=node.dims, batched=False, kind="integer", axis=node.axis, window=window)
        return node

    def _is_cheap(self, node: Node, axis: int) -> bool:
        """Whether columns of a node need no cache: a number times what has one."""
        varying = [o for o in node.operands if o.node.dims or o.node.batched] if isinstance(node, Map) else []
        if not isinstance(node, Map) or node.operation != "mul" or len(varying) != 1:
            return False
        if len(node.dims) == 1:
            return True
        value = (node.number, axis)
        if self._keep is None:
            self._multiples[value] = (varying[0].node.number, varying[0].at.index(axis))
        return self._keep is not None and value not in self._keep

    def _cached(self, node: Node, axis: int, roles: Roles) -> Node:
        value = (node.number, axis)
        rows = self.visit(node, tuple(n == axis for n in range(len(roles))))
        slot = (rows.number, axis)
        self._asked.setdefault(slot, {})[value, roles[axis]] = None
        window = None if self._keep is None else self._keep.get(value)
        kept = False if window is None else window
        have = (*roles[:axis], kept, *roles[axis + 1 :])
        if slot not in self._slots:
            self._slots[slot] = self._graph.make(
                Cached, hint=None, dims=node.dims, batched=node.batched, kind=node.kind, operand=rows, axis=axis,
                slot=len(self._slots), hoisted=node.number not in self._state, window=self._size(kept),
            )  # fmt: skip
            self.roles[self._slots[slot].number] = have
        return self._recent(self._slots[slot], have, roles)

    def _recent(self, node: Node, have: Roles, wanted: Roles) -> Node:
        """`node`, which has the columns `have`, cut to those, or the rows, that are `wanted`."""
        for axis, (one, other) in enumerate(zip(have, wanted, strict=True)):
            if one != other:
                window = other if isinstance(other, Window) else _ROWS
                node = self._graph.make(
                    Recent, dims=node.dims, batched=node.batched, kind=node.kind, operand=node, axis=axis,
                    window=size_of(window, self._graph.make),
                )  # fmt: skip
                have = (*have[:axis], other, *have[axis + 1 :])
                self.roles[node.number] = have
        return node

    def _whole(self, node: FirstMax, roles: Roles) -> Roles:
        """Roles with all columns of which one may be the first maximum, whatever part of them is wanted."""
        stay = len(roles) - node.reduced
        frame = (*roles[:stay], *(False for _ in range(node.reduced)))
        seen = self._windows([] if node.mask is None else [node.mask], node.dims, frame, range(stay, len(roles)))
        wider = [_wider(role, own) for role, own in zip(roles[stay:], seen[stay:], strict=True)]
        return (*roles[:stay], *wider)

    def _windows(
        self, truths: Iterable[Condition], axes: tuple[str, ...], frame: Roles, summed: Iterable[int]
    ) -> Roles:
        """`frame` with the windows that conditions put on the `summed` positions over tokens."""
        places = [Place(axis, axis == TOKEN, role) for axis, role in zip(axes, frame, strict=True)]
        wanted = [position for position in summed if axes[position] == TOKEN]
        found = dict(zip(wanted, self._reach.columns(truths, places, wanted), strict=True))
        return tuple(found.get(position, role) for position, role in enumerate(frame))

    def _rebuilt(self, node: Node, roles: Roles) -> Node:
        contents = {f.name: getattr(node, f.name) for f in fields(node) if f.name not in ("number", "hint")}
        match node:
            case Attention():
                keys = (*roles[:-2], False, False)
                contents |= {"query": self._placed(node.query, (*roles[:-1], False)), "scale": node.scale}
                contents |= {"key": self._placed(node.key, keys), "value": self._placed(node.value, keys)}
            case CumulativeSum():
                contents["operand"] = self.visit(node.operand, roles)
            case Distance():
                contents |= {name: self._placed(contents[name], (*roles, False)) for name in ("query", "key")}
            case Gather():
                contents |= self._gathered(node, roles)
            case Einsum():
                frame = self._summed(node, roles)
                turned = None if self._turner is None else self._turner.turned(node, frame)
                if turned is not None:
                    return self._over_rows(node, roles, turned)
                contents["operands"] = self._placed(node.operands, frame)
            case LogSumExp():
                contents["branches"] = tuple(self._branch(branch, node.dims, roles) for branch in node.branches)
            case Max():
                branch = self._branch(node, node.dims, roles)
                contents |= {"scores": branch.scores, "mask": branch.mask}
            case Align() if any(axis == TOKEN and n not in node.operand.at for n, axis in enumerate(node.dims)):
                operand = self._placed(node.operand, roles)
                return self._expanded(operand, node.dims, roles, node.hint)
            case _:
                contents = {name: self._placed(value, roles) for name, value in contents.items()}
        return self._graph.make(type(node), hint=node.hint, **contents)

    def _summed(self, node: Einsum, roles: Roles, row: int | None = None) -> Roles:
        """The roles of the frame of a product: outside its result, columns; but for position `row`."""
        axes = {p: axis for operand in node.operands for p, axis in zip(operand.at, operand.node.dims, strict=True)}
        placed = dict(zip(node.output, roles, strict=True))
        count = 1 + max(axes, default=-1)
        frame = tuple(placed.get(p, p == row) for p in range(count))
        truths = [truth for operand in node.operands for truth in self._reach.placed(operand)]
        return self._windows(
            truths, tuple(axes.get(p, "") for p in range(count)), frame, sorted(axes.keys() - placed - {row})
        )

    def _over_rows(self, node: Einsum, roles: Roles, row: int) -> Node:
        """A sum over columns as one over rows: frame position `row` takes the place of the rows of the result."""
        flat = tuple(False if role is True else role for role in roles)
        frame = self._summed(node, flat, row)
        operands = self._placed(node.operands, frame)
        inner = self._graph.make(
            Einsum, hint=node.hint, dims=node.dims, batched=node.batched, kind=node.kind, operands=operands,
            output=node.output,
        )  # fmt: skip
        self.roles[inner.number] = flat
        return self._graph.make(
            OverRows, hint=node.hint, dims=node.dims, batched=node.batched, kind=node.kind, operand=inner
        )

    def _branch(self, branch: Branch | Max, dims: tuple[str, ...], roles: Roles) -> Branch:
        """A part of a log-sum-exp, or a maximum."""
        axes, frame = (*dims, *branch.reduced), (*roles, *(False for _ in branch.reduced))
        masks = [] if branch.mask is None else [branch.mask]
        frame = self._windows(masks, axes, frame, range(len(dims), len(axes)))
        scores = self._placed(branch.scores, frame)
        missing = [p for p in range(len(dims), len(axes)) if axes[p] == TOKEN and p not in scores.at]
        if missing:
            at = sorted({*scores.at, *missing})
            inner = Operand(scores.node, tuple(at.index(p) for p in scores.at))
            whole = self._expanded(inner, tuple(axes[p] for p in at), tuple(frame[p] for p in at), None)
            scores = Operand(whole, tuple(at))
        return Branch(scores, self._placed(branch.mask, frame), branch.reduced)

    def _expanded(self, operand: Operand, dims: tuple[str, ...], roles: Roles, hint: str | None) -> Node:
        node = self._graph.make(
            Expand, hint=hint, dims=dims, batched=operand.node.batched, kind=operand.node.kind, operand=operand,
            rows=tuple(role is True for role in roles), windows=tuple(self._size(role) for role in roles),
        )  # fmt: skip
        self.roles[node.number] = roles
        return node

    def _gathered(self, node: Gather, roles: Roles) -> dict[str, Any]:
        """A dimension read at a computed place is a column; one read as it stands has the role it has in the result."""
        places = [Place(axis, axis == TOKEN, role) for axis, role in zip(node.dims, roles, strict=True)]
        # In a region by blocks positions and what they are subscripts of are not cut alike.
        pairs = any(p.token and p.role is True for p in places) and any(p.token and p.role is not True for p in places)
        table: list[Role] = []
        for subscript, axis in zip(node.subscripts, node.table.dims, strict=True):
            if isinstance(subscript, int):
                table.append(roles[subscript])
            else:
                table.append(self._reach.subscript(subscript, places) if axis == TOKEN and not pairs else False)
        subscripts = tuple(s if isinstance(s, int) else self._placed(s, roles) for s in node.subscripts)
        windows = tuple(
            None if isinstance(s, int) else self._size(role) for s, role in zip(node.subscripts, table, strict=True)
        )
        return {
            "table": self.visit(node.table, tuple(table)),
            "subscripts": subscripts,
            "windows": () if all(window is None for window in windows) else windows,
        }

    def _size(self, role: Role) -> Node | None:
        return size_of(role, self._graph.make) if isinstance(role, Window) else None

    def _placed(self, value: Any, frame: Roles) -> Any:
        if isinstance(value, Operand):
            return Operand(self.visit(value.node, tuple(frame[p] for p in value.at)), value.at)
        if isinstance(value, Node):
            return self.visit(value, (False,) * len(value.dims))
        if isinstance(value, tuple):
            return tuple(self._placed(item, frame) for item in value)
        return value


def _wider(one: Role, other: Role) -> Role:
    """Columns that have those of both in them."""
    return union([one, other]) if isinstance(one, Window) and isinstance(other, Window) else False


def _is_of_tokens(node: Node) -> bool:
    """Whether a node is a tensor of the call, over tokens."""
    return isinstance(node, Tensor) and node.role != "parameter" and TOKEN in node.dims


def _depends(order: list[Node], source: Callable[[Node], bool]) -> set[int]:
    """Numbers of the nodes that read a node for which `source` holds."""
    found: set[int] = set()
    for node in order:
        if source(node) or any(child.number in found for child in operands(node)):
            found.add(node.number)
    return found
