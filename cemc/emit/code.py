"""Python expressions as text that knows how tightly it binds and where it may break.

The layout is that of `ruff format`: a statement that does not fit on its line is broken inside its outermost call, or
put in parentheses and broken before each operator of the loosest kind in it.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

WIDTH = 120

# Levels of binding, loosest first.
CONDITIONAL, OR, COMPARISON, BIT_OR, BIT_AND, SUM, PRODUCT, UNARY, POWER, POSTFIX = range(10)

_SIMPLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*|\d+(\.\d+)?(e[+-]?\d+)?|-\d+(\.\d+)?")


@dataclass(frozen=True)
class Code:
    """`text`: the expression on one line; `level`: how tightly it binds; `weight`: how many operations are in it.

    The rest is for printing it better as part of something else. `parts`: for a chain, its operands with the operators
    before them. `call`: for a call, what stands before the bracket, the arguments, and what stands behind. `positive`:
    for `-u`, u. `total`: for a sum, what is summed. `kept`: for something made of a sum, the axes summed (from the
    right, before that) and the same with these axes kept with length 1.
    """

    text: str
    level: int = POSTFIX
    weight: int = 0
    parts: tuple[tuple[str, str], ...] = ()
    call: tuple[str, tuple[str, ...], str] | None = None
    positive: Code | None = None
    total: Total | None = None
    kept: tuple[frozenset[int], Code] | None = None

    def at(self, level: int) -> str:
        """The text as an operand that must bind at least as tightly as `level`."""
        return self.text if self.level >= level else f"({self.text})"

    @property
    def is_name(self) -> bool:
        return self.text.isidentifier()


@dataclass(frozen=True)
class Total:
    """A sum or mean of `summed` over `dims` (counted from the right, and called `axes`)."""

    summed: Code
    dims: tuple[int, ...]
    axes: tuple[str, ...]
    called: str = "sum"

    def code(self, *, keepdim: bool = False) -> Code:
        dims = str(self.dims[0]) if len(self.dims) == 1 else f"({', '.join(map(str, self.dims))})"
        if keepdim:
            return replace(method(self.summed, self.called, dims, "keepdim=True"), total=self)
        plain = method(self.summed, self.called, dims)
        return replace(plain, total=self, kept=(frozenset(self.dims), self.code(keepdim=True)))

    def mean(self, *, keepdim: bool) -> Code:
        return replace(self, called="mean").code(keepdim=keepdim)


def name(text: str) -> Code:
    """A name, an attribute or anything else that never needs brackets."""
    return Code(text)


def call(head: str, *arguments: Code | str) -> Code:
    """`head(arguments)`; arguments may be keyword arguments as text."""
    texts = tuple(a if isinstance(a, str) else a.text for a in arguments)
    weight = 1 + sum(a.weight for a in arguments if isinstance(a, Code))
    return Code(f"{head}({', '.join(texts)})", POSTFIX, call=(head, texts, ")"), weight=weight)


def method(target: Code, called: str, *arguments: Code | str) -> Code:
    """`target.called(arguments)`."""
    made = call(f"{target.at(POSTFIX)}.{called}", *arguments)
    if target.call is not None:
        # Broken, if need be, in the brackets of the target.
        head, inner, tail = target.call
        made = replace(made, call=(head, inner, f"{tail}{made.text.removeprefix(target.text)}"))
    return replace(made, weight=made.weight + target.weight)


def attribute(target: Code, called: str) -> Code:
    return Code(f"{target.at(POSTFIX)}.{called}", weight=target.weight)


def index(target: Code, inside: str) -> Code:
    """`target[inside]`."""
    return Code(f"{target.at(POSTFIX)}[{inside}]", weight=target.weight)


def chain(level: int, first: Code, *rest: tuple[str, Code]) -> Code:
    """`first op operand op operand ...`, all operators of one level and grouped from the left."""
    if not rest:
        return first
    parts = [("", first.at(level)), *((operator, operand.at(level + 1)) for operator, operand in rest)]
    if first.level == level and first.parts:
        if ("@" in (operator for operator, _ in first.parts)) != (rest[0][0] == "@"):
            # `(a * b) @ c` needs no brackets, but its reader does.
            parts[0] = ("", f"({first.text})")
        else:
            parts = [*first.parts, *parts[1:]]
    text = parts[0][1] + "".join(f" {operator} {operand}" for operator, operand in parts[1:])
    weight = len(rest) + first.weight + sum(operand.weight for _, operand in rest)
    return Code(text, level, parts=tuple(parts), weight=weight)


def negative(operand: Code) -> Code:
    """`-operand`; of a product, the sign goes to its first factor."""
    if operand.level == PRODUCT:
        parts = tuple((o, f"-{t}" if n == 0 else t) for n, (o, t) in enumerate(operand.parts))
        return replace(operand, text=f"-{operand.text}", parts=parts, positive=operand)
    return Code(f"-{operand.at(UNARY)}", UNARY, weight=operand.weight, positive=operand)


def invert(operand: Code) -> Code:
    return Code(f"~{operand.at(UNARY)}", UNARY, weight=operand.weight)


def power(base: Code, exponent: Code) -> Code:
    """`base**exponent`, with blanks round the operator unless both sides are simple."""
    left = base.at(POSTFIX)
    right = exponent.at(UNARY)
    operator = "**" if _SIMPLE.fullmatch(left) and _SIMPLE.fullmatch(right) else " ** "
    return Code(f"{left}{operator}{right}", POWER, weight=1 + base.weight + exponent.weight)


def conditional(then: Code, condition: Code, otherwise: Code) -> Code:
    text = f"{then.at(OR)} if {condition.at(OR)} else {otherwise.at(CONDITIONAL)}"
    return Code(text, CONDITIONAL, weight=1 + then.weight + condition.weight + otherwise.weight)


def number(value: Fraction) -> Code:
    """A literal, or a quotient of two integers where no float literal is exactly the number."""
    if value < 0:
        return negative(number(-value)) if _literal(-value) else chain(
            PRODUCT, negative(number(Fraction(-value.numerator))), ("/", number(Fraction(value.denominator)))
        )  # fmt: skip
    literal = _literal(value)
    if literal is not None:
        return Code(literal)
    return chain(PRODUCT, number(Fraction(value.numerator)), ("/", number(Fraction(value.denominator))))


def _literal(value: Fraction) -> str | None:
    """`value` >= 0 as an integer or float literal; None where a quotient says it better."""
    if value.denominator == 1 and value < 2**53:
        return str(value.numerator)
    try:
        text = re.sub(r"e-0(?=\d)", "e-", repr(float(value)))
    except OverflowError:
        return "1e999"
    if Fraction(text) == value or value.denominator == 1 or max(value.numerator, value.denominator) >= 2**53:
        return text
    return None


def template(pattern: str, *operands: Code) -> Code:
    """A format string such as `torch.exp({0})` filled in, with brackets where the operand needs them."""

    def fill(match: re.Match[str]) -> str:
        operand = operands[int(match.group(1))]
        before, after = pattern[: match.start()].rstrip(), pattern[match.end() :].lstrip()
        # `torch.clamp({0}, min=1)`: alone between bracket and comma, nothing can tear the operand apart.
        alone = re.search(r"\w\($|,$", before) is not None and after[:1] in (")", ",")
        return operand.at(CONDITIONAL if alone else POSTFIX)

    text = re.sub(r"\{(\d)\}", fill, pattern)
    text = re.sub(r"(?<![\w.)\]])([^\W\d][\w.]*) \*\* (\d+)", r"\1**\2", text)
    weight = 1 + sum(operand.weight for operand in operands)
    head = re.fullmatch(r"([\w.]+)\((.*)\)", pattern)
    if head is not None and len(operands) == 1 and head.group(2) == "{0}":
        return Code(text, POSTFIX, call=(head.group(1), (operands[0].text,), ")"), weight=weight)
    return Code(text, POSTFIX if _closed(text) else OR, weight=weight)


def _closed(text: str) -> bool:
    """Whether one pair of brackets, perhaps after a dotted name, encloses all of `text`."""
    match = re.match(r"[\w.]*\(", text)
    if match is None or not text.endswith(")"):
        return False
    depth = 0
    for position, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if depth == 0 and position >= match.end() - 1:
            return position == len(text) - 1
    return False


# ------------------------------------------------------------------------------------------------------- layout


def statement(before: str, code: Code, comment: str, indent: int) -> list[str]:
    """The lines of `before + code`, with a comment behind it where it fits and above it where it does not."""
    margin = " " * indent
    line = f"{margin}{before}{code.text}"
    remark = f"  # {comment}" if comment else ""
    if len(line + remark) <= WIDTH:
        return [line + remark]
    above = [f"{margin}# {comment}"] if comment else []
    if len(line) <= WIDTH:
        return [*above, line]
    if code.parts:
        first, *rest = code.parts
        inner = [f"{margin}    {first[1]}", *(f"{margin}    {operator} {text}" for operator, text in rest)]
        return [*above, f"{margin}{before}(", *inner, f"{margin})"]
    if code.call is not None:
        head, arguments, tail = code.call
        return [*above, *bracket(f"{before}{head}(", arguments, tail, indent)]
    return [*above, f"{margin}{before}(", f"{margin}    {code.text}", f"{margin})"]


def bracket(head: str, items: Sequence[str], tail: str, indent: int) -> list[str]:
    """`head item, item tail` on one line, else the items on a line of their own, else one line for each."""
    margin = " " * indent
    flat = f"{margin}{head}{', '.join(items)}{tail}"
    if len(flat) <= WIDTH:
        return [flat]
    inner = f"{margin}    {', '.join(items)}"
    if len(inner) <= WIDTH:
        return [f"{margin}{head}", inner, f"{margin}{tail}"]
    return [f"{margin}{head}", *(f"{margin}    {item}," for item in items), f"{margin}{tail}"]


def summary(text: str, indent: int) -> str:
    """A docstring of one sentence, on more lines than one where it is long."""
    margin = " " * indent
    flat = f'{margin}"""{text}"""'
    if len(flat) <= WIDTH:
        return flat
    lines = textwrap.wrap(text, WIDTH - indent - 3, break_long_words=False, break_on_hyphens=False)
    return "\n".join([f'{margin}"""{lines[0]}', *(f"{margin}{line}" for line in lines[1:]), f'{margin}"""'])
