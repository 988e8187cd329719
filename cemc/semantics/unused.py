"""Warnings about what has no effect."""

from __future__ import annotations

from collections.abc import Iterator

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.names import Unused, UnusedParameter
from cemc.semantics.dependence import Dependence, uses
from cemc.semantics.table import Table
from cemc.semantics.typed import Energy, Local


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
