"""Faults of names and declarations."""

from __future__ import annotations

from typing import ClassVar

from cemc.diagnostics.base import Diagnostic, Warn


class UnknownName(Diagnostic):
    template: ClassVar[str] = "unknown name `{name}`"
    name: str


class UnknownAxis(Diagnostic):
    template: ClassVar[str] = "unknown axis `{name}`"
    name: str


class Duplicate(Diagnostic):
    template: ClassVar[str] = "`{name}` is already {kind} of line {line}"
    name: str
    kind: str
    line: int


class Predeclared(Diagnostic):
    template: ClassVar[str] = "`token` is the predeclared sequence axis"


class HidesBuiltin(Diagnostic):
    template: ClassVar[str] = "`{name}` is a built-in function and cannot be declared"
    name: str


class Taken(Diagnostic):
    """A name that would collide on the generated class."""

    template: ClassVar[str] = "`{name}` cannot name {kind}: it is {why}"
    name: str
    kind: str
    why: str


class EnergyName(Diagnostic):
    template: ClassVar[str] = "an energy cannot be named `{name}`: {why}"
    name: str
    why: str


class SameFile(Diagnostic):
    template: ClassVar[str] = "energy `{name}` would write `{file}`, as energy `{other}` of line {line} does"
    name: str
    file: str
    other: str
    line: int


class Circle(Diagnostic):
    template: ClassVar[str] = "`{name}` is defined by itself: {circle}"
    name: str
    circle: str


class NotEarlier(Diagnostic):
    template: ClassVar[str] = "`{name}` is declared later; a default may use earlier header names only"
    name: str


class NotInNumber(Diagnostic):
    """Something that is not known when the module is constructed."""

    template: ClassVar[str] = "{what} cannot stand in {place}"
    what: str
    place: str


class BadSize(Diagnostic):
    template: ClassVar[str] = "{why}"
    why: str


class RuntimeAxisOfParameter(Diagnostic):
    template: ClassVar[str] = "a parameter has no run-time axes, and `{axis}` is one"
    axis: str


class NeedsStart(Diagnostic):
    template: ClassVar[str] = "the scalar parameter `{name}` needs a start"
    name: str


class StartNotPositive(Diagnostic):
    template: ClassVar[str] = "the start of a positive parameter must be > 0, and this is {value}"
    value: str


class BadStart(Diagnostic):
    template: ClassVar[str] = "{why}"
    why: str


class NoState(Diagnostic):
    template: ClassVar[str] = "energy `{name}` has no {what}"
    name: str
    what: str


class MayStartNegative(Warn):
    template: ClassVar[str] = "the positive parameter `{name}` may start at or below 0 by this distribution"
    name: str


class Unused(Warn):
    template: ClassVar[str] = "{kind} `{name}` is never used"
    kind: str
    name: str


class UnusedParameter(Warn):
    template: ClassVar[str] = "no energy mentions the parameter `{name}`"
    name: str
