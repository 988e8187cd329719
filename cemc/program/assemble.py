"""Symbolic energy -> tensor program: one step of the update, and the value of each energy."""

from __future__ import annotations

from cemc.program.causal import is_causal
from cemc.program.graph import Graph
from cemc.program.lower import Lowering, Versions, leaf
from cemc.program.nodes import Node, Program
from cemc.program.sizes import representative_sizes
from cemc.symbolic.update import SymbolicEnergy


def assemble(symbolic: SymbolicEnergy, graph: Graph) -> Program:
    """The tensor program of `symbolic`, its nodes made by `graph`."""
    energy = symbolic.energy
    sizes = representative_sizes(energy)
    lowering = Lowering(symbolic, graph, lambda axis: sizes[axis])
    states = {role: {name: leaf(graph, energy, name, role) for name in energy.states} for role in ("state", "input")}
    step = _step(symbolic, lowering, states["state"], states["input"])
    context = {name: leaf(graph, energy, name, "context") for name in energy.states}
    at_context = Versions(states["state"], context, context)
    lowering.locals = {}
    energies = {name: lowering.full_table(name, at_context) for name in symbolic.energies}
    return Program(step=step, energies=energies, causal=is_causal(symbolic), recognised=())


def _step(
    symbolic: SymbolicEnergy, lowering: Lowering, current: dict[str, Node], start: dict[str, Node]
) -> dict[str, Node]:
    """Runs the statements on nodes: an assignment makes a new version of the states for all that stand below it."""
    result = dict(current)
    versions = Versions(current, current, start)
    for statement in symbolic.statements:
        if statement.state is None:
            lowering.locals[statement.table] = lowering.table(statement.table, versions)
            continue
        value = lowering.full_table(statement.table, versions)
        result = {**result, statement.state: value}
        if not symbolic.energy.update.simultaneous:
            versions = Versions(result, result, start)
    return result
