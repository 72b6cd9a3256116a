# SPDX-License-Identifier: Apache-2.0
"""A queue manager for the time of one command, and a look at one that runs elsewhere."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from entrepot.disk import File, SystemDisk
from entrepot.errors import QueueManagerInUse

if TYPE_CHECKING:
    from entrepot.connection import Connection


@contextmanager
def connected(path: Path) -> Iterator[Connection]:
    """Run the queue manager at `path` inside this process, for as long as the command needs it.

    Raises:
        QueueManagerNotFound: There is none; unlike `entrepot.connect`, a command never creates one by accident.
        QueueManagerInUse: It runs elsewhere.
    """
    from entrepot.connection import connect
    from entrepot.queues.folder import read_settings

    read_settings(path)
    with connect(f"embedded:{path}", application="entrepot") as connection:
        yield connection


@contextmanager
def held_still(path: Path) -> Iterator[None]:
    """Keep a queue manager stopped while its files are read.

    Raises:
        QueueManagerInUse: It is running, so its files change while we look.
    """
    try:
        descriptor = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield  # it has never run
        return
    try:
        try:
            # Shared, so that several may look at once.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.read(descriptor, 200).decode(errors="replace") or "another process"
            raise QueueManagerInUse(str(path), who) from None
        yield
    finally:
        os.close(descriptor)


def owner(path: Path) -> str | None:
    """Who runs the queue manager right now, or None when nobody does."""
    try:
        with held_still(path):
            return None
    except QueueManagerInUse as error:
        return error.owner


class ReadOnlyDisk(SystemDisk):
    """A folder that is only looked at, so it may also lie on read-only media."""

    def __init__(self, root: Path | str) -> None:
        super().__init__(root)
        self._folder = Path(root)

    def open(self, path: str, *, create: bool = False) -> File:
        assert not create, "this disk is only for reading"
        return self.file(os.open(self._folder / path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
