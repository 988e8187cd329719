"""The energies of a model's layers while it runs: what each step does to the energy it is a step on.

For step s of a layer, x_s its tokens before and x_(s+1) after: the conditional energy E(x | context) at both, its
gradient at x_s by x, and the step x_(s+1) - x_s. The context is what the step has held: the layer's input for an energy
with `input`, else x_s.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from examples.lm.files import atomic_path
from examples.lm.model import Decoder
from examples.lm.plot import colour, figure_of, finish_axes

Reading = dict[str, Any]


def energies(model: Decoder, tokens: Tensor, steps: int | None = None) -> list[Reading]:
    """One reading for each energy and step, from input to output, of tokens [batch, token].

    A reading has `layer`, its number; `label`; `repeat`, the step; `energy`, its name in the file; `before`, `after`
    and `decrease`, per token; `gradient_norm` and `step_norm`, root mean squares of the norms of tokens; and
    `alignment`, the cosine between the step and minus the gradient.
    """
    found: list[Reading] = []
    training = model.training
    model.eval()
    with torch.no_grad():
        x = model.embedding(tokens) * model.d**0.5  # [batch, token, d]
        givens = model.givens(tokens, None)
    layers: list[Any] = list(model.layers)
    for number, (layer, call) in enumerate(zip(layers, model.calls, strict=True)):
        mine = {name: givens[name] for name in call.facts.givens}
        if not call.is_energy:
            with torch.no_grad():
                x = layer(x)
            continue
        repeats = model.steps(call, steps) or call.repeats
        states = [x]
        for repeat in range(repeats):
            with torch.no_grad():
                states.append(layer(x, steps=repeat + 1, **mine))
            context = x if call.facts.holds_input else states[repeat]
            for name in call.facts.energies:
                found.append({"layer": number, "label": call.label, "repeat": repeat, "energy": name})
                which = {"name": name} if len(call.facts.energies) > 1 else {}
                found[-1] |= _reading(layer.energy, states[repeat], states[-1], context, {**mine, **which})
        x = states[-1]
    model.train(training)
    return found


def _reading(energy: Callable[..., Tensor], before: Tensor, after: Tensor, context: Tensor, more: Any) -> Reading:
    at = before.clone().requires_grad_()
    with torch.enable_grad():
        value = energy(at, context=context, **more).sum()
        (gradient,) = torch.autograd.grad(value, at)
    with torch.no_grad():
        reached = energy(after, context=context, **more).sum()
    count = before[..., 0].numel()  # tokens
    step = after - before
    norms = [u.float().norm(dim=-1).square().mean().sqrt().item() for u in (gradient, step)]
    cosine = -(gradient * step).sum() / (gradient.norm() * step.norm()).clamp(min=1e-30)
    first, last = value.item() / count, reached.item() / count
    return {
        "before": first,
        "after": last,
        "decrease": first - last,
        "gradient_norm": norms[0],
        "step_norm": norms[1],
        "alignment": cosine.item(),
    }


def plot_energies(rows: list[Reading], path: Path) -> None:
    """Decrease, gradient norm, step norm and alignment of every energy against the step of training."""
    figure = figure_of(9.6, 6.4)
    names = {
        "decrease": "decrease of the energy, per token",
        "gradient_norm": "norm of its gradient",
        "step_norm": "norm of the step",
        "alignment": "cosine of step and minus gradient",
    }
    lines: dict[tuple[Any, ...], list[Reading]] = {}
    for row in rows:
        lines.setdefault((row["layer"], row["repeat"], row["energy"]), []).append(row)
    most = max(layer for layer, _, _ in lines) + 1
    for axes, (key, title) in zip(figure.subplots(2, 2).flat, names.items(), strict=True):
        for (layer, repeat, energy), readings in lines.items():
            label = f"{layer}: {readings[0]['label']}" + (f", step {repeat + 1}" if repeat else "")
            label += f", {energy}" if len({name for number, _, name in lines if number == layer}) > 1 else ""
            axes.plot(
                [each["step"] for each in readings],
                [each[key] for each in readings],
                color=colour(layer / max(1, most - 1)),
                linestyle=("-", "--", ":", "-.")[repeat % 4],
                linewidth=1.4,
                label=label,
            )
        finish_axes(axes, title, "step of training", "")
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False, fontsize=7)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, format="png")
