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
    for part in _parts(default):
        left, right = exact(part.left), exact(part.right)
        if part.operator == "^":
            if left is not None and right is not None and abs(left) > 1 and right > 0 and exact(part) is None:
                yield BadSize(part.span, f"a size is at most {_LARGEST}")
                return
        elif right == 0:
            yield BadSize(part.span, "this divides by 0")
            return
        elif left is not None and right is not None and (left / right).denominator != 1:
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


def _parts(expression: Expr) -> Iterator[Binary]:
    """The divisions and powers in an expression, the innermost first."""
    if isinstance(expression, Negative):
        yield from _parts(expression.operand)
    elif isinstance(expression, Binary):
        yield from _parts(expression.left)
        yield from _parts(expression.right)
        if expression.operator in ("/", "^"):
            yield expression
