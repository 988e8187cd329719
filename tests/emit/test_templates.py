"""The compiled templates beside the templates are those of the templates."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cemc import templates
from cemc.resources import resource_folder
from cemc.templates import compile_templates, compiled_folder, environment, made_from

FOLDER = resource_folder("templates")


def test_compiled_templates_are_up_to_date(tmp_path: Path) -> None:
    stamp = (compiled_folder(FOLDER) / "made_from.txt").read_text(encoding="utf-8").strip()
    assert stamp == made_from(FOLDER), "run python -m cemc.templates"
    compile_templates(FOLDER, tmp_path)
    committed = {path.name: path.read_text(encoding="utf-8") for path in compiled_folder(FOLDER).glob("tmpl_*.py")}
    assert len(committed) == len(list(FOLDER.glob("*.jinja")))
    assert committed == {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("tmpl_*.py")}


def _greeting(monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    monkeypatch.setattr(templates, "resource_folder", lambda kind: folder)
    return environment().get_template("greeting.jinja").render(name="x")


def test_compiled_templates_are_used_until_a_template_is_edited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greeting.jinja").write_text("Hello {{ name }}\n", encoding="utf-8")
    assert _greeting(monkeypatch, tmp_path) == "Hello x\n"
    compile_templates(tmp_path, compiled_folder(tmp_path))
    (module,) = compiled_folder(tmp_path).glob("tmpl_*.py")
    module.write_text(module.read_text(encoding="utf-8").replace("Hello", "Compiled"), encoding="utf-8")
    assert _greeting(monkeypatch, tmp_path) == "Compiled x\n"
    (tmp_path / "greeting.jinja").write_text("Goodbye {{ name }}\n", encoding="utf-8")
    assert _greeting(monkeypatch, tmp_path) == "Goodbye x\n"
    shutil.rmtree(compiled_folder(tmp_path))
    assert _greeting(monkeypatch, tmp_path) == "Goodbye x\n"
