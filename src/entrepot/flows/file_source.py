# SPDX-License-Identifier: Apache-2.0
"""Files as a source of messages: which instance reads which, and what becomes of them.

    orders.csv                                  waits
    mqsitransitin/5f0c….0.orders.csv            is being read: its lock says by a living process
    mqsiarchive/  mqsibackout/                  was read; has failed

A file is claimed by a lock and an atomic rename; the name it gets is never
given again, and by it a ledger in the queue manager knows which records have
been dealt with. The lock of a process that dies is gone with it, so another
instance finds the file, reads on, and is told by the ledger from where. The
number after the id counts how often that has happened since a record of the
file was last committed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

from entrepot.errors import FolderUnusable, RecordTooLong
from entrepot.flows.records import FileRecord, RecordReader, Splitting
from entrepot.message import Message

TRANSIT = "mqsitransitin"
ARCHIVE = "mqsiarchive"
BACKOUT = "mqsibackout"
ID_BYTES = 8
_CLAIMED = re.compile(r"([0-9a-f]{16})\.(\d+)\.(.+)", re.DOTALL)
_NAME_BYTES_MAX = 230
"""Longer ones have no room for the id before them."""
_NAP_S = 0.05


@dataclass(frozen=True, slots=True)
class FileInputSettings:
    """What a FileInput node wants."""

    flow: str
    node: str
    folder: str
    pattern: str = "*"
    exclude: str = ""
    splitting: Splitting = field(default_factory=Splitting)
    action: str = "delete"
    replace_archived: bool = False
    polling_s: float = 5.0
    quiet_s: float = 0.0
    has_end: bool = False
    """Whether the end of the data is a message of its own."""


class _Claim:
    """A file that this process reads."""

    def __init__(self, path: Path, file: BinaryIO, splitting: Splitting) -> None:
        match = _CLAIMED.fullmatch(path.name)
        assert match is not None
        self.id, attempts, self.name = match.groups()
        self.attempts = int(attempts)
        self.path = path
        self.file = file
        facts = os.fstat(file.fileno())
        self.size = facts.st_size
        self.modified = facts.st_mtime
        self.started = timestamp()
        self.reader = RecordReader(file, self.name, self.size, splitting)
        self.committed = (1, 0)
        """Number and offset of the record after the last that was committed."""
        self.is_handed_out = False
        """All of it, up to its end."""
        self.outcome = "finished"

    def back(self) -> None:
        self.reader.seek(*self.committed)
        self.is_handed_out = False
        self.outcome = "finished"


class FileSource:
    """Records of the files in a folder, oldest files first (input_node.Source)."""

    def __init__(self, reading: FileInputSettings) -> None:
        """
        Raises:
            FolderUnusable: The folder is not there, or files cannot be moved in it.
        """
        self._reading = reading
        self._folder = Path(reading.folder).absolute()
        self._claims: list[_Claim] = []
        self._candidates: list[str] = []
        self._look_at = 0.0
        self._unmoved: list[_Claim] = []
        self._forget: list[bytes] = []
        """Files that are gone, and of which the ledger still knows."""
        self._forgetting = 0
        """How many of these are named by messages that are not committed yet."""
        with self._usable():
            os.listdir(self._folder)
            (self._folder / TRANSIT).mkdir(exist_ok=True)

    # --- what the runner asks -----------------------------------------------------------------

    def next(self, wait_s: float) -> Message | None:
        """
        Raises:
            FolderUnusable: The folder has gone, or a file that was read cannot be moved.
        """
        end = time.monotonic() + wait_s
        with self._usable():
            self._move_unmoved()
            while True:
                message = self._from_claims()
                if message is not None:
                    return message
                if self._claim_next():
                    continue
                if len(self._forget) > self._forgetting:
                    return Message(b"", message_id=os.urandom(24), persistent=True, properties=self._forgotten())
                left_s = end - time.monotonic()
                if left_s <= 0:
                    return None
                time.sleep(min(left_s, max(self._look_at - time.monotonic(), 0.0), 1.0) or min(left_s, _NAP_S))

    def committed(self) -> None:
        for claim in self._claims:
            position = (claim.reader.number, claim.reader.offset)
            if claim.attempts and position != claim.committed:
                self._counted_from_zero(claim)
            claim.committed = position
        done = [claim for claim in self._claims if claim.is_handed_out]
        self._claims = [claim for claim in self._claims if not claim.is_handed_out]
        del self._forget[: self._forgetting]
        self._forgetting = 0
        self._unmoved += done
        with contextlib.suppress(OSError):
            self._move_unmoved()  # what cannot be moved now is told by `next`

    def backed_out(self) -> None:
        for claim in self._claims:
            claim.back()
        self._forgetting = 0

    def left_in_doubt(self) -> None:
        self.backed_out()  # the ledger knows what has happened, and is asked for each record

    def close(self) -> None:
        """Leave what is not read to the end to the next instance."""
        for claim in self._claims:
            if claim.attempts:
                self._counted_from_zero(claim)
            claim.file.close()
        for claim in self._unmoved:
            claim.file.close()
        self._claims.clear()

    # --- what the node tells ------------------------------------------------------------------

    def jump(self, identity: str, records: int, offset: int, outcome: str) -> None:
        """The ledger knows more than this process: so many records are done, or all of them."""
        for claim in self._claims:
            if claim.id == identity:
                if outcome:
                    claim.is_handed_out, claim.outcome = True, outcome
                elif records >= claim.reader.number:
                    claim.reader.seek(records + 1, offset)

    def fail(self, identity: str) -> None:
        """A record cannot be dealt with: the rest of the file is not read."""
        self.jump(identity, 0, 0, "failed")

    # --- records ------------------------------------------------------------------------------

    def _from_claims(self) -> Message | None:
        for claim in self._claims:
            if not claim.is_handed_out:
                return self._from_claim(claim)
        return None

    def _from_claim(self, claim: _Claim) -> Message:
        try:
            record = claim.reader.next()
        except RecordTooLong as error:
            number, offset = claim.reader.number, claim.reader.offset
            return self._message(claim, FileRecord(number, offset, offset, b"", None, False), {"too_long": error.limit})
        if record is None:
            claim.is_handed_out = True
            number, offset = claim.reader.number, claim.reader.offset
            ending = FileRecord(number - 1, offset, offset, b"", None, True)
            return self._message(claim, ending, {"is_end": True, "is_final": True})
        is_final = record.is_last and not self._reading.has_end
        claim.is_handed_out = is_final
        return self._message(claim, record, {"is_final": is_final})

    def _message(self, claim: _Claim, record: FileRecord, more: dict[str, Any]) -> Message:
        properties: dict[str, Any] = {
            "file": claim.id,
            "name": claim.name,
            "folder": str(self._folder),
            "size": claim.size,
            "modified": claim.modified,
            "started": claim.started,
            "record": record.number,
            "offset": record.offset,
            "end": record.end,
            "attempts": claim.attempts,
            **more,
            **self._forgotten(),
        }
        if record.delimiter is not None:
            properties["delimiter"] = record.delimiter
        place = record.number.to_bytes(8, "big") + record.offset.to_bytes(7, "big")
        return Message(
            record.body,
            message_id=bytes.fromhex(claim.id) + place + (b"\1" if more.get("is_end") else b"\0"),
            persistent=True,
            put_time=time.time(),
            backout_count=claim.attempts,
            properties=properties,
        )

    def _forgotten(self) -> dict[str, Any]:
        """What the ledger need not know any more, with the next message that goes out."""
        fresh = self._forget[self._forgetting :]
        self._forgetting = len(self._forget)
        return {"forget": b"".join(fresh)} if fresh else {}

    # --- files --------------------------------------------------------------------------------

    def _claim_next(self) -> bool:
        """Take the next file that is free."""
        if not self._candidates:
            if time.monotonic() < self._look_at:
                return False
            self._look_at = time.monotonic() + self._reading.polling_s
            self._candidates = [*self._left_behind(), *self._waiting()]
            self._candidates.reverse()
        while self._candidates:
            if self._claim(self._candidates.pop()):
                return True
        return False

    def _left_behind(self) -> list[str]:
        """All claims; those of living processes are locked."""
        mine = {claim.path.name for claim in (*self._claims, *self._unmoved)}
        found = []
        for name in sorted(os.listdir(self._folder / TRANSIT)):
            match = _CLAIMED.fullmatch(name)
            if match is not None and name not in mine and self._is_wanted(match.group(3)):
                found.append(f"{TRANSIT}/{name}")
        return found

    def _waiting(self) -> list[str]:
        found = []
        latest = time.time() - self._reading.quiet_s
        for entry in os.scandir(self._folder):
            with contextlib.suppress(FileNotFoundError):
                if self._is_wanted(entry.name) and entry.is_file(follow_symlinks=False):
                    modified = entry.stat(follow_symlinks=False).st_mtime_ns
                    if not self._reading.quiet_s or modified / 1e9 <= latest:
                        found.append((modified, entry.name))
        return [name for _, name in sorted(found)]

    def _is_wanted(self, name: str) -> bool:
        reading = self._reading
        if name.startswith(".") and not reading.pattern.startswith("."):
            return False  # as shells do: what is still being written is often called so
        return fnmatchcase(name, reading.pattern) and not (reading.exclude and fnmatchcase(name, reading.exclude))

    def _claim(self, name: str) -> bool:
        path = self._folder / name
        opened = locked(path)
        if opened is None:
            return False
        with contextlib.ExitStack() as closing:
            closing.callback(opened.close)
            match = _CLAIMED.fullmatch(path.name) if name.startswith(f"{TRANSIT}/") else None
            if match is not None:
                transit = path.with_name(f"{match.group(1)}.{int(match.group(2)) + 1}.{match.group(3)}")
            elif len(os.fsencode(name)) > _NAME_BYTES_MAX:
                move_aside(path, self._folder / BACKOUT, path.name[:100])
                return False
            else:
                transit = self._folder / TRANSIT / f"{os.urandom(ID_BYTES).hex()}.0.{name}"
            path.rename(transit)
            self._claims.append(_Claim(transit, opened, self._reading.splitting))
            closing.pop_all()
        return True

    def _counted_from_zero(self, claim: _Claim) -> None:
        """Something of the file was committed, or it is left in peace: the next reader counts anew."""
        fresh = claim.path.with_name(f"{claim.id}.0.{claim.name}")
        with contextlib.suppress(OSError):
            claim.path.rename(fresh)
            claim.path, claim.attempts = fresh, 0

    def _move_unmoved(self) -> None:
        while self._unmoved:
            claim = self._unmoved[0]
            self._move(claim)
            claim.file.close()
            self._forget.append(bytes.fromhex(claim.id))
            del self._unmoved[0]

    def _move(self, claim: _Claim) -> None:
        reading = self._reading
        with contextlib.suppress(FileNotFoundError):
            if claim.outcome == "failed":
                move_aside(claim.path, self._folder / BACKOUT, claim.name)
            elif reading.action == "delete":
                claim.path.unlink()
            elif reading.action == "archive" and reading.replace_archived:
                (self._folder / ARCHIVE).mkdir(exist_ok=True)
                claim.path.replace(self._folder / ARCHIVE / claim.name)
            elif reading.action == "archive":
                move_aside(claim.path, self._folder / ARCHIVE, claim.name)
            else:
                move_aside(claim.path, self._folder / ARCHIVE, f"{claim.started}_{claim.name}")

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reading = self._reading
            problem = error.strerror or str(error)
            raise FolderUnusable(reading.flow, reading.node, str(error.filename or self._folder), problem) from error


def timestamp() -> str:
    """The time as names of files have it, in UTC: 20081124_155346_312030."""
    return datetime.now(UTC).strftime("%Y%m%d_%H%M%S_%f")


def locked(path: Path) -> BinaryIO | None:
    """A file, open and locked; None when another process has locked it, or when it is none (any more)."""
    try:
        # Not by the way of a link: that would be a file outside of the folder.
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb")
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link, or a pipe without another end
            return None
        raise
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        mine, there = os.fstat(file.fileno()), path.stat(follow_symlinks=False)
        if stat.S_ISREG(mine.st_mode) and (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):
            return file
    except (BlockingIOError, FileNotFoundError):
        pass
    file.close()
    return None


def move_aside(path: Path, folder: Path, name: str) -> Path:
    """Move a file to a folder under a name that is free there: its own, or with the time before it."""
    folder.mkdir(exist_ok=True)
    target = folder / name
    while True:
        try:
            os.link(path, target)
        except FileExistsError:
            if target.samefile(path):
                break  # linked before a crash
            target = folder / f"{timestamp()}_{name}"
            continue
        break
    path.unlink()
    return target
