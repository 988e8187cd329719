"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.lm.files import atomic_path, write_text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")
    with pytest.raises(KeyboardInterrupt), atomic_path(path) as temporary:
        temporary.write_text("ne", encoding="utf-8")
        raise KeyboardInterrupt
    assert [(found.name, found.read_text(encoding="utf-8")) for found in tmp_path.iterdir()] == [("file.txt", "old")]


def test_what_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with atomic_path(path) as temporary:
        name = temporary.name
        temporary.write_text("x", encoding="utf-8")
    (tmp_path / name).write_text("left behind, and longer", encoding="utf-8")
    write_text(path, "new")
    assert [(found.name, found.read_text(encoding="utf-8")) for found in tmp_path.iterdir()] == [("file.txt", "new")]
