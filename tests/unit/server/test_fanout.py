# SPDX-License-Identifier: Apache-2.0
"""Publications that go from frame to frames as bytes lead where the general way leads."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot import limits
from entrepot.compiled import compiled
from entrepot.engine.loop_host import LoopHost
from entrepot.engine.publishing import Publishing
from entrepot.errors import EntrepotError, NotAuthorized
from entrepot.message import Message
from entrepot.server import native_connection, stream
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.verbs import Verb

from .guests import Guest, House, Work, live, put

Inside = Callable[[Work], None]

DEFINED = """
DEFINE QLOCAL(SMALL) MAXDEPTH(3) REPLACE
DEFINE QLOCAL(WATCHED) MAXDEPTH(20) QDPHIEV(ENABLED) REPLACE
DEFINE TOPIC(LOUD) TOPICSTR('loud') DEFPRTY(7) REPLACE
DEFINE TOPIC(SAFE) TOPICSTR('safe') DEFPSIST(YES) REPLACE
"""
TOPICS = ["a", "a", "a", "a/b", "loud", "safe", "nowhere", "bad#topic"]

requires_compiled = pytest.mark.skipif(compiled("fanout") is None, reason="only the compiled form has two ways")


class World:
    """A house whose guests publish and read one way, with four guests; the first publishes."""

    def __init__(self, house: House, *, flat: bool) -> None:
        self.house = house
        self.flat = flat
        self.guests: list[Guest] = []
        self.queues: list[tuple[int, str]] = []
        """Who has subscribed, and to which queue it leads."""
        self.consumers: list[tuple[int, int]] = []
        """Guest and number of each."""
        self.number = 100

    async def enter(self) -> None:
        self.house.mqsc(DEFINED)
        found, native_connection._express = (
            native_connection._express,
            native_connection._express if self.flat else None,
        )
        try:
            self.guests = [await self.house.admitted() for _ in range(4)]
        finally:
            native_connection._express = found

    async def ask(self, guest: int, verb: int, payload: Any) -> Any:
        self.number += 1
        try:
            return await self.guests[guest].ask(verb, self.number, payload)
        except EntrepotError as error:
            return type(error).__name__

    # --- steps -----------------------------------------------------------------------------------

    async def publish(self, puts: list[verbs.Put], form: str) -> Any:
        guest = self.guests[0]
        numbers = []
        if form == "together":
            many = [(each.queue, each.persistent, each.priority, each.message) for each in puts[:12]]
            guest.say(Verb.PUT_MANY, 0, verbs.PutMany(0, many))
        else:
            frames = b""
            for each in puts:
                self.number += 1
                number = self.number if form == "answered" else 0
                frames += encode(Verb.PUT, number, each)
                numbers += [number] if number else []
            guest.say_bytes(frames)
        answers = [await guest.answer(number) for number in numbers]
        problems = [from_answer(verb, answer) for verb, answer in answers]
        return problems, await self.ask(0, Verb.SYNCHRONIZE, verbs.Empty())

    async def subscribe(self, guest: int, frame: verbs.Subscribe) -> str | None:
        if frame.name:
            frame = msgspec.structs.replace(frame, name=f"{frame.name}{guest % 2}")
        answer = await self.ask(guest, Verb.SUBSCRIBE, frame)
        if isinstance(answer, str):
            return answer
        self.queues.append((guest, answer.value[1]))
        return None

    async def consume(self, which: int, credit: int, together: bool, held: bool, selector: str | None) -> Any:
        if not self.queues:
            return None
        guest, queue = self.queues[which % len(self.queues)]
        self.number += 1
        wanted = None if selector is None else verbs.Wanted(selector=selector)
        frame = verbs.Consume(queue, self.number, credit, wanted, held=held, together=together)
        self.consumers.append((guest, self.number))
        return isinstance(await self.ask(guest, Verb.CONSUME, frame), str)

    async def credit(self, which: int, used: int, more: int) -> None:
        if self.consumers:
            guest, number = self.consumers[which % len(self.consumers)]
            found = self.streams().get((guest, number))
            if found is not None and not found.held:
                up_to = found._settled + min(used, found.delivered - found._settled)
                self.guests[guest].say(Verb.CREDIT, 0, verbs.Credit(number, up_to, more))

    async def give_back(self, which: int, reject: bool) -> Any:
        if not self.consumers:
            return None
        guest, number = self.consumers[which % len(self.consumers)]
        found = self.streams().get((guest, number))
        if found is None or found.held or found.delivered == found._settled:
            return None
        frame = verbs.ReturnPayload(number, found.delivered, 1, rejected="bad" if reject else None)
        return isinstance(await self.ask(guest, Verb.RETURN, frame), str)

    async def stop(self, which: int) -> None:
        if self.consumers:
            guest, number = self.consumers.pop(which % len(self.consumers))
            await self.ask(guest, Verb.STOP_CONSUMING, verbs.ConsumerPayload(number))

    async def put(self, queue: str, message: Message) -> Any:
        answer = await self.ask(1, Verb.PUT, verbs.Put(queue, 0, False, None, 0.0, message))
        return answer if isinstance(answer, str) else None

    async def look(self) -> Any:
        return self.state(whole=True)

    async def alter(self, script: str) -> None:
        self.house.mqsc(script)

    # --- what can be seen --------------------------------------------------------------------------

    def streams(self) -> dict[tuple[int, int], stream.Stream]:
        return {
            (index, number): found
            for index, guest in enumerate(self.guests)
            if guest.link.conversation is not None
            for number, found in guest.link.conversation.consumers._streams.items()
        }

    async def settled(self) -> None:
        """Until what the last step has caused is over."""
        for _ in range(8):
            await asyncio.sleep(0)

    def state(self, *, whole: bool = False) -> Any:
        """What can be counted; `whole`: and what all messages are, to see which makes a `Message` of each."""
        manager = self.house.host.manager
        streams = self.streams()
        names = {id(found.waiter): key for key, found in streams.items()}
        queues = []
        for queue in manager.objects.queues.values():
            name = queue.definition.name
            if name.startswith("SYSTEM.ADMIN"):
                continue
            messages = [_seen(entry.message) for entry in queue.after(None)] if whole else None
            waiting = [names.get(id(waiter)) for waiter in queue.waiters.any.values()]
            memory = sum(lane.memory_bytes for lane in queue._order)
            held = [queue.depth, queue.reserved, queue.uncommitted_gets, memory]
            queues.append((len(queues), messages, held, waiting))
        readers = {
            key: (
                found.credit, found._settled, found.delivered, found._held_bytes, found.closed,
                [_held(take.entry, whole=whole) for take in found._unit.takes],
            )
            for key, found in streams.items()
        }  # fmt: skip
        return queues, readers, [_deliveries(guest) for guest in self.guests]


def _held(entry: Any, *, whole: bool) -> Any:
    return entry.backouts, entry.state, _seen(entry.message) if whole else None


def from_answer(verb: int, answer: Any) -> Any:
    return answer.error.code if verb == Verb.FAILED else len(answer.value)


def _seen(message: Message) -> Message:
    """What both ways agree on: whom a made-up id names and when it came is not the same twice."""
    own_id = message.message_id if len(message.message_id) < 4 else b"?"
    left_s = None if message.expiry_s is None else 30.0
    properties = {name: value for name, value in message.properties.items() if name != "dead_letter_time"}
    return msgspec.structs.replace(message, message_id=own_id, put_time=0.0, expiry_s=left_s, properties=properties)


def _deliveries(guest: Guest) -> dict[int, list[tuple[int, Message]]]:
    """What came to each consumer; how many in a frame is nobody's business."""
    found: dict[int, list[tuple[int, Message]]] = {}
    for verb, _, payload in guest.frames():
        if verb in (Verb.DELIVERY, Verb.DELIVERIES):
            messages = [payload.message] if verb == Verb.DELIVERY else payload.messages
            numbered = enumerate(map(_seen, messages), payload.delivery)
            found.setdefault(payload.consumer, []).extend(numbered)
    return found


