"""How far back a sum over tokens reaches: from the conditions it runs under, a bound on the tokens it reads before
those of its rows.

A bound is proved like causality: conditions are linear inequalities of positions and sizes (`i - w < j`), which are
added up until j >= i - b is left, b made of header names and numbers alone. Where nothing is proved, all tokens are
kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from cemc.program.nodes import (
    Align,
    Einsum,
    FirstMax,
    Map,
    Node,
    Number,
    Operand,
    Positions,
    Rotate,
    Size,
    Weights,
)

# Alternatives (`or`) multiply; beyond this many combinations a condition is not used.
_MOST_CASES = 64

# Inequalities tried to prove one bound.
_MOST_TRIES = 500

# A product of positions (by number of their place in a frame) and sizes (by name).
Monomial = tuple[int | str, ...]
Linear = dict[Monomial, Fraction]


@dataclass(frozen=True)
class Window:
    """At most as many tokens back as the largest of `bounds`, and at least 0: each a sum of whole numbers times
    products of header names, in order."""

    bounds: tuple[tuple[tuple[tuple[str, ...], int], ...], ...]

    def __bool__(self) -> bool:
        """It is of columns: not a row."""
        return False


# What is asked for along a dimension: True for rows; False for all columns, or an axis of no tokens; some columns.
Role = bool | Window


def union(windows: Iterable[Window]) -> Window:
    """The window that has all of `windows` in it; there is at least one."""
    return Window(tuple(sorted({bound for window in windows for bound in window.bounds})))


@dataclass(frozen=True)
class Place:
    """A position of a frame: its axis, whether that is of tokens, and what is asked for along it."""

    axis: str
    token: bool
    role: Role


@dataclass(frozen=True)
class Either:
    """At least one of several lists of conditions holds; none is empty."""

    options: tuple[tuple[Condition, ...], ...]


# A truth placed in a frame, or alternatives of such.
Condition = Operand | Either


class Reach:
    """Finds windows. `runtime`: the axes whose length only a call tells."""

    def __init__(self, runtime: frozenset[str]) -> None:
        self._runtime = runtime
        self._support: dict[int, tuple[Condition, ...]] = {}

    # -------------------------------------------------------------------------------------------- where it is not 0

    def support(self, node: Node) -> tuple[Condition, ...]:
        """Conditions placed in the dims of `node` that all hold wherever it is not 0."""
        if node.number not in self._support:
            self._support[node.number] = tuple({_key(each): each for each in self._find(node)}.values())
        return self._support[node.number]

    def _find(self, node: Node) -> Iterable[Condition]:
        if node.kind == "truth":
            return (Operand(node, tuple(range(len(node.dims)))),)
        match node:
            case Weights() | FirstMax():
                return () if node.mask is None else (node.mask,)
            case Map() if node.operation in ("mul", "real"):
                return [each for operand in node.operands for each in self.placed(operand)]
            case Map() if node.operation == "select":
                truth, then, otherwise = node.operands
                chosen = (*self.placed(truth), *self.placed(then))
                if isinstance(otherwise.node, Number) and otherwise.node.value == 0:
                    return chosen
                return _either([chosen, self.placed(otherwise)])
            case Map() if node.operation == "add":
                return _either([self.placed(operand) for operand in node.operands])
            case Einsum():
                places = {p: n for n, p in enumerate(node.output)}
                return _kept([each for operand in node.operands for each in self.placed(operand)], places)
            case Align() | Rotate():
                last = {len(node.dims) - 1} if isinstance(node, Rotate) else set()
                return _kept(self.placed(node.operand), {n: n for n in range(len(node.dims)) if n not in last})
        return ()

    def placed(self, operand: Operand) -> tuple[Condition, ...]:
        """The support of an operand, in the frame of its user."""
        return _kept(self.support(operand.node), dict(enumerate(operand.at)))

    # --------------------------------------------------------------------------------------------------- conditions

    def columns(self, truths: Iterable[Condition], frame: Sequence[Place], wanted: Sequence[int]) -> list[Role]:
        """The window of each frame position in `wanted` under conditions placed in the frame; False for all tokens."""
        facts = list(truths)
        return [self._column(position, facts, frame) for position in wanted] if facts else [False for _ in wanted]

    def _column(self, position: int, truths: list[Condition], frame: Sequence[Place]) -> Role:
        found = []
        for case in _cases(truths):
            bound = self._lowest({(position,): Fraction(-1)}, [f for t in case for f in self._facts(t)], frame)
            if bound is None:
                return False
            found.append(bound)
        return union(found)

    def subscript(self, operand: Operand, frame: Sequence[Place]) -> Role:
        """The window of a table read at a computed subscript."""
        form = self._linear(operand)
        bound = None if form is None else self._lowest({key: -value for key, value in form.items()}, [], frame)
        return False if bound is None else bound

    def _linear(self, operand: Operand) -> Linear | None:
        """A number as a linear form of positions and sizes; None where it is none, or a size is known only at run
        time."""
        node = operand.node
        match node:
            case Number():
                return {(): node.value} if node.value else {}
            case Size():
                return None if node.axis in self._runtime else {(node.axis,): Fraction(1)}
            case Positions():
                return {operand.at: Fraction(1)}
            case Map() if node.operation in ("add", "mul", "real"):
                inner = [Operand(o.node, tuple(operand.at[p] for p in o.at)) for o in node.operands]
                forms = [self._linear(o) for o in inner]
                known = [form for form in forms if form is not None]
                if len(known) < len(forms):
                    return None
                return _product(known) if node.operation == "mul" else _total(known)
        return None

    def _facts(self, truth: Operand) -> Iterable[Linear]:
        """What a comparison says, as linear forms that are <= 0. Positions are whole, so a < b is a + 1 <= b."""
        node = truth.node
        if not isinstance(node, Map) or node.operation not in ("<", "<=", ">", ">=", "=="):
            return
        sides = [Operand(o.node, tuple(truth.at[p] for p in o.at)) for o in node.operands]
        if any(side.node.kind != "integer" for side in sides):
            return
        left, right = (self._linear(side) for side in sides)
        if left is None or right is None:
            return
        if node.operation in (">", ">="):
            left, right = right, left
        difference = _total([left, _scaled(right, -1)])
        yield _total([difference, {(): Fraction(1)}]) if node.operation in ("<", ">") else difference
        if node.operation == "==":
            yield _scaled(difference, -1)

    def _lowest(self, form: Linear, facts: list[Linear], frame: Sequence[Place]) -> Window | None:
        """The window b for which form <= -(first row) + b follows from `facts`; None where none is found."""
        tries = [0]

        def search(form: Linear, left: list[Linear]) -> Window | None:
            done = _closed(form, frame)
            if done is not None:
                return done
            tries[0] += 1
            for n, fact in enumerate(left):
                # form = (form - fact) + fact and fact <= 0, so form <= form - fact.
                if tries[0] < _MOST_TRIES and any(_place(k) and v * fact.get(k, 0) > 0 for k, v in form.items()):
                    done = search(_total([form, _scaled(fact, -1)]), left[:n] + left[n + 1 :])
                    if done is not None:
                        return done
            return None

        return search(form, facts)


def _closed(form: Linear, frame: Sequence[Place]) -> Window | None:
    """The window b for which form <= -(first row) + b whatever the positions are, if one place with coefficient -1 is a
    row, or a column of a window."""
    for monomial, coefficient in form.items():
        if coefficient != -1 or len(monomial) != 1 or not isinstance(monomial[0], int):
            continue
        anchor = frame[monomial[0]]
        if not anchor.token or anchor.role is False:
            continue
        rest = _largest({k: v for k, v in form.items() if k != monomial}, frame)
        if rest is None:
            continue
        before = anchor.role.bounds if isinstance(anchor.role, Window) else ((),)
        bounds = [_bound(_total([rest, {tuple(k): Fraction(v) for k, v in each}])) for each in before]
        if all(bound is not None for bound in bounds):
            return _window([bound for bound in bounds if bound is not None])
    return None


def _largest(form: Linear, frame: Sequence[Place]) -> Linear | None:
    """What a form is at most, without positions: these go from 0 to the size of their axis less 1. None where that is
    not known before the call."""
    out: Linear = {}
    for monomial, coefficient in form.items():
        places = [p for p in monomial if isinstance(p, int)]
        if not places:
            out = _total([out, {monomial: coefficient}])
        elif coefficient > 0:
            if any(frame[p].token for p in places):
                return None
            sizes: list[Linear] = [{(frame[p].axis,): Fraction(1), (): Fraction(-1)} for p in places]
            rest = tuple(p for p in monomial if not isinstance(p, int))
            out = _total([out, _product([{rest: coefficient}, *sizes])])
    return out


Bound = tuple[tuple[tuple[str, ...], int], ...]


def _bound(form: Linear) -> Bound | None:
    """A form of sizes with whole coefficients."""
    if any(value.denominator != 1 for value in form.values()):
        return None
    return tuple(sorted((tuple(str(name) for name in key), int(value)) for key, value in form.items()))


def _window(bounds: Sequence[Bound]) -> Window:
    """A bound that may be negative for some sizes, all at least 1, has 0 beside it."""
    known = set(bounds)
    for bound in bounds:
        least = sum(value for _, value in bound)
        if least < 0 or any(value < 0 for names, value in bound if names):
            known.add(())
    if len(known) > 1:
        # Plain numbers: only the largest counts.
        numbers = [bound for bound in known if all(not names for names, _ in bound)]
        largest = max(numbers, key=lambda bound: sum(value for _, value in bound), default=None)
        known = {bound for bound in known if bound not in numbers or bound == largest}
    return Window(tuple(sorted(known)))


def _place(monomial: Monomial) -> bool:
    return any(isinstance(part, int) for part in monomial)


def _total(forms: Iterable[Mapping[Monomial, Fraction]]) -> Linear:
    out: Linear = {}
    for form in forms:
        for key, value in form.items():
            out[key] = out.get(key, Fraction(0)) + value
    return {key: value for key, value in out.items() if value}


def _scaled(form: Linear, factor: int) -> Linear:
    return {key: factor * value for key, value in form.items()}


def _product(forms: Iterable[Linear]) -> Linear:
    out: Linear = {(): Fraction(1)}
    for form in forms:
        out = _total({tuple(sorted(a + b, key=_order)): x * y} for a, x in out.items() for b, y in form.items())
    return out


def _order(part: int | str) -> tuple[bool, str, int]:
    return (isinstance(part, str), part if isinstance(part, str) else "", part if isinstance(part, int) else 0)


def _cases(conditions: Iterable[Condition]) -> list[list[Operand]]:
    """Conditions that hold together as alternatives, each a list of comparisons that hold together."""
    choices: list[list[list[Operand]]] = []
    count = 1
    for each in conditions:
        if isinstance(each, Either):
            cases = [case for option in each.options for case in _cases(option)]
        elif isinstance(each.node, Map) and each.node.operation in ("and", "or"):
            inner = [Operand(o.node, tuple(each.at[p] for p in o.at)) for o in each.node.operands]
            cases = _cases(inner) if each.node.operation == "and" else [case for o in inner for case in _cases([o])]
        else:
            cases = [[each]]
        if count * len(cases) <= _MOST_CASES:
            count *= len(cases)
            choices.append(cases)
    return [[truth for case in combination for truth in case] for combination in product(*choices)]


def _either(options: Sequence[Sequence[Condition]]) -> Iterable[Condition]:
    """What holds where one of several lists of conditions does: those all have, and the rest as alternatives."""
    shared = set.intersection(*({_key(each) for each in option} for option in options))
    common = [each for each in options[0] if _key(each) in shared]
    rest = tuple(tuple(each for each in option if _key(each) not in shared) for option in options)
    return common if any(not option for option in rest) else (*common, Either(rest))


def _kept(conditions: Iterable[Condition], places: Mapping[int, int]) -> tuple[Condition, ...]:
    """The conditions that mention only positions in `places`, moved to these."""
    found: list[Condition] = []
    for each in conditions:
        if isinstance(each, Either):
            options = tuple(_kept(option, places) for option in each.options)
            if all(options):
                found.append(Either(options))
        elif all(p in places for p in each.at):
            found.append(Operand(each.node, tuple(places[p] for p in each.at)))
    return tuple(found)


def _key(condition: Condition) -> tuple[object, ...]:
    """Equal for equal conditions."""
    if isinstance(condition, Either):
        return tuple(tuple(_key(each) for each in option) for option in condition.options)
    return (condition.node.number, condition.at)


Make = Callable[..., Node]


def size_of(window: Window, make: Make) -> Node:
    """The window as a whole number: a node made of sizes. `make`: the factory of nodes."""
    numbers = [_node(bound, make) for bound in window.bounds]
    largest = numbers[0]
    for each in numbers[1:]:
        largest = _map("max", (largest, each), make)
    return largest


def _node(bound: Bound, make: Make) -> Node:
    terms = []
    # Sizes first, so that it reads `window - 1`.
    for names, value in sorted(bound, key=lambda term: (not term[0], term)):
        factors: list[Node] = [make(Size, dims=(), batched=False, kind="integer", axis=name) for name in names]
        if value != 1 or not factors:
            factors.insert(0, make(Number, dims=(), batched=False, kind="integer", value=Fraction(value)))
        terms.append(factors[0] if len(factors) == 1 else _map("mul", tuple(factors), make))
    if not terms:
        return make(Number, dims=(), batched=False, kind="integer", value=Fraction(0))
    return terms[0] if len(terms) == 1 else _map("add", tuple(terms), make)


def _map(operation: str, inner: tuple[Node, ...], make: Make) -> Node:
    operands = tuple(Operand(node, ()) for node in inner)
    return make(Map, dims=(), batched=False, kind="integer", operation=operation, operands=operands, function=None)
