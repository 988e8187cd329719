"""One part of `benchmarks.gpu`, in a process of its own: `python -m benchmarks.gpu_part KIND WHAT FILE`, which appends
what it finds to FILE, a JSON object a line."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import inspect
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

Say = Callable[..., None]


@dataclass(frozen=True)
class Settings:
    """`cases`: head width, tokens and dtype of each check. In each timing all batches together have `tokens` tokens;
    `compiled` are the lengths at which torch.compile is a contender too, as it takes long to begin, and `quadratic` the
    longest at which all scores are in memory. A measurement lasts at least `least` seconds."""

    device: str
    cases: tuple[tuple[int, int, torch.dtype], ...]
    lengths: tuple[int, ...]
    compiled: tuple[int, ...]
    quadratic: int
    tokens: int
    heads: int
    dtype: torch.dtype
    rounds: int
    least: float


GPU = Settings(
    "cuda",
    (
        (64, 2048, torch.bfloat16), (128, 1000, torch.bfloat16), (64, 1000, torch.float16), (128, 1024, torch.float16),
        (64, 1024, torch.float32), (32, 333, torch.float32), (128, 1, torch.float32),
    ),
    (4096, 16384, 1024, 2048, 8192), (4096, 16384, 1024), 4096, 16384, 16, torch.bfloat16, 9, 0.004,
)  # fmt: skip
# Triton's interpreter computes in bfloat16 on the bits, to no use.
DRY = Settings("cpu", ((16, 33, torch.float32), (16, 1, torch.float16)), (32,), (32,), 32, 32, 1, torch.float32, 2, 0.0)


# ------------------------------------------------------------------------------------------------------- correctness

_GIVEN = re.compile(r"(\w+) \[\.\.\.((?:, \w+)*)\]( \(integer\))?")


def layer_class(name: str) -> type[nn.Module]:
    """The class of a generated module."""
    module = importlib.import_module(f"generated.{name}")
    classes = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    return next(each for each in classes if issubclass(each, nn.Module))


def arguments(layer: Any, tokens: int, dtype: torch.dtype, device: str) -> dict[str, Tensor]:
    """Random states and givens, of the shapes that the documentation of `forward` says; two sequences."""
    documentation = re.sub(r"\s+", " ", inspect.getdoc(layer.forward) or "")
    states, _, rest = documentation.partition("; givens: ")
    generator = torch.Generator().manual_seed(0)
    found = {}
    for text, after in ((states.partition(" after ")[0], False), (rest.partition(". ")[0], True)):
        for name, axes, integer in _GIVEN.findall(text):
            shape = [2, *(getattr(layer, axis, tokens) for axis in axes.split(", ")[1:])]
            if integer:
                value = torch.randint(0, 3, shape, generator=generator).sort(-1).values
            else:
                value = torch.randn(shape, generator=generator).to(dtype)
            found[name] = value.to(device)
        if not after and not found:
            raise ValueError(f"no state is found in: {documentation}")
    return found


def quantities(layer: Any, given: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The update, as a change, and its gradients to all arguments and parameters, for random directions."""
    leaves = {n: u.clone().requires_grad_() if u.is_floating_point() else u for n, u in given.items()}
    states = [leaves[name] for name in inspect.signature(layer.forward).parameters if name in leaves]
    results = layer(*states, **{n: u for n, u in leaves.items() if not any(u is state for state in states)})
    results = results if isinstance(results, tuple) else (results,)
    generator = torch.Generator().manual_seed(1)
    up = [torch.randn(u.shape, generator=generator).to(u.device, u.dtype) for u in results]
    inputs = {n: u for n, u in [*leaves.items(), *layer.named_parameters()] if u.requires_grad}
    gradients = torch.autograd.grad(results, list(inputs.values()), up, allow_unused=True)
    found = {
        f"update {n}": u.detach().double() - state.detach().double()
        for n, (u, state) in enumerate(zip(results, states, strict=True))
    }
    return found | {f"gradient to {n}": u.double() for n, u in zip(inputs, gradients, strict=True) if u is not None}


