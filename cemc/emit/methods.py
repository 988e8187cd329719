"""The private methods that hold the mathematics: one step and its loop, and each energy."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cemc.emit.body import Body
from cemc.emit.code import WIDTH, Code, bracket, chain, method, name, statement
from cemc.emit.context import Context
from cemc.emit.names import Scope
from cemc.emit.scalars import Scalars
from cemc.program import nodes
from cemc.program.graph import in_order
from cemc.program.nodes import Node
from cemc.semantics import typed


@dataclass(frozen=True)
class Method:
    """A private method: its text, and the names of its arguments as those who call it know them (tensors, then `steps` and
    `low` where it takes them)."""

    name: str
    text: str
    arguments: tuple[str, ...]


def update_method(context: Context, step: Mapping[str, Node], called: str, *, fused: bool) -> Method:
    """`steps` runs of the update."""
    energy = context.energy
    positional = [n for n, s in energy.states.items() if s.start is None]
    givens = _givens(context, list(step.values()))
    scope = context.names.scope()
    tensors = {n: scope.local(n) for n in [*positional, *givens]}
    auxiliary = {n: scope.local(n) for n, s in energy.states.items() if s.start is not None}
    steps = scope.local("steps")
    dtype = scope.local("dtype")
    states = {n: v for n, v in [*tensors.items(), *auxiliary.items()] if n in energy.states}
    arguments = {("state", n): states[n] for n in energy.states} | {("given", n): tensors[n] for n in givens}
    read = {n.name for n in in_order(step.values()) if isinstance(n, nodes.Tensor) and n.role == "input"}
    inputs = {n: scope.local(f"{n}_input") for n in energy.states if n in read}
    arguments |= {("input", n): v for n, v in inputs.items()}
    changed = {n: node for n, node in step.items() if not _is_same(node, n)}
    body = Body(context, scope, list(changed.values()), arguments, loop=True, fused=fused)
    assignment = _assignment(body, changed, states)
    lines = _entry(context, body, dtype, [tensors[n] for n in positional], [(tensors[g], energy.givens[g]) for g in givens])
    first = tensors[positional[0]]
    lines += _auxiliary(context, body, first, energy.states[positional[0]], [(auxiliary[n], energy.states[n]) for n in auxiliary])
    lines += [f"        {v} = {states[n]}" for n, v in inputs.items()]
    before, inside = body.lines(8)
    lines += [*before, f"        for _ in {context.names.builtin('range')}({steps}):", *inside, *assignment]
    lines.append(f"        return {', '.join(f'{tensors[n]}.to({dtype})' for n in positional)}")
    low = [body.low] if fused and _mentions(lines, body.low) else []
    tensor, integer = context.library("Tensor"), context.names.builtin("int")
    parameters = [f"{v}: {tensor}" for v in tensors.values()] + [f"{steps}: {integer}"]
    parameters += [f"{v}: {context.library('torch')}.dtype" for v in low]
    result = tensor if len(positional) == 1 else f"{context.names.builtin('tuple')}[{', '.join([tensor] * len(positional))}]"
    summary = "`steps` updates; matrix products in dtype `low`, the rest in `acc`." if low else "`steps` updates."
    text = _method(called, parameters, result, summary, lines)
    return Method(called, text, (*tensors, "steps", *(["low"] if low else [])))


def energy_method(context: Context, root: Node, called: str, label: str) -> Method:
    """The value of one energy."""
    energy = context.energy
    positional = [n for n, s in energy.states.items() if s.start is None]
    givens = _givens(context, [root])
    scope = context.names.scope()
    states = {n: scope.local(n) for n in positional}
    held = {
        n.name for n in in_order([root]) if isinstance(n, nodes.Tensor) and n.role == "context"
    }  # fmt: skip
    only = len(positional) == 1
    contexts = {n: scope.local("context" if only else f"{n}_context") for n in positional if n in held}
    others = {n: scope.local(n) for n in givens}
    auxiliary = {n: scope.local(n) for n, s in energy.states.items() if s.start is not None}
    dtype = scope.local("dtype")
    arguments: dict[tuple[str, str], str] = {("state", n): v for n, v in [*states.items(), *auxiliary.items()]}
    arguments |= {("context", n): contexts.get(n, auxiliary.get(n, "")) for n in energy.states if n in held}
    arguments |= {("given", n): v for n, v in others.items()}
    body = Body(context, scope, [root], arguments)
    result = body.use(root)
    real = [*states.values(), *contexts.values()]
    lines = _entry(context, body, dtype, real, [(others[g], energy.givens[g]) for g in givens])
    used = {n.name for n in in_order([root]) if isinstance(n, nodes.Tensor)}
    first = positional[0]
    lines += _auxiliary(context, body, states[first], energy.states[first], [(auxiliary[n], energy.states[n]) for n in auxiliary if n in used])
    before, inside = body.lines(8)
    lines += [*before, *inside, *statement("return ", method(result, "to", dtype), "", 8)]
    tensor = context.library("Tensor")
    parameters = [f"{v}: {tensor}" for v in [*states.values(), *contexts.values(), *others.values()]]
    text = _method(called, parameters, tensor, f"The energy {label}.", lines)
    keys = [*positional, *(f"context {n}" for n in contexts), *givens]
    return Method(called, text, tuple(keys))


# ------------------------------------------------------------------------------------------------------------ parts


def _method(called: str, parameters: Sequence[str], result: str, summary: str, lines: Sequence[str]) -> str:
    head = bracket(f"def {called}(", ["self", *parameters], f") -> {result}:", 4)
    return "\n".join([*head, f'        """{summary}"""', *lines])


def _entry(
    context: Context, body: Body, dtype: str, real: Sequence[str], givens: Sequence[tuple[str, typed.Given]]
) -> Iterator[str] | list[str]:
    """The arguments in the dtypes that the method computes in."""
    torch = context.library("torch")
    lines = [f"        {dtype}, {body.acc} = {real[0]}.dtype, {torch}.promote_types({real[0]}.dtype, {torch}.float32)"]
    lines += [f"        {variable} = {variable}.to({body.acc})" for variable in real]
    lines += [f"        {v} = {v}.long()" if given.integer else f"        {v} = {v}.to({body.acc})" for v, given in givens]
    return lines


def _auxiliary(
    context: Context, body: Body, first: str, like: typed.State, auxiliary: Sequence[tuple[str, typed.State]]
) -> list[str]:
    """Auxiliary states at their start values, with the batch axes of the first state."""
    lines = []
    for variable, state in auxiliary:
        assert state.start is not None
        start = Scalars(context).value(state.start).text
        if state.axes == like.axes:
            torch = context.library("torch")
            value = f"{torch}.zeros_like({first})" if start == "0" else f"{torch}.full_like({first}, {start})"
        else:
            lengths = [f"*{first}.shape[:{-len(like.axes)}]" if like.axes else f"*{first}.shape"]
            lengths += [body.size(axis.name) for axis in state.axes]
            value = f"{first}.new_full(({', '.join(lengths)}), {start})"
        lines.append(f"        {variable} = {value}")
    return lines


def _assignment(body: Body, changed: Mapping[str, Node], states: Mapping[str, str]) -> list[str]:
    """The new values of the states, all from the old ones."""
    if not changed:
        return ["            pass"]
    codes = {n: body.target(node) for n, node in changed.items()}
    for n, node in changed.items():
        if not _reads_state(node):
            codes[n] = method(codes[n], "expand_as", states[n])
    if len(changed) > 1:
        flat = f"            {', '.join(states[n] for n in changed)} = {', '.join(c.text for c in codes.values())}"
        if len(flat) <= WIDTH:
            return [flat]
        codes = {n: body.variable(node) if _reads_state(node) else codes[n] for n, node in changed.items()}
        return statement(f"{', '.join(states[n] for n in changed)} = ", name(", ".join(c.text for c in codes.values())), "", 12)
    ((n, code),) = codes.items()
    return statement(f"{states[n]} = ", code, "", 12)


def _is_same(node: Node, state: str) -> bool:
    return isinstance(node, nodes.Tensor) and node.role == "state" and node.name == state


def _reads_state(node: Node) -> bool:
    """Whether the batch axes of a node are all there are: those of the states are."""
    return any(isinstance(n, nodes.Tensor) and n.role in ("state", "input") for n in in_order([node]))


def _givens(context: Context, roots: Sequence[Node]) -> list[str]:
    """The givens that `roots` read, or that alone tell the length of an axis they mention."""
    energy, order = context.energy, in_order(roots)
    read = {n.name for n in order if isinstance(n, nodes.Tensor) and n.role == "given"}
    mentioned = {axis for n in order for axis in (*n.dims, *([n.axis] if isinstance(n, (nodes.Size, nodes.Positions)) else []))}
    known = {axis.name for state in energy.states.values() if state.start is None for axis in state.axes}
    known |= {axis.name for n in read for axis in energy.givens[n].axes}
    for n, given in energy.givens.items():
        if {axis.name for axis in given.axes if axis.runtime} & mentioned - known:
            read.add(n)
            known |= {axis.name for axis in given.axes}
    return [n for n in energy.givens if n in read]


def _mentions(lines: Sequence[str], word: str) -> bool:
    return any(re.search(rf"(?<![\w.]){re.escape(word)}(?!\w)", line) for line in lines)


__all__ = ["Code", "Method", "Scope", "chain", "energy_method", "update_method"]
