"""Tree to typed energy: names, axes, shapes, binders."""

from cemc.semantics.analyse import Analysis, analyse

__all__ = ["Analysis", "analyse"]