messages = st.builds(
    Message,
    st.sampled_from([b"", b"x" * 10, b"<a>7</a>", b"y" * 400]),
    message_id=st.sampled_from([b"", b"", b"i"]),
    correlation_id=st.sampled_from([b"", b"", b"", b"", b"c"]),
    expiry_s=st.sampled_from([None, None, None, None, 30.0]),
    reply_to=st.sampled_from(["", "Q"]),
    properties=st.sampled_from([{}, {}, {}, {"colour": "red"}]),
    retained=st.sampled_from([False] * 7 + [True]),
    report=st.sampled_from([0] * 7 + [256]),
)
puts = st.builds(
    verbs.Put,
    st.sampled_from(TOPICS).map(lambda topic: f"topic:{topic}"),
    st.just(0),
    st.sampled_from([False, False, False, None, True]),
    st.sampled_from([None, None, None, 0, 9]),
    st.sampled_from([0.0, 0.0, 0.02]),
    messages,
)
subscriptions = st.builds(
    verbs.Subscribe,
    st.sampled_from(["", "", "", "NAMED", "SHARED"]),
    st.sampled_from(["a", "a", "a/#", "#", "loud", "safe"]),
    st.sampled_from(["", "", "", "", "", "Q", "SMALL", "WATCHED"]),
    selector=st.sampled_from(["", "", "", "", "colour = 'red'"]),
    content=st.sampled_from(["", "", "", "", "xpath:/a[. = 7]"]),
).map(lambda each: msgspec.structs.replace(each, durable=each.name == "NAMED", shared=each.name == "SHARED"))
many_alike = st.tuples(
    st.sampled_from(["a", "a/b"]), st.integers(2, 20), st.sampled_from([b"z" * 3, b"z" * 5_000])
).map(lambda alike: [put(f"topic:{alike[0]}", alike[2], persistent=False, wait_s=1.0)] * alike[1])
whom = st.integers(0, 9)
steps = st.one_of(
    st.tuples(st.just("publish"), st.lists(puts, min_size=1, max_size=5) | many_alike,
              st.sampled_from(["answered", "unanswered", "together"])),
    st.tuples(st.just("publish"), many_alike, st.sampled_from(["answered", "unanswered", "together"])),
    st.tuples(st.just("subscribe"), st.integers(0, 3), subscriptions),
    st.tuples(st.just("consume"), whom, st.sampled_from([1, 3, 100]), st.booleans(),
              st.sampled_from([False, False, False, True]), st.sampled_from([None, None, None, "colour = 'red'"])),
    st.tuples(st.just("credit"), whom, st.sampled_from([0, 1, 100]), st.sampled_from([0, 1, 5])),
    st.tuples(st.just("give_back"), whom, st.booleans()),
    st.tuples(st.just("stop"), whom),
    st.tuples(st.just("look")),
    st.tuples(st.just("put"), st.sampled_from(["Q", "SMALL"]), messages),
    st.tuples(st.just("alter"), st.sampled_from([
        "ALTER QLOCAL(Q) PUT(DISABLED)", "ALTER QLOCAL(Q) PUT(ENABLED)", "ALTER TOPIC(LOUD) PUB(DISABLED)",
        "ALTER TOPIC(LOUD) PUB(ENABLED)", "ALTER QLOCAL(Q) MAXMSGL(5)", "ALTER QLOCAL(Q) MAXMSGL(5000)",
        "ALTER QLOCAL(Q) GET(DISABLED)", "ALTER QLOCAL(Q) GET(ENABLED)",
    ])),
)  # fmt: skip
beginnings = [
    ("subscribe", 1, verbs.Subscribe("", "a")),
    ("subscribe", 2, verbs.Subscribe("", "a/#")),
    ("consume", 0, 3, True, False, None),
    ("consume", 1, 100, False, False, None),
]


