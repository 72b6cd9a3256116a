# SPDX-License-Identifier: Apache-2.0
"""The authority matrix: every verb, by every way to a queue, with no right, each single one, and all.

A row says what a way takes. From it follow the cells: without any right it
is refused, with any single right too unless that is all that it takes, with
everything but one of the rights it takes, too; with exactly these it
happens, and for an administrator. A verb of the protocol without a row
fails the test. What is expected stands here and nowhere else: the product's
own tables are not asked.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from conftest import MEMORY
from entrepot.client.blocking import connect
from entrepot.engine.criteria import Criteria
from entrepot.engine.definitions import SubscriptionDefinition
from entrepot.errors import (
    AuthenticationFailed,
    EntrepotError,
    NotAuthorized,
    RequestTimedOut,
    UnitNotInDoubt,
)
from entrepot.message import Message, Report
from entrepot.server.amqp.codec import Symbol, UInt
from entrepot.server.amqp.mapping import encode_message
from entrepot.server.mqsc import require_ok, run_script
from entrepot.server.security import authority
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb
from entrepot.testing.servers import ServerThread
from unit.server.guests import put

from .matrix_world import (
    ADMINISTRATOR,
    CONNECT,
    DEAD,
    OBJECTS,
    TYPES,
    USER,
    WORDS,
    Amqp,
    Channel,
    Native,
    Right,
    World,
    carried_out,
    may,
)

pytest.importorskip("cproton_ffi", reason="python-qpid-proton, of the extra amqp, is not installed")

Act = Callable[[Any], bool]
"""Tries something as somebody; whether it happened."""


@dataclass(frozen=True)
class Row:
    verb: Verb | str
    way: str
    needs: frozenset[Right]
    act: Act
    beside: frozenset[tuple[str, str]] = field(default=frozenset())
    """Objects behind those it needs rights on; rights on these must neither help nor be asked for."""
    generic: bool = True
    """Whether profiles for everything, `**`, suffice."""
    user: bool = True
    """Whether a user can ever."""
    administrator: bool = True

    def __str__(self) -> str:
        return f"{getattr(self.verb, 'name', self.verb)} {self.way}"


def queue(name: str, *words: str) -> set[Right]:
    return {("QUEUE", name, word) for word in words}


def manager(word: str) -> set[Right]:
    return {("QMGR", "QM1", word)}


def row(verb: Verb | str, way: str, needs: set[Right], act: Act, *beside: str, **more: bool) -> Row:
    return Row(verb, way, frozenset(needs), act, frozenset(("QUEUE", name) for name in beside), **more)


# --- what is done --------------------------------------------------------------------------------


def putting(name: str | list[str], arrives: str, **fields: Any) -> Act:
    def act(native: Native) -> bool:
        return native.world.grows(arrives, lambda: may(lambda: native.ask(Verb.PUT, put(name, b"x", **fields))))

    return act


def putting_in_unit(name: str, arrives: str) -> Act:
    def act(native: Native) -> bool:
        unit = native.unit()

        def put_and_commit() -> None:
            may(lambda: native.ask(Verb.PUT, put(name, b"x", unit=unit)))
            native.ask(Verb.COMMIT, verbs.Commit(unit))

        return native.world.grows(arrives, put_and_commit)

    return act


def putting_many(name: str, arrives: str) -> Act:
    def act(native: Native) -> bool:
        unit = native.unit()

        def put_and_commit() -> None:
            native.tell(Verb.PUT_MANY, verbs.PutMany(unit, [(name, False, 0, Message(b"x"))]))
            may(lambda: native.ask(Verb.COMMIT, verbs.Commit(unit)))

        return native.world.grows(arrives, put_and_commit)

    return act


def reporting(report: Report, then: Callable[[World], Any], **fields: Any) -> Act:
    """A put whose report comes at once, or when something is done with the message."""

    def act(native: Native) -> bool:
        def put_and_read() -> None:
            claimed = {"user": ADMINISTRATOR, "authorized_as": ADMINISTRATOR}  # which no client is believed
            frame = put("Q", b"x", reply_to="REPLY", report=report | Report.WITH_DATA, **claimed, **fields)
            may(lambda: native.ask(Verb.PUT, frame))
            then(native.world)

        return native.world.grows("REPLY", put_and_read)

    return act


def read(world: World) -> None:
    while world.depth("Q"):
        world.host.get("Q")


def expire(world: World) -> None:
    while world.depth("Q"):
        world.host.get("Q", Criteria(message_id=b"none"))  # which looks at the time


def fail_in_unit(world: World) -> None:
    for _ in range(2):
        unit = world.host.begin()
        world.host.get("FAILS", unit=unit)
        world.host.back_out(unit)


def backing_out(native: Native) -> bool:
    def put_and_fail() -> None:
        may(lambda: native.ask(Verb.PUT, put("FAILS", b"x")))
        fail_in_unit(native.world)

    return native.world.grows("FAILED", put_and_fail)


def requesting(native: Native) -> bool:
    frame = verbs.Request("Q", "R", 0.001, False, None, Message(b"x"))

    def request() -> None:
        try:
            native.ask(Verb.REQUEST, frame)
        except (RequestTimedOut, NotAuthorized):
            return

    return native.world.grows("Q", request)


def getting(verb: Verb, name: str, holds: str = "") -> Act:
    def act(native: Native) -> bool:
        world = native.world
        if holds:
            world.fill(holds, group_id=b"g", last_in_group=True)
        unit = native.unit()
        frame: Any = {
            Verb.GET: verbs.Get(name),
            Verb.GET_MANY: verbs.GetMany(name, unit, 1),
            Verb.GET_GROUP: verbs.GetGroup(name, unit),
            Verb.BROWSE: verbs.BrowsePayload(name, None, 1),
            Verb.CONSUME: verbs.Consume(name, unit, 1),
        }[verb]
        try:
            return may(lambda: native.ask(verb, frame))
        finally:
            if verb == Verb.CONSUME:
                native.ask(Verb.STOP_CONSUMING, verbs.ConsumerPayload(unit))
            elif verb in (Verb.GET_MANY, Verb.GET_GROUP):
                native.ask(Verb.BACK_OUT, verbs.BackOut(unit))

    return act


def asking(verb: Verb, payload: Callable[[Native], Any]) -> Act:
    return lambda native: may(lambda: native.ask(verb, payload(native)))


def anybody(verb: Verb, payload: Any) -> Act:
    """A verb that acts only on what the connection has already."""

    def act(native: Native) -> bool:
        native.ask(verb, payload)
        return True

    return act


def commanding(script: str, undo: str = "", first: str = "") -> Act:
    """A command; `first` and `undo` are an administrator's."""

    def act(native: Native) -> bool:
        with_names = partial(str.replace, script)
        name = native.world.fresh("NEW.")
        administer(native.world, first.replace("NEW", name))
        done = carried_out(native, with_names("NEW", name))
        if done or first:
            administer(native.world, undo.replace("NEW", name))
        return done

    return act


