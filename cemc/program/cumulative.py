"""Sums over all entries up to, or from, another one: `sum[l <= i](f[l])` is a cumulative sum, not a sum for each i."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cemc.notation.nodes import ZERO, Compare, Expr, IndexSymbol, Select, all_of, conjuncts
from cemc.notation.walk import postorder
from cemc.program import nodes
from cemc.program.contract import contract
from cemc.program.values import Value, Values, axes, frame_of


@dataclass(frozen=True)
class Order:
    """`condition` says that `inner` runs up to `outer`, or from it on if `reverse`; without it if `exclusive`. `rest`:
    the conditions beside this one, which do not mention `outer`."""

    condition: Compare
    inner: IndexSymbol
    outer: IndexSymbol
    reverse: bool
    exclusive: bool
    rest: tuple[Expr, ...]


def order_of(conditions: Sequence[Expr], indices: Sequence[IndexSymbol]) -> Order | None:
    """The comparison that makes a sum over `indices` cumulative; None where there is none, or more than that tells
    them apart from an index outside."""
    for condition in conditions:
        if not isinstance(condition, Compare) or condition.operator not in ("<", "<="):
            continue
        left, right = condition.args[1:]
        if not (isinstance(left, IndexSymbol) and isinstance(right, IndexSymbol)) or left.axis != right.axis:
            continue
        if (left in indices) == (right in indices):
            continue
        inner, outer = (left, right) if left in indices else (right, left)
        rest = tuple(other for other in conditions if other is not condition)
        if not any(outer in postorder(other) for other in rest):
            return Order(condition, inner, outer, inner is right, condition.operator == "<", rest)
    return None


def without(factor: Expr, order: Order) -> Expr:
    """A factor that is masked by the order itself, which the sum knows anyway, without that mask.

    A mask keeps a pole from meeting a 0. Here no entry meets a 0 that it does not meet in some sum; but for the last
    one where each sum is without its own."""
    if order.exclusive or not isinstance(factor, Select) or factor.args[2] != ZERO:
        return factor
    truth, then, _ = factor.args
    rest = [part for part in conjuncts(truth) if part != order.condition]
    return Select(all_of(*rest), then, ZERO) if rest else then


def cumulative(
    values: Values, order: Order, factors: Sequence[Value], indices: Sequence[IndexSymbol], size: Callable[[str], int]
) -> Value | None:
    """The sum over `indices` of the product of `factors`, masked by all but the order; None where what is summed
    depends on the outer index as well."""
    outside = [f for f in factors if not set(f.labels) & set(indices)]
    summed = [f for f in factors if set(f.labels) & set(indices)]
    present = set(frame_of(summed))
    if order.outer in present:
        return None
    summed += [values.size(s.axis) for s in indices if s not in present and s != order.inner]
    output = tuple(s for s in frame_of(summed) if s == order.inner or s not in set(indices))
    if order.inner in present:
        total = _sums(values, order, contract(values, summed, output, size))
    else:
        # What does not vary is as often there as there are entries.
        total = contract(values, [*summed, _count(values, order)], (*output, order.outer), size)
    return contract(values, [total, *outside], frame_of([total, *outside]), size)


def _sums(values: Values, order: Order, terms: Value) -> Value:
    made = values.graph.make(
        nodes.CumulativeSum, dims=axes(terms.labels), batched=terms.node.batched, kind="real", operand=terms.node,
        axis=terms.labels.index(order.inner), reverse=order.reverse, exclusive=order.exclusive,
    )  # fmt: skip
    return Value(made, tuple(order.outer if s == order.inner else s for s in terms.labels))


def _count(values: Values, order: Order) -> Value:
    """How many entries there are up to the outer one, or from it on."""
    position = values.positions(order.outer)
    parts = [position]
    if order.reverse:
        parts = [values.size(order.outer.axis), values.map("mul", [values.number(-1), position])]
    # Up to i there are i + 1 of them, without itself i; from i on n - i, without itself n - i - 1.
    more = int(not order.exclusive) if not order.reverse else -int(order.exclusive)
    if more:
        parts.append(values.number(more))
    return values.real(parts[0] if len(parts) == 1 else values.map("add", parts))
