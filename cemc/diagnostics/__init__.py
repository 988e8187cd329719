"""The catalogue of faults, one class each, and how they are shown."""

from cemc.diagnostics.base import CemError, Diagnostic, Note, Warn, in_order
from cemc.diagnostics.render import line_of, place, render, render_all

__all__ = ["CemError", "Diagnostic", "Note", "Warn", "in_order", "line_of", "place", "render", "render_all"]
