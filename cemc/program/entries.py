"""Entries of tensors and tables: plain subscripts rename dimensions, repeated ones take a diagonal, computed ones
gather."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cemc.notation.nodes import Entry, IndexSymbol
from cemc.program import nodes
from cemc.program.values import Value, axes, frame_of, layout

if TYPE_CHECKING:
    from cemc.program.lower import Lowering, Versions


def lower_entry(lowering: Lowering, entry: Entry, versions: Versions) -> Value:
    """The value of an entry."""
    subscripts = entry.subscripts
    plain = [s for s in subscripts if isinstance(s, IndexSymbol)]
    if len(plain) == len(subscripts):
        value = _plain(lowering, entry, versions)
        if len(set(value.labels)) == len(value.labels):
            return value
        if value.node.kind == "real":
            return _diagonal(lowering, value)
    return _gather(lowering, entry, versions)


def _plain(lowering: Lowering, entry: Entry, versions: Versions) -> Value:
    if entry.name in lowering.tables:
        value = lowering.table(entry.name, versions)
        rename = dict(zip(lowering.tables[entry.name].indices, entry.subscripts, strict=True))
        return Value(value.node, tuple(rename[label] for label in value.labels))
    return Value(lowering.tensor(entry.name, versions), entry.subscripts)


def _diagonal(lowering: Lowering, value: Value) -> Value:
    output = tuple(sorted(set(value.labels), key=layout))
    node = lowering.values.graph.make(
        nodes.Einsum, dims=axes(output), batched=value.node.batched, kind="real",
        operands=(lowering.values.operand(value, output),), output=tuple(range(len(output))),
    )  # fmt: skip
    return Value(node, output)


def _gather(lowering: Lowering, entry: Entry, versions: Versions) -> Value:
    make = lowering.values
    if entry.name in lowering.tables:
        table = lowering.full_table(entry.name, versions)
    else:
        table = lowering.tensor(entry.name, versions)
    points = [lowering.value(subscript, versions) for subscript in entry.subscripts]
    computed = [not isinstance(s, IndexSymbol) for s in entry.subscripts]
    # An index that is read as it stands must occur nowhere else; otherwise its positions are a computed subscript too.
    counts = [label for point in points for label in point.labels]
    computed = [c or counts.count(p.labels[0]) > 1 for c, p in zip(computed, points, strict=True)]
    frame = frame_of(points)
    subscripts = tuple(
        make.operand(point, frame) if is_computed else frame.index(point.labels[0])
        for point, is_computed in zip(points, computed, strict=True)
    )
    node = make.graph.make(
        nodes.Gather, dims=axes(frame), batched=table.batched or any(p.node.batched for p in points),
        kind=table.kind, table=table, subscripts=subscripts, windows=(),
    )  # fmt: skip
    return Value(node, frame)
