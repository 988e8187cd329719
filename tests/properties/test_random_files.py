"""A small seeded number of random files; `fuzz` runs many more."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.properties.families import family_files
from tests.properties.strategy import cem_files
from tests.properties.support import compare_text


@settings(
    max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
@given(text=cem_files(), seed=st.integers(0, 3))
def test_random_files_agree_with_the_oracle(text: str, seed: int) -> None:
    assert not compare_text(text, seed)


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(text=family_files(), seed=st.integers(0, 3))
def test_random_members_of_the_families_agree_with_the_oracle(text: str, seed: int) -> None:
    assert not compare_text(text, seed)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(text=family_files(), seed=st.integers(0, 3))
def test_so_they_do_past_the_size_of_a_block(text: str, seed: int) -> None:
    assert not compare_text(text, seed, shortest=127)
