"""The command line: exit statuses, what goes where, and no traceback for anything."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import cemc
from cemc import cache, cli
from cemc.resources import resource_folder

GOOD = "energy good(d) {\n  state x[token, d]\n  E[i] = norm2(x[i])\n}\n"
BAD = "energy bad(d) {\n  state x[token, d]\n  E[i] = norm2(y[i])\n}\n"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def write(folder: Path, name: str, text: str | bytes) -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def run(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "cemc", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **options},
        check=False,
    )


# ------------------------------------------------------------------------------------------------------------ status 0


def test_version() -> None:
    result = run("--version")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"cemc {cemc.__version__}\n", "")


def test_version_and_help_import_nothing_large() -> None:
    code = "import sys, cemc.cli; cemc.cli.main(sys.argv[1:]); print(sorted(LARGE & set(sys.modules)))"
    code = code.replace("LARGE", "{'sympy', 'torch', 'lark'}")
    for arguments in (["--version"], ["--help"], ["compile", "--help"]):
        result = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=True
        )
        assert result.stdout.splitlines()[-1] == "[]"


def test_compile_writes_and_says_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "folder"
    assert cli.main(["compile", write(tmp_path, "good.cem", GOOD), "-o", str(out)]) == 0
    assert (out / "good.py").read_text(encoding="utf-8")
    captured = capsys.readouterr()
    assert captured.out.splitlines()[0] == str(out / "good.py")
    assert captured.err == ""


def test_warnings_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "warn.cem", GOOD.replace("good(d)", "warn(d, n = 1)"))
    for _ in range(2):  # the second time from the cache
        assert cli.main(["compile", path, "-o", str(tmp_path)]) == 0
        assert "warning: the header name `n` is never used" in capsys.readouterr().err


def test_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", write(tmp_path, "good.cem", GOOD)]) == 0
    out = capsys.readouterr().out
    assert "good  generic" in out
    assert "ok" in out


# ------------------------------------------------------------------------------------------------------------ status 1


@pytest.mark.parametrize("command", [["compile", "-o", "out"], ["check"]])
def test_a_wrong_file(command: list[str], tmp_path: Path) -> None:
    result = run(*command, write(tmp_path, "bad.cem", BAD))
    assert result.returncode == 1
    assert result.stdout == ""
    assert "bad.cem:3:16: error: unknown name `y`" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xfe\0", b"#", b"(" * 100_000, b"a" * 1_000_000, os.urandom(1000)])
def test_files_that_are_no_energies(data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "f.cem", data)
    assert cli.main(["compile", path, "-o", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"{path}:1:1" if not data else f"{path}:")


def test_one_wrong_file_does_not_keep_others_from_compiling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, good = write(tmp_path, "bad.cem", BAD), write(tmp_path, "good.cem", GOOD)
    assert cli.main(["compile", bad, good, "-o", str(tmp_path)]) == 1
    assert (tmp_path / "good.py").exists()
    assert "unknown name" in capsys.readouterr().err


def test_files_may_not_overwrite_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = write(tmp_path, "first.cem", GOOD)
    second = write(tmp_path, "second.cem", GOOD.replace("good", "Good").replace("norm2(x[i])", "2 * norm2(x[i])"))
    assert cli.main(["compile", first, second, "-o", str(tmp_path / "out")]) == 1
    assert "would overwrite that of" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "out").glob("*.py")] == ["good.py"]


def test_a_header_that_no_sizes_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "energy never(d, r = d - d) {\n  state x[token, d]\n  param W[r, d]\n  E[i] = norm2(W @ x[i])\n}\n"
    path = write(tmp_path, "never.cem", text)
    assert cli.main(["check", path]) == 1
    assert capsys.readouterr().err.startswith(f"cemc: error: {path}: no sizes were found that fit the header of never")


# ------------------------------------------------------------------------------------------------------------ status 2


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["compile"],
        ["compile", "f.cem"],
        ["nonsense"],
        ["check"],
        ["--nonsense"],
        ["check", "--seed", "x", "f.cem"],
        ["check", "--seed", "-1", "f.cem"],
        ["check", "--seed", "9" * 16, "f.cem"],
    ],
)
def test_wrong_commands(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert "error" in capsys.readouterr().err


@pytest.mark.parametrize("device", ["nonsense", "meta", "cuda:99"])
def test_devices_that_cannot_be_used(device: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", write(tmp_path, "good.cem", GOOD), "--device", device]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"cemc: error: device '{device}' cannot be used: ")


@pytest.mark.parametrize("command", [["compile", "-o", "out"], ["check"]])
def test_unreadable_files(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (str(tmp_path), str(tmp_path / "missing.cem"), "\0.cem", "a" * 5000):
        assert cli.main([*command, path]) == 2
        assert capsys.readouterr().err.startswith("cemc: error: ")


def test_unwritable_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write(tmp_path, "good.cem", GOOD)
    file = write(tmp_path, "file", "")
    assert cli.main(["compile", good, "-o", file]) == 2
    assert cli.main(["compile", good, "-o", "/proc/nowhere"]) == 2
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if not os.access(closed, os.W_OK):  # root may write everywhere
        assert cli.main(["compile", good, "-o", str(closed)]) == 2
    assert "Traceback" not in capsys.readouterr().err


# ----------------------------------------------------------------------------------------------------------- status 3


@pytest.mark.parametrize("error", [KeyError("inside"), RecursionError(), AssertionError("a\nb"), ValueError()])
def test_a_fault_of_cemc_says_so(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr("cemc.compiler.compile_file", fail)
    path = write(tmp_path, "good.cem", GOOD)
    assert cli.main(["compile", path, "-o", str(tmp_path)]) == 3
    report = capsys.readouterr().err
    assert f"this is a fault of cemc {cemc.__version__}, not of the file" in report
    assert type(error).__name__ in report
    assert "Please report it" in report
    assert "Traceback" not in report
    monkeypatch.setenv(cli.DEBUG, "1")
    with pytest.raises(type(error)):
        cli.main(["compile", path, "-o", str(tmp_path)])


def test_every_file_of_the_compiler_counts_for_the_cache() -> None:
    """An edited template is another compiler, and what the old one wrote is not served."""
    listed = {line.split()[0] for line in cache._own_files()}
    templates = resource_folder("templates")
    assert {path.name for kind in ("*.jinja", "compiled/*.py") for path in templates.glob(kind)} <= listed
    assert "cem.lark" in listed
    assert {path.name for path in Path(cache.__file__).parent.rglob("*.py")} <= listed


def test_an_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("cemc.compiler.compile_file", interrupt)
    assert cli.main(["compile", write(tmp_path, "good.cem", GOOD), "-o", str(tmp_path)]) == 130


def test_a_reader_that_has_gone(tmp_path: Path) -> None:
    path = write(tmp_path, "good.cem", GOOD)
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", "cemc", "compile", path, "-o", str(tmp_path)],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    os.close(writer)
    assert process.returncode == 141
    assert process.stderr == ""


def test_output_in_a_terminal_without_unicode(tmp_path: Path) -> None:
    path = write(tmp_path, "bad.cem", BAD.replace("y[i]", "é[i]"))
    result = run("compile", path, "-o", str(tmp_path), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert result.returncode == 1
    assert r"unknown name `\xe9`" in result.stderr


# -------------------------------------------------------------------------------------------------------- from Python


def test_the_package_is_lazy_and_complete() -> None:
    code = "import sys, cemc; print(sorted(LARGE & set(sys.modules)), cemc.__version__)"
    code = code.replace("LARGE", "{'sympy', 'torch', 'lark', 'cemc.compiler'}")
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == f"[] {cemc.__version__}\n"
    assert {"CemError", "compile_file", "load", "__version__"} <= set(dir(cemc))
    assert callable(cemc.compile_file)
    assert callable(cemc.load)
    with pytest.raises(AttributeError):
        cemc.nonsense  # noqa: B018


def test_errors_from_python(tmp_path: Path) -> None:
    with pytest.raises(cemc.CemError, match="unknown name `y`"):
        cemc.compile_file(write(tmp_path, "bad.cem", BAD))


def test_a_layer_that_is_not_causal_says_where(tmp_path: Path) -> None:
    path = write(
        tmp_path, "open.cem", "energy open_(d) {\n  state x[token, d]\n  E[i] = logsumexp[j <= i](x[i] @ x[j])\n}\n"
    )
    for _ in range(2):  # compiled, then out of the cache
        finished = run("compile", path, "-o", str(tmp_path))
        assert finished.returncode == cli.DONE
        assert f"not causal: a token may read later ones\n    {path}:3:35: note: `x[j]`" in finished.stdout
        assert "hold it: `given(x[j])`" in finished.stdout


def test_code_that_python_cannot_read_is_a_fault_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that was there stays."""
    from cemc import emit

    path, out = write(tmp_path, "good.cem", GOOD), tmp_path / "out"
    assert cli.main(["compile", path, "-o", str(out)]) == cli.DONE
    before = (out / "good.py").read_text()
    broken = emit.emit_files

    def emit_files(*arguments: Any) -> Any:
        return replace(broken(*arguments), module="def f(:\n")

    monkeypatch.setattr(emit, "emit_files", emit_files)
    path = write(tmp_path, "good.cem", GOOD + "# changed\n")
    assert cli.main(["compile", path, "-o", str(out)]) == cli.OUR_FAULT
    assert (out / "good.py").read_text() == before
