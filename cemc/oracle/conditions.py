"""Integer expressions and conditions at points. Neither has a derivative."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from cemc.oracle.environment import Environment, read_entries
from cemc.oracle.points import Points
from cemc.semantics.typed import (
    Access,
    And,
    Binary,
    Call,
    Compare,
    Condition,
    ConstantRef,
    Expr,
    Gradient,
    Held,
    Integral,
    MatMul,
    Negative,
    Number,
    Or,
    Position,
    Reduction,
    Size,
    Subscripted,
    Transpose,
    UserCall,
    Where,
)


def integer(expr: Expr, points: Points, env: Environment) -> Tensor:
    """The value of a subscript or another integer expression `[P]`, in exact integers."""
    match expr:
        case Position(index=index):
            return points.positions[index]
        case Number(value=value):
            return torch.full((points.count,), int(value))
        case Size(name=name) | ConstantRef(name=name):
            return torch.full((points.count,), int(env.model.numbers[name]))
        case Negative(operand=operand):
            return -integer(operand, points, env)
        case Binary(operator="+", left=left, right=right):
            return integer(left, points, env) + integer(right, points, env)
        case Binary(operator="-", left=left, right=right):
            return integer(left, points, env) - integer(right, points, env)
        case Binary(operator="*", left=left, right=right):
            return integer(left, points, env) * integer(right, points, env)
        case Access(name=name):
            subscripts = [integer(subscript, points, env) for subscript in expr.subscripts]
            return read_entries(env.arguments[name], env.batch_of(points), subscripts)
    raise TypeError(f"not an integer expression: {type(expr).__name__}")


def is_integer(expr: Expr, env: Environment) -> bool:
    """Whether `integer` can evaluate it."""
    match expr:
        case Position() | Size():
            return True
        case Number(value=value):
            return value.denominator == 1
        case Access(name=name):
            return name in env.model.energy.givens and env.model.energy.givens[name].integer
        case Negative(operand=operand):
            return is_integer(operand, env)
        case Binary(operator="+" | "-" | "*", left=left, right=right):
            return is_integer(left, env) and is_integer(right, env)
    return False


def condition(expr: Condition, points: Points, env: Environment) -> Tensor:
    """Where the condition holds: bool `[P]`. Evaluated apart from the values, since its derivative is 0."""
    with torch.no_grad():
        return _condition(expr, points, env.apart())


def _condition(expr: Condition, points: Points, env: Environment) -> Tensor:
    match expr:
        case Compare(operator=operator, left=left, right=right):
            holds = _compare(operator, left, right, points, env)
            return holds & reads_inside(left, points, env) & reads_inside(right, points, env)
        case And(operands=operands):
            # In turn, each only where those before it hold: a comparison may guard the next.
            at = torch.arange(points.count)
            for operand in operands:
                at = at[_condition(operand, points.select(at), env)]
            return torch.zeros(points.count, dtype=torch.bool).index_fill(0, at, True)
        case Or(operands=operands):
            return torch.stack([_condition(operand, points, env) for operand in operands]).any(0)
    raise TypeError(f"not a condition: {type(expr).__name__}")


def _compare(operator: str, left: Expr, right: Expr, points: Points, env: Environment) -> Tensor:
    exact = is_integer(left, env) and is_integer(right, env)
    a, b = (integer(side, points, env) if exact else env.evaluate(side, points) for side in (left, right))
    comparisons: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
        "<": torch.lt,
        "<=": torch.le,
        ">": torch.gt,
        ">=": torch.ge,
        "==": torch.eq,
        "!=": torch.ne,
    }
    return comparisons[operator](a, b)


def reads_inside(expr: Expr, points: Points, env: Environment) -> Tensor:
    """Where every subscript that stands in `expr` is inside its axis: bool `[P]`. What a reduction reads at its own
    indices does not count."""
    inside = torch.ones(points.count, dtype=torch.bool)
    match expr:
        case Reduction():
            return inside
        case Where(then=then, otherwise=otherwise):
            holds = _condition(expr.condition, points, env)
            return torch.where(holds, reads_inside(then, points, env), reads_inside(otherwise, points, env))
        case Access() | Subscripted() | Gradient():
            if isinstance(expr, Subscripted):
                axes = expr.base.shape
            else:
                axes = env.axes_of(expr.name if isinstance(expr, Access) else expr.wrt)
            for subscript, axis in zip(expr.subscripts, axes, strict=False):
                position = integer(subscript, points, env)
                inside &= (position >= 0) & (position < env.sizes[axis]) & reads_inside(subscript, points, env)
            return inside & reads_inside(expr.base, points, env) if isinstance(expr, Subscripted) else inside
        case Negative(operand=operand) | Transpose(operand=operand) | Held(operand=operand) | Integral(operand=operand):
            return reads_inside(operand, points, env)
        case Binary(left=left, right=right) | MatMul(left=left, right=right):
            return reads_inside(left, points, env) & reads_inside(right, points, env)
        case Call(arguments=arguments) | UserCall(arguments=arguments):
            for argument in arguments:
                inside &= reads_inside(argument, points, env)
    return inside
