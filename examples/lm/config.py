"""The configuration of a run: a TOML file with one table for each data class here, every key spelt out."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any


class ConfigError(Exception):
    """The configuration file is not what a run needs; the message names file, table and key."""


@dataclass(frozen=True)
class DataConfig:
    """Where the text is and how it becomes tokens."""

    files: str
    holdout_every: int
    vocabulary: int


@dataclass(frozen=True)
class ModelConfig:
    """The sizes that both kinds of decoder share."""

    context: int
    d: int
    heads: int
    f: int
    blocks: int


@dataclass(frozen=True)
class TrainConfig:
    """The optimiser, its schedule, and how often the run is measured and saved."""

    seed: int
    device: str
    steps: int
    batch: int
    learning_rate: float
    final_learning_rate: float
    warmup: int
    weight_decay: float
    beta1: float
    beta2: float
    clip: float
    evaluate_every: int


@dataclass(frozen=True)
class SampleConfig:
    """The text that is written at the end of a run."""

    prompt: str
    tokens: int
    temperature: float


@dataclass(frozen=True)
class Config:
    """One run."""

    data: DataConfig
    model: ModelConfig
    train: TrainConfig
    sample: SampleConfig


_KINDS: dict[str, type] = {"str": str, "int": int, "float": float}
_TABLES: dict[str, type] = {"data": DataConfig, "model": ModelConfig, "train": TrainConfig, "sample": SampleConfig}


def load_config(path: Path) -> Config:
    """Read and check a configuration; missing and unknown keys and wrong types are errors that name them."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if unknown := sorted(tables.keys() - _TABLES.keys()):
        raise ConfigError(f"{path}: unknown table [{unknown[0]}]; there are {', '.join(_TABLES)}")
    return Config(**{name: _table(path, name, tables.get(name), kind) for name, kind in _TABLES.items()})


def _table(path: Path, name: str, values: Any, kind: type) -> Any:
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: the table [{name}] is missing")
    wanted = {field.name: _KINDS[str(field.type)] for field in fields(kind)}
    if unknown := sorted(values.keys() - wanted.keys()):
        raise ConfigError(f"{path}: [{name}] has an unknown key {unknown[0]}; there are {', '.join(wanted)}")
    checked = {}
    for key, expected in wanted.items():
        if key not in values:
            raise ConfigError(f"{path}: [{name}] lacks {key}")
        value = values[key]
        if expected is float and type(value) is int:
            value = float(value)
        if type(value) is not expected:
            raise ConfigError(f"{path}: {key} in [{name}] should be {expected.__name__}, not {value!r}")
        if key not in ("seed", "warmup", "weight_decay") and isinstance(value, int | float) and value <= 0:
            raise ConfigError(f"{path}: {key} in [{name}] should be positive, not {value!r}")
        checked[key] = value
    return kind(**checked)
