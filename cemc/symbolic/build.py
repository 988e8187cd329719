"""Typed energy -> index notation.

Every tensor expression becomes a scalar expression of the index symbols of its axes; `A @ u` at `p` is a Sum over a
fresh `q` of `A[p, q] u[q]`. Binders are always fresh. Log-sum-exp is spotted here in its naive spellings, before
anything is differentiated, so that no later stage ever sees the unstable form."""

from __future__ import annotations

from collections.abc import Mapping

from sympy import Add, Integer, Mul, Rational
from sympy.core.containers import Tuple

from cemc.notation.nodes import (
    ONE,
    Antiderivative,
    ArgumentSymbol,
    AxisSize,
    Branch,
    ConstantSymbol,
    Entry,
    Expr,
    Held,
    IndexSymbol,
    LogSumExp,
    Maximum,
    Rotation,
    Select,
    Weight,
    apply,
    entry,
    subscript,
    sum_over,
    unique,
    word,
)
from cemc.notation.walk import is_plain, substitute
from cemc.semantics import typed
from cemc.symbolic import conditions, exponentials
from cemc.symbolic.power import power
from cemc.symbolic.tables import Origin, Table, Tables

At = tuple[Expr, ...]

_DEFAULT_EPS = Rational(1, 10**6)
_ROPE_BASE = Integer(10000)


class Scope:
    """What index variables and function arguments stand for, and what was built under that."""

    def __init__(self, indices: Mapping[int, Expr], arguments: Mapping[str, Expr]) -> None:
        self.indices = dict(indices)
        self.arguments = dict(arguments)
        self.built: dict[tuple[int, At, bool], Expr] = {}
        # Keeps typed expressions alive while their ids are keys.
        self.alive: list[typed.Expr] = []

    def with_indices(self, more: Mapping[int, Expr]) -> Scope:
        return Scope({**self.indices, **more}, self.arguments)


