"""The order in which a sum of products is evaluated: pairwise contractions along the cheapest path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from math import prod

from cemc.notation.nodes import IndexSymbol
from cemc.program.values import Value, Values, frame_of

# Up to this many operands, which most products have, all orders are tried here: opt_einsum imports NumPy, which takes
# longer than most compilations.
_FEW = 5
# Above this many its search for the best order is by dynamic programming, which is nearly as good and linear in time
# where the exhaustive one is exponential.
_EXHAUSTIVE = 6


def contract(
    values: Values, operands: Sequence[Value], output: tuple[IndexSymbol, ...], size: Callable[[str], int]
) -> Value:
    """Sum over the labels not in `output` of the product of `operands`. `size(axis)`: a representative length."""
    todo = _merged(values, list(operands))
    path: list[tuple[int, ...]] = []
    while len(todo) > 2:
        path = path or _path(todo, output, size)
        pair = path.pop(0)
        taken = [todo[n] for n in pair]
        todo = [value for n, value in enumerate(todo) if n not in pair]
        needed = set(output).union(*(value.labels for value in todo))
        todo.append(_pair(values, taken, tuple(s for s in frame_of(taken) if s in needed)))
        merged = _merged(values, todo)
        if len(merged) != len(todo):
            todo, path = merged, []
    return _pair(values, todo, output)


def _pair(values: Values, operands: Sequence[Value], output: tuple[IndexSymbol, ...]) -> Value:
    """One step; element-wise where nothing is summed and no more than a scaling happens."""
    if set(frame_of(operands)) == set(output) and any(set(v.labels) == set(output) for v in operands):
        return values.map("mul", operands) if len(operands) > 1 else operands[0]
    return values.einsum(operands, output)


def _merged(values: Values, operands: list[Value]) -> list[Value]:
    """Operands with the same labels multiplied together first: that never costs more."""
    groups: dict[frozenset[IndexSymbol], list[Value]] = {}
    for value in operands:
        groups.setdefault(frozenset(value.labels), []).append(value)
    return [group[0] if len(group) == 1 else values.map("mul", group) for group in groups.values()]


def _path(
    operands: Sequence[Value], output: tuple[IndexSymbol, ...], size: Callable[[str], int]
) -> list[tuple[int, ...]]:
    if len(operands) <= _FEW:
        return list(_cheapest([frozenset(value.labels) for value in operands], frozenset(output), size)[1])
    from opt_einsum import contract_path

    letters = {symbol: chr(ord("a") + n) if n < 26 else chr(0xC0 + n) for n, symbol in enumerate(frame_of(operands))}
    subscripts = ",".join("".join(letters[s] for s in value.labels) for value in operands)
    shapes = [tuple(size(s.axis) for s in value.labels) for value in operands]
    path, _ = contract_path(
        f"{subscripts}->{''.join(letters[s] for s in output)}",
        *shapes,
        shapes=True,
        optimize="optimal" if len(operands) <= _EXHAUSTIVE else "dp",
    )
    return list(path)


def _cheapest(
    operands: Sequence[frozenset[IndexSymbol]], output: frozenset[IndexSymbol], size: Callable[[str], int]
) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """The least number of multiplications that contract all operands by pairs, and the pairs in order, as opt_einsum
    writes them: places in a list from which a pair is taken and to whose end its result goes."""
    if len(operands) == 1:
        return 0, ()
    best: tuple[int, tuple[tuple[int, ...], ...]] | None = None
    for pair in combinations(range(len(operands)), 2):
        rest = [labels for n, labels in enumerate(operands) if n not in pair]
        together = operands[pair[0]] | operands[pair[1]]
        cost, path = _cheapest([*rest, together & output.union(*rest)], output, size)
        cost += prod(size(label.axis) for label in together)
        if best is None or cost < best[0]:
            best = cost, (pair, *path)
    assert best is not None
    return best
