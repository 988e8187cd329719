"""Text to tree. Importing this does not import Lark, which an unchanged file never needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cemc.source import Source
from cemc.syntax.read import read_source, source_of

if TYPE_CHECKING:
    from cemc.syntax.tree import File

__all__ = ["parse", "read_source", "source_of"]


def parse(source: Source) -> File:
    """The tree of a file. Syntax errors of single statements are in `File.errors`, for `analyse` to report with its
    own; what leaves nothing to go on with (a file that is empty, too long or too deep) raises `CemError`."""
    from cemc.syntax.parsing import parse as run

    return run(source)
