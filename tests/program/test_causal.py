"""Causality as decided from the derivation: what is proved, and what must not be."""

from __future__ import annotations

import pytest

from cemc import program, symbolic
from cemc.semantics import analyse
from cemc.source import Source
from cemc.syntax import parse


def is_causal(body: str, header: str = "d") -> bool:
    """Whether `energy e(header) { state x[token, d] body }` is decided to be causal."""
    source = Source("test.cem", f"energy e({header}) {{\n  state x[token, d]\n{body}\n}}\n")
    (energy,) = analyse(parse(source), source).energies
    return program.assemble(symbolic.build(energy), program.Graph()).causal


CAUSAL = {
    "own token only": "E[i] = norm2(x[i])",
    "held past": "E[i] = -logsumexp[j <= i](dot(x[i], given(x[j])))",
    "strict past": "E[i] = -logsumexp[j < i](dot(x[i], given(x[j])))",
    "window": "E[i] = -logsumexp[i - 3 < j <= i](dot(x[i], given(x[j])))",
    "chain of three": "E[i] = -logsumexp[j <= i, l <= j](dot(x[i], given(x[j] * x[l])))",
    "documents": "given doc[token]: int\nE[i] = -logsumexp[j <= i if doc[j] == doc[i]](dot(x[i], given(x[j])))",
    "either of two pasts": "E[i] = -sum[j in token if j < i or j == i](dot(x[i], given(x[j])))",
    "shift back": "E[i] = dot(x[i], given(x[i - 1]))",
    "convolution": "param k[o_max]\nE[i] = dot(x[i], sum[o in o_max](k[o] * given(x[i - o])))",
    "through a definition": "c[j] = given(x[j])\nm[i] = mean[j <= i](c[j])\nE[i] = dot(x[i], m[i])",
    "the mask in a where": "E[i] = sum[j <= i](where(j < i, dot(x[i], given(x[j])), 0))",
    "maximum over the past": "E[i] = max[j <= i](dot(x[i], given(x[j])))",
    "one table in two reductions": "s[i, j] = dot(x[i], given(x[j]))\n"
    "E[i] = logsumexp[j <= i](2 * s[i, j]) - logsumexp[j <= i](s[i, j])",
    "a where on the score": "E[i] = sum[j <= i](where(dot(x[i], given(x[j])) < 1, dot(x[i], given(x[j]))^2, 1))",
    "a table and its neighbour": "s[i, j] = dot(x[i], given(x[j]))\nE[i] = logsumexp[j < i](s[i, j]) - s[i, i - 1]",
    "a function of the score": "E[i] = logsumexp[j <= i](sqrt(max(dot(x[i], given(x[j])), 1)))",
    "entropy of attention": "s[i, j] = dot(x[i], given(x[j]))\nL[i] = logsumexp[j <= i](s[i, j])\n"
    "E[i] = sum[j <= i](exp(s[i, j] - L[i]) * s[i, j])",
    "dilated": "E[i] = dot(x[i], sum[o in o_max](given(x[i - o * stride])))",
    "own token through equality": "E[i] = sum[j in token if j == i](dot(x[i], given(x[j])))",
}

NOT_CAUSAL = {
    "global energy": "E[i] = -logsumexp[j <= i](dot(x[i], x[j]))",
    "no mask": "E[i] = -logsumexp[j in token](dot(x[i], given(x[j])))",
    "the future": "E[i] = -logsumexp[j >= i](dot(x[i], given(x[j])))",
    "one ahead": "E[i] = dot(x[i], given(x[i + 1]))",
    "shift of a past index": "E[i] = sum[j <= i](dot(x[i], given(x[j + 1])))",
    "number of tokens": "E[i] = mean[j in token](dot(x[i], x[i]) + 0 * j)",
    "label look-up": "given at[token]: int\nE[i] = dot(x[i], given(x[at[i]]))",
    "prefix": "given p[token]: int\nE[i] = -logsumexp[j in token if j < p[i]](dot(x[i], given(x[j])))",
    "one of two pasts": "E[i] = -sum[j in token if j < i or j > i](dot(x[i], given(x[j])))",
    "normaliser over all": "n[i] = logsumexp[l in token](dot(x[i], given(x[l])))\n"
    "E[i] = sum[j <= i](exp(dot(x[i], given(x[j])) - n[i]))",
    "two shifts apart": "E[i] = dot(x[i], given(x[i - 1])) + dot(x[i], given(x[i - 1 + 2]))",
    "a reflected index": "E[i] = sum[j <= i](dot(x[i], given(x[i - j + 1])))",
    "state without tokens": "state m[d]\nE = norm2(m)\nF[i] = norm2(x[i])\n"
    "update { m = m - grad[m](E) x[i] = x[i] - grad[x](F)[i] }",
}


@pytest.mark.parametrize("name", CAUSAL)
def test_proved_causal(name: str) -> None:
    header = "d, o_max = 4, stride = 2" if "o_max" in CAUSAL[name] else "d"
    assert is_causal(CAUSAL[name], header)


@pytest.mark.parametrize("name", NOT_CAUSAL)
def test_not_causal(name: str) -> None:
    assert not is_causal(NOT_CAUSAL[name])
