"""How much memory tensors take at once."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Live(TorchDispatchMode):
    """Counts the bytes of the storages that operations return, as long as they live."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, torch.Tensor):
                self._note(value.untyped_storage())
        return result

    def _note(self, storage: Any) -> None:
        pointer, size = storage._cdata, storage.nbytes()
        if pointer in self._known:
            return
        self._known.add(pointer)
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._gone, pointer, size)

    def _gone(self, pointer: int, size: int) -> None:
        self._known.discard(pointer)
        self.now -= size


def peak(run: Callable[[], Any]) -> int:
    """The most bytes that tensors made while `run` runs took at once, those freed meanwhile not counted."""
    with _Live() as live:
        run()
    return live.most
