"""Texts and files to compiled classes, and what the property tests demand of them."""

from __future__ import annotations

import importlib.util
import itertools
import math
import random
import sys
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch

from cemc.compiler import Trace, compile_source
from cemc.oracle.compare import TOLERANCE, Comparison, build
from cemc.oracle.draw import Configuration, draw, draw_sizes
from cemc.semantics import analyse
from cemc.semantics.typed import Energy
from cemc.source import Source
from cemc.syntax import parse, read_source

BACKENDS = ("generic", "torch")
KERNELS = False
"""Whether kernels are compared too: Triton takes its time to interpret them, so only long runs by hand do (fuzz.py)."""
NUMBERS = itertools.count()


@cache
def compiled(path: Path) -> tuple[Energy, Any]:
    """The only energy of a file, typed and as a class."""
    return compiled_source(read_source(path))


def compiled_source(source: Source) -> tuple[Energy, Any]:
    """The same of a source: the whole pipeline, without the cache."""
    (energy,) = analyse(parse(source), source).energies
    (result,) = compile_source(source, Trace())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{result.name}.py"
        path.write_text(result.code)
        if result.kernels:
            (Path(folder) / f"{result.name}_kernels.py").write_text(result.kernels)
        specification = importlib.util.spec_from_file_location(f"generated_{next(NUMBERS)}", path)
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        sys.modules[module.__name__] = module
        specification.loader.exec_module(module)
    return energy, getattr(module, result.class_name)


def backends_in(layer_class: Any) -> tuple[str, ...]:
    """All backends a class has: "triton" too, where it was asked for and Triton interprets the kernels."""
    if not KERNELS:
        return BACKENDS
    kernels = getattr(sys.modules[layer_class.__module__], "_kernels", None)
    return (*BACKENDS, "triton") if getattr(kernels, "INTERPRETED", False) else BACKENDS


def disagreement(
    energy: Energy,
    layer_class: Any,
    configuration: Configuration,
    seed: int,
    steps: tuple[int | None, ...] = (None, 2),
    largest: float = math.inf,
) -> str:
    """Every quantity that differs from the oracle's on some backend; empty where all agree. Where the energy is so
    steep that something exceeds `largest`, nothing is compared: exponentials of large scores have few digits."""
    found = []
    for backend in backends_in(layer_class):
        comparison = Comparison(energy, configuration, seed, steps, second=backend == "generic")
        if comparison.magnitude < largest:
            errors = comparison.errors(build(layer_class, configuration, backend))
            found += [f"{backend}: {name} {error:.1e}" for name, error in errors.items() if not error < TOLERANCE]
    return "\n".join([configuration.describe(), *found]) if found else ""


def compare_text(text: str, seed: int, shortest: int = 1) -> str:
    """Compiles a text and compares it with the oracle at small sizes and from `shortest` tokens on; what differs, or
    nothing."""
    energy, layer_class = compiled_source(Source("random.cem", text))
    sizes = draw_sizes(energy, random.Random(seed), largest=4)
    lengths = {axis.name: shortest + (seed + number) % 4 for number, axis in enumerate(energy.runtime_axes)}
    batch: tuple[int, ...] = ((), (2,))[seed % 2]
    configuration = draw(energy, seed, sizes, lengths, batch)
    if seed % 4 == 3:
        configuration = with_zeros(configuration, seed)
    found = disagreement(energy, layer_class, configuration, seed, largest=1e5)
    if (
        not found
        and lengths["token"] > 1
        and reads_the_future(energy, layer_class, configuration, lengths["token"] - 1)
    ):
        return f"{configuration.describe()}\nsaid to be causal, but reads later tokens"
    return found


def with_zeros(configuration: Configuration, seed: int) -> Configuration:
    """With some entries of the states exactly 0, and all those of the first token: where kinks and roots have their
    conventions."""
    generator = torch.Generator().manual_seed(seed)
    states = {}
    for name, value in configuration.states.items():
        zeroed = value.detach().masked_fill(torch.rand(value.shape, generator=generator) < 0.3, 0.0)
        if zeroed.ndim > 1:
            zeroed.select(-2, 0).zero_()
        states[name] = zeroed.requires_grad_()
    return replace(configuration, states=states)


def reads_the_future(energy: Energy, layer_class: Any, configuration: Configuration, cut: int) -> bool:
    """Whether a layer said to be causal changes the first `cut` tokens with what stands at later ones."""
    layer = build(layer_class, configuration, "generic")
    if not layer.causal:
        return False
    updates = []
    for seed in (None, 0):
        states, givens = (
            {name: _replaced(energy, name, value, cut, seed) for name, value in arguments.items()}
            for arguments in (configuration.states, configuration.givens)
        )
        new = layer(*states.values(), **givens)
        updates.append([value[..., :cut, :] for value in ((new,) if isinstance(new, torch.Tensor) else new)])
    return any(not torch.allclose(a, b, rtol=1e-12, atol=1e-12, equal_nan=True) for a, b in zip(*updates, strict=True))


def _replaced(energy: Energy, name: str, value: torch.Tensor, cut: int, seed: int | None) -> torch.Tensor:
    """Random entries at tokens from `cut` on; unchanged without a seed, or without a token axis."""
    axes = [axis.name for axis in energy.axes_of(name)]
    if seed is None or "token" not in axes:
        return value.detach()
    generator = torch.Generator().manual_seed(seed)
    axis = axes.index("token") - len(axes)
    later = value.detach().narrow(axis, cut, value.shape[axis] - cut)
    if value.is_floating_point():
        other = torch.randn(later.shape, dtype=value.dtype, generator=generator)
    else:
        other = torch.randint(0, 4, later.shape, generator=generator)
    return torch.cat((value.detach().narrow(axis, 0, cut), other), axis)


__all__ = ["compare_text", "compiled", "disagreement", "draw", "reads_the_future", "with_zeros"]
