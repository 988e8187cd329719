"""Faults of shapes, subscripts and index variables."""

from __future__ import annotations

from dataclasses import dataclass, field

from cemc.diagnostics.base import Diagnostic, Warn


@dataclass(frozen=True)
class Unequal(Diagnostic):
    """Operands of an element-wise operation that are neither equal in shape nor scalar."""

    template = "`{operator}` of {left} and {right}"
    operator: str
    left: str
    right: str


@dataclass(frozen=True)
class NoProduct(Diagnostic):
    template = "`@` of {left} and {right}: {why}"
    left: str
    right: str
    why: str


@dataclass(frozen=True)
class NotAMatrix(Diagnostic):
    template = "`.T` of {shape}; only a matrix has a transpose"
    shape: str


@dataclass(frozen=True)
class WrongShape(Diagnostic):
    """An argument of the wrong shape."""

    template = "{function} takes {wanted}, not {shape}"
    function: str
    wanted: str
    shape: str


@dataclass(frozen=True)
class WrongCount(Diagnostic):
    template = "{function} takes {wanted}, not {count}"
    function: str
    wanted: str
    count: int


@dataclass(frozen=True)
class RuntimeAxisLeft(Diagnostic):
    template = "`{name}` must be subscripted over its run-time axis `{axis}`"
    name: str
    axis: str


@dataclass(frozen=True)
class TooManySubscripts(Diagnostic):
    template = "{what} has {axes}, and {count} subscripts"
    what: str
    axes: str
    count: int


@dataclass(frozen=True)
class NoAxes(Diagnostic):
    template = "{what} has no axes to subscript"
    what: str


@dataclass(frozen=True)
class TwoAxes(Diagnostic):
    template = "index `{index}` runs over `{first}` since line {line}, and here it would run over `{second}`"
    index: str
    first: str
    line: int
    second: str


@dataclass(frozen=True)
class NoAxis(Diagnostic):
    template = "nothing says over which axis `{index}` runs"
    index: str


@dataclass(frozen=True)
class ManyAxes(Diagnostic):
    template = "`{index}` is compared with indices of different axes: {axes}"
    index: str
    axes: str


@dataclass(frozen=True)
class IndexHides(Diagnostic):
    template = "`{index}` is already {kind}, of line {line}"
    index: str
    kind: str
    line: int


@dataclass(frozen=True)
class IndexTwice(Diagnostic):
    template = "`{index}` is bound twice"
    index: str


@dataclass(frozen=True)
class NotInteger(Diagnostic):
    template = "`{text}` is not an integer, as a subscript must be"
    text: str


@dataclass(frozen=True)
class NotABinder(Diagnostic):
    template = "{why}"
    why: str


@dataclass(frozen=True)
class MisplacedBinder(Diagnostic):
    template = "{what} may stand only in the brackets of {reducers}"
    what: str
    reducers: str = "sum, mean, logsumexp or max"


@dataclass(frozen=True)
class NoBody(Diagnostic):
    template = "`{function}[…]` reduces nothing"
    function: str


@dataclass(frozen=True)
class NotANumber(Diagnostic):
    template = "{what} is not a number here"
    what: str


@dataclass(frozen=True)
class CompareNumbers(Diagnostic):
    template = "a comparison is between numbers, and this is {shape}"
    shape: str


@dataclass(frozen=True)
class NotAFunction(Diagnostic):
    template = "`{name}` is {kind}, not a function"
    name: str
    kind: str


@dataclass(frozen=True)
class NotElementwise(Diagnostic):
    template = "{what} in the function `{name}`"
    what: str
    name: str
    suggestion: str | None = field(
        default="the body of a function is made of its arguments, numbers, header names, constants and functions",
        kw_only=True,
    )


@dataclass(frozen=True)
class BadIntegrand(Diagnostic):
    template = "`integral` takes an element-wise function of one argument, and `{name}` is {what}"
    name: str
    what: str


@dataclass(frozen=True)
class ReadsOutside(Warn):
    template = "`{text}` reads 0 outside the axis `{axis}`, and that 0 enters the {reducer}"
    text: str
    axis: str
    reducer: str
