# SPDX-License-Identifier: Apache-2.0
"""Two queue managers in one process with a channel between them, over a wire that can be cut at any frame."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from entrepot.channels.dialler import Dialled, GiveUp, MakeLink
from entrepot.channels.heartbeat_timer import HeartbeatTimer
from entrepot.channels.receiver import Receiver
from entrepot.channels.receivers import Receivers
from entrepot.channels.sender import SenderChannel, Status
from entrepot.engine.definitions import Channel, LocalQueue
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import ConnectFailed, EntrepotError
from entrepot.message import Message
from entrepot.server.framed_connection import FramedConnection
from entrepot.server.session_registry import Identity, SessionRegistry
from entrepot.server.wire.error_form import to_wire
from entrepot.server.wire.verbs import Failed, Verb
from hosted import Host

CHANNEL = "A.TO.B"
LOG = LogSettings(segment_bytes=1024 * 1024, primary=2, secondary=4)
DESTINATION = "Q@B"
HEAL_S = 60.0
"""Only a failing test ever waits that long."""
BEAT_S = 0.02

Direction = Literal["to receiver", "to sender"]


@dataclass
class Cut:
    """Break the connection at the `count`-th frame of a verb, before or after it has arrived."""

    verb: Verb
    count: int
    after: bool
    done: bool = False

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} {self.verb.name} {self.count}"


class Wire:
    """A connection in memory."""

    def __init__(self, loop: asyncio.AbstractEventLoop, near: Any, far: Any, on_frame: Callable[[int], str]) -> None:
        self._loop = loop
        self._on_frame = on_frame
        self.cut_off = False
        self.ends = End(self, near), End(self, far)
        self.ends[0].other, self.ends[1].other = self.ends[1], self.ends[0]
        near.connection_made(self.ends[0])
        far.connection_made(self.ends[1])

    def carry(self, frame: bytes, to: End) -> None:
        """Bring one frame to its reader, unless the test has other plans."""
        if self.cut_off:
            return
        plan = self._on_frame(frame[4])
        if plan != "cut before":
            to.read(frame)
        if plan != "go on":
            self.cut()

    def cut(self) -> None:
        if not self.cut_off:
            self.cut_off = True
            for end in self.ends:
                end.closing = True
                self._loop.call_soon(end.protocol.connection_lost, ConnectionResetError("cut"))

    def close(self) -> None:
        """An end has said all it wanted to say."""
        if not self.cut_off:
            self.cut_off = True
            for end in self.ends:
                end.closing = True
                self._loop.call_soon(end.protocol.connection_lost, None)


class End:
    """A transport, as far as links need one."""

    def __init__(self, wire: Wire, protocol: Any) -> None:
        self.wire = wire
        self.protocol = protocol
        self.other: Any = None
        self.closing = False
        self.paused = False
        self._out = b""
        self._frames: deque[bytes | None] = deque()

    def set_write_buffer_limits(self, **_: int) -> None: ...

    def get_extra_info(self, _: str) -> None:
        return None

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False
        for _ in self._frames:
            self.wire._loop.call_soon(self._deliver)

    def write(self, data: bytes) -> None:
        self._out += data
        while len(self._out) >= 4 and len(self._out) >= (size := 4 + int.from_bytes(self._out[:4], "little")):
            frame, self._out = self._out[:size], self._out[size:]
            self.other._frames.append(frame)
            self.wire._loop.call_soon(self.other._deliver)

    def writelines(self, data: list[bytes]) -> None:
        self.write(b"".join(data))

    def _deliver(self) -> None:
        if self._frames and not self.paused and not self.wire.cut_off:
            frame = self._frames.popleft()
            if frame is None:
                self.wire.close()
            else:
                self.wire.carry(frame, self)

    def read(self, frame: bytes) -> None:
        while frame and not self.closing:
            buffer = self.protocol.get_buffer(-1)
            size = min(len(buffer), len(frame))
            buffer[:size] = frame[:size]
            frame = frame[size:]
            self.protocol.buffer_updated(size)

    def close(self) -> None:
        if not self.closing:
            self.closing = True
            self.other._frames.append(None)
            self.wire._loop.call_soon(self.other._deliver)

    def abort(self) -> None:
        self.wire.cut()


class AcceptedLink(FramedConnection):
    """What the server's native protocol does with a sender that has been admitted."""

    __slots__ = ("receiver", "receivers", "session")

    def __init__(self, registry: SessionRegistry, receivers: Receivers) -> None:
        super().__init__(registry)
        self.receivers = receivers
        self.receiver: Receiver | None = None
        self.address = "test"

    def on_frame(self, verb: int, number: int, payload: Any) -> None:
        if self.receiver is not None:
            self.receiver.handle(verb, number, payload)
            return
        assert verb == Verb.CHANNEL_HELLO
        definition = self.registry.host.find("CHANNEL", payload.channel)
        assert isinstance(definition, Channel)
        identity = Identity("mca", channel=definition.name)
        try:
            self.receiver = self.receivers.accept(self, payload, definition, identity)
        except EntrepotError as error:
            self.send(Verb.FAILED, number, Failed(to_wire(error)))
            self.close()

    def on_lost(self, problem: Exception | None) -> None:
        if self.receiver is not None:
            self.receiver.lost()


def new_pair(path: Path, *, sender: dict[str, Any] | None = None, receiver: dict[str, Any] | None = None) -> None:
    """Queue managers A and B, a channel A.TO.B, and a queue Q at B."""
    for name in ("A", "B"):
        create(path / name, name=name, log=LOG)
    host = Host(path / "A")
    host.define(LocalQueue(name="B", usage="XMITQ", depth_max=100_000), replace=False)
    options: dict[str, Any] = {"short_retry_s": 1, "heartbeat_s": 1} | (sender or {})
    channel = Channel(name=CHANNEL, channel_type="SDR", connection_name="b(1414)", transmission_queue="B", **options)
    host.define(channel, replace=False)
    host.close()
    host = Host(path / "B")
    host.define(LocalQueue(name="Q", depth_max=100_000), replace=False)
    accepting = Channel(name=CHANNEL, channel_type="RCVR", **({"heartbeat_s": 1} | (receiver or {})))
    host.define(accepting, replace=False)
    host.close()