def administer(world: World, script: str) -> None:
    if script:
        require_ok(run_script(script, world.host, "-"))


def subscribing(destination: str = "") -> Act:
    def act(native: Native) -> bool:
        name = native.world.fresh("sub")
        frame = verbs.Subscribe(name, "news", destination)
        done = may(lambda: native.ask(Verb.SUBSCRIBE, frame))
        if done:
            native.ask(Verb.UNSUBSCRIBE, verbs.Unsubscribe(name, False))
        return done

    return act


def putting_to_own_subscription(native: Native) -> bool:
    """What is published comes there, and nothing else."""
    name = native.world.fresh("sub")
    try:
        _, made = native.ask(Verb.SUBSCRIBE, verbs.Subscribe(name, "news")).value
    except NotAuthorized:
        return False
    done = native.world.grows(made, lambda: may(lambda: native.ask(Verb.PUT, put(made, b"x"))))
    native.ask(Verb.UNSUBSCRIBE, verbs.Unsubscribe(name, False))
    return done


def their_subscription(world: World) -> str:
    """A durable one of a third user, which nobody has open."""
    name = world.fresh("theirs")
    world.host.subscribe(
        SubscriptionDefinition(
            name=name, topic="news", managed=True, durable=True, shared=True, user="carl", type="API"
        )
    )
    world.host.leave_subscription(name)
    return name


def opening_theirs(native: Native) -> bool:
    name = their_subscription(native.world)
    frame = verbs.Subscribe(name, "news", durable=True, shared=True)
    done = may(lambda: native.ask(Verb.SUBSCRIBE, frame))
    if done:
        native.ask(Verb.UNSUBSCRIBE, verbs.Unsubscribe(name, False))
    native.world.host.unsubscribe(name)
    return done


def ending_theirs(native: Native) -> bool:
    name = their_subscription(native.world)
    done = may(lambda: native.ask(Verb.UNSUBSCRIBE, verbs.Unsubscribe(name, True)))
    if not done:
        native.world.host.unsubscribe(name)
    return done


def reading_theirs(native: Native) -> bool:
    name = their_subscription(native.world)
    found = native.world.host.find("SUB", name)
    assert isinstance(found, SubscriptionDefinition)
    done = may(lambda: native.ask(Verb.GET, verbs.Get(found.destination)))
    native.world.host.unsubscribe(name)
    return done


def preparing(native: Native) -> bool:
    unit = native.unit()
    name = native.world.fresh("unit").encode()
    done = may(lambda: native.ask(Verb.PREPARE, verbs.Prepare(unit, name)))
    if done:
        if name in native.world.host.in_doubt():
            native.world.host.resolve(name, commit=False)
    else:
        native.ask(Verb.BACK_OUT, verbs.BackOut(unit))
    return done


def beginning_global(native: Native) -> bool:
    unit = native.unit()
    done = may(lambda: native.ask(Verb.BEGIN_GLOBAL, verbs.UnitPayload(unit)))
    native.ask(Verb.BACK_OUT, verbs.BackOut(unit))
    return done


