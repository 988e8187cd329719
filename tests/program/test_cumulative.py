"""Sums up to another index are cumulative sums: their values, gradients and decoding, and when they are none."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tests.emit.support import generated, layer_class

TOKENS = 9
OPERATORS = ("l <= i", "l < i", "l >= i", "l > i", "i >= l", "i > l")
# What is summed over l, and what is left of the mask.
SUMMANDS = {
    "a vector": ("sum[{}](tanh(x[l]))", lambda mask, x, g: mask @ x.tanh()),
    "a number": ("sum[{}](g[l])", lambda mask, x, g: g @ mask.T),
    "how many": ("sum[{}](1)", lambda mask, x, g: mask.sum(-1).expand_as(g)),
    "a condition on what is summed": (
        "sum[{} if g[l] > 0](g[l] * x[l])",
        lambda mask, x, g: mask @ ((g > 0) * g)[..., None].mul(x),
    ),
    "how many that": ("sum[{} if g[l] > 0](1)", lambda mask, x, g: (g > 0).double() @ mask.T),
    "a factor outside": ("sum[{}](g[i] * x[l])", lambda mask, x, g: g[..., None] * (mask @ x)),
    "another index": ("sum[{}, k in d](k * sum(x[l]))", lambda mask, x, g: x.sum(-1) @ (6 * mask).T),
    "a mean": ("mean[{}](x[l])", lambda mask, x, g: (mask @ x) / mask.sum(-1, keepdim=True).clamp(min=1)),
}


def text_of(summand: str, order: str) -> str:
    body = SUMMANDS[summand][0].format(order)
    number = summand in ("a number", "how many", "how many that", "another index")
    energy = "sum(x[i]) * m[i]" if number else "dot(x[i], m[i])"
    declared = "energy e(d) {\nstate x[token, d]\ngiven g[token]\n"
    return f"{declared}m[i in token] = given({body})\nE[i] = {energy} + 0 * g[i]\n}}"


def mask_of(order: str, tokens: int) -> Tensor:
    up_to = torch.ones(tokens, tokens, dtype=torch.float64).tril()
    own = torch.eye(tokens, dtype=torch.float64)
    masks = {"l <= i": up_to, "l < i": up_to - own, "l >= i": up_to.T, "l > i": up_to.T - own}
    return masks[{"i >= l": "l <= i", "i > l": "l < i"}.get(order, order)]


@pytest.mark.parametrize("tokens", [0, 1, TOKENS])
@pytest.mark.parametrize("order", OPERATORS)
@pytest.mark.parametrize("summand", SUMMANDS)
def test_values_gradients_and_decoding(summand: str, order: str, tokens: int) -> None:
    text = text_of(summand, order)
    assert "[token, token]" not in generated(text)
    layer = layer_class(text)(d=4, dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, tokens, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    g = torch.randn(2, tokens, generator=generator, dtype=torch.float64, requires_grad=True)
    found = layer(x, g=g)
    held = SUMMANDS[summand][1](mask_of(order, tokens), x, g)
    expected = x - (held if held.ndim == 3 else held[..., None].expand_as(x))
    torch.testing.assert_close(found, expected)
    for one, other in zip(
        torch.autograd.grad((found * found.detach().sin()).sum(), [x, g], allow_unused=True),
        torch.autograd.grad((expected * found.detach().sin()).sum(), [x, g], allow_unused=True),
        strict=True,
    ):
        torch.testing.assert_close(one, other)
    assert layer.causal == (order not in ("l >= i", "l > i"))
    if layer.causal:
        with torch.no_grad():
            store = layer.new_cache((2,), tokens)
            cuts = sorted({0, tokens // 3, tokens // 2, tokens})
            parts = [layer(x[:, a:b], cache=store, g=g[:, a:b])[0] for a, b in pairwise(cuts)]
        torch.testing.assert_close(torch.cat([x[:, :0], *parts], 1), found)


@pytest.mark.parametrize(
    "body",
    [
        "sum[i - 3 < l <= i](x[l])",  # a window: the difference of two sums would cancel
        "sum[l <= i if g[l] < g[i]](x[l])",
        "sum[l <= i](x[l] * tanh(g[l] * g[i]))",
        "sum[l != i](x[l])",
        "max[l <= i](x[l])",
    ],
)
def test_what_depends_on_both_is_summed_for_each(body: str) -> None:
    text = (
        f"energy e(d) {{ state x[token, d]\ngiven g[token]\nm[i] = given({body})\nE[i] = dot(x[i], m[i]) + 0 * g[i] }}"
    )
    assert "cumsum" not in generated(text)


def test_a_cumulative_sum_keeps_only_what_is_summed() -> None:
    """Neither the sums nor anything quadratic: decay by gates needs the gates and the keys."""
    layer = layer_class(
        "energy e(d) { state x[token, d]\nparam f[d]\nc[i] = sum[l <= i](log(sigmoid(given(dot(f, x[l])))))\n"
        "E[i] = -logsumexp[j <= i](dot(x[i], given(x[j])) + c[i] - c[j]) }"
    )(d=4)
    with torch.no_grad():
        x = torch.randn(2, 6, 4)
        store = layer.new_cache((2,), 6)
        parts = [layer(x[:, n : n + 1], cache=store)[0] for n in range(6)]
        torch.testing.assert_close(torch.cat(parts, 1), layer(x))
    assert sorted(tensor.shape[2:] for tensor, _ in store.tensors.values()) == [(), (4,)]
