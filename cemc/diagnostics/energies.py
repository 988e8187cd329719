"""Faults of energies, gradients and update blocks."""

from __future__ import annotations

from typing import ClassVar

from cemc.diagnostics.base import Diagnostic, Note, Warn


class NoEnergy(Diagnostic):
    template: ClassVar[str] = "the energy `E` is not defined, and there is no update block to name another"


class NotScalarEnergy(Diagnostic):
    template: ClassVar[str] = "an energy is a number for each of its indices, and `{name}` is {shape}"
    name: str
    shape: str


class GradOutside(Diagnostic):
    template: ClassVar[str] = "`grad` may stand only in an update block"


class BadWrt(Diagnostic):
    template: ClassVar[str] = (
        "`{name}` is {kind}; a gradient is taken with respect to a state or a definition outside the update block"
    )
    name: str
    kind: str


class BadOperand(Diagnostic):
    template: ClassVar[str] = "{what} inside `grad[…](…)`, which takes definitions without subscripts"
    what: str


class UnlikeEnergies(Diagnostic):
    template: ClassVar[str] = "`{left}` and `{right}` have different indices, so that their {operator} is not a total"
    left: str
    right: str
    operator: str


class NoDependence(Diagnostic):
    template: ClassVar[str] = "`{energy}` does not depend on `{wrt}`{why}"
    energy: str
    wrt: str
    why: str


class Bypass(Diagnostic):
    template: ClassVar[str] = "`{energy}` depends on the state `{state}` also past `{wrt}`: {path}"
    energy: str
    state: str
    wrt: str
    path: str


class SecondUpdate(Diagnostic):
    template: ClassVar[str] = "this energy already has an update block, in line {line}"
    line: int


class EmptyUpdate(Diagnostic):
    template: ClassVar[str] = "the update {why}"
    why: str


class NotAssignable(Diagnostic):
    template: ClassVar[str] = "`{name}` is {kind}; an update assigns to states"
    name: str
    kind: str


class Shadows(Diagnostic):
    template: ClassVar[str] = "`{name}` is already {kind} of line {line}, and an update block cannot define it again"
    name: str
    kind: str
    line: int


class UsedBefore(Diagnostic):
    template: ClassVar[str] = "`{name}` is defined in line {line} of the update block, and may be used only below that"
    name: str
    line: int


class OnlyInUpdate(Diagnostic):
    template: ClassVar[str] = "`{name}` is defined inside the update block, and may be used only there"
    name: str


class WrongValue(Diagnostic):
    template: ClassVar[str] = "`{left}` is {wanted}, and the right side is {shape}"
    left: str
    wanted: str
    shape: str


class BadRepeat(Diagnostic):
    template: ClassVar[str] = "`repeat` takes a positive whole number or a header name, not {what}"
    what: str


class NeverAssigned(Warn):
    template: ClassVar[str] = "the update never changes the state `{name}`"
    name: str


class OpenRead(Note):
    """Of another token, in the energy of one."""

    template: ClassVar[str] = (
        "`{text}` is differentiated as well: its token's update then reads this one's, which may come later"
    )
    text: str


class ReadsAhead(Note):
    template: ClassVar[str] = "`{text}` is of a later token"
    text: str


class Unbounded(Note):
    template: ClassVar[str] = "nothing keeps `{index}` at or before `{own}`"
    index: str
    own: str


class Timeless(Note):
    template: ClassVar[str] = "the state `{name}` has no axis `token`, and depends on all tokens or on none"
    name: str


class BuiltTooDeep(Diagnostic):
    template: ClassVar[str] = "the definitions of `{name}` build on one another more deeply than cemc can follow"
    name: str
