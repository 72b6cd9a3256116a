# SPDX-License-Identifier: Apache-2.0
"""The world of the authority matrix: one server, who asks it for something, and what he may at the moment."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from entrepot.engine.definitions import AuthorityRecord, authority_key
from entrepot.errors import InternalQueue, NotAuthorized
from entrepot.message import Message
from entrepot.server.amqp.codec import Described, UByte, UInt, ULong, decode
from entrepot.server.amqp.handshake import AMQP_HEADER, SASL_HEADER
from entrepot.server.wire import verbs
from entrepot.server.wire.error_form import from_wire
from entrepot.server.wire.frame import VERSION
from entrepot.server.wire.verbs import MAGIC, Verb
from entrepot.testing.servers import ServerThread
from hosted import Hosted
from unit.server.amqp.peer import NAMES, frame, init, transfer
from unit.server.guests import PASSWORDS

from .strangers import Stranger

USER, ADMINISTRATOR = "ann", "boss"
WORDS = (
    "CONNECT", "PUT", "GET", "BROWSE", "INQ", "SET", "PREPARE", "PUB", "SUB", "DSP", "CRT", "CHG", "DLT", "CLR", "CTRL",
)  # fmt: skip
TYPES = ("QMGR", "QUEUE", "CHANNEL", "TOPIC", "CLAIM")

Right = tuple[str, str, str]
"""Object type, a profile, and the word."""
CONNECT: Right = ("QMGR", "QM1", "CONNECT")

DEAD = "SYSTEM.DEAD.LETTER.QUEUE"
OBJECTS = """
DEFINE QALIAS(A) TARGET(Q)
DEFINE QLOCAL(QM2) USAGE(XMITQ)
DEFINE QREMOTE(FAR) RNAME(X) RQMNAME(QM2)
DEFINE QREMOTE(QM3) RQMNAME(QM2)
DEFINE TOPIC(PRESS) TOPICSTR('news')
DEFINE QLOCAL(PAPER)
DEFINE SUB('reader') TOPICSTR('news') DEST(PAPER)
DEFINE QLOCAL(COPY)
DEFINE QLOCAL(COPIED) STREAMQ(COPY)
DEFINE QLOCAL(FAILED)
DEFINE QLOCAL(FAILS) BOQNAME(FAILED) BOTHRESH(1)
DEFINE QLOCAL(REPLY)
DEFINE NAMELIST(SEVERAL) NAMES(Q, R)
DEFINE QLOCAL(STARTS)
DEFINE QLOCAL(WAKES) INITQ(STARTS)
DEFINE QMODEL(M)
DEFINE QLOCAL(THEIRS)
DEFINE QLOCAL(SYSTEM.OF.FLOW)
DEFINE PROCESS(P) APPLICID('true')
DEFINE CHANNEL(SIDE) CHLTYPE(SVRCONN)
DEFINE CHANNEL(IN) CHLTYPE(RCVR) MCAUSER('ann')
DEFINE CHANNEL(IN.ADM) CHLTYPE(RCVR) MCAUSER('boss')
SET CHLAUTH(IN.ADM) TYPE(BLOCKUSER) USERLIST('nobody')
DEFINE LISTENER(AMQP) PROTOCOL(AMQP) CHANNEL(APP) PORT(0)
DEFINE LISTENER(AMQPADM) PROTOCOL(AMQP) CHANNEL(ADM) PORT(0)
START LISTENER(AMQP)
START LISTENER(AMQPADM)
"""


class World:
    """The server, from above."""

    def __init__(self, server: ServerThread) -> None:
        assert server.server is not None
        self.server = server
        self.host = Hosted(server.server.host)
        self._granted: list[str] = []
        self._names = 0

    def fresh(self, stem: str = "N") -> str:
        """A name that nothing has had yet."""
        self._names += 1
        return f"{stem}{self._names}"

    def grant(self, rights: Iterable[Right]) -> None:
        """Let the user have these and no others."""
        words: dict[tuple[str, str], list[str]] = {}
        for object_type, profile, word in {CONNECT, *rights}:
            words.setdefault((object_type, profile), []).append(word)
        objects = self.host.manager.objects
        with self.host.lock:
            for key in self._granted:
                objects.remove(AuthorityRecord.kind, key)
            self._granted.clear()
            for (object_type, profile), granted in words.items():
                key = authority_key(object_type, profile, USER, "")
                objects.put(
                    AuthorityRecord(
                        name=key,
                        profile=profile,
                        object_type=object_type,  # type: ignore[arg-type]
                        principal=USER,
                        authorities=tuple(granted),
                    )
                )
                self._granted.append(key)
        self.server.run(self._changed())

    def withdraw(self) -> None:
        """Forget what the server knew of the user before, so that only what is granted counts."""
        with self.host.lock:
            objects = self.host.manager.objects
            for key in [key for key, record in objects.authority_records.items() if record.principal == USER]:
                objects.remove(AuthorityRecord.kind, key)

    async def _changed(self) -> None:
        assert self.server.server is not None
        self.server.server._authorities_changed()

    def depth(self, queue: str) -> int:
        return int(self.host.queue_status(queue)["CURDEPTH"])

    def fill(self, queue: str, body: bytes = b"", **fields: Any) -> None:
        """One message and no other stands there, whatever was there before."""
        while self.host.get(queue) is not None:
            pass
        self.host.put(queue, Message(body, **fields))

    def grows(self, queue: str, act: Callable[[], Any]) -> bool:
        """Whether something brings one message more to a queue; it is taken off again."""
        before = self.depth(queue)
        act()
        grown = self.depth(queue) - before
        assert grown in (0, 1), (queue, grown)
        if grown:
            while self.host.get(queue) is not None:
                pass
        return grown == 1


@dataclass
class Native:
    """A connection of the native protocol, frame by frame."""

    world: World
    user: str
    listener: str
    stranger: Stranger | None = None
    _number: int = 10

    @property
    def is_administrator(self) -> bool:
        return self.user == ADMINISTRATOR

    def open(self) -> Stranger:
        if self.stranger is None:
            self.stranger = self.connect()
            self.hello(self.stranger)
        return self.stranger

    def connect(self) -> Stranger:
        stranger = Stranger(self.world.server, self.listener)
        stranger.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.listener == "TLS":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            stranger.socket = context.wrap_socket(stranger.socket)
        return stranger

    def hello(self, stranger: Stranger) -> None:
        stranger.hello(self.user, channel="ADM" if self.is_administrator else "APP")
        stranger.answer()

    def ask(self, verb: Verb, payload: Any) -> Any:
        """What is answered; an error is raised."""
        stranger = self.open()
        self._number += 1
        stranger.say(verb, self._number, payload)
        while True:
            for answered, number, found in stranger.hear() or self._closed():
                if answered == Verb.CLOSING:
                    self.close()
                    raise from_wire(found.error)
                if number == self._number:
                    if answered == Verb.FAILED:
                        raise from_wire(found.error)
                    return found

    def _closed(self) -> list[Any]:
        raise AssertionError("the server has closed the connection")

    def tell(self, verb: Verb, payload: Any) -> None:
        self.open().say(verb, 0, payload)

    def close(self) -> None:
        if self.stranger is not None:
            self.stranger.socket.close()
            self.stranger = None

    def unit(self) -> int:
        self._number += 1
        return self._number


def may(act: Callable[[], Any]) -> bool:
    """Whether something is not refused for want of authority; other errors are mistakes of the table."""
    try:
        act()
    except (NotAuthorized, InternalQueue):
        return False
    return True


def carried_out(native: Native, script: str) -> bool:
    """Whether a command was carried out, or has shown anything."""
    (answer, *_) = native.ask(Verb.MQSC, verbs.Mqsc(script)).answers
    errors = [from_wire(error) for error in answer[4]]
    for error in errors:
        said = str(error)
        hidden = script.startswith("DISPLAY") and "there is no" in said
        assert hidden or "NotAuthorized" in said or "InternalQueue" in said, said
    return not errors and (bool(answer[3]) or not script.startswith("DISPLAY"))


class Channel:
    """Another queue manager's sender, which comes as the user or as the administrator."""

    def __init__(self, native: Native) -> None:
        world = native.world
        self.stranger = native.connect()
        channel = "IN.ADM" if native.is_administrator else "IN"
        hello = verbs.ChannelHello(
            MAGIC, VERSION, channel, world.fresh("FROM"), "QM1", "", "", 0, b"", 0, b"", 50, 30.0, True, 999_999_999
        )
        self.stranger.say(Verb.CHANNEL_HELLO, 0, hello)
        assert isinstance(self.stranger.answer(), verbs.ChannelWelcome)

    def send(self, name: str, **fields: Any) -> None:
        """One batch with one message, whose user is whoever the other end says."""
        queue, _, manager = name.partition("@")
        fields = {"user": ADMINISTRATOR, "put_time": time.time(), "priority": 0, **fields}
        message = Message(b"1", persistent=True, target_queue=queue, target_manager=manager or "QM1", **fields)
        self.stranger.say(Verb.CHANNEL_MESSAGE, 0, verbs.ChannelMessage(1, message))
        self.stranger.say(Verb.CHANNEL_END_OF_BATCH, 0, verbs.ChannelEndOfBatch(b"b" * 16, 1))
        assert isinstance(self.stranger.answer(), verbs.ChannelConfirm)

    def ping(self) -> None:
        self.stranger.say(Verb.CHANNEL_PING, 0, verbs.Empty())
        self.stranger.answer()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.stranger.socket.close()


