# SPDX-License-Identifier: Apache-2.0
"""Partners that do not keep to the standard, from a seed; a process of its own, as the engine is C.

    PYTHONPATH=tests python -m unit.server.amqp.fuzz FOLDER SEED FRAMES

Most of what they say is right, so that the rest meets a connection that is
alive: sessions, links, credit, messages in pieces, transactions. Then a
rule is broken, or bytes are changed. Prints what it has done as JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys
import time
from pathlib import Path
from typing import Any

from entrepot.message import Message
from entrepot.server.amqp.codec import Described, Symbol, Symbols, Timestamp, UByte, UInt, ULong, UShort, encode
from entrepot.server.amqp.mapping import encode_message
from unit.server.amqp.peer import AMQP_HEADER, SASL_HEADER, Place, frame, init, queue_manager

STATES: list[Any] = [
    None,
    Described(ULong(0x24), []),
    Described(ULong(0x25), [Described(ULong(0x1D), [Symbol("app:x"), "why"])]),
    Described(ULong(0x26), []),
    Described(ULong(0x27), [True, True]),
    Described(ULong(0x27), [True]),
    Described(ULong(0x23), [UInt(1), ULong(5)]),
    Described(ULong(0x34), [b"\x00\x00\x00\x01", Described(ULong(0x24), [])]),
    Described(ULong(0x34), [b"\x00\x00\x00\x01", Described(ULong(0x26), [])]),
    Described(ULong(0x34), [b"\x00\x00\x00\x01"]),
    Described(ULong(0x34), [b"no"]),
    Described(ULong(0x34), 5),
    Described(ULong(0x99), []),
    5,
]
FILTERS = [
    None,
    {Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), "a = 1")},
    {Symbol("s"): Described(Symbol("apache.org:selector-filter:string"), "a = ")},
    {Symbol("s"): Described(ULong(0x0000468C00000004), 5)},
    {Symbol("n"): Described(ULong(0x0000468C00000003), [])},
    {Symbol("c"): Described(Symbol("entrepot:content-filter:string"), "xpath:/a[b > 1]")},
    {Symbol("c"): Described(Symbol("entrepot:content-filter:string"), "xpath:/a[")},
    5,
]
SUBSCRIBERS: list[tuple[str, Any]] = [
    ("link-{}", Symbol("topic")),
    ("link-{}", Symbols(("topic", "temporary-topic"))),
    ("durable", Symbol("topic")),
    ("durable-{}", Symbol("topic")),
    ("sub|{}", Symbols(("topic", "shared"))),
    ("sub|global{}", Symbols(("topic", "shared", "global"))),
]
"""Names and capabilities of links to topics."""
ADDRESSES = ["Q", "Q", "Q", "queue://Q", "topic://T", "NO.SUCH", "", None, "x" * 300, "Q@QM1", "Ä\x00"]
UINTS = [0, 1, 2, 5, 100, 2**31 - 1, 2**31, 2**32 - 1]


class Session:
    def __init__(self) -> None:
        self.delivery = 0
        self.senders: dict[int, bool] = {}
        self.partial: int | None = None


class Rogue:
    """Writes one connection's frames."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.deviation = self.chance.choice([0, 0, 0.002, 0.005, 0.01, 0.05])
        self.sessions: dict[int, Session] = {}
        self.names = 0
        self.messages = [
            encode_message(Message(b"body", persistent=True, properties={"a": 1}), "Q"),
            encode_message(Message(b"x" * 300, correlation_id=b"c", reply_to="Q"), "Q"),
            encode_message(Message(b"<a><b>2</b></a>", topic="T", retained=True), ""),
            b"\x00\x53\x72" + encode({Symbol("x-opt-retain"): True}) + b"\x00\x53\x77" + encode("kept"),
            b"\x00\x53\x77" + encode({"a": [1, 2.5, Timestamp(5)]}),
            b"\x00\x53\x77\x00\x53\x31\x45",
            b"\x00\x53\x77\x00\x53\x32" + encode([b"\x00\x00\x00\x01", True]),
            b"\x00\x53\x77\x00\x53\x32" + encode([b"\x00\x00\x00\x01", False]),
            b"",
            b"\x00\x53\x75\xb0\xff\xff\xff\xff",
        ]

    def deviates(self) -> bool:
        return self.chance.random() < self.deviation

    def uint(self, usual: int) -> UInt:
        return UInt(self.chance.choice(UINTS) if self.deviates() else usual)

    def stream(self) -> list[bytes]:
        chance = self.chance
        pieces = [
            frame(
                "open", ["rogue", None, UInt(chance.choice([512, 65536, 2**32 - 1])), UShort(chance.choice([3, 255]))]
            )
        ]
        for _ in range(chance.randrange(5, 80)):
            pieces += self.next()
        if chance.random() < 0.3:
            pieces.append(frame("close", []))
        return pieces

    def next(self) -> list[bytes]:
        chance = self.chance
        if not self.sessions or chance.random() < 0.04:
            channel = chance.choice([0, 1, 2])
            if channel in self.sessions and not self.deviates():
                return []
            self.sessions[channel] = Session()
            remote = UShort(chance.choice([0, 1])) if self.deviates() else None
            window = UInt(chance.choice([0, 1, 1000, 2**32 - 1]))
            return [frame("begin", [remote, UInt(0), window, UInt(100), UInt(0) if self.deviates() else None], channel)]
        channel = chance.choice(list(self.sessions))
        session = self.sessions[channel]
        if self.deviates():
            channel = chance.choice([0, 1, 2, 9, 400])
        what = chance.choices(["attach", "flow", "transfer", "disposition", "detach", "end"], [4, 5, 12, 6, 1, 0.3])[0]
        return list(getattr(self, what)(session, channel))

    def handle(self, session: Session, *, sender: bool | None = None) -> int:
        handles = [handle for handle, sends in session.senders.items() if sender is None or sends == sender]
        return self.chance.choice([0, 1, 9] if not handles or self.deviates() else handles)

    def attach(self, session: Session, channel: int) -> list[bytes]:
        chance = self.chance
        handle = chance.choice(
            [number for number in range(8) if self.deviates() or number not in session.senders] or [0]
        )
        if handle in session.senders and not self.deviates():
            return []
        receives = chance.random() < 0.5
        self.names += 1
        name = "again" if self.deviates() else f"link-{self.names}"
        dynamic = True if chance.random() < 0.1 else None
        copies = Symbol("copy") if chance.random() < 0.2 else None
        caps = Symbol("topic") if self.deviates() else None
        filters = chance.choice(FILTERS) if chance.random() < 0.4 else None
        address, durable, expiry, wants = chance.choice(ADDRESSES), None, None, None
        subscribes = chance.random() < 0.4
        if subscribes:
            form, wants = chance.choice(SUBSCRIBERS)
            name = name if name == "again" else form.format(self.names)
            address = chance.choice(["T", "topic://T", "T/+", "T/#", "T/1", "topic://", "queue://Q"])
            durable = chance.choice([None, UInt(1), UInt(2)])
            expiry = chance.choice([None, Symbol("never"), Symbol("never"), Symbol("link-detach")])
        source: Any = Described(
            ULong(0x28),
            [None if dynamic else address, durable, expiry, None, dynamic, None, copies, filters, None, None, wants],
        )
        coordinator = chance.random() < 0.2
        target: Any = Described(
            ULong(0x30 if coordinator else 0x29),
            [caps] if coordinator else [address, None, None, None, None, None, wants or caps],
        )
        if subscribes and receives and chance.random() < 0.1:
            source = None
        if self.deviates():
            source = chance.choice([None, 5, Described(ULong(0x28), 5), Described(ULong(1), [])])
        if self.deviates():
            target = chance.choice([None, 5, Described(ULong(0x29), {}), Described(ULong(1), [])])
        session.senders[handle] = not receives
        modes = [
            chance.choice([None, UByte(0), UByte(1), UByte(2), UByte(9)]),
            chance.choice([None, UByte(0), UByte(1)]),
        ]
        rest = [None, None, UInt(0), chance.choice([None, None, ULong(10)])]
        return [frame("attach", [name, self.uint(handle), receives, *modes, source, target, *rest], channel)]

    def flow(self, session: Session, channel: int) -> list[bytes]:
        chance = self.chance
        fields = [
            chance.choice([None, UInt(0), self.uint(5)]), self.uint(1000), self.uint(0), self.uint(100),
            chance.choice([None, *(UInt(handle) for handle in session.senders)]), chance.choice([None, self.uint(0)]),
            UInt(chance.choice([0, 1, 10, 100, 2**31, 2**32 - 1])), None, chance.choice([None, True]),
            chance.choice([None, True]),
        ]  # fmt: skip
        return [frame("flow", fields, channel)]

    def transfer(self, session: Session, channel: int) -> list[bytes]:
        chance = self.chance
        if True not in session.senders.values() and not self.deviates():
            return []
        handle = self.handle(session, sender=True)
        if session.partial is not None and not self.deviates():
            handle = session.partial
            number = session.delivery - 1
        else:
            number = session.delivery
            session.delivery += 1
        more = chance.random() < 0.2
        session.partial = handle if more else None
        state = chance.choice(STATES) if chance.random() < 0.2 else None
        aborted = True if chance.random() < 0.03 else None
        settled = chance.choice([None, True]) if session.partial is None else None
        tag = chance.choice([b"t", b"", b"z" * 40])
        fields = [self.uint(handle), self.uint(number), tag, UInt(0), settled, more, None, state, None, aborted]
        return [frame("transfer", fields, channel, chance.choice(self.messages))]

    def disposition(self, session: Session, channel: int) -> list[bytes]:
        chance = self.chance
        first = chance.choice([0, 0, 1, 2, session.delivery])
        last = None if chance.random() < 0.5 else self.uint(first + chance.choice([0, 1, 5, 1000]))
        role, settled = chance.random() < 0.8, chance.choice([None, True, False])
        return [frame("disposition", [role, self.uint(first), last, settled, chance.choice(STATES)], channel)]

    def detach(self, session: Session, channel: int) -> list[bytes]:
        if not session.senders and not self.deviates():
            return []
        handle = self.handle(session)
        if not self.deviates():
            session.senders.pop(handle, None)
        if session.partial == handle:
            session.partial = None
        return [frame("detach", [UInt(handle), self.chance.choice([True, None])], channel)]

    def end(self, session: Session, channel: int) -> list[bytes]:
        if not self.deviates():
            self.sessions.pop(channel, None)
        return [frame("end", [], channel)]

    def spoiled(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self.chance.randrange(1, 4)):
            at = self.chance.randrange(len(changed) + 1)
            how = self.chance.random()
            if how < 0.6 and at < len(changed):
                changed[at] = self.chance.randrange(256)
            elif how < 0.8:
                del changed[at : at + self.chance.randrange(1, 5)]
            else:
                changed[at:at] = self.chance.randbytes(self.chance.randrange(1, 5))
        return bytes(changed)


