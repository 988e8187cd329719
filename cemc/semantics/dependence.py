"""What an energy depends on, read off the structure: through definitions, but not through what `given` and `input`
hold, nor through conditions and computed subscripts, whose derivative is 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from cemc.semantics.typed import Access, Call, Condition, Definition, Expr, Gradient, Held, Subscripted
from cemc.source import Span


@dataclass(frozen=True)
class Use:
    """A name in an expression. `blocked` says what keeps a derivative from going through it, if anything does."""

    name: str
    span: Span
    blocked: str = ""

    @property
    def open(self) -> bool:
        return not self.blocked


def uses(value: object, blocked: str = "") -> Iterator[Use]:
    """All tables that an expression reads."""
    if isinstance(value, Access):
        yield Use(value.name, value.span, blocked)
        yield from uses(value.subscripts, blocked or "a subscript")
    elif isinstance(value, Subscripted):
        yield from uses(value.base, blocked)
        yield from uses(value.subscripts, blocked or "a subscript")
    elif isinstance(value, Held):
        yield from uses(value.operand, blocked or f"`{value.kind}(…)`")
    elif isinstance(value, Call) and value.function == "rope":
        yield from uses(value.arguments[0], blocked)
        yield from uses(value.arguments[1:], blocked or "a position")
    elif isinstance(value, Gradient):
        yield Use(value.wrt, value.span, blocked)
        yield from uses(value.energy, blocked)
        yield from uses(value.subscripts, blocked or "a subscript")
    elif isinstance(value, tuple):
        for part in value:
            yield from uses(part, blocked)
    elif isinstance(value, (Expr, Condition)):
        inside = (blocked or "a condition") if isinstance(value, Condition) else blocked
        for each in fields(value):
            if each.name not in ("span", "shape"):
                yield from uses(getattr(value, each.name), inside)


class Dependence:
    """Reachability over the definitions of an energy."""

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self.uses = {name: tuple(dict.fromkeys(uses(each.body))) for name, each in definitions.items()}

    def path(
        self, start: tuple[Use, ...], target: str, around: str | None = None, held: bool = False
    ) -> list[Use] | None:
        """The uses that lead from an expression to `target`, not through the definition `around`; None where none do.
        Only those that a derivative goes through count, unless `held`."""
        came_from: dict[Use, Use | None] = {}
        pending = list(start)
        for use in start:
            came_from[use] = None
        seen: set[str] = set()
        while pending:
            use = pending.pop(0)
            if not (use.open or held):
                continue
            if use.name == target:
                found: list[Use] = []
                step: Use | None = use
                while step is not None:
                    found.append(step)
                    step = came_from[step]
                return found[::-1]
            if use.name in seen or use.name == around:
                continue
            seen.add(use.name)
            for further in self.uses.get(use.name, ()):
                if further not in came_from:
                    came_from[further] = use
                    pending.append(further)
        return None

    def reached(self, start: tuple[Use, ...]) -> set[str]:
        """Every name that an expression reads, directly or through definitions, held or not."""
        found: set[str] = set()
        pending = [use.name for use in start]
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                pending += [use.name for use in self.uses.get(name, ())]
        return found
