"""The process that compiles: `python -m cemc.inspection.worker FILE TARGET WIDTH DTYPE`.

A layer runs forward and backward on the CPU, with a stand-in for the GPU's driver under Triton; where a kernel would be
launched it is compiled, with the arguments and settings of that launch. Each line of the output is a JSON object: a
kernel about to be compiled, one that was, or a layer that could not be run.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TextIO

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from cemc.compiler import load
from cemc.inspection.binary import facts
from cemc.inspection.chips import CHIPS, Chip
from cemc.inspection.sizes import layer_sizes
from cemc.oracle.draw import draw
from cemc.semantics import analyse
from cemc.semantics.typed import Energy
from cemc.syntax import parse, read_source

TOKENS = 256
"""Rows and columns: lengths that 16 divides are compiled for as such, and longer ones as these."""

SETTINGS = ("ROWS", "COLUMNS", "num_warps", "num_stages")


class StandIn:
    """What Triton asks a driver about the GPU it compiles for."""

    def __init__(self, chip: Chip) -> None:
        self.target = GPUTarget(chip.backend, chip.architecture, chip.lanes)

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


class Compiler:
    """Takes the place of launching: compiles a kernel once for each specialisation, and reports it."""

    def __init__(self, chip: Chip, output: TextIO) -> None:
        self.chip, self.output = chip, output
        self.energy = ""
        self.compiled: dict[str, dict[str, Any]] = {}

    def report(self, **line: Any) -> None:
        print(json.dumps({"energy": self.energy, **line}), file=self.output, flush=True)

    @contextlib.contextmanager
    def in_place_of_launches(self) -> Iterator[None]:
        launch = JITFunction.run

        def run(function: Any, *arguments: Any, grid: Any, warmup: bool, **keywords: Any) -> Any:
            return self._compile(launch, function, arguments, keywords)

        JITFunction.run = run
        try:
            yield
        finally:
            JITFunction.run = launch

    def _compile(self, launch: Any, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        name = function.fn.__name__
        self.report(starts=name)
        log = io.StringIO()
        start = time.perf_counter()
        try:
            with contextlib.redirect_stdout(log):
                compiled = launch(function, *arguments, grid=(1,), warmup=True, **keywords)
        except Exception as error:
            # Triton raises whatever its passes do: what it says is the answer, and the other kernels are still asked.
            self.report(kernel=name, error=f"{type(error).__name__}: {_last_line(error)}")
            return _Failed()
        seconds = time.perf_counter() - start
        if compiled.hash not in self.compiled:
            text = {kind: compiled.asm[kind] for kind in ("ptx", "amdgcn") if kind in compiled.asm}
            found = facts(text, log.getvalue(), compiled.metadata.shared)
            settings = {name: keywords[name] for name in SETTINGS if name in keywords}
            settings |= {"num_warps": compiled.metadata.num_warps}
            self.compiled[compiled.hash] = {"settings": settings, "seconds": seconds, "facts": asdict(found)}
        known = self.compiled[compiled.hash]
        self.report(kernel=name, **known)
        return self._as_loaded(compiled, known["facts"])

    def _as_loaded(self, compiled: Any, found: Mapping[str, int]) -> Any:
        """What loading onto the GPU would say of a kernel, by which launches choose their configuration."""
        if found["shared"] > self.chip.shared_per_block:
            raise triton.OutOfResources(found["shared"], self.chip.shared_per_block, "shared memory")
        compiled.n_spills = found["spills"]
        return compiled


@dataclass(frozen=True)
class _Failed:
    """In place of a kernel that does not compile: no other configuration is tried."""

    n_spills: int = 0


class _Widths(Exception):
    """Ends a call of a layer where it decides on its kernels: all that is wanted is what it asks about."""

    def __init__(self, widths: Mapping[str, int]) -> None:
        self.widths = widths


def inspect_energy(energy: Energy, layer_class: Any, compiler: Compiler, width: int, dtype: torch.dtype) -> None:
    """Compiles the kernels of one energy."""
    module: Any = sys.modules[layer_class.__module__]
    # In float32 the product of two parts, which AMD's matrix units have no need of.
    module._kernels.PRECISE = "ieee" if compiler.chip.backend == "hip" else "tf32x3"

    def widths_of(sizes: Mapping[str, int]) -> Mapping[str, int]:
        def asked(backend: str, x: torch.Tensor, **widths: int) -> bool:
            raise _Widths(widths)

        module._on_kernels = asked
        try:
            _call(energy, layer_class, sizes, dtype)
        except _Widths as found:
            return found.widths
        raise ValueError(f"{energy.name} does not ask for kernels")

    sizes = layer_sizes(energy, width, widths_of)
    compiler.report(sizes=dict(sizes))
    module._on_kernels = lambda *arguments, **widths: True
    with compiler.in_place_of_launches():
        results = _call(energy, layer_class, sizes, dtype)
        torch.autograd.backward(results, [torch.ones_like(result) for result in results])


def _call(energy: Energy, layer_class: Any, sizes: Mapping[str, int], dtype: torch.dtype) -> list[torch.Tensor]:
    """The new states of a layer at random arguments, all of which want gradients."""
    layer = layer_class(**sizes, dtype=dtype)
    lengths = {axis.name: TOKENS for axis in energy.runtime_axes}
    drawn = draw(energy, 0, sizes, lengths, (2,))
    states = [_leaf(value, dtype) for value in drawn.states.values()]
    results = layer(*states, **{name: _leaf(value, dtype) for name, value in drawn.givens.items()})
    return list(results) if isinstance(results, tuple) else [results]


def _leaf(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if not value.is_floating_point():
        return value
    return value.detach().to(dtype).requires_grad_()


def _last_line(error: BaseException) -> str:
    """What is wrong: above it, Triton shows the code, and below what was raised while it worked on that."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def main(path: str, target: str, width: str, dtype: str) -> None:
    """Inspects every energy of a file that has kernels."""
    # Compilers print to the standard output too; the reports get it for themselves.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    chip = CHIPS[target]
    triton.knobs.compilation.always_compile = True
    triton.knobs.nvidia.dump_ptxas_log = True
    driver.set_active(StandIn(chip))
    compiler = Compiler(chip, output)
    source = read_source(path)
    for energy in analyse(parse(source), source).energies:
        layer_class: Any = load(path, energy.name)
        compiler.energy = energy.name
        if not hasattr(sys.modules[layer_class.__module__], "_kernels"):
            continue
        try:
            inspect_energy(energy, layer_class, compiler, int(width), getattr(torch, dtype))
        except (ValueError, RuntimeError) as error:
            compiler.report(error=_last_line(error))


if __name__ == "__main__":
    main(*sys.argv[1:])
