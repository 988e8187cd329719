"""Builds tensor-program nodes so that equal nodes are identical, and walks them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import fields
from typing import Any, TypeVar, cast

from cemc.program.nodes import Branch, Integrand, Node, Operand

N = TypeVar("N", bound=Node)

_IDENTITY_FREE = ("number", "hint")


class Graph:
    """A factory of nodes. Two calls of `make` with equal contents return one node, whatever their hints."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[Any, ...], Node] = {}

    def make(self, cls: type[N], *, hint: str | None = None, **contents: Any) -> N:
        """The node of class `cls` with these contents, made if there is none yet."""
        key = (cls, tuple((name, _key(contents[name])) for name in sorted(contents)))
        node = self._nodes.get(key)
        if node is None:
            node = cls(number=len(self._nodes), hint=hint, **contents)
            self._nodes[key] = node
        elif hint is not None and node.hint is None:
            # The first name the source gives a value is the one its variable gets.
            object.__setattr__(node, "hint", hint)
        return cast(N, node)


def _key(value: Any) -> Any:
    if isinstance(value, Node):
        return value.number
    if isinstance(value, Operand):
        return ("operand", value.node.number, value.at)
    if isinstance(value, Branch):
        return ("branch", _key(value.scores), _key(value.mask), value.reduced)
    if isinstance(value, Integrand):
        return ("integrand", value.argument.number, value.result.number, value.kinks)
    if isinstance(value, tuple):
        return tuple(_key(item) for item in value)
    return value


def operands(node: Node) -> tuple[Node, ...]:
    """The nodes that `node` reads, in order, repeats included."""
    known: tuple[Node, ...] | None = node.__dict__.get("_operands")
    if known is None:
        named = (getattr(node, field.name) for field in fields(node) if field.name not in _IDENTITY_FREE)
        known = tuple(child for value in named for child in _nodes_in(value))
        # Every pass asks again; a node never changes, but for its hint.
        node.__dict__["_operands"] = known
    return known


def _nodes_in(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, Operand):
        yield value.node
    elif isinstance(value, Branch):
        yield value.scores.node
        if value.mask is not None:
            yield value.mask.node
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes_in(item)


def in_order(outputs: Iterable[Node], known: Container[int] = ()) -> list[Node]:
    """Every node that `outputs` need, operands before users; nodes whose number is `known` need none. Iterative, so
    depth is no limit."""
    seen: set[int] = set()
    order: list[Node] = []
    stack = [(node, False) for node in reversed(list(outputs))]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node.number not in seen:
            seen.add(node.number)
            stack.append((node, True))
            if node.number not in known:
                stack.extend((child, False) for child in reversed(operands(node)) if child.number not in seen)
    return order
