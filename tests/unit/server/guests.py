# SPDX-License-Identifier: Apache-2.0
"""A server's door without sockets: guests whose frames reach a real NativeConnection through a transport in memory.

def test_something(inside):
    async def work(house: House) -> None:
        guest = await house.admitted()
        guest.say(Verb.HEARTBEAT, 1, Empty())
        assert (await guest.answer(1))[0] == Verb.ALIVE
    inside(work)
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from entrepot.message import Message
from entrepot.server.admission import Admission
from entrepot.server.connection_limiter import ConnectionLimiter
from entrepot.server.mqsc import require_ok, run_script
from entrepot.server.native_connection import NativeConnection
from entrepot.server.security.authority import Authority
from entrepot.server.security.users import Users
from entrepot.server.session_registry import SessionRegistry
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import decode, encode
from entrepot.server.wire.error_form import from_wire
from entrepot.server.wire.frame import VERSION, FrameReader
from entrepot.server.wire.verbs import MAGIC, Verb
from hosted import Host

PATIENCE_S = 60.0
"""How long a test waits for what must come; only a failing test ever waits that long."""

PASSWORDS = {"ann": "ann's password", "boss": "boss's password"}

FOUNDED = """
DEFINE QLOCAL(Q)
DEFINE QLOCAL(R)
DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT)
"""

Work = Callable[["House"], Awaitable[None]]
Heard = tuple[int, int, Any]


async def until(ready: Callable[[], Any]) -> Any:
    """Let the loop turn until something is true."""
    for _ in range(20):
        if found := ready():
            return found
        await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        while not (found := ready()):
            await asyncio.sleep(0.001)
    return found


class Wire:
    """A transport in memory. As strict as uvloop's: what that one forbids raises here too."""

    def __init__(self, link: NativeConnection, *, uid: int | None, address: str) -> None:
        self.link = link
        self.protocol: Any = link
        """Who is told what comes in: the link, or what it has put in its place."""
        self.written: list[bytes] = []
        self.reading = True
        self.closing = False
        self.lost = False
        self.partner_reads = True
        self.unread_bytes = 0
        """What a partner that does not read has left in our buffer."""
        self._high = 64 * 1024
        self._paused = False
        self._uid = uid
        self._address = address
        self._on_read: Callable[[], None] = lambda: None

    # --- what asyncio's transports have -----------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            if self._uid is None:
                return SimpleNamespace(family=socket.AF_INET)
            credentials = struct.pack("iII", os.getpid(), self._uid, 0)
            return SimpleNamespace(family=socket.AF_UNIX, getsockopt=lambda *_: credentials)
        if name == "peername" and self._uid is None:
            return (self._address, 40000) if self._address else None
        return default

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def get_write_buffer_size(self) -> int:
        return self.unread_bytes

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        self.writelines([data])

    def writelines(self, parts: list[bytes]) -> None:
        if self.lost:
            raise RuntimeError("unable to perform operation; the handler is closed")
        if self.closing and not self.unread_bytes:
            return
        self.written += parts
        if not self.partner_reads:
            self.unread_bytes += sum(map(len, parts))
            if self.unread_bytes > self._high and not self._paused:
                self._paused = True
                self.protocol.pause_writing()

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        if not self.closing:
            self.reading = True
            self.link.registry.loop.call_soon(self._on_read)

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self.reading = False
            if not self.unread_bytes:
                self.link.registry.loop.call_soon(self.lose)

    def abort(self) -> None:
        self.closing = True
        self.reading = False
        self.link.registry.loop.call_soon(self.lose)

    # --- what a test does to it -------------------------------------------------------------------

    def lose(self, problem: Exception | None = None) -> None:
        """The connection breaks."""
        if not self.lost:
            self.closing = True
            self.reading = False
            self.protocol.connection_lost(problem)
            self.lost = True

    def read_all(self) -> None:
        """The partner reads what has gathered."""
        self.partner_reads = True
        self.unread_bytes = 0
        if self._paused:
            self._paused = False
            self.protocol.resume_writing()
        if self.closing and not self.lost:
            self.link.registry.loop.call_soon(self.lose)


