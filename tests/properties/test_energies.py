"""Every energy of the gallery of variety, and the two of the paper, against the oracle at random shapes and values."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties.support import compiled, disagreement, draw, reads_the_future

HERE = Path(__file__).parent
SPINE = [HERE.parents[1] / "examples" / "energies" / f"{name}.cem" for name in ("cem_attention", "cem_mlp")]
PATHS = sorted([*(HERE / "energies").glob("*.cem"), *SPINE])
# Lengths around the sizes of blocks; the longest where cost is at most quadratic.
LENGTHS = (1, 2, 3, 5, 9, 16, 17, 33, 64, 65, 70)
SHORT = {"third_order": 6, "antisymmetric_pairs": 12}
BATCHES = ((), (2,), (1, 3), (2, 3))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
@settings(
    max_examples=16,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.differing_executors],
)
@given(seed=st.integers(0, 2**20), length=st.sampled_from(LENGTHS), batch=st.sampled_from(BATCHES))
def test_agrees_with_the_oracle(path: Path, seed: int, length: int, batch: tuple[int, ...]) -> None:
    energy, layer_class = compiled(path)
    length = min(length, SHORT.get(path.stem, 70))
    configuration = draw(energy, seed, lengths={"token": length}, batch=batch if length < 20 else batch[:1])
    assert not disagreement(energy, layer_class, configuration, seed)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_causal_is_a_guarantee(path: Path) -> None:
    energy, layer_class = compiled(path)
    for seed in range(3):
        configuration = draw(energy, seed, lengths={"token": 6}, batch=(2,))
        assert not reads_the_future(energy, layer_class, configuration, cut=1 + seed)


NOT_CAUSAL = {
    "energy_transformer",  # every token is everybody's key
    "scalar_energy",  # a neighbour after
    "global_shift",
    "antisymmetric_pairs",
    "positions",  # ordered by a given
    "documents",  # a prefix that may reach ahead
    "slots",  # no token axis
}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_causality_is_seen(path: Path) -> None:
    energy, layer_class = compiled(path)
    configuration = draw(energy, 0)
    assert layer_class(**configuration.sizes).causal == (path.stem not in NOT_CAUSAL)
