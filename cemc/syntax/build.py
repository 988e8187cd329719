"""Tree nodes out of grammar rules: one method for each rule of `grammars/cem.lark`, called while parsing.

Every method gets all children of its rule, punctuation included, so a node's span runs from its first child to its
last.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any
from unicodedata import normalize

from lark import Token, Transformer

from cemc.record import changed
from cemc.source import Span
from cemc.syntax import tree


def span_of(child: Any) -> Span:
    if isinstance(child, Token):
        assert child.start_pos is not None and child.end_pos is not None
        return Span(child.start_pos, child.end_pos)
    span: Span = child.span
    return span


def name_of(token: Token) -> tree.Name:
    text = str(token)
    return tree.Name(span_of(token), text if text.isascii() else normalize("NFKC", text))


def _all(children: list[Any]) -> Span:
    return span_of(children[0]).to(span_of(children[-1]))


def _nodes(children: list[Any]) -> list[Any]:
    return [child for child in children if not isinstance(child, Token)]


def _names(children: list[Any]) -> list[tree.Name]:
    return [name_of(child) for child in children if isinstance(child, Token) and child.type == "NAME"]


def _has(children: list[Any], kind: str) -> bool:
    return any(isinstance(child, Token) and child.type == kind for child in children)


class Build(Transformer[Token, tree.File]):
    # -- declarations

    def file(self, children: list[Any]) -> tree.File:
        return tree.File(_all(children) if children else Span(0, 0), tuple(children), ())

    def energy(self, children: list[Any]) -> tree.EnergyDeclaration:
        nodes = _nodes(children)
        header = tuple(node for node in nodes if isinstance(node, tree.HeaderName))
        return tree.EnergyDeclaration(_all(children), name_of(children[1]), header, tuple(nodes[len(header) :]))

    def header_name(self, children: list[Any]) -> tree.HeaderName:
        return tree.HeaderName(_all(children), name_of(children[0]), children[2] if len(children) > 1 else None)

    def axes(self, children: list[Any]) -> _Axes:
        return _Axes(_all(children), tuple(_names(children)))

    def axis(self, children: list[Any]) -> tree.AxisDeclaration:
        return tree.AxisDeclaration(_all(children), name_of(children[1]))

    def state(self, children: list[Any]) -> tree.StateDeclaration:
        start = children[-1] if _has(children, "EQUAL") else None
        return tree.StateDeclaration(_all(children), name_of(children[1]), _axes(children), start)

    def given(self, children: list[Any]) -> tree.GivenDeclaration:
        span = _all(children)
        return tree.GivenDeclaration(span, name_of(children[1]), _axes(children), _has(children, "INT"))

    def parameter(self, children: list[Any]) -> tree.ParameterDeclaration:
        positive = children[0].type == "POSITIVE"
        start = None if isinstance(children[-1], (Token, _Axes)) else children[-1]
        span = _all(children)
        return tree.ParameterDeclaration(span, name_of(children[1 + positive]), _axes(children), positive, start)

    def start(self, children: list[Any]) -> tree.Node:
        if children[0].type == "EQUAL":
            node: tree.Node = children[1]
            return node
        return tree.RandomStart(_all(children[1:]), name_of(children[1]), tuple(_nodes(children)))

    def constant(self, children: list[Any]) -> tree.ConstantDeclaration:
        return tree.ConstantDeclaration(_all(children), name_of(children[1]), children[3])

    def function(self, children: list[Any]) -> tree.FunctionDeclaration:
        name, *arguments = _names(children)
        return tree.FunctionDeclaration(_all(children), name, tuple(arguments), children[-1])

    def definition(self, children: list[Any]) -> tree.DefinitionStatement:
        equal = next(place for place, child in enumerate(children) if isinstance(child, Token) and child == "=")
        indices = tuple(child for child in children[:equal] if isinstance(child, tree.LeftIndex))
        left = _all(children[:equal])
        return tree.DefinitionStatement(_all(children), name_of(children[0]), indices, children[-1], left)

    def index(self, children: list[Any]) -> tree.LeftIndex:
        names = _names(children)
        return tree.LeftIndex(_all(children), names[0], names[1] if len(names) > 1 else None)

    def update(self, children: list[Any]) -> tree.UpdateBlock:
        repeat: tree.Number | tree.Name | None = None
        if _has(children, "REPEAT"):
            repeat = self.number([children[2]]) if children[2].type == "NUMBER" else name_of(children[2])
        statements = tuple(child for child in children if isinstance(child, tree.DefinitionStatement))
        return tree.UpdateBlock(_all(children), repeat, statements, span_of(children[0]))

    # -- expressions

    def number(self, children: list[Any]) -> tree.Number:
        return tree.Number(span_of(children[0]), Fraction(str(children[0])))

    def name(self, children: list[Any]) -> tree.Name:
        return name_of(children[0])

    def sum(self, children: list[Any]) -> tree.Sum:
        rest = tuple((str(operator), term) for operator, term in zip(children[1::2], children[2::2], strict=True))
        return tree.Sum(_all(children), children[0], rest)

    def product(self, children: list[Any]) -> tree.Node:
        left: tree.Node = children[0]
        for operator, right in zip(children[1::2], children[2::2], strict=True):
            left = tree.Binary(left.span.to(right.span), str(operator), left, right)
        return left

    def power(self, children: list[Any]) -> tree.Binary:
        return tree.Binary(_all(children), "^", children[0], children[2])

    def negative(self, children: list[Any]) -> tree.Negative:
        return tree.Negative(_all(children), children[1])

    def transpose(self, children: list[Any]) -> tree.Transpose:
        return tree.Transpose(_all(children), children[0])

    def parenthesis(self, children: list[Any]) -> tree.Node:
        node: tree.Node = changed(children[1], span=_all(children))
        return node

    def bracket(self, children: list[Any]) -> tree.Bracket:
        nodes = _nodes(children)
        condition = nodes.pop() if _has(children, "IF") else None
        return tree.Bracket(_all(children), tuple(nodes), condition)

    def membership(self, children: list[Any]) -> tree.Membership:
        return tree.Membership(_all(children), name_of(children[0]), name_of(children[2]))

    def subscript(self, children: list[Any]) -> tree.Subscript:
        return tree.Subscript(_all(children), children[0], children[1])

    def call(self, children: list[Any]) -> tree.Call:
        function, *arguments = _nodes(children)
        return tree.Call(_all(children), function, tuple(arguments))

    def held(self, children: list[Any]) -> tree.Held:
        return tree.Held(_all(children), str(children[0]), children[2])

    def integral(self, children: list[Any]) -> tree.Integral:
        return tree.Integral(_all(children), name_of(children[2]), children[5])

    def gradient(self, children: list[Any]) -> tree.Gradient:
        return tree.Gradient(_all(children), name_of(children[2]), children[5])

    def where(self, children: list[Any]) -> tree.Where:
        return tree.Where(_all(children), children[2], children[4], children[6])

    # -- conditions

    def comparison(self, children: list[Any]) -> tree.Comparison:
        return tree.Comparison(_all(children), tuple(children[::2]), tuple(map(str, children[1::2])))

    def negation(self, children: list[Any]) -> tree.Not:
        return tree.Not(_all(children), children[1])

    def conjunction(self, children: list[Any]) -> tree.And:
        return tree.And(_all(children), tuple(children[::2]))

    def disjunction(self, children: list[Any]) -> tree.Or:
        return tree.Or(_all(children), tuple(children[::2]))


class _Axes(tree.Node):
    """The bracket of a declaration, on its way into the node of the declaration."""

    names: tuple[tree.Name, ...]


def _axes(children: list[Any]) -> tuple[tree.Name, ...]:
    return next((child.names for child in children if isinstance(child, _Axes)), ())
