"""The look of all plots, and the loss plot of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from examples.lm.checkpoint import Row
from examples.lm.files import atomic_path

TRAIN, VALIDATION, GRID, INK = "#8fa9c9", "#1f4e8c", "#e6e8eb", "#3c4043"


def figure_of(width: float, height: float) -> Any:
    """An empty figure, in inches. Not pyplot's: it needs no display and leaves no global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def colour(place: float) -> Any:
    """A colour of a scale, from 0 to 1."""
    from matplotlib import colormaps

    return colormaps["viridis"](0.9 * place)


def finish_axes(axes: Any, title: str, x: str, y: str) -> None:
    """Titles and the plain look that all plots share."""
    axes.set_title(title, loc="left", color=INK, fontsize=11, fontweight="bold")
    axes.set_xlabel(x, color=INK)
    axes.set_ylabel(y, color=INK)
    axes.margins(x=0.02)
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(GRID)


def plot_losses(rows: list[Row], entropy: float, title: str, path: Path) -> None:
    """Training and validation loss against the step, with the unigram entropy as the line to get below."""
    figure = figure_of(7.2, 4.3)
    axes = figure.add_subplot()
    steps = [row["step"] for row in rows]
    # A training loss is the mean since the row before, so it belongs between the two.
    middles = [(step + before) / 2 for before, step in zip([0, *steps], steps, strict=False)]
    axes.plot(middles, [row["train_loss"] for row in rows], color=TRAIN, linewidth=1.6, label="training")
    validation = [row["val_loss"] for row in rows]
    axes.plot(
        steps, validation, color=VALIDATION, linewidth=2.2, marker="o", markersize=3.5, label="held-out documents"
    )
    axes.axhline(entropy, color=INK, linewidth=1.1, linestyle=(0, (5, 3)), label=f"unigram entropy, {entropy:.2f}")
    axes.annotate(
        f"{validation[-1]:.2f}",
        (steps[-1], validation[-1]),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        color=VALIDATION,
        annotation_clip=False,
    )
    finish_axes(axes, title, "step", "loss in nats per token")
    axes.legend(frameon=False, labelcolor=INK)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")
