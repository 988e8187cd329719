"""Representative lengths of axes, by which the order of contractions is chosen."""

from __future__ import annotations

from fractions import Fraction

from cemc.semantics import typed

_RUNTIME = 1024
_HEADER = 512


def representative_sizes(energy: typed.Energy) -> dict[str, int]:
    """A plausible length for each axis: 1024 at run time, 512 for a header name without a default, defaults as
    written."""
    sizes: dict[str, int] = {axis.name: _RUNTIME for axis in energy.runtime_axes}
    for name, header in energy.header.items():
        value = Fraction(_HEADER) if header.default is None else _evaluate(header.default, sizes)
        sizes[name] = max(1, min(int(value), 1 << 20))
    return sizes


def _evaluate(expr: typed.Expr, sizes: dict[str, int]) -> Fraction:
    match expr:
        case typed.Number():
            return expr.value
        case typed.Size():
            return Fraction(sizes[expr.name])
        case typed.Negative():
            return -_evaluate(expr.operand, sizes)
        case typed.Binary():
            left, right = _evaluate(expr.left, sizes), _evaluate(expr.right, sizes)
            if expr.operator == "+":
                return left + right
            if expr.operator == "-":
                return left - right
            if expr.operator == "*":
                return left * right
            if expr.operator == "/":
                return left / right if right else Fraction(_HEADER)
            # A tower of exponents is of no use as a representative length.
            small = right.denominator == 1 and abs(right) <= 8
            return left ** int(right) if small and (left or right > 0) else Fraction(_HEADER)
    return Fraction(_HEADER)
