"""The step of every energy in the gallery, as the literature has it, written by hand in a few lines of torch.

The oracle shows that a layer is the gradient of its energy. This shows that the energy is the right one: that what its
file promises in the opening comment is what the layer does.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from cemc.oracle.compare import build
from cemc.oracle.draw import draw
from tests.gallery.table import ENERGIES
from tests.gallery.test_gallery import compiled, layer_class, typed

TOKENS = 6
EPS = 1e-6


def rmsnorm(x: Tensor) -> Tensor:
    return x / (x.square().mean(-1, keepdim=True) + EPS).sqrt()


def rotate(u: Tensor, sign: int = 1) -> Tensor:
    """Rotary positions of u [..., token, r], the pairs as complex numbers; `sign` -1 turns back."""
    half = u.shape[-1] // 2
    frequency = 10000.0 ** (-torch.arange(half, dtype=u.dtype) / half)
    angle = torch.arange(u.shape[-2], dtype=u.dtype)[:, None] * frequency
    turned = torch.complex(u[..., :half], u[..., half:]) * torch.polar(torch.ones_like(angle), sign * angle)
    return torch.cat((turned.real, turned.imag), -1)


def past(x: Tensor) -> Tensor:
    """Which j a token i sees: j <= i."""
    n = x.shape[-2]
    return torch.ones(n, n, dtype=torch.bool).tril()


def softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Weights over the last axis; zero where nothing is allowed."""
    return scores.masked_fill(~mask, -math.inf).softmax(-1).nan_to_num()


def heads(matrix: Tensor, z: Tensor) -> Tensor:
    """matrix [heads, r, d] times tokens z [..., token, d]: [..., heads, token, r]."""
    return z[..., None, :, :] @ matrix.mT


def back(matrix: Tensor, u: Tensor) -> Tensor:
    """The transposed matrices applied to [..., heads, token, r], summed over heads."""
    return (u @ matrix).sum(-3)


def attention(p: Any, z: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
    """sum_k Q_k' R_i' sum_j w_kij R_j K_k c_j"""
    queries = rotate(heads(p.Q, z))
    keys = rotate(heads(p.K, z if context is None else context))
    weights = softmax(p.beta * queries @ keys.mT, past(z) if mask is None else mask)
    return back(p.Q, rotate(weights @ keys, -1))


def gated(p: Any, z: Tensor, function: Callable[[Tensor], Tensor], gate: Tensor) -> Tensor:
    """W' (function(W z) * V gate)"""
    return (function(z @ p.W.mT) * (gate @ p.V.mT)) @ p.W


# ------------------------------------------------------------------------------------ one function for each energy


def alibi(p: Any, x: Tensor) -> Tensor:
    z, n = rmsnorm(x), x.shape[-2]
    slope = torch.tensor([2 ** (-8 * (k + 1) / p.heads) for k in range(p.heads)], dtype=x.dtype)
    distance = torch.arange(n)[:, None] - torch.arange(n)
    keys = heads(p.K, z)
    scores = p.beta * heads(p.Q, z) @ keys.mT - slope[:, None, None] * distance
    return x + back(p.Q, softmax(scores, past(x)) @ keys)


def attention_sink(p: Any, x: Tensor) -> Tensor:
    z = rmsnorm(x)
    queries, keys = rotate(heads(p.Q, z)), rotate(heads(p.K, z))
    unnormalised = torch.where(past(x), (p.beta * queries @ keys.mT).exp(), 0)
    weights = unnormalised / (p.sink.exp()[:, None, None] + unnormalised.sum(-1, keepdim=True))
    return x + back(p.Q, rotate(weights @ keys, -1))


def cem_attention(p: Any, x: Tensor) -> Tensor:
    return x + p.eta * attention(p, rmsnorm(x))


def cem_mlp(p: Any, x: Tensor) -> Tensor:
    z = rmsnorm(x)
    return x + gated(p, z, F.silu, z)


def cross_attention(p: Any, x: Tensor, m: Tensor, valid: Tensor) -> Tensor:
    keys = heads(p.K, m)
    weights = softmax(p.beta * heads(p.Q, rmsnorm(x)) @ keys.mT, (valid > 0)[..., None, None, :])
    return x + back(p.Q, weights @ keys)


def dense_associative_memory(p: Any, x: Tensor) -> Tensor:
    overlap = (rmsnorm(x) @ p.M.mT).relu()
    return x + torch.where(overlap > 0, overlap ** (p.n - 1), 0) @ p.M


def diagonal_low_rank(p: Any, x: Tensor) -> Tensor:
    z = rmsnorm(x)
    queries, keys = rotate(heads(p.Q, z)), rotate(heads(p.K, z))
    diagonal = (z[..., None, :, :] * p.a[:, None, :]) @ z[..., None, :, :].mT
    weights = softmax(p.beta * (queries @ keys.mT + diagonal), past(x))
    return x + back(p.Q, rotate(weights @ keys, -1)) + (p.a[:, None, :] * (weights @ z[..., None, :, :])).sum(-3)


def energy_transformer(p: Any, x: Tensor) -> Tensor:
    others = ~torch.eye(x.shape[-2], dtype=torch.bool)
    for _ in range(p.rounds):
        g = F.layer_norm(x, (p.d,), eps=EPS)
        queries, keys = heads(p.Q, g), heads(p.K, g)
        weights = softmax(p.beta * queries @ keys.mT, others)
        as_query, as_key = back(p.Q, weights @ keys), back(p.K, weights.mT @ queries)
        x = x + p.alpha * (as_query + as_key + (g @ p.M.mT).relu() @ p.M)
    return x


def gaussian_wells(p: Any, x: Tensor) -> Tensor:
    wells = torch.distributions.Normal(p.centre, p.precision.rsqrt())
    likelihood = wells.log_prob(x[..., None, :]).sum(-1) + p.weight
    weights = likelihood.softmax(-1)
    return x + p.eta * (weights[..., None] * p.precision * (p.centre - x[..., None, :])).sum(-2)


def geglu(p: Any, x: Tensor) -> Tensor:
    z = rmsnorm(x)
    return x + gated(p, z, F.gelu, z)


def grouped_query(p: Any, x: Tensor) -> Tensor:
    repeated = SimpleNamespace(Q=p.Q.flatten(0, 1), K=p.K.repeat_interleave(p.per, 0), beta=p.beta)
    return x + attention(repeated, rmsnorm(x))


def linear_attention(p: Any, x: Tensor) -> Tensor:
    z = rmsnorm(x)
    keys = heads(p.K, z)
    count = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)[:, None, None]
    memory = (keys[..., :, None] * keys[..., None, :]).cumsum(-3) / count
    return x + back(p.Q, (memory @ heads(p.Q, z)[..., None])[..., 0])


