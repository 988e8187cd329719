"""A generated module beside the oracle: the same quantities from both, and the relative errors between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cemc.oracle.draw import Configuration
from cemc.oracle.oracle import Oracle, energy_names
from cemc.semantics.typed import Energy

TOLERANCE = 1e-9
FLOOR = 1e-12
# Of the largest tensor compared along with it (at least 1): what is mathematically 0 is seldom computed as exactly 0.
ROUNDING = 1e-13
LARGEST_ROUNDING = 1e-5  # of the reference, or of what it cancels to; more is never put down to rounding
CANCELLED = 1e-3  # of the largest tensor compared along with it: a reference below this has cancelled
JITTERED = 3  # evaluations of the oracle with other last digits
SAFETY = 10.0  # how much worse than the oracle's another correct evaluation may be

# A group of quantities computed by one call, such as the new states: {name: value}.
Group = Callable[[], dict[str, Tensor]]


def build(layer_class: Callable[..., Any], configuration: Configuration, backend: str, device: str = "cpu") -> Any:
    """The module with the configuration's sizes, constants and parameters."""
    numbers = {**configuration.sizes, **configuration.constants}
    layer = layer_class(**numbers, backend=backend, device=device, dtype=torch.float64)
    stored, drawn = dict(layer.named_parameters()), configuration.raw
    shapes = [{name: tuple(value.shape) for name, value in side.items()} for side in (stored, drawn)]
    if shapes[0] != shapes[1]:
        raise ValueError(f"the module has parameters {shapes[0]}, expected {shapes[1]}")
    with torch.no_grad():
        for name, value in drawn.items():
            stored[name].copy_(value)
    return layer


