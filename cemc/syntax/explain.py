"""Why a token cannot stand where it stands, in words about the file rather than about the grammar."""

from __future__ import annotations

from dataclasses import dataclass

from lark import Token

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.syntax import NeverOpened, ReservedName, Unexpected
from cemc.operations.signatures import REDUCERS, SIGNATURES
from cemc.source import Span
from cemc.syntax.build import span_of

_WORDS = {
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LSQB": "`[`",
    "RSQB": "`]`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "COMMA": "`,`",
    "COLON": "`:`",
    "EQUAL": "`=`",
    "TILDE": "`~`",
    "NAME": "a name",
    "NUMBER": "a number",
    "$END": "the end of the file",
}
_OPERATORS = {"PLUS", "MINUS", "STAR", "SLASH", "AT", "POWER", "TRANSPOSE", "COMPARE", "AND", "OR", "IF", "IN"}
_HOLDS = ("GIVEN", "INPUT")
_STARTS = {"AXIS", "STATE", "GIVEN", "POSITIVE", "PARAM", "CONST", "FUNCTION", "UPDATE"}


@dataclass(frozen=True)
class Place:
    """A token that the parser refused. `accepts` are the kinds that it would have taken; `inside` says whether the
    token stands inside round or square brackets, `begins_line` whether it is the first of its line; `called` is the
    word whose arguments or operand it stands among, if it does: `f` in `f(…`, `sum` in `sum[k](…`, `grad` in
    `grad[x](…`."""

    token: Token
    previous: Token | None
    accepts: set[str]
    inside: bool
    begins_line: bool
    called: str | None = None

    @property
    def after_expression(self) -> bool:
        return "PLUS" in self.accepts

    @property
    def before_expression(self) -> bool:
        return "NUMBER" in self.accepts and "LPAR" in self.accepts

    @property
    def before_statement(self) -> bool:
        return "RBRACE" in self.accepts


def explain(place: Place) -> Diagnostic:
    """The fault at a place."""
    token, previous, accepts = place.token, place.previous, place.accepts
    span = span_of(token)
    if token.type == "$END" and previous is not None:
        span = Span(max(0, span_of(previous).end - 1), span_of(previous).end)
    if token.type in ("RPAR", "RSQB") and not place.inside and not place.before_expression:
        return NeverOpened(span, str(token))
    if token.type == "LSQB" and previous is not None and previous.type in _HOLDS and accepts == {"NAME"}:
        what = f"`{previous}` is a reserved word and cannot be a name"
        return Unexpected(span_of(previous), what, suggestion=f"write `{previous}_`; an input is `given m[token]`")
    if previous is not None and previous.type == "NAME" and accepts == {"EQUAL"} and place.begins_line:
        return Unexpected(span_of(previous), f"`{_short(previous)}` needs a value: `{_short(previous)} = …`")
    if _is_reserved(place):
        return ReservedName(span, str(token), suggestion=f"write `{token}_`")
    special = _special(place)
    if special is not None:
        what, advice = special
        return Unexpected(span, what, suggestion=advice)
    if place.before_expression:
        after = f", after `{_short(previous)}`" if previous is not None else ""
        advice = None
        if token.type == "RPAR" and previous is not None and previous.type == "LPAR":
            advice = _OPERANDS.get(place.called or "")
        return Unexpected(span, f"{_found(token)} where an expression should begin{after}", suggestion=advice)
    advice = _near(token, accepts)
    if advice is None and "COMMA" in accepts and previous is not None and token.type in ("NAME", "NUMBER"):
        advice = f"is a comma missing? `{_short(previous)}, {_short(token)}`"
    return Unexpected(span, f"unexpected {_found(token)}{_expected(accepts)}", suggestion=advice)


def _is_reserved(place: Place) -> bool:
    """A reserved word where a name was due, rather than one that begins the next statement."""
    token = place.token
    if not _is_word(token) or "NAME" not in place.accepts:
        return False
    if place.begins_line or place.after_expression:
        return place.begins_line and place.before_statement and token.type not in (*_STARTS, "ENERGY")
    return not (place.before_expression and token.type in _OPERATORS) and not place.before_statement


