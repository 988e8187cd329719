"""What each backend runs: the recognised program, its tokens split for decoding, its quadratic part by blocks of
rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cemc.program.blocks import by_row_blocks
from cemc.program.decode import Split, Unsupported, split_tokens
from cemc.program.distances import without_differences
from cemc.program.graph import Graph, in_order
from cemc.program.nodes import Program, Recognition, Tensor

_BLOCKS = Recognition("pairwise", "sums over pairs, by blocks of rows that are computed again in backward")

_WHOLE = "something is computed for all pairs of tokens at once, in memory quadratic in the length"
_DISTANCES = Recognition("pairwise", "distances of pairs of vectors, without the difference of each pair: cdist")


@dataclass(frozen=True)
class Schedule:
    """`torch`: what backend "torch" runs, None where that is the generic program. `decodes`: all have caches in them;
    otherwise `refusal` says why the layer cannot decode. `split`: the generic step with its tokens split, if it can be,
    and without differences of pairs, which is what kernels are made of.
    `triton`: what backend "triton" runs, None where there are no kernels. `no_kernels`: why something has none.
    `notes`: what people should know of the memory it takes."""

    generic: Program
    torch: Program | None
    decodes: bool
    refusal: str
    split: Split | None = None
    triton: Program | None = None
    no_kernels: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def schedule(generic: Program, recognised: Program | None, runtime: frozenset[str], graph: Graph) -> Schedule:
    """Splits and blocks the programs. `runtime`: the names of the run-time axes."""
    base = recognised or generic
    step = without_differences(base.step, graph)
    if step is not None:
        recognised = base = replace(base, step=step, recognised=(*base.recognised, _DISTANCES))
    try:
        plain = split_tokens(generic.step, runtime, graph)
        distances = without_differences(generic.step, graph)
        kernels = plain if distances is None else split_tokens(distances, runtime, graph)
        split = split_tokens(base.step, runtime, graph, turns=not generic.causal)
    except Unsupported as why:
        return Schedule(generic, recognised, False, why.reason)
    decodes = generic.causal
    blocks = by_row_blocks(split, runtime, generic.causal, graph)
    if decodes:
        generic = replace(generic, step=plain.step)
    if blocks is not None:
        torch: Program | None = replace(base, step=blocks, recognised=(*base.recognised, _BLOCKS))
    elif recognised is not None:
        torch = replace(recognised, step=split.step) if decodes else recognised
    else:
        torch = None
    run = (torch or generic).step
    whole = any(sum(a in runtime for a in n.dims) > 1 for n in in_order(run.values()) if not isinstance(n, Tensor))
    refusal = "" if decodes else "it reads later tokens"
    return Schedule(generic, torch, decodes, refusal, kernels, notes=(_WHOLE,) if whole else ())
