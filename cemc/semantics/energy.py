"""One energy: declarations, numbers, functions, definitions, update, in this order."""

from __future__ import annotations

from itertools import count
from typing import cast

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.energies import OnlyInUpdate
from cemc.diagnostics.names import (
    BadStart,
    HidesBuiltin,
    MayStartNegative,
    NeedsStart,
    NoState,
    StartNotPositive,
    UnknownName,
)
from cemc.diagnostics.shapes import IndexHides, IndexTwice, NotElementwise
from cemc.diagnostics.syntax import ReservedName
from cemc.operations.signatures import SIGNATURES
from cemc.semantics import access, arithmetic, calls, gradients, reductions
from cemc.semantics.context import Context, describe, is_poison
from cemc.semantics.declare import Declarations, declare
from cemc.semantics.define import define
from cemc.semantics.dispatch import infer
from cemc.semantics.header import header
from cemc.semantics.integrands import not_finite
from cemc.semantics.names import RESERVED
from cemc.semantics.numbers import number, value
from cemc.semantics.order import in_order
from cemc.semantics.outside import reads_outside
from cemc.semantics.table import a, closest
from cemc.semantics.typed import (
    Axis,
    Constant,
    Definition,
    Energy,
    Function,
    Given,
    Normal,
    Parameter,
    State,
    Uniform,
    Update,
)
from cemc.semantics.unused import idle_indices, unused
from cemc.semantics.update import UpdateBuilder
from cemc.source import Source
from cemc.syntax import tree

RULES = (access, arithmetic, calls, gradients, reductions)
"""The modules whose rules `infer` uses; importing them registers the rules."""


def analyse_energy(
    node: tree.EnergyDeclaration, source: Source, errors: list[Diagnostic], warnings: list[Diagnostic]
) -> Energy:
    """The typed energy. It means nothing if errors were added."""
    before = len(errors)
    declarations = declare(node, source, errors)
    build = _Build(node, source, declarations, errors)
    energy = build.energy()
    if len(errors) == before and not declarations.table.lost_everything:
        warnings += build.warnings
        warnings += unused(energy, declarations.table)
        warnings += idle_indices(energy)
        warnings += reads_outside(energy)
        warnings += not_finite(energy, build.values)
    return energy


