"""Whatever the file, the front end answers with typed energies or with `CemError`, and soon."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.inputs import PIECES, front_end, mutated, seeds

SEEDS = seeds()

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(st.binary(max_size=200))
def test_bytes(data: bytes) -> None:
    front_end(data)


@SETTINGS
@given(st.lists(st.sampled_from(PIECES), max_size=60))
def test_pieces(pieces: list[str]) -> None:
    front_end(("energy a(d) { state x[token, d] " + " ".join(pieces)).encode())


@settings(SETTINGS, max_examples=400)
@given(st.sampled_from(SEEDS), st.data())
def test_mutated_files(text: str, data: st.DataObject) -> None:
    """A slice removed, doubled, replaced by a piece, or exchanged with one from another file."""
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, max(0, len(text) - 1)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        other = data.draw(st.sampled_from(SEEDS))
        from_ = data.draw(st.integers(0, max(0, len(other) - 1)))
        piece = data.draw(st.sampled_from(PIECES))
        new = data.draw(st.sampled_from(["", text[start:end] * 2, f" {piece} ", other[from_ : from_ + 15]]))
        text = text[:start] + new + text[end:]
    front_end(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("cut", range(0, 1_400, 37))
def test_files_cut_short(cut: int) -> None:
    text = max(SEEDS[:4], key=len)
    front_end(text.encode()[:cut])


@settings(SETTINGS, max_examples=300)
@given(st.sampled_from(SEEDS), st.integers(0, 2**32))
def test_mutated_tokens(text: str, seed: int) -> None:
    """The steps of the coverage-guided fuzzer (`tests/fuzz/frontend.py`), without its memory."""
    generator, data = random.Random(seed), text.encode()
    for _ in range(3):
        data = mutated(data, generator, SEEDS, 10_000, lambda same: same[::-1])
        front_end(data)
