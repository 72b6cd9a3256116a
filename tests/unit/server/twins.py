# SPDX-License-Identifier: Apache-2.0
"""Two houses that hear the same: the links of one have the compiled lane, those of the other have none.

A script is a list of steps. Each is said to both houses; `Twins` compares
what their guests hear after each step, and then all that is left: queues,
readers, units of work, quotas, the log, and what a restart finds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from entrepot.compiled import compiled
from entrepot.engine.memory_disk import MemoryDisk, MemoryFile
from entrepot.engine.recovery_log.group import Group
from entrepot.engine.recovery_log.reader import LogReader
from entrepot.engine.recovery_log.record import FORMAT_VERSION, CommitRecord, PutRecord, RemoveRecord, TakenRecord
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.engine.restart import lay_out, restart
from entrepot.engine.settings import ManagerSettings
from entrepot.engine.waiting import StandingWaiter
from entrepot.message import Message
from entrepot.server import native_connection
from entrepot.server.security.users import ADMINISTRATORS
from entrepot.server.session_registry import Identity
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.verbs import Verb
from entrepot.testing import VirtualClock
from entrepot.testing.faults import PlannedFaults
from hosted import Host

from .guests import Guest, House, greeting

IS_COMPILED = compiled("express") is not None
WHY_NOT = "the lane is not compiled here"

MANAGER_ID = bytes(range(12))
USERS = ("", "", "ann")
"""Who the guests are; the first two may do everything."""

DEFINED = """
DEFINE QLOCAL(Q)
DEFINE QLOCAL(R)
DEFINE QLOCAL(FIFO) MSGDLVSQ(FIFO) DEFPRTY(3)
DEFINE QLOCAL(SMALL) MAXDEPTH(3)
DEFINE QALIAS(ALIAS) TARGET(SMALL) DEFPSIST(YES) DEFPRTY(2)
DEFINE QLOCAL(SHORT) MAXMSGL(100)
DEFINE QLOCAL(SHUT) PUT(DISABLED)
DEFINE QLOCAL(MUTE) GET(DISABLED)
DEFINE QLOCAL(COPY)
DEFINE QLOCAL(STREAMED) STREAMQ(COPY)
DEFINE QLOCAL(INIT)
DEFINE PROCESS(PROG) APPLICID('prog')
DEFINE QLOCAL(TRIG) TRIGGER TRIGTYPE(EVERY) PROCESS(PROG) INITQ(INIT)
DEFINE QLOCAL(LASTING) DEFPSIST(YES)
DEFINE QLOCAL(FAILED) BOTHRESH(2) BOQNAME(COPY)
DEFINE QLOCAL(TIGHT) BUFFER(3000)
DEFINE QLOCAL(XMIT) USAGE(XMITQ)
DEFINE QREMOTE(FAR) RNAME(Q) RQMNAME(QM2) XMITQ(XMIT)
DEFINE QMODEL(TEMPORARY) DEFTYPE(TEMPDYN)
DEFINE NAMELIST(LIST) NAMES(Q,R)
DEFINE CHANNEL(APP) CHLTYPE(SVRCONN)
SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT)
SET AUTHREC OBJTYPE(QUEUE) PROFILE(Q) PRINCIPAL('ann') AUTHADD(PUT,GET)
SET AUTHREC OBJTYPE(QUEUE) PROFILE(R) PRINCIPAL('ann') AUTHADD(GET)
SET AUTHREC OBJTYPE(QUEUE) PROFILE(SMALL) PRINCIPAL('ann') AUTHADD(PUT)
SET AUTHREC OBJTYPE(QUEUE) PROFILE(TEMPORARY) PRINCIPAL('ann') AUTHADD(GET)
"""
QUEUES = ("Q", "R", "FIFO", "SMALL", "SHORT", "SHUT", "MUTE", "COPY", "STREAMED", "INIT", "TRIG", "LASTING", "FAILED",
          "TIGHT", "XMIT")  # fmt: skip


class _File(MemoryFile):
    __slots__ = ("_disk", "_path")

    def __init__(self, disk: Disk, path: str, contents: bytearray, lock: Any) -> None:
        super().__init__(contents, lock)
        self._disk = disk
        self._path = path

    def write(self, offset: int, buffers: Any) -> None:
        allowed = self._disk.faults.before("write", self._path, sum(map(len, buffers)))
        assert allowed is None, "these faults raise"
        super().write(offset, buffers)

    def force(self) -> None:
        self._disk.faults.before("force", self._path, 0)


class Disk(MemoryDisk):
    """A disk in memory that can be copied, and fails where it shall."""

    def __init__(self, files: dict[str, bytearray], folders: set[str]) -> None:
        super().__init__("twin")
        self._files = {path: bytearray(contents) for path, contents in files.items()}
        self._folders = set(folders)
        self.faults = PlannedFaults()

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        super().open(path, create=create)
        return _File(self, path, self._files[path], self._lock)

    def copy(self) -> Disk:
        with self._lock:
            return Disk(self._files, self._folders)


class SteadyHost(Host):
    """A host whose work all happens on the loop: its housekeeper naps, and a force is always short."""

    force_s = property(lambda _: 0.0, lambda *_: None)  # type: ignore[assignment]

    def _nap_s(self) -> float:
        return 0.25 if self._closed else 3600.0

    def wake_housekeeper(self) -> None:
        pass


def settings(log: LogSettings) -> ManagerSettings:
    return ManagerSettings(name="QM1", manager_id=MANAGER_ID, format_version=FORMAT_VERSION, created=0.0, log=log)


ROOMY = LogSettings(segment_bytes=512 * 1024, primary=3, secondary=9, checkpoint_bytes=2**40)
_founded: dict[Any, Disk] = {}


def founded(path: Path, log: LogSettings) -> Disk:
    """A disk with all definitions on it."""
    key = msgspec.json.encode(log)
    if key not in _founded:
        disk = Disk({}, {"."})
        lay_out(disk, VirtualClock(), settings(log))

        async def define() -> None:
            host = SteadyHost(path, disk=disk, clock=VirtualClock(), settings=settings(log))
            house = House(host)
            house.mqsc(DEFINED)
            await house.leave()
            host.close()

        asyncio.run(define())
        _founded[key] = disk
    return _founded[key].copy()


class Twin:
    """One of the two houses, and who is in it."""

    def __init__(self, path: Path, disk: Disk, log: LogSettings, *, lane: bool) -> None:
        self.disk = disk
        self.lane = lane
        self.clock = VirtualClock()
        self.settings = settings(log)
        self.host = SteadyHost(path, disk=disk, clock=self.clock, settings=self.settings)
        self.house = House(self.host)
        self.house.admission.refresh()
        self.house.registry.authority_epoch += 1
        self.house.admission._identify = self._identify  # type: ignore[method-assign]
        self.guests: list[Guest | None] = [None] * len(USERS)
        self.heard: list[list[tuple[int, int, Any]]] = [[] for _ in USERS]
        """What the present guests have said, as far as it was not compared yet."""
        self.numbers = [0] * len(USERS)
        self.delivered: list[list[Message]] = [[] for _ in USERS]
        """What each guest has been given, to be replied to."""
        self.general: list[Verb] = []
        """Frames that the general way has heard."""

    @staticmethod
    async def _identify(_caller: Any, _kind: str, channel: str, user: str, _password: str) -> Identity:
        if user:
            return Identity(user, frozenset({"clerks"}), "127.0.0.1", channel)
        return Identity("boss", frozenset({ADMINISTRATORS}), "unix", "", administrator=True)

    @property
    def manager(self) -> Any:
        return self.host.manager

    @property
    def is_unforced(self) -> bool:
        return self.manager.failure is None and self.manager.group_commit.newest is not None

    async def guest(self, index: int) -> Guest:
        found = self.guests[index]
        if found is None or found.wire.closing:
            user = USERS[index]
            hello = {"channel": "APP", "user": user, "password": "?"} if user else {}
            with mock.patch.object(native_connection, "_express", native_connection._express if self.lane else None):
                found = self.house.guest(uid=None if user else -1)
                await found.ask(Verb.HELLO, 1, greeting(application=f"guest {index}", **hello))
            assert (found.link._lane is not None) == self.lane
            assert found.link.conversation is not None
            found.link._end = _Counted(found.link.conversation, self.general)  # type: ignore[assignment]
            session = found.link.conversation.session
            session.consumers, session.units, session.leases = _InOrder(), _InOrder(), _InOrder()
            self.guests[index] = found
            self.delivered[index] = []
        return found

    def streams(self, index: int) -> dict[int, Any]:
        guest = self.guests[index]
        if guest is None or guest.link.conversation is None:
            return {}
        return guest.link.conversation.consumers._streams

    # --- what is there --------------------------------------------------------------------------

    def listen(self) -> list[list[tuple[int, int, Any]]]:
        """What the guests have heard since the last time; deliveries that came together, one by one."""
        heard: list[list[tuple[int, int, Any]]] = []
        for index, guest in enumerate(self.guests):
            said: list[tuple[int, int, Any]] = []
            if guest is not None:
                for verb, number, payload in guest.frames():
                    if verb == Verb.DELIVERIES:
                        said += [
                            (
                                Verb.DELIVERY,
                                0,
                                verbs.DeliveryPayload(payload.consumer, payload.delivery + place, message),
                            )
                            for place, message in enumerate(payload.messages)
                        ]
                    elif verb == Verb.MESSAGES and payload.place is not None:
                        priority, key = payload.place
                        said.append((int(verb), number, (payload.messages, priority, _Key(key))))
                    else:
                        said.append((int(verb), number, payload))
                guest.heard.clear()
            for verb, _, payload in said:
                message = getattr(payload, "message", None)
                if verb in (Verb.DELIVERY, Verb.MESSAGE) and message is not None:
                    self.delivered[index].append(message)
            heard.append(said)
        return heard

    def state(self) -> Any:
        """All that is there but the messages, which to look at would change them."""
        manager = self.manager
        queues = {}
        for name, queue in sorted(manager.objects.queues.items()):
            queues[name] = {
                "depth": queue.depth,
                "reserved": queue.reserved,
                "uncommitted_gets": queue.uncommitted_gets,
                "available": queue.available,
                "memory_bytes": queue.memory_bytes,
                "runs": queue.run_count,
                "back": [len(lane._back) for lane in queue._order],
                "any": [
                    ("standing", waiter.credit) if isinstance(waiter, StandingWaiter) else "get"
                    for waiter in queue.waiters.any.values()
                ],
                "replies": [
                    (correlation_id, len(shelf)) for correlation_id, shelf in queue.waiters.by_correlation.items()
                ],
                "by correlation id": [(key, len(found)) for key, found in queue._by_correlation_id.items() if found],
            }
        guests = []
        for index, guest in enumerate(self.guests):
            conversation = None if guest is None else guest.link.conversation
            if guest is None or conversation is None:
                guests.append(None)
                continue
            session = conversation.session
            guests.append(
                {
                    "closed": (guest.link.closed, guest.wire.closing, session.closed, session.fenced is not None),
                    "units": {number: _unit(unit) for number, unit in sorted(conversation._units.items())},
                    "open units": len(session.units),
                    "errors": {unit: type(error).__name__ for unit, error in sorted(conversation._errors.items())},
                    "outstanding": (conversation._outstanding, conversation._syncing),
                    "asked": sorted(conversation._asked),
                    "leases": (sorted(conversation._leases), len(session.leases)),
                    "waiting": (len(session.waiting), session._waiting_held, len(session.consumers)),
                    "blocked": (session.blocked, guest.link._held is not None, guest.unsent_bytes),
                    "streams": {number: _stream(stream) for number, stream in sorted(self.streams(index).items())},
                }
            )
        quotas = manager.quotas
        return {
            "queues": queues,
            "guests": guests,
            "young": len(manager.young),
            "quotas": {f"{quota.what} of {user}": found.held for (quota, user), found in quotas._accounts.items()},
            "totals": {quota.what: held for quota, held in quotas._totals.items()},
            "failure": type(manager.failure).__name__,
            "escaped": [str(each.get("exception")) for each in self.house.escaped],
        }

    def messages(self) -> dict[str, list[Message]]:
        return messages_of(self.manager)

    def records(self) -> list[Any]:
        """The log, but for groups and what a unit's number is."""
        return list(self._records())

    def _records(self) -> Any:
        units: dict[int, int] = {0: 0}

        def unit(number: int) -> int:
            return units.setdefault(number, len(units))

        log = self.manager.log
        for _, record in LogReader(self.disk, self.settings.log, MANAGER_ID).records(log.needed_position):
            if isinstance(record, Group | TakenRecord):
                continue
            if isinstance(record, PutRecord):
                for queue, key, message in record.arrivals():
                    yield ("put", unit(record.unit), queue, _Key(key), message)
            elif isinstance(record, RemoveRecord):
                yield ("remove", unit(record.unit), [_Key(key) for key in record.keys])
            elif isinstance(record, CommitRecord):
                yield ("commit", unit(record.unit))
            else:
                yield (type(record).__name__, record)

    def survivors(self) -> Any:
        """What a restart finds, were the process killed now."""
        disk = self.disk.copy()
        manager = restart(disk, self.clock, self.settings).manager
        return messages_of(manager), {name: queue.depth for name, queue in manager.objects.queues.items()}


