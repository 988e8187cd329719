"""Kernels where numbers get large: tensors with more entries than 32 bits can count, windows beyond any length, heads
as wide and as narrow as kernels have them, memory that batches share."""

from __future__ import annotations

import math
import mmap
from typing import Any

import pytest
import torch
from torch import Tensor

from cemc.cache import imported
from cemc.compiler import Trace, compile_source
from cemc.source import Source
from tests.kernels.test_interpreted import compared, inputs, kernels_of, outcome, pair


def spread(values: Tensor, axis: int) -> Tensor:
    """The same values in memory where the last along `axis` lies 2^31 entries and more behind the first. Most of that
    memory is never touched, so that there need be no more of it than a few pages."""
    strides = [math.prod(values.shape[n + 1 :]) for n in range(values.ndim)]
    strides[axis] = 2**31 // (values.shape[axis] - 1) + 16
    entries = sum((length - 1) * stride for length, stride in zip(values.shape, strides, strict=True)) + 1
    no_reserve = 0x4000  # of Linux; Python has a name for it from 3.13 on
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve
    memory = mmap.mmap(-1, entries * values.element_size(), flags=flags)
    return torch.frombuffer(memory, dtype=values.dtype).as_strided(values.shape, strides).copy_(values)


def test_memory_is_spread() -> None:
    values = torch.randn(2, 3, 4, 5, dtype=torch.float16)
    for axis in range(4):
        assert torch.equal(spread(values, axis), values)
        assert spread(values, axis).untyped_storage().nbytes() > 2**32


@pytest.mark.parametrize("axis", range(4))
def test_offsets_of_pairs_have_64_bits(axis: int) -> None:
    """Batch, head, token and width of queries, keys and the gradient that comes in."""
    kernels = kernels_of("soft_capped")
    query, key, upstream = (torch.randn(2, 2, 20, 6, dtype=torch.float16) for _ in range(3))
    numbers = (0.02, 0.3, 50.0, 20, 20, 0, 0)
    results = kernels._pairs_operator(query, key, *numbers)
    below = torch.randn_like(results[1])
    wanted = [*results, *kernels._pairs_operator_gradient(upstream, below, query, key, *results, *numbers)]
    query, key, upstream = (spread(each, axis) for each in (query, key, upstream))
    found = kernels._pairs_operator(query, key, *numbers)
    found = [*found, *kernels._pairs_operator_gradient(upstream, below, query, key, *results, *numbers)]
    assert all(torch.equal(each, other) for each, other in zip(found, wanted, strict=True))


@pytest.mark.parametrize("axis", range(2))
def test_offsets_of_entries_have_64_bits(axis: int) -> None:
    kernels = kernels_of("cem_mlp")
    first, second, upstream = (torch.randn(40, 6, dtype=torch.float16) for _ in range(3))
    wanted = [kernels._pointwise_operator(first, second)]
    wanted += kernels._pointwise_operator_gradient(upstream, first, second)
    first, second, upstream = (spread(each, axis) for each in (first, second, upstream))
    found = [kernels._pointwise_operator(first, second)]
    found += kernels._pointwise_operator_gradient(upstream, first, second)
    assert all(torch.equal(each, other) for each, other in zip(found, wanted, strict=True))


MASKED = """
  energy masked(d, heads = 2, r = d / heads, size = 3) {{
    state x[token, d]
    param Q[heads, r, d]
    param K[heads, r, d]
    E[i] = -sum[k](logsumexp[j <= i if {condition}](dot(Q[k] @ x[i], K[k] @ given(x[j]))))
  }}
"""


CONDITIONS = (
    "i - j < size", "i - j < 2 * size", "j + size > i", "j * size <= 2 * i", "j * j - size <= i", "j + 5000000000 > i"
)  # fmt: skip


@pytest.mark.parametrize("size", [3, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**40])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_numbers_of_any_size(condition: str, size: int) -> None:
    """A window that means none was once added to positions in 32 bits: gradients of keys were 0."""
    text = MASKED.format(condition=condition)
    text = text if "size" in condition else text.replace(", size = 3", "")
    (result,) = compile_source(Source("masked.cem", text), Trace())
    sizes: dict[str, Any] = {"d": 8, "dtype": torch.float64, **({"size": size} if "size" in condition else {})}
    layer, reference = (imported(result)(**sizes, backend=backend) for backend in ("triton", "generic"))
    reference.load_state_dict(layer.state_dict())
    x = torch.randn(2, 40, 8, dtype=torch.float64)
    found, exact = (outcome(each, {"x": x}, torch.ones_like(x)) for each in (layer, reference))
    for quantity, wanted in exact.items():
        torch.testing.assert_close(found[quantity], wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("width", [1, 3, 33, 127, 255, 256])
def test_heads_of_any_width(width: int) -> None:
    compared("alibi", (1, 17), torch.float64, heads=1, r=width)


@pytest.mark.parametrize("name", ["relative_bias", "sliding_window", "cem_mlp", "cross_attention"])
def test_batches_that_share_memory(name: str) -> None:
    """Expanded inputs, and the gradient of a sum, which is one number for all entries."""
    layer, reference = pair(name, torch.float64)
    arguments = inputs(name, (1, 20), torch.float64)
    weight = torch.ones((), dtype=torch.float64).expand(3, 20, 16)
    arguments = {n: u.expand(3, *u.shape[1:]) for n, u in arguments.items()}

    def shared(each: Any) -> dict[str, Tensor]:
        leaves = {n: u.detach().requires_grad_(u.is_floating_point()) for n, u in arguments.items()}
        result = each(**leaves)
        learned = {n: u for n, u in leaves.items() if u.requires_grad} | dict(each.named_parameters())
        gradients = torch.autograd.grad(result, list(learned.values()), weight)
        return {"update": result.detach(), **dict(zip(learned, gradients, strict=True))}

    found, exact = shared(layer), shared(reference)
    for quantity, wanted in exact.items():
        torch.testing.assert_close(found[quantity], wanted, rtol=1e-9, atol=1e-11)
