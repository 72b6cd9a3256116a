# SPDX-License-Identifier: Apache-2.0
"""Servers for hostile visitors, and the visitors: raw sockets that say what a test wants and read what they like."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from entrepot.client.blocking import Connection, connect
from entrepot.server.security import audit_chain
from entrepot.server.wire.codec import decode, encode
from entrepot.server.wire.error_form import from_wire
from entrepot.server.wire.frame import FrameReader
from entrepot.server.wire.verbs import Verb
from entrepot.testing.servers import ServerThread
from unit.server.guests import PASSWORDS, greeting

PATIENCE_S = 60.0
"""How long we wait for what must come; only a failing test ever waits that long."""

EVERYTHING = "DISPLAY AUTHREC\nDISPLAY CHLAUTH(*)\nDISPLAY CHANNEL(*) ALL\nDISPLAY LISTENER(*)\nDISPLAY QMGR"


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


def until(ready: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Wait for what must come soon."""
    deadline = time.monotonic() + patience_s
    while not (found := ready()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.005)
    return found


def escapes_of(server: ServerThread) -> list[dict[str, Any]]:
    """What reaches the exception handler of a server's loop from now on."""
    escaped: list[dict[str, Any]] = []

    async def watch() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: escaped.append(context))

    server.run(watch())
    return escaped


def as_user(server: ServerThread, user: str, channel: str = "APP") -> Connection:
    url = f"mq://127.0.0.1:{server.port('TCP')}/QM1?channel={channel}"
    return connect(url, user=user, password=PASSWORDS[user], application="tests", reconnect_s=0.0)


def audited(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / audit_chain.FILE).read_text().splitlines()]


class Stranger:
    """A connection by hand."""

    def __init__(self, server: ServerThread, listener: str = "TCP", opened: socket.socket | None = None) -> None:
        self.socket = opened or socket.create_connection(("127.0.0.1", server.port(listener)), PATIENCE_S)
        self._reader = FrameReader(memoryview(bytearray(65536)), 2**31)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def say(self, verb: int, number: int, payload: Any) -> None:
        self.socket.sendall(encode(verb, number, payload))

    def hello(self, user: str = "ann", password: str | None = None, **fields: Any) -> None:
        """Say who he is, truly or not."""
        shown = PASSWORDS.get(user, "") if password is None else password
        self.say(Verb.HELLO, 1, greeting(channel=fields.pop("channel", "APP"), user=user, password=shown, **fields))

    def hear(self) -> list[tuple[int, int, Any]]:
        """The next frames, or none when the server has closed."""
        while True:
            buffer = self._reader.buffer()
            try:
                count = self.socket.recv_into(buffer)
            except ConnectionResetError:
                count = 0
            if count == 0:
                return []
            frames = [(verb, number, decode(verb, view)) for verb, number, view in self._reader.frames(count)]
            if frames:
                return frames

    def answer(self) -> Any:
        """The payload of the next frame; an error is raised."""
        frames = self.hear()
        assert frames, "the server has closed without an answer"
        verb, _, payload = frames[0]
        if verb in (Verb.FAILED, Verb.CLOSING):
            raise from_wire(payload.error)
        return payload

    def admitted(self, **fields: Any) -> Self:
        self.hello(**fields)
        self.answer()
        return self

    def is_closed(self) -> bool:
        """Whether the server has closed; what it said before is thrown away."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(65536):
                pass
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def break_off(self) -> None:
        """Vanish without a farewell."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class Regular:
    """A client that goes about its business on a thread of its own, and remembers its slowest round trip."""

    def __init__(self, url: str, **options: Any) -> None:
        self._connection: Connection = connect(url, **options)
        self._ended = threading.Event()
        self.trips = 0
        self.slowest_s = 0.0
        """By what this process, in which the server is a thread, has worked meanwhile."""
        self.longest_s = 0.0
        """By the clock."""
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._timed(lambda: self._connection.put("R", b"business"))
                assert self._timed(lambda: self._connection.get("R")) is not None
                time.sleep(0.002)
        except BaseException as error:
            self.failure = error

    def _timed(self, verb: Callable[[], Any]) -> Any:
        begun, worked_s = time.monotonic(), time.process_time()
        found = verb()
        self.longest_s = max(self.longest_s, time.monotonic() - begun)
        self.slowest_s = max(self.slowest_s, time.process_time() - worked_s)
        self.trips += 1
        return found

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._connection.close()


@contextlib.contextmanager
def business_goes_on(server: ServerThread, slowest_s: float = 2.0) -> Iterator[None]:
    """Whatever happens meanwhile, another client's round trips stay fast, and nothing escapes to the loop."""
    escaped = escapes_of(server)
    with Regular(server.unix_url) as regular:
        yield
        until(lambda: regular.trips > 5 or regular.failure)
    assert regular.failure is None, regular.failure
    assert regular.slowest_s < slowest_s, f"a round trip took {regular.slowest_s:.2f} s"
    assert regular.longest_s < PATIENCE_S / 2, f"a round trip took {regular.longest_s:.2f} s by the clock"
    assert escaped == []


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))
