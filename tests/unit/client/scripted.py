# SPDX-License-Identifier: Apache-2.0
"""A server for the blocking client without a thread: it hears and answers within the client's own write.

def test_something(server: Scripted) -> None:
    server.answers[Verb.PUT] = Done(b"id")
    server.client().put("Q", Message(b"x"))
    assert server.verbs() == [Verb.HELLO, Verb.PUT]
"""

from __future__ import annotations

import errno
import select
import socket
import struct
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.client.address import Address
from entrepot.client.blocking import Connection, blocking_transport, calls, incoming, reader
from entrepot.client.blocking.blocking_transport import BlockingTransport
from entrepot.client.blocking.calls import Calls
from entrepot.client.blocking.incoming import RemoteIncoming
from entrepot.client.blocking.pipeline import Pipeline
from entrepot.client.blocking.reader import Reader
from entrepot.client.options import Sender
from entrepot.client.read_ahead import HeldAhead, ReadAhead, RemoteUnit
from entrepot.errors import ConnectFailed, EntrepotError
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import decode, encode
from entrepot.server.wire.error_form import to_wire
from entrepot.server.wire.frame import VERSION, FrameReader
from entrepot.server.wire.verbs import Verb
from entrepot.testing.clock import VirtualClock

Reply = Any
"""A payload for DONE, MESSAGE, and so on; an error; CUT; None for no answer; or what makes one of these of a frame."""
CUT = object()
"""The server hangs up instead of an answer."""

_REPLY_VERBS: dict[type, Verb] = {
    verbs.DonePayload: Verb.DONE,
    verbs.Welcome: Verb.WELCOME,
    verbs.MessageAnswer: Verb.MESSAGE,
    verbs.MessagesAnswer: Verb.MESSAGES,
    verbs.Answers: Verb.ANSWERS,
    verbs.Empty: Verb.ALIVE,
}


class Telephone(socket.socket):
    """The client's end: whatever is said is heard before the call returns, and nobody waits for what never comes."""

    server: Connected
    takes: int | None = None
    """How many bytes it still takes; None is all."""
    takes_later: tuple[int, ...] = ()
    """How many it takes each time that somebody waits for it to take more."""
    problem: OSError | None = None
    """What a write raises."""

    def can_take(self) -> bool:
        if self.takes == 0 and self.takes_later:
            self.takes, *rest = self.takes_later
            self.takes_later = tuple(rest)
        return self.takes != 0

    def _some(self, data: Any) -> bytes:
        if self.problem is not None:
            raise self.problem
        taken = bytes(data if self.takes is None else data[: self.takes])
        if self.takes is not None:
            if self.takes == 0:
                raise BlockingIOError(errno.EAGAIN, "would wait")
            self.takes -= len(taken)
        return taken

    def _say(self, data: bytes) -> int:
        self.server.hear(data)
        return len(data)

    def send(self, data: Any, flags: int = 0) -> int:
        return self._say(self._some(data))

    def sendall(self, data: Any, flags: int = 0) -> None:
        self._say(bytes(data))

    def sendmsg(self, buffers: Any, *_: Any) -> int:  # type: ignore[override]
        return self._say(self._some(b"".join(buffers)))

    def recv_into(self, *arguments: Any) -> int:  # type: ignore[override]
        poll = select.poll()
        poll.register(self, select.POLLIN)
        if not poll.poll(0):
            seconds, micros = struct.unpack("ll", self.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16))
            assert seconds or micros, "the client would wait for ever"
            self.server.script.clock.advance(seconds + micros / 1_000_000)
            raise BlockingIOError(errno.EAGAIN, "nothing came")
        return super().recv_into(*arguments)


