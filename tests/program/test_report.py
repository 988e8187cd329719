"""What a generated file says of itself: what was recognised, why not more, and what memory it takes."""

from __future__ import annotations

import pytest

from cemc.compiler import Result, Trace, compile_source
from cemc.source import Source
from tests.emit.support import generated

HEADS = "param Q[h, r, d]\nparam K[h, r, d]\n"


def compiled(body: str) -> Result:
    text = f"energy e(d, h = 2, r = d / h) {{ state x[token, d]\n{body}\n}}"
    (result,) = compile_source(Source("test.cem", text), Trace())
    return result


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            HEADS + "E[i] = -sum[k](logsumexp[j != i](dot(Q[k] @ x[i], K[k] @ x[j])))",
            "a token moves as somebody else's",
        ),
        ("E[i] = -logsumexp[i - 3 < j <= i](dot(x[i], given(x[j])))", "the mask is neither empty nor causal"),
        (
            "E[i] = -logsumexp[j <= i](2 * tanh(dot(x[i], given(x[j]))))",
            "times something else that depends on the pair",
        ),
        ("E[i] = sum[j <= i](softplus(dot(x[i], given(x[j]))))", "no softmax over pair scores"),
        (
            "E[i] = -logsumexp[j <= i, l <= j](dot(x[i], given(x[j] * x[l])))",
            "for all pairs of tokens at once, in memory quadratic",
        ),
    ],
)
def test_reasons_are_in_the_file_beside_what_runs_by_blocks(body: str, reason: str) -> None:
    result = compiled(body)
    assert any("by blocks of rows" in sentence for sentence in result.recognised)
    assert any(reason in each for each in result.reasons)
    opening = " ".join(result.code.split("from __future__")[0].split())
    assert "Not one fused operation:" in opening
    assert reason in opening


def test_nothing_is_said_to_be_quadratic_that_is_not() -> None:
    for body in (
        "E[i] = -logsumexp[j <= i](dot(x[i], given(x[j])))",
        "E[i] = -logsumexp[j != i](dot(x[i], x[j]))",
        "E[i] = -logsumexp[j <= i](-norm2(x[i] - given(x[j])))",
    ):
        assert not any("quadratic" in reason for reason in compiled(body).reasons)


def test_features_that_are_mixed_are_no_element_wise_energy() -> None:
    """A norm of the features, or attention with them as queries, stands between the up and the down projection."""
    normed = compiled("param W[d, d]\nE[i] = -logsumexp[j <= i](dot(normalize(W @ x[i]), given(x[j])))")
    assert not any("projection" in sentence for sentence in normed.recognised)
    plain = compiled("param W[d, d]\nparam V[d, d]\nE[i] = -dot(V @ given(x[i]), integral[silu](W @ x[i]))")
    assert any("W is both the up and the down projection" in sentence for sentence in plain.recognised)


def test_a_value_and_its_transpose_are_one() -> None:
    """A global energy needs its weights both ways round: they are computed once, and by blocks in one pass."""
    code = generated(
        "energy e(d, h = 2, r = d / h) { state x[token, d]\n"
        + HEADS
        + "E[i] = -sum[k](logsumexp[j != i](dot(Q[k] @ x[i], K[k] @ x[j])))\n}"
    )
    update = code.split("    def _update_generic")[1].split("    def ")[0]
    assert update.count("torch.exp(") == update.count("_logsumexp(") == 1
    fast = code.split("    def _update_torch")[1].split("    def ")[0]
    assert fast.count("_by_blocks(") == 1
    assert "results=(None, " in fast or ", None)" in fast
