# SPDX-License-Identifier: Apache-2.0
"""The selector: a condition on messages, ready to be asked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from entrepot import limits
from entrepot.errors import SelectorSyntaxError
from entrepot.message import Message
from entrepot.selectors.kinds import Condition

if TYPE_CHECKING:
    from entrepot.selectors.cost import Cost

SELECTORS_CACHED = 1024
"""Clients send the same text again and again, AMQP and JMS ones with every consumer they open."""

_EXCERPT_CHARACTERS = 60
_QUICK_CHARACTERS = 256
"""To read a selector takes about ten microseconds a character."""


class Selector:
    """Tells which messages a reader or subscriber wants; made by `compile_selector`."""

    __slots__ = ("_condition", "_cost", "text")

    def __init__(self, text: str, condition: Condition, cost: Cost) -> None:
        self.text = text
        self._condition = condition
        self._cost = cost

    def matches(self, message: Message) -> bool:
        """Whether the condition is TRUE for the message; FALSE and UNKNOWN both do not match."""
        return bool(self._condition(message))

    def steps_for(self, message: Message) -> int:
        """What asking about this message costs at most; see cost.py."""
        cost = self._cost
        return cost.of(message) if cost.scanned else cost.steps

    @property
    def steps_max(self) -> int:
        """What asking about any message costs at most."""
        return self._cost.steps + len(self._cost.scanned) * limits.SELECTOR_TEXT_CHARACTERS_MAX

    def __repr__(self) -> str:
        return f"Selector({self.text!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Selectors travel to other processes as text, since functions cannot.
        return compile_selector, (self.text,)


_COMPILED: dict[str, Selector | SelectorSyntaxError] = {}
"""What texts have become, mistakes too, the oldest first. Under Python's own lock, from any thread."""


def compile_selector(text: str) -> Selector:
    """A selector from its text, in the language of JMS message selectors.

    The text must be a condition; blank text is none, as a caller that wants every
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
    compiled = _COMPILED.get(text)
    if compiled is None:
        compiled = _COMPILED[text] = _compile(text)
        while len(_COMPILED) > SELECTORS_CACHED:
            _COMPILED.pop(next(iter(_COMPILED)), None)
    if isinstance(compiled, SelectorSyntaxError):
        raise SelectorSyntaxError(*compiled.args)
    return compiled


class NotCompiledYet(Exception):
    """A selector whose text takes longer to read than an event loop may be kept."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def ready_selector(text: str) -> Selector:
    """The same as `compile_selector` for an event loop.

    Raises:
        NotCompiledYet: Call `compile_selector` on a thread first, whatever it raises, then this again.
        SelectorSyntaxError: The text is no selector.
    """
    if _QUICK_CHARACTERS < len(text) <= limits.SELECTOR_CHARACTERS_MAX and text not in _COMPILED:
        raise NotCompiledYet(text)
    return compile_selector(text)


def _compile(text: str) -> Selector | SelectorSyntaxError:
    # Imported here, so that a process that never sees a selector does not load Lark.
    from entrepot.selectors.cost import cost_of
    from entrepot.selectors.evaluation import condition_for
    from entrepot.selectors.mistakes import SelectorMistake
    from entrepot.selectors.syntax import parse

    try:
        expression = parse(text)
        return Selector(text, condition_for(expression), cost_of(expression))
    except SelectorMistake as mistake:
        return SelectorSyntaxError(_on_one_line(text), mistake.column, mistake.problem)


def _on_one_line(text: str) -> str:
    # The error prints a caret below the selector, which a line break or tab would
    # put in the wrong place. Every column stays what it was.
    return re.sub(r"\s", " ", text)
