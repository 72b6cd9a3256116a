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
    from entrepot.client.blocking import Connection


@contextmanager
def connected(path: Path | str) -> Iterator[Connection]:
    """A connection for as long as the command needs it.

    To the server that a URL names, or that runs in the folder; if none runs
    there, the queue manager runs inside this process meanwhile.

    Raises:
        QueueManagerNotFound: There is none; unlike `entrepot.connect`, a command never creates one by accident.
        QueueManagerInUse: Another process has it, and is no server.
    """
    from entrepot.client.blocking import connect
    from entrepot.engine.folder import read_settings

    if isinstance(path, str):
        url = path
    else:
        read_settings(path)
        url = f"unix:{path}" if serves(path) else f"embedded:{path}"
    # A command fails at once rather than waiting for a server to come back.
    with connect(url, application="entrepot", reconnect_s=0) as connection:
        yield connection


def serves(path: Path) -> bool:
    """Whether a server runs in the folder."""
    return (path / "socket").is_socket() and owner(path) is not None


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
            owner = os.read(descriptor, 200).decode(errors="replace") or "another process"
            raise QueueManagerInUse(str(path), owner) from None
        yield
    finally:
        os.close(descriptor)


def owner(path: Path) -> str | None:
    """The process that runs the queue manager, or None."""
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
