# SPDX-License-Identifier: Apache-2.0
"""The compiled form of a client's plain verbs writes and hears what msgspec would, to the byte."""

from __future__ import annotations

import re
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entrepot.client.address import Address
from entrepot.client.blocking import blocking_transport
from entrepot.client.blocking.blocking_transport import BlockingTransport
from entrepot.client.blocking.delivery import Delivery
from entrepot.client.consumed import Turns
from entrepot.client.options import Sender
from entrepot.client.protocol import ClientCore
from entrepot.client.read_ahead import ReadAhead
from entrepot.compiled import compiled
from entrepot.errors import ConnectionLost, EntrepotError, InvalidName, MessageTooLong, ProtocolError
from entrepot.message import Message, MessageType
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import LONG_BODY_BYTES, decode, encode
from entrepot.server.wire.frame import HEAD, HEAD_BYTES, FrameReader
from entrepot.server.wire.verbs import Verb

from .cores import Slot, welcome

pytestmark = pytest.mark.skipif(compiled("transport") is None, reason="the pure form has no short way to compare")

BODY_BYTES_MAX = 100_000
PEER = "unix:qm1"


def connected() -> ClientCore:
    core = ClientCore(PEER)
    begun = welcome(b"h" * 20, body_bytes_max=BODY_BYTES_MAX)
    begun.joins_puts = True
    core.begin_connection(begun)
    return core


# --- what goes out -------------------------------------------------------------------------------

names = st.sampled_from(["Q", "ORDERS.EU", "Q" * 48, "Q@QM2", "topic://a/b", "topic://" + "a" * 300])
bodies = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([0, 1, 255, 256, 56_543, 56_544, 56_545, LONG_BODY_BYTES - 1, LONG_BODY_BYTES, 65_536]).map(bytes),
)
flags = st.sampled_from([None, True, False])
priorities = st.one_of(st.none(), st.integers(0, 9))
identifiers = st.one_of(st.binary(max_size=24), st.sampled_from([127, 128, 129, 255, 256]).map(bytes))
senders = st.builds(Sender, st.text(max_size=40), st.sampled_from(["app", "Lager für Öl", "x" * 300, ""]))
timeouts = st.floats(0.001, 1e6)
steps = st.one_of(
    st.tuples(
        st.just("put"), names, bodies, flags, priorities, identifiers, st.sampled_from(MessageType), senders,
        st.booleans(),
    ),
    st.tuples(st.just("request"), names, bodies, st.sampled_from(["R.1", "R.2"]), timeouts, flags, senders),
    st.tuples(st.just("join"), names, bodies, flags, senders),
    st.tuples(st.just("bodies"), st.integers(1, 2**32 - 1), names, st.lists(bodies, max_size=40), flags, senders),
    st.tuples(st.just("credit"), st.integers(1, 2**40)),
    st.tuples(st.just("other")),
)  # fmt: skip


class World:
    """A client that takes the short way where there is one, or never."""

    def __init__(self, *, short: bool) -> None:
        self.core = core = connected()
        self.put = core.gather_put if short else core.put_any
        self.request = core.gather_request if short else core.request_any
        self.join = core.join_put if short else core.join_any
        self.bodies = core.gather_bodies if short else core.bodies_any
        self.credit: Any = core.gather_credit if short else partial(core.used, idle=True)
        self.ahead = core.consume("Q", None, 10, Slot())

    def take(self, step: tuple[Any, ...]) -> Any:
        what, *arguments = step
        if what == "put":
            *arguments, is_answered = arguments
            return self.put(*arguments, Slot() if is_answered else None)
        if what == "request":
            return self.request(*arguments, Slot())
        if what == "credit":
            self.ahead.given += arguments[0]
            self.credit(self.ahead)
            return None
        if what == "other":
            return self.core.ask(Verb.HEARTBEAT, verbs.Empty(), Slot())
        return getattr(self, what)(*arguments)

    @property
    def state(self) -> Any:
        waiting = {number: slot.verb for number, slot in self.core.pending.items()}
        return waiting, self.core.out_bytes, self.ahead.told


def frames_of(data: bytes) -> Iterator[tuple[int, int, Any, bytes]]:
    """Verb, number, payload and bytes of each."""
    while data:
        length, verb, number = HEAD.unpack_from(data)
        frame, data = data[: length + 4], data[length + 4 :]
        yield verb, number, decode(verb, frame[HEAD_BYTES:]), frame


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=12))
@example([("join", "Q", b"x", None, Sender("ann", "app"))] * 15)
@example([("join", "Q", b"x" * 1000, True, Sender("ann", "app"))] * 16)
@example([("bodies", 2**32 - 1, "Q", [b"x" * 1024] * 100, True, Sender("ann", "app"))])
def test_frames_are_those_of_msgspec(script: list[tuple[Any, ...]]) -> None:
    short, general = World(short=True), World(short=False)
    for step in script:
        assert short.take(step) == general.take(step)
        assert short.state == general.state
    data = b"".join(short.core.take())
    assert data == b"".join(general.core.take())
    for verb, number, payload, frame in frames_of(data):
        assert encode(verb, number, payload) == frame


