"""Precedence, spans, and what separates tokens."""

from __future__ import annotations

from fractions import Fraction

import pytest

from cemc.diagnostics import CemError
from cemc.source import Source
from cemc.syntax import parse, source_of, tree
from tests.syntax.support import expression, file, shape

PRECEDENCE = {
    "-a ^ 2": ("neg", ("^", "a", 2)),
    "2 ^ -3 ^ 2": ("^", 2, ("neg", ("^", 3, 2))),
    "a ^ b ^ c": ("^", "a", ("^", "b", "c")),
    "a ** b": ("^", "a", "b"),
    "-a * b": ("*", ("neg", "a"), "b"),
    "a * -b": ("*", "a", ("neg", "b")),
    "a / b / c": ("/", ("/", "a", "b"), "c"),
    "a @ b * c": ("*", ("@", "a", "b"), "c"),
    "a - b + c": ("sum", "a", ("-", "b"), ("+", "c")),
    "a - (b + c)": ("sum", "a", ("-", ("sum", "b", ("+", "c")))),
    "a - -b": ("sum", "a", ("-", ("neg", "b"))),
    "A.T @ u": ("@", ("T", "A"), "u"),
    "A[k].T.T": ("T", ("T", ("[]", "A", "k"))),
    "a.T ^ 2": ("^", ("T", "a"), 2),
    "f(a)[i](b)": ("()", ("[]", ("()", "f", "a"), "i"), "b"),
    "2 * x[i - 1]": ("*", 2, ("[]", "x", ("sum", "i", ("-", 1)))),
}


@pytest.mark.parametrize("text", PRECEDENCE)
def test_precedence(text: str) -> None:
    assert shape(expression(text)) == PRECEDENCE[text]


CONDITIONS = {
    "a < b": ("cmp", "a", "b", "<"),
    "a < b + 1 <= c": ("cmp", "a", ("sum", "b", ("+", 1)), "c", "<", "<="),
    "not a < b and c == d or e != f": (
        "or",
        ("and", ("not", ("cmp", "a", "b", "<")), ("cmp", "c", "d", "==")),
        ("cmp", "e", "f", "!="),
    ),
    "a < b and (c < d or e < f)": (
        "and",
        ("cmp", "a", "b", "<"),
        ("or", ("cmp", "c", "d", "<"), ("cmp", "e", "f", "<")),
    ),
    "not not (a) > (b)": ("not", ("not", ("cmp", "a", "b", ">"))),
    "not (a >= b)": ("not", ("cmp", "a", "b", ">=")),
}


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions(text: str) -> None:
    where = expression(f"where({text}, 1, 2)")
    assert isinstance(where, tree.Where)
    assert shape(where.condition) == CONDITIONS[text]


def test_numbers_are_exact() -> None:
    for text, value in {"0.1": Fraction(1, 10), "1e-3": Fraction(1, 1000), "12.50E+1": Fraction(125)}.items():
        number = expression(text)
        assert isinstance(number, tree.Number)
        assert number.value == value


def test_names_are_normalised_and_spans_are_as_written() -> None:
    text = "energy a(d) { ﬁ = ℝ + β }"
    (statement,) = file(text).energies[0].items
    assert isinstance(statement, tree.DefinitionStatement)
    assert statement.name.text == "fi"
    assert shape(statement.body) == ("sum", "R", ("+", "β"))
    assert text[statement.name.span.start : statement.name.span.end] == "ﬁ"


def test_every_node_has_the_span_of_its_text() -> None:
    text = "energy a(d, r = 2) { param W[d, r] ~ normal(0, 1)  E[i] = -(sum[j <= i if j > 1](W.T @ x[j])) / 2 ^ -1 }"
    pending: list[tree.Node] = list(file(text).energies)
    while pending:
        node = pending.pop()
        inside = list(tree.children(node))
        for child in inside:
            assert node.span.start <= child.span.start < child.span.end <= node.span.end
        piece = text[node.span.start : node.span.end]
        assert piece == piece.strip()
        assert piece.count("(") == piece.count(")")
        assert piece.count("[") == piece.count("]")
        pending += inside


def test_statements_need_no_line_ends() -> None:
    one_line = "energy a(d) { state x[token, d] z[i] = x[i] given t const c = 2 E[i] = dot(z[i], given(x[i])) }"
    assert [type(item).__name__ for item in file(one_line).energies[0].items] == [
        "StateDeclaration",
        "DefinitionStatement",
        "GivenDeclaration",
        "ConstantDeclaration",
        "DefinitionStatement",
    ]
    assert len(file(one_line.replace(" ", "\n")).energies[0].items) == 5


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends(end: str) -> None:
    lines = ["energy a(d) { # a comment", "  state x[token, d]", "  E[i] = y[i]", "}"]
    source = source_of(end.join(lines).encode(), "f.cem")
    assert source.text == "\n".join(lines)
    # Text that was not read from a file is taken with any line ends too.
    tree_ = parse(Source("f.cem", end.join(lines)))
    assert len(tree_.energies[0].items) == 2


def test_byte_order_mark() -> None:
    assert source_of(b"\xef\xbb\xbfenergy a(d) {}", "f.cem").text == "energy a(d) {}"


def test_an_unreadable_statement_leaves_the_others() -> None:
    parsed = parse(Source("f.cem", "energy a(d) {\n  z[i] = * 2\n  y[i] = x[i]\n}\nenergy b(d) {}"))
    assert len(parsed.errors) == 1
    assert [energy.name.text for energy in parsed.energies] == ["a", "b"]
    kinds = [type(item).__name__ for item in parsed.energies[0].items]
    assert kinds == ["DefinitionStatement", "Unreadable"]


def test_an_unclosed_energy_ends_where_the_next_one_begins() -> None:
    parsed = parse(Source("f.cem", "energy a(d) {\n  y[i] = x[i]\nenergy b(d) {\n z = 1"))
    assert [len(energy.items) for energy in parsed.energies] == [1, 1] or len(parsed.energies) == 2
    assert len(parsed.errors) == 2


@pytest.mark.parametrize("text", ["", " \n\t\r\n", "# only a comment", "#"])
def test_empty_files(text: str) -> None:
    with pytest.raises(CemError, match="the file holds no energy"):
        parse(Source("f.cem", text))
