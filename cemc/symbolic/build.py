"""Typed energy -> index notation.

Every tensor expression becomes a scalar expression of the index symbols of its axes; `A @ u` at `p` is a Sum over a
fresh `q` of `A[p, q] u[q]`. Binders are always fresh. Log-sum-exp is spotted here in its naive spellings, before
anything is differentiated, so that no later stage ever sees the unstable form."""

from __future__ import annotations

from collections.abc import Mapping

from sympy import Add, Integer, Mul, Pow, Rational
from sympy.core.containers import Tuple

from cemc.notation.nodes import (
    ONE,
    ZERO,
    Antiderivative,
    AnyOf,
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
    all_of,
    apply,
    compare,
    entry,
    negation,
    subscript,
    sum_over,
    unique,
    word,
)
from cemc.notation.walk import is_plain, substitute
from cemc.operations import ELEMENTWISE
from cemc.semantics import typed
from cemc.symbolic.tables import Table, Tables

At = tuple[Expr, ...]

_DEFAULT_EPS = Rational(1, 10**6)
_ROPE_BASE = Integer(10000)
# Powers of numbers beyond this many bits are left to floating point (a tower of exponents must not hang).
_FOLDED_BITS = 256
# Integer powers up to this are SymPy's; larger ones are a function call like any other.
_LARGEST_POWER = 32


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
        self._typed: dict[str, typed.Definition] = {}
        for definition in energy.definitions.values():
            self.define(definition, "definition")

    # ---------------------------------------------------------------------------------------------- tables

    def define(self, definition: typed.Definition, origin: str) -> Table:
        """The table of a definition; its indices are the definition's and one for each axis of its shape."""
        self._typed[definition.name] = definition
        return self.tables.add(self._table(definition.name, definition, origin, raw=False))

    def _table(self, name: str, definition: typed.Definition, origin: str, raw: bool) -> Table:
        scope, indices = self.open(definition.indices, definition.body.shape)
        body = self.scalar(definition.body, indices[len(definition.indices) :], scope, raw)
        return Table(name, indices, body, origin, definition.name)  # type: ignore[arg-type]

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
                subscripts = self._subscripts(expr.subscripts, self.axes(expr.name), scope) + at
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
                values = [self._broadcast(a, at, scope) for a in expr.arguments]
                return self.function(expr.function, values)
            case typed.Integral():
                return self._integral(expr, at, scope)
            case typed.Where():
                return Select(
                    self.condition(expr.condition, scope),
                    self._broadcast(expr.then, at, scope),
                    self._broadcast(expr.otherwise, at, scope),
                )
            case typed.Held():
                value = self.scalar(expr.operand, at, scope, raw)
                return value if value.is_Rational else Held(word(expr.kind), value)
            case typed.Reduction():
                return self._reduction(expr, at, scope, raw)
            case typed.Gradient():
                return entry(self.gradient(expr), self._subscripts(expr.subscripts, self.axes(expr.wrt), scope) + at)
        raise AssertionError(type(expr))

    def gradient(self, expr: typed.Gradient) -> str:
        """The name of the table of a gradient; `cemc.symbolic.update` says how."""
        raise AssertionError("a gradient outside the update block")

    def _broadcast(self, expr: typed.Expr, at: At, scope: Scope, raw: bool = False) -> Expr:
        """An operand of an element-wise operation: a scalar is the same at every entry."""
        return self.scalar(expr, at if expr.shape else (), scope, raw)

    def _raw_name(self, name: str) -> str:
        """The table in which empty log-sum-exps of definition `name` are minus infinity; `name` where that is no
        other."""
        definition = self._typed.get(name)
        if definition is None:
            return name
        if name not in self._raw:
            self._raw[name] = name
            table = self._table(self.tables.fresh_name(name), definition, "definition", raw=True)
            if any(isinstance(node, LogSumExp) for node in _top_terms(table.body)) or _reads_raw(table.body, self._raw):
                self._raw[name] = self.tables.add(table).name
        return self._raw[name]

    def _subscripts(self, subscripts: tuple[typed.Expr, ...], axes: tuple[str, ...], scope: Scope) -> At:
        values = (self.scalar(each, (), scope) for each in subscripts)
        return tuple(subscript(value, axis) for value, axis in zip(values, axes, strict=False))

    def _subscripted(self, expr: typed.Subscripted, at: At, scope: Scope, raw: bool) -> Expr:
        subscripts = self._subscripts(expr.subscripts, tuple(axis.name for axis in expr.base.shape), scope)
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
                    terms.append(self._broadcast(node.right, at, scope, raw))
                else:
                    terms.append(-self._broadcast(node.right, at, scope))
                node = node.left
            terms.append(self._broadcast(node, at, scope, raw))
            return Add(*reversed(terms))
        if expr.operator in "*/":
            factors: list[Expr] = []
            node = expr
            while isinstance(node, typed.Binary) and node.operator in "*/":
                right = self._broadcast(node.right, at, scope)
                factors.append(right if node.operator == "*" else power(right, Integer(-1)))
                node = node.left
            factors.append(self._broadcast(node, at, scope))
            return Mul(*reversed(factors))
        return power(self._broadcast(expr.left, at, scope), self._broadcast(expr.right, at, scope))

    def _matmul(self, expr: typed.MatMul, at: At, scope: Scope) -> Expr:
        inner = self.tables.index("", expr.right.shape[0].name)
        split = len(expr.left.shape) - 1
        left = self.scalar(expr.left, (*at[:split], inner), scope)
        right = self.scalar(expr.right, (inner, *at[split:]), scope)
        return sum_over(left * right, ONE, (inner,))

    def _integral(self, expr: typed.Integral, at: At, scope: Scope) -> Expr:
        operand = self._broadcast(expr.operand, at, scope)
        argument = ArgumentSymbol("z")
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
        if name == "log" and (branches := self._branches(arguments[0], at, scope)) is not None:
            return LogSumExp(word("minus infinity" if raw else "zero"), *branches)
        if name in ("exp", "log"):
            return apply(name, self._broadcast(arguments[0], at, scope, raw=name == "exp"))
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
            return self._vector_reduction(name, arguments[0], scope, raw)
        return self.function(name, [self._broadcast(a, at, scope) for a in arguments])

    def _vector_reduction(self, name: str, argument: typed.Expr, scope: Scope, raw: bool) -> Expr:
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

    def _bind(
        self, indices: tuple[typed.Index, ...], condition: typed.Condition | None, scope: Scope
    ) -> tuple[Scope, tuple[IndexSymbol, ...], Expr]:
        symbols = tuple(self.tables.index(index.name, index.axis.name) for index in indices)
        inner = scope.with_indices({i.number: s for i, s in zip(indices, symbols, strict=True)})
        return inner, symbols, ONE if condition is None else self.condition(condition, inner)

    def _reduction(self, expr: typed.Reduction, at: At, scope: Scope, raw: bool) -> Expr:
        inner, symbols, condition = self._bind(expr.indices, expr.condition, scope)
        body = self.scalar(expr.body, at, inner, raw=expr.kind == "logsumexp")
        if expr.kind == "sum":
            return sum_over(body, condition, symbols)
        if expr.kind == "mean":
            return sum_over(body, condition, symbols) / self._count(condition, symbols)
        if expr.kind == "max":
            return Maximum(self.scores(body), condition, Tuple(*symbols))
        branch = Branch(self.scores(body), condition, Tuple(*symbols))
        return LogSumExp(word("minus infinity" if raw else "zero"), branch)

    def _count(self, condition: Expr, symbols: tuple[IndexSymbol, ...]) -> Expr:
        """How many tuples of `symbols` the condition allows, at least 1 (an empty mean is 0)."""
        if condition == ONE:
            # An axis may be of length 0; its sum is then 0, and 0 / 1 is the mean that is wanted.
            return Mul(*(apply("at_least_one", AxisSize(symbol.axis)) for symbol in symbols))
        fresh = {symbol: self.tables.index(symbol.name, symbol.axis) for symbol in symbols}
        condition = substitute(condition, fresh, self.tables.free)
        return apply("at_least_one", sum_over(ONE, condition, tuple(fresh.values())))

    def _branches(self, expr: typed.Expr, at: At, scope: Scope) -> list[Expr] | None:
        """`expr` as a sum of exponentials: the branches of its logarithm; None if it is not one, or has no
        exponential."""
        branches = self._exponentials(expr, at if expr.shape else (), scope)
        if branches is None or not any(found for _, found in branches):
            return None
        return [Branch(self.scores(branch.args[0]), *branch.args[1:]) for branch, _ in branches]

    def _exponentials(self, expr: typed.Expr, at: At, scope: Scope) -> list[tuple[Branch, bool]] | None:
        """Branches, each with whether an exponential was seen in it (a positive number alone makes no log-sum-exp)."""
        match expr:
            case typed.Binary(operator="+"):
                left = self._exponentials(expr.left, at if expr.left.shape else (), scope)
                right = self._exponentials(expr.right, at if expr.right.shape else (), scope) if left else None
                return left + right if left and right else None
            case typed.Binary(operator="*" | "/"):
                if (product := self._product(expr, at, scope)) is not None:
                    return product
            case typed.Call(function="exp"):
                exponent = self._broadcast(expr.arguments[0], at, scope, raw=True)
                return [(Branch(exponent, ONE, Tuple()), True)]
            case typed.Call(function="sum"):
                inner = self.tables.index("", expr.arguments[0].shape[0].name)
                body = self._exponentials(expr.arguments[0], (inner,), scope)
                return body and [(_within(b, ONE, (inner,)), found) for b, found in body]
            case typed.Reduction(kind="sum" | "mean"):
                bound, symbols, condition = self._bind(expr.indices, expr.condition, scope)
                body = self._exponentials(expr.body, at, bound)
                if body and expr.kind == "mean":
                    count = self._count(condition, symbols)
                    body = [(_shifted(b, -apply("log", count)), found) for b, found in body]
                return body and [(_within(b, condition, symbols), found) for b, found in body]
            case typed.Held():
                body = self._exponentials(expr.operand, at, scope)
                return body and [
                    (Branch(Held(word(expr.kind), b.args[0]), b.args[1], b.args[2]), found) for b, found in body
                ]
            case typed.Access():
                definition = self._typed.get(expr.name)
                if definition is not None:
                    points = self._subscripts(expr.subscripts, self.axes(expr.name), scope) + at
                    if all(is_plain(point) for point in points):
                        n = len(definition.indices)
                        inside = Scope({v.number: p for v, p in zip(definition.indices, points[:n], strict=True)}, {})
                        found = self._exponentials(definition.body, points[n:], inside)
                        if found and any(seen for _, seen in found):
                            return found
        if self._positive(expr):
            return [(Branch(apply("log", self._broadcast(expr, at, scope)), ONE, Tuple()), False)]
        return None

    def _product(self, expr: typed.Binary, at: At, scope: Scope) -> list[tuple[Branch, bool]] | None:
        """exp(u) times or over something positive: its logarithm joins the exponent."""
        left_at, right_at = (at if side.shape else () for side in (expr.left, expr.right))
        for side, side_at, other, other_at in (
            (expr.left, left_at, expr.right, right_at),
            (expr.right, right_at, expr.left, left_at),
        ):
            if side is expr.right and expr.operator == "/":
                break
            body = self._exponentials(side, side_at, scope)
            if not body or not any(found for _, found in body):
                continue
            if isinstance(other, typed.Call) and other.function == "exp":
                shift = self._broadcast(other.arguments[0], at, scope, raw=expr.operator == "*")
            elif self._positive(other):
                shift = apply("log", self.scalar(other, other_at, scope))
            else:
                continue
            return [(_shifted(b, shift if expr.operator == "*" else -shift), found) for b, found in body]
        return None

    def _positive(self, expr: typed.Expr) -> bool:
        """Whether the value is positive whatever the arguments."""
        match expr:
            case typed.Number():
                return expr.value > 0
            case typed.Size():
                return True
            case typed.Access():
                parameter = self.energy.parameters.get(expr.name)
                # A computed subscript may read outside, which is 0.
                plain = all(isinstance(s, typed.Position) for s in expr.subscripts)
                return parameter is not None and parameter.positive and plain
            case typed.Call():
                record = ELEMENTWISE.get(expr.function)
                return record is not None and record.positive
            case typed.Binary(operator="+" | "*" | "/"):
                return self._positive(expr.left) and self._positive(expr.right)
            case typed.Binary(operator="^"):
                return self._positive(expr.left)
            case typed.Held():
                return self._positive(expr.operand)
        return False

    # ------------------------------------------------------------------------------------------- conditions

    def condition(self, condition: typed.Condition, scope: Scope) -> Expr:
        """A truth. A comparison that reads outside an axis, in a subscript of its own, is false."""
        if isinstance(condition, typed.And):
            return all_of(*(self.condition(c, scope) for c in condition.operands))
        if isinstance(condition, typed.Or):
            return AnyOf(*(self.condition(c, scope) for c in condition.operands))
        assert isinstance(condition, typed.Compare)
        left, right = self.scalar(condition.left, (), scope), self.scalar(condition.right, (), scope)
        inside = [truth for side in (condition.left, condition.right) for truth in self._inside(side, scope)]
        operator = condition.operator
        if operator in (">", ">="):
            operator, left, right = ("<" if operator == ">" else "<="), right, left
        return all_of(*inside, compare(operator, left, right))

    def _inside(self, expr: typed.Expr, scope: Scope) -> list[Expr]:
        """Truths that say that what stands in `expr` is read inside its axes. What a reduction reads at its own
        indices does not count, nor what a function is called with from outside."""
        match expr:
            case typed.Access() | typed.Subscripted() | typed.Gradient():
                if isinstance(expr, typed.Subscripted):
                    axes: tuple[str, ...] = tuple(axis.name for axis in expr.base.shape)
                    truths = self._inside(expr.base, scope)
                else:
                    axes = self.axes(expr.name if isinstance(expr, typed.Access) else expr.wrt)
                    truths = []
                places = self._subscripts(expr.subscripts, axes, scope)
                for written, place, axis in zip(expr.subscripts, places, axes, strict=False):
                    truths += self._inside(written, scope)
                    if not is_plain(place):
                        truths += [compare("<=", ZERO, place), compare("<", place, AxisSize(axis))]
                return truths
            case typed.Where():
                then, otherwise = self._inside(expr.then, scope), self._inside(expr.otherwise, scope)
                if not then and not otherwise:
                    return []
                holds = self.condition(expr.condition, scope)
                return [AnyOf(all_of(holds, *then), all_of(negation(holds), *otherwise))]
            case typed.Negative() | typed.Transpose() | typed.Held() | typed.Integral():
                return self._inside(expr.operand, scope)
            case typed.Binary() | typed.MatMul():
                return self._inside(expr.left, scope) + self._inside(expr.right, scope)
            case typed.Call() | typed.UserCall():
                return [truth for argument in expr.arguments for truth in self._inside(argument, scope)]
        return []

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


