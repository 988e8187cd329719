"""A trained model as a folder that transformers loads: `python -m examples.hf.export RUN DIR`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from transformers import PreTrainedTokenizerFast

from examples.hf import CemForCausalLM
from examples.hf.configuration import configuration_of
from examples.lm.checkpoint import CheckpointError
from examples.lm.config import ConfigError
from examples.lm.data import SEPARATOR
from examples.lm.saved import load_run


def export(run: Path, target: Path) -> CemForCausalLM:
    """Write model and tokenizer of a run to `target`; the model."""
    config, decoder, tokenizer = load_run(run)
    model = CemForCausalLM(configuration_of(config, tokenizer.get_vocab_size(), tokenizer.token_to_id(SEPARATOR)))
    model.model.load_state_dict(decoder.state_dict())
    model.save_pretrained(target)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=SEPARATOR,
        eos_token=SEPARATOR,
        pad_token=SEPARATOR,
        padding_side="left",
        model_max_length=config.model.context,
    ).save_pretrained(target)
    return model


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0, or 1 with a message if there is no model that can be saved."""
    parser = argparse.ArgumentParser(prog="python -m examples.hf.export", description="Save for transformers.")
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("target", type=Path, help="the folder to write")
    options = parser.parse_args(arguments)
    try:
        export(options.run, options.target)
    except (CheckpointError, ConfigError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
