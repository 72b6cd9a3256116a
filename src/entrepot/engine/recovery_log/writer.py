# SPDX-License-Identifier: Apache-2.0
"""The log's writing end, made for group commit.

Records gather in memory. `take` closes the gathered group, `write_group`
brings it to disk and forces it, `forced` tells the log so. Between `take`
and `forced` the next group gathers, so one force serves everyone who came
while the one before was under way. Only `write_group` may run on another
thread; all else belongs to whoever owns the engine.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from entrepot.clock import Clock
from entrepot.disk import NO_SPACE, Buffer, Disk, File
from entrepot.engine.recovery_log.block_stage import BlockStage
from entrepot.engine.recovery_log.group import GROUP_BYTES, SALT_BYTES, Group, GroupKey, GroupSecrets
from entrepot.engine.recovery_log.record import Record, frame
from entrepot.engine.recovery_log.segment import (
    FOLDER,
    HEAD_PAGE_BYTES,
    SegmentHead,
    SparePool,
    read_head_page,
    segment_numbers,
    segment_path,
)
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import DiskFailed, DiskFull, LogDamaged, LogFull


class WriteGroup:
    """What one write brings to disk: from `start` up to `end` in the stream."""

    __slots__ = ("buffers", "end", "files", "previous", "start")

    def __init__(
        self, start: int, end: int, buffers: list[Buffer], files: list[tuple[int, File]], previous: int
    ) -> None:
        self.start = start
        self.end = end
        self.previous = previous
        """The check of the group before it."""
        self.buffers = buffers
        self.files = files
        """The segments it lies in, each with the position where its stream begins."""


class RecoveryLog:
    """Append, write and force; positions are bytes in the log's stream."""

    def __init__(self, disk: Disk, clock: Clock, settings: LogSettings, manager_id: bytes) -> None:
        self._disk = disk
        self._clock = clock
        self._settings = settings
        self._manager_id = manager_id
        self._payload_bytes = settings.payload_bytes
        self._reserve_bytes = min(self._payload_bytes // 2, 1024 * 1024)
        """The last part of the log, which is kept for gets."""
        self._incarnation = 0
        self._serial = 0
        self._previous = 0
        """The check of the group that was taken last."""
        self._key: tuple[int, GroupKey] | None = None
        """That of the segment in which the last group began, with the segment's number."""
        self._secrets: GroupSecrets
        """Of the group that gathers."""
        self._heads: dict[int, SegmentHead] = {}
        """Of the segment that is written and of later ones, made or not."""
        self._spares = SparePool(disk, manager_id, settings.segment_bytes)
        self._files: dict[int, File] = {}
        self._unforced: dict[int, File] = {}
        """Segments that were written since the last force, by the position where their stream begins."""
        self._stage = BlockStage()
        self._buffers: list[Buffer] = []
        self.appended_position = 0
        """Where the next record will stand."""
        self.written_position = 0
        self.forced_position = 0
        """Everything before it would survive a power cut."""
        self._group_starts: list[int] = []
        """Some positions at which groups begin, ascending; see `group_start_before`."""
        self.needed_position = 0
        """Restart reads the log from here; circular logging reuses what lies before."""
        self._first = 0
        self._next = 0
        """The lowest segment number that has no file yet."""

    def open(self, *, position: int, needed_position: int, incarnation: int) -> None:
        """Go on writing at `position`, up to which restart has read and forced the log.

        In a segment of an earlier format anybody could forge what follows, so
        writing goes on in a new one.

        Raises:
            LogDamaged: A segment's head page is damaged, or another history follows.
            DiskFull, DiskFailed: There is no new segment. Nothing was changed.
        """
        self._spares.find()
        self._incarnation = incarnation
        # Random: of two queue managers with the same history, each goes on in its own way.
        self._previous = int.from_bytes(self._disk.random_bytes(8), "little")
        self.needed_position = needed_position
        self._first = self._next = needed_position // self._payload_bytes
        while self._disk.exists(segment_path(self._next)):
            self._next += 1
        for number in range(position // self._payload_bytes, self._next):
            self._heads[number] = self._read_head(number)
        position = self._leave_unsalted(position)
        self.appended_position = self.written_position = self.forced_position = position
        if self._settings.kind == "circular":
            # A crash between a checkpoint and its `release` leaves these behind.
            self._take_back(number for number in segment_numbers(self._disk) if number < self._first)

    def _leave_unsalted(self, position: int) -> int:
        """Where to go on instead of at a position in a segment that has no salt; the position itself in others."""
        number = position // self._payload_bytes
        if self._head(number).salt:
            return position
        successor = number + 1
        if successor >= self._next:
            self._heads[successor] = SegmentHead(self._disk.random_bytes(SALT_BYTES), position)
            try:
                self._file(successor)
            except OSError as error:
                raise self._failure(error) from error
        elif not self._head(successor).salt or self._head(successor).continues != position:
            path = self._disk.describe(segment_path(successor))
            raise LogDamaged(path, 0, f"this segment does not continue the log from position {position}")
        return successor * self._payload_bytes

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
        seed = self._secrets.seed
        for record in records:
            head, payload = frame(record, position, seed)
            buffers += (head, payload)
            position += len(head) + len(payload)
        self.appended_position = position
        return position

    def _begin_group(self) -> None:
        self._serial = (self._serial + 1) & 0xFFFFFFFF
        position = self.written_position
        self._secrets = self._key_at(position).secrets(position, self._incarnation, self._serial, self._previous)

    def _key_at(self, position: int) -> GroupKey:
        number = position // self._payload_bytes
        if self._key is None or self._key[0] != number:
            self._key = (number, GroupKey(self._head(number).salt))
        return self._key[1]

    def _head(self, number: int) -> SegmentHead:
        """What the head page of the present segment or a later one says, or will say once it is made."""
        if number not in self._heads:
            self._heads[number] = SegmentHead(self._disk.random_bytes(SALT_BYTES), number * self._payload_bytes)
        return self._heads[number]

    def _read_head(self, number: int) -> SegmentHead:
        path = segment_path(number)
        file = self._disk.open(path)
        try:
            return read_head_page(self._disk, path, file, self._manager_id, number, self._settings.segment_bytes)
        finally:
            file.close()

    @property
    def has_gathered(self) -> bool:
        return bool(self._buffers)

    @property
    def gathered_bytes(self) -> int:
        return self.appended_position - self.written_position

    @property
    def reserve_bytes(self) -> int:
        return self._reserve_bytes

    @property
    def is_reserve_touched(self) -> bool:
        """Whether gets have begun to use the part of the log that is kept for them."""
        room = (self._next + len(self._spares)) * self._payload_bytes - self.appended_position
        return room < self._reserve_bytes * 3 // 4

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
        check, seed = self._secrets
        previous, self._previous = self._previous, check
        group = Group(
            end - start - GROUP_BYTES,
            self.forced_position,
            self._incarnation,
            self._serial,
            self._clock.now(),
            previous,
            check,
        )
        buffers[0] = self._key_at(start).frame(group, start, seed)
        self._buffers = []
        self.appended_position = self.written_position = end
        return WriteGroup(start, end, buffers, files, previous)

    def write_group(self, group: WriteGroup, *, force: bool) -> None:
        """Bring a group to disk; with `force`, it and all before it survive a power cut.

        Raises:
            DiskFull: The group is not in the log; `give_up` must follow.
            DiskFailed: Nobody knows what the disk holds. Fatal.
        """
        try:
            if force and not self._unforced and self._write_blocks(group, force=True):
                return  # nothing else had to be forced
            # A group that was flushed may end in the segment before: it is claimed to be forced, too.
            self._unforced.update(group.files)
            if not self._write_blocks(group, force=False):
                self._write(group)
            if force:
                for file in self._unforced.values():
                    file.force()
                self._unforced.clear()
        except OSError as error:
            raise self._failure(error) from error

    def _write_blocks(self, group: WriteGroup, *, force: bool) -> bool:
        """Write whole blocks, if the group lies in one segment and is of a usual size."""
        if len(group.files) != 1:
            return False
        begin, file = group.files[0]
        offset = HEAD_PAGE_BYTES + group.start - begin
        return self._stage.write(file, offset, group.end - group.start, group.buffers, force=force)

    def _write(self, group: WriteGroup) -> None:
        self._stage.forget()
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
        self.note_group_start(group.end)
        if len(self._files) > 1:
            last = self.forced_position // self._payload_bytes
            for number in [number for number in self._files if number < last]:
                self._files.pop(number).close()
                self._heads.pop(number, None)

    def note_group_start(self, position: int) -> None:
        """A group begins here; about sixteen for each segment are remembered."""
        starts = self._group_starts
        if not starts or position - starts[-1] >= self._payload_bytes // 16:
            starts.append(position)

    def group_start_before(self, position: int) -> int:
        """A position up to this one at which a restart could begin to read, as late as is known."""
        index = bisect_right(self._group_starts, position)
        return self._group_starts[index - 1] if index else self.needed_position

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
        self._stage.forget()
        try:
            if group.start > self.forced_position:
                self._write_again(self.forced_position, group.start)
            # A partly written group must not come back to life at the next restart.
            size = min(GROUP_BYTES, begin + self._payload_bytes - group.start)
            file.write(HEAD_PAGE_BYTES + group.start - begin, [bytes(size)])
            file.force()
        except OSError as error:
            raise DiskFailed(self._disk.describe(FOLDER), str(error)) from error
        self.written_position = group.start
        self._previous = group.previous
        self.discard_gathered()

    def _write_again(self, start: int, end: int) -> None:
        """Let the next force cover what was written here without one.

        If it was a force that met the full disk, the kernel may hold this as if it were on disk.
        """
        for begin, file in self._files_for(start, end):
            offset = HEAD_PAGE_BYTES + max(start - begin, 0)
            size = HEAD_PAGE_BYTES + min(end - begin, self._payload_bytes) - offset
            file.write(offset, [file.read(offset, size)])

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
                self._files[number] = self._spares.use(number, self._head(number))
                self._next = number + 1
        return self._files[number]

    def make_primaries(self) -> None:
        """Make the files that a new queue manager starts with."""
        while len(self._spares) + self._next - self._first < self._settings.primary:
            self._spares.make()

    def release(self, position: int, *, keep_all: bool = False) -> None:
        """Restart no longer needs what lies before `position`.

        Circular logging takes the segments back as spares, beyond the primaries
        it removes them, unless it is to `keep_all` because the disk would not give
        others; linear logging leaves them for `archive`.
        """
        self.needed_position = position
        del self._group_starts[: bisect_left(self._group_starts, position)]
        first = position // self._payload_bytes
        if self._settings.kind == "circular":
            self._take_back(range(self._first, first), keep_all=keep_all)
        self._first = first

    def _take_back(self, numbers: Iterable[int], *, keep_all: bool = False) -> None:
        for number in numbers:
            if number in self._files:
                self._files.pop(number).close()
            keep = keep_all or len(self._spares) + self._next - number - 1 < self._settings.primary
            self._spares.take_back(number, keep=keep)
            self._first = max(self._first, number + 1)
        self._disk.force_folder(FOLDER)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()
