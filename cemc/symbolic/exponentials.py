"""Spots sums of exponentials under a logarithm, in every spelling, before anything is differentiated.

`log(exp(b) + p * sum[j](exp(s)))` with a positive p is a log-sum-exp of b and of s + log p; definitions are looked
through. No later stage ever sees the unstable form.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sympy.core.containers import Tuple

from cemc.notation.nodes import ONE, Branch, Expr, Held, IndexSymbol, all_of, apply, word
from cemc.notation.walk import is_plain
from cemc.operations import ELEMENTWISE
from cemc.semantics import typed

if TYPE_CHECKING:
    from cemc.symbolic.build import At, Builder, Scope


def branches(builder: Builder, expr: typed.Expr, at: At, scope: Scope) -> list[Expr] | None:
    """`expr` as a sum of exponentials: the branches of its logarithm; None if it is not one, or has no
    exponential."""
    branches = _exponentials(builder, expr, at if expr.shape else (), scope)
    if branches is None or not any(found for _, found in branches):
        return None
    return [Branch(builder.scores(branch.args[0]), *branch.args[1:]) for branch, _ in branches]


def _exponentials(builder: Builder, expr: typed.Expr, at: At, scope: Scope) -> list[tuple[Branch, bool]] | None:
    """Branches, each with whether an exponential was seen in it (a positive number alone makes no log-sum-exp)."""
    match expr:
        case typed.Binary(operator="+"):
            left = _exponentials(builder, expr.left, at if expr.left.shape else (), scope)
            right = _exponentials(builder, expr.right, at if expr.right.shape else (), scope) if left else None
            return left + right if left and right else None
        case typed.Binary(operator="*" | "/"):
            if (product := _product(builder, expr, at, scope)) is not None:
                return product
        case typed.Call(function="exp"):
            exponent = builder.broadcast(expr.arguments[0], at, scope, raw=True)
            return [(Branch(exponent, ONE, Tuple()), True)]
        case typed.Call(function="sum"):
            inner = builder.tables.index("", expr.arguments[0].shape[0].name)
            body = _exponentials(builder, expr.arguments[0], (inner,), scope)
            return body and [(_within(b, ONE, (inner,)), found) for b, found in body]
        case typed.Reduction(kind="sum" | "mean"):
            bound, symbols, condition = builder.bind(expr.indices, expr.condition, scope)
            body = _exponentials(builder, expr.body, at, bound)
            if body and expr.kind == "mean":
                count = builder.count(condition, symbols)
                body = [(_shifted(b, -apply("log", count)), found) for b, found in body]
            return body and [(_within(b, condition, symbols), found) for b, found in body]
        case typed.Held():
            body = _exponentials(builder, expr.operand, at, scope)
            return body and [
                (Branch(Held(word(expr.kind), b.args[0]), b.args[1], b.args[2]), found) for b, found in body
            ]
        case typed.Access():
            definition = builder.written.get(expr.name)
            if definition is not None:
                points = builder.subscripts(expr.subscripts, builder.axes(expr.name), scope) + at
                if all(is_plain(point) for point in points):
                    n = len(definition.indices)
                    inside = builder.at_points(definition.indices, points[:n])
                    found = _exponentials(builder, definition.body, points[n:], inside)
                    if found and any(seen for _, seen in found):
                        return found
    if _positive(builder, expr):
        return [(Branch(apply("log", builder.broadcast(expr, at, scope)), ONE, Tuple()), False)]
    return None


def _product(builder: Builder, expr: typed.Binary, at: At, scope: Scope) -> list[tuple[Branch, bool]] | None:
    """exp(u) times or over something positive: its logarithm joins the exponent."""
    left_at, right_at = (at if side.shape else () for side in (expr.left, expr.right))
    for side, side_at, other, other_at in (
        (expr.left, left_at, expr.right, right_at),
        (expr.right, right_at, expr.left, left_at),
    ):
        if side is expr.right and expr.operator == "/":
            break
        body = _exponentials(builder, side, side_at, scope)
        if not body or not any(found for _, found in body):
            continue
        if isinstance(other, typed.Call) and other.function == "exp":
            shift = builder.broadcast(other.arguments[0], at, scope, raw=expr.operator == "*")
        elif _positive(builder, other):
            shift = apply("log", builder.scalar(other, other_at, scope))
        else:
            continue
        return [(_shifted(b, shift if expr.operator == "*" else -shift), found) for b, found in body]
    return None


def _positive(builder: Builder, expr: typed.Expr) -> bool:
    """Whether the value is positive whatever the arguments."""
    match expr:
        case typed.Number():
            return expr.value > 0
        case typed.Size():
            return True
        case typed.Access():
            parameter = builder.energy.parameters.get(expr.name)
            # A computed subscript may read outside, which is 0.
            plain = all(isinstance(s, typed.Position) for s in expr.subscripts)
            return parameter is not None and parameter.positive and plain
        case typed.Call():
            record = ELEMENTWISE.get(expr.function)
            return record is not None and record.positive
        case typed.Binary(operator="+" | "*" | "/"):
            return _positive(builder, expr.left) and _positive(builder, expr.right)
        case typed.Binary(operator="^"):
            return _positive(builder, expr.left)
        case typed.Held():
            return _positive(builder, expr.operand)
    return False


def _within(branch: Branch, condition: Expr, indices: tuple[IndexSymbol, ...]) -> Branch:
    """The branch, summed over more indices."""
    return Branch(branch.args[0], all_of(condition, branch.args[1]), Tuple(*indices, *branch.args[2]))


def _shifted(branch: Branch, shift: Expr) -> Branch:
    return Branch(branch.args[0] + shift, *branch.args[1:])
