"""Closed forms of antiderivatives, where there is one that is right and stable; everywhere else they are quadrature.

What is tried is what is quick: term by term, integrals of polynomials and of functions of a multiple of the argument,
SymPy's of rational functions, and SymPy's of a power times one exponential, sine or cosine. Each form is written so
that it does not cancel near 0, as log1p and expm1 rather than as differences. None is believed: a form is used only if
it agrees with quadrature (`quadrature.py`), in float64 and at values of the constants of either sign and 0. Functions
with a kink are taken apart there, if it is at 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import sympy
from sympy import Add, Mul, Poly, Pow, Rational

from cemc.notation.nodes import (
    ONE,
    ZERO,
    Apply,
    ArgumentSymbol,
    Compare,
    Expr,
    Select,
    apply,
    compare,
)
from cemc.notation.walk import postorder, rebuild, transform
from cemc.program.kinks import line
from cemc.program.quadrature import agrees

_LARGEST_DEGREE = 32
_MOST_TERMS = 500
"""Of a polynomial multiplied out."""

_Z = sympy.Symbol("z", real=True)
_FUNCTIONS = {
    name: sympy.Function(name, real=True) for name in ("sigmoid", "tanh", "erf", "expm1", "log1p", "relu", "min")
}
_TO_SYMPY: dict[str, Any] = {"exp": sympy.exp, "sin": sympy.sin, "cos": sympy.cos, **_FUNCTIONS}
_FROM_SYMPY: dict[Any, str] = {
    sympy.exp: "exp",
    sympy.sin: "sin",
    sympy.cos: "cos",
    sympy.atan: "atan",
    sympy.log: "log",
    sympy.erf: "erf",
    sympy.Abs: "abs",
    **{function: name for name, function in _FUNCTIONS.items()},
}


class _NoForm(Exception):
    """There is none, or none that is looked for."""


def closed_form(integrand: Expr, argument: ArgumentSymbol, kinks: tuple[Fraction, ...]) -> Expr | None:
    """The integral of `integrand` from 0 to the argument, as an expression of it."""
    if any(kinks):
        return None
    try:
        above, below = (_form(_resolved(integrand, argument, side), argument) for side in (1, -1))
    except _NoForm:
        return None
    form = above if above == below else Select(compare("<", ZERO, argument), above, below)
    return form if agrees(form, integrand, argument) else None


# ------------------------------------------------------------------------------------------------ on one side of 0


def _resolved(integrand: Expr, argument: ArgumentSymbol, side: int) -> Expr:
    """The function on one side of 0, where each of its kinks has been passed or not."""

    def positive(expr: Expr) -> bool | None:
        """Whether it is positive on that side; None: it is 0."""
        found = line(expr, argument)
        if found is None:
            raise _NoForm
        slope, offset = found[0] * side, found[1]
        if slope * offset < 0:
            raise _NoForm
        return None if slope == offset == 0 else slope > 0 or offset > 0

    def holds(truth: Compare) -> bool:
        _, left, right = truth.args
        sign = positive(left - right)
        return {
            "<": sign is False,
            "<=": sign is not True,
            ">": sign is True,
            ">=": sign is not False,
            "==": sign is None,
            "!=": sign is not None,
        }[truth.operator]

    def step(node: Any, args: tuple[Any, ...]) -> Any:
        new = rebuild(node, args)
        match new:
            case Compare():
                return ONE if holds(new) else ZERO
            case Select() if new.args[0] in (ONE, ZERO):
                return new.args[1] if new.args[0] == ONE else new.args[2]
            case Apply(function="relu"):
                return args[1] if positive(args[1]) else ZERO
            case Apply(function="abs"):
                return args[1] if positive(args[1]) else -args[1]
            case Apply(function="sign"):
                return {True: ONE, False: -ONE, None: ZERO}[positive(args[1])]
            case Apply(function="min"):
                return args[1] if positive(args[2] - args[1]) else args[2]
            case Apply(function="max"):
                return args[1] if positive(args[1] - args[2]) else args[2]
        return new

    resolved: Expr = transform(integrand, step, {})
    return resolved


# ------------------------------------------------------------------------------------------------------ integration


def _form(integrand: Expr, argument: ArgumentSymbol) -> Expr:
    """The integral from 0, in index notation."""
    others: dict[Expr, Any] = {}
    function = _to_sympy(integrand, argument, others)
    degree, terms = _size(function)
    if degree > _LARGEST_DEGREE or terms > _MOST_TERMS:
        raise _NoForm
    back = {symbol: expr for expr, symbol in others.items()}
    back[_Z] = argument
    return _from_sympy(Add(*_integrals(sympy.expand(function))), back)


def _integrals(function: Any) -> Iterator[Any]:
    """Terms that add up to the integral from 0."""
    rest = []
    for term in Add.make_args(function):
        if term == 0:
            continue
        coefficient, factor = term.as_independent(_Z, as_Add=False)
        known = _known(factor)
        if known is None:
            rest.append(term)
        else:
            yield coefficient * known
    if rest:
        yield from _difference(_antiderivative(Add(*rest)))


def _known(factor: Any) -> Any | None:
    """The integral from 0 of a power of z, or of a function of a multiple of z."""
    if factor == 1:
        return _Z
    base, exponent = factor.as_base_exp()
    if base == _Z and exponent.is_Integer and exponent > 0:
        return _Z ** (exponent + 1) / (exponent + 1)
    if len(factor.args) != 1 or factor.func not in _INTEGRALS:
        return None
    inner = sympy.expand(factor.args[0])
    slope, offset = inner.coeff(_Z, 1), inner.coeff(_Z, 0)
    if slope == 0 or sympy.expand(inner - slope * _Z - offset) != 0:
        return None
    if offset != 0 and factor.func not in (sympy.exp, sympy.sin, sympy.cos):
        return None
    return _INTEGRALS[factor.func](slope * _Z, offset) / slope


def _log_cosh(u: Any, _: Any) -> Any:
    """log(cosh(u)): cosh(u) - 1 is expm1(u) expm1(-u) / -2, and beyond 20 the logarithm is a straight line."""
    size = sympy.Abs(u)
    near = _FUNCTIONS["min"](size, sympy.Integer(20))
    expm1, log1p = _FUNCTIONS["expm1"], _FUNCTIONS["log1p"]
    return log1p(-expm1(near) * expm1(-near) / 2) + _FUNCTIONS["relu"](size - 20)


def _of_sigmoid(u: Any, _: Any) -> Any:
    expm1, log1p = _FUNCTIONS["expm1"], _FUNCTIONS["log1p"]
    return _FUNCTIONS["relu"](u) + log1p(expm1(-sympy.Abs(u)) / 2)


def _of_erf(u: Any, _: Any) -> Any:
    return u * _FUNCTIONS["erf"](u) + _FUNCTIONS["expm1"](-(u**2)) / sympy.sqrt(sympy.pi)


_INTEGRALS: dict[Any, Callable[[Any, Any], Any]] = {
    sympy.exp: lambda u, b: sympy.exp(b) * _FUNCTIONS["expm1"](u),
    sympy.sin: lambda u, b: 2 * sympy.sin(u / 2) * sympy.sin(u / 2 + b),
    sympy.cos: lambda u, b: 2 * sympy.sin(u / 2) * sympy.cos(u / 2 + b),
    _FUNCTIONS["tanh"]: _log_cosh,
    _FUNCTIONS["sigmoid"]: _of_sigmoid,
    _FUNCTIONS["erf"]: _of_erf,
}
"""Integrals of f(u + b) over u from 0."""


def _antiderivative(function: Any) -> Any:
    """SymPy's, of functions for which it is quick."""
    if function.is_rational_function(_Z) and function.free_symbols == {_Z}:
        from sympy.integrals.rationaltools import ratint

        denominator = sympy.fraction(sympy.together(function))[1]
        factors = [factor for factor, _ in sympy.factor_list(denominator, _Z)[1]]
        # Where there is a real pole the integral past it is infinite, whatever the antiderivative is there.
        if all(Poly(factor, _Z).degree() == 2 and Poly(factor, _Z).count_roots() == 0 for factor in factors):
            return ratint(function, _Z)
    elif all(map(_is_simple, Add.make_args(function))):
        from sympy.integrals.manualintegrate import manualintegrate

        return manualintegrate(function, _Z)
    raise _NoForm


