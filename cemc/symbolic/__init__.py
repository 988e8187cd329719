"""Symbolic stage: typed energy -> SymPy in index notation, differentiated and in normal form."""

from cemc.symbolic.equations import Equations, equations
from cemc.symbolic.update import SymbolicEnergy, build

__all__ = ["Equations", "SymbolicEnergy", "build", "equations"]
