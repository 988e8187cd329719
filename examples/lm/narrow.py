"""The baseline made narrower until it has as many parameters as another model."""

from __future__ import annotations

import dataclasses

from examples.lm.config import Config, ConfigError, LayerConfig
from examples.lm.measure import parameters_of


def narrowed(config: Config, vocabulary: int, wanted: int) -> Config:
    """The configuration with d, and every f in proportion, as large as `wanted` parameters allow.

    d goes down in multiples of twice the heads, so that heads stay even for the rotation; f then takes up the rest. The
    result is the one that comes nearest, by at most one part in a hundred; ConfigError if there is none.
    """
    layers = config.every_layer()
    if not any("f" in layer.arguments for layer in layers):
        raise ConfigError("only a model that has layers with a width f can be made narrower")
    multiple = 2 * max((layer.arguments.get("heads", 1) for layer in layers), default=1)
    for d in range(config.model.d // multiple * multiple, 0, -multiple):
        scale = d / config.model.d
        smaller = _resized(config, d, scale)
        # Parameters are linear in f, so two counts tell which f is right.
        at, more = parameters_of(smaller, vocabulary), parameters_of(_resized(config, d, 2 * scale), vocabulary)
        if at > wanted:
            continue
        chosen = _resized(config, d, scale * (1 + (wanted - at) / (more - at)))
        if abs(parameters_of(chosen, vocabulary) - wanted) <= 0.01 * wanted:
            return chosen
    raise ConfigError(f"no narrower model has {wanted} parameters")


def _resized(config: Config, d: int, scale: float) -> Config:
    """The same with another width d, and f times `scale`."""

    def resized(layer: LayerConfig) -> LayerConfig:
        arguments = dict(layer.arguments)
        if "f" in arguments:
            arguments["f"] = max(1, round(arguments["f"] * scale))
        return dataclasses.replace(layer, arguments=arguments)

    stacks = tuple(
        dataclasses.replace(stack, stack=tuple(resized(layer) for layer in stack.stack)) for stack in config.layers
    )
    return dataclasses.replace(config, model=dataclasses.replace(config.model, d=d), layers=stacks)
