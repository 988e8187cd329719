"""`benchmarks.gpu` is known to work before there is a GPU: all of it at tiny sizes on the CPU, and what it does with
parts that fail."""

from __future__ import annotations

import inspect
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import gpu, gpu_part


def test_a_dry_run_finds_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = gpu.main(["--dry-run", "--minutes", "20", "--energies", "sliding_window", "--out", str(tmp_path)])
    assert status == 0, capsys.readouterr().out
    found = json.loads((tmp_path / "results.json").read_text())
    assert [part["part"] for part in found["parts"]] == [
        "check sliding_window", "time attention-16", "time mlp-16", "autotune 16"
    ]  # fmt: skip
    assert [part["failure"] for part in found["parts"]] == [""] * 4
    lines = [line for part in found["parts"] for line in part["lines"]]
    checks = [line for line in lines if "check" in line]
    assert [line["passed"] for line in checks] == [True] * len(gpu_part.DRY.cases)
    assert all("update 0" in line["errors"]["triton"] and "gradient to Q" in line["errors"]["torch"] for line in checks)
    raced = {(line["table"], line["pass"]): line["contenders"] for line in lines if "table" in line}
    passes = ("forward", "forward and backward")
    for way in passes:
        alone = raced["attention alone, head width 16", way]
        assert set(alone) == {"sdpa flash", "cemc kernel", "sdpa math", "flex"}
        # FlexAttention has no backward on the CPU: a failure is kept, and costs nobody else anything.
        failing = {"flex"} if way == passes[1] else set()
        assert {name for name, each in alone.items() if "failure" in each} == failing
        for table in ("attention layer, head width 16", "gated MLP layer, width 16"):
            assert not any("failure" in each for each in raced[table, way].values()), raced[table, way]
    text = (tmp_path / "results.md").read_text()
    assert f"{len(checks)} of {len(checks)} checks passed." in text and "| failed |" in text
    assert not list(tmp_path.glob("*.tmp"))


@pytest.mark.parametrize("name", gpu.energies())
def test_arguments_of_every_energy_are_found(name: str) -> None:
    """A new energy with kernels is checked without a line about it."""
    kind = gpu_part.layer_class(name)
    sizes = {n: size for n, size in (("d", 32), ("heads", 2)) if n in inspect.signature(kind).parameters}
    layer = kind(**sizes, backend="generic")
    found = gpu_part.quantities(layer, gpu_part.arguments(layer, 5, torch.float32, "cpu"))
    assert {f"gradient to {n}" for n, _ in layer.named_parameters()} <= set(found)
    assert all(math.isfinite(u.norm()) for u in found.values())


def test_a_wrong_kernel_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[dict[str, Any]] = []
    right = gpu_part.quantities

    def slightly_wrong(layer: Any, given: Any) -> Any:
        found = right(layer, given)
        if layer.backend == "torch" and layer.name_ == "wrong":
            found["gradient to Q"] = found["gradient to Q"] * 1.001
        return found

    kind = gpu_part.layer_class("cem_attention")

    class Made:
        """The class with another backend; its sizes are read off its signature."""

        __signature__ = inspect.signature(kind)

        def __call__(self, *, backend: str, **sizes: Any) -> Any:
            layer: Any = kind(**sizes, backend="torch" if backend == "triton" else backend)
            layer.name_ = "wrong" if backend == "triton" else ""
            return layer

    monkeypatch.setattr(gpu_part, "quantities", slightly_wrong)
    monkeypatch.setattr(gpu_part, "layer_class", lambda name: Made())
    gpu_part.check("cem_attention", gpu_part.DRY, lambda **line: lines.append(line))
    assert [line["passed"] for line in lines] == [False, True]  # in float16 an error as small is rounding
    assert lines[0]["why"].startswith("gradient to Q 1.0e-03, torch ")


# ------------------------------------------------------------------------------------------------- parts that fail

BEGINNING = (
    "import sys, os, json; file = open(sys.argv[-1], 'a'); file.write(json.dumps({'a': 1}) + '\\n'); file.flush();"
)


def _part(code: str, limit: float = 60) -> gpu.Outcome:
    return gpu.run_part("part", [sys.executable, "-c", BEGINNING + code], limit)


@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("pass", ""),
        ("print('so it goes'); sys.exit(3)", "ended with status 3: so it goes"),
        ("raise RuntimeError('no memory')", "ended with status 1: RuntimeError: no memory"),
        ("sys.stdout.flush(); os.abort()", "ended with status -6"),
        ("file.write('{half'); file.flush(); os.abort()", "ended with status -6"),
    ],
)
def test_what_was_found_before_a_failure_is_kept(code: str, failure: str) -> None:
    outcome = _part(code)
    assert (outcome.failure, list(outcome.lines)) == (failure, [{"a": 1}])


def test_a_part_that_hangs_is_ended() -> None:
    start = time.monotonic()
    outcome = _part("import time; time.sleep(600)", limit=5)
    assert outcome.failure == "ended after its 5 seconds" and list(outcome.lines) == [{"a": 1}]
    assert time.monotonic() - start < 60


def test_checks_go_on_after_one_that_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def fake(part: str, command: Any, limit: float) -> gpu.Outcome:
        names = command[-1].split(",")
        asked.append(names)
        begun = names[: names.index("bad") + 1] if "bad" in names else names
        lines = [line for n in begun for line in ({"starts": n}, *([] if n == "bad" else [{"check": n}]))]
        return gpu.Outcome(part, 1.0, "ended with status -6" if "bad" in names else "", lines)

    monkeypatch.setattr(gpu, "run_part", fake)
    outcomes = gpu.check_all("check", ["a", "bad", "b", "c"], [], 60)
    assert asked == [["a", "bad", "b", "c"], ["b", "c"]]
    assert [line["check"] for each in outcomes for line in each.lines if "check" in line] == ["a", "b", "c"]


def test_a_table_says_who_failed_and_how_the_rest_compares() -> None:
    contenders = {
        "flash": {"failure": "RuntimeError: no"},
        "ours": {"seconds": [0.001, 0.002], "bytes": 2**20},
        "other": {"seconds": [0.002, 0.002], "bytes": None},
    }
    line = {"table": "t", "tokens": 8, "pass": "forward", "contenders": contenders}
    outcome = gpu.Outcome(
        "time", 1.0, "ended with status 1", [line, {"check": "x", "case": "c", "passed": False, "why": "w"}]
    )
    text = gpu.summary([outcome], {"torch": "2"})
    assert "| 8 | forward | failed | 1.50 ms, 1 MiB | 1.50 (1.00 to 2.00) |" in text
    assert "0 of 1 checks passed." in text and "- x, c: w" in text and "- time ended with status 1" in text
