"""One definition: `name[indices] = body`."""

from __future__ import annotations

from cemc.semantics.context import Context, is_poison
from cemc.semantics.dispatch import infer
from cemc.semantics.reductions import bind
from cemc.semantics.scope import settle
from cemc.semantics.typed import Definition
from cemc.syntax import tree


def define(node: tree.DefinitionStatement, context: Context) -> Definition | None:
    """The typed definition, or None where something in it is wrong."""
    before = len(context.errors)
    variables = [bind(each.name, each.axis, context) for each in node.indices]
    body = infer(node.body, context)
    if is_poison(body):
        for variable in context.scope.all.values():
            variable.silent = variable.silent or variable.axis is None
    context.errors += context.scope.settle_axes()
    if is_poison(body) or len(context.errors) > before:
        return None
    settled = context.scope.settled()
    indices = tuple(settled[variable.index.number] for variable in variables)
    return Definition(node.name.text, indices, settle(body, settled), node.span)
