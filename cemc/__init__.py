"""cemc: a compiler from energies, written as in a paper, to fast trainable PyTorch layers.

`compile_file` and `load` import the compiler when they are first used, so that `import cemc` is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cemc.version import __version__

if TYPE_CHECKING:
    from cemc.compiler import compile_file, load
    from cemc.diagnostics import CemError

__all__ = ["CemError", "__version__", "compile_file", "load"]


def __getattr__(name: str) -> Any:
    if name in ("compile_file", "load"):
        from cemc import compiler

        return getattr(compiler, name)
    if name == "CemError":
        from cemc.diagnostics import CemError

        return CemError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
