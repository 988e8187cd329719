"""How long axes are in the tensors of one body: all tokens, those of this call, or those of a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cemc.emit.code import SUM, Code, call, chain, conditional, name
from cemc.program import nodes
from cemc.program.nodes import Node

if TYPE_CHECKING:
    from cemc.emit.body import Body

Length = tuple[str, bool, int | None]
"""What has a length in tensors: an axis, whether it runs over rows, and the number of the node that says which columns,
None for all."""


class Lengths:
    """The lengths of the axes that `body` works on. `arguments`: the variables of the tensors it is given, by role and
    name; `known`: where the lengths of run-time axes are read off instead (variable, dimension)."""

    def __init__(
        self, body: Body, arguments: Mapping[tuple[str, str], str], known: Mapping[Length, tuple[str, int]]
    ) -> None:
        self._body, self._arguments, self._known = body, arguments, known
        self._sizes: dict[str, str] = {}
        self._starts: dict[int, str] = {}

    def size(self, axis: str) -> str:
        """The length of an axis."""
        if axis not in self._body.context.runtime:
            return self._body.attribute(axis)
        if axis not in self._sizes:
            self._sizes[axis] = self._body.scope.local("n" if axis == "token" else f"n_{axis}")
            length = name(self._of_call(axis))
            if self._body.cache is not None and axis == "token":
                variable = self._body.cache.variable
                length = name(f"{length.text} if {variable} is None else {variable}.tokens + {length.text}")
            self._body.leaves.add(self._sizes[axis], length)
        return self._sizes[axis]

    def of_call(self, axis: str) -> str:
        """The length of an axis in the arguments of this call, written out."""
        return self._of_call(axis) if axis in self._body.context.runtime else self._body.attribute(axis)

    def of(self, axis: str, row: bool, window: Node | None) -> str:
        """The length of an axis: of rows, or of the columns of a window."""
        key = (axis, row, None if window is None else window.number)
        if key in self._known:
            variable, position = self._known[key]
            return f"{variable}.shape[{position}]"
        if row and self._body.cache is not None:
            return self.new_tokens()
        return self.size(axis) if window is None else self.columns(axis, window).text

    @property
    def all_columns(self) -> bool:
        """Whether every window is of all tokens, as it is outside of blocks without a cache."""
        return self._body.cache is None and not self._known

    def columns(self, axis: str, window: Node) -> Code:
        """How many tokens there are from the first of a window on."""
        start = self.start(window)
        total = name(self.size(axis))
        return total if start is None else chain(SUM, total, ("-", name(start)))

    def start(self, window: Node) -> str | None:
        """The variable for the first token of a window; None where that is the first of all, there being no cache."""
        if self._body.cache is None:
            return None
        if window.number not in self._starts:
            variable = self._starts[window.number] = self._body.scope.numbered(self._body.unclaimed("start"))
            seen = name(f"{self._body.cache.variable}.tokens")
            first = seen
            if not (isinstance(window, nodes.Number) and window.value == 0):
                largest = self._body.context.names.builtin("max")
                first = call(largest, chain(SUM, seen, ("-", self._body.use(window))), "0")
            self._body.before.add(variable, conditional(name("0"), name(f"{self._body.cache.variable} is None"), first))
        return self._starts[window.number]

    def new_tokens(self) -> str:
        """How many tokens this call has."""
        return self._of_call("token")

    def _of_call(self, axis: str) -> str:
        whole = (axis, False, None)
        variable, position = self._known[whole] if whole in self._known else self._from_argument(axis)
        return f"{variable}.shape[{position}]"

    def _from_argument(self, axis: str) -> tuple[str, int]:
        for (_, tensor), variable in self._arguments.items():
            axes = [a.name for a in self._body.context.energy.axes_of(tensor)]
            if axis in axes:
                return variable, axes.index(axis) - len(axes)
        raise AssertionError(f"no argument has the axis {axis}")
