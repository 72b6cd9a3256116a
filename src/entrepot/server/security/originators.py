# SPDX-License-Identifier: Apache-2.0
"""The authority of users who are not connected any more, but whose messages still cause others.

A report is put when its message arrives, is read or expires, which may be
long after its sender has gone, and after a restart. What counts is the user
that the server recorded with the message, with the groups and the authority
records of now. A user's file that cannot be used means users without groups.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from entrepot.engine.objects import Objects
from entrepot.errors import SecurityError
from entrepot.server.security.authority import Authority
from entrepot.server.security.users import ADMINISTRATORS, Users, own_names

_ADMINISTRATOR = frozenset({ADMINISTRATORS})


class RecordedOriginators:
    """`queues.put_authority.Originators` by the users and the authority records of a queue manager."""

    def __init__(self, objects: Objects, folder: Path) -> None:
        self._objects = objects
        self._users = Users(folder)
        self._own_names = own_names()
        self._authority = Authority()
        self._changes: int | None = None

    def require_put(self, user: str, queues: Iterable[str]) -> None:
        objects = self._objects
        if self._changes != objects.authority_changes:
            self._changes = objects.authority_changes
            self._authority.changed(objects.authority_records.values())
        groups = self._groups_of(user)
        for queue in queues:
            self._authority.require(user, groups, "QUEUE", queue, "PUT")

    def _groups_of(self, user: str) -> frozenset[str]:
        with contextlib.suppress(SecurityError):
            self._users.refresh()
        if user in self._own_names and not self._users.knows(user):
            # Who has the queue manager's files may do everything with it; a user of that name who has a password
            # is somebody else, who came over a network.
            return _ADMINISTRATOR
        return self._users.groups_of(user)
