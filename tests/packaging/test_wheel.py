"""The wheel, installed into an empty environment away from the checkout, compiles like the checkout does."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENERGIES = sorted((ROOT / "examples" / "energies").glob("*.cem"))


def run(command: list[str | Path], cwd: Path, home: Path) -> str:
    """The output of a command that must succeed, with an empty home folder and no trace of the checkout."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    process = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**environment, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, f"{command}\n{process.stdout}{process.stderr}"
    return process.stdout


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside the checkout, with a blank in its name."""
    return tmp_path_factory.mktemp("some where")


@pytest.fixture(scope="module")
def wheel(outside: Path) -> Path:
    """The wheel of this checkout, built with the back end that is installed."""
    run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", outside / "dist", ROOT],
        outside,
        outside,
    )
    (path,) = (outside / "dist").glob("*.whl")
    return path


def test_the_wheel_holds_every_module_grammar_and_template_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = [
        path for folder in ("cemc", "grammars", "templates") for path in (ROOT / folder).rglob("*") if path.is_file()
    ]
    listed = [path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts]
    expected = {name if name.startswith("cemc/") else f"cemc/_resources/{name}" for name in listed}
    assert names == expected
    assert any(name.startswith("cemc/_resources/grammars/") for name in names)
    assert any(name.startswith("cemc/_resources/templates/") for name in names)


def test_an_installed_wheel_compiles_to_the_committed_bytes(wheel: Path, outside: Path) -> None:
    run([sys.executable, "-m", "venv", outside / "venv"], outside, outside)
    python = outside / "venv" / "bin" / "python"
    run([python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel], outside, outside)
    where = run([python, "-c", "import cemc; print(cemc.__file__)"], outside, outside)
    assert Path(where.strip()).is_relative_to(outside / "venv")

    with (ROOT / "pyproject.toml").open("rb") as file:
        command = outside / "venv" / "bin" / next(iter(tomllib.load(file)["project"]["scripts"]))
    sources = []
    for energy in ENERGIES:
        sources.append(outside / energy.name)
        sources[-1].write_bytes(energy.read_bytes())
    run([command, "compile", *sources, "-o", outside / "generated"], outside, outside)
    written, committed = (
        {path.name: path.read_bytes() for path in (root / "generated").glob("*.py")} for root in (outside, ROOT)
    )
    assert sorted(written) == sorted(committed)
    assert [name for name in written if written[name] != committed[name]] == []