def check(name: str, settings: Settings, say: Say) -> None:
    """Compares backend "triton" with "generic" in float64, by the measure of "torch"."""
    kind = layer_class(name)
    for width, tokens, dtype in settings.cases:
        case = f"head width {width}, {tokens} tokens, {str(dtype).removeprefix('torch.')}"
        sizes = {"d": 2 * width, "heads": 2}
        sizes = {n: size for n, size in sizes.items() if n in inspect.signature(kind).parameters}
        torch.manual_seed(0)
        exact = kind(**sizes, backend="generic", dtype=dtype, device=settings.device)
        with torch.no_grad():
            for parameter in exact.parameters():
                # Some start at 0 or 1, where much that could be wrong would not show.
                parameter.add_(0.3 * torch.randn(parameter.shape).to(parameter))
        layers = {}
        for backend in ("triton", "torch"):
            layers[backend] = kind(**sizes, backend=backend, dtype=dtype, device=settings.device)
            layers[backend].load_state_dict(exact.state_dict())
        given = arguments(exact, tokens, dtype, settings.device)
        doubled = {n: u.double() if u.is_floating_point() else u for n, u in given.items()}
        expected = quantities(exact.double(), doubled)
        found = {backend: quantities(layer, given) for backend, layer in layers.items()}
        errors = {b: {n: _error(found[b][n], u) for n, u in expected.items() if n in found[b]} for b in found}
        few = 16 * torch.finfo(dtype).eps
        wrong = [
            f"{n} {errors['triton'].get(n, float('nan')):.1e}, torch {error:.1e}"
            for n, error in errors["torch"].items()
            if not errors["triton"].get(n, float("nan")) <= 2 * error + few
        ]
        say(check=name, case=case, passed=not wrong, why="; ".join(wrong), errors=errors)


def _error(found: Tensor, expected: Tensor) -> float:
    """The norm of the difference over that of what is expected, which may be 0."""
    size = expected.norm().item()
    return (found - expected).norm().item() / (size or 1.0)


# ------------------------------------------------------------------------------------------------------------- timing

Runner = Callable[..., Tensor]


def attention_contenders(length: int, settings: Settings) -> dict[str, Runner]:
    """Causal attention of q and k [batch, heads, token, width], k given for v."""
    from generated import cem_attention

    kernels = cem_attention._kernels

    def sdpa(backend: SDPBackend) -> Runner:
        def run(q: Tensor, k: Tensor) -> Tensor:
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, k, is_causal=True)

        return run

    def ours(q: Tensor, k: Tensor) -> Tensor:
        n = q.shape[-2]
        return kernels.pairs(q, k, beta=q.shape[-1] ** -0.5, rows=n, columns=n)[0]

    found = {"sdpa flash": sdpa(SDPBackend.FLASH_ATTENTION), "cemc kernel": ours}
    if settings.device != "cpu":
        found["sdpa efficient"] = sdpa(SDPBackend.EFFICIENT_ATTENTION)
        found["sdpa cudnn"] = sdpa(SDPBackend.CUDNN_ATTENTION)
    if length <= settings.quadratic:
        found["sdpa math"] = sdpa(SDPBackend.MATH)
    if length in settings.compiled:
        found["flex"] = _flex(length, settings)
    return found


def _flex(length: int, settings: Settings) -> Runner:
    mask = create_block_mask(lambda b, h, i, j: j <= i, None, None, length, length, device=settings.device)
    flex = _compiled(flex_attention, settings)

    def run(q: Tensor, k: Tensor) -> Tensor:
        if settings.device == "cpu" and not torch.is_grad_enabled():
            q, k = q.detach(), k.detach()
        return flex(q, k, k, block_mask=mask)

    return run


