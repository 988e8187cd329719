"""Normal form: sums of products, each over one set of indices, under one mask.

- Tables that only the compiler named are written into their users where that costs nothing.
- Nested sums of products become one sum (a contraction, whose order is chosen later); factors that do not depend on
  what is summed stand outside; a sum of terms becomes terms of sums.
- A truth in a product becomes the condition of a sum or a `Select`, so that what it masks is selected, never
multiplied by 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from sympy import Add, Mul, Pow
from sympy.core.basic import Basic
from sympy.core.containers import Tuple

from cemc.notation.nodes import (
    ONE,
    TRUTHS,
    ZERO,
    Apply,
    AxisSize,
    Compare,
    Entry,
    Expr,
    IndexSymbol,
    Rotation,
    Select,
    Sum,
    Weight,
    all_of,
    bound_indices,
    compare,
    conjuncts,
    entry,
    unique,
)
from cemc.notation.walk import factors_of, postorder, rebuild, substitute, terms_of
from cemc.symbolic.tables import Tables

_ABOVE_ZERO = compare("<", ZERO, ONE).args[:2]
_NO_NAMES: Mapping[Basic, Basic] = MappingProxyType({})


def normalise(tables: Tables, roots: Iterable[str]) -> None:
    """Brings every table that `roots` need into normal form, in place."""
    order = reachable(tables, roots)
    uses = Counter(use.name for name in order for use in _occurrences(tables[name].body))
    for name in order:
        table = tables[name]
        body = _Normaliser(tables, uses).run(table.body)
        tables.replace(replace(table, body=_renumbered(body, tables, {})))


def reachable(tables: Tables, roots: Iterable[str]) -> list[str]:
    """The tables that `roots` need, themselves included, each after those it uses."""
    order: list[str] = []
    seen: set[str] = set()
    stack = [(name, False) for name in reversed(list(roots))]
    while stack:
        name, ready = stack.pop()
        if ready:
            order.append(name)
        elif name not in seen and name in tables:
            seen.add(name)
            stack.append((name, True))
            stack.extend((use.name, False) for use in reversed(tables.uses(tables[name].body)))
    return order


def _occurrences(expr: Expr) -> list[Entry]:
    """Entries in `expr`, once for each node that has them as an argument."""
    found = [expr] if isinstance(expr, Entry) else []
    for node in postorder(expr):
        found.extend(child for child in node.args if isinstance(child, Entry))
    return found


def is_light(expr: Expr) -> bool:
    """Whether writing `expr` out twice costs nothing: a product of entries, weights and numbers, nothing summed
    here."""
    return all(
        isinstance(factor, (Entry, Weight)) or not factor.args or (factor.is_Pow and not factor.args[0].args)
        for factor in factors_of(expr)
    )


def _renumbered(
    node: Basic,
    tables: Tables,
    known: dict[tuple[Basic, tuple[Basic, ...]], Basic],
    mapping: Mapping[Basic, Basic] = _NO_NAMES,
) -> Basic:
    """`node` with every bound index symbol replaced by a younger one, outer binders first. Dimensions are laid out by
    age, so what is bound lies inside what is free, and equal expressions become equal tensors wherever they stand."""
    free = tables.free(node)
    inner = {symbol: new for symbol, new in mapping.items() if symbol in free}
    key = (node, tuple(part for pair in inner.items() for part in pair))
    if key not in known:
        if isinstance(node, IndexSymbol):
            known[key] = inner.get(node, node)
        else:
            fresh = {symbol: tables.index(symbol.name, symbol.axis) for symbol in bound_indices(node)}
            args = tuple(_renumbered(child, tables, known, {**inner, **fresh}) for child in node.args)
            known[key] = rebuild(node, args)
    return known[key]


class _Normaliser:
    """Normalises one body."""

    def __init__(self, tables: Tables, uses: Counter[str]) -> None:
        self._tables, self._free, self._uses = tables, tables.free, uses
        self._known: dict[Basic, Basic] = {}
        self._shared: set[Basic] = set()

    def run(self, body: Expr) -> Expr:
        parents = Counter(child for node in postorder(body) for child in node.args if isinstance(child, Sum))
        for node in postorder(body):
            new = unique(self._step(node, tuple(self._known[child] for child in node.args)))
            if parents[node] > 1:
                # Merging a shared sum into each of its users would compute it several times.
                self._shared.add(new)
            self._known[node] = new
        return self._known[body]

    def _step(self, node: Basic, args: tuple[Basic, ...]) -> Basic:
        if isinstance(node, Entry):
            return self._entry(rebuild(node, args))
        if isinstance(node, Sum):
            return self.sum(args[0], args[1], tuple(args[2]))
        if isinstance(node, Rotation):
            return self._rotation(args)
        if isinstance(node, Mul):
            return _product(args)
        if isinstance(node, Pow) and isinstance(args[0], TRUTHS):
            return args[0]
        if isinstance(node, Select):
            return _select(*args)
        return rebuild(node, args)

    def _entry(self, use: Entry) -> Expr:
        if use.name not in self._tables:
            return use
        table = self._tables[use.name]
        plain = all(isinstance(s, IndexSymbol) for s in use.subscripts) and len(set(use.subscripts)) == len(
            use.subscripts
        )
        if table.body.is_Rational:
            return table.body if plain else use
        if table.origin not in ("anonymous", "adjoint"):
            return use
        if isinstance(table.body, Entry) and set(table.body.subscripts) == set(table.indices):
            # Another name for the entries of another table, which read 0 in the same places.
            places = dict(zip(table.indices, use.subscripts, strict=True))
            return entry(table.body.name, tuple(places[s] for s in table.body.subscripts))
        if not plain:
            return use
        if self._uses[table.name] > 1 and not is_light(table.body):
            return use
        return substitute(table.body, dict(zip(table.indices, use.subscripts, strict=True)), self._free)

    def _rotation(self, args: tuple[Basic, ...]) -> Expr:
        """A rotation is linear: numbers stand before it."""
        factors = factors_of(args[0])
        numbers = [f for f in factors if not f.args or (f.is_Pow and not f.args[0].args)]
        numbers = [f for f in numbers if not self._free(f)]
        rest = Mul(*(f for f in factors if f not in numbers))
        return Mul(*numbers, Rotation(rest, *args[1:]))

    # ---------------------------------------------------------------------------------------------- sums

    def sum(self, body: Expr, condition: Expr, indices: tuple[IndexSymbol, ...]) -> Expr:
        """Normal form of a sum whose body is in normal form."""
        return Add(*(self._sum_of_product(term, condition, indices) for term in terms_of(body)))

    def _sum_of_product(self, term: Expr, condition: Expr, indices: tuple[IndexSymbol, ...]) -> Expr:
        factors: list[Expr] = []
        truths = list(conjuncts(condition))
        bound = list(indices)
        self._collect(term, factors, truths, bound)
        factors, truths, bound = self._contract(factors, truths, bound)
        # What a weight is zero outside of need not be said again.
        said = {part for f in factors if isinstance(f, Weight) for part in conjuncts(f.args[1])}
        truths = [t for t in _needed(list(dict.fromkeys(truths)), factors) if t not in said]
        outside, factors = self._split(factors, bound)
        outer_truths, truths = self._split(truths, bound)
        free = frozenset[IndexSymbol]().union(*(self._free(e) for e in (*factors, *truths)))
        outside.extend(AxisSize(s.axis) for s in bound if s not in free)
        kept = tuple(s for s in bound if s in free)
        inner = Mul(*factors)
        if inner == ZERO:
            return ZERO
        if kept:
            inner = Sum(inner, all_of(*truths), Tuple(*kept))
        elif truths:
            inner = Select(all_of(*truths), inner, ZERO)
        return _product((*outer_truths, *outside, inner))

    def _split(self, parts: list[Expr], bound: list[IndexSymbol]) -> tuple[list[Expr], list[Expr]]:
        inside = [p for p in parts if self._free(p).intersection(bound)]
        return [p for p in parts if not self._free(p).intersection(bound)], inside

    def _collect(self, term: Expr, factors: list[Expr], truths: list[Expr], bound: list[IndexSymbol]) -> None:
        """Takes a product apart, into sums that are factors of it and masked factors."""
        for factor in factors_of(term):
            if isinstance(factor, TRUTHS):
                truths.extend(conjuncts(factor))
            elif isinstance(factor, Select) and factor.args[2] == ZERO:
                truths.extend(conjuncts(factor.args[0]))
                self._collect(factor.args[1], factors, truths, bound)
            elif isinstance(factor, Sum) and factor not in self._shared:
                body, condition, inner = self._renamed(factor)
                bound.extend(inner)
                truths.extend(conjuncts(condition))
                self._collect(body, factors, truths, bound)
            else:
                factors.append(factor)

    def _renamed(self, node: Sum) -> tuple[Expr, Expr, tuple[IndexSymbol, ...]]:
        """The parts of an inner sum under index symbols of their own."""
        body, condition, inner = node.args
        fresh = {s: self._tables.index(s.name, s.axis) for s in inner}
        return (
            substitute(body, fresh, self._free),
            substitute(condition, fresh, self._free),
            tuple(fresh[s] for s in inner),
        )

    def _contract(
        self, factors: list[Expr], truths: list[Expr], bound: list[IndexSymbol]
    ) -> tuple[list[Expr], list[Expr], list[IndexSymbol]]:
        """Removes sums over an index that a truth says equals another."""
        for truth in list(truths):
            if not (isinstance(truth, Compare) and truth.operator == "=="):
                continue
            for symbol, other in (truth.args[1:], truth.args[:0:-1]):
                if symbol in bound and isinstance(other, IndexSymbol) and symbol.axis == other.axis and symbol != other:
                    bound = [s for s in bound if s != symbol]
                    mapping = {symbol: other}
                    factors = [substitute(f, mapping, self._free) for f in factors]
                    truths = [substitute(t, mapping, self._free) for t in truths if t != truth]
                    return self._contract(factors, truths, bound)
        return factors, truths, bound


def _product(parts: tuple[Basic, ...]) -> Expr:
    """A product; truths and masked factors in it become one Select round the rest."""
    truths: list[Expr] = []
    factors: list[Expr] = []
    stack = list(reversed(parts))
    while stack:
        part = stack.pop()
        if isinstance(part, Mul):
            stack.extend(reversed(part.args))
        elif isinstance(part, TRUTHS):
            truths.extend(conjuncts(part))
        elif isinstance(part, Select) and part.args[2] == ZERO:
            truths.extend(conjuncts(part.args[0]))
            stack.append(part.args[1])
        else:
            factors.append(part)
    return _select(all_of(*_needed(truths, factors)), Mul(*factors), ZERO)


def _needed(truths: list[Expr], factors: list[Expr]) -> list[Expr]:
    """The truths of a product that its factors do not say anyway: a power of relu(u) is 0 unless 0 < u."""
    bases = {f.args[0] if f.is_Pow and f.args[1].is_positive else f for f in factors}
    rectified = {f.arguments[0] for f in bases if isinstance(f, Apply) and f.function == "relu"}
    return [t for t in truths if not (isinstance(t, Compare) and t.args[:2] == _ABOVE_ZERO and t.args[2] in rectified)]


def _select(condition: Basic, then: Basic, otherwise: Basic) -> Expr:
    if condition == ONE or then == otherwise:
        return then
    if isinstance(then, Select) and then.args[2] == otherwise:
        return Select(all_of(*conjuncts(condition), *conjuncts(then.args[0])), then.args[1], otherwise)
    return Select(condition, then, otherwise)
