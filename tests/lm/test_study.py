"""A study of two tiny rows: what is run, that it is taken up, and what the table says."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from examples.lm import study as module
from examples.lm.config import Config, ConfigError, read_config, read_table, read_tables, tables
from examples.lm.measure import training_flops
from examples.lm.model import build_model
from examples.lm.study import StudyConfig, load_study, main, seeds, tuning
from examples.lm.study_report import table
from tests.lm.conftest import CEM, KINDS, ROOT, with_layers, with_train

STUDY = {"seeds": [1, 2], "learning_rates": [1e-3, 4e-3], "tuning_steps": 4, "tuning_seed": 0}


@pytest.fixture
def grid(small: Config, tmp_path: Path) -> Path:
    """A study of the baseline narrowed to the energies, and of the energies."""
    made = tables(with_train(small, steps=8, evaluate_every=4))
    made["model"]["d"] = 32
    layers: dict[str, Any] = {
        name: tables(with_layers(small, *kind, repeat=2))["layers"] for name, kind in KINDS.items()
    }
    del made["layers"]
    rows = [{"name": "llama", "narrow_to": "cem", "layers": layers["llama"]}, {"name": "cem", "layers": layers["cem"]}]
    path = tmp_path / "study.json"
    path.write_text(json.dumps({**made, "study": STUDY, "rows": rows}), encoding="utf-8")
    return path


def arguments(grid: Path, *more: str) -> list[str]:
    folder = grid.parent
    return ["--config", str(grid), "--out", str(folder / "runs"), "--results", str(folder / "results.jsonl"), *more]


def records(grid: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (grid.parent / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def test_the_grid_is_run_once_and_taken_up(
    grid: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(arguments(grid, "--most", "1")) == 0
    assert [(each["row"], each["kind"]) for each in records(grid)] == [("llama", "tuning")]
    # The rest in this process, for speed: what a run is told and leaves is the same.
    monkeypatch.setattr(module, "subprocess", InThisProcess())
    assert main(arguments(grid)) == 0
    found = records(grid)
    assert [(each["row"], each["kind"], each["seed"]) for each in found] == [
        *[(row, "tuning", 0) for row in ("llama", "llama", "cem", "cem")],
        *[(row, "seed", seed) for seed in (1, 2) for row in ("llama", "cem")],
    ]
    for row in ("llama", "cem"):
        tuned = [each for each in found if (each["row"], each["kind"]) == (row, "tuning")]
        assert [each["learning_rate"] for each in tuned] == STUDY["learning_rates"]
        assert [each["step"] for each in tuned] == [4, 4]
        best = min(tuned, key=lambda each: each["val_loss"])["learning_rate"]
        assert {each["learning_rate"] for each in found if (each["row"], each["kind"]) == (row, "seed")} == {best}
    of_row = {each["row"]: each for each in found}
    assert of_row["llama"]["parameters"] == pytest.approx(of_row["cem"]["parameters"], rel=0.01)
    printed = capsys.readouterr().out
    assert f"| cem | {of_row['cem']['parameters']:,} |" in printed
    assert [len(each["curve"]) * each["curve_block"] for each in found[4:]] == [8] * 4
    for name in ("curves.png", "tradeoff.png"):
        assert (grid.parent / name).read_bytes().startswith(b"\x89PNG")
    # Again: nothing is left to run. Only of what is not in the file.
    monkeypatch.setattr(module.Study, "train", None)
    before = (grid.parent / "table.md").read_text(encoding="utf-8")
    assert main(arguments(grid)) == 0
    assert main(arguments(grid, "--report")) == 0
    assert (grid.parent / "table.md").read_text(encoding="utf-8") == before
    assert main(arguments(grid, "--speed", "2")) == 0
    assert [each["row"] for each in records(grid) if each["kind"] == "speed"] == ["llama", "cem"]
    assert records(grid)[:8] == found
    assert next(each for each in records(grid) if each["kind"] == "speed")["ratio"] == 1.0
    assert main(arguments(grid, "--speed", "2")) == 0
    assert len(records(grid)) == 10
    assert "| 1.00 |" in (grid.parent / "table.md").read_text(encoding="utf-8")


class InThisProcess:
    """Runs the training command here."""

    def run(self, command: list[str], **_: Any) -> Any:
        from examples.lm.train import main as train

        assert command[1:3] == ["-m", "examples.lm.train"]
        return dataclasses.make_dataclass("Done", ["returncode", "stderr"])(train(command[3:]), "")


def test_another_configuration_is_another_run(grid: Path) -> None:
    study, rows = load_study(grid, grid.parent)
    digests = {job.digest for row in rows for job in (*tuning(study, row), *seeds(study, row, 1e-3))}
    assert len(digests) == 8
    (job, *_) = tuning(study, rows[1])
    moved = dataclasses.replace(job, config=with_train(job.config, evaluate_every=2))
    assert moved.digest == job.digest, "how often it is measured does not matter"
    assert dataclasses.replace(job, config=with_train(job.config, clip=2.0)).digest != job.digest


def test_a_failed_run_is_named_and_not_recorded(grid: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = read_tables(grid)
    made["study"]["learning_rates"] = [1e30]
    grid.write_text(json.dumps(made), encoding="utf-8")
    assert main(arguments(grid)) == 1
    message = capsys.readouterr().err
    assert "llama, tuning 0" in message
    assert "a lower learning_rate" in message
    assert not (grid.parent / "results.jsonl").exists()


def test_what_is_wrong_with_a_grid_is_named(grid: Path, tmp_path: Path) -> None:
    for change, message in (
        ({"rows": []}, r"\[\[rows\]\] is missing"),
        ({"rows": [{"nam": "x"}]}, "unknown key nam"),
        ({"study": {}}, r"\[study\] lacks seeds"),
        ({"rows": [{"name": "x", "layers": [], "narrow_to": "y"}]}, "what is the model made of"),
    ):
        path = tmp_path / "wrong.json"
        path.write_text(json.dumps({**read_tables(grid), **change}), encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            load_study(path, tmp_path)
    made = read_tables(grid)
    made["rows"][0]["narrow_to"] = "nobody"
    path.write_text(json.dumps(made), encoding="utf-8")
    with pytest.raises(ConfigError, match="llama is to be narrowed to 'nobody'; there are llama, cem"):
        load_study(path, tmp_path)


def test_the_table_gives_means_and_spreads() -> None:
    run = {"parameters": 1234, "flops_per_token": 2.5e6, "learning_rate": 0.003, "peak_memory": 2**30}
    runs = [{**run, "perplexity": value} for value in (10.0, 12.0, 14.0)]
    timed = {"ratio": 0.875, "tokens_per_second": 1012.3}
    last = table({"a": runs, "b": []}, {"a": timed, "b": None}).splitlines()[-1]
    assert last == "| a | 1,234 | 2.50 | 0.003 | 12.00 ± 2.00 | 3 | 0.88 | 1,012 | 1,024 MiB |"
    assert table({"a": runs[:1]}, {"a": None}).splitlines()[-1].split("|")[5:8] == [" 10.00 ", " 1 ", "  "]


def test_operations_are_those_of_the_products(small: Config) -> None:
    config = with_layers(small, *CEM)
    model = build_model(config, 280)
    d, f, context, vocabulary = 16, 24, 16, 280
    # Attention: queries, keys and the way back; scores and their sum. MLP: two up, one down. The head.
    forward = 2 * (3 * d * d + 2 * context * d + 3 * d * f + d * vocabulary)
    # Backward: twice that, and the scores again.
    assert training_flops(model, config) == 3 * forward + 2 * context * d
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("name", ["study", "design"])
def test_the_grids_that_come_along_are_whole(name: str) -> None:
    read = read_tables(ROOT / "examples" / "lm" / "configs" / f"{name}.toml")
    study = read_table(Path(name), "study", read.pop("study"), StudyConfig)
    assert len(study.seeds) >= 3
    rows = read.pop("rows")
    assert len({row["name"] for row in rows}) == len(rows) >= 8
    for row in rows:
        config = read_config({**read, "layers": row["layers"]}, Path(name))
        model = build_model(config, config.data.vocabulary, device="meta")
        assert len(model.layers) == len(config.every_layer()) >= 6
