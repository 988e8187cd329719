"""Rotations, attention and distances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cemc.emit.code import PRODUCT, Code, call, chain, name, negative
from cemc.emit.frames import order_of, place
from cemc.program import nodes
from cemc.program.nodes import Operand

if TYPE_CHECKING:
    from cemc.emit.body import Body


class StructuredPrinter:
    """Prints Rotate, Attention and Distance nodes."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._library, self._helper = body.context.library, body.context.helper

    def code(self, node: nodes.Rotate | nodes.Attention | nodes.Distance) -> Code:
        match node:
            case nodes.Rotate():
                return self._rotate(node)
            case nodes.Attention():
                return self._attention(node)
            case nodes.Distance():
                # Both have the width last: the frame without the axis of the other one.
                rank = len(node.dims)
                query = self._body.placed(_without(node.query, rank - 1), rank)
                key = self._body.placed(_without(node.key, rank - 2), rank)
                return call(self._helper("_squared_distance"), query, key)

    # --------------------------------------------------------------------------------------------------- rotation

    def _rotate(self, node: nodes.Rotate) -> Code:
        """Cosines and sines are computed once for each set of positions, in the axes of these, and placed at use."""
        rank, width = len(node.dims), node.dims[-1]
        order = sorted(range(len(node.position.at)), key=lambda n: node.position.at[n])
        position = self._body.tensor(Operand(node.position.node, order_of(order)), len(order))
        base = self._body.placed(Operand(node.base, ()), len(order) + 1)
        self._body.context.tensor_base |= not self._body.is_scalar(node.base)
        table = call(self._helper("_rotary"), position, self._body.lengths.size(width), base, self._body.acc)
        key = ("rotary", node.position.node.number, tuple(order), node.base.number, width)
        names = self._body.shared(key, (node.position.node, node.base), ("cos", "sin"), table)
        at = [*sorted(node.position.at), rank - 1]
        batched = node.position.node.batched or node.base.batched
        cos, sin = (place(name(each), at, rank, batched) for each in names)
        operand = self._body.placed(node.operand, rank)
        return call(self._helper("_rotate"), operand, cos, negative(sin) if node.inverse else sin)

    # --------------------------------------------------------------------------------------------------- attention

    def _attention(self, node: nodes.Attention) -> Code:
        rank = len(node.dims)
        key, value = (self._body.placed(operand, rank, "low") for operand in (node.key, node.value))
        if self._body.is_scalar(node.scale):
            query, scale = self._body.placed(node.query, rank, "low"), self._body.use(node.scale)
        else:
            # scaled_dot_product_attention takes only numbers: a learned scale goes to the query.
            factor = self._body.placed(Operand(node.scale, ()), rank)
            scaled = chain(PRODUCT, self._body.placed(node.query, rank), ("*", factor))
            query, scale = self._body.cast(scaled, "acc", "low"), name("1.0")
        widths = {operand.node.dims[_last(operand)] for operand in (node.key, node.value)}
        helper = self._helper("_attention" if len(widths) == 1 else "_attention_padded")
        return call(helper, query, key, value, f"scale={scale.text}", f"causal={node.causal}")


def _without(operand: Operand, position: int) -> Operand:
    """An operand in a frame that lacks a position."""
    return Operand(operand.node, tuple(p - (p > position) for p in operand.at))


def _last(operand: Operand) -> int:
    """Which dimension of an operand stands last in its frame."""
    return max(range(len(operand.at)), key=lambda n: operand.at[n])
