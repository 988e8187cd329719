"""Recognition: tensor program -> the same with structured nodes. It only ever makes the result faster; what is not
recognised stays as it is, and the reasons are kept for the report."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cemc.program.graph import Graph, in_order
from cemc.program.nodes import Node, Program, Recognition, Weights
from cemc.program.rewrite import rewrite
from cemc.program.schedule import Schedule
from cemc.recognise.feature import feature_sentences
from cemc.recognise.nested import nested
from cemc.recognise.pairs import pair_kernels
from cemc.recognise.pairwise import Match, match_attention
from cemc.recognise.pointwise import with_pointwise_kernels
from cemc.recognise.projections import with_shared_projections


@dataclass(frozen=True)
class Recognised:
    """`program` has structured nodes; None when nothing was recognised. `reasons`: what was looked at and was none."""

    program: Program | None
    reasons: tuple[str, ...]


def recognise(program: Program, graph: Graph) -> Recognised:
    """The program with the structures of the two families made nodes of their own."""
    lines: dict[str, Recognition] = {}
    reasons: dict[str, None] = {}

    def replaced(node: Node) -> Node | None:
        match = match_attention(node, graph)
        if isinstance(match, Match):
            lines[match.sentence] = Recognition("pairwise", match.sentence)
            return match.node
        if match is not None:
            reasons[match] = None
        return None

    step = rewrite(program.step, replaced, graph)
    for sentence in feature_sentences(list(step.values())):
        lines[sentence] = Recognition("feature", sentence)
    if not lines:
        return Recognised(None, tuple(reasons) or (_nothing(step),))
    return Recognised(replace(program, step=step, recognised=tuple(lines.values())), tuple(reasons))


def _nothing(step: dict[str, Node]) -> str:
    """Why there was nothing to look at."""
    if any(isinstance(node, Weights) for node in in_order(step.values())):
        return "softmax weights are not summed as they are, but times something else that depends on the pair"
    return "no softmax over pair scores, no tied projection"


def with_kernels(plan: Schedule, runtime: frozenset[str], graph: Graph) -> Schedule:
    """The schedule with what backend "triton" runs. `runtime`: the names of the run-time axes."""
    if plan.split is None:
        return plan
    found = pair_kernels(nested(plan.split, runtime, graph), plan.generic.causal, runtime, graph)
    if found.reasons and found.step is None:
        return replace(plan, no_kernels=found.reasons)
    step = found.step or plan.split.step
    fused = with_pointwise_kernels(step, runtime, graph)
    if fused is None and found.step is None:
        return replace(plan, no_kernels=("no sums over pairs of tokens, and no element-wise run before a projection",))
    step = with_shared_projections(fused or step, graph)
    return replace(plan, triton=replace(plan.generic, step=step), no_kernels=found.reasons)
