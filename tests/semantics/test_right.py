"""Well-typed files, and what the typed energy says of them."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from cemc.semantics import analyse, typed
from cemc.syntax import parse, read_source
from tests.semantics.support import analysis, block

HERE = Path(__file__).parent
FILES = sorted(
    [
        *(HERE / "right").glob("*.cem"),
        *(HERE.parent.parent / "examples" / "energies").glob("*.cem"),
    ]
)


def names(axes: tuple[typed.Axis, ...]) -> list[str]:
    return [axis.name for axis in axes]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_right_file(path: Path) -> None:
    source = read_source(path)
    result = analyse(parse(source), source)
    assert result.energies
    assert result.warnings == ()
    for energy in result.energies:
        for node in nodes(energy):
            assert not isinstance(node, typed.Index) or node.axis.name != "?"
            if isinstance(node, typed.Expr) and not isinstance(node, (typed.Access, typed.Gradient)):
                inside_grad = any(axis.runtime for axis in node.shape)
                assert not inside_grad or isinstance(node, (typed.Binary, typed.Negative))


def nodes(value: object) -> list[object]:
    found, pending, seen = [], [value], set()
    while pending:
        each = pending.pop()
        if isinstance(each, (tuple, list)):
            pending += each
        elif isinstance(each, dict):
            pending += each.values()
        elif hasattr(each, "__dataclass_fields__") and id(each) not in seen:
            seen.add(id(each))
            found.append(each)
            pending += [getattr(each, name) for name in each.__dataclass_fields__]
    return found


def test_the_layer_of_the_paper() -> None:
    source = read_source(HERE.parent.parent / "examples" / "energies" / "cem_attention.cem")
    (energy,) = analyse(parse(source), source).energies
    assert energy.name == "cem_attention"
    assert energy.text.startswith("energy cem_attention(") and energy.text.endswith("}")
    assert list(energy.header) == ["d", "heads", "r"]
    assert list(energy.parameters) == ["Q", "K", "eta"]
    assert {name: names(each.axes) for name, each in energy.definitions.items()} == {
        "z": ["token", "d"],
        "c": ["token", "d"],
        "s": ["heads", "token", "token"],
        "E": ["token"],
    }
    assert energy.update.repeat == 1
    assert not energy.update.simultaneous
    (step,) = energy.update.statements
    assert isinstance(step, typed.Assign)
    assert names(step.value.shape) == ["d"]


def test_the_plain_step() -> None:
    energy = block("state y[token, heads, d]", "state v[d] = 0", "E[i] = sum(x[i]) * sum(y[i, 0])")
    assert energy.update.simultaneous
    steps = [each for each in energy.update.statements if isinstance(each, typed.Assign)]
    assert [step.state for step in steps] == ["x", "y"]
    for step, rest in zip(steps, (["d"], ["heads", "d"]), strict=True):
        assert names(step.value.shape) == rest
        assert isinstance(step.value, typed.Binary)
        gradient = step.value.right
        assert isinstance(gradient, typed.Gradient)
        assert gradient.wrt == step.state
        assert [index.axis.name for index in step.indices] == ["token"]


def test_definitions_come_in_an_order_of_use() -> None:
    energy = block(
        "E[i] = a[i] + b[i]", "b[i] = c[i] * two", "a[i] = c[i]", "c[i] = f(norm2(x[i]))",
        "function f(z) = g(z) / 2", "function g(z) = z", "const two = 1 + one", "const one = 1",
    )  # fmt: skip
    assert list(energy.definitions) == ["c", "a", "b", "E"]
    assert list(energy.functions) == ["g", "f"]
    assert list(energy.constants) == ["one", "two"]


def test_negation_is_pushed_into_comparisons() -> None:
    energy = block("E[i] = sum[j if not (j < i and (j == 2 or not i <= j < 5))](x[j, 0])")
    reduction = energy.definitions["E"].body
    assert isinstance(reduction, typed.Reduction)
    assert operators(reduction.condition) == ("or", [">=", ("and", ["!=", "<=", "<"])])


def operators(condition: typed.Condition | None) -> object:
    if isinstance(condition, typed.Compare):
        return condition.operator
    assert isinstance(condition, (typed.And, typed.Or))
    name = "and" if isinstance(condition, typed.And) else "or"
    return (name, [operators(each) for each in condition.operands])


def test_binders_and_their_condition() -> None:
    energy = block("E[i] = logsumexp[k in heads, i - 3 < j <= i if j != 1](x[j, 0] + k)")
    reduction = energy.definitions["E"].body
    assert isinstance(reduction, typed.Reduction)
    assert [(each.name, each.axis.name) for each in reduction.indices] == [("k", "heads"), ("j", "token")]
    assert operators(reduction.condition) == ("and", ["<", "<=", "!="])


def test_indices_of_one_name_are_told_apart() -> None:
    energy = block("E[i] = sum[j](x[j, 0]) + sum[j <= i](x[j, 0])")
    numbers = {node.number for node in nodes(energy.definitions["E"]) if isinstance(node, typed.Index)}
    assert len(numbers) == 3


@pytest.mark.parametrize(
    ("binder", "axis"),
    [
        ("j <= i", "token"),
        ("j if j < i", "token"),
        ("j <= i, l == j", "token"),
        ("i - 4 < j <= i", "token"),
        ("j in heads", "heads"),
        ("j in heads, l <= j", "heads"),
    ],
)
def test_an_index_may_get_its_axis_by_comparison(binder: str, axis: str) -> None:
    energy = block(f"E[i] = sum[{binder}](norm2(x[i]))")
    reduction = energy.definitions["E"].body
    assert isinstance(reduction, typed.Reduction)
    assert {each.axis.name for each in reduction.indices} - {"token"} <= {axis}
    assert reduction.indices[-1].axis.name == axis


SHAPES = {
    "W @ x[i]": ["r"],
    "x[i] @ W.T": ["r"],
    "W.T": ["d", "r"],
    "W @ W.T": ["r", "r"],
    "Q[0] @ x[i]": ["r"],
    "x[i] @ x[i]": [],
    "outer(x[i], b)": ["d", "r"],
    "2 * W - W / 3": ["r", "d"],
    "W ^ 2": ["r", "d"],
    "softmax(W @ x[i])[0]": [],
    "max(b)": [],
    "max(b, 1)": ["r"],
    "min(b, b)": ["r"],
    "sum[k](Q[k])": ["r", "d"],
    "where(i > 2, x[i], 0)": ["d"],
    "integral[tanh](W)": ["r", "d"],
    "rope(b, 2 * i + 1)": ["r"],
    "x[i][0]": [],
    "T[kind[i]]": ["d"],
    "x[i - heads * 2]": ["d"],
    "exp(t) * b": ["r"],
    "Q[0, 1]": ["d"],
    "Q @ x[i]": ["heads", "r"],
}


@pytest.mark.parametrize("text", SHAPES)
def test_shapes(text: str) -> None:
    energy = block(
        "param W[r, d]", "param Q[heads, r, d]", "param b[r]", "param T[heads, d]", "given kind[token]: int", "given t",
        f"y[i in token] = {text}", "E[i] = norm2(x[i])",
    )  # fmt: skip
    assert names(energy.definitions["y"].body.shape) == SHAPES[text]


def test_numbers_are_exact_and_starts_are_kept() -> None:
    energy = block(
        "param a[d] = 0.1", "positive param p[d] ~ uniform(0.5, 2)", "param q[d] ~ normal(0, 1 / sqrt(d))",
        "E[i] = dot(a, x[i]) + dot(p, x[i]) + dot(q, x[i])",
    )  # fmt: skip
    start = energy.parameters["a"].start
    assert isinstance(start, typed.Number)
    assert start.value == Fraction(1, 10)
    assert isinstance(energy.parameters["p"].start, typed.Uniform)
    assert isinstance(energy.parameters["q"].start, typed.Normal)
    assert energy.parameters["p"].positive


def test_arguments_of_functions_may_be_called_like_definitions() -> None:
    energy = block("function f(z, x) = z * x", "z[i] = x[i]", "E[i] = sum(f(z[i], 2))")
    assert energy.functions["f"].arguments == ("z", "x")


def test_warnings_come_in_the_order_of_the_file() -> None:
    result = analysis("energy a(d, n = 1) {\n state x[token, d]\n param W[d]\n y[i] = x[i]\n E[i] = norm2(x[i])\n}")
    assert [warning.span for warning in result.warnings] == sorted(warning.span for warning in result.warnings)
    assert [warning.message for warning in result.warnings] == [
        "the header name `n` is never used",
        "no energy mentions the parameter `W`",
        "the definition `y` is never used",
    ]
