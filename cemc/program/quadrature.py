"""Whether a closed form of an antiderivative is right, and stable in float64: asked of quadrature when compiling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from sympy import Add, Mul, Pow, Rational

from cemc.notation.nodes import (
    AllOf,
    AnyOf,
    Apply,
    ArgumentSymbol,
    AxisSize,
    Compare,
    ConstantSymbol,
    Expr,
    Select,
)
from cemc.notation.walk import postorder

TOLERANCE = 1e-12
"""Of the integral of |f|."""

_POINTS = (0.0, 1e-9, 1e-6, 1e-3, 0.03, 0.3, 1.0, 2.5, 6.0, 15.0, 40.0, 150.0)
_VALUES = ((3, 1.3), (1, -0.7), (64, 0.0))
"""Values of header names and constants at which a form must be right. Constants may be overridden by any number."""

_LARGEST = 1e290
_PRECISION = 1e-15
_MOST_PANELS = 300

Function = Callable[[float], float]


class _NoValue(Exception):
    """There is none in the reals, or none that is known here."""


def agrees(form: Expr, integrand: Expr, argument: ArgumentSymbol) -> bool:
    """Whether `form` in float64 is the integral of `integrand` from 0, at points of both signs."""
    symbols = [node for node in postorder(integrand) if isinstance(node, (AxisSize, ConstantSymbol))]
    for size, constant in _VALUES if symbols else _VALUES[:1]:
        values = {symbol: float(size) if isinstance(symbol, AxisSize) else constant for symbol in symbols}
        f, closed = _function(integrand, argument, values), _function(form, argument, values)
        try:
            for side in (1, -1):
                for point, expected, scale in _integrals(f, side):
                    # Written so that a NaN does not agree.
                    if not abs(closed(point) - expected) <= TOLERANCE * scale:
                        return False
        except _NoValue:
            return False
    return True


# -------------------------------------------------------------------------------------------------------- quadrature


def _integrals(f: Function, side: int) -> Iterator[tuple[float, float, float]]:
    """(point, integral of f from 0 to there, integral of |f|), as far as float64 goes."""
    parts: list[float] = []
    sizes: list[float] = []
    for low, high in pairwise(_POINTS):
        for value, size in _adaptive(f, side * low, side * high):
            parts.append(value)
            sizes.append(size)
        scale = math.fsum(sizes)
        if not scale < _LARGEST:
            return
        # Relative to the integral of |f|: where positive and negative parts cancel no form can be exact.
        yield side * high, math.fsum(parts), scale


def _adaptive(f: Function, low: float, high: float) -> Iterator[tuple[float, float]]:
    """Integrals of f and |f| over panels that make up [low, high], each halved until that changes nothing."""
    pending = [(low, high, _panel(f, low, high))]
    total, panels = 0.0, 1
    while pending:
        low, high, (coarse, size) = pending.pop()
        middle = (low + high) / 2
        left, right = _panel(f, low, middle), _panel(f, middle, high)
        value, size = left[0] + right[0], left[1] + right[1]
        panels += 1
        if abs(value - coarse) <= _PRECISION * max(total, size) or not size < _LARGEST:
            total += size
            yield value, size
        elif panels > _MOST_PANELS:
            raise _NoValue
        else:
            pending += [(middle, high, right), (low, middle, left)]


_GAUSS = (
    (0.09501250983763744, 0.1894506104550685),
    (0.2816035507792589, 0.18260341504492358),
    (0.45801677765722737, 0.16915651939500254),
    (0.6178762444026438, 0.14959598881657674),
    (0.755404408355003, 0.12462897125553388),
    (0.8656312023878318, 0.09515851168249279),
    (0.9445750230732326, 0.062253523938647894),
    (0.9894009349916499, 0.027152459411754096),
)
"""Gauss-Legendre with 16 nodes on [-1, 1]: the positive nodes and their weights."""


def _panel(f: Function, low: float, high: float) -> tuple[float, float]:
    middle, half = (low + high) / 2, (high - low) / 2
    values = [(weight, f(middle + sign * half * node)) for node, weight in _GAUSS for sign in (1, -1)]
    total = math.fsum(weight * value for weight, value in values)
    return half * total, abs(half) * math.fsum(weight * abs(value) for weight, value in values)


# ------------------------------------------------------------------------------------------------------- evaluation


def _function(expr: Expr, argument: ArgumentSymbol, values: Mapping[Any, float]) -> Function:
    """An expression without indices as a function of its argument, in float64; what overflows is infinite."""
    order = list(postorder(expr))

    def f(z: float) -> float:
        known: dict[Any, Any] = {**values, argument: z}
        try:
            for node in order:
                if node not in known:
                    known[node] = _value(node, [known[child] for child in node.args])
        except OverflowError:
            return math.inf
        except (ArithmeticError, ValueError) as error:
            raise _NoValue from error
        return float(known[expr])

    return f


def _value(node: Any, args: list[Any]) -> Any:
    match node:
        case Rational():
            return int(node.p) / int(node.q)
        case Add():
            return sum(args)
        case Mul():
            return math.prod(args)
        case Pow():
            return _real(args[0] ** args[1])
        case Apply(function=name) if name in _LIBRARY:
            return _real(_LIBRARY[name](*args[1:]))
        case Compare():
            return _COMPARED[node.operator](args[1], args[2])
        case AllOf():
            return all(args)
        case AnyOf():
            return any(args)
        case Select():
            return args[1] if args[0] else args[2]
    if node.args or isinstance(node, Expr):
        raise _NoValue
    return None  # the name of a function or operator


def _real(value: Any) -> float:
    if isinstance(value, complex):
        raise _NoValue
    return float(value)


_COMPARED: Mapping[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}

_LIBRARY: Mapping[str, Callable[..., float]] = {
    "exp": math.exp,
    "expm1": math.expm1,
    "log": math.log,
    "log1p": math.log1p,
    "sqrt": math.sqrt,
    "sin": math.sin,
    "cos": math.cos,
    "atan": math.atan,
    "tanh": math.tanh,
    "erf": math.erf,
    "sigmoid": lambda z: 1 / (1 + math.exp(-z)) if z > 0 else math.exp(z) / (1 + math.exp(z)),
    "abs": abs,
    "sign": lambda z: (z > 0) - (z < 0),
    "relu": lambda z: max(z, 0.0),
    "min": min,
    "max": max,
    "pow": lambda base, exponent: base**exponent,
}
"""What a form or its integrand may have; a form with anything else is not believed."""