def resolving(verb: Verb) -> Act:
    """A unit that somebody else has prepared."""

    def act(native: Native) -> bool:
        host = native.world.host
        name = native.world.fresh("unit").encode()
        unit = host.begin()
        host.put("THEIRS", Message(b"x"), persistent=True, unit=unit)
        host.prepare(unit, name)
        frame: Any = verbs.Resolve(name, False) if verb == Verb.RESOLVE else verbs.Decide(0, name, [], commit=False)
        done = may(lambda: native.ask(verb, frame))
        if not done:
            host.resolve(name, commit=False)
        return done

    return act


def seeing_in_doubt(native: Native) -> bool:
    host = native.world.host
    name = native.world.fresh("unit").encode()
    unit = host.begin()
    host.put("THEIRS", Message(b"x"), persistent=True, unit=unit)
    host.prepare(unit, name)
    try:
        return name in native.ask(Verb.IN_DOUBT, verbs.Empty()).value
    except NotAuthorized:
        return False
    finally:
        host.resolve(name, commit=False)


def forgetting(native: Native) -> bool:
    """A unit that nobody knows: nothing to be asked for."""
    with contextlib.suppress(UnitNotInDoubt):
        native.ask(Verb.FORGET, verbs.Forget(b"unknown", []))
    return True


def seeing_claims(native: Native) -> bool:
    world = native.world
    shown = native.ask(Verb.CLAIMS, verbs.PrefixPayload("flow/seen")).value
    assert len(shown) in (0, 1), world
    return bool(shown)


def claiming(verb: Verb) -> Act:
    def act(native: Native) -> bool:
        frame: Any = {
            Verb.CLAIM: verbs.ClaimPayload("flow/1", 1, b"t" + native.user.encode()),
            Verb.RETIRE: verbs.Retire("flow/2", 1),
            Verb.INSTRUCT: verbs.Instruct("flow/seen", "stop"),
            Verb.NEXT_EPOCH: verbs.PrefixPayload("flow/4"),
        }[verb]
        done = may(lambda: native.ask(verb, frame))
        if verb == Verb.CLAIM and done:
            native.close()  # gives the claim back
        return done

    return act


def saying_hello(native: Native) -> bool:
    with native.connect() as stranger:
        try:
            native.hello(stranger)
        except (NotAuthorized, AuthenticationFailed):
            return False
        return True


def saying_goodbye(native: Native) -> bool:
    native.ask(Verb.GOODBYE, verbs.Empty())
    native.close()
    return True


def over_channel(name: str, arrives: str, **fields: Any) -> Act:
    def act(native: Native) -> bool:
        with Channel(native) as channel:
            return native.world.grows(arrives, lambda: channel.send(name, **fields))

    return act


def pinging(native: Native) -> bool:
    with Channel(native) as channel:
        channel.ping()
    return True


def making_dynamic(model: str, pattern: str) -> Act:
    def act(native: Native) -> bool:
        done = may(lambda: native.ask(Verb.DYNAMIC, verbs.Dynamic(model, pattern)))
        if done:
            native.close()
        return done

    return act


def reporting_to_own_queue(native: Native) -> bool:
    try:
        name = native.ask(Verb.DYNAMIC, verbs.Dynamic("M", "OWN.*")).value
    except NotAuthorized:
        return False
    may(lambda: native.ask(Verb.PUT, put("Q", b"x", reply_to=name, report=Report.ARRIVAL)))
    grown = native.world.depth(name) == 1
    native.close()
    read(native.world)
    return grown


def managing(native: Native) -> bool:
    return may(lambda: native.ask(Verb.MANAGE, verbs.Manage("status")))


# --- the table -----------------------------------------------------------------------------------

INTERNAL = ("STARTS", "SYSTEM.DEFAULT.INITIATION.QUEUE", "SYSTEM.CHANNEL.INITQ", "SYSTEM.CHANNEL.SYNCQ",
            "SYSTEM.RETAINED.PUB.QUEUE", "SYSTEM.ADMIN.PERFM.EVENT")  # fmt: skip
SUB = {("TOPIC", "PRESS", "SUB")}
PUB = {("TOPIC", "PRESS", "PUB")}
ON_Q = queue("Q", "PUT")
CLOSED = {"generic": False}
NEVER = {"generic": False, "user": False, "administrator": False}
ADMINISTRATORS = {"generic": False, "user": False}


