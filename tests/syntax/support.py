"""Short ways to a tree."""

from __future__ import annotations

from cemc.source import Source
from cemc.syntax import parse, tree


def file(text: str) -> tree.File:
    parsed = parse(Source("test.cem", text))
    assert parsed.errors == ()
    return parsed


def expression(text: str) -> tree.Node:
    statement = file(f"energy test(d) {{ E = {text} }}").energies[0].items[0]
    assert isinstance(statement, tree.DefinitionStatement)
    return statement.body


def shape(node: tree.Node) -> object:
    """A tree without its spans, in the form of nested tuples."""
    match node:
        case tree.Name():
            return node.text
        case tree.Number():
            return int(node.value) if node.value.denominator == 1 else float(node.value)
        case tree.Sum():
            return ("sum", shape(node.first), *((sign, shape(term)) for sign, term in node.rest))
        case tree.Binary():
            return (node.operator, shape(node.left), shape(node.right))
        case tree.Negative():
            return ("neg", shape(node.operand))
        case tree.Transpose():
            return ("T", shape(node.operand))
        case tree.Subscript():
            return ("[]", shape(node.base), *map(shape, node.bracket.entries))
        case tree.Call():
            return ("()", shape(node.function), *map(shape, node.arguments))
        case tree.Comparison():
            return ("cmp", *map(shape, node.operands), *node.operators)
        case tree.Not():
            return ("not", shape(node.operand))
        case tree.And():
            return ("and", *map(shape, node.operands))
        case tree.Or():
            return ("or", *map(shape, node.operands))
    raise AssertionError(type(node))
