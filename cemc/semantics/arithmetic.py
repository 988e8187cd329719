"""Shapes of `+ - * / ^ @ .T`."""

from __future__ import annotations

from typing import Literal, cast

from cemc.diagnostics.shapes import NoProduct, NotAMatrix, Unequal
from cemc.semantics.context import Context, describe, is_poison, poison
from cemc.semantics.dispatch import infer, rule
from cemc.semantics.typed import Access, Axis, Binary, Expr, MatMul, Transpose
from cemc.source import Span
from cemc.syntax import tree
from cemc.syntax.limits import LONGEST_CHAIN


@rule(tree.Sum)
def sum_chain(node: tree.Sum, context: Context) -> Expr:
    first = infer(node.first, context)
    terms = [("+", first)]
    total = first
    for operator, part in node.rest:
        term = infer(part, context)
        if not is_poison(total, term) and not same_or_scalar(total.shape, term.shape):
            return context.fault(_unequal(operator, total, term, part.span, context))
        if is_poison(total) or (not is_poison(term) and not total.shape):
            total = term
        terms.append((operator, term))
    if any(is_poison(term) for _, term in terms):
        return poison(node.span)
    if len(terms) > LONGEST_CHAIN:
        return _balanced(terms)
    result = first
    for operator, term in terms[1:]:
        result = _plus(operator, result, term)
    return result


def _plus(operator: str, left: Expr, right: Expr) -> Expr:
    span = left.span.to(right.span)
    return Binary(span, left.shape or right.shape, cast(Literal["+", "-"], operator), left, right)


def _balanced(terms: list[tuple[str, Expr]]) -> Expr:
    """The sum of terms with their signs, whose first sign is `+`."""
    if len(terms) == 1:
        return terms[0][1]
    middle = (len(terms) + 1) // 2
    operator = terms[middle][0]
    right = terms[middle:]
    if operator == "-":
        right = [("+" if sign == "-" else "-", term) for sign, term in right]
    return _plus(operator, _balanced(terms[:middle]), _balanced(right))


@rule(tree.Binary)
def binary(node: tree.Binary, context: Context) -> Expr:
    left = infer(node.left, context)
    right = infer(node.right, context)
    if is_poison(left, right):
        return poison(node.span)
    if node.operator == "@":
        return _matmul(node, left, right, context)
    if not same_or_scalar(left.shape, right.shape):
        return context.fault(_unequal(node.operator, left, right, node.span, context))
    operator = cast(Literal["*", "/", "^"], node.operator)
    return Binary(node.span, left.shape or right.shape, operator, left, right)


def same_or_scalar(left: tuple[Axis, ...], right: tuple[Axis, ...]) -> bool:
    return left == right or not left or not right


def _matmul(node: tree.Binary, left: Expr, right: Expr, context: Context) -> Expr:
    if not left.shape or not right.shape:
        why = "a number has no axis to sum over"
        return context.fault(
            NoProduct(node.span, describe(left.shape), describe(right.shape), why, suggestion="write `*`")
        )
    if left.shape[-1] != right.shape[0]:
        why = f"`{left.shape[-1].name}` meets `{right.shape[0].name}`"
        advice = _matmul_advice(node, left, right, context)
        return context.fault(NoProduct(node.span, describe(left.shape), describe(right.shape), why, suggestion=advice))
    return MatMul(node.span, left.shape[:-1] + right.shape[1:], left, right)


def _matmul_advice(node: tree.Binary, left: Expr, right: Expr, context: Context) -> str | None:
    first, second = context.text(node.left.span), context.text(node.right.span)
    if len(left.shape) == 2 and left.shape[0] == right.shape[0]:
        return f"the transpose would fit: `{_transposed(node.left, first)} @ {second}`"
    if len(right.shape) == 2 and left.shape[-1] == right.shape[1]:
        return f"the transpose would fit: `{first} @ {_transposed(node.right, second)}`"
    for operand, other, place in ((left, right, 0), (right, left, 1)):
        subscript = missing_subscript(operand, context)
        if subscript is not None:
            rest = operand.shape[1:]
            fits = rest and (rest[-1] == other.shape[0] if place == 0 else rest[0] == other.shape[-1])
            if fits:
                return f"is a subscript missing? `{subscript}`"
    if left.shape[0] == right.shape[-1]:
        return f"the other order would fit: `{second} @ {first}`"
    if left.shape == right.shape:
        return "for an element-wise product write `*`"
    return None


def _transposed(node: tree.Node, text: str) -> str:
    if isinstance(node, tree.Transpose):
        return text.removesuffix(".T").rstrip()
    return (
        f"{text}.T" if isinstance(node, (tree.Name, tree.Subscript, tree.Call)) or text.endswith(")") else f"({text}).T"
    )


def missing_subscript(operand: Expr, context: Context) -> str | None:
    """An access with one more subscript, where an index over the next axis is at hand."""
    while isinstance(operand, (MatMul, Binary)) and operand.left.shape[:1] == operand.shape[:1]:
        operand = operand.left
    if not isinstance(operand, Access) or not operand.shape:
        return None
    used = {context.text(subscript.span) for subscript in operand.subscripts}
    for variable in reversed(context.scope.visible.values()):
        if variable.axis in (operand.shape[0], None) and variable.name not in used and not variable.silent:
            inside = [context.text(subscript.span) for subscript in operand.subscripts]
            return f"{operand.name}[{', '.join([*inside, variable.name])}]"
    return None


def _unequal(operator: str, left: Expr, right: Expr, span: Span, context: Context) -> Unequal:
    advice = None
    first, second = context.text(left.span), context.text(right.span)
    if operator == "*" and left.shape[-1] == right.shape[0]:
        advice = f"a product that sums over `{left.shape[-1].name}` is `{first} @ {second}`"
    elif len(left.shape) == 2 and left.shape == right.shape[::-1]:
        advice = f"the transpose would fit: `{second}.T`"
    else:
        for operand, other in ((left, right), (right, left)):
            subscript = missing_subscript(operand, context)
            if subscript is not None and operand.shape[1:] in (other.shape, ()):
                advice = f"is a subscript missing? `{subscript}`"
                break
    if advice is None and len(left.shape) == len(right.shape) == 1 and operator == "*":
        advice = f"all products of two entries are `outer({first}, {second})`"
    return Unequal(span, operator, describe(left.shape), describe(right.shape), suggestion=advice)


def transpose(node: tree.Transpose, operand: Expr, context: Context) -> Expr:
    if is_poison(operand):
        return operand
    if len(operand.shape) != 2:
        advice = None
        if len(operand.shape) == 1:
            advice = "a vector needs none: `u @ A` and `A @ u` both work"
        elif len(operand.shape) == 3:
            subscript = missing_subscript(operand, context)
            advice = f"is a subscript missing? `{subscript}.T`" if subscript else None
        return context.fault(NotAMatrix(node.span, describe(operand.shape), suggestion=advice))
    return Transpose(node.span, operand.shape[::-1], operand)
