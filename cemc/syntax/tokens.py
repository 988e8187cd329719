"""Characters and tokens: everything that can be wrong before grammar comes into it.

Lark splits the text; what it calls UNKNOWN, names with characters that no Python identifier has, and numbers that
touch a letter are faults here. A fault never stops the split: the token is repaired where its meaning is plain (`×`
for `*`) and dropped where it is not, and `broken` says where the parser should stay quiet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from unicodedata import category
from unicodedata import name as character_name

from lark import Token

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.syntax import BadNumber, HiddenCharacter, NameTooLong, StrangeCharacter, TouchingLetter
from cemc.operations.signatures import SIGNATURES
from cemc.source import Span
from cemc.syntax.limits import MAX_NAME, MAX_NUMBER, MIN_NUMBER

_HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of characters that are not seen: control, format (as of text direction), surrogates, separators."""

_LETTER = re.compile(r"\w")

_MEANT = {
    "−": ("MINUS", "-"),
    "–": ("MINUS", "-"),
    "×": ("STAR", "*"),
    "⋅": ("STAR", "*"),
    "∗": ("STAR", "*"),
    "÷": ("SLASH", "/"),
    "≤": ("COMPARE", "<="),
    "≥": ("COMPARE", ">="),
    "≠": ("COMPARE", "!="),
    "∈": ("IN", "in"),
    "∧": ("AND", "and"),
    "∨": ("OR", "or"),
    "¬": ("NOT", "not"),
    "（": ("LPAR", "("),
    "）": ("RPAR", ")"),
    "，": ("COMMA", ","),
}
"""Characters from typeset mathematics, and what stands for them here."""

_SPACES = "\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"

_ADVICE = {
    ";": "statements end by themselves: leave the `;` out",
    "&": "write `and`",
    "|": "write `or`; the absolute value is `abs(u)`",
    "!": "write `not`",
    "%": "there is no remainder",
    "?": "write `where(condition, a, b)`",
    "'": "there are no strings; a transpose is `.T`",
    '"': "there are no strings",
    "\\": "a statement may simply go on in the next line",
    "$": "names are letters, digits and underscores",
    "·": "write `*`, or `dot(u, v)` for vectors",
    "²": "write `^ 2`",
    "³": "write `^ 3`",
    "√": "write `sqrt(…)`",
    "∑": "write `sum[k](…)`",
    "∫": "write `integral[f](…)`",
    "∇": "write `grad[x](E)`",
    "∞": "there is no infinity",
    "∂": "write `grad[x](E)`",
    "‖": "the square of a norm is `norm2(u)`",
    "∥": "the square of a norm is `norm2(u)`",
    "⟨": "an inner product is `dot(u, v)`",
    "⟩": "an inner product is `dot(u, v)`",
    "⊙": "write `*`",
    "⊗": "write `outer(u, v)`",
    "⊤": "a transpose is `.T`",
    "∏": "write `exp(sum[k](log(…)))`",
    "½": "write `0.5`",
    "¼": "write `0.25`",
    "←": "write `=`",
    "≔": "write `=`",
    "→": "a definition is `z[i] = …`",
    "∀": "an index on the left of `=` runs over its axis",
    "‘": "there are no strings; a transpose is `.T`",
    "’": "there are no strings; a transpose is `.T`",
    "′": "there are no strings; a transpose is `.T`",
    "“": "there are no strings",
    "”": "there are no strings",
    "…": "say over what with an index: `sum[j <= i](…)`",
}


def shown(character: str) -> str:
    """A character as a message names it: itself where it can be seen, its code point where not."""
    code = f"U+{ord(character):04X}"
    if character.isascii() and character.isprintable():
        return f"`{character}`"
    known = character_name(character, "")
    visible = f"`{character}` " if character.isprintable() else ""
    return f"{visible}{code}" + (f" ({known.lower()})" if known else "")


@dataclass(eq=False, repr=False)
class Checked:
    """Tokens for the parser, the faults on the way, and the offsets at which a token was dropped."""

    tokens: list[Token] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)


