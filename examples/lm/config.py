"""The configuration of a run: a TOML file with one table for each data class here, keys without a default spelt out.

`[[layers]]` says what the model is made of, from input to output: each entry is a stack of layers, repeated. A layer is
an `energy`, the path of a `.cem` file or of a generated `.py`, or a `module`, the dotted name of a class; whatever else
stands beside it is an argument of the class.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class ConfigError(Exception):
    """The configuration file is not what a run needs; the message names file, table and key."""


@dataclass(frozen=True)
class DataConfig:
    """Where the text is and how it becomes tokens: local files, or a data set of the Hugging Face Hub by its name."""

    vocabulary: int
    files: str = ""  # a pattern; one document a file
    holdout_every: int = 0  # of files: every n-th document, in name order, is held out
    hub: str = ""  # the name of a data set; its documents are streamed
    subset: str = ""  # of the data set, where it has several
    split: str = "train"
    text: str = "text"  # the column
    holdout_documents: int = 0  # of a stream: so many documents at its start are held out,
    tokenizer_documents: int = 0  # and the tokenizer learns from so many after them
    shuffle: int = 0  # documents that wait to be drawn at random; 0: in the order of the data set


@dataclass(frozen=True)
class ModelConfig:
    """The sizes that all layers share, and what their parameters are to the optimiser.

    `scaled`: a layer's update is linear in the first of these it has, which starts smaller in deeper models.
    `decayed`: projection matrices, which weight decay pulls on. Both add to the names that `model.py` knows already.
    """

    context: int
    d: int
    scaled: tuple[str, ...] = ()
    decayed: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayerConfig:
    """One layer: where its class is, and what it is made with. `steps`: updates per call, else the energy's own."""

    energy: str = ""  # the path of a .cem file, or of a generated .py
    module: str = ""  # the dotted name of a class
    name: str = ""  # which energy, in a .cem file with several
    steps: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What to call it in tables and plots."""
        return self.name or (Path(self.energy).stem if self.energy else self.module.rpartition(".")[2])


@dataclass(frozen=True)
class StackConfig:
    """Layers in a row, repeated."""

    stack: tuple[LayerConfig, ...]
    repeat: int = 1


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
    accumulate: int = 1  # parts a batch is computed in, one after the other
    precision: str = "float32"  # or "bf16": autocast; parameters and optimiser stay in float32
    compile: bool = False  # torch.compile of every layer
    recompute: bool = False  # activation checkpointing, layer by layer
    spike: float = 6.0  # a loss so many standard deviations above the last ones is reported; 0: none is
    instrument: bool = False  # energies of every layer at each evaluation


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
    layers: tuple[StackConfig, ...]
    train: TrainConfig
    sample: SampleConfig

    def every_layer(self) -> list[LayerConfig]:
        """The layers from input to output."""
        return [layer for stack in self.layers for _ in range(stack.repeat) for layer in stack.stack]


_TABLES: dict[str, type] = {"data": DataConfig, "model": ModelConfig, "train": TrainConfig, "sample": SampleConfig}
_MAY_BE_ZERO = {"seed", "seeds", "tuning_seed", "warmup", "weight_decay", "spike", "shuffle"}


def load_config(path: Path) -> Config:
    """Read and check a configuration; missing and unknown keys and wrong types are errors that name them."""
    return read_config(read_tables(path), path)


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a TOML file, or of what `tables` gave, as JSON."""
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from error


def tables(config: Config) -> dict[str, Any]:
    """A configuration as the tables it could have been read from."""
    layers = []
    for stack in config.layers:
        told = []
        for layer in stack.stack:
            own = dataclasses.asdict(layer)
            arguments = own.pop("arguments")
            told.append({key: value for key, value in own.items() if value} | arguments)
        layers.append({"repeat": stack.repeat, "stack": told})
    made: dict[str, Any] = {"layers": layers}
    for name, kind in _TABLES.items():
        table = getattr(config, name)
        defaults = {about.name: about.default for about in dataclasses.fields(kind)}
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in vars(table).items()}
        made[name] = {key: value for key, value in values.items() if getattr(table, key) != defaults[key]}
    return made


