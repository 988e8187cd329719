"""The grammar is LALR(1), and nothing in it was resolved silently."""

from __future__ import annotations

import logging

from lark import Lark, logger

from cemc.semantics.names import RESERVED
from cemc.syntax.grammar import OPTIONS, grammar_text, parser


def test_no_conflict_was_resolved_silently() -> None:
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler, level = Collect(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        Lark(grammar_text(), debug=True, **OPTIONS)
        assert [each for each in messages if "conflict" in each.lower()] == []
        # The same watch does see a conflict where there is one.
        Lark('start: "i" start | "i" start "e" start | "x"', parser="lalr", debug=True)
        assert [each for each in messages if "conflict" in each.lower()] != []
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)


def test_reserved_words_are_the_words_of_the_grammar() -> None:
    words = {each.pattern.value for each in parser().terminals if each.pattern.value.isalpha()}
    assert words == RESERVED
