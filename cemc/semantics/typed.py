"""The typed energy: what semantics produces, and what symbolic and the oracle read.

Every name is resolved, every expression knows the axes it has left (`shape`), every index variable is a unique
`Index`, comparison chains are conjunctions of two-sided comparisons, and `not` has been pushed into them. Nothing
here evaluates or differentiates anything.

Shapes are tuples of `Axis`; two axes are the same only if they have the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from cemc.source import Source, Span

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from cemc.record import dataclass


@dataclass(frozen=True)
class Axis:
    """A named axis. `runtime` axes (token and those declared with `axis`) get their size from the arguments of a call;
    the others are header names, fixed when the module is constructed."""

    name: str
    runtime: bool


@dataclass(frozen=True)
class Index:
    """An index variable. `number` is unique within the energy, so two binders that use one name are told apart."""

    name: str
    number: int
    axis: Axis


# ------------------------------------------------------------------------------------------------ expressions


@dataclass(frozen=True)
class Expr:
    """Base of all expressions. `shape`: the axes left after subscripting, in order; `()` is a scalar."""

    span: Span
    shape: tuple[Axis, ...]


@dataclass(frozen=True)
class Number(Expr):
    """A literal, exactly as written (`0.1` is 1/10)."""

    value: Fraction


@dataclass(frozen=True)
class Size(Expr):
    """A header name used as a number."""

    name: str


@dataclass(frozen=True)
class ConstantRef(Expr):
    """A `const` used as a number."""

    name: str


@dataclass(frozen=True)
class Argument(Expr):
    """An argument of the `function` whose body this is part of."""

    name: str


@dataclass(frozen=True)
class Position(Expr):
    """An index variable used as a number: its position from 0."""

    index: Index


@dataclass(frozen=True)
class Access(Expr):
    """Entry or slice of a state, given, parameter or definition: the first `len(subscripts)` axes are subscripted.

    A subscript that is a bare `Position` is a plain index; any other expression is a computed subscript
    (integer-valued: `+ - *` of integers, header names, positions and integer givens), and reads 0 outside its axis.
    """

    name: str
    subscripts: tuple[Expr, ...]


@dataclass(frozen=True)
class Subscripted(Expr):
    """`(expression)[...]`: the first axes of any other expression, subscripted as in `Access`."""

    base: Expr
    subscripts: tuple[Expr, ...]


@dataclass(frozen=True)
class Negative(Expr):
    operand: Expr


@dataclass(frozen=True)
class Binary(Expr):
    """`+ - * / ^`, element-wise: equal shapes, or one side a scalar."""

    operator: Literal["+", "-", "*", "/", "^"]
    left: Expr
    right: Expr


@dataclass(frozen=True)
class MatMul(Expr):
    """`A @ u`, `u @ A`, `A @ B`, or `u @ v` (= dot): sums the last axis of the left side with the first of the
    right."""

    left: Expr
    right: Expr


@dataclass(frozen=True)
class Transpose(Expr):
    operand: Expr


@dataclass(frozen=True)
class Call(Expr):
    """A built-in function by name, with its arguments as typed expressions.

    Element-wise (one or two arguments, equal shapes or scalars): exp log sqrt abs square sin cos tanh sigmoid softplus
    relu silu gelu erf; min max with two arguments. Products: dot outer norm2. Of a vector: sum mean logsumexp max (one
    argument, scalar result), softmax rmsnorm layernorm normalize (vector result; the norms take an optional eps).
    rope(u, position[, base]).
    """

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True)
class UserCall(Expr):
    """A `function` of the energy applied element-wise (equal shapes or scalars)."""

    function: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True)
class Integral(Expr):
    """`integral[function](operand)`: element-wise antiderivative, zero at 0. The name is a built-in or a `function`."""

    function: str
    operand: Expr


@dataclass(frozen=True)
class Where(Expr):
    """`where(condition, then, otherwise)`; element-wise in the branches."""

    condition: Condition
    then: Expr
    otherwise: Expr


@dataclass(frozen=True)
class Held(Expr):
    """`given(operand)` or `input(operand)`: the value, with the energy's gradient blocked."""

    kind: Literal["given", "input"]
    operand: Expr


@dataclass(frozen=True)
class Reduction(Expr):
    """`sum[...](body)` and its kin over `indices` (in the order bound) where `condition` holds (None: everywhere).

    `condition` holds all comparisons of the binders and the part after `if`. The body keeps its own shape.
    """

    kind: Literal["sum", "mean", "logsumexp", "max"]
    indices: tuple[Index, ...]
    condition: Condition | None
    body: Expr


