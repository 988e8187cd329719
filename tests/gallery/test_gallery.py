"""The gallery: every energy in `examples/energies` is right, and `generated/` and the docs say what becomes of it.

`REWRITE_GOLDEN=1 pytest tests/gallery` writes `generated/` and the table in `docs/gallery.md` anew.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cemc.check import BACKENDS, check_energy
from cemc.compiler import Result, Trace, compile_source
from cemc.oracle.compare import build
from cemc.oracle.draw import draw
from cemc.semantics import analyse
from cemc.semantics.typed import Energy
from cemc.syntax import parse, read_source
from tests.gallery.table import ENERGIES, HEAD, PAGE, ROOT, opening, row

REWRITE = bool(os.environ.get("REWRITE_GOLDEN"))
GENERATED = ROOT / "generated"

ATTENTION = "causal softmax attention, the keys are the values"
ROTARY = f"{ATTENTION}, rotary positions"
PAIRS = "sums over pairs"
FEATURES = "element-wise energy of features, {} is both the up and the down projection"
GATED = "gated MLP (gate V), W is both the up and the down projection"

# What a reader of the file expects: how each structure's sentence starts, and whether a token reads no later one.
EXPECTED: dict[str, tuple[tuple[str, ...], bool]] = {
    "alibi": ((PAIRS,), True),
    "attention_sink": ((PAIRS,), True),
    "cem_attention": ((ROTARY,), True),
    "cem_mlp": ((GATED,), True),
    "cross_attention": ((PAIRS,), True),
    "dense_associative_memory": ((FEATURES.format("M"),), True),
    "diagonal_low_rank": ((PAIRS,), True),
    "energy_transformer": ((FEATURES.format("M"), PAIRS), False),
    "gaussian_wells": ((), True),
    "geglu": ((GATED,), True),
    "grouped_query": ((ROTARY,), True),
    "linear_attention": ((PAIRS,), True),
    "mean_shift": (("distances of pairs", PAIRS), True),
    "mixture_of_experts": ((GATED,), True),
    "modern_hopfield": (("softmax attention from token to patterns, the keys are the values",), True),
    "multi_query": ((ROTARY,), True),
    "preconditioned": ((ROTARY,), True),
    "query_key_norm": ((PAIRS,), True),
    "recursive_held": ((ROTARY,), True),
    "recursive_refreshed": ((ROTARY,), True),
    "reglu": ((GATED,), True),
    "relative_bias": ((PAIRS,), True),
    "sigmoid_attention": ((PAIRS,), True),
    "sliding_window": ((PAIRS,), True),
    "soft_capped": ((PAIRS,), True),
    "squared_relu": ((FEATURES.format("W"),), True),
    "third_order": ((PAIRS,), True),
    "token_shift": ((GATED,), True),
    "yuriiformer": ((ROTARY, GATED), True),
}


def test_the_gallery_is_all_here() -> None:
    assert [path.stem for path in ENERGIES] == sorted(EXPECTED)
    assert len(ENERGIES) >= 26


@pytest.mark.parametrize("seed", ["0", "12345"])
def test_generated_is_what_the_gallery_compiles_to(seed: str, tmp_path: Path) -> None:
    """Byte by byte, whatever the order of Python's sets; no file more, none less, and no warning."""
    out = tmp_path / "generated"
    done = subprocess.run(
        [sys.executable, "-m", "cemc", "compile", *ENERGIES, "-o", out],
        env={**os.environ, "PYTHONHASHSEED": seed, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    written = {path.name: path.read_bytes() for path in out.iterdir()}
    if REWRITE:
        for path in GENERATED.glob("*.py"):
            path.unlink()
        for name, content in written.items():
            (GENERATED / name).write_bytes(content)
    kept = {path.name: path.read_bytes() for path in GENERATED.iterdir() if path.name != "__pycache__"}
    assert sorted(written) == sorted(kept)
    assert [name for name in written if written[name] != kept[name]] == []


def test_generated_is_clean() -> None:
    """Nothing to find for a linter, and no line too long to read."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", "line-length = 120", "generated"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_generated_needs_torch_only() -> None:
    imported = set()
    for path in GENERATED.glob("*.py"):
        imported |= set(re.findall(r"^ *(?:import|from) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE))
    assert imported - sys.stdlib_module_names <= {"torch", "triton"}
    assert "torch" in imported


@cache
def typed(path: Path) -> Energy:
    """The only energy of a file."""
    source = read_source(path)
    (energy,) = analyse(parse(source), source).energies
    return energy


@cache
def compiled(path: Path) -> Result:
    """The same compiled, without the cache."""
    (result,) = compile_source(read_source(path), Trace())
    return result


def layer_class(result: Result) -> Any:
    """The class as it is committed, in `generated/`."""
    return getattr(importlib.import_module(f"generated.{result.name}"), result.class_name)


def is_causal(path: Path, result: Result) -> bool:
    layer = build(layer_class(result), draw(typed(path), seed=0), "auto")
    return bool(layer.causal)


@pytest.mark.parametrize("path", ENERGIES, ids=lambda path: path.stem)
def test_is_what_a_reader_expects(path: Path) -> None:
    result = compiled(path)
    expected, causal = EXPECTED[path.stem]
    assert result.name == path.stem
    assert len(result.recognised) == len(expected), result.recognised
    for sentence, start in zip(sorted(result.recognised), sorted(expected), strict=True):
        assert sentence.startswith(start)
    assert is_causal(path, result) == causal


@pytest.mark.parametrize("path", ENERGIES, ids=lambda path: path.stem)
def test_agrees_with_autograd_of_the_energy(path: Path) -> None:
    reports = check_energy(typed(path), layer_class(compiled(path)), rounds=2)
    assert {report.backend for report in reports} == set(BACKENDS)
    for report in reports:
        assert report.passed, report


@pytest.mark.parametrize("path", ENERGIES, ids=lambda path: path.stem)
def test_opens_with_its_source_and_its_step(path: Path) -> None:
    found = opening(path)
    assert re.search(r"\b(19|20)\d\d\b", path.read_text(encoding="utf-8").split("energy ")[0] + found.source)
    assert " <- " in found.step
    assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 120


def test_the_table_in_the_docs_is_what_the_compiler_says() -> None:
    rows = []
    for path in ENERGIES:
        result = compiled(path)
        rows.append(row(path, result, is_causal(path, result)))
    table = HEAD + "\n".join(rows) + "\n"
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split("<!-- table -->\n")
    shown, after = rest.split("<!-- end of the table -->")
    if REWRITE:
        PAGE.write_text(f"{before}<!-- table -->\n{table}<!-- end of the table -->{after}", encoding="utf-8")
        shown = table
    assert shown == table
