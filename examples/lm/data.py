"""From text to batches of tokens: documents, split, tokenizer, packing.

What comes of files is a function of them, the configuration and the step; a stream keeps its place in the checkpoint
(`stream.py`). Either way a resumed run sees what an uninterrupted one would have seen.
"""

from __future__ import annotations

import glob
import hashlib
import os
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor

from examples.lm.config import Config, DataConfig
from examples.lm.files import atomic_path

SEPARATOR = "<|document|>"


class DataError(Exception):
    """The text cannot be used; the message says why."""


@dataclass(frozen=True)
class Corpus:
    """Both token streams, each document preceded by the separator, and the tokenizer that made them."""

    train: Tensor  # [tokens], int64; none where training documents are streamed
    validation: Tensor  # [tokens], int64
    tokenizer: Tokenizer
    held_out: tuple[str, ...]  # the names of the validation documents

    @property
    def digest(self) -> str:
        """Tells one corpus from another."""
        return hashlib.sha256(self.train.numpy().tobytes() + self.validation.numpy().tobytes()).hexdigest()


class Source(Protocol):
    """Training batches, one after the other."""

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets, each [batch, context], of a step counted from 0."""

    def peek(self) -> tuple[Tensor, Tensor]:
        """Those of step 0, before anything was taken."""

    def state(self) -> Any:
        """What `load_state` needs to go on from here."""

    def load_state(self, state: Any) -> None:
        """Go on from there."""


@dataclass(frozen=True)
class Data:
    """What a run learns from and what it is measured on."""

    corpus: Corpus
    batches: Source
    validation: list[tuple[Tensor, Tensor]]
    entropy: float


def load_data(config: Config, folder: Path) -> Data:
    """The data of a run; the tokenizer and the data library's cache are kept in `folder`."""
    context, train = config.model.context, config.train
    batches: Source
    if config.data.hub:
        from examples.lm.stream import open_stream

        corpus, batches = open_stream(config, folder)
    else:
        corpus = load_corpus(config.data, folder)
        batches = Batches(corpus.train, context, train.batch, train.seed)
    validation = evaluation_batches(corpus.validation, context, train.batch)
    return Data(corpus, batches, validation, unigram_entropy(corpus.validation))


def load_corpus(config: DataConfig, folder: Path) -> Corpus:
    """The corpus of a configuration; the tokenizer, the tokens and the data library's cache are kept in `folder`."""
    paths = find_files(config.files)
    key = _key(config, paths)
    kept = folder / "corpus.pt"
    if kept.exists() and (stored := torch.load(kept, weights_only=True))["key"] == key:
        tokenizer = Tokenizer.from_str(stored["tokenizer"])
        return Corpus(stored["train"].long(), stored["validation"].long(), tokenizer, tuple(stored["held_out"]))
    documents = load_documents(paths, folder / "cache")
    held_out = tuple(sorted(documents)[config.holdout_every - 1 :: config.holdout_every])
    train = [documents[name] for name in sorted(documents) if name not in held_out]
    validation = [documents[name] for name in held_out]
    if not train or not validation:
        raise DataError(f"{len(documents)} documents leave nothing to train on or nothing to hold out")
    tokenizer = load_tokenizer(train, config.vocabulary, folder / "tokenizer.json")
    corpus = Corpus(pack(tokenizer, train), pack(tokenizer, validation), tokenizer, held_out)
    state: dict[str, Any] = {"key": key, "held_out": list(held_out), "tokenizer": tokenizer.to_str()}
    state |= {"train": corpus.train.int(), "validation": corpus.validation.int()}
    with atomic_path(kept) as temporary:
        torch.save(state, temporary)
    return corpus


def find_files(pattern: str) -> list[Path]:
    """The files that a pattern matches, in name order."""
    paths = [Path(name).resolve() for name in sorted(glob.glob(pattern))]
    if not paths:
        raise DataError(f"no file matches {pattern} (seen from {Path.cwd()})")
    if len({path.stem for path in paths}) != len(paths):
        raise DataError(f"{pattern} matches several files of one name")
    return paths


