"""From the layers a configuration names to modules: energies are compiled, files and classes imported."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import importlib.util
import inspect
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from torch import nn

import cemc
from examples.lm.config import ConfigError, LayerConfig

KNOWN_GIVENS = {"start", "doc"}
"""What a decoder can tell a layer of its tokens, see Decoder.forward."""


@dataclass(frozen=True)
class Facts:
    """What a caller of a layer has to know of its energy."""

    name: str = ""  # of the energy
    givens: tuple[str, ...] = ()  # the keyword arguments of a call
    energies: tuple[str, ...] = ()  # the definitions that the update differentiates
    repeat: int | str = 1  # how often, or the header name that says it
    holds_input: bool = False  # whether what is held is the layer's input


@cache
def facts(text: str) -> Facts:
    """The facts of the text of one energy."""
    from cemc.semantics import analyse
    from cemc.semantics.gradients import energies
    from cemc.semantics.typed import Gradient, Held
    from cemc.source import Source
    from cemc.syntax import parse

    source = Source("energy", text)
    (energy,) = analyse(parse(source), source).energies
    update, definitions = list(_inside(energy.update.statements)), list(_inside(tuple(energy.definitions.values())))
    names = dict.fromkeys(
        found.name for node in update if isinstance(node, Gradient) for found in energies(node.energy)
    )
    once = any(isinstance(node, Held) and node.kind == "input" for node in (*update, *definitions))
    return Facts(energy.name, tuple(energy.givens), tuple(names), energy.update.repeat, once)


def _inside(node: Any) -> Iterator[Any]:
    """Everything in a typed expression, itself included."""
    if isinstance(node, tuple):
        for each in node:
            yield from _inside(each)
    elif dataclasses.is_dataclass(node) and not isinstance(node, type):
        yield node
        for about in dataclasses.fields(node):
            yield from _inside(getattr(node, about.name))


@dataclass(frozen=True)
class LayerSource:
    """A layer's class, the text of its energy (empty for a class written by hand) and of its code and kernels."""

    layer: type[nn.Module]
    energy: str
    code: str

    @property
    def facts(self) -> Facts:
        """What the text of the energy says; nothing for a class written by hand."""
        return facts(self.energy) if self.energy else Facts()

    @property
    def digest(self) -> str:
        """Tells one code from another."""
        return hashlib.sha256(self.code.encode()).hexdigest()


def layer_source(layer: LayerConfig, folder: Path | None = None) -> LayerSource:
    """The class of a layer, written to `folder` if it is compiled. ConfigError if a decoder cannot use it."""
    if layer.module:
        found = _written_by_hand(layer.module)
    elif layer.energy.endswith(".py"):
        found = generated_file(Path(layer.energy))
    else:
        found = _compiled(layer, folder)
    if not getattr(found.layer, "causal", False):
        raise ConfigError(f"{layer.label} reads later tokens: it would be told what it should predict")
    if unknown := sorted(set(found.facts.givens) - KNOWN_GIVENS):
        raise ConfigError(
            f"{layer.label} asks for the given {unknown[0]}; the decoder knows {', '.join(sorted(KNOWN_GIVENS))}"
        )
    return found


@dataclass(frozen=True)
class Built:
    """A layer, and how it is called: with which givens, and for how many steps where not for its own number."""

    module: Any
    label: str
    facts: Facts = Facts()
    steps: int | None = None

    @property
    def is_energy(self) -> bool:
        """Whether it takes steps, and has an energy to ask for."""
        return bool(self.facts.energies)

    @property
    def repeats(self) -> int:
        """How often it moves the tokens in a call."""
        repeat = self.facts.repeat
        return self.steps or (repeat if isinstance(repeat, int) else getattr(self.module, repeat))


def build_layers(layers: Sequence[LayerConfig], d: int, folder: Path | None = None, **where: Any) -> list[Built]:
    """All layers for tokens of width d; `where`: device and dtype. ConfigError names what does not fit."""
    built: list[Built] = []
    sources: dict[tuple[str, ...], LayerSource] = {}
    for layer in layers:
        where_from = (layer.energy, layer.module, layer.name)
        if where_from not in sources:
            sources[where_from] = layer_source(layer, folder)
        source = sources[where_from]
        try:
            module = source.layer(d=d, **layer.arguments, **where)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{layer.label}: {error}") from error
        if layer.steps and not source.energy:
            raise ConfigError(f"{layer.label} was written by hand and takes no steps")
        built.append(Built(module, layer.label, source.facts, layer.steps or None))
    return built


def _compiled(layer: LayerConfig, folder: Path | None) -> LayerSource:
    try:
        results = cemc.compile_file(layer.energy)
    except cemc.CemError as error:
        raise ConfigError(f"{layer.energy} does not compile:\n{error}") from error
    except OSError as error:
        raise ConfigError(f"{layer.energy}: {error.strerror or error}") from error
    names = [result.name for result in results]
    if (layer.name or len(names) > 1) and layer.name not in names:
        raise ConfigError(f"{layer.energy} has the energies {', '.join(names)}: say which with name")
    result = results[names.index(layer.name) if layer.name else 0]
    target = _temporary() if folder is None else folder
    cemc.compile_file(layer.energy, out=target)
    return LayerSource(_class_of(target / f"{result.name}.py"), result.source, result.code + result.kernels)


@cache
def _temporary() -> Path:
    """Where layers of models without a folder are written: gone with the process."""
    folder = tempfile.TemporaryDirectory(prefix="cemc-layers-")
    _KEPT.append(folder)
    return Path(folder.name)


_KEPT: list[Any] = []


def generated_file(path: Path) -> LayerSource:
    """The layer of a file that cemc has generated, with the energy that stands on top of it."""
    try:
        code = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    kernels = path.with_name(f"{path.stem}_kernels.py")
    beside = kernels.read_text(encoding="utf-8") if kernels.exists() else ""
    found = _class_of(path)
    (opening,) = re.findall(r'\A""".*?\n\n(.*?)\n\nThe energ', code, re.DOTALL) or [""]
    return LayerSource(found, textwrap.dedent(opening), code + beside)


def _class_of(path: Path) -> type[nn.Module]:
    """The class of a generated file, imported under a name of its own, so that equal names do not meet."""
    digest = hashlib.sha256(path.read_bytes() + str(path.resolve()).encode()).hexdigest()[:16]
    name = f"cemc_layers_{digest}.{path.stem}"
    if name not in sys.modules:
        _package(f"cemc_layers_{digest}", path.resolve().parent)
        importlib.import_module(name)
    classes = [
        each
        for each in vars(sys.modules[name]).values()
        if inspect.isclass(each) and issubclass(each, nn.Module) and each.__module__ == name
    ]
    if len(classes) != 1:
        raise ConfigError(f"{path} has {len(classes)} classes of layers, not one: was it generated by cemc?")
    return classes[0]


def _package(name: str, folder: Path) -> None:
    """A package whose modules lie in `folder`: files beside a layer, its kernels, are found as in any package."""
    spec = importlib.util.spec_from_loader(name, loader=None, is_package=True)
    assert spec is not None and spec.submodule_search_locations is not None
    spec.submodule_search_locations.append(str(folder))
    sys.modules[name] = importlib.util.module_from_spec(spec)
    importlib.invalidate_caches()  # the file may be younger than the last look at its folder


def _written_by_hand(dotted: str) -> LayerSource:
    module, _, name = dotted.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"there is no class {dotted}: {error}") from error
    return LayerSource(found, "", inspect.getsource(sys.modules[found.__module__]))
