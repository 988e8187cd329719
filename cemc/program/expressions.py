"""Scalar expressions: Map nodes without dims over leaves, which are Tensor nodes without dims known by their names.
What a kernel computes for a pair or an entry is made of them, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from cemc.operations import ELEMENTWISE
from cemc.program.graph import Graph, in_order
from cemc.program.nodes import Kind, Map, Node, Number, Operand, Size, Tensor

_PLAIN = frozenset(("add", "mul", "pow", "select", "<", "<=", ">", ">=", "==", "!=", "and", "or", "real", "clamp_min"))


class Expressions:
    """Makes scalar expressions in a graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def map(self, operation: str, parts: Sequence[Node], kind: Kind = "real", hint: str | None = None) -> Node:
        """An element-wise operation."""
        return self.graph.make(
            Map, dims=(), batched=False, kind=kind, operation=operation, function=None, hint=hint,
            operands=tuple(Operand(part, ()) for part in parts),
        )  # fmt: skip

    def number(self, value: Fraction | int) -> Node:
        value = Fraction(value)
        kind: Kind = "integer" if value.denominator == 1 else "real"
        return self.graph.make(Number, dims=(), batched=False, kind=kind, value=value)

    def leaf(self, name: str, kind: Kind = "real") -> Node:
        return self.graph.make(Tensor, dims=(), batched=False, kind=kind, role="given", name=name)


def has_spelling(node: Map) -> bool:
    """Whether an operation can be printed for Triton."""
    if node.operation == "pow" and not isinstance(node.operands[1].node, Number):
        # Of numbers, which may be whole, there is no logarithm in a kernel.
        base = node.operands[0].node
        return base.batched or bool(base.dims)
    if node.operation in _PLAIN:
        return True
    record = ELEMENTWISE.get(node.operation)
    return record is not None and record.triton is not None


def of_runtime(node: Node, runtime: frozenset[str]) -> bool:
    """Whether a number is known only when the layer is called."""
    return any(isinstance(n, Size) and n.axis in runtime for n in in_order([node]))
