"""Each file is a fault that was found once; all of them compile and agree with the oracle."""

from __future__ import annotations

from pathlib import Path

import pytest

from cemc.check import check_file

FILES = sorted((Path(__file__).parent / "regressions").glob("*.cem"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_stays_mended(path: Path) -> None:
    for report in check_file(path, rounds=3):
        assert report.passed, f"{report.worst}: {report.largest}"
