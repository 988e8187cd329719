"""Nodes whose value is a number of Python: made of literals, sizes and constants alone."""

from __future__ import annotations

from collections.abc import Iterable

from cemc.program import nodes
from cemc.program.nodes import Node

MATH = {
    "exp": "math.exp({0})",
    "log": "math.log({0})",
    "sqrt": "math.sqrt({0})",
    "abs": "abs({0})",
    "sin": "math.sin({0})",
    "cos": "math.cos({0})",
    "tanh": "math.tanh({0})",
    "erf": "math.erf({0})",
    "min": "min({0}, {1})",
    "max": "max({0}, {1})",
    "at_least_one": "max({0}, 1)",
}
"""Functions of Python that do to a number what the operation table's do to a tensor."""

_ALWAYS = frozenset(("add", "mul", "pow", "real", "clamp_min", "select", "and", "or", "<", "<=", ">", ">=", "==", "!="))


def scalars_in(order: Iterable[Node]) -> set[int]:
    """Which nodes of `order`, operands before users, print as numbers of Python and not as tensors: their `number`."""
    found: set[int] = set()
    for node in order:
        if isinstance(node, (nodes.Number, nodes.Size, nodes.Constant)):
            found.add(node.number)
        elif isinstance(node, nodes.Map) and not node.dims and not node.batched:
            known = node.operation in MATH or node.operation in _ALWAYS
            if known and all(operand.node.number in found for operand in node.operands):
                found.add(node.number)
    return found
