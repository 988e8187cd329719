"""What is read from compiled kernels, and what the command `cemc kernels` says and returns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cemc import cli
from cemc.compiler import compile_file
from cemc.inspection import run as inspection
from cemc.inspection.binary import Facts, facts
from cemc.inspection.chips import CHIPS
from cemc.inspection.run import Unavailable, inspect_file
from cemc.inspection.sizes import layer_sizes
from cemc.inspection.table import fits, occupancy, row, table
from cemc.semantics import analyse
from cemc.source import Source
from cemc.syntax import parse

LOG = """ptxas info    : Compiling entry function 'f' for 'sm_90a'
ptxas info    : Function properties for f
    8 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers
"""
PTX = """
	@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	ld.global.L1::evict_last.L2::cache_hint.v2.b64 { %rd5, %rd6 }, [ %rd1 + 0 ], %rd2;
	ld.global.b32 %r5, [ %rd4 ];
	ld.global.b16 %rs5, [ %rd4 ];
	ld.shared.b32 %r6, [ %r7 ];
	cp.async.cg.shared.global [ %r1 + 0 ], [ %rd3 + 0 ], 0x10, %r5;
	cp.async.ca.shared.global [ %r1 + 0 ], [ %rd3 + 0 ], 0x4, %r5;
	cp.async.commit_group ;
	wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%r1}, %rd1, %rd2, %p1, 1, 1, 0, 1;
	mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %r1 }, { %r2 }, { %r3 }, { %r4 };
	mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 { %r1 }, { %r2 }, { %r3 }, { %r4 };
	tcgen05.mma.cta_group::1.kind::f16 [ %r1 + 0 ], %rd1, %rd2, %r3, %p4;
"""
AMD = """
	buffer_load_dwordx4 v[2:5], v1, s[8:11], 0 offen
	global_load_dword v1, v[2:3], off
	global_load_ushort v1, v[2:3], off
	v_mfma_f32_32x32x8_bf16 v[0:15], v[2:3], v[4:5], 0
    .vgpr_count:     249
    .sgpr_spill_count: 24
    .vgpr_spill_count: 3
