"""What a fuzzer found once stays mended: each file of `found/` ends in located errors, or compiles."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from cemc.compiler import Trace, compile_source
from cemc.syntax import source_of
from tests.fuzz.inputs import front_end, mutated, seeds

FOUND = sorted((Path(__file__).parent / "found").glob("*.cem"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_stays_mended(path: Path) -> None:
    data = path.read_bytes()
    if front_end(data) is not None:
        for result in compile_source(source_of(data, path.name), Trace()):
            ast.parse(result.code)


def test_mutations_are_determined_by_their_seed_and_stay_near() -> None:
    texts = seeds()
    assert len(texts) > 100
    data = max(texts, key=len).encode()
    each = [mutated(data, random.Random(seed), texts, 10_000, lambda same: same) for seed in range(60)]
    assert each == [mutated(data, random.Random(seed), texts, 10_000, lambda same: same) for seed in range(60)]
    assert len(set(each)) > 40
    # Like for like: some of what comes out is right.
    assert sum(front_end(one) is not None for one in each) > 5
