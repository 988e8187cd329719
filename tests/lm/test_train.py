"""Training runs: what they leave behind, that they learn, that they stop and go on exactly, and how they fail."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from examples.lm.config import Config, LayerConfig, load_config
from examples.lm.measure import parameters_of
from examples.lm.optimise import TrainingError, learning_rate
from examples.lm.train import Run, main
from tests.lm.conftest import ENERGIES, KINDS, ROOT, with_layers, with_train, write


def run(config: Path, out: Path, *more: str) -> int:
    """The training command, in this process."""
    return main(["--config", str(config), "--out", str(out), *more])


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The rows of metrics of a run."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def without_time(state: Any) -> Any:
    """A checkpoint or rows of metrics without how long things took, tensors as lists of their exact values."""
    if isinstance(state, dict):
        return {key: without_time(value) for key, value in state.items() if key not in ("seconds", "training_seconds")}
    if isinstance(state, list | tuple):
        return [without_time(value) for value in state]
    return state.tolist() if isinstance(state, torch.Tensor) else state


def outcome(folder: Path) -> Any:
    """Everything a run ends with, but for the time it took."""
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    return without_time([state, metrics(folder)]), (folder / "sample.txt").read_text(encoding="utf-8")


class Same:
    """The same batch at every step."""

    def __init__(self, batch: tuple[torch.Tensor, torch.Tensor]) -> None:
        self.batch = batch

    def __call__(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.batch

    def peek(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.batch

    def state(self) -> None: ...

    def load_state(self, state: None) -> None: ...


@pytest.fixture(scope="module")
def uninterrupted(small_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of 20 steps."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    assert run(small_file, folder) == 0
    return folder


def test_a_run_leaves_metrics_checkpoint_plot_and_sample(uninterrupted: Path, small: Config) -> None:
    rows = metrics(uninterrupted)
    keys = ["step", "train_loss", "val_loss", "tokens", "learning_rate", "spikes", "seconds"]
    assert [list(row) for row in rows] == [keys] * 6
    assert [row["step"] for row in rows] == [0, 4, 8, 12, 16, 20]
    assert [row["tokens"] for row in rows] == [64 * row["step"] for row in rows]
    assert all(math.isfinite(row["train_loss"]) and math.isfinite(row["val_loss"]) for row in rows)
    assert [row["seconds"] for row in rows] == sorted(row["seconds"] for row in rows)
    assert (uninterrupted / "loss.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert (uninterrupted / "sample.txt").read_text(encoding="utf-8").startswith(small.sample.prompt)
    left = sorted(path.name for path in uninterrupted.iterdir())
    files = ["cache", "checkpoint.pt", "config.json", "corpus.pt", "layers", "loss.png", "metrics.jsonl", "result.json"]
    assert left == [*files, "sample.txt", "tokenizer.json"]
    assert load_config(uninterrupted / "config.json") == small
    result = json.loads((uninterrupted / "result.json").read_text(encoding="utf-8"))
    assert (result["step"], result["val_loss"], len(result["losses"])) == (20, rows[-1]["val_loss"], 20)
    assert result["perplexity"] == pytest.approx(math.exp(rows[-1]["val_loss"]))
    assert result["parameters"] == parameters_of(small, 280)
    # Each row averages the losses since the one before.
    assert rows[-1]["train_loss"] == pytest.approx(sum(result["losses"][-4:]) / 4, abs=1e-4)


@pytest.mark.parametrize("layers", KINDS)
def test_the_model_learns(small: Config, tmp_path: Path, layers: str) -> None:
    config = with_layers(with_train(small, learning_rate=1e-2, steps=100), *KINDS[layers], repeat=2)
    fitting = Run(config, tmp_path)
    fitting.data = dataclasses.replace(fitting.data, batches=Same(fitting.data.batches(0)))
    losses = [fitting.step() for _ in range(90)]
    assert losses[0] == pytest.approx(math.log(280), abs=0.2)
    assert losses[-1] < 0.5 * losses[0]


def test_a_run_in_parts_ends_bit_for_bit_like_one_in_a_piece(
    uninterrupted: Path, small_file: Path, tmp_path: Path
) -> None:
    # Stopped at a regular row, and between two of them.
    for steps in ("8", "14"):
        assert run(small_file, tmp_path, "--steps", steps, "--resume") == 0
        assert metrics(tmp_path)[-1]["step"] == int(steps)
    assert run(small_file, tmp_path, "--resume") == 0
    assert outcome(tmp_path) == outcome(uninterrupted)


def test_resuming_a_finished_run_changes_nothing(uninterrupted: Path, small_file: Path) -> None:
    before = outcome(uninterrupted)
    assert run(small_file, uninterrupted, "--resume") == 0
    assert outcome(uninterrupted) == before


# Runs the training command, which kills itself at the n-th time that a file gets its final name.
KILLED = """
import os, signal, sys
from pathlib import Path
moment, count = sys.argv[1], int(sys.argv[2])
replace = Path.replace
def replace_or_die(self, target):
    global count
    count -= 1
    if count == 0 and moment == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    replace(self, target)
    if count == 0:
        os.kill(os.getpid(), signal.SIGKILL)
