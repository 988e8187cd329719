"""The Triton kernels of the gallery in Triton's interpreter: against the generic backend in float64, at shapes round
the edges of blocks, in every dtype, with memory that is NaN before each launch."""

from __future__ import annotations

import inspect
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import cemc
from tests.kernels.bfloat16 import use_right_bfloat16

ENERGIES = Path(__file__).parents[2] / "examples" / "energies"
WITH_KERNELS = (
    "alibi", "attention_sink", "cem_attention", "cem_mlp", "cross_attention", "dense_associative_memory",
    "diagonal_low_rank",
    "energy_transformer", "geglu", "grouped_query", "linear_attention", "mean_shift", "mixture_of_experts",
    "modern_hopfield", "multi_query", "preconditioned", "query_key_norm", "recursive_held", "recursive_refreshed",
    "reglu", "relative_bias", "sigmoid_attention", "sliding_window", "soft_capped", "squared_relu",
    "token_shift", "yuriiformer",
)  # fmt: skip


@cache
def layer_class(name: str) -> Any:
    return cemc.load(ENERGIES / f"{name}.cem")


def kernels_of(name: str) -> Any:
    """The module of kernels of an energy."""
    return sys.modules[layer_class(name).__module__]._kernels


def sizes_of(name: str, **sizes: int) -> dict[str, int]:
    """Header names of an energy, small."""
    header = inspect.signature(layer_class(name)).parameters
    small = {"d": 16, "heads": 2, "f": 24, "experts": 3, "window": 5, "span": 7}
    found = {n: size for n, size in small.items() if n in header}
    if name == "grouped_query":
        found |= {"heads": 4, "groups": 2}
    return {**found, **sizes}


def pair(name: str, dtype: torch.dtype, **sizes: int) -> tuple[Any, Any]:
    """The layer on its kernels in `dtype`, and on the generic backend in float64, with the same parameters."""
    arguments = sizes_of(name, **sizes)
    torch.manual_seed(0)
    layer = layer_class(name)(**arguments, backend="triton", dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator).to(dtype)
    reference = layer_class(name)(**arguments, backend="generic", dtype=torch.float64)
    reference.load_state_dict({n: p.double() for n, p in layer.state_dict().items()})
    return layer, reference


def inputs(name: str, shape: tuple[int, ...], dtype: torch.dtype) -> dict[str, Tensor]:
    """The state `x` and the givens of an energy, for batch axes and a number of tokens."""
    generator = torch.Generator().manual_seed(1)
    *batch, tokens = shape
    found = {"x": torch.randn(*batch, tokens, 16, generator=generator)}
    for given_name, axes, integer in re.findall(
        r"given (\w+)\[([\w, ]+)\](: int)?", (ENERGIES / f"{name}.cem").read_text()
    ):
        lengths = [{"token": tokens, "source": 7}.get(axis, 16) for axis in axes.split(", ")]
        if integer:
            found[given_name] = torch.randint(0, 2, (*batch, *lengths), generator=generator)
        else:
            found[given_name] = torch.randn(*batch, *lengths, generator=generator)
    return {n: u if u.dtype == torch.long else u.to(dtype) for n, u in found.items()}


def outcome(layer: Any, arguments: dict[str, Tensor], weight: Tensor) -> dict[str, Tensor]:
    """The update and all its training gradients."""
    leaves = {n: u.clone().requires_grad_() if u.is_floating_point() else u for n, u in arguments.items()}
    result = layer(leaves["x"], **{n: u for n, u in leaves.items() if n != "x"})
    learned = {n: u for n, u in leaves.items() if u.requires_grad} | dict(layer.named_parameters())
    gradients = torch.autograd.grad((result * weight.to(result)).sum(), list(learned.values()))
    return {"update": result.detach(), **dict(zip(learned, gradients, strict=True))}


