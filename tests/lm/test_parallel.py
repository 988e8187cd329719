"""Two processes on the CPU train as one does, and leave a checkpoint that one can go on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from examples.lm.config import Config
from examples.lm.parallel import ParallelError, Ranks
from examples.lm.train import main
from tests.lm.conftest import CEM, ROOT, by_hand, energy, with_layers, with_train, write


@pytest.fixture(scope="module")
def config(small: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight steps of a model with every kind of layer, a batch in two parts, and the energies watched."""
    layers = with_layers(small, *CEM, by_hand("LlamaMlp", f=24), energy("design/attention_two_steps_held", heads=2))
    trained = with_train(layers, accumulate=2, recompute=True, steps=8, instrument=True)
    return write(trained, tmp_path_factory.mktemp("parallel") / "config.json")


def torchrun(config: Path, out: Path, kind: str, *more: str) -> str:
    """The training command on two processes; what they print."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "examples.lm.train", "--config", str(config), "--out", str(out), "--parallel", kind, *more]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def losses(folder: Path) -> list[float]:
    """Training and held-out losses, row by row."""
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row[key] for row in rows for key in ("train_loss", "val_loss")]


def parameters(folder: Path) -> dict[str, Any]:
    return torch.load(folder / "checkpoint.pt", weights_only=True)["model"]


@pytest.fixture(scope="module")
def alone(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of one process."""
    folder = tmp_path_factory.mktemp("alone")
    assert main(["--config", str(config), "--out", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_two_processes_train_as_one(config: Path, alone: Path, kind: str, tmp_path: Path) -> None:
    if kind == "fsdp":
        # What one process has written, two go on with.
        assert main(["--config", str(config), "--out", str(tmp_path), "--steps", "2"]) == 0
    printed = torchrun(config, tmp_path, kind, "--steps", "4", "--resume")
    assert printed.count("A sample:") == 1, "both processes wrote"
    assert losses(tmp_path) == pytest.approx(losses(alone)[:4], rel=1e-5)
    # And the other way round, to where it would have come alone.
    assert main(["--config", str(config), "--out", str(tmp_path), "--resume"]) == 0
    assert losses(tmp_path) == pytest.approx(losses(alone), rel=1e-5)
    found, expected = parameters(tmp_path), parameters(alone)
    assert list(found) == list(expected)
    for name, parameter in expected.items():
        error = (found[name] - parameter).norm() / parameter.norm()
        assert error < 1e-3, name
    energies = [(folder / "energies.jsonl").read_text(encoding="utf-8").count("\n") for folder in (tmp_path, alone)]
    assert energies == [3 * 4, 3 * 4]


def test_every_row_is_somebodys_once() -> None:
    batch = torch.arange(24)[:, None]
    for parts, world in ((1, 1), (2, 3), (4, 2)):
        rows = [Ranks("ddp", rank, world).rows(batch, part, parts) for part in range(parts) for rank in range(world)]
        assert torch.equal(torch.cat(rows), batch)
        assert {len(each) for each in rows} == {24 // (parts * world)}
    with pytest.raises(ParallelError, match="a batch of 24 does not divide into 1 parts on 5 processes"):
        Ranks("ddp", 0, 5).rows(batch, 0, 1)


@pytest.mark.parametrize(
    ("environment", "arguments", "message"),
    [
        ({"WORLD_SIZE": "2"}, [], "say how they share the run, with --parallel ddp or fsdp"),
        ({}, ["--parallel", "ddp"], "--parallel ddp is for several processes: torchrun"),
    ],
)
def test_processes_that_do_not_know_of_each_other_are_an_error(
    config: Path,
    environment: dict[str, str],
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("RANK", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["--config", str(config), "--out", str(tmp_path), *arguments]) == 1
    assert message in capsys.readouterr().err
