"""Files of any size and depth end in a tree or in located errors, soon."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cemc.diagnostics import CemError
from cemc.semantics import analyse
from cemc.source import Source
from cemc.syntax import parse, read_source, source_of
from cemc.syntax.limits import MAX_CHARACTERS, MAX_DEPTH

HEAD = "energy a(d) { state x[token, d] E[i] = "


def faults(text: str) -> str:
    source = Source("f.cem", text)
    with pytest.raises(CemError) as caught:
        analyse(parse(source), source)
    return str(caught.value)


DEEP = {
    "brackets": "(" * 20_000,
    "closed": "(" * 20_000 + "1" + ")" * 20_000,
    "subscripts": "x" + "[i]" * 15_000,
    "opening subscripts": "x[" * 20_000,
    "signs": "-" * 50_000 + "1",
    "powers": "2^" * 20_000 + "1",
    "products": "2*" * 20_000 + "1",
    "transposes": "x" + ".T" * 20_000,
    "conditions": "sum[j if " + "not " * 10_000 + "j < i](1)",
    "calls": "exp(" * 10_000 + "1" + ")" * 10_000,
}


@pytest.mark.parametrize("name", DEEP)
def test_depth(name: str) -> None:
    start = time.perf_counter()
    report = faults(HEAD + DEEP[name] + "}")
    assert f"nested more than {MAX_DEPTH} deep" in report
    assert report.startswith("f.cem:1:")
    assert time.perf_counter() - start < 20


def test_nesting_100_000_deep_is_a_located_error() -> None:
    assert faults(HEAD + "(" * 100_000 + "1" + ")" * 100_000 + "}").startswith(f"f.cem:1:{MAX_CHARACTERS + 1}: error")
    assert faults("{" * 100_000).startswith("f.cem:1:")


def test_size() -> None:
    for text in ("a" * 1_000_000, "#" * 1_000_000, "\n" * 1_000_000, HEAD + "1 + " * 250_000):
        assert f"longer than {MAX_CHARACTERS} characters" in faults(text)


def test_depth_within_the_limit_is_fine() -> None:
    depth = MAX_DEPTH - 20
    source = Source("f.cem", HEAD + "(" * depth + "norm2(x[i])" + ")" * depth + "}")
    assert len(analyse(parse(source), source).energies) == 1


def test_a_sum_may_be_long() -> None:
    """Its tree is balanced, so that stages that recurse take it."""
    source = Source("f.cem", HEAD + " - ".join(["norm2(x[i])"] * 2_000) + "}")
    (energy,) = analyse(parse(source), source).energies
    deepest, pending = 0, [(energy.definitions["E"].body, 1)]
    while pending:
        node, depth = pending.pop()
        deepest = max(deepest, depth)
        pending += [(getattr(node, side), depth + 1) for side in ("left", "right") if hasattr(node, side)]
    assert deepest < 20


def test_depth_is_that_of_the_typed_expression() -> None:
    """Sums within sums are as deep as they are long: within Python's recursion limit, whatever is accepted."""
    for terms in (1, 3, 7, 8, 20):
        for depth in range(1, MAX_DEPTH + 1, 7):
            text = HEAD + "(" * depth + "norm2(x[i])" + (" + 1" * terms + ")") * depth + "}"
            source = Source("f.cem", text)
            try:
                analyse(parse(source), source)
            except CemError as error:
                assert "nested more than" in str(error)


def test_many_errors_are_reported_in_part() -> None:
    report = faults("energy a(d) {" + "\n z[i] = a + " * 3_000)
    assert report.count("error") <= 60


@pytest.mark.parametrize("byte", [b"\0", b"\x1b", b"\x7f", "\u202e".encode(), "\u2028".encode()])
def test_hidden_characters(byte: bytes) -> None:
    source = source_of(b"energy a(d) { # " + byte + b"\n state x[token, d] E[i] = norm2(x[i]) }", "f.cem")
    with pytest.raises(CemError, match="hidden character") as caught:
        analyse(parse(source), source)
    assert str(caught.value).startswith("f.cem:1:17: error")
    assert byte.decode() not in str(caught.value)


def test_bytes_that_are_not_text() -> None:
    with pytest.raises(CemError) as caught:
        source_of("energy a(d) {\n  # é ".encode() + b"\xff\xfe", "f.cem")
    first, line, caret = str(caught.value).splitlines()
    assert first == "f.cem:2:7: error: byte 0xff is not UTF-8 text"
    assert line.index("�") == caret.index("^")


def test_a_file_without_end() -> None:
    source = read_source("/dev/zero")
    with pytest.raises(CemError, match="longer than"):
        parse(source)


def test_a_long_file_of_long_characters(tmp_path: Path) -> None:
    path = tmp_path / "long.cem"
    path.write_text("#" + "𝐀" * MAX_CHARACTERS * 2, encoding="utf-8")
    with pytest.raises(CemError, match="longer than"):
        parse(read_source(path))


@pytest.mark.parametrize("number", ["1e-300", "2.3e-308", "1.7e308", "0e999", "0.0", "123456789012345e290", "1e+0300"])
def test_numbers_of_float64(number: str) -> None:
    source = Source("f.cem", HEAD + f"{number} * norm2(x[i]) }}")
    assert len(analyse(parse(source), source).energies) == 1


@pytest.mark.parametrize("number", ["1e-308", "2e308", "1e999999999", "1e-99999", "0.2e309"])
def test_numbers_that_float64_has_not(number: str) -> None:
    assert "outside the range of float64" in faults(HEAD + f"{number} * norm2(x[i]) }}")
