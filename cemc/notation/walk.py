"""Memoised walks over shared expressions. SymPy's own `xreplace`, `has` and `free_symbols` walk them as trees, which
takes exponential time on terms that are shared, and replace bound indices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from sympy import Add, Mul
from sympy.core.basic import Basic

from cemc.notation.nodes import Entry, Expr, IndexSymbol, bound_indices, subscript, unique

_NOTHING: frozenset[IndexSymbol] = frozenset()


class FreeIndices:
    """The index symbols free in an expression, remembered."""

    def __init__(self) -> None:
        self._known: dict[Basic, frozenset[IndexSymbol]] = {}

    def __call__(self, expr: Basic) -> frozenset[IndexSymbol]:
        known = self._known
        found = known.get(expr)
        if found is not None:
            return found
        # Most new nodes are made of nodes seen before.
        if all(child in known for child in expr.args):
            return self._of(expr)
        for node in postorder(expr, known):
            self._of(node)
        return known[expr]

    def _of(self, node: Basic) -> frozenset[IndexSymbol]:
        """Of a node whose arguments are known."""
        if isinstance(node, IndexSymbol):
            free = frozenset((node,))
        elif node.args:
            parts = {self._known[child] for child in node.args}
            free = _NOTHING.union(*parts) if len(parts) > 1 else parts.pop()
            if bound := bound_indices(node):
                free = free.difference(bound)
        else:
            free = _NOTHING
        self._known[node] = free
        return free


def postorder(expr: Basic, known: Mapping[Basic, object] = MappingProxyType({})) -> Iterator[Basic]:
    """Every distinct node of `expr` not in `known`, arguments first. Iterative: depth is no limit."""
    seen: set[Basic] = set()
    stack: list[tuple[Basic, bool]] = [(expr, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            yield node
        elif node not in seen and node not in known:
            seen.add(node)
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.args))


def rebuild(node: Basic, args: tuple[Basic, ...]) -> Basic:
    """`node` with other arguments; itself if they are the same."""
    if all(new is old for new, old in zip(args, node.args, strict=True)):
        return node
    return unique(node.func(*args))


def transform(expr: Basic, step: Callable[[Basic, tuple[Basic, ...]], Basic], known: dict[Basic, Basic]) -> Basic:
    """`step(node, new arguments)` at every node, arguments first; `known` remembers."""
    for node in postorder(expr, known):
        known[node] = step(node, tuple(known[child] for child in node.args))
    return known[expr]


def substitute(expr: Expr, mapping: Mapping[IndexSymbol, Expr], free: FreeIndices) -> Expr:
    """`expr` with free index symbols replaced. Bound ones are left alone; a replacement must not contain an index
    bound in `expr` (binders are always fresh, so none does)."""
    if not mapping:
        return expr
    known: dict[tuple[Basic, frozenset[IndexSymbol]], Basic] = {}
    return _substitute(expr, mapping, free, known)


def _substitute(
    expr: Basic,
    mapping: Mapping[IndexSymbol, Expr],
    free: FreeIndices,
    known: dict[tuple[Basic, frozenset[IndexSymbol]], Basic],
) -> Basic:
    active = free(expr).intersection(mapping)
    if not active:
        return expr
    key = (expr, active)
    found = known.get(key)
    if found is not None:
        return found
    if isinstance(expr, IndexSymbol):
        result: Basic = mapping[expr]
    else:
        bound = bound_indices(expr)
        inner = {symbol: new for symbol, new in mapping.items() if symbol in active and symbol not in bound}
        args = tuple(_substitute(child, inner, free, known) for child in expr.args)
        if isinstance(expr, Entry):
            # Where an index of another axis now stands by itself, it is a computed subscript.
            args = tuple(
                subscript(new, old.axis) if isinstance(old, IndexSymbol) else new
                for old, new in zip(expr.args, args, strict=True)
            )
        result = rebuild(expr, args)
    known[key] = result
    return result


def replace_atoms(expr: Basic, mapping: Mapping[Basic, Basic]) -> Basic:
    """`expr` with atoms that no node binds replaced."""
    return transform(expr, lambda node, args: mapping.get(node) or rebuild(node, args), {})


def is_plain(expr: Basic) -> bool:
    return isinstance(expr, IndexSymbol)


def factors_of(expr: Expr) -> tuple[Expr, ...]:
    return expr.args if isinstance(expr, Mul) else (expr,)


def terms_of(expr: Expr) -> tuple[Expr, ...]:
    return expr.args if isinstance(expr, Add) else (expr,)
