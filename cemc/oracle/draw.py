"""Random configurations of an energy: small sizes that fit it, arguments and parameters."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cemc.oracle.sizes import constant_values, exact, header_sizes, number
from cemc.oracle.uses import axes_subscripted_by, rotated_axes, walk
from cemc.semantics.typed import Energy, Expr, Given, Number, Parameter, Size

ATTEMPTS = 500
LENGTHS = (1, 2, 3, 5, 8)
DRAWN = (1, 2, 3, 4, 4, 6, 6, 8, 8)  # header names without a default; many divide by the small ones
SMALL = (1, 2, 2, 3, 3, 4)  # header names with a number for default
LARGEST = (64, 256, 1024, 4096)  # of one that follows from others; the next where no sizes fit


class NoSizes(ValueError):
    """No sizes were found at which a header is whole, positive and even where it is rotated."""


@dataclass(frozen=True)
class Configuration:
    """Everything a module and the oracle are called with, in float64. `raw` holds each parameter as the module stores
    it, by its name there: a positive `p` as `p_raw`, from which softplus makes its value. Float tensors record
    gradients.
    """

    sizes: Mapping[str, int]
    constants: Mapping[str, float]
    states: Mapping[str, Tensor]
    givens: Mapping[str, Tensor]
    raw: Mapping[str, Tensor]
    positive: frozenset[str]

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The value of each parameter, by its declared name, differentiable to `raw`."""
        softplus = {
            name: torch.logaddexp(self.raw[f"{name}_raw"], torch.zeros((), dtype=torch.float64))
            for name in sorted(self.positive)
        }
        stored = {f"{name}_raw" for name in self.positive}
        return softplus | {name: tensor for name, tensor in self.raw.items() if name not in stored}

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Everything a training gradient goes to."""
        return {name: x for name, x in {**self.states, **self.givens, **self.raw}.items() if x.requires_grad}

    def describe(self) -> str:
        """Sizes and shapes, for a message."""
        shapes = {name: tuple(value.shape) for name, value in {**self.states, **self.givens}.items()}
        return ", ".join(f"{name} {value}" for name, value in {**self.sizes, **shapes}.items())


def draw_sizes(energy: Energy, rng: random.Random, largest: int = max(DRAWN)) -> dict[str, int]:
    """Small header sizes: defaults made of other names are kept, the rest is drawn until all divide and the axes
    rotated by rope are even. `largest` bounds what is drawn for names without a default, where such sizes fit at all.

    Raises NoSizes where none do.
    """
    rotated = rotated_axes(energy)
    candidates = [size for size in DRAWN if size <= largest]
    for bound in LARGEST:
        for _ in range(ATTEMPTS):
            sizes = _attempt(energy, rng, candidates)
            small = sizes is not None and all(size <= bound for size in sizes.values())
            if sizes is not None and small and all(sizes[name] % 2 == 0 for name in rotated if name in sizes):
                return sizes
        candidates = _wider(energy, 4 * bound)
    raise NoSizes(f"no sizes were found that fit the header of {energy.name}: its defaults are to be positive integers")


def _attempt(energy: Energy, rng: random.Random, candidates: Sequence[int]) -> dict[str, int] | None:
    """Header sizes with one of `candidates` for each name without a default; None where a default does not fit them."""
    drawn = {}
    for name, header in energy.header.items():
        if header.default is None:
            drawn[name] = rng.choice(candidates)
        elif not any(isinstance(part, Size) for part in walk(header.default)):
            usual = max(2, int(exact(header.default, {})))
            drawn[name] = rng.choice([size for size in SMALL if size <= usual])
    try:
        return header_sizes(energy, **drawn)
    except ValueError:
        return None


def _wider(energy: Energy, bound: int) -> list[int]:
    """Sizes up to `bound` at which a default such as `d / 96` or `d - 100` may fit: multiples of its numbers and of
    powers of two, and what is a little larger."""
    defaults = [header.default for header in energy.header.values() if header.default is not None]
    numbers = [part.value for default in defaults for part in walk(default) if isinstance(part, Number)]
    scales = {int(value) for value in numbers if value.denominator == 1} | {2**n for n in range(bound.bit_length())}
    sizes = {size for scale in scales for small in set(DRAWN) for size in (small * scale, small + scale)}
    return sorted(size for size in sizes if 1 <= size <= bound)


def draw(
    energy: Energy,
    seed: int,
    sizes: Mapping[str, int] | None = None,
    lengths: Mapping[str, int] | None = None,
    batch: Sequence[int] = (),
) -> Configuration:
    """A configuration that `seed` determines. `sizes` of header names and `lengths` of run-time axes are drawn where
    None.
    """
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    chosen = dict(sizes) if sizes is not None else draw_sizes(energy, rng)
    extent = {axis.name: rng.choice(LENGTHS) for axis in energy.runtime_axes} | dict(lengths or {}) | chosen
    states: dict[str, Tensor] = {}
    givens: dict[str, Tensor] = {}
    for name, state in energy.states.items():
        if state.start is None:
            leading = batch if not states else _leading(batch, rng)
            states[name] = _normal([*leading, *(extent[axis.name] for axis in state.axes)], generator)
    for name, given in energy.givens.items():
        shape = [*_leading(batch, rng), *(extent[axis.name] for axis in given.axes)]
        givens[name] = _labels(energy, given, shape, extent, generator) if given.integer else _normal(shape, generator)
    numbers = constant_values(energy, chosen)
    constants = {}
    if energy.constants and rng.random() < 0.25:
        overridden = rng.choice(sorted(energy.constants))
        constants[overridden] = numbers[overridden] * 1.25
    raw = {}
    for name, parameter in energy.parameters.items():
        stored = f"{name}_raw" if parameter.positive else name
        raw[stored] = _parameter(energy, parameter, extent, numbers, generator)
    positive = frozenset(name for name, parameter in energy.parameters.items() if parameter.positive)
    return Configuration(chosen, constants, states, givens, raw, positive)


def _leading(batch: Sequence[int], rng: random.Random) -> list[int]:
    """Leading axes that broadcast to `batch`: some of the first left out, some others 1."""
    return [size if rng.random() < 0.7 else 1 for size in batch[rng.randint(0, len(batch)) :]]


def _normal(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    return torch.randn(list(shape), dtype=torch.float64, generator=generator).requires_grad_()


def _labels(
    energy: Energy, given: Given, shape: Sequence[int], extent: Mapping[str, int], generator: torch.Generator
) -> Tensor:
    """Integer labels: of a few kinds, or, where they are subscripts, from one below the axis to one above."""
    subscripted = [extent[axis.name] for axis in axes_subscripted_by(energy, given.name)]
    low, high = (-1, min(subscripted)) if subscripted else (0, 3)
    return torch.randint(low, high + 1, list(shape), generator=generator)


def _parameter(
    energy: Energy,
    parameter: Parameter,
    extent: Mapping[str, int],
    numbers: Mapping[str, float],
    generator: torch.Generator,
) -> Tensor:
    """Around a constant start, else around 0, at the scale of the last axis; of a positive one, what softplus is
    taken of.
    """
    shape = [extent[axis.name] for axis in parameter.axes]
    spread = torch.randn(shape, dtype=torch.float64, generator=generator) / (shape[-1] if shape else 4) ** 0.5
    centre = number(energy, numbers, parameter.start) if isinstance(parameter.start, Expr) else 0.0
    return (spread + centre).requires_grad_()
