"""Sizes to construct a layer with, so that the kernels' tiles have a given width."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cemc.oracle.sizes import header_sizes
from cemc.semantics.typed import Energy

MULTIPLES = (2, 1, 4, 8, 3, 6)
"""What a header name without a default is tried at, times the width: a model is wider than one head of it."""


def layer_sizes(
    energy: Energy, width: int, widths_of: Callable[[Mapping[str, int]], Mapping[str, int]]
) -> dict[str, int]:
    """Header names with sizes at which every axis along which tiles are wide has length `width`.

    `widths_of` constructs a layer with sizes and returns these axes with their lengths; it raises ValueError where
    sizes do not fit. So does this function where none do.
    """
    free = [name for name, header in energy.header.items() if header.default is None]
    problem: ValueError | None = None
    for multiple in MULTIPLES:
        given = dict.fromkeys(free, multiple * width)
        try:
            axes = widths_of(header_sizes(energy, **given))
            given |= {axis: width for axis in axes if axis in energy.header}
            sizes = header_sizes(energy, **given)
            widths_of(sizes)
        except ValueError as error:
            problem = problem or error
            continue
        return sizes
    raise ValueError(f"no sizes with tiles {width} wide fit {energy.name}: {problem}")
