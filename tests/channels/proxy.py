# SPDX-License-Identifier: Apache-2.0
"""Between client and server: lets everything through, or loses what the test says."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import Self

from channels.processes import until
from entrepot.server.wire.frame import HEAD, HEAD_BYTES


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
        self._carried = 0
        """Connections of which the server has not hung up, whether cut or not."""
        self._parted: list[socket.socket] = []
        self._lock = threading.Lock()
        self.asked: list[int] = []
        """Verbs that went to the server, in their order; an answer may overtake the note of its verb."""
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
        for far in self._parted:
            _shut(far, socket.SHUT_WR)

    def cut(self) -> None:
        """Break all connections that there are; new ones hear again what the server says."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
            self.deaf = False  # now, as somebody may be back before all are broken; the old ones stay deaf
        for near, far in pairs:
            _shut(near, socket.SHUT_RDWR)
            _shut(far, socket.SHUT_WR)

    def lead_to(self, target: Path) -> None:
        """From now on connections go to the server in another folder."""
        self._target = target

    def part(self) -> None:
        """Break all connections at the client's end only: the server hears nothing, not even that they are broken."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
            self._parted += [far for _, far in pairs]
        for near, _ in pairs:
            _shut(near, socket.SHUT_RDWR)

    def settle(self) -> None:
        """Return when the server, too, has ended all connections that were cut."""
        until(lambda: self._carried == len(self._pairs), "the server has noticed")

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
                self._carried += 1
                self.accepted += 1
            threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near: socket.socket, far: socket.socket) -> None:
        """Both ways, until the server has hung up; sockets are closed when no thread can read them any more."""
        with near, far:
            asking = threading.Thread(target=self._ask, args=(near, far), daemon=True)
            asking.start()
            self._answer(near, far)
            asking.join()
        with self._lock:
            if (near, far) in self._pairs:
                self._pairs.remove((near, far))
            self._carried -= 1

    def _ask(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while (head := _exactly(near, HEAD_BYTES)) is not None:
                length, verb, _ = HEAD.unpack(head)
                rest = _exactly(near, length + 4 - HEAD_BYTES)
                if rest is None:
                    break
                far.sendall(head + rest)
                self.asked.append(verb)
        if far not in self._parted:
            _shut(far, socket.SHUT_WR)

    def _answer(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(64 * 1024):
                # In this order: who is not deaf any more has been cut.
                if not self.deaf and (near, far) in self._pairs:
                    with contextlib.suppress(OSError):
                        near.sendall(data)
        _shut(near, socket.SHUT_RDWR)


def _shut(end: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(how)


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
