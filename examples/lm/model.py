"""A decoder language model on one page: embedding, layers, final norm, tied head.

The layers are whatever the configuration names (`layers.py`): energies, compiled, or the baseline of `llama.py`. Every
layer brings its own norm and its own residual connection, so the model is `x = layer(x)` all the way up.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from examples.lm.config import Config, ConfigError, ModelConfig
from examples.lm.layers import Built, build_layers

# Each layer's update is linear in the first of these that it has. That starts smaller by sqrt(number of layers), so
# that all updates together start as large as one would be alone. An energy with other names adds its own in [model].
SCALED = ("eta", "V", "out.weight", "down.weight")

# What weight decay pulls on: the matrices that project, by name, since a per-head diagonal has two axes as well.
DECAYED = (
    *("Q", "K", "W", "V", "O", "D", "M"),
    *(f"{name}.weight" for name in ("q", "k", "v", "out", "gate", "up", "down")),
)


def build_model(config: Config, vocabulary: int, folder: Path | None = None, **where: Any) -> Decoder:
    """The model of a configuration; compiled layers are written to `folder`. `where`: device and dtype."""
    return Decoder(
        config.model, vocabulary, build_layers(config.every_layer(), config.model.d, folder, **where), **where
    )


class DecoderCache:
    """What the layers remember of the tokens so far, and which document of its sequence each is in, [batch, tokens]."""

    def __init__(self, layers: list[Any], doc: Tensor) -> None:
        self.layers, self.doc, self.tokens = layers, doc, 0

    def reorder(self, index: Tensor) -> None:
        """Take the sequences `index` of the batch, as beam search does."""
        self.doc = self.doc[index]
        for layer in self.layers:
            layer.reorder(index)

    def crop(self, tokens: int) -> None:
        """Forget all but the first `tokens` tokens."""
        self.tokens, self.doc = tokens, self.doc[:, :tokens]
        for layer in self.layers:
            layer.crop(tokens)


class Decoder(nn.Module):
    """A causal language model: tokens [batch, token] -> logits [batch, token, vocabulary]."""

    def __init__(self, config: ModelConfig, vocabulary: int, layers: Sequence[Built], **where: Any) -> None:
        super().__init__()
        self.context, self.d, self.vocabulary = config.context, config.d, vocabulary
        self.gradient_checkpointing = False  # once round all steps of a layer
        self.separator: int | None = None  # the token that opens a document, for layers that ask for `doc`
        self.calls = tuple(layers)
        self.embedding = nn.Embedding(vocabulary, config.d, **where)
        self.layers = nn.ModuleList(layer.module for layer in layers)
        self.norm = nn.RMSNorm(config.d, eps=1e-6, **where)
        self.scaled, self.decayed = (*config.scaled, *SCALED), {*config.decayed, *DECAYED}
        names = {name for layer in self.layers for name, _ in layer.named_parameters()}
        if unknown := sorted({*config.scaled, *config.decayed} - names):
            raise ConfigError(f"[model] lists a parameter {unknown[0]} that no layer has; there are {sorted(names)}")
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw all parameters afresh."""
        nn.init.normal_(self.embedding.weight, std=0.02)
        nn.init.ones_(self.norm.weight)
        for layer in self.layers:
            self.reset_layer(layer)

    @torch.no_grad()
    def reset_layer(self, layer: Any) -> None:
        """Draw the parameters of one of the layers."""
        layer.reset_parameters()
        names = dict(layer.named_parameters())
        for name in [name for name in self.scaled if name in names][:1]:
            names[name].mul_(len(self.layers) ** -0.5)

    def forward(
        self,
        tokens: Tensor,
        start: Tensor | None = None,
        cache: DecoderCache | None = None,
        steps: int | None = None,
        last: int = 0,
    ) -> Tensor:
        """Logits of the next token, [batch, token, vocabulary], for tokens [batch, token], or for the `last` of them.

        `start` [batch]: the first token of each sequence that is not padding. With a cache, tokens are those that
        follow the ones it has seen. `steps`: how often each energy moves the tokens, in place of its own number.
        """
        # The table is the head too, where small entries are right; the factor brings them nearer to unit size.
        x = self.embedding(tokens) * self.d**0.5  # [batch, token, d]
        givens = self.givens(tokens, start, cache)
        for number, (layer, call) in enumerate(zip(self.layers, self.calls, strict=True)):
            more: dict[str, Any] = {name: givens[name] for name in call.facts.givens}
            if repeats := self.steps(call, steps):
                more["steps"] = repeats
            if cache is not None:
                x, _ = layer(x, cache=cache.layers[number], **more)
            elif self.gradient_checkpointing and self.training:
                x = checkpoint(layer, x, use_reentrant=False, **more)
            else:
                x = layer(x, **more)  # [batch, token, d]
        if cache is not None:
            cache.tokens += tokens.shape[1]
        return F.linear(self.norm(x[:, -last:]), self.embedding.weight)  # [batch, token, vocabulary]

    def steps(self, call: Built, steps: int | None) -> int | None:
        """How often a layer moves the tokens; None: as often as it was made to."""
        return steps if steps and call.is_energy else call.steps

    def givens(self, tokens: Tensor, start: Tensor | None, cache: DecoderCache | None = None) -> dict[str, Tensor]:
        """What energies may ask for: `start`, one number for each sequence, and `doc` [batch, token], the documents
        counted through."""
        wanted = {name for call in self.calls for name in call.facts.givens}
        if start is None:
            start = tokens.new_zeros(len(tokens))
        elif "start" not in wanted and bool((start > 0).any()):
            raise ValueError("start: no layer of this model has `given start: int`, so it would read the padding")
        if "doc" not in wanted:
            return {"start": start}
        if self.separator is None:
            raise ValueError("doc: a layer asks for documents, and the decoder has no separator")
        doc = (tokens == self.separator).cumsum(1)  # [batch, token]
        if cache is not None:
            doc = doc + cache.doc[:, -1:].sum(1, keepdim=True)  # none so far: 0
            cache.doc = torch.cat((cache.doc, doc), dim=1)
        return {"start": start, "doc": doc}

    def new_cache(self, batch: int, max_tokens: int, steps: int | None = None) -> DecoderCache:
        """What decoding remembers of up to `max_tokens` tokens of `batch` sequences."""
        caches = []
        for call in self.calls:  # not of self.layers: an adapter may have taken a layer's place there
            more = {"steps": repeats} if (repeats := self.steps(call, steps)) else {}
            caches.append(call.module.new_cache((batch,), max_tokens, **more))
        return DecoderCache(caches, torch.zeros(batch, 0, dtype=torch.int64, device=self.embedding.weight.device))


