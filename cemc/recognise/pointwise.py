"""Runs of element-wise operations between projections, as one kernel: what an MLP does between its products.

`W' F(W z, V c)` is two products with F between them; F and its derivatives, which backward needs, are printed from the
same expressions as those of pairs. The products stay with the matrix library."""

from __future__ import annotations

from collections.abc import Mapping

from cemc.operations import ELEMENTWISE
from cemc.program import kernel_nodes, nodes
from cemc.program.adjoint import Adjoints
from cemc.program.expressions import Expressions, has_spelling, of_runtime
from cemc.program.graph import Graph, in_order, operands
from cemc.program.nodes import Node, Operand
from cemc.program.rewrite import rewrite
from cemc.program.scalars import scalars_in
from cemc.recognise.feature import projection_of
from cemc.recognise.tile import index_of


def with_pointwise_kernels(step: Mapping[str, Node], runtime: frozenset[str], graph: Graph) -> dict[str, Node] | None:
    """The step with a kernel for each run of element-wise operations that a projection reads; None where there are
    none."""
    order = in_order(step.values())
    scalars = scalars_in(order)
    users: dict[int, list[Node]] = {}
    for node in order:
        for child in operands(node):
            users.setdefault(child.number, []).append(node)
    made: dict[int, Node] = {}
    for node in order:
        found = projection_of(node)
        if found is None or found.other.number in made or not isinstance(found.other, nodes.Map):
            continue
        kernel = _Run(found.other, users, scalars, runtime, graph).node()
        if kernel is not None:
            made[found.other.number] = kernel
    return rewrite(dict(step), lambda node: made.get(node.number), graph) if made else None


class _Run(Expressions):
    """The operations that lead to `root` and to nothing else."""

    def __init__(
        self, root: nodes.Map, users: Mapping[int, list[Node]], scalars: set[int], runtime: frozenset[str],
        graph: Graph,
    ) -> None:  # fmt: skip
        super().__init__(graph)
        self._root, self._users, self._scalars, self._runtime = root, users, scalars, runtime
        self._adjoints = Adjoints(graph)
        self._inside: set[int] = set()
        self._inputs: list[Operand] = []
        self._numbers: list[Node] = []
        self._known: dict[tuple[int, tuple[int, ...]], Node] = {}

    def node(self) -> kernel_nodes.Pointwise | None:
        """The kernel; None where one would do nothing better than torch: for a single operation, or without a value of
        all dimensions to read."""
        root = self._root
        if not root.dims or not has_spelling(root):
            return None
        result = self._expression(root, tuple(range(len(root.dims))))
        wide = [o for o in self._inputs if len(o.at) == len(root.dims) and o.node.kind == "real"]
        operations = [n for n in in_order([result]) if isinstance(n, nodes.Map)]
        if not wide or not any(n.operation in ELEMENTWISE for n in operations) or len(operations) < 2:
            return None
        self._adjoints.add(result, self.leaf("gradient 0", "real"))
        order = in_order([result])
        self._adjoints.propagate(order)
        adjoints = {
            n.name: adjoint
            for n in order
            if isinstance(n, nodes.Tensor) and (adjoint := self._adjoints.of(n)) is not None
        }
        # The kernel has the dtype of what it reads first.
        return self.graph.make(
            kernel_nodes.Pointwise, dims=root.dims, batched=root.batched, kind="real", hint=root.hint,
            inputs=tuple(self._inputs), numbers=tuple(self._numbers),
            body=kernel_nodes.PointwiseBody(result, tuple(adjoints.items())),
        )  # fmt: skip

    def _expression(self, node: Node, at: tuple[int, ...]) -> Node:
        key = (node.number, at)
        if key not in self._known:
            self._known[key] = self._made(node, at)
        return self._known[key]

    def _made(self, node: Node, at: tuple[int, ...]) -> Node:
        if isinstance(node, nodes.Number):
            return node
        if node.number in self._scalars and not of_runtime(node, self._runtime):
            return self.leaf(f"number {index_of(self._numbers, node)}", node.kind)
        if isinstance(node, nodes.Map) and has_spelling(node) and (node is self._root or self._belongs(node)):
            self._inside.add(node.number)
            parts = [self._expression(o.node, tuple(at[p] for p in o.at)) for o in node.operands]
            return self.map(node.operation, parts, node.kind, node.hint)
        for number, known in enumerate(self._inputs):
            if known.node is node and known.at == at:
                return self.leaf(f"input {number}", node.kind)
        self._inputs.append(Operand(node, at))
        return self.leaf(f"input {len(self._inputs) - 1}", node.kind)

    def _belongs(self, node: Node) -> bool:
        """Whether only the run reads a value; and as long as any part of the result."""
        return node.dims == self._root.dims and all(
            user.number in self._inside for user in self._users.get(node.number, [])
        )
