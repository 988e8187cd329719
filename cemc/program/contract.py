"""The order in which a sum of products is evaluated: pairwise contractions along a path found by opt_einsum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from cemc.notation.nodes import IndexSymbol
from cemc.program.values import Value, Values, frame_of

# Above this many operands the search for the best order is by dynamic programming, which is nearly as good and linear
# in time where the exhaustive one is exponential.
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
    if len(operands) == 3:
        # Most products are of three: they are worth not importing NumPy, which opt_einsum does, for a choice of three.
        pairs: list[tuple[int, ...]] = [(0, 1), (0, 2), (1, 2)]
        return [min(pairs, key=lambda pair: _cost(operands, pair, output, size))]
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


def _cost(
    operands: Sequence[Value], pair: tuple[int, ...], output: tuple[IndexSymbol, ...], size: Callable[[str], int]
) -> int:
    """Multiplications needed to contract three operands, the two of `pair` first."""
    (third,) = (value for n, value in enumerate(operands) if n not in pair)
    first = {label for n in pair for label in operands[n].labels}
    second = {label for label in first if label in output or label in third.labels}.union(third.labels)
    return prod(size(label.axis) for label in first) + prod(size(label.axis) for label in second)