def put_rows() -> Iterator[Row]:
    ways: list[tuple[str, str | list[str], str, set[Right], tuple[str, ...], dict[str, bool]]] = [
        ("direct", "Q", "Q", ON_Q, (), {}),
        ("with the manager's own name", "Q@QM1", "Q", ON_Q, (), {}),
        ("alias", "A", "Q", queue("A", "PUT"), ("Q",), {}),
        ("remote definition", "FAR", "QM2", queue("FAR", "PUT"), ("QM2", "X"), {}),
        ("transmission queue", "X@QM2", "QM2", queue("QM2", "PUT"), ("X",), {}),
        ("queue manager alias", "X@QM3", "QM2", queue("QM3", "PUT"), ("X", "QM2"), {}),
        ("system queue elsewhere", "SYSTEM.X@QM2", "QM2", queue("QM2", "PUT") | queue("SYSTEM.X", "PUT"), (), CLOSED),
        ("topic", "topic:news", "PAPER", PUB, ("PAPER",), {}),
        ("dead-letter queue", DEAD, DEAD, queue(DEAD, "PUT"), (), CLOSED),
        ("stream", "COPIED", "COPY", queue("COPIED", "PUT"), ("COPY",), {}),
        *((f"internal {name}", name, name, queue(name, "PUT"), (), NEVER) for name in INTERNAL),
    ]
    for way, name, arrives, needs, beside, more in ways:
        yield row(Verb.PUT, way, needs, putting(name, arrives), *beside, **more)
        assert isinstance(name, str)
        yield row(Verb.PUT, f"{way} in a unit", needs, putting_in_unit(name, arrives), *beside, **more)
        yield row(Verb.PUT_MANY, way, needs, putting_many(name, arrives), *beside, **more)
    both = ON_Q | queue("R", "PUT")
    report = ON_Q | queue("REPLY", "PUT")
    yield row(Verb.PUT, "distribution list", both, putting(["Q", "R"], "R"))
    yield row(Verb.PUT, "name list", queue("SEVERAL", "PUT"), putting("SEVERAL", "R"), "Q", "R")
    yield row(Verb.PUT, "report of arrival", report, reporting(Report.ARRIVAL, read))
    yield row(Verb.PUT, "report of delivery", report, reporting(Report.DELIVERY, read))
    yield row(Verb.PUT, "report of expiry", report, reporting(Report.EXPIRATION, expire, expiry_s=0.001))
    own = ON_Q | queue("M", "GET")
    yield row(Verb.PUT, "report to a queue of its own", own, reporting_to_own_queue)
    managed = SUB | queue("SYSTEM.MANAGED.**", "PUT")
    yield row(Verb.PUT, "queue of its own subscription", managed, putting_to_own_subscription, **CLOSED)
    yield row(Verb.PUT, "backout", queue("FAILS", "PUT"), backing_out, "FAILED")
    yield row(Verb.REQUEST, "direct", ON_Q | queue("R", "GET"), requesting)


def get_rows() -> Iterator[Row]:
    for verb in (Verb.GET, Verb.GET_MANY, Verb.GET_GROUP, Verb.CONSUME, Verb.BROWSE):
        word = "BROWSE" if verb == Verb.BROWSE else "GET"
        yield row(verb, "direct", queue("Q", word), getting(verb, "Q", "Q"))
        yield row(verb, "alias", queue("A", word), getting(verb, "A", "Q"), "Q")
        yield row(verb, "dead-letter queue", queue(DEAD, word), getting(verb, DEAD, DEAD), **CLOSED)
        for name in ("SYSTEM.CHANNEL.SYNCQ", "SYSTEM.RETAINED.PUB.QUEUE"):
            more = CLOSED if verb == Verb.BROWSE else ADMINISTRATORS
            yield row(verb, f"state {name}", queue(name, word), getting(verb, name), **more)
    yield row(Verb.GET, "queue of another's subscription", queue("SYSTEM.MANAGED.**", "GET"), reading_theirs, **CLOSED)


def topic_rows() -> Iterator[Row]:
    yield row(Verb.SUBSCRIBE, "queue that is made for it", SUB, subscribing())
    yield row(Verb.SUBSCRIBE, "to a queue", SUB | ON_Q, subscribing("Q"))
    yield row(Verb.SUBSCRIBE, "to an alias", SUB | queue("A", "PUT"), subscribing("A"), "Q")
    yield row(Verb.SUBSCRIBE, "to another manager", SUB | queue("QM2", "PUT"), subscribing("X@QM2"), "X")
    yield row(Verb.SUBSCRIBE, "to a system queue", SUB | queue(DEAD, "PUT"), subscribing(DEAD), **CLOSED)
    for name in INTERNAL:
        yield row(Verb.SUBSCRIBE, f"to internal {name}", SUB | queue(name, "PUT"), subscribing(name), **NEVER)
    yield row(Verb.SUBSCRIBE, "another's", SUB, opening_theirs, **ADMINISTRATORS)
    yield row(Verb.UNSUBSCRIBE, "another's", SUB, ending_theirs, **ADMINISTRATORS)


