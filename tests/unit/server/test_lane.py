# SPDX-License-Identifier: Apache-2.0
"""The compiled lane does what the general way does: random scripts, told to a house with it and to one without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from entrepot.message import Message, MessageType, Report
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb

from .twins import IS_COMPILED, USERS, WHY_NOT, Differ, Twin, Twins, live_twice

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason=WHY_NOT)

Step = tuple[Any, ...]
Frames = list[tuple[Verb, Any, bool]]

STEPS = 60
PLAIN_QUEUES = ("Q", "Q", "Q", "FIFO", "SMALL", "LASTING", "TEMP", "TIGHT", "ALIAS")
SPECIAL_QUEUES = ("SHORT", "SHUT", "MUTE", "STREAMED", "TRIG", "FAR", "LIST", "NOWHERE", "q", "FAILED", "Q@QM1")
READ_QUEUES = ("Q", "Q", "R", "FIFO", "SMALL", "LASTING", "COPY", "FAILED", "TIGHT", "TEMP", "ALIAS", "TRIG")
HOT: dict[str, float] = {"put": 30, "many": 14, "commit": 10, "request": 6, "reply": 8, "credit": 16}
COLD: dict[str, float] = {
    "consume": 20, "back_out": 8, "get": 8, "get_many": 4, "browse": 2, "cancel": 6, "acknowledge": 10,
    "sync": 8, "dynamic": 2, "claim": 1,
}  # fmt: skip
CORRELATION_IDS = (b"", b"", b"", b"", b"one", b"two")


# --- scripts ------------------------------------------------------------------------------------


def script(seed: int, steps: int = STEPS) -> list[Step]:
    random = Random(seed)
    writer = _Writer(random)
    return [*writer.opening(), *(writer.step() for _ in range(steps))]


class _Writer:
    """Writes steps that can be told, whatever has come of those before."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._count = 0
        self._queues = random.sample(PLAIN_QUEUES, 3)
        """Those of which most is told, so that the lane knows them."""
        self._strangeness = random.choice([0.0, 0.02, 0.1])
        """How much of what is told is nothing for the lane."""
        self._priorities = random.choice([[None], [None], [4], [None, 0, 9]])

    def opening(self) -> list[Step]:
        """Two guests read, and all have put once, so that the lane knows where."""
        random = self._random
        steps: list[Step] = [
            ("say", guest, 1, [("put", queue, 0, False, None, self._message(), True)])
            for guest in range(len(USERS))
            for queue in self._queues
        ]
        for guest in random.sample(range(len(USERS)), 2):
            consume = ("consume", random.choice(self._queues), 1, random.choice([1, 10, 100]), False, True, None)
            steps.append(("say", guest, 1, [consume]))
        return steps

    def step(self) -> Step:
        random = self._random
        guest = random.randrange(len(USERS))
        what = random.random()
        if what < 0.03:
            return ("vanish", guest)
        if what < 0.06:
            return ("advance", random.choice([0.1, 1.0, 40.0]))
        if what < 0.09:
            return ("say", guest, 1, [("return", random.randrange(1, 3), random.randrange(3), random.randrange(3))])
        if what < 0.1:
            # Alone: what was handed over in the same read may have been sent by then, or not.
            return ("say", guest, 1, [("stop", random.randrange(1, 4), "", True)])
        kinds = HOT if random.random() < 0.75 else HOT | COLD
        frames = [self._frame(kinds) for _ in range(random.choice([1, 1, 1, 2, 4, 8]))]
        return ("say", guest, random.choice([1, 1, 1, 3, 10, 50]), frames)

    def _frame(self, kinds: dict[str, float]) -> Step:
        random = self._random
        numbered = random.random() < 0.7
        kind = random.choices(list(kinds), list(kinds.values()))[0]
        if kind == "put":
            unit = random.choice([0, 0, 0, 0, 0, 1, 2])
            return ("put", self._queue(), unit, *self._asked(), self._message(), numbered)
        if kind == "many":
            unit = random.choice([0, 0, 1, 2])
            same = self._queue() if random.random() < 0.7 else None
            puts = [(same or self._queue(), *self._asked(), self._message(numbered=random.random() < 0.8))
                    for _ in range(random.choice([1, 2, 3, 5, 20]))]  # fmt: skip
            return ("many", unit, puts, numbered and unit > 0)
        if kind == "request":
            reply_queue = (
                "R" if random.random() >= self._strangeness else random.choice(["Q", "TEMP", "MUTE", "NOWHERE"])
            )
            message = replace(self._message(), reply_to=reply_queue)
            return ("request", self._queue(), reply_queue, *self._asked(), message, random.random() < 0.98)
        if kind == "reply":
            return ("reply", *self._asked(), self._message())
        if kind == "consume":
            queue = random.choice([*READ_QUEUES, *self._queues * 4])
            held, together, wanted = random.random() < 0.2, random.random() < 0.6, random.choice([None] * 3 + [b"one"])
            return ("consume", queue, random.randrange(1, 4), random.choice([0, 1, 2, 5, 100]), held, together, wanted)
        if kind == "credit":
            return ("credit", random.randrange(1, 4), random.choice([0, 0, 0, 1, 3]), random.choice([0, 1, 3, 50]),
                    random.random() < 0.1)  # fmt: skip
        if kind == "commit":
            return ("commit", random.randrange(1, 3), random.random() < 0.4, random.random() < 0.95, numbered)
        if kind == "get":
            return ("get", random.choice(READ_QUEUES), random.choice([0, 0, 1]), random.choice([0.0, 0.0, 1000.0]),
                    random.choice([None, None, b"one"]))  # fmt: skip
        if kind == "get_many":
            return ("get_many", random.choice(READ_QUEUES), random.randrange(1, 3), random.randrange(1, 5))
        return (kind, random.randrange(1, 4), random.choice(READ_QUEUES), numbered)

    def _queue(self) -> str:
        random = self._random
        if random.random() < self._strangeness:
            return random.choice(SPECIAL_QUEUES)
        return random.choice(self._queues if random.random() < 0.9 else PLAIN_QUEUES)

    def _asked(self) -> tuple[bool | None, int | None]:
        random = self._random
        priority = random.choice(self._priorities if random.random() >= self._strangeness else [0, 4, 9, 12])
        return random.choice([False, False, False, True, True, None]), priority

    def _message(self, *, numbered: bool = False) -> Message:
        random = self._random
        self._count += 1
        size = random.choice([0, 0, 10, 300, 1000, 1000] if random.random() < 0.99 else [30_000, 70_000])
        body = b"%04d" % self._count + b"." * size
        fields: dict[str, Any] = {
            "correlation_id": random.choice(CORRELATION_IDS),
            "type": random.choice([MessageType.DATAGRAM, MessageType.REQUEST, MessageType.REPLY]),
            "reply_to": random.choice(["", "", "Q"]),
            "priority": random.choice([4, 0]),
            "persistent": random.random() < 0.5,
        }
        if numbered or random.random() < 0.3:
            fields["message_id"] = b"own %04d" % self._count
        if random.random() < self._strangeness:
            fields["expiry_s"] = random.choice([0.5, 30.0])
        if random.random() < self._strangeness:
            fields |= random.choice([
                {"properties": {"a": 1}}, {"delay_s": 5.0}, {"group_id": b"g"}, {"report": int(Report.DELIVERY)},
                {"format": "MQSTR"}, {"sequence": 2}, {"message_id": bytes(129)}, {"expiry_s": -1.0}, {"user": "me"},
            ])  # fmt: skip
        return Message(body, **fields)


