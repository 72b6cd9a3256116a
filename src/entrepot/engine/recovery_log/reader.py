# SPDX-License-Identifier: Apache-2.0
"""The log's reading end: every whole record, and an honest answer about where and why they end.

Where the records end there is either nothing, or what a crash left of the
last group, or damage. A torn group is cut: nobody was answered for it.
Damage must never be mistaken for a torn group, since cutting there would
lose messages silently. The difference: every group tells how far the log
was forced before it was written. If any later group says that the bad
place had been forced, it is damage, and we refuse to go on. Only groups
that carry the check of their segment count, here as there: any message body
can look like the rest of one (engine/recovery_log/group.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from entrepot.disk import Disk, File
from entrepot.engine.recovery_log.group import GROUP, MARK_BYTES, Group, GroupKey, UnsaltedKey, segment_key
from entrepot.engine.recovery_log.record import (
    FRAME_HEAD_BYTES,
    BadFrame,
    Record,
    check,
    decode,
    parse_head,
    plain_records,
    type_name,
)
from entrepot.engine.recovery_log.segment import (
    FOLDER,
    HEAD_PAGE_BYTES,
    SegmentHead,
    read_head_page,
    segment_numbers,
    segment_path,
)
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import LogDamaged, LogIncomplete

_WINDOW_BYTES = 4 * 1024 * 1024
"""What is read at once: small enough that the memory of one serves for the next, and is not asked of the kernel."""

Take = Callable[["LogReader", int, int, int], tuple[int, int]]
"""Uses what it can of the present window itself, from a position on: reader, position, end of the present group, and
`until`. Returns the position behind what it has used, and where the group ends that this is in."""


class LoggedRecord(NamedTuple):
    """A record and where it stands."""

    position: int
    record: Record


class LogReader:
    """Reads forward from a position that begins a group.

    `end_position` is the end of the record last read, `incarnation` and `time`
    are those of its group; after the iteration `torn` tells what a crash left
    at the end of the log.
    """

    def __init__(self, disk: Disk, settings: LogSettings, manager_id: bytes) -> None:
        self._disk = disk
        self._settings = settings
        self._manager_id = manager_id
        self._payload_bytes = settings.payload_bytes
        self._numbers = frozenset(segment_numbers(disk))
        self._loaded: dict[int, memoryview] = {}
        """The windows last asked for, by the position of their first byte."""
        self._keys: dict[int, GroupKey | UnsaltedKey] = {}
        self._left: dict[int, int] = {}
        """Where writing left a segment without salt for the next one, by the segment's number."""
        self._data = memoryview(b"")
        """The window last asked for, from position `_base` on."""
        self._base = 0
        self._seed = 0
        """Of the CRCs of the present group's records."""
        self._check: int | None = None
        """Of the present group, if its format has one."""
        self.end_position = 0
        self.torn = ""
        self.incarnation = 0
        self.time = 0.0
        self.forced_position = 0
        """Up to here a force has returned without error, says the log itself."""

    @property
    def first_position(self) -> int | None:
        """The earliest position there is, or None for an empty log."""
        return min(self._numbers) * self._payload_bytes if self._numbers else None

    def describe(self, position: int) -> tuple[str, int]:
        """File and offset of a position, for people."""
        number, offset = divmod(position, self._payload_bytes)
        return self._disk.describe(segment_path(number)), HEAD_PAGE_BYTES + offset

    def records(
        self,
        start: int,
        *,
        boundary: int = 0,
        incarnation: int = 0,
        until: int = sys.maxsize,
        take: Take | None = None,
    ) -> Iterator[LoggedRecord]:
        """Every whole record from `start`, group records included, up to the first group at or behind `until`.

        What lies behind a record in the same window is offered to `take`; what that uses does not come from here.

        Behind `boundary`, only what start number `incarnation` or a later one has
        written counts. A start that has cut a torn group says so in its checkpoint:
        should its own writes be torn in turn, what they had covered might otherwise
        come back whole.

        Raises:
            LogDamaged: Something is wrong that no crash explains; file and offset are named.
            LogIncomplete: The segment of `start` is gone.
        """
        number = start // self._payload_bytes
        # At the very end of a segment the next one may not have been made yet.
        if number not in self._numbers and (self._numbers and number != max(self._numbers) + 1):
            raise LogIncomplete(self._disk.describe(FOLDER), start)
        position = group_end = self.end_position = start
        while True:
            whole_end = self.end_position
            position = self._continued(position)
            try:
                size, record, seed = self._parse(position)
                if isinstance(record, Group):
                    if position >= boundary and record.incarnation < incarnation:
                        raise BadFrame("an earlier start wrote this group, and a later one has cut it off")
                    self._begin_group(record, position, group_end)
                    self._seed = seed
                    group_end = position + size + record.body_bytes
                elif position >= group_end:
                    raise BadFrame("a record stands outside of any group")
                elif position >= boundary and self.incarnation < incarnation:
                    raise BadFrame("an earlier start wrote this record, and a later one has cut it off")
            except BadFrame as bad:
                self._require_undamaged(position, str(bad))
                if position < group_end or self._claims(position):
                    self.torn = str(bad)
                return
            if position >= until and isinstance(record, Group):
                self.end_position = whole_end
                return
            self.end_position = position + size
            yield LoggedRecord(position, record)
            position += size
            offset, end = position - self._base, len(self._data)
            # Where anything might be wrong, or goes on elsewhere, it is one record after the other.
            if (
                0 <= offset < end
                and (self.incarnation >= incarnation or group_end <= boundary)
                and position // self._payload_bytes not in self._left
            ):
                if take is not None:
                    # Groups of an earlier start may have been cut off: these are looked at here.
                    groups_until = until if self.incarnation >= incarnation else 0
                    position, group_end = take(self, position, group_end, groups_until)
                    self.end_position = position
                    continue
                for record, behind in self.plain_records(position, group_end):
                    self.end_position = behind
                    yield LoggedRecord(position, record)
                    position = behind

    def plain_records(self, position: int, group_end: int) -> Iterator[tuple[Record, int]]:
        """The records of a group from a position on that lie in the present window, each with the position behind it.

        At the first doubt it ends, and `records` finds out what is wrong there.
        """
        return plain_records(self._data, self._base, position, group_end, self._seed)

    def _begin_group(self, group: Group, position: int, group_end: int) -> None:
        # A later start writes over a torn group's remains, so its groups may begin inside of one.
        if group.incarnation < self.incarnation or (position < group_end and group.incarnation == self.incarnation):
            raise BadFrame("a group of an earlier start stands here")
        if group.incarnation == self.incarnation and self._check is not None and group.previous != self._check:
            raise BadFrame("this group does not follow the one before it")
        self.incarnation = group.incarnation
        self._check = group.check if isinstance(self._keys[position // self._payload_bytes], GroupKey) else None
        self.time = group.time
        self.forced_position = max(self.forced_position, group.forced_position)

    def _continued(self, position: int) -> int:
        """Where the stream goes on: not here when a later format has left this segment here for the next one."""
        number = position // self._payload_bytes
        if number not in self._keys:
            self._window(position)
        if self._left.get(number) != position:
            return position
        self.end_position = (number + 1) * self._payload_bytes
        return self.end_position

    def _parse(self, position: int) -> tuple[int, Record, int]:
        """The size of what stands at a position, the record, and the seed of the CRCs in its group."""
        # Most records lie within the segment that the one before was in: no look-up for them.
        offset = position - self._base
        begin = offset + FRAME_HEAD_BYTES
        if offset >= 0 and begin <= len(self._data):
            head = self._data[offset:begin]
        else:
            head = self._view(position, FRAME_HEAD_BYTES)
        length, kind, crc = parse_head(head, position)
        if offset >= 0 and begin + length <= len(self._data):
            payload = self._data[begin : begin + length]
        else:
            payload = self._view(position + FRAME_HEAD_BYTES, length)
            if len(payload) < length:
                raise BadFrame("the log ends within a record")
        if kind == GROUP:
            group, seed = self._keys[position // self._payload_bytes].parse(head, payload, crc)
            return FRAME_HEAD_BYTES + length, group, seed
        check(head, payload, crc, self._seed)
        try:
            return FRAME_HEAD_BYTES + length, decode(kind, payload), self._seed
        except msgspec.MsgspecError as error:
            # Its CRC is right, so this is what was written: not torn, but not ours to understand either.
            path, offset = self.describe(position)
            raise LogDamaged(path, offset, f"a whole {type_name(kind)} record cannot be understood: {error}") from error

    def _view(self, position: int, size: int) -> memoryview:
        data, base = self._window(position)
        view = data[position - base : position - base + size]
        if len(view) == size:
            return view
        parts = [view]
        missing = size - len(view)
        # A segment that is not there, or shorter than it should be, has nothing that could continue behind it.
        while missing and len(data) == self._window_bytes(base):
            data, base = self._window(base + len(data))
            parts.append(data[:missing])
            missing -= len(parts[-1])
        return memoryview(b"".join(parts))

    def _window_bytes(self, base: int) -> int:
        return min(_WINDOW_BYTES, self._payload_bytes - base % self._payload_bytes)

    def _window(self, position: int) -> tuple[memoryview, int]:
        """The data around a position, and where it begins; no data where there is no segment."""
        number, offset = divmod(position, self._payload_bytes)
        base = position - offset % _WINDOW_BYTES
        data = self._loaded.get(base)
        if data is None:
            if number not in self._numbers:
                return memoryview(b""), base
            for old in [old for old in self._loaded if old < base - _WINDOW_BYTES]:
                del self._loaded[old]
            path = segment_path(number)
            file = self._disk.open(path)
            try:
                if number not in self._keys:
                    self._learn(number, self._read_head(number, path, file))
                begin = HEAD_PAGE_BYTES + base % self._payload_bytes
                data = self._loaded[base] = memoryview(file.read(begin, self._window_bytes(base)))
            finally:
                file.close()
        self._data, self._base = data, base
        return data, base

    def _learn(self, number: int, head: SegmentHead) -> None:
        self._keys[number] = segment_key(head.salt)
        if not head.salt and number + 1 in self._numbers:
            path = segment_path(number + 1)
            file = self._disk.open(path)
            try:
                self._left[number] = self._read_head(number + 1, path, file).continues
            finally:
                file.close()

    def _read_head(self, number: int, path: str, file: File) -> SegmentHead:
        return read_head_page(self._disk, path, file, self._manager_id, number, self._settings.segment_bytes)

    def _claims(self, position: int) -> bool:
        """Whether what stands there begins as only a group of this log for this position does."""
        head = self._view(position, FRAME_HEAD_BYTES)
        return bytes(head[:MARK_BYTES]) == self._mark(position) and head[8:16] == position.to_bytes(8, "little")

    def _mark(self, position: int) -> bytes:
        key = self._keys.get(position // self._payload_bytes)
        return key.mark if key is not None else b""

    def _require_undamaged(self, position: int, problem: str) -> None:
        """Raise when no crash can have left what stands at `position`."""
        for evidence, group in self.groups(position):
            if group.incarnation >= self.incarnation and group.forced_position > position:
                path, offset = self.describe(position)
                raise LogDamaged(path, offset, f"{problem}, but the group at position {evidence} was written after it")

    def groups(self, position: int) -> Iterator[tuple[int, Group]]:
        """All groups at or behind a position, also behind what cannot be read, each with its own position."""
        for base in self._window_positions(position):
            window_bytes = self._window_bytes(base)
            # A frame that begins in one window may end in the next, even its mark.
            data = bytes(self._view(base, window_bytes + MARK_BYTES - 1))
            mark = self._keys[base // self._payload_bytes].mark
            offset = max(position - base, 0)
            while 0 <= (offset := data.find(mark, offset)) < window_bytes:
                group = self._group_at(base + offset)
                if group is not None:
                    yield base + offset, group
                offset += 1

    def _window_positions(self, position: int) -> Iterator[int]:
        """Where the windows begin that there are, from the one around a position on."""
        for number in sorted(self._numbers):
            first = number * self._payload_bytes
            for base in range(first, first + self._payload_bytes, _WINDOW_BYTES):
                if base + self._window_bytes(base) > position:
                    yield base

    def _group_at(self, position: int) -> Group | None:
        try:
            _, record, _ = self._parse(position)
        except BadFrame:
            return None
        assert isinstance(record, Group), "its mark says so"
        return record