class Mistakes(logging.Handler):
    """Whatever our side did not expect."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(
            f"{record.getMessage()}: {logging.Formatter().formatException(record.exc_info) if record.exc_info else ''}"
        )


async def attack(place: Place, seed: int) -> tuple[int, float]:
    """One connection; returns its frames and the longest time that one call or one turn of the loop took."""
    rogue = Rogue(seed)
    chance = rogue.chance
    pieces = rogue.stream()
    peer = place.connect()
    longest = 0.0
    beginning = (
        [AMQP_HEADER] if chance.random() < 0.9 else [SASL_HEADER, init("PLAIN", b"\x00app\x00right"), AMQP_HEADER]
    )
    if chance.random() < 0.05:
        beginning = [rogue.spoiled(b"".join(beginning))]
    for piece in beginning:
        peer.say(piece)
        await peer.hear()
    said = list(pieces)
    if chance.random() < 0.3:
        at = chance.randrange(len(said))
        said[at] = rogue.spoiled(said[at])
    patience = chance.choice([0.3, 0.9, 1.0, 1.0])
    if chance.random() < 0.2:
        data = b"".join(said)
        step = chance.choice([1000, 100, 17])
        said = [data[at : at + step] for at in range(0, len(data), step)]
    spoken = 0
    for piece in said:
        begun, worked_s = time.monotonic(), time.process_time()
        peer.say(piece)
        spoken += len(piece)
        # Whoever does not wait for our answers has no credit for what it sends.
        if chance.random() < patience:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        # By the clock a busy machine may need much longer than the work takes.
        longest = max(longest, time.process_time() - worked_s, (time.monotonic() - begun) / 20)
        if peer.transport.closing:
            break
    if chance.random() < 0.1:
        peer.protocol.pause_writing()
        peer.protocol.resume_writing()
    if chance.random() < 0.7:
        for _ in range(4):
            await asyncio.sleep(0)
    peer.lose()
    return round(len(pieces) * spoken / sum(map(len, said))), longest


async def tidy(place: Place) -> None:
    """Empty the queues; nothing may be in anybody's hands once the log has settled what was accepted."""
    for queue in ("Q", "SYSTEM.DEAD.LETTER.QUEUE"):
        deadline = time.monotonic() + 60
        while int(place.host.queue_status(queue)["UNCOM"]):
            if time.monotonic() > deadline:
                raise AssertionError(f"messages of {queue} belong to partners that have gone")
            await asyncio.sleep(0.001)
        place.host.clear(queue)
    deadline = time.monotonic() + 60
    while read := [name for name, readers, durable in _subscriptions(place) if readers or not durable]:
        if time.monotonic() > deadline:
            raise AssertionError(f"partners that have gone read {read}")
        await asyncio.sleep(0.001)
    for name, _, _ in _subscriptions(place):
        place.host.unsubscribe(name)


