# SPDX-License-Identifier: Apache-2.0
"""The log's writing end, made for group commit.

Records gather in memory. `take` closes the gathered group, `write_group`
brings it to disk and forces it, `forced` tells the log so. Between `take`
and `forced` the next group gathers, so one force serves everyone who came
while the one before was under way. Only `write_group` may run on another
thread; all else belongs to whoever owns the engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from entrepot.clock import Clock
from entrepot.disk import NO_SPACE, Buffer, Disk, File
from entrepot.errors import DiskFailed, DiskFull, LogFull
from entrepot.recovery_log.record import GROUP_BYTES, Group, Record, frame, frame_group, group_seed
from entrepot.recovery_log.segment import FOLDER, HEAD_PAGE_BYTES, SparePool, segment_numbers, segment_path
from entrepot.recovery_log.settings import LogSettings


class WriteGroup:
    """What one write brings to disk: from `start` up to `end` in the stream."""

    __slots__ = ("buffers", "end", "files", "start")

    def __init__(self, start: int, end: int, buffers: list[Buffer], files: list[tuple[int, File]]) -> None:
        self.start = start
        self.end = end
        self.buffers = buffers
        self.files = files
        """The segments it lies in, each with the position where its stream begins."""


class RecoveryLog:
    """Append, write and force; positions are bytes in the log's stream."""

    def __init__(self, disk: Disk, clock: Clock, settings: LogSettings, manager_id: bytes) -> None:
        self._disk = disk
        self._clock = clock
        self._settings = settings
        self._payload_bytes = settings.payload_bytes
        self._reserve_bytes = min(self._payload_bytes // 2, 1024 * 1024)
        """The last part of the log, which is kept for gets."""
        self._incarnation = 0
        self._serial = 0
        self._seed = 0
        self._spares = SparePool(disk, manager_id, settings.segment_bytes)
        self._files: dict[int, File] = {}
        self._buffers: list[Buffer] = []
        self.appended_position = 0
        """Where the next record will stand."""
        self.written_position = 0
        self.forced_position = 0
        """Everything before it would survive a power cut."""
        self.needed_position = 0
        """Restart reads the log from here; circular logging reuses what lies before."""
        self._first = 0
        self._next = 0
        """The lowest segment number that has no file yet."""

    def open(self, *, position: int, needed_position: int, incarnation: int) -> None:
        """Go on writing at `position`, up to which restart has read and forced the log."""
        self._spares.find()
        self._incarnation = incarnation
        self.appended_position = self.written_position = self.forced_position = position
        self.needed_position = needed_position
        self._first = self._next = needed_position // self._payload_bytes
        while self._disk.exists(segment_path(self._next)):
            self._next += 1
        if self._settings.kind == "circular":
            # A crash between a checkpoint and its `release` leaves these behind.
            self._take_back(number for number in segment_numbers(self._disk) if number < self._first)

    # --- gathering ------------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> int:
        """Gather records, together or not at all; their end is durable once `forced_position` reaches it."""
        position = self.appended_position
        buffers = self._buffers
        if not buffers:
            # The group's own record is written when the group is closed; its place is kept now.
            buffers.append(b"")
            position += GROUP_BYTES
            self._begin_group()
        for record in records:
            head, payload = frame(record, position, self._seed)
            buffers += (head, payload)
            position += len(head) + len(payload)
        self.appended_position = position
        return position

    def _begin_group(self) -> None:
        self._serial += 1
        self._seed = group_seed(self._incarnation, self._serial)

    @property
    def has_gathered(self) -> bool:
        return bool(self._buffers)

    @property
    def gathered_bytes(self) -> int:
        return self.appended_position - self.written_position

    def require_room(self, size: int, *, reserved: bool) -> None:
        """Refuse to append what the log has no room for.

        `reserved` opens the last part of the log, which is kept for gets: with
        a full log they are what makes room again.

        Raises:
            LogFull: Checkpoint and try again, or give up.
        """
        # A group's record, and those of the groups under way, come on top.
        end = self.appended_position + size + 4 * GROUP_BYTES
        if not reserved:
            end += self._reserve_bytes
        last = end // self._payload_bytes
        if last < self._next:
            return
        if self._settings.kind == "circular" and last - self._first >= self._settings.segments_max:
            raise LogFull(self.appended_position - self.needed_position)
        while last >= self._next + len(self._spares):
            try:
                self._spares.make()
            except OSError as error:
                if error.errno in NO_SPACE:
                    raise LogFull(self.appended_position - self.needed_position) from error
                raise self._failure(error) from error

    # --- writing --------------------------------------------------------------------------

    def take(self) -> WriteGroup:
        """Close the gathered group; records appended from now on belong to the next one."""
        start, end = self.written_position, self.appended_position
        buffers = self._buffers or [b""]
        if end == start:
            end = start + GROUP_BYTES  # an empty group: it only tells how far the log was forced
            self._begin_group()
        try:
            files = self._files_for(start, end)
        except OSError as error:
            raise self._failure(error) from error
        size = end - start - GROUP_BYTES
        group = Group(size, self.forced_position, self._incarnation, self._serial, self._clock.now())
        buffers[0] = frame_group(group, start)
        self._buffers = []
        self.appended_position = self.written_position = end
        return WriteGroup(start, end, buffers, files)

    def write_group(self, group: WriteGroup, *, force: bool) -> None:
        """Bring a group to disk; with `force`, it and all before it survive a power cut.

        Raises:
            DiskFull: The group is not in the log; `give_up` must follow.
            DiskFailed: Nobody knows what the disk holds. Fatal.
        """
        try:
            self._write(group)
            if force:
                for _, file in group.files:
                    file.force()
        except OSError as error:
            raise self._failure(error) from error

    def _write(self, group: WriteGroup) -> None:
        if len(group.files) == 1:
            begin, file = group.files[0]
            file.write(HEAD_PAGE_BYTES + group.start - begin, group.buffers)
            return
        position = group.start
        buffers = [memoryview(buffer) for buffer in group.buffers]
        for begin, file in group.files:
            room = begin + self._payload_bytes - position
            here: list[memoryview] = []
            while buffers and room:
                head, rest = buffers[0][:room], buffers[0][room:]
                here.append(head)
                room -= len(head)
                buffers[0:1] = [rest] if len(rest) else []
            file.write(HEAD_PAGE_BYTES + position - begin, here)
            position += sum(map(len, here))

    def forced(self, group: WriteGroup) -> None:
        """The group was written with force; only one may be under way at a time."""
        self.forced_position = group.end
        if len(self._files) > 1:
            last = self.forced_position // self._payload_bytes
            for number in [number for number in self._files if number < last]:
                self._files.pop(number).close()

    def flush(self) -> None:
        """Write what has gathered, without force: a kill of this process can no longer take it."""
        group = self.take()
        self.write_group(group, force=False)

    def discard_gathered(self) -> None:
        """Forget what has gathered and was not taken."""
        self._buffers = []
        self.appended_position = self.written_position

    def give_up(self, group: WriteGroup) -> None:
        """Take a group that met a full disk, and everything gathered since, out of the log again.

        Raises:
            DiskFailed: The group could not be made invalid, so its outcome is unknown. Fatal.
        """
        begin, file = group.files[0]
        try:
            # A partly written group must not come back to life at the next restart.
            size = min(GROUP_BYTES, begin + self._payload_bytes - group.start)
            file.write(HEAD_PAGE_BYTES + group.start - begin, [bytes(size)])
            file.force()
        except OSError as error:
            raise DiskFailed(self._disk.describe(FOLDER), str(error)) from error
        self.written_position = group.start
        self.discard_gathered()

    def _failure(self, error: OSError) -> DiskFull | DiskFailed:
        path = self._disk.describe(FOLDER)
        return DiskFull(path) if error.errno in NO_SPACE else DiskFailed(path, str(error))

    # --- segments -------------------------------------------------------------------------

    def _files_for(self, start: int, end: int) -> list[tuple[int, File]]:
        first, last = start // self._payload_bytes, (end - 1) // self._payload_bytes
        if first == last and first in self._files:
            return [(first * self._payload_bytes, self._files[first])]
        return [(number * self._payload_bytes, self._file(number)) for number in range(first, last + 1)]

    def _file(self, number: int) -> File:
        if number not in self._files:
            if number < self._next:
                self._files[number] = self._disk.open(segment_path(number))
            else:
                if not len(self._spares):
                    self._spares.make()
                self._files[number] = self._spares.use(number)
                self._next = number + 1
        return self._files[number]

    def make_primaries(self) -> None:
        """Make the files that a new queue manager starts with."""
        while len(self._spares) + self._next - self._first < self._settings.primary:
            self._spares.make()

    def release(self, position: int) -> None:
        """Restart no longer needs what lies before `position`.

        Circular logging takes the segments back as spares, beyond the primaries
        it removes them; linear logging leaves them for `archive`.
        """
        self.needed_position = position
        first = position // self._payload_bytes
        if self._settings.kind == "circular":
            self._take_back(range(self._first, first))
        self._first = first

    def _take_back(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number in self._files:
                self._files.pop(number).close()
            keep = len(self._spares) + self._next - number - 1 < self._settings.primary
            self._spares.take_back(number, keep=keep)
            self._first = max(self._first, number + 1)
        self._disk.force_folder(FOLDER)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