class _Counted:
    """A conversation whose frames are counted."""

    def __init__(self, conversation: Any, general: list[Verb]) -> None:
        self._conversation = conversation
        self._general = general

    def handle(self, verb: int, number: int, payload: Any) -> None:
        self._general.append(Verb(verb))
        self._conversation.handle(verb, number, payload)

    def lost(self) -> None:
        self._conversation.lost()


class _InOrder(set[Any]):
    """A set in the order in which things came, so that both houses give back in the same order what a guest leaves."""

    def __init__(self) -> None:
        super().__init__()
        self._order: dict[Any, None] = {}

    def add(self, item: Any) -> None:
        super().add(item)
        self._order[item] = None

    def __iter__(self) -> Any:
        return iter([item for item in self._order if item in self])


class _Key(int):
    """A key, which need not be the same in both houses."""


def messages_of(manager: Any) -> dict[str, list[Message]]:
    found = {}
    for name, queue in sorted(manager.objects.queues.items()):
        if queue.definition.get_enabled and manager.failure is None:
            found[name] = manager.browse(name, None, None, 10_000)[0]
        else:
            found[name] = [entry.message for lane in queue._order for entry in lane.in_memory()]
    return found


def _unit(unit: Any) -> Any:
    return {
        "state": unit.state.value,
        "puts": [([queue.number for queue in put.queues], put.message) for put in unit.puts],
        "takes": [(take.queue.number, take.entry.body_bytes, take.entry.backouts) for take in unit.takes],
        "bytes": (unit.body_bytes, unit.held_bytes),
        "consequential": unit.consequential,
    }


