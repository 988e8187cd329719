"""Text to tokens: what is held out, that nothing is lost, and that it is the same every time."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from examples.lm.config import Config
from examples.lm.data import (
    SEPARATOR,
    Batches,
    DataError,
    evaluation_batches,
    find_files,
    load_corpus,
    load_documents,
    pack,
    train_tokenizer,
    unigram_entropy,
)
from tests.lm.conftest import ROOT

ADDRESSES = ROOT / "examples" / "data" / "addresses"


def test_the_committed_text_is_the_recorded_one() -> None:
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(ADDRESSES.glob("*.txt")))).hexdigest()
    assert digest in (ADDRESSES.parent / "README.md").read_text(encoding="utf-8")


def test_documents_arrive_whole_and_under_their_names(small: Config, documents: Path, tmp_path: Path) -> None:
    loaded = load_documents(find_files(small.data.files), tmp_path)
    assert loaded == {path.stem: path.read_text(encoding="utf-8") for path in documents.glob("*.txt")}
    assert len(loaded) == 9


def test_every_fourth_document_is_held_out_from_model_and_tokenizer(
    small: Config, documents: Path, tmp_path: Path
) -> None:
    corpus = load_corpus(small.data, tmp_path)
    texts = [path.read_text(encoding="utf-8") for path in sorted(documents.glob("*.txt"))]
    held_out = [texts[3], texts[7]]
    seen = [text for text in texts if text not in held_out]
    assert corpus.held_out == ("document 3", "document 7")
    assert corpus.tokenizer.to_str() == train_tokenizer(seen, small.data.vocabulary).to_str()
    assert torch.equal(corpus.train, pack(corpus.tokenizer, seen))
    assert torch.equal(corpus.validation, pack(corpus.tokenizer, held_out))


def test_the_demo_holds_out_what_the_readme_says() -> None:
    names = sorted(path.stem for path in ADDRESSES.glob("*.txt"))
    readme = (ADDRESSES.parent / "README.md").read_text(encoding="utf-8")
    assert len(names[8::9]) == 5
    assert all(name in readme for name in names[8::9])


def test_the_tokenizer_loses_nothing_and_separates_documents(small: Config, tmp_path: Path) -> None:
    tokenizer = load_corpus(small.data, tmp_path).tokenizer
    texts = ["Fellow-Citizens,\n\n  of the Senate ", "‘til £3 — 東京\t\x00", ""]
    separator = tokenizer.token_to_id(SEPARATOR)
    assert separator is not None
    stream = pack(tokenizer, texts)
    ends = torch.nonzero(stream.eq(separator)).flatten().tolist()
    assert len(ends) == 4
    assert (ends[0], ends[-1]) == (0, len(stream) - 1)
    parts = [tokenizer.decode(stream[a + 1 : b].tolist()) for a, b in itertools.pairwise(ends)]
    assert parts == texts


def test_tokenizer_and_split_are_the_same_in_another_process(small_file: Path, small: Config, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from examples.lm.config import load_config\n"
        "from examples.lm.data import load_corpus\n"
        "print(load_corpus(load_config(Path(sys.argv[1])).data, Path(sys.argv[2])).digest)"
    )
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "7",
        "TOKENIZERS_PARALLELISM": "false",
        "HOME": str(tmp_path / "home"),
    }
    output = subprocess.run(
        [sys.executable, "-c", program, str(small_file), str(tmp_path / "other")],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    here = load_corpus(small.data, tmp_path / "here")
    again = load_corpus(small.data, tmp_path / "here")  # now from the cached tokenizer
    assert output.split() == [here.digest]
    assert again.digest == here.digest
    assert (tmp_path / "here" / "tokenizer.json").read_bytes() == (tmp_path / "other" / "tokenizer.json").read_bytes()
    assert not (tmp_path / "home").exists(), "loading wrote into the home folder"


def test_an_epoch_visits_each_window_once_and_the_next_differently() -> None:
    stream = torch.arange(1000)
    batches = Batches(stream, context=10, batch=7, seed=3)
    epochs = []
    for epoch in range(2):
        steps = range(epoch * batches.per_epoch, (epoch + 1) * batches.per_epoch)
        inputs = torch.cat([batches(step)[0] for step in steps])
        assert inputs.shape == (98, 10)
        assert len(inputs.unique()) == inputs.numel(), "a token was an input twice in one epoch"
        epochs.append(inputs)
    assert not torch.equal(epochs[0], epochs[1])
    assert not torch.equal(epochs[0].sort(dim=0).values, epochs[1].sort(dim=0).values), "the cut did not move"


def test_batches_are_a_function_of_seed_and_step() -> None:
    stream = torch.arange(1000)
    one, two, other = (Batches(stream, context=10, batch=7, seed=seed) for seed in (3, 3, 4))
    for step in (17, 0, 31):
        inputs, targets = one(step)
        assert torch.equal(inputs, two(step)[0])
        assert not torch.equal(inputs, other(step)[0])
        assert torch.equal(targets, inputs + 1)


def test_a_batch_that_cannot_be_filled_is_refused() -> None:
    with pytest.raises(DataError, match="79 training tokens do not fill a batch of 7 windows of 10"):
        Batches(torch.arange(79), context=10, batch=7, seed=0)


@pytest.mark.parametrize("length", [2, 10, 11, 12, 60, 61, 95])
def test_evaluation_predicts_every_token_but_the_first_once(length: int) -> None:
    stream = torch.arange(length)
    batches = evaluation_batches(stream, context=10, batch=2)
    assert torch.equal(torch.cat([targets.flatten() for _, targets in batches]), stream[1:])
    assert torch.equal(torch.cat([inputs.flatten() for inputs, _ in batches]), stream[:-1])
    assert all(inputs.shape[0] <= 2 and inputs.shape[1] <= 10 for inputs, _ in batches)


def test_unigram_entropy() -> None:
    assert unigram_entropy(torch.tensor([5, 0, 0, 1, 1])) == pytest.approx(math.log(2))
    assert unigram_entropy(torch.tensor([0, 3, 3, 3])) == 0.0
    expected = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert unigram_entropy(torch.tensor([9, 2, 2, 2, 4])) == pytest.approx(expected)


def test_missing_files_and_too_few_documents_are_said(small: Config, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no file matches nowhere/\*.txt"):
        find_files("nowhere/*.txt")
    with pytest.raises(DataError, match="9 documents leave nothing"):
        load_corpus(dataclasses.replace(small.data, holdout_every=10), tmp_path)


def test_kept_tokens_are_used_again_and_only_for_the_same_text(
    small: Config, documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, copies = tmp_path / "run", tmp_path / "copies"
    copies.mkdir()
    for path in documents.glob("*.txt"):
        (copies / path.name).write_bytes(path.read_bytes())
    config = dataclasses.replace(small.data, files=f"{copies}/*.txt")
    folder.mkdir()
    first = load_corpus(config, folder)
    with monkeypatch.context() as patch:
        patch.setattr("examples.lm.data.load_documents", None)
        again = load_corpus(config, folder)
    assert (again.digest, again.held_out) == (first.digest, first.held_out)
    assert again.tokenizer.to_str() == first.tokenizer.to_str()
    (copies / "document 1.txt").write_text("Something else.", encoding="utf-8")
    assert load_corpus(config, folder).digest != first.digest
