"""What both fuzzers feed the compiler, how they change it, and what they ask of every answer."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

from cemc.diagnostics import CemError, render_all
from cemc.semantics import Analysis, analyse
from cemc.syntax import parse, source_of

ROOT = Path(__file__).parent.parent.parent
FOLDERS = (
    "tests/semantics/right",
    "tests/semantics/wrong",
    "tests/syntax/wrong",
    "tests/fuzz/found",
    "tests/properties/energies",
    "tests/properties/regressions",
    "examples/energies",
)

PIECES = """energy a(d) { state x[token, d] given m[token, d]: int = positive param W[d, d] ~ normal(0, 1) const c
    function f(z) update repeat 2 } E[i] logsumexp[j <= i if not and or in where grad[x](E)[i] input integral[silu]
    + - * / @ ^ .T ( ) [ ] { } , 1 0.5 1e9 # ' " $ \t \n é β × ﬁ \0 \u202e sum softmax rope z y i j k""".split(" ")

_TOKEN = re.compile(r"\s+|\w+|[<>=!*]+|\.\w*|.", re.DOTALL)


def seeds() -> list[str]:
    """Every `.cem` file of the project that is text."""
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.cem"))]
    return [path.read_bytes().decode("utf-8", "replace") for path in files]


def front_end(data: bytes) -> Analysis | None:
    """Reads a file as the front end does: typed energies, or None where it is wrong and its report is in order."""
    try:
        source = source_of(data, "fuzz.cem")
        result = analyse(parse(source), source)
        report = render_all(result.warnings, source)
    except CemError as error:
        assert error.diagnostics
        result, report = None, str(error)
    lines = report.splitlines()
    assert all(line.startswith(("fuzz.cem:", "    ")) for line in lines), report
    assert all(re.match(r"fuzz\.cem:([1-9]\d*:[1-9]\d*: (error|warning): |\s*and \d+ more$)", line)
               for line in lines if line.startswith("fuzz.cem:")), report  # fmt: skip
    assert "\0" not in report
    return result


def mutated(
    data: bytes, generator: random.Random, texts: list[str], limit: int, flip: Callable[[bytes], bytes]
) -> bytes:
    """A file near `data`: bytes flipped, or tokens left out, doubled, exchanged or taken from another file. Half of the
    time only like for like, which often leaves a file that is right, and means something else."""
    if generator.random() < 0.1:
        return flip(data)[:limit]
    tokens = _TOKEN.findall(data.decode("utf-8", "replace"))
    gentle = generator.random() < 0.5
    for _ in range(generator.choice((1, 1, 2, 3))):
        if gentle:
            _exchange(tokens, generator, texts)
        else:
            _replace(tokens, generator, texts)
    return "".join(tokens).encode("utf-8", "surrogatepass")[:limit]


def _exchange(tokens: list[str], generator: random.Random, texts: list[str]) -> None:
    """Another token of the same class in the place of one; a call round a name; a line of another file."""
    places = [place for place, token in enumerate(tokens) if not token.isspace()]
    if not places:
        return
    place = generator.choice(places)
    token = tokens[place]
    if generator.random() < 0.1:
        tokens.insert(place, "\n" + generator.choice(generator.choice(texts).splitlines() or [""]) + "\n")
    elif token.isidentifier() and generator.random() < 0.3:
        function = generator.choice("exp log sqrt tanh sum softmax rmsnorm given input norm2 max -".split(" "))
        tokens[place] = f"{function}({token})"
    elif token.isidentifier():
        tokens[place] = generator.choice([each for each in tokens if each.isidentifier()])
    elif token.isdigit():
        tokens[place] = generator.choice("0 1 2 3 7 0.5 1e-3 1e300".split(" "))
    else:
        classes = ("+-*/@^", ("<=", "<", "==", "!=", ">"))
        tokens[place] = next((generator.choice(each) for each in classes if token in each), token)


def _replace(tokens: list[str], generator: random.Random, texts: list[str]) -> None:
    """Some tokens become others of any kind."""
    start = generator.randint(0, len(tokens))
    end = min(len(tokens), start + generator.choice((1, 1, 1, 2, 3, 8)))
    old = tokens[start:end]
    match generator.randint(0, 7):
        case 0:
            new: list[str] = []
        case 1:
            new = old * generator.choice((2, 2, 3, 50))
        case 2:
            new = [" ", generator.choice(PIECES), " "]
        case 3:  # another token of the same file
            new = [generator.choice(tokens)] if tokens else []
        case 4:  # a stretch of another file
            other = _TOKEN.findall(generator.choice(texts))
            at = generator.randint(0, len(other))
            new = other[at : at + generator.randint(1, 20)]
        case 5:  # a line of another file
            new = ["\n", generator.choice(generator.choice(texts).splitlines() or [""]), "\n"]
        case 6:  # moved
            at = generator.randint(0, len(tokens))
            new = tokens[at : at + generator.randint(1, 12)]
        case _:  # in brackets
            left, right = generator.choice(("()", "[]", "{}", ("exp(", ")"), ("given(", ")"), ("sum(", ")")))
            new = [left, *old, right]
    tokens[start:end] = new
