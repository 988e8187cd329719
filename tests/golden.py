"""Golden files: a folder of wrong `.cem` files, each with its rendered diagnostics beside it.

`REWRITE_GOLDEN=1 pytest tests/syntax tests/semantics` writes them anew; read the difference as a user would before
committing.
"""

from __future__ import annotations

import os
from pathlib import Path

from cemc.diagnostics import CemError, render_all
from cemc.semantics import analyse
from cemc.syntax import parse, source_of


def diagnostics(path: Path) -> str:
    """What a user sees for a file: the errors, or, if there are none, the warnings."""
    try:
        source = source_of(path.read_bytes(), path.name)
        return render_all(analyse(parse(source), source).warnings, source)
    except CemError as error:
        return str(error)


def check(path: Path) -> None:
    expected = path.with_suffix(".txt")
    shown = diagnostics(path) + "\n"
    if os.environ.get("REWRITE_GOLDEN"):
        expected.write_text(shown, encoding="utf-8")
    assert shown == expected.read_text(encoding="utf-8"), f"{path.name}: see REWRITE_GOLDEN"
