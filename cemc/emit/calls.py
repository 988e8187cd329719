"""The public methods `forward` and `energy`: their signatures, the checks of their arguments, and what they hand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cemc.emit.code import bracket
from cemc.emit.code import summary as docstring
from cemc.emit.context import Context
from cemc.emit.methods import CACHE, LOW, Method
from cemc.emit.names import Scope
from cemc.program.schedule import Schedule
from cemc.semantics import typed


@dataclass(frozen=True)
class Forward:
    """`checks` without indentation; `branches`: the calls of the methods that do the work, and when. `tokens`: how many
    tokens the call has, empty where the layer cannot decode."""

    signature: str
    summary: str
    checks: list[str]
    first: str
    low: str
    branches: list[str]
    tokens: str


@dataclass(frozen=True)
class NewCache:
    """`body`: one statement."""

    signature: str
    summary: str
    body: str


@dataclass(frozen=True)
class EnergyCall:
    """`named`: (energy, call) where there are several, else `only`."""

    signature: str
    summary: str
    checks: list[str]
    first: str
    named: list[tuple[str, str]]
    names: str
    only: str


def forward(
    context: Context, generic: Method, fused: Method | None, kernels: Method | None, schedule: Schedule
) -> Forward:
    """The update, as often as `steps` says, of all tokens or of those that follow the ones a cache has seen. `fused`
    and `kernels`: the methods of backends "torch" and "triton", if they have their own."""
    energy = context.energy
    states = _positional(energy)
    scope = context.names.scope([*states, "steps", "cache"])
    givens = _givens_argument(energy, scope)
    tensor, int_ = context.library("Tensor"), context.names.builtin("int")
    parameters = ["self", *(f"{n}: {tensor}" for n in states), f"steps: {int_} | None = None"]
    tuple_ = context.names.builtin("tuple")
    result = tensor if len(states) == 1 else f"{tuple_}[{', '.join([tensor] * len(states))}]"
    if schedule.decodes:
        cache = context.helper("_Cache")
        parameters.append(f"cache: {cache} | None = None")
        result = f"{result} | {tuple_}[{result}, {cache}]"
    else:
        parameters.append("cache: None = None")
    parameters += [f"**{givens}: {tensor}"] if givens else []
    signature = "\n".join(bracket("def forward(", parameters, f") -> {result}:", 4))
    values: dict[str, str] = {n: n for n in states}
    checks = _take_givens(context, scope, givens, values)
    tensors = [(n, n, energy.states[n].axes) for n in states]
    batch = scope.local("batch")
    checks += _checked(context, scope, tensors, values, batch, wanted=schedule.decodes)
    repeat = energy.update.repeat
    default = f"self.{repeat}" if isinstance(repeat, str) else str(repeat)
    checks.append(f"steps = {context.helper('_repeats')}({default} if steps is None else steps)")
    tokens = ""
    if schedule.decodes:
        first = energy.states[states[0]]
        tokens = f"{states[0]}.shape[{[a.name for a in first.axes].index('token') - len(first.axes)}]"
        checks += ["if cache is not None:", f"    {context.helper('_Cache')}.check(cache, {batch}, {tokens}, steps)"]
    else:
        error = context.names.builtin("ValueError")
        checks += ["if cache is not None:", f'    raise {error}("cache: this layer cannot decode: {schedule.refusal}")']
    low = scope.local("low") if any(m is not None and LOW in m.arguments for m in (fused, kernels)) else ""
    values |= {"steps": "steps", LOW: low, CACHE: "cache"}
    times = "one update" if repeat == 1 else f"{repeat} updates"
    summary = f"{_listed(energy, states)} after {times}, or after `steps`{_given_text(energy)}."
    before = "result = " if schedule.decodes else "return "
    branches = _branches(context, generic, fused, kernels, states[0], values, before)
    if schedule.decodes:
        summary += " With a cache, the arguments over tokens hold those that follow the ones it has seen."
    return Forward(signature, docstring(summary, 8), checks, states[0], low, branches, tokens)


def _branches(
    context: Context, generic: Method, fused: Method | None, kernels: Method | None, first: str,
    values: Mapping[str, str], before: str,
) -> list[str]:  # fmt: skip
    """The calls of the methods of the backends, the last one without a condition if it returns."""
    conditions: list[tuple[str, Method]] = []
    if fused is not None or kernels is not None:
        conditions.append(('self.backend == "generic"', generic))
    if kernels is not None:
        widths = [f"{axis}=self.{axis}" for axis in kernel_widths(context)]
        check = ", ".join(["self.backend", first, *widths])
        conditions.append((f"{context.helper('_on_kernels')}({check})", kernels))
    last = fused or generic
    if not conditions:
        return [_call(last, values, 12, before)]
    if kernels is not None and fused is None:
        # Backends "torch" and "generic" are the same: one condition is enough.
        del conditions[0]
    lines = []
    word = "if"
    for condition, each in conditions:
        lines += [f"{word} {condition}:", f"    {_call(each, values, 16, before)}"]
        word = "elif" if before == "result = " else "if"
    if before == "result = ":
        return [*lines, "else:", f"    {_call(last, values, 16, before)}"]
    return [*lines, _call(last, values, 12, before)]


def kernel_widths(context: Context) -> list[str]:
    """The header axes that tiles of the kernels are as wide as."""
    return list(dict.fromkeys(w.axis for kernel in context.kernels.values() for w in kernel.widths))


def new_cache(context: Context, schedule: Schedule) -> NewCache:
    """The method that makes a cache, or refuses to."""
    names = context.names
    int_, ints = names.builtin("int"), f"{names.builtin('tuple')}[{names.builtin('int')}, ...]"
    kind = context.helper("_Cache") if schedule.decodes else "None"
    parameters = ["self", f"batch_shape: {ints}", f"max_tokens: {int_}", f"steps: {int_} | None = None"]
    signature = "\n".join(bracket("def new_cache(", parameters, f") -> {kind}:", 4))
    if not schedule.decodes:
        body = f'raise {names.builtin("ValueError")}("this layer cannot decode: {schedule.refusal}")'
        return NewCache(signature, "There is none for this layer.", body)
    repeat = context.energy.update.repeat
    default = f"self.{repeat}" if isinstance(repeat, str) else str(repeat)
    steps = f"{context.helper('_repeats')}({default} if steps is None else steps)"
    return NewCache(
        signature,
        "What decoding remembers of up to `max_tokens` tokens, for arguments with batch axes `batch_shape`.",
        f"return {kind}(batch_shape, max_tokens, {steps})",
    )


def energy_call(context: Context, methods: Mapping[str, Method]) -> EnergyCall:
    """The energy at given states, with what it holds at a context."""
    energy = context.energy
    states = _positional(energy)
    several = len(methods) > 1
    fixed = [*states, "context", *(["name"] if several else [])]
    scope = context.names.scope(fixed)
    givens = _givens_argument(energy, scope)
    tensor, string = context.library("Tensor"), context.names.builtin("str")
    one = len(states) == 1
    tuple_ = context.names.builtin("tuple")
    contexts_type = tensor if one else f"{tuple_}[{', '.join([tensor] * len(states))}]"
    parameters = ["self", *(f"{n}: {tensor}" for n in states), f"context: {contexts_type} | None = None"]
    parameters += ["*", f"name: {string} | None = None"] if several else []
    parameters += [f"**{givens}: {tensor}"] if givens else []
    signature = "\n".join(bracket("def energy(", parameters, f") -> {tensor}:", 4))
    values: dict[str, str] = {n: n for n in states}
    checks = _take_givens(context, scope, givens, values)
    if one:
        contexts = {states[0]: "context"}
        checks.append(f"context = {states[0]} if context is None else context")
        labels = {states[0]: "context"}
    else:
        contexts = {n: scope.local(f"{n}_context") for n in states}
        labels = {n: f"context[{k}]" for k, n in enumerate(states)}
        given = f"{context.helper('_contexts')}(({', '.join(states)}), context)"
        checks.append(f"{', '.join(contexts.values())} = {given}")
    tensors = [(n, n, energy.states[n].axes) for n in states]
    tensors += [(labels[n], contexts[n], energy.states[n].axes) for n in states]
    checks += _checked(context, scope, tensors, values, scope.local("batch"))
    values |= {f"context {n}": v for n, v in contexts.items()}
    named = [(n, _call(m, values, 16)) for n, m in methods.items()] if several else []
    names = " or ".join(f"'{n}'" for n in methods)
    holds = any(argument.startswith("context ") for m in methods.values() for argument in m.arguments)
    what = "An energy" if several else _shown(next(iter(methods)), energy)
    default = states[0] if one else "the states"
    held = (
        f", held parts evaluated at `context` (default: {default})"
        if holds
        else "; it holds nothing, whatever `context` is"
    )
    summary = f"{what} at {_listed(energy, states)}{held}."
    return EnergyCall(
        signature, docstring(summary, 8), checks, states[0], named, names, _call(next(iter(methods.values())), values)
    )


# ------------------------------------------------------------------------------------------------------------ parts


def _positional(energy: typed.Energy) -> list[str]:
    return [n for n, state in energy.states.items() if state.start is None]


def _givens_argument(energy: typed.Energy, scope: Scope) -> str:
    return scope.local("givens") if energy.givens else ""


def _take_givens(context: Context, scope: Scope, argument: str, values: dict[str, str]) -> list[str]:
    """Takes the givens out of the keyword arguments, and notes their variables in `values`."""
    if not argument:
        return []
    local = {n: scope.local(n) for n in context.energy.givens}
    values |= local
    targets = ", ".join(local.values()) if len(local) > 1 else f"({next(iter(local.values()))},)"
    quoted = [f'"{n}"' for n in local]
    lines = bracket(f"{targets} = {context.helper('_select')}(", [argument, *quoted], ")", 8)
    return [line.removeprefix(" " * 8) for line in lines]


def _checked(
    context: Context, scope: Scope, states: Sequence[tuple[str, str, tuple[typed.Axis, ...]]],
    values: Mapping[str, str], batch: str, *, wanted: bool = False,
) -> list[str]:  # fmt: skip
    """Checks each tensor; where there are several, broadcasts the batch axes of the states to those of all. `batch`:
    the variable for these, if there are several or it is `wanted`."""
    energy = context.energy
    tensors = [(label, variable, axes, False) for label, variable, axes in states]
    tensors += [(n, values[n], given.axes, given.integer) for n, given in energy.givens.items()]
    known = dict.fromkeys(axis.name for _, _, axes, _ in tensors for axis in axes if not axis.runtime)
    start = [f'"{axis}": self.{axis}' for axis in known]
    check = f"{context.helper('_batch_axes')}("

    def checked(label: str, variable: str, axes: tuple[typed.Axis, ...], integer: bool, lengths: str) -> list[str]:
        names = [f'"{axis.name}"' for axis in axes]
        listed = f"({names[0]},)" if len(names) == 1 else f"({', '.join(names)})"
        return [f'"{label}"', variable, listed, lengths, *(["integer=True"] if integer else [])]

    if len(tensors) == 1:
        head = f"{batch} = {check}" if wanted else check
        return _unindented(bracket(head, checked(*tensors[0], f"{{{', '.join(start)}}}"), ")", 8))
    lengths = scope.local("lengths")
    lines = bracket(f"{lengths} = {{", start, "}", 8)
    lines += [f"        {batch} = {context.helper('_broadcast')}(", "            {"]
    for label, variable, axes, integer in tensors:
        lines += bracket(f'"{label}": {check}', checked(label, variable, axes, integer, lengths), "),", 16)
    lines += ["            }", "        )"]
    for _, variable, axes in states:
        own = f" + {variable}.shape[{-len(axes)}:]" if axes else ""
        lines.append(f"        {variable} = {variable}.expand({batch}{own})")
    return _unindented(lines)


def _unindented(lines: Sequence[str]) -> list[str]:
    return [line.removeprefix(" " * 8) for line in lines]


def _call(method: Method, values: Mapping[str, str], indent: int = 12, before: str = "return ") -> str:
    """A statement that calls a method, indented but for its first line."""
    arguments = [values[argument] for argument in method.arguments]
    return "\n".join(bracket(f"{before}self.{method.name}(", arguments, ")", indent)).lstrip()


def _shown(name: str, energy: typed.Energy) -> str:
    axes = energy.axes_of(name)
    return f"{name} {_axes(axes)}"


def _axes(axes: Sequence[typed.Axis]) -> str:
    return f"[{', '.join(['...', *(axis.name for axis in axes)])}]"


def _listed(energy: typed.Energy, names: Sequence[str]) -> str:
    return ", ".join(_shown(n, energy) for n in names)


def _given_text(energy: typed.Energy) -> str:
    if not energy.givens:
        return ""
    shown = [f"{_shown(n, energy)}{' (integer)' if g.integer else ''}" for n, g in energy.givens.items()]
    return f"; givens: {', '.join(shown)}"
