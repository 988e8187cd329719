"""Where names get their values: states and givens at one moment of the update, and definitions as tables over them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor

from cemc.oracle.model import Model
from cemc.oracle.points import BATCH, Points, decode, encode, everywhere
from cemc.semantics.typed import Axis, Definition, Expr

Evaluator = Callable[[Expr, Points, "Environment", float], Tensor]


class Environment:
    """States and givens `arguments[name]`: `[B, *axes]`, with the definitions evaluated on them.

    `given`, `initial`: where `given(...)` and `input(...)` are evaluated; None: here. `local`: for each definition in
    the update block above this moment, the environment it was evaluated in. `variation`: a state or definition and
    the zeros `[B, *axes]` added to it, by which the energy is differentiated; what is held does not see them.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        model: Model,
        sizes: Mapping[Axis, int],
        arguments: Mapping[str, Tensor],
        given: Environment | None = None,
        initial: Environment | None = None,
        local: Mapping[str, Environment] | None = None,
        variation: tuple[str, Tensor] | None = None,
    ) -> None:
        self.evaluator, self.model, self.sizes, self.arguments = evaluator, model, sizes, arguments
        self.local: Mapping[str, Environment] = local or {}
        self._given, self._initial, self._variation = given, initial, variation
        self._tables: dict[tuple[str, float], Table] = {}
        self._gradients: dict[tuple[str, int], Tensor] = {}
        self._apart: Environment | None = None

    def evaluate(self, expr: Expr, points: Points, empty: float = 0.0) -> Tensor:
        return self.evaluator(expr, points, self, empty)

    def held(self, kind: Literal["given", "input"]) -> Environment:
        """Where the operand of `given` or `input` is evaluated."""
        return (self._given if kind == "given" else self._initial) or self

    def apart(self) -> Environment:
        """The same values in tables of their own, for conditions: entries that only a condition reads are then no
        part of the value, and cannot bring a NaN into its derivative."""
        if self._apart is None:
            twin = Environment(
                self.evaluator,
                self.model,
                self.sizes,
                self.arguments,
                given=self._given and self._given.apart(),
                initial=self._initial and self._initial.apart(),
                local={name: there.apart() for name, there in self.local.items()},
                variation=self._variation,
            )
            self._apart = twin._apart = twin
        return self._apart

    # ------------------------------------------------------------------------------------------------- values

    def constant(self, value: float, count: int) -> Tensor:
        return torch.full((1,), value, dtype=self.model.dtype).expand(count)

    def batch_of(self, points: Points) -> Tensor:
        return points.positions[BATCH]

    def axes_of(self, name: str) -> tuple[Axis, ...]:
        definition = self.model.definition(name)
        return self.model.energy.axes_of(name) if definition is None else definition.axes

    def read(self, name: str, points: Points, subscripts: list[Tensor], empty: float) -> Tensor:
        """`name[subscripts]` at points: `[P, *remaining axes]`; outside an axis it reads 0."""
        if name in self.model.parameters:
            parameter = self.model.parameters[name]
            if not subscripts:
                return parameter.expand(points.count, *parameter.shape)
            return read_entries(parameter[None], torch.zeros(points.count, dtype=torch.int64), subscripts)
        rows = self.batch_of(points)
        if name in self.arguments:
            value = read_entries(self.arguments[name], rows, subscripts)
            if not value.is_floating_point():
                value = value.to(torch.promote_types(self.model.dtype, torch.float32))
        elif name in self.local:
            return self.local[name].read(name, points, subscripts, empty)
        else:
            value = self._read_definition(name, rows, subscripts, empty)
        if self._variation is not None and self._variation[0] == name:
            value = value + read_entries(self._variation[1], rows, subscripts)
        return value

    def _read_definition(self, name: str, rows: Tensor, subscripts: list[Tensor], empty: float) -> Tensor:
        definition = self.model.definition(name)
        if definition is None:
            raise KeyError(name)
        sizes = [self.sizes[index.axis] for index in definition.indices]
        leading, trailing = subscripts[: len(sizes)], subscripts[len(sizes) :]
        inside = torch.ones_like(rows, dtype=torch.bool)
        for subscript, size in zip(leading, sizes, strict=False):
            inside &= (subscript >= 0) & (subscript < size)
        found = inside.nonzero().squeeze(1)
        # Indices that are not subscripted are read over their whole axis.
        rest = everywhere(definition.indices[len(leading) :], self.sizes)
        columns = [column[found].repeat_interleave(rest.count) for column in (rows, *leading)]
        columns += [position.repeat(found.numel()) for position in rest.positions.values()]
        entries = self._table(definition, empty).read(columns)
        entries = entries.reshape(found.numel(), *sizes[len(leading) :], *entries.shape[1:])
        values = entries.new_zeros(rows.numel(), *entries.shape[1:]).index_put((found,), entries)
        return read_entries(values, torch.arange(rows.numel()), trailing)

    def _table(self, definition: Definition, empty: float) -> Table:
        key = definition.name, empty
        if key not in self._tables:
            # The variable of a gradient: its values come from where it is not varied.
            source = self
            if self._variation is not None and self._variation[0] == definition.name and self._given is not None:
                source = self._given
            indices = (BATCH, *definition.indices)

            def compute(columns: list[Tensor]) -> Tensor:
                points = Points(columns[0].numel(), dict(zip(indices, columns, strict=True)))
                return source.evaluate(definition.body, points, empty)

            self._tables[key] = Table([self.sizes[index.axis] for index in indices], compute)
        return self._tables[key]

    # ----------------------------------------------------------------------------------------------- gradient

    def gradient(self, wrt: str, energy: Expr) -> Tensor:
        """The derivative `[B, *axes of wrt]` of the total energy with respect to `wrt`, itself differentiable by
        everything it was computed from."""
        key = wrt, id(energy)
        if key not in self._gradients:
            shape = [self.sizes[axis] for axis in (BATCH.axis, *self.axes_of(wrt))]
            with torch.enable_grad():
                zeros = torch.zeros(shape, dtype=self.model.dtype, requires_grad=True)
                varied = Environment(
                    self.evaluator,
                    self.model,
                    self.sizes,
                    self.arguments,
                    given=self.held("given"),
                    initial=self.held("input"),
                    local=self.local,
                    variation=(wrt, zeros),
                )
                total = varied.evaluate(energy, everywhere((BATCH,), self.sizes)).sum()
                found = None
                if total.requires_grad:
                    (found,) = torch.autograd.grad(total, zeros, create_graph=True, allow_unused=True)
            self._gradients[key] = torch.zeros_like(zeros) if found is None else found
        return self._gradients[key]


