"""One run on several processes, as `torchrun` starts them: every rank has a part of each batch.

"ddp": each rank holds the whole model. "fsdp": parameters, gradients and optimiser state lie in parts on the ranks, and
a layer is put together when it is called (FSDP2).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.nn.parallel import DistributedDataParallel

from examples.lm.model import Decoder

KINDS = ("", "ddp", "fsdp")


class ParallelError(Exception):
    """The processes cannot share the run; the message says why."""


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is. Alone, without `torchrun`: the first of one."""

    kind: str = ""
    rank: int = 0
    world: int = 1
    local: int = 0  # on this machine

    @property
    def first(self) -> bool:
        """Whether this process writes the files and the terminal."""
        return self.rank == 0

    def device(self, wanted: str) -> str:
        """The device of this rank."""
        return f"cuda:{self.local}" if wanted == "cuda" and self.world > 1 else wanted

    def rows(self, batch: Tensor, part: int, parts: int) -> Tensor:
        """This rank's rows of part `part` of `parts` of a batch [rows, ...]."""
        if len(batch) % (parts * self.world):
            raise ParallelError(f"a batch of {len(batch)} does not divide into {parts} parts on {self.world} processes")
        return batch.unflatten(0, (parts, self.world, -1))[part, self.rank]

    def wait(self) -> None:
        """Until all are here."""
        if self.world > 1:
            dist.barrier()

    def total(self, values: Tensor) -> Tensor:
        """The sum over all ranks."""
        if self.world > 1:
            dist.all_reduce(values)
        return values


@contextmanager
def ranks(kind: str, device: str) -> Iterator[Ranks]:
    """The ranks of this run, joined while the block runs. Without `kind` there is one."""
    if not kind:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ParallelError(
                "several processes were started: say how they share the run, with --parallel ddp or fsdp"
            )
        yield Ranks()
        return
    if "RANK" not in os.environ:
        raise ParallelError(
            f"--parallel {kind} is for several processes: torchrun --nproc-per-node N -m examples.lm.train"
        )
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo")  # losses are summed on the CPU
    try:
        yield Ranks(kind, dist.get_rank(), dist.get_world_size(), int(os.environ["LOCAL_RANK"]))
    finally:
        dist.destroy_process_group()


def shared(model: Decoder, kind: str) -> nn.Module:
    """What to call in training; for "fsdp" the model itself, its parameters now in parts."""
    if kind == "ddp":
        return DistributedDataParallel(model)
    if kind == "fsdp":
        mesh = dist.device_mesh.init_device_mesh(model.embedding.weight.device.type, (dist.get_world_size(),))
        for layer, call in zip(model.layers, model.calls, strict=True):
            fully_shard(layer, mesh=mesh)
            if call.is_energy:
                register_fsdp_forward_method(layer, "energy")
        fully_shard(model, mesh=mesh)
    return model


@contextmanager
def gradients_stay(model: nn.Module, stay: bool) -> Iterator[None]:
    """While the block runs, gradients are not yet exchanged between ranks if `stay`: more are to be added to them."""
    if isinstance(model, DistributedDataParallel) and stay:
        with model.no_sync():
            yield
        return
    if isinstance(model, FSDPModule):
        model.set_requires_gradient_sync(not stay)
    yield
