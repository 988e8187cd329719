"""Program stage: symbolic energy -> tensor program."""

from cemc.program.assemble import assemble
from cemc.program.graph import Graph
from cemc.program.schedule import Schedule, schedule

__all__ = ["Graph", "Schedule", "assemble", "schedule"]