def is_hidden(character: str) -> bool:
    return character not in "\t\n\r" and category(character) in _HIDDEN


def hidden_characters(text: str) -> Iterator[Diagnostic]:
    """Characters that are not seen, comments included: a reader must see what is compiled."""
    for character in filter(is_hidden, set(text)):
        start = text.find(character)
        while start >= 0:
            yield HiddenCharacter(Span(start, start + 1), shown(character))
            start = text.find(character, start + 1)


def check_tokens(tokens: Iterable[Token], text: str) -> Checked:
    result = Checked()
    skip = 0
    for token in tokens:
        start, end = token.start_pos or 0, token.end_pos or 0
        if start < skip:
            continue
        if token.type == "NUMBER":
            skip = _number(token, start, end, text, result)
        elif token.type == "NAME" and not token.isascii():
            _name(token, result)
        elif token.type == "NAME" and len(token) > MAX_NAME:
            result.errors.append(NameTooLong(Span(start, end), MAX_NAME))
            result.tokens.append(token)
        elif token.type == "UNKNOWN":
            skip = _unknown(start, text, result)
        else:
            if token.type == "TRANSPOSE" and _LETTER.match(text, end):
                result.errors.append(TouchingLetter(Span(start, end + 1), "`.T`", suggestion="put a space after `.T`"))
                result.broken.append(start)
            result.tokens.append(token)
    return result


def _number(token: Token, start: int, end: int, text: str, result: Checked) -> int:
    """Checks a number and what touches it; returns the offset up to which the text is dealt with."""
    sound = len(token) <= MAX_NUMBER and _in_range(token)
    # The parser makes an exact fraction of it, which the exponent alone can make as large as memory: `0e999999999`.
    value = "1" if not sound else "0" if float(token) == 0 else str(token)
    result.tokens.append(token.update(value=value))
    word = re.compile(r"\w*").match(text, end)
    stop = word.end() if word else end
    if stop > end:
        rest = text[end:stop]
        advice = None
        product = rest.isidentifier() and rest[0] != "_" and not re.match(r"[eE][0-9]*$", rest)
        product = product and not (token == "0" and rest[0] in "xXbBoO")
        if product:
            advice = f"write `{_short(token)} * {_short(rest)}`"
        elif rest[0] == "_":
            advice = "write the digits without `_`"
        result.errors.append(TouchingLetter(Span(start, stop), f"the number `{_short(token)}`", suggestion=advice))
        if product:
            result.tokens.append(Token("STAR", "*", start_pos=end, end_pos=end))
            return end
    elif text[end : end + 2] == "..":
        stop = end + 2
        advice = "an index is bound by a comparison: `sum[1 <= j <= i](…)`"
        result.errors.append(BadNumber(Span(start, stop), "there are no ranges", suggestion=advice))
        result.broken.append(start)
    elif text[end : end + 1] == "." and text[end : end + 2] != ".T":
        stop = end + 1
        result.errors.append(
            BadNumber(Span(start, stop), "digits must follow the point", suggestion=f"write `{token}.0`")
        )
    elif len(token) > MAX_NUMBER:
        result.errors.append(BadNumber(Span(start, end), f"the number has more than {MAX_NUMBER} characters"))
    elif not sound:
        why = "the number is outside the range of float64"
        result.errors.append(BadNumber(Span(start, end), why))
    if result.errors and result.errors[-1].span.start == start:
        result.tokens[-1] = token.update(value="1")
    return stop


def _in_range(token: str) -> bool:
    """Whether float64 has the number: not as infinity, nor as 0 or with fewer digits than others."""
    value = float(token)
    return MIN_NUMBER <= value < math.inf if re.search("[1-9]", token.lower().partition("e")[0]) else value == 0


