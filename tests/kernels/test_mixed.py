"""Energies that no kernel does alone: log-sum-exps of several sums or of log-sum-exps, and sums over pairs of which
only some have a kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import cemc
from cemc.oracle.compare import Comparison, build
from cemc.oracle.draw import draw
from cemc.semantics import analyse
from cemc.syntax import parse, read_source

ENERGIES = sorted((Path(__file__).parent / "energies").glob("*.cem"))
WHOLLY = {
    "empty_rows_of_heads", "heads_of_tokens", "several_levels", "sink_with_condition", "slots_of_heads",
    "softmax_beside_a_window",
    "tokens_and_heads", "tokens_and_memory", "two_sums",
}  # fmt: skip


@pytest.mark.parametrize("path", ENERGIES, ids=lambda path: path.stem)
def test_update_and_gradients_are_those_of_autograd(path: Path) -> None:
    source = read_source(path)
    (energy,) = analyse(parse(source), source).energies
    layer_class = cemc.load(path)
    lengths = {axis.name: 19 for axis in energy.runtime_axes}
    configuration = draw(energy, 3, lengths=lengths, batch=(2,))
    comparison = Comparison(energy, configuration, 3)
    errors = comparison.errors(build(layer_class, configuration, "triton"), "cpu")
    assert len(errors) > 2
    assert max(errors.values()) < 1e-9, errors


@pytest.mark.parametrize("path", ENERGIES, ids=lambda path: path.stem)
def test_what_has_no_kernel_is_said_and_goes_by_blocks_of_rows(path: Path) -> None:
    (result,) = cemc.compile_file(path)
    assert result.kernels
    update = result.code.partition("def _update_triton")[2].partition("    def ")[0]
    assert "_kernels." in update
    assert (not result.no_kernels) == (path.stem in WHOLLY)
    assert bool(result.no_kernels) == ("_by_blocks(" in update)
    assert all(reason in " ".join(result.code.split()) for reason in result.no_kernels)


@torch.no_grad()
@pytest.mark.parametrize("path", ENERGIES, ids=lambda path: path.stem)
def test_tokens_one_by_one_are_the_whole(path: Path) -> None:
    source = read_source(path)
    (energy,) = analyse(parse(source), source).energies
    configuration = draw(energy, 5, lengths={axis.name: 9 for axis in energy.runtime_axes}, batch=(2,))
    layer = build(cemc.load(path), configuration, "triton")
    x = configuration.states["x"].detach()
    givens = {name: given.detach() for name, given in configuration.givens.items()}
    if not layer.causal:
        with pytest.raises(ValueError, match="later tokens"):
            layer.new_cache((2,), 9)
        return
    whole = layer(x, **givens)
    cache = layer.new_cache((2,), 9)
    along = {n for n, given in energy.givens.items() if any(axis.name == "token" for axis in given.axes)}
    parts = []
    for start, stop in ((0, 4), (4, 5), (5, 9)):
        part = {n: u[..., start:stop] if n in along else u for n, u in givens.items()}
        y, cache = layer(x[..., start:stop, :], cache=cache, **part)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, -2), whole, rtol=1e-9, atol=1e-9)
