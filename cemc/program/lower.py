"""SymPy in index notation -> tensor program.

Each table becomes a tensor (or several, in an update: one for each version of the states it is evaluated at). Common
sub-expressions need no pass of their own: equal nodes are one node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from sympy import Add, Mul, Pow, Rational

from cemc.notation.nodes import (
    ONE,
    AllOf,
    Antiderivative,
    AnyOf,
    Apply,
    ArgumentSymbol,
    AxisSize,
    Compare,
    Computed,
    ConstantSymbol,
    Entry,
    Expr,
    FirstMaximum,
    Held,
    IndexSymbol,
    LogSumExp,
    Maximum,
    Rotation,
    Select,
    Sum,
    Weight,
    apply,
    conjuncts,
)
from cemc.notation.walk import factors_of
from cemc.operations import ELEMENTWISE
from cemc.program import nodes
from cemc.program.contract import contract
from cemc.program.cumulative import cumulative, order_of, without
from cemc.program.entries import lower_entry
from cemc.program.graph import Graph
from cemc.program.kinks import kinks
from cemc.program.nodes import Node
from cemc.program.values import Value, Values, axes, frame_of, layout
from cemc.semantics import typed
from cemc.symbolic.update import SymbolicEnergy


@dataclass(frozen=True)
class Versions:
    """The states an expression is evaluated at: outside held parts, inside `given`, and inside `input`."""

    current: Mapping[str, Node]
    held: Mapping[str, Node]
    input: Mapping[str, Node]

    def inside(self, kind: str) -> Versions:
        """The versions inside a `given` or `input`."""
        if kind == "given":
            return Versions(self.held, self.held, self.input)
        return Versions(self.input, self.input, self.input)

    @property
    def key(self) -> tuple[int, ...]:
        """Equal for equal versions: the nodes themselves, as each is unique in its graph."""
        return tuple(node.number for states in (self.current, self.held, self.input) for node in states.values())


class Lowering:
    """Lowers expressions of one energy into one graph."""

    def __init__(self, symbolic: SymbolicEnergy, graph: Graph, size: Callable[[str], int]) -> None:
        self.symbolic, self.values, self._size = symbolic, Values(graph), size
        self.energy, self.tables = symbolic.energy, symbolic.tables
        # Local definitions of the update block have the value they had where they stand, except inside `input`.
        self.locals: dict[str, Value] = {}
        self._tables: dict[tuple[object, ...], Value] = {}
        self._known: dict[tuple[object, ...], Value] = {}
        self._forms: dict[tuple[Expr, ArgumentSymbol], Expr | None] = {}

    # ------------------------------------------------------------------------------------------- tables

    def table(self, name: str, versions: Versions) -> Value:
        """A table's value; its labels are some of the table's own indices (it does not vary along the others)."""
        # Inside `input` a local definition too is evaluated at the layer's input.
        if name in self.locals and versions.current is not versions.input:
            return self.locals[name]
        key = (name, *versions.key)
        if key not in self._tables:
            table = self.tables[name]
            value = self.values.real(self.value(table.body, versions))
            if table.hint is not None and value.node.hint is None and not isinstance(value.node, nodes.Tensor):
                # The first name the source gives a value is the one its variable gets.
                object.__setattr__(value.node, "hint", table.hint)
            self._tables[key] = value
        return self._tables[key]

    def full_table(self, name: str, versions: Versions) -> Node:
        """A table with all its dimensions, in order."""
        value = self.table(name, versions)
        return self.values.align(value, self.tables[name].indices, self.tables[name].hint).node

    def tensor(self, name: str, versions: Versions) -> Node:
        """A declared tensor."""
        if name in self.energy.states:
            return versions.current[name]
        return leaf(self.values.graph, self.energy, name)

    # -------------------------------------------------------------------------------------- expressions

    def value(self, expr: Expr, versions: Versions) -> Value:
        key = (expr, *versions.key)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._lower(expr, versions)
        return found

    def _lower(self, expr: Expr, versions: Versions) -> Value:
        make = self.values
        match expr:
            case Rational():
                return make.number(Fraction(int(expr.p), int(expr.q)))
            case AxisSize():
                return make.size(expr.name)
            case ConstantSymbol():
                return make.constant(expr.name)
            case IndexSymbol():
                return make.positions(expr)
            case ArgumentSymbol():
                return Value(self._argument(expr.name), ())
            case Computed():
                return self.value(expr.args[0], versions)
            case Entry():
                return lower_entry(self, expr, versions)
            case Held():
                return self.value(expr.value, versions.inside(expr.kind))
            case Add():
                return make.map("add", [self.value(a, versions) for a in expr.args])
            case Mul():
                return self._product(expr, versions)
            case Pow():
                return make.map("pow", [self.value(a, versions) for a in expr.args], "real")
            case Apply():
                return make.map(expr.function, [self.value(a, versions) for a in expr.arguments], "real")
            case Antiderivative():
                return self._integral(expr, versions)
            case Select():
                return make.map("select", [self.value(a, versions) for a in expr.args], "real")
            case Compare():
                return make.map(expr.operator, [self.value(a, versions) for a in expr.args[1:]], "truth")
            case AllOf() | AnyOf():
                parts = [self.value(a, versions) for a in expr.args]
                return make.map("and" if isinstance(expr, AllOf) else "or", parts, "truth")
            case Sum():
                return self._sum(expr, versions)
            case LogSumExp():
                return self._logsumexp(expr, versions)
            case Weight():
                return self._weight(expr, versions)
            case Maximum():
                return self._maximum(expr, versions)
            case FirstMaximum():
                return self._first_maximum(expr, versions)
            case Rotation():
                return self._rotation(expr, versions)
        raise AssertionError(type(expr))

    def _argument(self, name: str) -> Node:
        return self.values.graph.make(nodes.Tensor, dims=(), batched=False, kind="real", role="given", name=name)

    def _product(self, expr: Mul, versions: Versions) -> Value:
        """Scalars first, so that they are multiplied as numbers and not as tensors."""
        operands = [self.value(a, versions) for a in expr.args]
        return self.values.map("mul", sorted(operands, key=lambda value: len(value.labels) > 0 or value.node.batched))

    def _integral(self, expr: Antiderivative, versions: Versions) -> Value:
        _, argument, integrand, operand = expr.args
        result = self.values.real(self.value(integrand, versions)).node
        where = kinks(integrand, argument)
        form = self._closed_form(expr.name, integrand, argument, where)
        closed = None if form is None else self.values.real(self.value(form, versions)).node
        function = nodes.Integrand(expr.name, self._argument(argument.name), result, where, closed)
        return self.values.map("integral", [self.value(operand, versions)], "real", function=function)

    def _closed_form(
        self, name: str, integrand: Expr, argument: ArgumentSymbol, where: tuple[Fraction, ...]
    ) -> Expr | None:
        if name in ELEMENTWISE and ELEMENTWISE[name].antiderivative is not None:
            return None
        key = (integrand, argument)  # A constant has no argument in it, its integral has.
        if key not in self._forms:
            from cemc.program.antiderivatives import closed_form

            self._forms[key] = closed_form(integrand, argument, where)
        return self._forms[key]

    def _mask(self, condition: Expr, versions: Versions) -> Value | None:
        return None if condition == ONE else self.value(condition, versions)

    # --------------------------------------------------------------------------------------- reductions

    def _sum(self, expr: Sum, versions: Versions) -> Value:
        body, condition, indices = expr.args
        order = order_of(conjuncts(condition), tuple(indices))
        if order is not None:
            summands = [self.value(without(factor, order), versions) for factor in factors_of(body)]
            masked = self._apply_masks(summands, [self.value(t, versions) for t in order.rest])
            found = cumulative(self.values, order, masked, tuple(indices), self._size)
            if found is not None:
                return found
        factors = [self.value(factor, versions) for factor in factors_of(body)]
        factors = self._apply_masks(factors, [self.value(t, versions) for t in conjuncts(condition)])
        # A table need not vary along all its indices; the sum over one it does not vary along is a factor.
        present = set(frame_of(factors))
        factors += [self.values.size(symbol.axis) for symbol in indices if symbol not in present]
        output = tuple(label for label in frame_of(factors) if label not in set(indices))
        return contract(self.values, factors, output, self._size)

    def _apply_masks(self, factors: list[Value], truths: list[Value]) -> list[Value]:
        """Each truth masks the smallest factor that has its labels; one that fits none is a factor itself."""
        masks: dict[int, list[Value]] = {}
        alone: list[Value] = []
        for truth in truths:
            fitting = [n for n, f in enumerate(factors) if set(truth.labels) <= set(f.labels)]
            if fitting:
                masks.setdefault(min(fitting, key=lambda n: (len(factors[n].labels), n)), []).append(truth)
            else:
                alone.append(truth)
        masked = [self.values.masked(f, self.values.all_of(masks.get(n, []))) for n, f in enumerate(factors)]
        together = self.values.all_of(alone)
        return masked if together is None else [*masked, self.values.real(together)]

    def _reduced(
        self, scores: Value, mask: Value | None, indices: tuple[IndexSymbol, ...]
    ) -> tuple[tuple[IndexSymbol, ...], tuple[IndexSymbol, ...]]:
        """The labels that stay, and those of `indices` that occur."""
        labels = frame_of([scores] if mask is None else [scores, mask])
        return tuple(s for s in labels if s not in indices), tuple(s for s in indices if s in labels)

    def _logsumexp(self, expr: LogSumExp, versions: Versions) -> Value:
        parts = []
        for branch in expr.branches:
            exponent, condition, indices = branch.args
            mask = self._mask(condition, versions)
            scores = self.values.real(self.value(exponent, versions))
            stay, reduced = self._reduced(scores, mask, tuple(indices))
            for symbol in indices:
                if symbol not in reduced:
                    count = self.value(apply("log", AxisSize(symbol.axis)), versions)
                    scores = self.values.map("add", [scores, count])
            parts.append((scores, mask, stay, reduced))
        output = tuple(sorted({s for part in parts for s in part[2]}, key=layout))
        read = [value for part in parts for value in part[:2]]

        def make() -> Node:
            branches = []
            for scores, mask, _, reduced in parts:
                frame = output + reduced
                placed = None if mask is None else self.values.operand(mask, frame)
                branches.append(nodes.Branch(self.values.operand(scores, frame), placed, axes(reduced)))
            return self.values.graph.make(
                nodes.LogSumExp, dims=axes(output), batched=self._batched(*read), kind="real",
                branches=tuple(branches), empty=expr.empty,
            )  # fmt: skip

        return self.values.once(("log-sum-exp", expr.empty), read, output, make)

    def _weight(self, expr: Weight, versions: Versions) -> Value:
        scores = self.values.real(self.value(expr.args[0], versions))
        mask = self._mask(expr.args[1], versions)
        normaliser = self.value(expr.args[2], versions)
        frame = frame_of([v for v in (scores, normaliser, mask) if v is not None])

        def make() -> Node:
            return self.values.graph.make(
                nodes.Weights, dims=axes(frame), batched=self._batched(scores, normaliser, mask), kind="real",
                scores=self.values.operand(scores, frame), normaliser=self.values.operand(normaliser, frame),
                mask=None if mask is None else self.values.operand(mask, frame),
            )  # fmt: skip

        return self.values.once(("weights",), [scores, normaliser, mask], frame, make)

    def _maximum(self, expr: Maximum, versions: Versions) -> Value:
        body, condition, indices = expr.args
        scores, mask = self.values.real(self.value(body, versions)), self._mask(condition, versions)
        output, reduced = self._reduced(scores, mask, tuple(indices))
        return self._first(nodes.Max, output, reduced, axes(output), axes(reduced), scores, mask)

    def _first_maximum(self, expr: FirstMaximum, versions: Versions) -> Value:
        body, condition, indices = expr.args
        scores, mask = self.values.real(self.value(body, versions)), self._mask(condition, versions)
        output, _ = self._reduced(scores, mask, tuple(indices))
        frame = output + tuple(indices)
        value = self._first(nodes.FirstMax, output, tuple(indices), axes(frame), len(indices), scores, mask)
        return Value(value.node, frame)

    def _first(
        self, cls: type[Node], output: tuple[IndexSymbol, ...], reduced: tuple[IndexSymbol, ...],
        dims: tuple[str, ...], reduction: object, scores: Value, mask: Value | None,
    ) -> Value:  # fmt: skip
        frame = output + reduced
        node = self.values.graph.make(
            cls, dims=dims, batched=self._batched(scores, mask), kind="real", reduced=reduction,
            scores=self.values.operand(scores, frame),
            mask=None if mask is None else self.values.operand(mask, frame),
        )  # fmt: skip
        return Value(node, output)

    def _rotation(self, expr: Rotation, versions: Versions) -> Value:
        body, inner, outer, position, base, direction = expr.args
        vector, place = self.values.real(self.value(body, versions)), self.value(position, versions)
        if inner not in vector.labels:
            vector = self.values.align(vector, (*vector.labels, inner))
        rest = tuple(s for s in frame_of([vector, place]) if s != inner)
        frame = (*rest, inner)
        node = self.values.graph.make(
            nodes.Rotate, dims=axes(frame), batched=self._batched(vector, place), kind="real",
            operand=self.values.operand(vector, frame), position=self.values.operand(place, frame),
            base=self.value(base, versions).node, inverse=bool(direction == -1),
        )  # fmt: skip
        return Value(node, (*rest, outer))

    def _batched(self, *values: Value | None) -> bool:
        return any(value.node.batched for value in values if value is not None)


def leaf(graph: Graph, energy: typed.Energy, name: str, role: str | None = None) -> Node:
    """The node of a declared tensor."""
    dims = tuple(axis.name for axis in energy.axes_of(name))
    parameter = name in energy.parameters
    integer = name in energy.givens and energy.givens[name].integer
    return graph.make(
        nodes.Tensor, dims=dims, batched=not parameter, kind="integer" if integer else "real", name=name,
        role=role or ("parameter" if parameter else "given"),
    )  # fmt: skip
