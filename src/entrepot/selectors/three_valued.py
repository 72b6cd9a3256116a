# SPDX-License-Identifier: Apache-2.0
"""AND, OR and NOT over TRUE, FALSE and UNKNOWN (None), as SQL-92 defines them.

UNKNOWN is "could be either": FALSE AND UNKNOWN is FALSE whatever it turns out
to be, TRUE AND UNKNOWN stays UNKNOWN, and NOT UNKNOWN is UNKNOWN. Operands
after one that decides the result are not evaluated.
"""

from __future__ import annotations

from entrepot.message import Message
from entrepot.selectors.kinds import Condition, Reader, Truth


def condition_of(read: Reader) -> Condition:
    """A value as condition: what is no boolean is UNKNOWN."""

    def holds(message: Message) -> Truth:
        value = read(message)
        return value if value is True or value is False else None

    return holds


def negation(operand: Condition) -> Condition:
    def holds(message: Message) -> Truth:
        truth = operand(message)
        return None if truth is None else not truth

    return holds


def conjunction(operands: tuple[Condition, ...]) -> Condition:
    if len(operands) == 2:
        return _conjunction_of_two(*operands)

    def holds(message: Message) -> Truth:
        result: Truth = True
        for operand in operands:
            truth = operand(message)
            if not truth:
                if truth is not None:
                    return False
                result = None
        return result

    return holds


def _conjunction_of_two(left: Condition, right: Condition) -> Condition:
    # The most frequent form gets by without a loop, since it runs for every message.
    def holds(message: Message) -> Truth:
        truth = left(message)
        if truth:
            return right(message)
        if truth is None:
            other = right(message)
            return False if other is not None and not other else None
        return False

    return holds


def disjunction(operands: tuple[Condition, ...]) -> Condition:
    def holds(message: Message) -> Truth:
        result: Truth = False
        for operand in operands:
            truth = operand(message)
            if truth:
                return True
            if truth is None:
                result = None
        return result

    return holds
