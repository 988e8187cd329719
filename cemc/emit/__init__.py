"""Emit stage: programs -> the text of one Python file."""

from cemc.emit.module import emit_files
from cemc.emit.names import class_name
from cemc.files import GENERATED_MARK

__all__ = ["GENERATED_MARK", "class_name", "emit_files"]
