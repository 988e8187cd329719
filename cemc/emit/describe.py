"""Names and shape comments for values the source gives no name."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from cemc.program import kernel_nodes, nodes
from cemc.program.nodes import Node

_LONGEST = 16

_NAMES: dict[type[Node], str] = {
    nodes.LogSumExp: "normaliser",
    nodes.Weights: "weights",
    nodes.Max: "maximum",
    nodes.FirstMax: "first",
    nodes.Attention: "attended",
    nodes.Distance: "distance",
}

_OPERATIONS = {"add": "term", "mul": "term", "select": "chosen", "clamp_min": "clamped"}
_POWERS = {Fraction(-1): "inverse", Fraction(2): "square", Fraction(1, 2): "root", Fraction(-1, 2): "inverse_root"}


def shape(node: Node) -> str:
    """`[..., heads, token, r]`: the batch axes, then the named ones; nothing for a plain number."""
    axes = (["..."] if node.batched else []) + list(node.dims)
    return f"[{', '.join(axes)}]" if axes else ""


def describe(node: Node, name_of: Callable[[Node], str | None]) -> str:
    """A name for the variable that holds `node`; `name_of` says what its operands are called, where they have names."""
    if type(node) in _NAMES:
        return _NAMES[type(node)]
    if isinstance(node, (nodes.Positions, nodes.RecentPositions)):
        return "positions" if node.axis == "token" else f"{node.axis}_positions"
    if isinstance(node, nodes.RowPositions):
        return "rows"
    if isinstance(node, nodes.Cached):
        return _joined("all", name_of(node.operand))
    if isinstance(node, nodes.CumulativeSum):
        return _joined("sum", name_of(node.operand))
    if isinstance(node, nodes.OverRows):
        return _joined("summed", name_of(node.operand))
    if isinstance(node, nodes.Recent):
        return _joined("recent", name_of(node.operand))
    if isinstance(node, nodes.RowResult):
        return describe(node.blocks.region.inner[node.result], name_of)
    if isinstance(node, kernel_nodes.Projection):
        projections = node.projections
        return _product([name_of(projections.matrices[node.result]), name_of(projections.value)])
    if isinstance(node, kernel_nodes.Pointwise):
        return "activated"
    if isinstance(node, nodes.Rotate):
        return _joined("unrotated" if node.inverse else "rotated", name_of(node.operand.node))
    if isinstance(node, nodes.Gather):
        return _joined(name_of(node.table), "read") if name_of(node.table) else "read"
    if isinstance(node, (nodes.Align, nodes.Expand)):
        return _joined("full", name_of(node.operand.node))
    if isinstance(node, nodes.Einsum):
        names = [name_of(operand.node) for operand in sorted(node.operands, key=lambda o: o.node.batched)]
        if len(names) == 1:
            return _joined("sum", names[0]) if names[0] is not None else "total"
        if all(operand.node.batched for operand in node.operands):
            return "product"
        return _product(names)
    if isinstance(node, nodes.Map):
        if node.kind == "truth":
            return "mask"
        if node.kind == "integer":
            return "number"
        operand = name_of(node.operands[0].node)
        if node.operation == "real":
            return "indicator" if node.operands[0].node.kind == "truth" else _joined(operand, "number")
        if node.operation == "pow":
            exponent = node.operands[1].node
            return _POWERS.get(exponent.value, "power") if isinstance(exponent, nodes.Number) else "power"
        if node.operation in _OPERATIONS:
            return _OPERATIONS[node.operation]
        if node.operation == "integral" and node.function is not None:
            return _joined("integral", node.function.name)
        return _joined(node.operation, operand)
    raise AssertionError(type(node))


def _joined(first: str | None, second: str | None) -> str:
    together = "_".join(part for part in (first, second) if part is not None)
    return together if len(together) <= _LONGEST else str(first or second)


def _product(names: list[str | None]) -> str:
    """A product is called by its factors, if that is short."""
    known = [n for n in names if n is not None]
    together = "".join(known)
    return together if len(known) == len(names) and len(together) <= 12 else "product"
