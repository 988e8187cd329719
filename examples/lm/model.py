"""A decoder language model on one page: embedding, blocks of two layers, final norm, tied head.

The layers come from `generated/` (compiled from `examples/energies/`) or, as the baseline, from `llama.py`. Either kind
brings its own norm and its own residual connection, so a block is `x = mlp(attention(x))`.
"""

from __future__ import annotations

import importlib

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from examples.lm.config import ModelConfig

# Where the attention class (d=, heads=) and the MLP class (d=, f=) of each kind of decoder are.
LAYERS = {
    "cem": (("generated.cem_attention", "CemAttention"), ("generated.cem_mlp", "CemMlp")),
    "llama": (("examples.lm.llama", "LlamaAttention"), ("examples.lm.llama", "LlamaMlp")),
}

# Each layer's update is linear in one of these. They start smaller by sqrt(number of layers), so that all updates
# together start as large as one would be alone.
UPDATE_SCALES = ("eta", "V", "out.weight", "down.weight")

# What weight decay pulls on: the matrices that project, by name, since a per-head diagonal has two axes as well.
PROJECTIONS = ("Q", "K", "W", "V", "qkv.weight", "out.weight", "gate.weight", "up.weight", "down.weight")


def layer_classes(kind: str) -> tuple[type[nn.Module], type[nn.Module]]:
    """The attention and the MLP class of one kind of decoder."""
    attention, mlp = (getattr(importlib.import_module(module), name) for module, name in LAYERS[kind])
    return attention, mlp


class Decoder(nn.Module):
    """A causal language model: tokens [batch, token] -> logits [batch, token, vocabulary]."""

    def __init__(self, config: ModelConfig, vocabulary: int, kind: str) -> None:
        super().__init__()
        attention, mlp = layer_classes(kind)
        self.context = config.context
        self.embedding = nn.Embedding(vocabulary, config.d)
        self.layers = nn.ModuleList()
        for _ in range(config.blocks):
            self.layers.append(attention(d=config.d, heads=config.heads))
            self.layers.append(mlp(d=config.d, f=config.f))
        self.norm = nn.RMSNorm(config.d, eps=1e-6)

        for layer in self.layers:
            if not layer.causal:
                raise ValueError(f"{type(layer).__name__} reads later tokens: it would be told what it should predict")
        nn.init.normal_(self.embedding.weight, std=0.02)
        with torch.no_grad():
            for layer in self.layers:
                for name, parameter in layer.named_parameters():
                    if name in UPDATE_SCALES:
                        parameter.mul_(len(self.layers) ** -0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token, [batch, token, vocabulary], for tokens [batch, token]."""
        # The table is the head too, where small entries are right; the factor brings them nearer to unit size.
        x = self.embedding(tokens) * self.embedding.embedding_dim**0.5  # [batch, token, d]
        for layer in self.layers:
            x = layer(x)  # [batch, token, d]
        return F.linear(self.norm(x), self.embedding.weight)  # [batch, token, vocabulary]

    @torch.no_grad()
    def generate(self, tokens: Tensor, count: int, temperature: float, generator: torch.Generator) -> Tensor:
        """Continue tokens [token] by `count` sampled ones: [token + count]."""
        for _ in range(count):
            logits = self(tokens[None, -self.context :])[0, -1]  # [vocabulary]
            weights = torch.softmax(logits.float() / temperature, dim=-1)
            tokens = torch.cat((tokens, torch.multinomial(weights, 1, generator=generator)))
        return tokens


def parameter_groups(model: Decoder, weight_decay: float) -> list[dict[str, object]]:
    """AdamW's two groups: projection matrices with weight decay, everything else without."""
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for layer in model.layers:
        for name, parameter in layer.named_parameters():
            (decayed if name in PROJECTIONS else kept).append(parameter)
    kept += [*model.embedding.parameters(), *model.norm.parameters()]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": kept, "weight_decay": 0.0}]
