"""Names and subscripts, and the kinds of node that need no module of their own."""

from __future__ import annotations

from cemc.diagnostics.names import UnknownName
from cemc.diagnostics.shapes import (
    MisplacedBinder,
    NoAxes,
    NoBody,
    NotABinder,
    NotANumber,
    NotElementwise,
    NotInteger,
    RuntimeAxisLeft,
    TooManySubscripts,
)
from cemc.operations.signatures import REDUCERS, SIGNATURES
from cemc.semantics import arithmetic, gradients, reductions
from cemc.semantics.advice import of_name
from cemc.semantics.context import Context, describe, is_poison, names, poison
from cemc.semantics.dispatch import infer, rule
from cemc.semantics.integers import not_integer
from cemc.semantics.names import RESERVED
from cemc.semantics.table import WITH_AXES, Declared, a
from cemc.semantics.typed import (
    Access,
    Argument,
    Axis,
    ConstantRef,
    Expr,
    Gradient,
    Held,
    Negative,
    Number,
    Position,
    Size,
    Subscripted,
)
from cemc.source import Span
from cemc.syntax import tree


@rule(tree.Number)
def _number(node: tree.Number, context: Context) -> Expr:
    return Number(node.span, (), node.value)


@rule(tree.Negative)
def _negative(node: tree.Negative, context: Context) -> Expr:
    operand = infer(node.operand, context)
    return operand if is_poison(operand) else Negative(node.span, operand.shape, operand)


@rule(tree.Transpose)
def _transpose(node: tree.Transpose, context: Context) -> Expr:
    return arithmetic.transpose(node, infer(node.operand, context), context)


@rule(tree.Held)
def _held(node: tree.Held, context: Context) -> Expr:
    if context.mode == "function":
        return context.fault(NotElementwise(node.span, f"`{node.kind}(…)` stands", context.owner))
    operand = infer(node.operand, context)
    if is_poison(operand):
        return operand
    return Held(node.span, operand.shape, "given" if node.kind == "given" else "input", operand)


# ------------------------------------------------------------------------------------------ names and subscripts


@rule(tree.Name)
def _name(node: tree.Name, context: Context) -> Expr:
    return _access(node, (), context)


@rule(tree.Subscript)
def _subscript(node: tree.Subscript, context: Context) -> Expr:
    """Subscripts of subscripts are one list: `x[i][e]` is `x[i, e]`."""
    brackets = []
    base: tree.Node = node
    while isinstance(base, tree.Subscript):
        brackets.append(base.bracket)
        base = base.base
    brackets.reverse()
    entries: list[tree.Node] = []
    for bracket in brackets:
        if bracket.condition is not None:
            return context.fault(MisplacedBinder(bracket.condition.span, "a condition"))
        entries += bracket.entries
    if isinstance(base, tree.Name):
        if base.text in REDUCERS:
            body = f"write `{context.text(node.span)}(…)`"
            return context.fault(NoBody(node.span, base.text, suggestion=body))
        return _access(base, tuple(entries), context, node.span)
    inner = gradients.typed(base, context) if isinstance(base, tree.Gradient) else infer(base, context)
    subscripts = _subscripts(entries, context)
    if is_poison(inner) or subscripts is None:
        return poison(node.span)
    earlier = inner.subscripts if isinstance(inner, (Gradient, Access, Subscripted)) else ()
    shape = _apply(inner.shape, entries, subscripts, f"`{context.text(base.span)}`", node.span, context)
    if shape is None:
        return poison(node.span)
    if isinstance(inner, Gradient):
        return gradients.subscripted(Gradient(node.span, shape, inner.wrt, inner.energy, earlier + subscripts), context)
    return Subscripted(node.span, shape, inner, subscripts)


def _access(node: tree.Name, entries: tuple[tree.Node, ...], context: Context, span: Span | None = None) -> Expr:
    span = span or node.span
    variable = context.scope.visible.get(node.text)
    declared = context.table.find(node.text)
    if variable is not None or node.text in context.arguments:
        if entries:
            what = f"the index `{node.text}`" if variable is not None else f"the argument `{node.text}`"
            return context.fault(NoAxes(span, what))
        if variable is not None:
            return poison(span) if variable.silent else Position(span, (), variable.index)
        return Argument(span, (), node.text)
    if declared is None:
        for entry in entries:
            infer_quietly(entry, context)
        return _unknown(node, context, bool(entries))
    declared.used = True
    if declared.kind == "lost":
        return poison(span)
    if context.mode == "function" and declared.kind not in ("header name", "constant", "function", "axis"):
        return context.fault(
            NotElementwise(node.span, f"`{node.text}` is {a(declared.kind)}, and stands", context.owner)
        )
    if declared.kind in WITH_AXES:
        return _table_access(node, declared, entries, span, context)
    if declared.kind in ("axis", "function"):
        advice = (
            f"write `{node.text}(…)`" if declared.kind == "function" else "its size is known only when the layer runs"
        )
        return context.fault(NotANumber(node.span, f"{a(declared.kind)}, `{node.text}`,", suggestion=advice))
    if entries:
        return context.fault(NoAxes(span, f"{a(declared.kind)}, `{node.text}`,"))
    return Size(span, (), node.text) if declared.kind == "header name" else ConstantRef(span, (), node.text)


