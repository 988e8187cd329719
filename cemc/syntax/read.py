"""A file's text."""

from __future__ import annotations

import re
from pathlib import Path

from cemc.diagnostics import CemError
from cemc.diagnostics.syntax import NotText
from cemc.source import Source, Span


def read_source(path: str | Path) -> Source:
    """Reads a `.cem` file: UTF-8, with or without a byte order mark, any line ends (they become line feeds, so that the text can be
    quoted in generated files). Raises `OSError` as `open` does, and `CemError` at the first byte that is not text."""
    return source_of(Path(path).read_bytes(), str(path))


def source_of(data: bytes, path: str) -> Source:
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        start = len(data[: error.start].decode("utf-8"))
        source = Source(path, data.decode("utf-8", errors="replace"))
        raise CemError(source, [NotText(Span(start, start + 1), data[error.start])]) from None
    return Source(path, re.sub(r"\r\n?", "\n", text))