def _is_word(token: Token) -> bool:
    return token.type != "NAME" and token.type.isalpha() and token.isidentifier()


def _short(token: Token) -> str:
    return str(token) if len(token) <= 30 else token[:30] + "…"


def _found(token: Token) -> str:
    return "the end of the file" if token.type == "$END" else f"`{_short(token)}`"


def _expected(accepts: set[str]) -> str:
    left_out = _OPERATORS | _STARTS | {"NAME", "RBRACE"} if "RBRACE" in accepts else _OPERATORS
    kinds = sorted(_WORDS.get(kind, f"`{kind.lower()}`") for kind in accepts - left_out)
    if not kinds or len(kinds) > 5:
        return ""
    return ": expected " + (", ".join(kinds[:-1]) + " or " if len(kinds) > 1 else "") + kinds[-1]


def _near(token: Token, accepts: set[str]) -> str | None:
    """A reserved word that was probably meant."""
    if token.type != "NAME":
        return None
    from difflib import get_close_matches

    words = [kind.lower() for kind in accepts if kind.isalpha() and kind.lower() not in _PUNCTUATION]
    found = get_close_matches(token.lower(), words, n=1, cutoff=0.6)
    return f"did you mean `{found[0]}`?" if found else None


_PUNCTUATION = {
    kind.lower() for kind in (*_WORDS, "PLUS", "MINUS", "STAR", "SLASH", "AT", "POWER", "COMPARE", "TRANSPOSE")
}


def _special(place: Place) -> tuple[str, str | None] | None:
    """Mistakes that are common enough to have an answer of their own."""
    token, accepts, found = place.token, place.accepts, _found(place.token)
    before = place.previous.type if place.previous is not None else ""
    if accepts and accepts <= {"ENERGY", "$END"}:
        advice = _near(token, accepts) or "a file is one or more `energy NAME(…) { … }`"
        return f"{found} stands outside an energy", advice
    if token.type in _STARTS and place.before_statement and accepts.isdisjoint(_STARTS):
        return f"{found} stands inside the update block", "declarations stand before it"
    if token.type == "COLON" and before != "RSQB" and (place.before_expression or place.after_expression):
        return _colon(place)
    if place.after_expression:
        return _after_expression(place)
    if token.type == "IF" and before == "COMMA" and place.inside:
        return "`if` after a comma", "a condition follows the binders without one: `sum[j if j < i](…)`"
    if before == "NAME" and accepts == {"LPAR"}:
        return _after_energy_name(place)
    if token.type == "LSQB" and before == "NAME" and accepts == {"RPAR", "COMMA"}:
        return "`[` after an argument", "the arguments of a function are numbers: `function f(z) = …`"
    if token.type == "LBRACE" and before == "RPAR" and accepts == {"EQUAL"}:
        return "`{` where `=` was due", "a function is `function f(z) = …`"
    if token.type == "SLASH" and before == "SLASH":
        return "there is no `//`", "`/` divides; in the default of a header name it must divide exactly"
    if before in _HOLDS and accepts == {"LPAR"}:
        held = f"{_short(token)}…" if token.type == "NAME" else "…"
        return (
            f"{found} cannot follow `{place.previous}`",
            f"what it holds stands in brackets: `{place.previous}({held})`",
        )
    if before == "RSQB" and accepts == {"LPAR"}:
        return f"{found} where `(` was due", "a gradient is `grad[x](E)[i]`, an antiderivative `integral[f](u)`"
    if accepts == {"INT"}:
        return _kind_of_input(token)
    if token.type == "PLUS" and place.before_expression:
        return "`+` needs a left side", "leave a sign `+` out"
    if token.type == "NUMBER" and "NAME" in accepts and not place.before_expression:
        sizes = "sizes are header names: `energy name(d, r = 3)`" if before in ("LSQB", "LPAR", "COMMA") else None
        random = "write `~ normal(mean, std)` or `~ uniform(lo, hi)`" if before == "TILDE" else None
        named = "a name does not begin with a digit" if before == "ENERGY" else None
        return f"{found} where a name should stand", sizes or random or named
    if before in ("GRAD", "INTEGRAL") and accepts == {"LSQB"}:
        return f"{found} cannot follow `{place.previous}`", {
            "GRAD": "a gradient is `grad[x](E)`",
            "INTEGRAL": "an antiderivative is `integral[silu](u)`",
        }[before]
    if before == "NAME" and {"EQUAL", "LSQB"} <= accepts and "STATE" not in accepts:
        return _after_first_name(place)
    if before == "RSQB" and accepts == {"EQUAL"}:
        return _after_left_side(place)
    if before == "NAME" and {"IN", "RSQB", "COMMA"} <= accepts and token.type in _OPERATORS:
        return (
            f"{found} left of `=`, where only index variables may stand",
            "write `z[i] = …`, and `i - 1` on the right",
        )
    if before == "RSQB" and token.type == "TILDE":
        return "`~`: only parameters start at random", None
    if token.type == "EQUAL" and "COLON" in accepts:
        return "`=`: an input has no start", "what has one is `state` or `param`"
    return None