@pytest.mark.parametrize("what", ["put", "request", "join", "bodies"])
@pytest.mark.parametrize(("name", "size"), [("no name", 1), ("", 1), ("Q", BODY_BYTES_MAX + 1)])
def test_what_cannot_be_sent_is_refused_and_nothing_is_gathered(what: str, name: str, size: int) -> None:
    world, sender, body = World(short=True), Sender("ann", "app"), bytes(size)
    before = world.core.take()
    assert before
    step: dict[str, tuple[Any, ...]] = {
        "put": (name, body, None, None, b"", MessageType.DATAGRAM, sender, True),
        "request": (name, body, "R", 1.0, None, sender),
        "join": (name, body, None, sender),
        "bodies": (1, name, [b"", body], None, sender),
    }
    with pytest.raises(MessageTooLong if size > 1 else InvalidName):
        world.take((what, *step[what]))
    assert world.core.take() == []
    assert len(world.core.pending) == 1  # the consumer's


# --- what comes in -------------------------------------------------------------------------------

plain_texts = st.one_of(
    st.text("abcXYZ.0", max_size=40), st.sampled_from(["", "x" * 48, "x" * 49, "Öl", "\n", "x" * 300])
)
messages = st.builds(
    Message,
    st.one_of(st.binary(max_size=40), st.sampled_from([255, 256, 65_535, 65_536]).map(bytes)),
    message_id=identifiers,
    correlation_id=identifiers,
    persistent=st.booleans(),
    priority=st.integers(0, 12),
    type=st.sampled_from(MessageType),
    put_time=st.floats(allow_nan=False),
    expiry_s=st.one_of(st.none(), st.floats(allow_nan=False)),
    delay_s=st.sampled_from([0.0, 0.0, 0.0, 1.5]),
    reply_to=plain_texts,
    user=plain_texts,
    application=plain_texts,
    properties=st.one_of(
        st.just({}), st.just({}), st.dictionaries(st.text(max_size=3), st.integers(-9, 9), max_size=2)
    ),
    backout_count=st.sampled_from([0, 0, 0, 1]),
    topic=st.one_of(st.just(""), plain_texts),
    retained=st.sampled_from([False, False, True]),
    authorized_as=st.sampled_from(["", "", "bob"]),
)
numbers = st.sampled_from([0, 1, 2, 3, 127, 128, 70_000, 2**32, 2**63])
answers = st.one_of(
    st.tuples(st.just(Verb.MESSAGE), st.builds(verbs.MessageAnswer, st.booleans(), st.one_of(st.none(), messages))),
    st.tuples(
        st.just(Verb.DONE),
        st.builds(
            verbs.DonePayload,
            st.one_of(st.none(), st.binary(max_size=300), st.integers(-(2**63), 2**63), st.text(max_size=5)),
        ),
    ),
    st.tuples(st.just(Verb.DELIVERY), st.builds(verbs.DeliveryPayload, numbers, numbers, messages)),
    st.tuples(st.just(Verb.DELIVERIES), st.builds(verbs.Deliveries, numbers, numbers, st.lists(messages, max_size=18))),
    st.tuples(st.just(Verb.ALIVE), st.just(verbs.Empty())),
)


