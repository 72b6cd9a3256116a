# SPDX-License-Identifier: Apache-2.0
"""How long the way of a verb is: calls, files and rooms that it passes at a server, and processor time.

    .venv/bin/python bench/short_path.py            # the table
    .venv/bin/python bench/short_path.py --profile roundtrip

Frames reach real links through transports in memory, so sockets and the
kernel are left out: what is counted is our own code.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import os
import pstats
import re
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import uvloop

import entrepot
from entrepot.compiled import form
from entrepot.engine.folder import create
from entrepot.message import Message, MessageType
from entrepot.server.admission import Admission
from entrepot.server.connection_limiter import ConnectionLimiter
from entrepot.server.mqsc import require_ok, run_script
from entrepot.server.native_connection import NativeConnection
from entrepot.server.security.authority import Authority
from entrepot.server.security.users import Users
from entrepot.server.served_host import ServedHost
from entrepot.server.session_registry import SessionRegistry
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import decode, encode
from entrepot.server.wire.frame import VERSION, FrameReader
from entrepot.server.wire.verbs import MAGIC, Verb

SOURCE = Path(entrepot.__file__).parent
ROUNDS = 3000
BODY = os.urandom(2048)


class Wire:
    """A transport in memory that keeps what was written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.protocol: Any = None

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            credentials = struct.pack("iII", os.getpid(), os.getuid(), 0)
            return SimpleNamespace(family=socket.AF_UNIX, getsockopt=lambda *_: credentials)
        return default

    def set_write_buffer_limits(self, high: int) -> None:
        del high

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.written += parts

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    abort = close


class Partner:
    """A client's end of a link, without a client."""

    def __init__(self, link: NativeConnection) -> None:
        self.link = link
        self.wire = Wire()
        link.connection_made(self.wire)
        self.say(encode(Verb.HELLO, 1, verbs.Hello(MAGIC, VERSION, "", "", "", "bench", "")))

    def say(self, data: bytes) -> None:
        while data:
            protocol = self.wire.protocol or self.link
            buffer = protocol.get_buffer(-1)
            count = min(len(data), len(buffer))
            buffer[:count] = data[:count]
            protocol.buffer_updated(count)
            data = data[count:]

    def heard(self) -> list[tuple[int, int, Any]]:
        data = b"".join(self.wire.written)
        self.wire.written.clear()
        reader = FrameReader(memoryview(bytearray(max(len(data), 1))), 2**31)
        reader.buffer()[: len(data)] = data
        return [(verb, number, decode(verb, view)) for verb, number, view in reader.frames(len(data))]


class Bench:
    """A queue manager with two partners."""

    def __init__(self, path: Path) -> None:
        create(path, name="QM1")
        self.host = ServedHost(path)
        script = "DEFINE QLOCAL(RQ) MAXDEPTH(999999)\nDEFINE QLOCAL(REPLIES) MAXDEPTH(999999)"
        require_ok(run_script(script, self.host, "-"))
        authority = Authority()
        self.registry = SessionRegistry(self.host, authority)
        admission = Admission(self.host, Users.load(path), authority, lambda *_, **__: None)
        gate = ConnectionLimiter(100, 100)
        self.asker, self.server = (Partner(NativeConnection(self.registry, admission, gate)) for _ in range(2))
        self._number = 1
        self._served = 0

    async def open(self) -> None:
        """The second partner consumes the queue."""
        self.server.say(encode(Verb.CONSUME, 2, verbs.Consume("RQ", 1, 100, together=True)))
        await asyncio.sleep(0)
        self.asker.heard()
        self.server.heard()

    def _next(self) -> int:
        self._number += 1
        return self._number

    def request(self) -> bytes:
        message = Message(BODY, type=MessageType.REQUEST, expiry_s=30.0, reply_to="REPLIES")
        return encode(Verb.REQUEST, self._next(), verbs.Request("RQ", "REPLIES", 30.0, False, None, message))

    def reply(self, request: Message) -> bytes:
        message = Message(BODY, b"i" * 20 + self._next().to_bytes(4, "big"), request.message_id, type=MessageType.REPLY)
        return encode(Verb.PUT, 0, verbs.Put("REPLIES", 0, False, 0, 0.0, message))

    def credit(self) -> bytes:
        self._served += 1
        return encode(Verb.CREDIT, 0, verbs.Credit(1, self._served, 1))

    # --- what is measured: each makes its frames first, and yields around the work itself -----------

    def roundtrip(self, work: Callable[[Partner, bytes], None]) -> None:
        """A request, its delivery, its reply and the credit for it."""
        work(self.asker, self.request())
        [(verb, _, delivery)] = self.server.heard()
        assert verb == Verb.DELIVERY
        work(self.server, self.reply(delivery.message))
        work(self.server, self.credit())
        [(verb, _, answer)] = self.asker.heard()
        assert verb == Verb.MESSAGE, answer

    def one_way(self, work: Callable[[Partner, bytes], None]) -> None:
        """A put that wants no answer, its delivery and the credit for it."""
        message = Message(BODY[:1024], b"i" * 20 + self._next().to_bytes(4, "big"))
        work(self.asker, encode(Verb.PUT, 0, verbs.Put("RQ", 0, False, None, 0.0, message)))
        [(verb, _, _)] = self.server.heard()
        assert verb == Verb.DELIVERY
        work(self.server, self.credit())

    def put(self, work: Callable[[Partner, bytes], None]) -> None:
        """A put that is answered, and a get."""
        message = Message(BODY[:1024], b"i" * 20 + self._next().to_bytes(4, "big"))
        work(self.asker, encode(Verb.PUT, self._next(), verbs.Put("REPLIES", 0, False, None, 0.0, message)))

    def get(self, work: Callable[[Partner, bytes], None]) -> None:
        """A get of what `put` has left."""
        work(self.asker, encode(Verb.GET, self._next(), verbs.Get("REPLIES")))
        verb, _, answer = self.asker.heard()[-1]
        assert verb == Verb.MESSAGE, answer
        assert answer.message is not None


