"""Programs -> the text of one Python file. The template owns the class; statements and signatures are injected."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass

from jinja2 import Environment

from cemc.emit.blocks import CUT_BLOCKS, SUMMED_BLOCKS
from cemc.emit.calls import energy_call, forward, new_cache
from cemc.emit.code import WIDTH
from cemc.emit.constructor import constructor, reset, written
from cemc.emit.context import Context
from cemc.emit.docstring import docstring, kernels_docstring, kernels_text
from cemc.emit.helpers import functions
from cemc.emit.kernels import kernels_file, kernels_of
from cemc.emit.methods import Method, energy_method, update_method
from cemc.emit.names import LIBRARIES, Names, raw_name
from cemc.emit.pointwise import pointwise_of
from cemc.operations import ELEMENTWISE
from cemc.program.graph import in_order
from cemc.program.nodes import Node, RowBlocks
from cemc.program.schedule import Schedule
from cemc.semantics import typed
from cemc.symbolic.equations import Equations
from cemc.templates import environment

_SIGIL = re.compile(r"§(\w+)")


@dataclass(frozen=True)
class Files:
    """The text of the module of an energy, and of the file of Triton kernels beside it, empty if there are none."""

    module: str
    kernels: str


def emit_files(
    energy: typed.Energy, schedule: Schedule, equations: Equations, reasons: tuple[str, ...], version: str
) -> Files:
    """The files for one energy. `reasons`: why something was not recognised."""
    kernels, pointwise = kernels_of(schedule.triton), pointwise_of(schedule.triton)
    context = Context(
        energy,
        Names(energy),
        kernels={k.pairs.number: k for k in kernels},
        pointwise={k.node.number: k for k in pointwise},
    )
    programs = [each for each in (schedule.torch, schedule.triton) if each is not None]
    blocks = [n for each in programs for n in in_order(each.step.values()) if isinstance(n, RowBlocks)]
    if any(each.cut for each in blocks):
        context.options[CUT_BLOCKS] = None
    if any(None in each.region.rows for each in blocks):
        context.options[SUMMED_BLOCKS] = None
    templates = environment()
    text = _named(_class(context, templates, schedule), context)
    text += _named(functions(context, templates), context)
    recognised = schedule.torch.recognised if schedule.torch is not None else ()
    head = docstring(energy, equations, recognised, reasons, version, kernels_text(energy, schedule))
    module = f"{head}\n\nfrom __future__ import annotations\n\n{context.names.imports()}\n\n\n{text.strip()}\n"
    if schedule.triton is None:
        return Files(module, "")
    return Files(module, kernels_file(kernels, pointwise, templates, kernels_docstring(energy, version)))


def _class(context: Context, templates: Environment, schedule: Schedule) -> str:
    energy, names = context.energy, context.names
    generic, fused, decodes = schedule.generic, schedule.torch, schedule.decodes
    plain = update_method(
        context,
        generic.step,
        names.method("_update" if fused is None and schedule.triton is None else "_update_generic"),
        decodes=decodes,
    )
    fast = None
    if fused is not None:
        fast = update_method(context, fused.step, names.method("_update_torch"), fused=True, decodes=decodes)
    kernels = None
    if schedule.triton is not None:
        called = names.method("_update_triton")
        kernels = update_method(context, schedule.triton.step, called, fused=True, decodes=decodes)
    energies = _energies(context, generic.energies)
    methods = [*(method for method in (kernels, fast) if method is not None), plain, *energies.values()]
    return templates.get_template("class.py.jinja").render(
        class_name=names.class_name,
        summary=f"The energy `{energy.name}`: its update as a layer, and its value.",
        about=_about(context),
        causal=generic.causal,
        constructor=constructor(context, generic),
        reset=reset(context),
        forward=forward(context, plain, fast, kernels, schedule),
        new_cache=new_cache(context, schedule),
        energy=energy_call(context, energies),
        representation=_representation(energy),
        positives=_positives(context),
        methods=[*(method.text for method in methods), *context.methods],
    )


def _energies(context: Context, energies: Mapping[str, Node]) -> dict[str, Method]:
    several = len(energies) > 1
    return {
        n: energy_method(context, root, context.names.method(f"_energy_{n}" if several else "_energy"), n)
        for n, root in energies.items()
    }


def _about(context: Context) -> list[str]:
    """What the constructor takes and which parameters there are."""
    energy = context.energy
    lines: list[str] = []
    sizes = [n if h.default is None else f"{n} = {written(context, h.default)}" for n, h in energy.header.items()]
    constants = [f"{n} = {written(context, c.value)}" for n, c in energy.constants.items()]
    parameters = [f"{n} [{', '.join(a.name for a in p.axes)}]" for n, p in energy.parameters.items()]
    for title, items in (("Sizes", sizes), ("Constants", constants), ("Parameters", parameters)):
        if items:
            lines += textwrap.wrap(
                f"{title}: {', '.join(items)}.", WIDTH - 4, break_long_words=False, break_on_hyphens=False
            )
    return lines


def _positives(context: Context) -> list[dict[str, str]]:
    """Positive parameters as properties; one called `property` comes last, after the others have used the decorator."""
    softplus = ELEMENTWISE["softplus"].torch
    return [
        {
            "name": n,
            "summary": f"[{', '.join(axis.name for axis in p.axes)}], positive.",
            "value": context.spelled(softplus).replace("{0}", f"self.{raw_name(n)}"),
        }
        for n, p in context.energy.parameters.items()
        if p.positive
    ]


def _representation(energy: typed.Energy) -> list[str]:
    """The return statement of `extra_repr`."""
    shown = [f"{n}={{self.{n}}}" for n in (*energy.header, *energy.constants)] + ["backend={self.backend!r}"]
    text = ", ".join(shown)
    if len(f'        return f"{text}"') <= WIDTH:
        return [f'return f"{text}"']
    # In parentheses there is room for three characters more; ruff joins what fits on one line.
    lines = textwrap.wrap(text, WIDTH - 15, break_long_words=False, break_on_hyphens=False)
    if len(lines) > 1:
        lines = textwrap.wrap(text, WIDTH - 16, break_long_words=False, break_on_hyphens=False)
    return ["return (", *(f'    f"{line} "' for line in lines[:-1]), f'    f"{lines[-1]}"', ")"]


def _named(text: str, context: Context) -> str:
    """Replaces each §name by what it is called in this file."""

    def called(match: re.Match[str]) -> str:
        name = match.group(1)
        if name in LIBRARIES:
            return context.library(name)
        return context.helper(name) if name.startswith("_") else context.names.builtin(name)

    return _SIGIL.sub(called, text)
