"""Whether an update is causal: token i of the result reads only tokens up to i.

Decided on the symbolic form. Every way from token i of a result to an entry of a state or given over `token` is
followed, through tables, with the conditions met on the way; the way is causal if those conditions imply that the
token read is not after i. Conditions are linear inequalities of positions and sizes; the implication is proved by
adding up inequalities (difference bounds, with sizes at least 1 and positions from 0), so "causal" is a guarantee,
while "not causal" may mean that no proof was found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product

from sympy import Add, Rational

from cemc.notation.nodes import (
    ONE,
    AllOf,
    AnyOf,
    AxisSize,
    Compare,
    Computed,
    Entry,
    Expr,
    FirstMaximum,
    IndexSymbol,
    LogSumExp,
    Maximum,
    Rotation,
    Select,
    Sum,
    Weight,
    conjuncts,
)
from cemc.notation.walk import factors_of, postorder
from cemc.symbolic.support import Support
from cemc.symbolic.update import SymbolicEnergy

TOKEN = "token"
_ANY_TOKEN = IndexSymbol(0, "", TOKEN)

# Alternatives (`or`) multiply; beyond this many combinations a condition is not used.
_MOST_CASES = 64


def is_causal(symbolic: SymbolicEnergy) -> bool:
    """Whether the update of every state is proved to read only tokens up to its own."""
    energy = symbolic.energy
    if any(TOKEN not in (axis.name for axis in state.axes) for state in energy.states.values()):
        return False
    return all(_Reader(symbolic, s.table).is_causal() for s in symbolic.statements)


class _Reader:
    """Follows every read of one statement's table.

    A table is visited once for each relation in which its token indices stand to the token that is computed: an index
    is at or before it, or it is not known to be. Knowing that index t of a table is <= i is all that is passed on."""

    def __init__(self, symbolic: SymbolicEnergy, root: str) -> None:
        self._symbolic, self._tables, self._root = symbolic, symbolic.tables, root
        self._support = Support(symbolic.tables)
        self._visited: set[tuple[str, tuple[bool, ...]]] = set()

    def is_causal(self) -> bool:
        todo = [(self._root, self._start())]
        while todo:
            name, known = todo.pop()
            if (name, known) in self._visited:
                continue
            self._visited.add((name, known))
            found = self._table(name, known)
            if found is None:
                return False
            todo.extend(found)
        return True

    def _start(self) -> tuple[bool, ...]:
        tokens = [s.axis == TOKEN for s in self._tables[self._root].indices]
        # The first token axis of the state is the token that is computed; a second one may be any.
        first = tokens.index(True) if True in tokens else -1
        return tuple(n == first for n in range(len(tokens)))

    def _table(self, name: str, known: tuple[bool, ...]) -> list[tuple[str, tuple[bool, ...]]] | None:
        """The tables that `name` reads, with what is known of their indices; None where a later token may be read."""
        table = self._tables[name]
        bounded = frozenset(s for s, at_most in zip(table.indices, known, strict=True) if at_most)
        reads: dict[tuple[Entry, Expr], None] = {}
        bound: dict[tuple[IndexSymbol, Expr], None] = {}
        _walk(table.body, ONE, reads, bound, {}, self._support)
        if not all(_at_most(symbol, condition, bounded) for symbol, condition in bound):
            return None
        out: list[tuple[str, tuple[bool, ...]]] = []
        for entry, condition in reads:
            axes = self._axes(entry.name)
            proved = tuple(
                axis == TOKEN and _at_most(subscript, condition, bounded)
                for subscript, axis in zip(entry.subscripts, axes, strict=True)
            )
            if entry.name in self._tables:
                out.append((entry.name, proved))
            elif entry.name not in self._symbolic.energy.parameters and not all(
                ok for ok, axis in zip(proved, axes, strict=True) if axis == TOKEN
            ):
                return None
        return out

    def _axes(self, name: str) -> tuple[str, ...]:
        if name in self._tables:
            return tuple(s.axis for s in self._tables[name].indices)
        return tuple(axis.name for axis in self._symbolic.energy.axes_of(name))


def _walk(
    expr: Expr, condition: Expr, reads: dict[tuple[Entry, Expr], None], bound: dict[tuple[IndexSymbol, Expr], None],
    seen: dict[tuple[Expr, Expr], None],
    support: Support,
) -> None:  # fmt: skip
    """Collects entries and bound token indices, each with the condition under which it matters."""
    if (expr, condition) in seen:
        return
    seen[expr, condition] = None
    if isinstance(expr, Entry):
        reads[expr, condition] = None
    elif isinstance(expr, AxisSize):
        if expr.name == TOKEN:
            # A number that depends on how many tokens there are.
            bound[_ANY_TOKEN, ONE] = None
    elif isinstance(expr, (Sum, Maximum, LogSumExp)):
        for body, truth, indices in [b.args for b in expr.branches] if isinstance(expr, LogSumExp) else [expr.args]:
            # Outside conditions speak of another index where a weight stands beside its own normaliser.
            outside = _without(condition, tuple(indices))
            # A summand that is 0 off some mask is not read there.
            masks = (support(body),) if isinstance(expr, Sum) else ()
            under = _both(outside, truth, *masks)
            bound.update(((s, under), None) for s in indices if s.axis == TOKEN)
            _walk(body, under, reads, bound, seen, support)
            _walk(truth, _both(outside, *masks), reads, bound, seen, support)
    elif isinstance(expr, FirstMaximum):
        body, truth, indices = expr.args
        outside = _without(condition, tuple(indices))
        bound.update(((s, _both(outside, truth)), None) for s in indices if s.axis == TOKEN)
        _walk(body, _both(outside, truth), reads, bound, seen, support)
        _walk(truth, outside, reads, bound, seen, support)
    elif isinstance(expr, Weight):
        _walk(expr.args[0], _both(condition, expr.args[1]), reads, bound, seen, support)
        _walk(expr.args[1], condition, reads, bound, seen, support)
        _walk(expr.args[2], condition, reads, bound, seen, support)
    elif isinstance(expr, Select):
        _walk(expr.args[0], condition, reads, bound, seen, support)
        _walk(expr.args[1], _both(condition, expr.args[0]), reads, bound, seen, support)
        _walk(expr.args[2], condition, reads, bound, seen, support)
    elif isinstance(expr, AllOf):
        # One false part makes the whole false, whatever the others read.
        for n, part in enumerate(expr.args):
            _walk(part, _both(condition, *expr.args[:n], *expr.args[n + 1 :]), reads, bound, seen, support)
    elif isinstance(expr, Compare):
        for entry in (node for node in postorder(expr) if isinstance(node, Entry)):
            reads[entry, condition] = None
    else:
        if isinstance(expr, Rotation):
            bound.update(((s, condition), None) for s in (expr.args[1],) if s.axis == TOKEN)
        for child in expr.args:
            _walk(child, condition, reads, bound, seen, support)
    if isinstance(expr, Entry):
        # A given in a subscript is read too.
        for child in expr.args:
            _walk(child, condition, reads, bound, seen, support)


def _without(condition: Expr, indices: tuple[IndexSymbol, ...]) -> Expr:
    """The parts of a condition that do not mention `indices`."""
    return _both(*(part for part in conjuncts(condition) if not set(indices).intersection(postorder(part))))


def _both(*truths: Expr) -> Expr:
    parts = [part for truth in truths for part in conjuncts(truth)]
    unique = tuple(dict.fromkeys(parts))
    return ONE if not unique else unique[0] if len(unique) == 1 else AllOf(*unique)


def _at_most(expr: Expr, condition: Expr, bounded: frozenset[IndexSymbol]) -> bool:
    """Whether `condition` implies expr <= i, given that each index in `bounded` is."""
    target = _linear(expr)
    if target is None:
        return False
    for case in _cases(condition):
        facts = [fact for truth in case for fact in _facts(truth)]
        if not _implied(target, facts, bounded):
            return False
    return True


Linear = dict[Expr | None, Rational]


def _linear(expr: Expr) -> Linear | None:
    """Coefficients by index or size, with the constant under None; None where it is not linear."""
    out: Linear = {}
    expr = expr.args[0] if isinstance(expr, Computed) else expr
    for term in expr.args if isinstance(expr, Add) else (expr,):
        coefficient, atom = term.as_coeff_Mul()
        if atom == ONE:
            out[None] = out.get(None, Rational(0)) + coefficient
        elif all(isinstance(f, (IndexSymbol, AxisSize)) for f in factors_of(atom)):
            # A product of positions and sizes is not negative, whatever it is.
            out[atom] = out.get(atom, Rational(0)) + coefficient
        else:
            return None
    return out


def _minus(left: Linear, right: Linear) -> Linear:
    out = dict(left)
    for key, value in right.items():
        out[key] = out.get(key, Rational(0)) - value
    return {key: value for key, value in out.items() if value != 0}


def _facts(truth: Expr) -> Iterable[Linear]:
    """What a comparison says, as linear forms that are <= 0. Positions are integers, so a < b is a + 1 <= b."""
    if not isinstance(truth, Compare):
        return
    left, right = _linear(truth.args[1]), _linear(truth.args[2])
    if left is None or right is None or truth.operator == "!=":
        return
    difference = _minus(left, right)
    if truth.operator == "<":
        yield _minus(difference, {None: Rational(-1)})
    else:
        yield difference
    if truth.operator == "==":
        yield {key: -value for key, value in difference.items()}


def _cases(condition: Expr) -> Iterable[tuple[Expr, ...]]:
    """The condition as alternatives, each a conjunction of comparisons."""
    choices: list[list[tuple[Expr, ...]]] = []
    count = 1
    for part in conjuncts(condition):
        if isinstance(part, AnyOf):
            cases = [case for option in part.args for case in _cases(option)]
            if count * len(cases) > _MOST_CASES:
                continue
            count *= len(cases)
            choices.append(cases)
        else:
            choices.append([(part,)])
    for combination in product(*choices):
        yield tuple(truth for case in combination for truth in case)


def _implied(target: Linear, facts: list[Linear], bounded: frozenset[IndexSymbol]) -> bool:
    """Whether target - i <= 0 follows: subtract facts until what is left is -(something not negative).

    A depth-first search over the facts that remove a positive term, each used at most once on a way.
    """
    return _search(dict(target), facts, bounded, len(facts))


def _search(
    form: Mapping[Expr | None, Rational], facts: list[Linear], bounded: frozenset[IndexSymbol], depth: int
) -> bool:
    # What is to be shown: form <= i, i being the token computed. One bounded index with coefficient 1 is enough for i;
    # without any, 0 <= i.
    for symbol in (*(s for s in form if isinstance(s, IndexSymbol) and s in bounded and form[s] == 1), None):
        rest = {k: v for k, v in form.items() if k != symbol} if symbol is not None else dict(form)
        if _never_positive(rest):
            return True
    if depth == 0:
        return False
    for n, fact in enumerate(facts):
        # form = (form - fact) + fact and fact <= 0, so form <= form - fact.
        if any(isinstance(k, (IndexSymbol, AxisSize)) and form.get(k, 0) > 0 and v > 0 for k, v in fact.items()):
            if _search(_minus(dict(form), fact), facts[:n] + facts[n + 1 :], bounded, depth - 1):
                return True
    return False


def _never_positive(form: Mapping[Expr | None, Rational]) -> bool:
    """Whether a form is at most 0 for all positions >= 0 and sizes >= 1."""
    constant = form.get(None, Rational(0))
    for key, value in form.items():
        if key is None:
            continue
        if value > 0:
            return False
        if isinstance(key, AxisSize):
            constant += value
    return constant <= 0
