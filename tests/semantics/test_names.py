"""The lists of names that are not free."""

from __future__ import annotations

import keyword
import subprocess
import sys

import pytest

from cemc.operations.signatures import REDUCERS, SIGNATURES
from cemc.semantics.names import METHOD_ARGUMENTS, MODULE_ATTRIBUTES, class_name, why_no_energy, why_taken
from tests.semantics.support import faults


def test_every_attribute_of_a_module_is_known() -> None:
    # In a process of its own: torch.compile and transformers add attributes of theirs where they have been used.
    program = "from torch.nn import Module; print(*{*dir(Module()), *dir(Module)})"
    listed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert set(listed.stdout.split()) <= MODULE_ATTRIBUTES


@pytest.mark.parametrize(
    "name", [*keyword.kwlist, *METHOD_ARGUMENTS, "forward", "training", "parameters", "energy", "causal", "__x"]
)
def test_taken_names(name: str) -> None:
    assert why_taken(name)


@pytest.mark.parametrize("name", ["torch", "numpy", "triton", "Q", "E", "beta", "lambda_", "heads", "print", "p_raw"])
def test_free_names(name: str) -> None:
    assert why_taken(name) is None


def test_names_of_libraries_are_fine_everywhere() -> None:
    assert faults("param torch[d]", "param math[d]", "E[i] = dot(torch, x[i]) + dot(math, x[i])") == []


@pytest.mark.parametrize("name", ["torch", "sys", "print", "class", "none", "_1", "__main__", "_", "numpy", "true"])
def test_names_that_no_energy_may_have(name: str) -> None:
    assert why_no_energy(name)


@pytest.mark.parametrize(
    ("energy", "made"), [("cem_attention", "CemAttention"), ("gatedMLP", "GatedMLP"), ("a__b_", "AB"), ("é_x", "ÉX")]
)
def test_class_names(energy: str, made: str) -> None:
    assert class_name(energy) == made
    assert why_no_energy(energy) is None


def test_raw_names_of_positive_parameters_are_taken_in_either_order() -> None:
    for lines in (["positive param p[d]", "param p_raw[d]"], ["param p_raw[d]", "positive param p[d]"]):
        (fault,) = faults(*lines, "E[i] = dot(p, x[i]) + dot(p_raw, x[i])")
        assert "where the positive parameter `p` is kept" in fault.message
    assert faults("positive param p[d]", "p_raw[i] = x[i]", "E[i] = dot(p, p_raw[i])") == []


def test_signatures_agree_with_the_operations() -> None:
    from cemc.operations import ELEMENTWISE

    for name, operation in ELEMENTWISE.items():
        assert operation.internal or operation.arity == SIGNATURES[name].max_arity
    assert all(SIGNATURES[name].kind == "reduction" for name in REDUCERS)
