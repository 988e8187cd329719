"""The constructor, and the starts of the parameters."""

from __future__ import annotations

from dataclasses import dataclass

from cemc.emit.code import Code, bracket, call, conditional, name, statement
from cemc.emit.context import Context
from cemc.emit.scalars import Scalars
from cemc.program import nodes
from cemc.program.graph import in_order
from cemc.program.nodes import Program
from cemc.semantics import typed


@dataclass(frozen=True)
class Constructor:
    """`lines` without indentation."""

    signature: str
    super: str
    lines: list[str]


def constructor(context: Context, program: Program) -> Constructor:
    """`__init__`: sizes, constants, parameters, each checked."""
    energy, names = context.energy, context.names
    scalars = Scalars(context)
    parameters = ["self", "*"]
    lines: list[str] = []
    int_, float_ = names.builtin("int"), names.builtin("float")
    size, constant = context.helper("_size") if energy.header else "", context.helper("_number") if energy.constants else ""
    for each, header in energy.header.items():
        if header.default is None:
            parameters.append(f"{each}: {int_}")
            value: Code = name(each)
        elif isinstance(header.default, typed.Number) and header.default.value.denominator == 1:
            parameters.append(f"{each}: {int_} = {header.default.value}")
            value = name(each)
        else:
            parameters.append(f"{each}: {int_} | None = None")
            what = f"{each} = {written(context, header.default)}"
            value = conditional(scalars.size(header.default, what), name(f"{each} is None"), name(each))
        lines += statement(f"self.{each} = ", call(size, f'"{each}"', value), "", 8)
    for each, declared in energy.constants.items():
        parameters.append(f"{each}: {float_} | None = None")
        value = conditional(scalars.value(declared.value), name(f"{each} is None"), name(each))
        lines += statement(f"self.{each} = ", call(constant, f'"{each}"', value), "", 8)
    for axis in _rotated(program):
        lines.append(f'        {context.helper("_even")}("{axis}", self.{axis})')
    torch, string = context.library("torch"), names.builtin("str")
    parameters += [f'backend: {string} = "auto"', f"device: {torch}.device | {string} | None = None", f"dtype: {torch}.dtype | None = None"]
    lines.append(f"        self.backend = {context.helper('_backend')}(backend)")
    if energy.parameters:
        lines.append(f"        {context.helper('_floating')}(dtype)")
    for each, parameter in energy.parameters.items():
        attribute = f"{each}_raw" if parameter.positive else each
        sizes = [f"self.{axis.name}" for axis in parameter.axes] or ["()"]
        empty = call(f"{torch}.empty", *sizes, "device=device", "dtype=dtype")
        made = call(f"{context.library('nn')}.Parameter", empty)
        comment = f"softplus of it is {each}" if parameter.positive else ""
        lines += statement(f"self.{attribute} = ", made, comment, 8)
    signature = "\n".join(bracket("def __init__(", parameters, ") -> None:", 4))
    hidden = names.builtin("super") != "super"
    base = f"{context.library('nn')}.Module.__init__(self)" if hidden else "super().__init__()"
    return Constructor(signature, base, [line.removeprefix(" " * 8) for line in lines])


def reset(context: Context) -> list[str]:
    """The body of `reset_parameters`, without indentation."""
    lines: list[str] = []
    for each, parameter in context.energy.parameters.items():
        lines += _start(context, each, parameter)
    return [line.removeprefix(" " * 8) for line in lines] or ["# There are none."]


def _start(context: Context, each: str, parameter: typed.Parameter) -> list[str]:
    """Statements that set one parameter to its start."""
    init, value = f"{context.library('nn')}.init", Scalars(context).value
    start = parameter.start
    target = f"self.{each}"
    if parameter.positive and isinstance(start, (typed.Normal, typed.Uniform)):
        draw, first, second = _distribution(start)
        fresh = call(f"{context.library('torch')}.empty_like", f"{target}_raw")
        drawn = call(f"{init}.{draw}", fresh, value(first), value(second))
        return statement("", call(context.helper("_start_positive"), f"{target}_raw", drawn), "", 8)
    if parameter.positive:
        number = name("1.0") if start is None else value(start)
        raw = call(context.helper("_inverse_softplus"), f'"{each}"', number)
        return statement("", call(f"{init}.constant_", f"{target}_raw", raw), "", 8)
    if isinstance(start, (typed.Normal, typed.Uniform)):
        draw, first, second = _distribution(start)
        return statement("", call(f"{init}.{draw}", target, value(first), value(second)), "", 8)
    if start is None:
        return statement("", call(f"{init}.normal_", target, f"std=self.{parameter.axes[-1].name}**-0.5"), "", 8)
    number = value(start)
    if number.text in ("0", "1"):
        return statement("", call(f"{init}.{'zeros_' if number.text == '0' else 'ones_'}", target), "", 8)
    return statement("", call(f"{init}.constant_", target, number), "", 8)


def _distribution(start: typed.Normal | typed.Uniform) -> tuple[str, typed.Expr, typed.Expr]:
    if isinstance(start, typed.Normal):
        return "normal_", start.mean, start.std
    return "uniform_", start.low, start.high


def written(context: Context, expr: typed.Expr) -> str:
    """An expression of header names and constants as people write it."""
    return Scalars(context, owner="").value(expr).text.replace("math.", "")


def _rotated(program: Program) -> list[str]:
    """The axes that rotations need to be even."""
    found: dict[str, None] = {}
    for node in in_order([*program.step.values(), *program.energies.values()]):
        if isinstance(node, nodes.Rotate):
            found[node.dims[-1]] = None
    return list(found)
