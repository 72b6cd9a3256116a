# SPDX-License-Identifier: Apache-2.0
"""What `connection.consume` reads from at the end of a channel: messages that came ahead of their use."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from entrepot.channels.client_core import ReadAhead
from entrepot.errors import ConnectionLost, EntrepotError
from entrepot.message import Message
from entrepot.wire import verbs

if TYPE_CHECKING:
    from entrepot.channels.client import Client


class Consumption:
    """Survives its connection; a message counts as used when the next one is asked for."""

    def __init__(self, client: Client, name: str, which: verbs.Wanted | None, read_ahead: int) -> None:
        self._client = client
        self._name = name
        self._which = which
        self._read_ahead = read_ahead
        self._unused = False
        self._ended = False
        self._ahead: ReadAhead = client.open_consumer(name, which, read_ahead)

    def get(self, wait_s: float) -> Message | None:
        """The next message, or None when none comes within `wait_s`."""
        if self._unused:
            self._unused = False
            self._client.was_used(self._ahead)
        deadline = time.monotonic() + wait_s
        while not self._ended:
            try:
                message = self._client.next_of(self._ahead, deadline)
            except ConnectionLost:
                # Nothing persistent that was not used is lost: it is on its queue again.
                if self._ended:
                    break
                self._open_again()
                continue
            except EntrepotError:
                self.close()
                raise
            self._unused = message is not None
            return message
        return None

    def _open_again(self) -> None:
        try:
            self._ahead = self._client.open_consumer(self._name, self._which, self._read_ahead)
        except ConnectionLost:
            if not self._client.mends_itself:
                raise

    def close(self) -> None:
        """Let no more come; what was not used is on its queue again."""
        if not self._ended:
            self._ended = True
            if self._unused:
                self._client.was_used(self._ahead)
            self._client.close_consumer(self._ahead)
