"""Faults of spelling: characters, numbers, brackets, and what may follow what."""

from __future__ import annotations

from typing import ClassVar

from cemc.diagnostics.base import Diagnostic


class EmptyFile(Diagnostic):
    template: ClassVar[str] = "the file holds no energy"


class NotText(Diagnostic):
    """A byte that is not UTF-8."""

    template: ClassVar[str] = "byte 0x{byte:02x} is not UTF-8 text"
    byte: int


class TooLong(Diagnostic):
    template: ClassVar[str] = "the file is longer than {limit} characters, the most that cemc reads"
    limit: int


class TooDeep(Diagnostic):
    template: ClassVar[str] = "the expression is nested more than {limit} deep"
    limit: int


class NameTooLong(Diagnostic):
    template: ClassVar[str] = "the name is longer than {limit} characters"
    limit: int


class StrangeCharacter(Diagnostic):
    template: ClassVar[str] = "unexpected character {shown}"
    shown: str


class HiddenCharacter(Diagnostic):
    """Control characters, and those that change the order in which text is shown."""

    template: ClassVar[str] = "the hidden character {shown} may not stand in a file"
    shown: str


class TouchingLetter(Diagnostic):
    template: ClassVar[str] = "{what} touches the letter that follows it"
    what: str


class BadNumber(Diagnostic):
    template: ClassVar[str] = "{why}"
    why: str


class Unexpected(Diagnostic):
    """A token that cannot stand here."""

    template: ClassVar[str] = "{what}"
    what: str


class NeverClosed(Diagnostic):
    template: ClassVar[str] = "this `{bracket}` is never closed"
    bracket: str


class NeverOpened(Diagnostic):
    template: ClassVar[str] = "this `{bracket}` closes nothing"
    bracket: str


class ReservedName(Diagnostic):
    template: ClassVar[str] = "`{name}` is a reserved word and cannot be a name"
    name: str


class NotCallable(Diagnostic):
    template: ClassVar[str] = "only a function can be called"