@dataclass
class Hearing:
    """A client that has asked a few things and has two consumers; and what it has heard."""

    short: bool
    room: int = 300_000

    def __post_init__(self) -> None:
        self.core = connected()
        self.slots = [Slot() for _ in range(4)]
        self.numbers = [self.core.ask(Verb.GET, verbs.Get("Q"), slot) for slot in self.slots]
        self.aheads = [self.core.consume("Q", None, 9, Slot()), self.core.hold("Q", None, 9, Slot())]
        self.core.take()
        self.reader = FrameReader(memoryview(bytearray(self.room)), 2**31)
        self.error: tuple[type, str] | None = None

    def hear(self, data: bytes) -> None:
        """Nothing more after an error, as a connection ends with it."""
        while data and self.error is None:
            buffer = self.reader.buffer()
            count = min(len(buffer), len(data))
            buffer[:count], data = data[:count], data[count:]
            try:
                if self.short:
                    self.core.hear(self.reader, count)
                else:
                    self.core.hear_any(self.reader, count, 0)
            except ProtocolError as error:
                self.error = (type(error), str(error))

    @property
    def state(self) -> Any:
        return (
            self.error,
            [(slot.value, None if slot.error is None else str(slot.error)) for slot in self.slots],
            [(list(ahead.arrived), None if ahead.error is None else str(ahead.error)) for ahead in self.aheads],
            sorted(self.core.pending),
            self.core.urgent,
            b"".join(self.core.take()),
        )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), answers), max_size=6),
    st.lists(st.integers(0, 5000), max_size=4),
    st.booleans(),
)
def test_frames_are_heard_as_msgspec_reads_them_however_they_are_cut(
    script: list[tuple[int, tuple[Verb, Any]]], cuts: list[int], is_narrow: bool
) -> None:
    room = 1000 if is_narrow else 300_000
    data = b"".join(encode(verb, number, payload) for number, (verb, payload) in script)
    short, general = Hearing(short=True, room=room), Hearing(short=False, room=room)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    for begin, end in pairwise(places):
        for hearing in (short, general):
            hearing.hear(data[begin:end])
    assert short.state == general.state


class Used(Turns):
    """A loop over what came ahead."""

    def __init__(self, ahead: ReadAhead) -> None:
        self._incoming, self._number, self._at_hand, self._closed = Incoming(ahead), 0, False, False


@dataclass
class Incoming:
    ahead: ReadAhead


@settings(max_examples=100, deadline=None)
@given(st.lists(messages, min_size=1, max_size=4), st.booleans())
def test_a_message_that_is_made_when_it_is_asked_for_is_the_one_that_came(sent: list[Message], together: bool) -> None:
    hearing = Hearing(short=True)
    ahead = hearing.aheads[0]
    if together:
        hearing.hear(encode(Verb.DELIVERIES, 0, verbs.Deliveries(ahead.number, 1, sent)))
    else:
        for number, message in enumerate(sent, 1):
            hearing.hear(encode(Verb.DELIVERY, 0, verbs.DeliveryPayload(ahead.number, number, message)))
    loop = Used(ahead)
    first = loop._turn(Delivery)
    got = [first.message, *iter(ahead.next, None)]
    assert shown(got) == shown(sent)
    assert (first._source, first._number, ahead.has_some) == (loop, 1, False)


def test_a_publication_is_heard_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    hearing = Hearing(short=True)
    monkeypatch.setattr(ClientCore, "hear_any", None)
    message = Message(b"news", b"id", topic="a/b", user="ann", application="app")
    hearing.hear(encode(Verb.DELIVERIES, 0, verbs.Deliveries(hearing.aheads[0].number, 1, [message] * 3)))
    assert list(hearing.aheads[0].arrived) == [message] * 3


def test_a_turn_is_settled_without_a_word_until_the_server_has_to_hear_of_it() -> None:
    hearing = Hearing(short=True)
    ahead = hearing.aheads[0]
    ahead.arrive([Message(b"x")] * 9)
    loop, settled = Used(ahead), []
    for _ in range(5):
        if loop._turn(Delivery) is None:
            break
        settled.append(loop._used())
    assert (settled, ahead.given) == ([True, True, True, False], 3)


