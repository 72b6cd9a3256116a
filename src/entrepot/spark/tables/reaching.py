# SPDX-License-Identifier: Apache-2.0
"""The way from Spark's processes to a queue manager: one connection a process, opened when it is first wanted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from entrepot.client.blocking import Connection, connect
from entrepot.errors import ChannelError, ConnectionClosed, EntrepotError, InvalidArgument

PATIENCE_S = 30.0
"""How long a queue manager that is being started again is waited for."""
_PAUSE_S = 0.1

_open: dict[tuple[int, str], Connection] = {}
"""By process and URL: a forked worker must not speak on its parent's connection."""

Answer = TypeVar("Answer")


def require_reachable(url: str) -> str:
    """
    Raises:
        InvalidArgument: No URL, or one that only the process itself could reach.
    """
    if not url:
        raise InvalidArgument("option url", "it is missing", "unix:PATH, mq://HOST:PORT/NAME or mqs://")
    if url.startswith("embedded:"):
        place = url.removeprefix("embedded:")
        raise InvalidArgument(
            "option url",
            f"{url} is for one process, and Spark has several",
            f"unix:{place}, after entrepot qm start {place}",
        )
    return url


def reach(url: str, *, patience_s: float = PATIENCE_S) -> Connection:
    """This process's connection to a queue manager; waits a while for one that does not answer."""
    key = (os.getpid(), require_reachable(url))
    opened = _open.get(key)
    if opened is None:
        opened = _open[key] = _connected(url, patience_s)
    return opened


def _connected(url: str, patience_s: float) -> Connection:
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return connect(url, application="entrepot-spark")
        except EntrepotError as error:
            if not isinstance(error, ChannelError) or not error.retryable or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)


def forget(url: str) -> None:
    """Close this process's connection; the next use opens another."""
    opened = _open.pop((os.getpid(), url), None)
    if opened is not None:
        # It is of no use any more, and what it had open is backed out by the other end.
        with suppress(EntrepotError):
            opened.close()


def surely(url: str, action: Callable[[Connection], Answer], *, patience_s: float = PATIENCE_S) -> Answer:
    """Do something that may be done again, and do it again when the connection breaks meanwhile."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return action(reach(url, patience_s=patience_s))
        except (ChannelError, ConnectionClosed) as error:
            forget(url)
            # An unknown outcome is what it is repeated for.
            if time.monotonic() > deadline or not (error.retryable or error.outcome == "unknown"):
                raise
            time.sleep(_PAUSE_S)
