"""Where an energy reads later tokens: what a user is shown when the derived update turns out not to be causal.

The energy of a token may be followed from the text: which index is the token's own, and which run over others. A state
or a definition that is read at another token and not held is differentiated there too, so the other token's update
reads this one, which may come later. What is held must be kept at or before the token by a condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from fractions import Fraction

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.energies import OpenRead, ReadsAhead, Timeless, Unbounded
from cemc.semantics.affine import ONE, Form, affine, minus, never_negative
from cemc.semantics.dependence import Dependence, uses
from cemc.semantics.typed import (
    Access,
    And,
    Assign,
    Compare,
    Condition,
    Definition,
    Energy,
    Expr,
    Gradient,
    Held,
    Index,
    Position,
    Reduction,
)

_DEEPEST = 8
"""Definitions looked through one inside the other."""


def later_reads(energy: Energy) -> Iterator[Diagnostic]:
    """The places, in the order in which they are met; each once."""
    return iter(dict.fromkeys(_Reads(energy).all()))


@dataclass(frozen=True)
class _Place:
    """`own`: indices that stand for the token whose energy it is; `other`: those that run over tokens beside it."""

    own: frozenset[Index] = frozenset()
    other: frozenset[Index] = frozenset()
    held: bool = False
    depth: int = 0


class _Reads:
    def __init__(self, energy: Energy) -> None:
        self.energy = energy
        self.dependence = Dependence(energy.definitions)
        self.seen: set[object] = set()

    def all(self) -> Iterator[Diagnostic]:
        for state in self.energy.states.values():
            if state.start is None and not any(axis.name == "token" for axis in state.axes):
                yield Timeless(state.span, state.name)
        for name in self._energies():
            definition = self.energy.definitions[name]
            own = frozenset(index for index in definition.indices if _is_token(index))
            yield from self.read(definition.body, _Place(own))

    def _energies(self) -> list[str]:
        found: dict[str, None] = {}
        for statement in self.energy.update.statements:
            body = statement.value if isinstance(statement, Assign) else statement.definition.body
            for gradient in _gradients(body):
                found |= {use.name: None for use in uses(gradient.energy) if use.name in self.energy.definitions}
        return list(found)

    def read(self, value: object, place: _Place) -> Iterator[Diagnostic]:
        if isinstance(value, Access):
            yield from self._access(value, place)
        elif isinstance(value, Held):
            yield from self.read(value.operand, _Place(place.own, place.other, True, place.depth))
        elif isinstance(value, Reduction):
            yield from self._reduction(value, place)
        elif isinstance(value, tuple):
            for part in value:
                yield from self.read(part, place)
        elif isinstance(value, Expr):
            for each in fields(value):
                if each.name not in ("span", "shape"):
                    yield from self.read(getattr(value, each.name), place)

    def _reduction(self, value: Reduction, place: _Place) -> Iterator[Diagnostic]:
        tokens = [index for index in value.indices if _is_token(index)]
        if tokens and not place.own:
            # The energy is one number: the outermost sum is that over the tokens.
            place = _Place(frozenset(tokens[:1]), place.other, place.held, place.depth)
            tokens = tokens[1:]
        for index in tokens:
            if not any(_bounded(value.condition, index, own) for own in place.own):
                yield Unbounded(value.span, index.name, next(iter(place.own)).name)
        place = _Place(place.own, place.other | frozenset(tokens), place.held, place.depth)
        yield from self.read(value.body, place)

    def _access(self, value: Access, place: _Place) -> Iterator[Diagnostic]:
        axes = self.energy.axes_of(value.name)
        forms = [
            affine(subscript, {})
            for subscript, axis in zip(value.subscripts, axes, strict=False)
            if axis.name == "token" and axis.runtime
        ]
        state = value.name in self.energy.states
        definition = self.energy.definitions.get(value.name)
        if not forms:
            if definition is not None and place.depth < _DEEPEST and (value.name, place.held) not in self.seen:
                # One value for all tokens: whatever runs over tokens in it is beside the own one.
                self.seen.add((value.name, place.held))
                inside = _Place(place.own, frozenset(), place.held, place.depth + 1)
                yield from self.read(definition.body, inside)
            return
        if definition is not None and place.depth < _DEEPEST and any(_mentions(form, place.own) for form in forms):
            yield from self._inside(value, definition, place)
        if not state and (definition is None or not self._reaches_a_state(definition)):
            return
        if any(_ahead(form, place.own) for form in forms):
            yield ReadsAhead(value.span, self._text(value))
        elif not place.held and not any(_mentions(form, place.own, alone=True) for form in forms):
            text = self._text(value)
            yield OpenRead(value.span, text, suggestion=f"hold it: `given({text})`")

    def _inside(self, value: Access, definition: Definition, place: _Place) -> Iterator[Diagnostic]:
        """The body, its own indices standing for what they are subscripted with."""
        own: set[Index] = set()
        other: set[Index] = set()
        for index, subscript in zip(definition.indices, value.subscripts, strict=False):
            if _is_token(index):
                alone = isinstance(subscript, Position) and subscript.index in place.own
                (own if alone else other).add(index)
        key = (definition.name, frozenset(own), place.held)
        if own and key not in self.seen:
            self.seen.add(key)
            yield from self.read(definition.body, _Place(frozenset(own), frozenset(other), place.held, place.depth + 1))

    def _reaches_a_state(self, definition: Definition) -> bool:
        start = tuple(uses(definition.body))
        return any(self.dependence.path(start, state) is not None for state in self.energy.states)

    def _text(self, value: Access) -> str:
        return " ".join(self.energy.source.text[value.span.start : value.span.end].split())


def _gradients(value: object) -> Iterator[Gradient]:
    if isinstance(value, Gradient):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _gradients(part)
    elif isinstance(value, (Expr, Condition)):
        for each in fields(value):
            if each.name not in ("span", "shape"):
                yield from _gradients(getattr(value, each.name))


def _is_token(index: Index) -> bool:
    return index.axis.runtime and index.axis.name == "token"


def _mentions(form: Form | None, indices: frozenset[Index], alone: bool = False) -> bool:
    """Whether a subscript is made with one of the indices; `alone`: is one of them."""
    if form is None:
        return False
    return any(index in form and (not alone or form == {index: Fraction(1)}) for index in indices)


def _ahead(form: Form | None, own: frozenset[Index]) -> bool:
    """Whether a subscript is the own token plus something positive."""
    if form is None:
        return False
    steps = (minus(form, {index: Fraction(1), None: Fraction(1)}) for index in own)
    return any(never_negative(step) for step in steps)


def _bounded(condition: Condition | None, index: Index, own: Index) -> bool:
    """Whether a condition keeps an index at or before the own token."""
    if isinstance(condition, And):
        return any(_bounded(part, index, own) for part in condition.operands)
    if not isinstance(condition, Compare):
        return False
    left, right = affine(condition.left, {}), affine(condition.right, {})
    if left is None or right is None:
        return False
    room: Form = {own: Fraction(1), index: Fraction(-1)}
    differences = {
        "<": [minus(minus(right, left), ONE)],
        "<=": [minus(right, left)],
        ">": [minus(minus(left, right), ONE)],
        ">=": [minus(left, right)],
        "==": [minus(right, left), minus(left, right)],
    }
    return any(never_negative(minus(room, each)) for each in differences.get(condition.operator, []))


__all__ = ["later_reads"]