def _subscriptions(place: Place) -> list[tuple[str, int, bool]]:
    """All subscriptions, how many read each of them, and whether it is durable."""
    with place.host.lock:
        subscribers = place.registry.engine.manager.objects.subscribers.by_name
        return [(name, each.readers, each.definition.durable) for name, each in subscribers.items()]


async def campaign(folder: Path, seed: int, frames_wanted: int) -> dict[str, Any]:
    mistakes = Mistakes()
    logging.getLogger("entrepot").addHandler(mistakes)
    logging.getLogger("asyncio").addHandler(mistakes)
    frames = streams = 0
    longest = 0.0
    before = 0
    async with queue_manager(folder) as place:
        while frames < frames_wanted:
            count, took = await attack(place, seed + streams)
            frames += count
            streams += 1
            longest = max(longest, took)
            if mistakes.found:
                break
            if streams % 50 == 0:
                await tidy(place)
            if streams == 200:
                before = _resident_bytes()
        left = [len(place.registry.sessions), len(place.registry.links), place.admission.inside]
    return {
        "frames": frames,
        "streams": streams,
        "mistakes": mistakes.found[:3],
        "last_seed": seed + streams - 1,
        "longest_s": round(longest, 3),
        "growth_bytes": _resident_bytes() - before if before else 0,
        "left": left,
    }


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    print(json.dumps(asyncio.run(campaign(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))))