"""
GOOD = "energy good(d) {\n  state x[token, d]\n  E[i] = norm2(x[i])\n}\n"
ATTENTION = """energy small(d, heads = 2, r = d / heads) {
  state x[token, d]
  param Q[heads, r, d]
  s[k, i, j] = dot(Q[k] @ x[i], Q[k] @ given(x[j]))
  E[i] = -sum[k](logsumexp[j <= i](s[k, i, j]))
}
"""


def test_nvidia_is_read_right() -> None:
    found = facts({"ptx": PTX}, LOG, 1024)
    assert (found.registers, found.spills, found.shared) == (168, 20, 1024)
    assert found.matrix == {"wgmma": 1, "mma": 2, "tcgen05": 1}
    assert found.loads == {16: 3, 4: 2, 2: 1}
    assert found.load_width == 16
    assert found.wide_share == pytest.approx(48 / 58)


def test_amd_is_read_right() -> None:
    found = facts({"amdgcn": AMD}, "", 512)
    assert (found.registers, found.spills, found.shared) == (249, 3, 512)
    assert (found.matrix, found.loads) == ({"mfma": 1}, {16: 1, 4: 1, 2: 1})


@pytest.mark.parametrize(("texts", "log"), [({"ptx": PTX}, "nothing"), ({"amdgcn": "nothing"}, ""), ({"ttir": ""}, "")])
def test_what_is_not_there_is_not_made_up(texts: dict[str, str], log: str) -> None:
    with pytest.raises(ValueError, match=r"say|no assembler"):
        facts(texts, log, 0)


@pytest.mark.parametrize(
    ("target", "registers", "shared", "warps", "share"),
    [
        ("sm_90", 32, 0, 4, 1.0),
        ("sm_90", 128, 0, 4, 16 / 64),
        ("sm_90", 168, 0, 4, 12 / 64),
        ("sm_90", 169, 0, 4, 8 / 64),  # registers are given eight at a time
        ("sm_90", 255, 0, 8, 8 / 64),
        ("sm_90", 64, 100 * 1024, 4, 8 / 64),
        ("sm_80", 64, 100 * 1024, 4, 4 / 64),
        ("sm_80", 64, 163 * 1024, 4, 4 / 64),
        ("sm_80", 64, 163 * 1024 + 1, 4, 0.0),
        ("sm_120", 40, 0, 4, 1.0),
        ("gfx942", 256, 0, 4, 8 / 32),
        ("gfx942", 225, 0, 4, 8 / 32),
        ("gfx942", 156, 0, 4, 12 / 32),
        ("gfx942", 64, 40 * 1024, 4, 4 / 32),
    ],
)
def test_occupancy(target: str, registers: int, shared: int, warps: int, share: float) -> None:
    found = Facts(registers, 0, shared, {}, {})
    assert occupancy(CHIPS[target], found, warps) == share
    assert fits(CHIPS[target], found) == (share > 0)


def test_table() -> None:
    found = Facts(168, 4, 200 * 1024, {"mma": 2}, {16: 3, 4: 4})
    cells = row("f", CHIPS["sm_80"], found, {"num_warps": 4, "ROWS": 64, "COLUMNS": 32}, 1.25)
    assert cells == (
        "f", "64 x 32", "4", "168", "4", "200.0 of 163 KiB: too much", "0%", "2 mma", "16 B, 75% wide", "1.2"
    )  # fmt: skip
    lines = table([("a", "10", "x"), ("bcd", "5", "yz")], ("k", "n", "m"))
    assert lines == ["k     n  m", "a    10  x", "bcd   5  yz"]


def _energy(text: str) -> Any:
    source = Source("small.cem", text)
    return analyse(parse(source), source).energies[0]


def test_sizes_make_tiles_as_wide_as_asked() -> None:
    assert layer_sizes(_energy(ATTENTION), 64, lambda sizes: {"r": sizes["r"]}) == {"d": 128, "heads": 2, "r": 64}


def test_sizes_that_do_not_divide_are_passed_over() -> None:
    text = ATTENTION.replace("heads = 2", "heads = 16")
    assert layer_sizes(_energy(text), 4, lambda sizes: {"r": sizes["r"]}) == {"d": 16, "heads": 16, "r": 4}


def test_no_sizes_is_said() -> None:
    def never(sizes: Any) -> dict[str, int]:
        raise ValueError("r: expected an even number")

    with pytest.raises(ValueError, match="no sizes with tiles 7 wide fit small: r: expected an even number"):
        layer_sizes(_energy(ATTENTION), 7, never)


# ------------------------------------------------------------------------------------------------------ the command


def _written(folder: Path, text: str) -> str:
    path = folder / "energy.cem"
    path.write_text(text, encoding="utf-8")
    return str(path)


def no_kernels(path: str, number: int) -> list[str]:
    """What the compiler says of an energy without kernels, as the command shows it."""
    result = compile_file(path)[number]
    assert result.no_kernels and not result.kernels
    return [f"    no kernels: {reason}" for reason in result.no_kernels]


def test_command_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _written(tmp_path, ATTENTION + GOOD)
    status = cli.main(["kernels", path, "--target", "sm_80", "--width", "16", "--dtype", "float16"])
    printed = capsys.readouterr()
    assert (status, printed.err) == (cli.DONE, "")
    lines = printed.out.splitlines()
    assert lines[0] == f"{path}: float16 on sm_80"
    assert lines[1] == "small  (d = 32, heads = 2, r = 16)"
    assert lines[2].split()[:3] == ["kernel", "tile", "warps"]
    assert [line.split()[0] for line in lines[3:6]] == ["pairs_forward", "pairs_rows", "pairs_columns"]
    assert all("of 163 KiB" in line and " mma " in line for line in lines[3:6])
    assert lines[6:] == ["good", *no_kernels(path, 1)]


def test_no_kernels_is_an_error_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _written(tmp_path, GOOD)
    assert cli.main(["kernels", path, "--target", "sm_80"]) == cli.WRONG_FILE
    printed = capsys.readouterr()
    assert printed.out.splitlines()[2:] == no_kernels(path, 0)
    assert printed.err == f"cemc: error: {path}: there are no kernels to compile\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "sm_70"], "'sm_80', 'sm_90', 'sm_100', 'sm_120', 'gfx942'"),
        ([], "required: --target"),
        (["--target", "sm_80", "--width", "0"], "expected a number from 1 to 256, got '0'"),
        (["--target", "sm_80", "--width", "½"], "expected a number from 1 to 256, got '½'"),
        (["--target", "sm_80", "--width", "257"], "expected a number from 1 to 256, got '257'"),
        (["--target", "sm_80", "--dtype", "float64"], "invalid choice: 'float64'"),
    ],
)
def test_a_wrong_command_says_what_is_right(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["kernels", "file.cem", *arguments]) == cli.WRONG_COMMAND
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_a_wrong_file_is_reported_like_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["kernels", _written(tmp_path, "energy"), "--target", "sm_80"]) == cli.WRONG_FILE
    assert cli.main(["kernels", str(tmp_path / "none.cem"), "--target", "sm_80"]) == cli.WRONG_COMMAND
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("package", ["triton", "torch"])
def test_what_is_not_installed_is_said(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = _written(tmp_path, ATTENTION)
    monkeypatch.setattr(inspection, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(Unavailable, match=package):
        inspect_file(path, "sm_80")
    assert cli.main(["kernels", path, "--target", "sm_80"]) == cli.WRONG_COMMAND
    assert f"compiling kernels needs {package}: pip install 'cemc[triton]'" in capsys.readouterr().err


def test_a_compiler_that_dies_says_at_which_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = json.dumps({"energy": "small", "starts": "_pairs_rows"})
    ended = subprocess.CompletedProcess([], -6, said, "LLVM ERROR: out of patience\n")
    monkeypatch.setattr(inspection.subprocess, "run", lambda *arguments, **options: ended)
    path = _written(tmp_path, ATTENTION)
    assert cli.main(["kernels", path, "--target", "sm_80"]) == cli.WRONG_FILE
    expected = "small: _pairs_rows: the compiling process was ended by SIGABRT: LLVM ERROR: out of patience"
    assert expected in capsys.readouterr().err


# What stands in for a driver is for the process of its own: here, Triton may be set to interpret.
COMPILING = """
import sys
from cemc.inspection import worker
worker.{0}
worker.main(*sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("facts = None", "TypeError"),
        ("Compiler._compile = lambda *arguments: worker._Failed()", "no kernel was launched"),
    ],
)
def test_a_fault_of_the_worker_is_not_an_empty_table(
    change: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = subprocess.run

    def changed(command: list[str], **options: Any) -> Any:
        return real([sys.executable, "-c", COMPILING.format(change), *command[3:]], **options)

    path = _written(tmp_path, ATTENTION)
    monkeypatch.setattr(inspection.subprocess, "run", changed)
    (inspected,) = inspect_file(path, "sm_80", 16)
    assert inspected.kernels == [] and any(found in error for error in inspected.errors), inspected.errors


def test_the_settings_of_the_caller_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    (inspected,) = inspect_file(_written(tmp_path, ATTENTION), "sm_80", 16)
    assert [kernel.facts.spills for kernel in inspected.kernels] == [0, 0, 0]
    assert not os.path.exists(tmp_path / "cache")