class _Build:
    def __init__(
        self, node: tree.EnergyDeclaration, source: Source, declarations: Declarations, errors: list[Diagnostic]
    ) -> None:
        self.node = node
        self.source = source
        self.declarations = declarations
        self.table = declarations.table
        self.errors = errors
        self.warnings: list[Diagnostic] = []
        self.numbers = count()
        self.values: dict[str, float | None] = {}

    def energy(self) -> Energy:
        names = header(self.declarations.header, self.table, self.errors)
        constants = self._constants()
        states = self._states()
        parameters = {each.name.text: self._parameter(each) for each in self.declarations.parameters}
        givens = {
            each.name.text: Given(each.name.text, self._axes(each.name.text), each.integer, each.span)
            for each in self.declarations.givens
        }
        functions = self._functions()
        before = len(self.errors)
        definitions = self._definitions()
        self._only_in_update(before)
        update = self._update(states, definitions)
        return Energy(
            self.node.name.text,
            self.source,
            self.node.span,
            names,
            tuple(self.declarations.runtime_axes),
            states,
            givens,
            parameters,
            constants,
            functions,
            definitions,
            update,
        )

    def _axes(self, name: str) -> tuple[Axis, ...]:
        return self.table.declared[name].axes or ()

    # -- numbers

    def _constants(self) -> dict[str, Constant]:
        nodes = {each.name.text: each for each in self.declarations.constants}
        order = in_order({name: (each.value,) for name, each in nodes.items()})
        self.errors += order.errors
        constants = {}
        for name in order.names:
            typed = number(nodes[name].value, "a constant", self.table, self.errors)
            self.values[name] = None if is_poison(typed) else value(typed, self.values)
            constants[name] = Constant(name, typed, nodes[name].span)
        return constants

    def _states(self) -> dict[str, State]:
        states = {}
        for each in self.declarations.states:
            start = None
            if each.start is not None:
                start = number(each.start, "the start of a state", self.table, self.errors)
            states[each.name.text] = State(each.name.text, self._axes(each.name.text), start, each.span)
        if not self.table.lost_everything and all(state.start is not None for state in states.values()):
            what = "state that is an argument: all of them have start values" if states else "state"
            advice = "declare what the update changes: `state x[token, d]`"
            self.errors.append(NoState(self.node.name.span, self.node.name.text, what, suggestion=advice))
        return states

    def _parameter(self, node: tree.ParameterDeclaration) -> Parameter:
        name = node.name.text
        axes = self._axes(name)
        start: object = None
        if node.start is None:
            if not node.axes and not node.positive:
                advice = f"write `param {name} = 1`, or another start"
                self.errors.append(NeedsStart(node.name.span, name, suggestion=advice))
        elif isinstance(node.start, tree.RandomStart):
            start = self._random(node, node.start)
        else:
            typed = number(node.start, "the start of a parameter", self.table, self.errors)
            start = typed
            if node.positive and not is_poison(typed):
                known = value(typed, self.values)
                if known is not None and not known > 0:
                    self.errors.append(StartNotPositive(node.start.span, f"{known:g}"))
        return Parameter(name, axes, node.positive, cast("Normal | Uniform | None", start), node.span)

    def _random(self, node: tree.ParameterDeclaration, start: tree.RandomStart) -> Normal | Uniform | None:
        typed = [number(each, "the start of a parameter", self.table, self.errors) for each in start.arguments]
        kind = start.distribution.text
        if kind not in ("normal", "uniform"):
            near = closest(kind, ("normal", "uniform"))
            advice = f"did you mean `{near}`?" if near else "write `normal(mean, std)` or `uniform(lo, hi)`"
            self.errors.append(UnknownName(start.distribution.span, kind, suggestion=advice))
            return None
        if is_poison(*typed):
            return None
        first, second = (value(each, self.values) for each in typed)
        if kind == "normal":
            if second is not None and not second >= 0:
                self.errors.append(BadStart(start.arguments[1].span, "a standard deviation is not negative"))
            if node.positive and first is not None and not first > 0:
                self.warnings.append(MayStartNegative(start.span, node.name.text))
            return Normal(*typed)
        if first is not None and second is not None and first > second:
            self.errors.append(BadStart(start.span, "the lower end is above the upper one"))
        elif node.positive and second is not None and not second > 0:
            self.errors.append(BadStart(start.span, "a positive parameter cannot start in this range"))
        elif node.positive and first is not None and first < 0:
            self.warnings.append(MayStartNegative(start.span, node.name.text))
        return Uniform(*typed)

    # -- functions and definitions

    def _functions(self) -> dict[str, Function]:
        nodes = {each.name.text: each for each in self.declarations.functions}
        order = in_order({name: (each.body,) for name, each in nodes.items()})
        self.errors += order.errors
        functions = {}
        for name in order.names:
            node = nodes[name]
            context = Context(self.source, self.table, self.errors, self.numbers, name, "function")
            seen: list[str] = []
            for argument in node.arguments:
                self._check_argument(argument, [name, *seen], context)
                seen.append(argument.text)
            context.arguments = tuple(seen)
            body = infer(node.body, context)
            if not is_poison(body) and body.shape:
                context.fault(NotElementwise(node.body.span, f"{describe(body.shape)} stands", name))
            functions[name] = Function(name, tuple(seen), body, node.span)
        return functions

    def _check_argument(self, argument: tree.Name, taken: list[str], context: Context) -> None:
        """An argument is known in the body alone, where it may hide only what the body could not use anyway."""
        text = argument.text
        declared = self.table.find(text)
        if text in RESERVED:
            context.fault(ReservedName(argument.span, text, suggestion=f"write `{text}_`"))
        elif text in SIGNATURES:
            context.fault(HidesBuiltin(argument.span, text, suggestion=f"write `{text}_`"))
        elif text in taken:
            context.fault(IndexTwice(argument.span, text))
        elif declared is not None and declared.kind in ("header name", "constant", "function"):
            context.fault(IndexHides(argument.span, text, a(declared.kind), context.line(declared.span)))

    def _definitions(self) -> dict[str, Definition]:
        nodes = {each.name.text: each for each in self.declarations.definitions}
        hidden = {name: frozenset(index.name.text for index in each.indices) for name, each in nodes.items()}
        order = in_order({name: (each.body,) for name, each in nodes.items()}, hidden)
        self.errors += order.errors
        definitions = {}
        for name in order.names:
            context = Context(self.source, self.table, self.errors, self.numbers, name, "definition")
            definition = define(nodes[name], context)
            if definition is not None and name not in order.in_circles:
                self.table.declared[name].axes = definition.axes
                definitions[name] = definition
        return definitions

    def _only_in_update(self, before: int) -> None:
        """Outside the block its local definitions are not unknown, only out of reach."""
        block = self.declarations.update
        local = (
            {each.name.text for each in block.statements if isinstance(each, tree.DefinitionStatement)}
            if block
            else set()
        )
        for place in range(before, len(self.errors)):
            error = self.errors[place]
            if isinstance(error, UnknownName) and error.name in local:
                advice = "move its definition out of the block"
                self.errors[place] = OnlyInUpdate(error.span, error.name, suggestion=advice)

    def _update(self, states: dict[str, State], definitions: dict[str, Definition]) -> Update:
        builder = UpdateBuilder(
            self.source, self.declarations, states, definitions, self.errors, self.warnings, self.numbers
        )
        if self.declarations.update is not None:
            return builder.block(self.declarations.update)
        return builder.plain(self.node)
