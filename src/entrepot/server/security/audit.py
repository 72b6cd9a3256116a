# SPDX-License-Identifier: Apache-2.0
"""Who did what, and who was refused: a log that shows when somebody changed it.

    audit = AuditLog.open(folder)
    audit.write("connect", user="alice", address="10.0.0.7", channel="APP", verdict="allowed")
    audit.force()

A line and the mark that knows it are handed to the operating system when
`write` returns, so they survive the death of the process, and a power cut
after `force`.
`audit_chain` has the format, and says what its chain proves.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, TypedDict, Unpack

from entrepot import private_file
from entrepot.errors import AuditFailed
from entrepot.server.security import audit_chain
from entrepot.server.security.audit_chain import FILE, HEAD, MARK, ChainEnd, ChainHead, ChainMark, records, verify
from entrepot.server.security.refusal_counter import RefusalCount, RefusalCounter

__all__ = ["AuditFields", "AuditLog", "records", "verify"]

_LOGGER = logging.getLogger("entrepot")

FILE_BYTES_MAX = 64 * 1024 * 1024
HEAD_EVERY_LINES = 1000
_CLOSED = "it is closed"

_VALUE_CHARACTERS_MAX = 1000
"""Longer values are cut: what a stranger sends as his name must not become a line of megabytes."""


class AuditFields(TypedDict, total=False):
    """What a line may tell beside its event; nothing here may be a password."""

    user: str
    address: str
    channel: str
    object: str
    verdict: str
    """allowed, refused, done or failed."""
    reason: str
    count: int


class AuditLog:
    """The audit log of a queue manager that this process runs; any thread may write."""

    def __init__(
        self,
        folder: Path,
        descriptor: int,
        mark_descriptor: int,
        head: ChainHead,
        now: Callable[[], float],
        bytes_max: int,
    ) -> None:
        self._folder = folder
        self._descriptor = descriptor
        self._mark_descriptor = mark_descriptor
        self._forced = head
        self._boot = audit_chain.boot()
        self._head = head
        self._head_lines = head.lines
        self._now = now
        self._bytes_max = bytes_max
        self._floods = RefusalCounter()
        self._broken = ""
        self._lock = threading.Lock()

    @classmethod
    def open(cls, folder: Path, *, now: Callable[[], float] = time.time, bytes_max: int = FILE_BYTES_MAX) -> AuditLog:
        """Go on behind the last line; a line that a power cut left unfinished is cut off, and a line says so.

        Raises:
            AuditDamaged: Lines are missing at the end, or were altered there.
            AuditFailed: The disk failed or is full, or another process writes this log.
            FileNotPrivate: Others could read or write it.
        """
        try:
            descriptor = private_file.open_private(folder / FILE, os.O_RDWR | os.O_APPEND, create=True)
        except OSError as error:
            raise _failed(folder, error) from error
        try:
            _lock_file(folder / FILE, descriptor)
            found = audit_chain.end(folder)
            mark_descriptor = private_file.open_private(folder / MARK, os.O_RDWR, create=True)
        except OSError as error:
            os.close(descriptor)
            raise _failed(folder, error) from error
        except BaseException:
            os.close(descriptor)
            raise
        log = cls(folder, descriptor, mark_descriptor, found.head, now, bytes_max)
        try:
            log._begin(found)
            return log
        except BaseException as error:
            log._close_files()
            if isinstance(error, OSError):
                raise _failed(folder, error) from error
            raise

    def _begin(self, found: ChainEnd) -> None:
        if found.torn_bytes:
            os.ftruncate(self._descriptor, found.head.bytes)
        try:
            # Before the first line, so that lines without a head or a mark can only mean that it was taken away.
            self._write_head()
            if found.torn_bytes:
                self.write("audit tail cut", reason=f"{found.torn_bytes} bytes of an unfinished line", verdict="done")
            if found.lost_lines:
                reason = "a power cut took lines that were not forced"
                self.write("audit lines lost", reason=reason, count=found.lost_lines, verdict="done")
        except AuditFailed as error:
            # A full disk must not keep a queue manager from starting: messages go on, and until there is space all
            # that has to be written here is refused. The head of an earlier start is an old one, not a wrong one.
            if not (self._folder / HEAD).exists():
                raise
            _LOGGER.error("%s", error)

    def write(self, event: str, **fields: Unpack[AuditFields]) -> None:
        """Tell what happened. The line is written when this returns, and on disk after `force`.

        Refusals, by their event or their verdict, are counted instead when
        one address has more than a hundred in a second; see `settle`.

        Raises:
            AuditFailed: It is not written; whoever administers must be refused now.
        """
        with self._lock:
            now = self._now()
            self._write_counted(self._floods.ended(now), now)
            refusal = "refused" in (event, fields.get("verdict"))
            if refusal and not self._floods.admits(event, fields.get("address", "")):
                return
            self._append(event, fields, now)

    def force(self) -> None:
        """Return when every line would survive a power cut.

        Raises:
            AuditFailed: What the disk holds is not known; every later write is refused until the log is opened again.
        """
        with self._lock:
            self._write_counted(self._floods.all(), self._now())
            self._force()
            self._force_mark()

    def settle(self) -> None:
        """Write what was counted in seconds that are over; for whoever comes by once a second.

        Raises:
            AuditFailed
        """
        with self._lock:
            now = self._now()
            self._write_counted(self._floods.ended(now), now)

    def close(self) -> None:
        """Write the rest, force it, and let the head say how far the log has come.

        Raises:
            AuditFailed: The log is closed, and the head may be an older one.
        """
        with self._lock:
            if self._broken == _CLOSED:
                return
            try:
                self._write_counted(self._floods.all(), self._now())
                self._write_head()
            finally:
                self._close_files()
                self._broken = _CLOSED

    def _close_files(self) -> None:
        for descriptor in (self._descriptor, self._mark_descriptor):
            os.close(descriptor)

    # --- with the lock held -----------------------------------------------------------------------

    def _write_counted(self, counted: list[RefusalCount], now: float) -> None:
        for each in counted:
            reason = "more of these within a second"
            fields: AuditFields = {
                "address": each.address, "verdict": "refused", "reason": reason, "count": each.count,
            }  # fmt: skip
            self._append(each.event, fields, now)

    def _append(self, event: str, fields: AuditFields, now: float) -> None:
        if self._broken:
            raise AuditFailed(str(self._folder / FILE), self._broken)
        line, head = audit_chain.seal(self._head, _text(self._head.lines + 1, now, event, fields))
        try:
            private_file.write_all(self._descriptor, line)
        except OSError as error:
            self._undo()
            self._fail(error)
        self._head = head
        self._write_mark()
        if head.lines - self._head_lines >= HEAD_EVERY_LINES:
            self._write_head()
        if head.bytes >= self._bytes_max:
            self._begin_next_file()

    def _undo(self) -> None:
        """Take back what a failed write left, so that the next line stands behind a whole one."""
        try:
            os.ftruncate(self._descriptor, self._head.bytes)
        except OSError as error:
            self._broken = f"after a failed write: {private_file.reason(error)}"

    def _force(self) -> None:
        if self._broken:
            raise AuditFailed(str(self._folder / FILE), self._broken)
        try:
            os.fdatasync(self._descriptor)
        except OSError as error:
            # A second force may succeed though the lines are gone, so this one counts.
            self._broken = private_file.reason(error)
            self._fail(error)

    def _write_head(self) -> None:
        # First the lines and then the head: else a power cut could leave a head that knows lines nobody has.
        self._force()
        # And the mark: a head without one means that it was taken away.
        self._force_mark()
        audit_chain.write_head(self._folder, self._head)
        self._head_lines = self._head.lines

    def _write_mark(self) -> None:
        """Behind every line: not forced, because the death of the process does not take it."""
        mark = ChainMark(written=self._head, forced=self._forced, boot=self._boot)
        try:
            os.pwrite(self._mark_descriptor, mark.encode(), 0)
        except OSError as error:
            self._broken = f"its mark cannot be written: {private_file.reason(error)}"
            self._fail(error)

    def _force_mark(self) -> None:
        self._forced = self._head
        self._write_mark()
        try:
            os.fdatasync(self._mark_descriptor)
        except OSError as error:
            self._broken = private_file.reason(error)
            self._fail(error)

    def _begin_next_file(self) -> None:
        """Put the full file aside; a failure leaves it in its place, and the next line tries again."""
        self._force()
        current, full = self._folder / FILE, self._folder / audit_chain.full_name(self._head.file)
        fresh = self._folder / f".{FILE}.new"
        try:
            fresh.unlink(missing_ok=True)
            descriptor = private_file.open_private(fresh, os.O_RDWR | os.O_APPEND, create=True)
            try:
                # Before it gets its name: nobody else may find it unlocked.
                _lock_file(fresh, descriptor)
                current.rename(full)
                self._take_name(fresh, current, full)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            self._fail(error)
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._head = self._head.next_file()
        self._write_head()

    def _take_name(self, fresh: Path, current: Path, full: Path) -> None:
        try:
            fresh.rename(current)
            private_file.force_folder(self._folder)
        except OSError:
            with suppress(OSError):
                full.rename(current)
            self._broken = "a full file could not be put aside"
            raise

    def _fail(self, error: OSError) -> NoReturn:
        raise _failed(self._folder, error) from error


def _failed(folder: Path, error: OSError) -> AuditFailed:
    return AuditFailed(str(folder / FILE), private_file.reason(error))


def _text(number: int, now: float, event: str, fields: AuditFields) -> bytes:
    """The canonical text: ASCII, so that no character of a stranger's name can do anything to who reads it."""
    moment = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record: dict[str, object] = {"n": number, "time": moment, "event": event}
    for name in AuditFields.__annotations__:
        value = fields.get(name, "")
        if isinstance(value, str):
            value = value if len(value) <= _VALUE_CHARACTERS_MAX else value[:_VALUE_CHARACTERS_MAX] + "..."
        if value != "":
            record[name] = value
    unknown = fields.keys() - AuditFields.__annotations__.keys()
    assert not unknown, f"an audit line has no {unknown}"
    # DEL is the one control character that JSON leaves as it is.
    return json.dumps(record, separators=(",", ":")).replace("\x7f", "\\u007f").encode("ascii")


def _lock_file(path: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AuditFailed(str(path), "another process writes it") from None
