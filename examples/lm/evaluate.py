"""Held-out perplexity of a trained model against the number of steps its energies take when it is evaluated.

    python -m examples.lm.evaluate RUN --steps 1 2 3 4

Each energy moves the tokens so often, in place of the number it was trained with; `--only` restricts this to layers of
one name. Layers written by hand have no steps. RUN gets `steps.json` and `steps.png`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path

from examples.lm.checkpoint import CheckpointError
from examples.lm.config import ConfigError
from examples.lm.data import DataError, load_data
from examples.lm.files import atomic_path, write_text
from examples.lm.model import Decoder
from examples.lm.optimise import evaluate
from examples.lm.parallel import Ranks
from examples.lm.plot import VALIDATION, figure_of, finish_axes
from examples.lm.saved import load_run


def with_steps(model: Decoder, steps: int, only: str | None) -> None:
    """Let the energies, or those of one name, take so many steps from now on."""
    model.calls = tuple(
        dataclasses.replace(call, steps=steps) if call.is_energy and only in (None, call.label) else call
        for call in model.calls
    )


def plot_steps(rows: list[dict[str, float]], trained: str, path: Path) -> None:
    """Perplexity against steps."""
    figure = figure_of(6.0, 3.8)
    axes = figure.add_subplot()
    steps = [row["steps"] for row in rows]
    axes.plot(steps, [row["perplexity"] for row in rows], color=VALIDATION, marker="o", linewidth=1.8)
    axes.set_xticks(steps)
    axes.set_yscale("log")
    finish_axes(axes, f"Trained with {trained}", "steps of every energy at evaluation", "held-out perplexity")
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0, or 1 with a message if there is no model or nothing to vary."""
    parser = argparse.ArgumentParser(prog="python -m examples.lm.evaluate", description="Perplexity against steps.")
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("--steps", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--only", help="the name of the energy whose steps vary (default: all)")
    parser.add_argument("--cache", type=Path, help="the folder of the tokens (default: RUN)")
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args(arguments)
    try:
        config, model, _ = load_run(options.run, options.device)
        varied = [call for call in model.calls if call.is_energy and options.only in (None, call.label)]
        if not varied or min(options.steps) < 1:
            there = ", ".join(sorted({call.label for call in model.calls if call.is_energy})) or "none"
            raise ConfigError(f"nothing to vary: steps should be positive, and the model's energies are {there}")
        data = load_data(config, options.cache or options.run)
    except (CheckpointError, ConfigError, DataError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    trained = ", ".join(dict.fromkeys(f"{call.label}: {call.repeats}" for call in varied))
    rows = []
    print(f"trained with {trained}\n\nsteps  held-out perplexity")
    for steps in options.steps:
        with_steps(model, steps, options.only)
        loss = evaluate(model, data.validation, config.train, Ranks())
        rows.append({"steps": steps, "val_loss": loss, "perplexity": math.exp(loss) if loss < 700 else math.inf})
        print(f"{steps:5d}  {rows[-1]['perplexity']:.2f}", flush=True)
    write_text(options.run / "steps.json", json.dumps(rows, indent=1) + "\n")
    plot_steps(rows, trained, options.run / "steps.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
