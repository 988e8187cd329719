"""The table of `docs/gallery.md`, made of the files in `examples/energies` and of what the compiler says of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cemc.compiler import Result

ROOT = Path(__file__).parents[2]
ENERGIES = sorted((ROOT / "examples" / "energies").glob("*.cem"))
PAGE = ROOT / "docs" / "gallery.md"
HEAD = "| file | energy | step | recognised | causal |\n| --- | --- | --- | --- | --- |\n"


@dataclass(frozen=True)
class Opening:
    """The comment a file opens with. `source`: what it is and whose; `step`: the update, in the field's notation."""

    source: str
    step: str


def opening(path: Path) -> Opening:
    """The opening comment, read: its first sentence, and what follows from its line with an arrow on."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("# "):
            break
        lines.append(line.removeprefix("# "))
    arrow = next(number for number, line in enumerate(lines) if " <- " in line)
    sentence = re.split(r": |\. (?=[A-Z])|\.$", " ".join(lines[:arrow]))[0]
    return Opening(sentence, " ".join(lines[arrow:]))


def row(path: Path, result: Result, causal: bool) -> str:
    """One line of the table."""
    found = opening(path)
    energies = "<br>".join(_code(text) for text in _energies(path))
    recognised = "<br>".join(result.recognised) or "nothing"
    link = f"[{path.stem}](../examples/energies/{path.name}): {found.source}"
    return f"| {link} | {energies} | {_code(found.step)} | {recognised} | {'yes' if causal else 'no'} |"


def _energies(path: Path) -> list[str]:
    """The definitions that are differentiated, as they stand in the file."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    names = dict.fromkeys(re.findall(r"grad\[\w+\]\((\w+)\)", "\n".join(lines))) or {"E": None}
    return [line for name in names for line in lines if re.match(rf"{name}(\[\w+\])? = ", line)]


def _code(text: str) -> str:
    return "`" + text.replace("|", r"\|") + "`"
