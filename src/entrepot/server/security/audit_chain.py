# SPDX-License-Identifier: Apache-2.0
"""The files of the audit log, and the chain that holds its lines together.

    audit-0001.jsonl, audit-0002.jsonl, ...   full files, oldest first
    audit.jsonl                               the file that grows
    audit-head.json                           how far the log had come when this was last written
    audit-mark.json                           how far it has come with its last line

A line is a JSON object whose last member is its chain, the SHA-256 of the
chain of the line before it and of the text of this line without `chain`:

    {"n":7,"time":"2026-05-01T12:30:00.123Z","event":"connect","user":"alice","chain":"5e0c..."}

What `verify` finds: a byte that was altered, a line that was removed,
added or moved, a file that is missing, and lines cut from the end.

The mark is written behind every line, so it survives the death of the
process as its lines do: after a kill, the log must reach the mark. A power
cut may take lines that were not forced and leave the mark; the mark names
the boot of the machine, and after another boot the log must reach what was
forced: the lines of commands, and all lines of a log that was closed. What
else is gone then is told by a line of its own.

What it cannot find: a log that was made anew from some line on together
with head and mark, or removed with both, by somebody who can write as the
queue manager's user. Against that, copy the head's chain elsewhere from
time to time. Another user than that and root can neither read nor write
these files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from entrepot import private_file
from entrepot.errors import AuditDamaged, AuditFailed, SecurityFileUnusable

FILE = "audit.jsonl"
HEAD = "audit-head.json"
MARK = "audit-mark.json"
_MARK_BYTES = 1024
"""Its length, always the same, so that it is written over in one go."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")

_Stored = TypeVar("_Stored", bound=msgspec.Struct)
_FIRST_CHAIN = "0" * 64
_FULL = re.compile(r"audit-(\d{4,})\.jsonl")
_SEALED = re.compile(rb'(\{.*),"chain":"([0-9a-f]{64})"\}\n', re.DOTALL)


class ChainHead(msgspec.Struct, frozen=True, kw_only=True):
    """A place between two lines of the log."""

    file: int = 1
    """The number of the file: 1 is the oldest."""
    line: int = 0
    """Lines of this file before it."""
    bytes: int = 0
    lines: int = 0
    """Lines of all files before it."""
    chain: str = _FIRST_CHAIN

    def behind(self, line_bytes: int, chain: str) -> ChainHead:
        """The place behind another line of this file."""
        return ChainHead(
            file=self.file,
            line=self.line + 1,
            bytes=self.bytes + line_bytes,
            lines=self.lines + 1,
            chain=chain,
        )

    def next_file(self) -> ChainHead:
        return ChainHead(file=self.file + 1, lines=self.lines, chain=self.chain)


class _HeadFile(ChainHead, frozen=True, kw_only=True):
    """A head as it is stored."""

    marked: bool = False
    """Whether there is a mark beside it; logs of earlier releases have none."""


class ChainMark(msgspec.Struct, frozen=True, kw_only=True):
    """Where the log ends, as of its last line."""

    written: ChainHead = ChainHead()
    forced: ChainHead = ChainHead()
    """The place behind the last line that a power cut cannot take."""
    boot: str = ""
    """Of the machine."""

    def encode(self) -> bytes:
        return msgspec.json.encode(self).ljust(_MARK_BYTES - 1) + b"\n"


@dataclass(frozen=True, slots=True)
class TornWrite:
    """Where a write was cut off: bytes behind the last whole line."""

    head: ChainHead
    size: int


def _at(place: ChainHead) -> tuple[int, int]:
    return place.file, place.bytes


def seal(head: ChainHead, text: bytes) -> tuple[bytes, ChainHead]:
    """A line for the JSON object `text`, and the place behind it."""
    chain = _chain(head.chain, text)
    line = b'%b,"chain":"%b"}\n' % (text[:-1], chain.encode())
    return line, head.behind(len(line), chain)


def _chain(before: str, text: bytes) -> str:
    return hashlib.sha256(before.encode() + text).hexdigest()


