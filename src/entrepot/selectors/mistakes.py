# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a selector, in words that help its author.

The parser knows which tokens it would have taken; an author wants to know
what to write. So each situation that the grammar can be in has its sentence.
"""

from __future__ import annotations

import re

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from entrepot import limits

_KEYWORDS = frozenset({"AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"})

_ADVICE_BY_CHARACTER = {
    "'": "the text that begins here has no closing quote (a quote inside a text is written twice: 'it''s')",
    '"': "the name that begins here is empty or has no closing double quote",
    "&": "unexpected '&'; write AND",
    "|": "unexpected '|'; write OR",
    "!": "unexpected '!'; write NOT, or <> for not equal",
    ".": "unexpected '.'; a name with unusual characters stands in double quotes",
}

# As in C: whatever looks like one number to a reader, right or wrong.
_NUMBER_ATTEMPT = re.compile(r"\.?[0-9](?:[eE][+-]|[\w.$])*")

_SHOWN_CHARACTERS = 40


class SelectorMistake(Exception):
    """Why a text is no selector. It never leaves this room: callers get a `SelectorSyntaxError`."""

    def __init__(self, column: int, problem: str) -> None:
        super().__init__(column, problem)
        self.column = column
        self.problem = problem


def column_of(token: Token) -> int:
    """Where a token starts, counting from 1 over the whole text; Lark's own column restarts on each line."""
    return (token.start_pos or 0) + 1


def nested_too_deeply(column: int) -> SelectorMistake:
    return SelectorMistake(
        column, f"nested more than {limits.SELECTOR_DEPTH_MAX} deep; use fewer brackets, NOTs and signs"
    )


def unexpected_character(error: UnexpectedCharacters, text: str) -> SelectorMistake:
    """The mistake of a character with which nothing begins."""
    position = error.pos_in_stream or 0
    column = position + 1
    attempt = _NUMBER_ATTEMPT.match(text, position)
    if attempt:
        return SelectorMistake(
            column, f"{shown(attempt[0])} is not a number; numbers look like 42, 42L, 0x2A, 4.2 or 4.2e1"
        )
    character = text[position]
    return SelectorMistake(column, _ADVICE_BY_CHARACTER.get(character, f"unexpected character {character!r}"))


def unexpected_token(error: UnexpectedToken, text: str, parser: Lark) -> SelectorMistake:
    """The mistake of a word or sign, or of the end, in the wrong place."""
    found = error.token
    at_end = found.type == "$END"
    column = len(text.rstrip()) + 1 if at_end else column_of(found)
    before = list(parser.lex(text[: column - 1]))
    # `accepts` has tried each token; the parser's own `expected` names too many.
    accepted = set(error.accepts or ())
    if found.type == "RPAR" and not _open_bracket(before):
        return SelectorMistake(column, "this ')' has no '(' before it")
    expected = _expected(accepted, before)
    wants_value = "IDENTIFIER" in accepted
    if wants_value and found.type == "NULL":
        return SelectorMistake(column, f"{expected}; to test for null, write IS NULL or IS NOT NULL")
    if wants_value and found == "=" and before and before[-1] == "=":
        return SelectorMistake(column, f"{expected}; a single '=' tests for equality")
    if wants_value and found.upper() in _KEYWORDS:
        keyword = found.upper()
        return SelectorMistake(
            column, f'{expected}, and {keyword} is a keyword (a property of that name is written "{found}")'
        )
    if before and before[-1].type == "TEXT" and before[-1].end_pos == found.start_pos:
        return SelectorMistake(column, f"{expected}; a quote inside a text is written twice: 'it''s'")
    return SelectorMistake(
        column, f"{expected}, and the selector ends here" if at_end else f"{expected}, found {shown(found)}"
    )


def shown(text: str) -> str:
    """A piece of the selector, as an error message quotes it."""
    # str(), because a token of Lark shows its type when it is quoted.
    return repr(str(text) if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "...")


def _expected(accepted: set[str], before: list[Token]) -> str:
    """What should stand after the tokens before."""
    if not before:
        return "expected a condition, such as amount > 100"
    previous = before[-1]
    after = f"after {previous.upper() if previous.type in _KEYWORDS else shown(previous)}"
    if "IDENTIFIER" in accepted:
        wanted = "a condition" if previous.type in ("AND", "OR", "NOT") and "NOT" in accepted else "a value"
        return f"expected {wanted} {after}"
    if previous.type == "IS" or accepted == {"NULL"}:
        return f"expected {'NULL or NOT NULL' if 'NOT' in accepted else 'NULL'} {after}"
    if previous.type == "NOT":
        return "expected BETWEEN, IN or LIKE after NOT"
    if previous.type == "IN":
        return "expected a list of values in brackets after IN"
    if "AND" in accepted and "OR" not in accepted:
        return f"expected AND and the upper bound of BETWEEN {after}"
    if "COMMA" in accepted:
        return f"expected ',' or ')' {after}, to go on with or end the list of IN"
    bracket = _open_bracket(before)
    if bracket is not None:
        return f"expected ')' {after}, for the '(' at column {column_of(bracket)}"
    if "COMPARISON" in accepted:
        return f"expected an operator such as '=', AND, OR or the end {after}"
    return f"expected AND, OR or the end {after}"


def _open_bracket(tokens: list[Token]) -> Token | None:
    """The innermost '(' that is still open after these tokens."""
    still_open: list[Token] = []
    for token in tokens:
        if token.type == "LPAR":
            still_open.append(token)
        elif token.type == "RPAR":
            still_open.pop()
    return still_open[-1] if still_open else None