Path.replace = replace_or_die
from examples.lm.train import main
sys.exit(main(sys.argv[3:]))
"""


def test_killed_runs_go_on_exactly(uninterrupted: Path, small_file: Path, tmp_path: Path) -> None:
    # First before the second checkpoint has its name (tokenizer, tokens, configuration, checkpoint, metrics and again),
    # then, resumed from step 0 (configuration, checkpoint, metrics and again), between a checkpoint and its metrics.
    for moment, count, rows in (("before", 6, [0]), ("after", 4, [0, 4])):
        arguments = ["--config", str(small_file), "--out", str(tmp_path), "--resume"]
        process = subprocess.run(
            [sys.executable, "-c", KILLED, moment, str(count), *arguments], cwd=ROOT, capture_output=True, check=False
        )
        assert process.returncode == -9, process.stderr.decode()
        assert [row["step"] for row in metrics(tmp_path)] == rows
    assert run(small_file, tmp_path, "--resume") == 0
    assert outcome(tmp_path) == outcome(uninterrupted)
    assert not list(tmp_path.glob("*.partial"))


def test_no_silent_overwriting(uninterrupted: Path, small_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = outcome(uninterrupted)
    assert run(small_file, uninterrupted) == 1
    assert "holds a run already: add --resume" in capsys.readouterr().err
    assert outcome(uninterrupted) == before


def test_only_the_same_run_is_resumed(
    uninterrupted: Path, small: Config, small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.toml"
    text = small_file.read_text(encoding="utf-8")
    assert "beta2 = 0.95" in text
    other.write_text(text.replace("beta2 = 0.95", "beta2 = 0.99"), encoding="utf-8")
    assert run(other, uninterrupted, "--resume") == 1
    assert "a run with another train.beta2 (0.95, now 0.99)" in capsys.readouterr().err
    llama = write(with_layers(small, *KINDS["llama"], repeat=2), tmp_path / "llama.json")
    assert run(llama, uninterrupted, "--resume") == 1
    assert "a run with another layers (['cem_attention(heads=2)'" in capsys.readouterr().err


def test_a_changed_energy_is_another_run(small: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    energy = tmp_path / "cem_mlp.cem"
    text = (ENERGIES / "cem_mlp.cem").read_text(encoding="utf-8")
    config = write(with_layers(small, LayerConfig(energy=str(energy))), tmp_path / "config.json")
    energy.write_text(text, encoding="utf-8")
    assert run(config, tmp_path / "out", "--steps", "1") == 0
    energy.write_text(text.replace("silu", "gelu"), encoding="utf-8")
    assert run(config, tmp_path / "out", "--resume") == 1
    assert "a run with another code of cem_mlp" in capsys.readouterr().err


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_state(small: Config, tmp_path: Path) -> None:
    poisoned = Run(small, tmp_path)
    poisoned.train(4)
    saved = (tmp_path / "checkpoint.pt").read_bytes()
    with torch.no_grad():
        poisoned.model.embedding.weight[7, 3] = float("nan")
    with pytest.raises(TrainingError, match=r"step 5: loss nan, gradient norm nan at learning rate 0\.00"):
        poisoned.train(8)
    with pytest.raises(TrainingError, match="step 4: validation loss nan"):
        poisoned.record(1.0, 0)
    assert (tmp_path / "checkpoint.pt").read_bytes() == saved


def test_a_learning_rate_out_of_hand_is_reported_by_the_command(
    small_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wild = tmp_path / "wild.toml"
    text = small_file.read_text(encoding="utf-8")
    assert "learning_rate = 0.003" in text
    wild.write_text(text.replace("learning_rate = 0.003", "learning_rate = 1e30"), encoding="utf-8")
    assert run(wild, tmp_path / "out") == 1
    assert "error: step " in (message := capsys.readouterr().err)
    assert "a lower learning_rate" in message


def test_the_schedule_warms_up_and_ends_low(small: Config) -> None:
    rates = [learning_rate(small.train, step) for step in range(30)]
    assert rates[:3] == pytest.approx([1e-3, 2e-3, 3e-3])
    assert rates[3] == pytest.approx(3e-3)
    assert rates[3:20] == sorted(rates[3:20], reverse=True)
    middle = small.train.warmup + (small.train.steps - small.train.warmup) / 2
    assert learning_rate(small.train, int(middle)) == pytest.approx((3e-3 + 3e-4) / 2, rel=0.1)
    assert rates[20:] == pytest.approx([3e-4] * 10)


def test_the_command_line_names_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "missing.toml", tmp_path / "out") == 1
    assert "missing.toml" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_module_runs_from_the_repository_root(small_file: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.lm.train", "--config", str(small_file)]
    environment = {**os.environ, "HOME": str(tmp_path / "home")}
    process = subprocess.run(
        [*command, "--out", str(tmp_path / "out"), "--steps", "2"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    for expected in ("validation loss before", "validation loss after", "unigram entropy", "loss.png", "metrics.jsonl"):
        assert expected in process.stdout
    assert "tok/s" in process.stderr
