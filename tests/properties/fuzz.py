"""Long runs of the random files against the oracle: `python -m tests.properties.fuzz --examples 2000`.

Each failing file is shrunk to a minimal one and printed with what differed. The summary counts the files compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.properties import support
from tests.properties.families import family_files
from tests.properties.strategy import cem_files
from tests.properties.support import compare_text


@dataclass(frozen=True)
class Failure:
    """The smallest file found that fails, and how."""

    text: str
    message: str


def fuzz(
    files: st.SearchStrategy[str],
    examples: int,
    seed: int,
    counts: Counter[str],
    shortest: int = 1,
    shrink: bool = True,
) -> Failure | None:
    """Draws up to `examples` files; stops at the first kind of failure, shrunk."""
    last: list[Failure] = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
    )
    @given(text=files, number=st.integers(0, 3))
    def compare(text: str, number: int) -> None:
        counts["files"] += 1
        try:
            message = compare_text(text, number, shortest)
        except Exception as error:
            last.append(Failure(text, f"{type(error).__name__}: {error}"))
            raise
        counts["differ" if message else "agree"] += 1
        if message:
            last.append(Failure(text, message))
            raise AssertionError(message)

    try:
        compare()
    except Exception:
        return last[-1]
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=1000, help="files to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kernels", action="store_true", help="compare Triton kernels too; needs TRITON_INTERPRET=1")
    parser.add_argument("--budget", type=int, default=4, help="levels of an expression")
    parser.add_argument("--families", action="store_true", help="energies of pairs and features instead of any")
    parser.add_argument("--shortest", type=int, default=1, help="tokens at least")
    parser.add_argument("--chunk", type=int, default=100, help="files between restarts from a new seed")
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    support.KERNELS = options.kernels
    counts: Counter[str] = Counter()
    failures: list[Failure] = []
    start = time.monotonic()
    for number in range(0, options.examples, options.chunk):
        files = family_files() if options.families else cem_files(options.budget)
        seed, shrink = options.seed + number, not options.no_shrink
        failure = fuzz(files, options.chunk, seed, counts, options.shortest, shrink)
        if failure is not None:
            failures.append(failure)
            print(f"\n--- seed {seed}\n{failure.text}\n{failure.message}", flush=True)
    seconds = time.monotonic() - start
    summary = ", ".join(f"{counts[key]} {key}" for key in ("files", "agree", "differ"))
    print(f"\n{summary}, {len(failures)} failures kept, {seconds:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
