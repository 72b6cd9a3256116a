# SPDX-License-Identifier: Apache-2.0
"""Files that only their owner may see: checked before they are read, replaced whole when they are written.

What is checked is the open file and not its name, so that no user can put
another file in its place between the check and the reading.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, NamedTuple, NoReturn, Self

import msgspec

from entrepot.errors import FileNotPrivate, SecurityFileUnusable

_BYTES_MAX = 64 * 1024 * 1024
"""No file of ours comes near it; what is longer is no file of ours."""


class Stamp(NamedTuple):
    """What changes when a file is replaced, altered, or given to another user."""

    inode: int
    modified_ns: int
    changed_ns: int
    size: int


ABSENT = Stamp(0, 0, 0, -1)


def stamp(path: Path) -> Stamp:
    """Whether a file is still the one that was read, for the price of one system call."""
    try:
        return _stamp(os.lstat(path))
    except FileNotFoundError:
        return ABSENT
    except OSError as error:
        raise _unreadable(path, error) from error


def open_private(path: Path, flags: int, *, create: bool = False) -> int:
    """A descriptor of a file that is regular, ours, and closed to all other users.

    Raises:
        FileNotFoundError: There is none, and none was to be made.
        FileNotPrivate: It is a symbolic link, another user's, or open to others.
    """
    # Without O_NONBLOCK, opening a pipe that was put there would wait for its other end.
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | (os.O_CREAT if create else 0)
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENXIO):
            raise _unreadable(path, error) from error
        raise
    problem = _not_private(os.fstat(descriptor))
    if problem is not None:
        os.close(descriptor)
        raise FileNotPrivate(str(path), problem)
    return descriptor


def read(path: Path) -> tuple[bytes, Stamp]:
    """All of a private file, and what it can be recognised by; a missing one is empty.

    Raises:
        FileNotPrivate: It is a symbolic link, another user's, or open to others. Nothing of it was read.
        SecurityFileUnusable: It is far too long, or the disk failed.
    """
    try:
        descriptor = open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return b"", ABSENT
    try:
        status = os.fstat(descriptor)
        if status.st_size > _BYTES_MAX:
            raise SecurityFileUnusable(str(path), f"it has {status.st_size} bytes")
        with os.fdopen(os.dup(descriptor), "rb") as file:
            return file.read(_BYTES_MAX), _stamp(status)
    except OSError as error:
        raise SecurityFileUnusable(str(path), reason(error)) from error
    finally:
        os.close(descriptor)


def require_private(path: Path) -> None:
    """Refuse a file that others could read, for callers that must hand its name to a library.

    Raises:
        FileNotFoundError, FileNotPrivate
    """
    os.close(open_private(path, os.O_RDONLY))


def replace(path: Path, content: bytes) -> Stamp:
    """Put new content in the place of a file; after a crash there is the old one or the new one, whole.

    One caller at a time: see `alone`.

    Raises:
        SecurityFileUnusable: The disk did not take it. The old file is untouched.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.unlink(missing_ok=True)  # a crash may have left one
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            # The mode above is cut by the umask, which may also take our own right to read.
            os.fchmod(descriptor, 0o600)
            write_all(descriptor, content)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        beside.rename(path)
        force_folder(path.parent)
        return stamp(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise SecurityFileUnusable(str(path), reason(error)) from error


@contextmanager
def alone(path: Path, known: Stamp) -> Iterator[None]:
    """Change a file while no other process of ours does, and only if it was not changed since it was read.

    Raises:
        SecurityFileUnusable: Another process changed it meanwhile. Nothing was changed.
    """
    try:
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise SecurityFileUnusable(str(path), reason(error)) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if stamp(path) != known:
            raise SecurityFileUnusable(str(path), "another process changed it meanwhile")
        yield
    finally:
        os.close(descriptor)


class SecretTexts:
    """A secret text for each name, kept as a JSON object in a private file; without a file there are none.

    No repr, error or pickle of it has one of the texts.
    """

    FILE: ClassVar[str]
    CONTENT: ClassVar[str]
    """What names and texts these are, for an error."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / self.FILE
        self._texts: Mapping[str, str] = {}
        self._stamp = ABSENT
        self._lock = threading.Lock()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Those of the queue manager in a folder.

        Raises:
            FileNotPrivate: Others could read the file.
            SecurityFileUnusable: It is no such file.
        """
        texts = cls(folder)
        texts.refresh()
        return texts

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._texts)} in {self._path})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets stay in the process that read them")

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._texts))

    def get(self, name: str) -> str | None:
        return self._texts.get(name)

    def set(self, name: str, text: str) -> None:
        """Know this text from now on; kept by `save`."""
        with self._lock:
            self._texts = {**self._texts, name: text}

    def drop(self, name: str) -> bool:
        """Forget a text, from the next `save` on for good; False: there was none."""
        with self._lock:
            if name not in self._texts:
                return False
            self._texts = {each: text for each, text in self._texts.items() if each != name}
            return True

    def save(self) -> None:
        """Write the file; it is on disk when this returns.

        Raises:
            SecurityFileUnusable: Another process changed it since it was read, or the disk did not take it. The
                file is as it was.
        """
        with self._lock:
            content = msgspec.json.format(msgspec.json.encode(dict(sorted(self._texts.items()))))
            with alone(self._path, self._stamp):
                self._stamp = replace(self._path, content + b"\n")

    def refresh(self) -> bool:
        """Read the file again if it has changed; True if it has.

        Raises:
            FileNotPrivate, SecurityFileUnusable: There are no texts until the file is mended.
        """
        with self._lock:
            try:
                if stamp(self._path) == self._stamp:
                    return False
                content, read_stamp = read(self._path)
                self._texts = {} if read_stamp == ABSENT else self._decode(content)
            except Exception:
                self._texts = {}
                self._stamp = ABSENT
                raise
            self._stamp = read_stamp
        return True

    def _decode(self, content: bytes) -> dict[str, str]:
        try:
            return msgspec.json.decode(content, type=dict[str, str])
        except (msgspec.MsgspecError, ValueError):
            # Not even the decoder's own words: they might quote what they stumbled over.
            raise SecurityFileUnusable(str(self._path), f"it is no JSON object of {self.CONTENT}") from None


def write_all(descriptor: int, content: bytes) -> None:
    """Every byte, though a single write may take fewer."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def force_folder(folder: Path) -> None:
    """Return when a new name in the folder would survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reason(error: OSError) -> str:
    """What the operating system says about a failure; errors that Python raises itself have only their text."""
    return error.strerror or str(error)


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size)


def _not_private(status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "it is no regular file"
    if status.st_uid != os.geteuid():
        return "it belongs to another user"
    mode = stat.S_IMODE(status.st_mode)
    return f"its mode is {mode:o}" if mode & ~0o600 else None


def _unreadable(path: Path, error: OSError) -> FileNotPrivate:
    if error.errno == errno.ELOOP:
        return FileNotPrivate(str(path), "it is a symbolic link")
    return FileNotPrivate(str(path), f"it cannot be opened ({reason(error)})")
