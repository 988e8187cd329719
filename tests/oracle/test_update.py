"""The update block: order, repetition, what is held, several states, energies and inputs."""

from __future__ import annotations

import pytest
import torch

from cemc.oracle import energy_names, header_sizes
from tests.oracle.support import close, oracle, random, same_gradients, typed

WELL = "energy e(d) { state x[token, d] %s param a[d] E[i] = dot(a, x[i]^4) / 4 %s }"


def test_momentum_starts_at_rest() -> None:
    x, a = random(2, 3, 2), random(2, seed=1)
    update = "update repeat 2 { v[i] = 0.9 * v[i] - 0.1 * grad[x](E)[i]  x[i] = x[i] + v[i] }"
    layer = oracle(WELL % ("state v[token, d] = 0", update), {"a": a}, d=2)
    v = torch.zeros_like(x)
    y = x
    for _ in range(2):
        v = 0.9 * v - 0.1 * a * y**3
        y = y + v
    found = layer.update({"x": x}, {})
    assert list(found) == ["x"]
    assert close(found["x"], y)
    assert same_gradients(found["x"], y, [x, a])


def test_auxiliary_start_value() -> None:
    x, a = random(3, 2), random(2, seed=1)
    update = "update { x[i] = x[i] + v[i] * grad[x](E)[i] }"
    layer = oracle(WELL % ("state v[token, d] = 1 / d", update), {"a": a}, d=2)
    assert close(layer.update({"x": x}, {})["x"], x + a * x**3 / 2)


def test_steps() -> None:
    x, a = random(3, 2), random(2, seed=1)
    layer = oracle(WELL % ("", "update repeat d { x[i] = x[i] - 0.1 * grad[x](E)[i] }"), {"a": a}, d=2)
    y = [x]
    for _ in range(3):
        y.append(y[-1] - 0.1 * a * y[-1] ** 3)
    assert close(layer.update({"x": x}, {})["x"], y[2])
    for steps in range(4):
        assert close(layer.update({"x": x}, {}, steps=steps)["x"], y[steps])


def test_statements_see_what_came_before_and_locals_are_kept() -> None:
    x, a = random(3, 2), random(2, seed=1)
    update = "update { g[i] = grad[x](E)[i]  x[i] = x[i] - g[i]  x[i] = x[i] - g[i] * grad[x](E)[i] }"
    found = oracle(WELL % ("", update), {"a": a}, d=2).update({"x": x}, {})["x"]
    g = a * x**3
    y = x - g
    y = y - g * a * y**3
    assert close(found, y)
    assert same_gradients(found, y, [x, a])


def test_an_assignment_reads_old_values_for_all_its_indices() -> None:
    x = random(4, 2)
    text = """
    energy e(d) { state x[token, d] E[i] = norm2(x[i]) / 2 update { x[i] = x[i - 1] + grad[x](E)[i] } }
    """
    found = oracle(text, d=2).update({"x": x}, {})["x"]
    assert close(found, x + torch.cat((x.new_zeros(1, 2), x[:-1])))


def test_the_plain_step_is_simultaneous() -> None:
    x, y = random(2, 3), random(2, 3, seed=1)
    text = "energy e(d) { state x[token, d] state y[token, d] E[i] = dot(square(x[i]), y[i]) }"
    found = oracle(text, d=3).update({"x": x, "y": y}, {})
    assert close(found["x"], x - 2 * x * y)
    assert close(found["y"], y - x**2)


def test_assignments_in_a_block_are_not() -> None:
    x, y = random(2, 3), random(2, 3, seed=1)
    text = """
    energy e(d) {
      state x[token, d]
      state y[token, d]
      E[i] = dot(square(x[i]), y[i])
      update { x[i] = x[i] - grad[x](E)[i]  y[i] = y[i] - grad[y](E)[i] }
    }
    """
    found = oracle(text, d=3).update({"x": x, "y": y}, {})
    assert close(found["x"], x - 2 * x * y)
    assert close(found["y"], y - (x - 2 * x * y) ** 2)


def test_given_follows_the_state_and_input_does_not() -> None:
    x, A = random(2, 3, 2), random(2, 2, seed=1)
    text = """
    energy e(d) {
      state x[token, d]
      param A[d, d]
      h[i] = tanh(x[i])
      E[i] = -dot(A @ x[i], given(h[i - 1])) - dot(x[i], input(A @ h[i]))
      update repeat 2 { x[i] = x[i] - grad[x](E)[i]  x[i] = x[i] - 0.5 * grad[x](E)[i] }
    }
    """

    def half_step(y: torch.Tensor) -> torch.Tensor:
        shifted = torch.cat((x.new_zeros(2, 1, 2), y.tanh()[:, :-1]), 1)
        return shifted @ A + x.tanh() @ A.T

    y = x
    for _ in range(2):
        y = y + half_step(y)
        y = y + 0.5 * half_step(y)
    layer = oracle(text, {"A": A}, d=2)
    found = layer.update({"x": x}, {})["x"]
    assert close(found, y)
    assert same_gradients(found, y, [x, A])


