"""Expressions as text: brackets, numbers, signs, alignment, contractions, line breaks."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch

from cemc.emit.arithmetic import Product, add, raised
from cemc.emit.code import (
    PRODUCT,
    SUM,
    Code,
    call,
    chain,
    conditional,
    method,
    name,
    negative,
    number,
    power,
    statement,
    summary,
    template,
)
from cemc.emit.contraction import Factor, contraction
from cemc.emit.frames import permute, place
from tests.emit.support import function

A, B, C = name("a"), name("b"), name("c")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Fraction(2), "2"), (Fraction(-3), "-3"), (Fraction(1, 2), "0.5"), (Fraction(1, 3), "1 / 3"),
        (Fraction(-2, 3), "-2 / 3"), (Fraction(1, 10), "0.1"), (Fraction(1, 10**6), "1e-6"),
        (Fraction(10**22), "1e+22"), (Fraction(10**400), "1e999"), (Fraction(123456789, 10**8), "1.23456789"),
    ],
)  # fmt: skip
def test_numbers(value: Fraction, text: str) -> None:
    assert number(value).text == text
    if value < 10**300:
        assert eval(text) == float(value)


def test_brackets() -> None:
    total = chain(SUM, A, ("+", B))
    assert chain(PRODUCT, total, ("*", C)).text == "(a + b) * c"
    assert chain(SUM, A, ("-", total)).text == "a - (a + b)"
    assert chain(SUM, total, ("-", C)).text == "a + b - c"
    assert chain(PRODUCT, chain(PRODUCT, A, ("*", B)), ("@", C)).text == "(a * b) @ c"
    assert chain(PRODUCT, A, ("/", chain(PRODUCT, B, ("*", C)))).text == "a / (b * c)"
    assert negative(total).text == "-(a + b)"
    assert negative(chain(PRODUCT, A, ("*", B))).text == "-a * b"
    assert method(negative(A), "exp").text == "(-a).exp()"
    assert power(A, number(Fraction(2))).text == "a**2"
    assert power(total, number(Fraction(2))).text == "(a + b) ** 2"
    assert power(A, negative(number(Fraction(1, 2)))).text == "a**-0.5"
    assert chain(PRODUCT, conditional(A, B, C), ("*", A)).text == "(a if b else c) * a"


def test_sums_and_products() -> None:
    assert add([number(Fraction(1)), negative(A)]).text == "1 - a"
    assert add([negative(call("f", A)), B, number(Fraction(1, 2))]).text == "b - f(a) + 0.5"
    assert add([negative(A), negative(B)]).text == "-a - b"
    product = Product(coefficient=Fraction(-2, 3), factors=[call("f", A), B], divisors=[C])
    assert product.code().text == "-2 / 3 * b * f(a) / c"
    assert Product(divisors=[A, B]).code().text == "1 / (a * b)"
    assert Product(scalars=[A], scalar_divisors=[B], factors=[C]).code().text == "a / b * c"
    assert Product(coefficient=Fraction(1, 3), factors=[A]).code().text == "a / 3"
    assert raised(A, Fraction(-2), scalar=False).text == "1 / a.square()"
    assert raised(A, Fraction(3), scalar=True).text == "a**3"


def test_templates() -> None:
    total = chain(SUM, A, ("+", B))
    assert template("torch.exp({0})", total).text == "torch.exp(a + b)"
    assert template("torch.exp(-({0} ** 2))", A).text == "torch.exp(-(a**2))"
    assert template("torch.exp(-({0} ** 2))", total).text == "torch.exp(-((a + b) ** 2))"
    assert template("torch.where({0} <= {1}, {0}, {1})", A, total).text == "torch.where(a <= (a + b), a, a + b)"
    assert chain(PRODUCT, template("0.5 * {0}", total), ("*", C)).text == "(0.5 * (a + b)) * c"


def test_alignment() -> None:
    assert place(A, (0, 1), 2, batched=True).text == "a"
    assert place(A, (1,), 2, batched=False).text == "a"
    assert place(A, (1,), 2, batched=True).text == "a[..., None, :]"
    assert place(A, (0,), 2, batched=False).text == "a[:, None]"
    assert place(A, (0,), 3, batched=True).text == "a[..., None, None]"
    assert place(A, (1, 0), 2, batched=True).text == "a.mT"
    assert place(A, (2, 0), 3, batched=False).text == "a.mT[:, None]"
    assert place(negative(A), (0,), 2, batched=False).text == "-a[:, None]"
    assert place(A, (), 2, batched=True).text == "a[..., None, None]"
    assert place(A, (), 2, batched=False).text == "a"


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_permutations(order: tuple[int, ...]) -> None:
    a = torch.arange(120).reshape(5, 2, 3, 4)
    expected = a.permute(0, *(1 + n for n in order))
    assert torch.equal(eval(permute(A, order).text, {"a": a}), expected)


@pytest.mark.parametrize("left", ["ij", "bij", "j", "ji", "i", "bji", "ijb"])
@pytest.mark.parametrize("right", ["jk", "bjk", "j", "kj", "i", "bkj", "jib"])
@pytest.mark.parametrize("batched", [(True, True), (True, False), (False, False)])
def test_contractions(left: str, right: str, batched: tuple[bool, bool]) -> None:
    """Every pattern against torch.einsum, in two orders of the result."""
    sizes = {"b": 2, "i": 3, "j": 4, "k": 5}
    letters = sorted(set(left + right))
    places = {letter: n for n, letter in enumerate(letters)}
    tensors = {
        n: torch.randn(*([7] if b else []), *(sizes[c] for c in axes), dtype=torch.float64)
        for n, axes, b in (("a", left, batched[0]), ("b", right, batched[1]))
    }
    factors = [
        Factor(name(n), tuple(axes), tuple(places[c] for c in axes), b)
        for n, axes, b in (("a", left, batched[0]), ("b", right, batched[1]))
    ]
    codes, expected = [], []
    for summed in ({"j"}, {"i", "j"}, set(letters)):
        kept = [c for c in letters if c not in summed]
        for output in (kept, kept[::-1]):
            codes.append(contraction(factors, tuple(places[c] for c in output), frozenset("ij"), str).text)
            dots = ["..." if b else "" for b in batched]
            pattern = f"{dots[0]}{left},{dots[1]}{right}->{max(dots)}{''.join(output)}"
            expected.append(torch.einsum(pattern, tensors["a"], tensors["b"]))
    torch.testing.assert_close(function("a, b", *codes)(**tensors), expected)


def test_line_breaks() -> None:
    long = [name(f"{letter * 40}") for letter in "abcd"]
    assert statement("x = ", A, "[d]", 4) == ["    x = a  # [d]"]
    assert statement("x = ", call("f", *long[:2]), "[...]" * 8, 8)[0] == f"        # {'[...]' * 8}"
    broken = statement("x = ", chain(SUM, long[0], *(("+", t) for t in long[1:])), "", 4)
    assert broken == ["    x = (", f"        {'a' * 40}", *(f"        + {c * 40}" for c in "bcd"), "    )"]
    broken = statement("x = ", method(call("f", *long), "to", "acc"), "", 0)
    assert broken == ["x = f(", *(f"    {c * 40}," for c in "abcd"), ").to(acc)"]
    assert summary("word " * 30 + "end.", 8).count("\n") == 2
    assert Code("a").is_name
