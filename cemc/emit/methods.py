"""The private methods that hold the mathematics: the update with its loop, and each energy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cemc.emit.body import Body
from cemc.emit.code import WIDTH, bracket, method, name, statement
from cemc.emit.context import Context
from cemc.emit.names import Scope
from cemc.emit.scalars import Scalars
from cemc.emit.section import Cache
from cemc.program import nodes
from cemc.program.graph import in_order
from cemc.program.kernel_nodes import Pairs
from cemc.program.nodes import Node
from cemc.semantics import typed

LOW = "dtype of products"
"""What the callers of a method call its argument `low`: not a name, as the energy may have one like it."""


CACHE = "the cache"
"""What the callers of a method call its argument `cache`: no name, as the energy may have one like it."""


@dataclass(frozen=True)
class Method:
    """A private method: its text, and its arguments in the words of its callers: the names of states and givens,
    `context x` for the state x of the context, `steps` and LOW."""

    name: str
    text: str
    arguments: tuple[str, ...]


class _Arguments:
    """The variables that a method's body starts from: arguments, and states that start afresh."""

    def __init__(self, context: Context, scope: Scope, roots: Sequence[Node]) -> None:
        self.context, self.roots = context, roots
        energy = context.energy
        leaves = [node for node in in_order(roots) if isinstance(node, nodes.Tensor)]
        used = {(leaf.role, leaf.name) for leaf in leaves}
        names = {leaf.name for leaf in leaves}
        self.positional = [n for n, s in energy.states.items() if s.start is None]
        self.states = {n: scope.local(n) for n in self.positional}
        held = [n for n in self.positional if ("context", n) in used]
        alone = len(self.positional) == 1
        self.contexts = {n: scope.local("context" if alone else f"{n}_context") for n in held}
        self.givens = {n: scope.local(n) for n in self._givens_needed()}
        auxiliary = [n for n, s in energy.states.items() if s.start is not None]
        self.auxiliary = {n: scope.local(n) for n in auxiliary if n in names}
        self.inputs = {n: scope.local(f"{n}_input") for n in energy.states if ("input", n) in used}
        self.dtype = scope.local("dtype")

    @property
    def current(self) -> dict[str, str]:
        """The variables of all states."""
        return {**self.states, **self.auxiliary}

    @property
    def leaves(self) -> dict[tuple[str, str], str]:
        """The variable of each leaf by role and name, the first state first."""
        found = {("state", n): v for n, v in self.current.items()}
        # An auxiliary state is at its start value in the context, too.
        found |= {("context", n): v for n, v in {**self.auxiliary, **self.contexts}.items()}
        found |= {("input", n): v for n, v in self.inputs.items()}
        return found | {("given", n): v for n, v in self.givens.items()}

    def _givens_needed(self) -> list[str]:
        """The givens that the roots read, or that alone tell the length of an axis they mention."""
        energy, order = self.context.energy, in_order(self.roots)
        needed = {n.name for n in order if isinstance(n, nodes.Tensor) and n.role == "given"}
        mentioned = {axis for node in order for axis in node.dims}
        mentioned |= {node.axis for node in order if isinstance(node, (nodes.Size, nodes.Positions))}
        mentioned |= {axis for node in order if isinstance(node, Pairs) for axis in (node.row, node.column)}
        known = {axis.name for n in self.positional for axis in energy.states[n].axes}
        known |= {axis.name for n in needed for axis in energy.givens[n].axes}
        for n, given in energy.givens.items():
            if {axis.name for axis in given.axes if axis.runtime} & mentioned - known:
                needed.add(n)
                known |= {axis.name for axis in given.axes}
        return [n for n in energy.givens if n in needed]

    def entry(self, body: Body) -> list[str]:
        """Statements that bring the arguments to the dtypes the body computes in, and make the other states."""
        energy, torch = self.context.energy, self.context.library("torch")
        first = self.states[self.positional[0]]
        lines = [f"{self.dtype}, {body.acc} = {first}.dtype, {torch}.promote_types({first}.dtype, {torch}.float32)"]
        integer = [v for n, v in self.givens.items() if energy.givens[n].integer]
        real = [*self.states.values(), *self.contexts.values(), *self.givens.values()]
        lines += _cast([v for v in real if v not in integer], f"to({body.acc})")
        lines += _cast(integer, "long()")
        lines += [f"{v} = {self._start(body, energy.states[n])}" for n, v in self.auxiliary.items()]
        lines += [f"{v} = {self.current[n]}" for n, v in self.inputs.items()]
        return [f"        {line}" for line in lines]

    def _start(self, body: Body, state: typed.State) -> str:
        """An auxiliary state at its start value, with the batch axes of the first state."""
        assert state.start is not None
        start, torch = Scalars(self.context).value(state.start).text, self.context.library("torch")
        like, first = self.context.energy.states[self.positional[0]], self.states[self.positional[0]]
        if state.axes == like.axes:
            return f"{torch}.zeros_like({first})" if start == "0" else f"{torch}.full_like({first}, {start})"
        lengths = [f"*{first}.shape[:{-len(like.axes)}]" if like.axes else f"*{first}.shape"]
        lengths += [body.lengths.of_call(axis.name) for axis in state.axes]
        shape = f"({lengths[0]},)" if len(lengths) == 1 else f"({', '.join(lengths)})"
        return f"{first}.new_full({shape}, {start})"


