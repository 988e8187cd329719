"""Generated modules for the tests of the emit stage: from programs built by hand, and through the whole compiler."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import tempfile
from pathlib import Path
from typing import Any

from cemc.compiler import Trace, compile_source
from cemc.emit import class_name, emit_files
from cemc.program.graph import Graph
from cemc.program.nodes import Node, Operand, Program, Tensor
from cemc.program.schedule import Schedule
from cemc.semantics import analyse
from cemc.semantics.typed import Energy
from cemc.source import Source
from cemc.symbolic.equations import Equations
from cemc.syntax import parse

_FOLDER = Path(tempfile.mkdtemp(prefix="cemc-test-emit-"))


def declared(text: str) -> Energy:
    """The typed energy of a text: where a program is built by hand, only its declarations count."""
    source = Source("test.cem", text)
    (energy,) = analyse(parse(source), source).energies
    return energy


def imported(code: str) -> Any:
    """The module of a generated file, imported from a file."""
    name = f"cemc_test_{hashlib.sha256(code.encode()).hexdigest()[:16]}"
    if name not in sys.modules:
        path = _FOLDER / f"{name}.py"
        path.write_text(code, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def generated(text: str) -> str:
    """The file that the compiler makes of the only energy of `text`."""
    (result,) = compile_source(Source("test.cem", text), Trace())
    return result.code


def layer_class(text: str) -> Any:
    """The class that the compiler makes of the only energy of `text`."""
    (result,) = compile_source(Source("test.cem", text), Trace())
    return getattr(imported(result.code), result.class_name)


def emitted(energy: Energy, generic: Program, fused: Program | None = None) -> str:
    """The file for programs built by hand."""
    schedule = Schedule(generic, fused, decodes=False, refusal="it was built by hand")
    equations = Equations(("E = ...",), ("x ← ...",))
    return emit_files(energy, schedule, equations, ("it was built by hand",), "0.0").module


class Build:
    """Builds programs for an energy that has one state, and layers from them."""

    def __init__(self, text: str) -> None:
        self.energy, self.graph = declared(text), Graph()

    def leaf(self, name: str, role: str | None = None) -> Node:
        """A declared tensor."""
        energy = self.energy
        parameter = name in energy.parameters
        integer = name in energy.givens and energy.givens[name].integer
        if role is None:
            role = "parameter" if parameter else "state" if name in energy.states else "given"
        return self.graph.make(
            Tensor,
            dims=tuple(axis.name for axis in energy.axes_of(name)),
            batched=not parameter,
            kind="integer" if integer else "real",
            role=role,
            name=name,
        )

    def make(self, cls: type[Node], *, dims: tuple[str, ...] = (), batched: bool = False, **contents: Any) -> Node:
        """A node, real unless `kind` says otherwise."""
        contents.setdefault("kind", "real")
        return self.graph.make(cls, dims=dims, batched=batched, **contents)

    def code(self, value: Node, *, fused: Node | None = None) -> str:
        """A file whose update sets the only state to `value`, and whose energy is the state's own first energy."""
        (state,) = self.energy.states
        name = next(iter(self.energy.definitions))
        generic = Program({state: value}, {name: value}, False, ())
        quick = None if fused is None else Program({state: fused}, {name: value}, False, ())
        return emitted(self.energy, generic, quick)

    def layer(self, value: Node, *, fused: Node | None = None, **arguments: Any) -> Any:
        """The layer of that file."""
        cls = getattr(imported(self.code(value, fused=fused)), class_name(self.energy.name))
        return cls(**arguments)


def at(node: Node, *places: int) -> Operand:
    """A node placed in a frame; without places, in the order of its own dimensions."""
    return Operand(node, places or tuple(range(len(node.dims))))


def function(arguments: str, *expressions: str) -> Any:
    """A function of Python that returns the values of expressions, as a generated file could have it."""
    lines = ["import torch", "from torch.nn import functional as F", "", f"def result({arguments}):", "    return ["]
    return imported("\n".join([*lines, *(f"        {each}," for each in expressions), "    ]", ""])).result
