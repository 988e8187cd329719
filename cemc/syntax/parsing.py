"""Text to tree. A statement that cannot be read becomes a `tree.Unreadable`, and the rest of the file is still read.

The parser is Lark's, fed token by token. Where it stands between two statements, its stack is kept; a token that it refuses
takes it back there, and it goes on with the next token that begins a line and can begin a statement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from cemc.diagnostics import CemError, Diagnostic
from cemc.diagnostics.syntax import EmptyFile, NeverClosed, TooDeep, TooLong
from cemc.source import Source, Span
from cemc.syntax import tree
from cemc.syntax.build import name_of, span_of
from cemc.syntax.explain import explain
from cemc.syntax.grammar import parser
from cemc.syntax.limits import MAX_CHARACTERS, MAX_DEPTH, MAX_SYNTAX_ERRORS
from cemc.syntax.tokens import check_tokens, hidden_characters

_OPENING = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE"}
_CLOSING = {closing: opening for opening, closing in _OPENING.items()}
_KEYWORDS = {"AXIS", "STATE", "GIVEN", "POSITIVE", "PARAM", "CONST", "FUNCTION", "UPDATE"}


def parse(source: Source) -> tree.File:
    """The tree of a file. Syntax errors of single statements are in `File.errors`; what leaves nothing to go on with, a file
    that is too long, too deep or empty, raises `CemError`."""
    text = source.text
    if len(text) > MAX_CHARACTERS:
        raise CemError(source, [TooLong(Span(MAX_CHARACTERS, MAX_CHARACTERS + 1), MAX_CHARACTERS)])
    interactive = parser().parse_interactive(text)
    checked = check_tokens(interactive.lexer_thread.lex(interactive.parser_state), text)
    errors = [*hidden_characters(text), *checked.errors]
    if not checked.tokens:
        raise CemError(source, errors or [EmptyFile(Span(len(text), len(text)), suggestion=_EXAMPLE)])
    too_deep = _deep_bracket(checked.tokens)
    if too_deep:
        raise CemError(source, [*errors, too_deep])
    file = _Recovering(interactive, checked.tokens, text, checked.broken).run()
    too_deep = _deep_node(file)
    if too_deep:
        raise CemError(source, [*errors, *file.errors, too_deep])
    return replace(file, errors=(*errors, *file.errors))


_EXAMPLE = "an energy is `energy NAME(d) { … }`"


def _deep_bracket(tokens: list[Token]) -> Diagnostic | None:
    depth = 0
    for token in tokens:
        if token.type in _OPENING:
            depth += 1
            if depth > MAX_DEPTH:
                return TooDeep(span_of(token), MAX_DEPTH, suggestion="give an inner part a name of its own")
        elif token.type in _CLOSING:
            depth = max(0, depth - 1)
    return None


def _deep_node(file: tree.File) -> Diagnostic | None:
    """Depth without brackets comes from chains of `-`, `*`, `^`, `[…]`: found on the tree, without recursion."""
    pending: list[tuple[tree.Node, int]] = [(file, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            return TooDeep(node.span, MAX_DEPTH, suggestion="give an inner part a name of its own")
        pending += [(child, depth + 1) for child in tree.children(node)]
    return None


@dataclass
class _Snapshot:
    """The parser between two statements, and the token that begins the next one."""

    states: list[Any]
    values: list[Any]
    token: int
    depth: int


class _Recovering:
    """One run over the tokens of a file."""

    def __init__(self, interactive: InteractiveParser, tokens: list[Token], text: str, broken: list[int]) -> None:
        self.interactive = interactive
        self.tokens = tokens
        self.text = text
        self.broken = broken
        self.errors: list[Diagnostic] = []
        self.lost: list[tree.Unreadable] = []
        self.open: list[Token] = []
        self.between: list[_Snapshot] = []
        """The last place between two statements at each depth of blocks: file, energy, update."""

    def run(self) -> tree.File:
        place = 0
        self._remember(0)
        while place < len(self.tokens):
            token = self.tokens[place]
            if len(self.errors) >= MAX_SYNTAX_ERRORS:
                break
            try:
                self.interactive.feed_token(token)
            except UnexpectedToken:
                place = self._recover(place)
                continue
            self._follow(token, place)
            place += 1
        return self._finish()

    # -- where the parser stands

    def _remember(self, place: int) -> None:
        state = self.interactive.parser_state
        snapshot = _Snapshot(list(state.state_stack), list(state.value_stack), place, len(self.open))
        while self.between and self.between[-1].depth >= snapshot.depth:
            self.between.pop()
        self.between.append(snapshot)

    def _follow(self, token: Token, place: int) -> None:
        """Keeps the list of open brackets, and a snapshot after each block's opening and before each statement."""
        state = self.interactive.parser_state
        if token.type in _OPENING:
            self.open.append(token)
            if token.type == "LBRACE":
                self._remember(place + 1)
            return
        if token.type in _CLOSING and self.open:
            self.open.pop()
        elif token.type in _KEYWORDS or token.type in ("NAME", "ENERGY"):
            table = state.parse_conf.parse_table.states[state.state_stack[-2]]
            if ("RBRACE" in table or token.type == "ENERGY") and len(self.open) == self.between[-1].depth:
                snapshot = self.between[-1]
                snapshot.states, snapshot.values = state.state_stack[:-1], state.value_stack[:-1]
                snapshot.token = place

    # -- errors

    def _accepted(self, place: int) -> set[str]:
        """The kinds of token that could stand at `place`: the refused one may have closed rules, so the parser goes there anew."""
        snapshot = self.between[-1]
        self._put(snapshot)
        for token in self.tokens[snapshot.token : place]:
            self.interactive.feed_token(token)
        return self.interactive.accepts()

    def _recover(self, place: int) -> int:
        """Reports the token at `place`, drops the statement it stands in, and returns the token to go on with."""
        token = self.tokens[place]
        snapshot = self.between[-1]
        statement = self.tokens[snapshot.token]
        if not any(statement.start_pos <= offset <= token.end_pos for offset in self.broken):  # type: ignore[operator]
            previous = self.tokens[place - 1] if place else None
            self.errors.append(explain(token, previous, self._accepted(place), self._unclosed(token), self.text))
        first = snapshot.token
        goes_on = self._next_statement(place, snapshot)
        names = [name_of(each).text for each in self.tokens[first:goes_on] if each.type == "NAME"]
        end = self.tokens[max(goes_on - 1, first)]
        self.lost.append(tree.Unreadable(span_of(statement).to(span_of(end)), tuple(names)))
        return goes_on

    def _unclosed(self, token: Token) -> Token | None:
        """An open bracket that the refused token shows to be the fault."""
        inner = self.open[-1] if len(self.open) > self.between[-1].depth else None
        if inner is not None and self._begins_statement(token):
            return inner
        return None

    def _begins_statement(self, token: Token) -> bool:
        if token.type in ("ENERGY", "UPDATE", "RBRACE", "$END"):
            return True
        line_start = self.text[: token.start_pos].rstrip(" \t")[-1:] in ("", "\n", "\r")
        return line_start and token.type in (*_KEYWORDS, "NAME")

    def _next_statement(self, place: int, snapshot: _Snapshot) -> int:
        """Restores the parser and finds the token it can go on with."""
        blocks = sum(1 for each in self.tokens[snapshot.token : place] if each.type == "LBRACE") - sum(
            1 for each in self.tokens[snapshot.token : place] if each.type == "RBRACE"
        )
        goes_on = max(place, snapshot.token + 1)
        while goes_on < len(self.tokens):
            token = self.tokens[goes_on]
            if token.type == "ENERGY":
                snapshot = self.between[0]
                break
            if token.type == "LBRACE":
                blocks += 1
            elif token.type == "RBRACE":
                if blocks <= 0 and snapshot.depth > 0:
                    break
                blocks -= 1
            elif blocks <= 0 and snapshot.depth > 0 and self._starts(goes_on):
                break
            goes_on += 1
        snapshot.token = goes_on
        self._restore(snapshot)
        return goes_on

    def _starts(self, place: int) -> bool:
        token = self.tokens[place]
        if token.type == "GIVEN" and self.tokens[min(place + 1, len(self.tokens) - 1)].type != "NAME":
            return False
        if not self._begins_statement(token):
            return False
        if token.type != "NAME":
            return True
        return self.tokens[min(place + 1, len(self.tokens) - 1)].type in ("EQUAL", "LSQB")

    def _put(self, snapshot: _Snapshot) -> None:
        state = self.interactive.parser_state
        state.state_stack[:] = snapshot.states
        state.value_stack[:] = snapshot.values

    def _restore(self, snapshot: _Snapshot) -> None:
        self._put(snapshot)
        del self.open[snapshot.depth :]
        while self.between[-1] is not snapshot:
            self.between.pop()

    # -- the end

    def _finish(self) -> tree.File:
        if len(self.errors) < MAX_SYNTAX_ERRORS:
            try:
                file: tree.File = self.interactive.feed_eof(self.tokens[-1])
                return self._with_lost(file)
            except UnexpectedToken:
                last = self.tokens[-1]
                end = Token("$END", "", start_pos=last.end_pos, end_pos=last.end_pos)
                if self.open:
                    opening = self.open[-1]
                    self.errors.append(NeverClosed(span_of(opening), str(opening)))
                elif not self.errors:
                    self.errors.append(explain(end, last, self._accepted(len(self.tokens)), None, self.text))
        return tree.File(Span(0, len(self.text)), (), tuple(self.errors))

    def _with_lost(self, file: tree.File) -> tree.File:
        """Unreadable statements go into the energy they stand in."""
        energies = []
        for energy in file.energies:
            inside = tuple(each for each in self.lost if energy.span.start <= each.span.start < energy.span.end)
            energies.append(replace(energy, items=energy.items + inside) if inside else energy)
        return tree.File(file.span, tuple(energies), tuple(self.errors))
