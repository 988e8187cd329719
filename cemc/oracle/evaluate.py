"""Evaluates typed expressions at points. This is what the language means, written down as plainly as possible."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from cemc.oracle import functions
from cemc.oracle.conditions import condition, integer
from cemc.oracle.environment import Environment, read_entries
from cemc.oracle.points import Points
from cemc.oracle.quadrature import Antiderivative
from cemc.oracle.reductions import logsumexp_vector, reduce_groups
from cemc.semantics.typed import (
    Access,
    Argument,
    Binary,
    Call,
    ConstantRef,
    Expr,
    Gradient,
    Held,
    Integral,
    MatMul,
    Negative,
    Number,
    Position,
    Reduction,
    Size,
    Subscripted,
    Transpose,
    UserCall,
    Where,
)

LEAVES = (Number, Size, ConstantRef, Argument, Position, Access, Held, Gradient)


def evaluate(expr: Expr, points: Points, env: Environment, empty: float = 0.0) -> Tensor:
    """The value of `expr` at `points`: `[P, *shape]`.

    `empty` is the value of a logsumexp without terms where `expr` stands: minus infinity inside exp, another
    logsumexp or the log of a sum, else 0."""
    if isinstance(expr, LEAVES):
        return _leaf(expr, points, env, empty)
    # Work once for all points that agree on what the expression depends on.
    indices = env.model.dependencies(expr)
    if indices is not None and points.count > 1 and not indices >= set(points.positions):
        fewer, number = points.project(indices, env.sizes)
        if fewer.count < points.count:
            return _operation(expr, fewer, env, empty)[number]
    return _operation(expr, points, env, empty)


def _leaf(expr: Expr, points: Points, env: Environment, empty: float) -> Tensor:
    match expr:
        case Number(value=value):
            return env.constant(float(value), points.count)
        case Size(name=name) | ConstantRef(name=name):
            return env.constant(env.model.numbers[name], points.count)
        case Argument(name=name):
            return points.arguments[name]
        case Position(index=index):
            return points.positions[index].to(torch.promote_types(env.model.dtype, torch.float32))
        case Access(name=name):
            subscripts = [integer(subscript, points, env) for subscript in expr.subscripts]
            return env.read(name, points, subscripts, empty)
        case Held(kind=kind, operand=operand):
            return evaluate(operand, points, env.held(kind), empty)
        case Gradient(wrt=wrt):
            subscripts = [integer(subscript, points, env) for subscript in expr.subscripts]
            return read_entries(env.gradient(wrt, expr.energy), env.batch_of(points), subscripts)
    raise TypeError(f"not a leaf: {type(expr).__name__}")


def _operation(expr: Expr, points: Points, env: Environment, empty: float) -> Tensor:
    match expr:
        case Negative(operand=operand):
            return -evaluate(operand, points, env)
        case Binary():
            return _binary(expr, points, env, empty)
        case MatMul(left=left, right=right):
            return _matmul(evaluate(left, points, env), evaluate(right, points, env))
        case Transpose(operand=operand):
            return evaluate(operand, points, env).transpose(-1, -2)
        case Call():
            return _call(expr, points, env, empty)
        case UserCall(function=function):
            arguments = aligned([evaluate(argument, points, env) for argument in expr.arguments])
            return element_wise(function, env)(*arguments)
        case Integral(function=function, operand=operand):
            u = evaluate(operand, points, env)
            value: Tensor = Antiderivative.apply(u, element_wise(function, env))
            return value
        case Where():
            return _where(expr, points, env)
        case Subscripted(base=base):
            subscripts = [integer(subscript, points, env) for subscript in expr.subscripts]
            return read_entries(evaluate(base, points, env, empty), torch.arange(points.count), subscripts)
        case Reduction():
            return _reduction(expr, points, env, empty)
    raise TypeError(f"not an operation: {type(expr).__name__}")


# ---------------------------------------------------------------------------------------------------- operations


def aligned(values: list[Tensor]) -> list[Tensor]:
    """Values `[P, *shape]` of equal shapes, where scalars `[P]` stand for every component."""
    rank = max(value.dim() for value in values)
    return list(
        torch.broadcast_tensors(*(value.reshape(*value.shape, *[1] * (rank - value.dim())) for value in values))
    )


def _binary(expr: Binary, points: Points, env: Environment, empty: float) -> Tensor:
    # "Where it stands, itself or plus finite terms": + and - pass `empty` on, the other operators do not.
    left = evaluate(expr.left, points, env, empty if expr.operator in "+-" else 0.0)
    if expr.operator == "^" and _is_number(expr.right):
        exponent = float(evaluate(expr.right, Points(1, {}), env))
        if exponent.is_integer():
            return torch.pow(left, int(exponent))
        if exponent == 0.5 and _is_literal(expr.right):
            return functions.square_root(left)
    right = evaluate(expr.right, points, env, empty if expr.operator == "+" else 0.0)
    left, right = aligned([left, right])
    match expr.operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case "^":
            return torch.pow(left, right)


def _is_number(expr: Expr) -> bool:
    """Made of numbers, header names and constants only."""
    match expr:
        case Number() | Size() | ConstantRef():
            return True
        case Negative(operand=operand):
            return _is_number(operand)
        case Binary(left=left, right=right):
            return _is_number(left) and _is_number(right)
        case Call(arguments=arguments):
            return all(map(_is_number, arguments))
    return False


def _is_literal(expr: Expr) -> bool:
    match expr:
        case Number():
            return True
        case Negative(operand=operand):
            return _is_literal(operand)
        case Binary(left=left, right=right):
            return _is_literal(left) and _is_literal(right)
    return False


def _matmul(left: Tensor, right: Tensor) -> Tensor:
    """Sums the last axis of `left [P, *a, n]` with the first of `right [P, n, *b]` to `[P, *a, *b]`."""
    count, inner = right.shape[:2]
    dtype = torch.promote_types(left.dtype, right.dtype)
    before, after = left.shape[1:-1], right.shape[2:]
    product = torch.bmm(
        left.to(dtype).reshape(count, before.numel(), inner), right.to(dtype).reshape(count, inner, after.numel())
    )
    return product.reshape(count, *before, *after)


def _call(expr: Call, points: Points, env: Environment, empty: float) -> Tensor:
    name, arguments = expr.function, expr.arguments
    if name in functions.UNARY:
        u = evaluate(arguments[0], points, env, -math.inf if name == "exp" else 0.0)
        if name == "log" and is_sum_of_exponentials(arguments[0], env):
            return _log_of_sum(u, empty)
        return functions.UNARY[name](u)
    if name == "logsumexp":
        return logsumexp_vector(evaluate(arguments[0], points, env, -math.inf), empty)
    values = [evaluate(argument, points, env) for argument in arguments]
    if name in functions.BINARY and len(values) == 2:
        return functions.BINARY[name](*aligned(values))
    if name in functions.VECTOR_TO_SCALAR:
        return functions.VECTOR_TO_SCALAR[name](values[0])
    if name in functions.NORMS:
        eps = values[1] if len(values) > 1 else env.constant(functions.NORM_EPS, points.count)
        return functions.NORMS[name](values[0], eps[:, None])
    match name:
        case "dot":
            return (values[0] * values[1]).flatten(1).sum(1)
        case "norm2":
            return values[0].square().flatten(1).sum(1)
        case "outer":
            return values[0][:, :, None] * values[1][:, None, :]
        case "softmax":
            return torch.softmax(values[0], -1)
        case "rope":
            base = values[2] if len(values) > 2 else env.constant(functions.ROPE_BASE, points.count)
            return functions.rope(values[0], values[1], base)
    raise ValueError(f"unknown function {name}")


def element_wise(name: str, env: Environment) -> Callable[..., Tensor]:
    """A built-in or declared function of tensors of one shape."""
    if name not in env.model.energy.functions:
        return functions.UNARY[name]
    function = env.model.energy.functions[name]

    def apply(*values: Tensor) -> Tensor:
        arguments = {argument: value.reshape(-1) for argument, value in zip(function.arguments, values, strict=True)}
        return evaluate(function.body, Points(values[0].numel(), {}, arguments), env).reshape(values[0].shape)

    return apply


def _where(expr: Where, points: Points, env: Environment) -> Tensor:
    """Each branch is evaluated only at the points that take it."""
    holds = condition(expr.condition, points, env)
    taken = [chosen.nonzero().squeeze(1) for chosen in (holds, ~holds)]
    branches = (expr.then, expr.otherwise)
    values = [evaluate(branch, points.select(at), env) for branch, at in zip(branches, taken, strict=True)]
    sizes = [env.sizes[axis] for axis in expr.shape]
    full = [value.reshape(value.shape[0], *value.shape[1:], *[1] * (len(sizes) + 1 - value.dim())) for value in values]
    joined = torch.cat([value.expand(value.shape[0], *sizes) for value in full])
    return joined[torch.cat(taken).argsort()]


def _reduction(expr: Reduction, points: Points, env: Environment, empty: float) -> Tensor:
    """The body is evaluated only at the tuples the condition allows."""
    inner, parent = points.times(expr.indices, env.sizes)
    if expr.condition is not None:
        allowed = condition(expr.condition, inner, env).nonzero().squeeze(1)
        inner, parent = inner.select(allowed), parent[allowed]
    values = evaluate(expr.body, inner, env, -math.inf if expr.kind == "logsumexp" else 0.0)
    return reduce_groups(expr.kind, values, parent, points.count, empty)


def is_sum_of_exponentials(expr: Expr, env: Environment) -> bool:
    """Whether this is the inside of a log-sum-exp in its naive spelling, sinks and factors included; definitions are
    looked through. Such a sum is 0 only where it has no terms."""
    match expr:
        case Call(function="exp"):
            return True
        case Call(function="sum" | "mean", arguments=(operand,)) | Held(operand=operand) | Subscripted(base=operand):
            return is_sum_of_exponentials(operand, env)
        case Reduction(kind="sum" | "mean", body=body):
            return is_sum_of_exponentials(body, env)
        case Binary(operator="+" | "*", left=left, right=right):
            return is_sum_of_exponentials(left, env) or is_sum_of_exponentials(right, env)
        case Binary(operator="/", left=left):
            return is_sum_of_exponentials(left, env)
        case Access(name=name):
            definition = env.model.definition(name)
            return definition is not None and is_sum_of_exponentials(definition.body, env)
    return False


def _log_of_sum(u: Tensor, empty: float) -> Tensor:
    """log, except that a sum without terms gives what an empty logsumexp gives, with gradient 0."""
    filled = u != 0
    return torch.where(filled, torch.log(torch.where(filled, u, torch.ones_like(u))), torch.full_like(u, empty))