class Guest:
    """A partner that says whatever a test wants it to."""

    def __init__(self, link: NativeConnection, wire: Wire) -> None:
        self.link = link
        self.wire = wire
        wire._on_read = self._read
        self.heard: list[Heard] = []
        self._reader = FrameReader(memoryview(bytearray(256 * 1024)), 2**31)
        self._unsent = bytearray()
        self._parsed = 0

    def say(self, verb: int, number: int, payload: Any) -> None:
        """One frame."""
        self.say_bytes(encode(verb, number, payload))

    def say_bytes(self, data: bytes, *, at_a_time: int = 2**31) -> None:
        """Bytes, as the kernel would hand them over: not while reading is paused."""
        self._unsent += data
        self._read(at_a_time)

    def _read(self, at_a_time: int = 2**31) -> None:
        while self._unsent and self.wire.reading and not self.wire.closing:
            buffer = self.wire.protocol.get_buffer(-1)
            count = min(len(buffer), len(self._unsent), at_a_time)
            buffer[:count] = self._unsent[:count]
            del self._unsent[:count]
            self.wire.protocol.buffer_updated(count)

    @property
    def unsent_bytes(self) -> int:
        """What the server has not taken yet."""
        return len(self._unsent)

    def frames(self) -> list[Heard]:
        """All that the server has said so far."""
        fresh = b"".join(self.wire.written[self._parsed :])
        self._parsed = len(self.wire.written)
        while fresh:
            buffer = self._reader.buffer()
            count = min(len(buffer), len(fresh))
            buffer[:count] = fresh[:count]
            fresh = fresh[count:]
            self.heard += [(verb, number, decode(verb, view)) for verb, number, view in self._reader.frames(count)]
        return self.heard

    async def answer(self, number: int) -> tuple[int, Any]:
        """The next answer to a number, which is forgotten then."""
        found = await self.until(lambda: [each for each in self.frames() if each[1] == number])
        self.heard.remove(found[0])
        return found[0][0], found[0][2]

    async def ask(self, verb: int, number: int, payload: Any) -> Any:
        """Say something and return what comes back; an error is raised."""
        self.say(verb, number, payload)
        answered, found = await self.answer(number)
        if answered == Verb.FAILED:
            raise from_wire(found.error)
        return found

    async def farewell(self) -> Any:
        """Why the server has closed the connection, once it has."""
        await self.until(lambda: self.wire.lost)
        closing = [payload for verb, _, payload in self.frames() if verb == Verb.CLOSING]
        return from_wire(closing[-1].error) if closing else None

    def deliveries(self) -> list[Message]:
        return [message for batch in self.batches() for message in batch]

    def batches(self) -> list[list[Message]]:
        """What came together; one behind the other, as their numbers have to be."""
        came: list[list[Message]] = []
        numbers: dict[int, int] = {}
        for verb, _, payload in self.frames():
            if verb in (Verb.DELIVERY, Verb.DELIVERIES):
                messages = [payload.message] if verb == Verb.DELIVERY else payload.messages
                assert payload.delivery == numbers.get(payload.consumer, 0) + 1
                numbers[payload.consumer] = payload.delivery + len(messages) - 1
                came.append(messages)
        return came

    async def until(self, ready: Callable[[], Any]) -> Any:
        """Let the loop turn until something is true."""
        return await until(ready)

    # --- a few verbs, as a client would say them --------------------------------------------------

    async def put(self, queue: str | list[str], body: bytes = b"", unit: int = 0, **fields: Any) -> bytes:
        persistent = fields.pop("persistent", False)
        done = await self.ask(Verb.PUT, 1_000_001, put(queue, body, unit, persistent=persistent, **fields))
        return bytes(done.value)

    async def get(self, queue: str, *, acknowledge: bool = True, unit: int = 0) -> Message | None:
        found = await self.ask(Verb.GET, 1_000_002, verbs.Get(queue, unit))
        if found.leased and acknowledge:
            await self.ask(Verb.ACKNOWLEDGE, 1_000_003, verbs.NumberPayload(1_000_002))
        message: Message | None = found.message
        return message

    async def commit(self, unit: int) -> None:
        await self.ask(Verb.COMMIT, 1_000_004, verbs.Commit(unit))


