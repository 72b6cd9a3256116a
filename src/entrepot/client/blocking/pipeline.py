# SPDX-License-Identifier: Apache-2.0
# Generated from entrepot/client/aio/pipeline.py by tools/blocking: change that one.
"""Pipelined puts: none has an answer of its own, and one answer acknowledges all of them."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from entrepot.client.blocking.calls import Calls
from entrepot.client.options import PutOptions, Sender, draft, publication
from entrepot.errors import EntrepotError


class Pipeline:
    """Puts that are acknowledged together; for one user, though several may share a connection.

    Leaving the `with` returns when all of them are where they belong. Should
    one have been refused, that error is raised then; the others were carried out.
    """

    def __init__(self, calls: Calls, sender: Sender) -> None:
        self._calls = calls
        self._line = calls.line
        self._sender = sender
        self._told = 0
        """How many puts have been sent, or gathered for that."""
        self._settled = 0
        """How many of these the queue manager has answered for."""
        self._problem: EntrepotError | None = None
        calls.core.pipelines.add(self)

    def put(
        self, queue: str | Sequence[str], body: bytes | bytearray | memoryview, **options: Unpack[PutOptions]
    ) -> bytes:
        """Put a message; returns its id, before the queue manager has it.

        With `wait_s`, a full queue holds up all that comes behind it on this connection.
        """
        persistent = options.get("persistent")
        if body.__class__ is bytes and queue.__class__ is str and len(options) == (persistent.__class__ is bool):
            self._told += 1
            return self._line.join_plain(queue, body, persistent, self._sender)
        message, persistent, priority, wait_s = draft(body, options, self._sender)
        self._told += 1
        return self._calls.put_unanswered(
            queue, message, persistent=persistent, priority=priority, wait_s=wait_s, urgent=wait_s > 0
        )

    def publish(
        self,
        topic: str,
        body: bytes | bytearray | memoryview,
        *,
        retain: bool = False,
        **options: Unpack[PutOptions],
    ) -> bytes:
        """Publish a message; returns its id, before the queue manager has it."""
        name, (message, persistent, priority, wait_s) = publication(topic, body, options, self._sender, retain=retain)
        self._told += 1
        return self._calls.put_unanswered(
            name, message, persistent=persistent, priority=priority, wait_s=wait_s, urgent=wait_s > 0
        )

    def wait(self) -> None:
        """Return when all that was put so far is where it belongs.

        Raises:
            EntrepotError: The first put that was refused; the others were carried out.
            ConnectionLost: The connection broke. What was put before that may be there or not.
        """
        told = self._told
        if told > self._settled:
            try:
                self._calls.synchronize()
            except EntrepotError as error:
                # The answer does not say which pipeline's put it was, so each hears of it.
                self._calls.core.trouble_pipelines(error)
            self._settled = max(self._settled, told)
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def trouble(self, error: EntrepotError) -> None:
        """Something went wrong that may concern puts that were not answered for yet."""
        if self._told > self._settled and self._problem is None:
            self._problem = error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.wait()
