"""Spots sums of exponentials under a logarithm, in every spelling, before anything is differentiated.

`log(exp(b) + p * sum[j](exp(s)))` with a positive p is a log-sum-exp of b and of s + log p; definitions are looked
through. A factor g of unknown sign, or that may be 0, has no logarithm to join the exponent: with L the log-sum-exp of
the exponents alone, the logarithm is L + log(sum of g exp(s - L)). No later stage ever sees the unstable form.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sympy import Add, Integer
from sympy.core.containers import Tuple

from cemc.notation.nodes import (
    ONE,
    ZERO,
    Branch,
    Expr,
    Held,
    IndexSymbol,
    LogSumExp,
    Select,
    all_of,
    apply,
    compare,
    sum_over,
    word,
)
from cemc.notation.walk import is_plain
from cemc.operations import ELEMENTWISE
from cemc.semantics import typed
from cemc.symbolic.power import power

if TYPE_CHECKING:
    from cemc.symbolic.build import At, Builder, Scope


_MOST = 64
"""Exponentials taken out of one definition: each of many that add up the one before twice has twice as many."""


@dataclass(frozen=True)
class _Part:
    """`factor` times the exponentials of a branch."""

    branch: Branch
    factor: Expr = ONE


def logarithm(builder: Builder, expr: typed.Expr, at: At, scope: Scope, raw: bool) -> Expr | None:
    """The stable logarithm of `expr`; None if that has no exponential. `raw` says what it is where nothing is summed,
    or all that is summed is 0: minus infinity or 0."""
    if not _count(builder, expr):
        return _of_probability(builder, expr, at if expr.shape else (), scope)
    parts = _parts(builder, expr, at if expr.shape else (), scope)
    empty = word("minus infinity" if raw else "zero")
    branches = [Branch(builder.scores(part.branch.args[0]), *part.branch.args[1:]) for part in parts]
    if all(part.factor == ONE for part in parts):
        return LogSumExp(empty, *branches)
    if all(part.branch == _UNIT for part in parts):
        normaliser: Expr = ZERO
        total = Add(*(part.factor for part in parts))
    else:
        normaliser = LogSumExp(word("zero"), *map(_counted, parts, branches))
        total = Add(*(_relative(part, branch, normaliser) for part, branch in zip(parts, branches, strict=True)))
    total = builder.scores(total)
    filled = compare("!=", total, ZERO)
    return LogSumExp(empty, Branch(normaliser + apply("log", Select(filled, total, ONE)), filled, Tuple()))


def _counted(part: _Part, branch: Branch) -> Branch:
    """The branch where its factor is not 0: a 0 is how a mask may be written, and hides even the largest score."""
    exponent, condition, bound = branch.args
    return (
        branch if part.factor == ONE else Branch(exponent, all_of(condition, compare("!=", part.factor, ZERO)), bound)
    )


def _relative(part: _Part, branch: Branch, normaliser: Expr) -> Expr:
    """The part over the exponential of the normaliser. Where the factor is 0 that may be anything finite, for
    it is what the gradient of the factor is multiplied by."""
    exponent, condition, bound = branch.args
    size = apply("exp", apply("min", exponent - normaliser, _LARGEST_EXPONENT))
    return sum_over(part.factor * size, condition, tuple(bound))


_LARGEST_EXPONENT = Integer(80)
"""Of an exponential that is finite in float32 and bfloat16."""

_UNIT = Branch(ZERO, ONE, Tuple())


def _of_probability(builder: Builder, expr: typed.Expr, at: At, scope: Scope) -> Expr | None:
    """The logarithm of a sigmoid or softmax, which may be 0 in floating point; definitions are looked through."""
    match expr:
        case typed.Held():
            value = _of_probability(builder, expr.operand, at, scope)
            return None if value is None else Held(word(expr.kind), value)
        case typed.Access(name=name) if name in builder.written:
            definition = builder.written[name]
            points = builder.subscripts(expr.subscripts, builder.axes(name), scope) + at
            if all(is_plain(point) for point in points):
                n = len(definition.indices)
                inside = builder.at_points(definition.indices, points[:n])
                return _of_probability(builder, definition.body, points[n:], inside)
        case typed.Call(function="sigmoid"):
            return -apply("softplus", -builder.broadcast(expr.arguments[0], at, scope))
        case typed.Call(function="softmax"):
            vector = expr.arguments[0]
            return builder.scalar(vector, at, scope) - builder.vector_reduction("logsumexp", vector, scope, raw=False)
    return None


def _count(builder: Builder, expr: typed.Expr) -> int:
    """How many exponentials `expr` is a sum of; 0 if it is none, whatever else it is."""
    match expr:
        case typed.Call(function="exp"):
            return 1
        case typed.Call(function="sum", arguments=(operand,)) | typed.Held(operand=operand):
            return _count(builder, operand)
        case typed.Subscripted(base=operand) | typed.Reduction(kind="sum" | "mean", body=operand):
            return _count(builder, operand)
        case typed.Binary(operator="+"):
            left, right = _count(builder, expr.left), _count(builder, expr.right)
            return max(left, 1) + max(right, 1) if left or right else 0
        case typed.Binary(operator="*"):
            return _count(builder, expr.left) or _count(builder, expr.right)
        case typed.Binary(operator="/"):
            return _count(builder, expr.left)
        case typed.Access(name=name) if name in builder.written:
            if name not in builder.exponentials:
                builder.exponentials[name] = _count(builder, builder.written[name].body)
            return min(builder.exponentials[name], _MOST + 1)
    return 0


def _parts(builder: Builder, expr: typed.Expr, at: At, scope: Scope) -> list[_Part]:
    """`expr` as a sum of exponentials with factors."""
    count = _count(builder, expr)
    match expr:
        case typed.Binary(operator="+"):
            left = _parts(builder, expr.left, at if expr.left.shape else (), scope)
            return left + _parts(builder, expr.right, at if expr.right.shape else (), scope)
        case typed.Binary(operator="*" | "/") if count:
            return _product(builder, expr, at, scope)
        case typed.Call(function="exp"):
            exponent = builder.broadcast(expr.arguments[0], at, scope, raw=True)
            return [_Part(Branch(exponent, ONE, Tuple()))]
        case typed.Call(function="sum") if count:
            inner = builder.tables.index("", expr.arguments[0].shape[0].name)
            return [_within(part, ONE, (inner,)) for part in _parts(builder, expr.arguments[0], (inner,), scope)]
        case typed.Reduction(kind="sum" | "mean") if count or _positive(builder, expr.body):
            bound, symbols, condition = builder.bind(expr.indices, expr.condition, scope)
            parts = _parts(builder, expr.body, at, bound)
            if expr.kind == "mean":
                number = builder.count(condition, symbols)
                parts = [_shifted(part, -apply("log", number)) for part in parts]
            return [_within(part, condition, symbols) for part in parts]
        case typed.Held() if count:
            return [_held(part, expr.kind) for part in _parts(builder, expr.operand, at, scope)]
        case typed.Subscripted() if count:
            points = builder.subscripts(expr.subscripts, tuple(axis.name for axis in expr.base.shape), scope)
            if all(is_plain(point) for point in points):
                return _parts(builder, expr.base, points + at, scope)
        case typed.Access() if 0 < count <= _MOST:
            definition = builder.written[expr.name]
            points = builder.subscripts(expr.subscripts, builder.axes(expr.name), scope) + at
            if all(is_plain(point) for point in points):
                n = len(definition.indices)
                return _parts(builder, definition.body, points[n:], builder.at_points(definition.indices, points[:n]))
    value = builder.broadcast(expr, at, scope)
    if _positive(builder, expr):
        return [_Part(Branch(apply("log", value), ONE, Tuple()))]
    return [_Part(_UNIT, value)]


def _product(builder: Builder, expr: typed.Binary, at: At, scope: Scope) -> list[_Part]:
    """Exponentials times or over something: the logarithm of what is positive joins the exponent, anything else is a
    factor."""
    left_at, right_at = (at if side.shape else () for side in (expr.left, expr.right))
    for side, side_at, other, other_at in (
        (expr.left, left_at, expr.right, right_at),
        (expr.right, right_at, expr.left, left_at),
    ):
        if not _count(builder, side):
            continue
        parts = _parts(builder, side, side_at, scope)
        if isinstance(other, typed.Call) and other.function == "exp":
            shift = builder.broadcast(other.arguments[0], at, scope, raw=expr.operator == "*")
        elif _positive(builder, other):
            shift = apply("log", builder.scalar(other, other_at, scope))
        else:
            factor = builder.scalar(other, other_at, scope)
            if expr.operator == "/":
                factor = power(factor, Integer(-1))
            return [replace(part, factor=part.factor * factor) for part in parts]
        return [_shifted(part, shift if expr.operator == "*" else -shift) for part in parts]
    raise AssertionError("a product without an exponential")


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


def _within(part: _Part, condition: Expr, indices: tuple[IndexSymbol, ...]) -> _Part:
    """The part, summed over more indices."""
    exponent, own, bound = part.branch.args
    return replace(part, branch=Branch(exponent, all_of(condition, own), Tuple(*indices, *bound)))


def _shifted(part: _Part, shift: Expr) -> _Part:
    return replace(part, branch=Branch(part.branch.args[0] + shift, *part.branch.args[1:]))


def _held(part: _Part, kind: str) -> _Part:
    exponent, *rest = part.branch.args
    factor = part.factor if part.factor.is_Rational else Held(word(kind), part.factor)
    return _Part(Branch(Held(word(kind), exponent), *rest), factor)
