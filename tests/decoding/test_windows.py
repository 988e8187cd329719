"""Layers that look back over a window: what a cache keeps, and that decoding still equals the full pass, however the
tokens are cut up, cropped, reordered and cloned."""

from __future__ import annotations

import sys
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from cemc.semantics.typed import Energy
from tests.emit.support import declared, layer_class

_HEAD = "d, h = 2, w = 5, v = 3, o_max = 4, stride = 2"
_DECLARED = {
    "doc": "given doc[token]: int",
    "g": "given g[token]",
    "Q": "param Q[h, w, d]",
    "B": "param B[w] ~ normal(0, 1)",
    "kernel": "param kernel[o_max, d] ~ normal(0, 1)",
}

# The energy, and how many past tokens each cached value is needed for with the sizes of the header; None for all.
ENERGIES: dict[str, tuple[str, list[int | None]]] = {
    "window": ("E[i] = -logsumexp[i - w < j <= i](dot(x[i], given(x[j])))", [4]),
    "window and documents": (
        "E[i] = -logsumexp[i - w < j <= i if doc[j] == doc[i]](dot(x[i], given(x[j])))",
        [4, 4],
    ),
    "window as a condition": ("E[i] = -logsumexp[j <= i if i - j < w](dot(x[i], given(x[j])))", [4]),
    "strict window": ("E[i] = -logsumexp[i - w <= j < i](dot(x[i], given(x[j])))", [5]),
    "one past token": ("E[i] = dot(x[i], given(x[i - 1]))", [1]),
    "convolution": ("E[i] = dot(x[i], sum[o in o_max](kernel[o] * given(x[i - o])))", [3]),
    "dilated": ("E[i] = dot(x[i], sum[o in o_max](kernel[o] * given(x[i - o * stride])))", [6]),
    "two windows of one value": (
        "s[i, j] = dot(x[i], given(x[j]))\n"
        "E[i] = -logsumexp[i - w < j <= i](s[i, j]) - logsumexp[i - v < j <= i](2 * s[i, j])",
        [4],
    ),
    "a window and all of one value": (
        "E[i] = -logsumexp[i - w < j <= i](dot(x[i], given(x[j]))) - logsumexp[j <= i](2 * dot(x[i], given(x[j])))",
        [None],
    ),
    "a window and a shift of one value": (
        "E[i] = -logsumexp[i - w < j <= i](dot(x[i], given(x[j] + x[j - 1])))",
        [4, 1],
    ),
    "a window over windows": (
        "m[j] = mean[j - v < l <= j](given(tanh(x[l])))\nE[i] = -logsumexp[i - w < j <= i](dot(x[i], given(m[j])))",
        [4, 2],
    ),
    "pairs of past tokens": (
        "E[i] = -logsumexp[i - w < j <= i, j - v < l <= j](dot(x[i], given(x[j] * tanh(x[l]))))",
        [4, 6],
    ),
    "either of two windows": (
        "E[i] = -sum[j <= i if i - j < v or i - w < j](square(dot(x[i], given(x[j]))))",
        [4],
    ),
    "a window or another document": (
        "E[i] = -sum[j <= i if i - j < v or doc[j] == doc[i]](square(dot(x[i], given(x[j]))))",
        [None, None],
    ),
    "maximum": ("E[i] = max[i - w < j <= i](dot(x[i], given(x[j])))", [4]),
    "a maximum inside a window": (
        "E[i] = sum[i - v < j <= i](dot(x[i], given(x[j]))) * max[i - w < j <= i](dot(x[i], given(x[j])))",
        [4],
    ),
    "a maximum of which less is read": ("E[i] = max[i - w < j <= i](where(i - v < j, dot(x[i], given(x[j])), 1))", [4]),
    "a score without a key": ("E[i] = norm2(x[i]) * logsumexp[i - w < j <= i](sum(x[i]))", []),
    "how many": ("E[i] = norm2(x[i]) * sum[i - w < j <= i if doc[j] == doc[i]](1)", [4]),
    "relative bias": ("E[i] = -logsumexp[i - w < j <= i](dot(x[i], given(x[j])) + B[i - j])", [4]),
    "bias by distance": ("E[i] = -logsumexp[i - w < j <= i](dot(x[i], given(x[j])) - 0.1 * (i - j) + g[j])", [4, 4]),
    "the mask in a where": (
        "E[i] = sum[j <= i](where(i - w < j, dot(x[i], given(x[j])), 0))",
        [4],
    ),
    "rotary": ("E[i] = -logsumexp[i - w < j <= i](dot(rope(x[i], i), rope(given(x[j]), j)))", [4]),
    "heads": (
        "E[i] = -sum[k](logsumexp[i - w < j <= i](dot(Q[k] @ x[i], Q[k] @ given(x[j]))))",
        [4],
    ),
    "recursion, context held": (
        "E[i] = -logsumexp[i - w < j <= i](dot(x[i], input(x[j])))\nupdate repeat 2 { x[i] = x[i] - grad[x](E)[i] }",
        [4],
    ),
    "recursion, context refreshed": (
        "E[i] = -logsumexp[i - w < j <= i](dot(x[i], given(x[j])))\nupdate repeat 2 { x[i] = x[i] - grad[x](E)[i] }",
        [4, 4],
    ),
    "no window longer than the past": ("E[i] = -logsumexp[i - 1000 < j <= i](dot(x[i], given(x[j])))", [999]),
}


