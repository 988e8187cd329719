"""What the backward kernels of a Pairs node compute for a pair: the adjoints of everything its tile reads.

With G_n the derivative by weight n, p the softmax weights and L their log-sum-exp: dL/dt = p, so that the scores'
adjoint is p (dp + delta), where delta = dL - sum_j p dp is summed beforehand; as the weights are linear in p, that sum
is do . o, of what the forward pass returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cemc.program import nodes
from cemc.program.adjoint import Adjoints
from cemc.program.graph import Graph, in_order
from cemc.program.nodes import Node


@dataclass(frozen=True)
class Backward:
    """`leaves`: the adjoint of each leaf of the tile that has one, by its name. `softmax`: for each sum, whether its
    weights are made of softmax weights."""

    leaves: dict[str, Node]
    softmax: tuple[bool, ...]


def backward(score: Node | None, weights: Sequence[Node], graph: Graph) -> Backward:
    """Derives the backward pass of a tile from its forward pass."""
    adjoints = Adjoints(graph)
    p = adjoints.leaf("p 0")
    softmax = tuple(any(node is p for node in in_order([weight])) for weight in weights)
    for n, weight in enumerate(weights):
        adjoints.add(weight, adjoints.leaf(f"gradient {n}"))
    scores = [] if score is None else in_order([score])
    order = in_order([*([score] if score is not None else []), *weights])
    # What only the weights need comes first, then, through p, the scores.
    adjoints.propagate(order[len(scores) :])
    if score is not None:
        dp = adjoints.of(p)
        delta = adjoints.leaf("delta 0")
        inner = delta if dp is None else adjoints.map("add", [dp, delta])
        adjoints.add(score, adjoints.product([p, inner]))
        adjoints.propagate(scores)
    found: dict[str, Node] = {}
    for node in order:
        if isinstance(node, nodes.Tensor) and node is not p and node.kind == "real":
            adjoint = adjoints.of(node)
            if adjoint is not None and not node.name.startswith("number"):
                found[node.name] = adjoint
    return Backward(found, softmax)
