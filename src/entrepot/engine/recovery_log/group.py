# SPDX-License-Identifier: Apache-2.0
"""Groups: what is written at once, and the proof that it was this log which wrote it.

Message bodies are an attacker's, and a log is full of them: of the present
lap and, where a segment was used before, of earlier ones. So a frame in the
right place with a right CRC proves nothing. Each use of a segment has a
random salt in its head page, which no client ever sees. A group carries 64
bits that follow from the salt, its place, its start, its serial and the
check of the group before it; the CRCs of the group and of its records begin
with 32 more of them. What lacks them is not there.

Formats 1 and 2 had no salt: their groups are read as they were written.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import NamedTuple

from crc32c import crc32c

from entrepot.disk import Buffer
from entrepot.engine.recovery_log.record import (
    FRAME_HEAD_BYTES,
    BadFrame,
    Record,
    RecordType,
    check,
)

GROUP = int(RecordType.GROUP)
SALT_BYTES = 32
_PAYLOAD = struct.Struct("<QQIIdQQ")
_UNSALTED_PAYLOAD = struct.Struct("<QQIId")
_POSITION = struct.Struct("<Q")
_CRC = struct.Struct("<I")
_PLACE = struct.Struct("<QIIQ")
_SECRETS = struct.Struct("<QI")
_UNSALTED_SEED = struct.Struct("<II")
_TAG_BYTES = 3
GROUP_BYTES = FRAME_HEAD_BYTES + _PAYLOAD.size
MARK_BYTES = 8


class Group(Record, gc=False):
    """Opens everything that is written at once.

    `forced_position`: the log was forced up to there before this group was
    written. Damage before it cannot be a torn write. `incarnation` counts the
    starts of the queue manager, so what a torn group left behind is not
    taken for a continuation of what a later start wrote over it. `serial`
    counts the groups of a start and is never used twice in it, so that a torn
    mixture of two groups that were written to the same place passes for neither.
    """

    body_bytes: int
    forced_position: int
    incarnation: int
    serial: int
    time: float
    previous: int = 0
    """The check of the group before it; a random number in the first group of a start."""
    check: int = 0


def _mark(payload_bytes: int, tag: bytes) -> bytes:
    return struct.pack("<IB", payload_bytes, GROUP) + tag


class GroupSecrets(NamedTuple):
    """What nobody can know of a group who does not know its segment's salt."""

    check: int
    """Stands in the group."""
    seed: int
    """What the CRCs of the group and its records begin with; stands nowhere."""


class GroupKey:
    """Makes and recognises the groups that begin in one segment."""

    __slots__ = ("_keyed", "mark")

    def __init__(self, salt: bytes) -> None:
        self._keyed = blake2b(key=salt, digest_size=_SECRETS.size)
        self.mark = _mark(_PAYLOAD.size, blake2b(b"mark", key=salt, digest_size=_TAG_BYTES).digest())
        """What the frames of all these groups begin with; partly secret, so that no body slows a search for them."""

    def secrets(self, position: int, incarnation: int, serial: int, previous: int) -> GroupSecrets:
        keyed = self._keyed.copy()
        keyed.update(_PLACE.pack(position, incarnation, serial, previous))
        return GroupSecrets._make(_SECRETS.unpack(keyed.digest()))

    def frame(self, group: Group, position: int, seed: int) -> bytes:
        """A group's frame; its size is known before its content is, unlike MessagePack's."""
        payload = _PAYLOAD.pack(
            group.body_bytes,
            group.forced_position,
            group.incarnation,
            group.serial,
            group.time,
            group.previous,
            group.check,
        )
        head = self.mark + _POSITION.pack(position)
        return head + _CRC.pack(crc32c(payload, crc32c(head, seed))) + payload

    def parse(self, head: Buffer, payload: Buffer, crc: int) -> tuple[Group, int]:
        """The group with this frame, and the seed of its records.

        Raises:
            BadFrame: This log has not written it, or it is damaged.
        """
        if len(payload) != _PAYLOAD.size:
            raise BadFrame("this is no group of the segment's format")
        group = Group(*_PAYLOAD.unpack(payload))
        (position,) = _POSITION.unpack_from(head, MARK_BYTES)
        secrets = self.secrets(position, group.incarnation, group.serial, group.previous)
        if group.check != secrets.check:
            raise BadFrame("the group's check does not match")
        check(head, payload, crc, secrets.seed)
        return group, secrets.seed


class UnsaltedKey:
    """Recognises groups of formats 1 and 2, whose segments have no salt."""

    __slots__ = ("mark",)

    def __init__(self) -> None:
        self.mark = _mark(_UNSALTED_PAYLOAD.size, bytes(_TAG_BYTES))

    def parse(self, head: Buffer, payload: Buffer, crc: int) -> tuple[Group, int]:
        if len(payload) != _UNSALTED_PAYLOAD.size:
            raise BadFrame("this is no group of the segment's format")
        check(head, payload, crc)
        group = Group(*_UNSALTED_PAYLOAD.unpack(payload))
        return group, crc32c(_UNSALTED_SEED.pack(group.incarnation, group.serial))


def segment_key(salt: bytes) -> GroupKey | UnsaltedKey:
    """The key of a segment with this salt; a segment of formats 1 and 2 has none."""
    return GroupKey(salt) if salt else UnsaltedKey()