@dataclass(frozen=True)
class Gradient(Expr):
    """`grad[wrt](energy)[subscripts]`: only inside `update`. `energy` is an expression of un-subscripted definitions
    (its shape may have run-time axes); the total over all its axes is differentiated. The result has the axes of
    `wrt`, the first of them subscripted. `wrt` is a state or a definition."""

    wrt: str
    energy: Expr
    subscripts: tuple[Expr, ...]


# ------------------------------------------------------------------------------------------------- conditions


@dataclass(frozen=True)
class Condition:
    """Base of conditions. They are scalars with derivative 0. There is no `not`: semantics pushes it into the
    comparisons, so that a comparison that reads outside an axis is false, and so is its negation."""

    span: Span


@dataclass(frozen=True)
class Compare(Condition):
    """A two-sided comparison of scalars. False where a computed subscript in either side reads outside its axis."""

    operator: Literal["<", "<=", ">", ">=", "==", "!="]
    left: Expr
    right: Expr


@dataclass(frozen=True)
class And(Condition):
    operands: tuple[Condition, ...]


@dataclass(frozen=True)
class Or(Condition):
    operands: tuple[Condition, ...]


# ----------------------------------------------------------------------------------------------- declarations


@dataclass(frozen=True)
class HeaderName:
    """A positive integer fixed at construction. `default` uses Number, Size, Negative and Binary only; None: must be
    given."""

    name: str
    default: Expr | None
    span: Span


@dataclass(frozen=True)
class State:
    """`start` is None for an argument of forward; an expression (numbers, header names, constants) for an auxiliary
    state."""

    name: str
    axes: tuple[Axis, ...]
    start: Expr | None
    span: Span


@dataclass(frozen=True)
class Given:
    """`integer`: integer labels (bool accepted). Without axes: one number per batch element."""

    name: str
    axes: tuple[Axis, ...]
    integer: bool
    span: Span


@dataclass(frozen=True)
class Normal:
    mean: Expr
    std: Expr


@dataclass(frozen=True)
class Uniform:
    low: Expr
    high: Expr


@dataclass(frozen=True)
class Parameter:
    """`start`: an Expr for a constant, Normal or Uniform, or None (normal with standard deviation 1/sqrt(last axis);
    1 if `positive`). Starts use numbers, header names and constants. Starts of a positive parameter are those of its
    value."""

    name: str
    axes: tuple[Axis, ...]
    positive: bool
    start: Expr | Normal | Uniform | None
    span: Span


@dataclass(frozen=True)
class Constant:
    """A float64 number from header names and earlier constants."""

    name: str
    value: Expr
    span: Span


@dataclass(frozen=True)
class Function:
    """Element-wise function of scalars. The body uses Argument, Number, Size, ConstantRef, element-wise operations
    and other functions (never itself, directly or not)."""

    name: str
    arguments: tuple[str, ...]
    body: Expr
    span: Span


@dataclass(frozen=True)
class Definition:
    """`name[indices] = body`: a table with axes `(axis of each index) + body.shape`."""

    name: str
    indices: tuple[Index, ...]
    body: Expr
    span: Span

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(index.axis for index in self.indices) + self.body.shape


@dataclass(frozen=True)
class Assign:
    """`state[indices] = value`: reads old values for all indices, then replaces. `value.shape` is the state's
    remaining axes."""

    state: str
    indices: tuple[Index, ...]
    value: Expr
    span: Span


@dataclass(frozen=True)
class Local:
    """A definition inside the update block: evaluated where it stands, once, and used only below."""

    definition: Definition


@dataclass(frozen=True)
class Update:
    """`repeat`: a number, a header name, or 1 where the file says nothing. Without an update block, semantics writes
    the plain step `x = x - grad[x](E)` for every non-auxiliary state; `simultaneous` says that those assignments are
    all made at once."""

    repeat: int | str
    statements: tuple[Assign | Local, ...]
    simultaneous: bool


@dataclass(frozen=True)
class Energy:
    """One module. Mappings keep the order of declaration, except `constants`, `functions` and `definitions`, which
    are in an order in which each uses only earlier ones. `definitions` are those outside the update block."""

    name: str
    source: Source
    span: Span
    header: Mapping[str, HeaderName]
    runtime_axes: tuple[Axis, ...]
    states: Mapping[str, State]
    givens: Mapping[str, Given]
    parameters: Mapping[str, Parameter]
    constants: Mapping[str, Constant]
    functions: Mapping[str, Function]
    definitions: Mapping[str, Definition]
    update: Update

    @property
    def text(self) -> str:
        """The energy as it stands in the file."""
        return self.source.text[self.span.start : self.span.end]

    def axes_of(self, name: str) -> tuple[Axis, ...]:
        """Axes of a state, given, parameter or definition outside the update block."""
        for table in (self.states, self.givens, self.parameters, self.definitions):
            if name in table:
                return table[name].axes
        raise KeyError(name)
