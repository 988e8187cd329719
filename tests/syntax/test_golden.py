"""Every file of `wrong/` is reported as the text beside it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import golden

WRONG = sorted((Path(__file__).parent / "wrong").glob("*.cem"))


@pytest.mark.parametrize("path", WRONG, ids=lambda path: path.stem)
def test_wrong_file(path: Path) -> None:
    golden.check(path)
