"""Streams of the Hub: what is held out, that nothing is lost or read twice, exact resumption, and being offline."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch

from examples.lm import stream as module
from examples.lm.config import Config, DataConfig
from examples.lm.data import SEPARATOR, DataError
from examples.lm.stream import StreamBatches, documents, load_stream, open_stream
from examples.lm.train import main
from tests.lm.conftest import write

TEXTS = [f"Document {number} says {number * 7} and {number * number}." for number in range(40)]
DATA = DataConfig(vocabulary=270, hub="someone/something", holdout_documents=4, tokenizer_documents=12)


def a_stream() -> Any:
    """What `load_dataset(..., streaming=True)` gives, of texts at hand."""
    from datasets import Dataset

    return Dataset.from_dict({"text": TEXTS}).to_iterable_dataset(num_shards=3)


@pytest.fixture
def streamed(small: Config, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A small run that reads that stream."""
    monkeypatch.setattr(module, "load_stream", lambda config, cache: a_stream())
    return dataclasses.replace(small, data=DATA)


def batches(config: Config, folder: Path, shuffle: int) -> StreamBatches:
    folder.mkdir(exist_ok=True)
    _, found = open_stream(dataclasses.replace(config, data=dataclasses.replace(config.data, shuffle=shuffle)), folder)
    return found


def texts_of(source: StreamBatches, steps: range) -> list[str]:
    """The documents that the batches of these steps hold, the last of them perhaps in part."""
    ids = torch.cat([source(step)[0].flatten() for step in steps]).tolist()
    separator = source.tokenizer.token_to_id(SEPARATOR)
    groups = itertools.groupby(ids, key=lambda token: token == separator)
    return [source.tokenizer.decode(list(group)) for between, group in groups if not between]


def test_the_first_documents_are_held_out_and_the_rest_is_read_in_order(streamed: Config, tmp_path: Path) -> None:
    corpus, source = open_stream(streamed, tmp_path)
    separator = corpus.tokenizer.token_to_id(SEPARATOR)
    assert corpus.tokenizer.decode(corpus.validation.tolist(), skip_special_tokens=True) == "".join(TEXTS[:4])
    assert corpus.validation.tolist().count(separator) == 5
    found = texts_of(source, range(20))
    assert len(found) > 36, "it did not come to the end"
    expected = [*TEXTS[4:], *TEXTS[4:], *TEXTS[4:]]
    assert found[:-1] == expected[: len(found) - 1]
    assert expected[len(found) - 1].startswith(found[-1])


def test_shuffled_documents_are_all_there_once(streamed: Config, tmp_path: Path) -> None:
    found = texts_of(batches(streamed, tmp_path, shuffle=8), range(60))
    assert found[:20] != TEXTS[4:24]
    assert set(TEXTS[4:]) <= set(found)
    # A document waits while others pass it, but never comes again before all have come once, but for those that wait.
    assert len(set(found[:28])) == 28


@pytest.mark.parametrize("shuffle", [0, 8])
@pytest.mark.parametrize("taken", [0, 3, 17])
def test_a_stream_goes_on_where_it_was(streamed: Config, tmp_path: Path, shuffle: int, taken: int) -> None:
    source = batches(streamed, tmp_path, shuffle)
    for step in range(taken):
        source(step)
    source.peek()
    torch.save(source.state(), tmp_path / "state.pt")
    other = batches(streamed, tmp_path, shuffle)
    other.load_state(torch.load(tmp_path / "state.pt", weights_only=True))
    for step in range(taken, taken + 12):
        one, two = source(step), other(step)
        assert torch.equal(one[0], two[0])
        assert torch.equal(one[1], two[1])


def test_windows_overlap_by_the_token_to_predict(streamed: Config, tmp_path: Path) -> None:
    source = batches(streamed, tmp_path, shuffle=0)
    assert torch.equal(source.peek()[0], source.peek()[0])
    parts = [source(step) for step in range(4)]
    inputs = torch.cat([inputs.flatten() for inputs, _ in parts])
    targets = torch.cat([targets.flatten() for _, targets in parts])
    assert torch.equal(inputs[1:], targets[:-1])
    with pytest.raises(ValueError, match="the next step is 4, not 9"):
        source(9)


def test_a_run_of_a_stream_in_parts_ends_like_one_in_a_piece(streamed: Config, tmp_path: Path) -> None:
    config = dataclasses.replace(streamed, data=dataclasses.replace(streamed.data, shuffle=5))
    path = write(config, tmp_path / "config.json")
    for out, parts in (("whole", ("20",)), ("parts", ("6", "13", "20"))):
        for steps in parts:
            assert main(["--config", str(path), "--out", str(tmp_path / out), "--resume", "--steps", steps]) == 0
    one, two = (torch.load(tmp_path / out / "checkpoint.pt", weights_only=True) for out in ("whole", "parts"))
    assert one["progress"]["losses"] == two["progress"]["losses"]
    assert all(torch.equal(tensor, two["model"][name]) for name, tensor in one["model"].items())


def test_what_a_stream_lacks_is_named() -> None:
    with pytest.raises(DataError, match="someone/something has 40 documents, fewer than the 41 held out or tokenized"):
        documents(a_stream(), DATA, 41)
    with pytest.raises(DataError, match="no text in a column 'body'; there are text"):
        documents(a_stream(), dataclasses.replace(DATA, text="body"), 2)


def test_being_offline_is_said(tmp_path: Path, small: Config, capsys: pytest.CaptureFixture[str]) -> None:
    import datasets.config
    import huggingface_hub.constants

    before = datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE
    datasets.config.HF_HUB_OFFLINE = huggingface_hub.constants.HF_HUB_OFFLINE = True
    try:
        with pytest.raises(DataError, match=r"someone/something cannot be read from the Hugging Face Hub: .*offline"):
            load_stream(DATA, tmp_path)
        path = write(dataclasses.replace(small, data=DATA), tmp_path / "config.json")
        assert main(["--config", str(path), "--out", str(tmp_path / "out")]) == 1
        assert "error: the data set someone/something cannot be read" in capsys.readouterr().err
    finally:
        datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE = before
