"""`cemc check`: compares what was compiled with the oracle, in float64 on random configurations.

Compared are updates of several numbers of steps, energies with and without a context, and every training gradient of
each: to states, contexts, float givens and parameters.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cemc.compiler import Result, compile_file, load
from cemc.oracle.compare import TOLERANCE, Comparison, build
from cemc.oracle.draw import draw
from cemc.semantics import analyse
from cemc.semantics.typed import Energy
from cemc.syntax import parse, read_source

BACKENDS = ("generic", "torch")
BATCHES: tuple[tuple[int, ...], ...] = ((), (2,), (2, 3))
STEPS: tuple[tuple[int | None, ...], ...] = ((None, 2), (None, 0), (None, 3))


class NoDevice(ValueError):
    """A device that torch does not know, that is not there, or that has no float64."""


@dataclass(frozen=True)
class CheckReport:
    """Largest relative errors of one energy on one backend, over all configurations. `update` and `value` (the
    energies') are of values, `gradients` of training gradients by what they go to; `worst` says where the largest of
    all was met.
    """

    energy: str
    backend: str
    update: float
    value: float
    gradients: Mapping[str, float]
    worst: str

    @property
    def largest(self) -> float:
        return max(self.update, self.value, *self.gradients.values())

    @property
    def passed(self) -> bool:
        return self.largest < TOLERANCE


def backends_of(result: Result, device: str = "cpu") -> tuple[str, ...]:
    """The backends that can be checked: "triton" too, where there are kernels and Triton interprets them, for only then
    they run in float64."""
    if not result.kernels or device != "cpu" or importlib.util.find_spec("triton") is None:
        return BACKENDS
    import triton

    return (*BACKENDS, "triton") if triton.knobs.runtime.interpret else BACKENDS


def check_file(
    path: str | Path, seed: int = 0, rounds: int = 6, backends: Sequence[str] | None = None, device: str = "cpu"
) -> list[CheckReport]:
    """Compiles a file and checks every energy in it on the `backends`, by default all that run here in float64.

    Raises CemError if the file is wrong, OSError if it cannot be read, NoDevice if `device` cannot be used, and NoSizes
    (of `cemc.oracle.draw`) if no sizes fit the header of an energy.
    """
    _require(device)
    source = read_source(path)
    results = {result.name: result for result in compile_file(path)}
    reports = []
    for energy in analyse(parse(source), source).energies:
        chosen = backends_of(results[energy.name], device) if backends is None else backends
        reports += check_energy(energy, load(path, energy.name), seed, rounds, chosen, device)
    return reports


def _require(device: str) -> None:
    """Takes a number to the device and back. What is raised where that fails differs from device to device."""
    try:
        torch.zeros((), dtype=torch.float64, device=device).cpu()
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise NoDevice(f"device {device!r} cannot be used: {reason}") from error


def check_energy(
    energy: Energy,
    layer_class: Callable[..., Any],
    seed: int = 0,
    rounds: int = 6,
    backends: Sequence[str] = BACKENDS,
    device: str = "cpu",
) -> list[CheckReport]:
    """Compares a generated class with the oracle on `rounds` configurations that `seed` determines."""
    comparisons = []
    for number in range(rounds):
        configuration = draw(energy, seed * 1000 + number, batch=BATCHES[number % len(BATCHES)])
        comparisons.append(Comparison(energy, configuration, number, STEPS[number % len(STEPS)]))
    # Triton takes its time to interpret kernels: the two largest.
    largest = sorted(comparisons, key=lambda each: sum(u.numel() for u in each.configuration.states.values()))
    few = {"triton": largest[-2:]}
    return [_report(energy, layer_class, few.get(backend, comparisons), backend, device) for backend in backends]


def _report(
    energy: Energy, layer_class: Callable[..., Any], comparisons: Sequence[Comparison], backend: str, device: str
) -> CheckReport:
    update = value = 0.0
    gradients: dict[str, float] = {}
    worst, where = -1.0, ""
    for comparison in comparisons:
        layer = build(layer_class, comparison.configuration, backend, device)
        for quantity, error in comparison.errors(layer, device).items():
            if " to " in quantity:
                to = quantity.split(" to ")[1]
                gradients[to] = max(gradients.get(to, 0.0), error)
            elif quantity.startswith("update"):
                update = max(update, error)
            else:
                value = max(value, error)
            if error > worst:
                worst, where = error, f"{quantity} at {comparison.configuration.describe()}"
    return CheckReport(energy.name, backend, update, value, gradients, where)
