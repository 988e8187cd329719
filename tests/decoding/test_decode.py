"""Decoding with a cache equals the full pass, for every causal energy there is, however the tokens are cut up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from cemc import load
from cemc.oracle.compare import build
from cemc.oracle.draw import Configuration, draw
from cemc.semantics import analyse
from cemc.semantics.typed import Energy
from cemc.syntax import parse, read_source

ROOT = Path(__file__).parents[2]
FILES = sorted([*ROOT.glob("examples/energies/*.cem"), *ROOT.glob("tests/properties/energies/*.cem")])
TOKENS = 7


@cache
def energies() -> dict[str, tuple[Path, Energy]]:
    found = {}
    for path in FILES:
        source = read_source(path)
        for energy in analyse(parse(source), source).energies:
            # Names are not unique: the gallery and the tests have energies of one name.
            name = energy.name if path.parent.parent.name == "examples" else f"{energy.name} in tests"
            found[name] = (path, energy)
    return found


def configuration(energy: Energy, seed: int = 0, batch: Sequence[int] = (2,), tokens: int = TOKENS) -> Configuration:
    return draw(energy, seed, batch=tuple(batch), lengths={"token": tokens})


def layer_of(name: str, drawn: Configuration, backend: str) -> Any:
    path, energy = energies()[name]
    return build(load(path, energy.name), drawn, backend)


def outputs(result: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return [result] if isinstance(result, Tensor) else list(result)


def part(energy: Energy, tensors: Mapping[str, Tensor], start: int, stop: int) -> dict[str, Tensor]:
    """Arguments over tokens cut to the tokens of one call; others whole."""
    cut = {}
    for name, value in tensors.items():
        axes = [axis.name for axis in energy.axes_of(name)]
        if "token" in axes:
            value = value.narrow(axes.index("token") - len(axes), start, stop - start)
        cut[name] = value
    return cut


def decode(
    layer: Any, energy: Energy, drawn: Configuration, cuts: Sequence[int], store: Any, steps: int | None = None
) -> list[Tensor]:
    """The result put together from calls for the tokens between each two of `cuts`."""
    parts: list[list[Tensor]] = []
    for start, stop in pairwise(cuts):
        states = part(energy, drawn.states, start, stop)
        result, returned = layer(*states.values(), steps=steps, cache=store, **part(energy, drawn.givens, start, stop))
        assert returned is store
        parts.append(outputs(result))
    positions = [
        [a.name for a in energy.states[n].axes].index("token") - len(energy.states[n].axes) for n in drawn.states
    ]
    return [torch.cat(each, dim) for each, dim in zip(zip(*parts, strict=True), positions, strict=True)]


def batch_of(energy: Energy, drawn: Configuration) -> torch.Size:
    shapes = []
    for name, value in {**drawn.states, **drawn.givens}.items():
        shapes.append(value.shape[: value.dim() - len(energy.axes_of(name))])
    return torch.broadcast_shapes(*shapes)


@pytest.mark.parametrize("backend", ["generic", "torch"])
@pytest.mark.parametrize("name", list(energies()))
@torch.no_grad()
def test_decoding_equals_the_full_pass(name: str, backend: str) -> None:
    _, energy = energies()[name]
    for seed, (batch, cuts, steps) in enumerate(
        [((2,), range(TOKENS + 1), None), ((), (0, 3, 4, 7), 2), ((2, 3), (0, 5, 6, 7), None)]
    ):
        drawn = configuration(energy, seed, batch)
        layer = layer_of(name, drawn, backend)
        if not layer.causal:
            with pytest.raises(ValueError, match="cannot decode"):
                layer.new_cache((), 4)
            continue
        shape = batch_of(energy, drawn)
        expected = outputs(layer(*drawn.states.values(), steps=steps, **drawn.givens))
        store = layer.new_cache(tuple(shape), TOKENS, steps=steps)
        found = decode(layer, energy, drawn, list(cuts), store, steps)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other.expand_as(one), rtol=1e-10, atol=1e-11)


@torch.no_grad()
def test_crop_clone_and_reorder() -> None:
    _, energy = energies()["cem_attention"]
    drawn = configuration(energy, 0, (3,))
    layer = layer_of("cem_attention", drawn, "torch")
    (x,) = drawn.states.values()
    store = layer.new_cache((3,), TOKENS)
    layer(x[:, :4], cache=store)
    kept = store.clone()
    layer(x[:, 4:6].flip(1), cache=store)  # a wrong guess
    store.crop(4)
    found, _ = layer(x[:, 4:], cache=store)
    torch.testing.assert_close(found, layer(x)[:, 4:])
    index = torch.tensor([2, 0])
    kept.reorder(index)
    found, _ = layer(x[index][:, 4:], cache=kept)
    torch.testing.assert_close(found, layer(x[index])[:, 4:])


@torch.no_grad()
def test_tied_attention_caches_one_tensor() -> None:
    _, energy = energies()["cem_attention"]
    drawn = configuration(energy)
    layer = layer_of("cem_attention", drawn, "torch")
    store = layer.new_cache((2,), TOKENS)
    layer(*drawn.states.values(), cache=store)
    ((tensor, _),) = store.tensors.values()
    assert tensor.shape == (2, layer.heads, TOKENS, layer.r)


@torch.no_grad()
def test_a_cache_is_used_as_it_was_made() -> None:
    _, energy = energies()["cem_attention"]
    drawn = configuration(energy)
    layer = layer_of("cem_attention", drawn, "torch")
    (x,) = drawn.states.values()
    store = layer.new_cache((2,), 4)
    with pytest.raises(ValueError, match="room for 4 tokens, got 0 and 7 more"):
        layer(x, cache=store)
    with pytest.raises(ValueError, match="expected steps=1, got 2"):
        layer(x[:, :2], steps=2, cache=store)
    with pytest.raises(ValueError, match=r"expected batch axes \[2\], got \[1\]"):
        layer(x[:1, :2], cache=store)
    with pytest.raises(ValueError, match="expected 0 to 0 tokens to keep, got 1"):
        store.crop(1)
    with pytest.raises(ValueError, match="no batch axis"):
        layer.new_cache((), 4).reorder(torch.tensor([0]))
    assert store.tokens == 0


def test_gradients_do_not_silently_stop_at_a_cache() -> None:
    _, energy = energies()["cem_attention"]
    drawn = configuration(energy)
    layer = layer_of("cem_attention", drawn, "torch")
    (x,) = drawn.states.values()
    with pytest.raises(RuntimeError, match=r"torch\.no_grad"):
        layer(x, cache=layer.new_cache((2,), TOKENS))
