"""The constructor, and the starts of the parameters."""

from __future__ import annotations

from dataclasses import dataclass

from cemc.emit.code import Code, bracket, call, conditional, name, statement
from cemc.emit.context import Context
from cemc.emit.names import raw_name
from cemc.emit.scalars import Scalars
from cemc.program import nodes
from cemc.program.graph import in_order
from cemc.program.nodes import Program
from cemc.semantics import typed

_INDENT = 8


@dataclass(frozen=True)
class Constructor:
    """`lines` without indentation."""

    signature: str
    super: str
    lines: list[str]


def constructor(context: Context, program: Program) -> Constructor:
    """`__init__`: sizes, constants and parameters, each checked."""
    names, torch, nn = context.names, context.library("torch"), context.library("nn")
    string = names.builtin("str")
    arguments, lines = _sizes(context)
    for each, declared in context.energy.constants.items():
        arguments.append(f"{each}: {names.builtin('float')} | None = None")
        lines += _checked(each, context.helper("_number"), Scalars(context).value(declared.value))
    lines += [f'{context.helper("_even")}("{axis}", self.{axis})' for axis in _rotated(program)]
    lines.append(f"self.backend = {context.helper('_backend')}(backend)")
    if context.energy.parameters:
        lines.append(f"{context.helper('_floating')}(dtype)")
    for each, parameter in context.energy.parameters.items():
        sizes = [f"self.{axis.name}" for axis in parameter.axes] or ["()"]
        made = call(f"{nn}.Parameter", call(f"{torch}.empty", *sizes, "device=device", "dtype=dtype"))
        attribute, comment = (raw_name(each), f"softplus of it is {each}") if parameter.positive else (each, "")
        lines += statement(f"self.{attribute} = ", made, comment, _INDENT)
    arguments += [
        f'backend: {string} = "auto"',
        f"device: {torch}.device | {string} | None = None",
        f"dtype: {torch}.dtype | None = None",
    ]
    signature = "\n".join(bracket("def __init__(", ["self", "*", *arguments], ") -> None:", 4))
    # `super()` works under no other name.
    base = "super().__init__()" if names.builtin("super") == "super" else f"{nn}.Module.__init__(self)"
    return Constructor(signature, base, [line.removeprefix(" " * _INDENT) for line in lines])


def _sizes(context: Context) -> tuple[list[str], list[str]]:
    """The header names as arguments, and statements that check and keep them."""
    arguments, lines = [], []
    integer = context.names.builtin("int")
    for each, header in context.energy.header.items():
        default: Code | None = None
        if header.default is None:
            arguments.append(f"{each}: {integer}")
        elif isinstance(header.default, typed.Number):
            arguments.append(f"{each}: {integer} = {header.default.value}")
        else:
            arguments.append(f"{each}: {integer} | None = None")
            what = f"{each} = {written(context, header.default)}"
            default = Scalars(context).size(header.default, what)
        lines += _checked(each, context.helper("_size"), default)
    return arguments, lines


def _checked(each: str, check: str, default: Code | None) -> list[str]:
    """Statements that check an argument and keep it as an attribute; `default` is what it is when it is None."""
    if default is None:
        return statement(f"self.{each} = ", call(check, f'"{each}"', each), "", _INDENT)
    value = conditional(default, name(f"{each} is None"), name(each))
    whole = statement(f"self.{each} = ", call(check, f'"{each}"', value), "", _INDENT)
    if len(whole) == 1:
        return whole
    first = [f"{' ' * _INDENT}if {each} is None:", *statement(f"{each} = ", default, "", _INDENT + 4)]
    return [*first, *statement(f"self.{each} = ", call(check, f'"{each}"', each), "", _INDENT)]


def reset(context: Context) -> list[str]:
    """The body of `reset_parameters`, without indentation."""
    lines: list[str] = []
    for each, parameter in context.energy.parameters.items():
        lines += statement("", _start(context, each, parameter), "", _INDENT)
    return [line.removeprefix(" " * _INDENT) for line in lines] or ["# There are none."]


def _start(context: Context, each: str, parameter: typed.Parameter) -> Code:
    """The call that sets one parameter to its start."""
    init, value, start = f"{context.library('nn')}.init", Scalars(context).value, parameter.start
    target = f"self.{raw_name(each)}" if parameter.positive else f"self.{each}"
    if isinstance(start, (typed.Normal, typed.Uniform)):
        draw = f"{init}.normal_" if isinstance(start, typed.Normal) else f"{init}.uniform_"
        ends = (start.mean, start.std) if isinstance(start, typed.Normal) else (start.low, start.high)
        if not parameter.positive:
            return call(draw, target, *map(value, ends))
        fresh = call(f"{context.library('torch')}.empty_like", target)
        return call(context.helper("_start_positive"), target, call(draw, fresh, *map(value, ends)))
    if parameter.positive:
        number = name("1.0") if start is None else value(start)
        return call(f"{init}.constant_", target, call(context.helper("_inverse_softplus"), f'"{each}"', number))
    if start is None:
        return call(f"{init}.normal_", target, f"std=self.{parameter.axes[-1].name}**-0.5")
    constant = value(start)
    fill = {"0": "zeros_", "1": "ones_"}.get(constant.text)
    return call(f"{init}.{fill}", target) if fill is not None else call(f"{init}.constant_", target, constant)


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