def oracle_groups(
    energy: Energy,
    configuration: Configuration,
    context: Mapping[str, Tensor],
    steps: Sequence[int | None],
    dtype: torch.dtype = torch.float64,
) -> dict[str, Group]:
    """What is compared, from the oracle: updates of several numbers of steps, and energies at the states themselves and
    held at `context`."""
    states, givens = configuration.states, configuration.givens

    def oracle() -> Oracle:
        # Anew for each group, since backward frees the graph from raw to positive parameters.
        return Oracle(energy, configuration.sizes, configuration.parameters, configuration.constants, dtype)

    def update(count: int | None) -> dict[str, Tensor]:
        return oracle().update(states, givens, count)

    def value(name: str, held: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        return {name: oracle().energy(states, givens, held, name)}

    groups: dict[str, Group] = {_update_name(count): partial(update, count) for count in steps}
    for name in energy_names(energy):
        groups[name] = partial(value, name, None)
        groups[f"{name} in context"] = partial(value, name, context)
    return groups


def layer_groups(
    energy: Energy,
    layer: Any,
    configuration: Configuration,
    context: Mapping[str, Tensor],
    steps: Sequence[int | None],
    device: str = "cpu",
) -> dict[str, Group]:
    """The same from a generated module on `device`."""
    states = [value.to(device) for value in configuration.states.values()]
    givens = {name: value.to(device) for name, value in configuration.givens.items()}
    context = {name: value.to(device) for name, value in context.items()}
    names = energy_names(energy)

    def update(count: int | None) -> dict[str, Tensor]:
        new = layer(*states, steps=count, **givens)
        return dict(zip(configuration.states, (new,) if isinstance(new, Tensor) else new, strict=True))

    def value(name: str, held: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
        options: dict[str, Any] = {"name": name} if len(names) > 1 else {}
        if held is not None:
            options["context"] = next(iter(held.values())) if len(held) == 1 else tuple(held.values())
        return {name: layer.energy(*states, **options, **givens)}

    groups: dict[str, Group] = {_update_name(count): partial(update, count) for count in steps}
    for name in names:
        groups[name] = partial(value, name, None)
        groups[f"{name} in context"] = partial(value, name, context)
    return groups


def _update_name(steps: int | None) -> str:
    return "update" if steps is None else f"update in {steps} steps"


class Comparison:
    """The oracle's side of a configuration, computed once: values and training gradients of every group."""

    def __init__(
        self,
        energy: Energy,
        configuration: Configuration,
        seed: int = 0,
        steps: Sequence[int | None] = (None, 2),
        second: bool = False,
    ) -> None:
        """`second`: second derivatives of the first update as well, which only backend "generic" has."""
        self._second = second
        self.energy, self.configuration, self.steps, self._seed = energy, configuration, steps, seed
        generator = torch.Generator().manual_seed(seed + 1)
        self.context = {
            name: torch.randn(state.shape, dtype=torch.float64, generator=generator).requires_grad_()
            for name, state in configuration.states.items()
        }
        self._others: list[tuple[dict[str, dict[str, Tensor]], float]] = []
        self.reference = self._oracle(configuration, self.context, torch.float64)

    @property
    def magnitude(self) -> float:
        """The largest norm of all that is compared."""
        return max(_norm(value) for group in self.reference.values() for value in group.values())

    def errors(self, layer: Any, device: str = "cpu") -> dict[str, float]:
        """Relative error of each value ("update: x", "E in context: E") and gradient ("update to Q").

        Where rounding alone makes more than the tolerance, as the oracle's own errors show, the error is given in units
        of that: it says nothing about the module."""
        inputs = _inputs(self.configuration, self.context, dict(layer.named_parameters()))
        errors = {}
        groups = layer_groups(self.energy, layer, self.configuration, self.context, self.steps, device)
        for name, group in groups.items():
            found, reference = self._evaluate(name, group(), inputs), self.reference[name]
            scale = max(1.0, *(_norm(value) for value in reference.values()))
            for quantity, value in reference.items():
                error = relative_error(found[quantity], value, scale)
                size = _norm(value)
                explicable = LARGEST_ROUNDING * max(size, CANCELLED * scale) / max(size, FLOOR)
                if TOLERANCE <= error < explicable:
                    error /= max(1.0, SAFETY * self._rounding(name, quantity, scale) / TOLERANCE)
                errors[f"{name}{quantity}"] = error
        return errors

    def _rounding(self, name: str, quantity: str, scale: float) -> float:
        """What rounding does to a relative error in float64, estimated from what it does in float32, and from what
        changes in the last digits of all arguments do: where a value is mathematically 0, either may happen to show
        nothing."""
        if not self._others:
            ratio = torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
            self._others.append((self._oracle(self.configuration, self.context, torch.float32), ratio))
            for seed in range(JITTERED):
                generator = torch.Generator().manual_seed(seed)
                context = {each: _jittered(value, generator) for each, value in self.context.items()}
                configuration = replace(
                    self.configuration,
                    states={each: _jittered(v, generator) for each, v in self.configuration.states.items()},
                    givens={each: _jittered(v, generator) for each, v in self.configuration.givens.items()},
                    raw={each: _jittered(v, generator) for each, v in self.configuration.raw.items()},
                )
                self._others.append((self._oracle(configuration, context, torch.float64), 1.0))
        reference = self.reference[name][quantity]
        errors = [relative_error(each[name][quantity], reference, scale) * ratio for each, ratio in self._others]
        return max(error if math.isfinite(error) else 0.0 for error in errors)

    def _oracle(
        self, configuration: Configuration, context: Mapping[str, Tensor], dtype: torch.dtype
    ) -> dict[str, dict[str, Tensor]]:
        """The oracle's values and gradients at other arguments, or in another precision."""
        groups = oracle_groups(self.energy, configuration, context, self.steps, dtype)
        inputs = _inputs(configuration, context, configuration.raw)
        return {each: self._evaluate(each, group(), inputs) for each, group in groups.items()}

    def _evaluate(self, group: str, values: Mapping[str, Tensor], inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Values, and the gradients to all inputs of one random projection of them; of a random projection of those
        gradients the gradients again, where second derivatives are asked for."""
        generator = torch.Generator().manual_seed(self._seed)
        twice = self._second and group == _update_name(self.steps[0])
        results = {f": {name}": value.detach() for name, value in values.items()}
        gradients = _gradients(values, inputs, generator, twice)
        results |= {f" to {name}": gradient.detach() for name, gradient in gradients.items()}
        if twice:
            second = _gradients(gradients, inputs, generator, False)
            results |= {f" twice to {name}": gradient for name, gradient in second.items()}
        return results


def _inputs(
    configuration: Configuration, context: Mapping[str, Tensor], parameters: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """What training gradients go to."""
    contexts = {f"context {name}": value for name, value in context.items()}
    floats = {name: value for name, value in configuration.givens.items() if value.requires_grad}
    return {**configuration.states, **contexts, **floats, **parameters}


def _jittered(value: Tensor, generator: torch.Generator) -> Tensor:
    """Another number within a few units in the last place of each; labels as they are."""
    if not value.is_floating_point():
        return value
    steps = torch.randint(-4, 5, value.shape, generator=generator).to(value.dtype)
    return (value.detach() * (1 + steps * torch.finfo(value.dtype).eps)).requires_grad_(value.requires_grad)


def _gradients(
    values: Mapping[str, Tensor], inputs: Mapping[str, Tensor], generator: torch.Generator, differentiable: bool
) -> dict[str, Tensor]:
    """The gradients to all inputs of one random projection of the values."""
    total = torch.zeros((), dtype=torch.float64)
    for value in values.values():
        cotangent = torch.randn(value.shape, dtype=torch.float64, generator=generator)
        total = total + (cotangent.to(value.device) * value).sum().cpu().double()
    if not total.requires_grad:
        return {name: torch.zeros_like(value) for name, value in inputs.items()}
    found = torch.autograd.grad(
        total, list(inputs.values()), create_graph=differentiable, allow_unused=True, materialize_grads=True
    )
    return dict(zip(inputs, found, strict=True))


def relative_error(found: Tensor, reference: Tensor, scale: float = 1.0) -> float:
    """Norm of the difference over the norm of the reference, floored. Infinite where shapes differ, or one is finite
    and the other is not; entries that are not finite in either are left out."""
    found = found.to(reference)
    if found.shape != reference.shape:
        return float("inf")
    finite = reference.isfinite()
    if not torch.equal(found.isfinite(), finite):
        return float("inf")
    difference = _norm((found - reference)[finite])
    if difference <= ROUNDING * scale:
        return difference / scale
    return difference / max(_norm(reference[finite]), FLOOR)


def _norm(value: Tensor) -> float:
    return float(value[value.isfinite()].norm())
