"""How fast the rows of a study train, side by side.

The models take turns within each round, so that whatever else the machine does slows them alike: the ratio to the first
row, a median over rounds, means something on a busy machine too. Tokens per second only do on a quiet one.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from examples.lm.config import Config
from examples.lm.model import build_model, parameter_groups
from examples.lm.optimise import cross_entropy


@dataclass(frozen=True)
class Speed:
    """Of one row: the median over rounds of the ratio to the first row, and the best of all rounds."""

    ratio: float
    tokens_per_second: float


def speeds(configs: Mapping[str, Config], vocabulary: int, rounds: int) -> dict[str, Speed]:
    """The speeds of whole training steps, forward, backward and optimiser."""
    models, optimisers = {}, {}
    for name, config in configs.items():
        models[name] = build_model(config, vocabulary)
        groups = parameter_groups(models[name], models[name].decayed, config.train.weight_decay)
        optimisers[name] = torch.optim.AdamW(groups, lr=1e-4)
    seconds: dict[str, list[float]] = {name: [] for name in configs}
    for number in range(rounds + 1):
        for name, config in configs.items():
            tokens = torch.randint(vocabulary, (config.train.batch, config.model.context + 1))
            start = time.perf_counter()
            cross_entropy(models[name], tokens[:, :-1], tokens[:, 1:], config.train).backward()
            optimisers[name].step()
            optimisers[name].zero_grad()
            if number:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)
    first = next(iter(seconds.values()))
    found = {}
    for name, config in configs.items():
        ratios = [one / other for one, other in zip(first, seconds[name], strict=True)]
        count = config.train.batch * config.model.context
        found[name] = Speed(statistics.median(ratios), count / min(seconds[name]))
    return found