def other_rows() -> Iterator[Row]:
    nothing: set[Right] = set()
    yield row(Verb.HELLO, "", {CONNECT}, saying_hello)
    for verb, payload in (
        (Verb.COMMIT, verbs.Commit(0)),
        (Verb.BACK_OUT, verbs.BackOut(0)),
        (Verb.ACKNOWLEDGE, verbs.NumberPayload(1)),
        (Verb.CANCEL, verbs.NumberPayload(1)),
        (Verb.CREDIT, verbs.Credit(1, 0, 1)),
        (Verb.STOP_CONSUMING, verbs.ConsumerPayload(1)),
        (Verb.RETURN, verbs.ReturnPayload(1, 1, 0)),
        (Verb.SYNCHRONIZE, verbs.Empty()),
        (Verb.HEARTBEAT, verbs.Empty()),
        (Verb.OUTCOMES, verbs.Outcomes([b"x"])),
    ):
        yield row(verb, "of its own", nothing, anybody(verb, payload))
    yield row(
        Verb.GOODBYE,
        "",
        nothing,
        lambda native: bool(native.ask(Verb.GOODBYE, verbs.Empty())) and native.close() is None,
    )
    yield row(Verb.DYNAMIC, "model", queue("M", "GET"), making_dynamic("M", "DYN.*"))
    model = "SYSTEM.DEFAULT.MODEL.QUEUE"
    yield row(Verb.DYNAMIC, "system's model", queue(model, "GET"), making_dynamic(model, "DYN.*"))
    made = queue("M", "GET") | queue("SYSTEM.MADE.ONE", "CRT")
    yield row(Verb.DYNAMIC, "system's name", made, making_dynamic("M", "SYSTEM.MADE.ONE"), **CLOSED)
    yield row(Verb.PREPARE, "", manager("PREPARE"), preparing)
    yield row(Verb.BEGIN_GLOBAL, "", manager("PREPARE"), beginning_global)
    yield row(Verb.RESOLVE, "another's", manager("SET"), resolving(Verb.RESOLVE))
    yield row(Verb.DECIDE, "another's", manager("SET"), resolving(Verb.DECIDE))
    yield row(Verb.IN_DOUBT, "another's", manager("INQ"), seeing_in_doubt)
    yield row(Verb.FORGET, "unknown", nothing, forgetting)
    for verb, name in (
        (Verb.CLAIM, "flow/1"),
        (Verb.RETIRE, "flow/2"),
        (Verb.INSTRUCT, "flow/seen"),
        (Verb.NEXT_EPOCH, "flow/4"),
    ):
        yield row(verb, "", {("CLAIM", name, "SET")}, claiming(verb))
    yield row(Verb.CLAIMS, "", {("CLAIM", "flow/seen", "SET")}, seeing_claims)
    yield row(Verb.MANAGE, "", nothing, managing, **ADMINISTRATORS)


def channel_rows() -> Iterator[Row]:
    nothing: set[Right] = set()
    reply = {"reply_to": "REPLY", "reply_to_manager": "QM1", "report": int(Report.ARRIVAL)}
    yield row(Verb.CHANNEL_HELLO, "", nothing, pinging)
    yield row(Verb.CHANNEL_PING, "", nothing, pinging)
    yield row(Verb.CHANNEL_END_OF_BATCH, "direct", ON_Q, over_channel("Q", "Q"))
    yield row(Verb.CHANNEL_MESSAGE, "alias", queue("A", "PUT"), over_channel("A", "Q"), "Q")
    yield row(Verb.CHANNEL_MESSAGE, "passing through", queue("QM2", "PUT"), over_channel("X@QM2", "QM2"), "X")
    yield row(
        Verb.CHANNEL_MESSAGE,
        "system queue",
        queue(DEAD, "PUT"),
        over_channel(DEAD, "Q"),
        user=False,
        administrator=False,
    )
    yield row(Verb.CHANNEL_MESSAGE, "report", ON_Q | queue("REPLY", "PUT"), over_channel("Q", "REPLY", **reply))
    for name in INTERNAL[:4]:
        if name != "SYSTEM.CHANNEL.SYNCQ":  # which remembers the batch itself
            yield row(Verb.CHANNEL_MESSAGE, f"internal {name}", queue(name, "PUT"), over_channel(name, name), **NEVER)


Command = tuple[str, str, set[Right], str, str]
"""What it is about, the command, what it takes, and what an administrator does afterwards and before it."""


def command_rows() -> Iterator[Row]:
    for commands, more in (
        (plain_commands(), {}),
        (commands_that_lead_elsewhere(), {}),
        (commands_about_system_queues(), CLOSED),
        (commands_of_administrators(), ADMINISTRATORS),
        (commands_that_never_succeed(), NEVER),
    ):
        for way, script, needs, undo, first in commands:
            yield row(Verb.MQSC, way, needs, commanding(script, undo, first), **more)


NEW = "NEW.**"
CRT, CHG = queue(NEW, "CRT"), queue(NEW, "CHG", "DSP")
LOCAL, MODEL, ALIAS, REMOTE = (f"DELETE {kind}(NEW)" for kind in ("QLOCAL", "QMODEL", "QALIAS", "QREMOTE"))
MAKE = "DEFINE QLOCAL(NEW)"
EVERY = queue("Q", "PUT", "GET", "BROWSE")
WAY = queue("QM2", "PUT")
LETTER = queue(DEAD, "PUT")


def of(kind: str, name: str, *words: str) -> set[Right]:
    return {(kind, name, word) for word in words}


