"""Tables: the named, indexed values a symbolic energy is made of, and the factory that keeps their symbols apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cemc.notation.nodes import Entry, Expr, IndexSymbol, entry
from cemc.notation.walk import FreeIndices, postorder

Origin = Literal["definition", "local", "anonymous", "adjoint", "assignment"]


@dataclass(frozen=True)
class Table:
    """`name[indices] = body`. The body's free index symbols are among `indices`. `hint`: the name its values go by.

    Origins: a `definition` of the energy; a `local` definition of the update block, evaluated where it stands; the
    value of an `assignment`; an `anonymous` part of an expression that needs a name; an `adjoint`, the derivative of
    the energy by a table."""

    name: str
    indices: tuple[IndexSymbol, ...]
    body: Expr
    origin: Origin
    hint: str | None


class Tables:
    """All tables of one energy, in an order in which each uses only earlier ones, and fresh symbols for more."""

    def __init__(self) -> None:
        self.free = FreeIndices()
        self._tables: dict[str, Table] = {}
        self._symbols = 0
        self._names = 0

    def index(self, name: str, axis: str) -> IndexSymbol:
        """A fresh index symbol over `axis`."""
        self._symbols += 1
        return IndexSymbol(self._symbols, name, axis)

    def fresh_name(self, stem: str) -> str:
        """A table name no name of the language can equal."""
        self._names += 1
        return f"{stem}#{self._names:04d}"

    def add(self, table: Table) -> Table:
        assert table.name not in self._tables, table.name
        assert self.free(table.body) <= set(table.indices), table
        self._tables[table.name] = table
        return table

    def replace(self, table: Table) -> None:
        """Another body for a table that is there."""
        assert table.name in self._tables
        self._tables[table.name] = table

    def anonymous(self, body: Expr, first: tuple[IndexSymbol, ...] = (), hint: str | None = None) -> Table:
        """A table of `body` over its free indices: those not in `first` in order of creation, named ones before
        others, then `first`."""
        rest = sorted(self.free(body).difference(first), key=lambda symbol: (not symbol.name, symbol.number))
        return self.add(Table(self.fresh_name("part"), (*rest, *first), body, "anonymous", hint))

    def __contains__(self, name: str) -> bool:
        return name in self._tables

    def __getitem__(self, name: str) -> Table:
        return self._tables[name]

    def names(self) -> tuple[str, ...]:
        return tuple(self._tables)

    def uses(self, expr: Expr) -> list[Entry]:
        """The distinct entries in `expr`, tables and declared tensors alike, in order."""
        return [node for node in postorder(expr) if isinstance(node, Entry)]


def at_indices(table: Table) -> Entry:
    """The entry of a table at its own indices."""
    return entry(table.name, table.indices)
