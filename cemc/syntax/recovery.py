"""Parsing past errors: a statement that cannot be read becomes a `tree.Unreadable`, and the rest of the file is still
read.

Where the parser stands between two statements, its stack is kept. A token that it refuses takes it back there, and it
goes on with the next token that looks like the beginning of a statement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lark import Token, Tree
from lark.exceptions import UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from cemc.diagnostics import Diagnostic
from cemc.diagnostics.syntax import NeverClosed, ReservedName, Unexpected
from cemc.record import changed
from cemc.source import Span
from cemc.syntax import tree
from cemc.syntax.build import name_of, span_of
from cemc.syntax.explain import Place, explain
from cemc.syntax.limits import MAX_SYNTAX_ERRORS

OPENING = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
CLOSING = {closing: opening for opening, closing in OPENING.items()}
_KEYWORDS = {"AXIS", "STATE", "GIVEN", "POSITIVE", "PARAM", "CONST", "FUNCTION", "UPDATE"}


@dataclass(eq=False, repr=False)
class _Between:
    """The parser between two statements. `token` begins the next one, `previous` the one before; `lengths` are those of
    the lists on the stack, which the parser extends in place."""

    states: list[Any]
    values: list[Any]
    lengths: list[int]
    token: int
    previous: int
    depth: int


class Recovery:
    """One run over the tokens of a file."""

    def __init__(self, interactive: InteractiveParser, tokens: list[Token], text: str, broken: list[int]) -> None:
        self.interactive = interactive
        self.tokens = tokens
        self.text = text
        self.broken = broken
        self.errors: list[Diagnostic] = []
        self.lost: list[tree.Unreadable] = []
        self.open: list[Token] = []
        self.between: list[_Between] = []
        """The last place between two statements at each depth of blocks: file, energy, update."""

    def run(self) -> tree.File:
        self._remember(0, drop_last=False)
        place = 0
        while place < len(self.tokens) and len(self.errors) < MAX_SYNTAX_ERRORS:
            token = self.tokens[place]
            try:
                self.interactive.feed_token(token)
            except UnexpectedToken:
                place = self._recover(place)
            else:
                self._follow(token, place)
                place += 1
        return self._finish()

    # -- where the parser stands

    def _remember(self, token: int, drop_last: bool) -> None:
        """Keeps the stack; `drop_last`: without the token just taken, which begins a statement."""
        state = self.interactive.parser_state
        states, values = list(state.state_stack), list(state.value_stack)
        if drop_last:
            states.pop()
            values.pop()
        lengths = [len(value.children) if isinstance(value, Tree) else 0 for value in values]
        depth = len(self.open)
        previous = token
        while self.between and self.between[-1].depth >= depth:
            previous = self.between.pop().token
        self.between.append(_Between(states, values, lengths, token, previous, depth))

    def _follow(self, token: Token, place: int) -> None:
        """Keeps the list of open brackets, and the stack after each block's opening and end and before each
        statement."""
        if token.type in OPENING:
            self.open.append(token)
            if token.type == "LBRACE":
                self._remember(place + 1, drop_last=False)
        elif token.type in CLOSING:
            if self.open:
                self.open.pop()
            if token.type == "RBRACE":
                self._remember(place + 1, drop_last=False)
        elif token.type in _KEYWORDS or token.type in ("NAME", "ENERGY"):
            state = self.interactive.parser_state
            table = state.parse_conf.parse_table.states[state.state_stack[-2]]
            if ("RBRACE" in table or token.type == "ENERGY") and len(self.open) == self.between[-1].depth:
                self._remember(place, drop_last=True)

    def _put(self, between: _Between) -> None:
        """Takes the parser back."""
        state = self.interactive.parser_state
        for value, length in zip(between.values, between.lengths, strict=True):
            if isinstance(value, Tree):
                del value.children[length:]
        state.state_stack[:] = between.states
        state.value_stack[:] = between.values

    def _accepted(self, place: int) -> set[str]:
        """The kinds of token that could stand at `place`. The refused one may have closed rules: the parser goes
        there anew."""
        between = self.between[-1]
        self._put(between)
        for token in self.tokens[between.token : place]:
            self.interactive.feed_token(token)
        return self.interactive.accepts()

    # -- what begins a statement

    def _begins_line(self, token: Token) -> bool:
        return self.text[: token.start_pos].rstrip(" \t")[-1:] in ("", "\n", "\r")

    def _kind(self, place: int) -> str:
        return self.tokens[place].type if place < len(self.tokens) else "$END"

    def _starts(self, place: int) -> bool:
        """Whether a statement seems to begin at `place`: a keyword, or a name that begins its line and leads to `=`."""
        token = self.tokens[place]
        if token.type in ("ENERGY", "UPDATE", "RBRACE"):
            return True
        if not self._begins_line(token):
            return False
        if token.type == "GIVEN":
            return self._kind(place + 1) != "LPAR"
        if token.type != "NAME":
            return token.type in _KEYWORDS
        after = place + 1
        if self._kind(after) == "NAME":
            return not self._begins_line(self.tokens[after])
        if self._kind(after) in ("LSQB", "LPAR"):
            closing, depth = OPENING[self._kind(after)], 1
            while depth and after + 1 < len(self.tokens):
                after += 1
                if self._kind(after) in ("EQUAL", "LBRACE", "RBRACE"):
                    return self._kind(after) == "EQUAL"
                depth += (self._kind(after) == CLOSING[closing]) - (self._kind(after) == closing)
            after += 1
        if self._kind(after) in ("PLUS", "MINUS", "STAR", "SLASH"):
            after += 1  # `x[i] += …`
        return self._kind(after) == "EQUAL" or (after < len(self.tokens) and self.tokens[after] in ("==", ":"))

    # -- errors

    def _recover(self, place: int) -> int:
        """Reports the token at `place`, drops the statement it stands in, and returns the token to go on with."""
        between = self.between[-1]
        error, place = self._explain(place)
        if isinstance(error, ReservedName):
            # The word is plainly meant as a name: read on with it.
            self.errors.append(error)
            self._accepted(place)  # the parser now stands before the word again
            name = Token.new_borrow_pos("NAME", str(self.tokens[place]), self.tokens[place])
            self.tokens[place] = name
            return place
        begin = between.previous if not self._begins_line(self.tokens[between.token]) else between.token
        begin = min(begin, between.token)
        span = span_of(self.tokens[begin]).to(span_of(self.tokens[place]))
        if not any(span.start <= offset <= span.end for offset in self.broken):
            self.errors.append(error)
        goes_on = self._next_statement(place, between)
        names = [name_of(each).text for each in self.tokens[begin:goes_on] if each.type == "NAME"]
        end = self.tokens[max(goes_on - 1, begin)]
        self.lost.append(tree.Unreadable(span.to(span_of(end)), tuple(names)))
        return goes_on

    def _explain(self, place: int) -> tuple[Diagnostic, int]:
        """Why the token at `place` is refused, and where what cannot be read ends."""
        token, between = self.tokens[place], self.between[-1]
        inner = self.open[-1] if len(self.open) > between.depth else None
        if token.type == "ENERGY" and self.open:
            return NeverClosed(span_of(self.open[-1]), str(self.open[-1])), place
        if inner is not None and self._starts(place):
            return NeverClosed(span_of(inner), str(inner)), place
        if inner is not None and token.type in CLOSING and CLOSING[token.type] != inner.type:
            right = {"LPAR": ")", "LSQB": "]"}.get(inner.type, "}")
            what = f"`{token}` where a `{inner}` is open"
            return Unexpected(span_of(token), what, suggestion=f"write `{right}`"), place
        if token.type == "EQUAL":
            first = place
            while first > between.token + 1 and not self._begins_line(self.tokens[first]):
                first -= 1
            if between.token < first < place and self._starts(first):
                last = self.tokens[first - 1]
                what = f"`{last}` needs a right side, and the next line begins another statement"
                return Unexpected(span_of(last), what), first
        first = between.token
        if between.previous < first < place and not self._begins_line(self.tokens[first]):
            if self.tokens[first].type == "NAME" and self._kind(first - 1) != "LBRACE":
                # `sum[k] x[k]` reads as if a statement began at `x`, which nobody means within a line.
                where = Place(self.tokens[first], self.tokens[first - 1], {"PLUS"}, False, False)
                return explain(where), place
        previous = self.tokens[place - 1] if place else None
        called = self._called(inner) if inner is not None else None
        where = Place(token, previous, self._accepted(place), inner is not None, self._begins_line(token), called)
        return explain(where), place

    def _called(self, opening: Token) -> str | None:
        """The word before a round bracket, binders and the like between them passed over."""
        place = next(number for number, token in enumerate(self.tokens) if token is opening) - 1
        if opening.type != "LPAR" or place < 0:
            return None
        if self._kind(place) == "RSQB":
            depth = 0
            while place >= 0:
                depth += (self._kind(place) == "RSQB") - (self._kind(place) == "LSQB")
                place -= 1
                if depth == 0:
                    break
        word = self._kind(place) if place >= 0 else ""
        return str(self.tokens[place]) if word in ("NAME", "GRAD", "GIVEN", "INPUT", "INTEGRAL") else None

    def _next_statement(self, place: int, between: _Between) -> int:
        """Takes the parser back and finds the token it can go on with."""
        blocks = 0
        for each in self.tokens[between.token : place]:
            blocks += (each.type == "LBRACE") - (each.type == "RBRACE")
        goes_on = max(place, between.token + 1) if self._kind(place) != "ENERGY" else place
        while goes_on < len(self.tokens):
            token = self.tokens[goes_on]
            if token.type == "ENERGY":
                break
            if token.type == "LBRACE":
                blocks += 1
            elif token.type == "RBRACE":
                if blocks <= 0 and between.depth > 0:
                    break
                blocks -= 1
            elif blocks <= 0 and between.depth > 0 and self._starts(goes_on):
                break
            goes_on += 1
        self._put(between)
        del self.open[between.depth :]
        between.token = between.previous = goes_on
        if self._kind(goes_on) == "ENERGY":
            self._close_blocks()
        return goes_on

    def _close_blocks(self) -> None:
        """Ends the blocks that are open as if their `}` stood here, so that what is in them is still checked."""
        end = self.tokens[-1].end_pos if self.tokens else 0
        while self.open:
            brace = Token("RBRACE", "}", start_pos=end, end_pos=end)
            self.interactive.feed_token(brace)
            self._follow(brace, self.between[-1].token - 1)

    # -- the end

    def _finish(self) -> tree.File:
        if len(self.errors) < MAX_SYNTAX_ERRORS:
            last = self.tokens[-1]
            try:
                return self._with_lost(self.interactive.feed_eof(last))
            except UnexpectedToken:
                self.errors.append(self._explain_end(last))
            try:
                between = self.between[-1]
                rest = self.tokens[between.token :]
                if rest:
                    names = tuple(name_of(each).text for each in rest if each.type == "NAME")
                    self.lost.append(tree.Unreadable(span_of(rest[0]).to(span_of(last)), names))
                self._put(between)
                del self.open[between.depth :]
                self._close_blocks()
                return self._with_lost(self.interactive.feed_eof(last))
            except UnexpectedToken:
                pass
        return tree.File(Span(0, len(self.text)), (), tuple(self.errors))

    def _explain_end(self, last: Token) -> Diagnostic:
        if self.open:
            return NeverClosed(span_of(self.open[-1]), str(self.open[-1]))
        end = Token("$END", "", start_pos=last.end_pos, end_pos=last.end_pos)
        return explain(Place(end, last, self._accepted(len(self.tokens)), False, False))

    def _with_lost(self, file: tree.File) -> tree.File:
        """Unreadable statements go into the energy they stand in."""
        energies = []
        for energy in file.energies:
            inside = tuple(each for each in self.lost if energy.span.start <= each.span.start < energy.span.end)
            energies.append(changed(energy, items=energy.items + inside) if inside else energy)
        return tree.File(file.span, tuple(energies), tuple(self.errors), tuple(each.span for each in self.lost))
