"""The command `cemc`.

Exit status: 0 done, 1 a file is wrong or a check fails, 2 the command is wrong, 3 a fault of cemc itself; 130 after
an interrupt, and 141 where the reader of the output has gone, as shells have it. No input ends in a traceback.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from cemc.depth import deeply
from cemc.version import __version__

if TYPE_CHECKING:
    from cemc.check import CheckReport
    from cemc.compiler import Result

DONE, WRONG_FILE, WRONG_COMMAND, OUR_FAULT, INTERRUPTED, NO_READER = 0, 1, 2, 3, 130, 141

MOST_NOTES = 3
"""Places that are shown where an energy reads later tokens: the others are mostly consequences."""

_SEED_DIGITS = 15
"""Of a seed: each configuration has a number of 64 bits, a thousand times the seed and more."""

DEBUG = "CEMC_TRACEBACK"
"""Environment variable that lets faults of cemc through as Python tracebacks, for reports and for our own work."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = _run(arguments)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Python would try to flush once more at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NO_READER
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else WRONG_COMMAND


def _run(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    if options.command == "compile":
        # The process ends with the compilation: looking through what it made for garbage, now or at exit, is wasted.
        gc.disable()
        gc.freeze()
        return _each(options.files, _Compile(options.out, len(options.files) > 1))
    if options.command == "kernels":
        return _each(options.files, _Kernels(options.target, options.width, options.dtype))
    return _each(options.files, _Check(options.seed, options.device))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(WRONG_COMMAND, f"{self.prog}: error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="cemc", description="Compiles energies to PyTorch layers.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"cemc {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    compile_ = commands.add_parser("compile", help="write a Python module for each energy", allow_abbrev=False)
    compile_.add_argument("files", nargs="+", metavar="FILE", help="a .cem file")
    compile_.add_argument("-o", "--out", required=True, metavar="DIR", help="the folder to write to")
    check = commands.add_parser("check", help="compare with autograd of the energy in float64", allow_abbrev=False)
    check.add_argument("files", nargs="+", metavar="FILE", help="a .cem file")
    check.add_argument("--seed", type=_seed, default=0, metavar="N", help="another choice of random inputs")
    check.add_argument("--device", default="cpu", metavar="DEVICE", help="where the layer runs (default: cpu)")
    from cemc.inspection.chips import CHIPS, DTYPES

    kernels = commands.add_parser("kernels", help="what the Triton kernels become on a GPU", allow_abbrev=False)
    kernels.add_argument("files", nargs="+", metavar="FILE", help="a .cem file")
    kernels.add_argument("--target", required=True, choices=list(CHIPS), metavar="GPU",
                         help=", ".join(f"{chip.name} ({chip.says})" for chip in CHIPS.values()))  # fmt: skip
    kernels.add_argument("--width", type=_width, default=64, metavar="N", help="of a head, 1 to 256 (default: 64)")
    kernels.add_argument("--dtype", choices=DTYPES, default="bfloat16", metavar="DTYPE",
                         help=f"{', '.join(DTYPES)} (default: bfloat16)")  # fmt: skip
    return parser


def _seed(text: str) -> int:
    seed = int(text) if text.isdecimal() and len(text) <= _SEED_DIGITS else None
    if seed is None:
        raise argparse.ArgumentTypeError(f"expected a number of at most {_SEED_DIGITS} digits, got {text!r}")
    return seed


def _width(text: str) -> int:
    from cemc.inspection.chips import MOST_WIDTH

    width = int(text) if text.isdecimal() else 0
    if not 1 <= width <= MOST_WIDTH:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to {MOST_WIDTH}, got {text!r}")
    return width


def _each(files: Sequence[str], run: Callable[[str], int]) -> int:
    """Runs a command on each file, whatever becomes of the others; the worst status counts."""
    return max(_guarded(path, run) for path in dict.fromkeys(files))


def _guarded(path: str, run: Callable[[str], int]) -> int:
    from cemc.diagnostics import CemError

    try:
        return run(path)
    except CemError as error:
        print(error, file=sys.stderr)
        return WRONG_FILE
    except BrokenPipeError:
        raise
    except OSError as error:
        print(f"cemc: error: {_reason(error, path)}", file=sys.stderr)
        return WRONG_COMMAND
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        _report(error, path)
        return OUR_FAULT


def _reason(error: OSError, path: str) -> str:
    """Names the file that the system refused, which is not always the one that was asked for."""
    return f"{error.filename or path}: {error.strerror or error}"


def _report(error: Exception, path: str) -> None:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    place = (
        f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}, in {frames[-1].name}" if frames else "unknown"
    )
    lines = str(error).splitlines()
    what = type(error).__name__ + (f": {lines[0][:200]}" if lines else "")
    print(
        f"cemc: {path}: this is a fault of cemc {__version__}, not of the file.\n"
        f"    {what} ({place})\n"
        f"    Please report it with the file. `{DEBUG}=1` shows where it happened.",
        file=sys.stderr,
    )


# ------------------------------------------------------------------------------------------------------ the commands


class _Compile:
    """Compiles one file after the other into one folder, where no two energies may write one file."""

    def __init__(self, out: str, several: bool) -> None:
        self.out = out
        self.several = several
        self.written: dict[str, str] = {}

    def __call__(self, path: str) -> int:
        from cemc.compiler import compile_file

        if self.several and not self._free(path, compile_file(path)):
            return WRONG_FILE
        for result in compile_file(path, self.out):
            for warning in result.warnings:
                print(warning, file=sys.stderr)
            print(result.path)
            for line in result.recognised:
                print(f"    {line}")
            for line in () if result.recognised else result.reasons:
                print(f"    generic: {line}")
            if not result.causal:
                print("    not causal: a token may read later ones")
            for note in result.later[:MOST_NOTES]:
                print(textwrap.indent(note, "    "))
        return DONE

    def _free(self, path: str, results: Sequence[Result]) -> bool:
        free = True
        for result in results:
            files = [result.name, *([f"{result.name}_kernels"] if result.kernels else [])]
            others = [self.written.setdefault(file.casefold(), path) for file in files]
            for other in dict.fromkeys(other for other in others if other != path):
                free = False
                print(f"cemc: error: {path}: energy `{result.name}` would overwrite that of {other}", file=sys.stderr)
        return free


class _Check:
    def __init__(self, seed: int, device: str) -> None:
        self.seed = seed
        self.device = device

    def __call__(self, path: str) -> int:
        try:
            from cemc.check import NoDevice, check_file
            from cemc.oracle.draw import NoSizes
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("torch", "numpy"):
                raise
            print("cemc: error: checking runs the layer, which needs torch: pip install 'cemc[torch]'", file=sys.stderr)
            return WRONG_COMMAND
        try:
            reports = deeply(lambda: check_file(path, seed=self.seed, device=self.device))
        except NoDevice as error:
            print(f"cemc: error: {error}", file=sys.stderr)
            return WRONG_COMMAND
        except NoSizes as error:
            print(f"cemc: error: {path}: {error}", file=sys.stderr)
            return WRONG_FILE
        for report in reports:
            _print_report(report)
        return DONE if all(report.passed for report in reports) else WRONG_FILE


def _print_report(report: CheckReport) -> None:
    """A verdict for each energy and backend, and the largest relative error of each quantity."""
    verdict = "ok" if report.passed else "FAILED"
    print(f"{report.energy}  {report.backend:8}  {verdict}  largest relative error {report.largest:.1e}")
    print(f"    update {report.update:.1e}, energy {report.value:.1e}")
    if report.gradients:
        print(f"    gradient to {', '.join(f'{name} {error:.1e}' for name, error in report.gradients.items())}")
    if not report.passed:
        print(f"    worst: {report.worst}")


class _Kernels:
    """Compiles the kernels of one file for a GPU, and prints what they need of it."""

    def __init__(self, target: str, width: int, dtype: str) -> None:
        self.target, self.width, self.dtype = target, width, dtype

    def __call__(self, path: str) -> int:
        from cemc.inspection.run import Unavailable, inspect_file
        from cemc.inspection.table import lines_of

        try:
            inspections = inspect_file(path, self.target, self.width, self.dtype)
        except Unavailable as error:
            print(f"cemc: error: {error}", file=sys.stderr)
            return WRONG_COMMAND
        print(f"{path}: {self.dtype} on {self.target}")
        for line in lines_of(inspections):
            print(line)
        for each in inspections:
            for line in each.errors:
                print(f"cemc: error: {path}: {each.energy}: {line}", file=sys.stderr)
        if not any(each.kernels or each.errors for each in inspections):
            print(f"cemc: error: {path}: there are no kernels to compile", file=sys.stderr)
            return WRONG_FILE
        return WRONG_FILE if any(each.errors for each in inspections) else DONE
