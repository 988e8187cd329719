"""Configurations: what is in them is read, what is wrong with them is named."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from examples.lm.config import Config, ConfigError, LayerConfig, load_config
from examples.lm.measure import count_parameters, parameters_of
from examples.lm.model import build_model, parameter_groups
from examples.lm.narrow import narrowed
from examples.lm.optimise import cross_entropy
from tests.lm.conftest import ROOT, by_hand, energy, with_layers, write

CONFIGS = ROOT / "examples" / "lm" / "configs"


def test_a_file_is_read_as_it_stands(small: Config, small_file: Path, tmp_path: Path) -> None:
    assert load_config(small_file) == small
    assert load_config(write(small, tmp_path / "small.json")) == small
    other = dataclasses.replace(
        small,
        model=dataclasses.replace(small.model, scaled=("alpha",)),
        train=dataclasses.replace(small.train, precision="bf16", compile=True, accumulate=2),
    )
    other = with_layers(
        other, LayerConfig(energy="a.cem", name="one", steps=3, arguments={"heads": 2, "backend": "torch"})
    )
    assert load_config(write(other, tmp_path / "other.json")) == other


LAYER = 'cem_mlp.cem"'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("context = 16", "contxt = 16", r"\[model\] has an unknown key contxt"),
        ("context = 16", "", r"\[model\] lacks context"),
        ("context = 16", "context = 4.5", r"context in \[model\] should be int, not 4.5"),
        ("context = 16", "context = true", r"context in \[model\] should be int, not True"),
        ("context = 16", "context = 0", r"context in \[model\] should be positive, not 0"),
        ("context = 16", "context = 16\nscaled = [1]", r"scaled in \[model\] should be a list of str, each str, not 1"),
        ("context = 16", "context = [", r"line \d+"),
        ("[model]", "[modell]", r"unknown table \[modell\]"),
        ("[[layers]]", "[[leyers]]", r"unknown table \[leyers\]"),
        ("repeat = 2", "repeat = 0", r"repeat in \[\[layers\]\] should be positive, not 0"),
        ("repeat = 2", "repeated = 2", r"\[\[layers\]\] has an unknown key repeated"),
        (LAYER, f'{LAYER}, module = "m.C"', "should have either an energy or a module"),
        (LAYER, f"{LAYER}, d = 3", "d is not for a layer to choose"),
        (LAYER, f"{LAYER}, g = [3]", r"g of a layer should be a number or a string, not \[3\]"),
        (LAYER, f"{LAYER}, steps = 0", "steps of a layer should be positive, not 0"),
        ("holdout_every = 4", "", r"\[data\] lacks holdout_every"),
        ("holdout_every = 4", "holdout_every = 4\nhub = 'a/b'", r"\[data\] should have either files or hub"),
        (
            "clip = 1.0",
            "clip = 1.0\nprecision = 'fp8'",
            'precision in .train. should be "float32" or "bf16", not \'fp8\'',
        ),
        ("clip = 1.0", "clip = 1.0\naccumulate = 3", r"batch in \[train\] should be a multiple of accumulate, 3"),
    ],
)
def test_an_error_names_file_table_and_key(small_file: Path, tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    text = small_file.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        load_config(path)
    assert str(path) in str(caught.value)


def test_whole_numbers_serve_as_real_ones(small: Config, small_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "whole.toml"
    path.write_text(small_file.read_text(encoding="utf-8").replace("clip = 1.0", "clip = 1"), encoding="utf-8")
    assert load_config(path) == small


def test_the_demo_is_the_size_it_says() -> None:
    config = load_config(CONFIGS / "tiny.toml")
    assert 0.8e6 < parameters_of(config, config.data.vocabulary) < 1.2e6


@pytest.mark.parametrize("name", ["tiny", "10m", "100m"])
def test_a_baseline_differs_in_its_layers_only(name: str) -> None:
    config, llama = (load_config(CONFIGS / f"{name}{kind}.toml") for kind in ("", "-llama"))
    assert config.layers != llama.layers
    assert dataclasses.replace(config, layers=llama.layers) == llama


# -------------------------------------------------------------------------------------------- a hundred million

EMBEDDING, NORM = 32768 * 768, 768
SIZES = {
    "100m": 12 * (2 * 768 * 768 + 768 + 2 * 3840 * 768),
    "100m-llama": 12 * (4 * 768 * 768 + 3 * 2048 * 768 + 2 * 768),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_hundred_million_parameters_take_two_steps(name: str) -> None:
    config = load_config(CONFIGS / f"{name}.toml")
    heads = {layer.arguments.get("heads") for layer in config.every_layer()}
    assert (len(config.every_layer()), config.model.d, config.model.context, heads) == (24, 768, 1024, {12, None})
    assert config.data.vocabulary == 32768
    torch.manual_seed(0)
    model = build_model(config, config.data.vocabulary)
    assert count_parameters(model) == EMBEDDING + SIZES[name] + NORM
    assert count_parameters(model) == pytest.approx(110e6, rel=0.01)
    assert config.train.precision == "bf16"
    optimiser = torch.optim.SGD(parameter_groups(model, model.decayed, 0.1), lr=0.05)
    tokens = torch.randint(config.data.vocabulary, (1, 17), generator=torch.Generator().manual_seed(1))
    losses = []
    for _ in range(3):
        loss = cross_entropy(model, tokens[:, :-1], tokens[:, 1:], config.train)
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses == sorted(losses, reverse=True), losses
    assert losses[0] == pytest.approx(math.log(32768), abs=1.0)


# ------------------------------------------------------------------------------------------------- the same size


@pytest.mark.parametrize("heads", [2, 3, 4])
def test_the_baseline_is_narrowed_to_a_number_of_parameters(small: Config, heads: int) -> None:
    llama = with_layers(small, by_hand("LlamaAttention", heads=heads), by_hand("LlamaMlp", f=160), repeat=3)
    llama = dataclasses.replace(llama, model=dataclasses.replace(small.model, d=96))
    cem = with_layers(llama, energy("cem_attention", heads=heads), energy("cem_mlp", f=160), repeat=3)
    wanted = parameters_of(cem, 300)
    found = narrowed(llama, 300, wanted)
    assert count_parameters(build_model(found, 300)) == parameters_of(found, 300) == pytest.approx(wanted, rel=0.01)
    assert found.model.d < 96
    assert found.model.d % (2 * heads) == 0
    assert parameters_of(narrowed(llama, 300, parameters_of(llama, 300)), 300) == parameters_of(llama, 300)


def test_what_cannot_be_narrowed_is_named(small: Config) -> None:
    with pytest.raises(ConfigError, match="no narrower model has 100 parameters"):
        narrowed(small, 300, 100)
    with pytest.raises(ConfigError, match="layers with a width f"):
        narrowed(with_layers(small, by_hand("LlamaAttention", heads=2)), 300, 1000)