def shown(state: Any) -> str:
    """A state as text, since NaN differs from itself; without addresses of MessagePack's own types."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(state))


@settings(max_examples=400, deadline=None)
@given(answers, st.integers(0, 5), st.data())
def test_a_frame_that_is_damaged_is_the_same_error(answer: tuple[Verb, Any], number: int, data: st.DataObject) -> None:
    verb, payload = answer
    content = bytearray(encode(verb, number, payload)[HEAD_BYTES:])
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(
            st.integers(0, min(len(content) - 1, 200)) | st.integers(max(len(content) - 100, 0), len(content) - 1)
        )
        content[place] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.just(len(content)) | st.integers(0, len(content)))]
    content += data.draw(st.sampled_from([b"", b"\xc0"]))
    frame = HEAD.pack(len(content) + HEAD_BYTES - 4, verb, number) + content
    short, general = Hearing(short=True), Hearing(short=False)
    for hearing in (short, general):
        hearing.hear(frame)
    assert shown(short.state) == shown(general.state)


@pytest.mark.parametrize("length", [0, 7, 8, 2**31 + 1, 2**32 - 1])
def test_a_frame_of_an_impossible_length_is_the_same_error(length: int) -> None:
    states = []
    for short in (True, False):
        hearing = Hearing(short=short)
        hearing.hear(encode(Verb.DONE, 1, verbs.DonePayload(None)) + HEAD.pack(length, Verb.DONE, 2) + b"\x91\xc0")
        states.append(hearing.state)
    assert states[0] == states[1]
    assert states[0][0] is not None


# --- a socket of its own -------------------------------------------------------------------------


class Far:
    """A server's end of a real socket, on a thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ours, theirs = socket.socketpair()
        monkeypatch.setattr(blocking_transport, "open_socket", lambda *_: theirs)
        monkeypatch.setattr(blocking_transport.keep_alive, "keep", lambda _: None)
        self._thread = threading.Thread(target=self._welcome)
        self._thread.start()
        self.line = BlockingTransport(Address(folder=Path("qm1")), application="tests", reconnect_s=0.0)
        self.line.open()
        self._thread.join()

    def _welcome(self) -> None:
        _, number, _ = self.heard()
        self.ours.sendall(encode(Verb.WELCOME, number, welcome()))

    def heard(self) -> tuple[int, int, Any]:
        """The next frame; several may have come at once."""
        length, verb, number = HEAD.unpack(self.ours.recv(HEAD_BYTES, socket.MSG_WAITALL))
        content = self.ours.recv(length + 4 - HEAD_BYTES, socket.MSG_WAITALL)
        return verb, number, decode(verb, content)

    def meanwhile(self, act: Any) -> threading.Thread:
        thread = threading.Thread(target=act)
        thread.start()
        return thread


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    far = Far(monkeypatch)
    yield far
    far.ours.close()
    far.line.close()


SENDER = Sender("ann", "app")


def test_a_put_has_its_answer_by_way_of_the_socket(far: Far) -> None:
    def serve() -> None:
        verb, number, put = far.heard()
        far.ours.sendall(
            encode(Verb.DONE, number, verbs.DonePayload(put.message.message_id)) if verb == Verb.PUT else b"?"
        )

    serving = far.meanwhile(serve)
    assert far.line.put_plain("Q", b"x", True, SENDER) == b"head\0\0\0\1"
    serving.join()


def test_a_connection_that_ends_leaves_the_outcome_unknown(far: Far) -> None:
    def serve() -> None:
        far.heard()
        far.ours.close()

    serving = far.meanwhile(serve)
    with pytest.raises(ConnectionLost) as caught:
        far.line.request_plain("Q", b"x", "R", 30.0, False, SENDER, 1)
    assert caught.value.outcome == "unknown"
    serving.join()


def test_a_signal_that_raises_ends_the_wait_and_the_connection(far: Far) -> None:
    class Interrupted(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    main = threading.main_thread().ident
    assert main is not None

    def serve() -> None:
        far.heard()
        signal.pthread_kill(main, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        serving = far.meanwhile(serve)
        with pytest.raises(Interrupted):
            far.line.put_plain("Q", b"x", False, SENDER)
    finally:
        signal.signal(signal.SIGUSR1, before)
    serving.join()
    assert not far.line.is_connected


def test_credit_travels_with_the_next_verb(far: Far) -> None:
    core = far.line.core
    ahead = core.consume("Q", None, 2, far.line.slot())
    core.take()
    assert ahead.use()
    far.line.used(ahead)
    far.line.reply_plain("R", b"x", 4, b"id", SENDER)
    received = far.ours.recv(65536)
    assert [(verb, number) for verb, number, _, _ in frames_of(received)] == [(Verb.CREDIT, 0), (Verb.PUT, 0)]


def test_credit_is_told_before_a_consumer_waits(far: Far) -> None:
    core = far.line.core
    ahead = core.consume("Q", None, 2, far.line.slot())
    core.take()
    assert ahead.use()
    far.line.used(ahead)

    def serve() -> None:
        if far.heard()[0] == Verb.CREDIT:
            far.ours.sendall(encode(Verb.DELIVERY, 0, verbs.DeliveryPayload(ahead.number, 2, Message(b"next"))))
        else:
            far.ours.close()

    serving = far.meanwhile(serve)
    far.line.arrived(ahead, float("inf"))
    serving.join()
    assert [message.body for message in ahead.arrived] == [b"next"]


def test_what_a_server_must_not_say_breaks_the_connection(far: Far) -> None:
    def serve() -> None:
        _, number, _ = far.heard()
        far.ours.sendall(encode(Verb.DONE, number + 1, verbs.DonePayload(None)))

    serving = far.meanwhile(serve)
    with pytest.raises(EntrepotError, match="nobody has asked"):
        far.line.put_plain("Q", b"x", False, SENDER)
    serving.join()
    assert not far.line.is_connected
