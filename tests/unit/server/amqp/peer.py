# SPDX-License-Identifier: Apache-2.0
"""The other end of an AMQP connection, in memory: frames made by hand, and a transport that only remembers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from entrepot.engine.definitions import Channel, Listener
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import AuthenticationFailed
from entrepot.server.admission import Admission, Caller
from entrepot.server.amqp.codec import Described, Symbol, UByte, UInt, ULong, UShort, decode, encode
from entrepot.server.amqp.handshake import AMQP_HEADER, SASL_HEADER
from entrepot.server.amqp.protocol import AmqpProtocol
from entrepot.server.mqsc import run_script
from entrepot.server.session_registry import Identity, SessionRegistry
from hosted import Host

LOG = LogSettings(segment_bytes=1024 * 1024, primary=3, secondary=4)
NAMES = {
    0x10: "open", 0x11: "begin", 0x12: "attach", 0x13: "flow", 0x14: "transfer", 0x15: "disposition",
    0x16: "detach", 0x17: "end", 0x18: "close", 0x40: "mechanisms", 0x41: "init", 0x44: "outcome",
}  # fmt: skip
CODES = {name: code for code, name in NAMES.items()}


class StubAdmission(Admission):
    """Lets in whoever knows the word, or says nothing at all."""

    def __init__(self, channel: Channel | None = None) -> None:
        self.inside = 0
        self._definition = channel or Channel(name="APP")

    def meet(self, caller: Caller) -> bool:
        return True

    def part(self, caller: Caller) -> None:
        pass

    def turned_away(self, caller: Caller, limit: str) -> None:
        pass

    async def admit(self, caller: Caller, *, user: str, password: str, **_: Any) -> Identity:
        if user and password != "right":
            raise AuthenticationFailed()
        self.inside += 1
        return Identity(user or "nobody", address=caller.address, channel="APP", administrator=True)

    def leave(self, identity: Identity) -> None:
        self.inside -= 1

    def channel(self, name: str) -> Channel:
        return self._definition


class MemoryTransport:
    """What asyncio would give a protocol."""

    def __init__(self) -> None:
        self.written = b""
        self.closing = False
        self.reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_write_buffer_limits(self, **_: Any) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None


def frame(name: str, fields: list[Any], channel: int = 0, payload: bytes = b"", kind: int = 0) -> bytes:
    body = b"\x00\x53" + bytes((CODES[name],)) + encode(fields) + payload
    return struct.pack(">IBBH", len(body) + 8, 2, kind, channel) + body


class Peer:
    """A client that says exactly what a test tells it to."""

    def __init__(self, protocol: AmqpProtocol) -> None:
        self.protocol = protocol
        self.transport = MemoryTransport()
        self._seen = 0
        protocol.connection_made(self.transport)

    def say(self, *frames: bytes) -> None:
        if not self.transport.closing:
            self.protocol.data_received(b"".join(frames))

    async def hear(self) -> list[tuple[str, list[Any]]]:
        """What was answered since the last time, after some turns of the loop."""
        for _ in range(6):
            await asyncio.sleep(0)
        return [(name, fields) for name, fields, _ in self.heard()]

    def heard(self) -> list[tuple[str, list[Any], bytes]]:
        data, found = self.transport.written, []
        while self._seen + 8 <= len(data):
            if data[self._seen : self._seen + 4] == b"AMQP":
                found.append(("header", [data[self._seen + 4]], b""))
                self._seen += 8
                continue
            size, _, _, _ = struct.unpack_from(">IBBH", data, self._seen)
            body = data[self._seen + 8 : self._seen + size]
            self._seen += size
            if body:
                performative, end = decode(body)
                found.append((NAMES[performative.descriptor], performative.value, body[end:]))
            else:
                found.append(("empty", [], b""))
        return found

    async def open(self) -> None:
        """Everything up to the first session."""
        self.say(AMQP_HEADER)
        await self.hear()
        self.say(frame("open", ["tests"]), begin())
        heard = await self.hear()
        assert [name for name, _ in heard][:2] == ["open", "begin"], heard

    def lose(self) -> None:
        """The connection breaks."""
        self.transport.closing = True
        self.protocol.connection_lost(None)


def begin(channel: int = 0) -> bytes:
    return frame("begin", [None, UInt(0), UInt(1000), UInt(1000)], channel)


def attach_sender(queue: str | None = "Q", handle: int = 0, name: str = "sender", mode: int = 2) -> bytes:
    target = Described(ULong(0x29), [queue] if queue else [])
    source = Described(ULong(0x28), [])
    return frame("attach", [name, UInt(handle), False, UByte(mode), None, source, target, None, None, UInt(0)])


def attach_receiver(queue: str = "Q", handle: int = 1, name: str = "receiver", mode: int = 0) -> bytes:
    source = Described(ULong(0x28), [queue])
    return frame("attach", [name, UInt(handle), True, UByte(mode), None, source, Described(ULong(0x29), [])])


def credit(number: int, handle: int = 1, *, drain: bool = False, delivery_count: int = 0, window: int = 1000) -> bytes:
    fields = [UInt(0), UInt(window), UInt(0), UInt(1000), UInt(handle), UInt(delivery_count), UInt(number), None, drain]
    return frame("flow", fields)


def transfer(
    number: int, message: bytes, handle: int = 0, *, settled: bool = False, more: bool = False, state: Any = None
) -> bytes:
    fields = [UInt(handle), UInt(number), str(number).encode(), UInt(0), settled, more, None, state]
    return frame("transfer", fields, payload=message)


def disposition(first: int, last: int, state: Any, *, settled: bool = True) -> bytes:
    return frame("disposition", [True, UInt(first), UInt(last), settled, state])


def init(mechanism: str, response: bytes | None) -> bytes:
    return frame("init", [Symbol(mechanism), response], kind=1)


@asynccontextmanager
async def queue_manager(path: Path, channel: Channel | None = None, log: LogSettings = LOG) -> AsyncIterator[Place]:
    """A queue manager with a queue Q, and connections to it."""
    create(path / "QM1", log=log)
    host = Host(path / "QM1")
    try:
        run_script("DEFINE QLOCAL(Q) MAXDEPTH(100000)", host, "test")
        yield Place(host, StubAdmission(channel))
    finally:
        host.close()


class Place:
    def __init__(self, host: Host, admission: StubAdmission) -> None:
        self.host = host
        self.registry = SessionRegistry(host)
        self.admission = admission
        self.listener = Listener(name="AMQP", protocol="AMQP", channel="APP")

    def connect(self) -> Peer:
        return Peer(AmqpProtocol(self.registry, self.admission, self.listener))

    def depth(self, queue: str = "Q") -> int:
        return int(self.host.queue_status(queue)["CURDEPTH"])


__all__ = ["AMQP_HEADER", "SASL_HEADER", "UShort"]
