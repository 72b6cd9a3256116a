# SPDX-License-Identifier: Apache-2.0
"""The asyncio client and a real server's link on one loop, with transports in memory between them.

def test_something(inside):
    async def work(house: House) -> None:
        async with connected(house) as street:
            await street.client.put(...)
    inside(work)
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from entrepot.client.address import Address
from entrepot.client.aio.async_transport import AsyncTransport
from entrepot.client.aio.calls import Calls
from entrepot.client.aio.connection import Connection
from entrepot.client.options import Sender
from entrepot.server.wire.codec import decode
from entrepot.server.wire.frame import FrameReader
from entrepot.server.wire.verbs import Verb

from .guests import Guest, House


class Client(Calls):
    """All that stands on a line, in one place."""

    def __init__(self, line: AsyncTransport) -> None:
        super().__init__(line)
        self.line: AsyncTransport = line
        self.connection = Connection(line, Sender("ann", "tests"))
        self.administration = self.connection.administration
        self.close = line.close


class ClientWire:
    """The client's transport: what it writes is heard by a guest's link, and what that writes comes back."""

    def __init__(self, street: Street, guest: Guest, protocol: Any) -> None:
        self._street = street
        self._guest = guest
        self._protocol = protocol
        self._brought = 0
        self._lost = False
        self._is_deaf = False
        self._reader = FrameReader(memoryview(bytearray(256 * 1024)), 2**31)
        self.said: list[tuple[int, int, Any]] = []
        self.writes = 0
        wire = guest.wire
        written, lose = wire.writelines, wire.lose

        def writelines(parts: list[bytes]) -> None:
            written(parts)
            street.house.loop.call_soon(self._bring)

        def lost(problem: Exception | None = None) -> None:
            lose(problem)
            street.house.loop.call_soon(self.lose)

        wire.writelines, wire.lose = writelines, lost  # type: ignore[method-assign]
        protocol.connection_made(self)

    # --- what asyncio's transports have -----------------------------------------------------------

    def write(self, data: bytes) -> None:
        self.writelines([data])

    def writelines(self, parts: list[bytes]) -> None:
        assert not self._lost, "uvloop raises here"
        self.writes += 1
        data = b"".join(parts)
        for verb, number, payload in self._frames(data):
            self.said.append((verb, number, payload))
            if self._street.cut_at == verb:
                self._street.cut_at = None
                self._is_deaf = True
                self.break_off()
        if not self._is_deaf or self._street.is_heard:
            self._guest.say_bytes(data)

    def abort(self) -> None:
        self.break_off()

    def is_closing(self) -> bool:
        return self._lost

    # --- what a test does to it ---------------------------------------------------------------------

    def break_off(self) -> None:
        """The connection breaks, for both ends."""
        self._street.house.loop.call_soon(self._guest.wire.lose)

    def lose(self) -> None:
        if not self._lost:
            self._bring()
            self._lost = True
            self._protocol.connection_lost(None)

    def _frames(self, data: bytes) -> list[tuple[int, int, Any]]:
        found = []
        while data:
            buffer = self._reader.buffer()
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            found += [(verb, number, decode(verb, view)) for verb, number, view in self._reader.frames(count)]
        return found

    def _bring(self) -> None:
        written = self._guest.wire.written
        data = b"".join(written[self._brought :])
        self._brought = len(written)
        while data and not self._lost and not self._is_deaf:
            buffer = self._protocol.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            data = data[count:]
            self._protocol.buffer_updated(count)


class Street:
    """A client, and all connections that it has had."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.wires: list[ClientWire] = []
        self.cut_at: Verb | None = None
        """The verb at which the connection breaks: no answer comes."""
        self.is_heard = True
        """Whether the server has heard that verb, nevertheless."""
        self.is_passable = True
        self.client: Client

    async def connect(self, make: Callable[[], Any], _path: str) -> tuple[ClientWire, Any]:
        """In the place of the loop's `create_unix_connection`."""
        if not self.is_passable:
            raise ConnectionRefusedError(111, "Connection refused")
        protocol = make()
        self.wires.append(ClientWire(self, self.house.guest(), protocol))
        return self.wires[-1], protocol

    def said(self, wire: int = -1) -> list[int]:
        """The verbs on a connection behind its HELLO."""
        return [verb for verb, _, _ in self.wires[wire].said[1:]]

    def frames(self, verb: Verb) -> list[Any]:
        return [payload for wire in self.wires for said, _, payload in wire.said if said == verb]


@asynccontextmanager
async def connected(house: House, *, reconnect_s: float = 30.0) -> AsyncIterator[Street]:
    """A client of this house."""
    street = Street(house)
    house.loop.create_unix_connection = street.connect  # type: ignore[method-assign, assignment]
    address = Address(folder=house.host.path)
    line = AsyncTransport(address, application="tests", reconnect_s=reconnect_s)
    await line.open()
    street.client = Client(line)
    try:
        yield street
    finally:
        await street.client.close()
