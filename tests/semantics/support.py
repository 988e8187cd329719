"""Short ways to typed energies and to the faults of a text."""

from __future__ import annotations

from cemc.diagnostics import CemError, Diagnostic
from cemc.semantics import Analysis, analyse
from cemc.semantics.typed import Energy
from cemc.source import Source
from cemc.syntax import parse


def analysis(text: str) -> Analysis:
    source = Source("test.cem", text)
    return analyse(parse(source), source)


def typed(text: str) -> Energy:
    (energy,) = analysis(text).energies
    return energy


def block(*lines: str, header: str = "d, heads = 2, r = d / heads") -> Energy:
    """An energy with a state `x[token, d]` and the lines."""
    return typed("\n".join((f"energy test({header}) {{", "state x[token, d]", *lines, "}")))


def faults(*lines: str, header: str = "d, heads = 2, r = d / heads") -> list[Diagnostic]:
    try:
        block(*lines, header=header)
    except CemError as error:
        return list(error.diagnostics)
    return []
