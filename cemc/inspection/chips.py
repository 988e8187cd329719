"""The GPUs that kernels are compiled for, and what one multiprocessor of each has to share out among blocks."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True)
class Chip:
    """Memory in bytes. `shared_per_block`: the most that a block may ask for; `shared_overhead`: what the system adds
    to that. Registers are of 32 bits and given to a warp in steps of `register_step` for each of its lanes; `warps` are
    the most that run at a time. All but `shared_per_block` is of a multiprocessor (a compute unit, of AMD), which has
    four schedulers."""

    name: str
    says: str
    backend: str
    architecture: int | str
    lanes: int
    shared_per_block: int
    shared: int
    shared_overhead: int
    registers: int
    register_step: int
    warps: int
    blocks: int


def _nvidia(name: str, says: str, per_block: int, warps: int, blocks: int) -> Chip:
    architecture = int(name.removeprefix("sm_"))
    return Chip(
        name, says, "cuda", architecture, 32, per_block * KIB, (per_block + 1) * KIB, KIB, 64 * KIB, 8, warps, blocks
    )  # fmt: skip


CHIPS: dict[str, Chip] = {
    chip.name: chip
    for chip in (
        _nvidia("sm_80", "A100", 163, 64, 32),
        _nvidia("sm_90", "H100, H200", 227, 64, 32),
        _nvidia("sm_100", "B200", 227, 64, 32),
        _nvidia("sm_120", "RTX 50", 99, 48, 24),
        Chip("gfx942", "MI300", "hip", "gfx942", 64, 64 * KIB, 64 * KIB, 0, 128 * KIB, 8, 32, 32),
    )
}
"""Chips by the names that Triton has for them."""

DTYPES = ("bfloat16", "float16", "float32")

MOST_WIDTH = 256
"""Tiles of kernels are at most so wide."""
