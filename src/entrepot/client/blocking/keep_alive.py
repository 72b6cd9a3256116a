# SPDX-License-Identifier: Apache-2.0
"""The keeper: one small thread of this process that looks after all its client connections.

A server takes a partner that says nothing for dead. An application may take
its time with a message all the same, because the keeper speaks for it; and it
notices a server that has fallen silent, also while nobody waits for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from typing import Protocol

from entrepot.errors import EntrepotError

_ROUND_S = 0.25


class KeptConnection(Protocol):
    """A connection that has to be looked after."""

    def look_after(self) -> None:
        """Never waits, so that no connection harms the others."""


_all: weakref.WeakSet[KeptConnection] = weakref.WeakSet()
_lock = threading.Lock()
_keeper: threading.Thread | None = None


def keep(connection: KeptConnection) -> None:
    """Look after a connection for as long as somebody has it."""
    global _keeper
    with _lock:
        _all.add(connection)
        if _keeper is None or not _keeper.is_alive():
            _keeper = threading.Thread(target=_go_round, name="entrepot-keeper", daemon=True)
            _keeper.start()


def _go_round() -> None:
    while True:
        time.sleep(_ROUND_S)
        with _lock:
            connections = list(_all)
        for connection in connections:
            with contextlib.suppress(EntrepotError, OSError):
                connection.look_after()
        del connections


def _forget_in_child() -> None:
    # The connections are the parent's: two processes that spoke for it would garble what it says.
    global _lock, _keeper
    _lock = threading.Lock()
    _all.clear()
    _keeper = None


os.register_at_fork(after_in_child=_forget_in_child)
