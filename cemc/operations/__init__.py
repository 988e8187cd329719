"""The operation table: what each function of the language is, in one record per function.

Names and arities alone, which is all the front end needs, are in `signatures.py` and cost no import of SymPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cemc.operations.elementwise import ELEMENTWISE, Elementwise

__all__ = ["ELEMENTWISE", "Elementwise"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cemc.operations import elementwise

    return getattr(elementwise, name)
