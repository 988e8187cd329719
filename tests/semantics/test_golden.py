"""Every file of `wrong/` is reported as the text beside it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import golden

WRONG = sorted((Path(__file__).parent / "wrong").glob("*.cem"))


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_wrong_file(path: Path) -> None:
    golden.check(path)


def test_there_are_enough() -> None:
    syntax = Path(__file__).parent.parent / "syntax" / "wrong"
    assert len(WRONG) + len(list(syntax.glob("*.cem"))) >= 60


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_every_report_has_place_line_and_caret(path: Path) -> None:
    blocks = path.with_suffix(".txt").read_text(encoding="utf-8").split(f"{path.name}:")[1:]
    assert blocks
    for block in blocks:
        head, line, caret, *_ = block.splitlines()
        number, column, severity, _ = head.split(":", 3)
        assert severity.strip() in ("error", "warning")
        assert line[4:] == path.read_text(encoding="utf-8").splitlines()[int(number) - 1]
        assert caret.strip(" ^\t") == ""
        assert int(column) >= 1
