"""Faults of shapes, subscripts and index variables."""

from __future__ import annotations

from typing import ClassVar

from cemc.diagnostics.base import Diagnostic, Warn
from cemc.record import named


class Unequal(Diagnostic):
    """Operands of an element-wise operation that are neither equal in shape nor scalar."""

    template: ClassVar[str] = "`{operator}` of {left} and {right}"
    operator: str
    left: str
    right: str


class NoProduct(Diagnostic):
    template: ClassVar[str] = "`@` of {left} and {right}: {why}"
    left: str
    right: str
    why: str


class NotAMatrix(Diagnostic):
    template: ClassVar[str] = "`.T` of {shape}; only a matrix has a transpose"
    shape: str


class WrongShape(Diagnostic):
    """An argument of the wrong shape."""

    template: ClassVar[str] = "{function} takes {wanted}, not {shape}"
    function: str
    wanted: str
    shape: str


class WrongCount(Diagnostic):
    template: ClassVar[str] = "{function} takes {wanted}, not {count}"
    function: str
    wanted: str
    count: int


class RuntimeAxisLeft(Diagnostic):
    template: ClassVar[str] = "`{name}` must be subscripted over its run-time axis `{axis}`"
    name: str
    axis: str


class TooManySubscripts(Diagnostic):
    template: ClassVar[str] = "{what} has {axes}, and {count} subscripts"
    what: str
    axes: str
    count: int


class NoAxes(Diagnostic):
    template: ClassVar[str] = "{what} has no axes to subscript"
    what: str


class TwoAxes(Diagnostic):
    template: ClassVar[str] = (
        "index `{index}` runs over `{first}` since line {line}, and here it would run over `{second}`"
    )
    index: str
    first: str
    line: int
    second: str


class NoAxis(Diagnostic):
    template: ClassVar[str] = "nothing says over which axis `{index}` runs"
    index: str


class ManyAxes(Diagnostic):
    template: ClassVar[str] = "`{index}` is compared with indices of different axes: {axes}"
    index: str
    axes: str


class IndexHides(Diagnostic):
    template: ClassVar[str] = "`{index}` is already {kind}, of line {line}"
    index: str
    kind: str
    line: int


class IndexTwice(Diagnostic):
    template: ClassVar[str] = "`{index}` is bound twice"
    index: str


class NotInteger(Diagnostic):
    template: ClassVar[str] = "`{text}` is not an integer, as a subscript must be"
    text: str


class NotABinder(Diagnostic):
    template: ClassVar[str] = "{why}"
    why: str


class MisplacedBinder(Diagnostic):
    template: ClassVar[str] = "{what} may stand only in the brackets of {reducers}"
    what: str
    reducers: str = "sum, mean, logsumexp or max"


class NoBody(Diagnostic):
    template: ClassVar[str] = "`{function}[…]` reduces nothing"
    function: str


class NotANumber(Diagnostic):
    template: ClassVar[str] = "{what} is not a number here"
    what: str


class CompareNumbers(Diagnostic):
    template: ClassVar[str] = "a comparison is between numbers, and this is {shape}"
    shape: str


class NotAFunction(Diagnostic):
    template: ClassVar[str] = "`{name}` is {kind}, not a function"
    name: str
    kind: str


class NotElementwise(Diagnostic):
    template: ClassVar[str] = "{what} in the function `{name}`"
    what: str
    name: str
    suggestion: str | None = named(
        default="the body of a function is made of its arguments, numbers, header names, constants and functions",
        kw_only=True,
    )


class BadIntegrand(Diagnostic):
    template: ClassVar[str] = "`integral` takes an element-wise function of one argument, and `{name}` is {what}"
    name: str
    what: str


class ReadsOutside(Warn):
    template: ClassVar[str] = "`{text}` reads 0 outside the axis `{axis}`, and that 0 enters the {reducer}"
    text: str
    axis: str
    reducer: str


class NotFinite(Warn):
    template: ClassVar[str] = "`{function}` is not finite {place}, {consequence}"
    function: str
    place: str
    consequence: str


class IdleIndex(Warn):
    template: ClassVar[str] = "what the {reducer} runs over does not depend on `{index}`"
    index: str
    reducer: str
