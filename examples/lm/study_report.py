"""What came of a study: a table, loss curves, and perplexity against parameters and against compute."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from examples.lm.files import atomic_path, write_text
from examples.lm.plot import colour, figure_of, finish_axes

Record = dict[str, Any]
HEAD = (
    "| model | parameters | MFLOP / token | rate | held-out perplexity | runs | speed | tokens / s | memory |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
)


def spread(values: list[float]) -> float:
    """The standard deviation of the runs; 0 of one."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def table(outcomes: dict[str, list[Record]], speeds: dict[str, Record | None]) -> str:
    """One line for each model that has run: means over seeds, with the standard deviation of the perplexity.

    Speed is the ratio to the first row, side by side; memory the largest resident size of a process.
    """
    lines = []
    for name, runs in outcomes.items():
        if not runs:
            continue
        perplexities = [run["perplexity"] for run in runs]
        # One run has no spread.
        about = f" ± {spread(perplexities):.2f}" if len(runs) > 1 else ""
        memory = max(run["peak_memory"] for run in runs)
        timed = speeds.get(name)
        speed = "" if timed is None else f"{timed['ratio']:.2f}"
        tokens = "" if timed is None else f"{timed['tokens_per_second']:,.0f}"
        lines.append(
            f"| {name} | {runs[0]['parameters']:,} | {runs[0]['flops_per_token'] / 1e6:.2f} "
            f"| {runs[0]['learning_rate']:g} | {statistics.fmean(perplexities):.2f}{about} "
            f"| {len(runs)} | {speed} | {tokens} | {memory / 2**20:,.0f} MiB |\n"
        )
    return HEAD + "".join(lines)


def report(outcomes: dict[str, list[Record]], speeds: dict[str, Record | None], folder: Path) -> str:
    """Write `table.md`, `curves.png` and `tradeoff.png` to `folder`; the table."""
    text = table(outcomes, speeds)
    done = {name: runs for name, runs in outcomes.items() if runs}
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "table.md", text)
    if done:
        _curves(done, folder / "curves.png")
        _tradeoff(done, folder / "tradeoff.png")
    return text


def _curves(outcomes: dict[str, list[Record]], path: Path) -> None:
    figure = figure_of(8.6, 4.6)
    axes = figure.add_subplot()
    for number, (name, runs) in enumerate(outcomes.items()):
        shade = colour(number / max(1, len(outcomes) - 1))
        block, tokens = runs[0]["curve_block"], runs[0]["tokens"] / runs[0]["step"]
        places = [(index + 0.5) * block * tokens / 1e3 for index in range(len(runs[0]["curve"]))]
        means = [statistics.fmean(values) for values in zip(*(run["curve"] for run in runs), strict=True)]
        axes.plot(places, means, color=shade, linewidth=1.3, linestyle=("-", "--", ":")[number % 3], label=name)
        last = statistics.fmean(run["val_loss"] for run in runs)
        axes.plot([runs[0]["tokens"] / 1e3], [last], color=shade, marker="o", markersize=4)
    finish_axes(axes, "Training loss, means over seeds; dots: held-out", "thousands of tokens", "nats per token")
    first = max(run["curve"][min(3, len(run["curve"]) - 1)] for runs in outcomes.values() for run in runs)
    axes.set_ylim(top=first)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")


def _tradeoff(outcomes: dict[str, list[Record]], path: Path) -> None:
    figure = figure_of(10.4, 4.6)
    against = (("parameters", "thousands of parameters", 1e3), ("compute", "training compute, TFLOP", 1e12))
    for axes, (title, label, unit) in zip(figure.subplots(1, 2), against, strict=True):
        for number, (name, runs) in enumerate(outcomes.items()):
            values = [run["perplexity"] for run in runs]
            amount = runs[0]["parameters"] if title == "parameters" else runs[0]["flops_per_token"] * runs[0]["tokens"]
            axes.errorbar(
                [amount / unit],
                [statistics.fmean(values)],
                yerr=[spread(values)],
                color=colour(number / max(1, len(outcomes) - 1)),
                marker="os^Dv"[number % 5],
                capsize=3,
                linestyle="none",
                label=name,
            )
        finish_axes(axes, f"Held-out perplexity against {title}", label, "perplexity, mean and spread of seeds")
        axes.margins(x=0.1)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=8)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")
