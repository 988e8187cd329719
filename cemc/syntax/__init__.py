"""Text to tree."""

from cemc.syntax.parse import parse
from cemc.syntax.read import read_source, source_of

__all__ = ["parse", "read_source", "source_of"]
