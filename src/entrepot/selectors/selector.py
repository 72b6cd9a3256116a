# SPDX-License-Identifier: Apache-2.0
"""The selector: a condition on messages, ready to be asked."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from entrepot import limits
from entrepot.errors import SelectorSyntaxError
from entrepot.message import Message
from entrepot.selectors.kinds import Condition

SELECTORS_CACHED = 1024
"""Clients send the same text again and again, AMQP and JMS ones with every consumer they open."""

_EXCERPT_CHARACTERS = 60


class Selector:
    """Tells which messages a reader or subscriber wants; made by `compile_selector`."""

    __slots__ = ("_condition", "text")

    def __init__(self, text: str, condition: Condition) -> None:
        self.text = text
        self._condition = condition

    def matches(self, message: Message) -> bool:
        """Whether the condition is TRUE for the message; FALSE and UNKNOWN both do not match."""
        return bool(self._condition(message))

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Selectors travel to other processes as text, since functions cannot.
        return compile_selector, (self.text,)


def compile_selector(text: str) -> Selector:
    """A selector from its text, in the language of JMS message selectors.

    The text must be a condition; blank text is none, as a caller who wants every
    message has no selector to compile.

    Raises:
        SelectorSyntaxError: The text is no selector, for whatever reason. No later
            call of `matches` raises anything.
    """
    if not isinstance(text, str):
        raise SelectorSyntaxError(f"<{type(text).__name__}>", 1, f"a selector is a str, not {type(text).__name__}")
    if len(text) > limits.SELECTOR_CHARACTERS_MAX:
        problem = f"a selector has at most {limits.SELECTOR_CHARACTERS_MAX} characters, this one has {len(text)}"
        raise SelectorSyntaxError(_on_one_line(text[:_EXCERPT_CHARACTERS]) + "...", 1, problem)
    return _compile(text)


@lru_cache(maxsize=SELECTORS_CACHED)
def _compile(text: str) -> Selector:
    # Imported here, so that a process that never sees a selector does not load Lark.
    from entrepot.selectors.evaluation import condition_for
    from entrepot.selectors.mistakes import Mistake
    from entrepot.selectors.syntax import parse

    try:
        return Selector(text, condition_for(parse(text)))
    except Mistake as mistake:
        raise SelectorSyntaxError(_on_one_line(text), mistake.column, mistake.problem) from None


def _on_one_line(text: str) -> str:
    # The error prints a caret below the selector, which a line break or tab would
    # put in the wrong place. Every column stays what it was.
    return re.sub(r"\s", " ", text)
