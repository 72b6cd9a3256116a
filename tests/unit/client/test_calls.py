# SPDX-License-Identifier: Apache-2.0
"""The blocking client's verbs: what each says, in which order, and what a unit of work is after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from entrepot.client.protocol import GATHER_BYTES
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import (
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    Fenced,
    LogFull,
    MessageTooLong,
    QueueNotFound,
    UnitBackedOut,
    UnitFinished,
)
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.error_form import to_wire
from entrepot.server.wire.verbs import Verb

from .scripted import CUT, Client, Scripted, scripted


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    server = scripted(monkeypatch)
    server.answers[Verb.GET] = verbs.MessageAnswer(False, None)
    server.answers[Verb.GET_MANY] = server.answers[Verb.GET_GROUP] = verbs.MessagesAnswer([])
    server.answers[Verb.SUBSCRIBE] = verbs.DonePayload(["S", "S.QUEUE"])
    server.answers[Verb.HEARTBEAT] = verbs.Empty()
    server.answers[Verb.BEGIN_GLOBAL] = verbs.DonePayload(b"entrepot-1")
    server.answers[Verb.CONSUME] = lambda frame: verbs.DonePayload(4 if frame.held else None)
    yield server
    server.close()


def lose_quietly(server: Scripted) -> None:
    """The server hangs up while nobody says anything."""
    server.connection.hang_up()
    server.clock.advance(1.0)


def a_put(client: Client, unit: Any = None, wait_s: float = 0.0) -> bytes:
    return client.put("Q", Message(b"x"), unit=unit, wait_s=wait_s)


def a_pipelined_put(client: Client) -> Any:
    pipeline = client.pipeline()
    pipeline.put("Q", b"x", wait_s=1.0)
    return pipeline


SPEAKING: dict[str, tuple[Verb, Callable[[Client], Any]]] = {
    "put": (Verb.PUT, a_put),
    "put in a unit": (Verb.PUT, lambda client: a_put(client, client.begin(), 1.0)),
    "put without an answer": (
        Verb.PUT,
        lambda client: client.put_unanswered("Q", Message(b"x"), persistent=None, priority=None),
    ),
    "put of a pipeline": (Verb.PUT, a_pipelined_put),
    "get": (Verb.GET, lambda client: client.get("Q")),
    "get many": (Verb.GET_MANY, lambda client: client.get_many("Q", 5, None, unit=client.begin())),
    "begin a global unit": (Verb.BEGIN_GLOBAL, lambda client: client.connection._coordinator.begin()),
    "consume": (Verb.CONSUME, lambda client: client.open_consumer("Q", 5)),
    "read": (Verb.CONSUME, lambda client: client.begin_holding("Q", 5)),
    "subscribe": (Verb.SUBSCRIBE, lambda client: client.connection.subscribe("a")),
    "claim": (Verb.CLAIM, lambda client: client.connection.claim("flow/1", 1)),
    "retire": (Verb.RETIRE, lambda client: client.connection.retire("flow/1", 1)),
}


@pytest.mark.parametrize("name", SPEAKING)
def test_every_verb_finds_the_next_connection_before_it_says_anything(server: Scripted, name: str) -> None:
    verb, speak = SPEAKING[name]
    client = server.client()
    lose_quietly(server)
    speak(client)
    assert (server.verbs(0), server.verbs(1)) == ([], [verb])


@pytest.mark.parametrize("name", SPEAKING)
def test_no_verb_does_anything_after_the_end(server: Scripted, name: str) -> None:
    client = server.client()
    client.close()
    with pytest.raises(ConnectionClosed):
        SPEAKING[name][1](client)
    assert server.verbs() == [Verb.GOODBYE]


def test_a_message_has_an_id_of_the_connection_on_which_it_is_sent(server: Scripted) -> None:
    client = server.client()
    ids = [a_put(client)]
    lose_quietly(server)
    ids += [a_put(client), a_put(client, client.begin())]
    assert [each[:5] for each in ids] == [b"head1", b"head2", b"head2"]
    assert len(set(ids)) == 3


def test_a_body_is_judged_by_what_the_connection_on_which_it_is_sent_takes(server: Scripted) -> None:
    client = server.client()
    lose_quietly(server)
    server.body_bytes_max = 0
    for speak in (a_put, a_pipelined_put, lambda client: a_put(client, client.begin())):
        with pytest.raises(MessageTooLong):
            speak(client)


# --- puts ----------------------------------------------------------------------------------------


def test_puts_of_a_unit_gather_until_something_else_is_said(server: Scripted) -> None:
    client = server.client()
    unit = client.begin()
    for _ in range(3):
        a_put(client, unit)
    assert server.verbs() == []
    assert unit.messages == 3
    client.commit(unit)
    assert server.verbs() == [Verb.PUT] * 3 + [Verb.COMMIT]
    assert [frame.unit for frame in server.frames(Verb.PUT)] == [unit.number] * 3


def test_what_gathers_is_sent_when_it_is_enough(server: Scripted) -> None:
    client = server.client()
    unit, body = client.begin(), b"x" * (GATHER_BYTES // 2 + 1)
    client.put_many(unit, [("Q", None, None, Message(body))])
    assert server.verbs() == []
    client.put_many(unit, [("Q", None, None, Message(body))])
    assert server.verbs() == [Verb.PUT] * 2
    pipeline = client.pipeline()
    for _ in range(2):
        pipeline.put("Q", body)
    assert server.verbs() == [Verb.PUT] * 4


def test_many_puts_that_want_an_answer_are_sent_at_once_and_have_one(server: Scripted) -> None:
    client = server.client()
    server.answers[Verb.PUT_MANY] = QueueNotFound("NOWHERE")
    unit = client.begin()
    with pytest.raises(QueueNotFound):
        client.put_many(unit, [("Q", None, None, Message(b"x"))] * 2, answered=True)
    assert [len(frame.puts) for frame in server.frames(Verb.PUT_MANY)] == [2, 0]
    assert unit.messages == 2


def test_a_pipeline_is_told_of_a_refusal_and_of_a_broken_connection_once(server: Scripted) -> None:
    client = server.client()
    for reply, error in ((QueueNotFound("Q"), QueueNotFound), (CUT, ConnectionLost)):
        server.answers[Verb.SYNCHRONIZE] = reply
        pipeline = a_pipelined_put(client)
        with pytest.raises(error):
            pipeline.wait()
        pipeline.wait()
    assert len(server.frames(Verb.SYNCHRONIZE)) == 2


def test_a_pipeline_whose_puts_went_with_a_connection_is_told(server: Scripted) -> None:
    client = server.client()
    pipeline, idle = a_pipelined_put(client), client.pipeline()
    lose_quietly(server)
    a_put(client)
    idle.wait()
    with pytest.raises(ConnectionLost):
        pipeline.wait()


# --- units of work -------------------------------------------------------------------------------


def test_a_unit_in_which_nothing_was_done_ends_without_a_word(server: Scripted) -> None:
    client = server.client()
    committed, backed_out = client.begin(), client.begin()
    client.commit(committed)
    client.back_out(backed_out)
    assert (committed.state, backed_out.state) == (UnitState.COMMITTED, UnitState.BACKED_OUT)
    assert server.verbs() == []
    for end in (client.commit, client.back_out, lambda unit: client.prepare(unit, b"x")):
        with pytest.raises(UnitFinished):
            end(committed)


def test_a_unit_in_which_something_was_done_ends_at_the_server(server: Scripted) -> None:
    client = server.client()
    ends: list[tuple[Callable[[Any], None], Verb, UnitState]] = [
        (client.commit, Verb.COMMIT, UnitState.COMMITTED),
        (client.back_out, Verb.BACK_OUT, UnitState.BACKED_OUT),
        (lambda unit: client.prepare(unit, b"x"), Verb.PREPARE, UnitState.PREPARED),
    ]
    for end, verb, state in ends:
        client.get("Q", unit=(unit := client.begin()))
        end(unit)
        assert unit.state is state
        assert server.verbs()[-1] == verb


def test_a_unit_whose_commit_failed_is_what_the_server_says_it_is(server: Scripted) -> None:
    client = server.client()

    def still_active(_: Any) -> None:
        failed = verbs.Failed(to_wire(LogFull(1)), unit_active=True)
        server.connection.say(Verb.FAILED, server.connection.heard[-1][1], failed)

    replies: list[tuple[Any, type[Exception], UnitState]] = [
        (QueueNotFound("Q"), QueueNotFound, UnitState.BACKED_OUT),
        (still_active, LogFull, UnitState.ACTIVE),
        (CUT, ConnectionLost, UnitState.UNKNOWN),
    ]
    for reply, error, state in replies:
        client.get("Q", unit=(unit := client.begin()))
        server.answers[Verb.COMMIT] = reply
        with pytest.raises(error):
            client.commit(unit)
        assert unit.state is state


@pytest.mark.parametrize(
    ("verb", "work"),
    [
        (Verb.GET, lambda client, unit: client.get("Q", unit=unit)),
        (Verb.GET_MANY, lambda client, unit: client.get_many("Q", 2, None, unit=unit)),
        (Verb.PUT, lambda client, unit: a_put(client, unit, 1.0)),
    ],
)
def test_a_unit_whose_connection_breaks_is_backed_out(server: Scripted, verb: Verb, work: Any) -> None:
    client = server.client()
    server.answers[verb] = CUT
    unit = client.begin()
    with pytest.raises(UnitBackedOut):
        work(client, unit)
    assert unit.state is UnitState.BACKED_OUT
    assert len(server.frames(verb)) == 1


def test_backing_out_needs_no_connection(server: Scripted) -> None:
    client = server.client()
    units = [client.begin() for _ in range(2)]
    for unit in units:
        client.get("Q", unit=unit)
    lose_quietly(server)
    client.get("Q")
    server.answers[Verb.BACK_OUT] = CUT
    client.back_out(units[0])
    client.get("Q", unit=(fresh := client.begin()))
    client.back_out(fresh)
    client.back_out(units[1])
    assert {unit.state for unit in [*units, fresh]} == {UnitState.BACKED_OUT}
    assert len(server.frames(Verb.BACK_OUT)) == 1
    client.close()
    with pytest.raises(ConnectionClosed):
        client.back_out(units[0])


def test_without_a_connection_only_a_unit_in_which_something_was_done_is_backed_out(server: Scripted) -> None:
    client = server.client(reconnect_s=0)
    idle, used = client.begin(), client.begin()
    client.get("Q", unit=used)
    lose_quietly(server)
    for unit in (idle, used):
        with pytest.raises(ConnectFailed):
            client.get("Q", unit=unit)
    assert (idle.state, used.state) == (UnitState.ACTIVE, UnitState.BACKED_OUT)


def test_a_request_whose_reply_queue_went_with_its_connection_is_not_put(server: Scripted) -> None:
    client = server.client()
    server.answers[Verb.REQUEST] = verbs.MessageAnswer(False, Message(b"reply"))

    def ask(opened: int) -> Message | None:
        return client.request("Q", Message(b""), "R", 1.0, persistent=None, priority=None, opened=opened)

    first = ask(client.opened)
    assert first is not None and first.body == b"reply"
    lose_quietly(server)
    assert ask(1) is None
    assert ask(2) is not None
    assert len(server.frames(Verb.REQUEST)) == 2


def test_who_was_closed_while_it_waited_is_told_so(server: Scripted) -> None:
    client = server.client()

    def close(_: Any) -> None:
        client.line._closed = True
        server.connection.hang_up()

    server.answers[Verb.GET] = close
    with pytest.raises(ConnectionClosed):
        client.get("Q", wait_s=5.0)


def test_a_get_that_is_asked_again_waits_no_longer_than_it_was_to(server: Scripted) -> None:
    client = server.client()

    def cut(_: Any) -> Any:
        server.clock.advance(4.0)
        return CUT if len(server.connections) < 4 else verbs.MessageAnswer(False, None)

    server.answers[Verb.GET] = cut
    assert client.get("Q", wait_s=10.0) is None
    assert [frame.wait_s for frame in server.frames(Verb.GET)] == [10.0, 6.0, 2.0, 0.0]


def test_who_is_fenced_has_ended_all_its_units(server: Scripted) -> None:
    client = server.client()
    unit = client.begin()
    server.answers[Verb.GET] = lambda _: (
        server.connection.say(Verb.CLOSING, 0, verbs.Closing(to_wire(Fenced("flow/1", 1, 2))))
        or verbs.MessageAnswer(False, None)
    )
    client.get("Q")
    for speak in (lambda: client.get("Q", unit=unit), lambda: a_put(client)):
        with pytest.raises(Fenced):
            speak()
    assert unit.state is UnitState.BACKED_OUT
