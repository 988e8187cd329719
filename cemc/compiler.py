"""The compiler: text of a `.cem` file -> one Python module for each energy in it. Read this first.

    syntax      text                -> tree, a span on every node
    semantics   tree                -> typed energies: names, axes, shapes, binders
    symbolic    typed energy        -> index notation in SymPy; differentiated, normalised
    program     symbolic energy     -> tensor program: contractions, element-wise maps, reductions
    recognise   tensor program      -> the same with structured nodes (pairwise, feature)
    program     both of these       -> what each backend runs: tokens split for decoding, rows by blocks (`schedule`)
    emit        schedule            -> text of a Python file

Each stage is a function from one data structure to the next and imports no later stage. `cemc.oracle` checks the result
against autograd and shares no code with anything after semantics.
"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cemc import cache
from cemc.depth import deeply
from cemc.files import write_generated
from cemc.source import Source
from cemc.syntax.read import read_source
from cemc.version import __version__

if TYPE_CHECKING:
    from torch import nn

    from cemc.semantics import typed


@dataclass(frozen=True)
class Result:
    """What came of one energy. `recognised`: a sentence for each structure found; `reasons`: why others were not.
    `causal`: what the class says of itself; `later`: if it is not, where the energy reads later tokens, rendered.

    `code` is the text of the module, `kernels` that of the file of Triton kernels beside it, empty if there are none.
    `no_kernels`: why something has none.
    `path` is the module written, None if none was asked for. `warnings` are rendered diagnostics.
    """

    name: str
    class_name: str
    source: str
    code: str
    kernels: str
    recognised: tuple[str, ...]
    reasons: tuple[str, ...]
    causal: bool
    warnings: tuple[str, ...]
    later: tuple[str, ...] = ()
    no_kernels: tuple[str, ...] = ()
    path: str | None = None


@dataclass
class Trace:
    """Watches a compilation: seconds per stage, and, if `dump` is set, what each stage hands to the next."""

    dump: Callable[[str, Any], None] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[Any], Any]]:
        """Times a stage; the function it yields passes the stage's result through."""
        start = time.perf_counter()

        def passed(result: Any) -> Any:
            if self.dump is not None:
                self.dump(name, result)
            return result

        yield passed
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def compile_file(path: str | Path, out: str | Path | None = None, trace: Trace | None = None) -> list[Result]:
    """Compiles every energy of the file at `path`; writes `out`/NAME.py for each if `out` is given.

    Raises CemError with all diagnostics if the file is wrong, OSError if it cannot be read or a result not written.
    """
    source = read_source(path)
    results = cache.lookup(source) if trace is None else None
    if results is None:
        results = compile_source(source, trace or Trace())
        cache.store(source, results)
    return results if out is None else [_written(result, Path(out)) for result in results]


def compile_source(source: Source, trace: Trace) -> list[Result]:
    """Compiles every energy of a source: the whole pipeline, without files and cache."""
    with _collector_off():
        return deeply(lambda: _compile(source, trace))


@contextmanager
def _collector_off() -> Iterator[None]:
    """Importing SymPy and building expressions makes many objects that stay: looking through them again and again for
    garbage would take a third of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _compile(source: Source, trace: Trace) -> list[Result]:
    from cemc.diagnostics import CemError, render
    from cemc.diagnostics.energies import BuiltTooDeep
    from cemc.semantics import analyse
    from cemc.syntax import parse

    with trace.stage("syntax") as passed:
        tree = passed(parse(source))
    with trace.stage("semantics") as passed:
        analysis = passed(analyse(tree, source))
    results = []
    for energy in analysis.energies:
        warnings = tuple(
            render(warning, source)
            for warning in analysis.warnings
            if energy.span.start <= warning.span.start < energy.span.end
        )
        try:
            results.append(_compile_energy(energy, warnings, trace))
        except RecursionError:
            raise CemError(source, [BuiltTooDeep(energy.span, energy.name)]) from None
    return results


def _compile_energy(energy: typed.Energy, warnings: tuple[str, ...], trace: Trace) -> Result:
    with trace.stage("import sympy"):
        importlib.import_module("sympy")  # By itself: it is most of a cold compilation.
    from cemc import emit, program, recognise, symbolic
    from cemc.diagnostics import render
    from cemc.semantics.future import later_reads

    with trace.stage("symbolic") as passed:
        derived = passed(symbolic.build(energy))
    with trace.stage("program") as passed:
        graph = program.Graph()
        generic = passed(program.assemble(derived, graph))
    with trace.stage("recognise") as passed:
        found = passed(recognise.recognise(generic, graph))
    with trace.stage("schedule") as passed:
        runtime = frozenset(axis.name for axis in energy.runtime_axes)
        plan = program.schedule(generic, found.program, runtime, graph)
        plan = passed(recognise.with_kernels(plan, runtime, graph))
    with trace.stage("emit") as passed:
        equations = symbolic.equations(derived)
        reasons = (*found.reasons, *plan.notes)
        files = passed(emit.emit_files(energy, plan, equations, reasons, __version__))
        for text in (files.module, files.kernels):
            # What Python cannot read is a fault of ours, to be met here and not where the file is imported.
            compile(text, f"{energy.name}.py", "exec")
    recognised = () if plan.torch is None else tuple(line.sentence for line in plan.torch.recognised)
    return Result(
        name=energy.name,
        class_name=emit.class_name(energy.name),
        source=energy.text,
        code=files.module,
        kernels=files.kernels,
        recognised=recognised,
        reasons=reasons,
        causal=generic.causal,
        warnings=warnings,
        later=() if generic.causal else tuple(render(note, energy.source) for note in later_reads(energy)),
        no_kernels=plan.no_kernels,
    )


def _written(result: Result, out: Path) -> Result:
    path = out / f"{result.name}.py"
    if result.kernels:
        write_generated(out / f"{result.name}_kernels.py", result.kernels)
    write_generated(path, result.code)
    return Result(**{**result.__dict__, "path": str(path)})


def load(path: str | Path, name: str | None = None) -> type[nn.Module]:
    """The module class of the energy in the file at `path`; `name` says which where there are several.

    Raises CemError if the file is wrong, ValueError if `name` is needed or unknown.
    """
    results = compile_file(path)
    names = [result.name for result in results]
    if name is None and len(results) > 1:
        raise ValueError(f"{path} has several energies: say which with name=, one of {', '.join(names)}")
    if name is not None and name not in names:
        raise ValueError(f"{path} has no energy {name!r}; it has {', '.join(names)}")
    return cache.imported(results[0 if name is None else names.index(name)])
