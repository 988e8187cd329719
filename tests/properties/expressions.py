"""Random well-typed expressions, drawn with Hypothesis: what `strategy` fills its files with.

Expressions are written from the shape wanted downwards, so that every one type-checks. Values stay moderate
(denominators and arguments of log and sqrt are kept off 0, exponents are bounded), so that two correct evaluations
agree far better than 1e-9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Axes = tuple[str, ...]

MAX_INDICES = 4
INDEX_NAMES = ("i", "j", "k", "l")
RUNTIME = ("token", "source")
SMOOTH = ("tanh", "sin", "cos", "sigmoid", "softplus", "silu", "gelu", "erf", "square")
KINKED = ("abs", "relu")
# Each is finite and moderate for a moderate argument.
GUARDED = ("exp(tanh({}))", "exp(-square({}))", "log(1.5 + square({}))", "sqrt(0.3 + square({}))", "log(1.2 + sin({}))")


@dataclass(frozen=True)
class Table:
    """Something that is subscripted. `role`: state, given, label (integers), parameter, definition, or local (to the
    update block)."""

    name: str
    axes: Axes
    role: str


@dataclass(frozen=True)
class Scope:
    """What may be written where. `indices`: name to axis. `open_states`: states may stand outside `given` (not so where
    the gradient is by a definition of them). `budget`: how many more levels an expression may have."""

    tables: tuple[Table, ...]
    indices: dict[str, str]
    open_states: bool
    budget: int
    held: bool = False

    def deeper(self, by: int = 1) -> Scope:
        return replace(self, budget=self.budget - by)

    def with_indices(self, new: dict[str, str]) -> Scope:
        return replace(self, indices={**self.indices, **new})

    def readable(self) -> list[Table]:
        """Tables whose entries may be written here."""
        return [table for table in self.tables if table.role != "state" or self.open_states or self.held]


@dataclass
class Writer:
    """Writes expressions; remembers which indices say their own axis by standing alone in a subscript."""

    draw: Callable[[st.SearchStrategy[Any]], Any]
    header: tuple[str, ...]
    even: frozenset[str]
    foreign: bool = True  # subscripts made of indices of other axes
    functions: tuple[str, ...] = ()
    binary_functions: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    plain: set[str] = field(default_factory=set)
    filled: set[str] = field(default_factory=set)  # axes for which a parameter `fill_AXIS` is written

    # ------------------------------------------------------------------------------------------------- choices

    def pick(self, options: Sequence[T]) -> T:
        chosen: T = self.draw(st.sampled_from(list(options)))
        return chosen

    def chance(self, one_in: int) -> bool:
        """Shrinks to False."""
        return bool(self.draw(st.integers(0, one_in - 1)) == one_in - 1)

    def number(self) -> str:
        return self.pick(["1", "0.5", "2", "0.1", "1.5", "0.25", "3", "1e-1"])

    # ------------------------------------------------------------------------------------------- expressions

    def expression(self, scope: Scope, shape: Axes) -> str:
        """An expression with these axes left."""
        if len(shape) == 0:
            return self.scalar(scope)
        if len(shape) == 1:
            return self.vector(scope, shape[0])
        return self.matrix(scope, shape)

    def scalar(self, scope: Scope) -> str:
        if scope.budget <= 0:
            return self.scalar_leaf(scope)
        inner = scope.deeper()
        axis = self.pick(self.header)
        forms: list[Callable[[], str]] = [
            lambda: self.scalar_leaf(scope),
            lambda: f"({self.scalar(inner)} {self.pick(['+', '-', '*'])} {self.scalar(inner)})",
            lambda: f"{self.pick(SMOOTH)}({self.scalar(inner)})",
            lambda: f"dot({self.vector(inner, axis)}, {self.vector(inner, axis)})",
            *[lambda: self.reduction(scope, ())] * 5,
            lambda: f"{self.pick(['sum', 'mean', 'logsumexp', 'max', 'norm2'])}({self.vector(inner, axis)})",
            lambda: self.pick(GUARDED).format(self.scalar(inner)),
            lambda: f"given({self.scalar(replace(inner, held=True))})",
            lambda: f"{self.scalar(inner)} / (1 + {self.pick(['square', 'abs', 'sigmoid'])}({self.scalar(inner)}))",
            lambda: f"where({self.condition(inner)}, {self.scalar(inner)}, {self.scalar(inner)})",
            lambda: self.function_of(lambda: self.scalar(inner)),
            lambda: f"integral[{self.integrand()}]({self.scalar(inner)})",
            lambda: f"{self.pick(KINKED)}({self.scalar(inner)})",
            lambda: f"{self.pick(['min', 'max'])}({self.scalar(inner)}, {self.scalar(inner)})",
            lambda: f"sin({self.scalar(inner)})^{self.pick(['2', '3'])}",
            lambda: f"({self.vector(inner, axis)} @ {self.vector(inner, axis)})",
            lambda: f"{self.vector(inner, axis)}[{self.subscript(scope, axis)}]",
            lambda: f"-{self.scalar(inner)}",
            lambda: f"log({self.reduction(inner, (), 'sum', 'exp({})')})",
            lambda: f"input({self.scalar(replace(inner, held=True))})",
            lambda: f"log({self.reduction(inner, (), 'sum', self.factor(scope) + ' * exp({})')})",
            lambda: f"log(exp({self.scalar_leaf(scope)}) + {self.reduction(inner, (), 'sum', 'exp({})')})",
            lambda: f"(1 + square({self.scalar(inner)}))^{self.pick(['(-1)', '0.5', '(-0.5)', '(1 / 3)'])}",
            lambda: f"2^tanh({self.scalar(inner)})",
            lambda: f"norm2({self.vector(inner, axis)} - {self.vector(inner, axis)})",
        ]
        return f"({self.pick(forms)()})"

    def scalar_leaf(self, scope: Scope) -> str:
        forms: list[Callable[[], str]] = [lambda: self.access(scope, ()), self.number]
        if scope.indices:
            forms.append(lambda: f"0.3 * {self.pick(sorted(scope.indices))}")
        if self.constants:
            forms.append(lambda: self.pick(self.constants))
        forms.append(lambda: f"1 / {self.pick(self.header)}")
        labels = [table for table in scope.tables if table.role == "label"]
        if labels:
            forms.append(lambda: f"0.2 * {self.label(scope, self.pick(labels))}")
        return f"({self.pick(forms)()})"

    def vector(self, scope: Scope, axis: str) -> str:
        if scope.budget <= 0:
            return self.access(scope, (axis,))
        inner = scope.deeper()
        other = self.pick(self.header)
        forms: list[Callable[[], str]] = [
            lambda: self.access(scope, (axis,)),
            lambda: f"({self.scalar(inner)} * {self.vector(inner, axis)})",
            lambda: f"({self.vector(inner, axis)} {self.pick(['+', '-', '*'])} {self.vector(inner, axis)})",
            lambda: f"{self.pick(SMOOTH)}({self.vector(inner, axis)})",
            lambda: f"({self.matrix(inner, (axis, other))} @ {self.vector(inner, other)})",
            lambda: f"({self.vector(inner, other)} @ {self.matrix(inner, (other, axis))})",
            lambda: f"{self.pick(['softmax', 'rmsnorm', 'layernorm', 'normalize'])}({self.vector(inner, axis)})",
            lambda: f"{self.pick(['rmsnorm', 'layernorm', 'normalize'])}({self.vector(inner, axis)}, 0.1)",
            *[lambda: self.reduction(scope, (axis,))] * 3,
            lambda: f"given({self.vector(replace(inner, held=True), axis)})",
            lambda: f"where({self.condition(inner)}, {self.vector(inner, axis)}, {self.vector(inner, axis)})",
            lambda: self.function_of(lambda: self.vector(inner, axis)),
            lambda: f"integral[{self.integrand()}]({self.vector(inner, axis)})",
            lambda: f"{self.matrix(inner, (other, axis))}[{self.subscript(scope, other)}]",
            lambda: f"({self.vector(inner, axis)} + {self.scalar(inner)})",
            lambda: f"{self.pick(['min', 'max'])}({self.vector(inner, axis)}, {self.vector(inner, axis)})",
            lambda: f"{self.pick(KINKED)}({self.vector(inner, axis)})",
            lambda: f"input({self.vector(replace(inner, held=True), axis)})",
        ]
        if axis in self.even:
            base = self.pick(["", "", ", 50"])
            forms.append(lambda: f"rope({self.vector(inner, axis)}, {self.position(scope)}{base})")
        return self.pick(forms)()

    def matrix(self, scope: Scope, shape: Axes) -> str:
        rows, columns = shape
        inner = scope.deeper()
        forms: list[Callable[[], str]] = []
        if self.tables_for(scope, shape):
            forms.append(lambda: self.access(scope, shape))
        if scope.budget > 0 or not forms:
            flat = inner if scope.budget > 0 else scope
            forms.append(lambda: f"outer({self.vector(flat, rows)}, {self.vector(flat, columns)})")
        if scope.budget > 0:
            middle = self.pick(self.header)
            forms += [
                lambda: f"({self.matrix(inner, (columns, rows))}).T",
                lambda: f"({self.scalar(inner)} * {self.matrix(inner, shape)})",
                lambda: f"({self.matrix(inner, shape)} {self.pick(['+', '-', '*'])} {self.matrix(inner, shape)})",
                lambda: f"({self.matrix(inner, (rows, middle))} @ {self.matrix(inner, (middle, columns))})",
                lambda: f"tanh({self.matrix(inner, shape)})",
                lambda: self.reduction(scope, shape),
                lambda: f"where({self.condition(inner)}, {self.matrix(inner, shape)}, {self.matrix(inner, shape)})",
                lambda: f"given({self.matrix(replace(inner, held=True), shape)})",
            ]
        return self.pick(forms)()

    def function_of(self, argument: Callable[[], str]) -> str:
        """A declared function of one or two arguments; a sum of two where none is declared."""
        names = [*self.functions, *self.binary_functions]
        if not names:
            return f"({argument()} + {argument()})"
        name = self.pick(names)
        count = 2 if name in self.binary_functions else 1
        return f"{name}({', '.join(argument() for _ in range(count))})"

    def factor(self, scope: Scope) -> str:
        """A factor of an exponential that has no logarithm, as it may be 0."""
        return f"{self.pick(['square', 'relu', 'abs'])}({self.scalar_leaf(scope)})"

    def integrand(self) -> str:
        smooth = ["silu", "tanh", "sigmoid", "gelu", "sin", "softplus", "square", "erf"]
        return self.pick([*smooth, "relu", *self.functions])

    # ---------------------------------------------------------------------------------------------- subscripts

    def tables_for(self, scope: Scope, shape: Axes) -> list[Table]:
        """Tables that leave `shape` when their other, leading, axes are subscripted; run-time axes always are."""
        found = []
        for table in scope.readable():
            leading = table.axes[: len(table.axes) - len(shape)]
            if table.axes[len(leading) :] == shape and not set(shape) & set(RUNTIME) and table.role != "label":
                found.append(table)
        return found

    def access(self, scope: Scope, shape: Axes) -> str:
        """An entry or slice; a state inside the scope's rules, or held."""
        tables = self.tables_for(scope, shape)
        hidden = [] if scope.held else self.tables_for(replace(scope, held=True), shape)
        only_held = [table for table in hidden if table not in tables]
        if not tables and not only_held:
            if not shape:
                return self.number()
            self.filled.add(shape[0])
            return f"fill_{shape[0]}"
        table = self.pick([*tables, *only_held])
        leading = table.axes[: len(table.axes) - len(shape)]
        text = table.name
        if leading:
            text += f"[{', '.join(self.subscript(scope, axis) for axis in leading)}]"
        return f"given({text})" if table in only_held else text

    def subscript(self, scope: Scope, axis: str) -> str:
        here = [name for name, its in scope.indices.items() if its == axis]
        forms: list[Callable[[], str]] = []
        if here:
            forms += [lambda: self.bare(self.pick(here))] * 6
            forms.append(lambda: f"{self.pick(here)} {self.pick(['-', '+'])} {self.pick(['1', '2'])}")
            forms.append(lambda: f"{self.pick(['2 * ', '1 - ', 'h - 1 - ', '3 - 2 * '])}{self.pick(here)}")
            forms.append(lambda: f"{self.pick(here)} - {self.pick(sorted(scope.indices) if self.foreign else here)}")
        else:
            forms.append(lambda: self.pick(["0", "1"]))
        labels = [table for table in scope.tables if table.role == "label"]
        if labels and scope.budget > 0:
            forms.append(lambda: self.label(scope, self.pick(labels)))
        if scope.indices and self.foreign:
            forms.append(lambda: f"{self.pick(sorted(scope.indices))}{self.pick([' + 0', ' + 0 * d', ' - 1', ' + 1'])}")
        return self.pick(forms)()

    def label(self, scope: Scope, table: Table) -> str:
        return f"{table.name}[{', '.join(self.subscript(scope.deeper(9), axis) for axis in table.axes)}]"

    def bare(self, index: str) -> str:
        self.plain.add(index)
        return index

    def position(self, scope: Scope) -> str:
        forms: list[Callable[[], str]] = [lambda: self.pick(["1", "2"])]
        if scope.indices:
            forms += [lambda: self.pick(sorted(scope.indices))] * 3
            forms.append(lambda: f"{self.pick(sorted(scope.indices))} - {self.pick(sorted(scope.indices))}")
        times = [t for t in scope.tables if t.role == "given" and len(t.axes) == 1 and t.axes[0] in RUNTIME]
        if times:
            table = self.pick(times)
            forms.append(lambda: f"{table.name}[{self.subscript(scope, table.axes[0])}]")
        return self.pick(forms)()

    # ---------------------------------------------------------------------------------- reductions, conditions

    def reduction(self, scope: Scope, shape: Axes, kind: str | None = None, body: str = "{}") -> str:
        """A reduction over one or two new indices; without room for one, a leaf."""
        free = [name for name in INDEX_NAMES if name not in scope.indices]
        if not free or scope.budget <= 0:
            text = self.expression(scope.deeper(9), shape)
            return body.format(f"tanh({text})") if body != "{}" else text
        kind = kind or self.pick(["sum", "mean", "logsumexp", "max", "sum", "logsumexp"])
        axes = sorted({axis for table in scope.tables for axis in table.axes})
        new: dict[str, str] = {}
        binders = {}
        for name in free[: 2 if self.chance(4) else 1]:
            seen = scope.with_indices(new)
            axis = self.pick(axes)
            partners = [other for other, its in seen.indices.items() if its == axis]
            new[name] = axis
            binders[name] = self.binder(name, partners)
        outer_plain, self.plain = self.plain, set()
        inner = scope.with_indices(new).deeper()
        text = self.expression(inner, shape)
        conditions = [self.condition(inner)] if self.chance(4) else []
        written = []
        for name, chain in binders.items():
            # A chain gives the index its axis only where nothing else compares it with another axis.
            if chain and name in self.plain:
                written.append(chain)
            else:
                implied = name in self.plain and self.chance(2)
                written.append(name if implied else f"{name} in {new[name]}")
                conditions += [chain] if chain else []
        self.plain = outer_plain | (self.plain - set(new))
        if body != "{}":
            text = body.format(f"tanh({text})")
        suffix = f" if {' and '.join(conditions)}" if conditions else ""
        return f"{kind}[{', '.join(written)}{suffix}]({text})"

    def binder(self, name: str, partners: list[str]) -> str:
        """A comparison with an index of the same axis, or none."""
        if not partners:
            return ""
        partner = self.pick(partners)
        return self.pick(
            [
                f"{name} <= {partner}",
                f"{name} < {partner}",
                f"{name} != {partner}",
                f"{partner} - 2 < {name} <= {partner}",
                "",
            ]
        )

    def condition(self, scope: Scope) -> str:
        forms: list[Callable[[], str]] = [lambda: f"{self.pick(self.header)} > 1"]
        indices = sorted(scope.indices)
        operator = self.pick(["<", "<=", ">", ">=", "==", "!="])
        if indices:
            forms += [
                lambda: f"{self.pick(indices)} {operator} {self.pick(indices)} + {self.pick(['0', '1', '2'])}"
            ] * 2
            forms.append(lambda: f"{self.pick(indices)} {operator} {self.pick(['0', '1', '2'])}")
        labels = [table for table in scope.tables if table.role == "label"]
        if labels:
            forms.append(
                lambda: f"{self.label(scope, self.pick(labels))} {operator} {self.label(scope, self.pick(labels))}"
            )
            if indices:
                forms.append(lambda: f"{self.pick(indices)} {operator} {self.label(scope, self.pick(labels))}")
        forms.append(lambda: f"{self.access(scope, ())} {self.pick(['<', '>'])} 0.123")
        if scope.budget > 0:
            inner = scope.deeper()
            forms += [
                lambda: f"({self.condition(inner)} {self.pick(['and', 'or'])} {self.condition(inner)})",
                lambda: f"not ({self.condition(inner)})",
            ]
        return self.pick(forms)()
