"""What a model costs: parameters, floating-point operations, memory."""

from __future__ import annotations

import math
import resource
import sys
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from examples.lm.config import Config
from examples.lm.model import Decoder, build_model
from examples.lm.optimise import cross_entropy


def count_parameters(model: nn.Module) -> int:
    """The number of trained numbers."""
    return sum(parameter.numel() for parameter in model.parameters())


def parameters_of(config: Config, vocabulary: int) -> int:
    """The same of the model of a configuration, which is not allocated."""
    return count_parameters(build_model(config, vocabulary, device="meta"))


def _attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    """Both products of an attention of query [..., rows, r], key [..., columns, r] and value, the mask not used."""
    return 2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _attention_backward(_: Any, query: Any, key: Any, value: Any, *__: Any, **___: Any) -> int:
    """Scores again, then the gradients of scores, query, key and value."""
    return 2 * math.prod(query[:-1]) * key[-2] * (3 * query[-1] + 2 * value[-1])


def training_flops(model: Decoder, config: Config) -> float:
    """Floating-point operations per token of one training step at the configuration's context.

    Matrix products alone, counted as they are called, forward and backward; an attention counts all pairs of its
    context, causal or not. Two for each multiplication and addition.
    """
    tokens = torch.zeros(1, config.model.context, dtype=torch.int64)
    cpu = {
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    }
    with FlopCounterMode(display=False, custom_mapping=cpu) as counter:
        cross_entropy(model, tokens, tokens, config.train).backward()
    model.zero_grad(set_to_none=True)
    return counter.get_total_flops() / tokens.numel()


def peak_memory(device: str) -> int:
    """Bytes: on a GPU the most that tensors took, else the largest resident size of the process so far."""
    if device.startswith("cuda"):
        return torch.cuda.max_memory_allocated(device)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024
