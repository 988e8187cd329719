"""One step of training and one evaluation: losses, the schedule, and what is out of the ordinary."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.lm.config import TrainConfig
from examples.lm.parallel import Ranks

WINDOW = 100
"""How many losses the next one is compared with."""


class TrainingError(Exception):
    """The training went wrong; the message says at which step and what may help."""


def learning_rate(config: TrainConfig, step: int) -> float:
    """Linear warm-up, then a cosine from `learning_rate` to `final_learning_rate` at the last of `steps`."""
    if step < config.warmup:
        return config.learning_rate * (step + 1) / config.warmup
    done = min(1.0, (step - config.warmup) / max(1, config.steps - config.warmup))
    span = config.learning_rate - config.final_learning_rate
    return config.final_learning_rate + span * 0.5 * (1 + math.cos(math.pi * done))


def cross_entropy(
    model: nn.Module,
    inputs: Tensor,
    targets: Tensor,
    config: TrainConfig,
    reduction: str = "mean",
    steps: int | None = None,
) -> Tensor:
    """Loss in nats of next-token prediction, inputs and targets [batch, token]; `steps` is for the model's call."""
    device = next(model.parameters()).device
    with torch.autocast(device.type, torch.bfloat16, enabled=config.precision == "bf16"):
        logits = model(inputs.to(device), steps=steps)  # [batch, token, vocabulary]
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.to(device).flatten(), reduction=reduction)


@torch.no_grad()
def evaluate(
    model: nn.Module,
    batches: Sequence[tuple[Tensor, Tensor]],
    config: TrainConfig,
    ranks: Ranks,
    steps: int | None = None,
) -> float:
    """Mean loss over all tokens of the batches, in nats per token; each rank computes its share of the batches."""
    training = model.training
    model.eval()
    total = torch.zeros((), dtype=torch.float64)
    for first in range(0, len(batches), ranks.world):
        # Layers in parts need all ranks in every call: one that has no batch left computes the last again, for nothing.
        number = first + ranks.rank
        loss = cross_entropy(model, *batches[min(number, len(batches) - 1)], config, "sum", steps)
        if number < len(batches):
            total += loss.double().cpu()
    model.train(training)
    return float(ranks.total(total)) / sum(targets.numel() for _, targets in batches)


def check_finite(step: int, rate: float, loss: float, norm: float) -> None:
    """TrainingError where a step has no numbers to go on with."""
    if not (math.isfinite(loss) and math.isfinite(norm)):
        raise TrainingError(
            f"step {step}: loss {loss}, gradient norm {norm} at learning rate {rate:g}; "
            "a lower learning_rate, a longer warmup or a smaller clip may help"
        )


def stands_out(loss: float, window: Sequence[float], deviations: float) -> bool:
    """Whether a loss is a spike: so many standard deviations above the mean of those before it."""
    if deviations == 0 or len(window) < WINDOW // 5:
        return False
    return loss > statistics.fmean(window) + deviations * max(statistics.stdev(window), 1e-3)
