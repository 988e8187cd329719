"""The evaluation harness (lm_eval) measures a saved model of energies as it does any other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from lm_eval import simple_evaluate
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoTokenizer

from examples.hf.export import main as export
from examples.lm.config import Config, DataConfig, ModelConfig, SampleConfig, StackConfig, TrainConfig
from examples.lm.train import main as train
from tests.lm.conftest import ROOT, energy, write

TEXTS = ["Fellow Citizens of the Senate and of the House of Representatives", "The year now closing"]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained for a few steps, with its tokenizer."""
    folder = tmp_path_factory.mktemp("harness")
    config = Config(
        DataConfig(280, files=f"{ROOT}/examples/data/addresses/179*.txt", holdout_every=4),
        ModelConfig(64, 16),
        (StackConfig((energy("design/attention_padded", heads=2), energy("cem_mlp", f=24)), 2),),
        TrainConfig(1, "cpu", 4, 2, 3e-3, 3e-4, 1, 0.1, 0.9, 0.95, 1.0, 2),
        SampleConfig("The", 5, 1.0),
    )
    assert train(["--config", str(write(config, folder / "config.json")), "--out", str(folder / "run")]) == 0
    assert export([str(folder / "run"), str(folder / "hf")]) == 0
    return folder / "hf"


def harness(saved: Path, batch: int) -> HFLM:
    return HFLM(pretrained=str(saved), device="cpu", batch_size=batch, dtype="float32", backend="causal")


def nats(saved: Path, text: str, given: str = "") -> float:
    """What the model itself gives the tokens of a text after those of `given`: without that, after the separator of
    documents."""
    tokenizer = AutoTokenizer.from_pretrained(saved)
    before = tokenizer.encode(given, add_special_tokens=False) or [tokenizer.bos_token_id]
    whole = tokenizer.encode(given + text, add_special_tokens=False)
    ids = torch.tensor(whole if given else before + whole)
    model = AutoModelForCausalLM.from_pretrained(saved).eval()
    with torch.no_grad():
        losses = cross_entropy(model(ids[None]).logits[0, :-1], ids[1:], reduction="none")
    return losses[len(before) - 1 :].sum().item()


def asked(kind: str, number: int, arguments: tuple[Any, ...]) -> Instance:
    return Instance(kind, {}, arguments, number)


def test_likelihoods_of_whole_texts_are_those_of_the_model(saved: Path) -> None:
    """Batches are padded on the right, which no token sees."""
    requests = [asked("loglikelihood_rolling", n, (text,)) for n, text in enumerate(TEXTS)]
    for batch in (1, 2):
        found = harness(saved, batch).loglikelihood_rolling(requests, disable_tqdm=True)
        assert found == pytest.approx([-nats(saved, text) for text in TEXTS], rel=1e-4)


def test_likelihoods_of_continuations_are_those_of_the_model(saved: Path) -> None:
    parts = [("Fellow Citizens", " of the Senate"), ("The year", " now")]
    requests = [asked("loglikelihood", n, part) for n, part in enumerate(parts)]
    found = harness(saved, 2).loglikelihood(requests, disable_tqdm=True)
    for (context, rest), (likelihood, greedy) in zip(parts, found, strict=True):
        assert likelihood == pytest.approx(-nats(saved, rest, context), rel=1e-4)
        assert isinstance(greedy, bool)


def test_a_task_is_evaluated(saved: Path) -> None:
    """Perplexity per word, from a task that needs no Hub; and text that the harness lets the model write."""
    task = {
        "task": "addresses",
        "custom_dataset": lambda **_: {"test": Dataset.from_dict({"text": TEXTS})},
        "test_split": "test",
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "word_perplexity", "aggregation": "weighted_perplexity"}],
    }
    found = simple_evaluate(
        harness(saved, 2), tasks=[task], task_manager=TaskManager(include_defaults=False), bootstrap_iters=0
    )
    words = sum(len(text.split()) for text in TEXTS)
    expected = torch.tensor(sum(nats(saved, text) for text in TEXTS) / words).exp().item()
    assert found["results"]["addresses"]["word_perplexity,none"] == pytest.approx(expected, rel=1e-3)

    written = harness(saved, 2).generate_until(
        [asked("generate_until", n, (text, {"until": ["."], "max_gen_toks": 4})) for n, text in enumerate(TEXTS)],
        disable_tqdm=True,
    )
    model, tokenizer = AutoModelForCausalLM.from_pretrained(saved), AutoTokenizer.from_pretrained(saved)
    for text, more in zip(TEXTS, written, strict=True):
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        alone = model.generate(ids, max_new_tokens=4, do_sample=False)[0, ids.shape[1] :]
        assert more == str(tokenizer.decode(alone, skip_special_tokens=True)).split(".")[0]


def test_the_command_line_of_the_harness_knows_such_models(saved: Path, tmp_path: Path) -> None:
    """With a task of one's own, as a file; in a process of its own, for lm_eval sets up logging and reads arguments."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")
    task = {
        "task": "addresses",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(rows)}},
        "test_split": "test",
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{text}}",
        "metric_list": [{"metric": "word_perplexity"}],
    }
    (tmp_path / "tasks").mkdir()
    # What is JSON is YAML.
    (tmp_path / "tasks" / "addresses.yaml").write_text(json.dumps(task), encoding="utf-8")
    told = ["--model", "hf", "--model_args", f"pretrained={saved},dtype=float32", "--device", "cpu"]
    told += ["--batch_size", "2", "--tasks", "addresses"]
    told += ["--include_path", str(tmp_path / "tasks"), "--output_path", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-m", "examples.hf.harness", *told],
        cwd=ROOT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (written,) = (tmp_path / "out").rglob("results_*.json")
    found = json.loads(written.read_text(encoding="utf-8"))["results"]["addresses"]
    words = sum(len(text.split()) for text in TEXTS)
    expected = torch.tensor(sum(nats(saved, text) for text in TEXTS) / words).exp().item()
    assert found["word_perplexity,none"] == pytest.approx(expected, rel=1e-3)