_OPERANDS = {
    "grad": "name the energy: `grad[x](E)`",
    "given": "say what it holds: `given(x[j])`",
    "input": "say what it holds: `input(x[j])`",
}

_WORDS_OF_OTHERS = {
    "def": "a function is `function f(z) = …`",
    "lambda": "a function is `function f(z) = …`",
    "fn": "a function is `function f(z) = …`",
    "let": "a definition needs no word before it: `z[i] = …`",
    "var": "a definition needs no word before it: `z[i] = …`",
    "for": "there are no loops: an index on the left, `E[i] = …`, or of a reduction, `sum[k](…)`, runs over its axis",
    "while": "the update is repeated by `update repeat 2 { … }`",
    "return": "nothing is returned: the energy is the definition `E`, or what an update block names",
    "import": "a file needs no imports",
    "from": "a file needs no imports",
    "class": "a file is one or more `energy NAME(…) { … }`",
    "tensor": "what is learned is `param W[d]`, what comes with each call `given m[token]`",
    "buffer": "a number is `const a = 1`; what comes with each call is `given m[token]`",
    "weight": "what is learned is `param W[d]`",
    "minimize": "the energy is the definition `E`, and a step on it the `update` block",
}


def _colon(place: Place) -> tuple[str, str | None]:
    if place.inside and place.called is None:
        return (
            "`:` cannot stand in a subscript",
            "there are no slices: axes that are left out at the end stay, as in `Q[0]`",
        )
    return "`:` cannot stand here", None


def _kind_of_input(token: Token) -> tuple[str, str | None]:
    """After `given m[token]:`."""
    kind = token.lower()
    if kind.startswith("bool") or kind == "mask":
        return f"{_found(token)}: labels are `int`", "write `int`, which takes bool too"
    if kind.startswith(("float", "real", "number", "double", "tensor")):
        return f"{_found(token)}: an input that is not `int` is numbers", f"leave `: {_short(token)}` out"
    return f"{_found(token)} where only `int` may stand", "labels are `int`; for numbers, leave the `:` out"


def _after_energy_name(place: Place) -> tuple[str, str | None] | None:
    """The token follows the name of an energy, where its brackets are due; or that of a distribution."""
    token, previous = place.token, place.previous
    if token.type == "LBRACE":
        return "`{` where `(` was due", f"header names stand in brackets: `energy {previous}(d) {{ … }}`"
    if token.type in _OPERATORS:
        return f"{_found(token)} cannot stand in a name", "names are letters, digits and underscores"
    return None


def _after_first_name(place: Place) -> tuple[str, str | None] | None:
    """The token follows the first word of a statement."""
    token, previous, found = place.token, place.previous, _found(place.token)
    if previous is None:
        return None
    if token.type in ("NAME", *_STARTS) and not place.begins_line:
        advice = _WORDS_OF_OTHERS.get(previous.lower()) or _near(previous, {*_STARTS, "ENERGY"})
        return f"`{_short(previous)}` begins no declaration", advice
    if token.type in _OPERATORS or token.type == "LPAR":
        advice = "write `==` only in conditions" if token == "==" else f"a definition is `{_short(previous)}[i] = …`"
        return f"{found} cannot stand left of `=`", advice
    return None


