"""Trainer with the weight decay that suits energies: on projection matrices only, as `examples/lm` has it."""

from __future__ import annotations

from torch import nn
from transformers import Trainer

from examples.lm.model import DECAYED


class CemTrainer(Trainer):
    """transformers' own knows norms and biases only, and would let step sizes, diagonals and preconditioners decay."""

    def get_decay_parameter_names(self, model: nn.Module) -> list[str]:
        """The parameters that `weight_decay` pulls on: projection matrices, and adapters of them."""
        names = super().get_decay_parameter_names(model)
        return [name for name in names if name.rpartition(".")[2] in DECAYED or "lora_" in name]
