"""Faults of energies, gradients and update blocks."""

from __future__ import annotations

from dataclasses import dataclass

from cemc.diagnostics.base import Diagnostic, Warn


@dataclass(frozen=True)
class NoEnergy(Diagnostic):
    template = "the energy `E` is not defined, and there is no update block to name another"


@dataclass(frozen=True)
class NotScalarEnergy(Diagnostic):
    template = "an energy is a number for each of its indices, and `{name}` is {shape}"
    name: str
    shape: str


@dataclass(frozen=True)
class GradOutside(Diagnostic):
    template = "`grad` may stand only in an update block"


@dataclass(frozen=True)
class BadWrt(Diagnostic):
    template = (
        "`{name}` is {kind}; a gradient is taken with respect to a state or a definition outside the update block"
    )
    name: str
    kind: str


@dataclass(frozen=True)
class BadOperand(Diagnostic):
    template = "{what} inside `grad[…](…)`, which takes definitions without subscripts"
    what: str


@dataclass(frozen=True)
class UnlikeEnergies(Diagnostic):
    template = "`{left}` and `{right}` have different indices, so that their {operator} is not a total"
    left: str
    right: str
    operator: str


@dataclass(frozen=True)
class NoDependence(Diagnostic):
    template = "`{energy}` does not depend on `{wrt}`{why}"
    energy: str
    wrt: str
    why: str


@dataclass(frozen=True)
class Bypass(Diagnostic):
    template = "`{energy}` depends on the state `{state}` also past `{wrt}`: {path}"
    energy: str
    state: str
    wrt: str
    path: str


@dataclass(frozen=True)
class SecondUpdate(Diagnostic):
    template = "this energy already has an update block, in line {line}"
    line: int


@dataclass(frozen=True)
class EmptyUpdate(Diagnostic):
    template = "the update {why}"
    why: str


@dataclass(frozen=True)
class NotAssignable(Diagnostic):
    template = "`{name}` is {kind}; an update assigns to states"
    name: str
    kind: str


@dataclass(frozen=True)
class Shadows(Diagnostic):
    template = "`{name}` is already {kind} of line {line}, and an update block cannot define it again"
    name: str
    kind: str
    line: int


@dataclass(frozen=True)
class UsedBefore(Diagnostic):
    template = "`{name}` is defined in line {line} of the update block, and may be used only below that"
    name: str
    line: int


@dataclass(frozen=True)
class OnlyInUpdate(Diagnostic):
    template = "`{name}` is defined inside the update block, and may be used only there"
    name: str


@dataclass(frozen=True)
class WrongValue(Diagnostic):
    template = "`{left}` is {wanted}, and the right side is {shape}"
    left: str
    wanted: str
    shape: str


@dataclass(frozen=True)
class BadRepeat(Diagnostic):
    template = "`repeat` takes a positive whole number or a header name, not {what}"
    what: str


@dataclass(frozen=True)
class NeverAssigned(Warn):
    template = "the update never changes the state `{name}`"
    name: str
