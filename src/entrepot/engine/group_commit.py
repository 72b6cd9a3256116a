# SPDX-License-Identifier: Apache-2.0
"""Group commit: one force of the log serves everyone whose records it carries.

`begin` closes the gathered group, the caller writes it (on whatever thread
it likes), `end` settles everyone it served. While one group is under way
the next one gathers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from entrepot.engine.recovery_log.record import Record
from entrepot.engine.recovery_log.writer import RecoveryLog, WriteGroup
from entrepot.engine.settlement import Settlement
from entrepot.errors import DiskFailed, DiskFull, EntrepotError, LogFull, QueueManagerFailed, QueueManagerStopped

_NOTE_BYTES = 256


class GroupCommit:
    """Who waits for the log, and what becomes of them."""

    def __init__(self, log: RecoveryLog, on_failure: Callable[[], None]) -> None:
        self._log = log
        self._on_failure = on_failure
        self._pending: deque[Settlement] = deque()
        self._forcing = False
        self.failure: EntrepotError | None = None
        """Why the queue manager has stopped for good."""

    def require_running(self) -> None:
        """Refuse every verb once the queue manager has stopped."""
        if self.failure is not None:
            raise self.refusal()

    def refusal(self) -> EntrepotError:
        if isinstance(self.failure, QueueManagerStopped):
            return QueueManagerStopped(self.failure.name)
        return QueueManagerFailed(str(self.failure))

    def promise(
        self, records: Sequence[Record], apply: Callable[[], None], undo: Callable[[EntrepotError], EntrepotError]
    ) -> Settlement:
        """Gather records; `apply` runs when they are forced, `undo` when the disk does not take them."""
        settlement = Settlement(self._log.append(records), apply, undo)
        self._pending.append(settlement)
        return settlement

    def mark(self) -> None:
        """When all is quiet, write into the log how far it was forced.

        It is what tells damage to the last group from a torn write of it.
        """
        # A mark is written and not forced, so the log is not all forced again before something else was.
        if not self._forcing and self._log.forced_position == self._log.appended_position:
            self.flush()

    def note(self, record: Record, record_bytes: int = _NOTE_BYTES) -> None:
        """Gather a record that nobody waits for, safe from a kill of this process as soon as may be."""
        try:
            self._log.require_room(record_bytes, reserved=True)
        except (LogFull, DiskFailed):
            return  # a note is not worth the last of the log; the next promise will tell of the disk
        self._log.append([record])
        # Where somebody waits for a force it comes at once. And what is promised must not be written
        # ahead of its force: were the disk full then, we could not take it back.
        if not self._forcing and not self._pending:
            self.flush()

    @property
    def newest(self) -> Settlement | None:
        """The last of those who wait for a force, or None when nobody does."""
        return self._pending[-1] if self._pending else None

    def begin(self) -> WriteGroup | None:
        """Close the gathered group for one write; None when the disk did not even take its segment."""
        try:
            group = self._log.take()
        except DiskFull as error:
            self._log.discard_gathered()
            self._fail_pending(error)
            return None
        except DiskFailed as error:
            self.fail(error)
            return None
        self._forcing = True
        return group

    def end(self, group: WriteGroup, error: EntrepotError | None) -> None:
        """The write of a group has ended; settle everyone it served."""
        self._forcing = False
        if isinstance(error, DiskFull):
            try:
                self._log.give_up(group)
            except DiskFailed as failed:
                self.fail(failed)
                return
            self._fail_pending(error)
            return
        if error is not None:
            # Never force again: after a failed force the kernel may drop what it could not write
            # and report success the next time.
            self.fail(error)
            return
        self._log.forced(group)
        while self._pending and self._pending[0].position <= group.end:
            self._pending.popleft().settle()
        if self._log.has_gathered and not self._pending:
            self.flush()  # notes that came meanwhile

    def force(self) -> None:
        """One whole force, for callers on one thread."""
        group = self.begin()
        if group is None:
            return
        error: EntrepotError | None = None
        try:
            self._log.write_group(group, force=True)
        except (DiskFull, DiskFailed) as failed:
            error = failed
        self.end(group, error)

    def flush(self) -> None:
        """Write what has gathered without forcing it, if the disk takes it."""
        try:
            group = self._log.take()
        except DiskFull:
            return
        except DiskFailed as error:
            self.fail(error)
            return
        try:
            self._log.write_group(group, force=False)
        except DiskFull:
            try:
                self._log.give_up(group)
            except DiskFailed as failed:
                self.fail(failed)
        except DiskFailed as error:
            self.fail(error)

    def _fail_pending(self, error: EntrepotError) -> None:
        # Newest first: each undo finds the state that its own work left.
        pending, self._pending = self._pending, deque()
        for settlement in reversed(pending):
            settlement.fail(error)

    def fail(self, error: EntrepotError) -> EntrepotError:
        """Stop for good: what the disk holds is no longer known."""
        if self.failure is None:
            self.failure = error
            pending, self._pending = self._pending, deque()
            for settlement in pending:
                settlement.abandon(error)
            self._on_failure()
        return error
