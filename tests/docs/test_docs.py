"""What the docs show is so: energies compile, code runs, commands print what stands there, links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, REWRITE, ROOT, Wrong, agrees, run_page


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_everything_on_the_page_is_so(path: Path, tmp_path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    differing = run_page(page, path.name, tmp_path)
    if REWRITE:
        for block, text in sorted(differing.items(), key=lambda item: -item[0].start):
            page = page[: block.start] + text + page[block.end :]
        path.write_text(page, encoding="utf-8")
    else:
        assert not differing, "\n\n".join(f"{block.place}, but it is\n{text}" for block, text in differing.items())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    page = re.sub(r"^```.*?^```$|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = [target for target in re.findall(r"\]\(([^)#\s]+)", page) if "://" not in target]
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_the_pages_for_users_are_among_them() -> None:
    names = {path.relative_to(ROOT).as_posix() for path in PAGES}
    assert {"README.md", "docs/gallery.md", "docs/reference.md", "docs/tutorial.md"} <= names


# ------------------------------------------------------------------------------------------ what would be caught

GOOD = "energy good(d) {\n  state x[token, d]\n  E[i] = norm2(x[i])\n}\n"


def fenced(language: str, text: str) -> str:
    return f"Text.\n\n```{language}\n{text}```\n"


@pytest.mark.parametrize(
    ("page", "message"),
    [
        (fenced("cem", GOOD.replace("norm2(x[i])", "norm2(y[i])")), r"page:3: .*unknown name `y`"),
        (fenced("cem", GOOD.replace("(d)", "(d, n = 1)")), "`n` is never used"),
        (fenced("cem wrong", GOOD), "nothing is wrong with it"),
        (fenced("cem", "state x[token, d]\n"), "there is no energy in it"),
        (fenced("python", "x = 1\nassert x == 2\n"), "page:3: AssertionError"),
        (fenced("console", "cemc --version\n"), "starts with a command"),
        (fenced("pyhton", "x = 1\n"), "no such kind of block"),
    ],
)
def test_a_wrong_block_is_an_error(page: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(Wrong, match=re.compile(message, re.DOTALL)):
        run_page(page, "page", tmp_path)


def test_other_output_is_told(tmp_path: Path) -> None:
    page = fenced("python", "print(1 + 1)\n") + "\n```text\n3\n```\n" + fenced("text", "not printed\n")
    assert list(run_page(page, "page", tmp_path).values()) == ["2\n"]


def test_commands_are_run_where_the_page_has_put_its_energies(tmp_path: Path) -> None:
    right = "$ cemc compile good.cem -o layers\nlayers/good.py\n    generic: ...\n$ ls  # not run\nanything\n"
    assert run_page(fenced("cem", GOOD) + fenced("console", right), "page", tmp_path) == {}
    assert (tmp_path / "layers" / "good.py").exists()


def test_a_command_that_shows_something_else(tmp_path: Path) -> None:
    page = fenced("console", "$ cemc compile no.cem -o layers\nlayers/no.py\n")
    (shown,) = run_page(page, "page", tmp_path).values()
    assert shown == "$ cemc compile no.cem -o layers\ncemc: error: no.cem: No such file or directory\n"


@pytest.mark.parametrize(
    ("expected", "shown", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "b\n", False),
        ("a\n", "a\nb\n", False),
        ("error ...\n", "error 1.5e-16\n", True),
        ("error ...\n", "error\nmore\n", False),
        ("a\n...\nc\n", "a\nb\nb\nc\n", True),
        ("a\n...\nc\n", "a\nb\n", False),
        ("", "a\n", False),
        ("(a|b)\n", "a\n", False),
    ],
)
def test_dots_stand_for_anything(expected: str, shown: str, same: bool) -> None:
    assert agrees(expected, shown) == same
