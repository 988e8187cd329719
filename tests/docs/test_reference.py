"""The reference lists everything there is: each function with its arguments, each reserved word, each limit."""

from __future__ import annotations

import re

from cemc.operations.signatures import SIGNATURES
from cemc.semantics.names import RESERVED
from cemc.syntax import limits
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """What stands under a heading, up to the next of its level."""
    return re.split(r"^## ", PAGE.split(f"\n## {title}\n")[1], flags=re.MULTILINE)[0]


def test_every_function_is_listed_with_its_arguments() -> None:
    listed: dict[str, list[int]] = {}
    for name, arguments in re.findall(r"^\| `(\w+)\(([^`]*)\)` \|", section("Functions"), re.MULTILINE):
        required = [argument for argument in arguments.split(",") if "=" not in argument]
        listed.setdefault(name, []).extend([len(required), len(arguments.split(","))])
    expected = {name: (signature.min_arity, signature.max_arity) for name, signature in SIGNATURES.items()}
    assert {name: (min(numbers), max(numbers)) for name, numbers in listed.items()} == expected


def test_every_reserved_word_is_listed() -> None:
    (words,) = re.findall(r"\*\*Reserved\*\*, never a name: (.*?)\. `token`", PAGE, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", words)) == RESERVED


def test_every_limit_is_listed() -> None:
    listed = {int(number) for number in re.findall(r"\| (\d+) \|$", section("Limits"), re.MULTILINE)}
    assert listed == {value for name, value in vars(limits).items() if name.startswith("MAX_")}
