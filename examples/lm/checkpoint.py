"""A run's state on disk: what an exact resume needs, in one file that is always whole.

The file is the same however many processes wrote it: parameters and optimiser state are whole tensors, by the names of
the parameters.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch.distributed.checkpoint import state_dict as states

from examples.lm.config import Config, LayerConfig
from examples.lm.data import Corpus
from examples.lm.files import atomic_path
from examples.lm.layers import layer_source
from examples.lm.model import Decoder

Row = dict[str, float | int]


class CheckpointError(Exception):
    """The run in the folder is not the one that was asked for; the message names the difference."""


@dataclass
class Progress:
    """How far a run is."""

    step: int = 0
    seconds: float = 0.0  # since the start, everything included
    training_seconds: float = 0.0  # in training steps alone
    losses: list[float] = field(default_factory=list)  # of training, step by step
    spikes: list[int] = field(default_factory=list)  # the steps whose loss stood out
    rows: list[Row] = field(default_factory=list)  # the metrics so far
    instrument: list[dict[str, Any]] = field(default_factory=list)  # energies of the layers, see instrument.py


def identity(config: Config, corpus: Corpus, folder: Path) -> dict[str, Any]:
    """What must be equal for a resumed run to be the same run; where it runs and what it prints may differ."""
    settings = {
        f"{table}.{key}": value
        for table in ("data", "model", "train")
        for key, value in dataclasses.asdict(getattr(config, table)).items()
        if f"{table}.{key}" not in ("train.device", "train.instrument")
    }
    digests = {}
    for layer in config.every_layer():
        digests[f"code of {layer.label}"] = layer_source(layer, folder).digest
    return {"layers": [told(layer) for layer in config.every_layer()], **digests, "text": corpus.digest, **settings}


def told(layer: LayerConfig) -> str:
    """A layer in a word, for messages."""
    arguments = {**layer.arguments, **({"steps": layer.steps} if layer.steps else {})}
    return f"{layer.label}({', '.join(f'{key}={value}' for key, value in arguments.items())})"


def save(
    path: Path | None,
    who: dict[str, Any],
    progress: Progress,
    model: Decoder,
    optimiser: torch.optim.Optimizer,
    tokenizer: Tokenizer,
    data: Any,
) -> None:
    """Write the state of a run whole. Every rank must call it, one of them with a path."""
    options = states.StateDictOptions(full_state_dict=True, cpu_offload=True)
    of_model, of_optimiser = states.get_state_dict(model, optimiser, options=options)
    if path is None:
        return
    state = {
        "identity": who,
        "progress": dataclasses.asdict(progress),
        "data": data,
        "tokenizer": tokenizer.to_str(),
        "model": of_model,
        "optimiser": of_optimiser,
        "rng": torch.get_rng_state(),
    }
    with atomic_path(path) as temporary:
        torch.save(state, temporary)


def load(path: Path, who: dict[str, Any], model: Decoder, optimiser: torch.optim.Optimizer) -> tuple[Progress, Any]:
    """Restore model, optimiser and random state; CheckpointError if the run was another one."""
    state = torch.load(path, map_location="cpu", weights_only=True)
    for name, value in who.items():
        if (before := state["identity"].get(name)) != value:
            raise CheckpointError(
                f"{path.parent} holds a run with another {name} ({before}, now {value}): "
                "remove that folder or choose another with --out"
            )
    states.set_state_dict(
        model,
        optimiser,
        model_state_dict=state["model"],
        optim_state_dict=state["optimiser"],
        options=states.StateDictOptions(full_state_dict=True, cpu_offload=True),
    )
    torch.set_rng_state(state["rng"])
    return Progress(**state["progress"]), state["data"]
