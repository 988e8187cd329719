"""The warning about integrals over places where the integrand is not finite.

Functions are tried, not analysed: at points on both sides of 0, and where a denominator changes its sign between two of
them. What depends on sizes that only the caller knows is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from itertools import pairwise

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.shapes import NotFinite
from cemc.semantics.numbers import FLOATS
from cemc.semantics.typed import (
    And,
    Argument,
    Assign,
    Binary,
    Call,
    Compare,
    Condition,
    ConstantRef,
    Definition,
    Energy,
    Expr,
    Function,
    Integral,
    Negative,
    Number,
    Or,
    UserCall,
    Where,
)

_POINTS = tuple(sign * Fraction(n, 8) for sign in (1, -1) for n in range(81))
"""From 0 outwards, up to 10: first one way, then the other."""

_NEVER_NEGATIVE = {"exp", "sqrt", "abs", "square", "sigmoid", "softplus", "relu", "norm2", "softmax"}


class _Unknown(Exception):
    """The value depends on what is not known here, or is too large for float64."""


class _NotFinite(Exception):
    """There is no finite value."""


def not_finite(energy: Energy, constants: Mapping[str, float | None]) -> Iterator[Diagnostic]:
    """A warning for each integral that is seen to run over such a place; `constants`: their values, where known."""
    found: dict[str, dict[int, _Place]] = {}
    for integral in _integrals(_bodies(energy)):
        name = integral.function
        if name not in found:
            found[name] = _places(_Tried(energy.functions, constants), name)
        sides = (1,) if _never_negative(integral.operand) else (1, -1)
        place = next((found[name][side] for side in sides if side in found[name]), None)
        if place is not None:
            yield NotFinite(integral.span, name, place.words, place.consequence(name))


def _bodies(energy: Energy) -> Iterator[object]:
    tables: tuple[Mapping[str, Definition | Function], ...] = (energy.functions, energy.definitions)
    for table in tables:
        yield from (each.body for each in table.values())
    for statement in energy.update.statements:
        yield statement.value if isinstance(statement, Assign) else statement.definition.body


def _integrals(value: object) -> Iterator[Integral]:
    if isinstance(value, Integral):
        yield value
    if isinstance(value, (Expr, Condition)):
        for each in fields(value):
            if each.name not in ("span", "shape"):
                yield from _integrals(getattr(value, each.name))
    elif isinstance(value, (tuple, Iterator)):
        for part in value:
            yield from _integrals(part)


def _never_negative(expr: Expr) -> bool:
    match expr:
        case Number():
            return expr.value >= 0
        case Call():
            return expr.function in _NEVER_NEGATIVE
        case Binary(operator="+" | "*" | "/"):
            return _never_negative(expr.left) and _never_negative(expr.right)
        case Binary(operator="^", right=Number(value=exponent)):
            return exponent % 2 == 0 or _never_negative(expr.left)
    return False


# ----------------------------------------------------------------------------------------------------------- places


@dataclass(frozen=True)
class _Place:
    """Where it is first met going out from 0 on a side; `beyond`: all that follows has no value either."""

    side: int
    at: float
    beyond: bool

    @property
    def words(self) -> str:
        return f"{'above' if self.side > 0 else 'below'} {self.shown}" if self.beyond else f"at {self.shown}"

    @property
    def shown(self) -> str:
        return f"{self.at + 0.0:.6g}"  # 0 without a sign

    def consequence(self, name: str) -> str:
        if self.at == 0 and not self.beyond:
            return f"where `integral[{name}](u)` begins"
        sign = ">" if self.side > 0 else "<"
        return f"so that `integral[{name}](u)` is infinite or NaN for u {sign} {self.shown}"


def _places(tried: _Tried, name: str) -> dict[int, _Place]:
    """The first place on each side of 0."""
    places = {}
    for side in (1, -1):
        place = _first(lambda z: tried.at(name, z), side)
        if place is not None:
            places[side] = place
    return places


def _denominator(f: Callable[[float], _Value], number: int) -> Callable[[float], float]:
    """One denominator of an integrand as a function of its argument."""
    return lambda z: f(z).denominators.get(number, math.nan)


def _first(f: Callable[[float], _Value], side: int) -> _Place | None:
    points = [float(point) for point in _POINTS if point * side >= 0]
    values = [f(point) for point in points]
    if not values[0].finite:
        return _Place(side, 0.0, False)
    for (low, before), (high, after) in pairwise(zip(points, values, strict=True)):
        for node, value in before.denominators.items():
            if after.finite and value * after.denominators.get(node, value) < 0:
                at, size = _root(_denominator(f, node), low, high)
                if size < 1e-9:
                    return _Place(side, at, False)
        if not after.finite:
            last, at = _edge(lambda z: f(z).finite, low, high)
            beyond = not f(at + side * 1e-3).finite
            return _Place(side, last if beyond else at, beyond)
    return None


def _root(f: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Where f changes its sign, and how near to 0 it comes: not at all where it jumps."""
    sign = f(low)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if f(middle) * sign > 0 else (low, middle)
    return high, min(abs(f(low)), abs(f(high)))


