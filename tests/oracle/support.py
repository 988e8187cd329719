"""Short ways to an oracle and to random tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from cemc.oracle import Oracle, header_sizes
from cemc.semantics import analyse
from cemc.semantics.typed import Energy
from cemc.source import Source
from cemc.syntax import parse


def typed(text: str) -> Energy:
    """The only energy of a well-typed text."""
    source = Source("test.cem", text)
    (energy,) = analyse(parse(source), source).energies
    return energy


def oracle(
    text: str,
    parameters: Mapping[str, Tensor] | None = None,
    constants: Mapping[str, float] | None = None,
    dtype: torch.dtype = torch.float64,
    **sizes: int,
) -> Oracle:
    energy = typed(text)
    return Oracle(energy, header_sizes(energy, **sizes), parameters or {}, constants, dtype)


def random(*shape: int, seed: int = 0) -> Tensor:
    """Normal numbers in float64 that record gradients."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()


def real(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-12) -> bool:
    """Whether shapes agree and so do values, relative to the norm of `expected`; NaN is never close."""
    if actual.shape != expected.shape:
        return False
    difference, size = float((actual - expected).detach().norm()), float(expected.detach().norm())
    return difference <= tolerance * max(size, 1e-12)


def same_gradients(actual: Tensor, expected: Tensor, inputs: list[Tensor], tolerance: float = 1e-11) -> bool:
    """Whether a random projection of both has the same gradient to every input."""
    cotangent = random(*expected.shape, seed=99).detach()
    found = torch.autograd.grad((actual * cotangent).sum(), inputs)
    wanted = torch.autograd.grad((expected * cotangent).sum(), inputs)
    return all(close(a, b, tolerance) for a, b in zip(found, wanted, strict=True))
