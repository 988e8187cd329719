"""The two layers of the paper from programs built by hand, as the earlier stages make them, against plain torch."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cemc.program.nodes import (
    Attention,
    Branch,
    Constant,
    Einsum,
    LogSumExp,
    Map,
    Node,
    Number,
    Positions,
    Program,
    Rotate,
    Size,
    Weights,
)
from tests.emit.support import Build, at, emitted, imported

ATTENTION = """
energy cem_attention(d, heads = 8, r = d / heads) {
  state x[token, d]
  param Q[heads, r, d]
  param K[heads, r, d]
  param eta[d] = 1
  const beta = 1 / sqrt(r)
  z[i] = rmsnorm(x[i])
  s[k, i, j] = beta * dot(rope(Q[k] @ z[i], i), rope(K[k] @ given(z[j]), j))
  E[i] = -sum[k](logsumexp[j <= i](s[k, i, j])) / beta
  update { x[i] = x[i] - eta * grad[z](E)[i] }
}
"""

MLP = """
energy cem_mlp(d, f = 4 * d) {
  state x[token, d]
  param W[f, d]
  param V[f, d]
  z[i] = rmsnorm(x[i])
  E[i] = -dot(V @ given(z[i]), integral[silu](W @ z[i]))
  update { x[i] = x[i] - grad[z](E)[i] }
}
"""


class Parts(Build):
    """Nodes that both layers have."""

    def number(self, value: Fraction | int) -> Node:
        kind = "integer" if Fraction(value).denominator == 1 else "real"
        return self.make(Number, kind=kind, value=Fraction(value))

    def map(self, operation: str, dims: tuple[str, ...], *operands: Any, hint: str | None = None, **more: Any) -> Node:
        return self.graph.make(
            Map, hint=hint, dims=dims, batched=any(o.node.batched for o in operands),
            kind=more.get("kind", "real"), operation=operation, operands=operands, function=more.get("function"),
        )  # fmt: skip

    def normalised(self, x: Node) -> Node:
        """x / sqrt(mean(x^2) + 1e-6)"""
        frame = ("token", "d")
        square = self.map("pow", frame, at(x), at(self.number(2)))
        total = self.make(Einsum, dims=("token",), batched=True, operands=(at(square),), output=(0,))
        inverse = self.map("pow", (), at(self.make(Size, kind="integer", axis="d")), at(self.number(-1)))
        mean = self.map("mul", ("token",), at(inverse), at(total))
        shifted = self.map("add", ("token",), at(mean), at(self.number(Fraction(1, 10**6))))
        root = self.map("rsqrt", ("token",), at(shifted))
        return self.map("mul", frame, at(x), at(root), hint="z")


def attention_programs(parts: Parts) -> tuple[Program, Program]:
    """The generic program and the one with attention in it."""
    x, Q, K, eta = (parts.leaf(name) for name in ("x", "Q", "K", "eta"))
    beta = parts.make(Constant, name="beta")
    place = parts.make(Positions, dims=("token",), kind="integer", axis="token")
    shape = ("heads", "token", "r")

    def rotated(matrix: Node, z: Node) -> Node:
        product = parts.make(
            Einsum, dims=shape, batched=True, operands=(at(matrix, 0, 2, 3), at(z, 1, 3)), output=(0, 1, 2)
        )
        return parts.make(
            Rotate, dims=shape, batched=True, operand=at(product), position=at(place, 1), base=parts.number(10000),
            inverse=False,
        )  # fmt: skip

    def output(attended: Node) -> Node:
        back = parts.make(
            Rotate, dims=shape, batched=True, operand=at(attended), position=at(place, 1), base=parts.number(10000),
            inverse=True,
        )  # fmt: skip
        total = parts.make(
            Einsum, dims=("token", "d"), batched=True, operands=(at(back, 2, 0, 3), at(Q, 2, 3, 1)), output=(0, 1)
        )
        step = parts.map("mul", ("token", "d"), at(eta, 1), at(total))
        return parts.map("add", ("token", "d"), at(x), at(step))

    z = parts.normalised(x)
    query, key = rotated(Q, z), rotated(K, z)
    dot = parts.make(
        Einsum, dims=("heads", "token", "token"), batched=True, operands=(at(query, 0, 1, 3), at(key, 0, 2, 3)),
        output=(0, 1, 2),
    )  # fmt: skip
    scores = parts.map("mul", ("heads", "token", "token"), at(beta), at(dot), hint="s")
    mask = parts.map("<=", ("token", "token"), at(place, 1), at(place, 0), kind="truth")
    branch = Branch(at(scores), at(mask, 1, 2), ("token",))
    normaliser = parts.make(LogSumExp, dims=("heads", "token"), batched=True, branches=(branch,), empty="zero")
    weights = parts.make(
        Weights, dims=("heads", "token", "token"), batched=True, scores=at(scores), normaliser=at(normaliser),
        mask=at(mask, 1, 2),
    )  # fmt: skip
    attended = parts.make(
        Einsum, dims=shape, batched=True, operands=(at(weights, 0, 1, 3), at(key, 0, 3, 2)), output=(0, 1, 2)
    )
    fused = parts.make(
        Attention, dims=shape, batched=True, query=at(query), key=at(key), value=at(key), scale=beta, causal=True
    )
    over_heads = parts.make(Einsum, dims=("token",), batched=True, operands=(at(normaliser, 1, 0),), output=(0,))
    energy = parts.map(
        "mul", ("token",), at(parts.number(-1)), at(over_heads),
        at(parts.map("pow", (), at(beta), at(parts.number(-1)))), hint="E",
    )  # fmt: skip
    generic = Program({"x": output(attended)}, {"E": energy}, True, ())
    return generic, Program({"x": output(fused)}, {"E": energy}, True, ())


def attention_reference(layer: Any, x: Tensor) -> tuple[Tensor, Tensor]:
    """The update and the energy in plain torch."""
    z = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    n, half = x.shape[-2], layer.r // 2
    angle = torch.arange(n)[:, None] * 10000.0 ** (-torch.arange(half) / half).to(x.dtype)

    def turn(u: Tensor, angle: Tensor) -> Tensor:
        first, second = u[..., :half], u[..., half:]
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)

    query = turn(torch.einsum("kac,...ic->...kia", layer.Q, z), angle)
    key = turn(torch.einsum("kac,...ic->...kia", layer.K, z), angle)
    scores = layer.beta * query @ key.transpose(-1, -2)
    scores = scores.masked_fill(~torch.ones(n, n, dtype=torch.bool).tril(), -math.inf)
    attended = turn(scores.softmax(-1) @ key, -angle)
    update = x + layer.eta * torch.einsum("kac,...kia->...ic", layer.Q, attended)
    return update, -scores.logsumexp(-1).sum(-2) / layer.beta


def attention_layer(**arguments: Any) -> Any:
    parts = Parts(ATTENTION)
    return imported(emitted(parts.energy, *attention_programs(parts))).CemAttention(**arguments)


def mlp_layer(**arguments: Any) -> Any:
    parts = Parts(MLP)
    x, W, V = (parts.leaf(name) for name in ("x", "W", "V"))
    z = parts.normalised(x)
    shape = ("token", "f")
    up = parts.make(Einsum, dims=shape, batched=True, operands=(at(W, 1, 2), at(z, 0, 2)), output=(0, 1))
    gate = parts.make(Einsum, dims=shape, batched=True, operands=(at(V, 1, 2), at(z, 0, 2)), output=(0, 1))
    inner = parts.map("mul", shape, at(parts.map("silu", shape, at(up))), at(gate))
    down = parts.make(Einsum, dims=("token", "d"), batched=True, operands=(at(inner, 0, 2), at(W, 2, 1)), output=(0, 1))
    step = parts.map("add", ("token", "d"), at(x), at(down))
    energy = parts.make(Einsum, dims=("token",), batched=True, operands=(at(inner, 0, 1),), output=(0,))
    program = Program({"x": step}, {"E": energy}, True, ())
    return imported(emitted(parts.energy, program, program)).CemMlp(**arguments)


def gradients(value: Tensor, *inputs: Tensor) -> list[Tensor]:
    weight = torch.sin(torch.arange(value.numel(), dtype=value.dtype)).reshape(value.shape)
    return list(torch.autograd.grad((value * weight).sum(), inputs))


@pytest.mark.parametrize("backend", ["auto", "generic", "torch"])
@pytest.mark.parametrize("shape", [(5, 8), (2, 1, 8), (2, 3, 4, 8), (2, 0, 8), (0, 3, 8)])
def test_attention(backend: str, shape: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    layer = attention_layer(d=8, heads=2, backend=backend, dtype=torch.float64)
    torch.nn.init.normal_(layer.eta)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    expected = attention_reference(layer, x)[0]
    result = layer(x)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(
        gradients(result, x, *layer.parameters()), gradients(expected, x, *layer.parameters()), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_attention_repeats_and_energy() -> None:
    torch.manual_seed(0)
    layer = attention_layer(d=8, heads=2, dtype=torch.float64)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    expected = x
    for _ in range(3):
        expected = attention_reference(layer, expected)[0]
    torch.testing.assert_close(layer(x, steps=3), expected)
    assert torch.equal(layer(x, steps=0), x)
    torch.testing.assert_close(layer.energy(x), attention_reference(layer, x)[1])
    assert layer.causal is True


@pytest.mark.parametrize("backend", ["generic", "torch"])
def test_mlp(backend: str) -> None:
    torch.manual_seed(0)
    layer = mlp_layer(d=6, f=10, backend=backend, dtype=torch.float64)
    x = torch.randn(2, 3, 6, dtype=torch.float64, requires_grad=True)
    z = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    inner = F.silu(z @ layer.W.T) * (z @ layer.V.T)
    result, expected = layer(x), x + inner @ layer.W
    torch.testing.assert_close(result, expected)
    for ours, theirs in zip(
        gradients(result, x, layer.W, layer.V), gradients(expected, x, layer.W, layer.V), strict=True
    ):
        torch.testing.assert_close(ours, theirs)
    assert torch.autograd.gradgradcheck(layer, (x,))
