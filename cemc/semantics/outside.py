"""The warning about reads outside an axis that feed a logsumexp, a max or a mean.

Such a read is 0, which is harmless in a sum, but one more term in a logsumexp: exp(0). A comparison beside the
reduction guards a read if it keeps the subscript inside the axis. Reads are looked for in the body itself, and in
definitions where the 0 is a factor, so that it makes the whole term 0; a token shift `x[i] + x[i - 1]` in a
definition is meant as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.shapes import ReadsOutside
from cemc.semantics.affine import ONE, Form, affine, minus, never_negative, room_above
from cemc.semantics.typed import (
    Access,
    And,
    Assign,
    Axis,
    Binary,
    Call,
    Compare,
    Condition,
    Energy,
    Expr,
    Held,
    Index,
    MatMul,
    Negative,
    Position,
    Reduction,
    Transpose,
    Where,
)

_REDUCERS = ("logsumexp", "max", "mean")
_ZERO_AT_ZERO = {"dot", "outer", "norm2", "abs", "square", "sqrt", "sin", "tanh", "relu", "silu", "gelu", "erf", "rope"}
_DEEPEST = 8
"""Definitions looked through one inside the other."""


@dataclass(frozen=True)
class _Place:
    """Where a read stands: the reduction that it feeds and its indices; forms that are never negative there; the
    forms at which an axis is read by a condition; what the indices of looked-through definitions stand for."""

    reducer: str
    bound: frozenset[Index]
    guards: tuple[Form, ...] = ()
    read: tuple[tuple[Axis, Form], ...] = ()
    indices: Mapping[Index, Form] = field(default_factory=dict)
    depth: int = 0


def reads_outside(energy: Energy) -> Iterator[Diagnostic]:
    return iter(dict.fromkeys(_Reads(energy).all()))


class _Reads:
    def __init__(self, energy: Energy) -> None:
        self.energy = energy
        self.axes: dict[str, tuple[Axis, ...]] = {}
        for tables in (energy.states, energy.givens, energy.parameters, energy.definitions):
            self.axes |= {name: table.axes for name, table in tables.items()}

    def all(self) -> Iterator[Diagnostic]:
        bodies = [each.body for each in self.energy.definitions.values()]
        for statement in self.energy.update.statements:
            bodies.append(statement.value if isinstance(statement, Assign) else statement.definition.body)
        for body in bodies:
            yield from self.reductions(body, ())

    def reductions(self, value: object, conditions: tuple[Condition, ...]) -> Iterator[Diagnostic]:
        """Every reduction that minds a term too many, with the conditions around it."""
        if isinstance(value, Reduction):
            if value.condition is not None:
                conditions = (*conditions, value.condition)
            if value.kind in _REDUCERS:
                place = _Place(value.kind, frozenset(value.indices))
                for condition in conditions:
                    place = self.guarded(place, condition)
                yield from self.reads(value.body, place, everywhere=True)
                yield from self.reads(value.body, place, everywhere=False)
        for part in _parts(value):
            yield from self.reductions(part, conditions)

    # -- guards

    def guarded(self, place: _Place, condition: Condition) -> _Place:
        guards, read = list(place.guards), list(place.read)
        for part in condition.operands if isinstance(condition, And) else (condition,):
            if not isinstance(part, Compare):
                continue
            read += [*self.read_in(part.left, place), *self.read_in(part.right, place)]
            left, right = affine(part.left, place.indices), affine(part.right, place.indices)
            if left is None or right is None:
                continue
            ahead, behind = minus(right, left), minus(left, right)
            if part.operator in ("<=", "=="):
                guards.append(ahead)
            if part.operator in (">=", "=="):
                guards.append(behind)
            if part.operator == "<":
                guards.append(minus(ahead, ONE))
            if part.operator == ">":
                guards.append(minus(behind, ONE))
        return replace(place, guards=tuple(guards), read=tuple(read))

    def read_in(self, value: object, place: _Place) -> Iterator[tuple[Axis, Form]]:
        """A comparison that reads outside an axis is false, so it guards other reads at the same position."""
        if isinstance(value, Access):
            for subscript, axis in zip(value.subscripts, self.axes.get(value.name, ()), strict=False):
                form = affine(subscript, place.indices)
                if form is not None:
                    yield axis, form
        for part in _parts(value):
            yield from self.read_in(part, place)

    # -- reads

    def reads(self, value: object, place: _Place, everywhere: bool) -> Iterator[Diagnostic]:
        """Reads that may be outside: `everywhere` in an expression, or only where a 0 makes all of it 0."""
        if isinstance(value, Access):
            yield from self.access(value, place, look_through=not everywhere)
        elif isinstance(value, Where):
            if everywhere:
                yield from self.reads(value.then, self.guarded(place, value.condition), everywhere)
        elif everywhere and not isinstance(value, Condition):
            for part in _parts(value):
                yield from self.reads(part, place, everywhere)
        elif isinstance(value, (Negative, Transpose, Held)):
            yield from self.reads(value.operand, place, everywhere)
        elif isinstance(value, MatMul) or (isinstance(value, Binary) and value.operator == "*"):
            yield from self.reads(value.left, place, everywhere)
            yield from self.reads(value.right, place, everywhere)
        elif isinstance(value, Binary) and value.operator in "/^":
            yield from self.reads(value.left, place, everywhere)
        elif isinstance(value, Call) and value.function in _ZERO_AT_ZERO:
            for argument in value.arguments[: 1 if value.function == "rope" else None]:
                yield from self.reads(argument, place, everywhere)

    def access(self, access: Access, place: _Place, look_through: bool) -> Iterator[Diagnostic]:
        axes = self.axes.get(access.name, ())
        forms = [affine(subscript, place.indices) for subscript in access.subscripts]
        for subscript, form, axis in zip(access.subscripts, forms, axes, strict=False):
            # In a looked-through definition a plain index stands for a form, but reads what its own axis has.
            plain = isinstance(subscript, Position) and subscript.index not in place.indices
            if form is None or plain or place.bound.isdisjoint(form):
                continue
            if not self.inside(form, axis, place):
                text = " ".join(self.energy.source.text[access.span.start : access.span.end].split())
                advice = self.advice(subscript, form, axis, place)
                yield ReadsOutside(access.span, text, axis.name, place.reducer, suggestion=advice)
                return
        definition = self.energy.definitions.get(access.name)
        if look_through and definition is not None and place.depth < _DEEPEST:
            indices = {index: form for index, form in zip(definition.indices, forms, strict=False) if form is not None}
            if len(indices) == len(definition.indices):
                inner = replace(place, indices=indices, depth=place.depth + 1)
                yield from self.reads(definition.body, inner, everywhere=False)

    def advice(self, subscript: Expr, form: Form, axis: Axis, place: _Place) -> str | None:
        text = " ".join(self.energy.source.text[subscript.span.start : subscript.span.end].split())
        # The span of a sum ends with its last term, before a bracket that closes there.
        text = "(" * max(text.count(")") - text.count("("), 0) + text + ")" * max(text.count("(") - text.count(")"), 0)
        if not self.holds(form, place):
            return f"keep it inside by a condition, `if {text} >= 0`"
        return None if axis.runtime else f"keep it inside by a condition, `if {text} < {axis.name}`"

    def inside(self, form: Form, axis: Axis, place: _Place) -> bool:
        if any(axis == other and form == read for other, read in place.read):
            return True
        below = self.holds(form, place)
        return below and any(self.holds(room, place) for room in room_above(form, axis))

    def holds(self, form: Form, place: _Place) -> bool:
        """Whether the form is never negative, by itself or by one of the guards."""
        return never_negative(form) or any(never_negative(minus(form, guard)) for guard in place.guards)


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        yield from value
    elif isinstance(value, (Expr, Condition)):
        for each in fields(value):
            if each.name not in ("span", "shape"):
                yield getattr(value, each.name)
