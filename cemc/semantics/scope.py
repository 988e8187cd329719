"""Index variables while their axes are being inferred."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.shapes import ManyAxes, NoAxis, TwoAxes
from cemc.semantics.typed import Access, Axis, Compare, Condition, Expr, Index, Position, Subscripted
from cemc.source import Span

UNKNOWN = Axis("?", False)


@dataclass(eq=False, repr=False)
class Variable:
    """An index variable. `index` is what typed expressions hold until `settle` puts the one with its axis in its place.
    `silent`: an error has been reported, and nothing more is said about it."""

    index: Index
    span: Span
    axis: Axis | None = None
    line: int = 0
    silent: bool = False

    @property
    def name(self) -> str:
        return self.index.name


@dataclass(eq=False, repr=False)
class Scope:
    """The index variables of one definition or statement: `visible` now, and `all` ever bound in it."""

    visible: dict[str, Variable] = field(default_factory=dict)
    all: dict[int, Variable] = field(default_factory=dict)
    comparisons: list[Compare] = field(default_factory=list)
    hints: dict[int, Axis] = field(default_factory=dict)
    """Axes that indices subscript in computed subscripts: no more than a guess, for suggestions."""

    def bind(self, variable: Variable) -> None:
        self.visible[variable.name] = variable
        self.all[variable.index.number] = variable

    def constrain(self, index: Index, axis: Axis, span: Span, line: int) -> Diagnostic | None:
        """`index` subscripts `axis` at `span`."""
        variable = self.all[index.number]
        if variable.silent:
            return None
        if variable.axis is None:
            variable.axis, variable.line = axis, line
        elif variable.axis != axis:
            return TwoAxes(span, variable.name, variable.axis.name, variable.line, axis.name)
        return None

    def hint(self, subscript: Expr, axis: Axis) -> None:
        for number in positions(subscript):
            self.hints.setdefault(number, axis)

    def settle_axes(self) -> list[Diagnostic]:
        """Gives indices that subscript nothing the axis of what they are compared with; what is left is an error."""
        errors: list[Diagnostic] = []
        open_ = [each for each in self.all.values() if each.axis is None and not each.silent]
        progress = True
        while open_ and progress:
            progress = False
            for variable in list(open_):
                partners = [self.all[number] for number in self._partners(variable)]
                axes = {each.axis for each in partners if each.axis is not None}
                if any(each.silent for each in partners):
                    variable.silent = True
                elif len(axes) == 1:
                    variable.axis = axes.pop()
                elif len(axes) > 1:
                    names = ", ".join(sorted(f"`{axis.name}`" for axis in axes))
                    errors.append(ManyAxes(variable.span, variable.name, names, suggestion=self._say(variable)))
                    variable.silent = True
                else:
                    continue
                open_.remove(variable)
                progress = True
        for variable in open_:
            variable.silent = True
            errors.append(NoAxis(variable.span, variable.name, suggestion=self._say(variable)))
        return errors

    def _partners(self, variable: Variable) -> set[int]:
        found: set[int] = set()
        for comparison in self.comparisons:
            numbers = {number for side in (comparison.left, comparison.right) for number in positions(side)}
            if variable.index.number in numbers:
                found |= numbers
        return found - {variable.index.number}

    def _say(self, variable: Variable) -> str:
        axis = self.hints.get(variable.index.number)
        return f"say over which axis: `{variable.name} in {axis.name if axis else '…'}`"

    def settled(self) -> dict[int, Index]:
        return {number: replace(variable.index, axis=variable.axis or UNKNOWN) for number, variable in self.all.items()}


def positions(expression: Expr) -> set[int]:
    """The indices that stand in an expression as numbers, outside subscripts."""
    if isinstance(expression, Position):
        return {expression.index.number}
    if isinstance(expression, (Access, Subscripted)):
        return set()
    found: set[int] = set()
    for each in fields(expression):
        value = getattr(expression, each.name)
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Expr):
                found |= positions(part)
    return found


def settle(value: Any, indices: dict[int, Index]) -> Any:
    """The same typed expression with every provisional index replaced by the one that has its axis."""
    if isinstance(value, Index):
        return indices.get(value.number, value)
    if isinstance(value, tuple):
        parts = tuple(settle(part, indices) for part in value)
        return value if all(new is old for new, old in zip(parts, value, strict=True)) else parts
    if isinstance(value, (Expr, Condition)):
        changes = {}
        for each in fields(value):
            if each.name not in ("span", "shape"):
                old = getattr(value, each.name)
                new = settle(old, indices)
                if new is not old:
                    changes[each.name] = new
        return replace(value, **changes) if changes else value
    return value
