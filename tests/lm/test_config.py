"""Configurations: what is in them is read, what is wrong with them is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from examples.lm.config import Config, ConfigError, load_config
from examples.lm.model import Decoder
from tests.lm.conftest import ROOT


def test_a_file_is_read_as_it_stands(small: Config, small_file: Path) -> None:
    assert load_config(small_file) == small


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("heads = 2", "headz = 4", r"\[model\] has an unknown key headz"),
        ("heads = 2", "", r"\[model\] lacks heads"),
        ("heads = 2", "heads = 4.5", r"heads in \[model\] should be int, not 4.5"),
        ("heads = 2", "heads = true", r"heads in \[model\] should be int, not True"),
        ("heads = 2", "heads = 0", r"heads in \[model\] should be positive, not 0"),
        ("heads = 2", "heads = [", r"line \d+"),
        ("[model]", "[modell]", r"unknown table \[modell\]"),
    ],
)
def test_an_error_names_file_table_and_key(small_file: Path, tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    text = small_file.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(path)
    assert str(path) in str(caught.value)


def test_whole_numbers_serve_as_real_ones(small: Config, small_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "whole.toml"
    path.write_text(small_file.read_text(encoding="utf-8").replace("clip = 1.0", "clip = 1"), encoding="utf-8")
    assert load_config(path) == small


def test_the_demo_is_the_size_it_says() -> None:
    config = load_config(ROOT / "examples" / "lm" / "configs" / "tiny.toml")
    parameters = sum(
        parameter.numel() for parameter in Decoder(config.model, config.data.vocabulary, "cem").parameters()
    )
    assert 0.8e6 < parameters < 1.2e6
