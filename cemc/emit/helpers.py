"""The private functions of a generated file, each written only where something calls it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cemc.emit.context import Context

if TYPE_CHECKING:
    from jinja2 import Environment

_REFERENCE = re.compile(r"§(_\w+)")


def functions(context: Context, templates: Environment) -> str:
    """The functions that the text so far calls, and those that they call."""
    template = templates.get_template("functions.py.jinja")
    integers = any(given.integer for given in context.energy.givens.values())
    while True:
        before = len(context.helpers)
        integrands = ["\n".join(text.lines) for text in context.integrands.values()]
        text = template.render(
            wanted=context.helpers,
            integers=integers,
            integrands=integrands,
            tensor_base=context.tensor_base,
            options=context.options,
            kernels=f"{context.energy.name}_kernels" if context.kernels or context.pointwise else "",
        )
        for name in _REFERENCE.findall(text):
            context.helper(name)
        if len(context.helpers) == before:
            return text