def attention_layers(layers: Mapping[str, Any], length: int, settings: Settings) -> dict[str, Runner]:
    found: dict[str, Runner] = {"torch": layers["torch"], "triton": layers["triton"]}
    if length in settings.compiled:
        found["torch.compile of torch"] = _compiled(layers["torch"], settings)
    return found


class SwiGLU(nn.Module):
    """The usual gated MLP, with the norm and the residual of ours: a third matrix, up-projections as one product."""

    def __init__(self, width: int, hidden: int, settings: Settings) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * hidden, bias=False, dtype=settings.dtype, device=settings.device)
        self.down = nn.Linear(hidden, width, bias=False, dtype=settings.dtype, device=settings.device)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.up(F.rms_norm(x, x.shape[-1:])).chunk(2, -1)
        return x + self.down(F.silu(gate) * value)


def mlp_contenders(layers: Mapping[str, Any], length: int, settings: Settings) -> dict[str, Runner]:
    swiglu = SwiGLU(layers["torch"].d, layers["torch"].f, settings)
    found: dict[str, Runner] = {"swiglu": swiglu, "torch": layers["torch"], "auto": layers["auto"]}
    if length in settings.compiled:
        found["fused swiglu"] = _compiled(swiglu, settings)
        found["torch.compile of torch"] = _compiled(layers["torch"], settings)
    return found


def _compiled(function: Any, settings: Settings) -> Any:
    backend = "eager" if settings.device == "cpu" else "inductor"
    return torch.compile(function, backend=backend, dynamic=False)


def _layers(name: str, width: int, settings: Settings, backends: Sequence[str]) -> dict[str, Any]:
    kind = layer_class(name)
    sizes = {"d": settings.heads * width, "heads": settings.heads}
    sizes = {n: size for n, size in sizes.items() if n in inspect.signature(kind).parameters}
    return {b: kind(**sizes, backend=b, dtype=settings.dtype, device=settings.device) for b in backends}


