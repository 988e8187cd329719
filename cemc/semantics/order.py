"""An order in which each definition, function or constant uses only earlier ones, and the circles that prevent one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cemc.diagnostics.names import Circle
from cemc.syntax import tree


@dataclass(frozen=True)
class Ordered:
    """`in_circles` are the names that cannot be ordered; they are in `names` too, somewhere."""

    names: tuple[str, ...]
    in_circles: frozenset[str]
    errors: tuple[Circle, ...]


def mentioned(node: tree.Node) -> Iterator[tree.Name]:
    """Every name in a piece of syntax."""
    pending = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, tree.Name):
            yield each
        else:
            pending += reversed(list(tree.children(each)))


def in_order(bodies: Mapping[str, Iterable[tree.Node]], hidden: Mapping[str, frozenset[str]] | None = None) -> Ordered:
    """Depth first, with a stack of its own: files may hold chains of thousands of definitions. `hidden` are names
    that mean something else in a body."""
    known = {name: bodies.keys() - (hidden or {}).get(name, frozenset()) for name in bodies}
    uses = {
        name: [each for body in parts for each in mentioned(body) if each.text in known[name]]
        for name, parts in bodies.items()
    }
    done: dict[str, None] = {}
    in_circles: set[str] = set()
    errors: list[Circle] = []
    for root in bodies:
        path: dict[str, Iterator[tree.Name]] = {} if root in done else {root: iter(uses[root])}
        while path:
            name = next(reversed(path))
            use = next(path[name], None)
            if use is None:
                del path[name]
                done[name] = None
            elif use.text in path:
                names = list(path)
                circle = names[names.index(use.text) :]
                if not in_circles.issuperset(circle):
                    errors.append(Circle(use.span, use.text, _shown(circle)))
                in_circles.update(circle)
            elif use.text not in done:
                path[use.text] = iter(uses[use.text])
    return Ordered(tuple(done), frozenset(in_circles), tuple(errors))


def _shown(circle: list[str]) -> str:
    names = [*circle, circle[0]]
    if len(names) > 9:
        names = [*names[:4], "…", *names[-4:]]
    return " → ".join(f"`{name}`" if name != "…" else name for name in names)