def _is_simple(term: Any) -> bool:
    """A low power of z times one exponential, sine or cosine of something up to quadratic."""
    power, functions = 0, 0
    for factor in Mul.make_args(term):
        base, exponent = factor.as_base_exp()
        if base == _Z and exponent.is_Integer and exponent >= 0:
            power += int(exponent)
        elif isinstance(factor, (sympy.exp, sympy.sin, sympy.cos)):
            functions += 1
            inner = factor.args[0].as_poly(_Z)
            if inner is None or inner.degree() > 2:
                return False
        elif factor.has(_Z):
            return False
    return power <= 3 and functions == 1


def _difference(form: Any) -> Iterator[Any]:
    """`form` less its value at 0, each term so that it does not cancel near 0."""
    if form.has(sympy.Integral, sympy.Piecewise, sympy.RootSum):
        raise _NoForm
    for term in Add.make_args(sympy.expand(form, deep=False)):
        coefficient, factor = term.as_independent(_Z, as_Add=False)
        if factor == 1:
            continue
        inner = factor.args[0] if len(factor.args) == 1 else sympy.S.One
        start = inner.subs(_Z, 0)
        if factor.func is sympy.log and start != 0:
            yield coefficient * _FUNCTIONS["log1p"](sympy.expand(inner / start - 1))
        elif factor.func is sympy.exp:
            yield coefficient * sympy.exp(start) * _FUNCTIONS["expm1"](sympy.expand(inner - start))
        else:
            value = factor.subs(_Z, 0)
            if not value.is_finite:
                raise _NoForm
            whole = factor - value
            yield coefficient * (sympy.cancel(whole) if factor.is_rational_function(_Z) and value != 0 else whole)


