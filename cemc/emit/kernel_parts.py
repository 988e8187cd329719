"""What a kernel is made of, as the template sees it: inputs, products, sums, backward kernels; and their names."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cemc.emit.names import free_name
from cemc.program import nodes
from cemc.program.graph import in_order, operands
from cemc.program.nodes import Node, Operand
from cemc.recognise.bounds import Form

NAMES = frozenset(
    "ACC COLUMNS LOG2E PADDED POSITION PRECISION ROWS WIDTH Tensor allowed at batch batches block blocks column "
    "columns config ctx delta dot exists finite first found gradient group head heads here high i inside j key "
    "larger largest lead length like low math nullcontext offset output p place pointer query re result results row "
    "rows scalar score shape shrink sink some start stop table tile tl tokens torch total triton u value weight "
    "width".split()
)
"""Names that mean something in the kernels or in the functions round them."""


@dataclass(frozen=True)
class Width:
    """Constants of a kernel: the length of an axis, and the same padded. `axis` is its name in the energy."""

    axis: str
    size: str
    padded: str


@dataclass(frozen=True)
class Input:
    """A tensor that a kernel reads. `name`: the pointer, `local`: the variable with what is loaded, `argument`: the
    argument of the operator; `strides` as arguments; `width`: for tiles. `axes`: how many follow batch and head."""

    kind: str
    argument: str
    name: str
    local: str
    strides: list[str]
    axes: int
    width: Width | None = None
    integer: bool = False
    count: str = ""
    offset: str = ""


@dataclass(frozen=True)
class Dot:
    local: str
    query: Input
    key: Input


@dataclass(frozen=True)
class PairSum:
    """`weight`: the variable with the weights, 0 outside the mask already if `bare`. `softmax`: they are linear in the
    softmax weights."""

    local: str
    output: str
    weight: str
    bare: bool
    softmax: bool
    key: Input | None
    upstream: Input
    gradient: str


@dataclass
class Side:
    """A backward kernel: gradients of what varies with rows, with columns, or of a table of offsets. `called`: the
    kernel, `length`: of what it goes over in blocks; `first`: the first column that a block of rows has in a table."""

    name: str
    called: str
    rows: bool
    summary: str
    length: str
    table: Input | None = None
    first: str = ""
    outputs: list[str] = field(default_factory=list)
    made: list[str] = field(default_factory=list)
    accumulators: list[dict[str, str]] = field(default_factory=list)
    range: list[str] = field(default_factory=list)
    start: str = "0"
    stop: str = ""
    mask: list[str] = field(default_factory=list)
    score: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)
    stores: list[str] = field(default_factory=list)
    loads: Loads | None = None


@dataclass(frozen=True)
class Loads:
    """What one kernel reads, and the products it makes of that: `dots`, `squares` of vectors, and `sums`, whose
    gradients it needs."""

    queries: list[Input]
    keys: list[Input]
    rows: list[Input]
    columns: list[Input]
    scalars: list[Input]
    tables: list[Input]
    dots: list[Dot]
    sums: list[PairSum]
    gradients: list[Input]
    squares: list[Input]

    @property
    def inputs(self) -> list[Input]:
        """All tensors of the forward pass among them."""
        return [*self.queries, *self.keys, *self.rows, *self.columns, *self.scalars, *self.tables]


@dataclass(frozen=True)
class Forward:
    """The forward kernel: statements for the mask, the score and the weights of a pair."""

    loads: Loads
    mask: list[str]
    score: list[str]
    weights: list[str]


def without_positions(form: Form) -> Form:
    """The part of a linear form that is free of positions."""
    return {name: value for name, value in form.items() if name not in ("i", "j")}


def renamed(line: str, printed: dict[str, str]) -> str:
    return re.sub(r"<(\w+)>", lambda match: printed[match.group(1)], line)


def widened(roots: Sequence[Node], numbers: Sequence[str]) -> tuple[str, list[str]]:
    """How positions become wide enough for what is computed from them in `roots`, and the numbers that this depends on.
    32 bits do for positions and small numbers; a number may be of any size, a product of positions needs 64 bits."""
    whole = [node for node in in_order(roots) if node.kind == "integer"]
    for node in whole:
        large = isinstance(node, nodes.Number) and abs(node.value) >= _LARGE
        factors = [each for each in operands(node) if not isinstance(each, nodes.Number)]
        product = isinstance(node, nodes.Map) and (
            node.operation == "pow" or (node.operation == "mul" and len(factors) > 1)
        )
        if large or product:
            return ".to(tl.int64)", []
    found = [
        numbers[int(node.name.split()[1])]
        for node in whole
        if isinstance(node, nodes.Tensor) and node.name.startswith("number")
    ]
    return (".to(POSITION)", sorted(found)) if found else ("", [])


_LARGE = 1 << 24


def loop_range(lows: Sequence[str], highs: Sequence[str], count: str, size: str) -> tuple[list[str], str, str]:
    """Statements, first and end of a loop over blocks of `size`, between the bounds."""
    lines: list[str] = []
    start, stop = "0", count
    if lows:
        lines.append(f"low = tl.maximum({lows[0]}, 0) // {size} * {size}")
        lines += [f"low = tl.maximum(low, {each} // {size} * {size})" for each in lows[1:]]
        start = "low"
    if highs:
        lines.append(f"high = tl.minimum({highs[0]}, {count})")
        lines += [f"high = tl.minimum(high, {each})" for each in highs[1:]]
        stop = "high"
    return lines, start, stop


def numbered(name: str, n: int) -> str:
    return name if n == 0 else f"{name}_{n + 1}"


def vector_input(kind: str, n: int, operand: Operand, axes: int = 1) -> Input:
    local = numbered(kind, n)
    strides = [f"{local}_{axis}" for axis in ("batch", "head", "token")[: 2 + axes]]
    count = f"{local}_count" if kind == "table" else ""
    integer = operand.node.kind != "real"
    return Input(kind, local, f"{local}_ptr", local, strides, axes, integer=integer, count=count)


def upstream_input(local: str, width: Width | None) -> Input:
    axes = ("batch", "head", "token", "width") if width else ("batch", "head", "token")
    return Input("gradient", local, f"{local}_ptr", local, [f"{local}_{a}" for a in axes], len(axes) - 2, width)


def with_offset(table: Input, offset: str) -> Input:
    return Input(**{**table.__dict__, "offset": offset})


def number_names(numbers: Sequence[Node], taken: Iterable[str]) -> list[str]:
    """What the numbers of a kernel are called: constants and sizes by their names where these are free."""
    names: list[str] = []
    reserved = {*NAMES, *dir(builtins), *taken}
    for n, node in enumerate(numbers):
        wanted = node.name if isinstance(node, nodes.Constant) else node.axis if isinstance(node, nodes.Size) else ""
        # What the kernels themselves name has an underscore in it, a digit behind it, or is in NAMES.
        if not wanted.isalpha() or not wanted.isascii() or wanted in reserved:
            wanted = f"number_{n + 1}"
        names.append(free_name(wanted, names))
    return names
