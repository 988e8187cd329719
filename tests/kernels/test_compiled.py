"""Kernels compiled for GPUs that are not there: nothing spills in forward, blocks get the shared memory they ask for,
products are on matrix units, and tiles are loaded by the widest instructions there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from cemc.inspection.chips import CHIPS
from cemc.inspection.run import Inspection, inspect_file
from cemc.inspection.table import fits, occupancy

ENERGIES = Path(__file__).parents[2] / "examples" / "energies"
REPRESENTATIVE = ("cem_attention", "soft_capped", "sliding_window", "diagonal_low_rank")


@pytest.mark.parametrize(
    ("target", "width", "dtype", "instruction", "names"),
    [
        ("sm_90", 64, "bfloat16", "wgmma", REPRESENTATIVE),
        ("sm_80", 128, "bfloat16", "mma", REPRESENTATIVE),
        ("sm_80", 64, "float32", "mma", ("cem_attention",)),
        ("gfx942", 64, "float32", "mfma", ("cem_attention",)),
    ],
)
def test_kernels_are_what_a_gpu_likes(
    target: str, width: int, dtype: str, instruction: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    # In one file: a process takes longer to start than a kernel to compile.
    file = tmp_path / "representative.cem"
    file.write_text("".join((ENERGIES / f"{name}.cem").read_text(encoding="utf-8") for name in names))
    inspections = inspect_file(file, target, width, dtype)
    assert {each.energy: (list(each.errors), list(each.reasons)) for each in inspections} == {
        name: ([], []) for name in names
    }
    for each in inspections:
        _check(each, width, instruction)


def _check(each: Inspection, width: int, instruction: str) -> None:
    names = {kernel.name.rpartition("_")[2] for kernel in each.kernels}
    assert names == {"forward", "rows", "columns"}, each.energy
    assert each.sizes["r"] == width
    for kernel in each.kernels:
        where = f"{each.energy} {kernel.name} on {each.chip.name}: {kernel}"
        assert not (kernel.facts.spills and kernel.name.endswith("forward")), where
        assert fits(each.chip, kernel.facts), where
        assert occupancy(each.chip, kernel.facts, kernel.settings["num_warps"]) >= 0.12, where
        assert kernel.facts.load_width == 16, where
        assert kernel.facts.wide_share > 0.5, where
        assert sum(kernel.facts.matrix.values()) >= 4, where
        if kernel.name.endswith("forward"):
            assert set(kernel.facts.matrix) == {instruction}, where


def test_the_chips_are_told_apart() -> None:
    assert set(CHIPS) == {"sm_80", "sm_90", "sm_100", "sm_120", "gfx942"}
    assert all(chip.shared_per_block + chip.shared_overhead <= chip.shared for chip in CHIPS.values())
