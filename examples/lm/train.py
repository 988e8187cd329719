"""Train a small language model: `python -m examples.lm.train --config CONFIG --layers cem|llama --out DIR`.

DIR gets `metrics.jsonl`, `checkpoint.pt`, `loss.png`, `sample.txt` and `tokenizer.json`. `--resume` continues a run
that was stopped, however it was stopped, and ends bit for bit where it would have ended.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import textwrap
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

from examples.lm import checkpoint
from examples.lm.checkpoint import CheckpointError, Progress, Row
from examples.lm.config import Config, ConfigError, TrainConfig, load_config
from examples.lm.data import SEPARATOR, Batches, DataError, evaluation_batches, load_corpus, unigram_entropy
from examples.lm.files import write_text
from examples.lm.model import LAYERS, Decoder, parameter_groups
from examples.lm.plot import plot_losses


class TrainingError(Exception):
    """The training went wrong; the message says at which step and what may help."""


def learning_rate(config: TrainConfig, step: int) -> float:
    """Linear warm-up, then a cosine from `learning_rate` to `final_learning_rate` at the last of `steps`."""
    if step < config.warmup:
        return config.learning_rate * (step + 1) / config.warmup
    done = min(1.0, (step - config.warmup) / max(1, config.steps - config.warmup))
    span = config.learning_rate - config.final_learning_rate
    return config.final_learning_rate + span * 0.5 * (1 + math.cos(math.pi * done))


def cross_entropy(model: Decoder, inputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """Loss in nats of next-token prediction, inputs and targets [batch, token]."""
    device = model.embedding.weight.device
    logits = model(inputs.to(device))  # [batch, token, vocabulary]
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.to(device).flatten(), reduction=reduction)


@torch.no_grad()
def evaluate(model: Decoder, batches: list[tuple[Tensor, Tensor]]) -> float:
    """Mean loss over all tokens of the batches, in nats per token."""
    total = math.fsum(cross_entropy(model, *batch, reduction="sum").item() for batch in batches)
    return total / sum(targets.numel() for _, targets in batches)


class Run:
    """One training run in its folder."""

    def __init__(self, config: Config, kind: str, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(config.train.seed)
        self.config, self.kind, self.folder = config, kind, folder
        self.corpus = load_corpus(config.data, folder)
        self.model = Decoder(config.model, self.corpus.tokenizer.get_vocab_size(), kind).to(config.train.device)
        self.optimiser = torch.optim.AdamW(
            parameter_groups(self.model, config.train.weight_decay), betas=(config.train.beta1, config.train.beta2)
        )
        self.batches = Batches(self.corpus.train, config.model.context, config.train.batch, config.train.seed)
        self.validation = evaluation_batches(self.corpus.validation, config.model.context, config.train.batch)
        self.entropy = unigram_entropy(self.corpus.validation)
        self.identity = checkpoint.identity(config, kind, self.corpus)
        self.checkpoint = folder / "checkpoint.pt"
        self.progress = Progress()

    def resume(self) -> None:
        """Continue from the checkpoint in the folder; without one, from the start."""
        if self.checkpoint.exists():
            self.progress = checkpoint.load(self.checkpoint, self.identity, self.model, self.optimiser)

    def train(self, steps: int) -> None:
        """Go on until `steps` steps are done, with a bar that shows loss, tokens per second and time left."""
        progress, every = self.progress, self.config.train.evaluate_every
        if progress.step < steps:
            # A run that stopped between two regular rows has one more row, which an uninterrupted one has not.
            progress.rows = [row for row in progress.rows if row["step"] % every == 0]
        per_step = self.config.train.batch * self.config.model.context
        started = time.monotonic() - progress.seconds
        with tqdm(
            total=max(steps, progress.step) * per_step,
            initial=progress.step * per_step,
            unit="tok",
            unit_scale=True,
            mininterval=0.5 if sys.stderr.isatty() else 15,
        ) as bar:
            if not progress.rows:
                with torch.no_grad():
                    first = cross_entropy(self.model, *self.batches(0)).item()
                self.record(first, 0)
            while progress.step < steps:
                progress.recent = [*progress.recent, self.step()][-every:]
                progress.step += 1
                progress.seconds = time.monotonic() - started
                bar.set_description(f"step {progress.step}", refresh=False)
                bar.set_postfix_str(f"loss {progress.recent[-1]:.3f}", refresh=False)
                bar.update(per_step)
                if progress.step % every == 0 or progress.step == steps:
                    row = self.record(math.fsum(progress.recent) / len(progress.recent), progress.step * per_step)
                    bar.write(
                        "step {step}: training loss {train_loss:.3f}, validation loss {val_loss:.3f}".format(**row)
                    )

    def step(self) -> float:
        """One update of the parameters; the training loss before it."""
        config, number = self.config.train, self.progress.step
        rate = learning_rate(config, number)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        loss = cross_entropy(self.model, *self.batches(number))
        self.optimiser.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        if not (math.isfinite(loss.item()) and math.isfinite(norm.item())):
            raise TrainingError(
                f"step {number + 1}: loss {loss.item()}, gradient norm {norm.item()} at learning rate {rate:g}; "
                "a lower learning_rate, a longer warmup or a smaller clip may help"
            )
        self.optimiser.step()
        return loss.item()

    def record(self, train_loss: float, tokens: int) -> Row:
        """Measure the held-out loss, then put metrics and state on disk; the new row of metrics."""
        progress = self.progress
        row: Row = {
            "step": progress.step,
            "train_loss": train_loss,
            "val_loss": evaluate(self.model, self.validation),
            "tokens": tokens,
            "seconds": round(progress.seconds, 3),
        }
        if not math.isfinite(row["val_loss"]):
            raise TrainingError(
                f"step {progress.step}: validation loss {row['val_loss']}; a lower learning_rate may help"
            )
        progress.rows.append(row)
        checkpoint.save(self.checkpoint, self.identity, progress, self.model, self.optimiser)
        self.write_metrics()
        return row

    def write_metrics(self) -> None:
        """The rows so far, one JSON object a line."""
        write_text(self.folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in self.progress.rows))

    def sample(self) -> str:
        """Text that the model writes after the prompt; the same each time."""
        config, tokenizer = self.config.sample, self.corpus.tokenizer
        start = [tokenizer.token_to_id(SEPARATOR), *tokenizer.encode(config.prompt).ids]
        tokens = torch.tensor(start, device=self.config.train.device)  # [token]
        generator = torch.Generator(self.config.train.device).manual_seed(self.config.train.seed)
        return tokenizer.decode(self.model.generate(tokens, config.tokens, config.temperature, generator).tolist())

    def finish(self) -> None:
        """Plot and sample into the folder, and the outcome on the terminal."""
        rows, sample = self.progress.rows, self.sample()
        self.write_metrics()
        write_text(self.folder / "sample.txt", sample + "\n")
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        title = f"Language model of {self.kind} layers, {parameters / 1e6:.2f} M parameters"
        plot_losses(rows, self.entropy, title, self.folder / "loss.png")
        before, after, held_out = rows[0], rows[-1], len(self.corpus.held_out)
        code = [f"{module.replace('.', '/')}.py" for module, _ in LAYERS[self.kind]]
        print(
            f"\nA sample:\n\n{textwrap.indent(sample, '    ')}\n\n"
            f"validation loss before  {before['val_loss']:.3f} nats per token, {held_out} held-out documents\n"
            f"validation loss after   {after['val_loss']:.3f} ({after['step']} steps, {after['seconds']:.0f} s)\n"
            f"unigram entropy         {self.entropy:.3f} (the least a model without context could reach)\n\n"
            f"loss plot   {self.folder / 'loss.png'}\n"
            f"metrics     {self.folder / 'metrics.jsonl'}\n"
            f"checkpoint  {self.checkpoint}\n"
            f"layers      {', '.join(dict.fromkeys(code))}"
        )


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0, or 1 with a message if the run cannot start or goes wrong."""
    parser = argparse.ArgumentParser(prog="python -m examples.lm.train", description="Train a small language model.")
    parser.add_argument("--config", type=Path, required=True, help="a TOML file, see examples/lm/configs")
    parser.add_argument("--layers", choices=LAYERS, required=True, help="the generated layers or the baseline")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--steps", type=int, help="stop after so many steps of the schedule (default: all of it)")
    parser.add_argument("--resume", action="store_true", help="continue the run in the folder, if there is one")
    options = parser.parse_args(arguments)
    try:
        run = Run(load_config(options.config), options.layers, options.out)
        if options.resume:
            run.resume()
        elif run.checkpoint.exists():
            raise CheckpointError(f"{options.out} holds a run already: add --resume, or choose another folder")
        run.train(run.config.train.steps if options.steps is None else options.steps)
        run.finish()
    except (CheckpointError, ConfigError, DataError, TrainingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command with --resume continues", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