# --- telling them -------------------------------------------------------------------------------


def frames_of(twin: Twin, guest: int, wanted: list[Step]) -> Frames:
    return [frame for step in wanted for frame in [_FRAMES[step[0]](twin, guest, step)] if frame is not None]


def _put(_: Twin, __: int, step: Step) -> Any:
    _, queue, unit, persistent, priority, message, numbered = step
    return Verb.PUT, verbs.Put(queue, unit, persistent, priority, 0.0, message), numbered


def _many(_: Twin, __: int, step: Step) -> Any:
    return Verb.PUT_MANY, verbs.PutMany(step[1], step[2]), step[3]


def _request(_: Twin, __: int, step: Step) -> Any:
    _, queue, reply_queue, persistent, priority, message, numbered = step
    return Verb.REQUEST, verbs.Request(queue, reply_queue, 1000.0, persistent, priority, message), numbered


def _reply(twin: Twin, guest: int, step: Step) -> Any:
    """To the last request that this guest was given and has not replied to."""
    _, persistent, priority, message = step
    given = twin.delivered[guest]
    while given and given[-1].reply_to != "R":
        given.pop()
    if not given:
        return None
    reply = Message(message.body, correlation_id=given.pop().message_id, expiry_s=message.expiry_s)
    return Verb.PUT, verbs.Put("R", 0, persistent, priority, 0.0, reply), True