def put(queue: str | list[str], body: bytes = b"", unit: int = 0, **fields: Any) -> verbs.Put:
    """The frame of a put; what is no field of the frame is one of the message."""
    frame = {name: fields.pop(name, None) for name in ("persistent", "priority")}
    wait_s = fields.pop("wait_s", 0.0)
    return verbs.Put(queue, unit, frame["persistent"], frame["priority"], wait_s, Message(body, **fields))


SAMPLES: dict[Verb, Any] = {
    Verb.HELLO: verbs.Hello(MAGIC, VERSION),
    Verb.PUT: put("Q"),
    Verb.PUT_MANY: verbs.PutMany(1, [("Q", True, 4, Message(b"x"))]),
    Verb.GET: verbs.Get("Q"),
    Verb.REQUEST: verbs.Request("Q", "R", 1.0, None, None, Message(b"")),
    Verb.GET_MANY: verbs.GetMany("Q", 1, 5),
    Verb.GET_GROUP: verbs.GetGroup("Q", 1),
    Verb.BROWSE: verbs.BrowsePayload("Q", None, 5),
    Verb.COMMIT: verbs.Commit(1),
    Verb.BACK_OUT: verbs.BackOut(1),
    Verb.PREPARE: verbs.Prepare(1, b"x"),
    Verb.RESOLVE: verbs.Resolve(b"x", True),
    Verb.IN_DOUBT: verbs.Empty(),
    Verb.CONSUME: verbs.Consume("Q", 1, 1),
    Verb.CREDIT: verbs.Credit(1, 0, 1),
    Verb.STOP_CONSUMING: verbs.ConsumerPayload(1),
    Verb.RETURN: verbs.ReturnPayload(1, 1, 0),
    Verb.ACKNOWLEDGE: verbs.NumberPayload(1),
    Verb.CANCEL: verbs.NumberPayload(1),
    Verb.SYNCHRONIZE: verbs.Empty(),
    Verb.MQSC: verbs.Mqsc("DISPLAY QMGR"),
    Verb.DYNAMIC: verbs.Dynamic("SYSTEM.DEFAULT.MODEL.QUEUE", "X.*"),
    Verb.HEARTBEAT: verbs.Empty(),
    Verb.GOODBYE: verbs.Empty(),
    Verb.MANAGE: verbs.Manage("status"),
    Verb.SUBSCRIBE: verbs.Subscribe("", "a/#"),
    Verb.UNSUBSCRIBE: verbs.Unsubscribe("S", False),
    Verb.BEGIN_GLOBAL: verbs.UnitPayload(7),
    Verb.DECIDE: verbs.Decide(7, b"x", [("postgresql://db/shop", "x-0", 1)]),
    Verb.OUTCOMES: verbs.Outcomes([b"x"], "postgresql://db/shop"),
    Verb.FORGET: verbs.Forget(b"x", ["x-0"]),
    Verb.CLAIM: verbs.ClaimPayload("flow/1", 1, b"token", b'{"messages": 7}'),
    Verb.RETIRE: verbs.Retire("flow/2", 1),
    Verb.INSTRUCT: verbs.Instruct("flow/", "stop"),
    Verb.CLAIMS: verbs.PrefixPayload("flow/"),
    Verb.NEXT_EPOCH: verbs.PrefixPayload("flow/"),
    Verb.CHANNEL_HELLO: verbs.ChannelHello(
        "ENTREPOT", 1, "IN", "QM2", "", "", "", 0, b"", 0, b"", 50, 30.0, True, 999_999_999
    ),
    Verb.CHANNEL_MESSAGE: verbs.ChannelMessage(1, Message(b"")),
    Verb.CHANNEL_END_OF_BATCH: verbs.ChannelEndOfBatch(b"x" * 16, 1),
    Verb.CHANNEL_PING: verbs.Empty(),
}
"""A frame of every verb that a partner can say; fuzzing begins with them, too."""


