"""Calls: built-in functions, functions of the energy, integrals."""

from __future__ import annotations

from cemc.diagnostics.names import UnknownName
from cemc.diagnostics.shapes import (
    BadIntegrand,
    NotABinder,
    NotAFunction,
    NotElementwise,
    Unequal,
    WrongCount,
    WrongShape,
)
from cemc.diagnostics.syntax import NotCallable
from cemc.operations.signatures import REDUCERS, SIGNATURES
from cemc.semantics import arithmetic, reductions
from cemc.semantics.advice import of_function
from cemc.semantics.context import Context, describe, is_poison, poison
from cemc.semantics.dispatch import infer, rule
from cemc.semantics.integers import not_integer
from cemc.semantics.numbers import number
from cemc.semantics.table import a, closest
from cemc.semantics.typed import Access, Axis, Call, Expr, Integral, UserCall
from cemc.syntax import tree


@rule(tree.Call)
def call(node: tree.Call, context: Context) -> Expr:
    function = node.function
    if isinstance(function, tree.Subscript) and isinstance(function.base, tree.Name):
        name = function.base.text
        if name in REDUCERS:
            return reductions.reduction(node, function.base, function.bracket, context)
        if name in SIGNATURES:
            for argument in node.arguments:
                infer_safely(argument, context)
            what = f"`{name}` takes no binders; sum, mean, logsumexp and max do"
            return context.fault(NotABinder(function.span, what, suggestion=_WITHOUT_BINDER.get(name)))
    if not isinstance(function, tree.Name):
        infer(function, context)
        for argument in node.arguments:
            infer(argument, context)
        text = context.text(function.span)
        return context.fault(NotCallable(function.span, suggestion=f"for a product write `{text} * (…)`"))
    if context.mode == "function" and not _elementwise_builtin(function.text, len(node.arguments)):
        return context.fault(
            NotElementwise(function.span, f"`{function.text}` is not element-wise, and stands", context.owner)
        )
    arguments = [infer(argument, context) for argument in _values(function.text, node.arguments)]
    declared = context.table.find(function.text)
    if function.text in SIGNATURES:
        return _builtin(node, function.text, arguments, context)
    if declared is None:
        return _unknown_function(function, context)
    declared.used = True
    if declared.kind == "lost":
        return poison(node.span)
    if declared.kind != "function":
        advice = None
        if declared.axes:
            inside = ", ".join(context.text(argument.span) for argument in node.arguments)
            advice = f"subscripts stand in square brackets: `{function.text}[{inside}]`"
        elif declared.axes == () or declared.kind in ("constant", "header name"):
            advice = f"for a product write `{function.text} * (…)`"
        return context.fault(NotAFunction(function.span, function.text, a(declared.kind), suggestion=advice))
    if len(arguments) != declared.arity:
        wanted = _count(declared.arity)
        return context.fault(WrongCount(node.span, f"`{function.text}`", wanted, len(arguments)))
    shape = _elementwise(node, arguments, context)
    return poison(node.span) if shape is None else UserCall(node.span, shape, function.text, tuple(arguments))


_WITHOUT_BINDER = {
    "softmax": "write `exp(s[j] - logsumexp[k](s[k]))`",
    "min": "write `-max[k](-…)`",
    "norm2": "write `sum[k](norm2(…))`",
    "dot": "write `sum[k](dot(…))`",
}


def _elementwise_builtin(name: str, arguments: int) -> bool:
    """False for built-ins that no function may use; names that are no built-ins are judged elsewhere."""
    return name not in SIGNATURES or SIGNATURES[name].kind == "elementwise" or (name == "max" and arguments == 2)


def infer_safely(node: tree.Node, context: Context) -> None:
    """Arguments of a wrong call may use names that its binders would have bound: their errors would be consequences."""
    kept = list(context.errors)
    infer(node, context)
    context.errors[:] = kept


def _values(function: str, arguments: tuple[tree.Node, ...]) -> tuple[tree.Node, ...]:
    """The arguments that are ordinary expressions: eps and the base of `rope` are numbers, read by
    `_number_argument`."""
    if function in SIGNATURES:
        kind = SIGNATURES[function].kind
        if kind == "vector":
            return arguments[:1]
        if kind == "rope":
            return arguments[:2]
    return arguments


def _count(least: int, most: int | None = None) -> str:
    if most is None or least == most:
        return f"{least} argument" + ("s" if least != 1 else "")
    return f"{least} or {most} arguments"


def _unknown_function(function: tree.Name, context: Context) -> Expr:
    advice = of_function(function.text, context)
    if advice is None and function.text in context.scope.visible:
        return context.fault(NotAFunction(function.span, function.text, "an index"))
    if advice is None and function.text in context.arguments:
        return context.fault(
            NotAFunction(function.span, function.text, "an argument", suggestion=f"write `{function.text} * (…)`")
        )
    if advice is None:
        advice = f"a function of your own is `function {function.text}(z) = …`"
    return context.fault(UnknownName(function.span, function.text, suggestion=advice))