def plain_commands() -> Iterator[Command]:
    yield "DEFINE QLOCAL", MAKE, CRT, LOCAL, ""
    yield "ALTER QLOCAL", "ALTER QLOCAL(NEW) DESCR('x')", CHG, LOCAL, MAKE
    yield "REPLACE QLOCAL", f"{MAKE} DESCR('x') REPLACE", queue(NEW, "CHG"), LOCAL, MAKE
    yield "DELETE QLOCAL", LOCAL, queue(NEW, "DLT", "DSP"), f"{MAKE} REPLACE\n{LOCAL}", MAKE
    yield "CLEAR QLOCAL", "CLEAR QLOCAL(NEW)", queue(NEW, "CLR", "DSP"), LOCAL, MAKE
    yield "DISPLAY QLOCAL", "DISPLAY QLOCAL(NEW)", queue(NEW, "DSP"), LOCAL, MAKE
    side = partial(of, "CHANNEL", "SIDE", "DSP")
    yield "STOP CHANNEL", "STOP CHANNEL(SIDE)", side("CTRL"), "", ""
    yield "START CHANNEL", "START CHANNEL(SIDE)", side("CTRL"), "", ""
    yield "ALTER CHANNEL", "ALTER CHANNEL(SIDE) CHLTYPE(SVRCONN) DESCR('x')", side("CHG"), "", ""
    yield "ALTER QMGR", "ALTER QMGR DESCR('x')", of("QMGR", "QM1", "CHG", "DSP"), "ALTER QMGR DESCR(' ')", ""
    yield "ALTER TOPIC", "ALTER TOPIC(PRESS) DESCR('x')", of("TOPIC", "PRESS", "CHG", "DSP"), "", ""


def commands_that_lead_elsewhere() -> Iterator[Command]:
    """The user needs himself what the definition would grant."""
    to_r = "DEFINE QALIAS(NEW) TARGET(R)"
    yield "DEFINE QALIAS", "DEFINE QALIAS(NEW) TARGET(Q)", CRT | EVERY, ALIAS, ""
    yield "QALIAS for puts", "DEFINE QALIAS(NEW) TARGET(Q) GET(DISABLED)", CRT | ON_Q, ALIAS, ""
    yield "ALTER QALIAS", "ALTER QALIAS(NEW) TARGET(Q)", CHG | EVERY, ALIAS, to_r
    yield "REPLACE QALIAS", "DEFINE QALIAS(NEW) TARGET(Q) REPLACE", queue(NEW, "CHG") | EVERY, ALIAS, to_r
    inhibited = "DEFINE QALIAS(NEW) TARGET(Q) PUT(DISABLED) GET(DISABLED)"
    yield "ALTER QALIAS PUT", "ALTER QALIAS(NEW) PUT(ENABLED)", CHG | ON_Q, ALIAS, inhibited
    for keyword in ("STREAMQ(Q)", "BOQNAME(Q)"):
        yield f"DEFINE {keyword}", f"{MAKE} {keyword}", CRT | ON_Q, LOCAL, ""
        yield f"ALTER {keyword}", f"ALTER QLOCAL(NEW) {keyword}", CHG | ON_Q, LOCAL, MAKE
        yield f"QMODEL {keyword}", f"DEFINE QMODEL(NEW) {keyword}", CRT | ON_Q, MODEL, ""
    like = CRT | queue("COPIED", "DSP") | queue("COPY", "PUT")
    yield "LIKE", f"{MAKE} LIKE(COPIED)", like, LOCAL, ""
    remote = "DEFINE QREMOTE(NEW) RNAME(X)"
    yield "QREMOTE", f"{remote} RQMNAME(QM2)", CRT | WAY, REMOTE, ""
    yield "QREMOTE XMITQ", f"{remote} RQMNAME(Z) XMITQ(QM2)", CRT | WAY, REMOTE, ""
    yield "QREMOTE to home", "DEFINE QREMOTE(NEW) RNAME(Q) RQMNAME(QM1)", CRT | ON_Q, REMOTE, ""
    yield "ALTER QREMOTE", "ALTER QREMOTE(NEW) RQMNAME(QM2)", CHG | WAY, REMOTE, f"{remote} RQMNAME(Z)"
    redirected = "ALTER CHANNEL(NEW) CHLTYPE(SDR) XMITQ(Q)"
    sender = "DEFINE CHANNEL(NEW) CHLTYPE(SDR) CONNAME('h(1)') XMITQ(QM2)"
    needs = of("CHANNEL", NEW, "CHG", "DSP") | queue("Q", "GET")
    yield "ALTER CHANNEL XMITQ", redirected, needs, "DELETE CHANNEL(NEW)", sender
    qmgr = of("QMGR", "QM1", "CHG", "DSP")
    yield "ALTER QMGR DEADQ", "ALTER QMGR DEADQ(Q)", qmgr | ON_Q, f"ALTER QMGR DEADQ({DEAD})", ""
    yield "ALTER QMGR DEFXMITQ", "ALTER QMGR DEFXMITQ(QM2)", qmgr | WAY, "ALTER QMGR DEFXMITQ(' ')", ""
    topic = of("TOPIC", "PRESS", "CHG", "DSP") | queue("M", "GET")
    yield "topic's model", "ALTER TOPIC(PRESS) MNDURMDL(M)", topic, "ALTER TOPIC(PRESS) MNDURMDL(' ')", ""


