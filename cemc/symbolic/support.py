"""Where a value may be other than 0, as far as masks say: through products, sums, selections, and tables of
adjoints."""

from __future__ import annotations

from sympy import Add, Mul
from sympy.core.basic import Basic

from cemc.notation.nodes import (
    ONE,
    TRUTHS,
    ZERO,
    AnyOf,
    Entry,
    Expr,
    FirstMaximum,
    IndexSymbol,
    Select,
    Weight,
    all_of,
    negation,
)
from cemc.notation.walk import substitute
from cemc.symbolic.tables import Tables


class Support:
    """`support(expr)` is a truth that holds wherever `expr` is not 0; ONE where nothing is known. Remembers what it
    found, for the tables as they were when it was made."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._bodies = {name: tables[name].body for name in tables.names() if tables[name].origin == "adjoint"}
        self._known: dict[Basic, Expr] = {}

    def __call__(self, node: Basic) -> Expr:
        if node not in self._known:
            self._known[node] = self._find(node)
        return self._known[node]

    def _find(self, node: Basic) -> Expr:
        if isinstance(node, Select):
            truth, then, otherwise = node.args
            if otherwise == ZERO:
                return all_of(truth, self(then))
            if then == ZERO:
                return all_of(negation(truth), self(otherwise))
            return _either(self(then), self(otherwise))
        if isinstance(node, TRUTHS):
            return node
        if isinstance(node, (Weight, FirstMaximum)):
            return node.args[1]
        if isinstance(node, Mul):
            return all_of(*(self(factor) for factor in node.args))
        if isinstance(node, Add):
            return _either(*(self(term) for term in node.args))
        if isinstance(node, Entry) and node.name in self._bodies:
            if all(isinstance(s, IndexSymbol) for s in node.subscripts):
                mapping = dict(zip(self._tables[node.name].indices, node.subscripts, strict=True))
                return substitute(self(self._bodies[node.name]), mapping, self._tables.free)
        return ONE


def _either(*truths: Expr) -> Expr:
    distinct = tuple(dict.fromkeys(truths))
    if ONE in distinct:
        return ONE
    return distinct[0] if len(distinct) == 1 else AnyOf(*distinct)
