"""Faults of spelling: characters, numbers, brackets, and what may follow what."""

from __future__ import annotations

from dataclasses import dataclass

from cemc.diagnostics.base import Diagnostic


@dataclass(frozen=True)
class EmptyFile(Diagnostic):
    template = "the file holds no energy"


@dataclass(frozen=True)
class NotText(Diagnostic):
    """A byte that is not UTF-8."""

    template = "byte 0x{byte:02x} is not UTF-8 text"
    byte: int


@dataclass(frozen=True)
class TooLong(Diagnostic):
    template = "the file is longer than {limit} characters, the most that cemc reads"
    limit: int


@dataclass(frozen=True)
class TooDeep(Diagnostic):
    template = "the expression is nested more than {limit} deep"
    limit: int


@dataclass(frozen=True)
class NameTooLong(Diagnostic):
    template = "the name is longer than {limit} characters"
    limit: int


@dataclass(frozen=True)
class StrangeCharacter(Diagnostic):
    template = "unexpected character {shown}"
    shown: str


@dataclass(frozen=True)
class HiddenCharacter(Diagnostic):
    """Control characters, and those that change the order in which text is shown."""

    template = "the hidden character {shown} may not stand in a file"
    shown: str


@dataclass(frozen=True)
class TouchingLetter(Diagnostic):
    template = "{what} touches the letter that follows it"
    what: str


@dataclass(frozen=True)
class BadNumber(Diagnostic):
    template = "{why}"
    why: str


@dataclass(frozen=True)
class Unexpected(Diagnostic):
    """A token that cannot stand here."""

    template = "{what}"
    what: str


@dataclass(frozen=True)
class NeverClosed(Diagnostic):
    template = "this `{bracket}` is never closed"
    bracket: str


@dataclass(frozen=True)
class NeverOpened(Diagnostic):
    template = "this `{bracket}` closes nothing"
    bracket: str


@dataclass(frozen=True)
class ReservedName(Diagnostic):
    template = "`{name}` is a reserved word and cannot be a name"
    name: str


@dataclass(frozen=True)
class NotCallable(Diagnostic):
    template = "only a function can be called"
