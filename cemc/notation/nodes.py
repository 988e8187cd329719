"""SymPy expressions in index notation: classes of our own that never evaluate themselves.

Everything is a scalar. A tensor appears as `Entry(name, subscripts...)`; what varies over an axis says so by the index
symbols it contains. Plain SymPy `Sum`, `exp`, `Max`, `KroneckerDelta` and `Piecewise` are not used: they evaluate, ask
the assumption system, capture bound indices or drop masks (measured; see docs/architecture.md). Only `Add`, `Mul`,
`Pow` with an integer exponent, and `Rational` are SymPy's own.

Truths (`Compare`, `AllOf`, `AnyOf`) are expressions with value 0 or 1, so that a mask can stand in a product.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from sympy import Integer
from sympy.core.containers import Tuple
from sympy.core.expr import AtomicExpr, Expr
from sympy.core.symbol import Str

ONE = Integer(1)
ZERO = Integer(0)


@lru_cache(maxsize=1 << 17)
def unique(expr: Expr) -> Expr:
    """The first expression seen that equals `expr`.

    SymPy compares shared terms as trees, which takes exponential time unless equal terms are one object. So whatever
    is kept goes through here, from the leaves up."""
    return expr


class _Atom(AtomicExpr):
    """An atom with plain attributes; compared by them. Never zero, never a number, as far as SymPy is told."""

    is_commutative = True
    is_number = False
    __slots__ = ()
    fields: tuple[str, ...] = ()

    def __new__(cls, *values: Any) -> Any:
        self = super().__new__(cls)
        for name, value in zip(cls.fields, values, strict=True):
            object.__setattr__(self, name, value)
        return self

    def _hashable_content(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.fields)

    def _sympystr(self, printer: Any) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self._hashable_content()))})"


class IndexSymbol(_Atom):
    """An index variable over `axis`; used as a number it is its position from 0. `number` alone tells two apart."""

    __slots__ = fields = ("number", "name", "axis")
    number: int
    name: str
    axis: str

    def _sympystr(self, printer: Any) -> str:
        return f"{self.name}_{self.number}"


class AxisSize(_Atom):
    """The length of an axis (run-time, or a header name) as a number."""

    __slots__ = fields = ("name",)
    name: str


class ConstantSymbol(_Atom):
    """A `const` of the energy."""

    __slots__ = fields = ("name",)
    name: str


class ArgumentSymbol(_Atom):
    """The argument of an element-wise function kept symbolic (the integrand of an Antiderivative)."""

    __slots__ = fields = ("name",)
    name: str


class _Node(Expr):
    """A compound that SymPy keeps as it is."""

    is_commutative = True
    is_number = False
    __slots__ = ()

    def __new__(cls, *args: Any) -> Any:
        return unique(Expr.__new__(cls, *args))

    def _sympystr(self, printer: Any) -> str:
        # Names such as Sum are names of SymPy classes too, whose printers expect other arguments.
        return f"{type(self).__name__}({', '.join(printer._print(arg) for arg in self.args)})"


class Entry(_Node):
    """`Entry(Str(name), *subscripts)`: an entry of a declared tensor or table. A subscript that is not a bare index
    symbol reads 0 outside its axis."""

    @property
    def name(self) -> str:
        return self.args[0].name

    @property
    def subscripts(self) -> tuple[Expr, ...]:
        return self.args[1:]


class Computed(_Node):
    """`Computed(index)`: an index symbol as a subscript of an axis that is not its own. It reads 0 outside, as any
    computed subscript; a bare index symbol never is outside."""


class Apply(_Node):
    """`Apply(Str(function), *arguments)`: a function of the operation table."""

    @property
    def function(self) -> str:
        return self.args[0].name

    @property
    def arguments(self) -> tuple[Expr, ...]:
        return self.args[1:]


class Antiderivative(_Node):
    """`Antiderivative(Str(name), argument symbol, integrand, u)`: the integral of `integrand` from 0 to u."""

    @property
    def name(self) -> str:
        return self.args[0].name


class Select(_Node):
    """`Select(truth, then, otherwise)`; the branch not taken contributes nothing, not even a NaN."""


class Held(_Node):
    """`Held(Str("given" | "input"), value)`: the value, constant under differentiation."""

    @property
    def kind(self) -> str:
        return self.args[0].name

    @property
    def value(self) -> Expr:
        return self.args[1]


class Sum(_Node):
    """`Sum(body, condition, Tuple(indices))`; condition ONE means everywhere."""


class LogSumExp(_Node):
    """`LogSumExp(Str(empty), Branch, ...)`, empty being "zero" or "minus infinity": the value where nothing is
    allowed."""

    @property
    def empty(self) -> str:
        return self.args[0].name

    @property
    def branches(self) -> tuple[Branch, ...]:
        return self.args[1:]


class Branch(_Node):
    """`Branch(exponent, condition, Tuple(indices))`: one sum of exponentials inside a LogSumExp; indices may be
    empty."""


class Weight(_Node):
    """`Weight(exponent, condition, normaliser)`: exp(exponent - normaliser) where the condition holds, else exactly 0.

    The indices of the exponent are free here though bound in the normaliser, which is a LogSumExp.
    """


class Maximum(_Node):
    """`Maximum(body, condition, Tuple(indices))`; 0 where nothing is allowed."""


class FirstMaximum(_Node):
    """`FirstMaximum(body, condition, Tuple(indices))` with the indices free: 1 at the first maximum, else 0. No
    derivative."""


class Rotation(_Node):
    """`Rotation(body, inner, outer, position, base, Integer(+1 | -1))`: component `outer` of the rotary rotation of
    the vector with components body(inner); -1 rotates back. Binds `inner`; `outer` is an index symbol."""


class Compare(_Node):
    """`Compare(Str(operator), left, right)`: a truth."""

    @property
    def operator(self) -> str:
        return self.args[0].name


class AllOf(_Node):
    """Conjunction of truths."""


class AnyOf(_Node):
    """Disjunction of truths."""


TRUTHS = (Compare, AllOf, AnyOf)


# One object for each name: equality of expressions is then mostly identity.
word: Callable[[str], Str] = lru_cache(maxsize=None)(Str)


def entry(name: str, subscripts: tuple[Expr, ...]) -> Entry:
    return Entry(word(name), *subscripts)


def subscript(expr: Expr, axis: str) -> Expr:
    """`expr` as a subscript of a dimension over `axis`."""
    return Computed(expr) if isinstance(expr, IndexSymbol) and expr.axis != axis else expr


def apply(function: str, *arguments: Expr) -> Apply:
    return Apply(word(function), *arguments)


def compare(operator: str, left: Expr, right: Expr) -> Compare:
    return Compare(word(operator), left, right)


def all_of(*truths: Expr) -> Expr:
    """Conjunction, flattened, without repeats; ONE is "true"."""
    parts: dict[Expr, None] = {}
    for truth in truths:
        for part in truth.args if isinstance(truth, AllOf) else (truth,):
            if part != ONE:
                parts[part] = None
    if not parts:
        return ONE
    return next(iter(parts)) if len(parts) == 1 else AllOf(*parts)


def conjuncts(truth: Expr) -> tuple[Expr, ...]:
    """The parts of a conjunction."""
    if truth == ONE:
        return ()
    return truth.args if isinstance(truth, AllOf) else (truth,)


def sum_over(body: Expr, condition: Expr, indices: tuple[IndexSymbol, ...]) -> Expr:
    """The sum, or the body itself where there is nothing to sum."""
    if body == ZERO:
        return ZERO
    if not indices:
        return body if condition == ONE else Select(condition, body, ZERO)
    return Sum(body, condition, Tuple(*indices))


def bound_indices(expr: Expr) -> tuple[IndexSymbol, ...]:
    """Index symbols that `expr` itself binds in its first arguments."""
    if isinstance(expr, (Sum, Maximum, Branch)):
        return tuple(expr.args[2])
    if isinstance(expr, Rotation):
        return (expr.args[1],)
    return ()


_OPPOSITE = {"==": "!=", "!=": "=="}


def negation(truth: Expr) -> Expr:
    """The opposite of a truth."""
    if isinstance(truth, Compare):
        _, left, right = truth.args
        if truth.operator in _OPPOSITE:
            return compare(_OPPOSITE[truth.operator], left, right)
        return compare("<" if truth.operator == "<=" else "<=", right, left)
    if isinstance(truth, AllOf):
        return AnyOf(*(negation(part) for part in truth.args))
    return all_of(*(negation(part) for part in truth.args))