def test_without_given_the_energy_is_global() -> None:
    x = random(3, 2)
    text = "energy e(d) { state x[token, d] E[i] = sum[j <= i](sin(dot(x[i], x[j]))) }"
    (expected,) = torch.autograd.grad(((x @ x.T).sin() * torch.ones(3, 3).tril()).sum(), x, create_graph=True)
    found = oracle(text, d=2).update({"x": x}, {})["x"]
    assert close(found, x - expected)
    assert same_gradients(found, x - expected, [x])


def test_two_energies_in_turn() -> None:
    x, a = random(3, 2), random(2, seed=1)
    text = """
    energy e(d) {
      state x[token, d]
      param a[d]
      A[i] = dot(a, square(x[i])) / 2
      B[i] = sum(x[i]^3) / 3
      update { x[i] = x[i] - grad[x](A)[i]  x[i] = x[i] - grad[x](B + A)[i] }
    }
    """
    y = x - a * x
    y = y - y**2 - a * y
    layer = oracle(text, {"a": a}, d=2)
    assert close(layer.update({"x": x}, {})["x"], y)
    assert energy_names(typed(text)) == ("A", "B")
    assert close(layer.energy({"x": x}, {}, name="B"), (x**3).sum(-1) / 3)
    with pytest.raises(ValueError, match="several energies"):
        layer.energy({"x": x}, {})
    with pytest.raises(ValueError, match="no energy C"):
        layer.energy({"x": x}, {}, name="C")


def test_batches_are_broadcast_together() -> None:
    x, m, t = random(3, 4, 2), random(2, 1, 5, 2, seed=1), random(3, seed=2)
    text = """
    energy e(d) {
      axis source
      state x[token, d]
      given m[source, d]
      given t
      E[i] = t * sum[j in source](sin(dot(x[i], m[j])))
    }
    """
    layer = oracle(text, d=2)
    y = x.expand(2, 3, 4, 2)
    scores = torch.einsum("abid,abjd->abij", y, m.expand(2, 3, 5, 2))
    assert close(layer.energy({"x": x}, {"m": m, "t": t}), t[:, None] * scores.sin().sum(-1))
    expected = y - t[:, None, None] * torch.einsum("abij,abjd->abid", scores.cos(), m.expand(2, 3, 5, 2))
    found = layer.update({"x": x}, {"m": m, "t": t})["x"]
    assert close(found, expected)
    assert same_gradients(found, expected, [x, m, t])


def test_a_state_without_token_axis() -> None:
    m, x = random(3, 2), random(2, 4, 2, seed=1)
    text = """
    energy e(d, n) {
      state m[n, d]
      given x[token, d]
      E = -sum[i](logsumexp[a in n](dot(m[a], x[i])))
    }
    """
    found = oracle(text, n=3, d=2).update({"m": m}, {"x": x})["m"]
    weights = torch.einsum("ad,bid->bia", m, x).softmax(-1)
    expected = m + torch.einsum("bia,bid->bad", weights, x)
    assert close(found, expected)
    assert same_gradients(found, expected, [m, x])


def test_constants_follow_header_names_and_can_be_overridden() -> None:
    x = random(2, 4)
    text = "energy e(d) { state x[token, d] const a = 1 / sqrt(d) const b = a^2 E[i] = b * sum(x[i]) }"
    assert close(oracle(text, d=4).energy({"x": x}, {}), x.sum(-1) / 4)
    assert close(oracle(text, constants={"a": 3.0}, d=4).energy({"x": x}, {}), 9 * x.sum(-1))


def test_header_sizes() -> None:
    energy = typed("energy e(d, h = 2 * 3, r = d / h + h^2) { state x[token, d] E[i] = sum(x[i]) * r * h }")
    assert header_sizes(energy, d=12) == {"d": 12, "h": 6, "r": 38}
    assert header_sizes(energy, d=12, h=4) == {"d": 12, "h": 4, "r": 19}
    with pytest.raises(ValueError, match="divide exactly"):
        header_sizes(energy, d=10)
    with pytest.raises(ValueError, match="needs a value for d"):
        header_sizes(energy)
    with pytest.raises(ValueError, match="no header name q"):
        header_sizes(energy, d=12, q=1)


def test_wrong_arguments_are_refused() -> None:
    energy = "energy e(d) { state x[token, d] given y[token, d] E[i] = dot(x[i], y[i]) }"
    layer = oracle(energy, d=2)
    with pytest.raises(ValueError, match="takes states"):
        layer.update({"x": random(3, 2)}, {})
    with pytest.raises(ValueError, match="y has 4 along token"):
        layer.update({"x": random(3, 2)}, {"y": random(4, 2)})