class Connected:
    """The server's end of one connection."""

    def __init__(self, script: Scripted) -> None:
        ours, theirs = socket.socketpair()
        self.client = Telephone(fileno=theirs.detach())
        self.client.server = self
        self._end = ours
        self.script = script
        self._reader = FrameReader(memoryview(bytearray(256 * 1024)), 2**31)
        self.heard: list[tuple[int, int, Any]] = []

    def hear(self, data: bytes) -> None:
        while data:
            buffer = self._reader.buffer()
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            for verb, number, view in self._reader.frames(count):
                self.heard.append((verb, number, decode(verb, view)))
                self.script.answer(self, *self.heard[-1])

    def say(self, verb: int, number: int, payload: Any) -> None:
        self._end.sendall(encode(verb, number, payload))

    def say_bytes(self, data: bytes) -> None:
        self._end.sendall(data)

    def hang_up(self) -> None:
        self._end.close()

    @property
    def is_left(self) -> bool:
        """Whether the client has closed its end."""
        try:
            return self._end.recv(1, socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


class Client(Calls):
    """All that stands on a line, in one place."""

    def __init__(self, server_line: BlockingTransport) -> None:
        super().__init__(server_line)
        self.line: BlockingTransport = server_line
        self.connection = Connection(server_line, Sender("ann", "tests"))
        self.administration = self.connection.administration
        self.look_after = server_line.look_after
        self.close = server_line.close

    @property
    def opened(self) -> int:
        return self.core.opened

    def consume(self, name: str, read_ahead: int) -> RemoteIncoming:
        found = RemoteIncoming(self, name, None, read_ahead)
        found.open()
        return found

    def open_consumer(self, name: str, read_ahead: int) -> ReadAhead:
        return self.open_ahead(partial(self.core.consume, name, None, read_ahead))[0]

    def begin_holding(self, name: str, read_ahead: int) -> HeldAhead:
        ahead, limit = self.open_ahead(partial(self.core.hold, name, None, read_ahead))
        ahead.begin(limit)
        return ahead

    def wait_for_more(self, ahead: HeldAhead, deadline: float) -> None:
        self.line.arrived(ahead, deadline)
        self.hear_all()

    def hand_out(self, ahead: HeldAhead, unit: RemoteUnit, limit: int) -> list[Message]:
        return Reader(self, ahead.queue, None, 2)._hand_out(ahead, unit, limit)

    def pipeline(self) -> Pipeline:
        return Pipeline(self, Sender("ann", "tests"))


class Scripted:
    """Answers as it is told to, on one connection after the other."""

    def __init__(self) -> None:
        self.answers: dict[int, Reply] = {}
        """By verb; what is not here is simply done."""
        self.connections: list[Connected] = []
        self.clients: list[Client] = []
        self.heartbeat_s = 0.0
        self.body_bytes_max = 1 << 20
        self.is_reachable = True
        self.clock = VirtualClock(1000.0)
        self.slept: list[float] = []

    def client(self, *, reconnect_s: float = 30.0) -> Client:
        opened = BlockingTransport(Address(folder=Path("qm1")), application="tests", reconnect_s=reconnect_s)
        opened.open()
        self.clients.append(Client(opened))
        return self.clients[-1]

    def open(self, address: Address, _timeout_s: float) -> socket.socket:
        if not self.is_reachable:
            raise ConnectFailed(str(address), "nobody is there")
        self.connections.append(Connected(self))
        return self.connections[-1].client

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.clock.advance(seconds)

    def ready(self, opened: Telephone, events: int, wait_s: float) -> int:
        """What can be done with a connection; time passes if nothing can."""
        poll = select.poll()
        poll.register(opened, select.POLLIN)
        found = poll.poll(0)
        able = found[0][1] if found else 0
        if events & select.POLLOUT and opened.can_take():
            able |= select.POLLOUT
        if not able and wait_s > 0:
            self.clock.advance(wait_s)
        return able

    def answer(self, connection: Connected, verb: int, number: int, payload: Any) -> None:
        if not number:
            return
        default = self._welcome() if verb == Verb.HELLO else verbs.DonePayload(None)
        reply = self.answers.get(verb, default)
        while callable(reply):
            reply = reply(payload)
        if reply is CUT:
            connection.hang_up()
        elif isinstance(reply, EntrepotError):
            connection.say(Verb.FAILED, number, verbs.Failed(to_wire(reply)))
        elif reply is not None:
            connection.say(_REPLY_VERBS[type(reply)], number, reply)

    def _welcome(self) -> verbs.Welcome:
        number = len(self.connections)
        return verbs.Welcome(
            VERSION, "QM1", number, self.heartbeat_s, self.body_bytes_max, "ann", 1, b"head%d" % number, b"token"
        )

    # --- what was heard ---------------------------------------------------------------------------

    @property
    def connection(self) -> Connected:
        """The newest."""
        return self.connections[-1]

    def verbs(self, connection: int = -1) -> list[int]:
        """What was said on a connection behind its HELLO."""
        return [verb for verb, _, _ in self.connections[connection].heard[1:]]

    def frames(self, verb: int) -> list[Any]:
        """The payloads of a verb, on all connections."""
        return [payload for each in self.connections for said, _, payload in each.heard if said == verb]

    def close(self) -> None:
        self.answers.clear()
        for each in self.clients:
            each.close()
        for connection in self.connections:
            connection.hang_up()
            connection.client.close()


def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """A server to which every client connects, on a clock that stands still unless somebody waits."""
    server = Scripted()
    clock = SimpleNamespace(monotonic=server.clock.now, sleep=server.sleep)
    for module in (blocking_transport, calls, incoming, reader):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(blocking_transport, "open_socket", server.open)
    monkeypatch.setattr(blocking_transport, "_ready", server.ready)
    monkeypatch.setattr(blocking_transport.keep_alive, "keep", lambda _: None)
    return server