class Table:
    """Values of a definition, computed entry by entry where they are first read, and never where they are not.

    `compute` takes positions `[M]` for each axis and returns the entries `[M, *shape]`.
    """

    def __init__(self, sizes: list[int], compute: Callable[[list[Tensor]], Tensor]) -> None:
        self._sizes, self._compute = sizes, compute
        self._number = torch.full((math.prod(sizes),), -1)  # where in _entries; -1: not computed yet
        self._entries: Tensor | None = None

    def read(self, columns: list[Tensor]) -> Tensor:
        code = encode(columns, self._sizes)
        wanted = torch.zeros_like(self._number, dtype=torch.bool)
        wanted[code] = True
        missing = (wanted & (self._number < 0)).nonzero().squeeze(1)
        if self._entries is None or missing.numel():
            entries = self._compute(decode(missing, self._sizes))
            known = 0 if self._entries is None else self._entries.shape[0]
            self._number[missing] = torch.arange(known, known + missing.numel())
            self._entries = entries if self._entries is None else torch.cat((self._entries, entries))
        return self._entries[self._number[code]]


def read_entries(table: Tensor, rows: Tensor, subscripts: list[Tensor]) -> Tensor:
    """`table[rows, *subscripts]`: `[P, *rest]`, where `table` is `[R, *axes]`; outside an axis it reads 0."""
    inside = torch.ones_like(rows, dtype=torch.bool)
    clamped = []
    for subscript, size in zip(subscripts, table.shape[1:], strict=False):
        inside &= (subscript >= 0) & (subscript < size)
        clamped.append(subscript.clamp(0, size - 1))
    entries = table[(rows, *clamped)]
    if bool(inside.all()):
        return entries
    return torch.where(inside.reshape(-1, *[1] * (entries.dim() - 1)), entries, torch.zeros_like(entries))