def _stream(stream: Any) -> Any:
    return {
        "settled": stream._settled,
        "delivered": stream.delivered,
        "seen": stream._seen,
        "held": stream._held_bytes,
        "credit": stream.credit,
        "waits": stream.waiter.among is not None,
        "takes": [(take.queue.number, take.entry.body_bytes, take.entry.backouts) for take in stream._unit.takes],
        "arrived": len(stream.waiter.arrived),
        "closed": (stream.closed, stream._paused),
    }


class Plain:
    """Makes plain values of what is compared, with names for ids and keys that a queue manager has given."""

    def __init__(self) -> None:
        self._ids: dict[bytes, str] = {}
        self._keys: dict[int, str] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, bytes | bytearray | memoryview):
            value = bytes(value)
            if value.startswith(MANAGER_ID):
                return self._ids.setdefault(value, f"id {len(self._ids)}")
            return value if len(value) < 50 else (value[:10], len(value), hash(value))
        if isinstance(value, _Key):
            return self._keys.setdefault(int(value), f"key {len(self._keys)}")
        if isinstance(value, Message):
            return {
                name: self.of(getattr(value, name))
                for name in value.__struct_fields__
                if getattr(value, name) != getattr(_DEFAULTS, name) or name == "body"
            }
        if isinstance(value, msgspec.Struct):
            return type(value).__name__, [self.of(getattr(value, name)) for name in value.__struct_fields__]
        if isinstance(value, dict):
            return {self.of(key): self.of(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(item) for item in value]
        return value


_DEFAULTS = Message(b"")


def differences(one: Any, other: Any, place: str = "") -> list[str]:
    """Where two plain values differ, in a few lines."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return [line for key in one for line in differences(one[key], other[key], f"{place}/{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [
            line
            for index, pair in enumerate(zip(one, other, strict=True))
            for line in differences(*pair, f"{place}/{index}")
        ]
    return [] if one == other else [f"{place}: with lane {one!r}, without {other!r}"]


class Differ(AssertionError):
    """The lane did something else than the general way."""


class Twins:
    """Both houses, on the running loop."""

    def __init__(self, path: Path, log: LogSettings = ROOMY) -> None:
        disk = founded_disks(path, log)
        self.twins = [Twin(path, disk.copy(), log, lane=lane) for lane in (True, False)]
        self._plain = [Plain(), Plain()]
        self.compares_log = True
        self.said = 0
        """How many frames each house was told."""

    @property
    def fast(self) -> Twin:
        return self.twins[0]

    @property
    def slow(self) -> Twin:
        return self.twins[1]

    async def say(self, index: int, make: Callable[[Twin], list[tuple[Verb, Any, bool]]], pieces: int = 1) -> None:
        """Let a guest say some frames in one go, or in pieces, wherever that cuts them."""
        for twin in self.twins:
            guest = await twin.guest(index)
            data = b""
            for verb, payload, numbered in make(twin):
                self.said += twin.lane
                twin.numbers[index] += 1
                data += encode(verb, 10 + twin.numbers[index] if numbered else 0, payload)
            guest.say_bytes(data, at_a_time=len(data) // pieces + 1)
        await self.quiet()

    async def tell(
        self, index: int, *frames: Any, pieces: int = 1, lane: bool | None = None, in_order: bool = True
    ) -> list[Any]:
        """The same with frames that are the same for both, compared; what the guest of the slow house has heard.

        A frame is a verb and its payload, and wants an answer unless False follows. `lane`: whether the lane
        has to have done all of it, or nothing.
        """
        before = len(self.fast.general)
        said = [(frame[0], frame[1], frame[2] if len(frame) > 2 else True) for frame in frames]
        await self.say(index, lambda _: said, pieces)
        if lane is not None:
            assert self.fast.general[before:] == ([] if lane else [verb for verb, _, _ in said])
        heard = self.compare_heard(in_order=len(frames) == 1 and in_order)
        self.compare_state()
        return heard[index]

    async def warm(self, index: int, *queues: str) -> None:
        """Let a guest put to queues and get from them, so that the lane knows them."""
        for queue in queues:
            for _ in range(2):
                put = verbs.Put(queue, 0, False, None, 0.0, Message(b"warm"))
                await self.tell(index, (Verb.PUT, put))
                await self.tell(index, (Verb.GET, verbs.Get(queue)))

    async def quiet(self) -> None:
        """Let the loop turn until nothing is left to do."""
        loop: Any = asyncio.get_running_loop()
        for _ in range(2000):
            await asyncio.sleep(0)
            if loop._ready:
                continue
            if any(self._is_busy(twin) for twin in self.twins):
                await asyncio.sleep(0.001)
                continue
            unforced = [twin for twin in self.twins if twin.is_unforced]
            if not unforced:
                return
            if len(unforced) == 1:
                raise Differ(
                    f"nobody forces what is promised in the house {'with' if unforced[0].lane else 'without'} lane"
                )
            for twin in self.twins:
                twin.host._force_all()  # the housekeeper would, by and by
        raise AssertionError(f"they never become quiet: {[self._is_busy(twin) for twin in self.twins]}")

    @staticmethod
    def _is_busy(twin: Twin) -> bool:
        return bool(twin.house.registry.engine._ready) or any(
            guest is not None and not guest.link.closed and guest.link._held is not None and not guest.link.unread
            for guest in twin.guests
        )

    async def vanish(self, index: int) -> None:
        for twin in self.twins:
            guest = twin.guests[index]
            if guest is not None:
                guest.wire.lose()
        await self.quiet()

    async def advance(self, seconds: float) -> None:
        for twin in self.twins:
            twin.clock.advance(seconds)
            with twin.host.lock:
                twin.manager.timers.tick()
            twin.host._force_all()
        await self.quiet()

    # --- comparing ------------------------------------------------------------------------------

    def compare(self, what: str, one: Any, other: Any) -> None:
        found = differences(self._plain[0].of(one), self._plain[1].of(other), what)
        if found:
            raise Differ("\n".join(found[:20]))

    def compare_heard(self, *, in_order: bool) -> list[list[tuple[int, int, Any]]]:
        """`in_order`: else answers and deliveries of one step may come before or after each other."""
        heard = [twin.listen() for twin in self.twins]
        if not in_order:
            heard = [[sorted(said, key=_kind) for said in each] for each in heard]
        self.compare("heard", heard[0], heard[1])
        return heard[1]

    def compare_state(self) -> None:
        self.compare("state", self.fast.state(), self.slow.state())

    def compare_all(self) -> None:
        self.compare_state()
        self.compare("messages", self.fast.messages(), self.slow.messages())
        if self.fast.manager.failure is None:
            for twin in self.twins:
                twin.host._force_all()
        if self.compares_log:
            self.compare("log", self.fast.records(), self.slow.records())
        self.compare("survivors", self.fast.survivors(), self.slow.survivors())

    async def close(self) -> None:
        for twin in self.twins:
            for guest in twin.house.guests:
                guest.wire.lose()
        await asyncio.sleep(0)
        await self.quiet()
        if self.fast.manager.failure is None:
            await self.advance(100.0)  # what was given back for later is there again
        try:
            self.compare("left", self.fast.state(), self.slow.state())
            self.compare("messages", self.fast.messages(), self.slow.messages())
            for twin in self.twins:
                if twin.manager.failure is None:
                    await twin.house.leave()
        finally:
            for twin in self.twins:
                twin.house.registry.close()
                twin.host.close()


def _kind(frame: tuple[int, int, Any]) -> tuple[int, int, int]:
    verb, number, payload = frame
    if number:
        return (0, number, 0)
    if verb == Verb.DELIVERY:
        return (1, payload.consumer, payload.delivery)
    return (2, 0, 0)


def founded_disks(path: Path, log: LogSettings) -> Disk:
    key = msgspec.json.encode(log)
    assert key in _founded, "call `found` first: it has a loop of its own"
    return _founded[key].copy()


def live_twice(path: Path, work: Callable[[Twins], Awaitable[None]], log: LogSettings = ROOMY) -> None:
    """Let a test work with both houses, and compare all that is left."""
    founded(path, log)

    async def lived() -> None:
        twins = Twins(path, log)
        try:
            await work(twins)
            twins.compare_all()
        except BaseException:
            for twin in twins.twins:
                for guest in twin.house.guests:
                    guest.wire.lose()
                twin.house.registry.close()
                twin.host.close()
            raise
        await twins.close()

    asyncio.run(lived())
