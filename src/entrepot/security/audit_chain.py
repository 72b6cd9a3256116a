# SPDX-License-Identifier: Apache-2.0
"""The files of the audit log, and the chain that holds its lines together.

    audit-0001.jsonl, audit-0002.jsonl, ...   full files, oldest first
    audit.jsonl                               the file that grows
    audit-head.json                           how far the log had come when this was last written

A line is a JSON object whose last member is its chain, the SHA-256 of the
chain of the line before it and of the text of this line without `chain`:

    {"n":7,"time":"2026-05-01T12:30:00.123Z","event":"connect","user":"alice","chain":"5e0c..."}

What `verify` finds: a byte that was altered, a line that was removed,
added or moved, a file that is missing, and lines cut from the end as far
as the head knows of them. What it cannot find: the last lines, up to
1,000, cut off after a crash, when the head was not yet written for them;
and a log that was made anew from some line on together with its head, by
somebody who can write as the queue manager's user. Against him, copy the
head's chain elsewhere from time to time.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from entrepot.errors import AuditDamaged, AuditFailed, SecurityFileUnusable
from entrepot.security import private_file

FILE = "audit.jsonl"
HEAD = "audit-head.json"

_FIRST_CHAIN = "0" * 64
_FULL = re.compile(r"audit-(\d{4,})\.jsonl")
_SEALED = re.compile(rb'(\{.*),"chain":"([0-9a-f]{64})"\}\n', re.DOTALL)


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """A place between two lines of the log."""

    file: int = 1
    """The number of the file: 1 is the oldest."""
    line: int = 0
    """Lines of this file before it."""
    bytes: int = 0
    lines: int = 0
    """Lines of all files before it."""
    chain: str = _FIRST_CHAIN

    def behind(self, line_bytes: int, chain: str) -> Head:
        """The place behind another line of this file."""
        return Head(
            file=self.file,
            line=self.line + 1,
            bytes=self.bytes + line_bytes,
            lines=self.lines + 1,
            chain=chain,
        )

    def next_file(self) -> Head:
        return Head(file=self.file + 1, lines=self.lines, chain=self.chain)


@dataclass(frozen=True, slots=True)
class Torn:
    """Where a write was cut off: bytes behind the last whole line."""

    head: Head
    size: int


def seal(head: Head, text: bytes) -> tuple[bytes, Head]:
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


def read_head(folder: Path) -> Head | None:
    """Raises AuditDamaged when it is none, FileNotPrivate when others could have written it."""
    try:
        content, stamp = private_file.read(folder / HEAD)
        return None if stamp == private_file.ABSENT else msgspec.json.decode(content, type=Head)
    except (msgspec.MsgspecError, ValueError):
        raise AuditDamaged(str(folder / HEAD), 1, "it is no head of an audit log") from None
    except SecurityFileUnusable as error:
        raise AuditFailed(error.file, error.problem) from error


def write_head(folder: Path, head: Head) -> None:
    """Remember how far the log has come; what it names must be on disk before.

    Raises:
        AuditFailed: The old one is untouched.
    """
    try:
        private_file.replace(folder / HEAD, msgspec.json.encode(head) + b"\n")
    except SecurityFileUnusable as error:
        raise AuditFailed(error.file, error.problem) from error


# --- reading --------------------------------------------------------------------------------------


def walk(paths: list[Path], start: Head) -> Iterator[Head | Torn]:
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
                yield Torn(head, len(line))
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
    # The head first: a queue manager that runs goes on behind it meanwhile.
    head = read_head(folder)
    paths = files(folder)
    if head is None:
        _require_no_lines(folder, paths)
        return 0
    place = Head()
    passed = place == head
    for found in walk(paths, place):
        if isinstance(found, Torn):
            raise AuditDamaged(str(paths[-1]), place.line + 1, "it is unfinished")
        place = found
        if (place.file, place.bytes) == (head.file, head.bytes):
            if place != head:
                raise AuditDamaged(str(folder / HEAD), 1, f"its chain is not that of line {place.line}")
            passed = True
    if not passed:
        missing = head.lines - place.lines
        problem = f"{missing} lines are missing behind it" if missing > 0 else "it is not where the head says"
        raise AuditDamaged(str(paths[-1]), place.line, problem)
    return place.lines


def end(folder: Path) -> Head | Torn:
    """Where the log goes on: what follows the head is checked, what is before it was when it was written.

    Raises:
        AuditDamaged: Lines that the head knows are missing, or one behind it was altered.
    """
    head = read_head(folder)
    paths = files(folder)
    if head is None:
        _require_no_lines(folder, paths)
        return Head()
    known = paths[head.file - 1] if head.file <= len(paths) else None
    if known is None or (known.stat().st_size if known.exists() else 0) < head.bytes:
        raise AuditDamaged(str(known or paths[-1]), head.line, "lines are missing behind it")
    last = deque(walk(paths, head), maxlen=1)
    return last[0] if last else head


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
