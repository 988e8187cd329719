"""The generated kernels on a GPU: right first, then how fast, in five minutes and unattended.

    python -m benchmarks.gpu [--out runs/gpu] [--minutes 5]     on a GPU
    python -m benchmarks.gpu --dry-run                          here: tiny sizes on the CPU, kernels interpreted

Needs torch, triton and the committed files of `generated/`, nothing else. Every part runs in a process of its own with
a limit on its time: one that fails, hangs or breaks the GPU's state costs its own numbers, and what it had found until
then is kept. What is there is written after each part, to `results.json` and, as tables, to `results.md`.

1. Correctness of every energy with kernels, at two head widths, in each precision: the update and all gradients
   against backend "generic" in float64. An error passes if it is at most twice that of backend "torch" in the same
   precision, plus a few units in the last place. The parts run at the same time; so do those of 2, once, to compile.
2. Time and memory, forward and with backward, in bfloat16, by contenders that take turns in each round. A ratio is
   the median over rounds, with the range; the first contender of a table is 1.
3. What the first call chooses when it times all configurations (CEMC_AUTOTUNE).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WIDTHS = (64, 128)
DRY_WIDTH = 16
AT_ONCE = 8
SHARE_OF_CHECKS = 0.4
LEAST_SECONDS = 10.0


@dataclass(frozen=True)
class Outcome:
    """What came of a part: how it ended, "" if well, and the lines it wrote."""

    part: str
    seconds: float
    failure: str
    lines: Sequence[dict[str, Any]]


def run_part(part: str, command: Sequence[str], limit: float) -> Outcome:
    """Runs a part in a process of its own, which appends JSON lines to the file that is its last argument, for at most
    `limit` seconds."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-") as folder:
        path = Path(folder) / "lines.jsonl"
        path.touch()
        output = Path(folder) / "output"
        with output.open("wb") as file:
            process = subprocess.Popen([*command, str(path)], stdout=file, stderr=subprocess.STDOUT, cwd=ROOT)
            try:
                status = process.wait(max(limit, 0.1))
                failure = f"ended with status {status}" if status else ""
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                failure = f"ended after its {limit:.0f} seconds"
        words = [line.strip() for line in output.read_text(errors="replace").splitlines() if line.strip()]
        # Whoever was killed while writing leaves half a line.
        written = path.read_text(encoding="utf-8").split("\n")[:-1]
    if failure and words:
        failure += f": {words[-1][:300]}"
    return Outcome(part, time.monotonic() - start, failure, [json.loads(line) for line in written])


def check_all(part: str, names: Sequence[str], options: Sequence[str], limit: float) -> list[Outcome]:
    """The checks of some energies in one process; in another one for those that come after one that ended it."""
    end = time.monotonic() + limit
    outcomes = []
    left = list(names)
    while left:
        command = [sys.executable, "-m", "benchmarks.gpu_part", *options, "check", ",".join(left)]
        outcome = run_part(part, command, end - time.monotonic())
        begun = [line["starts"] for line in outcome.lines if "starts" in line]
        outcomes.append(outcome)
        if not outcome.failure or time.monotonic() >= end:
            left = []
        else:
            left = left[max(len(begun), 1) :]
    return outcomes


# ------------------------------------------------------------------------------------------------------------ tables


def summary(outcomes: Iterable[Outcome], about: dict[str, Any]) -> str:
    """Everything found, as Markdown."""
    outcomes = list(outcomes)
    lines = [line for outcome in outcomes for line in outcome.lines]
    text = ["# On a GPU", "", ", ".join(f"{name} {value}" for name, value in about.items()), ""]
    checks = [line for line in lines if "check" in line]
    failed = [line for line in checks if not line["passed"]]
    text += [f"{len(checks) - len(failed)} of {len(checks)} checks passed.", ""]
    for line in failed:
        text.append(f"- {line['check']}, {line['case']}: {line['why']}")
    for outcome in outcomes:
        if outcome.failure:
            text.append(f"- {outcome.part} {outcome.failure}")
    text += _tables([line for line in lines if "table" in line])
    for line in lines:
        if "chosen" in line:
            text.append(f"- {line['chosen']}: " + ", ".join(f"{name} {way}" for name, way in line["ways"].items()))
    return "\n".join(text) + "\n"


