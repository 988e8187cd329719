"""The decoder, with either kind of layers: shapes, causality, start, weight decay, sampling."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from examples.lm.config import Config
from examples.lm.llama import LlamaMlp
from examples.lm.model import LAYERS, PROJECTIONS, UPDATE_SCALES, Decoder, layer_classes, parameter_groups

VOCABULARY = 50


@pytest.fixture(params=LAYERS)
def model(request: pytest.FixtureRequest, small: Config) -> Decoder:
    """A small decoder of either kind."""
    torch.manual_seed(0)
    return Decoder(small.model, VOCABULARY, request.param)


def test_logits_have_one_entry_per_token_and_word(model: Decoder) -> None:
    for batch, tokens in ((1, 1), (3, 16)):
        assert model(torch.zeros(batch, tokens, dtype=torch.int64)).shape == (batch, tokens, VOCABULARY)


def test_a_token_sees_the_past_and_nothing_else(model: Decoder) -> None:
    tokens = torch.randint(VOCABULARY, (1, 16), generator=torch.Generator().manual_seed(1))
    changed = tokens.clone()
    changed[0, 9] = (tokens[0, 9] + 1) % VOCABULARY
    difference = (model(tokens) - model(changed)).abs().amax(dim=(0, 2))  # [token]
    assert difference[:9].max() == 0
    assert difference[9:].min() > 1e-6, "a later token does not see the change"


def test_a_layer_that_sees_the_future_is_refused(small: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LlamaMlp, "causal", False)
    with pytest.raises(ValueError, match="LlamaMlp reads later tokens"):
        Decoder(small.model, VOCABULARY, "llama")


def test_the_start_is_near_the_uniform_distribution(model: Decoder) -> None:
    tokens = torch.randint(VOCABULARY, (4, 16), generator=torch.Generator().manual_seed(1))
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).item()
    assert loss == pytest.approx(math.log(VOCABULARY), abs=0.1)


def test_one_scale_of_each_layer_starts_smaller(model: Decoder) -> None:
    for layer in model.layers:
        names = [name for name, _ in layer.named_parameters() if name in UPDATE_SCALES]
        assert len(names) == 1, type(layer)
        own = type(layer)(d=16, **({"heads": 2} if "Attention" in type(layer).__name__ else {"f": 24}))
        found, alone = (of.get_parameter(names[0]).square().mean().sqrt().item() for of in (layer, own))
        assert found / alone == pytest.approx(len(model.layers) ** -0.5, rel=0.2)


def test_weight_decay_pulls_on_projection_matrices_only(model: Decoder) -> None:
    # A per-head diagonal has two axes, like a matrix, but does not project.
    model.layers[0].register_parameter("diagonal", nn.Parameter(torch.ones(2, 16)))
    groups = torch.optim.AdamW(parameter_groups(model, 0.1)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    decayed, kept = ({id(p) for p in group["params"]} for group in groups)
    assert decayed.isdisjoint(kept)
    assert decayed | kept == {id(parameter) for parameter in model.parameters()}
    names = {name.split(".", 2)[-1] for name, p in model.named_parameters() if id(p) in decayed}
    assert names <= set(PROJECTIONS)
    assert names >= (
        {"Q", "K", "W", "V"} if "Q" in names else {"qkv.weight", "out.weight", "gate.weight", "down.weight"}
    )


def test_layer_classes_of_both_kinds_take_the_same_sizes() -> None:
    for kind in LAYERS:
        attention, mlp = layer_classes(kind)
        x = torch.randn(1, 3, 8)
        assert attention(d=8, heads=2)(x).shape == mlp(d=8, f=12)(x).shape == x.shape


def test_generation_continues_the_prompt_past_the_context(model: Decoder) -> None:
    prompt = torch.tensor([3, 1, 4])
    one, same, other = (
        model.generate(prompt, 30, temperature=1.0, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert one.shape == (33,)
    assert torch.equal(one[:3], prompt)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_generation_at_low_temperature_takes_the_likeliest_token(model: Decoder) -> None:
    prompt = torch.tensor([3, 1, 4])
    generated = model.generate(prompt, 1, temperature=1e-4, generator=torch.Generator())
    assert generated[-1] == model(prompt[None])[0, -1].argmax()
