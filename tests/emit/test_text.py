"""The text of generated files: style, determinism, and a source that tries to break out of the docstring."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from cemc.emit import GENERATED_MARK
from cemc.emit.docstring import docstring
from cemc.source import Span
from cemc.symbolic.equations import Equations
from tests.emit.support import declared, generated, layer_class
from tests.emit.test_arguments import PAIR, PLAIN, STARTS, TEXT
from tests.emit.test_layers_by_hand import ATTENTION, MLP
from tests.emit.test_names import SLOTS
from tests.emit.test_names import TEXT as NAMES

EVERYTHING = {
    "attention": ATTENTION,
    "mlp": MLP,
    "cross": TEXT,
    "pair": PAIR,
    "plain": PLAIN,
    "starts": STARTS,
    "names": NAMES.format(**SLOTS),
    "many_terms": "energy many(d) { state x[d] "
    + " ".join(f"param a{n}[d] const a_constant_with_a_long_name_{n} = {n} / 7" for n in range(12))
    + " E = "
    + " + ".join(f"a_constant_with_a_long_name_{n} * dot(a{n}, x) ^ 2" for n in range(12))
    + "}",
    "long_masks": """
    energy long_masks(d) {
      state x[token, d]
      given a_label_with_a_long_name[token]: int
      given another_label_with_a_long_name[token]: int
      E[i] = -logsumexp[j <= i if a_label_with_a_long_name[j] == a_label_with_a_long_name[i]
        and another_label_with_a_long_name[j] != another_label_with_a_long_name[i] + 3
        and (a_label_with_a_long_name[j] < i or another_label_with_a_long_name[j] < i)](dot(x[i], given(x[j])))
    }""",
}


def ruff(code: str, tmp_path: Path, *command: str) -> str:
    """What ruff says about a file, in its own defaults and a line length of 120."""
    path = tmp_path / "generated.py"
    path.write_text(code, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "ruff", *command, "--isolated", "--no-cache", "--line-length", "120", str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return run.stdout + run.stderr if run.returncode else ""


@pytest.mark.parametrize("name", EVERYTHING)
def test_style(name: str, tmp_path: Path) -> None:
    code = generated(EVERYTHING[name])
    assert ruff(code, tmp_path, "check", "--extend-select", "E501,W,I,B,UP") == ""
    assert ruff(code, tmp_path, "format", "--diff") == ""


@pytest.mark.parametrize("name", EVERYTHING)
def test_what_it_imports_and_that_it_calls_every_function_it_has(name: str) -> None:
    code = generated(EVERYTHING[name])
    tree = ast.parse(code)
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    outside = {module.partition(".")[0] for module in modules} - set(sys.stdlib_module_names) - {"__future__"}
    assert outside == {"torch"}
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    read |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert {f.name for f in functions if f.name.startswith("_") and f.name != "__init__"} <= read
    assert all(ast.get_docstring(f) for f in functions if f.name not in ("__init__", "extra_repr", *_HOOKS))


_HOOKS = ("forward", "setup_context", "backward")


def test_it_is_the_same_under_another_hash_seed() -> None:
    script = (
        "from tests.emit.test_text import EVERYTHING, generated; print([generated(t) for t in EVERYTHING.values()])"
    )
    here = Path(__file__).parents[2]
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=here,
            env={"PYTHONHASHSEED": seed, "PATH": "", "PYTHONPATH": str(here)},
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert runs[0] == runs[1]
    assert GENERATED_MARK in runs[0]


HOSTILE = '''energy quoted(d) {
  state x[d]  # """ + open("/etc/passwd").read() + """ \\""" \\N{BULLET} HIDDEN \\
  # a long line LONG
  E = norm2(x)
}'''.replace("LONG", "and more " * 30)


def test_a_docstring_that_nothing_ends_early() -> None:
    source = HOSTILE.replace("HIDDEN", "")
    document = ast.get_docstring(ast.parse(generated(source)))
    assert document is not None
    assert 'x[d]  # """ + open("/etc/passwd").read() + """ \\""" \\N{BULLET}  \\\n' in document
    assert layer_class(source)(d=2).d == 2


def test_hidden_characters_are_shown() -> None:
    energy, text = declared(HOSTILE.replace("HIDDEN", "")), HOSTILE.replace("HIDDEN", "\u202e \x07")
    energy = replace(energy, source=replace(energy.source, text=text), span=Span(0, len(text)))
    written = docstring(energy, Equations((), ()), (), (), "1")
    assert "\\u202e \\x07" in written
    assert isinstance(ast.parse(written).body[0], ast.Expr)


def test_the_opening(tmp_path: Path) -> None:
    code = generated(HOSTILE.replace("HIDDEN", ""))
    assert code.startswith(GENERATED_MARK)
    assert code.splitlines()[0].endswith("do not edit: change the energy and compile it again.")
    assert ruff(code, tmp_path, "check", "--extend-select", "E501,W,I,B,UP") == ""
    assert "The energy:\n" in code
    assert "Derived from it:\n" in code
    assert "Nothing was recognised, so all backends run the same plain operations of torch:\n" in code
    assert "Recognised:\n\n    pairwise: " in generated(ATTENTION)