def _consume(twin: Twin, guest: int, step: Step) -> Any:
    _, queue, consumer, credit, held, together, correlation_id = step
    if consumer in twin.streams(guest):
        return None  # he would be shown the door
    wanted = None if correlation_id is None else verbs.Wanted(correlation_id=correlation_id)
    return Verb.CONSUME, verbs.Consume(queue, consumer, credit, wanted, held, together), True


def _credit(twin: Twin, guest: int, step: Step) -> Any:
    _, consumer, back, more, seen = step
    stream = twin.streams(guest).get(consumer) or twin.streams(guest).get(1)
    if stream is None:
        return None
    consumer = next(number for number, each in twin.streams(guest).items() if each is stream)
    delivered = stream.delivered
    if stream.held:
        return Verb.CREDIT, verbs.Credit(consumer, 0, min(more, 3), max(delivered - back, 0)), False
    return Verb.CREDIT, verbs.Credit(consumer, max(delivered - back, 0), more, int(seen)), False


def _return(twin: Twin, guest: int, step: Step) -> Any:
    _, consumer, more, way = step
    stream = twin.streams(guest).get(consumer)
    if stream is None or stream.held or stream.delivered <= stream._settled:
        return None
    frame = verbs.ReturnPayload(
        consumer, stream._settled + 1, more, 5.0 if way == 1 else 0.0, "bad" if way == 2 else None
    )
    return Verb.RETURN, frame, True


def _used(twin: Twin, guest: int) -> list[tuple[int, int]]:
    return [(number, stream.delivered) for number, stream in twin.streams(guest).items() if stream.held]


def _commit(twin: Twin, guest: int, step: Step) -> Any:
    _, unit, used, counted, numbered = step
    present = twin.guests[guest]
    conversation = None if present is None else present.link.conversation
    begun = [] if conversation is None else sorted(conversation._units)
    frame = verbs.Commit(begun[0] if begun else unit, _used(twin, guest) if used else [], counted)
    return (Verb.COMMIT, frame, numbered) if begun or used else None


def _get(_: Twin, __: int, step: Step) -> Any:
    _, queue, unit, wait_s, correlation_id = step
    wanted = None if correlation_id is None else verbs.Wanted(correlation_id=correlation_id)
    return Verb.GET, verbs.Get(queue, unit, wait_s, wanted), True


def _cancel(twin: Twin, guest: int, _: Step) -> Any:
    present = twin.guests[guest]
    conversation = None if present is None else present.link.conversation
    asked = [] if conversation is None else sorted(conversation._asked)
    return (Verb.CANCEL, verbs.NumberPayload(asked[0]), True) if asked else None


def _acknowledge(twin: Twin, guest: int, step: Step) -> Any:
    present = twin.guests[guest]
    conversation = None if present is None else present.link.conversation
    leases = [] if conversation is None else sorted(conversation._leases)
    return (Verb.ACKNOWLEDGE, verbs.NumberPayload(leases[0]), step[3]) if leases else None