def _after_left_side(place: Place) -> tuple[str, str | None] | None:
    """The token follows `name[indices]` at the beginning of a statement."""
    if place.token.type in ("PLUS", "MINUS", "STAR", "SLASH"):
        return f"{_found(place.token)} cannot stand left of `=`", f"write `x[i] = x[i] {place.token} …`"
    if place.token.type == "COMPARE":
        return f"{_found(place.token)} compares; it defines nothing", "write `=`"
    if place.token.type == "COLON":
        return "`:` cannot stand left of `=`", "a definition is `z[i] = …`"
    return None


def _arguments(function: str, name: str) -> str:
    """How the arguments of a function are written."""
    if name in ("dim", "axis", "keepdim", "keepdims", "dims"):
        if function in REDUCERS:
            return f"`{function}(u)` is of a vector; over an index it is `{function}[k](u[k])`"
        return f"`{function}(u)` is of a vector: subscript what is not to be reduced"
    written = {"rope": "rope(u, position, base)"}.get(function)
    if written is None and function in SIGNATURES and SIGNATURES[function].kind == "vector":
        written = f"{function}(u, eps)" if SIGNATURES[function].max_arity == 2 else f"{function}(u)"
    return f"write `{written}`" if written else "write them in their order"


def _after_expression(place: Place) -> tuple[str, str | None] | None:
    """The token stands where an operator or the end of the expression was due."""
    token, previous, accepts, found = place.token, place.previous, place.accepts, _found(place.token)
    before = previous.type if previous is not None else ""
    if token.type == "COMPARE" and "COMPARE" not in accepts:
        advice = "one `=` defines a name" if token == "==" and not place.inside else None
        if place.called in REDUCERS:
            advice = f"binders stand in square brackets: `{place.called}[j <= i](…)`"
        return f"{found}: a comparison may stand only in binders, after `if`, and in `where`", advice
    if token.type == "EQUAL":
        if "COMPARE" in accepts:
            return "`=` is not a comparison", "write `==`"
        if place.called is not None and before == "NAME":
            return f"`{previous} =`: arguments have no names", _arguments(place.called, str(previous))
        return "`=` may stand only after a name and its indices", "a definition is `z[i] = …`"
    if token.type == "RPAR" and place.called in ("normal", "uniform") and "COMMA" in accepts:
        return f"`{place.called}` takes two numbers", "write `normal(mean, std)` or `uniform(lo, hi)`"
    if token.type == "IF":
        advice = "write `where(condition, a, b)`"
        if place.called in REDUCERS:
            advice = f"it stands with the binders: `{place.called}[j if j < i](…)`"
        return "`if` may stand only in the brackets of a reduction", advice
    if token.type in ("AND", "OR", "NOT", "IN"):
        return f"{found} joins conditions, and here stands a number", None
    if "COMPARE" in accepts and token.type in ("RPAR", "RSQB", "COMMA") and accepts.isdisjoint({token.type}):
        return f"{found} where a comparison is missing", "a condition compares two numbers: `a < b`, `mask[i] != 0`"
    if previous is not None and (token.type in ("NAME", "NUMBER", "LPAR") or _is_word(token)):
        advice = "a product is `*` or `@`"
        if token == "for":
            advice = "an index runs over its axis: `sum[k in heads](…)`, `sum[j <= i](…)`"
        elif place.called is not None and "COMMA" in accepts:
            advice += ", and arguments are separated by `,`"
        elif before == "RSQB":
            advice += f"; the body of a reduction stands in brackets, as in `sum[k]({_short(token)}…)`"
        elif before in ("NUMBER", "NAME"):
            advice = f"a product is `{_short(previous)} * {_short(token)}`"
        return f"{found} cannot follow `{_short(previous)}`", advice
    return None
