"""What the names of one energy stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from cemc.operations.signatures import SIGNATURES
from cemc.semantics.typed import Axis
from cemc.source import Span

Kind = Literal[
    "header name",
    "constant",
    "axis",
    "state",
    "given",
    "parameter",
    "function",
    "definition",
    "local definition",
    "lost",
]

WITH_AXES = ("state", "given", "parameter", "definition", "local definition")


@dataclass(eq=False, repr=False)
class Declared:
    """`axes` is None where they are not known: of a definition before its turn, or after an error in it. `kind`
    "lost" stands for a name that an unreadable statement may have declared."""

    kind: Kind
    name: str
    span: Span
    axes: tuple[Axis, ...] | None = None
    integer: bool = False
    arity: int = 0
    used: bool = False


_ARTICLES = {"axis": "an axis", "lost": "a name"}


def a(kind: str) -> str:
    return _ARTICLES.get(kind) or f"a {kind}"


@dataclass(eq=False, repr=False)
class Table:
    """All declared names. `axes` holds the run-time axes and the header names, which are axes too."""

    declared: dict[str, Declared] = field(default_factory=dict)
    axes: dict[str, Axis] = field(default_factory=dict)
    raw: dict[str, Declared] = field(default_factory=dict)
    """Names such as `p_raw`, under which positive parameters are kept."""

    lost_everything: bool = False
    """The update block, or more, could not be read: nothing can be said to be missing or unused."""

    def find(self, name: str) -> Declared | None:
        return self.declared.get(name)

    def names(self, *kinds: str) -> Iterable[str]:
        return [name for name, each in self.declared.items() if not kinds or each.kind in kinds]


def closest(name: str, among: Iterable[str]) -> str | None:
    """The name that was probably meant."""
    from difflib import get_close_matches

    candidates = list(dict.fromkeys(among))
    for candidate in candidates:
        if candidate.lower() == name.lower():
            return candidate
    if len(name) < 2 or len(name) > 40:
        return None
    found = get_close_matches(name, candidates, n=1, cutoff=0.7)
    return found[0] if found else None


def builtin_names() -> list[str]:
    return [*SIGNATURES, "where", "given", "input", "integral", "grad"]
