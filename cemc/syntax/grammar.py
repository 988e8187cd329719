"""The parser for `grammars/cem.lark`, built once per process."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from lark import Lark, Token
from lark.lark import PostLex

from cemc.resources import resource_folder
from cemc.syntax.build import Build
from cemc.syntax.tables import load_tables


def grammar_text() -> str:
    return (resource_folder("grammars") / "cem.lark").read_text(encoding="utf-8")


class _KeepUnknown(PostLex):
    """Lark drops terminals that no rule uses; UNKNOWN is used by `tokens.py` alone."""

    always_accept = ("UNKNOWN",)

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        return stream


OPTIONS: dict[str, Any] = {
    "parser": "lalr",
    "lexer": "basic",
    "start": "file",
    "keep_all_tokens": True,
    "maybe_placeholders": False,
    "postlex": _KeepUnknown(),
}


@cache
def parser() -> Lark:
    grammar = grammar_text()
    ready = load_tables(grammar, transformer=Build(), postlex=OPTIONS["postlex"])
    return ready if ready is not None else Lark(grammar, transformer=Build(), **OPTIONS)
