"""Values that depend on a row and a column, a pair, and how many times all rows must be there before them.

What is made of pairs and wanted along columns, summed over rows, or read by a kernel, is there only when every row is
computed. So pairs come in stages: those of one stage can be computed by blocks of rows together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cemc.program.graph import operands
from cemc.program.kernel_nodes import Pairs
from cemc.program.nodes import Cached, Einsum, Node, OverRows, Recent
from cemc.program.window import Role

Roles = tuple[Role, ...]


@dataclass(frozen=True)
class Stages:
    """`stage`: of each node, by number. `pairs`: the pairs. `below`: pairs, nodes that read one, and nodes that depend
    on such of their own stage. `taken`: rows taken out of values of all columns, and pairs made of such."""

    taken: frozenset[int]
    stage: Mapping[int, int]
    pairs: frozenset[int]
    below: frozenset[int]


def stages(order: Iterable[Node], roles: Mapping[int, Roles], runtime: frozenset[str]) -> Stages:
    """The stages of nodes in `order`, operands before users. Columns are over any of the `runtime` axes."""
    stage: dict[int, int] = {}
    pairs: set[int] = set()
    below: set[int] = set()
    taken: set[int] = set()
    for node in order:
        own = max((stage[child.number] for child in operands(node)), default=0)
        depends = any(
            child.number in pairs or (stage[child.number] == own and child.number in below) for child in operands(node)
        )
        if depends and isinstance(node, (Cached, OverRows, Pairs)):
            own, depends = own + 1, False
        stage[node.number] = own
        if is_pair(node, roles.get(node.number, ()), runtime):
            pairs.add(node.number)
            depends = True
            if any(child.number in taken for child in operands(node)):
                taken.add(node.number)
        elif _is_taken(node, roles.get(node.number, ())):
            taken.add(node.number)
        if depends:
            below.add(node.number)
    return Stages(frozenset(taken), stage, frozenset(pairs), frozenset(below))


def is_pair(node: Node, roles: Roles, runtime: frozenset[str]) -> bool:
    """Whether a node has a row and a column, and can be computed for some of the rows."""
    row = any(role is True for role in roles)
    column = any(axis in runtime and role is not True for axis, role in zip(node.dims, roles, strict=False))
    return row and column and not _is_taken(node, roles)


def _is_taken(node: Node, roles: Roles) -> bool:
    """Whether a node takes rows out of a value of all columns: these are not there for a block of rows alone."""
    return isinstance(node, Recent) and roles[node.axis] is True


@dataclass(frozen=True)
class Turner:
    """Says which sums of pairs over columns are better sums over rows: those of pairs that are computed the other way
    round anyway, at an earlier stage, or in the order rows, columns; and those of pairs that cannot be computed for
    some rows alone. `known`: the split nodes, by the number of what
    they are made of and the roles asked for; `stages`: theirs."""

    stages: Stages
    known: Mapping[tuple[int, Roles], Node]

    def turned(self, node: Einsum, frame: Roles) -> int | None:
        """The frame position to take as rows instead, all others being columns; None for none."""
        rows = [p for p in node.output if frame[p] is True]
        if len(rows) != 1:
            return None
        best, found = self._cost(node, frame, rows[0], rows[0]), None
        summed = [p for p in range(len(frame)) if p not in node.output]
        current = (self.known.get((o.node.number, tuple(frame[p] for p in o.at))) for o in node.operands)
        if any(value is not None and value.number in self.stages.taken for value in current):
            axes = {p: axis for o in node.operands for p, axis in zip(o.at, o.node.dims, strict=True)}
            return next((p for p in summed if axes.get(p) == axes[rows[0]]), None)
        for position in summed:
            if best is not None:
                cost = self._cost(node, frame, rows[0], position)
                if cost is not None and cost < best:
                    best, found = cost, position
        return found

    def _cost(self, node: Einsum, frame: Roles, old: int, new: int) -> tuple[int, tuple[int, ...]] | None:
        """What pairs cost whose rows are at `new`, their columns at `old`: the stage, and where their rows are; None
        where they are not known, or there are none."""
        roles = tuple(p == new if p in (old, new) else role for p, role in enumerate(frame))
        pairs = [o for o in node.operands if old in o.at and (new in o.at or new == old)]
        values = [self.known.get((o.node.number, tuple(roles[p] for p in o.at))) for o in pairs]
        numbers = [value.number for value in values if value is not None]
        if len(numbers) < len(pairs) or not self.stages.pairs.intersection(numbers):
            return None
        return max(self.stages.stage[n] for n in numbers), tuple(o.at.index(new) for o in pairs)
