"""Warnings about what has no effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.names import Unused, UnusedParameter
from cemc.diagnostics.shapes import IdleIndex
from cemc.semantics.dependence import Dependence, uses
from cemc.semantics.table import Table
from cemc.semantics.typed import Condition, Energy, Expr, Index, Local, Reduction


def unused(energy: Energy, table: Table) -> Iterator[Diagnostic]:
    """Definitions that nothing reads, parameters that the update does not reach, and other names that nothing
    mentions."""
    dependence = Dependence(energy.definitions)
    bodies = [each.definition.body if isinstance(each, Local) else each.value for each in energy.update.statements]
    start = tuple(use for body in bodies for use in uses(body))
    reached = dependence.reached(start)
    idle = [name for name in energy.definitions if name not in reached]
    read_by_idle = {use.name for name in idle for use in dependence.uses[name]}
    for name in idle:
        if name not in read_by_idle:
            yield Unused(table.declared[name].span, "the definition", name)
    for name, parameter in energy.parameters.items():
        if name not in reached and name not in read_by_idle:
            yield UnusedParameter(table.declared[name].span, parameter.name)
    local = [each.definition for each in energy.update.statements if isinstance(each, Local)]
    read = {use.name for use in start}
    for definition in local:
        if definition.name not in read:
            yield Unused(table.declared[definition.name].span, "the local definition", definition.name)
    for name, declared in table.declared.items():
        if not declared.used and declared.kind in ("given", "constant", "function", "axis", "header name"):
            yield Unused(declared.span, f"the {declared.kind}", name)


def idle_indices(energy: Energy) -> Iterator[Diagnostic]:
    """Indices of reductions on which nothing that is reduced depends. Numbers are counted on purpose, as in
    `sum[j < i](1)`."""
    bodies = [each.body for each in energy.definitions.values()]
    bodies += [each.definition.body if isinstance(each, Local) else each.value for each in energy.update.statements]
    for body in bodies:
        for reduction in _reductions(body):
            used = {part for part in _parts(reduction.body) if isinstance(part, Index)}
            if any(True for _ in uses(reduction.body)):
                for index in reduction.indices:
                    if index not in used:
                        yield IdleIndex(reduction.span, index.name, reduction.kind)


def _reductions(body: object) -> Iterator[Reduction]:
    return (part for part in _parts(body) if isinstance(part, Reduction))


def _parts(value: object) -> Iterator[object]:
    """Everything in a typed expression, indices included."""
    yield value
    if isinstance(value, tuple):
        for part in value:
            yield from _parts(part)
    elif isinstance(value, (Expr, Condition)):
        for each in fields(value):
            if each.name not in ("span", "shape"):
                yield from _parts(getattr(value, each.name))
