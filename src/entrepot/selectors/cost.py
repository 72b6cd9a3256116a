# SPDX-License-Identifier: Apache-2.0
"""What asking a selector about a message costs, in steps of about the same time.

A step is a condition or an operand, or a character that LIKE has to look at
by itself. A caller with many messages counts them, and lets others have
their turn in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from entrepot.limits import SELECTOR_GAPPED_LIKES_MAX, SELECTOR_TEXT_CHARACTERS_MAX
from entrepot.message import Message
from entrepot.selectors.expressions import Expression, Identifier, LikeTest
from entrepot.selectors.like import has_gap_between_wildcards
from entrepot.selectors.mistakes import SelectorMistake


@dataclass(frozen=True, slots=True)
class Cost:
    """Steps that do not depend on the message, and the properties whose length counts."""

    steps: int
    scanned: tuple[str, ...] = ()
    """Properties that a pattern looks at character by character, each as often as it does."""

    def of(self, message: Message) -> int:
        steps = self.steps
        for name in self.scanned:
            value = message.properties.get(name)
            if isinstance(value, str) and len(value) <= SELECTOR_TEXT_CHARACTERS_MAX:
                steps += len(value)
        return steps


def cost_of(expression: Expression) -> Cost:
    """The cost of a condition.

    Raises:
        Mistake: It has more patterns of the slow kind than one selector may have.
    """
    steps = 0
    scanned: list[str] = []
    for each in _all(expression):
        steps += 1
        if isinstance(each, LikeTest) and has_gap_between_wildcards(each.pattern, each.escape):
            scanned.append(each.operand.name if isinstance(each.operand, Identifier) else "")
            if len(scanned) > SELECTOR_GAPPED_LIKES_MAX:
                problem = f"more than {SELECTOR_GAPPED_LIKES_MAX} patterns have '_' beside text between two '%'"
                raise SelectorMistake(each.column, problem)
    return Cost(steps, tuple(scanned))


def _all(expression: Expression) -> Iterator[Expression]:
    """An expression and all its parts; nesting is limited, so that this may be recursive."""
    yield expression
    for field in fields(expression):
        yield from _parts(getattr(expression, field.name))


def _parts(value: object) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield from _all(value)
    elif isinstance(value, tuple):
        for each in value:
            yield from _parts(each)
