"""Triton's interpreter with bfloat16 that is right: as it comes, it multiplies the bits as if they were whole numbers,
and rounds towards zero where it converts from float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle


def _widened(bits: np.ndarray) -> np.ndarray:
    """bfloat16, stored as its bits, as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def _rounded(values: np.ndarray) -> np.ndarray:
    """float32 to the bits of the nearest bfloat16, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype(np.uint16)


def use_right_bfloat16(patch: pytest.MonkeyPatch) -> None:
    """Replaces the conversions and the matrix product; the kernels do nothing else in bfloat16."""
    cast, dot = InterpreterBuilder.cast_impl, InterpreterBuilder.create_dot

    def right_cast(self: Any, source: Any, kind: Any) -> Any:
        have, want = source.dtype.scalar, kind.scalar
        if have == tl.bfloat16 and want != tl.bfloat16:
            return cast(self, TensorHandle(_widened(source.data), tl.float32), kind)
        if want == tl.bfloat16 and have != tl.bfloat16:
            return TensorHandle(_rounded(source.data.astype(np.float32)), tl.bfloat16)
        return cast(self, source, kind)

    def right_dot(self: Any, a: Any, b: Any, *rest: Any) -> Any:
        wide = [TensorHandle(_widened(x.data), tl.float32) if x.dtype.scalar == tl.bfloat16 else x for x in (a, b)]
        return dot(self, *wide, *rest)

    patch.setattr(InterpreterBuilder, "cast_impl", right_cast)
    patch.setattr(InterpreterBuilder, "create_dot", right_dot)
    for name in ("create_fp_ext", "create_fp_trunc", "create_si_to_fp", "create_ui_to_fp"):
        patch.setattr(InterpreterBuilder, name, right_cast)

    def converted(self: Any, source: Any, kind: Any, rounding: Any) -> Any:
        return right_cast(self, source, kind)

    patch.setattr(InterpreterBuilder, "create_fp_to_fp", converted)
