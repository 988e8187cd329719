"""A run's state on disk: what an exact resume needs, in one file that is always whole."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from examples.lm.config import Config
from examples.lm.data import Corpus
from examples.lm.files import atomic_path
from examples.lm.model import Decoder, layer_classes

Row = dict[str, float | int]


class CheckpointError(Exception):
    """The run in the folder is not the one that was asked for; the message names the difference."""


@dataclass
class Progress:
    """How far a run is. The order of the data is a function of `step`, see data.Batches."""

    step: int = 0
    seconds: float = 0.0
    recent: list[float] = field(default_factory=list)  # training losses that the next row of metrics averages
    rows: list[Row] = field(default_factory=list)  # the metrics so far


def identity(config: Config, kind: str, corpus: Corpus) -> dict[str, Any]:
    """What must be equal for a resumed run to be the same run; `steps` only says where it stops for now."""
    sources = "".join(inspect.getsource(inspect.getmodule(layer) or layer) for layer in layer_classes(kind))
    settings = {
        f"{table}.{key}": value
        for table in ("data", "model", "train")
        for key, value in dataclasses.asdict(getattr(config, table)).items()
    }
    return {
        "layers": kind,
        "code of the layers": hashlib.sha256(sources.encode()).hexdigest(),
        "text": corpus.digest,
        **settings,
    }


def save(path: Path, who: dict[str, Any], progress: Progress, model: Decoder, optimiser: torch.optim.Optimizer) -> None:
    """Write the state of a run whole."""
    state = {
        "identity": who,
        "progress": dataclasses.asdict(progress),
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "rng": torch.get_rng_state(),
    }
    with atomic_path(path) as temporary:
        torch.save(state, temporary)


def load(path: Path, who: dict[str, Any], model: Decoder, optimiser: torch.optim.Optimizer) -> Progress:
    """Restore model, optimiser and random state; CheckpointError if the run was another one."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    for name, value in who.items():
        if (before := state["identity"].get(name)) != value:
            raise CheckpointError(
                f"{path.parent} holds a run with another {name} ({before}, now {value}): "
                "remove that folder or choose another with --out"
            )
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    torch.set_rng_state(state["rng"])
    return Progress(**state["progress"])
