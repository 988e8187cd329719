"""What stays fixed while an energy is evaluated: its numbers, its parameters, and what each expression depends on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass

import torch
from torch import Tensor

from cemc.oracle.points import BATCH
from cemc.semantics.typed import (
    Access,
    Argument,
    Condition,
    Definition,
    Energy,
    Expr,
    Gradient,
    Index,
    Local,
    Position,
    Reduction,
)


@dataclass(frozen=True)
class Model:
    """`numbers`: header names and constants; `parameters`: the value of each, shaped as declared, in `dtype`."""

    energy: Energy
    numbers: Mapping[str, float]
    parameters: Mapping[str, Tensor]
    dtype: torch.dtype
    _dependencies: dict[int, frozenset[Index] | None] = field(default_factory=dict)

    def dependencies(self, expr: Expr | Condition) -> frozenset[Index] | None:
        """The indices `expr` depends on, BATCH among them; None where it depends on the argument of a function."""
        known = self._dependencies
        if id(expr) not in known:
            known[id(expr)] = self._compute_dependencies(expr)
        return known[id(expr)]

    def _compute_dependencies(self, expr: Expr | Condition) -> frozenset[Index] | None:
        found: set[Index] = set()
        match expr:
            case Argument():
                return None
            case Position(index=index):
                found.add(index)
            case Access(name=name) if name not in self.parameters:
                found.add(BATCH)
            case Gradient():
                found.add(BATCH)
        for child in children(expr):
            below = self.dependencies(child)
            if below is None:
                return None
            found |= below
        if isinstance(expr, Reduction):
            found -= set(expr.indices)
        return frozenset(found)

    def definition(self, name: str) -> Definition | None:
        """The definition called `name`, outside the update block or in it."""
        if name in self.energy.definitions:
            return self.energy.definitions[name]
        for statement in self.energy.update.statements:
            if isinstance(statement, Local) and statement.definition.name == name:
                return statement.definition
        return None


def children(expr: Expr | Condition) -> Iterator[Expr | Condition]:
    """The expressions and conditions directly below one."""
    assert is_dataclass(expr)
    for entry in fields(expr):
        value = getattr(expr, entry.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Expr | Condition):
                yield item
