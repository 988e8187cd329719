"""Text to tree. Lark's parser is fed token by token; `recovery.py` takes it past statements that cannot be read."""

from __future__ import annotations

from lark import Token

from cemc.diagnostics import CemError, Diagnostic
from cemc.diagnostics.syntax import EmptyFile, TooDeep, TooLong
from cemc.record import changed
from cemc.source import Source, Span
from cemc.syntax import tree
from cemc.syntax.build import span_of
from cemc.syntax.grammar import parser
from cemc.syntax.limits import LONGEST_CHAIN, MAX_CHARACTERS, MAX_DEPTH
from cemc.syntax.recovery import CLOSING, OPENING, Recovery
from cemc.syntax.tokens import check_tokens, hidden_characters

_EXAMPLE = "an energy is `energy NAME(d) { … }`"


def parse(source: Source) -> tree.File:
    """The tree of a file; see `cemc.syntax.parse`."""
    text = source.text
    if len(text) > MAX_CHARACTERS:
        raise CemError(source, [TooLong(Span(MAX_CHARACTERS, MAX_CHARACTERS + 1), MAX_CHARACTERS)])
    interactive = parser().parse_interactive(text)
    checked = check_tokens(interactive.lexer_thread.lex(interactive.parser_state), text)
    errors = [*hidden_characters(text), *checked.errors]
    if not checked.tokens:
        end = max(len(text.rstrip()), 1)
        raise CemError(source, errors or [EmptyFile(Span(end - 1, end), suggestion=_EXAMPLE)])
    too_deep = _deep_bracket(checked.tokens)
    if too_deep:
        raise CemError(source, [*errors, too_deep])
    file = Recovery(interactive, checked.tokens, text, checked.broken).run()
    too_deep = _deep_node(file)
    if too_deep:
        raise CemError(source, [*errors, *file.errors, too_deep])
    return changed(file, errors=(*errors, *file.errors))


def _deep_bracket(tokens: list[Token]) -> Diagnostic | None:
    depth = 0
    for token in tokens:
        if token.type in OPENING:
            depth += 1
            if depth > MAX_DEPTH:
                return TooDeep(span_of(token), MAX_DEPTH, suggestion="give an inner part a name of its own")
        elif token.type in CLOSING:
            depth = max(0, depth - 1)
    return None


def _levels(node: tree.Node) -> int:
    """How much deeper the typed expressions of a node's children lie: a sum becomes nested or balanced pairs."""
    if not isinstance(node, tree.Sum):
        return 1
    return len(node.rest) if len(node.rest) < LONGEST_CHAIN else len(node.rest).bit_length() + 1


def _deep_node(file: tree.File) -> Diagnostic | None:
    """Depth without brackets comes from chains of `-`, `*`, `^`, `[…]`: found on the tree, without recursion."""
    pending: list[tuple[tree.Node, int]] = [(file, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            return TooDeep(node.span, MAX_DEPTH, suggestion="give an inner part a name of its own")
        pending += [(child, depth + _levels(node)) for child in tree.children(node)]
    return None
