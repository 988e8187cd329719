"""A file's text."""

from __future__ import annotations

import codecs
import errno
import re
from pathlib import Path

from cemc.diagnostics import CemError
from cemc.diagnostics.syntax import NotText
from cemc.source import Source, Span
from cemc.syntax.limits import MAX_CHARACTERS

_MOST_BYTES = 4 * MAX_CHARACTERS + 8
"""More than any text within the limit has: what is longer (a device without end, say) is not read to its end."""


def read_source(path: str | Path) -> Source:
    """Reads a `.cem` file: UTF-8, with or without a byte order mark, any line ends.

    Line ends become line feeds, so that the text can be quoted in generated files. Raises `OSError` as `open` does, and
    `CemError` at the first byte that is not text.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES)
    except ValueError as error:  # a null character in the path
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    return source_of(data, str(path))


def source_of(data: bytes, path: str) -> Source:
    """The source of a file with these bytes."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        # Where the file was not read to its end, the last character may be cut: it is left out.
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=len(data) < _MOST_BYTES - 3)
    except UnicodeDecodeError as error:
        start = len(data[: error.start].decode("utf-8"))
        source = Source(path, data.decode("utf-8", errors="replace"))
        raise CemError(source, [NotText(Span(start, start + 1), data[error.start])]) from None
    return Source(path, re.sub(r"\r\n?", "\n", text))
