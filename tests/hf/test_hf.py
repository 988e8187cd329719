"""Models of energies in transformers: what is saved and loaded, generation, training, adapters."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, TrainingArguments, pipeline

from examples.hf import CemCache, CemConfig, CemForCausalLM, CemTrainer
from examples.hf.configuration import configuration_of
from examples.hf.export import main as export
from examples.lm.config import (
    Config,
    ConfigError,
    DataConfig,
    LayerConfig,
    ModelConfig,
    SampleConfig,
    StackConfig,
    TrainConfig,
)
from examples.lm.layers import generated_file
from examples.lm.train import main as train
from tests.lm.conftest import ROOT, by_hand, energy, write

VOCABULARY, SEPARATOR = 50, 7
LAYERS = (
    energy("design/attention_padded", heads=2),
    energy("cem_mlp", f=24),
    dataclasses.replace(energy("design/attention_padded", heads=4), steps=2),
)


def a_configuration(*layers: LayerConfig, context: int = 32) -> CemConfig:
    """A model of these layers, twice."""
    train_config = TrainConfig(1, "cpu", 6, 2, 3e-3, 3e-4, 1, 0.1, 0.9, 0.95, 1.0, 3)
    config = Config(
        DataConfig(VOCABULARY, files=f"{ROOT}/examples/data/addresses/179*.txt", holdout_every=4),
        ModelConfig(context, 16),
        (StackConfig(layers or LAYERS, 2),),
        train_config,
        SampleConfig("The", 5, 1.0),
    )
    return configuration_of(config, VOCABULARY, SEPARATOR)


@pytest.fixture
def model() -> CemForCausalLM:
    """A small model, away from where it starts."""
    torch.manual_seed(0)
    made = CemForCausalLM(a_configuration()).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return made


def tokens(batch: int = 2, count: int = 9, seed: int = 1) -> torch.Tensor:
    """Tokens, none of which ends a document."""
    found = torch.randint(VOCABULARY, (batch, count), generator=torch.Generator().manual_seed(seed))
    return found.masked_fill(found == SEPARATOR, 8)


# ---------------------------------------------------------------------------------------------- saving and loading


def test_a_saved_model_is_the_same_model_and_carries_its_energies(model: CemForCausalLM, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    assert (
        (tmp_path / "energies" / "attention_padded.cem").read_text(encoding="utf-8").startswith("energy attention_pad")
    )
    code = (tmp_path / "layers" / "cem_mlp.py").read_text(encoding="utf-8")
    assert "import cemc" not in code
    alone = generated_file(tmp_path / "layers" / "cem_mlp.py")
    assert alone.layer(d=16, f=24)(torch.randn(3, 16)).shape == (3, 16)
    for found in (CemForCausalLM.from_pretrained(tmp_path), AutoModelForCausalLM.from_pretrained(tmp_path)):
        assert type(found) is CemForCausalLM
        assert torch.equal(found.eval()(tokens()).logits, model(tokens()).logits)
    weights = load_file(tmp_path / "model.safetensors")
    assert set(weights) == set(model.state_dict())
    config = AutoConfig.from_pretrained(tmp_path)
    assert (config.vocab_size, config.hidden_size, config.max_position_embeddings) == (VOCABULARY, 16, 32)
    assert (config.num_hidden_layers, config.num_attention_heads, config.tie_word_embeddings) == (6, 4, True)
    assert config.layers == model.config.layers
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["model_type"] == "cem"


def test_what_is_missing_is_drawn_and_what_is_there_is_kept(model: CemForCausalLM, tmp_path: Path) -> None:
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["model.layers.0.eta"]
    save_file(weights, tmp_path / "model.safetensors", {"format": "pt"})
    found = CemForCausalLM.from_pretrained(tmp_path).state_dict()
    for name, value in model.state_dict().items():
        if name == "model.layers.0.eta":
            assert torch.allclose(found[name], torch.full((16,), 6**-0.5))
        else:
            assert torch.equal(found[name], value), name


def test_a_fresh_model_starts_as_a_decoder_does() -> None:
    made = CemForCausalLM(a_configuration())
    parameters = dict(made.named_parameters())
    assert torch.allclose(parameters["model.layers.0.eta"], torch.full((16,), 6**-0.5))
    assert parameters["model.embedding.weight"].std().item() == pytest.approx(0.02, rel=0.1)


def test_names_of_energies_are_no_paths() -> None:
    with pytest.raises(ValueError, match=r"'../up' in energies is not the name of an energy"):
        CemConfig(energies={"../up": "energy up(d) { state x[token, d] E[i] = norm2(x[i]) }"})
    with pytest.raises(ValueError, match="layers mention the energy no; energies has none"):
        CemConfig(layers=[{"energy": "no"}])


def test_layers_by_hand_and_two_energies_of_one_name_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="LlamaMlp is no energy"):
        a_configuration(by_hand("LlamaMlp", f=8))
    other = tmp_path / "other.cem"
    text = (ROOT / "examples" / "energies" / "cem_mlp.cem").read_text(encoding="utf-8")
    other.write_text(text.replace("silu", "gelu"), encoding="utf-8")
    with pytest.raises(ConfigError, match="two energies are called cem_mlp"):
        a_configuration(energy("cem_mlp", f=8), LayerConfig(energy=str(other)))


# --------------------------------------------------------------------------------------------------------- generation


WAYS: list[dict[str, Any]] = [{"do_sample": False}, {"do_sample": True}, {"num_beams": 3}, {"num_return_sequences": 2}]


@pytest.mark.parametrize("how", WAYS, ids=str)
def test_generation_with_a_cache_is_generation_without_and_computes_each_token_once(
    model: CemForCausalLM, how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    how = {"do_sample": "num_return_sequences" in how, **how}
    computed: dict[bool, int] = {}
    written = []
    decoder = type(model.model)
    forward = decoder.forward
    for use_cache in (True, False):
        computed[use_cache] = 0

        def counting(self: Any, ids: torch.Tensor, use_cache: bool = use_cache, **more: Any) -> torch.Tensor:
            computed[use_cache] += ids.shape[1]
            return forward(self, ids, **more)

        monkeypatch.setattr(decoder, "forward", counting)
        torch.manual_seed(1)
        written.append(
            model.generate(tokens(), max_new_tokens=20, use_cache=use_cache, eos_token_id=None, pad_token_id=0, **how)
        )
    assert torch.equal(*written)
    assert torch.equal(written[0][:1, :9], tokens()[:1])
    assert computed == {True: 9 + 19, False: sum(range(9, 29))}


def test_padding_on_the_left_changes_nothing(model: CemForCausalLM) -> None:
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    more = {"max_new_tokens": 12, "eos_token_id": None, "pad_token_id": 0}
    for how in ({"do_sample": False}, {"num_beams": 3}):
        both = model.generate(ids, attention_mask=mask, **more, **how)
        assert torch.equal(both[0, 4:], model.generate(ids[:1, 4:], **more, **how)[0])
        assert torch.equal(both[1], model.generate(ids[1:], **more, **how)[0])


def test_padding_that_no_energy_knows_of_is_an_error() -> None:
    model = CemForCausalLM(a_configuration(energy("cem_attention", heads=2))).eval()
    mask = torch.tensor([[0, 1, 1], [1, 1, 1]])
    with pytest.raises(ValueError, match="no layer of this model has `given start: int`"):
        model(tokens(2, 3), attention_mask=mask)
    # Padding behind the text is of no consequence to it.
    model(tokens(2, 3), attention_mask=mask.flip(1))
    with pytest.raises(ValueError, match="padding before and after the text, not within it"):
        model(tokens(2, 3), attention_mask=torch.tensor([[1, 0, 1], [1, 1, 1]]))


def test_a_cache_may_be_kept_cropped_and_repeated(model: CemForCausalLM) -> None:
    ids = tokens(2, 12)
    with torch.no_grad():
        expected = model(ids).logits
        cache = model(ids[:, :8], use_cache=True).cache
        assert isinstance(cache, CemCache)
        assert (cache.get_seq_length(), cache.get_max_length(), repr(cache)) == (8, 32, "CemCache(8 of 32 tokens)")
        cache.crop(3)
        torch.testing.assert_close(model(ids[:, 5:9], cache=cache).logits, expected[:, 5:9], rtol=1e-4, atol=1e-4)
        cache.batch_repeat_interleave(2)
        cache.batch_select_indices(torch.tensor([3, 0]))
        torch.testing.assert_close(
            model(ids.flip(0)[:, 9:], cache=cache).logits, expected.flip(0)[:, 9:], rtol=1e-4, atol=1e-4
        )
        assert model(ids, use_cache=False).cache is None
        assert torch.equal(model(ids, logits_to_keep=2).logits, expected[:, -2:])
        assert isinstance(model(ids, return_dict=False), tuple)
    for more in ({"inputs_embeds": torch.zeros(1, 2, 16)}, {"output_attentions": True}):
        with pytest.raises(ValueError, match=f"{next(iter(more))}: this model has none"):
            model(ids, **more)


# ----------------------------------------------------------------------------------------------------------- training


def test_the_loss_is_that_of_the_next_token(model: CemForCausalLM) -> None:
    ids = tokens(3, 10)
    labels = ids.clone()
    labels[0, :5] = -100
    output = model(ids, labels=labels)
    expected = torch.nn.functional.cross_entropy(output.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    torch.testing.assert_close(output.loss, expected)
    assert output.cache is None, "with gradients nothing is remembered"


def test_gradient_checkpointing_changes_no_gradient(model: CemForCausalLM, monkeypatch: pytest.MonkeyPatch) -> None:
    from examples.lm import model as module

    calls: list[Any] = []

    def counted(function: Any, *arguments: Any, **more: Any) -> Any:
        calls.append(function)
        assert more.pop("use_reentrant") is False
        return checkpoint(function, *arguments, use_reentrant=False, **more)

    checkpoint = module.checkpoint
    monkeypatch.setattr(module, "checkpoint", counted)
    model.train()
    gradients = []
    for enable in (False, True):
        if enable:
            model.activation_checkpointing_enable()
        model.zero_grad()
        model(tokens(), labels=tokens()).loss.backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    assert len(calls) == 6, "one for each layer, whatever its steps"
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
    model.activation_checkpointing_disable()
    assert not model.model.gradient_checkpointing


def rows() -> Dataset:
    """The same few sequences over and over, so that they can be learnt."""
    ids = tokens(4, 12).tolist()
    return Dataset.from_dict({"input_ids": ids * 8, "labels": ids * 8, "attention_mask": [[1] * 12] * 32})


def arguments(folder: Path, steps: int, **more: Any) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        per_device_train_batch_size=4,
        learning_rate=1e-2,
        save_steps=4,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **more,
    )


def test_trainer_trains_saves_and_resumes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trained = CemForCausalLM(a_configuration())
    told = arguments(tmp_path / "a", 8, activation_checkpointing=True)
    trainer = CemTrainer(model=trained, args=told, train_dataset=rows())
    before = trained(tokens(4, 12), labels=tokens(4, 12)).loss.item()
    trainer.train()
    after = trained.eval()(tokens(4, 12), labels=tokens(4, 12)).loss.item()
    assert after < before - 0.2
    saved = tmp_path / "a" / "checkpoint-4"
    assert (saved / "energies" / "cem_mlp.cem").exists()
    again = CemForCausalLM.from_pretrained(saved)
    resumed = CemTrainer(model=again, args=arguments(tmp_path / "a", 8), train_dataset=rows())
    resumed.train(resume_from_checkpoint=str(saved))
    for one, other in zip(again.parameters(), trained.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_weight_decay_pulls_on_projection_matrices_only(tmp_path: Path) -> None:
    model = CemForCausalLM(a_configuration(energy("design/attention_preconditioned", heads=2), energy("cem_mlp", f=24)))
    trainer = CemTrainer(model=model, args=arguments(tmp_path, 1, weight_decay=0.1), train_dataset=rows())
    trainer.create_optimizer()
    assert trainer.optimizer is not None
    of = {id(parameter): name for name, parameter in model.named_parameters()}
    names = {
        group["weight_decay"]: {of[id(parameter)] for parameter in group["params"]}
        for group in trainer.optimizer.param_groups
    }
    assert {name.rpartition(".")[2] for name in names[0.1]} == {"Q", "K", "W", "V"}
    assert {name.rpartition(".")[2] for name in names[0.0]} == {"p_raw", "U", "eta", "weight"}


def test_lora_adapts_the_matrices_of_energies(model: CemForCausalLM, tmp_path: Path) -> None:
    base = {name: value.clone() for name, value in model.state_dict().items()}
    plain = model(tokens()).logits
    adapted: Any = get_peft_model(model, LoraConfig(r=2, target_parameters=["Q", "W"], task_type="CAUSAL_LM"))
    assert torch.allclose(adapted(tokens()).logits, plain, atol=1e-5), "an adapter starts as nothing"
    trainable = [name for name, parameter in adapted.named_parameters() if parameter.requires_grad]
    assert trainable
    assert all("lora_" in name for name in trainable)
    optimiser = torch.optim.Adam([p for p in adapted.parameters() if p.requires_grad], lr=2e-2)
    losses = []
    for _ in range(12):
        loss = adapted(input_ids=tokens(), labels=tokens()).loss
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < losses[0]
    adapted.eval()
    adapted.save_pretrained(tmp_path)
    more = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    written = adapted.generate(tokens(), **more)
    assert torch.equal(written, adapted.generate(tokens(), use_cache=False, **more))
    fresh = CemForCausalLM(a_configuration()).eval()
    fresh.load_state_dict(base)
    loaded: Any = PeftModel.from_pretrained(fresh, str(tmp_path))
    torch.testing.assert_close(loaded(tokens()).logits, adapted(tokens()).logits)
    assert not torch.allclose(adapted(tokens()).logits, plain, atol=1e-3)


# ------------------------------------------------------------------------------------------------------------- export


def test_a_run_is_exported_and_used_by_a_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = Config(
        DataConfig(280, files=f"{ROOT}/examples/data/addresses/179*.txt", holdout_every=4),
        ModelConfig(32, 16),
        (StackConfig(LAYERS),),
        TrainConfig(1, "cpu", 4, 2, 3e-3, 3e-4, 1, 0.1, 0.9, 0.95, 1.0, 2),
        SampleConfig("The", 5, 1.0),
    )
    assert train(["--config", str(write(config, tmp_path / "config.json")), "--out", str(tmp_path / "run")]) == 0
    assert export([str(tmp_path / "run"), str(tmp_path / "hf")]) == 0
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    assert tokenizer.padding_side == "left"
    batch = tokenizer(["Fellow Citizens", "The"], padding=True, return_tensors="pt")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "hf")
    model.generate(batch["input_ids"], attention_mask=batch["attention_mask"], max_new_tokens=3, do_sample=False)
    write_text = pipeline("text-generation", model=str(tmp_path / "hf"), device="cpu")
    (found,) = write_text("Fellow", max_new_tokens=5, do_sample=False)
    assert found["generated_text"].startswith("Fellow")
    assert export([str(tmp_path), str(tmp_path / "none")]) == 1
    assert "holds no run" in capsys.readouterr().err
