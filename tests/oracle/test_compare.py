"""The comparison behind `cemc check`: a hand-written gated MLP passes, and each way to get it wrong is seen."""

from __future__ import annotations

import math
import random as python_random
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cemc.oracle.compare import TOLERANCE, Comparison, build, relative_error
from cemc.oracle.draw import draw, draw_sizes
from cemc.oracle.sizes import header_sizes
from tests.oracle.support import typed

GATED = (Path(__file__).parents[2] / "examples" / "energies" / "cem_mlp.cem").read_text()
MLP = typed(GATED.replace("integral[silu]", "integral[sin]"))
MIXED = """
energy mixed(d, heads = 2, r = d / heads, taps = 3) {
  axis source
  state x[token, d]
  state v[token, d] = 0
  given m[source, d]
  given kind[source]: int
  given t
  param Q[heads, r, d]
  param T[taps, d] = 2
  positive param p[d]
  E[i] = sum[k](logsumexp[j in source](dot(rope(Q[k] @ x[i], i), Q[k] @ m[j]) + sum(T[kind[j]])))
  update { x[i] = x[i] + v[i] - t * p * grad[x](E)[i] }
}
"""


class Mlp(nn.Module):
    """Right, unless `fault` says otherwise."""

    fault = ""

    def __init__(self, d: int, f: int, backend: str, device: str, dtype: torch.dtype) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(f, d, device=device, dtype=dtype))
        self.V = nn.Parameter(torch.zeros(f, d, device=device, dtype=dtype))

    def norm(self, x: Tensor) -> Tensor:
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + (1e-5 if self.fault == "eps" else 1e-6))

    def forward(self, x: Tensor, steps: int | None = None) -> Tensor:
        for _ in range(1 if steps is None or self.fault == "steps" else steps):
            z = self.norm(x)
            gate = (z.detach() if self.fault == "detached" else z) @ self.V.T
            x = x + (torch.sin(z @ self.W.T) * gate) @ self.W
        return x.abs() if self.fault == "shape" else x

    def energy(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        held = x if context is None or self.fault == "context" else context
        return -((1 - torch.cos(self.norm(x) @ self.W.T)) * (self.norm(held) @ self.V.T)).sum(-1)


def largest_errors(layer_class: type[nn.Module]) -> dict[str, float]:
    errors: dict[str, float] = {}
    for seed in range(3):
        configuration = draw(MLP, seed, batch=((), (2,), (2, 3))[seed])
        layer = build(layer_class, configuration, "generic")
        for name, error in Comparison(MLP, configuration, seed).errors(layer).items():
            errors[name] = max(error, errors.get(name, 0.0))
    return errors


def test_a_right_module_passes() -> None:
    errors = largest_errors(Mlp)
    assert {
        "update: x",
        "update to x",
        "update to W",
        "update in 2 steps to V",
        "E: E",
        "E in context to context x",
    } <= set(errors)
    assert max(errors.values()) < 1e-12


@pytest.mark.parametrize(
    ("fault", "seen_in"),
    [
        ("eps", "update: x"),
        ("steps", "update in 2 steps: x"),
        ("detached", "update to x"),
        ("context", "E in context: E"),
        ("shape", "update: x"),
    ],
)
def test_each_fault_is_seen(fault: str, seen_in: str) -> None:
    errors = largest_errors(type("Faulty", (Mlp,), {"fault": fault}))
    assert errors[seen_in] > TOLERANCE


def test_missing_parameters_are_refused() -> None:
    class Tied(Mlp):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            del self.V

    with pytest.raises(ValueError, match="the module has parameters"):
        build(Tied, draw(MLP, 0), "generic")


def test_relative_error() -> None:
    one, nan = torch.ones(4, dtype=torch.float64), torch.tensor([1.0, math.nan], dtype=torch.float64)
    assert relative_error(one * (1 + 1e-6), one) == pytest.approx(1e-6)
    assert relative_error(one * 1e-12, one * 0, scale=1.0) > TOLERANCE
    assert relative_error(one * 1e-16, one * 0, scale=1.0) < TOLERANCE
    assert relative_error(one[:3], one) == math.inf
    assert relative_error(nan, one[:2]) == math.inf
    assert relative_error(nan, nan) == 0.0


def test_drawn_configurations_fit_the_energy() -> None:
    energy = typed(MIXED)
    seen = set()
    for seed in range(30):
        configuration = draw(energy, seed, batch=(2, 3))
        sizes = configuration.sizes
        assert sizes["r"] * sizes["heads"] == sizes["d"]
        assert sizes["r"] % 2 == 0
        kind = configuration.givens["kind"]
        assert -1 <= int(kind.min()) <= int(kind.max()) <= sizes["taps"]
        shapes = [value.shape for value in configuration.givens.values()]
        assert configuration.states["x"].shape[:2] == (2, 3)
        assert set(configuration.states) == {"x"}
        assert bool((configuration.parameters["p"] > 0).all())
        assert configuration.parameters["T"].shape == (sizes["taps"], sizes["d"])
        assert set(configuration.raw) == {"Q", "T", "p_raw"}
        seen.add((sizes["heads"], *shapes))
    assert len(seen) > 20
    again = draw(energy, 3, batch=(2, 3))
    assert torch.equal(again.states["x"], draw(energy, 3, batch=(2, 3)).states["x"])
    assert draw_sizes(energy, python_random.Random(5)) == draw_sizes(energy, python_random.Random(5))


@pytest.mark.parametrize(
    "header", ["d, h = d / 64, r = d / h", "d, r = d / 96", "d, r = 1000 * d", "d, r = d - 1000", "d, r = d / (4 * 40)"]
)
def test_headers_that_small_sizes_do_not_fit(header: str) -> None:
    text = f"energy wide({header}) {{ state x[token, d] param W[r, d] E[i] = norm2(W @ x[i]) }}"
    energy = typed(text)
    configuration = draw(energy, 5)
    assert configuration.sizes == header_sizes(energy, d=configuration.sizes["d"])
    assert configuration.parameters["W"].shape == (configuration.sizes["r"], configuration.sizes["d"])


NOTHING = """
energy nothing(d) {
  state x[token, d]
  given c[token, d]
  q[i in d, j in token] = cos(logsumexp[k in token](norm2(x[k])))
  E[i] = norm2(normalize(c[i]) - layernorm(sum[j in d](c[i, j]) * q2)) + norm2(x[i]) / 2
  q2[i in d] = q[i, 0]
}
"""


@pytest.mark.parametrize("seed", range(4))
def test_noise_of_what_is_mathematically_nothing_is_no_error(seed: int) -> None:
    """The update is 0, of terms that layernorm makes a million times larger in its second derivative: any two ways to
    compute it differ by all of it. An error that is not noise is seen all the same."""
    energy = typed(NOTHING)
    configuration = draw(energy, seed, {"d": 4}, {"token": 3})
    comparison = Comparison(energy, configuration, seed, second=True)
    from tests.emit.support import layer_class

    layer = build(layer_class(NOTHING), configuration, "generic")
    assert all(error < TOLERANCE for error in comparison.errors(layer).values())
    forward = layer.forward
    layer.forward = lambda x, **givens: forward(x, **givens) + 1e-8 * x
    errors = comparison.errors(layer)
    assert errors["update: x"] > TOLERANCE and errors["update to x"] > TOLERANCE
