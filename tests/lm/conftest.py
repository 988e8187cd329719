"""A text and a configuration small enough that a run takes a second."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from examples.lm.config import Config, DataConfig, ModelConfig, SampleConfig, TrainConfig

ROOT = Path(__file__).resolve().parents[2]


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
        model=ModelConfig(context=16, d=16, heads=2, f=24, blocks=2),
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
    lines = []
    for table, values in dataclasses.asdict(small).items():
        lines.append(f"[{table}]")
        lines += [
            f"{key} = '{value}'" if isinstance(value, str) else f"{key} = {value}" for key, value in values.items()
        ]
    path = tmp_path_factory.mktemp("configs") / "small.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path
