"""The nodes that kernels compute: sums over pairs of a row and a column, and runs of element-wise operations. What is
computed for a pair or an entry is a scalar expression of its own, which is no operand of the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from cemc.program.nodes import Node, Operand

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from cemc.record import dataclass


@dataclass(frozen=True, eq=False)
class Tile:
    """What a kernel computes for one pair of a row and a column: scalar expressions, Map nodes without dims over leaves
    (Tensor nodes without dims) whose name is a kind and a number.

    Leaves: "dot n", inner product n; "query_square n", "key_square n", the squared norm of a vector; "row n",
    "column n", "scalar n", entry of a vector over rows, over columns or over neither; "number n", a number of
    Python; "table n", an entry of a table of offsets; "i" and "j", the positions; "p 0", the softmax weight
    exp(score - log-sum-exp). `score`: what the log-sum-exp is of, or None. `mask`: a truth, or None. `weights`: for
    each sum the weight; `softmax`: whether it is linear in "p 0", or free of it. `offsets`: for each table the
    subscript. `adjoints`: what the backward pass computes for a pair, by the name of the leaf it is the adjoint of;
    it has further leaves: "gradient n", the derivative by weight n, and "delta 0" (see cemc/recognise/backward.py).
    """

    score: Node | None
    mask: Node | None
    weights: tuple[Node, ...]
    offsets: tuple[Node, ...]
    softmax: tuple[bool, ...]
    adjoints: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, eq=False)
class Pairs(Node):
    """Sums over a column axis of weights that depend on pairs of a row and a column; one kernel, no value of its own.

    With frames in brackets, `shared` being axes that rows and columns have in common (heads): `queries` [shared, row,
    width] and `keys` [shared, column, width]; `dots[n]` = (query, key) of inner product n. `rows` [shared, row],
    `columns` [shared, column], `scalars` [shared], `tables` [shared, offset], `numbers` (of Python), `sinks` [shared,
    row]: further terms of the log-sum-exp. `values[n]`: the key that sum n adds up, weighted; None: the weights alone.
    Results: the sums, [shared, row, width] or [shared, row], then, if there is a score, the log-sum-exp [shared, row];
    `empty`: what that is for rows without columns.
    """

    shared: tuple[str, ...]
    row: str
    column: str
    queries: tuple[Operand, ...]
    keys: tuple[Operand, ...]
    dots: tuple[tuple[int, int], ...]
    rows: tuple[Operand, ...]
    columns: tuple[Operand, ...]
    scalars: tuple[Operand, ...]
    tables: tuple[Operand, ...]
    numbers: tuple[Node, ...]
    sinks: tuple[Operand, ...]
    values: tuple[int | None, ...]
    tile: Tile
    empty: Literal["zero", "minus infinity"]


@dataclass(frozen=True, eq=False)
class PairResult(Node):
    """Result number `result` of `pairs`."""

    pairs: Pairs
    result: int


@dataclass(frozen=True, eq=False)
class PointwiseBody:
    """Scalar expressions of a Pointwise node: `result`, over leaves "input n" and "number n", and its derivative by
    each input that is real, by the name of the leaf; these have the leaf "gradient 0" besides."""

    result: Node
    adjoints: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, eq=False)
class Pointwise(Node):
    """A run of element-wise operations as one kernel, computed again in backward. The frame is `dims`; `numbers` are of
    Python."""

    inputs: tuple[Operand, ...]
    numbers: tuple[Node, ...]
    body: PointwiseBody


@dataclass(frozen=True, eq=False)
class Projections(Node):
    """Products of one value, along its last dimension, with dimension `summed[n]` of each of `matrices`, computed as
    one; no value of its own."""

    value: Node
    matrices: tuple[Node, ...]
    summed: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Projection(Node):
    """Product number `result` of `projections`. Its own dimensions are those of the value but the last, then those of
    the matrix but the one that is summed; dimension n of the node is number `order[n]` of these."""

    projections: Projections
    result: int
    order: tuple[int, ...]
