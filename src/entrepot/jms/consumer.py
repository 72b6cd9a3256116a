# SPDX-License-Identifier: Apache-2.0
"""A consumer: one queue or topic, as a session reads it."""

from __future__ import annotations

import math
import time
from typing import Self

from entrepot import checks
from entrepot.errors import InvalidArgument
from entrepot.jms.dispatcher import Dispatcher
from entrepot.jms.reception import WAIT_S, Reception
from entrepot.jms.source import ConsumerSource, Listener
from entrepot.message import Message


class Consumer:
    """Made by a session, and like it for one thread, `close` excepted."""

    def __init__(self, reception: Reception, source: ConsumerSource) -> None:
        self._reception = reception
        self._source = source

    @property
    def queue(self) -> str:
        """Where its messages are; for a topic, the queue of its subscription."""
        return self._source.queue

    def receive(self, wait_s: float = math.inf) -> Message | None:
        """The next message, or None when none came within `wait_s`, or another thread has closed the consumer.

        The session's mode says when it counts as acknowledged.

        Raises:
            QueueNotFound, GetInhibited: No message was received.
            UnitBackedOut: CLIENT and TRANSACTED: the connection broke. What the session has received and not
                acknowledged comes again, what it has sent and not committed is gone.
            TooManyUncommitted: CLIENT and TRANSACTED: acknowledge or commit first.
            InvalidArgument: It is closed, or the session has listeners and this is not the thread of theirs.
        """
        wait_s = checks.wait("wait_s", wait_s)
        self._require_open()
        reception, source = self._reception, self._source
        reception.require_thread()
        deadline = time.monotonic() + wait_s
        with reception.busy:
            while True:
                message = reception.get(source, min(wait_s, WAIT_S))
                if message is not None or source.closing.is_set() or reception.closing.is_set():
                    return message
                wait_s = deadline - time.monotonic()
                if wait_s <= 0:
                    return None

    def listen(self, callback: Listener) -> None:
        """Have each message given to `callback`, on the session's own thread, from now on.

        That thread has the session from then on: its verbs belong into callbacks.
        Listeners of a session take turns, one callback at a time. While all of
        them are idle, each waits up to 10 ms for each of the others; for low
        latency give each listener a session of its own.

        When a callback raises, the error is logged and given to the session's
        `on_error`. With AUTO and DUPLICATES_OK its message comes again, after a
        pause that grows up to a second while callbacks keep raising. With the
        other modes the next message comes: it is for callbacks to `recover` or
        `rollback`. A listener whose queue cannot be read tries again if that may
        help (`retryable`), and ends otherwise.
        """
        self._require_open()
        self._source.listener = callback
        if self._reception.dispatcher is None:
            self._reception.dispatcher = Dispatcher(self._reception)
        self._reception.dispatcher.add(self._source)

    def close(self) -> None:
        """Let no more come; waits for a callback or `receive` that is under way, unless called by it.

        What was received and not acknowledged still can be. A durable
        subscription goes on collecting; others end.
        """
        self._reception.close_source(self._source)

    def _require_open(self) -> None:
        self._reception.require_open()
        if self._source.closing.is_set():
            raise InvalidArgument("consumer", "it is closed", "an open one")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
