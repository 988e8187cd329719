"""Train a grid of models over several seeds: `python -m examples.lm.study --config CONFIG --out DIR --results FILE`.

The configuration is that of a run, with `[study]` and, in place of `[[layers]]`, `[[rows]]`: a name and the layers of
each. Every row gets the same tuning: `tuning_steps` steps at each of `learning_rates`; the best goes into its runs, one
for each seed. A run is a process of its own, and what came of it is a line in FILE, so a study is taken up wherever it
stopped, also on another machine: what is in FILE is not run again. `--report` only writes table and plots, `--speed N`
times the rows side by side.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from examples.lm.checkpoint import told
from examples.lm.config import Config, ConfigError, read_config, read_table, read_tables, tables
from examples.lm.data import DataError, load_corpus
from examples.lm.files import write_text
from examples.lm.layers import layer_source
from examples.lm.measure import parameters_of, training_flops
from examples.lm.model import build_model
from examples.lm.narrow import narrowed
from examples.lm.study_report import report
from examples.lm.study_speed import speeds

Record = dict[str, Any]


class StudyError(Exception):
    """A run of the study failed; the message says which, and what it printed."""


@dataclass(frozen=True)
class StudyConfig:
    """Which runs every row gets."""

    seeds: tuple[int, ...]
    learning_rates: tuple[float, ...]
    tuning_steps: int
    tuning_seed: int


@dataclass(frozen=True)
class Row:
    """One model of the grid."""

    name: str
    config: Config


@dataclass(frozen=True)
class Job:
    """One run: `kind` is "tuning" or "seed"."""

    row: str
    kind: str
    config: Config

    @property
    def digest(self) -> str:
        """Tells whether a line of results is of this run: of its configuration, and of the text of its energies."""
        texts = sorted({layer_source(layer).energy for layer in self.config.every_layer()})
        made = tables(self.config)
        made["train"] = {key: value for key, value in made["train"].items() if key != "evaluate_every"}
        return hashlib.sha256(json.dumps([made, texts], sort_keys=True).encode()).hexdigest()[:16]


def load_study(path: Path, cache: Path) -> tuple[StudyConfig, list[Row]]:
    """The grid of a study. Rows with `narrow_to` get the number of parameters of the row it names."""
    read = read_tables(path)
    study = read_table(path, "study", read.pop("study", None), StudyConfig)
    entries = read.pop("rows", None)
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: [[rows]] is missing: which models are compared?")
    rows: dict[str, Row] = {}
    wanted: dict[str, str] = {}
    for entry in entries:
        if unknown := sorted(entry.keys() - {"name", "layers", "narrow_to"}):
            raise ConfigError(f"{path}: [[rows]] has an unknown key {unknown[0]}; there are name, layers, narrow_to")
        name = entry.get("name")
        if not isinstance(name, str) or name in rows:
            raise ConfigError(f"{path}: an entry of [[rows]] should have a name of its own, not {name!r}")
        rows[name] = Row(name, read_config({**read, "layers": entry.get("layers")}, path))
        if "narrow_to" in entry:
            wanted[name] = entry["narrow_to"]
    for name, other in wanted.items():
        if other not in rows:
            raise ConfigError(f"{path}: {name} is to be narrowed to {other!r}; there are {', '.join(rows)}")
        vocabulary = load_corpus(rows[name].config.data, cache).tokenizer.get_vocab_size()
        target = parameters_of(rows[other].config, vocabulary)
        rows[name] = Row(name, narrowed(rows[name].config, vocabulary, target))
    return study, list(rows.values())


def tuning(study: StudyConfig, row: Row) -> list[Job]:
    """A row's short runs, one for each learning rate, each with a whole schedule of its own."""
    return [
        Job(row.name, "tuning", _with(row.config, rate, study.tuning_seed, study.tuning_steps))
        for rate in study.learning_rates
    ]


def seeds(study: StudyConfig, row: Row, rate: float) -> list[Job]:
    """A row's runs at the learning rate that was best."""
    return [Job(row.name, "seed", _with(row.config, rate, seed, row.config.train.steps)) for seed in study.seeds]


