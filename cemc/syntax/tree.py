"""The tree of a `.cem` file as written: what the parser makes, and what semantics reads.

Nothing is resolved here: a `Name` may be anything, and what stands in brackets may be subscripts or binders. Every node
carries the span it was read from.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from cemc.diagnostics import Diagnostic
from cemc.record import Record
from cemc.source import Span


class Node(Record):
    """Base of all nodes."""

    span: Span


# ------------------------------------------------------------------------------------------------ expressions


class Name(Node):
    """A name, NFKC-normalised; the span shows how it was spelt."""

    text: str


class Number(Node):
    value: Fraction


class Negative(Node):
    operand: Node


class Sum(Node):
    """`first ± term ± …`: a chain is one node, so that a long sum is not a deep tree."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


class Binary(Node):
    """`* / @ ^`."""

    operator: str
    left: Node
    right: Node


class Transpose(Node):
    operand: Node


class Bracket(Node):
    """`[entry, … if condition]`: subscripts, or binders when a call follows."""

    entries: tuple[Node, ...]
    condition: Node | None


class Membership(Node):
    """`k in heads`."""

    name: Name
    axis: Name


class Subscript(Node):
    base: Node
    bracket: Bracket


class Call(Node):
    """`function(arguments)`; `function` is a `Name`, or a `Subscript` for reductions, or something that cannot be
    called."""

    function: Node
    arguments: tuple[Node, ...]


class Held(Node):
    """`given(operand)`, `input(operand)`."""

    kind: str
    operand: Node


class Integral(Node):
    function: Name
    operand: Node


class Gradient(Node):
    wrt: Name
    energy: Node


class Where(Node):
    condition: Node
    then: Node
    otherwise: Node


# ------------------------------------------------------------------------------------------------- conditions


class Comparison(Node):
    """`a < b <= c`: one more operand than operators."""

    operands: tuple[Node, ...]
    operators: tuple[str, ...]


class Not(Node):
    operand: Node


class And(Node):
    operands: tuple[Node, ...]


class Or(Node):
    operands: tuple[Node, ...]


# ----------------------------------------------------------------------------------------------- declarations


class HeaderName(Node):
    name: Name
    default: Node | None


class AxisDeclaration(Node):
    name: Name


class StateDeclaration(Node):
    name: Name
    axes: tuple[Name, ...]
    start: Node | None


class GivenDeclaration(Node):
    name: Name
    axes: tuple[Name, ...]
    integer: bool


class RandomStart(Node):
    """`~ normal(mean, std)` and the like."""

    distribution: Name
    arguments: tuple[Node, ...]


class ParameterDeclaration(Node):
    name: Name
    axes: tuple[Name, ...]
    positive: bool
    start: Node | None


class ConstantDeclaration(Node):
    name: Name
    value: Node


class FunctionDeclaration(Node):
    name: Name
    arguments: tuple[Name, ...]
    body: Node


class LeftIndex(Node):
    """An index variable left of `=`; `axis` where the file says `k in heads`."""

    name: Name
    axis: Name | None


class DefinitionStatement(Node):
    """`name[indices] = body`: a definition, or in an update block an assignment or a local definition. `left` is the
    part before `=`."""

    name: Name
    indices: tuple[LeftIndex, ...]
    body: Node
    left: Span


class UpdateBlock(Node):
    """`keyword` is the span of the word `update`, which is where errors about the whole block point."""

    repeat: Number | Name | None
    statements: tuple[DefinitionStatement | Unreadable, ...]
    keyword: Span


class Unreadable(Node):
    """A statement with a syntax error. The names in it are taken to be declared and used, so that one error stays
    one."""

    names: tuple[str, ...]


Item = (
    AxisDeclaration
    | StateDeclaration
    | GivenDeclaration
    | ParameterDeclaration
    | ConstantDeclaration
    | FunctionDeclaration
    | DefinitionStatement
    | UpdateBlock
    | Unreadable
)


class EnergyDeclaration(Node):
    name: Name
    header: tuple[HeaderName, ...]
    items: tuple[Item, ...]


class File(Node):
    """`errors` are the syntax errors of unreadable statements; semantics reports them together with its own."""

    energies: tuple[EnergyDeclaration, ...]
    errors: tuple[Diagnostic, ...]
    unreadable: tuple[Span, ...] = ()


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below a node, in the order of its fields."""
    for value in node.__dict__.values():
        yield from _nodes_in(value)


def _nodes_in(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _nodes_in(part)
