"""What the constructor, `forward` and `energy` accept, and the texts of their errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.emit.support import layer_class

TEXT = """
energy cross(d, heads = 2, r = d / heads, wide = 2 * d + 1) {
  axis source
  state x[token, d]
  given m[source, d]
  given doc[token]: int
  given t
  param Q[heads, r, d]
  positive param p[wide] = 1
  const beta = 1 / sqrt(r)
  E[i] = -logsumexp[j in source](beta * dot(x[i], m[j])) + t * doc[i] * sum(p) + norm2(Q[0] @ x[i])
}
"""
PLAIN = """
energy plain(d) {
  state x[token, d]
  E[i] = norm2(x[i])
}
"""
PAIR = """
energy pair(d, e, times = 3) {
  state x[token, d]
  state y[e]
  state v[token, d] = 0.5
  E[i] = norm2(x[i]) * sum(y) + dot(given(x[i]), v[i])
  H = norm2(y)
  update repeat times {
    v[i] = v[i] / 2 - grad[x](E)[i]
    x[i] = x[i] + v[i] / 10
    y = y - grad[y](H) / 4
  }
}
"""


@pytest.fixture(scope="module")
def cross() -> Any:
    return layer_class(TEXT)(d=4)


def arguments(**changes: Any) -> dict[str, Any]:
    known: dict[str, Any] = {"m": torch.randn(3, 4), "doc": torch.zeros(5, dtype=torch.int32), "t": torch.tensor(0.5)}
    known |= changes
    return {name: value for name, value in known.items() if value is not None}


def fails(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text


X = torch.randn(2, 5, 4)

CALLS: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (X[..., :3], {}, ValueError, "x: expected a floating-point tensor [..., token, d=4], got [2, 5, 3]"),
    (X[0, 0], {}, ValueError, "x: expected a floating-point tensor [..., token, d=4], got [4]"),
    (X.long(), {}, TypeError, "x: expected a floating-point tensor [..., token, d=4], got torch.int64"),
    (X + 0j, {}, TypeError, "x: expected a floating-point tensor [..., token, d=4], got torch.complex64"),
    (X.numpy(), {}, TypeError, "x: expected a floating-point tensor [..., token, d=4], got ndarray"),
    (X, {"m": None}, TypeError, "expected the keyword arguments m, doc, t, got doc, t"),
    (X, {"n": X}, TypeError, "expected the keyword arguments m, doc, t, got m, doc, t, n"),
    (X, {"m": X[..., :2]}, ValueError, "m: expected a floating-point tensor [..., source, d=4], got [2, 5, 2]"),
    (X, {"t": 0.5}, TypeError, "t: expected a floating-point tensor [...], got float"),
    (X, {"doc": X[0, :, 0]}, TypeError, "doc: expected an integer tensor [..., token=5], got torch.float32"),
    (
        X, {"doc": torch.zeros(4, dtype=torch.long)}, ValueError,
        "doc: expected an integer tensor [..., token=5], got [4]",
    ),
    (
        X, {"m": torch.randn(3, 6, 4)}, ValueError,
        "expected batch axes that broadcast together, got x [2], m [3], doc [], t []",
    ),
    (X, {"steps": -1}, ValueError, "steps: expected 0 or more, got -1"),
    (X, {"steps": True}, TypeError, "steps: expected an integer, got True"),
    (X, {"steps": 1.0}, TypeError, "steps: expected an integer, got 1.0"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_errors_of_forward(cross: Any, number: int) -> None:
    x, changes, error, text = CALLS[number]
    fails(lambda: cross(x, **arguments(**changes)), error, text)


def test_errors_of_energy(cross: Any) -> None:
    text = "context: expected a floating-point tensor [..., token=5, d=4], got [2, 4, 4]"
    fails(lambda: cross.energy(X, X[:, :4], **arguments()), ValueError, text)
    fails(lambda: cross.energy(X), TypeError, "expected the keyword arguments m, doc, t, got none")


SIZES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"d": 0}, ValueError, "d: expected a positive integer, got 0"),
    ({"d": 4.0}, TypeError, "d: expected a positive integer, got 4.0"),
    ({"d": True}, TypeError, "d: expected a positive integer, got True"),
    ({"d": 4, "heads": 3}, ValueError, "r = d / heads: expected an exact division, got 4 / 3"),
    ({"d": 4, "beta": "1"}, TypeError, "beta: expected a number, got '1'"),
    ({"d": 4, "dtype": torch.long}, TypeError, "dtype: expected a floating-point dtype, got torch.int64"),
    (
        {"d": 4, "backend": "cuda"}, ValueError,
        "backend: expected \"auto\", \"generic\", \"torch\" or \"triton\", got 'cuda'",
    ),
    (
        {"d": 4, "backend": "triton"}, ValueError,
        'backend: "triton" cannot run here: cross_kernels.py is not beside this file',
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(SIZES)))
def test_errors_of_the_constructor(number: int) -> None:
    sizes, error, text = SIZES[number]
    fails(lambda: layer_class(TEXT)(**sizes), error, text)


def test_rotated_axes_are_even() -> None:
    text = "energy turn(d) { state x[token, d] E[i] = dot(rope(x[i], i), given(rope(x[i], 0))) }"
    fails(lambda: layer_class(text)(d=3), ValueError, "d: expected an even number, to be rotated in pairs, got 3")


def test_constructor(cross: Any) -> None:
    assert (cross.d, cross.heads, cross.r, cross.wide, cross.beta) == (4, 2, 2, 9, 1 / math.sqrt(2))
    assert repr(cross) == "Cross(d=4, heads=2, r=2, wide=9, beta=0.7071067811865475, backend='auto')"
    assert [(n, tuple(p.shape)) for n, p in cross.named_parameters()] == [("Q", (2, 2, 4)), ("p_raw", (9,))]
    other = layer_class(TEXT)(d=4, r=3, beta=2, dtype=torch.float64)
    assert (other.r, other.beta, other.Q.dtype) == (3, 2.0, torch.float64)
    meta = layer_class(TEXT)(d=4, device="meta")
    assert meta.Q.is_meta
    result = meta(X.to("meta"), **{n: t.to("meta") for n, t in arguments().items()})
    assert result.shape == X.shape


def test_batch_axes_broadcast(cross: Any) -> None:
    x, m = torch.randn(3, 1, 5, 4), torch.randn(2, 7, 4)
    t, doc = torch.rand(3, 1), torch.randint(0, 2, (5,))
    result = cross(x, m=m, doc=doc, t=t)
    assert result.shape == (3, 2, 5, 4)
    torch.testing.assert_close(result[2, 1], cross(x[2, 0], m=m[1], doc=doc, t=t[2, 0]))
    energy = cross.energy(x, m=m, doc=doc, t=t)
    assert energy.shape == (3, 2, 5)
    torch.testing.assert_close(energy[2, 1], cross.energy(x[2, 0], m=m[1], doc=doc, t=t[2, 0]))
    assert cross(x, m=m, doc=doc, t=t, steps=0).shape == (3, 2, 5, 4)
    assert cross(x, m=m[:, :0], doc=doc, t=t).isfinite().all()
    assert cross(x[:, :, :0], m=m, doc=doc[:0], t=t).shape == (3, 2, 0, 4)


def test_several_states_and_energies() -> None:
    layer = layer_class(PAIR)(d=4, e=3, dtype=torch.float64)
    x, y = torch.randn(2, 5, 4, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    start = x, y
    result = layer(*start, steps=0)
    assert [tuple(r.shape) for r in result] == [(2, 5, 4), (2, 3)]
    energy = layer.energy(*start, name="E")
    expected = start[0].square().sum(-1) * start[1].sum() + 0.5 * start[0].sum(-1)
    torch.testing.assert_close(energy, expected)
    elsewhere = layer.energy(*start, (2 * start[0], start[1]), name="E")
    torch.testing.assert_close(elsewhere, expected + 0.5 * start[0].sum(-1))
    assert layer.energy(*start, name="H").shape == (2,)
    fails(lambda: layer.energy(*start), ValueError, "name: expected 'E' or 'H', got None")
    fails(lambda: layer.energy(*start, name="e"), ValueError, "name: expected 'E' or 'H', got 'e'")
    text = "context: expected a tuple of 2 tensors, got Tensor"
    fails(lambda: layer.energy(*start, start[0], name="E"), TypeError, text)
    text = "context[1]: expected a floating-point tensor [..., e=3], got [2]"
    fails(lambda: layer.energy(*start, (start[0], start[1][:2]), name="E"), ValueError, text)


def test_momentum_against_a_loop() -> None:
    layer = layer_class(PAIR)(d=4, e=3, dtype=torch.float64)
    x, y = torch.randn(2, 5, 4, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    result = layer(x, y)
    v = torch.full_like(x, 0.5)
    for _ in range(3):
        v = v / 2 - 2 * x * y.sum(-1)[:, None, None]
        x, y = x + v / 10, y - 2 * y / 4
    torch.testing.assert_close(result, (x, y))


def test_energy_holds_its_context() -> None:
    layer = layer_class("energy held(d) { state x[token, d]  E[i] = dot(x[i], given(x[i])) }")(d=2)
    x = torch.randn(3, 2, requires_grad=True)
    c = torch.randn(4, 3, 2)
    torch.testing.assert_close(layer.energy(x, c), (x * c).sum(-1))
    torch.testing.assert_close(torch.autograd.grad(layer.energy(x).sum(), x)[0], 2 * x)
    torch.testing.assert_close(torch.autograd.grad(layer.energy(x, x.detach()).sum(), x)[0], x)


STARTS = """
energy starts(d, f = 3) {
  state x[d]
  param a[f, d]
  param b[d] = 2 / d
  param c[d] ~ normal(5, 0.1)
  param e[d] ~ uniform(1, 2)
  param g = 0
  positive param p[d]
  positive param q[d] = 1 / (d + 0.5)
  positive param s[d] ~ normal(0, 1)
  positive param u[f, d] ~ uniform(0, 1e-3)
  E = sum(a @ x) + sum(b + c + e + p + q + s) * g * sum(x) + sum(u @ x)
}
"""


def test_starts_of_parameters() -> None:
    torch.manual_seed(0)
    layer = layer_class(STARTS)(d=1000, dtype=torch.float64)
    assert layer.a.std().item() == pytest.approx(1000**-0.5, rel=0.1)
    assert torch.equal(layer.b, torch.full((1000,), 0.002, dtype=torch.float64))
    assert layer.c.mean().item() == pytest.approx(5, abs=0.02)
    assert layer.e.aminmax().min > 1
    assert layer.g.shape == ()
    torch.testing.assert_close(layer.p, torch.ones(1000, dtype=torch.float64), rtol=1e-12, atol=0)
    torch.testing.assert_close(layer.q, torch.full_like(layer.q, 1 / 1000.5), rtol=1e-12, atol=0)
    assert layer.s.min() > 0
    assert layer.s.square().mean().item() == pytest.approx(1, rel=0.2)
    assert layer.u.min() > 0
    assert layer.u.max() <= 1e-3 * (1 + 1e-9)
    before = {n: t.clone() for n, t in layer.state_dict().items()}
    layer.reset_parameters()
    assert {n for n, t in layer.state_dict().items() if not torch.equal(t, before[n])} == {
        "a",
        "c",
        "e",
        "s_raw",
        "u_raw",
    }


def test_a_positive_start_must_be_positive() -> None:
    text = "energy low(d) { state x[d]  positive param p[d] = d - 3  E = sum(p * x) }"
    fails(lambda: layer_class(text)(d=2), ValueError, "p: expected a positive start, got -1")


def test_an_unknown_keyword_where_there_are_no_givens() -> None:
    layer = layer_class(PLAIN)(d=2)
    with pytest.raises(TypeError, match=re.escape("unexpected keyword argument 'doc'")):
        layer(torch.zeros(1, 2), doc=torch.zeros(1))


def test_noncontiguous(cross: Any) -> None:
    x: Tensor = torch.randn(4, 5, 2).permute(2, 1, 0)
    m = torch.randn(4, 3).T
    torch.testing.assert_close(cross(x, **arguments(m=m)), cross(x.contiguous(), **arguments(m=m.contiguous())))


CACHES: list[tuple[tuple[Any, ...], type[Exception], str]] = [
    ((2, 9), TypeError, "batch_shape: expected a tuple of integers, got 2"),
    (((2.0,), 9), TypeError, "batch_shape: expected a tuple of integers, got (2.0,)"),
    (((2,), 9.5), TypeError, "max_tokens: expected an integer, got 9.5"),
    (((2,), "9"), TypeError, "max_tokens: expected an integer, got '9'"),
    (((-2,), 9), ValueError, "expected sizes of 0 or more, got batch_shape=(-2,) and max_tokens=9"),
    (((), -1), ValueError, "expected sizes of 0 or more, got batch_shape=() and max_tokens=-1"),
    (((2,), 9, 0.5), TypeError, "steps: expected an integer, got 0.5"),
]


@pytest.mark.parametrize(("arguments", "error", "text"), CACHES, ids=[str(case[0]) for case in CACHES])
def test_arguments_of_new_cache(arguments: tuple[Any, ...], error: type[Exception], text: str) -> None:
    fails(lambda: layer_class(PLAIN)(d=4).new_cache(*arguments), error, text)


def test_caches_and_what_is_none() -> None:
    layer = layer_class(PLAIN)(d=4)
    other = layer_class(PLAIN.replace("plain", "other"))(d=4).new_cache((2,), 9)
    for wrong, got in (({}, "dict"), (True, "bool"), (other, "_Cache")):
        text = f"cache: expected what new_cache of this layer returned, got {got}"
        fails(partial(layer, X, cache=wrong), TypeError, text)
    _, cache = layer(X, cache=layer.new_cache([2], 9))
    fails(lambda: cache.crop(1.5), TypeError, "tokens: expected an integer, got 1.5")
    fails(lambda: cache.reorder([1, 0]), TypeError, "index: expected an integer tensor [sequences], got list")
    text = "index: expected an integer tensor [sequences], got torch.bool [2]"
    fails(lambda: cache.reorder(torch.tensor([True, False])), TypeError, text)
