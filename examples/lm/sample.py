"""Text that a trained model writes: `python -m examples.lm.sample RUN --prompt "..."`.

`--compare` writes it twice, with what the layers remember of past tokens and computing everything anew, checks that
both are the same text, and says how long each took.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch
from torch import Tensor

from examples.lm.checkpoint import CheckpointError
from examples.lm.config import ConfigError
from examples.lm.data import SEPARATOR
from examples.lm.model import generate
from examples.lm.saved import load_run


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0, or 1 with a message if there is no model, or the two texts differ."""
    parser = argparse.ArgumentParser(prog="python -m examples.lm.sample", description="Let a trained model write.")
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("--prompt", help="how the text begins (default: the configuration's)")
    parser.add_argument("--tokens", type=int, default=100, help="how many more to write")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compare", action="store_true", help="also without remembering, and how long both take")
    options = parser.parse_args(arguments)
    try:
        config, model, tokenizer = load_run(options.run, options.device)
    except (CheckpointError, ConfigError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    prompt = config.sample.prompt if options.prompt is None else options.prompt
    start = torch.tensor([tokenizer.token_to_id(SEPARATOR), *tokenizer.encode(prompt).ids], device=options.device)

    def write(cached: bool) -> tuple[Tensor, float]:
        generator = torch.Generator(options.device).manual_seed(options.seed)
        began = time.perf_counter()
        written = generate(model, start, options.tokens, options.temperature, generator, cached=cached)
        return written, time.perf_counter() - began

    text, seconds = write(cached=True)
    print(tokenizer.decode(text.tolist()))
    if options.compare:
        other, longer = write(cached=False)
        speeds = (options.tokens / seconds, options.tokens / longer)
        print("\nwith a cache {:.0f} tokens/s, without {:.0f} tokens/s".format(*speeds))
        if not torch.equal(text, other):
            first = int((text != other).nonzero()[0]) - len(start)
            print(f"error: the two texts differ from token {first} on", file=sys.stderr)
            return 1
        print("the same text")
    return 0


if __name__ == "__main__":
    sys.exit(main())
