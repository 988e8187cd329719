"""Header names: positive integers, whose defaults use earlier ones."""

from __future__ import annotations

from collections.abc import Iterator

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.names import BadSize, NotEarlier
from cemc.semantics.context import is_poison
from cemc.semantics.numbers import exact, number
from cemc.semantics.order import mentioned
from cemc.semantics.table import Table
from cemc.semantics.typed import Binary, Expr, HeaderName, Negative
from cemc.syntax import tree

_LARGEST = 2**31 - 1


def header(nodes: list[tree.HeaderName], table: Table, errors: list[Diagnostic]) -> dict[str, HeaderName]:
    result: dict[str, HeaderName] = {}
    names = [node.name.text for node in nodes]
    for place, node in enumerate(nodes):
        default = None
        if node.default is not None:
            late = next((name for name in mentioned(node.default) if name.text in names[place:]), None)
            if late is not None:
                errors.append(NotEarlier(late.span, late.text))
            else:
                default = number(node.default, "the default of a header name", table, errors, header=True)
                if not is_poison(default):
                    errors += _size_faults(default)
        result[node.name.text] = HeaderName(node.name.text, default, node.span)
    return result


def _size_faults(default: Expr) -> Iterator[Diagnostic]:
    """What is wrong whatever the other sizes are."""
    for part in _divisions(default):
        left, right = exact(part.left), exact(part.right)
        if right == 0:
            yield BadSize(part.span, "this divides by 0")
            return
        if left is not None and right is not None and (left / right).denominator != 1:
            yield BadSize(part.span, "`/` in a header must divide exactly")
            return
    value = exact(default)
    if value is None:
        return
    if value.denominator != 1 or value <= 0:
        yield BadSize(
            default.span,
            f"a size is a positive whole number, and this is {value if value.denominator == 1 else float(value)}",
        )
    elif value > _LARGEST:
        yield BadSize(default.span, f"a size is at most {_LARGEST}")


def _divisions(expression: Expr) -> Iterator[Binary]:
    if isinstance(expression, Negative):
        yield from _divisions(expression.operand)
    elif isinstance(expression, Binary):
        yield from _divisions(expression.left)
        yield from _divisions(expression.right)
        if expression.operator == "/":
            yield expression
