# SPDX-License-Identifier: Apache-2.0
"""Frames that are nearly right, for the compiled parsers of a server, a client and the log (src/entrepot/compiled).

    PYTHONPATH=tests python -m fuzz.frames --runs 10000000 --sanitized     `make torture` does this
    PYTHONPATH=tests python -m fuzz.frames --runs 100000                   without AddressSanitizer
    PYTHONPATH=tests python -m fuzz.frames FILE                            one input once more, as a finding tells

atheris sees nothing of compiled code, so frames are changed at random, from
seeds. What the parser takes must be what msgspec and the message checks
take too; what it answers, delivers and leaves on queues must be readable. A
server hears puts, publications and credit; other_readers.py has a client that
hears its answers, and the restart that reads records of the log.
With `--sanitized` (see sanitized.py) the byte behind the last frame is
poisoned: a parser that reads it ends the process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import mmap
import random
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entrepot.compiled import compiled
from entrepot.errors import EntrepotError, ProtocolError
from entrepot.message import Message, MessageType
from entrepot.server import message_checks
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import decode_asked, encode
from entrepot.server.wire.frame import HEAD, HEAD_BYTES
from entrepot.server.wire.verbs import Verb
from unit.server.guests import Guest, House

from . import other_readers
from .finding import Finding
from .running_loop import RunningHouse, stop_all

FRAMES_OF_A_VISIT = 2000
FRAMES_BETWEEN_TURNS = 100
"""Then the loop turns: what was put for the log is forced and answered, and queues are emptied."""
FRAME_BYTES_MAX = 100 * 1024
MEMORY_BYTES = 4 * (FRAME_BYTES_MAX + 1024)
QUEUES = """
DEFINE QLOCAL(STANDING) REPLACE
DEFINE QLOCAL(DURABLE) DEFPSIST(YES) REPLACE
DEFINE QLOCAL(SHORT) MAXMSGL(20) MAXDEPTH(3) REPLACE
DEFINE QALIAS(ALIAS) TARGET(STANDING) REPLACE
DEFINE QLOCAL(PRICES.READ) REPLACE
DEFINE QLOCAL(PRICES.KEPT) REPLACE
DEFINE SUB('READ') TOPICSTR('prices/eu') DEST(PRICES.READ) REPLACE
DEFINE SUB('KEPT') TOPICSTR('prices/eu') DEST(PRICES.KEPT) REPLACE
DEFINE SUB('ALL') TOPICSTR('prices/#') DEST(STANDING) REPLACE
"""
_ANSWERED = (Verb.GET, Verb.REQUEST)
NAMES = ("R", "STANDING", "DURABLE", "SHORT", "ALIAS", "Q")
TOPICS = ("topic:prices/eu", "topic:prices/us")
EMPTIED = (*NAMES, "PRICES.READ", "PRICES.KEPT")
CONSUMED = {1: "Q", 2: "DURABLE", 3: "PRICES.READ"}

_TELLING = bytes((0, 1, 0x7F, 0x80, 0x90, 0x91, 0x94, 0x9F, 0xA0, 0xA1, 0xBF, 0xC0, 0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xCB))
_TELLING += bytes((0xCC, 0xCD, 0xCE, 0xCF, 0xD9, 0xDA, 0xDC, 0xDD, 0xE0, 0xFF))
"""Bytes that mean something to MessagePack."""


READERS = ("server", "client", "log")
_PAGES = ("server", "client", "server", "log")
_LENGTH = struct.Struct("<I")
ENDS_IN_COUNT = HEAD.pack(HEAD_BYTES, Verb.PUT_MANY, 0) + b"\x92\x00\xdc\x00"
"""Ends within the count of its puts, whose second byte was once read all the same."""


# --- frames that are right ------------------------------------------------------------------------


def _messages() -> list[Message]:
    return [
        Message(b""),
        Message(b"body", b"m" * 24),
        Message(b"b" * 40, b"m1", type=MessageType.REQUEST, reply_to="R", expiry_s=30.0),
        Message(b"b", b"", b"m1", type=MessageType.REPLY),
        Message(b"b" * 300, b"i" * 128, b"c" * 128, reply_to="Q" * 48),
        Message(b"b", properties={"k": 1}),
        Message(b"b", user="somebody", application="something"),
        Message(b"b", group_id=b"g", sequence=2),
    ]


def samples() -> list[bytes]:
    """Payloads behind their verb: each verb that the lane knows in every form that it knows."""
    found: list[tuple[Verb, Any]] = []
    messages = _messages()
    for message in messages:
        for queue in ("Q", "STANDING", "DURABLE"):
            for persistent in (None, False, True):
                found += [(Verb.PUT, verbs.Put(queue, 0, persistent, None, 0.0, message))]
        found.append((Verb.PUT, verbs.Put("R", 0, False, 7, 0.0, message)))
        found.append((Verb.PUT, verbs.Put("SHORT", 0, None, 9, 0.0, message)))
        found.append((Verb.PUT, verbs.Put("ALIAS", 1, None, 0, 1.0, message)))
        found += [(Verb.REQUEST, verbs.Request("Q", "R", 30.0, False, None, message))] * 3
        found.append((Verb.REQUEST, verbs.Request("STANDING", "R", 0.5, None, 3, message)))
    found.append((Verb.PUT, verbs.Put("STANDING", 0, False, None, 0.0, Message(b"b" * 70_000))))
    for unit in (0, 1, 2, 300):
        for size in (1, 2, 17):
            puts = [
                (("Q", "STANDING", "DURABLE")[n % 3], (None, False, True)[n % 3], None, messages[n % 5])
                for n in range(size)
            ]
            found.append((Verb.PUT_MANY, verbs.PutMany(unit, puts)))
            found.append((Verb.PUT_MANY, verbs.PutMany(unit, [("STANDING", True, 4, messages[1])] * size)))
        found += [(Verb.COMMIT, verbs.Commit(unit))] * 4
    for topic in TOPICS:
        for message in messages[:4]:
            for persistent in (None, False, True):
                found.append((Verb.PUT, verbs.Put(topic, 0, persistent, None, 0.0, message)))
        for size in (1, 3, 17):
            found += [
                (Verb.PUT_MANY, verbs.PutMany(0, [(topic, False, None, messages[n % 2]) for n in range(size)]))
            ] * 3
        found.append((Verb.PUT_MANY, verbs.PutMany(0, [(topic, False, 4, messages[1]), ("Q", False, 4, messages[1])])))
    for queue in NAMES:
        found += [(Verb.GET, verbs.Get(queue)), (Verb.GET, verbs.Get(queue, 0, 0.5))] * 2
    for used, more in ((0, 1), (1, 1), (3, 100), (200, 50), (70_000, 100_000)):
        found += [(Verb.CREDIT, verbs.Credit(1, used, more))] * 4
        found += [(Verb.CREDIT, verbs.Credit(consumer, used, more)) for consumer in (2, 3, 4)]
    return [encode(verb, 0, payload) for verb, payload in found] + [ENDS_IN_COUNT] * 4


def plain_put() -> bytes:
    """A frame that is right: its last byte has to be looked at."""
    return encode(Verb.PUT, 0, verbs.Put("STANDING", 0, False, None, 0.0, Message(b"body")))


# --- changing them --------------------------------------------------------------------------------


class Changing:
    """Frames that are right, nearly right, or wrong; the same for the same seed."""

    def __init__(self, seed: int, frames: list[bytes]) -> None:
        self._random = random.Random(seed)
        self._frames = frames

    def together(self, frames: list[bytes] | None = None) -> list[bytearray]:
        """Frames that come together; most come alone, so that all their bytes are looked at."""
        many = (1, 1, 1, 1, 1, 1, 2, 4)[self._random.getrandbits(3)]
        return [self.frame(frames or self._frames) for _ in range(many)]

    def frame(self, frames: list[bytes]) -> bytearray:
        """The next one, with its head; changed in place, because under a sanitizer memory is what costs time."""
        draw = self._random.getrandbits
        bits = draw(30)
        frame = bytearray(frames[(bits & 0xFFFF) % len(frames)])
        size = len(frame)
        for _ in range((0, 0, 1, 1, 1, 1, 2, 4)[bits >> 16 & 7]):
            self._change(frame, draw(30), frames)
        if len(frame) != size:
            del frame[FRAME_BYTES_MAX + 500 :]
            _LENGTH.pack_into(frame, 0, len(frame) - 4)
        bits >>= 19
        # Most frames want no answer; numbers come again, as a careless partner's would.
        if frame[4] in _ANSWERED or bits & 3 == 3:
            _LENGTH.pack_into(frame, 8, draw(16))
        if bits >> 2 & 0x3F == 0:
            _LENGTH.pack_into(frame, 0, (len(frame) - 4 + (bits >> 8) - 4) & 0xFFFFFFFF)
        return frame

    def _change(self, frame: bytearray, bits: int, frames: list[bytes]) -> None:
        kind, bits = bits & 7, bits >> 3
        # Behind the head; beginnings and ends are where the structure is.
        room = max(1, len(frame) - HEAD_BYTES)
        place = HEAD_BYTES + (bits & 0xFFFF) % (min(room, 64) if bits & 0x10000 else room)
        bits >>= 17
        if kind <= 4 and place < len(frame):
            if kind <= 2:
                frame[place] = _TELLING[bits % len(_TELLING)]
            elif kind == 3:
                frame[place] = bits & 0xFF
            else:
                frame[place] = (frame[place] + (bits & 7) - 4) & 0xFF
        elif kind == 5:
            del frame[place:]
        elif kind == 6:
            del frame[place : place + 1 + (bits & 15)]
        elif bits & 0x100:
            frame[place:place] = self._random.randbytes(1 + (bits & 15))
        else:
            other = frames[self._random.getrandbits(16) % len(frames)]
            frame[place:] = other[HEAD_BYTES + self._random.getrandbits(20) % len(other) :]


# --- what hears them ------------------------------------------------------------------------------


class Memory:
    """What the lane reads; behind its content nothing may be touched."""

    def __init__(self) -> None:
        self.content = bytearray(MEMORY_BYTES)
        self._view = memoryview(self.content)
        self._address = ctypes.addressof((ctypes.c_char * MEMORY_BYTES).from_buffer(self.content))
        self._end = MEMORY_BYTES
        program = ctypes.CDLL(None)
        self._poison: Callable[[int, int], None] = getattr(program, "__asan_poison_memory_region", _nothing)
        self._unpoison: Callable[[int, int], None] = getattr(program, "__asan_unpoison_memory_region", _nothing)
        for function in (self._poison, self._unpoison):
            if function is not _nothing:
                function.argtypes = [ctypes.c_void_p, ctypes.c_size_t]  # type: ignore[attr-defined]
                function.restype = None  # type: ignore[attr-defined]

    def fill(self, data: bytes | bytearray, hidden: int = 0) -> None:
        """Let it hold these bytes; `hidden` of them are poisoned already, which shows that a sanitizer looks."""
        end, before = len(data), self._end
        if end > before:
            self._unpoison(self._address + before, end - before)
        self._view[:end] = data
        if end - hidden < before or hidden:
            self._poison(self._address + end - hidden, max(before, end) - end + hidden)
        self._end = end - hidden

    def close(self) -> None:
        self._unpoison(self._address, MEMORY_BYTES)


def _nothing(address: int, size: int) -> None:
    del address, size


class Ear:
    """A lane of a connection; what it leaves to others is counted and forgotten."""

    def __init__(self, guest: Guest, memory: Memory, note: Callable[[bytes | bytearray], None]) -> None:
        link = guest.link
        self._memory = memory
        self._note = note
        self._left: int | None = None
        self._rests: list[bytes] = []
        self.guest = guest
        self.lane = compiled("express").FastPath(
            link, link.conversation, memory.content, FRAME_BYTES_MAX, self._leave, self._put_rest
        )

    def _leave(self, count: int, heard: int) -> None:
        del count
        self._left = heard

    def _put_rest(self, conversation: Any, payload: bytes, first: int) -> None:
        del conversation
        self._rests.append(payload)
        with contextlib.suppress(ProtocolError):  # for which the connection would be closed
            if len(decode_asked(Verb.PUT_MANY, payload).puts) <= first:
                raise Finding("there is no rest to put")

    def hear(self, frames: Sequence[bytes | bytearray]) -> tuple[int, int]:
        """Let the lane hear frames that came together; how many it has looked at, and how many of them it took."""
        data = frames[0] if len(frames) == 1 else b"".join(frames)
        self._note(data)
        self._memory.fill(data)
        self._left = None
        self.lane.buffer_updated(len(data))
        if self._left == 0:
            return 1, 0
        return self._judge(bytes(data), len(data) if self._left is None else self._left)

    def _judge(self, data: bytes, end: int) -> tuple[int, int]:
        """Read what the lane took as msgspec does."""
        at = taken = 0
        while at < end:
            length, verb, _ = HEAD.unpack_from(data, at)
            payload = data[at + HEAD_BYTES : at + 4 + length]
            if payload not in self._rests:
                require_readable(verb, payload)
            at += 4 + length
            taken += 1
        self._rests.clear()
        if at != end:
            raise Finding(f"{end} bytes were heard, which is not the end of a frame")
        return taken + (end < len(data)), taken


def require_readable(verb: int, payload: bytes) -> None:
    """What the fast path took without msgspec, msgspec and the message checks take as well."""
    try:
        asked = decode_asked(verb, payload)
        if verb in (Verb.PUT, Verb.REQUEST):
            message_checks.checked_message(asked.message, user="u", application="a")
            message_checks.priority(asked.priority)
        elif verb == Verb.PUT_MANY:
            for _, _, priority, message in asked.puts:
                message_checks.checked_message(message, user="u", application="a")
                message_checks.priority(priority)
    except EntrepotError as error:
        raise Finding(f"{Verb(verb).name} was taken: {payload!r}") from error


@dataclass
class Count:
    """What became of frames."""

    looked_at: int = 0
    taken: int = 0


class FrameHouse(RunningHouse):
    """A server with queues of several kinds."""

    async def _open(self) -> None:
        await super()._open()
        self.house.mqsc(QUEUES)


_HOUSE = FrameHouse()


def fuzz(seed: int, runs: int, last: Last | None = None) -> dict[str, Count]:
    """Let a server, a client and a restart hear so many changed frames in all; half of them are the server's.

    Raises:
        Finding: Of what should not be taken, or said.
        Exception: What the lane must not raise.
    """
    memory = Memory()
    counts = {reader: Count() for reader in READERS}
    frames = samples()
    # Who waits for replies cannot commit on the flat way, so half of the visits request nothing.
    silent = [frame for frame in frames if frame[4] != Verb.REQUEST]
    changing = Changing(seed, frames)

    def note(data: bytes | bytearray) -> None:
        if last is not None:
            last.note(data, reader, counts)

    try:
        others = {other.name: other(memory, note) for other in other_readers.READERS}
        page = 0
        while sum(count.looked_at for count in counts.values()) < runs:
            reader = _PAGES[page % len(_PAGES)]
            page += 1
            count = counts[reader]
            until = count.looked_at + min(runs, FRAMES_OF_A_VISIT)
            if reader == "server":
                said = silent if page % 4 == 1 else frames
                _HOUSE.visit(
                    lambda house, until=until, said=said: _visit(
                        house, memory, note, lambda: changing.together(said), counts["server"], until
                    )
                )
            else:
                other = others[reader]
                while count.looked_at < until:
                    looked_at, taken = other.hear(changing.together(other.samples))
                    count.looked_at += looked_at
                    count.taken += taken
    finally:
        memory.close()
    return counts


async def _visit(
    house: House,
    memory: Memory,
    note: Callable[[bytes | bytearray], None],
    next_frames: Callable[[], list[bytearray]],
    count: Count,
    until: int,
) -> None:
    guest = await _expected(house)
    ear, turn_at = Ear(guest, memory, note), count.looked_at + FRAMES_BETWEEN_TURNS
    while count.looked_at < until:
        looked_at, taken = ear.hear(next_frames())
        count.looked_at += looked_at
        count.taken += taken
        if count.looked_at >= turn_at:
            turn_at += FRAMES_BETWEEN_TURNS
            await asyncio.sleep(0)
            _empty(house)
    guest.frames()
    guest.wire.lose()


async def _expected(house: House) -> Guest:
    """A partner with consumers; all queues and topics have been put to once, so that the way to them is known."""
    guest = await house.admitted()
    for name in (*NAMES, *TOPICS):
        await guest.put(name, b"first")
    _empty(house)
    for consumer, name in CONSUMED.items():
        await guest.ask(Verb.CONSUME, 2, verbs.Consume(name, consumer, 100, together=consumer != 2))
    return guest


def _empty(house: House) -> None:
    """Read and remove what stands on the queues: a parser that never finds room would do nothing."""
    for name in EMPTIED:
        queue = house.host.manager.objects.queues.get(name)
        if queue is not None and queue.depth:
            with house.host.lock:
                found = [entry.message for entry in queue.after(None)]
            if not all(isinstance(message, Message) for message in found):
                raise Finding(f"{name} holds what is no message")
            with contextlib.suppress(EntrepotError):  # units of work hold some of it
                house.host.clear(name)


# --- one input once more --------------------------------------------------------------------------


def run_once(data: bytes, hidden: int = 0, reader: str = "server") -> None:
    """Let a server, or another reader, hear bytes that came together."""
    memory = Memory()
    for other in other_readers.READERS:
        if other.name == reader:
            try:
                other(memory, lambda _: None).hear_bytes(data, hidden)
            finally:
                memory.close()
            return

    async def visit(house: House) -> None:
        guest = await _expected(house)
        ear = Ear(guest, memory, lambda _: None)
        memory.fill(data, hidden)
        ear.lane.buffer_updated(len(data))
        guest.wire.lose()

    try:
        _HOUSE.visit(visit)
    finally:
        memory.close()


class Last:
    """A file with the last input and what was counted so far, which a process that is ended leaves behind."""

    _HEAD = struct.Struct("<II")
    _COUNT = struct.Struct("<QQ")
    _BEFORE = _HEAD.size + _COUNT.size * len(READERS)

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(self._BEFORE + MEMORY_BYTES))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)

    def note(self, data: bytes | bytearray, reader: str, counts: dict[str, Count]) -> None:
        count = counts[reader]
        place = READERS.index(reader)
        self._HEAD.pack_into(self._map, 0, place, len(data))
        self._COUNT.pack_into(self._map, self._HEAD.size + self._COUNT.size * place, count.looked_at, count.taken)
        self._map[self._BEFORE : self._BEFORE + len(data)] = data

    @classmethod
    def read(cls, path: Path) -> tuple[bytes, str, dict[str, Count]]:
        """The last input, who heard it, and what became of those before."""
        content = path.read_bytes()
        place, size = cls._HEAD.unpack_from(content)
        counts = cls._COUNT.iter_unpack(content[cls._HEAD.size : cls._BEFORE])
        return (
            content[cls._BEFORE : cls._BEFORE + size],
            READERS[place],
            {reader: Count(*count) for reader, count in zip(READERS, counts, strict=True)},
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz.frames")
    parser.add_argument("--runs", type=int, default=100_000, help="frames in all")
    parser.add_argument("--seed", type=int, default=1, help="of the first process; the next ones count on")
    parser.add_argument("--processes", type=int, default=0, help="one for each processor unless given")
    parser.add_argument("--sanitized", action="store_true", help="build the compiled modules with AddressSanitizer")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--reader", choices=READERS, default="server", help="who hears FILE")
    parser.add_argument("--hidden", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("file", nargs="?", type=Path)
    asked = parser.parse_args()
    if asked.inside is not None:
        try:
            counts = fuzz(asked.seed, asked.runs, Last(asked.inside))
        finally:
            stop_all()
        print(*(f"{count.looked_at} {count.taken}" for count in counts.values()))
        return 0
    if asked.file is not None and not asked.sanitized:
        run_once(asked.file.read_bytes(), asked.hidden, asked.reader)
        print(f"{asked.file} is heard")
        return 0
    from . import sanitized

    return sanitized.campaign(
        asked.seed, asked.runs, asked.processes, sanitize=asked.sanitized, file=asked.file, reader=asked.reader
    )


if __name__ == "__main__":
    sys.exit(main())
