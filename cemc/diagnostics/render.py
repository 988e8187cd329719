"""Faults as text: `path:line:column: error: …`, the line, a caret under the exact span, and a suggestion."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from cemc.diagnostics.base import MAX_REPORTED, Diagnostic
from cemc.source import Source, Span

INDENT = "    "
WIDEST = 200
"""Longer lines are cut to a window around the span."""

_LINE_END = re.compile(r"\r\n|\r|\n")


def place(source: Source, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1; columns count characters."""
    starts = _line_starts(source.text)
    line = bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1


@lru_cache(maxsize=2)
def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in _LINE_END.finditer(text))]


def line_of(source: Source, span: Span) -> int:
    return place(source, span.start)[0]


def render(diagnostic: Diagnostic, source: Source) -> str:
    """One fault, without a final line end."""
    line, column = place(source, diagnostic.span.start)
    parts = [f"{source.path}:{line}:{column}: {diagnostic.severity}: {_visible(diagnostic.message)}"]
    if source.text.strip():
        parts += _excerpt(source.text, diagnostic.span, column)
    if diagnostic.suggestion:
        # It may quote the file, hidden characters included.
        parts.append(f"{INDENT}{_visible(diagnostic.suggestion)}")
    return "\n".join(parts)


def render_all(diagnostics: Sequence[Diagnostic], source: Source) -> str:
    texts = [render(each, source) for each in diagnostics[:MAX_REPORTED]]
    if len(diagnostics) > MAX_REPORTED:
        texts.append(f"{source.path}: and {len(diagnostics) - MAX_REPORTED} more")
    return "\n".join(texts)


def _excerpt(text: str, span: Span, column: int) -> list[str]:
    """The line of the span, and the carets under it, up to the end of that line."""
    start = span.start - column + 1
    match = _LINE_END.search(text, start)
    stop = match.start() if match else len(text)
    first, last = span.start - start, max(min(span.end, stop) - start, span.start - start + 1)
    line = text[start:stop]
    if len(line) > WIDEST:
        left = max(0, min(first - WIDEST // 2, len(line) - WIDEST))
        right = min(len(line), left + WIDEST)
        head, tail = ("…" if left else ""), ("…" if right < len(line) else "")
        first, last = first - left + len(head), min(last, right) - left + len(head)
        line = head + line[left:right] + tail
    line = _visible(line)
    if first < len(line):
        last = max(first + 1, first + len(line[first:last].rstrip()))
    blank = "".join(_under(character, " ") for character in line[:first])
    carets = "".join(_under(character, "^") for character in line[first:last].ljust(last - first))
    return [INDENT + line, INDENT + blank + (carets if "^" in carets else "^")]


def _under(character: str, mark: str) -> str:
    """What stands in the caret line under a character: as wide as the character is on a screen."""
    if character == "\t":
        return "\t"
    if character < "\x7f":
        return mark
    from unicodedata import category, east_asian_width

    if category(character) in ("Mn", "Me", "Cf"):
        return ""
    return mark * (2 if east_asian_width(character) in "WF" else 1)


def _visible(text: str) -> str:
    return "".join(map(_printable, text))


def _printable(character: str) -> str:
    """Control characters would act on the terminal; a picture of them takes their place."""
    if character < " " and character != "\t":
        return chr(0x2400 + ord(character))
    if (
        "\x7f" <= character <= "\x9f"
        or character in "\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    ):
        return "\ufffd"
    return character
