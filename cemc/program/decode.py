"""What a decoder must remember: splits the tokens of a causal program into those of this call and those seen before.

Every token dimension is a *row* (a token whose result is wanted: only tokens of this call) or a *column* (a token that
is read: all tokens so far). Rows are those of the result; an index that is summed, or read at a computed place, is a
column. A value with one token dimension that is wanted along columns is computed for the rows of this call and
appended to a cache; values with more are computed from such. As causality says that what belongs to past tokens never
changes, the result equals the full pass."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from cemc.program.graph import Graph, in_order, operands
from cemc.program.nodes import (
    Attention,
    Branch,
    Cached,
    Einsum,
    Gather,
    Max,
    Node,
    Operand,
    Positions,
    RowPositions,
    Tensor,
)

TOKEN = "token"

# For each dimension of a node: True for a row. Dimensions of other axes are False.
Roles = tuple[bool, ...]


@dataclass(frozen=True)
class Unsupported(Exception):
    """The program cannot be split; `reason` says why, for people."""

    reason: str


@dataclass(frozen=True)
class Split:
    """A step with RowPositions and Cached nodes in place. `roles[n]`: the roles of the dimensions of node number n."""

    step: dict[str, Node]
    roles: dict[int, Roles]


def split_tokens(step: dict[str, Node], graph: Graph) -> Split:
    """Splits the tokens of a step; raises Unsupported where a result has not exactly one token axis."""
    for name, node in step.items():
        if node.dims.count(TOKEN) != 1:
            raise Unsupported(f"state {name} has not exactly one token axis")
    splitter = _Splitter(graph, in_order(step.values()))
    split = {name: splitter.visit(node, tuple(d == TOKEN for d in node.dims)) for name, node in step.items()}
    return Split(split, splitter.roles)


class _Splitter:
    def __init__(self, graph: Graph, order: list[Node]) -> None:
        self._graph = graph
        self.roles: dict[int, Roles] = {}
        self._known: dict[tuple[int, Roles], Node] = {}
        self._slots: dict[tuple[int, int], Cached] = {}
        # Values that vary with a tensor of the call, and those that vary with the state.
        self._given = _depends(order, lambda n: isinstance(n, Tensor) and n.role != "parameter" and TOKEN in n.dims)
        self._state = _depends(order, lambda n: isinstance(n, Tensor) and n.role == "state")

    def visit(self, node: Node, roles: Roles) -> Node:
        """`node` with its token dimensions in the given roles."""
        key = (node.number, roles)
        if key not in self._known:
            self._known[key] = self._visit(node, roles)
            self.roles[self._known[key].number] = roles
        return self._known[key]

    def _visit(self, node: Node, roles: Roles) -> Node:
        tokens = [n for n, axis in enumerate(node.dims) if axis == TOKEN]
        columns = [n for n in tokens if not roles[n]]
        if len(tokens) == 1 and columns and node.number in self._given:
            rows = self.visit(node, tuple(n in tokens for n in range(len(roles))))
            return self._cached(node, rows, columns[0])
        if isinstance(node, Positions):
            if roles == (True,):
                return self._graph.make(RowPositions, dims=node.dims, batched=False, kind="integer", axis=node.axis)
            return node
        if isinstance(node, Tensor) and len(tokens) > 1 and node.role != "parameter":
            raise Unsupported(f"{node.name} has more than one token axis")
        frame = roles + (False,) * _hidden(node)
        if isinstance(node, Einsum):
            placed = {position: roles[n] for n, position in enumerate(node.output)}
            frame = tuple(
                placed.get(position, False) for position in range(1 + max(placed | _positions(node), default=0))
            )
        return self._rebuilt(node, frame)

    def _cached(self, node: Node, rows: Node, axis: int) -> Node:
        key = (rows.number, axis)
        if key not in self._slots:
            self._slots[key] = self._graph.make(
                Cached, hint=None, dims=node.dims, batched=node.batched, kind=node.kind, operand=rows, axis=axis,
                slot=len(self._slots), hoisted=node.number not in self._state,
            )  # fmt: skip
        return self._slots[key]

    def _rebuilt(self, node: Node, frame: Roles) -> Node:
        contents = {f.name: getattr(node, f.name) for f in fields(node) if f.name not in ("number", "hint")}
        if isinstance(node, Attention):
            keys = (*frame[:-2], False, False)
            contents |= {"query": self._placed(node.query, (*frame[:-1], False)), "scale": node.scale}
            contents |= {"key": self._placed(node.key, keys), "value": self._placed(node.value, keys)}
        elif isinstance(node, Gather):
            contents["table"] = self.visit(node.table, self._table_roles(node, frame))
            contents["subscripts"] = tuple(self._placed(s, frame) for s in node.subscripts)
        else:
            contents = {name: self._placed(value, frame) for name, value in contents.items()}
        return self._graph.make(type(node), hint=node.hint, **contents)

    def _table_roles(self, node: Gather, frame: Roles) -> Roles:
        """A dimension read at a computed place is a column; one read as it stands has the role it has in the result."""
        return tuple(isinstance(s, int) and frame[s] for s in node.subscripts)

    def _placed(self, value: Any, frame: Roles) -> Any:
        if isinstance(value, Operand):
            return Operand(self.visit(value.node, tuple(frame[p] for p in value.at)), value.at)
        if isinstance(value, Branch):
            inner = frame + (False,) * len(value.reduced)
            return Branch(self._placed(value.scores, inner), self._placed(value.mask, inner), value.reduced)
        if isinstance(value, Node):
            return self.visit(value, (False,) * len(value.dims))
        if isinstance(value, tuple):
            return tuple(self._placed(item, frame) for item in value)
        return value


def _hidden(node: Node) -> int:
    """Frame positions beyond a node's dims, all columns."""
    return len(node.reduced) if isinstance(node, Max) else 0


def _positions(node: Einsum) -> dict[int, bool]:
    return {p: False for operand in node.operands for p in operand.at}


def _depends(order: list[Node], source: Any) -> set[int]:
    """Numbers of the nodes that read a node for which `source` holds."""
    found: set[int] = set()
    for node in order:
        if source(node) or any(child.number in found for child in operands(node)):
            found.add(node.number)
    return found
