"""The feature family: one matrix, up and, transposed, down again, with something element-wise between.

`W' F(W z, ...)` is the gradient of `sum_m f((W z)_m, ...)`. The products go to the matrix library as they are;
recognising the structure says so to people and to the kernels."""

from __future__ import annotations

from dataclasses import dataclass

from cemc.program.graph import in_order, operands
from cemc.program.nodes import Einsum, Map, Node, Tensor


def feature_sentences(outputs: list[Node]) -> list[str]:
    """A sentence for each parameter that is both the up and the down projection of an element-wise function."""
    order = in_order(outputs)
    sentences: list[str] = []
    for down in order:
        found = projection_of(down)
        if found is None:
            continue
        if not isinstance(found.other, Map):
            continue
        matrix = found.matrix
        inputs = _element_wise_inputs(found.other)
        ups = [p for p in map(projection_of, inputs) if p is not None]
        for up in ups:
            if up.matrix is matrix and not up.summed & found.summed and not _is_mixed(up.node, inputs):
                names = ", ".join(dict.fromkeys(gate.matrix.name for gate in ups if gate.matrix is not matrix))
                kind = f"gated MLP (gate {names})" if names else "element-wise energy of features"
                sentence = f"{kind}, {matrix.name} is both the up and the down projection"
                if sentence not in sentences:
                    sentences.append(sentence)
    return sentences


@dataclass(frozen=True)
class _Projection:
    """`node`, a product of `other` with a parameter `matrix`, summed over the matrix's dimensions `summed`."""

    node: Node
    matrix: Tensor
    other: Node
    summed: frozenset[int]


def projection_of(node: Node) -> _Projection | None:
    if not isinstance(node, Einsum) or len(node.operands) != 2:
        return None
    for operand, other in (node.operands, node.operands[::-1]):
        matrix = operand.node
        if isinstance(matrix, Tensor) and matrix.role == "parameter" and other.node.batched:
            summed = frozenset(n for n, position in enumerate(operand.at) if position not in node.output)
            return _Projection(node, matrix, other.node, summed) if summed else None
    return None


def _is_mixed(up: Node, inputs: list[Node]) -> bool:
    """Whether something else that enters depends on the features as well, so that these are mixed: a norm of them, or
    what was read with them as queries."""
    return any(node is not up and up in in_order([node]) for node in inputs)


def _element_wise_inputs(node: Node) -> list[Node]:
    """What the element-wise expression with root `node` reads, in order."""
    found: list[Node] = []
    stack = [node]
    seen: set[int] = set()
    while stack:
        current = stack.pop()
        if current.number in seen:
            continue
        seen.add(current.number)
        if isinstance(current, Map):
            stack.extend(reversed(list(operands(current))))
        else:
            found.append(current)
    return found
