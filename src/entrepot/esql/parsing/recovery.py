# SPDX-License-Identifier: Apache-2.0
"""All syntax mistakes of a text, not only the first.

This runs only after a parse has failed. It parses again and, at a mistake,
mends what can be guessed (a missing ';', an END of the wrong block, a
missing THEN); otherwise it gives up the statement, as an ERROR in the
grammar's words, and goes on behind the next ';'.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lark import Token, UnexpectedToken

from entrepot.esql.mistakes import found_in_words, no_statement, unexpected
from entrepot.esql.parsing.lexical import EsqlTokens
from entrepot.esql.parsing.words import STATEMENT_STARTS

MISTAKES_MAX = 50
"""So many are told of one text; after that, they are more likely echoes than news."""

STACK_MAX = 2_000
"""How many things the parser may have begun at one place."""

_BLOCKS = frozenset({"IF", "WHILE", "CASE", "LOOP", "REPEAT", "FOR", "MODULE"})
_ROUTINE = re.compile(
    r"(?:CREATE\s+(?:FUNCTION|PROCEDURE|COMPUTE|FILTER|DATABASE|DATABASEEVENT|MODULE)|END\s+MODULE)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Found:
    """A mistake without its file."""

    line: int
    column: int
    problem: str


def nested_too_deeply(token: Token) -> Found:
    return Found(token.line or 1, token.column or 1, "this is nested too deeply; split it up")


class Recovery:
    """One text, read to its end whatever is wrong with it."""

    def __init__(self, words: EsqlTokens, state: Any) -> None:
        self._text = words.text
        self._state = state
        self._states = state.parse_conf.states
        self._tokens: Iterator[Token] = words.tokens(state)
        self._waiting: list[Token] = []
        self._previous: Token | None = None
        self._last: Token | None = None
        self._refused: Token | None = None
        self._spent = False
        self.found: list[Found] = []
        self.result: Any = ()
        """What was read in spite of the mistakes; empty when the end did not fit."""

    def run(self) -> list[Found]:
        """Every mistake, first to last."""
        while len(self.found) < MISTAKES_MAX:
            token = self._next()
            if token is None:
                end = _end_of(self._text, self._last)
                if self._accepts(self._state.state_stack, "$END"):
                    self.result = self._state.feed_token(end, True)
                elif not self._spent:
                    self._tell(end, unexpected(end, self._expected(self._state.state_stack)))
                break
            if len(self._state.state_stack) > STACK_MAX:
                self.found.append(nested_too_deeply(token))
                break
            before = self._state.state_stack.copy()
            if not self._feed(token):
                if token.type == "UNCLOSED":
                    self._tell(token, unexpected(token, ()))
                    break
                # What was refused twice is left out: that is what makes this end.
                if token is not self._refused:
                    self._refused = token
                    self._recover(token, before)
            self._previous = token
        return self.found

    # --- tokens -------------------------------------------------------------------------------

    def _next(self) -> Token | None:
        token = self._waiting.pop(0) if self._waiting else next(self._tokens, None)
        if token is not None:
            self._last = token
        return token

    def _feed(self, token: Token) -> bool:
        try:
            self._state.feed_token(token)
        except UnexpectedToken:
            return False
        return True

    def _made(self, kind: str, near: Token) -> Token:
        return Token(kind, kind.removeprefix("_"), near.start_pos, near.line, near.column)

    # --- what the parser could take -------------------------------------------------------------

    def _accepts(self, stack: list[int], terminal: str) -> bool:
        """Whether a terminal could come next; lookaheads of single states promise too much."""
        stack = stack.copy()
        while True:
            action = self._states[stack[-1]].get(terminal)
            if action is None:
                return False
            target = action[1]
            if isinstance(target, int):
                return True
            size = len(target.expansion)
            if size:
                del stack[-size:]
            stack.append(self._states[stack[-1]][target.origin.name][1])
            if terminal == "$END" and stack[-1] == self._state.parse_conf.end_state:
                return True

    def _expected(self, stack: list[int]) -> list[str]:
        candidates = {name for name in self._states[stack[-1]] if not name.islower()}
        return [name for name in candidates if self._accepts(stack, name)]

    # --- recovering -----------------------------------------------------------------------------

    def _tell(self, token: Token, problem: str) -> None:
        found = Found(token.line or 1, token.column or 1, problem)
        if found not in self.found:
            self.found.append(found)

    def _recover(self, token: Token, before: list[int]) -> None:
        expected = self._expected(before)
        if self._mend_end(token, expected) or self._mend_semicolon(token, before):
            return
        if expected == ["_COLON"] and self._previous is not None:
            self._tell(self._previous, no_statement(self._previous))
        else:
            self._tell(token, unexpected(token, expected))
        self._give_up(token)

    def _mend_end(self, token: Token, expected: list[str]) -> bool:
        """END WHILE where END IF belongs, and END alone."""
        if self._previous is None or self._previous.type != "END" or len(expected) != 1 or expected[0] not in _BLOCKS:
            return False
        block = expected[0]
        if token.type in _BLOCKS:
            self._tell(token, f"found END {token.type} where END {block} belongs")
            return self._feed(self._made(block, token))
        self._tell(token, f"found {found_in_words(token)} where {block} belongs: END {block} closes the block")
        if token.type not in ("_SEMICOLON", "IDENTIFIER"):
            return False
        # The END belongs to a block further out, so the inner one is closed for it.
        if not self._feed(self._made(block, token)) or not self._feed(self._made("_SEMICOLON", token)):
            return False
        if self._accepts(self._state.state_stack, "END"):
            end = Token("END", "END", self._previous.start_pos, self._previous.line, self._previous.column)
            self._waiting = [end, token, *self._waiting]
            self._refused = None
        return True

    def _mend_semicolon(self, token: Token, before: list[int]) -> bool:
        """A statement, or END, where ';' was forgotten."""
        previous = self._previous
        if previous is None or token.type not in STATEMENT_STARTS | {"END", "ELSE", "ELSEIF"}:
            return False
        if not self._accepts(before, "_SEMICOLON"):
            return False
        after = Token(
            "_SEMICOLON", ";", previous.end_pos, previous.line, (previous.column or 1) + len(str(previous.value))
        )
        if not self._feed(after):
            return False
        if not self._accepts(self._state.state_stack, token.type):
            return False
        self._tell(after, f"';' is missing before '{token.value}'")
        return self._feed(token)

    def _give_up(self, token: Token) -> None:
        """Pop what was begun until an ERROR can stand for it, then skip to where the parser can go on."""
        state = self._state
        while len(state.state_stack) > 1 and not self._accepts(state.state_stack, "ERROR"):
            state.state_stack.pop()
            state.value_stack.pop()
        if not self._accepts(state.state_stack, "ERROR"):
            self._skip_all()
            return
        around = state.state_stack.copy()
        outside = self._accepts(around, "CREATE") and not self._accepts(around, "SET")
        self._feed(self._made("ERROR", token))
        waiting: Token | None = token
        while waiting is not None:
            if outside:
                # Statements that stand outside any routine are echoes of the mistake, so go to the next routine.
                if _ROUTINE.match(self._text, waiting.start_pos or 0) and self._accepts(around, waiting.type):
                    self._feed(self._made("_SEMICOLON", waiting))
                    self._waiting.insert(0, waiting)
                    return
            elif self._accepts(state.state_stack, waiting.type):
                self._feed(waiting)
                return
            elif waiting.type in STATEMENT_STARTS | {"_SEMICOLON"} and self._close_header(waiting):
                self._waiting.insert(0, waiting)
                return
            waiting = self._next()
        self._spent = True

    def _close_header(self, token: Token) -> bool:
        """IF ... without THEN: pretend that it was there, so that the block's END has its beginning."""
        for word in ("THEN", "DO", "END"):
            if self._accepts(self._state.state_stack, word):
                return self._feed(self._made(word, token))
        return False

    def _skip_all(self) -> None:
        self._spent = True
        while self._next() is not None:
            pass


def _end_of(text: str, last: Token | None) -> Token:
    """The end of a text as a token that stands behind its last one."""
    if last is None:
        return Token("$END", "", 0, 1, 1)
    value = str(last.value)
    line, column = (last.line or 1), (last.column or 1)
    source = text[last.start_pos or 0 : last.end_pos] if last.end_pos is not None else value
    if "\n" in source:
        return Token("$END", "", len(text), line + source.count("\n"), len(source) - source.rindex("\n"))
    return Token("$END", "", len(text), line, column + len(source))
