"""The built-in functions by name: what kind each is, and how many arguments it takes. Plain data, for the front end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["elementwise", "product", "reduction", "vector", "rope"]


@dataclass(frozen=True)
class Signature:
    """`elementwise`: equal shapes or scalars. `product`: dot, outer, norm2. `reduction`: a vector to a number, or
    with binders. `vector`: a vector to a vector. `max` is a reduction that with two arguments is element-wise."""

    kind: Kind
    min_arity: int
    max_arity: int


_ELEMENTWISE = "exp log sqrt abs square sin cos tanh sigmoid softplus relu silu gelu erf"

SIGNATURES: dict[str, Signature] = {
    **{name: Signature("elementwise", 1, 1) for name in _ELEMENTWISE.split()},
    "min": Signature("elementwise", 2, 2),
    "max": Signature("reduction", 1, 2),
    "sum": Signature("reduction", 1, 1),
    "mean": Signature("reduction", 1, 1),
    "logsumexp": Signature("reduction", 1, 1),
    "dot": Signature("product", 2, 2),
    "outer": Signature("product", 2, 2),
    "norm2": Signature("product", 1, 1),
    "softmax": Signature("vector", 1, 1),
    "rmsnorm": Signature("vector", 1, 2),
    "layernorm": Signature("vector", 1, 2),
    "normalize": Signature("vector", 1, 2),
    "rope": Signature("rope", 2, 3),
}

REDUCERS = ("sum", "mean", "logsumexp", "max")
"""Those that take binders."""
