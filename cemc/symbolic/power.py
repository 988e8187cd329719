"""Powers in index notation."""

from __future__ import annotations

from sympy import Pow, Rational

from cemc.notation.nodes import ONE, ZERO, Expr, apply

# Powers of numbers beyond this many bits are left to floating point (a tower of exponents must not hang).
_FOLDED_BITS = 256
# Integer powers up to this are SymPy's; larger ones are a function call like any other.
_LARGEST_POWER = 32


def power(base: Expr, exponent: Expr) -> Expr:
    """base ^ exponent, folded only where that is exact and small."""
    if exponent == ONE:
        return base
    if exponent == Rational(1, 2):
        return apply("sqrt", base)  # whose derivative at 0 is 0
    if exponent.is_Integer and abs(int(exponent)) <= _LARGEST_POWER and not (base == ZERO and exponent <= 0):
        if exponent == ZERO:
            return ONE
        bits = (base.p.bit_length() + base.q.bit_length()) * abs(int(exponent)) if base.is_Rational else 0
        if bits <= _FOLDED_BITS:
            return Pow(base, exponent)
    return apply("pow", base, exponent)
