"""Each class of node as an expression of torch: leaves and products here, the others in the modules it imports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cemc.emit.arithmetic import Product
from cemc.emit.blocks import row_result
from cemc.emit.code import Code, call, conditional, method, name, number
from cemc.emit.contraction import Factor, contraction
from cemc.emit.elementwise import ElementwisePrinter
from cemc.emit.gathering import GatherPrinter
from cemc.emit.pairs import pair_result
from cemc.emit.pointwise import pointwise_call
from cemc.emit.precision import computed_in
from cemc.emit.projections import projection
from cemc.emit.reductions import ReductionPrinter
from cemc.emit.structured import StructuredPrinter
from cemc.program import kernel_nodes, nodes
from cemc.program.nodes import Node

if TYPE_CHECKING:
    from cemc.emit.body import Body


Side = tuple[str, bool, Node | None]
"""An axis, whether it runs over rows, and which columns it runs over, None for all."""

WINDOW_CACHES = "caches with windows"
"""The option of a file that some cache keeps only the last tokens."""


class Printer:
    """Expressions for nodes whose operands `body` already has expressions or variables for."""

    def __init__(self, body: Body) -> None:
        self._body, self._library, self._helper = body, body.context.library, body.context.helper
        self._elementwise = ElementwisePrinter(body)
        self._reductions = ReductionPrinter(body)
        self._gathering = GatherPrinter(body)
        self._structured = StructuredPrinter(body)

    def code(self, node: Node) -> Code:
        match node:
            case nodes.Number():
                return number(node.value)
            case nodes.Size():
                return name(self._body.lengths.size(node.axis))
            case nodes.Constant():
                return name(self._body.attribute(node.name))
            case nodes.Positions():
                size = self._body.lengths.size(node.axis)
                return call(self._library("torch.arange"), size, f"device={self._body.device}")
            case nodes.RowPositions():
                return self._row_positions(node)
            case nodes.RecentPositions():
                return self._recent_positions(node)
            case nodes.Cached():
                return self._cached(node)
            case nodes.Recent():
                return self._recent(node)
            case nodes.OverRows():
                return self._body.use(node.operand, self._body.kept_in(node))
            case nodes.RowResult():
                return row_result(self._body, node)
            case kernel_nodes.PairResult():
                return pair_result(self._body, node)
            case kernel_nodes.Pointwise():
                return pointwise_call(self._body, node)
            case kernel_nodes.Projection():
                return projection(self._body, node)
            case nodes.Map():
                return self._elementwise.code(node)
            case nodes.Einsum():
                return self._einsum(node)
            case nodes.CumulativeSum():
                return self._cumulative(node)
            case nodes.Align():
                return self._align(node, [(axis, False, None) for axis in node.dims])
            case nodes.Expand():
                return self._align(node, zip(node.dims, node.rows, node.windows, strict=True))
            case nodes.LogSumExp() | nodes.Weights() | nodes.Max() | nodes.FirstMax():
                return self._reductions.code(node)
            case nodes.Gather():
                return self._gathering.code(node)
            case nodes.Rotate() | nodes.Attention() | nodes.Distance():
                return self._structured.code(node)
        raise AssertionError(type(node))

    def _row_positions(self, node: nodes.RowPositions) -> Code:
        total, device = self._body.lengths.size(node.axis), f"device={self._body.device}"
        if self._body.cache is None:
            return call(self._library("torch.arange"), total, device)
        return call(self._library("torch.arange"), f"{total} - {self._body.lengths.new_tokens()}", total, device)

    def _recent_positions(self, node: nodes.RecentPositions) -> Code:
        start = self._body.lengths.start(node.window)
        ends = self._body.lengths.size(node.axis) if start is None else f"{start}, {self._body.lengths.size(node.axis)}"
        return call(self._library("torch.arange"), ends, f"device={self._body.device}")

    def _recent(self, node: nodes.Recent) -> Code:
        operand = self._body.use(node.operand, self._body.kept_in(node))
        if self._body.lengths.all_columns:
            return operand
        count = self._body.lengths.of(node.dims[node.axis], False, node.window)
        return call(self._helper("_recent"), operand, str(node.axis - len(node.dims)), count)

    def _cached(self, node: nodes.Cached) -> Code:
        """The values for all tokens, those seen before from the cache."""
        cache = self._body.cache
        if cache is not None:
            self._body.variable(node.operand)
        code = self._body.use(node.operand, self._body.kept_in(node))
        if cache is None:
            return code
        slot = f"{node.slot}" if node.hoisted else f"({node.slot}, {cache.repeat})"
        place = [str(len(node.dims)), str(node.axis - len(node.dims))]
        if node.window is not None:
            place.append(self._body.use(node.window).text)
            self._body.context.options[WINDOW_CACHES] = None
        extended = call(f"{cache.variable}.extend", slot, code, *place)
        return conditional(code, name(f"{cache.variable} is None"), extended)

    def _einsum(self, node: nodes.Einsum) -> Code:
        want = computed_in(node, self._body.fused)
        factors: list[Factor] = []
        scale = Product()
        for operand in node.operands:
            if isinstance(operand.node, nodes.Number):
                scale.coefficient *= operand.node.value
            elif self._body.is_scalar(operand.node):
                scale.scalars.append(self._body.use(operand.node))
            else:
                code = self._body.use(operand.node, want)
                factors.append(Factor(code, operand.node.dims, operand.at, operand.node.batched))
        result = contraction(factors, node.output, self._body.context.runtime, self._library)
        if not scale.scalars and scale.coefficient == 1:
            return result
        scale.factors.append(result)
        return scale.code()

    def _cumulative(self, node: nodes.CumulativeSum) -> Code:
        dim, operand = str(node.axis - len(node.dims)), self._body.use(node.operand)
        if not node.reverse and not node.exclusive:
            return method(operand, "cumsum", dim)
        return call(self._helper("_cumulative"), operand, dim, f"reverse={node.reverse}", f"exclusive={node.exclusive}")

    def _align(self, node: nodes.Align | nodes.Expand, sides: Iterable[Side]) -> Code:
        """Permuted by indexing and moving axes; axes that the operand lacks are expanded to their lengths."""
        want = "acc" if self._body.is_scalar(node.operand.node) else self._body.kept_in(node)
        code = self._body.tensor(node.operand, len(node.dims), want)
        if len(node.operand.at) == len(node.dims):
            return code
        lengths = [self._body.lengths.of(*side) for side in sides]
        if node.batched:
            batch = f"{self._body.variable(node.operand.node).text}.shape"
            lengths.insert(0, f"*{batch}[:{-len(node.operand.at)}]" if node.operand.at else f"*{batch}")
        return method(self._body.tensor(node.operand, len(node.dims), want), "expand", *lengths)