class House:
    """A queue manager with a desk and a door, on the running loop."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.loop = asyncio.get_running_loop()
        self.escaped: list[dict[str, Any]] = []
        """What reached the loop's exception handler."""
        self.loop.set_exception_handler(lambda _, context: self.escaped.append(context))
        self.authority = Authority()
        self.registry = SessionRegistry(host, self.authority)
        self.audit: list[tuple[str, dict[str, Any]]] = []
        self.users = Users.load(host.path)
        self.admission = Admission(host, self.users, self.authority, self._audited)
        self.gate = ConnectionLimiter(1000, 1000)
        self.guests: list[Guest] = []
        self.handshake_s = 10.0

    def _audited(self, event: str, **fields: Any) -> None:
        self.audit.append((event, fields))

    def mqsc(self, script: str) -> None:
        require_ok(run_script(script, self.host, "-"))
        self.admission.refresh()
        self.registry.authority_epoch += 1

    def guest(self, *, uid: int | None = -1, address: str = "127.0.0.1", make_receiver: Any = None) -> Guest:
        """Somebody connects: by default ourselves, through the Unix socket."""
        link = NativeConnection(self.registry, self.admission, self.gate, make_receiver, self.handshake_s)
        wire = Wire(link, uid=os.geteuid() if uid == -1 else uid, address=address)
        guest = Guest(link, wire)
        self.guests.append(guest)
        link.connection_made(wire)
        return guest

    async def admitted(self, user: str = "", **hello: Any) -> Guest:
        """The same, and he is let in; over TCP if he is a user."""
        guest = self.guest(uid=None if user else -1)
        if user:
            hello = {"channel": "APP", "user": user, "password": PASSWORDS[user], **hello}
        await guest.ask(Verb.HELLO, 1, greeting(**hello))
        return guest

    def depth(self, queue: str) -> int:
        return int(self.host.queue_status(queue)["CURDEPTH"])

    def held(self, queue: str) -> int:
        """Messages and places of a queue that units of work keep."""
        return int(self.host.queue_status(queue)["UNCOM"])

    async def until(self, ready: Callable[[], Any]) -> None:
        await until(ready)

    async def leave(self) -> None:
        """Everybody goes; nothing may be left of them."""
        for guest in self.guests:
            guest.wire.lose()
        await self.until(lambda: not self.admission.checks._running)
        await asyncio.sleep(0)
        assert self.escaped == []
        assert self.registry.sessions == {}
        assert self.registry.links == set()
        assert self.gate.connections == 0
        assert not self.gate._from
        assert not +self.admission._on_channel
        queues = self.host.manager.objects.queues.values()
        # The last answer may have come before the loop has finished what the queue notes of it; a leak stays for ever.
        await self.until(lambda: not any(queue.reserved or queue.uncommitted_gets for queue in queues))
        for queue in queues:
            assert not queue.waiters, queue.definition.name
        await asyncio.to_thread(self.registry.close)


def greeting(**fields: Any) -> verbs.Hello:
    return verbs.Hello(fields.pop("magic", MAGIC), fields.pop("version", VERSION), **fields)


def live(path: Path, work: Work) -> None:
    """Start the queue manager of a folder, let a test work with it, and see that nothing is left behind."""

    async def lived() -> None:
        host = await asyncio.to_thread(Host, path)
        try:
            house = House(host)
            await work(house)
            await house.leave()
        finally:
            await asyncio.to_thread(host.close)

    asyncio.run(lived(), debug=False)
