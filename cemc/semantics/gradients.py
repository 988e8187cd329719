"""`grad[z](E)`."""

from __future__ import annotations

from collections.abc import Iterator

from cemc.diagnostics.energies import BadOperand, BadWrt, GradOutside, UnlikeEnergies
from cemc.diagnostics.names import UnknownName
from cemc.diagnostics.shapes import RuntimeAxisLeft
from cemc.operations.signatures import SIGNATURES
from cemc.semantics.context import Context, is_poison, poison
from cemc.semantics.dispatch import infer, rule
from cemc.semantics.table import a, closest
from cemc.semantics.typed import (
    Access,
    Binary,
    Call,
    ConstantRef,
    Expr,
    Gradient,
    Negative,
    Number,
    Size,
    UserCall,
)
from cemc.syntax import tree


@rule(tree.Gradient)
def gradient(node: tree.Gradient, context: Context) -> Expr:
    """A gradient that no subscripts follow."""
    expression = typed(node, context)
    return subscripted(expression, context) if isinstance(expression, Gradient) else expression


def subscripted(expression: Gradient, context: Context) -> Expr:
    """A gradient with all its subscripts, which must reach over the run-time axes."""
    left = next((axis for axis in expression.shape if axis.runtime), None)
    if left is None:
        return expression
    text = context.text(expression.span)
    index = next((each.name for each in context.scope.visible.values() if each.axis == left), "i")
    advice = None if expression.subscripts else f"write `{text}[{index}]`"
    return context.fault(RuntimeAxisLeft(expression.span, text, left.name, suggestion=advice))


def typed(node: tree.Gradient, context: Context) -> Expr:
    """Without subscripts: `access` adds those that follow."""
    if context.mode != "update":
        return context.fault(GradOutside(node.span))
    declared = context.table.find(node.wrt.text)
    right = True
    if declared is None:
        near = closest(node.wrt.text, context.table.names("state", "definition"))
        advice = f"did you mean `{near}`?" if near else None
        context.fault(UnknownName(node.wrt.span, node.wrt.text, suggestion=advice))
        right = False
    elif declared.kind == "lost":
        right = False
    elif declared.kind not in ("state", "definition"):
        context.fault(BadWrt(node.wrt.span, node.wrt.text, a(declared.kind)))
        right = False
    else:
        declared.used = True
    energy = _operand(node, context)
    if not right or energy is None or declared is None or declared.axes is None:
        return poison(node.span)
    return Gradient(node.span, declared.axes, node.wrt.text, energy, ())


def _operand(node: tree.Gradient, context: Context) -> Expr | None:
    found = _subscripted_definition(node.energy, context)
    if found is not None:
        base = context.text(found.base.span)
        after = f"write `grad[{node.wrt.text}]({base})`, and subscripts after it"
        context.fault(BadOperand(found.span, "there are subscripts", suggestion=after))
        return None
    free, context.free_axes = context.free_axes, True
    energy = infer(node.energy, context)
    context.free_axes = free
    if is_poison(energy):
        return None
    wrong = _not_an_energy(energy, context)
    if wrong is not None:
        advice: str | None = None
        if isinstance(wrong, Access):
            declared = context.table.find(wrong.name)
            kind = a(declared.kind) if declared is not None else "a name"
            what = f"`{wrong.name}` is {kind}"
        else:
            text = context.text(wrong.span)
            what = f"`{text}` stands"
            advice = f"define it outside the block, `F[i] = {text}`, and write `F` here"
        context.fault(BadOperand(wrong.span, what, suggestion=advice))
        return None
    if not any(True for _ in energies(energy)):
        context.fault(BadOperand(energy.span, "there is no definition"))
        return None
    return energy if _alike(energy, context) else None


def _subscripted_definition(node: tree.Node, context: Context) -> tree.Subscript | None:
    if isinstance(node, tree.Subscript):
        return node
    if isinstance(node, tree.Negative):
        return _subscripted_definition(node.operand, context)
    parts: tuple[tree.Node, ...] = ()
    if isinstance(node, tree.Sum):
        parts = (node.first, *(term for _, term in node.rest))
    elif isinstance(node, tree.Binary):
        parts = (node.left, node.right)
    return next((found for part in parts if (found := _subscripted_definition(part, context))), None)


def _not_an_energy(energy: Expr, context: Context) -> Expr | None:
    """The first part that is no combination of definitions and numbers."""
    if isinstance(energy, (Number, Size, ConstantRef)):
        return None
    if isinstance(energy, Access):
        declared = context.table.find(energy.name)
        scalar = declared is not None and declared.kind in ("parameter", "given") and not energy.shape
        fits = declared is not None and not energy.subscripts and (declared.kind == "definition" or scalar)
        return None if fits else energy
    if isinstance(energy, Negative):
        return _not_an_energy(energy.operand, context)
    if isinstance(energy, Binary):
        return _not_an_energy(energy.left, context) or _not_an_energy(energy.right, context)
    if isinstance(energy, UserCall) or (isinstance(energy, Call) and SIGNATURES[energy.function].kind == "elementwise"):
        return next((wrong for part in energy.arguments if (wrong := _not_an_energy(part, context))), None)
    return energy


def energies(expression: Expr) -> Iterator[Access]:
    """The definitions in an operand of `grad`."""
    if isinstance(expression, Access):
        yield expression
    elif isinstance(expression, Negative):
        yield from energies(expression.operand)
    elif isinstance(expression, Binary):
        yield from energies(expression.left)
        yield from energies(expression.right)
    elif isinstance(expression, (Call, UserCall)):
        for argument in expression.arguments:
            yield from energies(argument)


def _alike(energy: Expr, context: Context) -> bool:
    """Adding a scalar energy to one per token would count it once per token, which nobody means."""
    if isinstance(energy, Negative):
        return _alike(energy.operand, context)
    if not isinstance(energy, Binary):
        return True
    if energy.operator in "+-" and energy.left.shape != energy.right.shape:
        if any(True for _ in energies(energy.left)) and any(True for _ in energies(energy.right)):
            left, right = context.text(energy.left.span), context.text(energy.right.span)
            kind = "sum" if energy.operator == "+" else "difference"
            advice = f"write the {kind} of two gradients"
            context.fault(UnlikeEnergies(energy.span, left, right, kind, suggestion=advice))
            return False
    return _alike(energy.left, context) and _alike(energy.right, context)
