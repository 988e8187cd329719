"""Why a token cannot stand where it stands, in words about the file rather than about the grammar."""

from __future__ import annotations

from lark import Token

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.syntax import NeverClosed, NeverOpened, ReservedName, Unexpected
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
    "COMPARE": "a comparison",
    "POWER": "`^`",
    "TRANSPOSE": "`.T`",
    "$END": "the end of the file",
}
_OPERATORS = {"PLUS", "MINUS", "STAR", "SLASH", "AT", "POWER", "TRANSPOSE", "COMPARE", "AND", "OR", "IF", "IN"}
_PLAIN = {"PLUS", "MINUS", "STAR", "SLASH", "AT", "POWER", "TRANSPOSE"}


def explain(token: Token, previous: Token | None, accepts: set[str], unclosed: Token | None, text: str) -> Diagnostic:
    """The fault of a token that the parser refused; `accepts` are the kinds that it would have taken."""
    span = span_of(token)
    if token.type == "$END" and previous is not None:
        span = Span(max(0, span_of(previous).end - 1), span_of(previous).end)
    if unclosed is not None:
        return NeverClosed(span_of(unclosed), str(unclosed))
    found = _found(token)
    if token.type in ("RPAR", "RSQB", "RBRACE") and not accepts & {"NUMBER", "RPAR", "RSQB"}:
        return NeverOpened(span, str(token))
    if (
        token.type.isalpha()
        and token.isidentifier()
        and token.type != "NAME"
        and accepts & {"NAME"}
        and not ("NUMBER" in accepts and token.type in _OPERATORS)
    ):
        return ReservedName(span, str(token), suggestion=f"write `{token}_`")
    special = _special(token, previous, accepts)
    if special is not None:
        what, advice = special
        return Unexpected(span, what, suggestion=advice)
    if "NUMBER" in accepts and "LPAR" in accepts:
        after = f" after `{previous}`" if previous is not None and previous.type != "$END" else ""
        return Unexpected(span, f"{found} where an expression should begin{after}")
    return Unexpected(span, f"unexpected {found}" + _expected(accepts))


def _found(token: Token) -> str:
    if token.type == "$END":
        return "the end of the file"
    word = str(token)
    return f"`{word if len(word) <= 30 else word[:30] + '…'}`"


def _expected(accepts: set[str]) -> str:
    kinds = sorted(_WORDS.get(kind, f"`{kind.lower()}`") for kind in accepts - _OPERATORS)
    if not kinds or len(kinds) > 5:
        return ""
    return ": expected " + (", ".join(kinds[:-1]) + " or " if len(kinds) > 1 else "") + kinds[-1]


def _special(token: Token, previous: Token | None, accepts: set[str]) -> tuple[str, str | None] | None:
    """Mistakes that are common enough to have an answer of their own."""
    before = previous.type if previous is not None else ""
    after_expression = "PLUS" in accepts
    if accepts <= {"ENERGY", "$END"}:
        return f"{_found(token)} stands outside an energy", "a file is one or more `energy NAME(…) { … }`"
    if token.type == "COMPARE" and after_expression:
        return (
            f"{_found(token)}: a comparison may stand only in binders, after `if`, and in `where`",
            "one `=` defines a name" if token == "==" else None,
        )
    if token.type == "EQUAL" and after_expression:
        if "COMPARE" in accepts:
            return "`=` is not a comparison", "write `==`"
        return "`=` may stand only after a name with its indices: `z[i] = …`", None
    if token.type == "PLUS" and "NUMBER" in accepts:
        return "`+` needs a left side", "leave a sign `+` out"
    if token.type == "IF" and after_expression:
        return "`if` may stand only in the brackets of a reduction", "write `where(condition, a, b)`"
    if token.type in ("NAME", "NUMBER") and after_expression and before in ("NUMBER", "NAME", "RPAR", "RSQB"):
        if before == "RSQB":
            advice = f"write `*` or `@` for a product, or brackets for the body of a reduction: `(…)`, as in `sum[k]({token})`"
        else:
            advice = (
                f"write `*`: `{previous} * {token}`"
                if before in ("NAME", "NUMBER")
                else "write `*` or `@` for a product"
            )
        return f"{_found(token)} cannot follow what stands before it", advice
    if token.type == "NUMBER" and "NAME" in accepts and "NUMBER" not in accepts:
        return f"{_found(token)} where a name should stand", "sizes are header names: `energy name(d, r = 3)`"
    return None
