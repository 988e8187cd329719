"""Labelled values: a node of the tensor program, and the index symbol each of its dimensions stands for.

Everything that aligns, broadcasts and converts operands is here; the nodes themselves know positions only. A value that
differs from one there is only in what its indices are called, and so in the order of its dimensions, is that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from cemc.notation.nodes import IndexSymbol
from cemc.program import nodes
from cemc.program.graph import Graph
from cemc.program.nodes import Node, Operand

_COMMUTATIVE = frozenset(("add", "mul", "and", "or", "==", "!="))
COMPARISONS = frozenset(("<", "<=", "==", "!="))


@dataclass(frozen=True)
class Value:
    """`labels[n]` is the index symbol of dimension n of `node`; no symbol twice."""

    node: Node
    labels: tuple[IndexSymbol, ...]


def frame_of(values: Iterable[Value]) -> tuple[IndexSymbol, ...]:
    """All labels of `values`, in the order tensors are laid out in."""
    return tuple(sorted({label for value in values for label in value.labels}, key=layout))


def layout(symbol: IndexSymbol) -> tuple[bool, int]:
    """Sort key of dimensions: index variables of the source before the axes of vectors, which have no name, so that a
    vector's components lie next to each other; otherwise in order of creation, outer before inner."""
    return (not symbol.name, symbol.number)


class Values:
    """Makes labelled values from labelled values."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        # For each value made: its node, and the number that each dimension has whatever its index is called.
        self._made: dict[tuple[object, ...], tuple[Node, tuple[int, ...]]] = {}

    def once(
        self, what: tuple[object, ...], operands: Sequence[Value | None], frame: tuple[IndexSymbol, ...],
        make: Callable[[], Node],
    ) -> Value:  # fmt: skip
        """The value with dimensions `frame` that `make` makes, or the one made before that differs in the order of its
        dimensions alone. `what` says all about it but its operands; bound indices are no labels of `frame`."""
        places: dict[IndexSymbol, list[tuple[int, int]]] = {}
        for n, operand in enumerate(operands):
            for dim, label in enumerate(operand.labels if operand is not None else ()):
                places.setdefault(label, []).append((n, dim))
        # Labels that occur nowhere come last, in the order they have.
        ordered = sorted(frame, key=lambda label: (label not in places, places.get(label, [])))
        numbers = {label: n for n, label in enumerate(ordered)}
        bound = sorted(places.keys() - numbers.keys(), key=lambda label: places[label])
        numbers |= {label: n for n, label in enumerate(bound, start=len(ordered))}
        inside = tuple(None if o is None else (o.node.number, *(numbers[s] for s in o.labels)) for o in operands)
        key = (what, len(frame), inside)
        if key in self._made:
            node, order = self._made[key]
            return Value(node, tuple(ordered[n] for n in order))
        node = make()
        self._made[key] = node, tuple(numbers[label] for label in frame)
        return Value(node, frame)

    # ------------------------------------------------------------------------------------------------ leaves

    def number(self, value: Fraction | int) -> Value:
        value = Fraction(value)
        kind: nodes.Kind = "integer" if value.denominator == 1 else "real"
        return Value(self.graph.make(nodes.Number, dims=(), batched=False, kind=kind, value=value), ())

    def size(self, axis: str) -> Value:
        return Value(self.graph.make(nodes.Size, dims=(), batched=False, kind="integer", axis=axis), ())

    def constant(self, name: str) -> Value:
        return Value(self.graph.make(nodes.Constant, dims=(), batched=False, kind="real", name=name), ())

    def positions(self, index: IndexSymbol) -> Value:
        node = self.graph.make(nodes.Positions, dims=(index.axis,), batched=False, kind="integer", axis=index.axis)
        return Value(node, (index,))

    # -------------------------------------------------------------------------------------------- alignment

    def operand(self, value: Value, frame: Sequence[IndexSymbol]) -> Operand:
        return Operand(value.node, tuple(frame.index(label) for label in value.labels))

    def align(self, value: Value, frame: tuple[IndexSymbol, ...], hint: str | None = None) -> Value:
        """The value with exactly the dimensions of `frame`, in its order."""
        if value.labels == frame:
            return value
        node = self.graph.make(
            nodes.Align, hint=hint, dims=axes(frame), batched=value.node.batched, kind=value.node.kind,
            operand=self.operand(value, frame),
        )  # fmt: skip
        return Value(node, frame)

    # ------------------------------------------------------------------------------------------ element-wise

    def real(self, value: Value) -> Value:
        """The value as a real number; scalars known without tensors are numbers anyway."""
        if value.node.kind == "real" or isinstance(value.node, (nodes.Number, nodes.Size)):
            return value
        return self.map("real", [value], kind="real", convert=False)

    def map(
        self, operation: str, operands: Sequence[Value], kind: nodes.Kind | None = None, *, convert: bool = True,
        function: nodes.Integrand | None = None,
    ) -> Value:  # fmt: skip
        """An element-wise operation in the frame of all labels of its operands."""
        if kind is None:
            kind = _result_kind(operation, operands)
        if convert and kind == "real":
            first = 1 if operation == "select" else 0
            operands = [*operands[:first], *(self.real(value) for value in operands[first:])]
        frame, chosen = frame_of(operands), kind

        def make() -> Node:
            return self.graph.make(
                nodes.Map, dims=axes(frame), batched=any(v.node.batched for v in operands), kind=chosen,
                operation=operation, operands=tuple(self.operand(v, frame) for v in operands), function=function,
            )  # fmt: skip

        ordered = sorted(operands, key=lambda v: v.node.number) if operation in _COMMUTATIVE else operands
        return self.once((operation, kind, function), ordered, frame, make)

    def all_of(self, truths: Sequence[Value]) -> Value | None:
        """Conjunction; None is "true"."""
        if not truths:
            return None
        return truths[0] if len(truths) == 1 else self.map("and", truths, "truth")

    def masked(self, value: Value, mask: Value | None) -> Value:
        """The value where the mask holds, 0 elsewhere."""
        if mask is None:
            return value
        return self.map("select", [mask, value, self.number(0)], "real")

    # --------------------------------------------------------------------------------------------- products

    def einsum(self, operands: Sequence[Value], output: tuple[IndexSymbol, ...]) -> Value:
        """Sum over every label that is not in `output` of the product of the operands."""
        # In one order, so that equal products are one node.
        operands = sorted((self.real(value) for value in operands), key=lambda value: value.node.number)
        rest = [label for label in frame_of(operands) if label not in output]
        frame = (*output, *rest)
        if len(operands) == 1 and not rest:
            return self.align(operands[0], output)

        def make() -> Node:
            return self.graph.make(
                nodes.Einsum, dims=axes(output), batched=any(v.node.batched for v in operands), kind="real",
                operands=tuple(self.operand(v, frame) for v in operands), output=tuple(range(len(output))),
            )  # fmt: skip

        return self.once(("sum",), operands, output, make)


def axes(labels: Iterable[IndexSymbol]) -> tuple[str, ...]:
    return tuple(label.axis for label in labels)


def _result_kind(operation: str, operands: Sequence[Value]) -> nodes.Kind:
    if operation in COMPARISONS or operation in ("and", "or"):
        return "truth"
    if operation in ("add", "mul") and all(value.node.kind == "integer" for value in operands):
        return "integer"
    return "real"
