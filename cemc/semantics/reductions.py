"""Binders, reductions, conditions and `where`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, cast

from cemc.diagnostics.names import HidesBuiltin, UnknownAxis
from cemc.diagnostics.shapes import (
    CompareNumbers,
    IndexHides,
    IndexTwice,
    NotABinder,
    NotElementwise,
    Unequal,
    WrongCount,
)
from cemc.diagnostics.syntax import ReservedName
from cemc.operations.signatures import SIGNATURES
from cemc.semantics.advice import of_axis
from cemc.semantics.arithmetic import same_or_scalar
from cemc.semantics.context import Binders, Context, describe, is_poison, poison
from cemc.semantics.dispatch import infer, rule
from cemc.semantics.names import RESERVED
from cemc.semantics.scope import UNKNOWN, Variable
from cemc.semantics.table import WITH_AXES, a, closest
from cemc.semantics.typed import Access, And, Axis, Compare, Condition, Expr, Index, Or, Reduction, Where
from cemc.syntax import tree

Operator = Literal["<", "<=", ">", ">=", "==", "!="]
_NEGATED: dict[str, Operator] = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


# ------------------------------------------------------------------------------------------------ index variables


def bind(name: tree.Name, axis_name: tree.Name | None, context: Context, silent: bool = False) -> Variable:
    """A new index variable, visible from here on. What is wrong with its name is reported, and it is bound all the
    same."""
    declared = context.table.find(name.text)
    if name.text in RESERVED:
        context.fault(ReservedName(name.span, name.text, suggestion=f"write `{name.text}_`"))
        silent = True
    elif name.text in SIGNATURES:
        context.fault(HidesBuiltin(name.span, name.text, suggestion=f"write `{name.text}_`"))
        silent = True
    elif name.text in context.scope.visible:
        context.fault(IndexTwice(name.span, name.text))
        silent = True
    elif declared is not None and declared.kind != "lost":
        line = context.line(declared.span)
        over = declared.kind in ("axis", "header name")
        advice = f"to bind an index over it, write `k in {name.text}`" if over else f"write `{name.text}_`"
        context.fault(IndexHides(name.span, name.text, a(declared.kind), line, suggestion=advice))
        silent = True
    variable = Variable(Index(name.text, next(context.numbers), UNKNOWN), name.span, silent=silent)
    if axis_name is not None:
        axis = find_axis(axis_name, context)
        if axis is None:
            variable.silent = True
        else:
            variable.axis, variable.line = axis, context.line(name.span)
    context.scope.bind(variable)
    return variable


def find_axis(name: tree.Name, context: Context) -> Axis | None:
    axis = context.table.axes.get(name.text)
    declared = context.table.find(name.text)
    if declared is not None:
        declared.used = True
    if axis is not None or (declared is not None and declared.kind == "lost"):
        return axis
    advice = of_axis(name.text, list(context.table.axes), declared, first=True)
    context.fault(UnknownAxis(name.span, name.text, suggestion=advice))
    return None


# ----------------------------------------------------------------------------------------------------- reductions


def reduction(node: tree.Call, function: tree.Name, bracket: tree.Bracket, context: Context) -> Expr:
    if context.mode == "function":
        return context.fault(NotElementwise(node.span, f"the reduction `{function.text}[…](…)` stands", context.owner))
    visible = dict(context.scope.visible)
    indices: list[Index] = []
    conditions: list[Condition] = []
    right = True
    for entry in bracket.entries:
        variable, comparison = _binder(entry, context)
        if variable is None or variable.silent:
            right = False
        else:
            indices.append(variable.index)
        conditions += comparison
    if bracket.condition is not None:
        typed = condition(bracket.condition, context)
        right = right and typed is not None
        conditions += [typed] if typed is not None else []
    written = f"{function.text}[{', '.join(context.text(entry.span) for entry in bracket.entries)}]"
    bound = tuple(name for name in context.scope.visible if name not in visible)
    used = frozenset(name.text for argument in node.arguments for name in _names(argument))
    context.binders.append(Binders(written, bound, used))
    bodies = [infer(argument, context) for argument in node.arguments]
    context.binders.pop()
    context.scope.visible = visible
    if len(bodies) != 1:
        return context.fault(WrongCount(node.span, f"`{function.text}[…]`", "1 argument", len(bodies)))
    if not right or is_poison(*bodies):
        return poison(node.span)
    kind = cast(Literal["sum", "mean", "logsumexp", "max"], function.text)
    return Reduction(node.span, bodies[0].shape, kind, tuple(indices), _all(conditions, bracket), bodies[0])


def _all(conditions: list[Condition], bracket: tree.Bracket) -> Condition | None:
    flat: list[Condition] = []
    for each in conditions:
        flat += each.operands if isinstance(each, And) else (each,)
    if len(flat) <= 1:
        return flat[0] if flat else None
    return And(bracket.span, tuple(flat))


def _binder(entry: tree.Node, context: Context) -> tuple[Variable | None, list[Condition]]:
    """Binds the one new name of a binder; the conditions are those of a comparison chain."""
    if isinstance(entry, tree.Membership):
        return bind(entry.name, entry.axis, context), []
    if isinstance(entry, tree.Name):
        return bind(entry, None, context), []
    if not isinstance(entry, tree.Comparison):
        why = "a binder is an index `k`, `k in heads`, or a comparison with one new index"
        advice = "conditions follow `if`" if isinstance(entry, (tree.And, tree.Or, tree.Not)) else None
        context.fault(NotABinder(entry.span, why, suggestion=advice))
        for name in _new_names(entry, context):
            bind(name, None, context, silent=True)
        return None, []
    new = _new_names(entry, context)
    if len(new) == 1:
        variable = bind(new[0], None, context)
        typed = condition(entry, context)
        return (variable if typed is not None else None), [typed] if typed is not None else []
    if new:
        listed = " and ".join(f"`{name.text}`" for name in new)
        why = f"a binder introduces one new index, and {listed} are {'both' if len(new) == 2 else 'all'} new"
        near = [closest(name.text, context.table.names()) for name in new]
        found = next((each for each in near if each), None)
        advice = f"did you mean `{found}`?" if found else f"bind one after the other: `{new[0].text}, {new[1].text}`"
        if not found and context.scope.visible:
            advice += f"; or compare with an index that is bound, `{next(iter(context.scope.visible))}`"
        context.fault(NotABinder(entry.span, why, suggestion=advice))
        for name in new:
            bind(name, None, context, silent=True)
        return None, []
    table = next((name for name in _names(entry) if _has_axes(name, context)), None)
    if table is not None:
        return bind(table, None, context), []  # reports that the name is taken
    lost = next((name for name in _names(entry) if _may_be_new(name, context)), None)
    if lost is not None:
        return bind(lost, None, context, silent=True), []  # declared, or not, where the file cannot be read
    why = "a binder introduces a new index, and there is none here"
    context.fault(NotABinder(entry.span, why, suggestion="conditions follow `if`, after the binders"))
    condition(entry, context)
    return None, []


def _has_axes(name: tree.Name, context: Context) -> bool:
    """Whether it stands where an index should, but names something with axes of its own."""
    declared = context.table.find(name.text)
    return declared is not None and declared.kind in WITH_AXES and declared.axes != ()


def _may_be_new(name: tree.Name, context: Context) -> bool:
    declared = context.table.find(name.text)
    return declared is not None and declared.kind == "lost" and name.text not in context.scope.visible


def _new_names(node: tree.Node, context: Context) -> list[tree.Name]:
    """The names in a binder that nothing has declared, each at its first place; an index has no subscripts."""
    found: dict[str, tree.Name] = {}
    for name in _names(node):
        known = name.text in context.scope.visible or name.text in context.arguments or name.text in SIGNATURES
        if not known and context.table.find(name.text) is None:
            found.setdefault(name.text, name)
    return list(found.values())


def _names(node: tree.Node) -> Iterator[tree.Name]:
    if isinstance(node, tree.Name):
        yield node
    elif isinstance(node, tree.Call):
        for argument in node.arguments:
            yield from _names(argument)
    elif isinstance(node, tree.Subscript) and isinstance(node.base, tree.Name):
        yield from _names(node.bracket)
    else:
        for child in tree.children(node):
            yield from _names(child)


# ----------------------------------------------------------------------------------------------------- conditions


def condition(node: tree.Node, context: Context, negated: bool = False) -> Condition | None:
    """A typed condition, `not` pushed into the comparisons; None where something in it is wrong."""
    if isinstance(node, tree.Not):
        return condition(node.operand, context, not negated)
    if isinstance(node, (tree.And, tree.Or)):
        parts = [condition(operand, context, negated) for operand in node.operands]
        right = [part for part in parts if part is not None]
        if len(right) < len(parts):
            return None
        return _join(node, isinstance(node, tree.And) != negated, right)
    if isinstance(node, tree.Comparison):
        return _comparison(node, context, negated)
    context.fault(NotABinder(node.span, "a condition compares two numbers: `a < b`, `a == b`"))
    return None


def _join(node: tree.Node, conjunction: bool, parts: list[Condition]) -> Condition:
    kind = And if conjunction else Or
    flat: list[Condition] = []
    for part in parts:
        flat += part.operands if isinstance(part, kind) else (part,)
    return kind(node.span, tuple(flat))


def _comparison(node: tree.Comparison, context: Context, negated: bool) -> Condition | None:
    sides = [infer(operand, context) for operand in node.operands]
    for side in sides:
        if not is_poison(side) and side.shape:
            context.fault(CompareNumbers(side.span, describe(side.shape), suggestion=_entries(side, context)))
            return None
    if is_poison(*sides):
        return None
    parts: list[Condition] = []
    for left, operator, right in zip(sides, node.operators, sides[1:], strict=False):
        written = cast(Operator, operator)
        compare = Compare(left.span.to(right.span), _NEGATED[written] if negated else written, left, right)
        context.scope.comparisons.append(compare)
        parts.append(compare)
    return parts[0] if len(parts) == 1 else _join(node, not negated, parts)


def _entries(side: Expr, context: Context) -> str | None:
    """How to compare the entries of a vector."""
    text = context.text(side.span)
    taken = {*context.scope.visible, *context.arguments, *context.table.names()}
    free = next((letter for letter in "eabcdfgh" if letter not in taken), None)
    if len(side.shape) != 1 or free is None or side.shape[0].runtime:
        return None
    entry = f"{text[:-1]}, {free}]" if text.endswith("]") and isinstance(side, Access) else f"({text})[{free}]"
    return f"compare its entries, `{entry}`, with `{free}` bound on the left or by a reduction"


@rule(tree.Where)
def where(node: tree.Where, context: Context) -> Expr:
    test = condition(node.condition, context)
    then, otherwise = infer(node.then, context), infer(node.otherwise, context)
    if test is None or is_poison(then, otherwise):
        return poison(node.span)
    if not same_or_scalar(then.shape, otherwise.shape):
        return context.fault(Unequal(node.span, "where", describe(then.shape), describe(otherwise.shape)))
    return Where(node.span, then.shape or otherwise.shape, test, then, otherwise)