def read_config(tables: dict[str, Any], path: Path) -> Config:
    """The same of tables that have been read; `path` is for messages."""
    if unknown := sorted(tables.keys() - _TABLES.keys() - {"layers"}):
        raise ConfigError(f"{path}: unknown table [{unknown[0]}]; there are {', '.join(_TABLES)}, layers")
    read = {name: read_table(path, name, tables.get(name), kind) for name, kind in _TABLES.items()}
    config = Config(layers=_layers(path, tables.get("layers")), **read)
    data, train = config.data, config.train
    if bool(data.files) == bool(data.hub):
        raise ConfigError(f"{path}: [data] should have either files or hub")
    for needed in ("holdout_every",) if data.files else ("holdout_documents", "tokenizer_documents"):
        if not getattr(data, needed):
            raise ConfigError(f"{path}: [data] lacks {needed}")
    if train.precision not in ("float32", "bf16"):
        raise ConfigError(f'{path}: precision in [train] should be "float32" or "bf16", not {train.precision!r}')
    if train.batch % train.accumulate:
        raise ConfigError(f"{path}: batch in [train] should be a multiple of accumulate, {train.accumulate}")
    return config


def read_table(path: Path, name: str, values: Any, kind: type) -> Any:
    """One table as its data class."""
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: the table [{name}] is missing")
    wanted = {field.name: field for field in dataclasses.fields(kind)}
    if unknown := sorted(values.keys() - wanted.keys()):
        raise ConfigError(f"{path}: [{name}] has an unknown key {unknown[0]}; there are {', '.join(wanted)}")
    checked = {}
    for key, about in wanted.items():
        if key in values:
            checked[key] = _value(f"{path}: {key} in [{name}] should be", key, str(about.type), values[key])
        elif about.default is dataclasses.MISSING:
            raise ConfigError(f"{path}: [{name}] lacks {key}")
    return kind(**checked)


def _value(complaint: str, key: str, kind: str, value: Any) -> Any:
    if kind.startswith("tuple"):
        inner = kind.removeprefix("tuple[").partition(",")[0]
        if not isinstance(value, list):
            raise ConfigError(f"{complaint} a list of {inner}, not {value!r}")
        return tuple(_value(f"{complaint} a list of {inner}, each", key, inner, each) for each in value)
    if kind == "float" and type(value) is int:
        value = float(value)
    if type(value).__name__ != kind:
        raise ConfigError(f"{complaint} {kind}, not {value!r}")
    if key not in _MAY_BE_ZERO and kind in ("int", "float") and value <= 0:
        raise ConfigError(f"{complaint} positive, not {value!r}")
    return value


def _layers(path: Path, stacks: Any) -> tuple[StackConfig, ...]:
    if not isinstance(stacks, list) or not stacks:
        raise ConfigError(f"{path}: [[layers]] is missing: what is the model made of?")
    return tuple(read_stack(path, stack) for stack in stacks)


def read_stack(path: Path, values: Any) -> StackConfig:
    """One entry of [[layers]]."""
    if not isinstance(values, dict) or not isinstance(values.get("stack"), list) or not values["stack"]:
        raise ConfigError(f"{path}: an entry of [[layers]] should have a stack, a list of layers")
    if unknown := sorted(values.keys() - {"stack", "repeat"}):
        raise ConfigError(f"{path}: [[layers]] has an unknown key {unknown[0]}; there are stack, repeat")
    repeat = _value(f"{path}: repeat in [[layers]] should be", "repeat", "int", values.get("repeat", 1))
    return StackConfig(tuple(_layer(path, layer) for layer in values["stack"]), repeat)


def _layer(path: Path, values: Any) -> LayerConfig:
    if not isinstance(values, dict) or ("energy" in values) == ("module" in values):
        raise ConfigError(f"{path}: a layer in [[layers]] should have either an energy or a module, not {values!r}")
    own: dict[str, Any] = {}
    # None of these can be an argument of a generated class; a module of one's own may call anything `energy`.
    for key, kind in (("energy", "str"), ("module", "str"), ("name", "str"), ("steps", "int")):
        if key in values:
            own[key] = _value(f"{path}: {key} of a layer should be", key, kind, values[key])
    arguments = {key: value for key, value in values.items() if key not in own}
    for key, value in arguments.items():
        if not isinstance(value, int | float | str):
            raise ConfigError(f"{path}: {key} of a layer should be a number or a string, not {value!r}")
    if clash := {"d", "device", "dtype"} & arguments.keys():
        raise ConfigError(f"{path}: {min(clash)} is not for a layer to choose: it is the model's")
    return LayerConfig(**own, arguments=arguments)
