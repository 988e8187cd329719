"""The kernels as torch sees them: compiled, mapped, exported, differentiated twice, decoded; and errors in words."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tests.kernels.test_interpreted import kernels_of, layer_class

NAME = "soft_capped"


@pytest.fixture(scope="module")
def layers() -> tuple[Any, Any]:
    """A layer on its kernels and on the generic backend, in float32."""
    torch.manual_seed(0)
    layer, reference = (layer_class(NAME)(d=16, heads=2, backend=backend) for backend in ("triton", "generic"))
    reference.load_state_dict(layer.state_dict())
    return layer, reference


def gradients(layer: Any, parameters: list[Tensor], x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    return list(torch.autograd.grad(layer(x).square().sum(), [x, *parameters]))


def close(found: Any, wanted: Any) -> None:
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_without_breaks(layers: tuple[Any, Any], dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(layers[0], fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for shape in ((2, 20, 16), (3, 33, 16)) if dynamic else ((2, 20, 16),):
        x = torch.randn(shape)
        close(
            gradients(compiled, list(layers[0].parameters()), x), gradients(layers[1], list(layers[1].parameters()), x)
        )


def test_mapped(layers: tuple[Any, Any]) -> None:
    x = torch.randn(3, 2, 20, 16)
    close(torch.func.vmap(layers[0])(x), layers[1](x))


def test_gradients_mapped(layers: tuple[Any, Any]) -> None:
    x = torch.randn(3, 20, 16)
    found, wanted = (torch.func.vmap(torch.func.grad(lambda u, f=f: f(u).square().sum()))(x) for f in layers)
    close(found, wanted)


def test_operators() -> None:
    """torch's own checks of an operator: its schema, its fake kernel, and how it compiles."""
    kernels = kernels_of(NAME)
    query, key = torch.randn(2, 2, 20, 8), torch.randn(2, 2, 20, 8)
    numbers = (0.02, 0.3, 50.0, 20, 20, 0, 0)
    torch.library.opcheck(kernels._pairs_operator, (query, key, *numbers))
    results = kernels._pairs_operator(query, key, *numbers)
    upstream = [torch.randn_like(u) for u in results]
    torch.library.opcheck(kernels._pairs_operator_gradient, (*upstream, query, key, *results, *numbers))


def test_exported(layers: tuple[Any, Any]) -> None:
    layer = copy.deepcopy(layers[0]).requires_grad_(False)
    shapes = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim("tokens", min=2)}}
    program = torch.export.export(layer, (torch.randn(2, 20, 16),), dynamic_shapes=shapes)
    x = torch.randn(3, 25, 16)
    close(program.module()(x), layers[1](x))


def test_a_second_derivative_is_refused(layers: tuple[Any, Any]) -> None:
    x = torch.randn(2, 5, 16, requires_grad=True)
    (first,) = torch.autograd.grad(layers[0](x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match='no second derivative: use backend="generic"'):
        first.sum().backward()


def test_checkpointed(layers: tuple[Any, Any]) -> None:
    x = torch.randn(2, 20, 16)

    def run(u: Tensor) -> Tensor:
        return checkpoint(layers[0], u, use_reentrant=False)

    close(gradients(run, list(layers[0].parameters()), x), gradients(layers[1], list(layers[1].parameters()), x))


def test_copied_and_pickled(layers: tuple[Any, Any]) -> None:
    x = torch.randn(2, 20, 16)
    for other in (copy.deepcopy(layers[0]), pickle.loads(pickle.dumps(layers[0]))):
        assert torch.equal(other(x), layers[0](x))


def test_autocast(layers: tuple[Any, Any]) -> None:
    x = torch.randn(2, 20, 16)
    with torch.autocast("cpu", dtype=torch.float16):
        result = layers[0](x)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, layers[1](x), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("shape", [(2, 0, 16), (0, 3, 16), (3, 16), (1, 1, 16)])
def test_edges(layers: tuple[Any, Any], shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    close(layers[0](x), layers[1](x))
    close(*(gradients(layer, list(layer.parameters()), x) for layer in layers))


@pytest.mark.parametrize("name", ["soft_capped", "sliding_window", "relative_bias", "alibi"])
def test_decoding(name: str) -> None:
    """Token by token and in chunks, on kernels, as the full pass."""
    sizes = {"sliding_window": {"window": 4}, "relative_bias": {"span": 5}}.get(name, {})
    layer = layer_class(name)(d=16, heads=2, backend="triton", dtype=torch.float64, **sizes)
    x = torch.randn(2, 23, 16, dtype=torch.float64)
    givens = {"doc": torch.randint(0, 2, (2, 23)).sort(-1).values} if name == "sliding_window" else {}
    with torch.no_grad():
        wanted = layer(x, **givens)
        cache, found, start = layer.new_cache((2,), 23), [], 0
        for length in (7, 1, 1, 3, 11):
            part = slice(start, start + length)
            y, cache = layer(x[:, part], cache=cache, **{n: u[:, part] for n, u in givens.items()})
            found.append(y)
            start += length
    torch.testing.assert_close(torch.cat(found, 1), wanted, rtol=1e-9, atol=1e-11)


def test_widths_that_no_kernel_has() -> None:
    layer = layer_class(NAME)(d=516, heads=2, r=258, backend="triton")
    with pytest.raises(ValueError, match='backend: "triton" has kernels for widths up to 256, got r=258'):
        layer(torch.randn(1, 3, 516))
    auto = layer_class(NAME)(d=516, heads=2, r=258)
    assert auto(torch.randn(1, 3, 516)).shape == (1, 3, 516)


def test_without_kernels_the_reason_is_given() -> None:
    with pytest.raises(ValueError, match="this energy has no Triton kernels"):
        layer_class("third_order")(d=16, backend="triton")
