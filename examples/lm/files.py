"""Writing files whole: under a temporary name first, then renamed, so that no reader ever sees half of one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path`; what was written there becomes `path` when the block ends without an error."""
    # One fixed name: what a killed process left is overwritten by the next one.
    temporary = path.with_name(path.name + ".partial")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())  # the contents reach the disk before the name does
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
