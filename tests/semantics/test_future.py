"""Where an energy reads later tokens, as a user is shown it when the layer is not causal."""

from __future__ import annotations

import pytest

from cemc.semantics.future import later_reads
from tests.semantics.support import block

OPEN = "is differentiated as well"
CASES = {
    "open keys": (
        ["z[i] = rmsnorm(x[i])", "s[i, j] = dot(z[i], z[j])", "E[i] = -logsumexp[j <= i](s[i, j])"],
        [("z[j]", OPEN)],
    ),
    "no mask": (
        ["c[j] = given(x[j])", "E[i] = logsumexp[j in token](dot(x[i], c[j]))"],
        [("logsumexp", "nothing keeps `j`")],
    ),
    "the wrong side": (["E[i] = logsumexp[i <= j](dot(x[i], given(x[j])))"], [("logsumexp", "nothing keeps `j`")]),
    "labels only": (
        ["given doc[token]: int", "E[i] = logsumexp[j if doc[j] == doc[i]](dot(x[i], given(x[j])))"],
        [("logsumexp", "nothing keeps `j`")],
    ),
    "a shift back": (["E[i] = norm2(x[i] - x[i - 1])"], [("x[i - 1]", OPEN)]),
    "a shift ahead": (["E[i] = dot(x[i], given(x[i + 1]))"], [("x[i + 1]", "of a later token")]),
    "one number": (["E = sum[i, j if j < i](dot(x[i], x[j]))"], [("x[j]", OPEN)]),
    "a mean of all": (["m = mean[j](given(x[j]))", "E[i] = dot(x[i], m)"], [("mean[j]", "nothing keeps `j`")]),
    "another state": (["state h[d]", "E[i] = dot(x[i], h)"], [("state h", "no axis `token`")]),
    "third order": (
        ["E[i] = logsumexp[j <= i, l <= j](sum(x[i] * given(x[j]) * x[l]))"],
        [("logsumexp", "nothing keeps `l`"), ("x[l]", OPEN)],
    ),
    # Causal ones.
    "attention": (["E[i] = logsumexp[j <= i](dot(x[i], given(x[j])))"], []),
    "a window": (["E[i] = logsumexp[i - d < j <= i](dot(x[i], given(x[j])))"], []),
    "strictly past": (["E[i] = logsumexp[j if i > j](dot(x[i], given(x[j])))"], []),
    "itself": (["E[i] = sum[j == i](norm2(x[j] - x[i]))", "F[i] = norm2(x[i])"], [("x[j]", OPEN)]),
    "alone": (["E[i] = norm2(x[i]) + sum[k in d](x[i, k])"], []),
    "a held shift": (["z[i] = tanh(x[i])", "E[i] = dot(x[i], given(z[i - 1]))"], []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_places(name: str) -> None:
    lines, expected = CASES[name]
    energy = block(*lines)
    found = [(energy.source.text[note.span.start : note.span.end], note.message) for note in later_reads(energy)]
    assert len(found) == len(expected), found
    for (text, message), (start, part) in zip(found, expected, strict=True):
        assert text.startswith(start)
        assert part in message


def test_what_to_write() -> None:
    (note,) = later_reads(block("z[i] = rmsnorm(x[i])", "E[i] = logsumexp[j < i](dot(z[i], z[j]))"))
    assert note.suggestion == "hold it: `given(z[j])`"
