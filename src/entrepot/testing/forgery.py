# SPDX-License-Identifier: Apache-2.0
"""Groups of a recovery log as an attacker makes them that knows all of it but its salts.

A body may hold them, and lie where the log will end one lap later. Nothing
that reads a log may believe them.
"""

from __future__ import annotations

import struct
from typing import Protocol

from crc32c import crc32c

from entrepot.engine.recovery_log.group import GROUP_BYTES, SALT_BYTES, Group, GroupKey
from entrepot.engine.recovery_log.record import Record, frame

_FAR = 2**62
_TIME = 1.7e9
_UNSALTED_BYTES = 52


class Forgery(Protocol):
    """A way to make a group, with a record in it or none."""

    name: str

    def group(self, position: int, incarnation: int, serial: int, record: Record | None = None) -> bytes:
        """A whole group; one without record says that everything before and behind it was forced."""

    def seed(self, incarnation: int, serial: int) -> int:
        """What the CRCs of a group's records begin with, as far as the attacker knows."""


class UnsaltedForgery:
    """As a log of format 2 had it."""

    name = "format 2"

    def group(self, position: int, incarnation: int, serial: int, record: Record | None = None) -> bytes:
        seed = self.seed(incarnation, serial)
        body = b"".join(frame(record, position + _UNSALTED_BYTES, seed)) if record else b""
        payload = struct.pack("<QQIId", len(body), 0 if record else _FAR, incarnation, serial, _TIME)
        head = struct.pack("<IB3xQ", len(payload), 1, position)
        return head + struct.pack("<I", crc32c(payload, crc32c(head))) + payload + body

    def seed(self, incarnation: int, serial: int) -> int:
        return crc32c(struct.pack("<II", incarnation, serial))


class SaltedForgery:
    """As a log of format 3 has it, with a guessed salt."""

    name = "format 3"

    def __init__(self) -> None:
        self._key = GroupKey(bytes(SALT_BYTES))

    def group(self, position: int, incarnation: int, serial: int, record: Record | None = None) -> bytes:
        check, seed = self._key.secrets(position, incarnation, serial, 0)
        body = b"".join(frame(record, position + GROUP_BYTES, seed)) if record else b""
        opening = Group(len(body), 0 if record else _FAR, incarnation, serial, _TIME, 0, check)
        return self._key.frame(opening, position, seed) + body

    def seed(self, incarnation: int, serial: int) -> int:
        return self._key.secrets(0, incarnation, serial, 0).seed


FORGERIES: tuple[Forgery, ...] = (UnsaltedForgery(), SaltedForgery())
