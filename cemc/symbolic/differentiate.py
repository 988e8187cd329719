"""Derivative of a total energy, by reverse accumulation over expressions that share terms.

Each node of an expression is visited once, with the sum of what its users contribute; each table gets one adjoint
table, so definitions that are used often cost nothing more. The adjoint of a node is the derivative of the total
energy by the value of the node at given values of its free indices: a contribution is therefore summed over the
indices its user has and the node has not.

What reaches an entry `T[f(i)]` arrives as a sum over i of coefficient times delta(p, f(i)); deltas are contracted here
together with their ranges, so no later stage sees one unless it has to be a scatter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

from sympy import Add, Integer, Mul, Pow

from cemc.notation.nodes import (
    ONE,
    TRUTHS,
    ZERO,
    AllOf,
    Antiderivative,
    Apply,
    AxisSize,
    Computed,
    Entry,
    Expr,
    FirstMaximum,
    Held,
    IndexSymbol,
    LogSumExp,
    Maximum,
    Rotation,
    Select,
    Sum,
    Weight,
    all_of,
    compare,
    entry,
    subscript,
    sum_over,
    unique,
)
from cemc.notation.walk import postorder, replace_atoms, substitute
from cemc.operations import ELEMENTWISE
from cemc.symbolic.tables import Table, Tables, at_indices

# A contribution to the adjoint of a table: where it was read, and the coefficient there.
Read = tuple[tuple[Expr, ...], Expr]


class Differentiator:
    """Adds to `tables` the adjoints that gradients need. `axes(name)`: a label ("" for none) and the axis of each
    dimension of a declared tensor."""

    def __init__(self, tables: Tables, axes: Callable[[str], list[tuple[str, str]]]) -> None:
        self._tables = tables
        self._free = tables.free
        self._axes = axes

    def gradient(self, total: Expr, target: str, hint: str) -> str:
        """Name of the table of the derivative of `total` (no free indices) by `target`, a table or declared tensor."""
        active = self._active(total, target)
        reads: dict[str, list[Read]] = defaultdict(list)
        self._accumulate(total, ONE, active, reads)
        for name in reversed(self._order(total)):
            if name == target or name not in reads or name not in self._tables:
                continue
            table = self._tables[name]
            adjoint = self._adjoint(table.name, reads[name], f"grad_{table.hint}" if table.hint else None)
            seed = substitute_indices(adjoint, table)
            self._accumulate(table.body, seed, active, reads)
        return self._adjoint(target, reads[target], hint).name

    # ------------------------------------------------------------------------------------------ dependence

    def _order(self, total: Expr) -> list[str]:
        """Tables `total` depends on, each after those it uses."""
        order: list[str] = []
        seen: set[str] = set()
        stack = [(use.name, False) for use in reversed(self._tables.uses(total))]
        while stack:
            name, ready = stack.pop()
            if ready:
                order.append(name)
            elif name not in seen and name in self._tables:
                seen.add(name)
                stack.append((name, True))
                stack.extend((use.name, False) for use in reversed(self._tables.uses(self._tables[name].body)))
        return order

    def _active(self, total: Expr, target: str) -> set[Expr]:
        """Every node, in `total` and the tables under it, through which a change of `target` reaches the energy."""
        names = {target}
        nodes: set[Expr] = set()
        for name in self._order(total):
            if name != target and self._mark(self._tables[name].body, names, nodes):
                names.add(name)
        self._mark(total, names, nodes)
        return nodes

    def _mark(self, expr: Expr, names: set[str], nodes: set[Expr]) -> bool:
        for node in postorder(expr):
            if isinstance(node, (Held, FirstMaximum, *TRUTHS)):
                continue
            if isinstance(node, Entry):
                # A subscript is an integer: nothing flows through it.
                if node.name in names:
                    nodes.add(node)
            elif any(child in nodes for child in _differentiable(node)):
                nodes.add(node)
        return expr in nodes

    # ---------------------------------------------------------------------------------------- accumulation

    def _accumulate(self, expr: Expr, seed: Expr, active: set[Expr], reads: dict[str, list[Read]]) -> None:
        """Sends `seed`, the adjoint of `expr`, down to the entries that are active."""
        if expr not in active:
            return
        adjoints: dict[Expr, list[Expr]] = defaultdict(list)
        adjoints[expr].append(seed)
        for node in reversed(list(postorder(expr))):
            if node not in active or node not in adjoints:
                continue
            adjoint = unique(Add(*adjoints.pop(node)))
            if isinstance(node, Entry):
                reads[node.name].append((node.subscripts, adjoint))
                continue
            for child, coefficient, bound in _contributions(node, adjoint, active):
                ranges = self._free(node).union(bound)
                if isinstance(node, Rotation):
                    # The rotation back has summed over the index of the result.
                    ranges = ranges.difference((node.args[2],))
                missing = tuple(sorted(ranges.difference(self._free(child)), key=_number))
                adjoints[child].append(self._summed(unique(coefficient), ONE, missing))

    def _summed(self, body: Expr, condition: Expr, indices: tuple[IndexSymbol, ...]) -> Expr:
        """Sum over `indices`; one the body and condition do not depend on is a factor."""
        if body == ZERO:
            return ZERO
        free = self._free(body) | self._free(condition)
        counted = [AxisSize(s.axis) for s in indices if s not in free]
        kept = tuple(s for s in indices if s in free)
        return Mul(*counted, sum_over(body, condition, kept))

    # ---------------------------------------------------------------------------------------------- deltas

    def _adjoint(self, name: str, reads: list[Read], hint: str | None) -> Table:
        """The adjoint table of `name` from all places it is read at."""
        points = tuple(self._tables.index(label, axis) for label, axis in self._labels(name))
        body = Add(*(self._contract(points, subscripts, value) for subscripts, value in reads))
        return self._tables.add(Table(self._tables.fresh_name(f"grad {name}"), points, body, "adjoint", hint))

    def _labels(self, name: str) -> list[tuple[str, str]]:
        if name in self._tables:
            return [(symbol.name, symbol.axis) for symbol in self._tables[name].indices]
        return self._axes(name)

    def _contract(self, points: tuple[IndexSymbol, ...], subscripts: tuple[Expr, ...], value: Expr) -> Expr:
        """Sum over the free indices of `value` and `subscripts` of value * product of delta(point, subscript)."""
        free = set(self._free(value))
        for read_at in subscripts:
            free |= self._free(read_at)
        summed = sorted(free, key=_number)
        solved: dict[IndexSymbol, Expr] = {}
        deltas: list[tuple[IndexSymbol, Expr]] = []
        for point, read_at in zip(points, subscripts, strict=True):
            if isinstance(read_at, IndexSymbol) and read_at not in solved:
                solved[read_at] = point
            else:
                deltas.append((point, read_at))
        plain = dict(solved)
        left: list[tuple[IndexSymbol, Expr]] = []
        for point, read_at in deltas:
            read_at = substitute(read_at, solved, self._free)
            solution = _solve(read_at, point, [s for s in summed if s not in solved])
            if solution is None:
                left.append((point, read_at))
            else:
                symbol, at = solution
                solved = {s: substitute(e, {symbol: at}, self._free) for s, e in solved.items()} | {symbol: at}
        value = self._at(value, plain, solved)
        # An index solved for runs over its own axis only.
        inside = [
            truth
            for symbol, at in solved.items()
            if symbol not in plain and not (isinstance(value, Entry) and {at, Computed(at)} & set(value.subscripts))
            for truth in (compare("<=", ZERO, at), compare("<", at, AxisSize(symbol.axis)))
        ]
        same = [compare("==", point, substitute(read_at, solved, self._free)) for point, read_at in left]
        return self._summed(value, all_of(*inside, *same), tuple(s for s in summed if s not in solved))

    def _at(self, value: Expr, plain: dict[IndexSymbol, Expr], solved: dict[IndexSymbol, Expr]) -> Expr:
        """`value` at the solved indices. Where one is computed, the value is tabulated first and the table read there:
        nothing in it is evaluated at points outside, which read 0."""
        value = substitute(value, plain, self._free)
        computed = {s: e for s, e in solved.items() if s not in plain}
        if not self._free(value).intersection(computed):
            return value
        table = self._tables.anonymous(value)
        return entry(table.name, tuple(subscript(computed.get(s, s), s.axis) for s in table.indices))


def substitute_indices(adjoint: Table, table: Table) -> Expr:
    """The adjoint of a table at the table's own indices; a zero stays a zero."""
    return ZERO if adjoint.body == ZERO else entry(adjoint.name, at_indices(table).subscripts)


