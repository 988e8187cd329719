"""The decoder of `examples/lm/model.py` as a model of transformers: saving, loading, generation, training.

A saved model carries the text of its energies in its configuration, and beside it, to be read or used elsewhere,
`energies/*.cem` and the modules that were generated of them, `layers/*.py`. Loading compiles the text anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache, GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast

import cemc.cache
from examples.hf.configuration import CemConfig
from examples.lm.config import LayerConfig, ModelConfig
from examples.lm.files import write_text
from examples.lm.layers import build_layers
from examples.lm.model import Decoder, DecoderCache


class CemCache(Cache):
    """What the layers remember of past tokens, with room for `max_tokens`: exactly what their derivations say."""

    def __init__(self, max_tokens: int) -> None:
        super().__init__(layers=[])
        self.max_tokens = max_tokens
        self.inner: DecoderCache | None = None  # made at the first call, which says for how many sequences

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many tokens it has seen."""
        return 0 if self.inner is None else self.inner.tokens

    def get_max_length(self, layer_idx: int | None = None) -> int:
        """How many it has room for."""
        return self.max_tokens

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Take these sequences, as beam search does."""
        if self.inner is not None:
            self.inner.reorder(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Take these sequences."""
        self.reorder_cache(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each sequence so many times."""
        if self.inner is not None:
            count = len(self.inner.doc)
            self.inner.reorder(torch.arange(count, device=self.inner.doc.device).repeat_interleave(repeats))

    def crop(self, tokens_to_remove: int) -> None:
        """Forget the last tokens."""
        if self.inner is not None:
            self.inner.crop(self.inner.tokens - tokens_to_remove)

    @property
    def is_initialized(self) -> bool:
        return self.inner is not None

    @property
    def is_compileable(self) -> bool:
        return False

    @property
    def is_croppable(self) -> bool:
        return True

    @property
    def is_linear(self) -> list[bool]:
        return [False]

    def __repr__(self) -> str:
        return f"CemCache({self.get_seq_length()} of {self.max_tokens} tokens)"


class CemForCausalLM(PreTrainedModel, GenerationMixin):
    """A causal language model whose layers are the energies of its configuration."""

    config_class = CemConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True

    def __init__(self, config: CemConfig) -> None:
        super().__init__(config)
        self.folder = _folder(config)
        layers = [
            LayerConfig(
                energy=str(self.folder / f"{layer['energy']}.cem"),
                arguments=layer.get("arguments", {}),
                steps=layer.get("steps", 0),
            )
            for layer in config.layers or []
        ]
        sizes = ModelConfig(
            context=config.max_position_embeddings, d=config.hidden_size, scaled=tuple(config.scaled or ())
        )
        self.model = Decoder(sizes, config.vocab_size, build_layers(layers, sizes.d, self.folder / "layers"))
        self.model.separator = config.bos_token_id
        self._no_split_modules = sorted({type(layer).__name__ for layer in self.model.layers})
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Draw the parameters of a part of the model, all but those that were loaded."""
        loaded = {
            name: parameter.detach().clone()
            for name, parameter in module.named_parameters(recurse=False)
            if getattr(parameter, "_is_hf_initialized", False)
        }
        if any(module is layer for layer in self.model.layers):
            self.model.reset_layer(module)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        elif isinstance(module, nn.RMSNorm):
            module.reset_parameters()
        with torch.no_grad():
            for name, value in loaded.items():
                module.get_parameter(name).copy_(value)

    def get_input_embeddings(self) -> nn.Module:
        """The table, which is the head too."""
        return self.model.embedding

    def set_input_embeddings(self, value: nn.Module) -> None:
        """Take another table."""
        if not isinstance(value, nn.Embedding):
            raise TypeError(f"value: expected an Embedding, got {type(value).__name__}")
        self.model.embedding = value

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        cache: CemCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        logits_to_keep: int = 0,
        return_dict: bool | None = None,
        **more: Any,
    ) -> CausalLMOutputWithPast | tuple[Any, ...]:
        """Logits for `input_ids` [batch, token], and the mean loss of predicting `labels`, where there are some.

        `attention_mask` [batch, all tokens so far] may leave out padding before the text, for energies that have `given
        start: int`, and after it. Without gradients, `use_cache` remembers what it computed.
        """
        for name in ("inputs_embeds", "output_hidden_states", "output_attentions"):
            wanted = more.pop(name, None)
            if isinstance(wanted, Tensor) or wanted:
                raise ValueError(f"{name}: this model has none to take or give")
        if input_ids is None:
            raise ValueError("input_ids: expected tokens [batch, token]")
        if (
            cache is None
            and (self.config.use_cache if use_cache is None else use_cache)
            and not torch.is_grad_enabled()
        ):
            cache = CemCache(max(self.config.max_position_embeddings, input_ids.shape[1]))
        if cache is not None and cache.inner is None:
            cache.inner = self.model.new_cache(len(input_ids), cache.max_tokens)
        start = None if attention_mask is None else first_tokens(attention_mask)
        inner = None if cache is None else cache.inner
        logits = self.model(input_ids, start=start, cache=inner, last=logits_to_keep)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **more)
        output = CausalLMOutputWithPast(loss=loss, logits=logits, cache=cache)
        return output.to_tuple() if return_dict is False else output

    def _prepare_cache_for_generation(
        self,
        generation_config: Any,
        model_kwargs: dict[str, Any],
        generation_mode: Any,
        batch_size: int,
        max_cache_length: int,
    ) -> bool:
        """A cache with room for what is to be generated, unless there is one, or none is wanted; whether there is."""
        if model_kwargs.get("cache") is None and generation_config.use_cache is not False:
            model_kwargs["cache"] = CemCache(max_cache_length + 1)
        return model_kwargs.get("cache") is not None

    def save_pretrained(
        self, save_directory: str | os.PathLike[str], is_main_process: bool = True, *more: Any, **named: Any
    ) -> None:
        """Weights and configuration, as for any model, and the energies with the modules they compile to."""
        if is_main_process:
            for name, files in (("energies", self.folder.glob("*.cem")), ("layers", self.folder.glob("layers/*.py"))):
                target = Path(save_directory) / name
                target.mkdir(parents=True, exist_ok=True)
                for path in files:
                    write_text(target / path.name, path.read_text(encoding="utf-8"))
        super().save_pretrained(save_directory, is_main_process, *more, **named)


def first_tokens(attention_mask: Tensor) -> Tensor | None:
    """The first token of each sequence that is not padding, [batch], for a mask [batch, token]; None if all are there.

    What is masked after the text is of no consequence to the text, in a causal model; a gap within it is an error.
    """
    present = attention_mask.bool()
    if bool(present.all()):
        return None
    begun, left = present.cumsum(1) > 0, present.flip(1).cumsum(1).flip(1) > 0
    if bool((begun & left & ~present).any()):
        raise ValueError("attention_mask: expected padding before and after the text, not within it")
    return (~begun).sum(1)


def _folder(config: CemConfig) -> Path:
    """Where the energies of a configuration lie as files: one folder for each text, in cemc's own cache if it can be
    written."""
    energies = config.energies or {}
    digest = hashlib.sha256(repr(sorted(energies.items())).encode()).hexdigest()[:16]
    folder = cemc.cache.folder() / "models" / digest
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in energies.items():
            write_text(folder / f"{name}.cem", text)
    except OSError:
        folder = Path(tempfile.mkdtemp(prefix="cemc-model-"))
        for name, text in energies.items():
            write_text(folder / f"{name}.cem", text)
    return folder