class Way:
    """Calls, files and changes of room that a piece of work makes, by the interpreter's own account."""

    def __init__(self) -> None:
        self.calls = 0
        self.files: set[str] = set()
        self.rooms = 0
        self._room = ""

    def _count(self, frame: Any, event: str, _: object) -> None:
        if event != "call":
            return
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(SOURCE):
            return
        self.calls += 1
        self.files.add(path.name)
        room = path.relative_to(SOURCE).parts[0]
        if room != self._room:
            self.rooms += 1
            self._room = room

    def work(self, partner: Partner, data: bytes) -> None:
        sys.setprofile(self._count)
        try:
            partner.say(data)
        finally:
            sys.setprofile(None)


class Time:
    """Processor time of the work alone."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def work(self, partner: Partner, data: bytes) -> None:
        begun = time.process_time_ns()
        partner.say(data)
        self.seconds += (time.process_time_ns() - begun) / 1e9


class Units:
    """Persistent messages in units of work of a hundred, and the force that each needs."""

    MESSAGES = 100

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def frames(self) -> bytes:
        number = self._bench._next()
        puts = [("REPLIES", True, None, Message(BODY[:1024], os.urandom(24))) for _ in range(self.MESSAGES)]
        halves = (puts[: self.MESSAGES // 2], puts[self.MESSAGES // 2 :])
        data = b"".join(encode(Verb.PUT_MANY, 0, verbs.PutMany(number, half)) for half in halves)
        return data + encode(Verb.COMMIT, self._bench._next(), verbs.Commit(number))

    def commit(self, data: bytes) -> float:
        """Processor time a message."""
        begun = time.process_time_ns()
        self._bench.asker.say(data)
        self._bench.host.force_here()
        self._bench.registry.engine.drain()
        spent_s = (time.process_time_ns() - begun) / 1e9
        [(verb, _, answer)] = self._bench.asker.heard()
        assert verb == Verb.DONE, answer
        return spent_s / self.MESSAGES


def places_of_a_verb() -> tuple[int, list[str]]:
    """In how many files a verb is named at most, of those that are written by hand, and which verbs these are."""
    texts = [path.read_text() for path in SOURCE.rglob("*.py") if "blocking" not in path.parts]
    counts = {
        Verb(verb).name: sum(bool(re.search(rf"\bVerb\.{Verb(verb).name}\b", text)) for text in texts)
        for verb in verbs.ASKED
    }
    most = max(counts.values())
    return most, [name for name, count in counts.items() if count == most]


CASES = ("roundtrip", "one_way", "put", "get")


async def measure(profiled: str, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder, "qm"))
        await bench.open()
        if profiled:
            profile = cProfile.Profile()
            case = getattr(bench, profiled)
            for _ in range(rounds):
                case(lambda partner, data: profile.runcall(partner.say, data))
            pstats.Stats(profile).sort_stats("tottime").print_stats(35)
            return
        print(f"the {form()} form")
        print(f"{'':12} {'calls':>6} {'files':>6} {'rooms':>6} {'µs':>8}")
        for name in CASES:
            case = getattr(bench, name)
            before = bench.put if name == "get" else None
            for _ in range(200):
                if before:
                    before(Time().work)
                case(Time().work)
            way = Way()
            if before:
                before(Time().work)
            case(way.work)
            best = float("inf")
            for _ in range(10):
                clock = Time()
                for _ in range(rounds // 10):
                    if before:
                        before(Time().work)
                    case(clock.work)
                best = min(best, clock.seconds / (rounds // 10))
                await asyncio.sleep(0)
            print(f"{name:12} {way.calls:6} {len(way.files):6} {way.rooms:6} {best * 1e6:8.1f}")
            if name == "put":
                while any(answer.message for verb, _, answer in _drained(bench) if verb == Verb.MESSAGE):
                    pass
        units = Units(bench)
        spent_s = []
        for _ in range(100):
            spent_s.append(units.commit(units.frames()))
            await asyncio.sleep(0)
        print(f"{'unit of 100':12} {'':20} {min(spent_s) * 1e6:8.1f} a message, the disk's part included")
        count, names = places_of_a_verb()
        print(f"a verb is named in {count} files at most ({', '.join(names)})")
        bench.host.close()


def _drained(bench: Bench) -> list[tuple[int, int, Any]]:
    for _ in range(100):
        bench.asker.say(encode(Verb.GET, bench._next(), verbs.Get("REPLIES")))
    return bench.asker.heard()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=CASES, default="")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    uvloop.run(measure(options.profile, options.rounds))


if __name__ == "__main__":
    main()
