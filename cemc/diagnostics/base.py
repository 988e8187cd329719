"""What a fault is, and the exception that carries all faults of a file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

from cemc.record import Record, named
from cemc.source import Source, Span

MAX_REPORTED = 50
"""A file with more faults than this shows the first ones and a count: a screenful is read, a thousand lines are not."""


class Diagnostic(Record):
    """A fault at a place. Each kind is a subclass: its fields are what varies, `template` puts them into words.

    `suggestion` says what to write instead, where that is likely.
    """

    template: ClassVar[str] = ""
    severity: ClassVar[Literal["error", "warning", "note"]] = "error"

    span: Span
    suggestion: str | None = named(default=None, kw_only=True)

    @property
    def message(self) -> str:
        return self.template.format(**self.__dict__)


class Warn(Diagnostic):
    """Base of the faults that do not stop the compiler."""

    severity: ClassVar[Literal["error", "warning", "note"]] = "warning"


class Note(Diagnostic):
    """Base of what is worth knowing, and may be meant."""

    severity: ClassVar[Literal["error", "warning", "note"]] = "note"


class CemError(Exception):
    """The file is wrong. `str()` is the whole report; `diagnostics` are the single faults, in the order of the file."""

    def __init__(self, source: Source, diagnostics: Iterable[Diagnostic]) -> None:
        self.source = source
        self.diagnostics = tuple(in_order(diagnostics))
        super().__init__(source, self.diagnostics)

    def __str__(self) -> str:
        from cemc.diagnostics.render import render_all

        return render_all(self.diagnostics, self.source)


def in_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """In the order of the file, each once."""
    return sorted(dict.fromkeys(diagnostics), key=lambda each: (each.span.start, each.span.end, each.message))
