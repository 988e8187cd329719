"""The element-wise functions: one record each, with every facet of the function.

Adding a function to the language is adding a record here and its name to `signatures.py`; the parser, the
differentiator, the printers and the tests take it from there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sympy import Expr, Rational

from cemc.notation.nodes import ONE, ZERO, Select, apply, compare

HALF = Rational(1, 2)


@dataclass(frozen=True)
class Elementwise:
    """One function.

    derivative: its partial derivatives as SymPy expressions of the arguments, in forms that neither overflow nor
    cancel. torch: format string of the torch spelling, differentiable any number of times by autograd. triton: that of
    the spelling in a Triton kernel, in float32 or float64, or None where there is none. antiderivative:
    torch spelling of the integral from 0, or None where no stable closed form is known. text: format string for
    equations in plain text. kinks: where the function is not smooth. positive: whether its value is positive
    for every argument. internal: appears in derivatives only, and is not a name of the language."""

    name: str
    arity: int
    derivative: Callable[..., tuple[Expr, ...]]
    torch: str
    triton: str | None
    text: str
    antiderivative: str | None = None
    kinks: tuple[Fraction, ...] = ()
    positive: bool = False
    internal: bool = False


def _sigmoid_slope(z: Expr) -> Expr:
    return apply("sigmoid", z) * apply("sigmoid", -z)


def _no_derivative(*arguments: Expr) -> tuple[Expr, ...]:
    """Of functions that are constant between their jumps."""
    return tuple(ZERO for _ in arguments)


_ORIGIN = (Fraction(0),)

_RECORDS = (
    Elementwise(
        "exp", 1, lambda z: (apply("exp", z),), "torch.exp({0})", "tl.exp({0})", "exp({0})",
        antiderivative="torch.expm1({0})", positive=True,
    ),
    Elementwise(
        "log", 1, lambda z: (z ** -1,), "torch.log({0})", "tl.log({0})", "log({0})",
        antiderivative="torch.xlogy({0}, {0}) - {0}", kinks=_ORIGIN,
    ),
    Elementwise(
        "sqrt", 1, lambda z: (apply("sqrt_slope", z),), "_sqrt({0})", "_sqrt({0})", "sqrt({0})",
        antiderivative="{0} * _sqrt({0}) / 1.5", kinks=_ORIGIN,
    ),
    Elementwise(
        "abs", 1, lambda z: (apply("sign", z),), "torch.abs({0})", "tl.abs({0})", "|{0}|",
        antiderivative="0.5 * {0} * torch.abs({0})", kinks=_ORIGIN,
    ),
    Elementwise(
        "sin", 1, lambda z: (apply("cos", z),), "torch.sin({0})", "tl.sin({0})", "sin({0})",
        antiderivative="2 * torch.sin(0.5 * {0}) ** 2",
    ),
    Elementwise(
        "cos", 1, lambda z: (-apply("sin", z),), "torch.cos({0})", "tl.cos({0})", "cos({0})",
        antiderivative="torch.sin({0})",
    ),
    Elementwise(
        "tanh", 1, lambda z: (1 - apply("tanh", z) ** 2,), "torch.tanh({0})", "_tanh({0})", "tanh({0})",
    ),
    Elementwise(
        "sigmoid", 1, lambda z: (_sigmoid_slope(z),), "torch.sigmoid({0})", "_sigmoid({0})", "σ({0})",
        positive=True,
    ),
    Elementwise(
        "softplus", 1, lambda z: (apply("sigmoid", z),), "F.softplus({0}, threshold=50.0)", "_softplus({0})",
        "softplus({0})", positive=True,
    ),
    Elementwise(
        "relu", 1, lambda z: (compare("<", ZERO, z),), "torch.relu({0})", "tl.where({0} > 0, {0}, 0.0)", "relu({0})",
        antiderivative="0.5 * torch.relu({0}) ** 2", kinks=_ORIGIN,
    ),
    Elementwise(
        "silu", 1,
        lambda z: (apply("sigmoid", z) * (1 + z * apply("sigmoid", -z)),),
        "F.silu({0})", "({0} * _sigmoid({0}))", "silu({0})",
    ),
    Elementwise(
        "gelu", 1,
        lambda z: (apply("normal_cdf", z) + z * apply("normal_pdf", z),),
        "F.gelu({0})", "({0} * _normal_cdf({0}))", "gelu({0})",
    ),
    Elementwise(
        "erf", 1, lambda z: (apply("erf_slope", z),), "torch.erf({0})", "tl.erf({0})", "erf({0})",
    ),
    Elementwise(
        "min", 2,
        lambda a, b: (Select(compare("<=", a, b), ONE, ZERO), Select(compare("<=", a, b), ZERO, ONE)),
        "torch.where({0} <= {1}, {0}, {1})", "tl.where({0} <= {1}, {0}, {1})", "min({0}, {1})",
    ),
    Elementwise(
        "max", 2,
        lambda a, b: (Select(compare("<=", b, a), ONE, ZERO), Select(compare("<=", b, a), ZERO, ONE)),
        "torch.where({0} >= {1}, {0}, {1})", "tl.where({0} >= {1}, {0}, {1})", "max({0}, {1})",
    ),
    # What only derivatives and expansions of the above use.
    Elementwise(
        "rsqrt", 1, lambda z: (-HALF * apply("rsqrt", z) ** 3,), "torch.rsqrt({0})", "tl.rsqrt({0})", "1/sqrt({0})",
        positive=True, internal=True,
    ),
    Elementwise(
        "sign", 1, _no_derivative, "torch.sign({0})", "_sign({0})", "sign({0})",
        internal=True,
    ),
    Elementwise(
        "sqrt_slope", 1, lambda z: (-2 * apply("sqrt_slope", z) ** 3,), "_sqrt_slope({0})", "_sqrt_slope({0})",
        "1/(2 sqrt({0}))", internal=True,
    ),
    Elementwise(
        "normal_cdf", 1, lambda z: (apply("normal_pdf", z),), "torch.special.ndtr({0})", "_normal_cdf({0})", "Φ({0})",
        positive=True, internal=True,
    ),
    Elementwise(
        "normal_pdf", 1, lambda z: (-z * apply("normal_pdf", z),),
        "(0.3989422804014327 * torch.exp(-0.5 * {0} ** 2))", "(0.3989422804014327 * tl.exp(-0.5 * {0} * {0}))",
        "φ({0})", positive=True, internal=True,
    ),
    Elementwise(
        "erf_slope", 1, lambda z: (-2 * z * apply("erf_slope", z),),
        "(1.1283791670955126 * torch.exp(-({0} ** 2)))", "(1.1283791670955126 * tl.exp(-{0} * {0}))", "erf'({0})",
        positive=True, internal=True,
    ),
    Elementwise(
        "expm1", 1, lambda z: (apply("exp", z),), "torch.expm1({0})", "_expm1({0})", "expm1({0})",
        internal=True,
    ),
    Elementwise(
        "log1p", 1, lambda z: ((1 + z) ** -1,), "torch.log1p({0})", "_log1p({0})", "log1p({0})", internal=True,
    ),
    Elementwise(
        "atan", 1, lambda z: ((1 + z ** 2) ** -1,), "torch.atan({0})", None, "atan({0})",
        internal=True,
    ),
    Elementwise(
        "at_least_one", 1, _no_derivative, "torch.clamp({0}, min=1)", "tl.maximum({0}, 1.0)", "max({0}, 1)",
        positive=True, internal=True,
    ),
    Elementwise(
        "pow", 2,
        lambda base, exponent: (
            exponent * (apply("sqrt", base) if exponent - 1 == HALF else apply("pow", base, exponent - 1)),
            Select(
                compare("<", ZERO, base),
                apply("pow", base, exponent) * apply("log", Select(compare("<", ZERO, base), base, ONE)),
                ZERO,
            ),
        ),
        "{0} ** {1}", "_power({0}, {1})", "{0}^{1}", internal=True,
    ),
)  # fmt: skip

ELEMENTWISE: dict[str, Elementwise] = {record.name: record for record in _RECORDS}