def _with(config: Config, rate: float, seed: int, steps: int) -> Config:
    train = config.train
    changed = dataclasses.replace(
        train,
        learning_rate=rate,
        final_learning_rate=rate * train.final_learning_rate / train.learning_rate,
        warmup=max(1, train.warmup * steps // train.steps),
        seed=seed,
        steps=steps,
        evaluate_every=min(train.evaluate_every, steps),
    )
    return dataclasses.replace(config, train=changed)


class Study:
    """The grid, and what has come of it so far."""

    def __init__(self, path: Path, out: Path, results: Path) -> None:
        self.out, self.results, self.cache = out, results, out / "data"
        for folder in (self.cache, results.parent):
            folder.mkdir(parents=True, exist_ok=True)
        self.study, self.rows = load_study(path, self.cache)
        lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
        self.records: list[Record] = [json.loads(line) for line in lines]

    def find(self, job: Job) -> Record | None:
        """What came of a run, if it was run."""
        return next((each for each in self.records if each["digest"] == job.digest), None)

    def best_rate(self, row: Row) -> float | None:
        """The learning rate whose tuning run ended with the least held-out loss; None before all have run."""
        found = [self.find(job) for job in tuning(self.study, row)]
        done = [record for record in found if record is not None]
        if len(done) < len(found):
            return None
        return float(min(done, key=lambda record: record["val_loss"])["learning_rate"])

    def jobs(self) -> Iterator[Job]:
        """What is to be run, in order: all tuning, then the first seed of every row, then the second, and so on."""
        for row in self.rows:
            yield from tuning(self.study, row)
        for number in range(len(self.study.seeds)):
            for row in self.rows:
                rate = self.best_rate(row)
                assert rate is not None, "its tuning has run"
                yield seeds(self.study, row, rate)[number]

    def outcome(self, row: Row) -> list[Record]:
        """The records of a row's seeds that have run."""
        rate = self.best_rate(row)
        found = [] if rate is None else [self.find(job) for job in seeds(self.study, row, rate)]
        return [record for record in found if record is not None]

    def measure_speed(self, rounds: int) -> None:
        """Time all rows, and remember that in place of what was measured before."""
        vocabulary = load_corpus(self.rows[0].config.data, self.cache).tokenizer.get_vocab_size()
        found = speeds({row.name: row.config for row in self.rows}, vocabulary, rounds)
        self.records = [record for record in self.records if record["kind"] != "speed"]
        for name, speed in found.items():
            digest = f"speed {name}"
            self.records.append({"digest": digest, "row": name, "kind": "speed", **dataclasses.asdict(speed)})
        self.write()

    def speed(self, row: Row) -> Record | None:
        """What was measured of a row's speed."""
        return next((each for each in self.records if (each["row"], each["kind"]) == (row.name, "speed")), None)

    def write(self) -> None:
        """Put all records on disk."""
        write_text(self.results, "".join(json.dumps(record) + "\n" for record in self.records))

    def run(self, most: int | None) -> None:
        """Run what is missing, at most so many runs."""
        done = 0
        for job in self.jobs():
            if self.find(job) is not None:
                continue
            if done == most:
                return
            self.records.append(self.train(job))
            self.write()
            done += 1

    def train(self, job: Job) -> Record:
        """One run, in a process of its own; what it leaves in its folder outlives a crash, and is taken up."""
        train = job.config.train
        folder = self.out / job.digest
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "job.json"
        write_text(config, json.dumps(tables(job.config), indent=1))
        print(f"{job.row}: {job.kind} {train.seed}, learning rate {train.learning_rate:g}", flush=True)
        command = [sys.executable, "-m", "examples.lm.train", "--config", str(config), "--out", str(folder / "run")]
        done = subprocess.run(
            [*command, "--cache", str(self.cache), "--resume"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise StudyError(
                f"{job.row}, {job.kind} {train.seed}: {done.stderr.strip().splitlines()[-1:]} (in {folder})"
            )
        result = json.loads((folder / "run" / "result.json").read_text(encoding="utf-8"))
        rows = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text("utf-8").splitlines()]
        block = max(1, len(result["losses"]) // 40)
        curve = [sum(part) / len(part) for part in _parts(result.pop("losses"), block)]
        model = build_model(job.config, load_corpus(job.config.data, self.cache).tokenizer.get_vocab_size())
        return {
            "digest": job.digest,
            "row": job.row,
            "kind": job.kind,
            "seed": train.seed,
            "learning_rate": train.learning_rate,
            "flops_per_token": training_flops(model, job.config),
            **result,
            "d": job.config.model.d,
            "layers": list(dict.fromkeys(told(layer) for layer in job.config.every_layer())),
            "validation": [[row["step"], row["val_loss"]] for row in rows],
            "curve": [round(loss, 4) for loss in curve],
            "curve_block": block,
        }


def _parts(values: list[float], size: int) -> Iterator[list[float]]:
    for first in range(0, len(values), size):
        yield values[first : first + size]


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0, or 1 with a message if the study cannot go on."""
    parser = argparse.ArgumentParser(prog="python -m examples.lm.study", description="Compare models over seeds.")
    parser.add_argument("--config", type=Path, required=True, help="a TOML file, see examples/lm/configs/study.toml")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the runs, which may be thrown away")
    parser.add_argument("--results", type=Path, required=True, help="the file that remembers what came of them")
    parser.add_argument("--plots", type=Path, help="the folder of the table and the plots (default: that of the file)")
    parser.add_argument("--most", type=int, help="stop after so many runs")
    parser.add_argument("--report", action="store_true", help="run nothing, write table and plots of what there is")
    parser.add_argument("--speed", type=int, metavar="N", help="run nothing, time N rounds of all rows")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    try:
        study = Study(options.config, options.out, options.results)
        if options.speed:
            study.measure_speed(options.speed)
        elif not options.report:
            study.run(options.most)
        outcomes = {row.name: study.outcome(row) for row in study.rows}
        timed = {row.name: study.speed(row) for row in study.rows}
        print(report(outcomes, timed, options.plots or options.results.parent))
    except (ConfigError, DataError, StudyError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
