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
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from entrepot.compiled import compiled
from entrepot.errors import EntrepotError, NotAuthorized
from entrepot.message import Message
from entrepot.server import native, stream
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
        found, native._express = native._express, native._express if self.flat else None
        try:
            self.guests = [await self.house.admitted() for _ in range(4)]
        finally:
            native._express = found

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
        frame = verbs.Return(number, found.delivered, 1, rejected="bad" if reject else None)
        return isinstance(await self.ask(guest, Verb.RETURN, frame), str)

    async def stop(self, which: int) -> None:
        if self.consumers:
            guest, number = self.consumers.pop(which % len(self.consumers))
            await self.ask(guest, Verb.STOP_CONSUMING, verbs.OfConsumer(number))

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
@settings(max_examples=60, deadline=None, phases=[Phase.generate])
@given(script=st.lists(steps, max_size=20))
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
