"""Program stage: symbolic energy -> tensor program."""

from cemc.program.assemble import assemble
from cemc.program.graph import Graph

__all__ = ["Graph", "assemble"]
