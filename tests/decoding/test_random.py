"""Decoding equals the full pass for random energies, their tokens cut up anyhow; wherever a layer says it is causal."""

from __future__ import annotations

import random

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cemc.oracle.compare import build
from cemc.oracle.draw import draw, draw_sizes
from cemc.source import Source
from tests.decoding.test_decode import batch_of, decode, outputs
from tests.properties.families import family_files
from tests.properties.strategy import cem_files
from tests.properties.support import compiled_source

TOKENS = 9


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    text=st.one_of(family_files(), family_files(), cem_files(3)),
    seed=st.integers(0, 3),
    inner=st.lists(st.integers(0, TOKENS), max_size=6),
)
@torch.no_grad()
def test_decoding_random_energies(text: str, seed: int, inner: list[int]) -> None:
    energy, layer_class = compiled_source(Source("random.cem", text))
    drawn = draw(
        energy, seed, draw_sizes(energy, random.Random(seed), largest=4),
        {axis.name: TOKENS for axis in energy.runtime_axes}, (2,),
    )  # fmt: skip
    for backend in ("generic", "torch"):
        layer = build(layer_class, drawn, backend)
        if not layer.causal:
            return
        whole = outputs(layer(*drawn.states.values(), **drawn.givens))
        store = layer.new_cache(tuple(batch_of(energy, drawn)), TOKENS)
        for tensor, found in zip(
            whole, decode(layer, energy, drawn, [0, *sorted(inner), TOKENS], store), strict=True
        ):  # fmt: skip
            torch.testing.assert_close(found, tensor.expand_as(found), rtol=1e-8, atol=1e-8, equal_nan=True)
