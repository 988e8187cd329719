"""Train a small language model: `python -m examples.lm.train --config CONFIG --out DIR`.

DIR gets `metrics.jsonl`, `result.json`, `checkpoint.pt`, `loss.png`, `sample.txt`, `tokenizer.json` and `layers/`, the
code of the compiled energies. `--resume` continues a run that was stopped, however it was stopped, and ends bit for bit
where it would have ended. On several processes: `torchrun --nproc-per-node 2 -m examples.lm.train --parallel ddp ...`.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from tqdm import tqdm

from examples.lm import checkpoint
from examples.lm.checkpoint import CheckpointError, Progress, Row
from examples.lm.config import Config, ConfigError, load_config, tables
from examples.lm.data import SEPARATOR, DataError, load_data
from examples.lm.files import write_text
from examples.lm.instrument import energies, plot_energies
from examples.lm.logs import LogError, Logs
from examples.lm.measure import count_parameters, peak_memory
from examples.lm.model import build_model, generate, parameter_groups
from examples.lm.optimise import (
    WINDOW,
    TrainingError,
    check_finite,
    cross_entropy,
    evaluate,
    learning_rate,
    stands_out,
)
from examples.lm.parallel import KINDS, ParallelError, Ranks, gradients_stay, ranks, shared
from examples.lm.plot import plot_losses


class Run:
    """One training run in its folder."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        ranks: Ranks | None = None,
        tensorboard: bool = False,
        cache: Path | None = None,
    ) -> None:
        cache = cache or folder
        for each in (folder, cache):
            each.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(config.train.seed)
        self.config, self.folder, self.ranks = config, folder, ranks or Ranks()
        self.device = self.ranks.device(config.train.device)
        if self.ranks.first:
            self.data = load_data(config, cache)
        self.ranks.wait()  # for the first one to leave tokenizer and cache for the others
        if not self.ranks.first:
            self.data = load_data(config, cache)
        vocabulary = self.data.corpus.tokenizer.get_vocab_size()
        self.model = build_model(config, vocabulary, folder / "layers").to(self.device)
        self.model.gradient_checkpointing = config.train.recompute
        self.model.separator = self.data.corpus.tokenizer.token_to_id(SEPARATOR)
        self.parameters = count_parameters(self.model)
        if config.train.compile:
            for layer in self.model.layers:
                layer.forward = torch.compile(layer.forward)
        self.shared = shared(self.model, self.ranks.kind)
        self.optimiser = torch.optim.AdamW(
            parameter_groups(self.model, self.model.decayed, config.train.weight_decay),
            betas=(config.train.beta1, config.train.beta2),
        )
        self.identity = checkpoint.identity(config, self.data.corpus, folder / "layers")
        self.checkpoint = folder / "checkpoint.pt"
        self.progress = Progress()
        self.logs = Logs(folder / "tensorboard" if tensorboard and self.ranks.first else None)

    def resume(self) -> None:
        """Continue from the checkpoint in the folder; without one, from the start."""
        if self.checkpoint.exists():
            self.progress, data = checkpoint.load(self.checkpoint, self.identity, self.model, self.optimiser)
            self.data.batches.load_state(data)

    def train(self, steps: int) -> None:
        """Go on until `steps` steps are done, with a bar that shows loss, tokens per second and time left."""
        progress, every = self.progress, self.config.train.evaluate_every
        if self.ranks.first:
            text = json.dumps(tables(self.config), indent=1, ensure_ascii=False)
            write_text(self.folder / "config.json", text + "\n")
        if progress.step < steps:
            # A run that stopped between two regular rows has one more row, which an uninterrupted one has not.
            progress.rows = [row for row in progress.rows if row["step"] % every == 0]
            progress.instrument = [row for row in progress.instrument if row["step"] % every == 0]
        per_step = self.config.train.batch * self.config.model.context
        started = time.monotonic() - progress.seconds
        with tqdm(
            total=max(steps, progress.step) * per_step,
            initial=progress.step * per_step,
            unit="tok",
            unit_scale=True,
            mininterval=0.5 if sys.stderr.isatty() else 15,
            disable=not self.ranks.first,
        ) as bar:
            if not progress.rows:
                self.record(self.first_loss(), 0)
            while progress.step < steps:
                began = time.monotonic()
                loss = self.step()
                window = progress.losses[-WINDOW:]
                progress.losses.append(loss)
                progress.step += 1
                progress.training_seconds += time.monotonic() - began
                progress.seconds = time.monotonic() - started
                if stands_out(loss, window, self.config.train.spike):
                    progress.spikes.append(progress.step)
                    usual = statistics.fmean(window)
                    bar.write(
                        f"step {progress.step}: training loss {loss:.3f} stands out, the last ones average {usual:.3f}"
                    )
                bar.set_description(f"step {progress.step}", refresh=False)
                bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
                bar.update(per_step)
                if progress.step % every == 0 or progress.step == steps:
                    row = self.record(statistics.fmean(progress.losses[-every:]), progress.step * per_step)
                    bar.write(
                        "step {step}: training loss {train_loss:.3f}, validation loss {val_loss:.3f}".format(**row)
                    )

    def first_loss(self) -> float:
        """The loss of the first batch before any step."""
        inputs, targets = self.data.batches.peek()
        return evaluate(self.model, [(inputs, targets)], self.config.train, self.ranks)

    def step(self) -> float:
        """One update of the parameters; the training loss before it, over the whole batch."""
        config, number = self.config.train, self.progress.step
        rate = learning_rate(config, number)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        inputs, targets = self.data.batches(number)
        self.optimiser.zero_grad()
        mean = torch.zeros(())
        for part in range(config.accumulate):
            mine, wanted = (self.ranks.rows(tokens, part, config.accumulate) for tokens in (inputs, targets))
            with gradients_stay(self.shared, part + 1 < config.accumulate):
                loss = cross_entropy(self.shared, mine, wanted, config) / config.accumulate
                loss.backward()
            mean += loss.detach().cpu() / self.ranks.world
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), config.clip)
        if isinstance(norm, DTensor):
            norm = norm.full_tensor()
        mean = self.ranks.total(mean)
        check_finite(number + 1, rate, mean.item(), norm.item())
        self.optimiser.step()
        return mean.item()

    def record(self, train_loss: float, tokens: int) -> Row:
        """Measure the held-out loss, then put metrics and state on disk; the new row of metrics."""
        progress, config = self.progress, self.config.train
        row: Row = {
            "step": progress.step,
            "train_loss": train_loss,
            "val_loss": evaluate(self.model, self.data.validation, config, self.ranks),
            "tokens": tokens,
            "learning_rate": learning_rate(config, max(0, progress.step - 1)),
            "spikes": len(progress.spikes),
            "seconds": round(progress.seconds, 3),
        }
        if not math.isfinite(row["val_loss"]):
            raise TrainingError(
                f"step {progress.step}: validation loss {row['val_loss']}; a lower learning_rate may help"
            )
        progress.rows.append(row)
        if config.instrument:
            inputs, _ = self.data.validation[0]
            found = energies(self.model, inputs.to(self.device))
            progress.instrument += [{"step": progress.step, **each} for each in found]
        path = self.checkpoint if self.ranks.first else None
        state = self.data.batches.state()
        tokenizer = self.data.corpus.tokenizer
        checkpoint.save(path, self.identity, progress, self.model, self.optimiser, tokenizer, state)
        if self.ranks.first:
            self.write_metrics()
            self.logs.row(row)
        return row

    def write_metrics(self) -> None:
        """The rows so far, one JSON object a line; the same of the energies, where they are watched."""
        write_text(self.folder / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in self.progress.rows))
        if rows := self.progress.instrument:
            write_text(self.folder / "energies.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    def sample(self) -> str:
        """Text that the model writes after the prompt; the same each time."""
        config, tokenizer = self.config.sample, self.data.corpus.tokenizer
        start = [tokenizer.token_to_id(SEPARATOR), *tokenizer.encode(config.prompt).ids]
        tokens = torch.tensor(start, device=self.device)  # [token]
        generator = torch.Generator(self.device).manual_seed(self.config.train.seed)
        with torch.compiler.set_stance("force_eager"):  # every step has another length
            written = generate(self.model, tokens, config.tokens, config.temperature, generator)
        return tokenizer.decode(written.tolist())

    def result(self) -> dict[str, Any]:
        """The outcome in numbers."""
        progress, last = self.progress, self.progress.rows[-1]
        return {
            "parameters": self.parameters,
            "step": last["step"],
            "tokens": last["tokens"],
            "train_loss": last["train_loss"],
            "val_loss": last["val_loss"],
            "perplexity": math.exp(last["val_loss"]),
            "spikes": len(progress.spikes),
            "tokens_per_second": last["tokens"] / max(progress.training_seconds, 1e-9),
            "peak_memory": peak_memory(self.device),
            "seconds": progress.seconds,
            "losses": [round(loss, 4) for loss in progress.losses],
        }

    def finish(self) -> None:
        """Plot and sample into the folder, and the outcome on the terminal."""
        sample = self.sample()
        if not self.ranks.first:
            return
        rows, entropy, labels = self.progress.rows, self.data.entropy, [call.label for call in self.model.calls]
        self.write_metrics()
        self.logs.close()
        write_text(self.folder / "sample.txt", sample + "\n")
        write_text(self.folder / "result.json", json.dumps(self.result(), indent=2) + "\n")
        title = f"{' + '.join(dict.fromkeys(labels))}, {self.parameters / 1e6:.2f} M parameters"
        plot_losses(rows, entropy, title, self.folder / "loss.png")
        if self.progress.instrument:
            plot_energies(self.progress.instrument, self.folder / "energies.png")
        before, after, held_out = rows[0], rows[-1], len(self.data.corpus.held_out)
        print(
            f"\nA sample:\n\n{textwrap.indent(sample, '    ')}\n\n"
            f"validation loss before  {before['val_loss']:.3f} nats per token, {held_out} held-out documents\n"
            f"validation loss after   {after['val_loss']:.3f} ({after['step']} steps, {after['seconds']:.0f} s)\n"
            f"unigram entropy         {entropy:.3f} (the least a model without context could reach)\n\n"
            f"loss plot   {self.folder / 'loss.png'}\n"
            f"metrics     {self.folder / 'metrics.jsonl'}\n"
            f"checkpoint  {self.checkpoint}\n"
            f"layers      {', '.join(dict.fromkeys(labels))}: {self.folder / 'layers'}"
        )


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0, or 1 with a message if the run cannot start or goes wrong."""
    parser = argparse.ArgumentParser(prog="python -m examples.lm.train", description="Train a small language model.")
    parser.add_argument("--config", type=Path, required=True, help="a TOML file, see examples/lm/configs")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the run")
    parser.add_argument("--steps", type=int, help="stop after so many steps of the schedule (default: all of it)")
    parser.add_argument("--resume", action="store_true", help="continue the run in the folder, if there is one")
    parser.add_argument("--seed", type=int, help="in place of the configuration's")
    parser.add_argument("--parallel", choices=KINDS, default="", help="how the processes of torchrun share the run")
    parser.add_argument("--tensorboard", action="store_true", help="also write logs for TensorBoard")
    parser.add_argument("--cache", type=Path, help="a folder for tokenizer and tokens that runs share (default: DIR)")
    options = parser.parse_args(arguments)
    try:
        config = load_config(options.config)
        if options.seed is not None:
            config = dataclasses.replace(config, train=dataclasses.replace(config.train, seed=options.seed))
        with ranks(options.parallel, config.train.device) as group:
            run = Run(config, options.out, group, options.tensorboard, options.cache)
            if options.resume:
                run.resume()
            elif run.checkpoint.exists():
                raise CheckpointError(f"{options.out} holds a run already: add --resume, or choose another folder")
            run.train(run.config.train.steps if options.steps is None else options.steps)
            run.finish()
    except (CheckpointError, ConfigError, DataError, LogError, ParallelError, TrainingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the same command with --resume continues", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
