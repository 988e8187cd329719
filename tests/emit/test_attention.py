"""Attention nodes of every shape: shared axes or none, keys without batch axes, other widths, learned scales."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from cemc.program.nodes import Attention, Constant, Einsum, Node
from tests.emit.support import Build, at

TEXT = """
energy look(d, heads = 2, memories = 3, w = 5) {
  state x[token, d]
  axis source
  given m[source, d]
  param Q[heads, d, d]
  param M[memories, d]
  param V[memories, w]
  param U[w, d]
  param a[heads] = 1
  param g = 0.5
  const beta = 0.7
  E[i] = dot(x[i], m[0])
}
"""


class Look(Build):
    def __init__(self) -> None:
        super().__init__(TEXT)
        self.x, self.beta = self.leaf("x"), self.make(Constant, name="beta")

    def attention(self, query: Any, key: Any, value: Any, *dims: str, scale: Node | None = None, causal: bool) -> Node:
        return self.make(
            Attention, dims=dims, batched=True, query=query, key=key, value=value, scale=scale or self.beta,
            causal=causal,
        )  # fmt: skip

    def run(self, value: Node, x: Tensor, m: Tensor, **more: Any) -> tuple[Any, Tensor]:
        """The layer, and what it makes of x when only its fused program has the node."""
        layer = self.layer(self.x, fused=value, d=x.shape[-1], dtype=torch.float64, **more)
        torch.nn.init.normal_(layer.a)
        return layer, layer(x, m=m)


def softmax(query: Tensor, key: Tensor, value: Tensor, scale: Any = 0.7, causal: bool = False) -> Tensor:
    scores = scale * query @ key.mT
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -torch.inf)
    return scores.softmax(-1).nan_to_num() @ value


Batch = tuple[int, ...]
BATCHES: list[tuple[Batch, Batch]] = [
    ((), ()),
    ((2,), ()),
    ((2,), (2,)),
    ((3, 1), (2,)),
    ((0,), ()),
]


@pytest.mark.parametrize(("left", "right"), BATCHES)
@pytest.mark.parametrize("n", [0, 1, 4])
def test_cross_attention_without_shared_axes(left: Batch, right: Batch, n: int) -> None:
    look = Look()
    m = look.leaf("m")
    node = look.attention(at(look.x), at(m), at(m), "token", "d", causal=False)
    x, keys = torch.randn(*left, n, 4, dtype=torch.float64), torch.randn(*right, 3, 4, dtype=torch.float64)
    _, result = look.run(node, x, keys)
    torch.testing.assert_close(result, softmax(x, keys, keys))
    assert torch.equal(look.run(node, x, keys[..., :0, :])[1], torch.zeros_like(result))


@pytest.mark.parametrize(("left", "right"), BATCHES)
def test_heads_of_queries_and_one_set_of_keys(left: Batch, right: Batch) -> None:
    look = Look()
    query = look.make(
        Einsum, dims=("token", "heads", "d"), batched=True, operands=(at(look.x, 0, 3), at(look.leaf("Q"), 1, 2, 3)),
        output=(0, 1, 2),
    )  # fmt: skip
    node = look.attention(at(query, 1, 0, 2), at(look.x, 1, 2), at(look.x, 1, 2), "heads", "token", "d", causal=True)
    total = look.make(Einsum, dims=("token", "d"), batched=True, operands=(at(node, 2, 0, 1),), output=(0, 1))
    x, m = torch.randn(*left, 5, 4, dtype=torch.float64), torch.randn(*right, 3, 4, dtype=torch.float64)
    layer, result = look.run(total, x, m)
    queries = torch.einsum("...ic,kac->...kia", x, layer.Q)
    keys = x[..., None, :, :]
    expected = softmax(queries, keys, keys, causal=True).sum(-3)
    torch.testing.assert_close(result, expected.expand_as(result))
    assert result.shape == (*torch.broadcast_shapes(left, right), 5, 4)


def test_memories_that_are_parameters_and_wider_values() -> None:
    look = Look()
    read = look.attention(at(look.x), at(look.leaf("M")), at(look.leaf("V")), "token", "w", causal=False)
    back = look.make(
        Einsum, dims=("token", "d"), batched=True, operands=(at(read, 0, 2), at(look.leaf("U"), 2, 1)), output=(0, 1)
    )
    x, m = torch.randn(2, 5, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    layer, result = look.run(back, x, m)
    torch.testing.assert_close(result, softmax(x, layer.M, layer.V) @ layer.U)
    _, narrow = look.run(back, x, m, w=2)
    assert narrow.shape == x.shape


def test_a_learned_scale_has_its_gradient() -> None:
    look = Look()
    node = look.attention(at(look.x), at(look.x), at(look.x), "token", "d", scale=look.leaf("g"), causal=True)
    x, m = torch.randn(2, 5, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
    layer, result = look.run(node, x, m)
    expected = softmax(x, x, x, layer.g, causal=True)
    torch.testing.assert_close(result, expected)
    (ours,), (theirs,) = (torch.autograd.grad(y.square().sum(), layer.g) for y in (result, expected))
    torch.testing.assert_close(ours, theirs)
    layer.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layer(x.float(), m=m.float()).square().sum().backward()
    assert layer.g.grad.item() == pytest.approx(theirs.item(), rel=0.1)
