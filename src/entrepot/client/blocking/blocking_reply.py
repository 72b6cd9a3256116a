# SPDX-License-Identifier: Apache-2.0
"""Where the answer to a verb goes, for the thread that waits for it."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any

from entrepot.compiled import compiled
from entrepot.errors import EntrepotError


class BlockingReply:
    """One verb's answer; whoever waits for it may have to read for others."""

    # As the class's attributes, because a slot is made for every verb and most of these stay as they are.
    done = False
    value: Any = None
    error: EntrepotError | None = None
    unit_active = False
    verb = number = 0
    ticket: threading.Lock | None = None

    def resolve(self, value: Any) -> None:
        self.value = value
        self.done = True
        if self.ticket is not None:
            self._finish()

    def fail(self, error: EntrepotError, *, unit_active: bool = False) -> None:
        self.error = error
        self.unit_active = unit_active
        self._finish()

    def _finish(self) -> None:
        self.done = True
        if self.ticket is not None:
            with contextlib.suppress(RuntimeError):  # released already, to let its thread read
                self.ticket.release()


_compiled = compiled("transport")
if not TYPE_CHECKING and _compiled is not None:
    BlockingReply = _compiled.BlockingReply
