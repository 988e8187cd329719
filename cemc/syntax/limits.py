"""How large a file may be. Every limit is far above what a paper's equations need, and is reported with its place."""

MAX_CHARACTERS = 65_536
MAX_NAME = 100
MAX_NUMBER = 60
"""Characters of one number."""

MAX_EXPONENT = 300
"""A number must lie in the range of float64."""

MAX_DEPTH = 100
"""Brackets within brackets, and operations within operations. Later stages recurse, within Python's default limit."""

LONGEST_CHAIN = 8
"""Longer sums become balanced trees, so that stages that recurse can take any number of terms."""

MAX_SYNTAX_ERRORS = 30
