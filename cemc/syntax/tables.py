"""The parser's tables, made from the grammar ahead of time.

Lark takes longer to make LALR tables than to parse any energy with them, so they lie beside the grammar as
`cem.tables.json`, together with what they were made from. Where that is not what is installed, an edited grammar or
another version of Lark, the parser is made from the grammar instead: tables can be missing or old, but not wrong.

    python -m cemc.syntax.tables      writes them anew, after a change to the grammar
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from cemc.resources import resource_folder


def tables_path() -> Path:
    return resource_folder("grammars") / "cem.tables.json"


def made_from(grammar: str) -> str:
    """Digest of everything that tables depend on."""
    return hashlib.sha256(f"{lark.__version__}\0{grammar}".encode()).hexdigest()


def load_tables(grammar: str, **options: Any) -> lark.Lark | None:
    """The parser for a grammar, if there are tables for it."""
    try:
        stored = json.loads(tables_path().read_text(encoding="utf-8"))
        if stored["made_from"] != made_from(grammar):
            return None
        memo = {int(number): value for number, value in stored["memo"].items()}
        tables = stored["data"]["parser"]["parser"]
        tables["tokens"] = {int(number): name for number, name in tables["tokens"].items()}
        tables["states"] = {
            int(state): {int(token): action for token, action in actions.items()}
            for state, actions in tables["states"].items()
        }
        return lark.Lark._load_from_dict(stored["data"], memo, **options)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def text_of_tables(grammar: str, **options: Any) -> str:
    data, memo = lark.Lark(grammar, **options).memo_serialize([TerminalDef, Rule])
    data["options"]["postlex"] = None  # an object of ours, given again when the tables are loaded
    stored = {"made_from": made_from(grammar), "data": data, "memo": memo}
    return json.dumps(stored, separators=(",", ":"), default=sorted) + "\n"


if __name__ == "__main__":
    from cemc.syntax.grammar import OPTIONS, grammar_text

    tables_path().write_text(text_of_tables(grammar_text(), **OPTIONS), encoding="utf-8")
