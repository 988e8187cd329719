"""A text and a configuration small enough that a run takes a second."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from examples.lm.config import (
    Config,
    DataConfig,
    LayerConfig,
    ModelConfig,
    SampleConfig,
    StackConfig,
    TrainConfig,
    tables,
)

ROOT = Path(__file__).resolve().parents[2]
ENERGIES = ROOT / "examples" / "energies"


def energy(name: str, **arguments: float | str) -> LayerConfig:
    """A layer made of an energy in `examples/energies`."""
    return LayerConfig(energy=str(ENERGIES / f"{name}.cem"), arguments=arguments)


def by_hand(name: str, **arguments: float | str) -> LayerConfig:
    """A layer of the baseline."""
    return LayerConfig(module=f"examples.lm.llama.{name}", arguments=arguments)


def with_layers(config: Config, *layers: LayerConfig, repeat: int = 1) -> Config:
    """The same configuration with other layers."""
    return dataclasses.replace(config, layers=(StackConfig(layers, repeat),))


def with_train(config: Config, **changes: Any) -> Config:
    """The same configuration, trained otherwise."""
    return dataclasses.replace(config, train=dataclasses.replace(config.train, **changes))


def write(config: Config, path: Path) -> Path:
    """The configuration as a file."""
    path.write_text(json.dumps(tables(config)), encoding="utf-8")
    return path


CEM = (energy("cem_attention", heads=2), energy("cem_mlp", f=24))
LLAMA = (by_hand("LlamaAttention", heads=2), by_hand("LlamaMlp", f=24))
KINDS = {"cem": CEM, "llama": LLAMA}


@pytest.fixture(scope="session")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine short documents, in a folder whose name needs care in patterns and on command lines."""
    folder = tmp_path_factory.mktemp("some text [1]")
    address = (ROOT / "examples" / "data" / "addresses" / "1790-Washington-1.txt").read_text(encoding="utf-8")
    for number in range(9):
        (folder / f"document {number}.txt").write_text(address[700 * number :][:700], encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def small(documents: Path) -> Config:
    """A run of 20 steps on them."""
    files = str(documents).replace("[", "[[]") + "/*.txt"
    return Config(
        data=DataConfig(files=files, holdout_every=4, vocabulary=280),
        model=ModelConfig(context=16, d=16),
        layers=(StackConfig(CEM, 2),),
        train=TrainConfig(
            seed=1,
            device="cpu",
            steps=20,
            batch=4,
            learning_rate=3e-3,
            final_learning_rate=3e-4,
            warmup=3,
            weight_decay=0.1,
            beta1=0.9,
            beta2=0.95,
            clip=1.0,
            evaluate_every=4,
        ),
        sample=SampleConfig(prompt="Fellow", tokens=20, temperature=0.8),
    )


@pytest.fixture(scope="session")
def small_file(small: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small configuration as a TOML file."""
    layers = []
    for layer in small.layers[0].stack:
        arguments = "".join(f", {key} = {value}" for key, value in layer.arguments.items())
        layers.append(f'  {{ energy = "{layer.energy}"{arguments} }},')
    lines = ["[[layers]]", "repeat = 2", "stack = [", *layers, "]"]
    for table in ("data", "model", "train", "sample"):
        kind = getattr(small, table)
        lines.append(f"[{table}]")
        for about in dataclasses.fields(kind):
            value = getattr(kind, about.name)
            if value != about.default:
                lines.append(f"{about.name} = '{value}'" if isinstance(value, str) else f"{about.name} = {value}")
    path = tmp_path_factory.mktemp("configs") / "small.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
