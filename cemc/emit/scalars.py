"""Typed scalar expressions - defaults of header names, constants, starts - as Python for the constructor."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from cemc.emit.code import (
    BIT_OR,
    COMPARISON,
    CONDITIONAL,
    PRODUCT,
    SUM,
    Code,
    call,
    chain,
    conditional,
    method,
    name,
    negative,
    number,
    power,
    template,
)
from cemc.emit.context import Context
from cemc.operations import ELEMENTWISE
from cemc.program.scalars import MATH
from cemc.semantics import typed


class Scalars:
    """Prints scalar expressions. `owner` stands before header names and constants (`self.`)."""

    def __init__(self, context: Context, owner: str = "self.") -> None:
        self._context, self._owner = context, owner
        self._arguments: dict[str, Code] = {}

    # ---------------------------------------------------------------------------------------- sizes: whole numbers

    def size(self, expr: typed.Expr, what: str) -> Code:
        """The default of a header name: whole numbers, each division exact. `what`: the definition, for the message."""
        match expr:
            case typed.Number():
                if expr.value.denominator != 1:
                    return self._divided(
                        number(Fraction(expr.value.numerator)), number(Fraction(expr.value.denominator)), what
                    )
                return number(expr.value)
            case typed.Size():
                return name(f"{self._owner}{expr.name}")
            case typed.Negative():
                return negative(self.size(expr.operand, what))
            case typed.Binary():
                left, right = self.size(expr.left, what), self.size(expr.right, what)
                if expr.operator == "/":
                    return self._divided(left, right, what)
                return _arithmetic(expr.operator, left, right)
        raise AssertionError(type(expr))

    def _divided(self, left: Code, right: Code, what: str) -> Code:
        return call(self._context.helper("_divide"), left, right, f'"{what}"')

    # ------------------------------------------------------------------------------------------ numbers in float64

    def value(self, expr: typed.Expr) -> Code:
        """A number from literals, header names, constants and functions, computed as a float."""
        match expr:
            case typed.Number():
                return number(expr.value)
            case typed.Size() | typed.ConstantRef():
                return name(f"{self._owner}{expr.name}")
            case typed.Argument():
                return self._arguments[expr.name]
            case typed.Negative():
                return negative(self.value(expr.operand))
            case typed.Binary():
                return _arithmetic(expr.operator, self.value(expr.left), self.value(expr.right))
            case typed.Call():
                return self._called(expr.function, [self.value(argument) for argument in expr.arguments])
            case typed.UserCall():
                return self._user(expr)
            case typed.Where():
                return conditional(self.value(expr.then), self.condition(expr.condition), self.value(expr.otherwise))
        raise AssertionError(type(expr))

    def _called(self, function: str, arguments: list[Code]) -> Code:
        if function == "square":
            return power(arguments[0], number(Fraction(2)))
        if function in MATH:
            called = MATH[function].partition("(")[0]
            spelled = self._context.library(called) if "." in called else self._context.names.builtin(called)
            return call(spelled, *arguments)
        # Python has no such function: torch's, in float64 on the CPU whatever the device of the layer.
        pattern = self._context.spelled(ELEMENTWISE[function].torch)
        torch = self._context.library("torch")
        lifted = [call(f"{torch}.tensor", argument, f"dtype={torch}.float64", 'device="cpu"') for argument in arguments]
        return method(template(pattern, *lifted), "item")

    def _user(self, expr: typed.UserCall) -> Code:
        """A function of the energy, its body written out."""
        function = self._context.energy.functions[expr.function]
        arguments = {n: self.value(a) for n, a in zip(function.arguments, expr.arguments, strict=True)}
        outer, self._arguments = self._arguments, arguments
        result = self.value(function.body)
        self._arguments = outer
        return Code(result.text, CONDITIONAL, weight=result.weight) if result.level < SUM else result

    def condition(self, expr: typed.Condition) -> Code:
        match expr:
            case typed.Compare():
                left, right = self.value(expr.left), self.value(expr.right)
                return Code(f"{left.at(BIT_OR)} {expr.operator} {right.at(BIT_OR)}", COMPARISON)
            case typed.And() | typed.Or():
                word = " and " if isinstance(expr, typed.And) else " or "
                return Code(word.join(self.condition(part).at(COMPARISON) for part in expr.operands), CONDITIONAL)
        raise AssertionError(type(expr))


_OPERATORS: dict[str, Callable[[Code, Code], Code]] = {
    "+": lambda left, right: chain(SUM, left, ("+", right)),
    "-": lambda left, right: chain(SUM, left, ("-", right)),
    "*": lambda left, right: chain(PRODUCT, left, ("*", right)),
    "/": lambda left, right: chain(PRODUCT, left, ("/", right)),
    "^": power,
}


def _arithmetic(operator: str, left: Code, right: Code) -> Code:
    return _OPERATORS[operator](left, right)
