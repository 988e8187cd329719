"""The metrics of a run for TensorBoard, where that is asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from examples.lm.checkpoint import Row


class LogError(Exception):
    """The logs cannot be written; the message says why."""


class Logs:
    """Writes rows of metrics below a folder; without one, nowhere."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.writer: Any = None
        if folder is not None:
            try:
                from torch.utils import tensorboard
            except ImportError as error:
                raise LogError(
                    "--tensorboard needs the package tensorboard: pip install 'cemc[tensorboard]'"
                ) from error
            self.kind: Any = tensorboard.SummaryWriter

    def row(self, row: Row) -> None:
        """One row of metrics. A resumed run takes the place of what an interrupted one has written beyond it."""
        if self.folder is None:
            return
        if self.writer is None:
            self.writer = self.kind(str(self.folder), purge_step=int(row["step"]))
        for name, value in row.items():
            if name != "step":
                self.writer.add_scalar(name, value, int(row["step"]))
        self.writer.flush()

    def close(self) -> None:
        """Everything on disk."""
        if self.writer is not None:
            self.writer.close()
