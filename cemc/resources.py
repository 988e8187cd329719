"""Finds the grammars and templates, in a checkout and in an installed wheel alike.

In the repository they lie at top level, where a reader finds them; the wheel carries them inside the package, under
`cemc/_resources/` (see `pyproject.toml`).
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource_folder(kind: str) -> Path:
    """The folder `grammars` or `templates`, whichever `kind` names."""
    for root in (_PACKAGE / "_resources", _PACKAGE.parent):
        folder = root / kind
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"cemc is installed without its {kind}; install it again")
