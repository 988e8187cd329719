"""Which dtype each value of a fused program is in.

Matrix products run in the dtype of the input, or of autocast (`low`); everything else, norms, scores after their
products, gates, the state itself, in at least float32 (`acc`). The generic program knows only `acc`.
"""

from __future__ import annotations

from typing import Literal

from cemc.program import kernel_nodes, nodes
from cemc.program.nodes import Node

Dtype = Literal["low", "acc"]


def is_product(node: Node) -> bool:
    """Whether a node is a matrix product, and not merely a sum of an element-wise one."""
    if isinstance(node, nodes.Attention):
        return True
    if isinstance(node, kernel_nodes.PairResult):
        return node.result < len(node.pairs.values) and node.pairs.values[node.result] is not None
    if isinstance(node, kernel_nodes.Projection):
        return True
    if isinstance(node, kernel_nodes.Pointwise):
        # It converts by itself, and only in registers.
        return True
    if not isinstance(node, nodes.Einsum):
        return False
    return len({frozenset(operand.at) for operand in node.operands if operand.node.dims}) > 1


def wanted_in(user: Node, operand: Node, fused: bool) -> Dtype:
    """The dtype in which `user` reads `operand`. A learned scale of attention is multiplied in before the product."""
    if isinstance(user, kernel_nodes.Projections):
        return "low" if fused else "acc"
    if isinstance(user, kernel_nodes.Pointwise):
        return "low" if fused and is_product(operand) else "acc"
    if isinstance(user, kernel_nodes.Pairs):
        return "low" if fused and any(operand is o.node for o in (*user.queries, *user.keys)) else "acc"
    is_scale = isinstance(user, nodes.Attention) and operand is user.scale
    return "acc" if is_scale else computed_in(user, fused)


def computed_in(node: Node, fused: bool) -> Dtype:
    """The dtype a node's operation is done in, so the one its real operands must have and its result has."""
    return "low" if fused and is_product(node) else "acc"
