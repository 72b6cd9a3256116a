# SPDX-License-Identifier: Apache-2.0
"""What is found under a key while other instances take it and put it back."""

from __future__ import annotations

from typing import Any, cast

from entrepot.flows.journey import Journey
from entrepot.flows.states import find
from entrepot.message import Message

STATE = Message(b"state")


class Contended:
    """A journey that answers as if another instance took a state and put it back between two questions."""

    def __init__(self, *held: bool, found_after: int | None = None) -> None:
        self._held = list(held)
        self._found_after = found_after
        self.taken = 0

    def take(self, store: str, key: bytes) -> Message | None:
        self.taken += 1
        return STATE if self._found_after is not None and self.taken > self._found_after else None

    def is_kept(self, store: str, key: bytes) -> bool:
        return self._held.pop(0) if self._held else False


def found(journey: Contended) -> Any:
    return find(cast(Journey, journey), "STORE", b"key")


def test_a_state_that_another_takes_again_is_held_and_not_unknown() -> None:
    assert found(Contended(False, True)) == (None, True)
    assert found(Contended(False, False, False, True)) == (None, True)


def test_a_state_that_comes_back_between_two_questions_is_found() -> None:
    assert found(Contended(False, found_after=1)) == (STATE, False)
    assert found(Contended(False, False, False, found_after=3)) == (STATE, False)


def test_what_is_nowhere_is_unknown_in_the_end() -> None:
    journey = Contended()
    assert found(journey) == (None, False)
    assert journey.taken < 10
