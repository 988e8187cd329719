"""The operators round the kernels of a Pairs node, as torch sees them: signatures, what is allocated, what is
passed."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

from cemc.emit.code import WIDTH
from cemc.program import kernel_nodes

if TYPE_CHECKING:
    from cemc.emit.kernel_parts import Input
    from cemc.emit.kernels import Kernel


SMALLEST = 16
"""Rows of the smallest tile: the gradient of a number is first summed over as many."""


def operator(kernel: Kernel) -> dict[str, Any]:
    """What the template asks about the operators of a kernel."""
    tensors = [each.argument for each in kernel.inputs]
    numbers = [f"{n}: {kind}" for n, kind in zip(kernel.numbers, _kinds(kernel.pairs), strict=True)]
    lengths = ["rows: int", "columns: int", "offset: int", "first: int"]
    signature = [*(f"{each}: Tensor" for each in tensors), *numbers, *lengths]
    like = next((each.argument for each in kernel.inputs if not each.integer), tensors[0])
    results = [s.local for s in kernel.sums] + (["log_sum_exp"] if kernel.score else [])
    reached = {name for side in kernel.sides for name in side.made}
    learned = [each for each in kernel.inputs if each.kind == "sink" or f"d_{each.argument}" in reached]
    gradients = [f"d_{each.argument}" for each in learned]
    upstream = [f"d_{each}" for each in results]
    given = [*upstream, *tensors, *results]
    padded = _padded(kernel)
    constants = [f"{n}={n}" for n in kernel.numbers]
    if kernel.whole_numbers:
        constants.append(f"POSITION=_position({', '.join(kernel.whole_numbers)})")
    for width in kernel.widths:
        length = _length(kernel, width.axis)
        constants += [f"{width.size}={length}", f"{width.padded}=_padded({length})"]
    return {
        "operator": f"{kernel.name}_operator",
        "function": "".join(word.title() for word in kernel.public.split("_")),
        "tensors": tensors,
        "signature": ", ".join(signature),
        "returns": _returns(len(results)),
        "like": like,
        "made": _made(kernel, like),
        "padded": padded,
        "results": results,
        "constants": f"{{{', '.join(_quoted(c) for c in constants)}}}",
        "stride_arguments": _strides(kernel.inputs),
        "gradient_signature": ", ".join([*(f"{each}: Tensor" for each in given), *numbers, *lengths]),
        "gradient_returns": _returns(len(gradients)),
        "gradient_made": _gradient_made(kernel, learned, like),
        "gradient_tensors": [each.argument for each in kernel.gradients],
        "gradient_stride_arguments": _strides([*kernel.inputs, *kernel.gradients]),
        "gradient_after": _gradient_after(learned),
        "gradient_results": gradients,
        "gradient_fake": [f"{each.argument}.new_empty({each.argument}.shape)" for each in learned],
        "unpacked": ", ".join(gradients),
        "placed": ", ".join(
            [*(f"d_{each.argument}" if each in learned else "None" for each in kernel.inputs)]
            + ["None"] * len([*numbers, *lengths])
        ),
        "public_signature": ", ".join(
            [*(f"{each}: Tensor" for each in tensors), "*", *numbers, *lengths[:2], "offset: int = 0", "first: int = 0"]
        ),
        "public_summary": kernel.summary,
        "about": _about(kernel),
        "leads": [f"{each.argument}.shape" + (f"[:-{each.axes}]" if each.axes else "") for each in kernel.inputs],
        "flattened": _flattened(kernel),
        "call": ", ".join([*tensors, *kernel.numbers, "rows", "columns", "offset", "first"]),
    }  # fmt: skip


def _quoted(constant: str) -> str:
    name, _, value = constant.partition("=")
    return f'"{name}": {value}'


def _kinds(pairs: kernel_nodes.Pairs) -> list[str]:
    return ["int" if number.kind == "integer" else "float" for number in pairs.numbers]


def _returns(count: int) -> str:
    return "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"


def _strides(inputs: list[Input]) -> str:
    parts = [f"*{each.argument}.stride()" + (f", {each.argument}.shape[-1]" if each.count else "") for each in inputs]
    return ", ".join(parts)


def _length(kernel: Kernel, axis: str) -> str:
    each = next(t for t in (*kernel.keys, *kernel.queries) if t.width is not None and t.width.axis == axis)
    return f"{each.argument}.shape[-1]"


def _made(kernel: Kernel, like: str) -> list[str]:
    """Allocates the results: vectors in the dtype of what is summed, numbers in the dtype of sums."""
    lines = []
    for s in kernel.sums:
        if s.key is not None:
            lines.append(f"{s.local} = {s.key.argument}.new_empty(batch, heads, rows, {s.key.argument}.shape[-1])")
        else:
            lines.append(f"{s.local} = {like}.new_empty(batch, heads, rows, dtype=_accumulated({like}))")
    if kernel.score:
        lines.append(f"log_sum_exp = {like}.new_empty(batch, heads, rows, dtype=_accumulated({like}))")
    return lines


def _gradient_made(kernel: Kernel, learned: list[Input], like: str) -> list[str]:
    """Allocates the gradients, and computes what of the backward pass is no sum over pairs."""
    lines = []
    if kernel.score:
        before = "d_log_sum_exp"
        for s in kernel.sums:
            if s.softmax:
                up = f"d_{s.local}.to(d_log_sum_exp.dtype)"
                term = f"({up} * {s.local}).sum(-1)" if s.key is not None else f"{up} * {s.local}"
                lines.append(f"delta = {before} - {term}")
                before = "delta"
        if before != "delta":
            lines.append(f"delta = {before}")
    for s in kernel.sums:
        if s.key is not None:
            lines.append(f"d_{s.local} = d_{s.local}.to({s.key.argument}.dtype)")
    for each in learned:
        name = f"d_{each.argument}"
        if each.kind == "sink":
            lines.append(f"{name} = ({each.argument}.to(delta.dtype) - log_sum_exp).exp() * delta")
        elif each.kind == "scalar":
            size = f"triton.cdiv(rows, {SMALLEST})"
            lines.append(f"{name} = {each.argument}.new_empty(batch, heads, {size}, dtype=_accumulated({like}))")
        else:
            lines.append(
                f"{name} = torch.empty({each.argument}.shape, dtype={each.argument}.dtype, device={like}.device)"
            )
    return lines


def _padded(kernel: Kernel) -> str:
    """The padded width of the tiles that a column has, together."""
    lengths = [_length(kernel, key.width.axis) for key in kernel.keys if key.width is not None]
    return " + ".join(f"_padded({length})" for length in lengths) or "16"


def _gradient_after(learned: list[Input]) -> list[str]:
    return [
        f"d_{each.argument} = d_{each.argument}.sum(-1).to({each.argument}.dtype)"
        for each in learned
        if each.kind == "scalar"
    ]


def _about(kernel: Kernel) -> list[str]:
    """The arguments with their shapes."""
    shapes = {
        "query": "[..., rows, width]",
        "key": "[..., columns, width]",
        "row_value": "[..., rows]",
        "column_value": "[..., columns]",
        "scalar": "[...]",
        "table": "[..., offsets]",
        "sink": "[..., rows]",
    }
    lines = [f"{each.argument} {shapes[each.kind]}" for each in kernel.inputs]
    results = [f"{'[..., rows, width]' if s.key else '[..., rows]'}" for s in kernel.sums]
    results += ["[..., rows] (the log-sum-exp)"] if kernel.score else []
    position = "Column n is at position `first` + n, row n at `offset` more."
    text = f"{', '.join(lines)}; returns {', '.join(results)}. {position}"
    return textwrap.wrap(text, WIDTH - 4, break_long_words=False, break_on_hyphens=False)


def _flattened(kernel: Kernel) -> list[str]:
    lines = []
    for each in kernel.inputs:
        if each.kind == "sink":
            lines.append(f"{each.argument} = {each.argument}.expand(*{each.argument}.shape[:-1], rows)")
        lines.append(f"{each.argument} = _flat({each.argument}, lead, {each.axes})")
    return lines