def _builtin(node: tree.Call, name: str, arguments: list[Expr], context: Context) -> Expr:
    signature = SIGNATURES[name]
    given = len(node.arguments)
    if not signature.min_arity <= given <= signature.max_arity:
        advice = None
        if name == "min" and given == 1:
            advice = "the least entry of a vector is `-max(-u)`"
        if signature.kind == "reduction" and given > 1:
            advice = "write `+`" if name == "sum" else None
        wanted = _count(signature.min_arity, signature.max_arity)
        return context.fault(WrongCount(node.span, f"`{name}`", wanted, given, suggestion=advice))
    if is_poison(*arguments):
        _number_argument(node, name, context)
        return poison(node.span)
    if signature.kind == "elementwise" or (name == "max" and given == 2):
        shape = _elementwise(node, arguments, context)
    elif signature.kind == "product":
        shape = _product(node, name, arguments, context)
    else:
        shape = _vector(name, arguments, context)
    extra = _number_argument(node, name, context)
    if shape is None or extra is None:
        return poison(node.span)
    return Call(node.span, shape, name, (*arguments, *extra))


def _number_argument(node: tree.Call, name: str, context: Context) -> tuple[Expr, ...] | None:
    """eps, or the base of `rope`: numbers that are known when the module is constructed."""
    extra = node.arguments[len(_values(name, node.arguments)) :]
    place = "the base of `rope`" if name == "rope" else f"the second argument of `{name}`"
    typed = tuple(number(argument, place, context.table, context.errors) for argument in extra)
    return None if is_poison(*typed) else typed


def _elementwise(node: tree.Call, arguments: list[Expr], context: Context) -> tuple[Axis, ...] | None:
    if is_poison(*arguments):
        return None
    shape: tuple[Axis, ...] = ()
    for argument in arguments:
        if not arithmetic.same_or_scalar(shape, argument.shape):
            name = node.function.text if isinstance(node.function, tree.Name) else ""
            context.fault(Unequal(argument.span, f"{name}(…)", describe(shape), describe(argument.shape)))
            return None
        shape = shape or argument.shape
    return shape


def _product(node: tree.Call, name: str, arguments: list[Expr], context: Context) -> tuple[Axis, ...] | None:
    for argument in arguments:
        if len(argument.shape) != 1:
            advice = None
            if not argument.shape:
                advice = "for numbers write `u ^ 2`" if name == "norm2" else "for numbers write `*`"
            elif subscript := arithmetic.missing_subscript(argument, context):
                advice = f"is a subscript missing? `{subscript}`"
            elif name == "dot" and len(arguments) == 2 and sorted(len(each.shape) for each in arguments) == [1, 2]:
                advice = f"a matrix times a vector is `{' @ '.join(context.text(each.span) for each in arguments)}`"
            elif name != "outer":
                advice = "sum over the further axes: " + (
                    "`sum[k](norm2(A[k]))`" if name == "norm2" else "`sum[k](dot(A[k], B[k]))`"
                )
            _wrong_shape(argument, f"`{name}`", "vectors" if name != "norm2" else "a vector", context, advice)
            return None
    if name == "norm2":
        return ()
    left, right = arguments
    if name == "outer":
        return left.shape + right.shape
    if left.shape != right.shape:
        context.fault(Unequal(node.span, "dot", describe(left.shape), describe(right.shape)))
        return None
    return ()


def _vector(name: str, arguments: list[Expr], context: Context) -> tuple[Axis, ...] | None:
    vector = arguments[0]
    if len(vector.shape) != 1:
        advice = None
        subscript = arithmetic.missing_subscript(vector, context)
        if subscript:
            advice = f"is a subscript missing? `{subscript}`"
        elif SIGNATURES[name].kind == "reduction" and not vector.shape:
            advice = f"to reduce over an index, bind it: `{name}[k](…)`"
        elif SIGNATURES[name].kind == "reduction":
            advice = f"bind the further axes: `{name}[k](…)`"
        _wrong_shape(vector, f"`{name}`", "a vector", context, advice)
        return None
    if name == "rope" and not _position(arguments[1], context):
        return None
    return () if SIGNATURES[name].kind == "reduction" else vector.shape


def _position(position: Expr, context: Context) -> bool:
    """The position of `rope` is an integer expression or an access of a given."""
    if position.shape:
        _wrong_shape(position, "the position of `rope`", "a number", context, None)
        return False
    if isinstance(position, Access):
        declared = context.table.find(position.name)
        if declared is not None and declared.kind == "given":
            return True
    wrong = not_integer(position, context)
    if wrong is not None:
        wanted = "an integer expression or a given"
        context.fault(WrongShape(wrong.span, "the position of `rope`", wanted, f"`{context.text(wrong.span)}`"))
        return False
    return True


def _wrong_shape(argument: Expr, function: str, wanted: str, context: Context, advice: str | None) -> None:
    context.fault(WrongShape(argument.span, function, wanted, describe(argument.shape), suggestion=advice))


@rule(tree.Integral)
def integral(node: tree.Integral, context: Context) -> Expr:
    operand = infer(node.operand, context)
    name = node.function.text
    declared = context.table.find(name)
    what = None
    if declared is not None:
        declared.used = True
        if declared.kind == "lost":
            return poison(node.span)
        if declared.kind != "function":
            what = a(declared.kind)
        elif declared.arity != 1:
            what = f"a function of {declared.arity}"
    elif name not in SIGNATURES:
        near = closest(name, [*SIGNATURES, *context.table.names("function")])
        advice = f"did you mean `{near}`?" if near else f"define it first: `function {name}(z) = …`"
        return context.fault(UnknownName(node.function.span, name, suggestion=advice))
    elif SIGNATURES[name].kind != "elementwise":
        what = "not element-wise"
    elif SIGNATURES[name].max_arity != 1:
        what = "a function of 2"
    if what is not None:
        return context.fault(BadIntegrand(node.function.span, name, what))
    if is_poison(operand):
        return operand
    return Integral(node.span, operand.shape, name, operand)