UNAUTHORIZED = "amqp:unauthorized-access"


class Amqp:
    """A connection of AMQP, frame by frame."""

    def __init__(self, world: World, user: str) -> None:
        self.world = world
        self.user = user
        self.container = world.fresh("container")
        self._stranger = Stranger(world.server, "AMQPADM" if user == ADMINISTRATOR else "AMQP")
        self._stranger.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._data = b""
        self._handle = self._deliveries = -1
        self._say(SASL_HEADER)
        self._hear("mechanisms")
        self._say(init("PLAIN", f"\0{user}\0{PASSWORDS[user]}".encode()))
        assert self._hear("outcome") == [0]
        self._say(
            AMQP_HEADER,
            frame("open", [self.container]),
            frame("begin", [None, UInt(0), UInt(999), UInt(999)]),
        )
        self._hear("begin")

    def _say(self, *frames: bytes) -> None:
        self._stranger.socket.sendall(b"".join(frames))

    def _hear(self, *wanted: str) -> list[Any]:
        """The fields of the next frame that is one of these."""
        while True:
            while len(self._data) >= 8:
                if self._data[:4] == b"AMQP":
                    self._data = self._data[8:]
                    continue
                (size,) = struct.unpack_from(">I", self._data)
                if len(self._data) < size:
                    break
                body, self._data = self._data[8:size], self._data[size:]
                if body:
                    performative, _ = decode(body)
                    if NAMES[int(performative.descriptor)] in wanted:
                        return list(performative.value)
            data = self._stranger.socket.recv(65536)
            assert data, "the server has closed"
            self._data += data

    def attach(self, *, sender: bool, source: list[Any], target: list[Any], name: str = "") -> bool:
        """Whether a link was attached and not detached again with a refusal."""
        if self._handle >= 0:
            self._say(frame("detach", [UInt(self._handle), True]))
        self._handle += 1
        fields = [
            name or self.world.fresh("link"), UInt(self._handle), not sender, UByte(0), None,
            Described(ULong(0x28), source), Described(ULong(0x29), target), None, None, UInt(0),
        ]  # fmt: skip
        self._say(frame("attach", fields))
        answer = self._hear("attach")
        end = 6 if sender else 5
        if len(answer) > end and answer[end] is not None:
            return True
        # A link that leads nowhere is detached at once, with the reason; an older one's detach may come before.
        while (detach := self._hear("detach"))[0] != answer[1]:
            pass
        condition = detach[2].value[0]
        assert condition == UNAUTHORIZED, condition
        return False

    def put(self, message: bytes) -> bool:
        """Whether a message on the newest link is accepted, and not refused for want of authority."""
        self._deliveries += 1
        self._say(transfer(self._deliveries, message, self._handle))
        outcome = self._hear("disposition")[4]
        if int(outcome.descriptor) == 0x24:
            return True
        assert outcome.value[0].value[0] == UNAUTHORIZED, outcome
        return False

    def close(self) -> None:
        self._stranger.socket.close()
