"""Sums over pairs by blocks of rows: lengths round the size of a block, against the generic program; and memory."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cemc import load
from cemc.oracle.compare import build
from cemc.oracle.draw import draw
from cemc.semantics import analyse
from cemc.syntax import parse, read_source
from tests.decoding.memory import peak
from tests.emit.support import generated, layer_class

ENERGIES = Path(__file__).parents[1] / "properties" / "energies"
BLOCK = 128


@pytest.mark.parametrize(
    "name", ["alibi", "attention_sink", "documents", "relative_bias", "soft_cap", "sigmoid_attention"]
)
@pytest.mark.parametrize("tokens", [BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 1])
def test_blocks_equal_the_whole(name: str, tokens: int) -> None:
    path = ENERGIES / f"{name}.cem"
    source = read_source(path)
    (energy,) = analyse(parse(source), source).energies
    drawn = draw(energy, tokens, batch=(2,), lengths={"token": tokens})
    kind = load(path)
    results = []
    for backend in ("generic", "torch"):
        layer = build(kind, drawn, backend)
        value = layer(*drawn.states.values(), **drawn.givens)
        generator = torch.Generator().manual_seed(0)
        cotangent = torch.randn(value.shape, generator=generator, dtype=value.dtype)
        inputs = [*drawn.states.values(), *layer.parameters()]
        results.append([value, *torch.autograd.grad((cotangent * value).sum(), inputs)])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def both(text: str, tokens: int, **sizes: int) -> None:
    """Result and gradients of both backends for `d = 4`, in float64."""
    kind = layer_class(text)
    results = []
    for backend in ("generic", "torch"):
        torch.manual_seed(0)
        layer = kind(d=4, backend=backend, dtype=torch.float64, **sizes)
        x = torch.randn(2, tokens, 4, dtype=torch.float64, requires_grad=True)
        value = layer(x)
        results.append([value, *torch.autograd.grad((value * value.detach().cos()).sum(), [x, *layer.parameters()])])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("window", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 300])
def test_blocks_read_only_the_columns_of_their_windows(window: int) -> None:
    text = (
        "energy e(d, w, v = 3) { state x[token, d]\nparam Q[d, d]\n"
        "E[i] = -logsumexp[i - w < j <= i](0.3 * dot(Q @ x[i], Q @ given(x[j])))\n"
        "  - sum[i - v < j <= i](square(dot(x[i], given(x[j])))) / 9 }"
    )
    assert "windows=" in generated(text)
    both(text, 2 * BLOCK + 3, w=window)


@pytest.mark.parametrize(
    "energy",
    [
        "max[i - w < j <= i](where(i - v < j, dot(x[i], given(x[j])), 1))",
        "logsumexp[i - w < j <= i](dot(x[i], x[j]))",
        "logsumexp[i - w < j <= i](sum(x[i]))",
        "sum[i - w < j <= i, j - v < l <= j](square(dot(x[i], given(x[j] * x[l]))))",
        "sum[j <= i if i - j < w](square(dot(x[i], given(x[j - 1]))) * sigmoid(dot(x[i], given(x[i - j]))))",
    ],
)
def test_windows_of_other_kinds_by_blocks(energy: str) -> None:
    both(f"energy e(d, w = 20, v = 3) {{ state x[token, d]\nE[i] = 0.1 * {energy} }}", BLOCK + 30)


@pytest.mark.parametrize("other", ["x[j]", "tanh(x[j])"])
def test_the_first_maximum_is_one_of_all_columns(other: str) -> None:
    """Where the tokens that are updated are those the maximum is taken over, a block of them does not tell it."""
    both(f"energy e(d) {{ state x[token, d]\nE[i] = max[j in token](dot(x[i], {other})) }}", 2 * BLOCK + 1)


QUERY_KEY = "param Q[h, r, d]\nparam K[h, r, d]\n"

PAIRWISE = {
    "energy transformer": QUERY_KEY + "E[i] = -sum[k](logsumexp[j != i](dot(Q[k] @ x[i], K[k] @ x[j])))",
    "joint, past tokens": QUERY_KEY + "E[i] = -sum[k](logsumexp[j <= i](dot(Q[k] @ x[i], K[k] @ x[j])))",
    "joint, one number": QUERY_KEY + "E = -sum[i in token, k](logsumexp[j in token](dot(Q[k] @ x[i], K[k] @ x[j])))",
    "joint, a plain sum": "E[i] = sum[j in token](sin(dot(x[i], x[j])))",
    "joint, one of two arguments": "E[i] = sum[j in token](square(dot(x[i], given(tanh(x[j]))))) + "
    "sum[j in token](square(dot(given(x[i]), x[j])))",
    "joint, distances": "E[i] = logsumexp[j in token](-norm2(x[i] - x[j]))",
    "joint, window": "E[i] = -logsumexp[i - 9 < j <= i](dot(x[i], x[j]))",
    "joint, two axes": "axis source\ngiven m[source, d]\nE[i] = -logsumexp[s in source](dot(x[i], m[s])) - "
    "logsumexp[j in token](dot(x[i], x[j]))",
    "bias by distance": "positive param s = 0.1\nE[i] = -logsumexp[j <= i](dot(x[i], given(x[j])) - s * (i - j))",
    "columns normalised by rows": "n[j] = logsumexp[l <= j](dot(given(x[j]), given(x[l])))\n"
    "E[i] = -logsumexp[j <= i](dot(x[i], given(x[j])) - n[j])",
    "attention to what was attended": "m[j] = sum[l <= j](softplus(dot(x[j], x[l])) * x[l]) / (1 + j)\n"
    "E[i] = -logsumexp[j <= i](dot(x[i], given(m[j])))",
    "attention to what was attended, joint": "m[j] = mean[l <= j](sin(dot(x[j], given(x[l]))) * x[l])\n"
    "E[i] = -logsumexp[j <= i](dot(x[i], m[j]))",
    "weights used again on what they made": "s[i, j] = dot(x[i], given(x[j]))\n"
    "n[i] = logsumexp[l <= i](given(s[i, l]))\nw[i, j] = given(exp(s[i, j] - n[i]))\n"
    "m[i] = sum[j <= i](w[i, j] * tanh(given(x[j])))\nE[i] = dot(x[i], sum[j <= i](w[i, j] * given(m[j])))",
    "joint, maximum": "E[i] = max[j in token](dot(x[i], x[j])) + max[j != i](dot(given(x[i]), tanh(x[j])))",
    "joint, maximum of what was read": "m[i] = given(x[i]) * max[i - 5 < j <= i](dot(given(x[i]), x[j]))\n"
    "E[i] = logsumexp[j < i](dot(given(x[i]), m[j]) - norm2(m[i]))",
    "documents": "given doc[token]: int\nE[i] = -logsumexp[j <= i if doc[j] == doc[i]](dot(x[i], given(x[j])))",
    "decay": "param f[d]\nc[i] = sum[l <= i](log(sigmoid(given(dot(f, x[l])))))\n"
    "E[i] = -logsumexp[j <= i](dot(x[i], given(x[j])) + c[i] - c[j])",
    "two steps": "E[i] = -logsumexp[j != i](dot(x[i], x[j]))\nupdate repeat 2 { x[i] = x[i] - 0.1 * grad[x](E)[i] }",
    "in turn": "E[i] = -logsumexp[j != i](dot(x[i], x[j]))\nF[i] = sum[j in token](tanh(dot(x[i], x[j])))\n"
    "update { x[i] = x[i] - 0.1 * grad[x](E)[i] x[i] = x[i] - 0.1 * grad[x](F)[i] }",
}


def pairwise(name: str) -> str:
    return f"energy e(d, h = 2, r = d / h) {{ state x[token, d]\n{PAIRWISE[name]} }}"


def arguments_of(name: str, tokens: int, dtype: torch.dtype) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    x = 0.5 * torch.randn(1, tokens, 4, generator=generator, dtype=dtype)
    givens = {}
    if "given doc" in PAIRWISE[name]:
        givens["doc"] = torch.arange(tokens) // 50
    if "given m" in PAIRWISE[name]:
        givens["m"] = torch.randn(30, 4, generator=generator, dtype=dtype)
    return x.requires_grad_(), givens


@pytest.mark.parametrize("name", PAIRWISE)
def test_pairwise_energies_by_blocks(name: str) -> None:
    kind = layer_class(pairwise(name))
    results = []
    for backend in ("generic", "torch"):
        torch.manual_seed(0)
        layer = kind(d=4, backend=backend, dtype=torch.float64)
        x, givens = arguments_of(name, 2 * BLOCK + 3, torch.float64)
        value = layer(x, **givens)
        results.append([value, *torch.autograd.grad((value * value.detach().cos()).sum(), [x, *layer.parameters()])])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", PAIRWISE)
def test_memory_grows_linearly_with_the_number_of_tokens(name: str, gradients: bool) -> None:
    layer = layer_class(pairwise(name))(d=4)

    def run(tokens: int) -> int:
        x, givens = arguments_of(name, tokens, torch.float32)

        def step() -> None:
            with torch.set_grad_enabled(gradients):
                value = layer(x, **givens)
            if gradients:
                value.sum().backward()

        return peak(step)

    assert run(2048) < 2.3 * run(1024)


def test_what_autograd_keeps_grows_linearly() -> None:
    """Twice the tokens, twice the saved tensors: nothing quadratic is kept for backward."""
    kind = load(ENERGIES / "soft_cap.cem")
    layer = kind(d=8, heads=2)
    kept = []
    for tokens in (512, 1024):
        sizes: list[int] = []

        def note(tensor: torch.Tensor, sizes: list[int] = sizes) -> torch.Tensor:
            sizes.append(tensor.numel())
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            layer(torch.randn(1, tokens, 8, requires_grad=True))
        kept.append(sum(sizes))
    assert kept[1] < 2.5 * kept[0]
