"""Questions about where things are used in a typed energy."""

from __future__ import annotations

from collections.abc import Iterator

from cemc.oracle.model import children
from cemc.semantics.typed import Access, Assign, Axis, Call, Condition, Energy, Expr, Subscripted


def walk(expr: Expr | Condition) -> Iterator[Expr | Condition]:
    """An expression or condition with everything below it."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def expressions(energy: Energy) -> Iterator[Expr | Condition]:
    """Everything in the energy's definitions and its update."""
    for definition in energy.definitions.values():
        yield from walk(definition.body)
    for statement in energy.update.statements:
        yield from walk(statement.value if isinstance(statement, Assign) else statement.definition.body)


def rotated_axes(energy: Energy) -> set[str]:
    """Names of the axes that rope rotates."""
    found = set()
    for expr in expressions(energy):
        if isinstance(expr, Call) and expr.function == "rope":
            found.add(expr.arguments[0].shape[-1].name)
    return found


def axes_subscripted_by(energy: Energy, given: str) -> set[Axis]:
    """The axes whose subscripts read the integer given."""
    found = set()
    for expr in expressions(energy):
        if isinstance(expr, Subscripted):
            axes = expr.base.shape
        elif isinstance(expr, Access) and expr.subscripts:
            axes = _axes_of(energy, expr.name)
        else:
            continue
        for subscript, axis in zip(expr.subscripts, axes, strict=False):
            if any(isinstance(part, Access) and part.name == given for part in walk(subscript)):
                found.add(axis)
    return found


def _axes_of(energy: Energy, name: str) -> tuple[Axis, ...]:
    for statement in energy.update.statements:
        if not isinstance(statement, Assign) and statement.definition.name == name:
            return statement.definition.axes
    return energy.axes_of(name)
