"""Sums over pairs by blocks of rows: lengths round the size of a block, against the generic program; and memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cemc import load
from cemc.oracle.compare import build
from cemc.oracle.draw import draw
from cemc.semantics import analyse
from cemc.syntax import parse, read_source

ENERGIES = Path(__file__).parents[1] / "properties" / "energies"
BLOCK = 128


@pytest.mark.parametrize(
    "name", ["alibi", "attention_sink", "documents", "relative_bias", "soft_cap", "sigmoid_attention"]
)
@pytest.mark.parametrize("tokens", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1])
def test_blocks_equal_the_whole(name: str, tokens: int) -> None:
    path = ENERGIES / f"{name}.cem"
    source = read_source(path)
    (energy,) = analyse(parse(source), source).energies
    drawn = draw(energy, tokens, batch=(2,), lengths={"token": tokens})
    kind = load(path)
    results = []
    for backend in ("generic", "torch"):
        layer = build(kind, drawn, backend)
        value = layer(*drawn.states.values(), **drawn.givens)
        generator = torch.Generator().manual_seed(0)
        cotangent = torch.randn(value.shape, generator=generator, dtype=value.dtype)
        inputs = [*drawn.states.values(), *layer.parameters()]
        results.append([value, *torch.autograd.grad((cotangent * value).sum(), inputs)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_what_autograd_keeps_grows_linearly() -> None:
    """Twice the tokens, twice the saved tensors: nothing quadratic is kept for backward."""
    kind = load(ENERGIES / "soft_cap.cem")
    layer = kind(d=8, heads=2)
    kept = []
    for tokens in (512, 1024):
        sizes: list[int] = []

        def note(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            layer(torch.randn(1, tokens, 8, requires_grad=True))
        kept.append(sum(sizes))
    assert kept[1] < 2.5 * kept[0]
