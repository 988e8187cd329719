"""Coverage-guided fuzzing of the compiler: `python -m tests.fuzz.frontend --minutes 60`; needs atheris (`.[fuzz]`).

Every input ends in located errors or in code that Python accepts, within seconds. What does not is written to
`--found`, one file for each kind of fault, and fuzzing goes on; a hang or lack of memory ends it. libFuzzer keeps what
reaches new code of `cemc.syntax` and `cemc.semantics` in `--corpus`, where a later run starts.
"""

from __future__ import annotations

import argparse
import importlib
import random
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["cemc.syntax", "cemc.semantics", "cemc.diagnostics"]):
    importlib.import_module("cemc.syntax.parsing")  # Now, or it would not be instrumented.
    from tests.fuzz.inputs import front_end, mutated, seeds

from cemc.compiler import Trace, compile_source
from cemc.syntax import source_of

LONGEST = 20_000
"""Bytes of an input: what takes longer has its own tests."""

FRONT_SECONDS, COMPILE_SECONDS = 5.0, 60.0
"""Processor time allowed for one input."""

HANG_SECONDS, MEGABYTES = 180, 3_000


class Findings:
    """Inputs that went wrong, one for each kind of fault."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kinds: set[str] = set()

    def add(self, data: bytes, kind: str, what: str) -> None:
        if kind in self.kinds:
            return
        self.kinds.add(kind)
        path = self.folder / f"{len(self.kinds):03}.cem"
        path.write_bytes(data)
        path.with_suffix(".txt").write_text(f"{kind}\n{what}\n", encoding="utf-8")
        print(f"--- {path}: {kind}", flush=True)


class Fuzz:
    """One run: counts what became of the inputs."""

    def __init__(self, findings: Findings, compiles: bool) -> None:
        self.findings, self.compiles = findings, compiles
        self.inputs = self.accepted = 0
        self.texts = seeds()

    def mutate(self, data: bytes, limit: int, seed: int) -> bytes:
        return mutated(data, random.Random(seed), self.texts, limit, lambda each: atheris.Mutate(each, limit))

    def one(self, data: bytes) -> None:
        self.inputs += 1
        if self.inputs % 1000 == 0:
            print(f"{self.inputs} inputs, {self.accepted} accepted, {len(self.findings.kinds)} findings", flush=True)
        start = time.process_time()
        try:
            analysis = front_end(data)
            limit = FRONT_SECONDS
            if analysis is not None:
                self.accepted += 1
            if analysis is not None and self.compiles:
                limit = COMPILE_SECONDS
                for result in compile_source(source_of(data, "fuzz.cem"), Trace()):
                    compile(result.code, result.name, "exec")
        except Exception as error:
            frames = [each for each in traceback.extract_tb(error.__traceback__) if "cemc" in each.filename]
            place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside cemc"
            self.findings.add(data, f"{type(error).__name__} at {place}", traceback.format_exc())
            return
        seconds = time.process_time() - start
        if seconds > limit:
            self.findings.add(data, f"slow, {round(seconds / limit)} times the limit", f"{seconds:.1f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--corpus", type=Path, default=Path("runs/fuzz/corpus"))
    parser.add_argument("--found", type=Path, default=Path("runs/fuzz/found"))
    parser.add_argument("--front-only", action="store_true", help="do not compile what the front end accepts")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for folder in (options.corpus, options.found):
        folder.mkdir(parents=True, exist_ok=True)
    fuzz = Fuzz(Findings(options.found), not options.front_only)
    for number, text in enumerate(fuzz.texts):
        (options.corpus / f"seed{number:03}").write_text(text, encoding="utf-8")

    def mutate(data: bytes, limit: int, seed: int) -> bytes:
        return fuzz.mutate(data, limit, seed)

    def one(data: bytes) -> None:
        fuzz.one(data)

    flags: dict[str, Any] = {
        "max_total_time": round(options.minutes * 60),
        "max_len": LONGEST,
        "timeout": HANG_SECONDS,
        "rss_limit_mb": MEGABYTES,
        "artifact_prefix": f"{options.found}/",
        "seed": options.seed,
        "mutate_depth": 1,
        "verbosity": 0,
    }
    arguments = [sys.argv[0], *(f"-{name}={value}" for name, value in flags.items()), str(options.corpus)]
    atheris.Setup(arguments, one, custom_mutator=mutate)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