def power(base: Expr, exponent: Expr) -> Expr:
    """base ^ exponent, folded only where that is exact and small."""
    if exponent == ONE:
        return base
    if exponent.is_Integer and abs(int(exponent)) <= _LARGEST_POWER and not (base == ZERO and exponent <= 0):
        if exponent == ZERO:
            return ONE
        bits = (base.p.bit_length() + base.q.bit_length()) * abs(int(exponent)) if base.is_Rational else 0
        if bits <= _FOLDED_BITS:
            return Pow(base, exponent)
    return apply("pow", base, exponent)


def _within(branch: Branch, condition: Expr, indices: tuple[IndexSymbol, ...]) -> Branch:
    """The branch, summed over more indices."""
    return Branch(branch.args[0], all_of(condition, branch.args[1]), Tuple(*indices, *branch.args[2]))


def _shifted(branch: Branch, shift: Expr) -> Branch:
    return Branch(branch.args[0] + shift, *branch.args[1:])


def _top_terms(expr: Expr) -> list[Expr]:
    """The terms of a sum, looking into held values."""
    terms: list[Expr] = []
    for term in expr.args if expr.is_Add else (expr,):
        terms.extend(_top_terms(term.value) if isinstance(term, Held) else [term])
    return terms


def _reads_raw(expr: Expr, raw: Mapping[str, str]) -> bool:
    others = {other for name, other in raw.items() if other != name}
    return any(getattr(term, "name", None) in others for term in _top_terms(expr))