def _edge(finite: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Neighbours of which the first is finite and the second is not."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if finite(middle) else (low, middle)
    return low, high


# ----------------------------------------------------------------------------------------------------------- values


@dataclass(frozen=True)
class _Value:
    finite: bool
    denominators: dict[int, float]


@dataclass
class _Tried:
    """Evaluates functions in float64; `denominators` are those met on the way, by the node they stand in."""

    functions: Mapping[str, Function]
    constants: Mapping[str, float | None]
    denominators: dict[int, float] = field(default_factory=dict)
    known: dict[tuple[str, tuple[float, ...]], float] = field(default_factory=dict)
    """Values of functions: one that calls another twice, which calls another twice, is not to be unfolded as a tree."""

    def at(self, name: str, z: float) -> _Value:
        """A value that is not known counts as finite."""
        self.denominators, self.known = {}, {}
        try:
            self._called(name, (z,))
        except _NotFinite:
            return _Value(False, self.denominators)
        except (_Unknown, OverflowError):
            return _Value(True, {})
        return _Value(True, self.denominators)

    def _called(self, name: str, arguments: tuple[float, ...]) -> float:
        if name in self.functions:
            function, key = self.functions[name], (name, arguments)
            if key not in self.known:
                self.known[key] = self._value(function.body, dict(zip(function.arguments, arguments, strict=True)))
            return self.known[key]
        if name not in FLOATS:
            raise _Unknown
        try:
            return float(FLOATS[name](*arguments))
        except ValueError:
            raise _NotFinite from None

    def _value(self, expr: Expr, arguments: Mapping[str, float]) -> float:
        match expr:
            case Number():
                return float(expr.value)
            case Argument():
                return arguments[expr.name]
            case ConstantRef() if self.constants.get(expr.name) is not None:
                return self.constants[expr.name] or 0.0
            case Negative():
                return -self._value(expr.operand, arguments)
            case Binary():
                return self._binary(expr, self._value(expr.left, arguments), self._value(expr.right, arguments))
            case Call() | UserCall():
                return self._called(expr.function, tuple(self._value(each, arguments) for each in expr.arguments))
            case Where():
                taken = expr.then if self._holds(expr.condition, arguments) else expr.otherwise
                return self._value(taken, arguments)
        raise _Unknown

    def _binary(self, expr: Binary, left: float, right: float) -> float:
        match expr.operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                self.denominators[id(expr)] = right
                if right == 0:
                    raise _NotFinite
                return left / right
        if right < 0:
            self.denominators[id(expr)] = left
        try:
            power = left**right
        except ZeroDivisionError:
            raise _NotFinite from None
        if isinstance(power, complex):
            raise _NotFinite
        return power

    def _holds(self, condition: Condition, arguments: Mapping[str, float]) -> bool:
        match condition:
            case Compare():
                left, right = self._value(condition.left, arguments), self._value(condition.right, arguments)
                return {
                    "<": left < right,
                    "<=": left <= right,
                    ">": left > right,
                    ">=": left >= right,
                    "==": left == right,
                    "!=": left != right,
                }[condition.operator]
            case And():
                return all(self._holds(each, arguments) for each in condition.operands)
            case Or():
                return any(self._holds(each, arguments) for each in condition.operands)
        raise _Unknown


__all__ = ["not_finite"]