def mean_shift(p: Any, x: Tensor) -> Tensor:
    return softmax(-torch.cdist(x, x).square() / (2 * p.h**2), past(x)) @ x


def mixture_of_experts(p: Any, x: Tensor) -> Tensor:
    z = rmsnorm(x)
    router = (z @ p.R.mT).softmax(-1)
    experts = (
        gated(SimpleNamespace(W=W, V=V), z, F.silu, z) * router[..., e, None]
        for e, (W, V) in enumerate(zip(p.W, p.V, strict=True))
    )
    return x + sum(experts, torch.zeros_like(x))


def modern_hopfield(p: Any, x: Tensor) -> Tensor:
    return (p.beta * x @ p.M.mT).softmax(-1) @ p.M


def multi_query(p: Any, x: Tensor) -> Tensor:
    return x + attention(SimpleNamespace(Q=p.Q, K=p.K.expand_as(p.Q), beta=p.beta), rmsnorm(x))


def preconditioned(p: Any, x: Tensor) -> Tensor:
    return x + attention(p, rmsnorm(x)) @ (p.p.diag() + p.U @ p.U.mT)


def query_key_norm(p: Any, x: Tensor) -> Tensor:
    z = rmsnorm(x)
    raw = heads(p.Q, z)
    length = (raw.square().sum(-1, keepdim=True) + EPS).sqrt()
    unit, keys = raw / length, heads(p.K, z)
    keys = rotate(keys / (keys.square().sum(-1, keepdim=True) + EPS).sqrt())
    attended = rotate(softmax(p.beta[:, None, None] * rotate(unit) @ keys.mT, past(x)) @ keys, -1)
    tangent = attended - unit * (unit * attended).sum(-1, keepdim=True)
    return x + back(p.Q, tangent / length)


def recursive_held(p: Any, x: Tensor) -> Tensor:
    context = rmsnorm(x)
    for _ in range(p.rounds):
        x = x + p.eta * attention(p, rmsnorm(x), context)
    return x


def recursive_refreshed(p: Any, x: Tensor) -> Tensor:
    for _ in range(p.rounds):
        x = x + p.eta * attention(p, rmsnorm(x))
    return x


