"""Where a function of one argument is not smooth, as far as that can be read off it."""

from __future__ import annotations

from fractions import Fraction

from sympy import Rational

from cemc.notation.nodes import Antiderivative, Apply, ArgumentSymbol, Compare, Expr
from cemc.notation.walk import postorder
from cemc.operations import ELEMENTWISE


def kinks(expr: Expr, argument: ArgumentSymbol) -> tuple[Fraction, ...]:
    """The arguments at which a function with kinks, or a comparison, in `expr` is at one; affine operands only."""
    return tuple(sorted(_kinks(expr, argument, {})))


def _kinks(expr: Expr, argument: ArgumentSymbol, known: dict[Expr, set[Fraction]]) -> set[Fraction]:
    """`known`: those of the integrands met so far, which may contain integrals of each other."""
    if expr in known:
        return known[expr]
    lines = _affine(expr, argument)
    found: set[Fraction] = set()
    for node in postorder(expr):
        if isinstance(node, Apply) and node.function in ("min", "max") and len(node.arguments) == 2:
            found |= _roots(_difference(lines, *node.arguments), (Fraction(0),))
        elif isinstance(node, Apply):
            found |= _roots(lines.get(node.arguments[0]), ELEMENTWISE[node.function].kinks)
        elif isinstance(node, Antiderivative):
            _, inner, integrand, operand = node.args
            if operand in lines:
                found |= _roots(lines[operand], tuple(_kinks(integrand, inner, known)))
        elif isinstance(node, Compare):
            found |= _roots(_difference(lines, *node.args[1:]), (Fraction(0),))
    known[expr] = found
    return found


Line = tuple[Fraction, Fraction]


def line(expr: Expr, argument: ArgumentSymbol) -> Line | None:
    """(slope, offset) of an expression that is affine in the argument with rational coefficients."""
    return _affine(expr, argument).get(expr)


def _affine(expr: Expr, argument: ArgumentSymbol) -> dict[Expr, Line]:
    """(slope, offset) of each node that is affine in the argument with rational coefficients."""
    lines: dict[Expr, Line] = {}
    for node in postorder(expr):
        if node == argument:
            lines[node] = (Fraction(1), Fraction(0))
        elif isinstance(node, Rational):
            lines[node] = (Fraction(0), Fraction(int(node.p), int(node.q)))
        elif getattr(node, "is_Add", False) and all(a in lines for a in node.args):
            parts = [lines[a] for a in node.args]
            lines[node] = (sum((p[0] for p in parts), Fraction(0)), sum((p[1] for p in parts), Fraction(0)))
        elif getattr(node, "is_Mul", False) and all(a in lines for a in node.args):
            slope, offset = Fraction(0), Fraction(1)
            for a, b in (lines[child] for child in node.args):
                if slope and a:
                    break
                slope, offset = slope * b + offset * a, offset * b
            else:
                lines[node] = (slope, offset)
    return lines


def _difference(lines: dict[Expr, Line], left: Expr, right: Expr) -> Line | None:
    if left not in lines or right not in lines:
        return None
    return lines[left][0] - lines[right][0], lines[left][1] - lines[right][1]


def _roots(line: Line | None, values: tuple[Fraction, ...]) -> set[Fraction]:
    if line is None or line[0] == 0:
        return set()
    return {(value - line[1]) / line[0] for value in values}
