"""Log-sum-exps over several things as log-sum-exps of log-sum-exps over one axis of tokens each, for which there are
kernels: over tokens and heads, over tokens and a memory, over tokens with a condition on a sink."""

from __future__ import annotations

from cemc.program.decode import Split
from cemc.program.graph import Graph
from cemc.program.nodes import Branch, LogSumExp, Node, Operand
from cemc.program.rewrite import rewrite


def nested(split: Split, runtime: frozenset[str], graph: Graph) -> Split:
    """The step with log-sum-exps over pairs that are each over one axis. `runtime`: the names of the run-time axes."""
    roles = dict(split.roles)

    def replaced(node: Node) -> Node | None:
        own = split.roles.get(node.number, ())
        if not isinstance(node, LogSumExp) or not any(role is True for role in own):
            return None
        inner = [sum(axis in runtime for axis in branch.reduced) for branch in node.branches]
        if not any(inner) or _plain(node):
            return None
        branches = []
        for branch, count in zip(node.branches, inner, strict=True):
            if count == 1:
                branch = _nested(node, branch, runtime, graph)
                roles[branch.scores.node.number] = (*own, *(False for _ in branch.reduced))
            branches.append(branch)
        return graph.make(
            LogSumExp, dims=node.dims, batched=node.batched, kind="real", hint=node.hint, branches=tuple(branches),
            empty=node.empty,
        )  # fmt: skip

    done: dict[int, Node] = {}
    step = rewrite(split.step, replaced, graph, done)
    return Split(step, roles | {done[n].number: each for n, each in roles.items() if n in done})


def _plain(node: LogSumExp) -> bool:
    """Whether a node has one sum, over one axis, and sinks without conditions: that is one kernel."""
    sums = [branch for branch in node.branches if branch.reduced]
    sinks = [branch for branch in node.branches if not branch.reduced]
    return len(sums) == 1 and len(sums[0].reduced) == 1 and all(branch.mask is None for branch in sinks)


def _nested(node: LogSumExp, branch: Branch, runtime: frozenset[str], graph: Graph) -> Branch:
    """A branch with the log-sum-exp over its axis of tokens as its scores."""
    (column,) = (n for n, axis in enumerate(branch.reduced) if axis in runtime)
    rank = len(node.dims)
    others = [n for n in range(len(branch.reduced)) if n != column]
    place = {p: p for p in range(rank)}
    place |= {rank + n: rank + m for m, n in enumerate([*others, column])}

    def placed(operand: Operand) -> Operand:
        return Operand(operand.node, tuple(place[p] for p in operand.at))

    rest = tuple(branch.reduced[n] for n in others)
    parts = [branch.scores, *([branch.mask] if branch.mask is not None else [])]
    inner = graph.make(
        LogSumExp, dims=(*node.dims, *rest), batched=any(part.node.batched for part in parts), kind="real",
        branches=(
            Branch(
                placed(branch.scores), None if branch.mask is None else placed(branch.mask), (branch.reduced[column],)
            ),
        ),
        empty="minus infinity",
    )  # fmt: skip
    return Branch(Operand(inner, tuple(range(rank + len(rest)))), None, rest)