@torch.no_grad()
def generate(
    model: Decoder, tokens: Tensor, count: int, temperature: float, generator: torch.Generator, cached: bool = True
) -> Tensor:
    """Continue tokens [token] by `count` sampled ones: [token + count].

    The model sees as many tokens as its context has; up to there, what it remembers of them is not computed again.
    """
    cache, seen = model.new_cache(1, model.context), 0
    for _ in range(count):
        if cached and len(tokens) <= model.context:
            logits, seen = model(tokens[None, seen:], cache=cache, last=1)[0, -1], len(tokens)  # [vocabulary]
        else:
            logits = model(tokens[None, -model.context :], last=1)[0, -1]  # [vocabulary]
        weights = torch.softmax(logits.float() / temperature, dim=-1)
        tokens = torch.cat((tokens, torch.multinomial(weights, 1, generator=generator)))
    return tokens


def parameter_groups(model: nn.Module, decayed: Container[str], weight_decay: float) -> list[dict[str, object]]:
    """AdamW's two groups: the parameters whose names in their layer are in `decayed`, and everything else."""
    groups: tuple[list[nn.Parameter], list[nn.Parameter]] = ([], [])
    for name, parameter in model.named_parameters():
        in_layer = re.fullmatch(r"layers\.\d+\.(.*)", name)
        groups[0 if in_layer and in_layer[1] in decayed else 1].append(parameter)
    return [{"params": groups[0], "weight_decay": weight_decay}, {"params": groups[1], "weight_decay": 0.0}]
