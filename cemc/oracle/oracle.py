"""The reference every generated module is compared with: the energy as written, differentiated by autograd."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from cemc.oracle.environment import Environment
from cemc.oracle.evaluate import evaluate
from cemc.oracle.model import Model, children
from cemc.oracle.points import BATCH, everywhere
from cemc.oracle.sizes import constant_values, number
from cemc.semantics.typed import Access, Assign, Axis, Energy, Expr, Gradient, State


class Oracle:
    """Evaluates and steps one energy.

    `sizes`: all header names (see `header_sizes`). `parameters`: the value of each (of a positive one after
    softplus), shaped as declared. `constants`: those to override. Results are differentiable to states, float givens
    and parameters.
    """

    def __init__(
        self,
        energy: Energy,
        sizes: Mapping[str, int],
        parameters: Mapping[str, Tensor],
        constants: Mapping[str, float] | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        if set(parameters) != set(energy.parameters):
            raise ValueError(f"parameters {sorted(energy.parameters)} expected, not {sorted(parameters)}")
        for name, parameter in energy.parameters.items():
            shape = tuple(sizes[axis.name] for axis in parameter.axes)
            if tuple(parameters[name].shape) != shape:
                raise ValueError(f"parameter {name} has shape {tuple(parameters[name].shape)}, expected {shape}")
        numbers = constant_values(energy, sizes, constants)
        self._model = Model(energy, numbers, {name: value.to(dtype) for name, value in parameters.items()}, dtype)
        self._header = dict(sizes)

    def energy(
        self,
        states: Mapping[str, Tensor],
        givens: Mapping[str, Tensor],
        context: Mapping[str, Tensor] | None = None,
        name: str | None = None,
    ) -> Tensor:
        """The energy `name` (None: the only one) at `states`: `[*batch, *axes]`. Held parts are evaluated at
        `context`; without one at `states` themselves, and then autograd goes through them as well."""
        names = energy_names(self._model.energy)
        if name is None and len(names) > 1:
            raise ValueError(f"{self._model.energy.name} has several energies: {', '.join(names)}")
        name = names[0] if name is None else name
        if name not in names:
            raise ValueError(f"{self._model.energy.name} has no energy {name}")
        everything = {**states, **givens, **{f"{key} in context": value for key, value in (context or {}).items()}}
        batch = self._batch_shape(everything)
        sizes = self._sizes(states, givens, batch)
        held = None
        if context is not None:
            held = self._environment(self._arguments(context, givens, batch, sizes), sizes)
        env = self._environment(self._arguments(states, givens, batch, sizes), sizes, given=held, initial=held)
        definition = self._model.energy.definitions[name]
        value = evaluate(definition.body, everywhere((BATCH, *definition.indices), sizes), env)
        return value.reshape([*batch, *(sizes[axis] for axis in definition.axes)]).to(self._model.dtype)

    def update(
        self, states: Mapping[str, Tensor], givens: Mapping[str, Tensor], steps: int | None = None
    ) -> dict[str, Tensor]:
        """The new states that are not auxiliary, `[*batch, *axes]`, after `steps` runs of the update block (None: as
        many as the energy says)."""
        energy = self._model.energy
        batch = self._batch_shape({**states, **givens})
        sizes = self._sizes(states, givens, batch)
        arguments = self._arguments(states, givens, batch, sizes)
        initial = self._environment(arguments, sizes)
        repeat = energy.update.repeat
        if steps is None:
            steps = self._header[repeat] if isinstance(repeat, str) else repeat
        for step in range(steps):
            arguments = self._step(arguments, sizes, None if step == 0 else initial)
        return {
            name: arguments[name].reshape([*batch, *arguments[name].shape[1:]])
            for name, state in energy.states.items()
            if state.start is None
        }

    # ------------------------------------------------------------------------------------------------ the update

    def _step(
        self, arguments: Mapping[str, Tensor], sizes: Mapping[Axis, int], initial: Environment | None
    ) -> dict[str, Tensor]:
        """One run of the statements. A moment of the update is an environment; an assignment begins the next."""
        update = self._model.energy.update
        current = dict(arguments)
        local: dict[str, Environment] = {}
        env = self._environment(current, sizes, initial=initial)
        for statement in update.statements:
            if isinstance(statement, Assign):
                current[statement.state] = self._assigned(statement, env)
                if not update.simultaneous:
                    # What follows sees the new state; `input` still sees the layer's input, here in `initial`.
                    initial = initial or env.held("input")
                    env = self._environment(current, sizes, initial=initial, local=local)
            else:
                local = {**local, statement.definition.name: env}
                env = self._environment(current, sizes, initial=env.held("input"), local=local)
        return current

    def _assigned(self, statement: Assign, env: Environment) -> Tensor:
        """The state's new values `[B, *axes]`, all from old ones."""
        shape = [env.sizes[axis] for axis in (BATCH.axis, *self._model.energy.states[statement.state].axes)]
        value = evaluate(statement.value, everywhere((BATCH, *statement.indices), env.sizes), env)
        return value.reshape(shape).to(self._model.dtype)

    def _environment(
        self,
        arguments: Mapping[str, Tensor],
        sizes: Mapping[Axis, int],
        given: Environment | None = None,
        initial: Environment | None = None,
        local: Mapping[str, Environment] | None = None,
    ) -> Environment:
        return Environment(evaluate, self._model, sizes, dict(arguments), given, initial, local)

    # ------------------------------------------------------------------------------------------------- arguments

    def _axes(self, name: str) -> tuple[Axis, ...]:
        return self._model.energy.axes_of(name.removesuffix(" in context"))

    def _batch_shape(self, arguments: Mapping[str, Tensor]) -> tuple[int, ...]:
        """The leading axes of all arguments, broadcast together right-aligned."""
        shapes = [value.shape[: value.dim() - len(self._axes(name))] for name, value in arguments.items()]
        return tuple(torch.broadcast_shapes(*shapes))

    def _sizes(
        self, states: Mapping[str, Tensor], givens: Mapping[str, Tensor], batch: Sequence[int]
    ) -> dict[Axis, int]:
        """The size of every axis: header names as constructed, run-time axes from the arguments, BATCH flattened."""
        energy = self._model.energy
        arguments = [name for name, state in energy.states.items() if state.start is None]
        if set(states) != set(arguments) or set(givens) != set(energy.givens):
            raise ValueError(
                f"{energy.name} takes states {arguments} and givens {list(energy.givens)}, "
                f"not {sorted(states)} and {sorted(givens)}"
            )
        sizes = {Axis(name, runtime=False): size for name, size in self._header.items()}
        sizes[BATCH.axis] = math.prod(batch)
        for name, value in {**states, **givens}.items():
            axes = self._axes(name)
            for axis, size in zip(axes, value.shape[value.dim() - len(axes) :], strict=True):
                if sizes.setdefault(axis, size) != size:
                    raise ValueError(f"{name} has {size} along {axis.name}, expected {sizes[axis]}")
        return sizes

    def _arguments(
        self,
        states: Mapping[str, Tensor],
        givens: Mapping[str, Tensor],
        batch: Sequence[int],
        sizes: Mapping[Axis, int],
    ) -> dict[str, Tensor]:
        """States, auxiliary ones at their start, and givens, each `[B, *axes]`; integer givens in int64."""
        energy = self._model.energy
        arguments = {}
        for name, state in energy.states.items():
            value = self._start(state) if state.start is not None else states[name]
            arguments[name] = self._flattened(value.to(self._model.dtype), state.axes, batch, sizes)
        for name, given in energy.givens.items():
            value = givens[name].to(torch.int64 if given.integer else self._model.dtype)
            arguments[name] = self._flattened(value, given.axes, batch, sizes)
        return arguments

    def _start(self, state: State) -> Tensor:
        assert state.start is not None
        value = number(self._model.energy, self._model.numbers, state.start)
        return torch.full([1] * len(state.axes), value, dtype=self._model.dtype)

    def _flattened(
        self, value: Tensor, axes: tuple[Axis, ...], batch: Sequence[int], sizes: Mapping[Axis, int]
    ) -> Tensor:
        shape = [sizes[axis] for axis in axes]
        return value.expand([*batch, *shape]).reshape([math.prod(batch), *shape])


def energy_names(energy: Energy) -> tuple[str, ...]:
    """The definitions that are differentiated in the update, in the order they are named there."""
    names: dict[str, None] = {}

    def visit(expr: Expr, inside: bool) -> None:
        if inside and isinstance(expr, Access):
            names[expr.name] = None
        for child in _expressions(expr):
            visit(child, inside or (isinstance(expr, Gradient) and child is expr.energy))

    for statement in energy.update.statements:
        visit(statement.value if isinstance(statement, Assign) else statement.definition.body, False)
    return tuple(names)


def _expressions(expr: Expr) -> Iterator[Expr]:
    return (child for child in children(expr) if isinstance(child, Expr))
