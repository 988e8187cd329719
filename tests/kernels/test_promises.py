"""What is promised of kernels and shows neither in results nor in tables: which blocks are left out, what an import
needs, and that torch's checks hold for element-wise kernels too."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from triton.runtime.interpreter import InterpreterBuilder

from tests.kernels.test_interpreted import ENERGIES, inputs, kernels_of, outcome, pair


@pytest.mark.parametrize(
    ("name", "sizes", "forward", "backward"),
    [
        # Of 5 x 5 blocks: on and below the diagonal, or only those that a window of 5 reaches; with 2 products forward,
        # and backward 3 for rows and 4 for columns.
        ("cem_attention", {}, 15 * 2, 15 * 7),
        ("sliding_window", {"window": 5}, 9 * 2, 9 * 7),
        ("sliding_window", {"window": 40}, 12 * 2, 12 * 7),
    ],
)
def test_blocks_that_the_mask_excludes_are_skipped(
    name: str, sizes: dict[str, int], forward: int, backward: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, product = [0], InterpreterBuilder.create_dot

    def counting(self: Any, *arguments: Any) -> Any:
        counted[0] += 1
        return product(self, *arguments)

    monkeypatch.setattr(InterpreterBuilder, "create_dot", counting)
    layer, _ = pair(name, torch.float64, heads=1, **sizes)
    arguments = inputs(name, (160,), torch.float64)
    with torch.no_grad():
        layer(**arguments)
    assert counted[0] == forward
    outcome(layer, arguments, torch.ones(160, 16, dtype=torch.float64))
    assert counted[0] == 2 * forward + backward


def test_torch_checks_elementwise_kernels() -> None:
    kernels = kernels_of("cem_mlp")
    first, second, upstream = (torch.randn(5, 6) for _ in range(3))
    torch.library.opcheck(kernels._pointwise_operator, (first, second))
    torch.library.opcheck(kernels._pointwise_operator_gradient, (upstream, first, second))


@pytest.mark.parametrize("name", ["cem_mlp", "relative_bias"])
def test_compiled_and_mapped(name: str) -> None:
    layer, reference = pair(name, torch.float64)
    x = torch.randn(3, 2, 9, 16, dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(layer)(x), reference(x), rtol=1e-9, atol=1e-11)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    found = torch.autograd.grad(compiled(x).square().sum(), list(layer.parameters()))
    wanted = torch.autograd.grad(reference(x).square().sum(), list(reference.parameters()))
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


WITHOUT = """
import sys, torch, triton, cemc
kind = cemc.load(sys.argv[1])
kernels = sys.modules[kind.__module__]._kernels
assert not kernels.INTERPRETED
assert kernels.PRECISE == ("tf32x3" if torch.version.hip is None else "ieee")
x = torch.randn(1, 3, 16)
assert kind(d=16, heads=2)(x).shape == x.shape
try:
    kind(d=16, heads=2, backend="triton")(x)
except ValueError as error:
    print(error)
"""


def test_without_a_driver() -> None:
    """Kernels are imported, `auto` does without them, and whoever asks for them is told what is missing."""
    environment = {n: value for n, value in os.environ.items() if n != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", WITHOUT, str(ENERGIES / "cem_attention.cem")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    wanted = 'backend: "triton" runs on a GPU, in at most 32 bits; got torch.float32 on cpu'
    assert done.stdout.splitlines() == [wanted]
