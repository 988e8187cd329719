"""What to write for names that are not declared, but known from elsewhere."""

from __future__ import annotations

from cemc.semantics.context import Context
from cemc.semantics.table import Declared, a, builtin_names, closest

FUNCTIONS = {
    "matmul": "write `A @ u`",
    "transpose": "write `A.T`",
    "norm": "write `sqrt(norm2(u))`",
    "log_sum_exp": "write `logsumexp(u)`",
    "lse": "write `logsumexp(u)`",
    "pow": "write `u ^ n`",
    "stop_gradient": "write `given(u)`",
    "detach": "write `given(u)`",
    "stopgrad": "write `given(u)`",
    "sg": "write `given(u)`",
    "inner": "write `dot(u, v)`",
    "swish": "write `silu(u)`",
    "log_sigmoid": "write `-softplus(-u)`",
    "logsigmoid": "write `-softplus(-u)`",
    "minimum": "write `min(u, v)`",
    "maximum": "write `max(u, v)`",
    "einsum": "write `@`, or `sum[k](…)`",
    "prod": "write `exp(sum[k](log(…)))`",
    "ln": "write `log(u)`",
    "tan": "write `sin(u) / cos(u)`",
    "cosh": "write `(exp(u) + exp(-u)) / 2`",
    "sinh": "write `(exp(u) - exp(-u)) / 2`",
    "sign": "write `where(u > 0, 1, -1)`",
    "len": "sizes are header names; the number of allowed tokens is `sum[j <= i](1)`",
    "range": "an index is bound by `k in heads` or a comparison: `sum[j <= i](…)`",
    "arange": "an index variable used as a number is its position",
    "concat": "axes are not joined: add the parts, or give each its own parameter",
    "cat": "axes are not joined: add the parts, or give each its own parameter",
    "log_softmax": "write `u - logsumexp(u)`",
    "rms_norm": "write `rmsnorm(u)`",
    "layer_norm": "write `layernorm(u)`",
    "gradient": "write `grad[x](E)`",
    "clamp": "write `min(max(u, low), high)`",
    "clip": "write `min(max(u, low), high)`",
    "leaky_relu": "write `max(u, 0.01 * u)`",
    "mse": "write `norm2(u - v)`",
}

VALUES = {
    "pi": "write `3.141592653589793`",
    "π": "write `3.141592653589793`",
    "e": "write `exp(1)`",
    "inf": "there is no infinity: what may not be read is left out by a condition, `sum[j <= i if …](…)`",
    "infinity": "there is no infinity: what may not be read is left out by a condition, `sum[j <= i if …](…)`",
    "nan": "there is no NaN",
    "T": "a transpose is `.T`",
    "True": "conditions stand in brackets after `if`, and in `where`",
    "False": "conditions stand in brackets after `if`, and in `where`",
    "None": "what is not there is left out",
    "eps": "numbers are declared: `const eps = 1e-6`",
    "epsilon": "numbers are declared: `const epsilon = 1e-6`",
}

_SEQUENCES = {"seq", "sequence", "seqlen", "seq_len", "tokens", "time", "length", "len", "n", "t", "l", "s", "pos",
              "position", "positions", "steps", "context", "ctx"}  # fmt: skip
_BATCHES = {"b", "batch", "bs", "bsz", "batch_size"}


def of_axis(name: str, axes: list[str], declared: Declared | None, first: bool) -> str:
    """Instead of an axis that is not known. `first`: it is the first of its declaration, and no parameter's."""
    if declared is not None:
        return f"`{name}` is {a(declared.kind)}; an axis is `token`, declared with `axis`, or a header name"
    if name.lower() in _BATCHES:
        return "batch axes are not declared: arguments may have any number of them in front"
    if first and name.lower() in _SEQUENCES:
        return "the axis of the sequence is `token`"
    near = closest(name, axes)
    if near:
        return f"did you mean `{near}`?"
    return f"declare it in the brackets after the energy's name, or as a run-time axis: `axis {name}`"


def of_name(name: str, context: Context, subscripted: bool) -> str | None:
    """Instead of a name that is not known, and is no function that is called."""
    if context.free_axes:
        near = closest(name, context.table.names("definition"))
        energies = [f"`{each}`" for each in context.table.names("definition")]
        if near or not energies:
            return f"did you mean `{near}`?" if near else "an energy is a definition: `E[i] = …`, before the block"
        return f"an energy is a definition: {', '.join(energies[:5])}"
    if context.subscript and not subscripted and len(name) <= 2:
        return _index(name, context)
    if name in VALUES:
        return VALUES[name]
    base, _, index = name.rpartition("_")
    declared = context.table.find(base)
    if declared is not None and index and declared.axes != ():
        return f"subscripts stand in square brackets: `{base}[{', '.join(index) if index.isalpha() else index}]`"
    known = [*context.scope.visible, *context.arguments, *context.table.names()]
    near = closest(name, [*known, *builtin_names()])
    if near:
        return f"did you mean `{near}`?"
    if context.mode == "function":
        return None
    what = f"{name}[…]" if subscripted else name
    advice = f"declare it as `param {what}`, `given {what}`" + ("" if subscripted else f" or `const {name} = …`")
    return f"{advice}, or define it: `{what} = …`"


def _index(name: str, context: Context) -> str:
    """For what stands alone in a subscript."""
    left = f"an index is bound on the left, `{context.owner}[{name}] = …`"
    if not context.binders:
        return f"{left}, or by a reduction, `sum[{name}](…)`"
    inner = context.binders[-1]
    idle = [index for index in inner.indices if index not in inner.used]
    if idle:
        return f"`{inner.text}` binds `{idle[0]}`, which nothing in it uses: should that be `{name}`?"
    there = f"an index is bound by a reduction, as in `{inner.text[:-1]}, {name}]`"
    return f"`{inner.text}` does not bind `{name}`: {there}, or on the left, `{context.owner}[{name}] = …`"


def of_function(name: str, context: Context) -> str | None:
    """Instead of a function that is not known."""
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    base, _, index = name.partition("_")
    if base in ("sum", "mean", "max", "logsumexp") and index and len(index) <= 2:
        return f"binders stand in square brackets: `{base}[{index}](…)`"
    near = closest(name, [*builtin_names(), *context.table.names("function")])
    near = near or closest(name, context.table.names())
    return f"did you mean `{near}`?" if near else None