def reglu(p: Any, x: Tensor) -> Tensor:
    z = rmsnorm(x)
    return x + gated(p, z, F.relu, z)


def relative_bias(p: Any, x: Tensor) -> Tensor:
    z, n = rmsnorm(x), x.shape[-2]
    distance = torch.arange(n)[:, None] - torch.arange(n)
    near = (distance >= 0) & (distance < p.span)
    keys = heads(p.K, z)
    scores = p.beta * heads(p.Q, z) @ keys.mT + p.B[:, distance.clamp(0, p.span - 1)]
    return x + back(p.Q, softmax(scores, near) @ keys)


def sigmoid_attention(p: Any, x: Tensor) -> Tensor:
    z = rmsnorm(x)
    queries, keys = rotate(heads(p.Q, z)), rotate(heads(p.K, z))
    weights = (p.beta * queries @ keys.mT + p.b[:, None, None]).sigmoid() * past(x)
    return x + back(p.Q, rotate(weights @ keys, -1))


def sliding_window(p: Any, x: Tensor, doc: Tensor) -> Tensor:
    n = x.shape[-2]
    near = past(x) & ~torch.ones(n, n, dtype=torch.bool).tril(-p.window)
    same = doc[..., :, None] == doc[..., None, :]
    return x + attention(p, rmsnorm(x), mask=(near & same)[..., None, :, :])


def soft_capped(p: Any, x: Tensor) -> Tensor:
    z = rmsnorm(x)
    queries, keys = rotate(heads(p.Q, z)), rotate(heads(p.K, z))
    squashed = (p.beta * queries @ keys.mT / p.cap).tanh()
    weights = softmax(p.cap * squashed, past(x)) * (1 - squashed.square())
    return x + back(p.Q, rotate(weights @ keys, -1))


def squared_relu(p: Any, x: Tensor) -> Tensor:
    return x + (rmsnorm(x) @ p.W.mT).relu().square() @ p.W


def third_order(p: Any, x: Tensor) -> Tensor:
    z, n = rmsnorm(x), x.shape[-2]
    pairs = heads(p.K, z)[..., :, None, :] * heads(p.L, z)[..., None, :, :]
    pairs = pairs.flatten(-3, -2)  # [..., heads, pair, r]
    mask = (past(x)[:, :, None] & past(x)[None]).flatten(1)
    assert mask.shape == (n, n * n)
    return x + back(p.Q, softmax(p.beta * heads(p.Q, z) @ pairs.mT, mask) @ pairs)


def token_shift(p: Any, x: Tensor) -> Tensor:
    z = rmsnorm(x)
    n = x.shape[-2]
    mixed = sum((p.kernel[o] * F.pad(z, (0, 0, o, 0))[..., :n, :] for o in range(p.taps)), torch.zeros_like(z))
    return x + gated(p, z, F.silu, mixed)


def yuriiformer(p: Any, x: Tensor) -> Tensor:
    v = torch.zeros_like(x)
    for _ in range(p.rounds):
        v = p.nu * v + p.gamma * attention(p, rmsnorm(x + p.mu * v))
        x = x + v
        z = rmsnorm(x + p.mu * v)
        v = p.nu * v + p.gamma * gated(p, z, F.silu, z)
        x = x + v
    return x


# --------------------------------------------------------------------------------------------------------- the tests

STEPS = {
    name: function
    for name, function in list(globals().items())
    if inspect.isfunction(function) and list(inspect.signature(function).parameters)[:2] == ["p", "x"]
}


def test_every_energy_has_a_step_by_hand() -> None:
    assert sorted(STEPS) == [path.stem for path in ENERGIES]


@pytest.mark.parametrize("path", ENERGIES, ids=lambda path: path.stem)
def test_the_step_is_the_one_of_the_literature(path: Any) -> None:
    energy, moved = typed(path), 0.0
    for seed in range(3):
        drawn = draw(energy, seed, lengths={"token": TOKENS}, batch=((), (2,), (1, 3))[seed])
        layer = build(layer_class(compiled(path)), drawn, "auto")
        (x,) = drawn.states.values()
        by_hand = STEPS[path.stem](layer, x, **drawn.givens)
        found = layer(x, **drawn.givens)
        assert (found - by_hand).norm() <= 1e-9 * by_hand.norm()
        moved = max(moved, ((found - x).norm() / x.norm()).item())
    assert moved > 1e-2
