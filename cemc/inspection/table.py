"""Compiled kernels as a table, with their share of the chip."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cemc.inspection.binary import Facts
from cemc.inspection.chips import Chip
from cemc.inspection.run import Inspection

HEAD = (
    "kernel", "tile", "warps", "registers", "spills", "shared", "occupancy", "matrix instructions", "loads", "seconds"
)  # fmt: skip

SCHEDULERS = 4


def occupancy(chip: Chip, found: Facts, warps: int) -> float:
    """The share of the warps a multiprocessor can have that it has at a time, where nothing but blocks of this kernel
    runs; 0 where not even one fits."""
    step = chip.register_step
    each = -(-max(found.registers, 1) // step) * step * chip.lanes
    by_registers = chip.registers // each // SCHEDULERS * SCHEDULERS // warps
    by_shared = chip.shared // (found.shared + chip.shared_overhead) if found.shared else chip.blocks
    blocks = min(by_registers, by_shared, chip.warps // warps, chip.blocks)
    return blocks * warps / chip.warps if fits(chip, found) else 0.0


def fits(chip: Chip, found: Facts) -> bool:
    """Whether a block gets the shared memory it asks for."""
    return found.shared <= chip.shared_per_block


def row(name: str, chip: Chip, found: Facts, settings: Mapping[str, Any], seconds: float) -> tuple[str, ...]:
    """The cells of one kernel."""
    warps = settings["num_warps"]
    sizes = [str(settings[side]) for side in ("ROWS", "COLUMNS") if side in settings]
    shared = f"{found.shared / 1024:.1f} of {chip.shared_per_block // 1024} KiB"
    return (
        name,
        " x ".join(sizes) or "-",
        str(warps),
        str(found.registers),
        str(found.spills),
        shared if fits(chip, found) else f"{shared}: too much",
        f"{occupancy(chip, found, warps):.0%}",
        ", ".join(f"{count} {kind}" for kind, count in sorted(found.matrix.items())) or "none",
        f"{found.load_width} B, {found.wide_share:.0%} wide" if found.loads else "none",
        f"{seconds:.1f}",
    )


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = HEAD) -> list[str]:
    """Lines of columns under their heads, two spaces between them; numbers to the right."""
    widths = [max(len(cells[n]) for cells in (head, *rows)) for n in range(len(head))]
    right = [all(cells[n].rstrip("%").replace(".", "").isdigit() for cells in rows) for n in range(len(head))]
    lines = []
    for cells in (head, *rows):
        padded = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(cells, widths, right, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def lines_of(inspections: Sequence[Inspection]) -> Iterator[str]:
    """Everything that is said of some energies, line by line."""
    for each in inspections:
        sizes = ", ".join(f"{name} = {size}" for name, size in each.sizes.items())
        yield f"{each.energy}" + (f"  ({sizes})" if sizes else "")
        rows = [row(k.name.lstrip("_"), each.chip, k.facts, k.settings, k.seconds) for k in each.kernels]
        for line in table(rows) if rows else ():
            yield f"    {line}"
        for reason in each.reasons:
            yield f"    no kernels: {reason}"
