"""The pairwise family: sums over an axis j of softmax weights of a score times values.

What is matched is `o_i = sum_j w_ij v_j` with `w = softmax_j(scale * q_i . k_j)`, over all j or over j <= i, however
the energy was written: only the tensor program is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from cemc.program.graph import Graph
from cemc.program.nodes import (
    Align,
    Attention,
    Constant,
    Einsum,
    LogSumExp,
    Map,
    Node,
    Number,
    Operand,
    Positions,
    Rotate,
    Size,
    Weights,
)


@dataclass(frozen=True)
class Match:
    """A softmax attention found; `reason` says why weights that were looked at are not one."""

    node: Node
    sentence: str


def match_attention(node: Node, graph: Graph) -> Match | str | None:
    """The attention that computes `node`; why it is none though it has softmax weights in it; None if it has not."""
    if not isinstance(node, Einsum):
        return None
    weighted = [o for o in node.operands if isinstance(o.node, Weights)]
    if not weighted:
        return None
    if len(weighted) > 1 or len(node.operands) != 2:
        return "softmax weights are not multiplied by a single tensor of values"
    weights, values = weighted[0], next(o for o in node.operands if o is not weighted[0])
    softmax = weights.node
    assert isinstance(softmax, Weights)
    reduced = [p for p in weights.at if p not in node.output]
    if len(reduced) != 1 or reduced[0] not in values.at:
        return "softmax weights are not summed over exactly the axis they run over"
    j = reduced[0]
    # From here on everything is placed in the frame of the weights.
    place = {p: n for n, p in enumerate(weights.at)}
    if place[j] in softmax.normaliser.at:
        return "softmax weights are summed over the queries, not the keys: a token moves as somebody else's key as well"
    if not _is_softmax_over(softmax, place[j]):
        return "the weights are normalised over more than one sum (an attention sink, or a gated normaliser)"
    scale, scores = _scaled(softmax.scores, graph)
    if not isinstance(scores.node, Einsum) or len(scores.node.operands) != 2:
        return "the score is not a plain inner product of queries and keys"
    found = _queries_and_keys(scores, place[j], softmax)
    if isinstance(found, str):
        return found
    query, key, i = found
    causal = _mask(softmax, i, place[j])
    if causal is None:
        return "the mask is neither empty nor causal"
    width = [p for p in values.at if p not in weights.at]
    if len(width) > 1:
        return "values have more than one axis of their own"
    return _attention(node, weights, values, width, query, key, scale, causal, i, place[j], graph)


def _is_softmax_over(softmax: Weights, j: int) -> bool:
    """Whether the normaliser is the log-sum-exp of the same scores under the same mask over frame position j."""
    normaliser = softmax.normaliser.node
    if not isinstance(normaliser, LogSumExp) or len(normaliser.branches) != 1:
        return False
    branch = normaliser.branches[0]
    if len(branch.reduced) != 1 or j in softmax.normaliser.at:
        return False
    frame = (*softmax.normaliser.at, j)
    return _same(branch.scores, softmax.scores, frame) and _same(branch.mask, softmax.mask, frame)


def _same(inner: Operand | None, outer: Operand | None, frame: tuple[int, ...]) -> bool:
    if inner is None or outer is None:
        return inner is outer
    return inner.node is outer.node and tuple(frame[p] for p in inner.at) == outer.at


def _scaled(scores: Operand, graph: Graph) -> tuple[Node, Operand]:
    """Scores as a scalar times something."""
    node = scores.node
    if isinstance(node, Map) and node.operation == "mul":
        scalars = [o for o in node.operands if not o.at and not o.node.batched and _is_number(o.node)]
        rest = [o for o in node.operands if o not in scalars]
        if len(rest) == 1 and scalars:
            inner = rest[0]
            operand = Operand(inner.node, tuple(scores.at[p] for p in inner.at))
            if len(scalars) == 1:
                return scalars[0].node, operand
            product = graph.make(
                Map, dims=(), batched=False, kind="real", operation="mul", operands=tuple(scalars), function=None
            )
            return product, operand
    return graph.make(Number, dims=(), batched=False, kind="integer", value=Fraction(1)), scores


def _is_number(node: Node) -> bool:
    """Whether a scalar is known without tensors: then it is a Python number in the generated code."""
    if isinstance(node, Map):
        return all(_is_number(o.node) for o in node.operands)
    return isinstance(node, (Number, Size, Constant))


def _queries_and_keys(scores: Operand, j: int, softmax: Weights) -> tuple[Operand, Operand, int] | str:
    """Queries and keys, with their dimensions placed in the weights' frame (-1: the width that is summed), and the
    query axis."""
    product = scores.node
    assert isinstance(product, Einsum)
    outer = {p: scores.at[n] for n, p in enumerate(product.output)}
    sides = [Operand(o.node, tuple(outer.get(p, -1) for p in o.at)) for o in product.operands]
    if any(side.at.count(-1) != 1 for side in sides):
        return "the score is not an inner product over one axis"
    keys = [side for side in sides if j in side.at]
    if len(keys) != 1:
        return "both sides of the score depend on the key's position"
    key = keys[0]
    query = sides[0] if sides[1] is key else sides[1]
    own = [p for p in query.at if p not in key.at and p != -1 and softmax.dims[p] == softmax.dims[j]]
    if not own:
        own = [p for p in query.at if p not in key.at and p != -1]
    if not own:
        return "the queries have no axis of their own"
    return query, key, own[-1]


def _mask(softmax: Weights, i: int, j: int) -> bool | None:
    """False: no mask; True: j <= i; None: something else."""
    if softmax.mask is None:
        return False
    node = softmax.mask.node
    if not isinstance(node, Map) or node.operation != "<=" or softmax.dims[i] != softmax.dims[j]:
        return None
    left, right = node.operands
    if not all(isinstance(o.node, Positions) for o in (left, right)):
        return None
    at = softmax.mask.at
    return True if at[left.at[0]] == j and at[right.at[0]] == i else None


def _attention(
    node: Einsum, weights: Operand, values: Operand, width: list[int], query: Operand, key: Operand, scale: Node,
    causal: bool, i: int, j: int, graph: Graph,
) -> Match | str:  # fmt: skip
    softmax = weights.node
    assert isinstance(softmax, Weights)
    if not width:
        return "values have no axis of their own"
    place = {p: n for n, p in enumerate(weights.at)}
    shared = [p for p in range(len(softmax.dims)) if p not in (i, j)]
    if any(weights.at[p] not in node.output for p in shared):
        return "softmax weights are summed over more than the key axis"
    order = {p: n for n, p in enumerate(shared)}
    row, column = len(shared), len(shared) + 1
    q = Operand(query.node, tuple(order[p] if p in order else row if p == i else column for p in query.at))
    k = Operand(key.node, tuple(order[p] if p in order else row if p == j else column for p in key.at))
    v = Operand(
        values.node,
        tuple(
            column if p == width[0] else row if place.get(p) == j else order.get(place.get(p, -1), -1)
            for p in values.at
        ),
    )
    if any(i == place.get(p) for p in values.at) or -1 in v.at:
        return "values depend on the query's position"
    width_axis = values.node.dims[values.at.index(width[0])]
    frame = [weights.at[p] for p in shared] + [weights.at[i], width[0]]
    if sorted(frame) != sorted(node.output):
        return "more than the key axis is summed"
    attention = graph.make(
        Attention, dims=(*(softmax.dims[p] for p in shared), softmax.dims[i], width_axis), kind="real",
        batched=any(o.node.batched for o in (q, k, v)), query=q, key=k, value=v, scale=scale, causal=causal,
    )  # fmt: skip
    at = tuple(node.output.index(p) for p in frame)
    result: Node = attention
    if at != tuple(range(len(at))):
        result = graph.make(
            Align, dims=node.dims, batched=node.batched, kind="real", operand=Operand(attention, at), hint=node.hint
        )
    tied = v.node is k.node and v.at == k.at
    return Match(result, _sentence(causal, tied, k.node, softmax.dims[i], softmax.dims[j]))


def _sentence(causal: bool, tied: bool, key: Node, query_axis: str, key_axis: str) -> str:
    mask = "causal " if causal else ""
    cross = "" if query_axis == key_axis else f" from {query_axis} to {key_axis}"
    values = "the keys are the values" if tied else "values of their own"
    rotary = ", rotary positions" if isinstance(key, Rotate) else ""
    return f"{mask}softmax attention{cross}, {values}{rotary}: scaled_dot_product_attention"
