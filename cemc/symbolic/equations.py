"""The derived equations in plain text, in the notation of the language, for people to read in the generated file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count, islice

from sympy import Add, Mul, Pow, Rational
from sympy.core.basic import Basic
from sympy.core.containers import Tuple

from cemc.notation.nodes import (
    ONE,
    TRUTHS,
    AllOf,
    Antiderivative,
    AnyOf,
    Apply,
    ArgumentSymbol,
    AxisSize,
    Compare,
    Computed,
    ConstantSymbol,
    Entry,
    Expr,
    FirstMaximum,
    Held,
    IndexSymbol,
    LogSumExp,
    Maximum,
    Rotation,
    Select,
    Sum,
    Weight,
    apply,
    conjuncts,
)
from cemc.notation.walk import postorder
from cemc.operations import ELEMENTWISE
from cemc.symbolic.normalise import reachable
from cemc.symbolic.tables import Table
from cemc.symbolic.update import SymbolicEnergy

_ADD, _MUL, _POW, _ATOM = 1, 2, 3, 4
# Nodes in a term that is worth a name of its own when it occurs twice.
_LONG = 12
_LETTERS = "abcefghlmnopqrstuvwyz"


@dataclass(frozen=True)
class Equations:
    """Lines of text: the definitions the energy is made of, and what is derived from them."""

    energy: tuple[str, ...]
    update: tuple[str, ...]


def equations(symbolic: SymbolicEnergy) -> Equations:
    """The equations of an energy and of its update, each table after those it uses."""
    printer = _Printer(symbolic)
    tables = symbolic.tables
    roots = [s.table for s in symbolic.statements]
    energy = [n for n in reachable(tables, symbolic.energies) if tables[n].origin in ("definition", "anonymous")]
    rest = [n for n in reachable(tables, roots) if n not in energy]
    return Equations(
        tuple(line for name in energy for line in printer.lines(tables[name])),
        tuple(line for name in rest for line in printer.lines(tables[name])),
    )


class _Printer:
    def __init__(self, symbolic: SymbolicEnergy) -> None:
        self._symbolic = symbolic
        self._names: dict[str, str] = {}
        taken = set(symbolic.tables.names()) | set(symbolic.energy.parameters) | set(symbolic.energy.states)
        taken |= set(symbolic.energy.givens) | set(symbolic.energy.constants) | set(symbolic.energy.header)
        self._taken = taken
        self._parts = (f"part{n}" for n in count(1) if f"part{n}" not in taken)
        self._symbols: dict[IndexSymbol, str] = {}
        self._shared: dict[Basic, str] = {}
        gradients = {table: f"∂({energy})/∂{wrt}" for wrt, energy, table in symbolic.gradients}
        gradients |= {t: f"∂{energy}/∂{wrt}" for wrt, energy, t in symbolic.gradients if energy.isidentifier()}
        self._names.update(gradients)

    def lines(self, table: Table) -> list[str]:
        """One table as an equation, after one for each large term it has more than once."""
        self._symbols = self._labels(table)
        self._shared = {}
        out = []
        for node in _repeated(table.body):
            indices = sorted(self._symbolic.tables.free(node), key=lambda symbol: (not symbol.name, symbol.number))
            inner = ", ".join(self._symbols[s] for s in indices)
            name = next(self._parts)
            label = f"{name}[{inner}]" if inner else name
            out.append(f"{label} = {self.text(node)}")
            self._shared[node] = label
        arrow = "←" if table.origin == "assignment" else "="
        indices_text = ", ".join(self._symbols[s] for s in table.indices)
        left = f"{self._table_name(table.name)}[{indices_text}]" if table.indices else self._table_name(table.name)
        return [*out, f"{left} {arrow} {self.text(table.body)}"]

    def _table_name(self, name: str) -> str:
        if name not in self._names:
            table = self._symbolic.tables[name] if name in self._symbolic.tables else None
            if table is None or table.origin in ("definition", "local", "assignment"):
                self._names[name] = (table.hint or name) if table else name
            elif table.origin == "adjoint" and table.hint:
                self._names[name] = f"∂E/∂{table.hint.removeprefix('grad_')}"
            else:
                self._names[name] = next(self._parts)
        return self._names[name]

    def _labels(self, table: Table) -> dict[IndexSymbol, str]:
        """A name for every index symbol of an equation: its own where it has one nobody else has, else a free
        letter."""
        symbols = list(table.indices)
        symbols += [n for n in postorder(table.body) if isinstance(n, IndexSymbol) and n not in table.indices]
        labels: dict[IndexSymbol, str] = {}
        taken: set[str] = set(self._taken)
        for symbol in dict.fromkeys(symbols):
            if symbol.name:
                label = symbol.name
                while label in labels.values():
                    label += "′"
                labels[symbol] = label
                taken.add(label)
        letters = (c + suffix for suffix in ("", *(str(n) for n in range(1, 100))) for c in _LETTERS)
        for symbol in dict.fromkeys(symbols):
            if not symbol.name:
                labels[symbol] = next(c for c in letters if c not in taken)
        return labels

    # ------------------------------------------------------------------------------------------------ text

    def text(self, expr: Basic, level: int = 0) -> str:
        """`expr` with brackets where it binds less than `level`."""
        if expr in self._shared:
            return self._shared[expr]
        text, binds = self._text(expr)
        return f"({text})" if binds < level else text

    def _text(self, expr: Basic) -> tuple[str, int]:
        match expr:
            case Rational():
                text = repr(float(expr)) if expr.q != 1 and set(str(expr.q)) <= set("10") else str(expr)
                return text, _ADD if expr.p < 0 else _MUL if "/" in text else _ATOM
            case IndexSymbol():
                return self._symbols[expr], _ATOM
            case AxisSize() | ConstantSymbol() | ArgumentSymbol():
                return expr.name, _ATOM
            case Computed():
                return self._text(expr.args[0])
            case Entry():
                subscripts = ", ".join(self.text(s) for s in expr.subscripts)
                name = self._table_name(expr.name)
                return (f"{name}[{subscripts}]" if subscripts else name), _ATOM
            case Add():
                return self._sum(expr), _ADD
            case Mul():
                return self._product(expr)
            case Pow():
                base, exponent = expr.args
                if exponent.is_negative:
                    return f"1 / {self.text(_power(base, -exponent), _POW)}", _MUL
                return f"{self.text(base, _ATOM)}^{self.text(exponent, _ATOM)}", _POW
            case Apply(function="pow"):
                base, exponent = expr.arguments
                return f"{self.text(base, _ATOM)}^{self.text(exponent, _ATOM)}", _POW
            case Apply():
                arguments = [self.text(a) for a in expr.arguments]
                return ELEMENTWISE[expr.function].text.format(*arguments), _ATOM
            case Antiderivative():
                return f"integral[{expr.name}]({self.text(expr.args[3])})", _ATOM
            case Held():
                return f"{expr.kind}({self.text(expr.value)})", _ATOM
            case Select():
                return f"where({', '.join(self.text(a) for a in expr.args)})", _ATOM
            case Compare():
                operator = {"<=": "≤", "!=": "≠"}.get(expr.operator, expr.operator)
                return f"{self.text(expr.args[1], _ADD)} {operator} {self.text(expr.args[2], _ADD)}", 0
            case AllOf():
                return " and ".join(self.text(a, 1 if isinstance(a, AnyOf) else 0) for a in expr.args), 0
            case AnyOf():
                return " or ".join(self.text(a, 1 if isinstance(a, AllOf) else 0) for a in expr.args), 0
            case Sum():
                return self._binder("sum", *expr.args), _ATOM
            case Maximum():
                return self._binder("max", *expr.args), _ATOM
            case FirstMaximum():
                return self._binder("argmax", *expr.args), _ATOM
            case LogSumExp():
                return self._logsumexp(expr), _ATOM
            case Weight():
                return self._weight(expr), _ATOM
            case Rotation():
                body, inner, outer, position, _, direction = expr.args
                name = "rope" if direction == ONE else "rope⁻¹"
                vector = f"[{self._symbols[inner]}]({self.text(body)}, {self.text(position)})"
                return f"{name}{vector}[{self._symbols[outer]}]", _ATOM
        return str(expr), 0

    def _sum(self, expr: Add) -> str:
        # Positive terms first: `x - g` rather than `-g + x`.
        terms = sorted(
            expr.args, key=lambda term: (bool(term.could_extract_minus_sign()), term.is_Rational, _depth(term))
        )
        out = self.text(terms[0], _ADD)
        for term in terms[1:]:
            negative = term.could_extract_minus_sign()
            out += f" - {self.text(-term, _MUL)}" if negative else f" + {self.text(term, _MUL)}"
        return out

    def _product(self, expr: Mul) -> tuple[str, int]:
        coefficient, rest = expr.as_coeff_Mul()
        if coefficient.is_negative:
            return f"-{self.text(-expr, _MUL)}", _ADD
        above: list[Basic] = []
        below: list[Basic] = []
        for factor in Mul.make_args(rest):
            if factor.is_Pow and factor.args[1].is_negative:
                below.append(_power(factor.args[0], -factor.args[1]))
            elif isinstance(factor, Apply) and factor.function == "rsqrt":
                below.append(apply("sqrt", factor.arguments[0]))
            else:
                above.append(factor)
        above.sort(key=_depth)
        if coefficient.p != 1 or not above:
            above.insert(0, Rational(coefficient.p))
        if coefficient.q != 1:
            below.insert(0, Rational(coefficient.q))
        top = " * ".join(self.text(f, _MUL) for f in above)
        return top + "".join(f" / {self.text(f, _POW)}" for f in below), _MUL

    def _binder(self, name: str, body: Expr, condition: Expr, indices: Iterable[IndexSymbol]) -> str:
        return f"{name}[{self._binding(condition, indices)}]({self.text(body)})"

    def _binding(self, condition: Expr, indices: Iterable[IndexSymbol]) -> str:
        """`j <= i`, or `k, j <= i if ...`: a comparison stands for the index it binds where it can."""
        left = list(conjuncts(condition))
        parts = []
        for symbol in indices:
            own = next((t for t in left if isinstance(t, Compare) and symbol in t.args[1:]), None)
            if own is not None:
                left.remove(own)
            parts.append(self._symbols[symbol] if own is None else self.text(own))
        text = ", ".join(parts)
        return text + (
            " if " + " and ".join(self.text(t, 1 if isinstance(t, AnyOf) else 0) for t in left) if left else ""
        )

    def _logsumexp(self, expr: LogSumExp) -> str:
        if len(expr.branches) == 1 and expr.branches[0].args[2]:
            return self._binder("logsumexp", *expr.branches[0].args)
        parts = []
        for branch in expr.branches:
            exponent, condition, indices = branch.args
            inner = f"exp({self.text(exponent)})"
            parts.append(f"sum[{self._binding(condition, indices)}]({inner})" if indices else inner)
        return f"log({' + '.join(parts)})"

    def _weight(self, expr: Weight) -> str:
        exponent, _, normaliser = expr.args
        if len(normaliser.branches) == 1:
            body, condition, indices = normaliser.branches[0].args
            points = _match(exponent, body, frozenset(indices))
            if points is not None and all(isinstance(points.get(s), IndexSymbol) for s in indices):
                kept = dict(self._symbols)
                self._symbols |= {s: self._symbols[points[s]] for s in indices}
                binding = self._binding(condition, indices)
                self._symbols = kept
                return f"softmax[{binding}]({self.text(exponent)})"
        mask = "" if expr.args[1] == ONE else f"[{self.text(expr.args[1])}]"
        return f"exp{mask}({self.text(exponent)} - {self.text(normaliser, _MUL)})"


def _match(point: Basic, body: Basic, bound: frozenset[IndexSymbol]) -> dict[IndexSymbol, Basic] | None:
    """What the indices `bound` in `body` have to be for it to be `point`; None if nothing makes it so."""
    found: dict[IndexSymbol, Basic] = {}
    stack = [(point, body)]
    seen: set[tuple[Basic, Basic]] = set()
    while stack:
        pair = stack.pop()
        left, right = pair
        if left is right or pair in seen:
            continue
        seen.add(pair)
        if isinstance(right, IndexSymbol) and right in bound:
            if found.setdefault(right, left) != left:
                return None
        elif left.func is not right.func or len(left.args) != len(right.args) or (not left.args and left != right):
            return None
        else:
            stack.extend(zip(left.args, right.args, strict=True))
    return found


def _repeated(body: Expr) -> list[Basic]:
    """Terms that several others have as a part and that read longer than a name, inner ones first."""
    order = list(postorder(body))
    shown: set[Basic] = {body}
    uses: Counter[Basic] = Counter()
    for node in reversed(order):
        if node in shown:
            # An integrand is called by its name.
            children = node.args[3:] if isinstance(node, Antiderivative) else node.args
            shown.update(children)
            uses.update(children)
    return [n for n in order if uses[n] > 1 and not isinstance(n, (Entry, Tuple, *TRUTHS)) and _depth(n) >= _LONG]


def _power(base: Basic, exponent: Basic) -> Basic:
    return base if exponent == ONE else Pow(base, exponent)


def _depth(expr: Basic) -> int:
    """How large an expression reads: small factors are written first."""
    return sum(1 for _ in islice(postorder(expr), 50))
