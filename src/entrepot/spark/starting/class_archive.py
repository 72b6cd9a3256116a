# SPDX-License-Identifier: Apache-2.0
"""Java's classes as its memory wants them, kept from one start to the next.

Most of Spark's start is loading classes: twelve thousand of them, read,
checked and linked. Java can write down what it has loaded when it ends, and
map that file at the next start. The first session records; its JVM writes the
archive when it ends, in the background; later sessions use it.

    <cache>/entrepot/spark/KEY.jsa      the archive that is used
                           KEY.new      what the recording JVM has written
                           KEY.lock     locked by the recording JVM for as long as it lives

The key stands for the JVM, its options and class path, and for the kind of
session, so that each kind finds the classes it needs. An archive that Java
does not take is removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from entrepot.spark.starting.folders import cache_folder
from entrepot.spark.starting.java import Java

ARCHIVES_MAX = 4
"""So many are kept; each has 70 to 200 MB."""

# From this version on one archive holds everything; before, it comes on top of one that the JDK brings.
_WHOLE_SINCE = 25
# Java talks of classes that it cannot keep, thousands of lines of it.
_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
_POINTERS_SHORT_BYTES_MAX = 32 << 30
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class ClassArchive:
    """The archive for one JVM with one class path; it may be there, be recorded now, or be neither."""

    def __init__(self, folder: Path, key: str, *, whole: bool) -> None:
        self.path = folder / f"{key}.jsa"
        self._new = folder / f"{key}.new"
        self._lock = folder / f"{key}.lock"
        self._whole = whole

    @classmethod
    def for_command(cls, java: Java, command: Sequence[str], kind: str) -> ClassArchive | None:
        """None where Java could keep no archive of it, or where we have no folder to keep it in."""
        folder = cache_folder("spark")
        whole = java.major >= _WHOLE_SINCE
        class_path = command[command.index("-cp") + 1]
        if folder is None or _has_loose_classes(class_path) or not (whole or _has_foundation(java)):
            return None
        return cls(folder, _key(java, command, class_path, kind), whole=whole)

    @property
    def is_there(self) -> bool:
        return self.path.exists()

    @property
    def using(self) -> list[str]:
        """The options of a JVM that shall use it."""
        return [*_QUIET, f"-XX:{'AOTCache' if self._whole else 'SharedArchiveFile'}={self.path}"]

    @property
    def recording(self) -> list[str]:
        """The options of a JVM that shall write it when it ends."""
        return [*_QUIET, f"-XX:{'AOTCacheOutput' if self._whole else 'ArchiveClassesAtExit'}={self._new}"]

    @contextlib.contextmanager
    def held(self) -> Iterator[int | None]:
        """The right to record, as a file that the JVM inherits and so keeps to its end; None if another has it.

        Its holder first puts in place what an earlier JVM has written.
        """
        with self._lock.open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            self._take_over()
            yield None if self.is_there else lock.fileno()

    def _take_over(self) -> None:
        if not self._new.exists():
            return
        self._new.replace(self.path)
        self.path.touch()
        archives = [path for kind in ("*.jsa", "*.new") for path in self.path.parent.glob(kind)]
        for old in sorted(archives, key=lambda path: path.stat().st_mtime, reverse=True)[ARCHIVES_MAX:]:
            old.unlink(missing_ok=True)

    def settle(self, pid: int) -> None:
        """After a start: remove the archive if the JVM did not take it, so that the next session records another."""
        with contextlib.suppress(OSError):
            if str(self.path) in Path(f"/proc/{pid}/maps").read_text(errors="replace"):
                os.utime(self.path)
            else:
                self.discard()

    def discard(self) -> None:
        self.path.unlink(missing_ok=True)


def _has_foundation(java: Java) -> bool:
    return (java.home / "lib" / "server" / "classes.jsa").exists()


def _has_loose_classes(class_path: str) -> bool:
    """Whether there are files in a folder of the class path, such as a site's settings; Java keeps no archive then."""
    folders = [Path(entry) for entry in class_path.split(os.pathsep) if entry and not entry.endswith("*")]
    return any(folder.is_dir() and any(folder.iterdir()) for folder in folders)


def _key(java: Java, command: Sequence[str], class_path: str, kind: str) -> str:
    digest = sha256(f"{kind} {java.executable.resolve()} {java.version}".encode())
    for entry in class_path.split(os.pathsep):
        paths = Path(entry[:-1]).glob("*.jar") if entry.endswith("*") else [Path(entry)]
        for path in sorted(path for path in paths if path.exists()):
            found = path.stat()
            digest.update(f"\n{path} {found.st_size} {found.st_mtime_ns}".encode())
    for option in [*command[: command.index("-cp")], *command[command.index("-cp") + 2 : _main(command)]]:
        digest.update(f"\n{_memory_class(option)}".encode())
    return digest.hexdigest()[:24]


def _main(command: Sequence[str]) -> int:
    """Where the main class stands, behind all options of the JVM."""
    behind = command.index("-cp") + 2
    return next(at for at in range(behind, len(command)) if not command[at].startswith("-"))


def _memory_class(option: str) -> str:
    """An archive fits every heap whose pointers are of the same length."""
    heap = re.fullmatch(r"-xmx(\d+)([kmgt]?)", option.lower())
    if heap is None:
        return option
    return "long" if int(heap[1]) * _UNITS[heap[2]] >= _POINTERS_SHORT_BYTES_MAX else "short"
