"""Which columns a row can see, as far as that is an offset: read off the mask of a tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from cemc.program import nodes
from cemc.program.nodes import Node

# A linear form: the coefficients of "i", "j", of each number by its name, and of "" (1).
Form = dict[str, Fraction]


@dataclass(frozen=True)
class Bounds:
    """j <= i + c for each c in `upper`, j >= i + c for each in `lower`; a c is a linear form of numbers."""

    upper: tuple[Form, ...]
    lower: tuple[Form, ...]


def bounds(mask: Node | None) -> Bounds:
    """The bounds that the conjuncts of a mask set."""
    upper: list[Form] = []
    lower: list[Form] = []
    for truth in _conjuncts(mask):
        for form, strict in _inequalities(truth):
            i, j = form.pop("i", Fraction(0)), form.pop("j", Fraction(0))
            if abs(j) != 1 or i != -j:
                continue
            # i - j + rest >= 0 bounds j from above, j - i + rest >= 0 from below; strict means by one more.
            rest = {**form, "": form.get("", Fraction(0)) - strict}
            if any(value.denominator != 1 for value in rest.values()):
                continue
            if j == -1:
                upper.append(rest)
            else:
                lower.append({name: -value for name, value in rest.items()})
    return Bounds(tuple(upper), tuple(lower))


def _conjuncts(mask: Node | None) -> Iterator[Node]:
    if isinstance(mask, nodes.Map) and mask.operation == "and":
        for operand in mask.operands:
            yield from _conjuncts(operand.node)
    elif mask is not None:
        yield mask


def _inequalities(truth: Node) -> Iterator[tuple[Form, int]]:
    """Linear forms that are >= 0 (or, with 1, > 0) where a truth holds."""
    if not isinstance(truth, nodes.Map) or truth.operation not in ("<", "<=", ">", ">=", "=="):
        return
    left, right = (linear(operand.node) for operand in truth.operands)
    if left is None or right is None:
        return
    if truth.operation in ("<", "<=", "=="):
        yield _plus(right, left, -1), int(truth.operation == "<")
    if truth.operation in (">", ">=", "=="):
        yield _plus(left, right, -1), int(truth.operation == ">")


def linear(node: Node) -> Form | None:
    """A whole-numbered expression of positions and numbers as a linear form."""
    if isinstance(node, nodes.Number):
        return {"": node.value}
    if isinstance(node, nodes.Tensor):
        known = node.name in ("i", "j") or node.name.startswith("number")
        return {node.name: Fraction(1)} if known and node.kind == "integer" else None
    if not isinstance(node, nodes.Map) or node.operation not in ("add", "mul"):
        return None
    total: Form | None = None
    for operand in node.operands:
        form = linear(operand.node)
        if form is None:
            return None
        if total is None:
            total = form
        elif node.operation == "add":
            total = _plus(total, form, 1)
        elif set(total) <= {""}:
            total = {name: value * total.get("", Fraction(0)) for name, value in form.items()}
        elif set(form) <= {""}:
            total = {name: value * form.get("", Fraction(0)) for name, value in total.items()}
        else:
            return None
    return total


def _plus(a: Form, b: Form, factor: int) -> Form:
    return {n: a.get(n, Fraction(0)) + factor * b.get(n, Fraction(0)) for n in dict.fromkeys((*a, *b))}