@requires_compiled
@settings(max_examples=30, deadline=None)
@given(script=st.lists(steps, max_size=16))
def test_both_ways_lead_to_the_same_state(founded: Path, script: list[Any]) -> None:
    async def work(flat_house: House) -> None:
        worlds.append(World(flat_house, flat=True))
        await asyncio.to_thread(shutil.copytree, founded, general_path)
        host = await asyncio.to_thread(type(flat_house.host), general_path)
        try:
            general_house = House(host)
            worlds.append(World(general_house, flat=False))
            flat, general = worlds
            await flat.enter()
            await general.enter()
            for what, *arguments in [*beginnings, *script]:
                outcomes = [await getattr(world, what)(*arguments) for world in worlds]
                assert outcomes[0] == outcomes[1], (what, arguments)
                for world in worlds:
                    await world.settled()
                assert flat.state() == general.state(), (what, arguments)
            assert flat.state(whole=True) == general.state(whole=True)
            await general_house.leave()
        finally:
            await asyncio.to_thread(host.close)

    worlds: list[World] = []
    with tempfile.TemporaryDirectory() as folder:
        general_path = Path(folder) / "general" / "QM1"
        flat_path = Path(folder) / "flat" / "QM1"
        shutil.copytree(founded, flat_path)
        live(flat_path, work)


