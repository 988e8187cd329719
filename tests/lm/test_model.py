"""The decoder: shapes, causality, decoding, and what the optimiser is told of its parameters."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from examples.lm.config import Config, ConfigError, LayerConfig
from examples.lm.layers import facts, layer_source
from examples.lm.llama import LlamaMlp
from examples.lm.model import DECAYED, SCALED, Decoder, build_model, generate, parameter_groups
from tests.lm.conftest import KINDS, by_hand, energy, with_layers

VOCABULARY = 50

# Every kind of layer a decoder may have: fused, by blocks of rows, generic, recursive, with givens, with momentum.
MODELS = {
    **KINDS,
    "grouped": (by_hand("LlamaAttention", heads=4, groups=2), by_hand("LlamaMlp", f=24)),
    "mixed": (energy("recursive_held", heads=2), by_hand("LlamaMlp", f=24), energy("alibi", heads=2)),
    "padded": (energy("design/attention_padded", heads=2), energy("design/mlp_untied", f=24)),
    "documents": (energy("sliding_window", heads=2, window=5), energy("token_shift", f=24)),
    "momentum": (energy("yuriiformer", heads=2, f=24),),
}


def decoder(small: Config, *layers: LayerConfig) -> Decoder:
    """Two times these layers, all parameters away from where they start."""
    torch.manual_seed(0)
    model = build_model(with_layers(small, *layers, repeat=2), VOCABULARY)
    model.separator = 7
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return model


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest, small: Config) -> Decoder:
    """A small decoder of each kind."""
    return decoder(small, *MODELS[request.param])


def some_tokens(batch: int, tokens: int, seed: int = 1) -> torch.Tensor:
    return torch.randint(VOCABULARY, (batch, tokens), generator=torch.Generator().manual_seed(seed))


def test_logits_have_one_entry_per_token_and_word(model: Decoder) -> None:
    for batch, tokens in ((1, 1), (3, 16)):
        assert model(torch.zeros(batch, tokens, dtype=torch.int64)).shape == (batch, tokens, VOCABULARY)


def test_a_token_sees_the_past_and_nothing_else(model: Decoder) -> None:
    tokens = some_tokens(1, 16)
    changed = tokens.clone()
    changed[0, 9] = (tokens[0, 9] + 1) % VOCABULARY
    difference = (model(tokens) - model(changed)).abs().amax(dim=(0, 2))  # [token]
    assert difference[:9].max() == 0
    assert difference[9:13].min() > 1e-6, "a later token does not see the change"


def test_decoding_with_a_cache_equals_the_full_pass(model: Decoder) -> None:
    tokens = some_tokens(3, 16)
    tokens[1, 4] = tokens[2, 9] = 7  # documents end in the midst
    with torch.no_grad():
        expected = model(tokens)
        cache = model.new_cache(3, max_tokens=16)
        parts = [model(tokens[:, first:last], cache=cache) for first, last in ((0, 5), (5, 6), (6, 13), (13, 16))]
        torch.testing.assert_close(torch.cat(parts, dim=1), expected, rtol=1e-4, atol=1e-4)
        cache.crop(6)
        torch.testing.assert_close(model(tokens[:, 6:], cache=cache), expected[:, 6:], rtol=1e-4, atol=1e-4)
        cache.crop(9)
        order = torch.tensor([2, 0, 0])
        cache.reorder(order)
        torch.testing.assert_close(model(tokens[order, 9:], cache=cache), expected[order, 9:], rtol=1e-4, atol=1e-4)


def test_logits_of_the_last_tokens_only(model: Decoder) -> None:
    tokens = some_tokens(2, 9)
    torch.testing.assert_close(model(tokens, last=3), model(tokens)[:, -3:])


def test_padding_on_the_left_changes_nothing(small: Config) -> None:
    model = decoder(small, *MODELS["padded"])
    tokens = some_tokens(2, 9)
    padded = torch.cat((torch.zeros(2, 3, dtype=torch.int64), tokens), dim=1)
    padded[1, :3], start = some_tokens(1, 3), torch.tensor([3, 0])
    with torch.no_grad():
        found = model(padded, start=start)
        torch.testing.assert_close(found[0, 3:], model(tokens)[0], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(found[1], model(padded)[1], rtol=1e-4, atol=1e-4)
    with pytest.raises(ValueError, match="no layer of this model has `given start: int`"):
        decoder(small, *KINDS["cem"])(padded, start=start)


def test_documents_are_told_from_the_separator(small: Config) -> None:
    model = decoder(small, energy("sliding_window", heads=2, window=16))
    tokens = some_tokens(1, 12).masked_fill(some_tokens(1, 12) == 7, 8)
    changed = tokens.clone()
    changed[0, 2] = (tokens[0, 2] + 1) % 7
    for parts, seen in ((tokens, True), (tokens.index_fill(1, torch.tensor(5), 7), False)):
        other = torch.where(changed != tokens, changed, parts)
        assert bool((model(parts) != model(other))[0, 6:].any()) == seen
    model.separator = None
    with pytest.raises(ValueError, match="the decoder has no separator"):
        model(tokens)


def test_steps_of_a_call_and_of_the_configuration(small: Config) -> None:
    once = decoder(small, energy("cem_attention", heads=2), by_hand("LlamaMlp", f=24))
    layer = dataclasses.replace(energy("cem_attention", heads=2), steps=3)
    thrice = decoder(small, layer, by_hand("LlamaMlp", f=24))
    thrice.load_state_dict(once.state_dict())
    tokens = some_tokens(1, 8)
    assert torch.equal(thrice(tokens), once(tokens, steps=3))
    assert torch.equal(thrice(tokens, steps=1), once(tokens))
    assert not torch.allclose(thrice(tokens), once(tokens))


def test_recomputation_changes_no_gradient(model: Decoder) -> None:
    tokens = some_tokens(2, 9)
    gradients = []
    for model.gradient_checkpointing in (False, True):
        model.zero_grad()
        model(tokens).logsumexp(-1).sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


# ------------------------------------------------------------------------------------------- what cannot be a layer


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (energy("energy_transformer"), "energy_transformer reads later tokens"),
        (energy("cem_mlp", width=3), "cem_mlp: .*unexpected keyword argument 'width'"),
        (energy("cem_attention", heads=5), "cem_attention: r = d / heads: expected an exact division, got 16 / 5"),
        (energy("no_such"), r"no_such.cem: No such file"),
        (energy("cross_attention", e=4), "cross_attention asks for the given m; the decoder knows doc, start"),
        (by_hand("NoSuch"), "there is no class examples.lm.llama.NoSuch"),
        (LayerConfig(module="rubbish"), "there is no class rubbish"),
        (dataclasses.replace(by_hand("LlamaMlp", f=3), steps=2), "LlamaMlp was written by hand and takes no steps"),
        (LayerConfig(energy=str(Path(__file__).with_name("conftest.py"))), "has 0 classes of layers, not one"),
    ],
)
def test_what_is_wrong_with_a_layer_is_named(small: Config, layer: LayerConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_model(with_layers(small, layer), VOCABULARY)


def test_a_layer_by_hand_that_sees_the_future_is_refused(small: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LlamaMlp, "causal", False)
    with pytest.raises(ConfigError, match="LlamaMlp reads later tokens"):
        build_model(with_layers(small, *KINDS["llama"]), VOCABULARY)


def test_an_energy_that_does_not_compile_shows_where(small: Config, tmp_path: Path) -> None:
    path = tmp_path / "wrong.cem"
    path.write_text("energy wrong(d) {\n  state x[token, d]\n  E[i] = norm2(y[i])\n}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"(?s)wrong.cem does not compile:\n.*unknown name `y`"):
        build_model(with_layers(small, LayerConfig(energy=str(path))), VOCABULARY)


TWO = """
energy pull(d) {
  state x[token, d]
  param alpha[d] = 0.1
  E[i] = dot(alpha, square(x[i])) / 2
}
energy push(d) {
  state x[token, d]
  param alpha[d] = 0.1
  E[i] = -dot(alpha, square(x[i])) / 2
}
"""


def test_a_new_energy_is_named_and_trained(small: Config, tmp_path: Path) -> None:
    path = tmp_path / "two.cem"
    path.write_text(TWO, encoding="utf-8")
    layers = [LayerConfig(energy=str(path), name=name) for name in ("pull", "push", "pull")]
    config = with_layers(small, *layers)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, scaled=("alpha",), decayed=("alpha",)))
    model = build_model(config, VOCABULARY, tmp_path / "layers")
    assert [type(layer).__name__ for layer in model.layers] == ["Pull", "Push", "Pull"]
    assert sorted(found.name for found in (tmp_path / "layers").glob("*.py")) == ["pull.py", "push.py"]
    torch.testing.assert_close(model.layers[0].alpha, torch.full((16,), 0.1 / 3**0.5))
    groups = torch.optim.AdamW(parameter_groups(model, model.decayed, 0.1)).param_groups
    assert [parameter.shape for parameter in groups[0]["params"]] == [(16,)] * 3
    with pytest.raises(ConfigError, match="say which with name"):
        build_model(with_layers(small, LayerConfig(energy=str(path))), VOCABULARY)
    wrong = dataclasses.replace(small, model=dataclasses.replace(small.model, decayed=("alpha",)))
    with pytest.raises(ConfigError, match="lists a parameter alpha that no layer has"):
        build_model(wrong, VOCABULARY)


def test_a_generated_file_is_the_same_layer(small: Config, tmp_path: Path) -> None:
    compiled = layer_source(energy("sliding_window"), tmp_path)
    file = layer_source(LayerConfig(energy=str(tmp_path / "sliding_window.py")))
    assert (file.energy, file.code, file.facts) == (compiled.energy, compiled.code, compiled.facts)
    assert file.layer.__name__ == "SlidingWindow"


def test_facts_of_energies() -> None:
    def of(name: str) -> tuple[object, ...]:
        return dataclasses.astuple(facts(layer_source(energy(name)).energy))

    assert of("yuriiformer") == ("yuriiformer", (), ("A", "M"), "rounds", False)
    assert of("recursive_held") == ("recursive_held", (), ("E",), "rounds", True)
    assert of("sliding_window") == ("sliding_window", ("doc",), ("E",), 1, False)
    assert of("mean_shift") == ("mean_shift", (), ("E",), 1, False)


# ------------------------------------------------------------------------------------------------------- parameters


@pytest.fixture(params=KINDS)
def plain(request: pytest.FixtureRequest, small: Config) -> Decoder:
    """A decoder as it starts."""
    torch.manual_seed(0)
    return build_model(with_layers(small, *KINDS[request.param], repeat=2), VOCABULARY)


def test_the_start_is_near_the_uniform_distribution(plain: Decoder) -> None:
    tokens = some_tokens(4, 16)
    loss = nn.functional.cross_entropy(plain(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).item()
    assert loss == pytest.approx(math.log(VOCABULARY), abs=0.1)


def test_one_scale_of_each_layer_starts_smaller(plain: Decoder) -> None:
    for layer in plain.layers:
        names = [name for name in SCALED if name in dict(layer.named_parameters())]
        assert len(names) == 1, type(layer)
        own = type(layer)(d=16, **({"heads": 2} if "Attention" in type(layer).__name__ else {"f": 24}))
        found, alone = (of.get_parameter(names[0]).square().mean().sqrt().item() for of in (layer, own))
        assert found / alone == pytest.approx(len(plain.layers) ** -0.5, rel=0.2)


def test_of_several_scales_the_first_starts_smaller(small: Config) -> None:
    model = build_model(with_layers(small, energy("yuriiformer", heads=2, f=24), repeat=4), VOCABULARY)
    assert model.layers[0].gamma == 1
    config = with_layers(small, energy("yuriiformer", heads=2, f=24), repeat=4)
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, scaled=("gamma",)))
    parameters = dict(build_model(config, VOCABULARY).layers[0].named_parameters())
    assert parameters["gamma"] == 0.5
    assert parameters["V"].std().item() == pytest.approx(16**-0.5, rel=0.2)


def test_weight_decay_pulls_on_projection_matrices_only(plain: Decoder) -> None:
    # A per-head diagonal has two axes, like a matrix, but does not project.
    plain.layers[0].register_parameter("diagonal", nn.Parameter(torch.ones(2, 16)))
    groups = torch.optim.AdamW(parameter_groups(plain, plain.decayed, 0.1)).param_groups
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]
    decayed, kept = ({id(p) for p in group["params"]} for group in groups)
    assert decayed.isdisjoint(kept)
    assert decayed | kept == {id(parameter) for parameter in plain.parameters()}
    names = {name.split(".", 2)[-1] for name, p in plain.named_parameters() if id(p) in decayed}
    assert names <= set(DECAYED)
    assert names >= (
        {"Q", "K", "W", "V"} if "Q" in names else {"q.weight", "k.weight", "out.weight", "gate.weight", "down.weight"}
    )


# ------------------------------------------------------------------------------------------------------- generation


@pytest.mark.parametrize("cached", [True, False])
def test_generation_continues_the_prompt_past_the_context(plain: Decoder, cached: bool) -> None:
    prompt = torch.tensor([3, 1, 4])
    one, same, other = (
        generate(plain, prompt, 30, 1.0, torch.Generator().manual_seed(seed), cached=cached) for seed in (1, 1, 2)
    )
    assert one.shape == (33,)
    assert torch.equal(one[:3], prompt)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_generation_with_a_cache_is_generation_without(model: Decoder) -> None:
    prompt = some_tokens(1, 5)[0]
    one, other = (
        generate(model, prompt, 25, 1.0, torch.Generator().manual_seed(3), cached=cached) for cached in (True, False)
    )
    assert torch.equal(one, other)


def test_generation_at_low_temperature_takes_the_likeliest_token(plain: Decoder) -> None:
    prompt = torch.tensor([3, 1, 4])
    generated = generate(plain, prompt, 1, 1e-4, torch.Generator())
    assert generated[-1] == plain(prompt[None])[0, -1].argmax()