def _name(token: Token, result: Checked) -> None:
    """A name with characters beyond ASCII: accepted as a Python identifier, else taken apart at what does not
    belong."""
    start = token.start_pos or 0
    if token.isidentifier():
        if len(token) > MAX_NAME:
            result.errors.append(NameTooLong(Span(start, start + len(token)), MAX_NAME))
        result.tokens.append(token)
        return
    word = 0
    for place in range(len(token) + 1):
        if place < len(token) and ("a" + token[place]).isidentifier():
            continue
        part = token[word:place]
        if part:
            kind = "NAME" if part.isidentifier() else "NUMBER" if part.isdecimal() and part.isascii() else ""
            if kind:
                result.tokens.append(_piece(token, kind, part, word))
            else:
                _strange(part[0], start + word, token, result)
        if place < len(token):
            _strange(token[place], start + place, token, result)
        word = place + 1


def _strange(character: str, start: int, token: Token, result: Checked) -> None:
    if is_hidden(character):
        return  # reported by `hidden_characters`
    span = Span(start, start + 1)
    if character in _SPACES:
        result.errors.append(StrangeCharacter(span, shown(character), suggestion="write a plain space"))
    elif character in _MEANT:
        kind, text = _MEANT[character]
        result.errors.append(StrangeCharacter(span, shown(character), suggestion=f"write `{text}`"))
        result.tokens.append(_piece(token, kind, character, start - (token.start_pos or 0)))
    else:
        result.errors.append(StrangeCharacter(span, shown(character), suggestion=_ADVICE.get(character)))
        result.broken.append(start)


def _piece(token: Token, kind: str, text: str, offset: int) -> Token:
    start = (token.start_pos or 0) + offset
    value = dict(_MEANT.values()).get(kind, text) if kind != "COMPARE" else _MEANT[text][1]
    return Token(kind, value, start_pos=start, end_pos=start + len(text))


def _unknown(start: int, text: str, result: Checked) -> int:
    """An ASCII character that starts no token; a run of one character is one fault."""
    character = text[start]
    end = start + 1
    while text[end : end + 1] == character:
        end += 1
    result.broken.append(start)
    if is_hidden(character):
        return end
    advice = _ADVICE.get(character)
    string = re.compile(r'"[^"\r\n]*"').match(text, start)
    if string:
        result.errors.append(StrangeCharacter(Span(*string.span()), shown(character), suggestion=advice))
        return string.end()
    digits = re.compile(r"\.[0-9]+").match(text, start)
    if digits:
        result.errors.append(
            BadNumber(
                Span(*digits.span()), "digits must precede the point", suggestion=f"write `0{_short(digits.group())}`"
            )
        )
        result.tokens.append(Token("NUMBER", "1", start_pos=start, end_pos=digits.end()))
        result.broken.pop()
        return digits.end()
    if character == ".":
        advice = _after_point(text, start, end, result)
    result.errors.append(StrangeCharacter(Span(start, end), shown(character), suggestion=advice))
    return end


_LIBRARIES = {"np", "numpy", "torch", "math", "jnp", "jax", "nn", "F", "tf", "sp", "sympy", "functional", "linalg"}


def _after_point(text: str, start: int, end: int, result: Checked) -> str:
    """What to write for a point, or several, that are no transpose."""
    previous = result.tokens[-1] if result.tokens else None
    word = re.compile(r"[A-Za-z_]\w*").match(text, end)
    name = _short(word.group()) if word else ""
    if end - start > 1:
        return "there are no ranges and slices: an index is bound by a comparison, `sum[j <= i](…)`"
    if previous is not None and previous.end_pos == start and previous in _LIBRARIES and name:
        return f"functions stand by themselves: `{name}(…)`"
    if name in ("t", "mT", "H", "transpose"):
        return "a transpose is `.T`"
    if name in SIGNATURES:
        return f"there are no methods: write `{name}(u)`"
    if name in ("shape", "size", "dim"):
        return "sizes are header names: `energy name(d)`"
    return "a transpose is `.T`; nothing else follows a point"


def _short(text: str) -> str:
    return text if len(text) <= 20 else text[:20] + "…"
