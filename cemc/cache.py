"""Compiled energies kept in the user's cache folder, so that an unchanged file costs no compilation and no import of
SymPy.

Entries are JSON, named by a digest of everything the result depends on: the text and name of the file, the version and
the files of cemc itself, and the installed packages the compiler uses. A cache that cannot be read or written is
as good as an empty one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import tempfile
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cemc.resources import resource_folder
from cemc.source import Source
from cemc.version import __version__

if TYPE_CHECKING:
    from torch import nn

    from cemc.compiler import Result

_PACKAGES = ("jinja2", "lark", "opt_einsum", "sympy")


def folder() -> Path:
    """`$XDG_CACHE_HOME/cemc`, by default `~/.cache/cemc`."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says to ignore a relative path.
    return (Path(base) if os.path.isabs(base) else Path(os.path.expanduser("~")) / ".cache") / "cemc"


def lookup(source: Source) -> list[Result] | None:
    """The results stored for this source; None if there are none that can be read."""
    from cemc.compiler import Result

    try:
        stored: list[dict[str, Any]] = json.loads((folder() / f"{_key(source)}.json").read_text(encoding="utf-8"))
        return [Result(**_with_tuples(each)) for each in stored]
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def store(source: Source, results: list[Result]) -> None:
    """Keeps results; without effect where the folder cannot be written."""
    text = json.dumps([asdict(result) for result in results], ensure_ascii=False)
    try:
        _write(folder() / f"{_key(source)}.json", text)
    except OSError:
        return


def imported(result: Result) -> type[nn.Module]:
    """The class of a result, imported from a file (so that tracebacks, pickling and inspection work as for any
    other)."""
    digest = hashlib.sha256((result.code + result.kernels).encode()).hexdigest()[:16]
    name = f"cemc_loaded_{result.name}_{digest}"
    module: Any = sys.modules.get(name)
    if module is None:
        path = _module_file(name, result)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return getattr(module, result.class_name)


def _module_file(name: str, result: Result) -> Path:
    """The file of the module, in a folder of its own with the file of kernels."""
    texts = {f"{name}.py": result.code}
    if result.kernels:
        texts[f"{result.name}_kernels.py"] = result.kernels
    directory = folder() / "modules" / name
    try:
        for file, text in texts.items():
            if not (directory / file).is_file() or (directory / file).read_text(encoding="utf-8") != text:
                _write(directory / file, text)
    except OSError:
        # No writable cache: a temporary folder lasts as long as the process needs it.
        directory = Path(tempfile.mkdtemp(prefix="cemc-"))
        for file, text in texts.items():
            _write(directory / file, text)
    return directory / f"{name}.py"


def _write(path: Path, text: str) -> None:
    """Writes under another name and renames, so that nobody ever reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _with_tuples(stored: dict[str, Any]) -> dict[str, Any]:
    """JSON has no tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()}


def _key(source: Source) -> str:
    parts = [source.path, source.text, __version__, *_own_files(), *_packages()]
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=1)
def _packages() -> tuple[str, ...]:
    """Which installation of each package is used: asking for version numbers takes longer than the rest of a cached
    run."""
    specs = (importlib.util.find_spec(name) for name in _PACKAGES)
    origins = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    return tuple(f"{origin} {os.stat(origin).st_mtime_ns}" for origin in origins)


@lru_cache(maxsize=1)
def _own_files() -> tuple[str, ...]:
    """Name, size and time of every file the compiler consists of: an edited compiler is another compiler."""
    package = Path(__file__).resolve().parent
    roots = (package, resource_folder("grammars"), resource_folder("templates"))
    found = []
    for root in roots:
        for path in sorted(root.rglob("*")):
            if path.suffix in (".py", ".lark", ".json", ".jinja"):
                status = path.stat()
                found.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return tuple(found)
