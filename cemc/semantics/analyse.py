"""A file: its energies one by one, and what two of them may not share."""

from __future__ import annotations

from dataclasses import dataclass

from cemc.diagnostics import CemError, Diagnostic, in_order, line_of
from cemc.diagnostics.names import EnergyName, SameFile
from cemc.diagnostics.syntax import EmptyFile, ReservedName
from cemc.semantics.energy import analyse_energy
from cemc.semantics.names import RESERVED, why_no_energy
from cemc.semantics.typed import Energy
from cemc.source import Source, Span
from cemc.syntax import tree


@dataclass(frozen=True)
class Analysis:
    """The typed energies of a file, in its order, and the warnings."""

    energies: tuple[Energy, ...]
    warnings: tuple[Diagnostic, ...]


def analyse(file: tree.File, source: Source) -> Analysis:
    """Raises `CemError` with every independent error of the file, the syntax errors in `file` included."""
    errors: list[Diagnostic] = list(file.errors)
    warnings: list[Diagnostic] = []
    if not file.energies and not errors:
        errors.append(EmptyFile(Span(len(source.text), len(source.text))))
    _energy_names(file, source, errors)
    energies = tuple(analyse_energy(node, source, errors, warnings) for node in file.energies)
    if errors:
        raise CemError(source, [each for each in errors if each in file.errors or not _in_unreadable(each, file)])
    return Analysis(energies, tuple(in_order(warnings)))


def _in_unreadable(error: Diagnostic, file: tree.File) -> bool:
    """What is said about a statement with a syntax error may be a consequence of it."""
    return any(each.start <= error.span.start < each.end for each in file.unreadable)


def _energy_names(file: tree.File, source: Source, errors: list[Diagnostic]) -> None:
    """Names become files, and file systems may take upper and lower case for the same."""
    taken: dict[str, tree.Name] = {}
    for node in file.energies:
        name = node.name
        if name.text in RESERVED:
            errors.append(ReservedName(name.span, name.text, suggestion=f"write `{name.text}_`"))
        elif why := why_no_energy(name.text):
            errors.append(EnergyName(name.span, name.text, why, suggestion=f"write `cem_{name.text.strip('_')}`"))
        for made in (name.text, f"{name.text}_kernels"):
            other = taken.get(made.casefold())
            if other is not None and other is not name:
                line = line_of(source, other.span)
                errors.append(SameFile(name.span, name.text, f"{made}.py", other.text, line))
                break
            taken[made.casefold()] = name
