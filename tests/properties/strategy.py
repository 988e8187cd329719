"""A Hypothesis strategy that writes whole random `.cem` files: declarations, definitions, energies and an update."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from tests.properties.expressions import Scope, Table, Writer

FUNCTIONS = (
    "function {}(u) = 0.5 * tanh(u) + 0.1",
    "function {}(u) = where(u > 0.2, sin(u), u * sigmoid(u))",
    "function {}(u) = max(u, 0.3 * u)",
    "function {}(u) = u / (1 + square(u))",
    "function {}(u) = exp(-square(u)) + abs(u - 0.4)",
    "function {}(u) = square(relu(u)) / 4 - 0.3 * abs(u)",
    "function {}(u) = d * 0.1 - u^3 / 30 + tanh(u / 2)",
    "function {}(u) = integral[tanh](u) / (1 + u^2) + (1 - u) / (4 + u^2)",
)
BINARY_FUNCTIONS = (
    "function {}(u, v) = tanh(u) * v",
    "function {}(u, v) = min(u, sin(v)) + d * 0.1",
    "function {}(u, v) = where(u < v, square(u) * sigmoid(v), u * v)",
)
# How the variable of the gradient follows from the state.
VARIABLES = (
    "rmsnorm(x[i])",
    "layernorm(x[i], 0.1)",
    "tanh(x[i])",
    "x[i]",
    "rmsnorm(x[i] + 0.5 * x[i - 1])",
    "softmax(x[i])",
)


@st.composite
def cem_files(draw: Callable[[st.SearchStrategy[Any]], Any], budget: int = 4, foreign: bool = True) -> str:
    """The text of a file with one energy. Larger budgets write deeper expressions; `foreign`: with subscripts made of
    indices of other axes."""
    header = {"d": "d", "h": "h = 2", "r": draw(st.sampled_from(["r", "r = 2 * d", "r = d + 1"]))}
    even = draw(st.sets(st.sampled_from(["d", "r"]), max_size=1 if header["r"] == "r = d + 1" else 2))
    writer = Writer(draw, tuple(header), frozenset(even), foreign)
    tables, lines = _declarations(writer)
    variable = "x"
    if writer.chance(2):
        variable = "z"
        lines.append(f"z[i] = {writer.pick(VARIABLES)}")
        tables.append(Table("z", ("token", "d"), "definition"))
    for number in range(draw(st.integers(0, 3))):
        table, line = _definition(writer, f"q{number}", tables, variable, budget - 1)
        tables.append(table)
        lines.append(line)
    energies = ["E", "F"][: 2 if writer.chance(4) else 1]
    for name in energies:
        lines.append(_energy(writer, name, tables, variable, budget))
    lines += _update(writer, energies, variable, tables)
    lines = [f"param fill_{axis}[{axis}]" for axis in sorted(writer.filled)] + lines
    return f"energy random_energy({', '.join(header.values())}) {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


def _declarations(writer: Writer) -> tuple[list[Table], list[str]]:
    tables = [Table("x", ("token", "d"), "state")]
    lines = ["state x[token, d]"]
    source = writer.chance(4)
    if source:
        lines.insert(0, "axis source")
        tables.append(Table("m", ("source", writer.pick(writer.header)), "given"))
        lines.append(f"given m[{', '.join(tables[-1].axes)}]")
    optional = [
        (Table("y", ("token", "h"), "state"), "state y[token, h]"),
        (Table("w", ("h", "d"), "state"), "state w[h, d]"),
        (Table("g", ("token",), "given"), "given g[token]"),
        (Table("c", ("token", "r"), "given"), "given c[token, r]"),
        (Table("t", (), "given"), "given t"),
        (Table("kind", ("token",), "label"), "given kind[token]: int"),
    ]
    for table, line in optional:
        if writer.chance(4):
            tables.append(table)
            lines.append(line)
    for number in range(writer.draw(st.integers(1, 4))):
        axes = tuple(writer.pick(writer.header) for _ in range(writer.draw(st.integers(0, 3))))
        name = f"p{number}"
        tables.append(Table(name, axes, "parameter"))
        positive = "positive " if writer.chance(4) else ""
        start = writer.pick([" = 0.5", " = 1 / d", " ~ normal(0, 0.5)", " ~ uniform(0.1, 1)"])
        subscript = f"[{', '.join(axes)}]" if axes else ""
        lines.append(f"{positive}param {name}{subscript}{start if not axes or writer.chance(2) else ''}")
    if writer.chance(3):
        lines.append("const b = 1 / sqrt(d)")
        writer.constants = ("b",)
    if writer.chance(2):
        lines.append(writer.pick(FUNCTIONS).format("f"))
        writer.functions = ("f",)
    if writer.chance(3):
        lines.append(writer.pick(BINARY_FUNCTIONS).format("f2"))
        writer.binary_functions = ("f2",)
    return tables, lines


def _axes_in(tables: list[Table]) -> list[str]:
    return sorted({axis for table in tables for axis in table.axes})


def _definition(writer: Writer, name: str, tables: list[Table], variable: str, budget: int) -> tuple[Table, str]:
    """A definition over up to three indices, of any shape."""
    axes = [writer.pick(_axes_in(tables)) for _ in range(writer.draw(st.integers(0, 3)))]
    indices = dict(zip("ijk", axes, strict=False))
    shape = tuple(writer.pick(writer.header) for _ in range(writer.draw(st.integers(0, 2))))
    writer.plain = set()
    body = writer.expression(Scope(tuple(tables), indices, variable == "x", budget), shape)
    left = [
        index if index in writer.plain and writer.chance(2) else f"{index} in {axis}" for index, axis in indices.items()
    ]
    subscript = f"[{', '.join(left)}]" if left else ""
    return Table(name, (*axes, *shape), "definition"), f"{name}{subscript} = {body}"


def _energy(writer: Writer, name: str, tables: list[Table], variable: str, budget: int) -> str:
    """An energy per token or of the whole; it depends on the variable, and on every state where that is a state."""
    scope = Scope(tuple(tables), {"i": "token"}, variable == "x", budget)
    states = [table for table in tables if table.role == "state"] if variable == "x" else []
    anchors = {
        "x": "0.5 * norm2(x[i])",
        "z": "0.5 * norm2(z[i])",
        "y": "sum(tanh(y[i]))",
        "w": "0.1 * sum[k](norm2(w[k]))",
    }
    anchor = " + ".join(anchors[table] for table in dict.fromkeys([variable, *(state.name for state in states)]))
    if writer.chance(3):
        total = writer.scalar(Scope(tuple(tables), {}, variable == "x", budget))
        return f"{name} = {total} + sum[i]({anchor})"
    return f"{name}[i] = {writer.scalar(scope)} + {anchor}"


def _update(writer: Writer, energies: list[str], variable: str, tables: list[Table]) -> list[str]:
    """No block, or one with momentum, preconditioners, definitions, other states, and repetition."""
    if variable == "x" and energies == ["E"] and writer.chance(3):
        return []
    everything = Scope(tuple(tables), {"i": "token"}, open_states=True, budget=2)
    lines: list[str] = []
    statements = []
    if writer.chance(4):
        # Evaluated once, at the layer's input, and read below.
        statements.append(f"a[i in token] = {writer.vector(everything, 'd')}")
        everything = replace(everything, tables=(*tables, Table("a", ("token", "d"), "local")))
    for name in energies:
        total = writer.pick([name, name, name, f"0.5 * {name}", f"{name} - 0.3 * {name}"])
        gradient = f"grad[{variable}]({total})[i]"
        if writer.chance(4):
            statements.append(f"u{name}[i] = {gradient}")
            gradient = f"(u{name}[i] + {writer.vector(everything.deeper(), 'd')})"
        elif writer.chance(5):
            gradient = f"grad[{variable}]({total})[i - 1]"
        step = writer.pick(["0.1", "0.3", f"tanh({writer.scalar(everything.deeper())})"])
        change = f"{step} * {gradient}"
        if writer.chance(4):
            change = f"0.2 * tanh({writer.matrix(everything.deeper(), ('d', 'd'))}) @ {gradient}"
        if writer.chance(5):
            otherwise = writer.vector(everything.deeper(), "d")
            change = f"where({writer.condition(everything.deeper())}, {change}, {otherwise})"
        if writer.chance(4) and not lines:
            lines.append("state v[token, d] = 0.1")
            statements += [f"v[i] = 0.5 * v[i] - {change}", "x[i] = x[i] + v[i]"]
        else:
            statements.append(f"x[i] = x[i] - {change}")
    if any(table.name == "y" for table in tables):
        change = f"tanh({writer.vector(everything, 'h')})"
        if variable == "x" and writer.chance(2):
            change = f"-0.2 * grad[y]({energies[0]})[i]"
        statements.append(f"y[i] = y[i] + {change}")
    if any(table.name == "w" for table in tables):
        scope = Scope(tuple(tables), {"k": "h"}, open_states=True, budget=2)
        change = f"tanh({writer.vector(scope, 'd')})"
        if variable == "x" and writer.chance(2):
            change = f"-0.2 * grad[w]({energies[0]})[k]"
        statements.append(f"w[k] = 0.5 * w[k] + {change}")
    repeat = writer.pick(["", "", "repeat 2 ", "repeat h "])
    return [*lines, f"update {repeat}{{", *(f"  {statement}" for statement in statements), "}"]
