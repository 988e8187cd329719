"""Statements in the making, and the variables of a method that decodes."""

from __future__ import annotations

from dataclasses import dataclass, field

from cemc.emit.code import Code, statement


@dataclass(frozen=True)
class Cache:
    """The variables of a method that decodes: the cache, which may be None, and the number of the repeat."""

    variable: str
    repeat: str


@dataclass
class Section:
    """Statements as (text before the expression, expression, comment)."""

    statements: list[tuple[str, Code, str]] = field(default_factory=list)

    def add(self, target: str, code: Code, comment: str = "") -> None:
        self.statements.append((f"{target} = ", code, comment))

    def lines(self, indent: int) -> list[str]:
        return [line for before, code, comment in self.statements for line in statement(before, code, comment, indent)]
