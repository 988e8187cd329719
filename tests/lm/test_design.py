"""The design space as energies: each agrees with autograd, is causal, and differs from its neighbour as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import cemc
from cemc.check import check_energy
from cemc.semantics import analyse
from cemc.syntax import parse, read_source
from tests.lm.conftest import ENERGIES

DESIGN = sorted((ENERGIES / "design").glob("*.cem"))


def layer(name: str, **sizes: int) -> Any:
    """A layer of the design space in float64, with the parameters of every other one that has the same."""
    torch.manual_seed(0)
    made: Any = cemc.load(ENERGIES / f"{name}.cem")(d=16, **sizes).double()
    for key, parameter in made.named_parameters():
        generator = torch.Generator().manual_seed(sum(map(ord, key)))
        if parameter.ndim > 1 and key not in ("a", "U"):
            parameter.data = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 4
    return made


def tokens() -> torch.Tensor:
    return torch.randn(2, 7, 16, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("path", DESIGN, ids=lambda path: path.stem)
def test_agrees_with_autograd_and_is_causal(path: Path) -> None:
    source = read_source(path)
    (energy,) = analyse(parse(source), source).energies
    assert energy.name == path.stem
    reports = check_energy(energy, cemc.load(path), rounds=1)
    assert len(reports) == 2
    assert all(report.passed for report in reports), reports
    (result,) = cemc.compile_file(path)
    assert result.causal
    assert not result.warnings
    text = path.read_text(encoding="utf-8")
    assert re.match(r"(# .*\n)+# x_i <- .*\n", text), "it opens with its step"


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-9, atol=1e-9)


ATTENTION = ("attention_diagonal", "attention_fixed_step", "attention_scalar_step")


@pytest.mark.parametrize("name", ATTENTION)
def test_variants_start_where_the_plain_layer_does(name: str) -> None:
    x = tokens()
    assert same(layer(f"design/{name}", heads=2)(x), layer("cem_attention", heads=2)(x))


def test_a_preconditioner_starts_as_the_plain_step_and_stays_positive_definite() -> None:
    x = tokens()
    for kind, sizes in (("attention", {"heads": 2}), ("mlp", {"f": 24})):
        changed, plain = layer(f"design/{kind}_preconditioned", **sizes), layer(f"cem_{kind}", **sizes)
        with torch.no_grad():
            changed.U.zero_()
            assert same(changed(x), plain(x))
            changed.U.normal_()
            changed.p_raw.normal_(-3, 5)
        step = plain(x) - x
        matrix = torch.diag(changed.p) + changed.U @ changed.U.T
        assert same(changed(x) - x, step @ matrix)
        assert torch.linalg.eigvalsh(matrix).min() > 0


def test_two_steps_held_and_refreshed() -> None:
    x = tokens()
    for kind, sizes in (("attention", {"heads": 2}), ("mlp", {"f": 24})):
        refreshed, held = (layer(f"design/{kind}_two_steps_{how}", **sizes) for how in ("refreshed", "held"))
        once, twice = refreshed(x, steps=1), refreshed(x)
        assert same(once, held(x, steps=1))
        assert same(twice, refreshed(once, steps=1))
        assert not same(twice, held(x))
        # Half a plain step, and the rest from there.
        assert same(once, (x + layer(f"cem_{kind}", **sizes)(x)) / 2)


def test_without_self_the_first_token_stays() -> None:
    x = tokens()
    moved = layer("design/attention_without_self", heads=2)(x)
    assert same(moved[:, 0], x[:, 0])
    assert not torch.isclose(moved[:, 1:], x[:, 1:]).any(dim=-1).all()


def test_untied_layers_are_the_transformers() -> None:
    x = tokens()
    untied, plain = layer("design/attention_untied", heads=2), layer("cem_attention", heads=2)
    z = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    # With keys and values not rotated, tied attention is the special case V = K, O = Q; at the first token both agree.
    with torch.no_grad():
        untied.V.copy_(plain.K)
        untied.O.copy_(plain.Q)
    assert same(untied(x)[:, 0], plain(x)[:, 0])
    mlp = layer("design/mlp_untied", f=24)
    gate = z @ mlp.W.T
    assert same(mlp(x), x + (gate * gate.sigmoid() * (z @ mlp.V.T)) @ mlp.D)


def test_padding_is_left_out() -> None:
    x = tokens()
    padded, plain = layer("design/attention_padded", heads=2), layer("cem_attention", heads=2)
    start = torch.tensor([0, 3])
    found = padded(x, start=start)
    assert same(found[0], plain(x[0]))
    assert same(found[1, 3:], plain(x[1, 3:]))
    assert same(found[1, :3], x[1, :3])