def compared(name: str, shape: tuple[int, ...], dtype: torch.dtype, **sizes: int) -> None:
    layer, reference = pair(name, dtype, **sizes)
    arguments = inputs(name, shape, dtype)
    weight = torch.randn(arguments["x"].shape, generator=torch.Generator().manual_seed(2))
    found = outcome(layer, arguments, weight)
    exact = outcome(reference, {n: u.double() if u.is_floating_point() else u for n, u in arguments.items()}, weight)
    # What is 0 but for rounding, such as the gradient of a score that is alone in its row, is compared with the rest.
    least = max(1e-12, 1e-4 * max(wanted.norm().item() for wanted in exact.values()))
    for quantity, wanted in exact.items():
        got = found[quantity].double()
        assert got.isfinite().all(), quantity
        error = (got - wanted).norm() / wanted.norm().clamp_min(least)
        assert error < 1e-9, (quantity, error.item())


@pytest.fixture
def filled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is allocated without a value is NaN: a kernel that leaves out an entry shows."""
    empty, new_empty = torch.empty, Tensor.new_empty

    def nan(tensor: Tensor) -> Tensor:
        return tensor.fill_(float("nan")) if tensor.is_floating_point() else tensor

    monkeypatch.setattr(torch, "empty", lambda *size, **options: nan(empty(*size, **options)))
    monkeypatch.setattr(Tensor, "new_empty", lambda self, *size, **options: nan(new_empty(self, *size, **options)))


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_the_gallery(name: str, filled: None) -> None:
    compared(name, (2, 33), torch.float64)


def test_every_energy_with_kernels_is_tested() -> None:
    """And those without are those that have no sums over pairs, or say why."""
    for path in sorted(ENERGIES.glob("*.cem")):
        (result,) = cemc.compile_file(path)
        assert bool(result.kernels) == (path.stem in WITH_KERNELS), path.stem


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(("cem_attention", "sliding_window", "soft_capped", "diagonal_low_rank", "relative_bias")),
    tokens=st.sampled_from((0, 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65)),
    batch=st.sampled_from(((), (1,), (2,), (2, 1))),
    width=st.sampled_from((2, 6, 8, 16, 18, 34)),
)
def test_shapes_round_the_edges_of_blocks(
    filled: None, name: str, tokens: int, batch: tuple[int, ...], width: int
) -> None:
    compared(name, (*batch, tokens), torch.float64, r=width)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ["cem_attention", "cem_mlp", "soft_capped", "energy_transformer"])
def test_low_precision(name: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most twice the error of the torch backend in the same dtype, and a few ulp."""
    use_right_bfloat16(monkeypatch)
    layer, reference = pair(name, dtype)
    other = layer_class(name)(**sizes_of(name), backend="torch", dtype=dtype)
    other.load_state_dict(layer.state_dict())
    arguments = inputs(name, (2, 40), dtype)
    weight = torch.randn(arguments["x"].shape, generator=torch.Generator().manual_seed(2))
    found, same = outcome(layer, arguments, weight), outcome(other, arguments, weight)
    exact = outcome(reference, {n: u.double() if u.is_floating_point() else u for n, u in arguments.items()}, weight)
    for quantity, wanted in exact.items():
        rms = wanted.square().mean().sqrt()
        error, allowed = ((u[quantity].double() - wanted).square().mean().sqrt() for u in (found, same))
        assert error <= 2 * allowed + 8 * torch.finfo(dtype).eps * rms, quantity


def test_repeats_bit_for_bit() -> None:
    """Gradients of learned scalars and tables too: nothing is added up in an order that may change."""
    layer, _ = pair("relative_bias", torch.float32)
    arguments = inputs("relative_bias", (2, 40), torch.float32)
    weight = torch.ones_like(arguments["x"])
    first, second = (outcome(layer, arguments, weight) for _ in range(2))
    assert all(torch.equal(first[n], second[n]) for n in first)