def _number(symbol: IndexSymbol) -> int:
    return symbol.number


def _solve(read_at: Expr, point: IndexSymbol, candidates: list[IndexSymbol]) -> tuple[IndexSymbol, Expr] | None:
    """An index with coefficient 1 or -1 in `subscript`, which must occur in it nowhere else, and its value where
    subscript == point."""
    read_at = read_at.args[0] if isinstance(read_at, Computed) else read_at
    terms = read_at.args if read_at.is_Add else (read_at,)
    for symbol in candidates:
        for coefficient in (1, -1):
            rest = [t for t in terms if t != coefficient * symbol]
            if len(rest) == len(terms) - 1 and not any(symbol in set(postorder(t)) for t in rest):
                return symbol, Integer(coefficient) * point - Integer(coefficient) * Add(*rest)
    return None


def _differentiable(node: Expr) -> tuple[Expr, ...]:
    """The arguments of `node` a change can come through."""
    if isinstance(node, (Sum, Maximum)):
        return (node.args[0],)
    if isinstance(node, LogSumExp):
        return tuple(branch.args[0] for branch in node.branches)
    if isinstance(node, Weight):
        return (node.args[0], node.args[2])
    if isinstance(node, Select):
        return node.args[1:]
    if isinstance(node, Apply):
        return node.arguments
    if isinstance(node, Antiderivative):
        return (node.args[3],)
    if isinstance(node, Rotation):
        return (node.args[0],)
    if isinstance(node, AllOf):
        return ()
    return node.args if isinstance(node, (Add, Mul, Pow)) else ()


