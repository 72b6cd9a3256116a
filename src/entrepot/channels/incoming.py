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


class ChannelIncoming:
    """Survives its connection. What was used is told with other things, or when nothing comes for a moment."""

    def __init__(self, client: Client, name: str, which: verbs.Wanted | None, read_ahead: int) -> None:
        self._client = client
        self._name = name
        self._which = which
        self._read_ahead = read_ahead
        self._ended = False
        self._ahead: ReadAhead = client.open_consumer(name, which, read_ahead)

    def get(self, wait_s: float) -> Message | None:
        """The next message, or None when none comes within `wait_s`."""
        deadline = time.monotonic() + wait_s
        while not self._ended:
            try:
                return self._client.next_of(self._ahead, deadline)
            except ConnectionLost:
                # Nothing persistent that was not used is lost: it is on its queue again.
                if self._ended:
                    break
                self._open_again()
            except EntrepotError:
                self.close(tried=False)
                raise
        return None

    def _open_again(self) -> None:
        try:
            self._ahead = self._client.open_consumer(self._name, self._which, self._read_ahead)
        except ConnectionLost:
            if not self._client.mends_itself:
                raise

    def done(self) -> None:
        if not self._ahead.is_lost:
            self._client.was_used(self._ahead)

    def ack(self) -> None:
        self._client.settle_now(self._ahead)

    def retry(self, delay_s: float) -> None:
        self._client.return_now(self._ahead, delay_s, None)

    def reject(self, reason: str) -> None:
        self._client.return_now(self._ahead, 0.0, reason)

    def close(self, *, tried: bool) -> None:
        """Let no more come; what was not used is on its queue again."""
        if not self._ended:
            self._ended = True
            self._client.close_consumer(self._ahead, tried=tried)
