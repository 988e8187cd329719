"""Sums over pairs by a Triton kernel: the call of its function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cemc.emit.code import Code, call, name
from cemc.program import kernel_nodes, nodes
from cemc.program.graph import in_order
from cemc.program.nodes import Operand

if TYPE_CHECKING:
    from cemc.emit.body import Body


def pair_result(body: Body, node: kernel_nodes.PairResult) -> Code:
    """One result of a kernel: all of them are assigned by one statement, which calls its function."""
    pairs = node.pairs
    used = body.results_of(pairs)
    count = len(pairs.values) + (pairs.tile.score is not None)
    reads = [o.node for o in _operands(pairs)]
    wanted = [_wanted(used[n]) if n in used else "_" for n in range(count)]
    variables = body.shared(("pairs", pairs.number), reads, wanted, lambda: _call(body, pairs))
    return name(variables[node.result])


def _wanted(node: kernel_nodes.PairResult) -> str:
    return node.hint or ("summed" if node.result < len(node.pairs.values) else "log_sum_exp")


def _columns(body: Body, pairs: kernel_nodes.Pairs) -> str:
    """How many columns there are: in a window, as many as the tensors over columns have."""
    if body.cache is None or pairs.column != "token" or not _windowed(pairs):
        return body.lengths.size(pairs.column)
    operand = (*pairs.keys, *pairs.columns)[0]
    at = operand.at.index(len(pairs.shared)) - len(operand.node.dims)
    body.variable(operand.node)
    return f"{body.use(operand.node, 'low' if pairs.keys else 'acc').text}.shape[{at}]"


def _windowed(pairs: kernel_nodes.Pairs) -> bool:
    """Whether the columns are some of the last tokens only."""
    reads = [o.node for o in (*pairs.keys, *pairs.columns)]
    return any(isinstance(n, (nodes.Cached, nodes.Recent)) and n.window is not None for n in in_order(reads))


def _operands(pairs: kernel_nodes.Pairs) -> list[Operand]:
    return [
        *pairs.queries, *pairs.keys, *pairs.rows, *pairs.columns, *pairs.scalars, *pairs.tables, *pairs.sinks
    ]  # fmt: skip


def _call(body: Body, pairs: kernel_nodes.Pairs) -> Code:
    rank = len(pairs.shared)
    arguments = [body.placed(o, rank + 2, "low") for o in (*pairs.queries, *pairs.keys)]
    arguments += [body.tensor(o, rank + 1) for o in (*pairs.rows, *pairs.columns)]
    arguments += [body.tensor(o, rank) for o in pairs.scalars]
    arguments += [body.tensor(o, rank + 1) for o in (*pairs.tables, *pairs.sinks)]
    kernel = body.context.kernels[pairs.number]
    numbers = [f"{n}={body.use(node).text}" for n, node in zip(kernel.numbers, pairs.numbers, strict=True)]
    token = pairs.row == "token"
    rows = body.lengths.new_tokens() if token else body.lengths.size(pairs.row)
    columns = _columns(body, pairs)
    lengths = [f"rows={rows}", f"columns={columns}"]
    if token and body.cache is not None and kernel.uses_i:
        # Rows are the last tokens there are, and so are columns over tokens: all of them, or those in a window.
        total = columns if pairs.column == "token" else body.lengths.size("token")
        lengths.append(f"offset={total} - {body.lengths.new_tokens()}")
    if body.cache is not None and pairs.column == "token" and columns != body.lengths.size("token"):
        lengths.append(f"first={body.lengths.size('token')} - {columns}")
    return call(f"{body.context.helper('_kernels')}.{kernel.public}", *arguments, *numbers, *lengths)
