"""Log-sum-exp, softmax weights and maxima: empty rows, minus infinity, large scores, derivatives of all orders."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from cemc.program.nodes import Branch, Einsum, FirstMax, LogSumExp, Map, Max, Node, Positions, Weights
from tests.emit.support import Build, at

TEXT = """
energy rows(d) {
  state x[token, d]
  axis source
  given m[source]
  E[i] = dot(x[i], x[i]) + sum[j](m[j])
}
"""


class Rows(Build):
    """Scores over (token, d): the state itself. The mask allows component d at token i where d < i."""

    def __init__(self) -> None:
        super().__init__(TEXT)
        self.x = self.leaf("x")

    def positions(self, axis: str) -> Node:
        return self.make(Positions, dims=(axis,), kind="integer", axis=axis)

    def mask(self) -> Node:
        return self.make(
            Map, dims=("token", "d"), kind="truth", operation="<",
            operands=(at(self.positions("d"), 1), at(self.positions("token"), 0)),
        )  # fmt: skip

    def spread(self, value: Node) -> Node:
        """A value over tokens, over (token, d)."""
        return self.make(
            Map, dims=("token", "d"), batched=True, operation="add",
            operands=(at(value, 0), at(self.make(Map, dims=("token", "d"), batched=True, operation="mul",
                                                 operands=(at(self.x), at(self.zero()))))),
        )  # fmt: skip

    def zero(self) -> Node:
        from fractions import Fraction

        from cemc.program.nodes import Number

        return self.make(Number, kind="integer", value=Fraction(0))

    def logsumexp(self, empty: str, *, masked: bool, sink: bool = False) -> Node:
        branches = [Branch(at(self.x), at(self.mask()) if masked else None, ("d",))]
        if sink:
            first = self.make(Einsum, dims=("token",), batched=True, operands=(at(self.x),), output=(0,))
            branches.insert(0, Branch(at(first), None, ()))
        return self.make(LogSumExp, dims=("token",), batched=True, branches=tuple(branches), empty=empty)

    def call(self, value: Node, x: Tensor) -> Tensor:
        layer: Any = self.layer(value, d=x.shape[-1])
        result: Tensor = layer(x, m=torch.zeros(2, dtype=x.dtype))
        return result


def check_derivatives(rows: Rows, value: Node, x: Tensor) -> None:
    """First and second derivatives against differences, none of them NaN."""
    layer: Any = rows.layer(value, d=x.shape[-1])
    m = torch.zeros(2, dtype=x.dtype)

    def function(x: Tensor) -> Tensor:
        result: Tensor = layer(x, m=m)
        return result

    assert torch.autograd.gradcheck(function, (x.requires_grad_(),))
    assert torch.autograd.gradgradcheck(function, (x,))


def allowed(x: Tensor) -> Tensor:
    return torch.arange(x.shape[-1]) < torch.arange(x.shape[-2])[:, None]


def test_masked_log_sum_exp() -> None:
    rows = Rows()
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    node = rows.spread(rows.logsumexp("zero", masked=True))
    expected = x.masked_fill(~allowed(x), -math.inf).logsumexp(-1)
    expected[:, 0] = 0  # Nothing is allowed at token 0.
    torch.testing.assert_close(rows.call(node, x)[..., 0], expected)
    check_derivatives(rows, node, x)


def test_empty_is_minus_infinity_where_asked() -> None:
    rows = Rows()
    x = torch.randn(3, 2, dtype=torch.float64)
    result = rows.call(rows.spread(rows.logsumexp("minus infinity", masked=True)), x)
    assert result[0].tolist() == [-math.inf] * 2
    assert result[1:].isfinite().all()


def test_sink_beside_empty_rows() -> None:
    rows = Rows()
    x = torch.randn(4, 3, dtype=torch.float64)
    node = rows.spread(rows.logsumexp("zero", masked=True, sink=True))
    parts = torch.cat((x.sum(-1, keepdim=True), x.masked_fill(~allowed(x), -math.inf)), -1)
    torch.testing.assert_close(rows.call(node, x)[..., 0], parts.logsumexp(-1))
    check_derivatives(rows, node, x)


def test_scores_of_ten_thousand_in_single_precision() -> None:
    rows = Rows()
    x = torch.tensor([[0.0, 0.0], [1e4, -1e4], [1e4, 1e4]], requires_grad=True)
    result = rows.call(rows.spread(rows.logsumexp("zero", masked=False)), x)[..., 0]
    torch.testing.assert_close(result, torch.tensor([math.log(2), 1e4, 1e4 + math.log(2)]))
    (gradient,) = torch.autograd.grad(result.sum(), x)
    # A log-sum-exp near 1e4 is itself only good to half a unit in its last place, 5e-4.
    torch.testing.assert_close(gradient, torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.5, 0.5]]), rtol=0, atol=5e-4)


@pytest.mark.parametrize("masked", [False, True])
def test_weights(masked: bool) -> None:
    rows = Rows()
    x = torch.randn(4, 3, dtype=torch.float64)
    normaliser = rows.logsumexp("zero", masked=masked)
    node = rows.make(
        Weights, dims=("token", "d"), batched=True, scores=at(rows.x), normaliser=at(normaliser, 0),
        mask=at(rows.mask()) if masked else None,
    )  # fmt: skip
    scores = x.masked_fill(~allowed(x), -math.inf) if masked else x
    torch.testing.assert_close(rows.call(node, x), scores.softmax(-1).nan_to_num())
    check_derivatives(rows, node, x)


def test_weights_of_scores_that_are_minus_infinity() -> None:
    rows = Rows()
    logs = rows.make(Map, dims=("token", "d"), batched=True, operation="log", operands=(at(rows.x),))
    branch = Branch(at(logs), None, ("d",))
    normaliser = rows.make(LogSumExp, dims=("token",), batched=True, branches=(branch,), empty="zero")
    node = rows.make(
        Weights, dims=("token", "d"), batched=True, scores=at(logs), normaliser=at(normaliser, 0), mask=None
    )
    result = rows.call(node, torch.tensor([[0.0, 0.0], [0.0, 2.0], [1.0, 3.0]]))
    torch.testing.assert_close(result, torch.tensor([[0.0, 0.0], [0.0, 1.0], [0.25, 0.75]]))


def test_maximum_takes_the_first() -> None:
    rows = Rows()
    x = torch.tensor([[9.0, 9.0, 9.0], [1.0, 9.0, 9.0], [2.0, 2.0, 9.0], [1.0, 3.0, 3.0]], requires_grad=True)
    node = rows.make(Max, dims=("token",), batched=True, scores=at(rows.x), mask=at(rows.mask()), reduced=("d",))
    result = rows.call(rows.spread(node), x)[..., 0]
    assert result.tolist() == [0, 1, 2, 3]
    (gradient,) = torch.autograd.grad(result.sum(), x)
    assert gradient.tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 0]]
    first = rows.make(FirstMax, dims=("token", "d"), batched=True, scores=at(rows.x), mask=at(rows.mask()), reduced=1)
    assert torch.equal(rows.call(first, x), gradient)


def test_maximum_over_everything() -> None:
    rows = Rows()
    x = torch.tensor([[[1.0, 5.0], [5.0, 2.0]]])
    first = rows.make(FirstMax, dims=("token", "d"), batched=True, scores=at(rows.x), mask=None, reduced=2)
    assert rows.call(first, x).tolist() == [[[0, 1], [0, 0]]]
    assert rows.call(first, x[:, :0]).shape == (1, 0, 2)


@pytest.mark.parametrize("length", [0, 1, 3])
def test_reductions_over_an_axis_of_any_length(length: int) -> None:
    rows = Rows()
    m = rows.leaf("m")
    lse = rows.make(LogSumExp, batched=True, branches=(Branch(at(m, 0), None, ("source",)),), empty="zero")
    top = rows.make(Max, batched=True, scores=at(m, 0), mask=None, reduced=("source",))
    total = rows.make(Map, dims=("token", "d"), batched=True, operation="add", operands=(at(rows.x), at(lse), at(top)))
    values = torch.randn(length)
    expected = values.logsumexp(0) + values.max() if length else torch.tensor(0.0)
    layer = rows.layer(total, d=2)
    x = torch.zeros(2, 2)
    torch.testing.assert_close(layer(x, m=values), expected.expand(2, 2))
