"""Numbers that are known when the module is constructed: header defaults, constants, starts, eps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Literal, cast

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.names import NotInNumber, UnknownName
from cemc.diagnostics.shapes import WrongCount
from cemc.operations.signatures import SIGNATURES
from cemc.semantics.advice import VALUES
from cemc.semantics.context import is_poison, poison
from cemc.semantics.table import Table, a, closest
from cemc.semantics.typed import Binary, Call, ConstantRef, Expr, Negative, Number, Size
from cemc.source import Span
from cemc.syntax import tree

ALLOWED = "numbers, header names, constants and element-wise functions"
ALLOWED_IN_HEADER = "whole numbers and earlier header names with `+ - * / ^`"


def number(node: tree.Node, place: str, table: Table, errors: list[Diagnostic], header: bool = False) -> Expr:
    """The typed expression; in a header default only header names and arithmetic are allowed."""

    def fault(span: Span, what: str) -> Expr:
        allowed = ALLOWED_IN_HEADER if header else ALLOWED
        errors.append(NotInNumber(span, what, place, suggestion=f"it is made of {allowed}"))
        return poison(span)

    def go(node: tree.Node) -> Expr:
        if isinstance(node, tree.Number):
            if header and node.value.denominator != 1:
                advice = "a size is a whole number; any other number is a `const`"
                errors.append(NotInNumber(node.span, "a fraction", place, suggestion=advice))
                return poison(node.span)
            return Number(node.span, (), node.value)
        if isinstance(node, tree.Name):
            return name(node)
        if isinstance(node, tree.Negative):
            operand = go(node.operand)
            return operand if is_poison(operand) else Negative(node.span, (), operand)
        if isinstance(node, tree.Sum):
            total = go(node.first)
            for operator, part in node.rest:
                total = join(operator, total, go(part))
            return total
        if isinstance(node, tree.Binary) and node.operator != "@":
            return join(node.operator, go(node.left), go(node.right))
        if isinstance(node, tree.Call) and isinstance(node.function, tree.Name):
            return call(node, node.function)
        return fault(node.span, "this")

    def join(operator: str, left: Expr, right: Expr) -> Expr:
        span = left.span.to(right.span)
        if is_poison(left, right):
            return poison(span)
        return Binary(span, (), cast(Literal["+", "-", "*", "/", "^"], operator), left, right)

    def name(node: tree.Name) -> Expr:
        declared = table.find(node.text)
        if declared is None:
            near = closest(node.text, table.names("header name") if header else table.names("header name", "constant"))
            advice = f"did you mean `{near}`?" if near else VALUES.get(node.text)
            errors.append(UnknownName(node.span, node.text, suggestion=advice))
            return poison(node.span)
        declared.used = True
        if declared.kind == "lost":
            return poison(node.span)
        if declared.kind == "header name":
            return Size(node.span, (), node.text)
        if declared.kind == "constant" and not header:
            return ConstantRef(node.span, (), node.text)
        return fault(node.span, f"{a(declared.kind)}, `{node.text}`,")

    def call(node: tree.Call, function: tree.Name) -> Expr:
        signature = SIGNATURES.get(function.text)
        if signature is None:
            if table.find(function.text) is None:
                near = closest(function.text, SIGNATURES)
                advice = f"did you mean `{near}`?" if near else None
                if function.text in ("normal", "uniform"):
                    advice = f"a random start is written with `~`: `~ {function.text}(…, …)`"
                errors.append(UnknownName(function.span, function.text, suggestion=advice))
                return poison(node.span)
            return fault(function.span, f"`{function.text}(…)`")
        elementwise = signature.kind == "elementwise" or function.text == "max"
        if header or not elementwise:
            return fault(function.span, f"`{function.text}(…)`")
        arity = 2 if function.text == "max" else signature.max_arity
        if len(node.arguments) != arity:
            wanted = f"{arity} argument" + ("s" if arity > 1 else "")
            errors.append(WrongCount(node.span, f"`{function.text}`", wanted, len(node.arguments)))
            return poison(node.span)
        arguments = tuple(go(argument) for argument in node.arguments)
        return poison(node.span) if is_poison(*arguments) else Call(node.span, (), function.text, arguments)

    return go(node)


# -------------------------------------------------------------------------------------------------------- values

_LARGEST_POWER = 1024


def exact(expression: Expr) -> Fraction | None:
    """The value of an expression of literals alone, or None where it has none, uses names or is too large."""
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Negative):
        operand = exact(expression.operand)
        return None if operand is None else -operand
    if not isinstance(expression, Binary):
        return None
    left, right = exact(expression.left), exact(expression.right)
    if left is None or right is None:
        return None
    if expression.operator == "+":
        return left + right
    if expression.operator == "-":
        return left - right
    if expression.operator == "*":
        return left * right
    if expression.operator == "/":
        return left / right if right else None
    small = abs(right) <= 64 and max(abs(left.numerator), left.denominator).bit_length() <= _LARGEST_POWER
    if right.denominator != 1 or not small or (not left and right < 0):
        return None
    return left**right.numerator


def _logistic(z: float) -> float:
    return 1 / (1 + math.exp(-z)) if z > 0 else math.exp(z) / (1 + math.exp(z))


FLOATS: dict[str, Callable[..., float]] = {
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "abs": abs,
    "square": lambda z: z * z,
    "sin": math.sin,
    "cos": math.cos,
    "tanh": math.tanh,
    "erf": math.erf,
    "relu": lambda z: max(z, 0.0),
    "sigmoid": _logistic,
    "softplus": lambda z: max(z, 0.0) + math.log1p(math.exp(-abs(z))),
    "silu": lambda z: z * _logistic(z),
    "gelu": lambda z: z * (1 + math.erf(z / math.sqrt(2))) / 2,
    "min": min,
    "max": max,
}
"""The element-wise functions on floats; a ValueError where they are not defined."""


def value(expression: Expr, constants: Mapping[str, float | None]) -> float | None:
    """The value in float64 where no header name enters, or None."""
    try:
        return _value(expression, constants)
    except (ArithmeticError, ValueError, TypeError):
        return None


def _value(expression: Expr, constants: Mapping[str, float | None]) -> float | None:
    if isinstance(expression, Number):
        return float(expression.value)
    if isinstance(expression, ConstantRef):
        return constants.get(expression.name)
    if isinstance(expression, Negative):
        operand = _value(expression.operand, constants)
        return None if operand is None else -operand
    if isinstance(expression, Binary):
        left, right = _value(expression.left, constants), _value(expression.right, constants)
        if left is None or right is None:
            return None
        if expression.operator == "+":
            return left + right
        if expression.operator == "-":
            return left - right
        if expression.operator == "*":
            return left * right
        power = left / right if expression.operator == "/" else left**right
        return power if isinstance(power, float) else None
    if isinstance(expression, Call) and expression.function in FLOATS:
        arguments = [_value(each, constants) for each in expression.arguments]
        return None if None in arguments else float(FLOATS[expression.function](*arguments))
    return None
