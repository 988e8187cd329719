"""Reverse accumulation over scalar expressions: Map nodes without dims, over leaves.

The derivative of a function comes from its record in the operation table, lowered to nodes again. What a kernel's
backward pass computes for a pair is made here, from what its forward pass computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from sympy import Add, Expr, Mul, Pow, Rational

from cemc.notation.nodes import AllOf, AnyOf, Apply, ArgumentSymbol, Compare, Select
from cemc.operations import ELEMENTWISE
from cemc.program import nodes
from cemc.program.expressions import Expressions
from cemc.program.graph import Graph, in_order
from cemc.program.nodes import Node


class Adjoints(Expressions):
    """The adjoints of scalar expressions: what is added for a node, and, after `propagate`, what that sends below
    it."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self._terms: dict[int, list[Node]] = {}
        self._nodes: dict[int, Node] = {}

    def add(self, node: Node, adjoint: Node) -> None:
        """A contribution to the adjoint of `node`."""
        self._terms.setdefault(node.number, []).append(adjoint)
        self._nodes[node.number] = node

    def of(self, node: Node) -> Node | None:
        """The adjoint collected so far; None is 0."""
        terms = self._terms.get(node.number)
        if not terms:
            return None
        return self.sum(terms)

    def propagate(self, order: Sequence[Node]) -> None:
        """Sends the adjoints of the nodes of `order`, operands before users, on to their operands."""
        for node in reversed(order):
            adjoint = self.of(node)
            if adjoint is not None and isinstance(node, nodes.Map):
                self._send(node, adjoint)

    def _send(self, node: nodes.Map, adjoint: Node) -> None:
        parts = [operand.node for operand in node.operands]
        match node.operation:
            case "add":
                for part in parts:
                    self._to(part, adjoint)
            case "mul":
                for n, part in enumerate(parts):
                    if _varies(part):
                        self._to(part, self.product([adjoint, *parts[:n], *parts[n + 1 :]]))
            case "select":
                condition, then, otherwise = parts
                zero = self.number(0)
                self._to(then, self.map("select", [condition, adjoint, zero]))
                self._to(otherwise, self.map("select", [condition, zero, adjoint]))
            case "clamp_min":
                above = self.map("<=", [parts[1], parts[0]], "truth")
                self._to(parts[0], self.map("select", [above, adjoint, self.number(0)]))
            case "pow" if isinstance(parts[1], nodes.Number):
                self._to(parts[0], self.product([adjoint, self._power_slope(parts[0], parts[1])]))
            case operation if operation in ELEMENTWISE:
                symbols = [ArgumentSymbol(str(n)) for n in range(len(parts))]
                slopes = ELEMENTWISE[operation].derivative(*symbols)
                given = dict(zip(symbols, parts, strict=True))
                for part, slope in zip(parts, slopes, strict=True):
                    if slope != 0 and _varies(part):
                        self._to(part, self.product([adjoint, self.lowered(slope, given)]))

    def _to(self, node: Node, adjoint: Node) -> None:
        if _varies(node) and not _is_number(adjoint, 0):
            self.add(node, adjoint)

    def _power_slope(self, base: Node, exponent: nodes.Number) -> Node:
        value = exponent.value
        if value == 2:
            return self.product([self.number(2), base])
        return self.product([self.number(value), self.map("pow", [base, self.number(value - 1)])])

    # ---------------------------------------------------------------------------------------------------- building

    def lowered(self, expr: Expr, given: Mapping[ArgumentSymbol, Node]) -> Node:
        """A SymPy expression of scalars as nodes."""
        match expr:
            case Rational():
                return self.number(Fraction(int(expr.p), int(expr.q)))
            case ArgumentSymbol():
                return given[expr]
            case Add():
                return self.sum([self.lowered(a, given) for a in expr.args])
            case Mul():
                return self.product([self.lowered(a, given) for a in expr.args])
            case Pow():
                return self.map("pow", [self.lowered(a, given) for a in expr.args])
            case Apply():
                return self.map(expr.function, [self.lowered(a, given) for a in expr.arguments])
            case Select():
                return self.map("select", [self.lowered(a, given) for a in expr.args])
            case Compare():
                return self.map(expr.operator, [self.lowered(a, given) for a in expr.args[1:]], "truth")
            case AllOf() | AnyOf():
                operation = "and" if isinstance(expr, AllOf) else "or"
                return self.map(operation, [self.lowered(a, given) for a in expr.args], "truth")
        raise AssertionError(type(expr))

    def sum(self, terms: Sequence[Node]) -> Node:
        kept = [term for term in terms if not _is_number(term, 0)]
        if not kept:
            return self.number(0)
        return kept[0] if len(kept) == 1 else self.map("add", kept)

    def product(self, factors: Sequence[Node]) -> Node:
        if any(_is_number(factor, 0) for factor in factors):
            return self.number(0)
        kept = [self._as_real(factor) for factor in factors if not _is_number(factor, 1)]
        if not kept:
            return self.number(1)
        return kept[0] if len(kept) == 1 else self.map("mul", kept)

    def _as_real(self, node: Node) -> Node:
        """A truth as 0 or 1."""
        return self.map("real", [node]) if node.kind == "truth" else node


def _is_number(node: Node, value: int) -> bool:
    return isinstance(node, nodes.Number) and node.value == value


def _varies(node: Node) -> bool:
    """Whether there is a derivative by `node`: whether a real leaf that is no number of Python is in it."""
    return node.kind == "real" and any(_is_variable(leaf) for leaf in in_order([node]))


def _is_variable(node: Node) -> bool:
    return isinstance(node, nodes.Tensor) and node.kind == "real" and not node.name.startswith("number")
