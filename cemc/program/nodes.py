"""The tensor program: a hash-consed graph of positional tensor operations.

A node has `dims`, the axis names of its tensor in order, and `batched`, whether the run-time tensor has the leading
batch axes of states and givens in front of them: the layout is `[batch..., dims...]` or just `[dims...]`, and batch
axes broadcast right-aligned. Dimensions carry no index names, so two expressions that differ only in those are one
node.

A compound node places each operand in a *frame*, a list of axes; `Operand.at[n]` is the frame position of the operand's
dimension n. Positions of the frame that an operand does not have are broadcast.

Build nodes only through `cemc.program.graph.Graph`, which makes equal nodes identical; compare with `is`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from cemc.record import dataclass

Kind = Literal["real", "integer", "truth"]


@dataclass(frozen=True, eq=False)
class Node:
    """`number`: order of creation, operands before their users; deterministic. `hint`: a name from the source for the
    variable that holds the value, or None."""

    number: int
    hint: str | None
    dims: tuple[str, ...]
    batched: bool
    kind: Kind


@dataclass(frozen=True, eq=False)
class Operand:
    """A node placed in the frame of its user: `at[n]` is the frame position of dimension n of `node`. A position may
    occur twice in an Einsum operand (a diagonal), nowhere else."""

    node: Node
    at: tuple[int, ...]


# ------------------------------------------------------------------------------- scalars known without tensors


@dataclass(frozen=True, eq=False)
class Number(Node):
    """A rational number; dims ()."""

    value: Fraction


@dataclass(frozen=True, eq=False)
class Size(Node):
    """The length of an axis as a number: a header name, or a run-time axis (then known from the arguments); dims ()."""

    axis: str


@dataclass(frozen=True, eq=False)
class Constant(Node):
    """A `const`, a Python float of the module; dims ()."""

    name: str


# ------------------------------------------------------------------------------------------------------ leaves


@dataclass(frozen=True, eq=False)
class Tensor(Node):
    """A declared tensor. Roles: `state` (current value in this repeat), `input` (the state at the layer's input),
    `context` (the state that held parts are evaluated at, in `energy` only), `given`, `parameter` (its value, after
    softplus)."""

    role: Literal["state", "input", "context", "given", "parameter"]
    name: str


@dataclass(frozen=True, eq=False)
class Positions(Node):
    """0, 1, ... along an axis; kind integer, dims (axis,)."""

    axis: str


@dataclass(frozen=True, eq=False)
class RowPositions(Node):
    """Positions of the tokens of this call: those after the tokens a cache has seen; kind integer, dims ("token",).
    Only in programs that can decode; there `Positions` of the token axis runs over all tokens, seen and new."""

    axis: str


@dataclass(frozen=True, eq=False)
class RecentPositions(Node):
    """Positions of the tokens of this call and of the last `window` (a whole number) before them, as far as there are
    such; kind integer, dims ("token",)."""

    axis: str
    window: Node


# -------------------------------------------------------------------------------------------------- operations


@dataclass(frozen=True, eq=False)
class Map(Node):
    """Element-wise. The frame is `dims`.

    operation: `add` `mul` (two or more operands), `pow` (base, exponent), `select` (truth, then, otherwise),
    comparisons `<` `<=` `>` `>=` `==` `!=` (of real or integer operands -> truth), `and` `or` (two or more truths),
    `real` (an integer or truth operand as a number), `clamp_min` (operand, number), a function of the operation table
    (`silu`, `exp`, ...), or `integral` (then `function` holds the integrand: see Integrand).

    Integer operands give integer results for `add` and `mul`; otherwise the result is real.
    """

    operation: str
    operands: tuple[Operand, ...]
    function: Integrand | None = None


@dataclass(frozen=True)
class Integrand:
    """A scalar function f(z) for `integral`: `result` is a node built from `argument` (a Tensor with role "given",
    name of the argument, dims ()) and scalars. `kinks`: numbers at which f is not smooth, as far as they can be read
    off it. `closed`: the integral from 0 as a node like `result`, where there is a closed form that the operation table
    does not have."""

    name: str
    argument: Node
    result: Node
    kinks: tuple[Fraction, ...]
    closed: Node | None = None


@dataclass(frozen=True, eq=False)
class Einsum(Node):
    """Sum of products. `output[n]` is the frame position of dimension n of the result; frame positions not in it are
    summed. One operand: a sum (or a diagonal, or a transpose). Operands are real."""

    operands: tuple[Operand, ...]
    output: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class CumulativeSum(Node):
    """The sum of `operand`, which has the same dims, over the entries along dimension `axis` up to each one; from each
    one on if `reverse`. Without its own entry if `exclusive`."""

    operand: Node
    axis: int
    reverse: bool
    exclusive: bool


@dataclass(frozen=True, eq=False)
class Branch:
    """One part of a log-sum-exp: frame = the result's dims, then `reduced` axes; scores and mask are placed in it.
    `mask`: truth, or None for everywhere. `reduced` may be empty (an attention sink: one more term)."""

    scores: Operand
    mask: Operand | None
    reduced: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class LogSumExp(Node):
    """log of the sum over all branches and their reduced axes, where their masks hold, of exp(scores).

    Where nothing is allowed the value is 0 (`empty` "zero") or minus infinity (`empty` "minus infinity"); gradient 0
    either way."""

    branches: tuple[Branch, ...]
    empty: Literal["zero", "minus infinity"]


@dataclass(frozen=True, eq=False)
class Weights(Node):
    """exp(scores - normaliser) where `mask` holds, exactly 0 (value and gradient) elsewhere. The frame is `dims`.

    `normaliser` is the LogSumExp (empty "zero") that the scores are a branch of: the softmax weights.
    """

    scores: Operand
    normaliser: Operand
    mask: Operand | None


@dataclass(frozen=True, eq=False)
class Max(Node):
    """Maximum over `reduced` where `mask` holds; 0 with gradient 0 where nothing is allowed. The first maximum (in
    row-major order of the reduced axes) takes the whole gradient. Frame: dims, then reduced."""

    scores: Operand
    mask: Operand | None
    reduced: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class FirstMax(Node):
    """1 at the first maximum over the last `reduced` dims where `mask` holds, else 0; no gradient. The frame is
    `dims`."""

    scores: Operand
    mask: Operand | None
    reduced: int


@dataclass(frozen=True, eq=False)
class Rotate(Node):
    """Rotary rotation of the last dimension (even size r) of `operand`: pair p is components p and p + r/2, angle
    position * base^(-2p/r), negated if `inverse`. The frame is `dims`; `position` (integer or real) is placed in it."""

    operand: Operand
    position: Operand
    base: Node
    inverse: bool


@dataclass(frozen=True, eq=False)
class Gather(Node):
    """Entries of `table` at computed subscripts, 0 outside. The frame is `dims`.

    `subscripts[n]` says how dimension n of the table is read: an int is a frame position read as it stands, an Operand
    of kind integer (placed in the frame) is a computed subscript. No frame position is both. `windows[n]`: dimension n
    of the table holds only the tokens of this call and as many before them; () where none does."""

    table: Node
    subscripts: tuple[int | Operand, ...]
    windows: tuple[Node | None, ...] = ()


@dataclass(frozen=True, eq=False)
class Align(Node):
    """`operand` permuted and expanded to the frame `dims`."""

    operand: Operand


@dataclass(frozen=True, eq=False)
class Expand(Node):
    """An Align that expands token dimensions, where rows and columns are told apart: dimension n of `dims` has the
    length of rows if `rows[n]`, else that of columns: those in `windows[n]`, None for all."""

    operand: Operand
    rows: tuple[bool, ...]
    windows: tuple[Node | None, ...]


# ------------------------------------------------------------------------------------------------------ caches


@dataclass(frozen=True, eq=False)
class Cached(Node):
    """`operand`, computed for the tokens of this call, after the values of the tokens seen before: a decoder's memory.

    dims are those of the operand; dimension `axis` (a token axis) is as long as all tokens seen and new. Without a
    cache the value is the operand itself. `slot` numbers the cached tensors of a program from 0; `hoisted`: the
    operand does not depend on the state, so that all repeats share one tensor. `window`: of the tokens seen before
    only so many last ones are kept, and stand before the new ones; None for all."""

    operand: Node
    axis: int
    slot: int
    hoisted: bool
    window: Node | None


@dataclass(frozen=True, eq=False)
class Recent(Node):
    """`operand`, which holds tokens of this call and some before them along dimension `axis`, from the last `window`
    before those of the call on."""

    operand: Node
    axis: int
    window: Node


# ------------------------------------------------------------------------------------------------------ blocks


@dataclass(frozen=True, eq=False)
class OverRows(Node):
    """`operand`, a sum over rows of values that depend on a row and a column, one entry for each column; it has as many
    columns as there are rows. By blocks of rows the sums over each are added up."""

    operand: Node


@dataclass(frozen=True, eq=False)
class RowBlocks(Node):
    """A region of the program computed by blocks of rows, with recomputation in backward; no value of its own.

    `reads`: what comes from outside; `rows[n]` and `columns[n]` are the dimensions of `reads[n]` that run over rows (a
    block of them is taken) and over columns. `region.inner` are the results inside; RowResult nodes stand for them
    outside. `causal`: a row reads no column after itself. `windows[n]`: how many columns before itself a row reads of
    each of `columns[n]`, None for all; `cut`: a block may do with these.
    """

    reads: tuple[Node, ...]
    rows: tuple[tuple[int, ...], ...]
    columns: tuple[tuple[int, ...], ...]
    windows: tuple[tuple[Node | None, ...], ...]
    cut: bool
    region: RegionResults
    causal: bool


@dataclass(frozen=True, eq=False)
class RegionResults:
    """The nodes a region computes, each with its dimension over rows, None for a sum over rows; and what these read
    that comes from outside, in the order of `RowBlocks.reads`, which stand for it. Not operands: they belong to another
    method."""

    inner: tuple[Node, ...]
    rows: tuple[int | None, ...]
    reads: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class RowResult(Node):
    """Result number `result` of `blocks`, for all rows."""

    blocks: RowBlocks
    result: int


# ---------------------------------------------------------------------------------------- structure recognised


@dataclass(frozen=True, eq=False)
class Distance(Node):
    """Squared distances of vectors: the sum over the last frame position of (query - key)^2.

    dims = shared dims + (query axis, key axis); the frame is these and the width. `query` lacks the key axis, `key` the
    query axis."""

    query: Operand
    key: Operand


@dataclass(frozen=True, eq=False)
class Attention(Node):
    """Softmax attention over one token axis: sum_j softmax_j(scale * q_i . k_j) v_j, rows without keys 0.

    dims = shared dims (heads, ...) + (query axis, value width). `query`: shared + (query axis, width), `key`: shared +
    (key axis, width), `value`: shared + (key axis, value width), each an Operand whose frame is shared + its own two.
    `causal`: j <= i (query and key axis are the same); otherwise every key. `scale` is a scalar node. A tied layer has
    value is key."""

    query: Operand
    key: Operand
    value: Operand
    scale: Node
    causal: bool


# ------------------------------------------------------------------------------------------------------ result


@dataclass(frozen=True)
class Recognition:
    """One line of the report: `structure` ("pairwise" or "feature"), and a sentence for people."""

    structure: str
    sentence: str


@dataclass(frozen=True)
class Program:
    """`step`: for each state, its value after one run of the update's statements, from `state` tensors (values
    before). `energies`: the value of each energy named in the update, from `state` and `context` tensors. Both are
    pure functions of leaves.

    What in `step` depends on no `state` tensor does not change across repeats. `causal`: token i of the result reads
    only tokens up to i, whatever the sizes."""

    step: dict[str, Node]
    energies: dict[str, Node]
    causal: bool
    recognised: tuple[Recognition, ...]
