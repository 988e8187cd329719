"""How large a file may be. Every limit is far above what a paper's equations need, and is reported with its place."""

MAX_CHARACTERS = 65_536
MAX_NAME = 100
MAX_NUMBER = 60
"""Characters of one number."""

MIN_NUMBER = 2.0**-1022
"""The smallest normal number of float64, in whose range a number must lie if it is not 0."""

MAX_DEPTH = 100
"""Brackets within brackets, and operations within operations. Later stages recurse, within Python's default limit."""

LONGEST_CHAIN = 8
"""Longer sums become balanced trees, so that stages that recurse can take any number of terms."""

MAX_SYNTAX_ERRORS = 30
