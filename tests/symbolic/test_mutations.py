"""Breaks one derivative rule at a time: the comparison with the oracle must notice each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cemc.notation import nodes
from cemc.operations import ELEMENTWISE
from cemc.operations.signatures import SIGNATURES
from cemc.source import Source
from cemc.symbolic import differentiate
from tests.properties.support import compiled_source, disagreement, draw

FUNCTIONS = [name for name, record in ELEMENTWISE.items() if not record.internal]
BODY = {
    "log": "log(1 + norm2(x[i]))",
    "sqrt": "sqrt(1 + norm2(x[i]))",
    "min": "sum(min(x[i], p * x[i] + 0.1))",
    "max": "sum(max(x[i], p * x[i] + 0.1))",
}
RULES = {
    "Add": "sum(tanh(x[i] + p))",
    "Mul": "sum(x[i] * p * tanh(x[i]))",
    "Pow": "sum(x[i]^3 * p)",
    "Apply": "sum(sin(x[i]))",
    "Sum": "sum[j <= i](dot(x[i], x[j]))",
    "LogSumExp": "logsumexp[j <= i](dot(x[i], x[j]))",
    "Weight": "dot(p, softmax(x[i]))",
    "Maximum": "max[j <= i](dot(x[i], x[j] * p))",
    "Select": "where(dot(p, x[i]) > 0, norm2(x[i]), sum(x[i]))",
    "Rotation": "dot(rope(M @ x[i], i), rope(N @ given(x[i]), 1))",
    "Antiderivative": "sum(integral[tanh](x[i] * p))",
}


def differs(body: str) -> bool:
    """Whether `E[i] = body`, compiled now, disagrees with the oracle."""
    text = (
        f"energy e(d, w = 4) {{\n state x[token, d]\n param p[d]\n param M[w, d]\n param N[w, d]\n E[i] = {body}\n}}\n"
    )
    energy, layer_class = compiled_source(Source("test.cem", text))
    return bool(disagreement(energy, layer_class, draw(energy, 3, lengths={"token": 4}, batch=(2,)), 0, (None,)))


def body_of(function: str) -> str:
    return BODY.get(function, f"sum({function}(1.5 * x[i]))")


def test_every_element_wise_name_of_the_language_has_a_record() -> None:
    language = {name for name, signature in SIGNATURES.items() if signature.kind == "elementwise"}
    # `square` is a power; `max` of two is listed as the reduction it also is.
    assert language - {"square"} | {"max"} == set(FUNCTIONS)
    assert all(ELEMENTWISE[name].arity == SIGNATURES[name].max_arity for name in FUNCTIONS)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_wrong_derivative_of_a_function_is_noticed(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not differs(body_of(function))
    record = ELEMENTWISE[function]
    wrong = replace(record, derivative=lambda *z: tuple(nodes.Integer(3) / 2 * each for each in record.derivative(*z)))
    monkeypatch.setitem(ELEMENTWISE, function, wrong)
    assert differs(body_of(function))


@pytest.mark.parametrize("rule", RULES)
def test_a_wrong_rule_is_noticed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not differs(RULES[rule])
    right = differentiate._contributions

    def wrong(node: nodes.Expr, adjoint: nodes.Expr, active: set[nodes.Expr]) -> list[tuple[object, ...]]:
        out = right(node, adjoint, active)
        if type(node).__name__ != rule:
            return list(out)
        return [(child, nodes.Integer(3) / 2 * coefficient, *rest) for child, coefficient, *rest in out]

    monkeypatch.setattr(differentiate, "_contributions", wrong)
    assert differs(RULES[rule])