def commands_about_system_queues() -> Iterator[Command]:
    named = queue("SYSTEM.NEW.**", "CRT")
    yield "DEFINE SYSTEM.*", "DEFINE QLOCAL(SYSTEM.NEW)", named, "DELETE QLOCAL(SYSTEM.NEW)", ""
    alias = f"DEFINE QALIAS(NEW) TARGET({DEAD}) GET(DISABLED)"
    yield "QALIAS of SYSTEM.*", alias, CRT | LETTER, ALIAS, ""
    for keyword in ("STREAMQ", "BOQNAME"):
        yield f"{keyword} of SYSTEM.*", f"{MAKE} {keyword}({DEAD})", CRT | LETTER, LOCAL, ""
    remote = f"DEFINE QREMOTE(NEW) RNAME({DEAD}) RQMNAME(QM2)"
    yield "QREMOTE of SYSTEM.*", remote, CRT | LETTER | WAY, REMOTE, ""


def commands_of_administrators() -> Iterator[Command]:
    for keyword in ("PROCESS(P)", "INITQ(STARTS)", "TRIGDATA('x')"):
        yield f"DEFINE {keyword}", f"{MAKE} {keyword}", CRT, LOCAL, ""
        yield f"ALTER {keyword}", f"ALTER QLOCAL(NEW) {keyword}", CHG, LOCAL, MAKE
        yield f"QMODEL {keyword}", f"DEFINE QMODEL(NEW) {keyword}", CRT, MODEL, ""
    nothing: set[Right] = set()
    yield "DEFINE PROCESS", "DEFINE PROCESS(NEW)", nothing, "DELETE PROCESS(NEW)", ""
    yield "DEFINE NAMELIST", "DEFINE NAMELIST(NEW) NAMES(Q)", nothing, "DELETE NAMELIST(NEW)", ""
    subscription = "DEFINE SUB('NEW') TOPICSTR('news') DEST(Q)"
    yield "DEFINE SUB", subscription, nothing, "DELETE SUB('NEW')", ""
    grant = "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('carl') AUTHADD(PUT)"
    yield "SET AUTHREC", grant, nothing, grant.replace("ADD", "RMV"), ""
    rule = "SET CHLAUTH(SIDE) TYPE(BLOCKUSER) USERLIST('x')"
    yield "SET CHLAUTH", rule, nothing, f"{rule} ACTION(REMOVE)", ""


def commands_that_never_succeed() -> Iterator[Command]:
    for name in INTERNAL:
        yield f"SUB to internal {name}", f"DEFINE SUB('NEW') TOPICSTR('news') DEST({name})", set(), "", ""


NATIVE = [*put_rows(), *get_rows(), *topic_rows(), *other_rows(), *channel_rows(), *command_rows()]


# --- AMQP ----------------------------------------------------------------------------------------

BODY = Message(b"x", priority=4)


def sending(address: str, arrives: str, to: str = "", **fields: Any) -> Act:
    """By a link to an address, or by the anonymous relay."""

    def act(amqp: Amqp) -> bool:
        def attach_and_put() -> None:
            message = Message(b"x", priority=4, **fields)
            if amqp.attach(sender=True, source=[], target=[address] if address else [None]):
                amqp.put(encode_message(message, to or address))

        return amqp.world.grows(arrives, attach_and_put)

    return act


def receiving(address: str, holds: str, *, copies: bool = False) -> Act:
    def act(amqp: Amqp) -> bool:
        amqp.world.fill(holds)
        source = [address, None, None, None, None, None, Symbol("copy" if copies else "move")]
        return amqp.attach(sender=False, source=source, target=[])

    return act


def subscribing_by_link(amqp: Amqp) -> bool:
    return amqp.attach(sender=False, source=["topic://news"], target=[])


def opening_theirs_by_link(amqp: Amqp) -> bool:
    """A durable one whose name the container and the link make up."""
    host, link = amqp.world.host, amqp.world.fresh("link")
    name = f"{amqp.container}:{link}"
    host.subscribe(SubscriptionDefinition(name=name, topic="news", managed=True, durable=True, user="carl", type="API"))
    host.leave_subscription(name)
    source = ["topic://news", UInt(2), Symbol("never")]
    done = amqp.attach(sender=False, source=source, target=[], name=link)
    if not done:
        host.unsubscribe(name)
    return done  # the next attach closes it, which ends it


def making_by_link(amqp: Amqp) -> bool:
    return amqp.attach(sender=False, source=[None, None, None, None, True], target=[])


