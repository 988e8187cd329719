"""Generated modules in use: compiled, pickled, copied, checkpointed, transformed; memory."""

from __future__ import annotations

import copy
import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.emit.support import generated, layer_class
from tests.emit.test_arguments import PAIR, TEXT, arguments
from tests.emit.test_layers_by_hand import ATTENTION, MLP


def attention(**more: Any) -> Any:
    torch.manual_seed(0)
    return layer_class(ATTENTION)(d=8, heads=2, **more)


@pytest.mark.parametrize("backend", ["generic", "torch"])
def test_compiled_without_a_graph_break_at_several_lengths(backend: str) -> None:
    layer = attention(backend=backend, dtype=torch.float64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for n in (4, 7, 2):
        x = torch.randn(2, n, 8, dtype=torch.float64, requires_grad=True)
        expected, result = layer(x, steps=2), compiled(x, steps=2)
        torch.testing.assert_close(result, expected)
        (ours,), (theirs,) = (torch.autograd.grad(y.square().sum(), x) for y in (result, expected))
        torch.testing.assert_close(ours, theirs)


def test_compiled_with_givens_and_under_autocast() -> None:
    layer: Any = layer_class(TEXT)(d=4)
    x, givens = torch.randn(2, 5, 4), arguments()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, **givens), layer(x, **givens))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(compiled(x, **givens), layer(x, **givens))
    energy = torch.compile(layer.energy, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(energy(x, **givens), layer.energy(x, **givens))


DEFAULT_COMPILER = """
import torch
from cem_mlp import CemMlp
layer, x = CemMlp(d=8, f=16), torch.randn(3, 5, 8)
torch.testing.assert_close(torch.compile(layer, fullgraph=True)(x), layer(x))
print("the same")
"""


def test_compiled_with_the_default_compiler(tmp_path: Path) -> None:
    """In a process that finds torch under a path without blanks: its C++ compilation does not work under one with."""
    (tmp_path / "packages").symlink_to(Path(torch.__file__).parents[1])
    (tmp_path / "cem_mlp.py").write_text((Path(__file__).parents[2] / "generated" / "cem_mlp.py").read_text())
    path = os.pathsep.join([str(tmp_path / "packages"), str(tmp_path)])
    run = subprocess.run(
        [sys.executable, "-c", DEFAULT_COMPILER],
        env={**os.environ, "PYTHONPATH": path, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
    )
    assert run.stdout == "the same\n", run.stderr


def test_copies_and_pickles() -> None:
    layer = attention()
    x = torch.randn(5, 8)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(other(x), layer(x))
        assert repr(other) == repr(layer)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = attention(backend="generic")
    other.reset_parameters()
    other.load_state_dict(torch.load(file))
    torch.testing.assert_close(other(x), layer(x))


def test_activation_checkpointing() -> None:
    layer = attention(dtype=torch.float64)
    x = torch.randn(5, 8, dtype=torch.float64, requires_grad=True)
    inputs = [x, *layer.parameters()]
    plain = torch.autograd.grad(layer(x, steps=2).square().sum(), inputs)
    again = torch.autograd.grad(checkpoint(layer, x, steps=2, use_reentrant=False).square().sum(), inputs)
    torch.testing.assert_close(again, plain)


def test_second_derivatives() -> None:
    layer = attention(backend="generic", dtype=torch.float64)
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(layer, (x,))
    assert torch.autograd.gradgradcheck(layer.energy, (x, x.detach() + 1))
    pair: Any = layer_class(PAIR)(d=2, e=2, dtype=torch.float64)
    states = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 2), (2,))]
    assert torch.autograd.gradgradcheck(pair, states)


def test_a_second_derivative_that_the_fused_kernel_has_not_is_refused_by_name() -> None:
    layer = attention(backend="torch", dtype=torch.float64)
    x = torch.randn(1, 3, 8, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(layer(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="derivative for aten::_scaled_dot_product"):
        torch.autograd.grad(gradient.sum(), x)


def test_transformed() -> None:
    layer = attention(backend="generic", dtype=torch.float64)
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(layer)(x), layer(x))
    gradient = torch.func.grad(lambda u: layer.energy(u, x[0]).sum())(x[0])
    u = x[0].clone().requires_grad_()
    torch.testing.assert_close(gradient, torch.autograd.grad(layer.energy(u, x[0]).sum(), u)[0])


def test_the_plain_step_is_minus_the_gradient_of_the_energy() -> None:
    layer: Any = layer_class(MLP)(d=6, f=8, dtype=torch.float64)
    plain = MLP.replace("update { x[i] = x[i] - grad[z](E)[i] }", "").replace("cem_mlp", "other")
    other: Any = layer_class(plain)(d=6, f=8, dtype=torch.float64)
    other.load_state_dict(layer.state_dict())
    x = torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(other.energy(x, x.detach()).sum(), x)
    torch.testing.assert_close(other(x), x - gradient)


MEMORY = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import torch
from attention import CemAttention
torch.set_num_threads(1)
layer = CemAttention(d=16, heads=1)
n = int(sys.argv[2])
x = torch.randn(1, n, 16, requires_grad=True)
layer(x[:, :64]).sum().backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
layer(x).sum().backward()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_grows_linearly(tmp_path: Any) -> None:
    (tmp_path / "attention.py").write_text(generated(ATTENTION), encoding="utf-8")
    used = []
    for n in (4096, 8192):
        command = [sys.executable, "-c", MEMORY, str(tmp_path), str(n)]
        used.append(int(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    # In units of 1024 bytes. One matrix of scores alone would be 64 MiB, then 256 MiB.
    assert used[0] < 30_000
    assert used[1] < 50_000
