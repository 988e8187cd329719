"""Breaks statements that are too long for a line, the way `ruff format` does: inside the brackets of the last call."""

from __future__ import annotations

import re

from cemc.emit.code import WIDTH, bracket

_OPEN, _CLOSED = "([{", ")]}"


def wrapped(text: str) -> str:
    """The text with its long lines broken, again and again while there is a bracket to break them in."""
    return "\n".join(line for each in text.split("\n") for line in _broken(each))


def _broken(line: str) -> list[str]:
    if len(line) <= WIDTH or line.lstrip().startswith(("#", '"')):
        return [line]
    indent = len(line) - len(line.lstrip())
    returned = line.lstrip().removeprefix("return ")
    if returned != line.lstrip() and len(_split(returned)) > 1:
        return bracket("return (", [item.strip() for item in _split(returned)], ")", indent)
    found = _outermost(line.lstrip())
    if found is None:
        return [line]
    head, inside, tail = found
    items = [item.strip() for item in _split(inside) if item.strip()]
    if not items:
        return [line]
    lines = bracket(head, items, tail, indent)
    return [piece for each in lines for piece in (_broken(each) if each != line else [each])]


def _outermost(line: str) -> tuple[str, str, str] | None:
    """(up to and with the bracket, what is in it, the bracket and the rest) of the last bracket that is in no other."""
    depth, start, last = 0, 0, None
    for position, character in enumerate(line):
        if character in _OPEN:
            if depth == 0:
                start = position
            depth += 1
        elif character in _CLOSED:
            depth -= 1
            if depth == 0 and position - start > 1:
                last = (start, position)
    if last is None:
        return None
    if re.match(r"def \w+\(", line):
        # The arguments, and not what is returned.
        depth = 0
        for position in range(line.index("("), len(line)):
            depth += (line[position] in _OPEN) - (line[position] in _CLOSED)
            if depth == 0:
                last = (line.index("("), position)
                break
    start, end = last
    return line[: start + 1], line[start + 1 : end], line[end:]


def _split(inside: str) -> list[str]:
    """What stands between the commas that are in no bracket and in no string."""
    parts, depth, begin, quoted = [], 0, 0, ""
    for position, character in enumerate(inside):
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "\"'":
            quoted = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSED:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(inside[begin:position])
            begin = position + 1
    return [*parts, inside[begin:]]
