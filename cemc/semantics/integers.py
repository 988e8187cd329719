"""Which expressions are integer-valued, as computed subscripts and rotary positions must be."""

from __future__ import annotations

from cemc.semantics.context import Context, Poison
from cemc.semantics.typed import Access, Binary, Expr, Negative, Number, Position, Size


def not_integer(expression: Expr, context: Context) -> Expr | None:
    """The part of an expression that keeps it from being integer-valued, if any."""
    if isinstance(expression, Number):
        return None if expression.value.denominator == 1 else expression
    if isinstance(expression, (Size, Position, Poison)):
        return None
    if isinstance(expression, Negative):
        return not_integer(expression.operand, context)
    if isinstance(expression, Binary) and expression.operator in ("+", "-", "*"):
        return not_integer(expression.left, context) or not_integer(expression.right, context)
    if isinstance(expression, Access):
        declared = context.table.find(expression.name)
        if declared is not None and declared.kind == "given" and declared.integer:
            return None
    return expression
