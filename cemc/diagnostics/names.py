"""Faults of names and declarations."""

from __future__ import annotations

from dataclasses import dataclass

from cemc.diagnostics.base import Diagnostic, Warn


@dataclass(frozen=True)
class UnknownName(Diagnostic):
    template = "unknown name `{name}`"
    name: str


@dataclass(frozen=True)
class UnknownAxis(Diagnostic):
    template = "unknown axis `{name}`"
    name: str


@dataclass(frozen=True)
class Duplicate(Diagnostic):
    template = "`{name}` is already {kind} of line {line}"
    name: str
    kind: str
    line: int


@dataclass(frozen=True)
class Predeclared(Diagnostic):
    template = "`token` is the predeclared sequence axis"


@dataclass(frozen=True)
class HidesBuiltin(Diagnostic):
    template = "`{name}` is a built-in function and cannot be declared"
    name: str


@dataclass(frozen=True)
class Taken(Diagnostic):
    """A name that would collide on the generated class."""

    template = "`{name}` cannot name {kind}: it is {why}"
    name: str
    kind: str
    why: str


@dataclass(frozen=True)
class EnergyName(Diagnostic):
    template = "an energy cannot be named `{name}`: {why}"
    name: str
    why: str


@dataclass(frozen=True)
class SameFile(Diagnostic):
    template = "energy `{name}` would write `{file}`, as energy `{other}` of line {line} does"
    name: str
    file: str
    other: str
    line: int


@dataclass(frozen=True)
class Circle(Diagnostic):
    template = "`{name}` is defined by itself: {circle}"
    name: str
    circle: str


@dataclass(frozen=True)
class NotEarlier(Diagnostic):
    template = "`{name}` is declared later; a default may use earlier header names only"
    name: str


@dataclass(frozen=True)
class NotInNumber(Diagnostic):
    """Something that is not known when the module is constructed."""

    template = "{what} cannot stand in {place}"
    what: str
    place: str


@dataclass(frozen=True)
class BadSize(Diagnostic):
    template = "{why}"
    why: str


@dataclass(frozen=True)
class RuntimeAxisOfParameter(Diagnostic):
    template = "a parameter has no run-time axes, and `{axis}` is one"
    axis: str


@dataclass(frozen=True)
class NeedsStart(Diagnostic):
    template = "the scalar parameter `{name}` needs a start"
    name: str


@dataclass(frozen=True)
class StartNotPositive(Diagnostic):
    template = "the start of a positive parameter must be > 0, and this is {value}"
    value: str


@dataclass(frozen=True)
class BadStart(Diagnostic):
    template = "{why}"
    why: str


@dataclass(frozen=True)
class NoState(Diagnostic):
    template = "energy `{name}` has no {what}"
    name: str
    what: str


@dataclass(frozen=True)
class MayStartNegative(Warn):
    template = "the positive parameter `{name}` may start at or below 0 by this distribution"
    name: str


@dataclass(frozen=True)
class Unused(Warn):
    template = "{kind} `{name}` is never used"
    kind: str
    name: str


@dataclass(frozen=True)
class UnusedParameter(Warn):
    template = "no energy mentions the parameter `{name}`"
    name: str
