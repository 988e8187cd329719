"""What a run may be told besides its model: precision, compilation, parts of a batch, recomputation, logs."""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from examples.lm.config import Config
from examples.lm.optimise import stands_out
from examples.lm.train import Run, main
from tests.lm.conftest import CEM, by_hand, energy, with_layers, with_train, write


def losses_of(config: Config, folder: Path, steps: int = 6) -> list[float]:
    """The training losses of the first steps."""
    run = Run(config, folder)
    run.train(steps)
    return run.progress.losses


@pytest.fixture(scope="module")
def mixed(small: Config) -> Config:
    """Energies with one step and with two, and a layer by hand."""
    return with_layers(small, *CEM, energy("recursive_refreshed", heads=2), by_hand("LlamaMlp", f=24))


@pytest.fixture(scope="module")
def plain(mixed: Config, tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return losses_of(mixed, tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("changes", [{"accumulate": 2}, {"accumulate": 4}, {"recompute": True}], ids=str)
def test_how_a_step_is_computed_changes_nothing(
    mixed: Config, plain: list[float], changes: dict[str, Any], tmp_path: Path
) -> None:
    assert losses_of(with_train(mixed, **changes), tmp_path) == pytest.approx(plain, rel=1e-5)


def test_bf16_trains_alike_and_keeps_parameters_in_float32(mixed: Config, plain: list[float], tmp_path: Path) -> None:
    config = with_train(mixed, precision="bf16")
    found = losses_of(config, tmp_path)
    assert found == pytest.approx(plain, rel=2e-2)
    assert found != pytest.approx(plain, rel=1e-6), "nothing was in bf16"
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert {tensor.dtype for tensor in state["model"].values()} == {torch.float32}


def test_compiled_layers_train_alike(small: Config, tmp_path: Path, monkeypatch: Any) -> None:
    # The whole of torch.compile but its code generation, which would take a minute.
    config = with_layers(small, *CEM)
    plain = losses_of(config, tmp_path / "plain")
    compiled = []

    def compile_(function: Any) -> Any:
        compiled.append(function)
        return original(function, backend="aot_eager", fullgraph=True)

    original = torch.compile
    monkeypatch.setattr(torch, "compile", compile_)
    run = Run(with_train(config, compile=True), tmp_path / "compiled")
    run.train(6)
    assert len(compiled) == 2
    assert run.progress.losses == pytest.approx(plain, rel=1e-5)
    assert run.sample().startswith("Fellow")


def test_a_spike_is_reported_and_counted(
    small: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(with_train(small, steps=40, evaluate_every=40), tmp_path)
    step = Run.step

    def with_a_spike(self: Run) -> float:
        loss = step(self)
        return loss + 3.0 if self.progress.step == 30 else loss

    monkeypatch.setattr(Run, "step", with_a_spike)
    run.train(40)
    assert run.progress.spikes == [31]
    assert run.progress.rows[-1]["spikes"] == 1
    assert "step 31: training loss" in (printed := capsys.readouterr().out)
    assert "stands out, the last ones average" in printed


def test_what_stands_out() -> None:
    window = [3.0 + 0.01 * (number % 5) for number in range(100)]
    assert stands_out(4.0, window, 6.0)
    assert not stands_out(3.05, window, 6.0)
    assert not stands_out(2.0, window, 6.0), "a low loss is no spike"
    assert not stands_out(9.0, window[:19], 6.0), "too few to compare with"
    assert not stands_out(9.0, window, 0), "switched off"


def scalars(folder: Path) -> dict[tuple[str, int], float]:
    """The values in TensorBoard's files, read by its own reader."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    reader = EventAccumulator(str(folder))
    reader.Reload()
    return {(tag, event.step): event.value for tag in reader.Tags()["scalars"] for event in reader.Scalars(tag)}


def test_tensorboard_has_every_row_once_although_the_run_was_stopped(small: Config, tmp_path: Path) -> None:
    config, out = write(small, tmp_path / "config.json"), tmp_path / "out"
    for steps in ("10", "20"):
        arguments = ["--config", str(config), "--out", str(out), "--steps", steps, "--tensorboard", "--resume"]
        assert main(arguments) == 0
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    found = scalars(out / "tensorboard")
    for row in rows:
        single = struct.unpack("f", struct.pack("f", row["val_loss"]))[0]
        assert found["val_loss", row["step"]] == single
    assert {step for tag, step in found if tag == "val_loss"} >= {row["step"] for row in rows}


def test_tensorboard_that_is_not_installed_is_named(
    small: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.delattr("torch.utils.tensorboard", raising=False)
    config = write(small, tmp_path / "config.json")
    assert main(["--config", str(config), "--out", str(tmp_path / "out"), "--tensorboard"]) == 1
    assert "--tensorboard needs the package tensorboard: pip install 'cemc[tensorboard]'" in capsys.readouterr().err
