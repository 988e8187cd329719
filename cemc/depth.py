"""Room for recursion: stages follow definitions that build on one another, and a file may have thousands of them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

FRAMES = 60_000
"""Python's own limit is 1,000. What is deeper still raises RecursionError."""

_STACK = 512 * 1024 * 1024
"""Bytes for as many frames, of which only those that are used take memory."""


def deeply(work: Callable[[], T]) -> T:
    """The result of `work`, or what it raises, run where it may recurse as deeply as any file needs."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.extend((work(), None))
        except BaseException as error:
            outcome.extend((None, error))

    limit, size = sys.getrecursionlimit(), threading.stack_size()
    try:
        threading.stack_size(_STACK)
        thread = threading.Thread(target=run, name="cemc", daemon=True)
        sys.setrecursionlimit(max(limit, FRAMES))
        thread.start()
        threading.stack_size(size)
        thread.join()
    except RuntimeError:
        # No thread with such a stack can be had here: as deeply as Python goes by itself.
        sys.setrecursionlimit(limit)
        return work()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    result, error = outcome
    if error is not None:
        raise error
    done: T = result
    return done