def _contributions(node: Expr, adjoint: Expr, active: set[Expr]) -> list[tuple[Expr, Expr, tuple[IndexSymbol, ...]]]:
    """What `node` with this adjoint sends to each active argument: (argument, coefficient, indices `node` binds)."""
    out: list[tuple[Expr, Expr, tuple[IndexSymbol, ...]]] = []

    def send(child: Expr, coefficient: Expr, bound: tuple[IndexSymbol, ...] = ()) -> None:
        if child in active:
            out.append((child, coefficient, bound))

    match node:
        case Add():
            for child in node.args:
                send(child, adjoint)
        case Mul():
            for n, child in enumerate(node.args):
                if child in active:
                    send(child, Mul(adjoint, *node.args[:n], *node.args[n + 1 :]))
        case Pow():
            base, exponent = node.args
            send(base, adjoint * exponent * Pow(base, exponent - 1))
        case Apply():
            partials = ELEMENTWISE[node.function].derivative(*node.arguments)
            for child, partial in zip(node.arguments, partials, strict=True):
                send(child, adjoint * partial)
        case Antiderivative():
            _, argument, integrand, operand = node.args
            send(operand, adjoint * replace_atoms(integrand, {argument: operand}))
        case Select():
            condition, then, otherwise = node.args
            send(then, Select(condition, adjoint, ZERO))
            send(otherwise, Select(condition, ZERO, adjoint))
        case Sum():
            body, condition, bound = node.args
            # The mask travels with the coefficient, as a factor that keeps every later product zero off it.
            send(body, adjoint * condition, tuple(bound))
        case LogSumExp():
            safe = LogSumExp(node.args[0].func("zero"), *node.branches)
            for branch in node.branches:
                exponent, condition, bound = branch.args
                send(exponent, adjoint * Weight(exponent, condition, safe), tuple(bound))
        case Weight():
            exponent, condition, normaliser = node.args
            send(exponent, adjoint * node)
            send(normaliser, -adjoint * node)
        case Maximum():
            body, condition, bound = node.args
            send(body, adjoint * FirstMaximum(body, condition, bound), tuple(bound))
        case Rotation():
            body, inner, outer, position, base, direction = node.args
            back = Rotation(adjoint, outer, inner, position, base, -direction)
            send(body, back, (inner,))
        case _:
            raise AssertionError(type(node))
    return out
