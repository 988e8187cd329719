"""The opening of a generated file: where it comes from, the equations, and what was recognised."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from cemc.emit.code import WIDTH
from cemc.files import GENERATED_MARK
from cemc.program.graph import in_order
from cemc.program.kernel_nodes import Pairs, Pointwise
from cemc.program.nodes import Recognition
from cemc.program.schedule import Schedule
from cemc.semantics import typed
from cemc.symbolic.equations import Equations


def docstring(
    energy: typed.Energy, equations: Equations, recognised: Sequence[Recognition], reasons: Sequence[str], version: str,
    kernels: Sequence[str] = (),
) -> str:  # fmt: skip
    """A module docstring, safe whatever the source has in its comments. `kernels`: what to say of Triton kernels."""
    lines = [
        f"{GENERATED_MARK.removeprefix(chr(34) * 3)}{version}, do not edit: change the energy and compile it again."
    ]
    lines += ["", *(f"    {line}".rstrip() for line in energy.text.expandtabs(4).splitlines())]
    lines += ["", "The energy:", "", *_wrapped(equations.energy)]
    lines += ["", "Derived from it:", "", *_wrapped(equations.update)]
    if recognised:
        lines += ["", "Recognised:", "", *_wrapped([f"{line.structure}: {line.sentence}" for line in recognised])]
        lines += [
            "",
            'Backend "torch" runs it so; "generic" is plain operations, differentiable any number of times.',
        ]
        if reasons:
            lines += ["", "Not one fused operation:", "", *_wrapped(reasons)]
    else:
        lines += ["", "Nothing was recognised, so all backends run the same plain operations of torch:", ""]
        lines += _wrapped(reasons)
    if kernels:
        lines += ["", *kernels]
    return _quoted(lines)


def kernels_text(energy: typed.Energy, schedule: Schedule) -> list[str]:
    """What the docstring says of Triton kernels."""
    if schedule.triton is not None:
        order = in_order(schedule.triton.step.values())
        what = ["the sums over pairs"] if any(isinstance(node, Pairs) for node in order) else []
        what += ["what is element-wise between projections"] if any(isinstance(n, Pointwise) for n in order) else []
        if schedule.no_kernels:
            what[0] = "some of the sums over pairs"
        text = f"Triton kernels, in {kernels_name(energy)}.py: {', and '.join(what)}. The rest is torch"
        text += ", because:" if schedule.no_kernels else "."
        lines = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
        return [*lines, *(["", *_wrapped(schedule.no_kernels)] if schedule.no_kernels else [])]
    if schedule.no_kernels:
        return ["There are no Triton kernels:", "", *_wrapped(schedule.no_kernels)]
    return []


def kernels_name(energy: typed.Energy) -> str:
    """The name of the file of kernels, without its ending."""
    return f"{energy.name}_kernels"


def kernels_docstring(energy: typed.Energy, version: str) -> str:
    """The docstring of the file of kernels."""
    first = f"{GENERATED_MARK.removeprefix(chr(34) * 3)}{version}, do not edit: change the energy and compile it again."
    about = (
        f"Triton kernels of {energy.name}.py. Sums over pairs of a row and a column go a tile of pairs at a time; what "
        "is computed for a pair, or for an entry, is derived from the energy, and so are its derivatives. Backward "
        "computes it again instead of reading it."
    )
    return _quoted([first, "", *textwrap.wrap(about, WIDTH)])


def _quoted(lines: Sequence[str]) -> str:
    lines = [_safe(line) for line in lines]
    # The energy is quoted as it was written; a line of it that is too long is no fault of the file.
    long = any(len(line) > WIDTH for line in lines)
    text = "\n".join(lines)
    return f'"""{text}\n"""' + ("  # noqa: E501" if long else "")


def _wrapped(lines: Sequence[str]) -> list[str]:
    """Lines of text indented, long ones broken at blanks."""
    result: list[str] = []
    for line in lines:
        result += textwrap.wrap(
            line,
            WIDTH,
            initial_indent="    ",
            subsequent_indent="        ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return result


def _safe(line: str) -> str:
    """Text that can stand between triple quotes: nothing ends the string, and nothing invisible is left."""
    line = line.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
