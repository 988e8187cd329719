"""Whatever the file, the front end answers with typed energies or with `CemError`, and soon."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cemc.diagnostics import CemError, render_all
from cemc.semantics import analyse
from cemc.syntax import parse, source_of

HERE = Path(__file__).parent
SEEDS = [
    path.read_text(encoding="utf-8")
    for path in sorted(
        [
            *(HERE / "right").glob("*.cem"),
            *(HERE / "wrong").glob("*.cem"),
            *(HERE.parent / "syntax" / "wrong").glob("*.cem"),
            *(HERE.parent.parent / "examples" / "energies").glob("*.cem"),
        ]
    )
]
PIECES = """energy a(d) { state x[token, d] given m[token, d]: int = positive param W[d, d] ~ normal(0, 1) const c
    function f(z) update repeat 2 } E[i] logsumexp[j <= i if not and or in where grad[x](E)[i] input integral[silu]
    + - * / @ ^ .T ( ) [ ] { } , 1 0.5 1e9 # ' " $ \t \n é β × ﬁ \0 \u202e sum softmax rope z y i j k""".split(" ")

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def front_end(data: bytes) -> None:
    try:
        source = source_of(data, "fuzz.cem")
        result = analyse(parse(source), source)
        render_all(result.warnings, source)
    except CemError as error:
        assert error.diagnostics
        for line in str(error).splitlines():
            assert "\0" not in line
        assert all(line.startswith(("fuzz.cem:", "    ")) for line in str(error).splitlines())


@SETTINGS
@given(st.binary(max_size=200))
def test_bytes(data: bytes) -> None:
    front_end(data)


@SETTINGS
@given(st.lists(st.sampled_from(PIECES), max_size=60))
def test_pieces(pieces: list[str]) -> None:
    front_end(("energy a(d) { state x[token, d] " + " ".join(pieces)).encode())


@settings(SETTINGS, max_examples=400)
@given(st.sampled_from(SEEDS), st.data())
def test_mutated_files(text: str, data: st.DataObject) -> None:
    """A slice removed, doubled, replaced by a piece, or exchanged with one from another file."""
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, max(0, len(text) - 1)))
        end = min(len(text), start + data.draw(st.integers(0, 12)))
        other = data.draw(st.sampled_from(SEEDS))
        from_ = data.draw(st.integers(0, max(0, len(other) - 1)))
        piece = data.draw(st.sampled_from(PIECES))
        new = data.draw(st.sampled_from(["", text[start:end] * 2, f" {piece} ", other[from_ : from_ + 15]]))
        text = text[:start] + new + text[end:]
    front_end(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("cut", range(0, 1_400, 37))
def test_files_cut_short(cut: int) -> None:
    text = max(SEEDS[:4], key=len)
    front_end(text.encode()[:cut])
