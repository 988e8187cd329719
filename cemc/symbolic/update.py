"""The symbolic energy: tables for what the update block assigns and for the energies it names, gradients included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from cemc.notation.nodes import ONE, IndexSymbol, sum_over
from cemc.semantics import typed
from cemc.symbolic.build import Builder, Scope
from cemc.symbolic.differentiate import Differentiator
from cemc.symbolic.guard import guard
from cemc.symbolic.normalise import normalise
from cemc.symbolic.tables import Table, Tables


@dataclass(frozen=True)
class Statement:
    """An assignment to `state` (None: a local definition) of the values of `table`."""

    state: str | None
    table: str


@dataclass(frozen=True)
class SymbolicEnergy:
    """What the later stages read. `gradients`: (with respect to, energy as written, table) of each gradient, in
    order."""

    energy: typed.Energy
    tables: Tables
    statements: tuple[Statement, ...]
    energies: tuple[str, ...]
    gradients: tuple[tuple[str, str, str], ...]


class _UpdateBuilder(Builder):
    def __init__(self, energy: typed.Energy) -> None:
        super().__init__(energy)
        self._differentiator = Differentiator(self.tables, self._labelled_axes)
        self._gradients: dict[tuple[str, str], str] = {}

    def gradient(self, expr: typed.Gradient) -> str:
        if isinstance(expr.energy, typed.Access):
            text = expr.energy.name
        else:
            text = " ".join(self.energy.source.text[expr.energy.span.start : expr.energy.span.end].split())
        key = (expr.wrt, text)
        if key not in self._gradients:
            scope, points = self._points(expr.energy)
            total = sum_over(self.scalar(expr.energy, points, scope), ONE, points)
            self._gradients[key] = self._differentiator.gradient(total, expr.wrt, f"grad_{expr.wrt}")
        return self._gradients[key]

    def _labelled_axes(self, name: str) -> list[tuple[str, str]]:
        return [(axis.name if axis.runtime else "", axis.name) for axis in self.energy.axes_of(name)]

    def _points(self, energy: typed.Expr) -> tuple[Scope, tuple[IndexSymbol, ...]]:
        """Symbols for the axes of an energy, named as its definition names them."""
        names = [axis.name if axis.runtime else "" for axis in energy.shape]
        if isinstance(energy, typed.Access) and energy.name in self.tables:
            names = [symbol.name for symbol in self.tables[energy.name].indices]
        points = (self.tables.index(name, axis.name) for name, axis in zip(names, energy.shape, strict=True))
        return Scope({}, {}), tuple(points)

    def build(self) -> SymbolicEnergy:
        statements: list[Statement] = []
        for statement in self.energy.update.statements:
            if isinstance(statement, typed.Local):
                statements.append(Statement(None, self.define(statement.definition, "local").name))
            else:
                statements.append(Statement(statement.state, self._assignment(statement).name))
        energies = tuple(dict.fromkeys(name for name in self._energies() if name in self.energy.definitions))
        gradients = tuple((wrt, text, table) for (wrt, text), table in self._gradients.items())
        roots = [s.table for s in statements] + list(energies) + [table for _, _, table in gradients]
        normalise(self.tables, roots)
        guard(self.tables, roots)
        return SymbolicEnergy(self.energy, self.tables, tuple(statements), energies, gradients)

    def _assignment(self, statement: typed.Assign) -> Table:
        scope, indices = self.open(statement.indices, statement.value.shape)
        body = self.scalar(statement.value, indices[len(statement.indices) :], scope)
        name = self.tables.fresh_name(f"new {statement.state}")
        return self.tables.add(Table(name, indices, body, "assignment", statement.state))

    def _energies(self) -> Iterator[str]:
        """Names of the definitions inside the energies of all gradients."""
        for statement in self.energy.update.statements:
            body = statement.definition.body if isinstance(statement, typed.Local) else statement.value
            for node in _typed_nodes(body):
                if isinstance(node, typed.Gradient):
                    for part in _typed_nodes(node.energy):
                        if isinstance(part, typed.Access):
                            yield part.name


def _typed_nodes(root: object) -> Iterator[object]:
    """Every typed expression and condition under `root`, in order of the text."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, (typed.Expr, typed.Condition)):
            yield node
            stack.extend(getattr(node, field.name) for field in reversed(fields(node)))
        elif isinstance(node, tuple):
            stack.extend(reversed(node))


def build(energy: typed.Energy) -> SymbolicEnergy:
    """Symbolic form of `energy`: built, differentiated, normalised."""
    return _UpdateBuilder(energy).build()
