"""The declarations of an energy: names into the table, axes resolved."""

from __future__ import annotations

from dataclasses import dataclass, field

from cemc.diagnostics import Diagnostic, line_of
from cemc.diagnostics.energies import SecondUpdate
from cemc.diagnostics.names import (
    Duplicate,
    HidesBuiltin,
    Predeclared,
    RuntimeAxisOfParameter,
    Taken,
    UnknownAxis,
)
from cemc.diagnostics.syntax import ReservedName
from cemc.operations.signatures import SIGNATURES
from cemc.semantics.advice import of_axis
from cemc.semantics.names import RESERVED, why_taken
from cemc.semantics.table import Declared, Kind, Table, a
from cemc.semantics.typed import Axis
from cemc.source import Source, Span
from cemc.syntax import tree

TOKEN = Axis("token", True)
SHOWN = ("header name", "constant", "state", "given", "parameter")
"""Kinds whose names show on the generated class."""


@dataclass(eq=False, repr=False)
class Declarations:
    """The nodes of an energy by kind, each name's first declaration only."""

    table: Table = field(default_factory=Table)
    runtime_axes: list[Axis] = field(default_factory=lambda: [TOKEN])
    header: list[tree.HeaderName] = field(default_factory=list)
    states: list[tree.StateDeclaration] = field(default_factory=list)
    givens: list[tree.GivenDeclaration] = field(default_factory=list)
    parameters: list[tree.ParameterDeclaration] = field(default_factory=list)
    constants: list[tree.ConstantDeclaration] = field(default_factory=list)
    functions: list[tree.FunctionDeclaration] = field(default_factory=list)
    definitions: list[tree.DefinitionStatement] = field(default_factory=list)
    update: tree.UpdateBlock | None = None


def declare(node: tree.EnergyDeclaration, source: Source, errors: list[Diagnostic]) -> Declarations:
    return _Declare(source, errors).run(node)


