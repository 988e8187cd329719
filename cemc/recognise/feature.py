"""The feature family: one matrix, up and, transposed, down again, with something element-wise between.

`W' F(W z, ...)` is the gradient of `sum_m f((W z)_m, ...)`. The products go to the matrix library as they are; recognising
the structure says so to people and to the kernels.
"""

from __future__ import annotations

from cemc.program.graph import in_order, operands
from cemc.program.nodes import Einsum, Map, Node, Tensor


def feature_sentences(outputs: list[Node]) -> list[str]:
    """A sentence for each parameter that is both the up and the down projection of an element-wise function."""
    order = in_order(outputs)
    sentences: list[str] = []
    for down in order:
        found = _projection(down)
        if found is None:
            continue
        matrix, inner = found
        if not isinstance(inner, Map):
            continue
        for up in _element_wise_inputs(inner):
            other = _projection(up)
            if other is not None and other[0] is matrix and _opposite(down, up, matrix):
                gates = [p for p in map(_projection, _element_wise_inputs(inner)) if p and p[0] is not matrix]
                names = ", ".join(dict.fromkeys(gate[0].name for gate in gates))
                kind = f"gated MLP (gate {names})" if gates else "element-wise energy of features"
                sentence = f"{kind}, {matrix.name} is both the up and the down projection"
                if sentence not in sentences:
                    sentences.append(sentence)
    return sentences


def _projection(node: Node) -> tuple[Tensor, Node] | None:
    """(parameter matrix, other operand) of a product with a parameter."""
    if not isinstance(node, Einsum) or len(node.operands) != 2:
        return None
    for operand, other in (node.operands, node.operands[::-1]):
        if isinstance(operand.node, Tensor) and operand.node.role == "parameter" and other.node.batched:
            return operand.node, other.node
    return None


def _opposite(down: Einsum, up: Einsum, matrix: Tensor) -> bool:
    """Whether `down` sums the axes of the matrix that `up` keeps."""

    def summed(node: Einsum) -> set[int]:
        at = next(o.at for o in node.operands if o.node is matrix)
        return {n for n, p in enumerate(at) if p not in node.output}

    return bool(summed(down)) and not summed(down) & summed(up)


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
