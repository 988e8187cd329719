"""Subscripts as affine forms: sums of whole multiples of positions, sizes and 1."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from cemc.semantics.typed import Axis, Binary, Expr, Index, Negative, Number, Position, Size

Term = Index | str | None
"""What a coefficient belongs to: a position, the size of a header name, or the constant (None)."""

Form = Mapping[Term, Fraction]

ONE: Form = {None: Fraction(1)}


def affine(expression: Expr, indices: Mapping[Index, Form]) -> Form | None:
    """The form of an expression, None if it has none. `indices` says what some index variables stand for."""
    if isinstance(expression, Number):
        return {None: expression.value}
    if isinstance(expression, Size):
        return {expression.name: Fraction(1)}
    if isinstance(expression, Position):
        return indices.get(expression.index, {expression.index: Fraction(1)})
    if isinstance(expression, Negative):
        operand = affine(expression.operand, indices)
        return None if operand is None else scale(operand, Fraction(-1))
    if not isinstance(expression, Binary):
        return None
    left, right = affine(expression.left, indices), affine(expression.right, indices)
    if left is None or right is None:
        return None
    if expression.operator in ("+", "-"):
        return plus(left, right if expression.operator == "+" else scale(right, Fraction(-1)))
    if expression.operator == "*":
        for factor, other in ((left, right), (right, left)):
            if set(factor) <= {None}:
                return scale(other, factor.get(None, Fraction(0)))
    return None


def plus(left: Form, right: Form) -> Form:
    total = dict(left)
    for term, coefficient in right.items():
        total[term] = total.get(term, Fraction(0)) + coefficient
    return {term: coefficient for term, coefficient in total.items() if coefficient}


def minus(left: Form, right: Form) -> Form:
    return plus(left, scale(right, Fraction(-1)))


def scale(form: Form, factor: Fraction) -> Form:
    return {term: factor * coefficient for term, coefficient in form.items() if factor * coefficient}


def never_negative(form: Form) -> bool:
    """Whether the form is at least 0 because positions are, and sizes are at least 1."""
    least = form.get(None, Fraction(0))
    for term, coefficient in form.items():
        if term is not None and coefficient < 0:
            return False
        if isinstance(term, str):
            least += coefficient
    return least >= 0


def room_above(form: Form, axis: Axis) -> list[Form]:
    """Forms of which one that is never negative shows that `form` stays below the size of `axis`: what lies between
    it and the last position, or between it and an index over the same axis."""
    rooms: list[Form] = []
    if not axis.runtime:
        rooms.append(minus(minus({axis.name: Fraction(1)}, ONE), form))
    rooms += [minus({term: Fraction(1)}, form) for term in form if isinstance(term, Index) and term.axis == axis]
    return rooms
