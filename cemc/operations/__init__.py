"""The operation table: what each function of the language is, in one record per function."""

from cemc.operations.elementwise import ELEMENTWISE, Elementwise

__all__ = ["ELEMENTWISE", "Elementwise"]
