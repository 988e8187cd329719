"""Differences of what varies with one index and what varies with another: `q_i - u_j`, a vector for each pair.

Squared and summed over the vector they are distances, which need no vector for each pair. Nor does a sum over j of
pairs times differences, which is that times q_i less a sum of u_j. Distances stay sums of squared differences, and are
not made of norms and an inner product: those cancel where vectors are long and near each other, so that in float32 the
distance of a vector from itself is 1e-7 times its squared norm and not 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations

from cemc.program.graph import Graph, in_order, operands
from cemc.program.nodes import Align, Distance, Einsum, Map, Node, Number, Operand
from cemc.program.rewrite import rewrite


@dataclass(frozen=True)
class _Difference:
    """`left` less `right`; `left` does not vary along position `column`, `right` not along `row`."""

    left: Operand
    right: Operand
    row: int
    column: int


def without_differences(step: Mapping[str, Node], graph: Graph) -> dict[str, Node] | None:
    """The step with distances, and with sums of differences as differences of sums; None where there are none."""
    order = in_order(step.values())
    users: dict[int, list[Node]] = {}
    for node in order:
        for child in dict.fromkeys(operands(node)):
            users.setdefault(child.number, []).append(node)
    outputs = {node.number for node in step.values()}
    made: dict[int, Node] = {}
    for node in order:
        for found in _differences(node, graph):
            new = {}
            for user in _readers(node, users):
                value = None if user.number in outputs else _replaced(user, node, found, graph)
                if value is None:
                    break
                new[user.number] = value
            else:
                if new and node.number not in outputs:
                    made |= new
                    break
    return rewrite(dict(step), lambda node: made.get(node.number), graph) if made else None


def _readers(node: Node, users: Mapping[int, list[Node]]) -> Iterator[Node]:
    """What reads a node, through its square."""
    for user in users.get(node.number, []):
        if _is_square(user, node):
            yield from users.get(user.number, [])
        else:
            yield user


# ------------------------------------------------------------------------------------------------------- differences


def _differences(node: Node, graph: Graph) -> Iterator[_Difference]:
    """The ways to read a sum as a difference of two that do not vary alike; of vectors, so with a third dimension."""
    if not isinstance(node, Map) or node.operation != "add" or len(node.dims) < 3:
        return
    for row, column in permutations(range(len(node.dims)), 2):
        left = [o for o in node.operands if column not in o.at]
        right = [o for o in node.operands if column in o.at]
        if right and any(row in o.at for o in left) and not any(row in o.at for o in right):
            negative = [_negated(o, graph) for o in right]
            yield _Difference(_added(left, node, graph), _added(negative, node, graph), row, column)


def _added(parts: Sequence[Operand], whole: Node, graph: Graph) -> Operand:
    """The sum of some addends of `whole`, placed in it."""
    if len(parts) == 1:
        return parts[0]
    at = sorted({p for part in parts for p in part.at})
    node = graph.make(
        Map, dims=tuple(whole.dims[p] for p in at), batched=any(part.node.batched for part in parts), kind="real",
        operation="add", operands=tuple(Operand(o.node, tuple(at.index(p) for p in o.at)) for o in parts),
        function=None,
    )  # fmt: skip
    return Operand(node, tuple(at))


def _negated(operand: Operand, graph: Graph) -> Operand:
    node = operand.node
    if isinstance(node, Map) and node.operation == "mul" and len(node.operands) == 2:
        first, second = node.operands
        if isinstance(first.node, Number) and first.node.value == -1:
            return Operand(second.node, tuple(operand.at[p] for p in second.at))
    return Operand(_minus(node, graph), operand.at)


def _minus(node: Node, graph: Graph) -> Node:
    one = graph.make(Number, dims=(), batched=False, kind="integer", value=Fraction(-1))
    operands = (Operand(one, ()), Operand(node, tuple(range(len(node.dims)))))
    return graph.make(
        Map, dims=node.dims, batched=node.batched, kind="real", operation="mul", operands=operands, function=None
    )


def _is_square(user: Node, node: Node) -> bool:
    if not isinstance(user, Map) or any(o.at != tuple(range(len(node.dims))) for o in user.operands if o.node is node):
        return False
    if user.operation == "mul":
        return len(user.operands) == 2 and all(o.node is node for o in user.operands)
    if user.operation == "pow":
        exponent = user.operands[1].node
        return user.operands[0].node is node and isinstance(exponent, Number) and exponent.value == 2
    return user.operation == "square"


# ---------------------------------------------------------------------------------------------- what takes their place


def _replaced(user: Node, node: Node, found: _Difference, graph: Graph) -> Node | None:
    """What computes `user`, a sum of products, without the difference `node`; None where nothing does."""
    if not isinstance(user, Einsum):
        return None
    own = [o for o in user.operands if o.node is node]
    squares = [o for o in user.operands if _is_square(o.node, node)]
    if len(user.operands) == len(own) + len(squares):
        twice = len(own) == 2 and not squares and own[0].at == own[1].at
        once = len(squares) == 1 and not own
        return _distance(user, (own or squares)[0].at, node, found, graph) if twice or once else None
    return _split(user, own[0], found, graph) if len(own) == 1 and not squares else None


def _distance(user: Einsum, at: tuple[int, ...], node: Node, found: _Difference, graph: Graph) -> Node | None:
    """The squared distance that `user` is: the sum of the squares of `node`, which is placed `at` its frame."""
    summed = [p for p in range(len(node.dims)) if at[p] not in user.output]
    sides = (found.left, found.right)
    if len(summed) != 1 or summed[0] in (found.row, found.column) or any(summed[0] not in s.at for s in sides):
        return None
    shared = [p for p in range(len(node.dims)) if p not in (found.row, found.column, *summed)]
    frame = [*shared, found.row, found.column, *summed]
    query, key = (Operand(s.node, tuple(frame.index(p) for p in s.at)) for s in sides)
    distance = graph.make(
        Distance, dims=tuple(node.dims[p] for p in frame[:-1]), batched=node.batched, kind="real", query=query, key=key,
        hint=user.hint,
    )  # fmt: skip
    places = tuple(user.output.index(at[p]) for p in frame[:-1])
    if places == tuple(range(len(places))):
        return distance
    return graph.make(Align, dims=user.dims, batched=node.batched, kind="real", operand=Operand(distance, places))


def _split(user: Einsum, own: Operand, found: _Difference, graph: Graph) -> Node | None:
    """A sum of products with a difference as the difference of two; worth it where the other factors vary with all that
    is summed."""
    others = [o for o in user.operands if o is not own]
    ends = {own.at[found.row], own.at[found.column]}
    if ends <= set(user.output) or not any(ends <= set(o.at) for o in others):
        return None
    terms = []
    for side in (found.left, found.right):
        placed = Operand(side.node, tuple(own.at[p] for p in side.at))
        term = _summed(user, [*others, placed], graph)
        if term is None:
            return None
        terms.append(term)
    left, right = terms
    return graph.make(
        Map, dims=user.dims, batched=user.batched, kind="real", operation="add", hint=user.hint,
        operands=(left, Operand(_minus(right.node, graph), right.at)), function=None,
    )  # fmt: skip


def _summed(user: Einsum, factors: Sequence[Operand], graph: Graph) -> Operand | None:
    """The sum of a product over the positions that `user` sums over, placed in its result: first of the factors that
    vary along these, then times the others."""
    summed = {p for o in user.operands for p in o.at} - set(user.output)
    inner = [o for o in factors if summed.intersection(o.at)]
    if {p for o in inner for p in o.at} & summed != summed:
        return None
    left = [p for p in user.output if any(p in o.at for o in inner)]
    frame = [*left, *sorted(summed)]
    axis = {p: o.node.dims[n] for o in factors for n, p in enumerate(o.at)}
    total = graph.make(
        Einsum, dims=tuple(axis[p] for p in left), batched=any(o.node.batched for o in inner), kind="real",
        operands=tuple(Operand(o.node, tuple(frame.index(p) for p in o.at)) for o in inner),
        output=tuple(range(len(left))),
    )  # fmt: skip
    outside = [Operand(total, tuple(left)), *(o for o in factors if not summed.intersection(o.at))]
    at = [p for p in user.output if any(p in o.at for o in outside)]
    place = tuple(user.output.index(p) for p in at)
    if len(outside) == 1:
        return Operand(total, place)
    product = graph.make(
        Map, dims=tuple(axis[p] for p in at), batched=any(o.node.batched for o in outside), kind="real",
        operation="mul", operands=tuple(Operand(o.node, tuple(at.index(p) for p in o.at)) for o in outside),
        function=None,
    )  # fmt: skip
    return Operand(product, place)