def amqp_rows() -> Iterator[Row]:
    sender, receiver = "sender link", "receiver link"
    model = "SYSTEM.DEFAULT.MODEL.QUEUE"
    for relay in (False, True):
        kind = "anonymous relay" if relay else sender
        for way, address, arrives, needs, beside, more in (
            ("direct", "Q", "Q", ON_Q, (), {}),
            ("alias", "A", "Q", queue("A", "PUT"), ("Q",), {}),
            ("remote definition", "FAR", "QM2", queue("FAR", "PUT"), ("QM2",), {}),
            ("transmission queue", "X@QM2", "QM2", queue("QM2", "PUT"), ("X",), {}),
            ("topic", "topic://news", "PAPER", PUB, (), {}),
            ("dead-letter queue", DEAD, DEAD, queue(DEAD, "PUT"), (), CLOSED),
            *((f"internal {name}", name, name, queue(name, "PUT"), (), NEVER) for name in INTERNAL),
        ):
            act = sending("", arrives, address) if relay else sending(address, arrives)
            yield row(kind, way, needs, act, *beside, **more)
    for copies in (False, True):
        word = "BROWSE" if copies else "GET"
        kind = f"{receiver}, {word.lower()}"
        yield row(kind, "direct", queue("Q", word), receiving("Q", "Q", copies=copies))
        yield row(kind, "alias", queue("A", word), receiving("A", "Q", copies=copies), "Q")
        yield row(kind, "dead-letter queue", queue(DEAD, word), receiving(DEAD, DEAD, copies=copies), **CLOSED)
    yield row(receiver, "topic", SUB, subscribing_by_link)
    yield row(receiver, "another's subscription", SUB, opening_theirs_by_link, **ADMINISTRATORS)
    yield row(receiver, "dynamic", queue(model, "GET"), making_by_link)


AMQP = list(amqp_rows())


# --- the cells -----------------------------------------------------------------------------------


def everything() -> set[Right]:
    return {(kind, "**", word) for kind in TYPES for word in WORDS}


def cells(checked: Row, *, whole: bool) -> Iterator[tuple[str, set[Right], bool]]:
    """What the user has, and whether it is enough; `whole`: with every single right."""
    needs = set(checked.needs)
    yield "nothing", set(), checked.user and not needs - {CONNECT}
    yield "exactly what it takes", needs, checked.user
    yield "everything by **", everything(), checked.user and checked.generic
    objects = {(kind, name) for kind, name, _ in needs} | checked.beside
    whole_rights = {(kind, name, word) for kind, name in objects for word in WORDS}
    for missing in sorted(needs - {CONNECT}):
        yield f"all but {missing}", whole_rights - {missing}, False
    for kind, name in sorted(checked.beside):
        yield f"all on {name} alone", {(kind, name, word) for word in WORDS}, checked.user and not needs
    for single in sorted(whole_rights) if whole else ():
        yield f"only {single}", {single}, checked.user and needs <= {single, CONNECT}


def mistakes(world: World, rows: list[Row], user: Any, administrator: Any, *, whole: bool) -> list[str]:
    found = []
    for checked in rows:
        for what, rights, expected in cells(checked, whole=whole):
            world.grant(rights)
            try:
                happened = checked.act(user())
            except EntrepotError as error:
                found.append(f"{checked} with {what}: {error}")
                continue
            if happened != expected:
                found.append(f"{checked} with {what}: {'happened' if happened else 'was refused'}")
        world.grant(())
        if checked.act(administrator()) != checked.administrator:
            found.append(f"{checked}: not as expected for an administrator")
    return found


def require_none(found: list[str]) -> None:
    assert not found, "\n".join(found)


@pytest.fixture(scope="module")
def world(path: Path) -> Iterator[World]:
    """A server whose folder is in memory: thousands of commands are carried out, and none has to last."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        shutil.copytree(path, Path(folder) / "QM1")
        with ServerThread(Path(folder) / "QM1") as server:
            with connect(server.unix_url, application="tests") as admin:
                admin.mqsc(OBJECTS)
                admin.claim("flow/seen", 1)
            world = World(server)
            world.withdraw()
            yield world


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused login is answered at once."""
    monkeypatch.setattr("entrepot.server.password_checks.FAILURE_DELAY_S", 0.0)


def native_of(world: World, listener: str) -> tuple[Callable[[], Native], Callable[[], Native], list[Native]]:
    both = [Native(world, USER, listener), Native(world, ADMINISTRATOR, listener)]
    return lambda: both[0], lambda: both[1], both


def test_every_verb_has_a_row_and_every_word_a_column() -> None:
    asked = {verb for verb in Verb if verb < Verb.WELCOME}
    assert {each.verb for each in NATIVE} == asked
    assert set(WORDS) == authority.WORDS
    assert len({str(each) for each in NATIVE}) == len(NATIVE)


def test_every_cell_of_the_native_protocol(world: World) -> None:
    user, administrator, both = native_of(world, "TCP")
    try:
        require_none(mistakes(world, NATIVE, user, administrator, whole=True))
    finally:
        for each in both:
            each.close()


def test_rows_over_tls(world: World) -> None:
    user, administrator, both = native_of(world, "TLS")
    try:
        require_none(mistakes(world, NATIVE, user, administrator, whole=False))
    finally:
        for each in both:
            each.close()


def test_every_cell_of_amqp(world: World) -> None:
    world.grant(())
    both = [Amqp(world, USER), Amqp(world, ADMINISTRATOR)]
    try:
        require_none(mistakes(world, AMQP, lambda: both[0], lambda: both[1], whole=True))
    finally:
        for each in both:
            each.close()


def test_nothing_is_left_behind(world: World) -> None:
    names = {definition.name for definition in world.host.definitions()}
    assert not [name for name in names if "NEW" in name]
