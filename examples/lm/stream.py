"""Training documents streamed from the Hugging Face Hub: the first ones are held out, the tokenizer learns from those
after them, the model from all that are not held out.

The place in the stream, the documents that wait to be drawn and the tokens left over are in the checkpoint, so a
resumed run goes on with the very next token. Every process reads the whole stream and trains on its rows of a batch.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from examples.lm.config import Config, DataConfig
from examples.lm.data import SEPARATOR, Corpus, DataError, load_tokenizer, pack

Stream = Any
"""An iterable data set of the data library, with `state_dict` and `load_state_dict`."""


def open_stream(config: Config, folder: Path) -> tuple[Corpus, StreamBatches]:
    """Held-out documents and tokenizer, and the batches of the rest of the stream."""
    data = config.data
    stream = load_stream(data, folder / "cache")
    head = documents(stream, data, data.holdout_documents + data.tokenizer_documents)
    held_out, learnt = head[: data.holdout_documents], head[data.holdout_documents :]
    tokenizer = load_tokenizer(learnt, data.vocabulary, folder / "tokenizer.json")
    names = tuple(f"{data.hub} {number}" for number in range(len(held_out)))
    corpus = Corpus(torch.empty(0, dtype=torch.int64), pack(tokenizer, held_out), tokenizer, names)
    rest = stream.skip(data.holdout_documents)
    train = config.train
    return corpus, StreamBatches(rest, tokenizer, data, config.model.context, train.batch, train.seed)


def load_stream(config: DataConfig, cache: Path) -> Stream:
    """The data set of a configuration, streamed. DataError where the Hub cannot be reached or has no such data set."""
    from datasets import load_dataset
    from datasets.exceptions import DatasetNotFoundError

    try:
        return load_dataset(config.hub, config.subset or None, split=config.split, streaming=True, cache_dir=str(cache))
    except (DatasetNotFoundError, ValueError) as error:
        raise DataError(f"the data set {config.hub}: {_first_line(error)}") from error
    except OSError as error:  # ConnectionError is one
        raise DataError(
            f"the data set {config.hub} cannot be read from the Hugging Face Hub: {_first_line(error)}. Is this "
            "machine offline, or HF_HUB_OFFLINE set? Local text needs no network: files in place of hub"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0].rstrip(".") or type(error).__name__


def documents(stream: Stream, config: DataConfig, count: int) -> list[str]:
    """The text of the first `count` documents."""
    found = [_text(row, config) for row in itertools.islice(stream, count)]
    if len(found) < count:
        raise DataError(f"{config.hub} has {len(found)} documents, fewer than the {count} held out or tokenized")
    return found


def _text(row: dict[str, Any], config: DataConfig) -> str:
    if not isinstance(row.get(config.text), str):
        raise DataError(f"{config.hub} has no text in a column {config.text!r}; there are {', '.join(row)}")
    return row[config.text]


class StreamBatches:
    """Batches in the order of the stream, or, with `shuffle`, of documents drawn at random from so many that wait."""

    def __init__(
        self, stream: Stream, tokenizer: Tokenizer, config: DataConfig, context: int, batch: int, seed: int
    ) -> None:
        self.start, self.tokenizer, self.config = stream, tokenizer, config
        self.stream = copy.deepcopy(stream)
        self.context, self.batch = context, batch
        separator = tokenizer.token_to_id(SEPARATOR)
        assert separator is not None, "the tokenizer learnt it before all others"
        self.separator = separator
        self.random = random.Random(seed)
        self.waiting: list[str] = []
        self.tokens = [self.separator]
        self.ahead: tuple[Tensor, Tensor] | None = None
        self.next = 0
        self.rows: Iterator[dict[str, Any]] | None = None

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets, each [batch, context], of the next step."""
        if step != self.next:
            raise ValueError(f"a stream is read in order: the next step is {self.next}, not {step}")
        taken = self.peek() if self.ahead is not None else self._take()
        self.ahead = None
        self.next += 1
        return taken

    def peek(self) -> tuple[Tensor, Tensor]:
        """The batch of the next step, which it stays."""
        if self.ahead is None:
            self.ahead = self._take()
        return self.ahead

    def state(self) -> Any:
        """The place in the stream."""
        return {
            "stream": self.stream.state_dict(),
            "random": self.random.getstate(),
            "waiting": self.waiting,
            "tokens": self.tokens,
            "ahead": self.ahead,
            "next": self.next,
        }

    def load_state(self, state: Any) -> None:
        """Go on from a place."""
        self.stream = copy.deepcopy(self.start)
        self.stream.load_state_dict(state["stream"])
        version, numbers, gauss = state["random"]
        self.random.setstate((version, tuple(numbers), gauss))
        self.waiting, self.tokens = list(state["waiting"]), list(state["tokens"])
        self.ahead, self.next, self.rows = state["ahead"], state["next"], None

    def _take(self) -> tuple[Tensor, Tensor]:
        size = self.batch * self.context
        # The last target of a batch is the first input of the next one.
        while len(self.tokens) <= size:
            self.tokens += [*self.tokenizer.encode(self._document()).ids, self.separator]
        taken, self.tokens = torch.tensor(self.tokens[: size + 1]), self.tokens[size:]
        return taken[:-1].view(self.batch, -1), taken[1:].view(self.batch, -1)

    def _document(self) -> str:
        """The next document; after the last one comes the first again."""
        while len(self.waiting) <= self.config.shuffle:
            if self.rows is None:
                self.rows = iter(self.stream)
            row = next(self.rows, None)
            if row is None:
                # Anew, for one that was resumed would always begin there.
                self.stream = copy.deepcopy(self.start)
                self.rows = iter(self.stream)
                row = next(self.rows, None)
                if row is None:
                    raise DataError(f"{self.config.hub} has no documents left to train on")
            self.waiting.append(_text(row, self.config))
        place = self.random.randrange(len(self.waiting))
        self.waiting[place], self.waiting[-1] = self.waiting[-1], self.waiting[place]
        return self.waiting.pop()
