"""A region computed by blocks of rows: a method for one block, and the call that runs it on all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cemc.emit.code import WIDTH, Code, bracket, call, name
from cemc.program import nodes
from cemc.program.nodes import Node

if TYPE_CHECKING:
    from cemc.emit.body import Body, Length


SUMMED_BLOCKS = "blocks with sums over rows"
"""The option of a file that some results of blocks are added up."""

CUT_BLOCKS = "blocks with windows"
"""The option of a file that some of its blocks read only the last columns before their rows."""


def row_result(body: Body, node: nodes.RowResult) -> Code:
    """One result of a region: all of them are assigned by one statement, which calls the region's method."""
    blocks = node.blocks
    key = ("blocks", blocks.number)
    inner = blocks.region.inner
    wanted = [body.wanted_name(result) for result in inner]
    variables = body.shared(key, blocks.reads, wanted, lambda: _call(body, blocks), exact=True)
    return name(variables[node.result])


def _call(body: Body, blocks: nodes.RowBlocks) -> Code:
    context = body.context
    reads = [body.variable(read).text for read in blocks.reads]
    called = _method(body, blocks)
    pairs = zip(blocks.region.inner, blocks.region.rows, strict=True)
    results = ["None" if n is None else str(n - len(result.dims)) for result, n in pairs]
    arguments = [
        called,
        _tuple(reads),
        f"rows={_dims(blocks.reads, blocks.rows)}",
        f"columns={_dims(blocks.reads, blocks.columns)}",
        f"results={_tuple(results)}",
    ]
    if CUT_BLOCKS in context.options:
        windows = [[w if blocks.cut else None for w in each] for each in blocks.windows]
        numbers = [_tuple(["None" if w is None else body.use(w).text for w in each]) for each in windows]
        arguments.append(f"windows={_tuple(numbers)}")
    if blocks.causal:
        arguments.append("causal=True")
    made = call(context.helper("_by_blocks"), *arguments)
    return made if len(blocks.region.inner) > 1 else Code(f"{made.text}[0]", weight=made.weight, call=_indexed(made))


def _indexed(made: Code) -> tuple[str, tuple[str, ...], str] | None:
    return None if made.call is None else (made.call[0], made.call[1], f"{made.call[2]}[0]")


def _dims(reads: Sequence[Node], dims: Sequence[tuple[int, ...]]) -> str:
    """For each tensor its dimensions, counted from the right."""
    return _tuple([_tuple([str(n - len(read.dims)) for n in each]) for read, each in zip(reads, dims, strict=True)])


def _tuple(items: Sequence[str]) -> str:
    return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"


def _method(body: Body, blocks: nodes.RowBlocks) -> str:
    """Writes the method for one block, and returns what to call."""
    context = body.context
    scope = context.names.scope()
    names = [scope.numbered(_short(body.use(read).text, n)) for n, read in enumerate(blocks.reads)]
    # Inside, what comes from other regions is what these compute.
    variables = {read.number: name for read, name in zip(blocks.region.reads, names, strict=True)}
    lengths: dict[Length, tuple[str, int]] = {}
    for k, (read, rows) in enumerate(zip(blocks.reads, blocks.rows, strict=True)):
        windows = dict(zip(blocks.columns[k], blocks.windows[k], strict=True))
        for n, axis in enumerate(read.dims):
            window = windows.get(n)
            key = (axis, n in rows, None if window is None else window.number)
            lengths[key] = (names[k], n - len(read.dims))
    inner = body.inner(scope, blocks.region.inner, variables, lengths)
    called = context.names.method(f"_rows{len(context.methods) + 1 if context.methods else ''}")
    results = [inner.use(result).text for result in blocks.region.inner]
    before, inside = inner.lines(8)
    tensor = context.library("Tensor")
    tensors = [f"{variable}: {tensor}" for variable in names]
    returns = f"{context.names.builtin('tuple')}[{', '.join([tensor] * len(results))}]"
    torch = context.library("torch")
    head = bracket(f"def {called}(", ["self", *tensors], f") -> {returns}:", 4)
    first = len(head) + 1
    lines = [
        *head,
        '        """What a block of rows reads from all columns."""',
        *before,
        *inside,
        *_returned(results),
    ]
    real = [variable for variable, read in zip(names, blocks.reads, strict=True) if read.kind == "real"]
    if any(re.search(rf"(?<![\w.]){inner.acc}(?!\w)", line) for line in lines):
        if real:
            lines.insert(first, f"        {inner.acc} = {real[0]}.dtype")
        else:
            # Nothing that comes in tells the dtype.
            lines[: len(head)] = bracket(
                f"def {called}(", ["self", f"{inner.acc}: {torch}.dtype", *tensors], f") -> {returns}:", 4
            )
            context.methods.append("\n".join(lines))
            return f"{context.library('partial')}(self.{called}, {body.acc})"
    context.methods.append("\n".join(lines))
    return f"self.{called}"


def _returned(results: Sequence[str]) -> list[str]:
    """The statement that returns a tuple, one result a line if they do not fit on one together."""
    flat = f"        return {_tuple(results)}"
    if len(flat) <= WIDTH:
        return [flat]
    return ["        return (", *(f"            {result}," for result in results), "        )"]


def _short(text: str, n: int) -> str:
    return text if text.isidentifier() else f"read_{n + 1}"
