"""Low precision: the layer is no worse than twice the energy evaluated eagerly in the same precision, plus a few ulp;
and large logits stay finite."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from cemc import load
from cemc.oracle.compare import build
from cemc.oracle.draw import draw
from cemc.oracle.oracle import Oracle
from tests.properties.support import compiled

GALLERY = sorted((Path(__file__).parents[2] / "examples" / "energies").glob("*.cem"))
ULPS = 3


def rms(value: Tensor) -> float:
    return float(value.detach().double().square().mean().sqrt())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_error_against_float64(path: Path, dtype: torch.dtype) -> None:
    energy, layer_class = compiled(path)
    drawn = draw(energy, 1, batch=(2,), lengths={"token": 12})

    def cast(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        return {n: v.detach().to(dtype) if v.is_floating_point() else v for n, v in tensors.items()}

    exact = Oracle(energy, drawn.sizes, drawn.parameters, drawn.constants).update(drawn.states, drawn.givens)
    states, givens = cast(dict(drawn.states)), cast(dict(drawn.givens))
    eager = Oracle(energy, drawn.sizes, cast(drawn.parameters), drawn.constants, dtype=dtype).update(states, givens)
    for backend in ("generic", "torch"):
        layer = build(layer_class, drawn, backend).to(dtype)
        with torch.no_grad():
            result = layer(*states.values(), **givens)
        for name, found in zip(exact, [result] if isinstance(result, Tensor) else result, strict=True):
            assert found.dtype == dtype
            error, allowed = rms(found.double() - exact[name]), rms(eager[name].double() - exact[name])
            assert error <= 2 * allowed + ULPS * torch.finfo(dtype).eps * rms(exact[name]), (backend, name)


@pytest.mark.parametrize("backend", ["generic", "torch"])
@pytest.mark.parametrize("name", ["cem_attention", "alibi", "attention_sink", "sliding_window"])
def test_logits_of_ten_thousand(name: str, backend: str) -> None:
    path = next(path for path in GALLERY if path.stem == name)
    energy, _ = compiled(path)
    drawn = draw(energy, 0, batch=(), lengths={"token": 9})
    layer = build(load(path, name), drawn, backend).float()
    with torch.no_grad():
        layer.Q.mul_(1e2)
        layer.K.mul_(1e2)
    states = [value.detach().float().requires_grad_() for value in drawn.states.values()]
    result = layer(*states, **drawn.givens)
    result.sum().backward()
    assert result.isfinite().all()
    assert all(value.grad is not None and value.grad.isfinite().all() for value in (*states, *layer.parameters()))
