"""Every name that reaches a generated file goes through here.

The names of an energy show on the generated class: as arguments, attributes and properties. A user may call a parameter
`torch` or a header name `range`, so whatever the file itself needs - imports, helpers, private methods, built-in
functions, local variables - gives way: it takes a trailing underscore, or is reached through `builtins`.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable

from cemc.semantics import typed

LIBRARIES = {
    "builtins": "builtins",
    "math": "math",
    "Callable": "collections.abc",
    "nullcontext": "contextlib",
    "pairwise": "itertools",
    "partial": "functools",
    "Any": "typing",
    "Path": "pathlib",
    "find_spec": "importlib.util",
    "module_from_spec": "importlib.util",
    "spec_from_file_location": "importlib.util",
    "sys": "sys",
    "torch": "torch",
    "Tensor": "torch",
    "nn": "torch",
    "F": "torch.nn",
    "checkpoint": "torch.utils.checkpoint",
}
"""What a generated file may import, and from where."""

_BUILTINS = frozenset(dir(builtins))

# Names that style checkers call ambiguous.
_AMBIGUOUS = frozenset("lIO")


def class_name(energy: str) -> str:
    """`cem_attention` -> `CemAttention`."""
    return "".join(word[:1].upper() + word[1:] for word in energy.split("_"))


def raw_name(parameter: str) -> str:
    """The attribute that a positive parameter is stored as. Python would change `__raw` inside a class."""
    return f"u{parameter}_raw" if parameter.startswith("_") else f"{parameter}_raw"


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """`wanted`, with as many underscores behind it as it takes to differ from `taken`."""
    taken = set(taken)
    while wanted in taken:
        wanted += "_"
    return wanted


class Names:
    """The names of one module, and what it turned out to need."""

    def __init__(self, energy: typed.Energy) -> None:
        public = [*energy.header, *energy.states, *energy.givens, *energy.parameters, *energy.constants]
        public += [raw_name(name) for name, parameter in energy.parameters.items() if parameter.positive]
        self.public = frozenset(public)
        self.class_name = class_name(energy.name)
        self.used: set[str] = set()
        self._module: dict[str, str] = {}
        self._methods: dict[str, str] = {}
        for name in LIBRARIES:
            self._claim(name)

    def _claim(self, name: str) -> str:
        if name not in self._module:
            taken = self.public | {self.class_name} | set(self._module.values()) | _BUILTINS
            self._module[name] = free_name(name, taken)
        return self._module[name]

    # ------------------------------------------------------------------------------------------ module level

    def library(self, name: str) -> str:
        """The name an import goes by, marked as used."""
        self.used.add(name)
        return self._module[name]

    def builtin(self, name: str) -> str:
        """A built-in function or exception, reached so that no name of the energy hides it."""
        if name not in self.public and name != self.class_name:
            return name
        return f"{self.library('builtins')}.{name}"

    def helper(self, name: str) -> str:
        """A private function or class of the module."""
        return self._claim(name)

    def imports(self) -> str:
        """The import statements for what was used, the standard library first."""
        groups: dict[bool, list[str]] = {}
        modules = sorted({LIBRARIES[name] for name in self.used})
        for module in modules:
            names = sorted(name for name in self.used if LIBRARIES[name] == module)
            lines = groups.setdefault(module.startswith("torch"), [])
            if module in names:
                lines.append(f"import {_as(module, self._module[module])}")
                names.remove(module)
            if names:
                listed = ", ".join(_as("functional" if n == "F" else n, self._module[n]) for n in names)
                lines.append(f"from {module} import {listed}")
        # Plain imports come before the others of their group.
        return "\n\n".join("\n".join(sorted(groups[key], key=lambda t: t[:5] == "from ")) for key in sorted(groups))

    # ------------------------------------------------------------------------------------------- class level

    def method(self, name: str) -> str:
        """A private method of the class, apart from the parameters and constants that are attributes of it."""
        if name not in self._methods:
            self._methods[name] = free_name(name, self.public | set(self._methods.values()))
        return self._methods[name]

    # ------------------------------------------------------------------------------------------ method level

    def scope(self, arguments: Iterable[str] = ()) -> Scope:
        """The local names of one method, which has these arguments under exactly these names."""
        return Scope(self, arguments)

    def is_module_level(self, name: str) -> bool:
        return name in self._module.values() or name == self.class_name


def _as(name: str, called: str) -> str:
    return name if name == called else f"{name} as {called}"


class Scope:
    """Local names: each asked for once is one variable, and hides nothing that the file uses."""

    def __init__(self, names: Names, arguments: Iterable[str]) -> None:
        self._names = names
        self._taken = {"self", "_", *arguments}

    def local(self, wanted: str) -> str:
        """A new variable, called `wanted` as far as possible."""
        # Helpers start with one underscore, and with two Python changes a name inside a class.
        name = f"u{wanted}" if wanted.startswith("_") else wanted
        while (
            name in self._taken
            or name in _BUILTINS
            or name in _AMBIGUOUS
            or keyword.iskeyword(name)
            or self._names.is_module_level(name)
        ):
            name = f"{name}_"
        self._taken.add(name)
        return name

    def numbered(self, wanted: str) -> str:
        """A new variable: `wanted`, else `wanted_2`, `wanted_3`, ..."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        return self.local(name)
