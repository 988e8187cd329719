"""Dtypes: half precision and autocast, mixed dtypes, what is accumulated in what."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.emit.support import generated, layer_class
from tests.emit.test_layers_by_hand import ATTENTION, MLP

BOTH = {"attention": (ATTENTION, {"d": 32, "heads": 2}), "mlp": (MLP, {"d": 32, "f": 64})}


def pair(which: str, backend: str, dtype: torch.dtype) -> tuple[Any, Any]:
    """A layer, and the same in float64 on the generic backend."""
    text, sizes = BOTH[which]
    torch.manual_seed(0)
    layer: Any = layer_class(text)(**sizes, backend=backend, dtype=dtype)
    exact: Any = layer_class(text)(**sizes, backend="generic", dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    return layer, exact


def error(ours: Tensor, exact: Tensor) -> float:
    return float(((ours.double() - exact).norm() / exact.norm()).detach())


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("backend", ["generic", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_half_precision(which: str, backend: str, dtype: torch.dtype) -> None:
    layer, exact = pair(which, backend, dtype)
    x = torch.randn(2, 9, 32).to(dtype)
    result = layer(x)
    assert result.dtype == dtype
    unit = torch.finfo(dtype).eps
    assert error(result, exact(x.double())) < 2 * unit
    result.float().square().sum().backward()
    exact(x.double()).square().sum().backward()
    for ours, theirs in zip(layer.parameters(), exact.parameters(), strict=True):
        assert ours.grad.dtype == dtype
        assert error(ours.grad, theirs.grad) < 8 * unit
    assert layer.energy(x).dtype == dtype
    assert error(layer.energy(x), exact.energy(x.double())) < 8 * unit


@pytest.mark.parametrize("which", BOTH)
@pytest.mark.parametrize("backend", ["generic", "torch"])
def test_autocast(which: str, backend: str) -> None:
    layer, exact = pair(which, backend, torch.float32)
    x = torch.randn(2, 9, 32, requires_grad=True)
    plain = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = layer(x)
        energy = layer.energy(x)
        assert torch.is_autocast_enabled("cpu")
        double = layer(x.double())
    assert result.dtype == energy.dtype == torch.float32
    assert double.dtype == torch.float64
    torch.testing.assert_close(energy, layer.energy(x))
    change, exactly = (result - x).detach(), (exact(x.double()) - x).detach()
    if backend == "generic":
        assert torch.equal(result, plain)
    else:
        assert not torch.equal(result, plain)
        assert error(change, exactly) < 0.02
    result.square().sum().backward()
    assert x.grad is not None
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all() for p in layer.parameters())


def test_parameters_of_another_dtype_than_the_input() -> None:
    for backend in ("generic", "torch"):
        layer, exact = pair("attention", backend, torch.bfloat16)
        x = torch.randn(3, 32)
        assert layer(x).dtype == torch.float32
        assert error(layer(x), exact(x.double())) < 1e-6
        assert exact(x).dtype == torch.float32


def test_a_residual_stream_in_half_precision_is_accumulated_in_single() -> None:
    layer: Any = layer_class("energy slow(d) { state x[d]  const c = 1 / 8192  E = c * sum(x) }")(d=1)
    one = torch.ones(1, dtype=torch.bfloat16)
    # Each step is far below half a unit in the last place; together they are not.
    assert layer(one).item() == 1
    assert layer(one, steps=512).item() == 1 - 512 / 8192


def test_casts_are_written_only_where_dtypes_can_differ() -> None:
    code = generated(ATTENTION)
    generic = code[code.index("def _update_generic") : code.index("def _energy")]
    assert generic.count(".to(") == 5  # x, Q, K and eta on entry, x on return.
    assert "low" not in generic
    torch_backend = code[code.index("def _update_torch") : code.index("def _update_generic")]
    assert "scaled_dot_product_attention" in code
    assert "low: torch.dtype" in torch_backend
