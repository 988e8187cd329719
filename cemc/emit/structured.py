"""Rotations, computed subscripts and attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cemc.emit.code import POSTFIX, PRODUCT, UNARY, Code, call, index, method, name, negative
from cemc.emit.frames import permute, place
from cemc.program import nodes
from cemc.program.nodes import Operand

if TYPE_CHECKING:
    from cemc.emit.body import Body


class StructuredPrinter:
    """Prints Rotate, Gather and Attention nodes."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._library, self._helper = body.context.library, body.context.helper

    def code(self, node: nodes.Rotate | nodes.Gather | nodes.Attention) -> Code:
        match node:
            case nodes.Rotate():
                return self._rotate(node)
            case nodes.Gather():
                return self._gather(node)
            case nodes.Attention():
                return self._attention(node)

    # --------------------------------------------------------------------------------------------------- rotation

    def _rotate(self, node: nodes.Rotate) -> Code:
        """Cosines and sines are computed once for each set of positions, in the axes of these, and placed at use."""
        rank, width = len(node.dims), node.dims[-1]
        order = sorted(range(len(node.position.at)), key=lambda n: node.position.at[n])
        position = self._body.tensor(Operand(node.position.node, _order(order)), len(order))
        base = self._body.placed(Operand(node.base, ()), len(order) + 1)
        self._body.context.tensor_base |= not self._body.is_scalar(node.base)
        table = call(self._helper("_rotary"), position, self._body.size(width), base, self._body.acc)
        key = ("rotary", node.position.node.number, tuple(order), node.base.number, width)
        names = self._body.shared(key, (node.position.node, node.base), ("cos", "sin"), table)
        at = [*sorted(node.position.at), rank - 1]
        batched = node.position.node.batched or node.base.batched
        cos, sin = (place(name(each), at, rank, batched) for each in names)
        operand = self._body.placed(node.operand, rank)
        return call(self._helper("_rotate"), operand, cos, negative(sin) if node.inverse else sin)

    # --------------------------------------------------------------------------------------------------- subscripts

    def _gather(self, node: nodes.Gather) -> Code:
        """The computed subscripts become one, on an axis that has one more entry: a zero for what lies outside."""
        rank = len(node.table.dims)
        computed = [n for n in range(rank) if isinstance(node.subscripts[n], Operand)]
        kept = [n for n in range(rank) if n not in computed]
        operands = [s for s in node.subscripts if isinstance(s, Operand)]
        frame = sorted({position for operand in operands for position in operand.at})
        batched = any(operand.node.batched for operand in operands)
        position = self._position(node, operands, computed, frame)
        kept_at = [s for s in node.subscripts if isinstance(s, int)]
        if not node.table.batched:
            # [entries, kept...][position]: as an embedding is read.
            table = self._table(node, [*computed, *kept], len(computed), -len(kept) - 1)
            return permute(index(table, position.text), _order([*frame, *kept_at]))
        if not batched:
            before = len([n for n in kept if n < computed[0]]) if len(computed) == 1 else len(kept)
            behind = len(kept) - before
            order = list(range(rank)) if len(computed) == 1 else [*kept, *computed]
            table = self._table(node, order, len(computed), -behind - 1)
            read = index(table, ", ".join(["...", position.text, *[":"] * behind]))
            return permute(read, _order([*kept_at[:before], *frame, *kept_at[before:]]))
        table = self._table(node, [*kept, *computed], len(computed), -1)
        read = call(self._helper("_take"), table, position, str(len(kept)), str(len(frame)))
        return permute(read, _order([*kept_at, *frame]))

    def _position(self, node: nodes.Gather, operands: list[Operand], computed: list[int], frame: list[int]) -> Code:
        pairs = []
        for operand, n in zip(operands, computed, strict=True):
            inner = Operand(operand.node, tuple(frame.index(p) for p in operand.at))
            code = self._body.tensor(inner, len(frame))
            pairs.append(f"({code.text}, {self._body.size(node.table.dims[n])})")
        key = ("subscript", tuple((o.node.number, o.at) for o in operands), tuple(node.table.dims[n] for n in computed))
        (variable,) = self._body.shared(
            key, tuple(o.node for o in operands), ("subscript",), call(self._helper("_subscript"), *pairs)
        )
        return name(variable)

    def _table(self, node: nodes.Gather, order: list[int], merged: int, dim: int) -> Code:
        """The table with its dimensions in `order`, the computed ones merged into one, with a zero at its end."""
        table = permute(self._body.use(node.table), order)
        if merged > 1:
            table = method(table, "flatten", str(dim - merged + 1), str(dim))
        padded = call(self._helper("_with_zero"), table, str(dim))
        key = ("table", node.table.number, tuple(order), merged)
        (variable,) = self._body.shared(key, (node.table,), ("table",), padded)
        return name(variable)

    # --------------------------------------------------------------------------------------------------- attention

    def _attention(self, node: nodes.Attention) -> Code:
        shared = len(node.dims) - 2
        rank = max(shared, 1) + 2
        codes = []
        for operand in (node.query, node.key, node.value):
            at = tuple(p + rank - 2 - shared for p in operand.at)
            code = self._body.use(operand.node, "low")
            codes.append(place(code, at, rank, operand.node.batched))
        if self._body.is_scalar(node.scale):
            scale = self._body.use(node.scale).text
        else:
            # A learned scale: scaled_dot_product_attention takes only numbers.
            factor = place(self._body.use(node.scale, "low"), (), rank, node.scale.batched)
            codes[0], scale = Code(f"{codes[0].at(UNARY)} * {factor.at(POSTFIX)}", PRODUCT), "1.0"
        value_axis, key_axis = node.value.node.dims[_last(node.value)], node.key.node.dims[_last(node.key)]
        helper = "_attention" if value_axis == key_axis else "_attention_padded"
        made = call(self._helper(helper), *codes, f"scale={scale}", f"causal={node.causal}")
        return made if shared else method(made, "squeeze", "-3")


def _last(operand: Operand) -> int:
    """Which dimension of an operand stands last in its frame."""
    return max(range(len(operand.at)), key=lambda n: operand.at[n])


def _order(at: Sequence[int]) -> tuple[int, ...]:
    """The permutation that brings dimensions with these frame positions into the order of the frame."""
    return tuple(sorted(range(len(at)), key=lambda n: at[n]))
