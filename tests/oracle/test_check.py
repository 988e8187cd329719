"""`check_file`: one report for each energy and backend, the same for the same seed, and red where a module is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cemc.check
from cemc.check import CheckReport, check_file
from cemc.compiler import load

TEXT = """
energy first(d) { state x[token, d] positive param a[d] E[i] = dot(a, square(x[i])) / 2 }
energy second(d, f = 2 * d) {
  state x[token, d]
  given t
  param W[f, d]
  A[i] = sum(softplus(W @ x[i]))
  B[i] = norm2(x[i] - given(x[i - 1])) / 2
  update { x[i] = x[i] - t * grad[x](A)[i]  x[i] = x[i] - 0.1 * grad[x](B)[i] }
}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "two.cem"
    path.write_text(TEXT)
    return path


def reports(path: Path, seed: int = 0) -> dict[tuple[str, str], CheckReport]:
    return {(report.energy, report.backend): report for report in check_file(path, seed, rounds=3)}


def test_every_energy_on_every_backend(path: Path) -> None:
    found = reports(path)
    assert set(found) == {(energy, backend) for energy in ("first", "second") for backend in ("generic", "torch")}
    assert all(report.passed for report in found.values())
    assert set(found["first", "generic"].gradients) == {"x", "context x", "a_raw"}
    assert set(found["second", "torch"].gradients) == {"x", "context x", "t", "W"}
    assert all(0 < report.largest < 1e-12 for report in found.values())


def test_a_seed_determines_the_report(path: Path) -> None:
    assert reports(path, seed=5) == reports(path, seed=5)
    assert reports(path, seed=5) != reports(path, seed=6)


def test_a_wrong_module_fails(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_wrong(path: Path, name: str) -> type[torch.nn.Module]:
        right: Any = load(path, name)

        class Wrong(right):
            def forward(self, x: Tensor, steps: int | None = None, **givens: Tensor) -> Tensor:
                new: Tensor = super().forward(x, steps=steps, **givens)
                return new.detach() + (new - new.detach()) * 1.0001

        return Wrong if name == "second" else right

    monkeypatch.setattr(cemc.check, "load", load_wrong)
    found = reports(path)
    assert found["first", "generic"].passed
    wrong = found["second", "torch"]
    assert not wrong.passed
    assert wrong.update < 1e-12
    assert wrong.gradients["W"] == pytest.approx(1e-4, rel=1e-2)
    assert wrong.worst.startswith("update to") or wrong.worst.startswith("update in")
