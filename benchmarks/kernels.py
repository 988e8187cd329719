"""What the kernels of the gallery become on four GPUs, as the tables of `docs/kernels.md`.

    python -m benchmarks.kernels [--page docs/kernels.md] [--at-once 2]

Nothing is launched, so no GPU is needed. The exit status is 1 where a kernel does not compile, asks for more shared
memory than there is, spills in forward, or makes no use of matrix units.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import triton

from cemc.inspection.chips import CHIPS
from cemc.inspection.run import Inspection, Kernel, inspect_file
from cemc.inspection.table import fits, occupancy

ROOT = Path(__file__).resolve().parents[1]
ENERGIES = ROOT / "examples" / "energies"
TARGETS = ("sm_80", "sm_90", "sm_100", "gfx942")
REPRESENTATIVE = ("cem_attention", "soft_capped", "sliding_window", "diagonal_low_rank")
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"


@dataclass(frozen=True)
class Unit:
    """Energies compiled by one process."""

    target: str
    width: int
    dtype: str
    names: tuple[str, ...]


def units() -> list[Unit]:
    """All energies at one width and precision, four at the others too."""
    every = tuple(sorted(path.name.removesuffix("_kernels.py") for path in (ROOT / "generated").glob("*_kernels.py")))
    found = [Unit(target, 64, "bfloat16", every) for target in TARGETS]
    for width, dtype in ((32, "bfloat16"), (128, "bfloat16"), (32, "float32"), (64, "float32"), (128, "float32")):
        found += [Unit(target, width, dtype, REPRESENTATIVE) for target in TARGETS]
    return found


def compiled(unit: Unit) -> list[Inspection]:
    with tempfile.TemporaryDirectory(prefix="kernels-") as folder:
        path = Path(folder) / "energies.cem"
        path.write_text("".join((ENERGIES / f"{name}.cem").read_text(encoding="utf-8") for name in unit.names))
        found = inspect_file(path, unit.target, unit.width, unit.dtype)
    print(f"{unit.target}, {unit.dtype}, width {unit.width}: {len(found)} energies", file=sys.stderr, flush=True)
    return found


def faults(unit: Unit, inspections: Sequence[Inspection]) -> list[str]:
    """What must not be, in words."""
    found = []
    for each in inspections:
        where = f"{each.energy} on {unit.target}, {unit.dtype}, width {unit.width}"
        found += [f"{where}: {error}" for error in each.errors]
        for kernel in each.kernels:
            if not fits(each.chip, kernel.facts):
                found.append(f"{where}: {kernel.name} needs {kernel.facts.shared} bytes of shared memory")
            if kernel.facts.spills and kernel.name.endswith("forward"):
                found.append(f"{where}: {kernel.name} spills {kernel.facts.spills}")
            if not kernel.facts.matrix and "pairs" in kernel.name:
                found.append(f"{where}: {kernel.name} makes no use of matrix units")
    return found


def tables(results: Sequence[tuple[Unit, list[Inspection]]]) -> str:
    """A table for each width and precision."""
    text = [f"Triton {triton.__version__}."]
    for width, dtype in dict.fromkeys((unit.width, unit.dtype) for unit, _ in results):
        mine = {unit.target: found for unit, found in results if (unit.width, unit.dtype) == (width, dtype)}
        text += ["", f"### {dtype}, tiles {width} wide", "", f"| energy | kernel | {' | '.join(mine)} |",
                 "| --- | --- |" + " --- |" * len(mine)]  # fmt: skip
        rows: dict[tuple[str, str], dict[str, str]] = {}
        for target, found in mine.items():
            for each in found:
                for kernel in each.kernels:
                    rows.setdefault((each.energy, kernel.name.lstrip("_")), {})[target] = _cell(each, kernel)
        for (energy, name), cells in rows.items():
            text.append(f"| {energy} | {name} | {' | '.join(cells.get(target, '') for target in mine)} |")
    return "\n".join(text) + "\n"


def _cell(each: Inspection, kernel: Kernel) -> str:
    found, settings = kernel.facts, kernel.settings
    parts = [
        f"{settings['ROWS']}x{settings['COLUMNS']}, {settings['num_warps']} warps",
        f"{found.registers} reg" + (f" ({found.spills} spilled)" if found.spills else ""),
        f"{found.shared / 1024:.0f} KiB",
        f"{occupancy(each.chip, found, settings['num_warps']):.0%}",
        f"{found.load_width} B",
        "+".join(sorted(found.matrix)) or "-",
    ]
    return ", ".join(parts)


def write(page: Path, results: Sequence[tuple[Unit, list[Inspection]]]) -> None:
    """Puts the tables in their place on the page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    temporary = page.with_name(f".{page.name}.tmp")
    temporary.write_text(f"{before}{BEGIN}\n\n{tables(results)}\n{END}{after}", encoding="utf-8")
    os.replace(temporary, page)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "kernels.md")
    parser.add_argument("--at-once", type=int, default=max((os.cpu_count() or 2) // 2, 1), metavar="N")
    given = parser.parse_args(arguments)
    assert set(TARGETS) <= set(CHIPS)
    todo = units()
    results: list[tuple[Unit, list[Inspection]]] = []
    with ThreadPoolExecutor(given.at_once) as pool:
        # Each is written as it comes: all of it takes long.
        for unit, found in zip(todo, pool.map(compiled, todo), strict=True):
            results.append((unit, found))
            write(given.page, results)
    wrong = [line for unit, found in results for line in faults(unit, found)]
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
