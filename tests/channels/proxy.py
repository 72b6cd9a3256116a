# SPDX-License-Identifier: Apache-2.0
"""Between client and server: lets everything through, or loses what the test says."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Self

from entrepot.wire.frame import HEAD, HEAD_BYTES


class Proxy:
    """`with Proxy(folder, server's folder) as proxy: connect(proxy.url)`; knows frames, but none of their meaning."""

    def __init__(self, folder: Path, target: Path) -> None:
        folder.mkdir()
        self.url = f"unix:{folder}"
        self._target = target
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "socket"))
        self._listening.listen()
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._lock = threading.Lock()
        self.asked: list[int] = []
        """Verbs that went to the server, in their order."""
        self.deaf = False
        """Loses all that the server says."""
        self.refusing = False
        """Lets nobody in."""
        self.accepted = 0

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()
        self.cut()

    def cut(self) -> None:
        """Break all connections that there are; new ones hear again what the server says."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for each in pair:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        self.deaf = False

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            if self.refusing:
                near.close()
                continue
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(str(self._target / "socket"))
            except OSError:
                near.close()
                far.close()
                continue
            with self._lock:
                self._pairs.append((near, far))
                self.accepted += 1
            threading.Thread(target=self._ask, args=(near, far), daemon=True).start()
            threading.Thread(target=self._answer, args=(near, far), daemon=True).start()

    def _ask(self, near: socket.socket, far: socket.socket) -> None:
        with _hanging_up(near, far):
            while (head := _exactly(near, HEAD_BYTES)) is not None:
                length, verb, _ = HEAD.unpack(head)
                rest = _exactly(near, length + 4 - HEAD_BYTES)
                if rest is None:
                    return
                far.sendall(head + rest)
                self.asked.append(verb)

    def _answer(self, near: socket.socket, far: socket.socket) -> None:
        with _hanging_up(near, far):
            while data := far.recv(64 * 1024):
                if not self.deaf:
                    near.sendall(data)


@contextlib.contextmanager
def _hanging_up(*ends: socket.socket):  # type: ignore[no-untyped-def]
    """Who loses one end loses the other."""
    with contextlib.suppress(OSError):
        yield
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _exactly(end: socket.socket, count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        data = end.recv(count - len(found))
        if not data:
            return None
        found += data
    return found


def descriptors() -> int:
    """How many files and sockets this process has open."""
    return len(os.listdir("/proc/self/fd"))
