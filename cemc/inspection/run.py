"""Starts the process that compiles, and collects what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from cemc.compiler import Result, compile_file
from cemc.inspection.binary import Facts
from cemc.inspection.chips import CHIPS, Chip


class Unavailable(Exception):
    """What is needed to compile kernels is not installed."""


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel; `settings`: what it was launched with, tile and warps among them."""

    name: str
    settings: Mapping[str, Any]
    seconds: float
    facts: Facts


@dataclass(frozen=True)
class Inspection:
    """What came of the kernels of one energy on `chip`. `sizes`: of the layer they were compiled for; `errors`: what
    could not be compiled, in words; `reasons`: why there are no kernels."""

    energy: str
    chip: Chip
    sizes: Mapping[str, int] = field(default_factory=dict)
    kernels: Sequence[Kernel] = ()
    errors: Sequence[str] = ()
    reasons: Sequence[str] = ()


def inspect_file(path: str | Path, target: str, width: int = 64, dtype: str = "bfloat16") -> list[Inspection]:
    """Compiles the kernels of every energy of the file at `path` for the chip `target`, with tiles `width` wide.

    Raises CemError if the file is wrong, OSError if it cannot be read, Unavailable if torch or Triton is missing.
    """
    results = compile_file(path)
    chip = CHIPS[target]
    if not any(result.kernels for result in results):
        return [Inspection(result.name, chip, reasons=_reasons(result)) for result in results]
    missing = [package for package in ("torch", "triton") if find_spec(package) is None]
    if missing:
        raise Unavailable(f"compiling kernels needs {' and '.join(missing)}: pip install 'cemc[triton]'")
    said, failed = _said([str(path), target, str(width), dtype])
    return [_inspection(result, chip, [line for line in said if line["energy"] == result.name], failed)
            for result in results]  # fmt: skip


def _reasons(result: Result) -> Sequence[str]:
    return result.no_kernels or result.reasons or ("there is no sum over pairs of tokens in it",)


def _said(arguments: Sequence[str]) -> tuple[list[dict[str, Any]], str]:
    """The lines of the worker, and how it failed; "" where it did not."""
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryDirectory(prefix="cemc-") as folder:
        # A cache of its own: what is found in one is not compiled, and nothing is known of its registers.
        environment = {**os.environ, "PYTHONPATH": path, "TRITON_CACHE_DIR": folder, "TRITON_INTERPRET": "0"}
        command = [sys.executable, "-m", "cemc.inspection.worker", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return said, "" if done.returncode == 0 else _ending(done.returncode, done.stderr)


def _ending(status: int, words: str) -> str:
    how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return f"the compiling process {how}" + (f": {lines[-1][:300]}" if lines else "")


def _inspection(result: Result, chip: Chip, said: Sequence[Mapping[str, Any]], failed: str) -> Inspection:
    if not result.kernels:
        return Inspection(result.name, chip, reasons=_reasons(result))
    sizes: dict[str, int] = {}
    kernels: dict[str, Kernel] = {}
    errors = []
    begun = None
    for line in said:
        if "starts" in line:
            begun = line["starts"]
            continue
        begun = None
        if "sizes" in line:
            sizes = line["sizes"]
        elif "error" in line:
            errors.append(f"{line['kernel']}: {line['error']}" if "kernel" in line else line["error"])
        elif "facts" in line:
            # Launches try configurations until one fits, and go on with that.
            kernels[line["kernel"]] = Kernel(line["kernel"], line["settings"], line["seconds"], _facts(line["facts"]))
    if failed and begun is not None:
        errors.append(f"{begun}: {failed}")
    elif failed or not (kernels or errors):
        errors.append(failed or "no kernel was launched")
    return Inspection(result.name, chip, sizes, list(kernels.values()), list(dict.fromkeys(errors)))


def _facts(stored: Mapping[str, Any]) -> Facts:
    """JSON's keys are strings."""
    return Facts(**{**stored, "loads": {int(width): count for width, count in stored["loads"].items()}})
