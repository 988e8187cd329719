"""Einsum nodes: as `@`, `F.linear` or a plain sum where that is what they are, else as torch.einsum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase

from cemc.emit.code import PRODUCT, Code, Total, attribute, call, chain, method
from cemc.emit.frames import permute, place

Library = Callable[[str], str]
"""What a function of torch is called in this file."""


@dataclass(frozen=True)
class Factor:
    """An operand of an Einsum as code."""

    code: Code
    dims: tuple[str, ...]
    at: tuple[int, ...]
    batched: bool


def contraction(
    factors: Sequence[Factor], output: tuple[int, ...], runtime: frozenset[str], library: Callable[[str], str]
) -> Code:
    """Sum over the frame positions that are not in `output` of the product of `factors`."""
    places = {frozenset(f.at) for f in factors}
    plain = all(len(set(f.at)) == len(f.at) for f in factors)
    if len(places) == 1 and plain:
        return _sum(factors, output)
    if len(factors) == 2 and plain:
        first, second = factors
        found = _linear(first, second, output, library) or _linear(second, first, output, library)
        found = found or _matmul(first, second, output) or _matmul(second, first, output)
        if found is not None:
            return found
    return _einsum(factors, output, runtime, library)


def _sum(factors: Sequence[Factor], output: tuple[int, ...]) -> Code:
    """All factors have the same axes: a sum of their element-wise product."""
    frame = sorted(factors[0].at)
    rank = len(frame)
    codes = [place(f.code, [frame.index(p) for p in f.at], rank, f.batched) for f in factors]
    if len(codes) == 2 and codes[0].text == codes[1].text:
        product = method(codes[0], "square")
    else:
        product = chain(PRODUCT, codes[0], *(("*", c) for c in codes[1:]))
    summed = [n for n, p in enumerate(frame) if p not in output]
    left = [p for p in frame if p in output]
    if summed:
        axis = {p: f.dims[n] for f in factors for n, p in enumerate(f.at)}
        axes = tuple(axis[frame[n]] for n in summed)
        product = Total(product, tuple(n - rank for n in summed), axes).code()
    return permute(product, [left.index(p) for p in output])


def _linear(u: Factor, matrix: Factor, output: tuple[int, ...], library: Library) -> Code | None:
    """`[..., s] x [o, s]` or `[..., s] x [s, o]`, with a matrix that has no batch axes."""
    if matrix.batched or len(matrix.at) != 2 or not u.at or not output or u.at[:-1] != output[:-1]:
        return None
    if matrix.at == (output[-1], u.at[-1]):
        return call(library("F.linear"), u.code, matrix.code)
    if matrix.at == (u.at[-1], output[-1]):
        return chain(PRODUCT, u.code, ("@", matrix.code))
    return None


def _matmul(left: Factor, right: Factor, output: tuple[int, ...]) -> Code | None:
    """`[shared..., m, s] x [shared..., s, n]`, either with its last two axes swapped."""
    if len(output) < 2 or not len(left.at) == len(right.at) == len(output):
        return None
    *shared, row, column = output
    count = len(shared)
    if list(left.at[:count]) != shared or list(right.at[:count]) != shared:
        return None
    inner = set(left.at[count:]) - {row}
    if len(inner) != 1 or set(right.at[count:]) != {*inner, column} or row in right.at or column in left.at:
        return None
    (s,) = inner
    first = left.code if left.at[count:] == (row, s) else attribute(left.code, "mT")
    second = right.code if right.at[count:] == (s, column) else attribute(right.code, "mT")
    return chain(PRODUCT, first, ("@", second))


def _einsum(
    factors: Sequence[Factor], output: tuple[int, ...], runtime: frozenset[str], library: Callable[[str], str]
) -> Code:
    """torch.einsum. The factor that has the last axis of the result comes last, so that this axis is contiguous."""
    ordered = sorted(factors, key=lambda f: bool(output) and output[-1] in f.at and len(f.at) > 0)
    if len(factors) == 2 and output and all(output[-1] in f.at for f in factors):
        ordered = sorted(factors, key=lambda f: not f.batched)
    letter = _letters(ordered, runtime)
    terms = [("..." if f.batched else "") + "".join(letter[p] for p in f.at) for f in ordered]
    result = ("..." if any(f.batched for f in factors) else "") + "".join(letter[p] for p in output)
    return call(library("torch.einsum"), f'"{",".join(terms)}->{result}"', *(f.code for f in ordered))


def _letters(factors: Sequence[Factor], runtime: frozenset[str]) -> dict[int, str]:
    """A letter for each frame position: i, j, ... for run-time axes, else the first letter of the axis that is free."""
    axis: dict[int, str] = {p: f.dims[n] for f in factors for n, p in enumerate(f.at)}
    letters: dict[int, str] = {}
    for position in sorted(axis, key=lambda p: (axis[p] not in runtime, p)):
        own = "ijklmn" if axis[position] in runtime else axis[position].lower()
        candidates = [c for c in own if c in ascii_lowercase] + list(ascii_lowercase + ascii_uppercase)
        letters[position] = next(c for c in candidates if c not in letters.values())
    return letters