class _Declare:
    def __init__(self, source: Source, errors: list[Diagnostic]) -> None:
        self.source = source
        self.errors = errors
        self.result = Declarations()
        self.table = self.result.table

    def run(self, node: tree.EnergyDeclaration) -> Declarations:
        result, table = self.result, self.table
        table.declared["token"] = Declared("axis", "token", Span(0, 0), used=True)
        table.axes["token"] = TOKEN
        for name in node.header:
            if self._add("header name", name.name):
                table.axes[name.name.text] = Axis(name.name.text, False)
                result.header.append(name)
        for item in node.items:
            self._item(item)
        self._lost(node)
        for state in result.states:
            table.declared[state.name.text].axes = self._axes(state)
        for given in result.givens:
            table.declared[given.name.text].axes = self._axes(given)
        for parameter in result.parameters:
            table.declared[parameter.name.text].axes = self._axes(parameter)
        return result

    def _lost(self, node: tree.EnergyDeclaration) -> None:
        """What unreadable statements may have declared and used, so that nothing more is said about it."""
        statements = self.result.update.statements if self.result.update is not None else ()
        unreadable = [item for item in (*node.items, *statements) if isinstance(item, tree.Unreadable)]
        self.table.lost_everything = bool(unreadable)
        for name in (name for item in unreadable for name in item.names):
            known = self.table.declared.setdefault(name, Declared("lost", name, node.span))
            known.used = True

    def _item(self, item: tree.Item) -> None:
        result = self.result
        if isinstance(item, tree.AxisDeclaration):
            if self._add("axis", item.name):
                axis = Axis(item.name.text, True)
                self.table.axes[axis.name] = axis
                result.runtime_axes.append(axis)
        elif isinstance(item, tree.StateDeclaration):
            if self._add("state", item.name):
                result.states.append(item)
        elif isinstance(item, tree.GivenDeclaration):
            if self._add("given", item.name):
                self.table.declared[item.name.text].integer = item.integer
                result.givens.append(item)
        elif isinstance(item, tree.ParameterDeclaration):
            if self._add("parameter", item.name):
                result.parameters.append(item)
                if item.positive:
                    self._raw(item.name)
        elif isinstance(item, tree.ConstantDeclaration):
            if self._add("constant", item.name):
                result.constants.append(item)
        elif isinstance(item, tree.FunctionDeclaration):
            if self._add("function", item.name):
                self.table.declared[item.name.text].arity = len(item.arguments)
                result.functions.append(item)
        elif isinstance(item, tree.DefinitionStatement):
            if self._add("definition", item.name):
                result.definitions.append(item)
        elif isinstance(item, tree.UpdateBlock):
            if result.update is None:
                result.update = item
            else:
                line = line_of(self.source, result.update.span)
                self.errors.append(SecondUpdate(item.keyword, line, suggestion="one block may hold several statements"))

    def _add(self, kind: Kind, name: tree.Name) -> bool:
        """Enters a name; False where an earlier one has it. Other faults of the name are reported, and it counts."""
        text = name.text
        instead = f"write `{text}_`"
        if text == "token":
            self.errors.append(Predeclared(name.span))
            return False
        known = self.table.find(text)
        if known is not None:
            line = line_of(self.source, known.span)
            self.errors.append(Duplicate(name.span, text, _the(known.kind), line))
            return False
        if text in RESERVED:
            self.errors.append(ReservedName(name.span, text, suggestion=instead))
        elif text in SIGNATURES:
            self.errors.append(HidesBuiltin(name.span, text, suggestion=instead))
        elif kind in SHOWN and (why := why_taken(text) or self._why_raw(text)):
            advice = None if text.startswith("__") else instead
            self.errors.append(Taken(name.span, text, a(kind), why, suggestion=advice))
        self.table.declared[text] = Declared(kind, text, name.span)
        return True

    def _why_raw(self, text: str) -> str | None:
        positive = self.table.raw.get(text)
        return f"where the positive parameter `{positive.name}` is kept" if positive is not None else None

    def _raw(self, name: tree.Name) -> None:
        """`layer.p_raw` is where a positive parameter `p` is kept, so the name is taken."""
        text = f"{name.text}_raw"
        known = self.table.find(text)
        if known is None:
            self.table.raw[text] = Declared("parameter", name.text, name.span)
        elif known.kind in SHOWN:
            self.table.raw[text] = Declared("parameter", name.text, name.span)
            why = self._why_raw(text) or ""
            self.errors.append(Taken(known.span, text, a(known.kind), why, suggestion=f"write `{text}_`"))

    def _axes(
        self, declaration: tree.StateDeclaration | tree.GivenDeclaration | tree.ParameterDeclaration
    ) -> tuple[Axis, ...] | None:
        axes: list[Axis] = []
        right = True
        for name in declaration.axes:
            axis = self.table.axes.get(name.text)
            declared = self.table.find(name.text)
            if declared is not None:
                declared.used = True
            if axis is None:
                right = False
                if declared is None or declared.kind != "lost":
                    first = name == declaration.axes[0] and not isinstance(declaration, tree.ParameterDeclaration)
                    self._unknown_axis(name, declared, first)
            elif axis.runtime and isinstance(declaration, tree.ParameterDeclaration):
                right = False
                advice = "what comes with each call is `given`" if axis != TOKEN else None
                self.errors.append(RuntimeAxisOfParameter(name.span, axis.name, suggestion=advice))
            else:
                axes.append(axis)
        return tuple(axes) if right else None

    def _unknown_axis(self, name: tree.Name, declared: Declared | None, first: bool) -> None:
        advice = of_axis(name.text, list(self.table.axes), declared, first)
        self.errors.append(UnknownAxis(name.span, name.text, suggestion=advice))


def _the(kind: Kind) -> str:
    return "an axis" if kind == "axis" else f"the {kind}"
