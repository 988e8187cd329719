"""Faults as text: places, lines, carets."""

from __future__ import annotations

import pickle

import pytest

from cemc.diagnostics import CemError, render
from cemc.diagnostics.names import UnknownName
from cemc.source import Source, Span

ACCENT = "e\u0301"


def carets(text: str, start: int, end: int) -> list[str]:
    return render(UnknownName(Span(start, end), "q"), Source("f.cem", text)).splitlines()


def test_the_parts_of_a_report() -> None:
    fault = UnknownName(Span(6, 8), "qq", suggestion="did you mean `q`?")
    assert render(fault, Source("dir/f.cem", "abc\n  qq + 1\nx")).splitlines() == [
        "dir/f.cem:2:3: error: unknown name `qq`",
        "      qq + 1",
        "      ^^",
        "    did you mean `q`?",
    ]


@pytest.mark.parametrize(
    ("text", "start", "end", "caret"),
    [
        ("ab", 0, 2, "^^"),
        ("a\tb", 2, 3, " \t^"),
        ("\t\tb", 2, 3, "\t\t^"),
        ("日本 q", 3, 4, "     ^"),
        ("q 日本", 2, 4, "  ^^^^"),
        (f"{ACCENT} q", 3, 4, "  ^"),
        (f"q {ACCENT}", 2, 4, "  ^"),
        ("ab  # c\nnext", 0, 12, "^^^^^^^"),
        ("ab", 2, 2, "  ^"),
        ("", 0, 0, None),
    ],
)
def test_carets(text: str, start: int, end: int, caret: str | None) -> None:
    lines = carets(text, start, end)
    assert lines[1:] == ([] if caret is None else ["    " + text.split("\n")[0], "    " + caret])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_places_with_any_line_ends(end: str) -> None:
    text = end.join(["one", "two", "q"])
    first, line, caret = carets(text, len(text) - 1, len(text))
    assert first.startswith("f.cem:3:1:")
    assert (line, caret) == ("    q", "    ^")


def test_long_lines_are_cut_around_the_span() -> None:
    text = "a" * 5000 + "q" + "b" * 5000
    first, line, caret = carets(text, 5000, 5001)
    assert first.startswith("f.cem:1:5001:")
    assert len(line) < 250
    assert line[caret.index("^")] == "q"


def test_control_characters_do_not_reach_the_terminal() -> None:
    line = carets("\x1b[31m q \0\u202e", 6, 7)[1]
    assert line == "    ␛[31m q ␀\ufffd"


def test_braces_in_names_are_only_text() -> None:
    assert UnknownName(Span(0, 1), "{name.__class__}").message == "unknown name `{name.__class__}`"


def test_errors_come_once_and_in_order() -> None:
    source = Source("f.cem", "a b")
    late, early = UnknownName(Span(2, 3), "b"), UnknownName(Span(0, 1), "a")
    error = CemError(source, [late, early, UnknownName(Span(2, 3), "b")])
    assert error.diagnostics == (early, late)
    assert str(error).count("error") == 2
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_faults_are_frozen() -> None:
    fault = UnknownName(Span(0, 1), "a")
    with pytest.raises(AttributeError):
        fault.name = "b"  # type: ignore[misc]
    with pytest.raises(TypeError):
        UnknownName(Span(0, 1), "a", "b")  # type: ignore[call-arg]
