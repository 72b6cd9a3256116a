# SPDX-License-Identifier: Apache-2.0
"""Settlements: answers that have to wait until the log is forced."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.errors import EntrepotError


class Settlement:
    """Something becomes true when the log is forced up to `position`, or does not become true at all.

    The engine settles it; `wake`, if somebody has set it, is called then.
    """

    __slots__ = ("_apply", "_undo", "done", "error", "position", "wake")

    def __init__(
        self, position: int, apply: Callable[[], None], undo: Callable[[EntrepotError], EntrepotError]
    ) -> None:
        self.position = position
        self._apply = apply
        self._undo = undo
        self.done = False
        self.error: EntrepotError | None = None
        self.wake: Callable[[], None] | None = None

    def settle(self) -> None:
        """The log was forced: it is true."""
        self._apply()
        self._finish()

    def fail(self, error: EntrepotError) -> None:
        """The log did not take it; `undo` tells what to answer."""
        self.error = self._undo(error)
        self._finish()

    def abandon(self, error: EntrepotError) -> None:
        """Nobody knows whether the log has it; nothing is undone."""
        self.error = error
        self._finish()

    def _finish(self) -> None:
        self.done = True
        if self.wake is not None:
            self.wake()
