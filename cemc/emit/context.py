"""What the printers of one module share: its names, the axes whose length a call decides, the functions called for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cemc.emit.names import Names
from cemc.semantics import typed

if TYPE_CHECKING:
    from cemc.emit.integrals import IntegrandText
    from cemc.emit.kernels import Kernel
    from cemc.emit.pointwise import PointwiseKernel


@dataclass
class Context:
    """`helpers`: the private functions the text written so far calls. `integrands`: those written for quadrature.
    `tensor_base`: whether the base of some rotation is a tensor. `methods`: those that other methods call for.
    `options`: what the helpers must be able to do beyond the plain case. `kernels` and
    `pointwise`: by the numbers of the Pairs and Pointwise nodes they compute."""

    energy: typed.Energy
    names: Names
    helpers: dict[str, None] = field(default_factory=dict)
    integrands: dict[tuple[int, int], IntegrandText] = field(default_factory=dict)
    tensor_base: bool = False
    methods: list[str] = field(default_factory=list)
    options: dict[str, None] = field(default_factory=dict)
    kernels: dict[int, Kernel] = field(default_factory=dict)
    pointwise: dict[int, PointwiseKernel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        tensors = [*self.energy.states, *self.energy.givens]
        axes = [axis for tensor in tensors for axis in self.energy.axes_of(tensor)]
        self.runtime = frozenset(axis.name for axis in axes if axis.runtime)
        self.declared = self.names.public | set(self.energy.definitions)

    def library(self, dotted: str) -> str:
        """`torch.exp` under whatever name this file imports torch."""
        module, dot, rest = dotted.partition(".")
        return self.names.library(module) + dot + rest

    def helper(self, name: str) -> str:
        """A helper, which the file will have."""
        self.helpers[name] = None
        return self.names.helper(name)

    def spelled(self, pattern: str) -> str:
        """A spelling from the operation table, in the names of this file."""
        pattern = re.sub(r"(?<![\w.])(torch|F|math)(?=\.)", lambda m: self.names.library(m.group()), pattern)
        return re.sub(r"(?<![\w.])_\w+(?=\()", lambda m: self.helper(m.group()), pattern)
