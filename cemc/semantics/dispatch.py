"""`infer`: from a syntax node to a typed expression, by one rule per kind of node.

Inference never stops: an error is reported once, its expression becomes `Poison`, and what contains it says nothing
more. The rules live in modules by subject and register here, so that each can call `infer` on the parts of its node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from cemc.semantics.context import Context
from cemc.semantics.typed import Expr
from cemc.syntax import tree

Rule = Callable[[Any, Context], Expr]
AnyRule = TypeVar("AnyRule", bound=Rule)

_RULES: dict[type[tree.Node], Rule] = {}


def rule(kind: type[tree.Node]) -> Callable[[AnyRule], AnyRule]:
    def register(function: AnyRule) -> AnyRule:
        _RULES[kind] = function
        return function

    return register


def infer(node: tree.Node, context: Context) -> Expr:
    """The typed expression of a node; `Poison` where something in it is wrong."""
    return _RULES[type(node)](node, context)
