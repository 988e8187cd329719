"""Rebuilds a program with some of its nodes replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from cemc.program.graph import Graph, in_order
from cemc.program.nodes import Branch, Node, Operand

_FIXED = ("number", "hint")


def rewrite(
    outputs: dict[str, Node],
    replace: Callable[[Node], Node | None],
    graph: Graph,
    done: dict[int, Node] | None = None,
) -> dict[str, Node]:
    """`outputs` with every node n for which `replace(n)` is a node replaced by it, users rebuilt. `replace` sees
    original nodes, and may return a node that reads originals: those are rebuilt in turn. `done` is told what became of
    each node, by its number."""
    done = {} if done is None else done

    def rebuilt(node: Node) -> Node:
        for current in in_order([node]):
            if current.number not in done:
                new = replace(current)
                if new is not None and new is not current:
                    done[current.number] = current  # A replacement that reads the original itself reads it as it is.
                    done[current.number] = rebuilt(new)
                else:
                    done[current.number] = _with_operands(current, done, graph)
        return done[node.number]

    return {name: rebuilt(node) for name, node in outputs.items()}


def _with_operands(node: Node, done: dict[int, Node], graph: Graph) -> Node:
    contents = {f.name: getattr(node, f.name) for f in fields(node) if f.name not in _FIXED}
    changed = {name: _mapped(value, done) for name, value in contents.items()}
    if all(changed[name] is contents[name] for name in contents):
        return node
    return graph.make(type(node), hint=node.hint, **changed)


def _mapped(value: Any, done: dict[int, Node]) -> Any:
    if isinstance(value, Node):
        return done.get(value.number, value)
    if isinstance(value, Operand):
        node = done.get(value.node.number, value.node)
        return value if node is value.node else Operand(node, value.at)
    if isinstance(value, Branch):
        scores, mask = _mapped(value.scores, done), _mapped(value.mask, done)
        return value if scores is value.scores and mask is value.mask else Branch(scores, mask, value.reduced)
    if isinstance(value, tuple):
        new = tuple(_mapped(item, done) for item in value)
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return value