@pytest.mark.parametrize("name", ["cem_attention", "sliding_window"])
def test_rows_without_columns(name: str, filled: None) -> None:
    """A row that may read nothing gets nothing, and its gradients are 0, not NaN."""
    text = (ENERGIES / f"{name}.cem").read_text().replace("j <= i", "j < i")
    source = cemc.source.Source("strict.cem", text)
    layers = [_compiled(source, backend) for backend in ("triton", "generic")]
    layers[0].load_state_dict(layers[1].state_dict())
    arguments = inputs(name, (2, 20), torch.float64)
    weight = torch.randn(arguments["x"].shape, dtype=torch.float64)
    found, exact = (outcome(layer, arguments, weight) for layer in layers)
    for quantity, wanted in exact.items():
        torch.testing.assert_close(found[quantity], wanted, rtol=1e-9, atol=1e-11)


def _compiled(source: Any, backend: str, d: int = 16) -> Any:
    from cemc.cache import imported
    from cemc.compiler import Trace, compile_source

    (result,) = compile_source(source, Trace())
    return imported(result)(d=d, backend=backend, dtype=torch.float64)


def test_large_scores() -> None:
    """Scores of ten thousand in float32: finite, and the same as on the generic backend."""
    layer, reference = pair("cem_attention", torch.float32)
    with torch.no_grad():
        layer.Q.mul_(300)
        reference.Q.copy_(layer.Q)
    arguments = inputs("cem_attention", (2, 20), torch.float32)
    weight = torch.ones_like(arguments["x"])
    found = outcome(layer, arguments, weight)
    exact = outcome(reference, {"x": arguments["x"].double()}, weight)
    torch.testing.assert_close(found["update"].double(), exact["update"], rtol=2e-2, atol=2e-2)
    assert all(u.isfinite().all() for u in found.values())


def test_inputs_that_are_not_contiguous() -> None:
    layer, reference = pair("cem_attention", torch.float64)
    x = torch.randn(16, 20, 3, dtype=torch.float64).permute(2, 1, 0)
    weight = torch.randn(20, 3, 16, dtype=torch.float64).transpose(0, 1)
    found, exact = (outcome(each, {"x": x}, weight) for each in (layer, reference))
    for quantity, wanted in exact.items():
        torch.testing.assert_close(found[quantity], wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("name", "matrices"), [("cem_mlp", "z, W, V"), ("grouped_query", "z, Q, K")])
def test_products_of_one_value_are_one_product(name: str, matrices: str) -> None:
    """On the kernels' backend; where a value meets one matrix alone, that stays as it is."""
    (result,) = cemc.compile_file(ENERGIES / f"{name}.cem")
    assert f"_project({matrices})" in result.code
    (result,) = cemc.compile_file(ENERGIES / "squared_relu.cem")
    assert "_project(" not in result.code


def test_products_along_any_axis_of_a_matrix() -> None:
    """A matrix that is the other way round, one with three axes, and a diagonal, which is no product along an axis."""
    text = """
      energy several(d, f = 6, h = 3, r = 2) {
        state x[token, d]
        param W[d, f]
        param V[f, d]
        param P[h, d, r]
        param D[d]
        z[i] = rmsnorm(x[i])
        y[i] = given(z[i])
        E[i] = -sum(silu(y[i] @ W) * (V @ y[i]) * (V @ z[i])) - sum[k in h](norm2(sigmoid(y[i] @ P[k]) * (z[i] @ P[k])))
             - dot(D * y[i], z[i])
        update { x[i] = x[i] - grad[z](E)[i] }
      }
    """
    source = cemc.source.Source("several.cem", text)
    layers = [_compiled(source, backend, d=8) for backend in ("triton", "generic")]
    layers[0].load_state_dict(layers[1].state_dict())
    arguments = {"x": torch.randn(2, 9, 8, dtype=torch.float64)}
    weight = torch.randn(2, 9, 8, dtype=torch.float64)
    found, exact = (outcome(layer, arguments, weight) for layer in layers)
    for quantity, wanted in exact.items():
        torch.testing.assert_close(found[quantity], wanted, rtol=1e-9, atol=1e-11)
