"""Header names and constants: the numbers an energy is constructed with."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import torch

from cemc.oracle.environment import Environment
from cemc.oracle.evaluate import evaluate
from cemc.oracle.model import Model
from cemc.oracle.points import Points
from cemc.semantics.typed import Binary, Energy, Expr, Negative, Number, Size


def header_sizes(energy: Energy, **given: int) -> dict[str, int]:
    """Every header name's size: `given`, or the default. ValueError where one is missing, or a default is not a
    positive integer."""
    unknown = sorted(set(given) - set(energy.header))
    if unknown:
        raise ValueError(f"{energy.name} has no header name {', '.join(unknown)}")
    sizes: dict[str, int] = {}
    for name, header in energy.header.items():
        if name in given:
            value = Fraction(given[name])
        elif header.default is None:
            raise ValueError(f"{energy.name} needs a value for {name}")
        else:
            value = exact(header.default, sizes)
        if value.denominator != 1 or value < 1:
            raise ValueError(f"{name} = {value} is not a positive integer")
        sizes[name] = int(value)
    return sizes


def exact(expr: Expr, sizes: Mapping[str, int]) -> Fraction:
    """The value of a header default; ValueError where a `/` does not divide exactly."""
    match expr:
        case Number(value=value):
            return value
        case Size(name=name):
            return Fraction(sizes[name])
        case Negative(operand=operand):
            return -exact(operand, sizes)
        case Binary(operator=operator):
            left, right = exact(expr.left, sizes), exact(expr.right, sizes)
            match operator:
                case "+":
                    return left + right
                case "-":
                    return left - right
                case "*":
                    return left * right
                case "/":
                    if right == 0 or (left / right).denominator != 1:
                        raise ValueError(f"{left} / {right} does not divide exactly")
                    return left / right
                case "^":
                    return Fraction(left**right)
    raise TypeError(f"not allowed in a header default: {type(expr).__name__}")


def constant_values(
    energy: Energy, sizes: Mapping[str, int], overridden: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Header names and constants as float64 numbers; `overridden` constants keep the value given."""
    numbers = {name: float(size) for name, size in sizes.items()}
    for name, constant in energy.constants.items():
        if overridden and name in overridden:
            numbers[name] = float(overridden[name])
        else:
            numbers[name] = number(energy, numbers, constant.value)
    return numbers


def number(energy: Energy, numbers: Mapping[str, float], expr: Expr) -> float:
    """The float64 value of a scalar made of numbers, header names and constants."""
    env = Environment(evaluate, Model(energy, numbers, {}, torch.float64), {}, {})
    return evaluate(expr, Points(1, {}), env).item()
