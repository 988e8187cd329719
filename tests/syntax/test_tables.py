"""The parser's tables beside the grammar are those of the grammar."""

from __future__ import annotations

import json
from pathlib import Path

from lark import Lark

from cemc.syntax.grammar import OPTIONS, grammar_text
from cemc.syntax.tables import load_tables, made_from, tables_path

TEXTS = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.parent.glob("semantics/right/*.cem")]


def test_tables_are_up_to_date() -> None:
    stored = json.loads(tables_path().read_text(encoding="utf-8"))
    assert stored["made_from"] == made_from(grammar_text()), "run python -m cemc.syntax.tables"


def test_tables_parse_as_the_grammar_does() -> None:
    ready = load_tables(grammar_text(), postlex=OPTIONS["postlex"])
    assert ready is not None
    made = Lark(grammar_text(), **OPTIONS)
    assert TEXTS
    for text in TEXTS:
        assert ready.parse(text) == made.parse(text)


def test_tables_of_another_grammar_are_not_used() -> None:
    assert load_tables(grammar_text() + "\n// edited", postlex=OPTIONS["postlex"]) is None
