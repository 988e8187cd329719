"""The layers of the decoder against the same layers written out by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from examples.lm.layers import layer_source
from examples.lm.llama import LlamaAttention, LlamaMlp, rotate
from tests.lm.conftest import CEM
from tests.lm.reference_layers import ReferenceAttention, ReferenceMlp, rms_normalised, rotation


def relative_error(found: Tensor, expected: Tensor) -> float:
    """Norm of the difference over norm of the expected."""
    return ((found - expected).norm() / expected.norm().clamp(min=1e-12)).item()


def inputs(tokens: int) -> Tensor:
    """x [2, tokens, 24] in float64, to differentiate by."""
    generator = torch.Generator().manual_seed(tokens)
    return torch.randn(2, tokens, 24, generator=generator, dtype=torch.float64).requires_grad_()


def reference(kind: str) -> nn.Module:
    """A hand-derived layer in float64, all its parameters away from their start."""
    torch.manual_seed(5)
    layer = (ReferenceAttention(24, 3) if kind == "attention" else ReferenceMlp(24, 40)).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return layer


@pytest.mark.parametrize("tokens", [1, 2, 33])
@pytest.mark.parametrize("kind", ["attention", "mlp"])
def test_generated_layers_are_the_derivation_by_hand(kind: str, tokens: int) -> None:
    attention, mlp = (layer_source(layer).layer for layer in CEM)
    expected_layer = reference(kind)
    layer = (attention(d=24, heads=3) if kind == "attention" else mlp(d=24, f=40)).double()
    layer.load_state_dict(expected_layer.state_dict())
    x = inputs(tokens)
    found, expected = layer(x), expected_layer(x)
    assert relative_error(found, expected) < 1e-9
    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    names = [name for name, _ in layer.named_parameters()]
    assert sorted(names) == sorted(name for name, _ in expected_layer.named_parameters())
    of_found = torch.autograd.grad((found * weight).sum(), [x, *(layer.get_parameter(name) for name in names)])
    of_expected = torch.autograd.grad((expected * weight).sum(), [x, *map(expected_layer.get_parameter, names)])
    for name, one, other in zip(["x", *names], of_found, of_expected, strict=True):
        assert relative_error(one, other) < 1e-9, name


def test_rotation_by_matrices() -> None:
    u = inputs(7).detach()[..., :8]
    expected = torch.einsum("irs,bis->bir", rotation(7, 8), u)
    assert relative_error(rotate(u), expected) < 1e-6  # its angles are float32


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("tokens", [1, 2, 33])
def test_llama_attention_by_hand(tokens: int, groups: int) -> None:
    layer = LlamaAttention(d=24, heads=3, groups=groups).double()
    nn.init.uniform_(layer.norm.weight, 0.5, 2.0)
    x = inputs(tokens)
    z = rms_normalised(x) * layer.norm.weight
    R = rotation(tokens, 8)
    expected = x.clone()
    for head in range(3):
        own, shared = (slice(8 * number, 8 * number + 8) for number in (head, head * groups // 3))
        weights = layer.q.weight[own], layer.k.weight[shared]
        query, key = (torch.einsum("irs,sd,bid->bir", R, weight, z) for weight in weights)
        scores = query @ key.mT / 8**0.5
        mixing = scores.exp().tril()
        mixed = mixing / mixing.sum(-1, keepdim=True) @ z @ layer.v.weight[shared].T
        expected = expected + mixed @ layer.out.weight[:, own].T
    assert relative_error(layer(x), expected) < 1e-6  # its angles are float32


def test_llama_mlp_by_hand() -> None:
    layer = LlamaMlp(d=24, f=40).double()
    nn.init.uniform_(layer.norm.weight, 0.5, 2.0)
    x = inputs(5)
    z = rms_normalised(x) * layer.norm.weight
    a = z @ layer.gate.weight.T
    expected = x + (a / (1 + (-a).exp()) * (z @ layer.up.weight.T)) @ layer.down.weight.T
    assert relative_error(layer(x), expected) < 1e-12
