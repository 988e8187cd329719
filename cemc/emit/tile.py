"""Scalar expressions of a pair, printed for a Triton kernel."""

from __future__ import annotations

import builtins
import keyword
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from cemc.emit.arithmetic import Product, add
from cemc.emit.code import (
    BIT_AND,
    BIT_OR,
    COMPARISON,
    PRODUCT,
    Code,
    call,
    chain,
    method,
    name,
    number,
    statement,
    template,
)
from cemc.emit.names import free_name
from cemc.operations import ELEMENTWISE
from cemc.program import nodes
from cemc.program.graph import in_order, operands
from cemc.program.nodes import Node

_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))

# An expression with more operations than this gets variables for its parts.
_WEIGHT = 5

_HALF = Fraction(1, 2)


class TilePrinter:
    """Prints expressions of one kernel. `leaves`: what each leaf is called, by its name in the tile. `taken`: names
    that mean something else. `reads`: all expressions there will be, for what is needed twice is computed once."""

    def __init__(self, leaves: Mapping[str, str], taken: Sequence[str], reads: Sequence[Node]) -> None:
        self._leaves = leaves
        self._taken = {*taken, *leaves.values(), *dir(builtins), *keyword.kwlist, "tl", "triton", "torch"}
        self._uses = Counter(child.number for node in in_order(reads) for child in operands(node))
        self._uses.update(node.number for node in reads)
        self._codes: dict[int, Code] = {}
        self._lines: list[str] = []

    def lines(self, targets: Sequence[tuple[str, Node]], *, named: bool = True) -> list[str]:
        """The statements that compute each (variable, expression). Not `named`: what has a variable already gets no
        second one; `code` tells which it is."""
        self._lines = []
        for target, root in targets:
            code = self._code(root)
            if code.text != target and (named or not code.is_name):
                self._lines += statement(f"{target} = ", _bare(code), "", 0)
                if not code.is_name:
                    self._codes[root.number] = name(target)
        return self._lines

    def code(self, node: Node) -> Code:
        """The expression for a node whose parts need no variables."""
        return self._code(node)

    def _code(self, node: Node) -> Code:
        for each in in_order([node], self._codes):
            if each.number not in self._codes:
                self._codes[each.number] = self._stored(each, self._printed(each))
        return self._codes[node.number]

    def _stored(self, node: Node, code: Code) -> Code:
        if code.weight == 0 or not isinstance(node, nodes.Map):
            return code
        if self._uses[node.number] > 1 or code.weight > _WEIGHT or len(code.text) > 70:
            return self._variable(node.hint or node.operation, code)
        return code

    def _variable(self, wanted: str, code: Code) -> Code:
        wanted = _DESCRIBED.get(wanted, wanted)
        if not wanted.isascii() or not wanted.isidentifier():
            wanted = "value"
        variable, count = free_name(wanted, ()), 1
        while variable in self._taken:
            count += 1
            variable = f"{wanted}_{count}"
        self._taken.add(variable)
        self._lines += statement(f"{variable} = ", _bare(code), "", 0)
        return name(variable)

    def _named(self, node: Node) -> Code:
        """An operand that stands more than once in an expression."""
        code = self._codes[node.number]
        if code.weight:
            code = self._codes[node.number] = self._variable(
                node.hint or str(getattr(node, "operation", "value")), code
            )
        return code

    # -------------------------------------------------------------------------------------------------- operations

    def _printed(self, node: Node) -> Code:
        if isinstance(node, nodes.Number):
            return number(node.value)
        if isinstance(node, nodes.Tensor):
            return name(self._leaves[node.name])
        assert isinstance(node, nodes.Map)
        parts = [operand.node for operand in node.operands]
        codes = [self._codes[part.number] for part in parts]
        operation = node.operation
        if operation == "add":
            return add(codes)
        if operation == "mul":
            return self._product(parts)
        if operation == "pow" and isinstance(parts[1], nodes.Number):
            return self._power(parts[0], parts[1])
        if operation in _COMPARISONS:
            left, right = codes
            text = f"{left.at(BIT_OR)} {operation} {right.at(BIT_OR)}"
            return Code(text, COMPARISON, weight=1 + left.weight + right.weight)
        if operation in ("and", "or"):
            level, operator = (BIT_AND, "&") if operation == "and" else (BIT_OR, "|")
            return chain(level, codes[0], *((operator, code) for code in codes[1:]))
        if operation == "select":
            return call("tl.where", *codes)
        if operation == "real":
            return codes[0] if self._is_number(parts[0]) else method(codes[0], "to", "ACC")
        if operation == "clamp_min":
            return call("tl.maximum", *codes)
        pattern = ELEMENTWISE[operation].triton
        assert pattern is not None
        codes = [self._named(part) if pattern.count(f"{{{n}}}") > 1 else codes[n] for n, part in enumerate(parts)]
        return template(pattern, *codes)

    def _is_number(self, node: Node) -> bool:
        """Whether a node is a number of Python in the kernel too."""
        return not any(isinstance(n, nodes.Tensor) and not n.name.startswith("number") for n in in_order([node]))

    def _product(self, parts: Sequence[Node]) -> Code:
        product = Product()
        for part in parts:
            scalar = self._is_number(part)
            if isinstance(part, nodes.Number):
                product.coefficient *= part.value
            elif (divisor := self._divisor(part)) is not None:
                (product.scalar_divisors if scalar else product.divisors).append(divisor)
            else:
                (product.scalars if scalar else product.factors).append(self._codes[part.number])
        return product.code()

    def _divisor(self, node: Node) -> Code | None:
        """u for a factor 1 / u that has no variable."""
        if not isinstance(node, nodes.Map) or node.operation != "pow" or self._codes[node.number].is_name:
            return None
        base, exponent = (operand.node for operand in node.operands)
        return self._codes[base.number] if isinstance(exponent, nodes.Number) and exponent.value == -1 else None

    def _power(self, base: Node, exponent: nodes.Number) -> Code:
        """A power with a literal exponent, by multiplication where that is whole."""
        value = exponent.value
        if value == _HALF:
            return call("_sqrt", self._codes[base.number])
        if value == -_HALF:
            return call("tl.rsqrt", self._codes[base.number])
        if value.denominator != 1:
            u = self._codes[base.number]
            return call("tl.exp", chain(PRODUCT, number(value), ("*", call("tl.log", u))))
        if value == -1:
            return chain(PRODUCT, name("1.0"), ("/", self._codes[base.number]))
        whole = abs(int(value))
        result = self._whole_power(self._named(base), whole)
        return result if value > 0 else chain(PRODUCT, name("1.0"), ("/", result))

    def _whole_power(self, base: Code, exponent: int) -> Code:
        if exponent == 1:
            return base
        half = self._whole_power(base, exponent // 2)
        if half.weight:
            half = self._variable("power", half)
        square = chain(PRODUCT, half, ("*", half))
        return chain(PRODUCT, square, ("*", base)) if exponent % 2 else square


def _bare(code: Code) -> Code:
    """An expression without brackets all round it, which alone on its line it does not need."""
    if not code.text.startswith("("):
        return code
    depth = 0
    for position, character in enumerate(code.text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return replace(code, text=code.text[1:-1]) if position == len(code.text) - 1 else code
    return code


_DESCRIBED = {"add": "total", "mul": "product", "select": "chosen", "pow": "power", "and": "both", "or": "either"}

for _operation in _COMPARISONS:
    _DESCRIBED[_operation] = "truth"
