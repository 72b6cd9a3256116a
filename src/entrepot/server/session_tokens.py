# SPDX-License-Identifier: Apache-2.0
"""Clients that come back: the session of a connection that broke ends before the next one reads.

A server may notice late that a connection is gone, and what it holds for
it would come behind what the client reads on the next one. So a client
names its session before, by a token that only it and the server know.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from entrepot.server.session import Session

_TOKEN_BYTES = 16


class SessionTokens:
    """The sessions of a server, by their tokens."""

    def __init__(self) -> None:
        self._sessions: WeakValueDictionary[bytes, Session] = WeakValueDictionary()

    def follow(self, session: Session, before: bytes) -> bytes:
        """End the session before this one, if there is one of the same user; returns the token of the new one."""
        old = self._sessions.pop(before, None)
        if old is not None and not old.closed and old.identity.user == session.identity.user:
            old.on_replaced()
            old.close()
        token = os.urandom(_TOKEN_BYTES)
        self._sessions[token] = session
        return token