def measure(what: str, settings: Settings, say: Say, rounds: int | None = None) -> None:
    """Times a family at a head width over all lengths."""
    kind, _, text = what.partition("-")
    width = int(text)
    torch._dynamo.config.recompile_limit = 64
    for length in settings.lengths:
        shape = (max(settings.tokens // length, 1), length, settings.heads * width)
        x = torch.randn(shape, dtype=settings.dtype, device=settings.device, requires_grad=True)
        if kind == "attention":
            split = (shape[0], settings.heads, length, width)
            q, k = (torch.randn(split, dtype=x.dtype, device=x.device, requires_grad=True) for _ in range(2))
            _race(f"attention alone, head width {width}", attention_contenders(length, settings), (q, k), settings, say,
                  rounds)  # fmt: skip
            layers = _layers("cem_attention", width, settings, ("torch", "triton"))
            _race(f"attention layer, head width {width}", attention_layers(layers, length, settings), (x,), settings,
                  say, rounds)  # fmt: skip
        else:
            layers = _layers("cem_mlp", width, settings, ("torch", "auto"))
            _race(f"gated MLP layer, width {shape[-1]}", mlp_contenders(layers, length, settings), (x,), settings, say,
                  rounds)  # fmt: skip


def _race(
    table: str, contenders: Mapping[str, Runner], inputs: tuple[Tensor, ...], settings: Settings, say: Say,
    rounds: int | None,
) -> None:  # fmt: skip
    """Contenders that fail are out, and the reason is kept."""
    length = inputs[0].shape[-2]
    for backward in (False, True):
        found: dict[str, dict[str, Any]] = {}
        calls: dict[str, tuple[Callable[[], None], int]] = {}
        for name, run in contenders.items():
            call = _call(run, inputs, backward)
            try:
                found[name] = {"bytes": _peak(call, settings)}
                once = min(_seconds(call, 1, settings) for _ in range(2))
                calls[name] = call, max(1, min(200, round(settings.least / max(once, 1e-6))))
            except Exception as error:
                # Whatever a contender raises, it is out of this race, and the table says so.
                found[name] = {"failure": f"{type(error).__name__}: {str(error)[:300]}"}
        for name in calls:
            found[name]["seconds"] = []
        for _ in range(settings.rounds if rounds is None else rounds):
            for name, (call, times) in calls.items():
                found[name]["seconds"].append(_seconds(call, times, settings))
        if rounds != 0:
            way = "forward and backward" if backward else "forward"
            say(table=table, tokens=length, **{"pass": way}, contenders=found)


def _call(run: Runner, inputs: tuple[Tensor, ...], backward: bool) -> Callable[[], None]:
    def forward() -> None:
        with torch.no_grad():
            run(*inputs)

    def both() -> None:
        result = run(*inputs)
        parameters = [p for p in run.parameters() if p.requires_grad] if isinstance(run, nn.Module) else []
        torch.autograd.grad(result, [*inputs, *parameters], torch.ones_like(result), allow_unused=True)

    return both if backward else forward


def _seconds(call: Callable[[], None], times: int, settings: Settings) -> float:
    """Seconds of one call, of `times` in a row."""
    if settings.device == "cpu":
        start = time.perf_counter()
        for _ in range(times):
            call()
        return (time.perf_counter() - start) / times
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 1e3 / times


def _peak(call: Callable[[], None], settings: Settings) -> int | None:
    """Bytes that a second call takes at most, beyond what there is before."""
    call()
    if settings.device == "cpu":
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def autotune(text: str, settings: Settings, say: Say) -> None:
    """What a first call chooses that times all configurations, and what it gains."""
    from generated import cem_attention

    kernels, width, length = cem_attention._kernels, int(text), settings.lengths[0]
    shape = (max(settings.tokens // length, 1), settings.heads, length, width)
    q, k = (torch.randn(shape, dtype=settings.dtype, device=settings.device, requires_grad=True) for _ in range(2))
    ours = attention_contenders(0, settings)["cemc kernel"]
    call = _call(ours, (q, k), True)
    found = {}
    for name, tuned in (("as it comes", False), ("autotuned", True)):
        kernels.AUTOTUNE = tuned
        kernels._chosen.clear()
        call()
        ways = {key[0].__name__: str(config) for key, config in kernels._chosen.items()}
        say(chosen=f"{name}, head width {width}", ways=ways)
        found[name] = {"seconds": [_seconds(call, 3, settings) for _ in range(settings.rounds)]}
    say(table=f"autotuning, head width {width}", tokens=length, **{"pass": "forward and backward"}, contenders=found)


# -------------------------------------------------------------------------------------------------------------- parts


def describe(settings: Settings, say: Say) -> None:
    say(torch=torch.__version__, triton=triton.__version__, python=sys.version.split()[0])
    if settings.device == "cpu":
        say(device="CPU, interpreted")
        return
    properties = torch.cuda.get_device_properties(0)
    say(device=properties.name, memory=f"{properties.total_memory / 2**30:.0f} GiB")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("kind", choices=("about", "check", "compile", "time", "autotune"))
    parser.add_argument("what")
    parser.add_argument("file")
    given = parser.parse_args(words)
    settings = DRY if given.dry_run else GPU
    with _lines(given.file) as say:
        if given.kind == "about":
            describe(settings, say)
        elif given.kind == "check":
            for name in given.what.split(","):
                say(starts=name)
                check(name, settings, say)
        elif given.kind == "autotune":
            autotune(given.what, settings, say)
        else:
            measure(given.what, settings, say, rounds=0 if given.kind == "compile" else None)


@contextlib.contextmanager
def _lines(path: str) -> Iterator[Say]:
    with open(path, "a", encoding="utf-8") as file:

        def say(**line: Any) -> None:
            file.write(json.dumps(line) + "\n")
            file.flush()

        yield say


if __name__ == "__main__":
    main()