def _key(config: DataConfig, paths: list[Path]) -> str:
    """Tells whether tokens that were kept are those of these files and this configuration."""
    digest = hashlib.sha256(f"{config.holdout_every} {config.vocabulary}".encode())
    for path in paths:
        digest.update(path.stem.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def load_documents(paths: list[Path], cache: Path) -> dict[str, str]:
    """The text of every file, by file name without its ending."""
    # Nothing is fetched and nothing is written outside the run's folder. The library reads these when imported.
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=str(cache))
    from datasets import disable_progress_bars, load_dataset

    disable_progress_bars()
    rows = load_dataset(
        "text",
        data_files=[glob.escape(str(path)) for path in paths],
        sample_by="document",
        split="train",
        cache_dir=str(cache),
    )
    if len(rows) != len(paths):
        raise DataError(f"{len(paths)} files gave {len(rows)} documents; is one of them empty?")
    return {path.stem: text for path, text in zip(paths, rows["text"], strict=True)}


def load_tokenizer(texts: list[str], vocabulary: int, path: Path) -> Tokenizer:
    """The byte-level BPE of these texts: the one in `path`, or else trained and written there."""
    if path.exists():
        return Tokenizer.from_file(str(path))
    tokenizer = train_tokenizer(texts, vocabulary)
    with atomic_path(path) as temporary:
        tokenizer.save(str(temporary))
    return tokenizer


def train_tokenizer(texts: list[str], vocabulary: int) -> Tokenizer:
    """A byte-level BPE with `vocabulary` entries (fewer if the texts have fewer pairs to merge)."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[SEPARATOR],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def pack(tokenizer: Tokenizer, texts: list[str]) -> Tensor:
    """All texts as one stream of tokens [tokens], the separator before, between and after them."""
    separator = tokenizer.token_to_id(SEPARATOR)
    stream = [separator]
    for encoding in tokenizer.encode_batch(texts):
        stream += [*encoding.ids, separator]
    return torch.tensor(stream, dtype=torch.int64)


class Batches:
    """Training batches by step: every epoch cuts the stream anew and goes through its windows in a new order."""

    def __init__(self, stream: Tensor, context: int, batch: int, seed: int) -> None:
        # Windows overlap by one token, the last target of one being the first input of the next. One window's length
        # is left for the cut to move in.
        self.windows = (len(stream) - 1) // context - 1
        if self.windows < batch:
            raise DataError(f"{len(stream)} training tokens do not fill a batch of {batch} windows of {context}")
        self.stream, self.context, self.batch, self.seed = stream, context, batch, seed
        self.per_epoch = self.windows // batch

    def peek(self) -> tuple[Tensor, Tensor]:
        """The batch of step 0."""
        return self(0)

    def state(self) -> None:
        """Nothing: a batch follows from its step."""

    def load_state(self, state: None) -> None:
        """Nothing to restore."""

    def __call__(self, step: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets, each [batch, context], of a step counted from 0."""
        epoch, index = divmod(step, self.per_epoch)
        # Torch's generator takes 32 bits of a seed, so the two numbers are mixed down to that first.
        generator = torch.Generator().manual_seed(random.Random(f"{self.seed} {epoch}").getrandbits(32))
        offset = int(torch.randint(self.context, (), generator=generator))
        order = torch.randperm(self.windows, generator=generator)[index * self.batch : (index + 1) * self.batch]
        starts = offset + order * self.context  # [batch]
        tokens = self.stream[starts[:, None] + torch.arange(self.context + 1)]  # [batch, context + 1]
        return tokens[:, :-1], tokens[:, 1:]


def evaluation_batches(stream: Tensor, context: int, batch: int) -> list[tuple[Tensor, Tensor]]:
    """Inputs and targets, each [<= batch, <= context], in which every token but the first is a target once."""
    end = (len(stream) - 1) // context * context
    inputs, targets = (stream[shift : end + shift].view(-1, context) for shift in (0, 1))
    batches = list(zip(inputs.split(batch), targets.split(batch), strict=True)) if end else []
    if len(stream) - 1 > end:
        batches.append((stream[None, end:-1], stream[None, end + 1 :]))
    return batches


def unigram_entropy(stream: Tensor) -> float:
    """Entropy in nats of the stream's own token frequencies: the least loss a model without context could reach.

    Counted over the tokens that are targets, all but the first.
    """
    counts = torch.bincount(stream[1:]).double()
    frequencies = counts[counts > 0] / counts.sum()
    return float(-(frequencies * frequencies.log()).sum())
