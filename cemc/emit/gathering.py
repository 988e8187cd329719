"""Computed subscripts: entries of a table at positions, 0 outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cemc.emit.code import SUM, Code, call, chain, index, method, name
from cemc.emit.frames import order_of, permute
from cemc.program import nodes
from cemc.program.nodes import Node, Operand

if TYPE_CHECKING:
    from cemc.emit.body import Body


@dataclass(frozen=True)
class _Table:
    """What is read: its axes, how each is subscripted, which columns each holds, and what tells it apart from
    others."""

    code: Code
    dims: tuple[str, ...]
    subscripts: tuple[int | Operand, ...]
    windows: tuple[Node | None, ...]
    key: tuple[object, ...]


class GatherPrinter:
    """Prints Gather nodes. Several computed subscripts become one, on an axis that has one more entry: a zero, which is
    what subscripts outside read."""

    def __init__(self, body: Body) -> None:
        self._body, self._helper = body, body.context.helper

    def code(self, node: nodes.Gather) -> Code:
        table = self._fixed(node)
        computed = [n for n, s in enumerate(table.subscripts) if isinstance(s, Operand)]
        kept = [n for n in range(len(table.dims)) if n not in computed]
        kept_at = [s for s in table.subscripts if isinstance(s, int)]
        if not computed:
            return permute(table.code, order_of(kept_at))
        operands = [s for s in table.subscripts if isinstance(s, Operand)]
        frame = sorted({position for operand in operands for position in operand.at})
        place = self._place(operands, [table.dims[n] for n in computed], [table.windows[n] for n in computed], frame)
        if not node.table.batched:
            # [entries, kept...][place]: as an embedding is read.
            padded = self._padded(node, table, [*computed, *kept], len(computed), len(kept))
            return permute(index(padded, place.text), order_of([*frame, *kept_at]))
        if any(operand.node.batched for operand in operands):
            padded = self._padded(node, table, [*kept, *computed], len(computed), 0)
            read = call(self._helper("_take"), padded, place, str(len(kept)), str(len(frame)))
            return permute(read, order_of([*kept_at, *frame]))
        if len(computed) > 1:
            padded = self._padded(node, table, [*kept, *computed], len(computed), 0)
            return permute(index(padded, f"..., {place.text}"), order_of([*kept_at, *frame]))
        before, behind = computed[0], len(kept) - computed[0]
        padded = self._padded(node, table, range(len(table.dims)), 1, behind)
        read = index(padded, ", ".join(["...", place.text, *[":"] * behind]))
        return permute(read, order_of([*kept_at[:before], *frame, *kept_at[before:]]))

    def _fixed(self, node: nodes.Gather) -> _Table:
        """The table after the subscripts that are numbers of Python."""
        code, dims, subscripts = self._body.use(node.table), list(node.table.dims), list(node.subscripts)
        windows = list(node.windows or (None for _ in dims))
        key: list[object] = [node.table.number]
        for n in reversed(range(len(dims))):
            subscript = subscripts[n]
            if isinstance(subscript, Operand) and self._body.is_scalar(subscript.node):
                place = self._body.use(subscript.node)
                code = call(self._helper("_entry"), code, str(n - len(dims)), place)
                key.append((n, subscript.node.number))
                del dims[n], subscripts[n], windows[n]
        return _Table(code, tuple(dims), tuple(subscripts), tuple(windows), tuple(key))

    def _place(
        self, operands: Sequence[Operand], axes: Sequence[str], windows: Sequence[Node | None], frame: list[int]
    ) -> Code:
        """A variable for the position along the merged axes, those of a window counted from its first token."""
        placed = [Operand(operand.node, tuple(frame.index(p) for p in operand.at)) for operand in operands]
        pairs = []
        for operand, axis, window in zip(placed, axes, windows, strict=True):
            place = self._body.tensor(operand, len(frame))
            start = None if window is None else self._body.lengths.start(window)
            if start is not None:
                place = chain(SUM, place, ("-", name(start)))
            pairs.append(f"({place.text}, {self._body.lengths.of(axis, False, window)})")
        numbers = tuple(None if window is None else window.number for window in windows)
        key = ("place", tuple((o.node.number, o.at) for o in placed), tuple(axes), numbers)
        reads = [operand.node for operand in operands]
        (variable,) = self._body.shared(key, reads, ("place",), call(self._helper("_subscript"), *pairs))
        return name(variable)

    def _padded(self, node: nodes.Gather, table: _Table, order: Sequence[int], merged: int, behind: int) -> Code:
        """A variable for the table with its axes in `order`; the `merged` computed ones, followed by `behind` others,
        are made one with a zero at its end."""
        code = permute(table.code, order)
        if merged > 1:
            code = method(code, "flatten", str(-behind - merged), str(-behind - 1))
        key = ("padded", *table.key, tuple(order), merged, behind)
        padded = call(self._helper("_with_zero"), code, str(-behind - 1))
        reads = [
            node.table,
            *(s.node for s in node.subscripts if isinstance(s, Operand) and self._body.is_scalar(s.node)),
        ]
        (variable,) = self._body.shared(key, reads, ("table",), padded)
        return name(variable)