@cache
def compiled(name: str) -> tuple[Energy, Any]:
    body, _ = ENERGIES[name]
    lines = [text for key, text in _DECLARED.items() if f"{key}[" in body]
    text = f"energy e({_HEAD}) {{\nstate x[token, d]\n" + "\n".join([*lines, body]) + "\n}\n"
    return declared(text), layer_class(text)


def layer_of(name: str, backend: str, **sizes: int) -> Any:
    torch.manual_seed(1)
    return compiled(name)[1](d=4, backend=backend, dtype=torch.float64, **sizes)


def arguments(name: str, tokens: int, batch: int = 2) -> tuple[Tensor, dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    energy, _ = compiled(name)
    givens: dict[str, Tensor] = {}
    if "doc" in energy.givens:
        givens["doc"] = torch.randint(0, 2, (batch, tokens), generator=generator).cumsum(-1) // 5
    if "g" in energy.givens:
        givens["g"] = torch.randn(batch, tokens, generator=generator, dtype=torch.float64)
    return torch.randn(batch, tokens, 4, generator=generator, dtype=torch.float64), givens


def cut(givens: dict[str, Tensor], start: int, stop: int) -> dict[str, Tensor]:
    return {name: value[:, start:stop] for name, value in givens.items()}


@pytest.mark.parametrize("name", ENERGIES)
@torch.no_grad()
def test_a_cache_keeps_what_the_window_can_see(name: str) -> None:
    layer = layer_of(name, "auto")
    assert layer.causal
    x, givens = arguments(name, 3)
    store = layer.new_cache((2,), 10_000)
    layer(x, cache=store, **givens)
    found = [store.windows[slot][1] if slot in getattr(store, "windows", ()) else None for slot in store.tensors]
    assert sorted(found, key=str) == sorted(ENERGIES[name][1], key=str)
    for slot, (tensor, dim) in store.tensors.items():
        if slot in getattr(store, "windows", ()):
            assert tensor.shape[dim] == store.windows[slot][1] + 2 * store.SLACK


@st.composite
def cuts(draw: Any, tokens: int) -> list[int]:
    inner = draw(st.lists(st.integers(0, tokens), max_size=12))
    return [0, *sorted(inner), tokens]


@pytest.mark.parametrize("backend", ["generic", "torch"])
@pytest.mark.parametrize("name", ENERGIES)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_decoding_equals_the_full_pass(name: str, backend: str, data: st.DataObject, monkeypatch: Any) -> None:
    tokens = 40
    layer = layer_of(
        name,
        backend,
        w=data.draw(st.integers(1, 9)),
        v=data.draw(st.integers(1, 9)),
        o_max=data.draw(st.integers(1, 5)),
    )
    x, givens = arguments(name, tokens)
    with torch.no_grad():
        whole = layer(x, **givens)
        store = layer.new_cache((2,), tokens)
        if hasattr(store, "SLACK"):
            # Little room to spare, so that windows move on often.
            monkeypatch.setattr(type(store), "SLACK", data.draw(st.integers(1, 4)))
        places, parts = data.draw(cuts(tokens)), []
        for start, stop in pairwise(places):
            y, _ = layer(x[:, start:stop], cache=store, **cut(givens, start, stop))
            parts.append(y)
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", ["window and documents", "convolution", "recursion, context refreshed", "rotary"])
@torch.no_grad()
def test_windows_longer_than_their_slack(name: str) -> None:
    """The slack as it is, over several times the room of a window: token by token after a long and a short start, and
    several blocks of rows at a time."""
    tokens = 500
    layer = layer_of(name, "torch")
    x, givens = arguments(name, tokens, batch=1)
    whole = layer(x, **givens)
    for places in ([0, *range(3, tokens + 1)], [0, *range(300, tokens + 1)], [0, 200, 201, 420, tokens]):
        store = layer.new_cache((1,), tokens)
        parts = []
        for start, stop in pairwise(places):
            y, _ = layer(x[:, start:stop], cache=store, **cut(givens, start, stop))
            parts.append(y)
        torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("name", ["window and documents", "a window over windows", "recursion, context refreshed"])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_crop_reorder_and_clone(name: str, data: st.DataObject) -> None:
    """Speculation: some tokens are guessed one by one or together, some of these kept; beams change places."""
    tokens, longest = 400, 64
    layer = layer_of(name, "torch")
    x, givens = arguments(name, tokens, batch=3)
    order = torch.arange(3)
    with torch.no_grad():
        whole = layer(x, **givens)
        wrong = torch.randn_like(x)
        seen = data.draw(st.integers(0, 250))
        store = layer.new_cache((3,), tokens)
        layer(x[:, :seen], cache=store, **cut(givens, 0, seen))
        for _ in range(4):
            guessed = data.draw(st.integers(0, min(longest, tokens - 20 - seen)))
            step = data.draw(st.integers(1, longest))
            for start in range(seen, seen + guessed, step):
                stop = min(start + step, seen + guessed)
                mine = {n: v[order] for n, v in givens.items()}
                layer(wrong[order, start:stop], cache=store, **cut(mine, start, stop))
            store.crop(seen)
            mixed = torch.tensor(data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=3)))
            if data.draw(st.booleans()):
                store, order = store.clone(), order[mixed]
                store.reorder(mixed)
            stop = seen + data.draw(st.integers(0, 5))
            mine = {n: v[order] for n, v in givens.items()}
            y, _ = layer(x[order, seen:stop], cache=store, **cut(mine, seen, stop))
            torch.testing.assert_close(y, whole[order, seen:stop], rtol=1e-10, atol=1e-11)
            seen = stop


