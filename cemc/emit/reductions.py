"""Log-sum-exp, softmax weights and maxima. Masked scores never reach exp, in any order of differentiation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cemc.emit.code import BIT_AND, COMPARISON, SUM, Code, call, chain, name
from cemc.program import nodes
from cemc.program.graph import operands
from cemc.program.kernel_nodes import PairResult
from cemc.program.nodes import Branch, Node, Operand

if TYPE_CHECKING:
    from cemc.emit.body import Body

_Reduction = nodes.LogSumExp | nodes.Weights | nodes.Max | nodes.FirstMax


class ReductionPrinter:
    """Prints LogSumExp, Weights, Max and FirstMax nodes."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._library, self._helper = body.context.library, body.context.helper

    def code(self, node: _Reduction) -> Code:
        match node:
            case nodes.LogSumExp():
                return self._logsumexp(node)
            case nodes.Weights():
                return self._weights(node)
            case nodes.Max():
                return self._first(node, "_maximum", len(node.dims), node.reduced, node.scores, node.mask)
            case nodes.FirstMax():
                stay = len(node.dims) - node.reduced
                return self._first(node, "_first_maximum", stay, node.dims[stay:], node.scores, node.mask)

    # ------------------------------------------------------------------------------------------------ log-sum-exp

    def _logsumexp(self, node: nodes.LogSumExp) -> Code:
        if len(node.branches) == 1:
            return self._branch(node.branches[0], node.dims, node.empty)
        parts = [self._branch(branch, node.dims, "minus infinity") for branch in node.branches]
        return call(self._helper("_logaddexp"), *parts, f"empty={self._nothing(node.empty)}")

    def _nothing(self, empty: str) -> str:
        return "0.0" if empty == "zero" else f"-{self._library('math.inf')}"

    def _branch(self, branch: Branch, dims: tuple[str, ...], empty: str) -> Code:
        finite = not _maybe_infinite(branch.scores.node)
        if not branch.reduced:
            scores = self._body.tensor(branch.scores, len(dims))
            if branch.mask is None and (finite or empty != "zero"):
                return scores
            mask = self._mask(branch, dims, finite)
            return call(self._library("torch.where"), mask, scores, self._nothing(empty))
        dim = _dims(len(branch.reduced))
        never_empty = all(axis in dims or axis not in self._body.context.runtime for axis in branch.reduced)
        if branch.mask is None and finite and never_empty:
            return call(self._library("torch.logsumexp"), self._covering(branch.scores, dims, branch.reduced), dim)
        mask = self._mask(branch, dims, finite)
        scores = self._covering(branch.scores, dims, branch.reduced, branch.mask)
        return call(self._helper("_logsumexp"), scores, mask, dim, f"empty={self._nothing(empty)}")

    def _mask(self, branch: Branch, dims: tuple[str, ...], finite: bool) -> Code:
        """Where a branch has something to add."""
        if not finite and branch.mask is not None:
            self._body.variable(branch.mask.node)
        mask = None if branch.mask is None else self._covering(branch.mask, dims, branch.reduced, branch.scores)
        if mask is not None and finite:
            return mask
        self._body.variable(branch.scores.node)
        scores = self._covering(branch.scores, dims, branch.reduced, branch.mask)
        return self._finite(branch.scores, scores, branch.mask, mask, len(dims) + len(branch.reduced))

    def _finite(self, scores: Operand, code: Code, mask: Operand | None, mask_code: Code | None, rank: int) -> Code:
        """Where scores that may be minus infinity are not, and the mask holds."""
        finite = Code(f"{code.at(SUM)} > -{self._library('math.inf')}", COMPARISON, weight=1)
        if mask is None or mask_code is None:
            return finite
        allowed = chain(BIT_AND, mask_code, ("&", finite))
        places = [rank - p for p in scores.at], [rank - p for p in mask.at]
        key = ("allowed", scores.node.number, mask.node.number, *map(tuple, places))
        (variable,) = self._body.shared(key, (scores.node, mask.node), ("allowed",), allowed)
        return name(variable)

    def _everywhere(self, scores: Code) -> Code:
        return call(self._library("torch.ones_like"), scores, f"dtype={self._library('torch.bool')}")

    def _covering(
        self, operand: Operand, dims: tuple[str, ...], reduced: tuple[str, ...], other: Operand | None = None
    ) -> Code:
        """An operand in the frame dims + reduced that has all of the reduced axes that `other` has not."""
        frame = (*dims, *reduced)
        code = self._body.tensor(operand, len(frame))
        # A tensor without axes would take the dtype of one that has some.
        there = {*operand.at, *(other.at if other is not None and operand.at else ())}
        if there.issuperset(range(len(dims), len(frame))):
            return code
        lengths = [
            "-1" if position in there else self._body.lengths.size(axis)
            for position, axis in enumerate(reduced, len(dims))
        ]
        return call(self._helper("_expand_last"), code, *lengths)

    def _weights(self, node: nodes.Weights) -> Code:
        rank = len(node.dims)
        if _maybe_infinite(node.scores.node):
            self._body.variable(node.scores.node)
        scores = self._body.tensor(node.scores, rank)
        normaliser = self._body.placed(node.normaliser, rank)
        difference = chain(SUM, scores, ("-", normaliser))
        mask = None if node.mask is None else self._body.tensor(node.mask, rank)
        if _maybe_infinite(node.scores.node):
            mask = self._finite(node.scores, scores, node.mask, mask, rank)
        if mask is None:
            return call(self._library("torch.exp"), difference)
        chosen = call(self._library("torch.where"), mask, difference, f"-{self._library('math.inf')}")
        return call(self._library("torch.exp"), chosen)

    # ----------------------------------------------------------------------------------------------------- maxima

    def _first(
        self, node: Node, helper: str, stay: int, reduced: tuple[str, ...], scores: Operand, mask: Operand | None
    ) -> Code:
        frame = (*node.dims[:stay], *reduced)
        if not reduced:
            value = self._body.tensor(scores, len(frame))
            allowed = None if mask is None else self._body.tensor(mask, len(frame))
            return value if allowed is None else call(self._library("torch.where"), allowed, value, "0.0")
        if mask is None:
            self._body.variable(scores.node)
        code = self._covering(scores, frame[:stay], reduced, mask)
        where = self._everywhere(code) if mask is None else self._body.tensor(mask, len(frame))
        return call(self._helper(helper), code, where, str(len(reduced)))


def _dims(count: int) -> str:
    """The last `count` dimensions as an argument."""
    return "-1" if count == 1 else f"({', '.join(str(-n) for n in range(count, 0, -1))})"


def _maybe_infinite(node: Node) -> bool:
    """Whether scores may be minus infinity: from a logarithm, an empty log-sum-exp, or a given."""
    seen: set[int] = set()
    stack = [node]
    while stack:
        current = stack.pop()
        if current.number in seen:
            continue
        seen.add(current.number)
        if isinstance(current, nodes.LogSumExp) and current.empty == "minus infinity":
            return True
        if isinstance(current, PairResult) and current.pairs.empty == "minus infinity":
            return True
        if isinstance(current, nodes.Tensor) and current.role == "given" and current.kind == "real":
            return True
        if isinstance(current, nodes.Map) and current.operation == "log":
            return True
        stack.extend(operands(current))
        if isinstance(current, nodes.RowResult):
            stack.append(current.blocks.region.inner[current.result])
    return False
