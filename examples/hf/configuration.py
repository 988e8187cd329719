"""The configuration of a model of energies: sizes under the names that transformers uses, and the energies as text.

An energy is text that cemc compiles; nothing in a configuration is executed. So a model that somebody else has saved
is loaded without trusting their code.
"""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedConfig

from examples.lm.config import Config, ConfigError
from examples.lm.layers import layer_source


class CemConfig(PreTrainedConfig):
    """`layers`, from input to output: each has an `energy`, which is a name in `energies`, and `arguments` of its
    class; `steps` where it moves the tokens another number of times than the energy says.

    `energies`: the text of each by its name. `scaled`: parameters that start smaller in deeper models, see
    `examples/lm/config.py`.
    """

    model_type = "cem"

    vocab_size: int = 32000
    hidden_size: int = 768
    max_position_embeddings: int = 1024
    layers: list[dict[str, Any]] | None = None
    energies: dict[str, str] | None = None
    scaled: list[str] | None = None
    use_cache: bool = True
    tie_word_embeddings: bool = True
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        self.layers, self.energies, self.scaled = self.layers or [], self.energies or {}, self.scaled or []
        if unknown := sorted({layer["energy"] for layer in self.layers} - self.energies.keys()):
            raise ValueError(
                f"layers mention the energy {unknown[0]}; energies has {', '.join(self.energies) or 'none'}"
            )
        # The names become names of files, and whoever saved the model may have chosen them.
        if wrong := [name for name in self.energies if not name.isidentifier()]:
            raise ValueError(f"{wrong[0]!r} in energies is not the name of an energy")
        # What tools ask of a configuration.
        self.num_hidden_layers = len(self.layers)
        self.num_attention_heads = max([layer.get("arguments", {}).get("heads", 1) for layer in self.layers], default=1)
        super().__post_init__(**kwargs)


def configuration_of(config: Config, vocabulary: int, separator: int | None = None) -> CemConfig:
    """The configuration of the model of a training run; ConfigError if it has layers that are no energies."""
    layers: list[dict[str, Any]] = []
    energies: dict[str, str] = {}
    for layer in config.every_layer():
        source = layer_source(layer)
        if not source.energy:
            raise ConfigError(f"{layer.label} is no energy: only those are text that a saved model can carry")
        name = source.facts.name
        if energies.setdefault(name, source.energy) != source.energy:
            raise ConfigError(f"two energies are called {name}: give them different names")
        steps = {"steps": layer.steps} if layer.steps else {}
        layers.append({"energy": name, "arguments": layer.arguments, **steps})
    return CemConfig(
        vocab_size=vocabulary,
        hidden_size=config.model.d,
        max_position_embeddings=config.model.context,
        layers=layers,
        energies=energies,
        scaled=list(config.model.scaled),
        bos_token_id=separator,
        eos_token_id=separator,
        pad_token_id=separator,
    )