def _size(function: Any) -> tuple[int, int]:
    """Bounds on the degree and the number of terms once it is multiplied out, no larger than need be known."""
    known: dict[Any, tuple[int, int]] = {}
    for node in postorder(function):
        degree, terms = 1, 1
        if isinstance(node, Add):
            degree = max(known[child][0] for child in node.args)
            terms = sum(known[child][1] for child in node.args)
        elif isinstance(node, Mul):
            degree = sum(known[child][0] for child in node.args)
            terms = math.prod(known[child][1] for child in node.args)
        elif isinstance(node, Pow) and node.exp.is_Integer:
            exponent = min(abs(int(node.exp)), _LARGEST_DEGREE + 1)
            degree, terms = known[node.base][0] * exponent, known[node.base][1] ** exponent
        elif node.args:
            degree, terms = 1, max(known[child][1] for child in node.args)
        known[node] = min(degree, _LARGEST_DEGREE + 1), min(terms, _MOST_TERMS + 1)
    return known[function]


# ------------------------------------------------------------------------------------------------- there and back


def _to_sympy(expr: Expr, argument: ArgumentSymbol, others: dict[Expr, Any]) -> Any:
    """As SymPy has it; what does not depend on the argument becomes a symbol."""
    depends: set[Any] = set()
    converted: dict[Any, Any] = {}
    for node in postorder(expr):
        if node == argument:
            converted[node] = _Z
            depends.add(node)
        elif isinstance(node, Rational):
            converted[node] = node
        elif not any(child in depends for child in node.args):
            converted[node] = others.setdefault(node, sympy.Symbol(f"c{len(others)}", real=True))
        elif isinstance(node, (Add, Mul, Pow)):
            converted[node] = node.func(*(converted[child] for child in node.args))
            depends.add(node)
        elif isinstance(node, Apply) and node.function in _TO_SYMPY:
            converted[node] = _TO_SYMPY[node.function](*(converted[child] for child in node.arguments))
            depends.add(node)
        else:
            raise _NoForm
    return converted[expr]


def _from_sympy(expr: Any, back: dict[Any, Expr]) -> Expr:
    converted: dict[Any, Any] = {}
    for node in postorder(expr):
        if node in back:
            converted[node] = back[node]
        elif node.is_number:
            if not node.is_finite or not node.is_real:
                raise _NoForm
            converted[node] = node if isinstance(node, Rational) else Rational(repr(float(node)))
        elif isinstance(node, (Add, Mul, Pow)):
            converted[node] = node.func(*(converted[child] for child in node.args))
        elif node.func in _FROM_SYMPY:
            converted[node] = apply(_FROM_SYMPY[node.func], *(converted[child] for child in node.args))
        else:
            raise _NoForm
    form: Expr = converted[expr]
    return form
