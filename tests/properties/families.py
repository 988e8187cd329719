"""A Hypothesis strategy for energies of the two families that the compiler recognises, and for near misses of them.

Pieces are chosen one by one (norm, heads, query, key, score, bias, mask, reduction, update), so that structures a
recogniser knows come in all combinations with ones it does not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

NORMS = ("rmsnorm(x[i])", "layernorm(x[i])", "normalize(x[i])", "tanh(x[i])", "x[i]")
KEYS = ("given(z[j])", "given(z[j])", "given(z[j])", "c[j]", "input(z[j])", "given(x[j])", "z[j]", "given(z[j - 1])")
MASKS = (
    "j <= i",
    "j < i",
    "j in token",
    "i - 3 < j <= i",
    "j != i",
    "j in token if doc[j] == doc[i]",
    "j <= i if doc[j] == doc[i]",
    "j in token if j < i or j < doc[i]",
    "j <= i if doc[j] > 0",
    "j <= i if g[j] < 0.5",
)
SCORES = (
    "dot({q}, {u})",
    "dot({q}, {u})",
    "({q}) @ ({u})",
    "(-norm2({q} - {u}) / 2)",
    "dot(tanh({q}), {u})",
    "sin(dot({q}, {u}))^2",
)
SCALES = ("", "beta * ", "0.5 * ", "scale * ", "t * ")
# What a pair adds to its score.
BIASES = (
    "",
    "",
    " - slope * (i - j)",
    " + B[i - j]",
    " + g[j]",
    " + g[i] * g[j]",
    " + dot(U @ z[i], U2 @ {key})",
    " - 0.1 * square(i - j)",
)
HEAD_BIASES = (*BIASES, " - slopes[k] * (i - j)", " + Bk[k, i - j]", " + a[k]")
MODS = ("{}", "{}", "{}", "cap({})", "2 * tanh(({}) / 2)", "sin({})")
SUMS = (
    "logsumexp[{mask}]({score})",
    "logsumexp[{mask}]({score})",
    "log(sum[{mask}](exp({score})))",
    "log(exp(b) + sum[{mask}](exp({score})))",
    "log(1 + sum[{mask}](exp({score})))",
    "log(sum[{mask}](softplus(g[j]) * exp({score})))",
    "softplus(logsumexp[{mask}]({score}))",
    "sum[{mask}](softplus({score}))",
    "sum[{mask}](square({score}))",
    "sum[{mask}](relu({score})^3)",
    "sum[{mask}](exp(0.3 * ({score})))",
    "mean[{mask}](sin({score}))",
    "mean[{mask}](g[j] * tanh({score}))",
    "max[{mask}]({score})",
)
HEADS = ("sum[k]({})", "sum[k]({})", "mean[k]({})", "sum[k](a[k] * {})", "logsumexp[k]({} + a[k])")
FEATURES = (
    "dot({gate}, integral[silu]({up}))",
    "dot({gate}, integral[gelu]({up}))",
    "dot({gate}, square(relu({up})))",
    "sum(softplus({up}))",
    "sum(integral[tanh]({up}))",
    "logsumexp({up})",
    "logsumexp({up} + {gate})",
    "dot(tanh({up}), {gate} * {up})",
    "sum(exp(-square({up} - {gate})))",
    "dot(softmax({gate}), softplus({up}))",
    "sum({gate} * {gate} * square({up})) / 2",
)
GATES = ("V @ given(z[i])", "V @ given(x[i])", "V @ z[i]", "W @ given(z[i])", "bias", "V @ input(z[i])")
STEPS = ("", "eta * ", "0.3 * ", "p * ", "t * ")

# Declarations are written where their name occurs.
DECLARED = {
    "doc": "given doc[token]: int",
    "g": "given g[token]",
    "t": "given t",
    "beta": "const beta = 1 / sqrt(r)",
    "scale": "param scale = 0.7",
    "slope": "positive param slope = 0.3",
    "slopes": "positive param slopes[h] = 0.3",
    "B": "param B[n] ~ normal(0, 1)",
    "Bk": "param Bk[h, n] ~ normal(0, 1)",
    "a": "param a[h] = 1",
    "b": "param b = 0.2",
    "cap": "function cap(s) = 3 * tanh(s / 3)",
    "Q": "param Q[h, r, d]",
    "K": "param K[h, r, d]",
    "S": "param S[r, d]",
    "P": "param P[r, d]",
    "U": "param U[q, d]",
    "U2": "param U2[q, d]",
    "L": "param L[d, n]",
    "W": "param W[f, d]",
    "V": "param V[f, d]",
    "bias": "param bias[f] = 0.1",
    "eta": "param eta[d] = 0.5",
    "p": "positive param p[d]",
    "c": "c[j] = given(z[j])",
}


@st.composite
def family_files(draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """The text of a file with one energy of pairs, of features, or of both."""

    def pick(options: tuple[str, ...]) -> str:
        chosen: str = draw(st.sampled_from(options))
        return chosen

    kinds = draw(st.sampled_from(("pairs", "pairs", "features", "both")))
    lines = [f"z[i] = {pick(NORMS)}"]
    terms = []
    if kinds != "features":
        definition, term = _pairs(pick)
        lines += definition
        terms.append(term)
    if kinds != "pairs":
        terms.append(pick(FEATURES).format(up="(W @ z[i])", gate=f"({pick(GATES)})"))
    if pick(("no", "no", "anchor")) == "anchor":
        terms.append("norm2(z[i]) / 2")
    signs = [pick(("-", "-", "-0.5 * ", "")) for _ in terms]
    total = " + ".join(f"({sign}{term})" for sign, term in zip(signs, terms, strict=True))
    lines.append(pick((f"E[i] = {total}", f"E[i] = {total}", f"E = sum[i]({total})")))
    lines += _update(pick)
    body = "\n".join(lines)
    declared = [line for name, line in DECLARED.items() if re.search(rf"\b{name}\b", body)]
    text = ["state x[token, d]", *declared, *lines]
    header = "energy family(d, h = 2, r = 2, n = 3, f = 3, q = 2)"
    return f"{header} {{\n" + "".join(f"  {line}\n" for line in text) + "}\n"


def _pairs(pick: Callable[[tuple[str, ...]], str]) -> tuple[list[str], str]:
    """Definitions, and a term over pairs of token i with others."""
    key = pick(KEYS)
    with_heads = pick(("heads", "heads", "none")) == "heads"
    if with_heads:
        query, other = "Q[k] @ z[i]", pick((f"K[k] @ {key}", f"K[k] @ {key}", f"Q[k] @ {key}", f"S @ {key}"))
    else:
        query, other = pick(("z[i]", "P @ z[i]")), ""
        other = key if query == "z[i]" else pick((f"P @ {key}", f"S @ {key}"))
    if query != "z[i]":
        query, other = {
            "no": (query, other),
            "both": (f"rope({query}, i)", f"rope({other}, j)"),
            "given": (f"rope({query}, g[i], 100)", f"rope({other}, g[j], 100)"),
            "one": (f"rope({query}, i - 1)", other),
        }[pick(("no", "no", "both", "both", "given", "one"))]
    bias = pick(HEAD_BIASES if with_heads else BIASES).format(key=key)
    score = pick(MODS).format(pick(SCALES) + pick(SCORES).format(q=query, u=other) + bias)
    lines = []
    if pick(("inline", "named")) == "named":
        indices = "k, i, j in token" if with_heads else "i, j in token"
        lines.append(f"score[{indices}] = {score}")
        score = "score[k, i, j]" if with_heads else "score[i, j]"
    term = pick(SUMS).format(mask=pick(MASKS), score=score)
    return lines, pick(HEADS).format(term) if with_heads else term


def _update(pick: Callable[[tuple[str, ...]], str]) -> list[str]:
    step = pick(STEPS)
    repeat = pick(("", "", "repeat 2 "))
    block = {
        "plain": [f"x[i] = x[i] - {step}grad[z](E)[i]"],
        "low rank": ["u[i] = grad[z](E)[i]", f"x[i] = x[i] - ({step}u[i] + L @ (L.T @ u[i]))"],
        "momentum": [f"v[i] = 0.8 * v[i] - {step}grad[z](E)[i]", "x[i] = x[i] + v[i]"],
    }
    chosen = pick(("plain", "plain", "low rank", "momentum"))
    state = ["state v[token, d] = 0"] if chosen == "momentum" else []
    return [*state, f"update {repeat}{{", *(f"  {line}" for line in block[chosen]), "}"]
