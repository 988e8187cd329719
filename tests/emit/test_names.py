"""A user may call anything anything: every name that a generated file uses is tried for every kind of declaration."""

from __future__ import annotations

import ast
from itertools import product
from typing import Any

import pytest
import torch

from cemc.emit.names import class_name, free_name
from cemc.operations.signatures import SIGNATURES
from cemc.semantics.names import RESERVED, why_taken
from tests.emit.support import generated, imported, layer_class

SLOTS = {"h": "h", "x": "x", "g": "g", "p": "p", "q": "q", "c": "c", "z": "z", "s": "s", "f": "f"}
TEXT = """
energy layer(d, {h} = 6, heads = 2, r = d / heads) {{
  state {x}[token, d]
  axis source
  given {g}[source, d]
  given label[token]: int
  given t
  param {p}[d] = 1
  param K[heads, r, d]
  positive param {q}[{h}] = 1
  const {c} = 1 / sqrt(r) + sigmoid({h}) / 3
  function {f}(v) = tanh({c} * v)
  {z}[i] = rmsnorm({x}[i])
  {s}[k, i, j] = {c} * dot(rope(K[k] @ {z}[i], i), rope(K[k] @ given({z}[j]), j)) - sqrt(abs(t))
  E[i] = -sum[k](logsumexp[j <= i if label[j] == label[i]]({s}[k, i, j])) + sum[m](dot({z}[i], {g}[m])^2)
         + dot({p}, integral[{f}]({z}[i])) + sum({q} * {h})
  update {{ {x}[i] = {x}[i] - grad[{z}](E)[i] }}
}}
"""


def used_names() -> list[str]:
    """Every name in a generated file, and some that are nobody's but difficult."""
    names = {"super", "property", "builtins", "print", "__", "_", "__x", "_x", "l", "O", "I", "Any", "nullcontext"}
    for node in ast.walk(ast.parse(generated(TEXT.format(**SLOTS)))):
        match node:
            case ast.Name():
                names.add(node.id)
            case ast.arg():
                names.add(node.arg)
            case ast.FunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.alias():
                names.add(node.asname or node.name)
    taken = {*SLOTS.values(), "d", "heads", "r", "label", "t", "K", "E", "i", "j", "k", "m", "v"}
    return sorted(n for n in names - taken if n not in RESERVED | set(SIGNATURES) and why_taken(n) is None)


def results(cls: type[torch.nn.Module], names: dict[str, str]) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    layer: Any = cls(d=4, dtype=torch.float64)
    x, g = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64)
    givens = {names["g"]: g, "label": torch.tensor([0, 0, 1]), "t": torch.tensor(0.5, dtype=torch.float64)}
    assert f"{names['h']}=6" in repr(layer)
    assert {names["p"], "K"} < set(layer.state_dict())
    return layer(x, **givens), layer.energy(x, **givens)


def test_every_name_in_every_place() -> None:
    expected = results(layer_class(TEXT.format(**SLOTS)), SLOTS)
    names = used_names()
    for shift in range(0, len(names), 2):
        # Nine names at a time, each in another place.
        chosen = {slot: names[(shift + n * 7) % len(names)] for n, slot in enumerate(SLOTS)}
        torch.testing.assert_close(results(layer_class(TEXT.format(**chosen)), chosen), expected)


@pytest.mark.parametrize(
    ("energy", "cls"), [("f", "F"), ("nn", "Nn"), ("tensor", "Tensor"), ("my__layer_2b", "My__Layer2b")]
)
def test_class_names(energy: str, cls: str) -> None:
    text = f"energy {energy}(d) {{ state x[d] param W[d, d] E = sum(integral[silu](W @ x)) }}"
    if cls == "My__Layer2b":
        cls = class_name(energy)
    layer = getattr(imported(generated(text)), cls)(d=2)
    assert layer(torch.ones(2)).shape == (2,)
    assert layer.energy(torch.ones(2)).shape == ()


def test_greek_letters() -> None:
    text = "energy hebb(d) { state ξ[token, d] param Ω[d, d] const β = 2 E[i] = β * dot(ξ[i], Ω @ given(ξ[i])) }"
    layer: Any = layer_class(text)(d=2, β=3, dtype=torch.float64)
    x = torch.randn(3, 2, dtype=torch.float64)
    torch.testing.assert_close(layer(ξ=x), x - 3 * x @ layer.Ω.T)


def test_free_names() -> None:
    assert free_name("a", ["b"]) == "a"
    assert free_name("a", ["a", "a_"]) == "a__"
    assert [class_name(n) for n in ("cem_attention", "x", "two__words", "βeta_2d")] == [
        "CemAttention", "X", "TwoWords", "Βeta2d",
    ]  # fmt: skip
    assert len({free_name("".join(t), ["aa", "ab"]) for t in product("ab", repeat=2)}) == 4
