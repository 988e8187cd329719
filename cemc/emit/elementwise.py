"""Map nodes: arithmetic, comparisons, selection, and the functions of the operation table."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from cemc.emit.arithmetic import Product, add, raised
from cemc.emit.code import (
    BIT_AND,
    BIT_OR,
    COMPARISON,
    CONDITIONAL,
    Code,
    call,
    chain,
    conditional,
    invert,
    method,
    power,
    template,
)
from cemc.emit.frames import place
from cemc.operations import ELEMENTWISE
from cemc.program import nodes
from cemc.program.nodes import Node, Operand
from cemc.program.scalars import MATH

if TYPE_CHECKING:
    from cemc.emit.body import Body

_HALF = Fraction(1, 2)
_COMPARISONS = frozenset(("<", "<=", ">", ">=", "==", "!="))


class ElementwisePrinter:
    """Prints Map nodes. `_kept`: the operand to be printed in the variant in which the axes of its sum are kept."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._library, self._helper = body.context.library, body.context.helper
        self._kept: Node | None = None

    def code(self, node: nodes.Map) -> Code:
        plain = self._code(node)
        tensors = [o for o in node.operands if not self._body.is_scalar(o.node)]
        if len(tensors) != 1 or not self._body.inlined(tensors[0].node) or tensors[0].node.dims != node.dims:
            return plain
        kept = self._body.use(tensors[0].node).kept
        if kept is None:
            return plain
        self._kept = tensors[0].node
        variant = self._code(node)
        self._kept = None
        return replace(plain, kept=(kept[0], variant))

    def _code(self, node: nodes.Map) -> Code:
        operation = node.operation
        if operation == "mul":
            return self._product(node)
        if operation == "pow":
            return self._power(node)
        if operation == "integral":
            return self._body.integral(node, self._tensor(node.operands[0], node))
        if operation == "add":
            # What the layer is given first: `x + ...`.
            given = sorted(node.operands, key=lambda operand: not isinstance(operand.node, nodes.Tensor))
            return add([self._placed(operand, node) for operand in given])
        codes = [self._placed(operand, node) for operand in node.operands]
        scalar = self._body.is_scalar(node)
        if operation in _COMPARISONS:
            left, right = codes
            text = f"{left.at(BIT_OR)} {operation} {right.at(BIT_OR)}"
            return Code(text, COMPARISON, weight=1 + left.weight + right.weight)
        if operation == "select":
            return self._select(node, codes)
        if operation in ("and", "or"):
            return self._logical(node, codes)
        if operation == "real":
            return codes[0] if scalar else method(codes[0], "to", self._body.acc)
        if operation == "clamp_min":
            if scalar:
                return call(self._body.context.names.builtin("max"), *codes)
            return method(codes[0], "clamp", f"min={codes[1].text}")
        return self._function(node)

    # ----------------------------------------------------------------------------------------------------- operands

    def _placed(self, operand: Operand, node: nodes.Map) -> Code:
        if operand.node is self._kept:
            kept = self._body.use(operand.node).kept
            assert kept is not None
            return kept[1]
        return self._body.placed(operand, len(node.dims))

    def _tensor(self, operand: Operand, node: nodes.Map) -> Code:
        """An operand that must be a tensor even where it is a number."""
        return self._placed(operand, node) if operand.node is self._kept else self._body.tensor(operand, len(node.dims))

    # --------------------------------------------------------------------------------------------------- operations

    def _function(self, node: nodes.Map) -> Code:
        scalar = self._body.is_scalar(node)
        if scalar:
            pattern = MATH[node.operation]
            called = pattern.partition("(")[0]
            if "." not in called:
                pattern = pattern.replace(called, self._body.context.names.builtin(called))
        else:
            pattern = ELEMENTWISE[node.operation].torch
        codes = []
        for n, operand in enumerate(node.operands):
            if pattern.count(f"{{{n}}}") > 1:
                self._body.variable(operand.node)
            codes.append(self._placed(operand, node) if scalar or n else self._tensor(operand, node))
        return template(self._body.context.spelled(pattern), *codes)

    def _product(self, node: nodes.Map) -> Code:
        first, *others = node.operands
        if len(others) == 1 and others[0].node is first.node and others[0].at == first.at:
            if not self._body.is_scalar(first.node):
                return method(self._placed(first, node), "square")
        product = Product()
        sizes: dict[str, Code] = {}
        for operand in node.operands:
            factor = operand.node
            if isinstance(factor, nodes.Number):
                product.coefficient *= factor.value
                continue
            scalar = self._body.is_scalar(factor)
            divisor = None if operand.node is self._kept else self._divisor(operand, node)
            if divisor is None:
                (product.scalars if scalar else product.factors).append(self._placed(operand, node))
                continue
            (product.scalar_divisors if scalar else product.divisors).append(divisor)
            length = _length_divided_by(factor)
            if length is not None:
                sizes[length.axis] = divisor
        self._mean(product, sizes)
        return product.code()

    def _divisor(self, operand: Operand, node: nodes.Map) -> Code | None:
        """What to divide by, for an operand that is a negative power and has no variable of its own."""
        factor = operand.node
        if not isinstance(factor, nodes.Map) or factor.operation != "pow" or not self._body.inlined(factor):
            return None
        base, exponent = factor.operands
        if not isinstance(exponent.node, nodes.Number) or exponent.node.value >= 0:
            return None
        if self._body.is_scalar(base.node):
            return self._raised(base.node, self._body.use(base.node), -exponent.node.value)
        if exponent.node.value == -_HALF:
            return None
        at = tuple(operand.at[position] for position in base.at)
        code = place(self._body.use(base.node), at, len(node.dims), base.node.batched)
        return self._raised(base.node, code, -exponent.node.value)

    def _mean(self, product: Product, sizes: dict[str, Code]) -> None:
        """A sum over one axis divided by the length of that axis is a mean."""
        for n, factor in enumerate(product.factors):
            total = factor.total
            if total is not None and len(total.axes) == 1 and total.axes[0] in sizes:
                product.factors[n] = total.mean(keepdim=factor.kept is None)
                product.scalar_divisors.remove(sizes.pop(total.axes[0]))
                return

    def _power(self, node: nodes.Map) -> Code:
        base, exponent = node.operands
        if isinstance(exponent.node, nodes.Number):
            return self._raised(base.node, self._placed(base, node), exponent.node.value)
        return power(self._placed(base, node), self._placed(exponent, node))

    def _raised(self, base: Node, code: Code, exponent: Fraction) -> Code:
        scalar = self._body.is_scalar(base)
        if abs(exponent) == _HALF and scalar:
            root = call(self._library("math.sqrt"), code)
            return root if exponent > 0 else raised(root, Fraction(-1), scalar=True)
        if exponent == _HALF:
            return call(self._helper("_sqrt"), code)
        if exponent == -_HALF:
            return call(self._library("torch.rsqrt"), code)
        return raised(code, exponent, scalar=scalar)

    def _select(self, node: nodes.Map, codes: list[Code]) -> Code:
        condition, then, otherwise = codes
        truth, first, second = (self._body.is_scalar(operand.node) for operand in node.operands)
        if truth and first and second:
            return conditional(then, condition, otherwise)
        if truth:
            condition = self._body.lifted(condition)
        if first and second:
            if (then.text, otherwise.text) == ("1", "0"):
                return method(condition, "to", self._body.acc)
            if (then.text, otherwise.text) == ("0", "1"):
                return method(invert(condition), "to", self._body.acc)
            then = self._body.lifted(then, self._body.acc)
        return call(self._library("torch.where"), condition, then, otherwise)

    def _logical(self, node: nodes.Map, codes: list[Code]) -> Code:
        if self._body.is_scalar(node):
            text = f" {node.operation} ".join(code.at(COMPARISON) for code in codes)
            return Code(text, CONDITIONAL, weight=len(codes) + sum(code.weight for code in codes))
        tensors = [
            self._body.lifted(code) if self._body.is_scalar(operand.node) else code
            for code, operand in zip(codes, node.operands, strict=True)
        ]
        level, operator = (BIT_AND, "&") if node.operation == "and" else (BIT_OR, "|")
        return chain(level, tensors[0], *((operator, code) for code in tensors[1:]))


def _length_divided_by(factor: Node) -> nodes.Size | None:
    """The length n of an axis where a factor is 1 / n."""
    if not isinstance(factor, nodes.Map) or factor.operation != "pow":
        return None
    base, exponent = (operand.node for operand in factor.operands)
    inverse = isinstance(exponent, nodes.Number) and exponent.value == -1
    return base if inverse and isinstance(base, nodes.Size) else None