_FRAMES: dict[str, Callable[[Twin, int, Step], Any]] = {
    "put": _put,
    "many": _many,
    "request": _request,
    "reply": _reply,
    "consume": _consume,
    "credit": _credit,
    "return": _return,
    "commit": _commit,
    "get": _get,
    "cancel": _cancel,
    "acknowledge": _acknowledge,
    "back_out": lambda _, __, step: (Verb.BACK_OUT, verbs.BackOut(step[1] % 2 + 1), step[3]),
    "stop": lambda _, __, step: (Verb.STOP_CONSUMING, verbs.ConsumerPayload(step[1]), step[3]),
    "get_many": lambda _, __, step: (Verb.GET_MANY, verbs.GetMany(step[1], step[2], step[3]), True),
    "browse": lambda _, __, step: (Verb.BROWSE, verbs.BrowsePayload(step[2], None, 5), True),
    "sync": lambda *_: (Verb.SYNCHRONIZE, verbs.Empty(), True),
    "dynamic": lambda *_: (Verb.DYNAMIC, verbs.Dynamic("TEMPORARY", "TEMP"), True),
    "claim": lambda _, __, step: (Verb.CLAIM, verbs.ClaimPayload("flow/1", step[1], b"token %d" % step[1]), True),
}


async def tell(twins: Twins, step: Step) -> None:
    """Let both houses hear a step, and compare what it has caused."""
    in_order = True
    if step[0] == "vanish":
        await twins.vanish(step[1])
    elif step[0] == "advance":
        await twins.advance(step[1])
    else:
        _, guest, pieces, frames = step
        await twins.say(guest, lambda twin: frames_of(twin, guest, frames), pieces)
        in_order = len(frames) == pieces == 1 and frames[0][0] != "many"
    twins.compare_heard(in_order=in_order)
    twins.compare_state()


def why_not_alike(path: Path, steps: list[Step], done: list[tuple[int, int]] | None = None) -> str:
    """What is different after a script; empty when nothing is. `done` is told frames, and those the lane has done."""

    async def work(twins: Twins) -> None:
        for step in steps:
            await tell(twins, step)
        if done is not None:
            done.append((twins.said, twins.said - len(twins.fast.general)))

    try:
        live_twice(path, work)
    except Differ as differ:
        return str(differ)
    return ""


def shortest(path: Path, steps: list[Step]) -> list[Step]:
    """Leave out of a failing script what is not needed for that."""
    size = len(steps) // 2
    while size:
        at = 0
        while at < len(steps):
            shorter = steps[:at] + steps[at + size :]
            if why_not_alike(path, shorter):
                steps = shorter
            else:
                at += size
        size //= 2
    return steps


def require_alike(path: Path, seed: int, done: list[tuple[int, int]], steps: int = STEPS) -> None:
    told = script(seed, steps)
    if why_not_alike(path, told, done):
        told = shortest(path, told)
        lines = "\n".join(map(repr, told))
        pytest.fail(f"seed {seed}:\n{lines}\n{why_not_alike(path, told)}")


@pytest.mark.parametrize("part", range(6))
def test_random_scripts_end_alike_with_and_without_the_lane(tmp_path: Path, part: int) -> None:
    done: list[tuple[int, int]] = []
    for seed in range(part * 5, part * 5 + 5):
        require_alike(tmp_path, seed, done)
    # Else they would compare the general way with itself.
    assert sum(by_lane for _, by_lane in done) > 0.1 * sum(said for said, _ in done)


@pytest.mark.torture
@pytest.mark.parametrize("part", range(4))
def test_many_long_random_scripts_end_alike(tmp_path: Path, part: int) -> None:
    for seed in range(10_000 + part * 500, 10_000 + part * 500 + 500):
        require_alike(tmp_path, seed, [], 3 * STEPS)
