"""The templates, compiled ahead of time.

Jinja takes longer to compile the templates than cemc to derive and print most layers, so what it makes of them lies
beside them in `templates/compiled/`, with a digest of what it was made from. Where that is not what is installed, an
edited template or another version of Jinja, the templates themselves are read: compiled ones can be missing or old, but
not wrong.

    python -m cemc.templates      writes them anew, after a change to a template
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import jinja2.compiler
from jinja2 import BaseLoader, Environment, FileSystemLoader, ModuleLoader, StrictUndefined

from cemc.resources import resource_folder

_STAMP = "made_from.txt"


def environment() -> Environment:
    """Jinja as the templates expect it."""
    folder = resource_folder("templates")
    return _environment(_compiled(folder) or FileSystemLoader(folder))


def compiled_folder(templates: Path) -> Path:
    """Where the compiled templates of a folder of templates lie."""
    return templates / "compiled"


def made_from(templates: Path) -> str:
    """Digest of everything that compiled templates depend on: the templates, and Jinja's compiler, whose output is
    written for the run-time functions beside it."""
    digest = hashlib.sha256(Path(jinja2.compiler.__file__).read_bytes())
    for name in _names(templates):
        digest.update(f"\0{name}\0{(templates / name).read_text(encoding='utf-8')}".encode())
    return digest.hexdigest()


def compile_templates(templates: Path, target: Path) -> None:
    """Writes what Jinja makes of the templates in a folder to another folder."""
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("tmpl_*.py"):
        old.unlink()
    _environment(FileSystemLoader(templates)).compile_templates(
        target, zip=None, filter_func=lambda name: name in _names(templates), ignore_errors=False
    )
    (target / _STAMP).write_text(made_from(templates) + "\n", encoding="utf-8")


def _environment(loader: BaseLoader) -> Environment:
    return Environment(
        loader=loader,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )


def _compiled(templates: Path) -> BaseLoader | None:
    """The loader of compiled templates, if they are of these templates."""
    folder = compiled_folder(templates)
    try:
        stamp = (folder / _STAMP).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    return ModuleLoader(folder) if stamp == made_from(templates) else None


def _names(templates: Path) -> list[str]:
    return sorted(path.name for path in templates.glob("*.jinja"))


if __name__ == "__main__":
    compile_templates(resource_folder("templates"), compiled_folder(resource_folder("templates")))
