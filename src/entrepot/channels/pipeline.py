# SPDX-License-Identifier: Apache-2.0
"""A pipeline at the end of a channel: puts that want no answer of their own, and one answer for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from entrepot.errors import EntrepotError
from entrepot.message import Message

if TYPE_CHECKING:
    from entrepot.channels.client import Client


class Pipeline:
    """One thread's, though several may share a connection."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.told = 0
        """How many puts have been sent, or gathered for that."""
        self.settled = 0
        """How many of these the server has answered for."""
        self._problem: EntrepotError | None = None

    def put(
        self,
        name: str | Sequence[str],
        message: Message,
        *,
        persistent: bool | None,
        priority: int | None,
        wait_s: float,
    ) -> bytes:
        """Gather a put; `wait` tells what became of all of them."""
        return self._client.tell_put(self, name, message, persistent, priority, wait_s)

    def wait(self) -> None:
        """Return when all puts so far are where they belong.

        Raises:
            EntrepotError: The first that was refused; the others were carried out.
            ConnectionLost: The connection broke meanwhile: what became of the puts before that is unknown.
        """
        told = self.told
        if told > self.settled:
            try:
                self._client.synchronize()
            except EntrepotError as error:
                # The server does not say which pipeline's put it was, so each hears of it.
                self._client.trouble_pipelines(error)
            self.settled = max(self.settled, told)
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def trouble(self, error: EntrepotError) -> None:
        """Something went wrong that may concern puts that were not answered for yet."""
        if self.told > self.settled and self._problem is None:
            self._problem = error
