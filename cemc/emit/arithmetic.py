"""Sums, products and powers, printed the way people write them: `x - eta * g / n`, `u.square()`."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from cemc.emit.code import PRODUCT, SUM, Code, chain, method, negative, number, power


def add(terms: list[Code]) -> Code:
    """The sum of `terms`: names first and literals last; terms with a minus are subtracted, if not first."""
    ordered = sorted(terms, key=lambda term: (term.positive is not None, _is_literal(term), term.weight > 0))
    if not _is_literal(ordered[0]):
        ordered.sort(key=_is_literal)
    rest = [("+", term) if term.positive is None else ("-", term.positive) for term in ordered[1:]]
    return chain(SUM, ordered[0], *rest)


def _is_literal(term: Code) -> bool:
    return (term.positive or term).text[:1].isdigit()


@dataclass
class Product:
    """The factors of a product. `scalar`: numbers of Python, which are multiplied with each other first."""

    coefficient: Fraction = Fraction(1)
    scalars: list[Code] = field(default_factory=list)
    scalar_divisors: list[Code] = field(default_factory=list)
    factors: list[Code] = field(default_factory=list)
    divisors: list[Code] = field(default_factory=list)

    def code(self) -> Code:
        """The product as one expression."""
        size = abs(self.coefficient)
        top, bottom = list(self.scalars), list(self.scalar_divisors)
        factors = sorted(self.factors, key=lambda factor: factor.weight > 0)
        literal = number(size)
        if literal.level == PRODUCT:  # A quotient of two integers.
            if size.numerator != 1:
                top.insert(0, number(Fraction(size.numerator)))
            bottom.append(number(Fraction(size.denominator)))
        elif size != 1:
            top.insert(0, literal)
        if top and factors:
            # Numbers of Python among themselves, then the tensors.
            rest = [("*", c) for c in top[1:]] + _over(bottom) + [("*", c) for c in factors] + _over(self.divisors)
            result = chain(PRODUCT, top[0], *rest)
        else:
            above = top + factors or [number(Fraction(1))]
            rest = [("*", c) for c in above[1:]] + _over(bottom + self.divisors)
            result = chain(PRODUCT, above[0], *rest)
        return negative(result) if self.coefficient < 0 else result


def _over(divisors: list[Code]) -> list[tuple[str, Code]]:
    if not divisors:
        return []
    return [("/", chain(PRODUCT, divisors[0], *(("*", c) for c in divisors[1:])))]


def raised(base: Code, exponent: Fraction, *, scalar: bool) -> Code:
    """`base` to a fixed power other than a root."""
    if exponent == 1:
        return base
    if exponent < 0:
        return chain(PRODUCT, number(Fraction(1)), ("/", raised(base, -exponent, scalar=scalar)))
    if exponent == 2 and not scalar:
        return method(base, "square")
    return power(base, number(exponent))
