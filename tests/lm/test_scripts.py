"""What is done with a trained model: text, and perplexity against the number of steps."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from examples.lm import evaluate, sample
from examples.lm.config import Config
from examples.lm.train import main
from tests.lm.conftest import by_hand, energy, with_layers, write


@pytest.fixture(scope="module")
def trained(small: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with an energy that was trained with two steps."""
    folder = tmp_path_factory.mktemp("trained")
    layers = (energy("design/attention_two_steps_refreshed", heads=2), by_hand("LlamaMlp", f=24))
    config = write(with_layers(small, *layers, repeat=2), folder / "config.json")
    assert main(["--config", str(config), "--out", str(folder / "run")]) == 0
    return folder / "run"


def test_a_model_writes_the_same_with_and_without_its_cache(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert sample.main([str(trained), "--tokens", "30", "--compare", "--prompt", "Fellow"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Fellow")
    assert "the same text" in printed
    assert "with a cache" in printed
    assert sample.main([str(trained), "--tokens", "30", "--seed", "2"]) == 0
    assert capsys.readouterr().out.strip() != printed.split("\n\nwith a cache")[0]


def test_texts_that_differ_are_an_error(
    trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from examples.lm.model import generate

    def forgetful(*arguments: Any, cached: bool) -> Any:
        written = generate(*arguments)
        if not cached:
            written[-3] += 1
        return written

    monkeypatch.setattr(sample, "generate", forgetful)
    assert sample.main([str(trained), "--tokens", "9", "--compare"]) == 1
    assert "the two texts differ from token 6 on" in capsys.readouterr().err


def test_perplexity_against_steps(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate.main([str(trained), "--steps", "1", "2", "5"]) == 0
    rows = json.loads((trained / "steps.json").read_text(encoding="utf-8"))
    last = json.loads((trained / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert [row["steps"] for row in rows] == [1, 2, 5]
    # Two is what it was trained with.
    assert rows[1]["perplexity"] == pytest.approx(math.exp(last["val_loss"]), rel=1e-5)
    assert len({row["perplexity"] for row in rows}) == 3
    assert "trained with attention_two_steps_refreshed: 2" in capsys.readouterr().out
    assert (trained / "steps.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "LlamaMlp"], "nothing to vary: .* the model's energies are attention_two_steps_refreshed"),
        (["--steps", "0"], "nothing to vary: steps should be positive"),
    ],
)
def test_nothing_to_vary_is_said(
    trained: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evaluate.main([str(trained), *arguments]) == 1
    assert re.search(message, capsys.readouterr().err)


def test_a_folder_without_a_run_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for script in (evaluate.main, sample.main):
        assert script([str(tmp_path)]) == 1
        assert "holds no run" in capsys.readouterr().err
