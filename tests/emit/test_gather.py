"""Computed subscripts against loops: shifts, look-ups, relative positions, labels; zero outside."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from cemc.program.nodes import Gather, Map, Node, Number, Positions
from tests.emit.support import Build, at


class Reads(Build):
    def __init__(self) -> None:
        super().__init__(
            """
            energy reads(d, kinds = 3) {
              state x[token, d]
              given label[token]: int
              param T[kinds, d]
              param B[kinds, kinds, d]
              E[i] = dot(x[i], T[label[i]]) + dot(x[i], B[label[i], label[i]])
            }
            """
        )
        self.x, self.label = self.leaf("x"), self.leaf("label")
        self.place = self.make(Positions, dims=("token",), kind="integer", axis="token")

    def integer(self, operation: str, *operands: Node) -> Node:
        return self.make(
            Map, dims=("token",), kind="integer", operation=operation, operands=tuple(at(o) for o in operands),
            batched=any(o.batched for o in operands),
        )  # fmt: skip

    def shifted(self, by: int) -> Node:
        return self.integer("add", self.place, self.make(Number, kind="integer", value=Fraction(by)))

    def gather(self, table: Node, *subscripts: Any) -> Node:
        return self.make(Gather, dims=("token", "d"), batched=True, table=table, subscripts=subscripts)

    def run(self, node: Node, x: Tensor, label: Tensor) -> tuple[Any, Tensor]:
        layer = self.layer(node, d=x.shape[-1], dtype=torch.float64)
        torch.nn.init.normal_(layer.B)
        return layer, layer(x, label=label)


def batch(n: int) -> tuple[Tensor, Tensor]:
    return torch.randn(2, n, 4, dtype=torch.float64), torch.randint(-1, 4, (2, n))


@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("by", [-1, 0, 2])
def test_token_shift(by: int, n: int) -> None:
    reads = Reads()
    x, label = batch(n)
    _, result = reads.run(reads.gather(reads.x, at(reads.shifted(by), 0), 1), x, label)
    expected = torch.zeros_like(x)
    for i in range(n):
        if 0 <= i + by < n:
            expected[:, i] = x[:, i + by]
    assert torch.equal(result, expected)


def test_look_up_of_labels() -> None:
    reads = Reads()
    x, label = batch(5)
    layer, result = reads.run(reads.gather(reads.leaf("T"), at(reads.label, 0), 1), x, label)
    for b, i in product(range(2), range(5)):
        k = int(label[b, i])
        expected = layer.T[k] if 0 <= k < 3 else torch.zeros(4, dtype=torch.float64)
        assert torch.equal(result[b, i], expected)
    (gradient,) = torch.autograd.grad(result.sum(), layer.T)
    assert gradient[:, 0].tolist() == [float((label == k).sum()) for k in range(3)]


def test_two_subscripts_of_one_table() -> None:
    reads = Reads()
    x, label = batch(5)
    node = reads.gather(reads.leaf("B"), at(reads.label, 0), at(reads.shifted(-1), 0), 1)
    layer, result = reads.run(node, x, label)
    for b, i in product(range(2), range(5)):
        k, m = int(label[b, i]), i - 1
        inside = 0 <= k < 3 and 0 <= m < 3
        assert torch.equal(result[b, i], layer.B[k, m] if inside else torch.zeros(4, dtype=torch.float64))


def test_batched_table_at_batched_positions() -> None:
    reads = Reads()
    x, label = batch(5)
    _, result = reads.run(reads.gather(reads.x, at(reads.label, 0), 1), x, label)
    for b, i in product(range(2), range(5)):
        k = int(label[b, i])
        assert torch.equal(result[b, i], x[b, k] if 0 <= k < 5 else torch.zeros(4, dtype=torch.float64))


def test_batch_axes_of_table_and_positions_broadcast() -> None:
    reads = Reads()
    x, label = torch.randn(3, 1, 5, 4, dtype=torch.float64), torch.randint(0, 5, (2, 5))
    _, result = reads.run(reads.gather(reads.x, at(reads.label, 0), 1), x, label)
    assert result.shape == (3, 2, 5, 4)
    assert torch.equal(result[2, 1, 3], x[2, 0, label[1, 3]])


def test_subscript_of_the_last_axis() -> None:
    reads = Reads()
    x, label = batch(3)
    read = reads.make(
        Gather, dims=("token",), batched=True, table=reads.x, subscripts=(at(reads.place, 0), at(reads.label, 0))
    )
    node = reads.make(Map, dims=("token", "d"), batched=True, operation="add", operands=(at(read, 0), at(reads.x)))
    _, result = reads.run(node, x, label)
    for b, i in product(range(2), range(3)):
        k = int(label[b, i])
        torch.testing.assert_close(result[b, i], x[b, i] + (x[b, i, k] if 0 <= k < 4 else 0))


def test_booleans_and_small_integers_are_labels() -> None:
    reads = Reads()
    x, _ = batch(4)
    node = reads.gather(reads.leaf("T"), at(reads.integer("add", reads.label, reads.label), 0), 1)
    layer, result = reads.run(node, x, torch.tensor([True, False, True, False]))
    assert torch.equal(result[0, 0], layer.T[2])
    eight = torch.tensor([0, 1, 100, 200], dtype=torch.uint8)  # 100 + 100 does not wrap around.
    assert torch.equal(layer(x, label=eight)[1, 2:], torch.zeros(2, 4, dtype=torch.float64))
