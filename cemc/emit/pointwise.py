"""Kernels of element-wise runs: what the template needs for each Pointwise node, and the calls of their functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cemc.emit.code import Code, call
from cemc.emit.kernel_parts import number_names
from cemc.emit.precision import wanted_in
from cemc.emit.tile import TilePrinter
from cemc.program import kernel_nodes, nodes
from cemc.program.graph import in_order
from cemc.program.nodes import Node, Program

if TYPE_CHECKING:
    from cemc.emit.body import Body


class PointwiseKernel:
    """Everything the template asks about one Pointwise node."""

    def __init__(self, node: kernel_nodes.Pointwise, name: str) -> None:
        self.node, self.public, self.name = node, name, f"_{name}"
        self.operator = f"{self.name}_operator"
        self.function = "".join(word.title() for word in name.split("_"))
        self.inputs = [f"input_{n + 1}" for n in range(len(node.inputs))]
        self.integer = [operand.node.kind != "real" for operand in node.inputs]
        adjoints = dict(node.body.adjoints)
        self.learned = [each for n, each in enumerate(self.inputs) if f"input {n}" in adjoints]
        self.numbers = number_names(node.numbers, self.inputs)
        kinds = ["int" if number.kind == "integer" else "float" for number in node.numbers]
        self.typed_numbers = [f"{name}: {kind}" for name, kind in zip(self.numbers, kinds, strict=True)]
        leaves = {f"input {n}": each for n, each in enumerate(self.inputs)}
        leaves |= {f"number {n}": each for n, each in enumerate(self.numbers)} | {"gradient 0": "gradient"}
        taken = ["result", "gradient", "row", "column", "inside", "rows", "columns", "ACC", "ROWS", "COLUMNS"]
        taken += [*self.inputs, *self.numbers, *(f"d_{each}" for each in self.inputs)]
        self.forward = TilePrinter(leaves, taken, [node.body.result]).lines([("result", node.body.result)])
        targets: list[tuple[str, Node]] = [
            (f"d_{each}", adjoints[f"input {n}"]) for n, each in enumerate(self.inputs) if f"input {n}" in adjoints
        ]
        printer = TilePrinter(leaves, taken, [root for _, root in targets])
        self.backward = printer.lines(targets)
        used = {n.name for n in in_order([root for _, root in targets]) if isinstance(n, nodes.Tensor)}
        self.reads = [each for n, each in enumerate(self.inputs) if f"input {n}" in used]
        # The result has the dtype of the first input of its own shape.
        self.whole = [each for each, integer in zip(self.inputs, self.integer, strict=True) if integer]
        self.tensors = self.inputs
        self.gradients = [f"d_{each}" for each in self.learned]
        self.gradient_results = self.gradients
        self.unpacked = ", ".join(self.gradients)
        self.gradient_outputs = [f"d_{each}_out" for each in self.learned]
        self.signature = ", ".join([*(f"{each}: Tensor" for each in self.inputs), *self.typed_numbers])
        self.public_signature = ", ".join(
            [*(f"{each}: Tensor" for each in self.inputs), *(["*"] if self.numbers else []), *self.typed_numbers]
        )
        self.constants = f"{{{', '.join(f'{chr(34)}{n}{chr(34)}: {n}' for n in self.numbers)}}}"
        self.strides = ", ".join(f"*{each}.stride()" for each in self.inputs)
        self.gradient_strides = ", ".join(f"*{each}.stride()" for each in [*self.reads, "gradient"])
        tensors = ", ".join(["Tensor"] * len(self.learned))
        self.gradient_returns = "Tensor" if len(self.learned) == 1 else f"tuple[{tensors}]"
        self.gradient_fake = [f"{each}.new_empty({each}.shape)" for each in self.learned]
        placed = [f"d_{each}" if each in self.learned else "None" for each in self.inputs]
        self.placed = ", ".join([*placed, *("None" for _ in self.numbers)])
        self.shapes = ", ".join(f"{each}.shape" for each in self.inputs)
        wide = [n for n, o in enumerate(node.inputs) if len(o.at) == len(node.dims) and o.node.kind == "real"]
        self.like = self.inputs[wide[0]]


def pointwise_of(program: Program | None) -> list[PointwiseKernel]:
    """The element-wise kernels that a program calls."""
    order = in_order(program.step.values()) if program is not None else []
    found = [node for node in order if isinstance(node, kernel_nodes.Pointwise)]
    return [
        PointwiseKernel(node, "pointwise" if len(found) == 1 else f"pointwise_{n + 1}") for n, node in enumerate(found)
    ]


def pointwise_call(body: Body, node: kernel_nodes.Pointwise) -> Code:
    """The call of the function of an element-wise kernel."""
    kernel = body.context.pointwise[node.number]
    rank = len(node.dims)
    arguments = [
        body.tensor(o, rank) if body.is_scalar(o.node) else body.placed(o, rank, wanted_in(node, o.node, body.fused))
        for o in node.inputs
    ]
    numbers = [f"{n}={body.use(each).text}" for n, each in zip(kernel.numbers, node.numbers, strict=True)]
    return call(f"{body.context.helper('_kernels')}.{kernel.public}", *arguments, *numbers)