def _tables(lines: Sequence[dict[str, Any]]) -> list[str]:
    text = []
    for table in dict.fromkeys(line["table"] for line in lines):
        mine = [line for line in lines if line["table"] == table]
        names = list(dict.fromkeys(name for line in mine for name in line["contenders"]))
        text += ["", f"## {table}", "", f"| tokens | pass | {' | '.join(names)} |", "|" + " --- |" * (2 + len(names))]
        for line in sorted(mine, key=lambda line: (line["tokens"], line["pass"])):
            cells = [_cell(line["contenders"].get(name), line["contenders"]) for name in names]
            text.append(f"| {line['tokens']} | {line['pass']} | {' | '.join(cells)} |")
    return [*text, ""]


def _cell(found: dict[str, Any] | None, contenders: dict[str, Any]) -> str:
    """A ratio to the first contender there is, which has its milliseconds; peak memory where it was measured."""
    if found is None:
        return ""
    if "failure" in found:
        return "failed"
    base = next(each for each in contenders.values() if "seconds" in each)
    ratios = [a / b for a, b in zip(found["seconds"], base["seconds"], strict=True)]
    memory = f", {found['bytes'] / 2**20:.0f} MiB" if found.get("bytes") is not None else ""
    if found is base:
        return f"{statistics.median(found['seconds']) * 1e3:.2f} ms{memory}"
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}){memory}"


# ------------------------------------------------------------------------------------------------------------- a run


def energies() -> list[str]:
    """The energies with kernels."""
    return sorted(path.name.removesuffix("_kernels.py") for path in (ROOT / "generated").glob("*_kernels.py"))


def write(out: Path, outcomes: Sequence[Outcome], about: dict[str, Any]) -> None:
    """Writes what there is, whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    texts = {
        "results.json": json.dumps({"about": about, "parts": [vars(outcome) for outcome in outcomes]}, indent=1),
        "results.md": summary(outcomes, about),
    }
    for name, text in texts.items():
        temporary = out / f".{name}.tmp"
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, out / name)


def about(options: Sequence[str]) -> dict[str, Any]:
    """What it runs on, asked in a process of its own, so that this one leaves the GPU alone."""
    outcome = run_part("about", [sys.executable, "-m", "benchmarks.gpu_part", *options, "about", ""], 60)
    found = {name: value for line in outcome.lines for name, value in line.items()}
    return found | ({"failure": outcome.failure} if outcome.failure else {})


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "gpu")
    parser.add_argument("--minutes", type=float, default=5.0, help="all parts together take no longer")
    parser.add_argument("--energies", default="", help="check only these, with commas between them")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes on the CPU, kernels interpreted")
    given = parser.parse_args(arguments)
    start = time.monotonic()
    os.environ["TRITON_INTERPRET"] = "1" if given.dry_run else "0"
    options = ["--dry-run"] if given.dry_run else []
    seconds = given.minutes * 60
    told = about(options)
    print(", ".join(f"{name} {value}" for name, value in told.items()), flush=True)
    if "failure" in told:
        return 1
    names = given.energies.split(",") if given.energies else energies()
    at_once = min(2 if given.dry_run else AT_ONCE, len(names))
    outcomes: list[Outcome] = []

    def finished(each: Outcome) -> None:
        outcomes.append(each)
        write(given.out, outcomes, told)
        print(f"{each.part}: {each.seconds:.0f} s {each.failure or 'done'}", flush=True)

    def part(kind: str, what: str, limit: float) -> Outcome:
        return run_part(f"{kind} {what}", [sys.executable, "-m", "benchmarks.gpu_part", *options, kind, what], limit)

    widths = (DRY_WIDTH,) if given.dry_run else WIDTHS
    timed = [f"{kind}-{width}" for kind in ("attention", "mlp") for width in widths]
    limit = SHARE_OF_CHECKS * seconds
    with ThreadPoolExecutor(at_once if given.dry_run else 2 * AT_ONCE) as pool:
        groups = [names[n::at_once] for n in range(at_once)]
        checks = [pool.submit(check_all, f"check {', '.join(g)}", g, options, limit) for g in groups]
        warm = [] if given.dry_run else [pool.submit(part, "compile", what, limit) for what in timed]
        for future in checks:
            for each in future.result():
                finished(each)
        for other in warm:
            finished(other.result())
    parts = [*(("time", what) for what in timed), *(("autotune", str(width)) for width in widths)]
    for n, (kind, what) in enumerate(parts):
        left = seconds - (time.monotonic() - start)
        if left < LEAST_SECONDS:
            finished(Outcome(f"{kind} {what}", 0.0, "not begun: no time is left", []))
            continue
        finished(part(kind, what, left / (len(parts) - n)))
    print(summary(outcomes, told))
    wrong = [line for each in outcomes for line in each.lines if line.get("passed") is False]
    return 1 if wrong or any(each.failure for each in outcomes if each.part.startswith("check")) else 0


if __name__ == "__main__":
    sys.exit(main())