class Builder:
    """Builds the tables of one energy. `gradient` is set by the caller that knows how to differentiate."""

    def __init__(self, energy: typed.Energy) -> None:
        self.energy = energy
        self.tables = Tables()
        self._raw: dict[str, str] = {}
        # Values of functions: one that calls another twice, which calls another twice, is not to be unfolded as a tree.
        self._functions: dict[tuple[object, ...], Expr] = {}
        self.written: dict[str, typed.Definition] = {}
        self.exponentials: dict[str, int] = {}
        """How many each definition is a sum of, as far as known: see `exponentials`."""
        for definition in energy.definitions.values():
            self.define(definition, "definition")

    # ---------------------------------------------------------------------------------------------- tables

    def define(self, definition: typed.Definition, origin: Origin) -> Table:
        """The table of a definition; its indices are the definition's and one for each axis of its shape."""
        self.written[definition.name] = definition
        return self.tables.add(self._table(definition.name, definition, origin, raw=False))

    def _table(self, name: str, definition: typed.Definition, origin: Origin, raw: bool) -> Table:
        scope, indices = self.open(definition.indices, definition.body.shape)
        body = self.scalar(definition.body, indices[len(definition.indices) :], scope, raw)
        return Table(name, indices, body, origin, definition.name)

    def open(
        self, variables: tuple[typed.Index, ...], shape: tuple[typed.Axis, ...]
    ) -> tuple[Scope, tuple[IndexSymbol, ...]]:
        """Fresh symbols for index variables and for the axes of a shape, and the scope in which the former stand."""
        outer = tuple(self.tables.index(variable.name, variable.axis.name) for variable in variables)
        inner = self._fresh(shape)
        return Scope({v.number: s for v, s in zip(variables, outer, strict=True)}, {}), outer + inner

    def _fresh(self, shape: tuple[typed.Axis, ...]) -> tuple[IndexSymbol, ...]:
        return tuple(self.tables.index("", axis.name) for axis in shape)

    def vector(self, expr: typed.Expr, scope: Scope) -> Vector:
        """A vector expression that will be read at several points: named first, unless it is an entry anyway."""
        axis = expr.shape[0].name
        point = self.tables.index("", axis)
        body = self.scalar(expr, (point,), scope)
        if not isinstance(body, Entry):
            body = entry((table := self.tables.anonymous(body, (point,))).name, table.indices)
        return Vector(self, body, point)

    # ----------------------------------------------------------------------------------------- expressions

    def scalar(self, expr: typed.Expr, at: At, scope: Scope, raw: bool = False) -> Expr:
        """The entry of `expr` at the subscripts `at`, one for each axis of its shape.

        `raw`: the value stands, itself or plus finite terms, inside exp, log-sum-exp or the log of a sum, where an
        empty log-sum-exp is minus infinity."""
        key = (id(expr), at, raw)
        found = scope.built.get(key)
        if found is None:
            found = unique(self._build(expr, at, scope, raw))
            scope.built[key] = found
            scope.alive.append(expr)
        return found

    def _build(self, expr: typed.Expr, at: At, scope: Scope, raw: bool) -> Expr:
        match expr:
            case typed.Number():
                return Rational(expr.value.numerator, expr.value.denominator)
            case typed.Size():
                return AxisSize(expr.name)
            case typed.ConstantRef():
                return ConstantSymbol(expr.name)
            case typed.Argument():
                return scope.arguments[expr.name]
            case typed.Position():
                return scope.indices[expr.index.number]
            case typed.Access():
                subscripts = self.subscripts(expr.subscripts, self.axes(expr.name), scope) + at
                return entry(self._raw_name(expr.name) if raw else expr.name, subscripts)
            case typed.Subscripted():
                return self._subscripted(expr, at, scope, raw)
            case typed.Negative():
                return -self.scalar(expr.operand, at, scope)
            case typed.Binary():
                return self._binary(expr, at, scope, raw)
            case typed.MatMul():
                return self._matmul(expr, at, scope)
            case typed.Transpose():
                return self.scalar(expr.operand, (at[1], at[0]), scope)
            case typed.Call():
                return self._call(expr, at, scope, raw)
            case typed.UserCall():
                values = [self.broadcast(a, at, scope) for a in expr.arguments]
                return self.function(expr.function, values)
            case typed.Integral():
                return self._integral(expr, at, scope)
            case typed.Where():
                return Select(
                    conditions.condition(self, expr.condition, scope),
                    self.broadcast(expr.then, at, scope),
                    self.broadcast(expr.otherwise, at, scope),
                )
            case typed.Held():
                value = self.scalar(expr.operand, at, scope, raw)
                return value if value.is_Rational else Held(word(expr.kind), value)
            case typed.Reduction():
                return self._reduction(expr, at, scope, raw)
            case typed.Gradient():
                return entry(self.gradient(expr), self.subscripts(expr.subscripts, self.axes(expr.wrt), scope) + at)
        raise AssertionError(type(expr))

    def gradient(self, expr: typed.Gradient) -> str:
        """The name of the table of a gradient; `cemc.symbolic.update` says how."""
        raise AssertionError("a gradient outside the update block")

    def at_points(self, variables: tuple[typed.Index, ...], points: At) -> Scope:
        """The scope in which index variables stand for `points`."""
        return Scope({v.number: p for v, p in zip(variables, points, strict=True)}, {})

    def broadcast(self, expr: typed.Expr, at: At, scope: Scope, raw: bool = False) -> Expr:
        """An operand of an element-wise operation: a scalar is the same at every entry."""
        return self.scalar(expr, at if expr.shape else (), scope, raw)

    def _raw_name(self, name: str) -> str:
        """The table in which empty log-sum-exps of definition `name` are minus infinity; `name` where that is no
        other."""
        definition = self.written.get(name)
        if definition is None:
            return name
        if name not in self._raw:
            self._raw[name] = name
            table = self._table(self.tables.fresh_name(name), definition, "definition", raw=True)
            if any(isinstance(node, LogSumExp) for node in _top_terms(table.body)) or _reads_raw(table.body, self._raw):
                self._raw[name] = self.tables.add(table).name
        return self._raw[name]

    def subscripts(self, subscripts: tuple[typed.Expr, ...], axes: tuple[str, ...], scope: Scope) -> At:
        values = (self.scalar(each, (), scope) for each in subscripts)
        return tuple(subscript(value, axis) for value, axis in zip(values, axes, strict=False))

    def _subscripted(self, expr: typed.Subscripted, at: At, scope: Scope, raw: bool) -> Expr:
        subscripts = self.subscripts(expr.subscripts, tuple(axis.name for axis in expr.base.shape), scope)
        if all(is_plain(s) for s in subscripts):
            return self.scalar(expr.base, subscripts + at, scope, raw)
        # A computed subscript reads 0 outside the axis, so the whole base has to be a table.
        inner = self._fresh(expr.base.shape)
        table = self.tables.anonymous(self.scalar(expr.base, inner, scope, raw), inner)
        rest = table.indices[: len(table.indices) - len(inner)]
        return entry(table.name, rest + subscripts + at)

    def _binary(self, expr: typed.Binary, at: At, scope: Scope, raw: bool) -> Expr:
        # Chains are collected in a loop: a sum of ten thousand terms is no deeper than one of two.
        if expr.operator in "+-":
            terms: list[Expr] = []
            node: typed.Expr = expr
            while isinstance(node, typed.Binary) and node.operator in "+-":
                if node.operator == "+":
                    terms.append(self.broadcast(node.right, at, scope, raw))
                else:
                    terms.append(-self.broadcast(node.right, at, scope))
                node = node.left
            terms.append(self.broadcast(node, at, scope, raw))
            return Add(*reversed(terms))
        if expr.operator in "*/":
            factors: list[Expr] = []
            node = expr
            while isinstance(node, typed.Binary) and node.operator in "*/":
                right = self.broadcast(node.right, at, scope)
                factors.append(right if node.operator == "*" else power(right, Integer(-1)))
                node = node.left
            factors.append(self.broadcast(node, at, scope))
            return Mul(*reversed(factors))
        return power(self.broadcast(expr.left, at, scope), self.broadcast(expr.right, at, scope))

    def _matmul(self, expr: typed.MatMul, at: At, scope: Scope) -> Expr:
        inner = self.tables.index("", expr.right.shape[0].name)
        split = len(expr.left.shape) - 1
        left = self.scalar(expr.left, (*at[:split], inner), scope)
        right = self.scalar(expr.right, (inner, *at[split:]), scope)
        return sum_over(left * right, ONE, (inner,))

    def _integral(self, expr: typed.Integral, at: At, scope: Scope) -> Expr:
        operand = self.broadcast(expr.operand, at, scope)
        # One argument for each function: an integrand may contain integrals of others, never of itself.
        argument = ArgumentSymbol(f"argument of {expr.function}")
        return Antiderivative(word(expr.function), argument, self.function(expr.function, [argument]), operand)

    def function(self, name: str, arguments: list[Expr]) -> Expr:
        """An element-wise function, of the language or of the energy, of scalar expressions."""
        function = self.energy.functions.get(name)
        if function is not None:
            key = (name, *arguments)
            if key not in self._functions:
                inner = Scope({}, dict(zip(function.arguments, arguments, strict=True)))
                self._functions[key] = self.scalar(function.body, (), inner)
            return self._functions[key]
        if name == "square":
            return power(arguments[0], Integer(2))
        return apply(name, *arguments)

    # ------------------------------------------------------------------------------------- built-in functions

    def _call(self, expr: typed.Call, at: At, scope: Scope, raw: bool) -> Expr:
        name, arguments = expr.function, expr.arguments
        if name == "log" and (stable := exponentials.logarithm(self, arguments[0], at, scope, raw)) is not None:
            return stable
        if name in ("exp", "log"):
            return apply(name, self.broadcast(arguments[0], at, scope, raw=name == "exp"))
        if name == "dot":
            inner = self.tables.index("", arguments[0].shape[0].name)
            left, right = (self.scalar(a, (inner,), scope) for a in arguments)
            return sum_over(left * right, ONE, (inner,))
        if name == "norm2":
            inner = self.tables.index("", arguments[0].shape[0].name)
            return sum_over(power(self.scalar(arguments[0], (inner,), scope), Integer(2)), ONE, (inner,))
        if name == "outer":
            return self.scalar(arguments[0], at[:1], scope) * self.scalar(arguments[1], at[1:], scope)
        if name == "rope":
            return self._rope(arguments, at, scope)
        if name in ("softmax", "rmsnorm", "layernorm", "normalize"):
            return self._of_vector(name, arguments, at, scope)
        if name in ("sum", "mean", "logsumexp") or (name == "max" and len(arguments) == 1):
            return self.vector_reduction(name, arguments[0], scope, raw)
        return self.function(name, [self.broadcast(a, at, scope) for a in arguments])

    def vector_reduction(self, name: str, argument: typed.Expr, scope: Scope, raw: bool) -> Expr:
        inner = self.tables.index("", argument.shape[0].name)
        body = self.scalar(argument, (inner,), scope, raw=name == "logsumexp")
        if name == "sum":
            return sum_over(body, ONE, (inner,))
        if name == "mean":
            return sum_over(body, ONE, (inner,)) / AxisSize(inner.axis)
        if name == "max":
            return Maximum(self.scores(body), ONE, Tuple(inner))
        return LogSumExp(word("minus infinity" if raw else "zero"), Branch(self.scores(body), ONE, Tuple(inner)))

    def scores(self, body: Expr) -> Expr:
        """What a log-sum-exp or maximum runs over, under a name: its derivative reads the same values again."""
        if isinstance(body, Entry) or not self.tables.free(body):
            return body
        table = self.tables.anonymous(body, hint="scores")
        return entry(table.name, table.indices)

    def _of_vector(self, name: str, arguments: tuple[typed.Expr, ...], at: At, scope: Scope) -> Expr:
        u = self.vector(arguments[0], scope)
        inner = self.tables.index("", arguments[0].shape[0].name)
        size = AxisSize(inner.axis)
        if name == "softmax":
            normaliser = LogSumExp(word("zero"), Branch(u[inner], ONE, Tuple(inner)))
            return Weight(u[at[0]], ONE, normaliser)
        eps = self.scalar(arguments[1], (), scope) if len(arguments) > 1 else _DEFAULT_EPS
        if name == "normalize":
            return u[at[0]] * apply("rsqrt", sum_over(u[inner] ** 2, ONE, (inner,)) + eps)
        if name == "rmsnorm":
            return u[at[0]] * apply("rsqrt", sum_over(u[inner] ** 2, ONE, (inner,)) / size + eps)
        centre = self.tables.index("", inner.axis)
        mean = sum_over(u[centre], ONE, (centre,)) / size
        centred = Vector.of(self, u[inner] - mean, inner)
        again = self.tables.index("", inner.axis)
        return centred[at[0]] * apply("rsqrt", sum_over(centred[again] ** 2, ONE, (again,)) / size + eps)

    def _rope(self, arguments: tuple[typed.Expr, ...], at: At, scope: Scope) -> Expr:
        axis = arguments[0].shape[0].name
        inner, outer = self.tables.index("", axis), self.tables.index("", axis)
        body = self.scalar(arguments[0], (inner,), scope)
        position = self.scalar(arguments[1], (), scope)
        base = self.scalar(arguments[2], (), scope) if len(arguments) > 2 else _ROPE_BASE
        table = self.tables.anonymous(Rotation(body, inner, outer, position, base, ONE), (outer,))
        return entry(table.name, (*table.indices[:-1], at[0]))

    # ------------------------------------------------------------------------------------------- reductions

    def bind(
        self, indices: tuple[typed.Index, ...], condition: typed.Condition | None, scope: Scope
    ) -> tuple[Scope, tuple[IndexSymbol, ...], Expr]:
        symbols = tuple(self.tables.index(index.name, index.axis.name) for index in indices)
        inner = scope.with_indices({i.number: s for i, s in zip(indices, symbols, strict=True)})
        return inner, symbols, ONE if condition is None else conditions.condition(self, condition, inner)

    def _reduction(self, expr: typed.Reduction, at: At, scope: Scope, raw: bool) -> Expr:
        inner, symbols, condition = self.bind(expr.indices, expr.condition, scope)
        body = self.scalar(expr.body, at, inner, raw=expr.kind == "logsumexp")
        if expr.kind == "sum":
            return sum_over(body, condition, symbols)
        if expr.kind == "mean":
            return sum_over(body, condition, symbols) / self.count(condition, symbols)
        if expr.kind == "max":
            return Maximum(self.scores(body), condition, Tuple(*symbols))
        branch = Branch(self.scores(body), condition, Tuple(*symbols))
        return LogSumExp(word("minus infinity" if raw else "zero"), branch)

    def count(self, condition: Expr, symbols: tuple[IndexSymbol, ...]) -> Expr:
        """How many tuples of `symbols` the condition allows, at least 1 (an empty mean is 0)."""
        if condition == ONE:
            # An axis may be of length 0; its sum is then 0, and 0 / 1 is the mean that is wanted.
            return Mul(*(apply("at_least_one", AxisSize(symbol.axis)) for symbol in symbols))
        fresh = {symbol: self.tables.index(symbol.name, symbol.axis) for symbol in symbols}
        condition = substitute(condition, fresh, self.tables.free)
        return apply("at_least_one", sum_over(ONE, condition, tuple(fresh.values())))

    def axes(self, name: str) -> tuple[str, ...]:
        """Axis names of a declared tensor or table."""
        if name in self.tables:
            return tuple(symbol.axis for symbol in self.tables[name].indices)
        return tuple(axis.name for axis in self.energy.axes_of(name))


class Vector:
    """A vector in index notation that can be read at any index of its axis."""

    def __init__(self, builder: Builder, body: Expr, point: IndexSymbol) -> None:
        self._builder, self._body, self._point = builder, body, point

    @classmethod
    def of(cls, builder: Builder, body: Expr, point: IndexSymbol) -> Vector:
        """The vector with components body(point), under a name of its own."""
        table = builder.tables.anonymous(body, (point,))
        return cls(builder, entry(table.name, table.indices), point)

    def __getitem__(self, at: Expr) -> Expr:
        return substitute(self._body, {self._point: at}, self._builder.tables.free)


def _top_terms(expr: Expr) -> list[Expr]:
    """The terms of a sum, looking into held values."""
    terms: list[Expr] = []
    for term in expr.args if expr.is_Add else (expr,):
        terms.extend(_top_terms(term.value) if isinstance(term, Held) else [term])
    return terms


def _reads_raw(expr: Expr, raw: Mapping[str, str]) -> bool:
    others = {other for name, other in raw.items() if other != name}
    return any(getattr(term, "name", None) in others for term in _top_terms(expr))