def _table_access(
    node: tree.Name, declared: Declared, entries: tuple[tree.Node, ...], span: Span, context: Context
) -> Expr:
    subscripts = _subscripts(entries, context)
    if declared.axes is None or subscripts is None:
        return poison(span)
    shape = _apply(declared.axes, entries, subscripts, f"`{node.text}`", span, context)
    if shape is None:
        return poison(span)
    left = next((axis for axis in shape if axis.runtime), None)
    if left is not None and not context.free_axes:
        advice = _with_subscripts(node, declared.axes, subscripts, context)
        return context.fault(RuntimeAxisLeft(span, node.text, left.name, suggestion=advice))
    return Access(span, shape, node.text, subscripts)


def _with_subscripts(node: tree.Name, axes: tuple[Axis, ...], done: tuple[Expr, ...], context: Context) -> str | None:
    """The access with the run-time axes subscripted by indices that are at hand."""
    last = max(place for place, axis in enumerate(axes) if axis.runtime)
    parts = [context.text(subscript.span) for subscript in done]
    for axis in axes[len(done) : last + 1]:
        fitting = [
            each.name for each in context.scope.visible.values() if each.axis in (axis, None) and each.name not in parts
        ]
        if not fitting:
            if not parts:
                return f"write `{node.text}[i]`, with an index `i` bound on the left or by a reduction"
            free = [each for each in "jklmn" if each not in context.scope.visible and context.table.find(each) is None]
            if not free:
                return None
            text = f"`{node.text}[{', '.join([*parts, free[0]])}]`"
            if context.binders:
                inner = context.binders[-1].text
                return f"write {text}, and bind `{free[0]}` too: `{inner[:-1]}, {free[0]}](…)`"
            return f"write {text}, with `{free[0]}` bound on the left or by a reduction"
        parts.append(fitting[0])
    have = f"; its axes are {names(axes)}" if len(axes) > 2 and done else ""
    return f"write `{node.text}[{', '.join(parts)}]`{have}"


def _unknown(node: tree.Name, context: Context, subscripted: bool) -> Expr:
    name = node.text
    if name in RESERVED:
        return poison(node.span)  # reported where it was read
    if name in SIGNATURES:
        return context.fault(NotANumber(node.span, f"the function `{name}`", suggestion=f"write `{name}(…)`"))
    advice = of_name(name, context, subscripted)
    return context.fault(UnknownName(node.span, name, suggestion=advice))


def infer_quietly(node: tree.Node, context: Context) -> None:
    """Infers a part whose surroundings are wrong already, for the errors in it alone."""
    if isinstance(node, (tree.Comparison, tree.And, tree.Or, tree.Not)):
        reductions.condition(node, context)
    elif not isinstance(node, tree.Membership):
        infer(node, context)


def _subscripts(entries: tuple[tree.Node, ...] | list[tree.Node], context: Context) -> tuple[Expr, ...] | None:
    """Typed subscripts, or None if one of them is wrong."""
    subscripts: list[Expr] = []
    right = True
    for entry in entries:
        if isinstance(entry, (tree.Membership, tree.Comparison, tree.And, tree.Or, tree.Not)):
            what = f"`{context.text(entry.span)}`"
            context.fault(MisplacedBinder(entry.span, what))
            right = False
            continue
        alone, context.subscript = context.subscript, isinstance(entry, tree.Name)
        subscript = infer(entry, context)
        context.subscript = alone
        if not is_poison(subscript) and subscript.shape:
            context.fault(NotABinder(entry.span, f"a subscript is a number, and this is {describe(subscript.shape)}"))
            right = False
        elif not is_poison(subscript):
            wrong = not_integer(subscript, context)
            if wrong is not None:
                context.fault(NotInteger(wrong.span, context.text(wrong.span), suggestion=_integers(wrong, context)))
                right = False
        else:
            right = False
        subscripts.append(subscript)
    return tuple(subscripts) if right else None


def _integers(wrong: Expr, context: Context) -> str:
    declared = context.table.find(wrong.name) if isinstance(wrong, Access) else None
    if declared is not None and declared.kind == "given":
        return (
            f"labels are declared `given {declared.name}[{', '.join(axis.name for axis in declared.axes or ())}]: int`"
        )
    return "subscripts are made of integers, header names, index variables and integer givens, with `+ - *`"


def _apply(
    axes: tuple[Axis, ...],
    entries: tuple[tree.Node, ...] | list[tree.Node],
    subscripts: tuple[Expr, ...],
    what: str,
    span: Span,
    context: Context,
) -> tuple[Axis, ...] | None:
    """The axes left; bare index variables take the axes they subscript."""
    if not axes and subscripts:
        context.fault(NoAxes(span, what))
        return None
    if len(subscripts) > len(axes):
        have = f"the axes {names(axes)}" if len(axes) > 1 else f"the axis {names(axes)}"
        context.fault(TooManySubscripts(entries[len(axes)].span, what, have, len(subscripts)))
        return None
    right = True
    for subscript, axis in zip(subscripts, axes, strict=False):
        if isinstance(subscript, Position):
            error = context.scope.constrain(subscript.index, axis, subscript.span, context.line(subscript.span))
            if error is not None:
                context.errors.append(error)
                right = False
        else:
            context.scope.hint(subscript, axis)
    return axes[len(subscripts) :] if right else None