# --- files ----------------------------------------------------------------------------------------


def full_name(number: int) -> str:
    return f"audit-{number:04d}.jsonl"


def files(folder: Path) -> list[Path]:
    """The files of the log, oldest first; the last is the one that grows, also when it is not there.

    Raises:
        AuditDamaged: One is missing.
    """
    numbers = sorted(int(found[1]) for path in folder.iterdir() if (found := _FULL.fullmatch(path.name)))
    for number, present in enumerate(numbers, start=1):
        if number != present:
            raise AuditDamaged(str(folder / full_name(number)), 1, "the file is missing")
    return [*(folder / full_name(number) for number in numbers), folder / FILE]


def boot() -> str:
    """What tells this boot of the machine from others."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _read_head(folder: Path) -> _HeadFile | None:
    """Raises AuditDamaged when it is none, FileNotPrivate when others could have written it."""
    return _read(folder / HEAD, _HeadFile, "it is no head of an audit log")


def read_mark(folder: Path) -> ChainMark | None:
    """The same for the mark."""
    return _read(folder / MARK, ChainMark, "it is no mark of an audit log")


def _read(path: Path, kind: type[_Stored], problem: str) -> _Stored | None:
    try:
        content, stamp = private_file.read(path)
        # An empty one is that of a process which died, or met a full disk, before it wrote the first.
        return None if stamp == private_file.ABSENT or not content else msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, ValueError):
        raise AuditDamaged(str(path), 1, problem) from None
    except SecurityFileUnusable as error:
        raise AuditFailed(error.file, error.problem) from error


def write_head(folder: Path, head: ChainHead) -> None:
    """Remember how far the log has come; what it names must be on disk before, and its mark.

    Raises:
        AuditFailed: The old one is untouched.
    """
    stored = _HeadFile(**msgspec.structs.asdict(head), marked=True)
    try:
        private_file.replace(folder / HEAD, msgspec.json.encode(stored) + b"\n")
    except SecurityFileUnusable as error:
        raise AuditFailed(error.file, error.problem) from error


class _KnownPlaces:
    """What head and mark know of a log: places that it has to have."""

    def __init__(self, folder: Path) -> None:
        # First of all: a queue manager that runs goes on behind them meanwhile.
        head, self.mark = _read_head(folder), read_mark(folder)
        self._folder = folder
        self.head: ChainHead | None = None
        self._unmet: list[tuple[str, ChainHead]] = []
        if head is None:
            if self.mark is not None and self.mark.written.lines:
                raise AuditDamaged(str(folder / HEAD), 1, "the file is missing")
            return
        if self.mark is None and head.marked:
            raise AuditDamaged(str(folder / MARK), 1, "the file is missing")
        self.head = ChainHead(**{name: getattr(head, name) for name in ChainHead.__struct_fields__})
        mark = self.mark or ChainMark()
        self._unmet = [(HEAD, self.head), (MARK, mark.forced)]
        if mark.boot == boot():
            self._unmet.append((MARK, mark.written))

    def begin(self, place: ChainHead) -> None:
        """The log is read from here on; what is before it was known when this was."""
        self._unmet = [(name, known) for name, known in self._unmet if (known.file, known.bytes) >= _at(place)]
        self.meet(place)

    def meet(self, place: ChainHead) -> None:
        """Compare with what is known of a place of the log.

        Raises:
            AuditDamaged
        """
        for name, known in [each for each in self._unmet if _at(each[1]) == _at(place)]:
            if known != place:
                raise AuditDamaged(str(self._folder / name), 1, f"its chain is not that of line {place.line}")
            self._unmet.remove((name, known))

    def require_met(self, end: ChainHead, path: Path) -> None:
        """Refuse a log that does not have a place that is known.

        Raises:
            AuditDamaged
        """
        if self._unmet:
            missing = max(known.lines for _, known in self._unmet) - end.lines
            problem = f"{missing} lines are missing behind it" if missing > 0 else "it is not where head and mark say"
            raise AuditDamaged(str(path), end.line, problem)

    def lost(self, end: ChainHead) -> int:
        """How many lines a power cut has taken."""
        return max(self.mark.written.lines - end.lines, 0) if self.mark is not None else 0


# --- reading --------------------------------------------------------------------------------------


def walk(paths: list[Path], start: ChainHead) -> Iterator[ChainHead | TornWrite]:
    """The places behind each line from `start` on, then a Torn if the last line is unfinished.

    Raises:
        AuditDamaged: A line does not follow from the one before it.
        FileNotPrivate: Others could have written a file.
    """
    head = start
    while head.file <= len(paths):
        path = paths[head.file - 1]
        for line in _lines(path, head.bytes):
            if not line.endswith(b"\n") and head.file == len(paths):
                yield TornWrite(head, len(line))
                return
            found = _SEALED.fullmatch(line)
            chain = _chain(head.chain, found[1] + b"}") if found else ""
            if found is None or chain != found[2].decode():
                raise AuditDamaged(str(path), head.line + 1, "it is not the line that was written here")
            head = head.behind(len(line), chain)
            yield head
        if head.file == len(paths):
            return
        head = head.next_file()
        yield head


def _lines(path: Path, offset: int) -> Iterator[bytes]:
    try:
        descriptor = private_file.open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    with os.fdopen(descriptor, "rb") as file:
        file.seek(offset)
        yield from file


def verify(folder: Path) -> int:
    """Read the whole log and say how many lines it has; they are what was written, as far as that can be known.

    Raises:
        AuditDamaged: A line was altered, removed, added or moved; the first such line is named.
        FileNotPrivate: Others could have written a file.
    """
    known = _KnownPlaces(folder)
    paths = files(folder)
    place = ChainHead()
    if known.head is None:
        _require_no_lines(folder, paths)
        return 0
    known.begin(place)
    for found in walk(paths, place):
        if isinstance(found, TornWrite):
            raise AuditDamaged(str(paths[-1]), place.line + 1, "it is unfinished")
        place = found
        known.meet(place)
    known.require_met(place, paths[-1])
    return place.lines


@dataclass(frozen=True, slots=True)
class ChainEnd:
    """Where the log goes on."""

    head: ChainHead
    torn_bytes: int = 0
    """What a write that was cut off has left behind it."""
    lost_lines: int = 0
    """What a power cut has taken before it."""


def end(folder: Path) -> ChainEnd:
    """Where the log goes on: what follows the head is checked, what is before it was when it was written.

    The file that grows has to be there, if only empty.

    Raises:
        AuditDamaged: Lines that head or mark know are missing, or one behind the head was altered.
    """
    known = _KnownPlaces(folder)
    paths = files(folder)
    head = known.head
    if head is None:
        _require_no_lines(folder, paths)
        return ChainEnd(ChainHead())
    current = paths[head.file - 1] if head.file <= len(paths) else None
    if current is None or current.stat().st_size < head.bytes:
        raise AuditDamaged(str(current or paths[-1]), head.line, "lines are missing behind it")
    place, torn_bytes = head, 0
    known.begin(place)
    for found in walk(paths, head):
        if isinstance(found, TornWrite):
            torn_bytes = found.size
        else:
            place = found
            known.meet(place)
    known.require_met(place, paths[-1])
    return ChainEnd(place, torn_bytes, known.lost(place))


def _require_no_lines(folder: Path, paths: list[Path]) -> None:
    # The head is written before the first line, so lines without one mean that it was taken away.
    if len(paths) > 1 or (paths[0].exists() and paths[0].stat().st_size):
        raise AuditDamaged(str(folder / HEAD), 1, "the file is missing")


def records(folder: Path) -> Iterator[dict[str, Any]]:
    """The lines as dictionaries, oldest first and unverified; an unfinished last one is left out.

    Raises:
        AuditDamaged: A line is no JSON.
    """
    for path in files(folder):
        for number, line in enumerate(_lines(path, 0), start=1):
            if not line.endswith(b"\n"):
                continue
            try:
                yield json.loads(line)
            except ValueError:
                raise AuditDamaged(str(path), number, "it is no JSON") from None