# --- what is special -----------------------------------------------------------------------------


@pytest.fixture
def only_flat(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """From its call on, what takes the general way fails."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("it took the general way")

    def begin() -> None:
        monkeypatch.setattr(Publishing, "publish", refuse)
        monkeypatch.setattr(LoopHost, "get_some_or_wait", refuse)

    yield begin
    monkeypatch.undo()


async def subscribed(house: House, credit: int, *, together: bool = True, topic: str = "a") -> tuple[Guest, str]:
    guest = await house.admitted()
    queue = (await guest.ask(Verb.SUBSCRIBE, 2, verbs.Subscribe("", topic))).value[1]
    await guest.ask(Verb.CONSUME, 3, verbs.Consume(queue, 1, credit, together=together))
    return guest, queue


def publications(count: int, size: int = 10, first: int = 0, topic: str = "a") -> bytes:
    bodies = [b"%06d" % number + b"x" * size for number in range(first, first + count)]
    return b"".join(encode(Verb.PUT, 0, put(f"topic:{topic}", body, persistent=False, wait_s=60.0)) for body in bodies)


def came(guest: Guest) -> list[int]:
    return [int(message.body[:6]) for message in guest.deliveries()]


@requires_compiled
def test_publications_of_one_read_come_in_one_frame(inside: Inside, only_flat: Callable[[], None]) -> None:
    async def work(house: House) -> None:
        publisher = await house.admitted()
        readers = [await subscribed(house, 100) for _ in range(3)]
        publisher.say_bytes(publications(1))
        only_flat()
        publisher.say_bytes(publications(20, first=1))
        many = [("topic:a", False, None, Message(b"%06d" % number)) for number in range(21, 24)]
        publisher.say(Verb.PUT_MANY, 0, verbs.PutMany(0, many))
        for guest, queue in readers:
            assert [len(batch) for batch in guest.batches()] == [1, 20, 3]
            assert came(guest) == list(range(24))
            assert {message.topic for message in guest.deliveries()} == {"a"}
            assert (house.depth(queue), house.held(queue)) == (24, 24)

    inside(work)


@requires_compiled
def test_what_finds_no_credit_waits_and_comes_when_there_is_some(inside: Inside, only_flat: Callable[[], None]) -> None:
    async def work(house: House) -> None:
        publisher = await house.admitted()
        eager, _ = await subscribed(house, 100)
        slow, queue = await subscribed(house, 5, together=False)
        publisher.say_bytes(publications(1))
        only_flat()
        publisher.say_bytes(publications(30, first=1))
        assert came(eager) == list(range(31))
        assert came(slow) == list(range(5))
        slow.say(Verb.CREDIT, 0, verbs.Credit(1, 5, 40))
        assert came(slow) == list(range(31))
        assert {len(batch) for batch in slow.batches()} == {1}, "it takes one at a time"
        assert (house.depth(queue), house.held(queue)) == (26, 26)
        publisher.say_bytes(publications(1, first=31))
        assert came(slow) == list(range(32)), "it waits again"

    inside(work)


@requires_compiled
def test_a_subscriber_that_does_not_read_holds_up_nobody_and_gets_everything_later(inside: Inside) -> None:
    async def work(house: House) -> None:
        publisher = await house.admitted()
        (reading, _), (deaf, queue) = await subscribed(house, 1000), await subscribed(house, 1000)
        deaf.wire.partner_reads = False
        for first in range(0, 100, 4):
            publisher.say_bytes(publications(4, 30_000, first))
        assert came(reading) == list(range(100))
        assert len(came(deaf)) < 50, "about 1 MiB"
        assert house.depth(queue) == 100
        deaf.wire.read_all()
        await deaf.until(lambda: len(came(deaf)) == 100)
        assert came(deaf) == list(range(100))

    inside(work)


@requires_compiled
def test_a_reader_keeps_no_more_bodies_in_memory_than_it_may(inside: Inside) -> None:
    async def work(house: House) -> None:
        publisher = await house.admitted()
        guest, queue = await subscribed(house, 1000)
        conversation = guest.link.conversation
        assert conversation is not None
        # It has bodies of so many bytes already, but for two messages.
        conversation.consumers._streams[1]._held_bytes = stream._HELD_BYTES_MAX - 30
        for number in range(5):
            publisher.say_bytes(publications(1, 10, number))
        assert came(guest) == [0, 1]
        assert (house.depth(queue), house.held(queue)) == (5, 2)
        guest.say(Verb.CREDIT, 0, verbs.Credit(1, 1, 0))
        assert came(guest) == list(range(5)), "as many as are there, once it may have one more"

    inside(work)


@requires_compiled
def test_a_message_that_several_queues_have_is_decoded_once(inside: Inside) -> None:
    async def work(house: House) -> None:
        publisher = await house.admitted()
        queues = [(await subscribed(house, 0))[1] for _ in range(2)]
        publisher.say_bytes(publications(1))
        publisher.say_bytes(publications(2, first=1))
        objects = house.host.manager.objects
        first, second = ([entry.message for entry in objects.queues[name].after(None)] for name in queues)
        assert first[2] is second[2]
        assert first[2].body == b"000002" + b"x" * 10

    inside(work)


@requires_compiled
def test_what_memory_has_no_room_for_goes_to_disk_and_comes_back(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RUN_BYTES", 20_000)

    async def work(house: House) -> None:
        house.mqsc("ALTER QMODEL(SYSTEM.NDURABLE.MODEL.QUEUE) BUFFER(64)")
        publisher = await house.admitted()
        readers = [await subscribed(house, 0) for _ in range(2)]
        for first in range(0, 300, 30):
            publisher.say_bytes(publications(30, 1_000, first))
        objects = house.host.manager.objects
        assert all(objects.queues[queue].run_count for _, queue in readers)
        for guest, _ in readers:
            guest.say(Verb.CREDIT, 0, verbs.Credit(1, 0, 1000))
            await guest.until(lambda guest=guest: len(came(guest)) == 300)
            assert came(guest) == list(range(300))

    inside(work)


@requires_compiled
def test_who_may_not_publish_is_refused_whenever_the_right_is_taken(inside: Inside) -> None:
    async def work(house: House) -> None:
        grant = "SET AUTHREC OBJTYPE(TOPIC) PROFILE(SYSTEM.BASE.TOPIC) PRINCIPAL('ann') "
        ann = await house.admitted("ann")
        reader, _ = await subscribed(house, 100)
        with pytest.raises(NotAuthorized):
            await ann.put("topic:a", b"000000")
        house.mqsc(grant + "AUTHADD(PUB)")
        for number in range(1, 4):
            await ann.put("topic:a", b"%06d" % number)
        house.mqsc(grant + "AUTHRMV(PUB)")
        with pytest.raises(NotAuthorized):
            await ann.put("topic:a", b"000009")
        assert came(reader) == [1, 2, 3]
        assert {message.user for message in reader.deliveries()} == {"ann"}

    inside(work)
