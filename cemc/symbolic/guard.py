"""Makes the operand of a singular function safe where a condition does not hold.

`where(x > 0, log(x), 0)` selects the right value, but the derivative of the branch not taken is 0 * (1/0), a NaN, when
autograd multiplies through it. So the operand is selected before the function: log(where(x > 0, x, 1)). The same for
what a mask leaves out of a sum, log-sum-exp or maximum. Definitions in which a singular function stands are written
out where they are used under a condition."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sympy import Add, Mul, Pow
from sympy.core.basic import Basic

from cemc.notation.nodes import (
    ONE,
    TRUTHS,
    ZERO,
    Apply,
    Branch,
    Entry,
    Expr,
    FirstMaximum,
    Held,
    IndexSymbol,
    Maximum,
    Select,
    Sum,
    Weight,
    all_of,
    conjuncts,
    negation,
)
from cemc.notation.walk import factors_of, postorder, rebuild, substitute
from cemc.symbolic.normalise import reachable
from cemc.symbolic.support import Support
from cemc.symbolic.tables import Tables

# Definitions written out for one energy: each of many that reads the one before twice would be twice as long.
_MOST_WRITTEN_OUT = 1_000

# Functions that are not finite, or overflow, for some argument, and an argument for which they are well-behaved.
_SAFE: dict[str, Expr] = {"log": ONE, "sqrt": ONE, "sqrt_slope": ONE, "rsqrt": ONE, "pow": ONE, "exp": ZERO}


def guard(tables: Tables, roots: Iterable[str]) -> None:
    """Guards every table that `roots` need, in place."""
    guarded = _Guard(tables)
    for name in reachable(tables, roots):
        table = tables[name]
        tables.replace(replace(table, body=guarded.expr(table.body, ONE)))


class _Guard:
    def __init__(self, tables: Tables) -> None:
        self._tables, self._free = tables, tables.free
        self._known: dict[tuple[Basic, Expr], Basic] = {}
        self._singular: dict[str, bool] = {}
        self._risks: dict[Basic, bool] = {}
        self._poles: dict[Basic, bool] = {}
        self._support = Support(tables)
        self._left = _MOST_WRITTEN_OUT
        # Bodies as they are before anything is guarded: what is written out is guarded for its own place.
        self._bodies = {name: tables[name].body for name in tables.names()}

    def expr(self, node: Basic, condition: Expr) -> Basic:
        key = (node, condition)
        if key not in self._known:
            self._known[key] = self._guarded(node, condition)
        return self._known[key]

    def _guarded(self, node: Basic, condition: Expr) -> Basic:
        if isinstance(node, TRUTHS) or not node.args:
            return node
        if isinstance(node, Entry):
            if condition != ONE and node.name in self._bodies and self._is_singular(node.name):
                plain = all(isinstance(s, IndexSymbol) for s in node.subscripts)
                if plain and self._left and self._tables[node.name].origin not in ("local", "assignment"):
                    self._left -= 1
                    indices = self._tables[node.name].indices
                    mapping = dict(zip(indices, node.subscripts, strict=True))
                    written_out = substitute(self._bodies[node.name], mapping, self._free)
                    guarded = self.expr(written_out, condition)
                    # Where there was nothing to guard, the definition keeps its name.
                    return node if guarded is self.expr(written_out, ONE) else guarded
            return node
        if isinstance(node, Select):
            truth, then, otherwise = node.args
            return Select(
                truth,
                self.expr(then, all_of(condition, *conjuncts(truth))),
                self.expr(otherwise, all_of(condition, negation(truth))),
            )
        if isinstance(node, (Sum, Maximum, Branch, FirstMaximum)):
            body, truth, indices = node.args
            inner = self._joined(condition, truth, tuple(indices))
            if isinstance(node, Sum) and truth != ONE:
                return rebuild(node, (self._product_in_sum(body, truth, inner), truth, indices))
            return rebuild(node, (self.expr(body, inner), truth, indices))
        if isinstance(node, Weight):
            exponent, truth, normaliser = node.args
            # The same guard as in the normaliser, so that the two remain one value.
            return Weight(self.expr(exponent, truth), truth, self.expr(normaliser, ONE))
        if isinstance(node, Mul):
            # Where one factor is 0 by its mask, the others are multiplied by that 0, and had better be finite.
            return rebuild(node, tuple(self.expr(child, self._beside(child, node, condition)) for child in node.args))
        inner = tuple(self.expr(child, condition) for child in node.args)
        return self._safe(node, rebuild(node, inner), condition)

    def _product_in_sum(self, body: Basic, truth: Expr, condition: Expr) -> Basic:
        """A mask is laid on one factor of a sum of products; a factor with a pole is masked by itself, or the pole
        would meet the 0 of the other."""
        factors = []
        for factor in factors_of(body):
            other = [p for p in conjuncts(truth) if not self._free(p) <= self._free(factor)]
            guarded = self.expr(factor, self._beside(factor, body, condition) if isinstance(body, Mul) else condition)
            factors.append(Select(all_of(*other), guarded, ZERO) if other and self._has_pole(factor) else guarded)
        return rebuild(body, tuple(factors)) if isinstance(body, Mul) else factors[0]

    def _has_pole(self, node: Basic) -> bool:
        """Whether a function that is infinite somewhere, and not merely large, stands in `node`, tables included."""
        if node not in self._poles:
            self._poles[node] = False
            if isinstance(node, Entry):
                found = node.name in self._bodies and self._has_pole(self._bodies[node.name])
            elif _risky(node) is not None and not (isinstance(node, Apply) and node.function == "exp"):
                found = True
            elif isinstance(node, (Add, Mul, Pow, Apply, Held)):
                found = any(self._has_pole(child) for child in node.args)
            else:
                found = isinstance(node, Select) and any(self._has_pole(child) for child in node.args[1:])
            self._poles[node] = found
        return self._poles[node]

    def _beside(self, factor: Basic, product: Mul, condition: Expr) -> Expr:
        """A condition, and that no other factor of the product is 0 by its mask."""
        if not self._has_singular(factor):
            return condition
        return all_of(condition, *(self._support(other) for other in product.args if other is not factor))

    def _joined(self, condition: Expr, truth: Expr, indices: tuple[IndexSymbol, ...]) -> Expr:
        """A condition outside and one inside a binder; the former cannot speak of what the latter binds."""
        outside = [p for p in conjuncts(condition) if not self._free(p).intersection(indices)]
        return all_of(*outside, *conjuncts(truth))

    def _safe(self, old: Basic, new: Basic, condition: Expr) -> Basic:
        operand = _risky(old)
        if operand is None or condition == ONE:
            return new
        # Conditions on other indices would only make the operand a larger tensor.
        free = self._free(operand)
        parts = [p for p in conjuncts(condition) if self._free(p) and self._free(p) <= free]
        if not parts:
            return new
        if isinstance(new, Pow):
            return Pow(Select(all_of(*parts), new.args[0], ONE), new.args[1])
        assert isinstance(new, Apply)
        first = Select(all_of(*parts), new.arguments[0], _SAFE[new.function])
        return Apply(new.args[0], first, *new.arguments[1:])

    def _is_singular(self, name: str) -> bool:
        """Whether a singular function stands in a table, outside its own sums."""
        if name not in self._singular:
            self._singular[name] = False
            self._singular[name] = self._has_singular(self._bodies[name])
        return self._singular[name]

    def _has_singular(self, node: Basic) -> bool:
        if node not in self._risks:
            self._risks[node] = self._look_for_singular(node)
        return self._risks[node]

    def _look_for_singular(self, node: Basic) -> bool:
        if isinstance(node, Entry):
            return node.name in self._bodies and self._is_singular(node.name)
        if _risky(node) is not None:
            return True
        if isinstance(node, (Add, Mul, Pow, Apply, Held)):
            return any(self._has_singular(child) for child in node.args)
        return isinstance(node, Select) and any(self._has_singular(child) for child in node.args[1:])


def _risky(node: Basic) -> Expr | None:
    """The operand of a singular function that varies; None for everything else."""
    if isinstance(node, Pow) and node.args[1].is_negative:
        operand = node.args[0]
    elif isinstance(node, Apply) and node.function in _SAFE:
        operand = node.arguments[0]
        if node.function == "rsqrt" and any(term.is_Rational and term > 0 for term in Add.make_args(operand)):
            # A norm: the sum of squares has an eps added to it.
            return None
    else:
        return None
    return operand if any(isinstance(part, (Entry, IndexSymbol)) for part in postorder(operand)) else None
