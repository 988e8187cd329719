"""The update block, or the plain step where there is none, and what its gradients must depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import count

from cemc.diagnostics import Diagnostic, line_of
from cemc.diagnostics.energies import (
    BadRepeat,
    Bypass,
    EmptyUpdate,
    NeverAssigned,
    NoDependence,
    NoEnergy,
    NotAssignable,
    NotScalarEnergy,
    OnlyInUpdate,
    Shadows,
    UsedBefore,
    WrongValue,
)
from cemc.diagnostics.names import HidesBuiltin, UnknownName
from cemc.diagnostics.shapes import IndexTwice, NoAxes, RuntimeAxisLeft, TooManySubscripts
from cemc.diagnostics.syntax import ReservedName
from cemc.operations.signatures import SIGNATURES
from cemc.record import changed
from cemc.semantics.context import Context, describe, is_poison, names
from cemc.semantics.declare import Declarations
from cemc.semantics.define import define
from cemc.semantics.dependence import Dependence, uses
from cemc.semantics.dispatch import infer
from cemc.semantics.gradients import energies
from cemc.semantics.names import RESERVED
from cemc.semantics.reductions import bind
from cemc.semantics.scope import settle
from cemc.semantics.table import Declared, Table, a, closest
from cemc.semantics.typed import (
    Access,
    Assign,
    Axis,
    Binary,
    Condition,
    Definition,
    Expr,
    Gradient,
    Index,
    Local,
    Position,
    State,
    Update,
)
from cemc.source import Source, Span
from cemc.syntax import tree


class UpdateBuilder:
    """Types the update of one energy."""

    def __init__(
        self,
        source: Source,
        declarations: Declarations,
        states: Mapping[str, State],
        definitions: Mapping[str, Definition],
        errors: list[Diagnostic],
        warnings: list[Diagnostic],
        numbers: count[int],
    ) -> None:
        self.source = source
        self.declarations = declarations
        self.table: Table = declarations.table
        self.states = states
        self.definitions = definitions
        self.errors = errors
        self.warnings = warnings
        self.numbers = numbers
        self.dependence = Dependence(definitions)

    # -- a block

    def block(self, node: tree.UpdateBlock) -> Update:
        repeat = self._repeat(node.repeat)
        statements: list[Assign | Local] = []
        later = {
            each.name.text: each
            for each in reversed(node.statements)
            if isinstance(each, tree.DefinitionStatement) and self.table.find(each.name.text) is None
        }
        complete = True
        for each in node.statements:
            statement: Assign | Local | None = None
            if isinstance(each, tree.DefinitionStatement):
                before = len(self.errors)
                declared = self.table.find(each.name.text)
                if declared is not None and declared.kind in ("state", "given", "parameter", "constant", "header name"):
                    statement = self._assign(each, declared)
                else:
                    statement = self._local(each, declared)
                self._name_later(before, later)
            if statement is None:
                complete = False
            else:
                statements.append(statement)
        if complete:
            self._whole_block(node, statements)
        return Update(repeat, tuple(statements), False)

    def _name_later(self, before: int, later: dict[str, tree.DefinitionStatement]) -> None:
        """A name that is defined further down is not unknown, only too early."""
        for place in range(before, len(self.errors)):
            error = self.errors[place]
            if isinstance(error, UnknownName) and error.name in later:
                line = line_of(self.source, later[error.name].span)
                self.errors[place] = UsedBefore(error.span, error.name, line)

    def _repeat(self, node: tree.Number | tree.Name | None) -> int | str:
        if node is None:
            return 1
        text = self.source.text[node.span.start : node.span.end]
        if isinstance(node, tree.Number):
            if node.value.denominator == 1 and 0 < node.value < 2**31:
                return int(node.value)
            self.errors.append(BadRepeat(node.span, f"`{text}`"))
            return 1
        declared = self.table.find(node.text)
        if declared is not None and declared.kind in ("header name", "lost"):
            declared.used = True
            return node.text
        near = closest(node.text, self.table.names("header name"))
        what = f"{a(declared.kind)}, `{node.text}`" if declared is not None else f"the unknown name `{node.text}`"
        advice = f"did you mean `{near}`?" if near else None
        self.errors.append(BadRepeat(node.span, what, suggestion=advice))
        return 1

    def _context(self, node: tree.DefinitionStatement) -> Context:
        return Context(self.source, self.table, self.errors, self.numbers, node.name.text, "update")

    def _assign(self, node: tree.DefinitionStatement, declared: Declared) -> Assign | None:
        context = self._context(node)
        if declared.kind != "state":
            context.fault(NotAssignable(node.name.span, node.name.text, a(declared.kind)))
        declared.used = True
        variables = [bind(each.name, each.axis, context) for each in node.indices]
        axes = declared.axes
        if axes is not None and declared.kind == "state":
            axes = self._left_axes(node, axes, context)
        if axes is not None:
            for variable, axis, index in zip(variables, axes, node.indices, strict=False):
                error = context.scope.constrain(variable.index, axis, index.span, context.line(index.span))
                if error is not None:
                    self.errors.append(error)
                    variable.silent = True
        elif axes is None:
            for variable in variables:
                variable.silent = variable.axis is None
        value = infer(node.body, context)
        self.errors += context.scope.settle_axes()
        if is_poison(value) or axes is None or declared.kind != "state":
            return None
        rest = axes[len(variables) :]
        if value.shape != rest:
            left = context.text(node.left)
            wanted = describe(rest)
            advice = None
            if not value.shape:
                advice = (
                    f"to set every entry, subscript all axes: `{node.name.text}[{self._all_indices(node, rest)}] = …`"
                )
            context.fault(WrongValue(node.body.span, left, wanted, describe(value.shape), suggestion=advice))
            return None
        settled = context.scope.settled()
        indices = tuple(settled[variable.index.number] for variable in variables)
        return Assign(node.name.text, indices, settle(value, settled), node.span)

    def _all_indices(self, node: tree.DefinitionStatement, rest: tuple[Axis, ...]) -> str:
        taken = [index.name.text for index in node.indices]
        free = [letter for letter in "abcefghklmn" if letter not in taken and self.table.find(letter) is None]
        return ", ".join([*taken, *free[: len(rest)]])

    def _left_axes(
        self, node: tree.DefinitionStatement, axes: tuple[Axis, ...], context: Context
    ) -> tuple[Axis, ...] | None:
        if len(node.indices) > len(axes):
            if not axes:
                context.fault(NoAxes(node.left, f"the state `{node.name.text}`"))
            else:
                have = f"the axes {names(axes)}" if len(axes) > 1 else f"the axis {names(axes)}"
                span = node.indices[len(axes)].span
                context.fault(TooManySubscripts(span, f"`{node.name.text}`", have, len(node.indices)))
            return None
        left = next((axis for axis in axes[len(node.indices) :] if axis.runtime), None)
        if left is not None:
            advice = f"write `{node.name.text}[i] = …`" if not node.indices else None
            context.fault(RuntimeAxisLeft(node.left, node.name.text, left.name, suggestion=advice))
            return None
        return axes

    def _local(self, node: tree.DefinitionStatement, declared: Declared | None) -> Local | None:
        name = node.name.text
        shadows = False
        if declared is not None and declared.kind != "lost":
            shadows = True
            line = line_of(self.source, declared.span)
            self.errors.append(Shadows(node.name.span, name, a(declared.kind), line))
        elif name in RESERVED:
            self.errors.append(ReservedName(node.name.span, name, suggestion=f"write `{name}_`"))
        elif name in SIGNATURES:
            self.errors.append(HidesBuiltin(node.name.span, name, suggestion=f"write `{name}_`"))
        elif any(index.name.text == name for index in node.indices):
            self.errors.append(IndexTwice(node.name.span, name))
        definition = define(node, self._context(node))
        if not shadows and (declared is None or declared.kind != "lost"):
            axes = None if definition is None else definition.axes
            self.table.declared[name] = Declared("local definition", name, node.name.span, axes)
        return None if definition is None or shadows else Local(definition)

    def _whole_block(self, node: tree.UpdateBlock, statements: list[Assign | Local]) -> None:
        assigned = {each.state for each in statements if isinstance(each, Assign)}
        visible = [state for state in self.states.values() if state.start is None]
        if self.table.lost_everything:
            return
        if not node.statements:
            self.errors.append(EmptyUpdate(node.keyword, "block is empty", suggestion=self._example()))
        elif not any(state.name in assigned for state in visible):
            self.errors.append(EmptyUpdate(node.keyword, "changes no state", suggestion=self._example()))
        elif not any(True for each in statements for _ in gradients(each)):
            self.errors.append(EmptyUpdate(node.keyword, "takes no gradient", suggestion=self._example()))
        else:
            for state in self.states.values():
                if state.name not in assigned:
                    self.warnings.append(NeverAssigned(state.span, state.name))
        for each in statements:
            for gradient in gradients(each):
                self._check_gradient(gradient)

    def _example(self) -> str:
        state = next((each.name for each in self.states.values() if each.start is None), "x")
        return f"a plain step is `{state}[i] = {state}[i] - grad[{state}](E)[i]`"

    # -- what gradients depend on

    def _check_gradient(self, gradient: Gradient) -> None:
        right = True
        for access in energies(gradient.energy):
            definition = self.definitions.get(access.name)
            if definition is not None and definition.body.shape:
                right = False
                shape = describe(definition.body.shape)
                advice = self._summed(definition)
                self.errors.append(NotScalarEnergy(access.span, access.name, shape, suggestion=advice))
        if right:
            self._check_dependence(gradient.energy, gradient.wrt, gradient.span)

    def _summed(self, definition: Definition) -> str | None:
        body = self._text(definition.body.span)
        return f"sum over what is left: `sum({body})`" if len(definition.body.shape) == 1 and len(body) < 60 else None

    def _check_dependence(self, energy: Expr, wrt: str, span: Span) -> None:
        text = " ".join(self.source.text[energy.span.start : energy.span.end].split())
        start = tuple(uses(energy))
        if self.dependence.path(start, wrt) is None:
            why = ""
            held = self.dependence.path(start, wrt, held=True)
            if held is not None:
                first = next(use for use in held if not use.open)
                line = line_of(self.source, first.span)
                why = f": `{first.name}` enters only through {first.blocked}, in line {line}"
            self.errors.append(NoDependence(span, text, wrt, why))
            return
        if wrt not in self.definitions:
            return
        below = self.dependence.reached(tuple(uses(self.definitions[wrt].body)))
        for state in self.states:
            if state not in below:
                continue
            path = self.dependence.path(start, state, around=wrt)
            if path is not None:
                last = path[-1]
                shown = " → ".join(f"`{use.name}`" for use in path)
                advice = f"write `{wrt}` there, or hold the state: `given({self._text(last.span)})`"
                error = Bypass(last.span, text, state, wrt, shown, suggestion=advice)
                if error not in self.errors:
                    self.errors.append(error)

    def _text(self, span: Span) -> str:
        return " ".join(self.source.text[span.start : span.end].split())

    # -- the plain step

    def plain(self, node: tree.EnergyDeclaration) -> Update:
        """`x = x - grad[x](E)` for every state that is not auxiliary, all at once."""
        if self.table.lost_everything:
            return Update(1, (), True)
        declared = self.table.find("E")
        if declared is None or declared.kind != "definition":
            near = closest("E", self.table.names("definition"))
            advice = f"did you mean `{near}`?" if near else "write `E[i] = …`, or an update block"
            self.errors.append(NoEnergy(node.name.span, suggestion=advice))
            return Update(1, (), True)
        declared.used = True
        definition = self.definitions.get("E")
        if definition is None:
            return Update(1, (), True)
        left = Span(definition.span.start, definition.body.span.start)
        span = Span(left.start, left.start + 1)
        if definition.body.shape:
            left_over = self._summed(definition)
            shape = describe(definition.body.shape)
            self.errors.append(NotScalarEnergy(definition.body.span, "E", shape, suggestion=left_over))
            return Update(1, (), True)
        statements: list[Assign | Local] = []
        energy = Access(span, definition.axes, "E", ())
        for state in self.states.values():
            if state.start is not None:
                continue
            before = len(self.errors)
            self._check_dependence(energy, state.name, definition.span)
            for place in range(before, len(self.errors)):
                self.errors[place] = changed(self.errors[place], span=state.span)
            statements.append(self._plain_step(state, energy, span))
        return Update(1, tuple(statements), True)

    def _plain_step(self, state: State, energy: Access, span: Span) -> Assign:
        """Subscripts up to the last run-time axis."""
        last = max((place + 1 for place, axis in enumerate(state.axes) if axis.runtime), default=0)
        letters = "ijklmnpq"
        indices = tuple(
            Index(letters[place % len(letters)], next(self.numbers), axis)
            for place, axis in enumerate(state.axes[:last])
        )
        subscripts = tuple(Position(span, (), index) for index in indices)
        rest = state.axes[last:]
        old = Access(span, rest, state.name, subscripts)
        step = Gradient(span, rest, state.name, energy, subscripts)
        return Assign(state.name, indices, Binary(span, rest, "-", old, step), span)


def gradients(value: object) -> Iterator[Gradient]:
    """Every `grad` in a statement."""
    if isinstance(value, Gradient):
        yield value
    elif isinstance(value, Local):
        yield from gradients(value.definition.body)
    elif isinstance(value, Assign):
        yield from gradients(value.value)
    elif isinstance(value, tuple):
        for part in value:
            yield from gradients(part)
    elif isinstance(value, (Expr, Condition)):
        for each in fields(value):
            if each.name not in ("span", "shape"):
                yield from gradients(getattr(value, each.name))


__all__ = ["OnlyInUpdate", "UpdateBuilder", "gradients"]
