"""What a compiled kernel consists of, read from the assembler's text and from what the assembler says of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

WIDE = 16
"""Bytes that one lane loads at once at most; tiles that are laid out row by row should be loaded like that."""

_PTXAS_REGISTERS = re.compile(r"Used (\d+) registers")
_PTXAS_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_PTX_MATRIX = re.compile(r"\b(wgmma|tcgen05\.mma|mma)(?:\.mma_async|\.sync|\.cta_group)[\w.:]*")
_PTX_LOAD = re.compile(r"\bld\.global(?:\.(?!v\d|[busf]\d)[\w:]+)*(?:\.v(\d))?\.[busf](\d+)\b")
_PTX_COPY = re.compile(r"\bcp\.async\.c[ag]\.shared\.global[\w.:]*\s+\[[^\]]*\],\s*\[[^\]]*\],\s*(0x[0-9a-f]+|\d+)")
_PTX_TENSOR = re.compile(r"\bcp\.async\.bulk\.tensor[\w.:]*shared[\w.:]*global")
_AMD_MATRIX = re.compile(r"\bv_(mfma)_\w+")
_AMD_LOAD = re.compile(r"\b(?:global|buffer|flat)_load_(?:lds_)?(\w+)")
_AMD_BYTES = {"dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16, "b32": 4, "b64": 8, "b96": 12, "b128": 16}


@dataclass(frozen=True)
class Facts:
    """`registers` of a lane; `spills`: bytes of a lane that go to memory and come back (NVIDIA), or registers that do
    (AMD); `shared` memory of a block in bytes; `matrix`: instructions on matrix units by name; `loads`: instructions
    that read global memory by the bytes of each. Numbers of instructions are those in the text, loops counted once."""

    registers: int
    spills: int
    shared: int
    matrix: Mapping[str, int]
    loads: Mapping[int, int]

    @property
    def load_width(self) -> int:
        """The bytes of the loads that most of what is read goes through; 0 where nothing is read."""
        return max(self.loads, key=lambda width: width * self.loads[width], default=0)

    @property
    def wide_share(self) -> float:
        """The share of bytes read by the widest loads there are."""
        total = sum(width * count for width, count in self.loads.items())
        wide = sum(width * count for width, count in self.loads.items() if width >= WIDE)
        return wide / total if total else 0.0


def facts(assembler: Mapping[str, str], log: str, shared: int) -> Facts:
    """`assembler`: texts by kind, of which "ptx" or "amdgcn" is read; `log`: what ptxas said.

    Raises ValueError where what it is looked for is not in them."""
    if "ptx" in assembler:
        return _nvidia(assembler["ptx"], log, shared)
    if "amdgcn" in assembler:
        return _amd(assembler["amdgcn"], shared)
    raise ValueError(f"no assembler text that can be read, only {', '.join(assembler)}")


def _nvidia(text: str, log: str, shared: int) -> Facts:
    registers, spills = _PTXAS_REGISTERS.search(log), _PTXAS_SPILLS.search(log)
    if registers is None or spills is None:
        raise ValueError(f"ptxas does not say how many registers there are and how many spill: {log[:300]!r}")
    loads: Counter[int] = Counter()
    for vector, bits in _PTX_LOAD.findall(text):
        loads[int(vector or 1) * int(bits) // 8] += 1
    for size in _PTX_COPY.findall(text):
        loads[int(size, 0)] += 1
    tensor = len(_PTX_TENSOR.findall(text))
    if tensor:
        loads[WIDE] += tensor
    matrix = Counter(match.replace(".mma", "") if match != "mma" else match for match in _PTX_MATRIX.findall(text))
    return Facts(int(registers[1]), max(int(spills[1]), int(spills[2])), shared, dict(matrix), dict(loads))


def _amd(text: str, shared: int) -> Facts:
    # Scalar registers that spill go to lanes of vector registers, not to memory.
    numbers = {name: re.search(rf"\.{name}:\s+(\d+)", text) for name in ("vgpr_count", "vgpr_spill_count")}
    missing = [name for name, match in numbers.items() if match is None]
    if missing:
        raise ValueError(f"the assembler's text does not say {', '.join(missing)}")
    vector, spills = (int(match[1]) for match in numbers.values() if match is not None)
    loads: Counter[int] = Counter()
    for kind in _AMD_LOAD.findall(text):
        loads[_AMD_BYTES.get(kind, 2 if "16" in kind or "short" in kind else 1)] += 1
    return Facts(vector, spills, shared, dict(Counter(_AMD_MATRIX.findall(text))), dict(loads))
