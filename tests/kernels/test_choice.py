"""Which configuration a launch takes, and that results do not depend on what was tried before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import triton

from tests.kernels.test_interpreted import inputs, kernels_of, outcome, pair

CONFIGS = [{"ROWS": rows, "COLUMNS": 32, "number": n} for n, rows in enumerate((128, 64, 32))]


@dataclass(frozen=True)
class Launched:
    n_spills: int


def runner(spills: list[int | None], tried: list[int]) -> Callable[[dict[str, int]], Launched]:
    """Launches with a configuration's spills; None where there is no room."""

    def run(config: dict[str, int]) -> Launched:
        tried.append(config["number"])
        found = spills[config["number"]]
        if found is None:
            raise triton.OutOfResources(2, 1, "shared memory")
        return Launched(found)

    return run


@pytest.mark.parametrize(
    ("spills", "tried"),
    [
        ([0, 0, 0], [0]),
        ([8, 0, 0], [0, 1]),
        ([None, 0, 0], [0, 1]),
        ([None, None, 0], [0, 1, 2]),
        ([8, 4, 6], [0, 1, 2, 1]),
        ([8, 4, None], [0, 1, 2, 1]),
        ([4, 4, None], [0, 1, 2, 0]),
    ],
)
def test_the_first_that_fits_and_does_not_spill(spills: list[int | None], tried: list[int]) -> None:
    """Whatever is chosen ran last, so that its results are what is there."""
    found: list[int] = []
    chosen = kernels_of("cem_attention")._choose(runner(spills, found), CONFIGS)
    assert (found, chosen["number"]) == (tried, tried[-1])


def test_no_room_at_all_is_an_error() -> None:
    with pytest.raises(triton.OutOfResources):
        kernels_of("cem_attention")._choose(runner([None, None, None], []), CONFIGS)


def test_autotuning_takes_the_fastest_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, found = kernels_of("cem_attention"), list[int]()
    milliseconds = {1: 3.0, 2: 2.0}

    def timed(call: Callable[[], Any]) -> float:
        call()
        return milliseconds[found[-1]]

    monkeypatch.setattr(kernels, "AUTOTUNE", True)
    monkeypatch.setattr(triton.testing, "do_bench", timed)
    chosen = kernels._choose(runner([None, 0, 8], found), CONFIGS)
    assert (chosen["number"], found[-1]) == (2, 2)


def configurations(monkeypatch: pytest.MonkeyPatch, kind: str, width: int, size: int) -> list[dict[str, int]]:
    kernels = kernels_of("cem_attention")
    monkeypatch.setattr(kernels, "INTERPRETED", False)
    return kernels.configurations(kind, width, size)


@pytest.mark.parametrize("kind", ["forward", "rows", "columns", "table"])
def test_there_is_a_configuration_for_everything(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (16, 32, 64, 96, 128, 256, 512, 4096):
        for size in (2, 4):
            found = configurations(monkeypatch, kind, width, size)
            assert found
            assert all(config["ROWS"] % 16 == 0 and config["COLUMNS"] >= 16 for config in found)
            # A band of a table lies within the columns that are read for it.
            assert kind != "table" or all(config["COLUMNS"] >= 2 * config["ROWS"] - 1 for config in found)


@pytest.mark.parametrize("name", ["query_key_norm", "alibi"])
def test_gradients_of_numbers_are_those_of_the_last_launch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger tile after a smaller one once left numbers of the smaller one in what is summed."""
    kernels = kernels_of(name)
    launch = kernels._choose

    def tried(run: Any, candidates: Any) -> Any:
        run({"ROWS": 16, "COLUMNS": 16})
        return launch(run, [{"ROWS": 64, "COLUMNS": 16}])

    monkeypatch.setattr(kernels, "_chosen", {})
    monkeypatch.setattr(kernels, "_choose", tried)
    layer, reference = pair(name, torch.float64)
    arguments = inputs(name, (2, 70), torch.float64)
    weight = torch.randn(arguments["x"].shape, dtype=torch.float64)
    found, exact = (outcome(each, arguments, weight) for each in (layer, reference))
    for quantity, wanted in exact.items():
        torch.testing.assert_close(found[quantity], wanted, rtol=1e-9, atol=1e-11)
