"""Products of one value with several parameters, as one product: what attention and an MLP do to their input first.

One large product keeps a GPU busy where several small ones do not, and reads its input once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cemc.program import nodes
from cemc.program.graph import Graph, in_order
from cemc.program.kernel_nodes import Projection, Projections
from cemc.program.nodes import Node, Operand
from cemc.program.rewrite import rewrite


def with_shared_projections(step: Mapping[str, Node], graph: Graph) -> dict[str, Node]:
    """The step with a Projections node for each value that several parameters are multiplied by along its last axis."""
    shared: dict[int, list[_Product]] = {}
    for node in in_order(step.values()):
        product = _product(node)
        if product is not None:
            shared.setdefault(product.value.node.number, []).append(product)
    made: dict[int, Node] = {}
    for products in shared.values():
        if len(products) > 1:
            made |= _together(products, graph)
    return rewrite(dict(step), lambda node: made.get(node.number), graph) if made else dict(step)


@dataclass(frozen=True)
class _Product:
    """`node` is the product of `value`, along its last axis, with dimension `summed` of `matrix`."""

    node: nodes.Einsum
    value: Operand
    matrix: Operand
    summed: int


def _product(node: Node) -> _Product | None:
    if not isinstance(node, nodes.Einsum) or len(node.operands) != 2:
        return None
    for value, matrix in (node.operands, node.operands[::-1]):
        parameter = isinstance(matrix.node, nodes.Tensor) and matrix.node.role == "parameter"
        if not parameter or not value.node.batched or len(matrix.at) < 2 or not value.at:
            continue
        position = value.at[-1]
        places = [*value.at[:-1], *(p for p in matrix.at if p != position)]
        if position in matrix.at and position not in node.output and sorted(places) == sorted(node.output):
            # No other axis in common, and none twice.
            if len(set(places)) == len(places):
                return _Product(node, value, matrix, matrix.at.index(position))
    return None


def _together(products: list[_Product], graph: Graph) -> dict[int, Node]:
    """What stands for each product, by its number."""
    projections = graph.make(
        Projections, dims=(), batched=True, kind="real", value=products[0].value.node,
        matrices=tuple(product.matrix.node for product in products),
        summed=tuple(product.summed for product in products),
    )  # fmt: skip
    made: dict[int, Node] = {}
    for number, product in enumerate(products):
        node, matrix = product.node, product.matrix
        places = [*product.value.at[:-1], *(p for n, p in enumerate(matrix.at) if n != product.summed)]
        result = graph.make(
            Projection, dims=node.dims, batched=True, kind="real", hint=node.hint, projections=projections,
            result=number, order=tuple(places.index(p) for p in node.output),
        )  # fmt: skip
        made[node.number] = result
    return made
