"""Energies of the layers: readings against the definition, and the sign of everything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import cemc
from examples.lm.config import Config
from examples.lm.instrument import energies
from examples.lm.layers import facts
from examples.lm.model import build_model
from examples.lm.train import main
from tests.lm.conftest import CEM, ENERGIES, by_hand, energy, with_layers, with_train, write

VOCABULARY = 50


def some_tokens() -> torch.Tensor:
    return torch.randint(VOCABULARY, (3, 12), generator=torch.Generator().manual_seed(1))


def test_a_reading_is_the_energy_before_and_after_a_step(small: Config) -> None:
    torch.manual_seed(0)
    held, refreshed = energy("recursive_held", heads=2, rounds=3), energy("recursive_refreshed", heads=2)
    model = build_model(with_layers(small, held, by_hand("LlamaMlp", f=24), refreshed), VOCABULARY)
    found = energies(model, some_tokens())
    assert [(each["layer"], each["repeat"], each["energy"]) for each in found] == [
        *[(0, repeat, "E") for repeat in range(3)],
        *[(2, repeat, "E") for repeat in range(2)],
    ]
    layers: list[Any] = list(model.layers)
    with torch.no_grad():
        x0 = model.embedding(some_tokens()) * 4
        x1, x2 = layers[0](x0, steps=1), layers[0](x0, steps=2)
        # Held: the context is the layer's input at every step.
        assert found[1]["before"] == pytest.approx(layers[0].energy(x1, context=x0).mean().item(), rel=1e-5)
        assert found[1]["after"] == pytest.approx(layers[0].energy(x2, context=x0).mean().item(), rel=1e-5)
        assert found[1]["step_norm"] == pytest.approx((x2 - x1).norm(dim=-1).square().mean().sqrt().item(), rel=1e-4)
        y0 = layers[1](layers[0](x0))
        y1, y2 = layers[2](y0, steps=1), layers[2](y0)
        # Refreshed: it is the state before the step.
        assert found[4]["before"] == pytest.approx(layers[2].energy(y1, context=y1).mean().item(), rel=1e-5)
        assert found[4]["after"] == pytest.approx(layers[2].energy(y2, context=y1).mean().item(), rel=1e-5)
    at = y1.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(layers[2].energy(at, context=y1).sum(), at)
    assert found[4]["gradient_norm"] == pytest.approx(gradient.norm(dim=-1).square().mean().sqrt().item(), rel=1e-4)
    cosine = torch.nn.functional.cosine_similarity(-gradient.flatten(), (y2 - y1).flatten(), dim=0)
    assert found[4]["alignment"] == pytest.approx(cosine.item(), abs=1e-4)
    for each in found:
        assert each["decrease"] == each["before"] - each["after"]
        assert each["alignment"] > 0
    assert len(energies(model, some_tokens(), steps=4)) == 8


def test_several_energies_of_a_layer_are_read_by_name(small: Config) -> None:
    model = build_model(with_layers(small, energy("yuriiformer", heads=2, f=24)), VOCABULARY)
    assert [each["energy"] for each in energies(model, some_tokens())] == ["A", "M"]


# The sign conventions: minus the gradient of what `energy` gives is where the update goes. Conditional energies only,
# for a token that is also somebody else's neighbour moves their energies too, and smooth ones.
NOT_CONDITIONAL = {"energy_transformer"}
WITH_KINKS = {"reglu"}
# Two energies in turn, with velocity: no step on one of them.
NOT_PLAIN = {"yuriiformer"}
PATHS = [
    path
    for path in sorted([*ENERGIES.glob("*.cem"), *(ENERGIES / "design").glob("*.cem")])
    if path.stem not in NOT_CONDITIONAL | WITH_KINKS | NOT_PLAIN
]
GIVENS = {
    "doc": lambda: torch.tensor([0, 0, 0, 1, 1, 1, 1]),
    "start": lambda: torch.tensor(1),
    "m": lambda: torch.randn(5, 8, dtype=torch.float64),
    "valid": lambda: torch.tensor([1, 1, 0, 1, 1]),
}
SIZES = {"d": 8, "heads": 2, "f": 12, "e": 8, "experts": 3, "n": 3, "window": 4, "span": 4, "wells": 5, "rank": 2}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_small_step_lowers_the_energy(path: Path) -> None:
    torch.manual_seed(3)
    (result,) = cemc.compile_file(path)
    found = facts(result.source)
    layer_class: Any = cemc.load(path)
    wanted = layer_class.__init__.__kwdefaults__.keys() | {"d"}
    layer = layer_class(**{name: size for name, size in SIZES.items() if name in wanted}).double()
    givens = {name: GIVENS[name]() for name in found.givens}
    (name,) = found.energies
    for attempt in range(3):
        x = torch.randn(2, 7, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(attempt))
        with torch.no_grad():
            step = layer(x, steps=1, **givens) - x
            before, after, behind = (
                layer.energy(x + size * step, context=x, **givens).sum().item() for size in (0.0, 1e-4, -1e-4)
            )
        assert after < before < behind, (name, before, after, behind)


def test_energies_are_logged_and_plotted(small: Config, tmp_path: Path) -> None:
    config = with_layers(with_train(small, instrument=True, steps=8), *CEM, repeat=2)
    assert main(["--config", str(write(config, tmp_path / "config.json")), "--out", str(tmp_path / "out")]) == 0
    lines = (tmp_path / "out" / "energies.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [(row["step"], row["layer"]) for row in rows] == [(step, layer) for step in (0, 4, 8) for layer in range(4)]
    assert all(row["gradient_norm"] > 0 for row in rows)
    assert (tmp_path / "out" / "energies.png").read_bytes().startswith(b"\x89PNG")