@torch.no_grad()
def test_a_result_that_is_the_same_for_all_tokens() -> None:
    """As many rows as the call has tokens, not as many as there are with those seen before."""
    layer = layer_class(
        "energy e(d) { state x[token, d]\nparam p[d]\nE[i] = norm2(x[i])\nupdate { g[i] = grad[x](E)[i] x[i] = p } }"
    )(d=4)
    x = torch.randn(2, 5, 4)
    store = layer.new_cache((2,), 5)
    layer(x[:, :3], cache=store)
    y, _ = layer(x[:, 3:], cache=store)
    torch.testing.assert_close(y, layer(x)[:, 3:])


@torch.no_grad()
def test_windows_under_torch_compile() -> None:
    """Without a break in the graph, also where the window moves on."""
    layer = layer_of("window and documents", "torch")
    x, givens = arguments("window and documents", 150, batch=1)
    whole = layer(x, **givens)
    compiled_layer = torch.compile(layer, fullgraph=True, backend="eager", dynamic=True)
    store = layer.new_cache((1,), 150)
    places = [0, 100, *range(101, 151)]
    parts = [compiled_layer(x[:, a:b], cache=store, **cut(givens, a, b))[0] for a, b in pairwise(places)]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-10, atol=1e-11)


@torch.no_grad()
def test_a_clone_goes_its_own_way() -> None:
    layer = layer_of("window", "torch")
    x, _ = arguments("window", 300)
    whole = layer(x)
    store = layer.new_cache((2,), 300)
    layer(x[:, :200], cache=store)
    kept = store.clone()
    layer(torch.randn_like(x[:, 200:]), cache=store)
    y, _ = layer(x[:, 200:], cache=kept)
    torch.testing.assert_close(y, whole[:, 200:])


@torch.no_grad()
def test_crop_refuses_what_a_window_has_forgotten() -> None:
    layer = layer_of("window", "torch")
    x, _ = arguments("window", 300)
    whole = layer(x)
    store = layer.new_cache((2,), 300)
    layer(x[:, :250], cache=store)
    with pytest.raises(ValueError, match="a window has moved on: expected 186 to 250 tokens, got 185"):
        store.crop(185)
    assert store.tokens == 250
    store.crop(186)
    y, _ = layer(x[:, 186:], cache=store)
    torch.testing.assert_close(y, whole[:, 186:])
    store.crop(0)
    y, _ = layer(x, cache=store)
    torch.testing.assert_close(y, whole)


@torch.no_grad()
def test_a_call_that_failed_is_noticed() -> None:
    """Its first values may have pushed out what the next call needs."""
    layer = layer_of("recursion, context refreshed", "generic")
    x, _ = arguments("recursion, context refreshed", 400)
    store = layer.new_cache((2,), 400)
    layer(x[:, :200], cache=store)
    extend, calls = store.extend, []

    def failing(*values: Any) -> Tensor:
        calls.append(values)
        if len(calls) == 2:
            raise MemoryError
        result: Tensor = extend(*values)
        return result

    store.extend = failing
    with pytest.raises(MemoryError):
        layer(x[:, 200:], cache=store)
    store.extend = extend
    with pytest.raises(ValueError, match="a call that failed"):
        layer(x[:, 200:], cache=store)
    store.crop(0)
    y, _ = layer(x, cache=store)
    torch.testing.assert_close(y, layer(x))


def test_the_generated_file_has_windows_only_where_it_needs_them() -> None:
    """No dead branches: a cache of everything knows nothing of windows."""
    _, plain = compiled("a window and all of one value")
    assert not hasattr(sys.modules[plain.__module__]._Cache, "SLACK")
    _, window = compiled("window")
    assert hasattr(sys.modules[window.__module__]._Cache, "SLACK")
