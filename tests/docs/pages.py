"""The blocks of a page, run in order in a folder of the page's own.

- `cem`: saved as NAME.cem, after its first energy, and compiled; no warning either. `cem wrong` must have a diagnostic.
- `python`: run, in one namespace for the whole page. A `text` block right after it is what it prints.
- `console`: each `$ cemc ...` is run, and what follows it is what it shows. Other commands are for the reader.

In what is shown, `...` stands for anything, and a line of it alone for any lines. `REWRITE_GOLDEN=1 pytest tests/docs`
writes what differs anew.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cemc import CemError, cli, compile_file

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])
LANGUAGES = {"", "cem", "cem wrong", "console", "python", "sh", "text", "toml"}
REWRITE = bool(os.environ.get("REWRITE_GOLDEN"))
ERRORS = re.compile(r"\b\d\.\de[+-]\d\d\b")
"""Relative errors, as `cemc check` prints them: they differ from one machine to another."""
FENCE = re.compile(r"^```(?P<language>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Wrong(AssertionError):
    """A block that does not do what its page says."""


@dataclass(frozen=True)
class Block:
    """One fenced block; `start` and `end` are where its text stands in the page."""

    language: str
    text: str
    start: int
    end: int
    place: str


def blocks(page: str, name: str) -> list[Block]:
    """The blocks of a page's text, in order."""
    found = []
    for match in FENCE.finditer(page):
        place = f"{name}:{page.count(chr(10), 0, match.start('text'))}"
        found.append(Block(match["language"].strip(), match["text"], match.start("text"), match.end("text"), place))
    return found


def run_page(page: str, name: str, folder: Path) -> dict[Block, str]:
    """Runs every block of a page; returns what blocks should say where they say something else."""
    differing: dict[Block, str] = {}
    namespace: dict[str, Any] = {"__name__": "page"}
    previous: Block | None = None
    printed = ""
    with _in_folder(folder):
        for block in blocks(page, name):
            try:
                if block.language not in LANGUAGES:
                    raise Wrong(f"no such kind of block: {block.language}")
                if block.language.startswith("cem"):
                    _compile(block, folder)
                elif block.language == "python":
                    printed = _python(block, namespace)
                elif block.language == "text" and _follows(previous, block, page) and not agrees(block.text, printed):
                    differing[block] = printed
                elif block.language == "console":
                    shown = _console(block)
                    if shown != block.text:
                        differing[block] = shown
            except Exception as error:
                raise Wrong(f"{block.place}: {type(error).__name__}: {error}\n{block.text}") from error
            previous = block
    return differing


def _follows(previous: Block | None, block: Block, page: str) -> bool:
    """Whether a block is what the Python before it prints: nothing but the fences and blank lines are between."""
    if previous is None or previous.language != "python":
        return False
    return re.sub(r"^```.*$", "", page[previous.end : block.start], flags=re.MULTILINE).strip() == ""


def agrees(expected: str, shown: str) -> bool:
    """Whether `shown` is what is expected, where `...` stands for anything."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else r"[^\n]*".join(map(re.escape, line.split("..."))) + r"[ ]*\n"
        for line in expected.splitlines()
    )
    return re.fullmatch(pattern, shown if shown.endswith("\n") or not shown else shown + "\n") is not None


# --------------------------------------------------------------------------------------------------- kinds of block


def _compile(block: Block, folder: Path) -> None:
    name = re.search(r"^energy (\w+)", block.text, re.MULTILINE)
    if name is None:
        raise Wrong("there is no energy in it")
    path = folder / f"{name[1]}.cem"
    path.write_text(block.text, encoding="utf-8")
    try:
        warnings = [warning for result in compile_file(path) for warning in result.warnings]
    except CemError as error:
        warnings = [str(error)]
    if block.language == "cem" and warnings:
        raise Wrong("\n".join(warnings))
    if block.language == "cem wrong" and not warnings:
        raise Wrong("nothing is wrong with it")


def _python(block: Block, namespace: dict[str, Any]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile("\n" * (int(block.place.split(":")[1])) + block.text, block.place, "exec"), namespace)
    return output.getvalue()


def _console(block: Block) -> str:
    """The block with what its commands show; where that agrees with what stands there, as it stands there."""
    parts = re.split(r"^(\$ .*\n)", block.text, flags=re.MULTILINE)
    if parts[0]:
        raise Wrong("a console block starts with a command: `$ ...`")
    shown = ""
    for command, expected in zip(parts[1::2], parts[2::2], strict=True):
        words = shlex.split(command.removeprefix("$ "), comments=True)
        output = _cemc(words[1:]) if words[0] == "cemc" else expected
        shown += command + (expected if agrees(expected, output) else ERRORS.sub("...", output))
    return shown


def _cemc(arguments: list[str]) -> str:
    """What the command prints to either stream; its exit status where that is not 0, as `echo $?` would show it."""
    output = io.StringIO()
    was_on = gc.isenabled()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        cli.main(arguments)
    if was_on:
        gc.enable()  # the command, which is the whole of its process, switches it off
    return output.getvalue()


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Work in `folder`, with `examples` and `generated` at hand as in a checkout, and a file that is the reader's own;
    modules are imported from there. Triton does not interpret, which nobody asks for unless a page says so."""
    for name in ("examples", "generated"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "my_energy.cem").symlink_to(ROOT / "examples" / "energies" / "cem_attention.cem")
    before, modules, path = Path.cwd(), set(sys.modules), list(sys.path)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    interpreted = os.environ.pop("TRITON_INTERPRET", None)
    try:
        yield
    finally:
        if interpreted is not None:
            os.environ["TRITON_INTERPRET"] = interpreted
        os.chdir(before)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if name.split(".")[0] == "layers":
                del sys.modules[name]