def update_method(
    context: Context, step: Mapping[str, Node], called: str, *, fused: bool = False, decodes: bool = False
) -> Method:
    """`steps` runs of the update."""
    scope = context.names.scope()
    changed = {n: node for n, node in step.items() if not _is_itself(node, n)}
    # A state that only another state's update reads is needed all the same.
    arguments = _Arguments(context, scope, list(step.values()))
    steps = scope.local("steps")
    cache = Cache(scope.local("cache"), scope.local("repeat")) if decodes else None
    body = Body(context, scope, list(changed.values()), arguments.leaves, loop=True, fused=fused, cache=cache)
    states = arguments.current
    assignment = _assignment(body, {states[n]: node for n, node in changed.items() if n in states})
    entry = arguments.entry(body)
    before, inside = body.lines(8)
    repeat = cache.repeat if cache is not None and _mentions(inside, cache.repeat) else "_"
    loop = [f"        for {repeat} in {context.names.builtin('range')}({steps}):", *inside, *assignment]
    results = [f"{v}.to({arguments.dtype})" for v in arguments.states.values()]
    lines = [*entry, *before, *loop, f"        return {', '.join(results)}"]
    tensor = context.library("Tensor")
    tensors = {**arguments.states, **arguments.givens}
    parameters = [f"{v}: {tensor}" for v in tensors.values()] + [f"{steps}: {context.names.builtin('int')}"]
    low = fused and _mentions(lines, body.low)
    summary = "`steps` updates."
    if low:
        parameters.append(f"{body.low}: {context.library('torch')}.dtype")
        summary = "`steps` updates; matrix products in dtype `low`, the rest in `acc`."
    cached = cache is not None and _mentions(lines, cache.variable)
    if cache is not None and cached:
        parameters.append(f"{cache.variable}: {context.helper('_Cache')} | None")
    several = f"{context.names.builtin('tuple')}[{', '.join([tensor] * len(results))}]"
    text = _method(called, parameters, tensor if len(results) == 1 else several, summary, lines)
    return Method(called, text, (*tensors, "steps", *([LOW] if low else []), *([CACHE] if cached else [])))


def _mentions(lines: Sequence[str], variable: str) -> bool:
    return any(re.search(rf"(?<![\w.]){variable}(?!\w)", line) for line in lines)


def energy_method(context: Context, root: Node, called: str, label: str) -> Method:
    """The value of one energy."""
    scope = context.names.scope()
    arguments = _Arguments(context, scope, [root])
    body = Body(context, scope, [root], arguments.leaves)
    value = body.use(root)
    result = method(body.lifted(value) if body.is_scalar(root) else value, "to", arguments.dtype)
    if not root.batched:
        # Nothing that has batch axes is left of it.
        first = arguments.positional[0]
        axes, lead = len(context.energy.states[first].axes), f"{arguments.states[first]}.shape"
        lead += f"[:-{axes}]" if axes else ""
        own = ["-1" for _ in root.dims]
        result = method(result, "expand", f"{lead} + ({', '.join(own)},)" if own else lead)
    entry = arguments.entry(body)
    before, inside = body.lines(8)
    tensors = [*arguments.states.values(), *arguments.contexts.values(), *arguments.givens.values()]
    tensor = context.library("Tensor")
    lines = [*entry, *before, *inside, *statement("return ", result, "", 8)]
    text = _method(called, [f"{v}: {tensor}" for v in tensors], tensor, f"The energy {label}.", lines)
    held = [f"context {n}" for n in arguments.contexts]
    return Method(called, text, (*arguments.states, *held, *arguments.givens))


def _method(called: str, parameters: Sequence[str], result: str, summary: str, lines: Sequence[str]) -> str:
    head = bracket(f"def {called}(", ["self", *parameters], f") -> {result}:", 4)
    return "\n".join([*head, f'        """{summary}"""', *lines])


def _cast(variables: Sequence[str], cast: str) -> list[str]:
    """Each of `variables` cast, in one statement if it fits on a line."""
    together = f"{', '.join(variables)} = {', '.join(f'{v}.{cast}' for v in variables)}"
    if not variables or len(together) <= WIDTH - 8:
        return [together] if variables else []
    return [f"{v} = {v}.{cast}" for v in variables]


def _assignment(body: Body, changed: Mapping[str, Node]) -> list[str]:
    """The new values of the states, by variable, all from the old ones."""
    if not changed:
        return ["            pass"]
    codes = {variable: body.target(node) for variable, node in changed.items()}
    for variable, node in changed.items():
        if not _has_all_batch_axes(node):
            codes[variable] = method(codes[variable], "expand_as", variable)
    target = f"{', '.join(changed)} = "
    if len(codes) == 1:
        return statement(target, next(iter(codes.values())), "", 12)
    values = ", ".join(code.text for code in codes.values())
    if len(target + values) > WIDTH - 12:
        values = ", ".join(_variable(body, changed[v], code.text) for v, code in codes.items())
    return statement(target, name(values), "", 12)


def _variable(body: Body, node: Node, text: str) -> str:
    """A new value under a name of its own, to be assigned together with others."""
    variable = body.scope.numbered(f"new_{node.hint or 'value'}")
    body.inside.add(variable, name(text))
    return variable


def _is_itself(node: Node, state: str) -> bool:
    return isinstance(node, nodes.Tensor) and node.role == "state" and node.name == state


def _has_all_batch_axes(node: Node) -> bool:
    """Whether a node's batch axes are those of all arguments together: what is computed from a state has them."""
    return any(isinstance(n, nodes.Tensor) and n.role in ("state", "input") for n in in_order([node]))
