"""Forward and backward of the generated attention layer on the CPU, as ratios to the hand-derived layer.

    python -m benchmarks.cpu [--tokens 1024] [--width 512] [--heads 8] [--batch 1] [--rounds 7]

The contenders take turns within each round, so a busy machine slows them alike; a ratio is the median over rounds, its
spread the range. What users write today is autograd of the energy; the hand-derived layer is what they would write if
they had done the algebra, on scaled_dot_product_attention.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from generated.cem_attention import CemAttention


def rope(u: Tensor) -> Tensor:
    """Rotary rotation of u [..., token, r]."""
    half = u.shape[-1] // 2
    pair = torch.arange(half, dtype=u.dtype)
    angle = torch.arange(u.shape[-2], dtype=u.dtype)[:, None] * 10000 ** (-pair / half)
    first, second = u.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)


def unrope(u: Tensor) -> Tensor:
    half = u.shape[-1] // 2
    pair = torch.arange(half, dtype=u.dtype)
    angle = torch.arange(u.shape[-2], dtype=u.dtype)[:, None] * 10000 ** (-pair / half)
    first, second = u.chunk(2, -1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((first * cos + second * sin, second * cos - first * sin), -1)


def norm(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def energy(z: Tensor, held: Tensor, layer: CemAttention) -> Tensor:
    """The total energy at z [..., token, d], the keys held."""
    q = rope(torch.einsum("hrd,...id->...hir", layer.Q, z))
    k = rope(torch.einsum("hrd,...id->...hir", layer.K, held))
    scores = layer.beta * (q @ k.mT)
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return -scores.masked_fill(~mask, -math.inf).logsumexp(-1).sum() / layer.beta


def by_autograd(x: Tensor, layer: CemAttention) -> Tensor:
    z = norm(x)
    # A leaf of its own, so that the energy's gradient does not go through what is held, and training's does.
    change = torch.zeros_like(z, requires_grad=True)
    (gradient,) = torch.autograd.grad(energy(z + change, z, layer), change, create_graph=True)
    return x - layer.eta * gradient


def by_functional_gradient(x: Tensor, layer: CemAttention) -> Tensor:
    z = norm(x)
    return x - layer.eta * torch.func.grad(energy)(z, z, layer)


def by_hand(x: Tensor, layer: CemAttention) -> Tensor:
    z = norm(x)
    batch, tokens, _ = x.shape
    heads, r = layer.heads, layer.r
    q = rope((z @ layer.Q.flatten(0, 1).T).view(batch, tokens, heads, r).transpose(1, 2))
    k = rope((z @ layer.K.flatten(0, 1).T).view(batch, tokens, heads, r).transpose(1, 2))
    o = unrope(F.scaled_dot_product_attention(q, k, k, is_causal=True, scale=layer.beta))
    return x + layer.eta * (o.transpose(1, 2).flatten(2) @ layer.Q.flatten(0, 1))


def seconds(run: Callable[[Tensor], Tensor], x: Tensor, cotangent: Tensor) -> float:
    start = time.perf_counter()
    run(x).backward(cotangent)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("tokens", 1024), ("width", 512), ("heads", 8), ("batch", 1), ("rounds", 7)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--compiled", action="store_true", help="also torch.compile of torch.func.grad (slow to start)")
    options = parser.parse_args()
    torch.manual_seed(0)
    layer = CemAttention(d=options.width, heads=options.heads)
    generic = CemAttention(d=options.width, heads=options.heads, backend="generic")
    generic.load_state_dict(layer.state_dict())
    x = torch.randn(options.batch, options.tokens, options.width, requires_grad=True)
    cotangent = torch.randn_like(x)
    contenders: dict[str, Callable[[Tensor], Tensor]] = {
        "hand-derived": lambda x: by_hand(x, layer),
        "cemc torch": layer,
        "cemc generic": generic,
        "autograd of the energy": lambda x: by_autograd(x, layer),
        "torch.func.grad": lambda x: by_functional_gradient(x, layer),
    }
    if options.compiled:
        contenders["torch.compile of that"] = torch.compile(lambda x: by_functional_gradient(x, layer))
    expected = by_hand(x, layer)
    for run in contenders.values():
        torch.testing.assert_close(run(x), expected, rtol=1e-3, atol=1e-3)
        seconds(run, x, cotangent)
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(options.rounds):
        for name, run in contenders.items():
            times[name].append(seconds(run, x, cotangent))
    base = times["hand-derived"]
    print(f"batch {options.batch}, {options.tokens} tokens, width {options.width}, {options.heads} heads, float32,")
    print(
        f"{torch.get_num_threads()} threads; hand-derived {statistics.median(base) * 1e3:.0f} ms forward and backward"
    )
    for name, each in times.items():
        ratios = [a / b for a, b in zip(each, base, strict=True)]
        print(f"{name:24} {statistics.median(ratios):5.2f}   {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
