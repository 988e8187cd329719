"""A trained model, read from the folder of its run."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer

from examples.lm.checkpoint import CheckpointError
from examples.lm.config import Config, load_config
from examples.lm.data import SEPARATOR
from examples.lm.model import Decoder, build_model


def load_run(folder: Path, device: str = "cpu") -> tuple[Config, Decoder, Tokenizer]:
    """Configuration, model and tokenizer of a run, as it was when it was last saved. CheckpointError if it was not."""
    path = folder / "checkpoint.pt"
    if not path.exists():
        raise CheckpointError(f"{folder} holds no run: there is no {path.name}")
    config = load_config(folder / "config.json")
    state = torch.load(path, map_location="cpu", weights_only=True)
    tokenizer = Tokenizer.from_str(state["tokenizer"])
    model = build_model(config, tokenizer.get_vocab_size(), folder / "layers")
    model.load_state_dict(state["model"])
    model.separator = tokenizer.token_to_id(SEPARATOR)
    return config, model.to(device).eval(), tokenizer