def copy_pair(template: Path, path: Path) -> Path:
    shutil.copytree(template, path)
    return path


class Pair:
    """Both queue managers, running; open it inside of an event loop."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.loop = asyncio.get_running_loop()
        self.cuts: list[Cut] = []
        self.reachable = True
        self.frames: Counter[int] = Counter()
        self.wires: list[Wire] = []
        self.a = self.b = None  # type: ignore[assignment]
        self.open_a()
        self.open_b()

    a: Host
    b: Host

    def open_a(self) -> None:
        self.a = Host(self.path / "A")
        self.desk_a = SessionRegistry(self.a)
        self.channel = self.new_channel()

    def new_channel(self, **changes: Any) -> SenderChannel:
        definition = self.a.find("CHANNEL", CHANNEL)
        assert isinstance(definition, Channel)
        return SenderChannel(
            self.desk_a,
            definition,
            open_connection=self.dial,
            heartbeat_timer=HeartbeatTimer(self.loop, BEAT_S),
            **changes,
        )

    def hasten(self, **changes: Any) -> None:
        """Let the channel live by times shorter than MQSC can say."""
        self.channel.definition = replace(self.channel.definition, **changes)

    def open_b(self) -> None:
        self.b = Host(self.path / "B")
        self.desk_b = SessionRegistry(self.b)
        self.receivers = Receivers(self.desk_b)

    def dial(self, definition: Channel, first: int, make_link: MakeLink, done: Dialled) -> GiveUp:
        wanted = True

        def connect() -> None:
            if not wanted:
                return
            if not self.reachable:
                done(None, ConnectFailed(definition.connection_name, "unreachable"))
                return
            link = make_link()
            self.wires.append(Wire(self.loop, link, AcceptedLink(self.desk_b, self.receivers), self._passes))
            done(link, None)

        def give_up() -> None:
            nonlocal wanted
            wanted = False

        self.loop.call_soon(connect)
        return give_up

    def _passes(self, verb: int) -> str:
        self.frames[verb] += 1
        for cut in self.cuts:
            if not cut.done and cut.verb == verb and cut.count == self.frames[verb]:
                cut.done = True
                return "cut after" if cut.after else "cut before"
        return "go on"

    # --- work -----------------------------------------------------------------------------------

    def put(self, *numbers: int, destination: str = DESTINATION, **options: Any) -> None:
        """Put messages at A whose bodies are their numbers, all at once."""
        options.setdefault("persistent", True)
        unit = self.a.begin()
        for number in numbers:
            self.a.put(destination, Message(b"%d" % number), unit=unit, **options)
        self.a.commit(unit)

    def got(self, queue: str = "Q") -> list[int]:
        """The numbers of what stands on a queue at B, in order."""
        return [int(message.body) for message in self.b.browse(queue, None, None, 1_000_000)[0]]

    def depth(self, queue: str = "B") -> int:
        return int(self.a.queue_status(queue)["CURDEPTH"])

    async def until(
        self, condition: Callable[[], Any], what: str = "", within_s: float = HEAL_S, every_s: float = 0.001
    ) -> None:
        deadline = self.loop.time() + within_s
        while not condition():
            if self.loop.time() > deadline:
                found = f"status {self.channel.status()}, at B {self.got()[-5:]}, in doubt {self.a.in_doubt()}"
                raise AssertionError(f"not within {within_s} s: {what}; {found}")
            await asyncio.sleep(every_s)

    async def delivered(self, count: int, within_s: float = HEAL_S) -> None:
        """Wait until everything is at B and nothing is left at A, in doubt or not."""

        def is_done() -> bool:
            settled = self.channel.ledger.is_settled and not self.a.in_doubt()
            return settled and len(self.got()) >= count and self.depth() == 0

        await self.until(is_done, f"{count} messages delivered", within_s)

    async def delivered_any(self) -> None:
        await self.until(lambda: self.b.queue_status("Q")["CURDEPTH"] and self.depth() == 0, "something delivered")

    async def stopped(self, state: Status = Status.STOPPED) -> None:
        # In every turn of the loop: RETRYING may end after 0.1 s, and who sleeps meanwhile can miss it.
        await self.until(lambda: self.channel.state is state, str(state), every_s=0)

    def close(self) -> None:
        self.channel.stop(force=True)
        self.desk_a.close()
        self.desk_b.close()
        self.a.close()
        self.b.close()

    async def crash(self, end: Literal["a", "b"]) -> None:
        """Let a queue manager go on as it would after SIGKILL and restart, from the files as they are now."""
        for wire in self.wires:
            wire.cut()
        host: Host = getattr(self, end)
        name = end.upper()
        copy = self.path / f"{name}.copy"
        shutil.copytree(self.path / name, copy)
        self.channel.stop(force=True, inactive=True)
        await asyncio.sleep(0.01)
        host.close()
        shutil.rmtree(self.path / name)
        copy.rename(self.path / name)
        if end == "a":
            self.open_a()
        else:
            self.open_b()


def run(path: Path, work: Callable[[Pair], Awaitable[Any]]) -> None:
    """Open a pair, do something with it on an event loop, and close it."""

    async def main() -> None:
        pair = Pair(path)
        try:
            await work(pair)
        finally:
            pair.close()

    asyncio.run(main())
