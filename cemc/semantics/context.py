"""What the inference of one definition, function or statement works with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from cemc.diagnostics import Diagnostic, line_of
from cemc.record import dataclass as record
from cemc.semantics.scope import Scope
from cemc.semantics.table import Table
from cemc.semantics.typed import Axis, Expr
from cemc.source import Source, Span

Mode = Literal["definition", "function", "update"]


@record(frozen=True)
class Poison(Expr):
    """What stands for an expression with an error in it: whatever meets it stays silent."""


def poison(span: Span) -> Poison:
    return Poison(span, ())


def is_poison(*expressions: Expr | None) -> bool:
    return any(isinstance(each, Poison) for each in expressions)


@dataclass(frozen=True)
class Binders:
    """Of a reduction: its function and binders as written, the indices they bind, and the names its body uses."""

    text: str
    indices: tuple[str, ...]
    used: frozenset[str]


@dataclass(eq=False, repr=False)
class Context:
    """`owner` names what is being inferred; `arguments` are those of a function; `free_axes` is set within the
    operand of `grad`, where run-time axes stay; `subscript` while what stands alone in a subscript is inferred.
    `binders` are those of the reductions around."""

    source: Source
    table: Table
    errors: list[Diagnostic]
    numbers: count[int]
    owner: str
    mode: Mode
    scope: Scope = field(default_factory=Scope)
    arguments: tuple[str, ...] = ()
    free_axes: bool = False
    subscript: bool = False
    binders: list[Binders] = field(default_factory=list)

    def fault(self, diagnostic: Diagnostic) -> Poison:
        self.errors.append(diagnostic)
        return poison(diagnostic.span)

    def text(self, span: Span) -> str:
        """A piece of the file, short enough to quote."""
        words = " ".join(self.source.text[span.start : span.end].split())
        return words if len(words) <= 60 else words[:59] + "…"

    def line(self, span: Span) -> int:
        return line_of(self.source, span)


def describe(shape: tuple[Axis, ...]) -> str:
    """A shape in words."""
    if not shape:
        return "a number"
    axes = ", ".join(f"`{axis.name}`" for axis in shape)
    kind = {1: "a vector", 2: "a matrix"}.get(len(shape), "an array")
    return f"{kind} over {axes}"


def names(axes: Iterable[Axis]) -> str:
    return ", ".join(f"`{axis.name}`" for axis in axes)
