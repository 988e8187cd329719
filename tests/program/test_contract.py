"""The order of a product's contractions: the cheapest, as opt_einsum finds it."""

from __future__ import annotations

from math import prod

import opt_einsum
from hypothesis import given
from hypothesis import strategies as st

from cemc.notation.nodes import IndexSymbol
from cemc.program.contract import _cheapest

SIZES = {"a": 2, "b": 3, "c": 5, "d": 64, "e": 128}
SYMBOLS = {axis: IndexSymbol(number, axis, axis) for number, axis in enumerate(SIZES)}


@given(
    st.lists(st.sets(st.sampled_from("abcde"), min_size=1, max_size=4), min_size=3, max_size=5),
    st.sets(st.sampled_from("abcde")),
)
def test_few_operands_are_contracted_as_cheaply_as_opt_einsum_would(operands: list[set[str]], kept: set[str]) -> None:
    output = kept & set().union(*operands)
    symbols = [frozenset(SYMBOLS[axis] for axis in each) for each in operands]
    cost, path = _cheapest(symbols, frozenset(SYMBOLS[axis] for axis in output), SIZES.__getitem__)
    subscripts = ",".join("".join(sorted(each)) for each in operands) + "->" + "".join(sorted(output))
    shapes = [tuple(SIZES[axis] for axis in sorted(each)) for each in operands]
    best, _ = opt_einsum.contract_path(subscripts, *shapes, shapes=True, optimize="optimal")
    assert cost == _cost([frozenset(each) for each in operands], frozenset(output), path)
    assert cost <= _cost([frozenset(each) for each in operands], frozenset(output), tuple(best))


def _cost(operands: list[frozenset[str]], output: frozenset[str], path: tuple[tuple[int, ...], ...]) -> int:
    total = 0
    for pair in path:
        taken = [operands[n] for n in pair]
        operands = [each for n, each in enumerate(operands) if n not in pair]
        together = frozenset().union(*taken)
        total += prod(SIZES[axis] for axis in together)
        operands.append(together & output.union(*operands))
    assert len(operands) == 1
    return total
