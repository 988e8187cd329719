"""Conditions in index notation. A comparison that reads outside an axis, in a subscript of its own, is false."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cemc.notation.nodes import ZERO, AnyOf, AxisSize, Expr, all_of, compare, negation
from cemc.notation.walk import is_plain
from cemc.semantics import typed

if TYPE_CHECKING:
    from cemc.symbolic.build import Builder, Scope


def condition(builder: Builder, written: typed.Condition, scope: Scope) -> Expr:
    """A truth. A comparison that reads outside an axis, in a subscript of its own, is false."""
    if isinstance(written, typed.And):
        return all_of(*(condition(builder, c, scope) for c in written.operands))
    if isinstance(written, typed.Or):
        return AnyOf(*(condition(builder, c, scope) for c in written.operands))
    assert isinstance(written, typed.Compare)
    left, right = builder.scalar(written.left, (), scope), builder.scalar(written.right, (), scope)
    inside = [truth for side in (written.left, written.right) for truth in _inside(builder, side, scope)]
    operator = written.operator
    if operator in (">", ">="):
        operator, left, right = ("<" if operator == ">" else "<="), right, left
    return all_of(*inside, compare(operator, left, right))


def _inside(builder: Builder, expr: typed.Expr, scope: Scope) -> list[Expr]:
    """Truths that say that what stands in `expr` is read inside its axes. What a reduction reads at its own
    indices does not count, nor what a function is called with from outside."""
    match expr:
        case typed.Access() | typed.Subscripted() | typed.Gradient():
            if isinstance(expr, typed.Subscripted):
                axes: tuple[str, ...] = tuple(axis.name for axis in expr.base.shape)
                truths = _inside(builder, expr.base, scope)
            else:
                axes = builder.axes(expr.name if isinstance(expr, typed.Access) else expr.wrt)
                truths = []
            places = builder.subscripts(expr.subscripts, axes, scope)
            for written, place, axis in zip(expr.subscripts, places, axes, strict=False):
                truths += _inside(builder, written, scope)
                if not is_plain(place):
                    truths += [compare("<=", ZERO, place), compare("<", place, AxisSize(axis))]
            return truths
        case typed.Where():
            then, otherwise = _inside(builder, expr.then, scope), _inside(builder, expr.otherwise, scope)
            if not then and not otherwise:
                return []
            holds = condition(builder, expr.condition, scope)
            return [AnyOf(all_of(holds, *then), all_of(negation(holds), *otherwise))]
        case typed.Negative() | typed.Transpose() | typed.Held() | typed.Integral():
            return _inside(builder, expr.operand, scope)
        case typed.Binary() | typed.MatMul():
            return _inside(builder, expr.left, scope) + _inside(builder, expr.right, scope)
        case typed.Call() | typed.UserCall():
            return [truth for argument in expr.arguments for truth in _inside(builder, argument, scope)]
    return []
