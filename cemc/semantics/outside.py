"""The warning about reads outside an axis that feed a logsumexp, a max or a mean."""

from __future__ import annotations

from collections.abc import Iterator

from cemc.diagnostics import Diagnostic
from cemc.semantics.typed import Energy


def reads_outside(energy: Energy) -> Iterator[Diagnostic]:
    yield from ()
