# SPDX-License-Identifier: Apache-2.0
"""A blocking client's connection: what is sent and asked again, what breaks it, and when the next one is opened."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from entrepot.errors import (
    AuthenticationFailed,
    ConnectFailed,
    ConnectionClosed,
    ConnectionLost,
    Fenced,
    FrameUnreadable,
    QueueNotFound,
)
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.error_form import to_wire
from entrepot.server.wire.verbs import Verb

from .scripted import CUT, Client, Scripted, scripted

BROKEN = OSError(errno.EPIPE, "Broken pipe")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    server = scripted(monkeypatch)
    yield server
    server.close()


def cut_once(server: Scripted, verb: Verb, reply: Any = None) -> None:
    """The connection breaks when a verb is said for the first time."""
    replies = iter([CUT])
    server.answers[verb] = lambda _: next(replies, reply or verbs.DonePayload(None))


# --- asking again --------------------------------------------------------------------------------

CHANGES: dict[str, tuple[Verb, Callable[[Client], Any]]] = {
    "mqsc": (Verb.MQSC, lambda client: client.administration.mqsc("DEFINE QLOCAL(X)")),
    "dynamic": (Verb.DYNAMIC, lambda client: client.connection.dynamic_queue("M", "X.*")),
    "resolve": (Verb.RESOLVE, lambda client: client.connection.resolve(b"x", commit=True)),
    "unsubscribe": (Verb.UNSUBSCRIBE, lambda client: client.connection.unsubscribe("S")),
    "synchronize": (Verb.SYNCHRONIZE, lambda client: client.synchronize()),
    "manage": (Verb.MANAGE, lambda client: client.administration.checkpoint()),
    "put": (Verb.PUT, lambda client: client.put("Q", Message(b""))),
}
LOOKS: dict[str, tuple[Verb, Any, Callable[[Client], Any]]] = {
    "mqsc": (Verb.MQSC, verbs.Answers([]), lambda client: client.administration.mqsc("DISPLAY QMGR")),
    "browse": (Verb.BROWSE, verbs.MessagesAnswer([]), lambda client: client.browse("Q", None, None, 5)),
    "in doubt": (Verb.IN_DOUBT, verbs.DonePayload([]), lambda client: client.connection.in_doubt()),
    "claims": (Verb.CLAIMS, verbs.DonePayload([]), lambda client: client.connection.claims("flow/")),
    "epoch": (Verb.NEXT_EPOCH, verbs.DonePayload(7), lambda client: client.connection.next_epoch("flow/")),
    "status": (Verb.MANAGE, verbs.DonePayload({}), lambda client: client.administration.status()),
    "get": (Verb.GET, verbs.MessageAnswer(False, None), lambda client: client.get("Q")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_something_is_not_asked_again_when_its_answer_is_lost(server: Scripted, name: str) -> None:
    verb, ask = CHANGES[name]
    client = server.client()
    cut_once(server, verb)
    with pytest.raises(ConnectionLost):
        ask(client)
    assert len(server.frames(verb)) == 1


@pytest.mark.parametrize("name", LOOKS)
def test_what_only_looks_is_asked_again_on_the_next_connection(server: Scripted, name: str) -> None:
    verb, reply, ask = LOOKS[name]
    client = server.client()
    cut_once(server, verb, reply)
    ask(client)
    assert len(server.frames(verb)) == len(server.connections) == client.opened == 2


@pytest.mark.parametrize("name", LOOKS)
def test_who_does_not_reconnect_is_told_that_the_answer_was_lost(server: Scripted, name: str) -> None:
    verb, reply, ask = LOOKS[name]
    client = server.client(reconnect_s=0)
    cut_once(server, verb, reply)
    with pytest.raises(ConnectionLost):
        ask(client)
    with pytest.raises(ConnectFailed):
        ask(client)
    assert len(server.connections) == 1


def test_what_only_looks_is_not_asked_for_ever(server: Scripted) -> None:
    client = server.client(reconnect_s=10)

    def cut(_: Any) -> object:
        server.clock.advance(4.0)
        assert len(server.connections) < 20, "it is asked for ever"
        return CUT

    server.answers[Verb.IN_DOUBT] = cut
    with pytest.raises(ConnectionLost):
        client.connection.in_doubt()
    assert len(server.frames(Verb.IN_DOUBT)) == 4


# --- what breaks it ------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [10, 1 << 19])  # one piece, and a body that is sent as a piece of its own
def test_a_connection_that_takes_no_more_is_left_and_who_waits_is_told(server: Scripted, size: int) -> None:
    client = server.client()
    incoming = client.consume("R", 5)
    server.connection.client.problem = BROKEN
    client.put_unanswered("Q", Message(b"x" * size), persistent=None, priority=None)
    assert server.connection.is_left
    assert incoming.ahead.is_lost


@pytest.mark.parametrize("size", [10, 1 << 19])
def test_what_was_said_before_a_write_failed_is_heard(server: Scripted, size: int) -> None:
    client = server.client()
    server.connection.say(Verb.CLOSING, 0, verbs.Closing(to_wire(QueueNotFound("LAST.WORDS"))))
    server.connection.client.problem = BROKEN
    with pytest.raises(ConnectionLost, match=r"LAST\.WORDS"):
        client.put("Q", Message(b"x" * size))


def test_an_interrupted_wait_ends_the_connection(server: Scripted) -> None:
    client = server.client()

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    server.answers[Verb.GET] = None
    server.connection.client.recv_into = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        client.get("Q", wait_s=60)
    assert server.connection.is_left
    client.put("Q", Message(b""))
    assert len(server.connections) == 2


def test_an_answer_that_makes_no_sense_ends_the_connection(server: Scripted) -> None:
    client = server.client()
    server.answers[Verb.PUT] = lambda _: server.connection.say(Verb.DONE, 999, verbs.DonePayload(None))
    with pytest.raises(ConnectionLost):
        client.put("Q", Message(b""))
    assert server.connection.is_left


# --- what a connection does not take at once -------------------------------------------------------


@pytest.mark.parametrize("bodies", [[3], [70_000], [10, 70_000, 20, 300_000, 30]])
@pytest.mark.parametrize("takes", [1, 1000, 70_012])
def test_all_is_sent_in_order_however_little_is_taken_at_a_time(
    server: Scripted, bodies: list[int], takes: int
) -> None:
    client = server.client()
    server.connection.client.takes = takes
    server.connection.client.takes_later = (takes, 0, 3 * takes, *[5000] * 200)
    unit = client.begin()
    client.put_many(unit, [("Q", None, None, Message(b"x" * size)) for size in bodies])
    client.commit(unit)
    sent = [put[3] for frame in server.frames(Verb.PUT_MANY) for put in frame.puts]
    sent += [frame.message for frame in server.frames(Verb.PUT)]
    assert sorted(len(message.body) for message in sent) == sorted(bodies)
    assert server.verbs()[-1] == Verb.COMMIT


def test_what_comes_while_a_connection_takes_no_more_is_heard(server: Scripted) -> None:
    client = server.client()
    incoming = client.consume("R", 5)
    server.connection.client.takes = 5
    server.connection.client.takes_later = (0, 0, 1 << 20)
    server.connection.say(Verb.DELIVERY, 0, verbs.DeliveryPayload(1, 1, Message(b"came")))
    client.put("Q", Message(b"x" * 1000))
    message = incoming.get(0.0)
    assert message is not None and message.body == b"came"


# --- the next one --------------------------------------------------------------------------------


def test_a_connection_that_was_closed_while_idle_is_replaced_before_anything_is_said(server: Scripted) -> None:
    client = server.client()
    server.connection.hang_up()
    server.clock.advance(1.0)
    client.put("Q", Message(b""))
    assert (server.verbs(0), server.verbs(1)) == ([], [Verb.PUT])


def test_connecting_is_tried_again_at_longer_and_longer_intervals_and_not_for_ever(server: Scripted) -> None:
    client = server.client(reconnect_s=5)
    server.connection.hang_up()
    server.clock.advance(1.0)
    server.is_reachable = False
    with pytest.raises(ConnectFailed, match="tried for 5 s"):
        client.put("Q", Message(b""))
    assert server.slept == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0])
    assert len(server.connections) == 1
    server.is_reachable = True
    client.put("Q", Message(b""))
    assert client.opened == 2


@pytest.mark.parametrize("error", [AuthenticationFailed(), Fenced("flow/1", 1, 2)])
def test_who_is_not_let_in_again_does_not_try_once_more(server: Scripted, error: Any) -> None:
    client = server.client()
    server.connection.hang_up()
    server.clock.advance(1.0)
    server.answers[Verb.HELLO] = error
    with pytest.raises(type(error)):
        client.put("Q", Message(b""))
    assert len(server.connections) == 2
    assert server.connection.is_left
    assert server.slept == []


def test_a_connection_that_does_not_come_about_leaves_no_socket(server: Scripted) -> None:
    words = verbs.Closing(to_wire(FrameUnreadable("not you")))
    beginnings: list[tuple[Any, str | None]] = [
        (AuthenticationFailed(), None),
        (CUT, "closed before the queue manager answered"),
        (lambda _: server.connection.say_bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "HTTP"),
        (lambda _: (server.connection.say(Verb.CLOSING, 0, words), CUT)[1], "not you"),
    ]
    for reply, problem in beginnings:
        server.answers[Verb.HELLO] = reply
        with pytest.raises((AuthenticationFailed, ConnectFailed), match=problem):
            server.client()
        assert server.connection.is_left


def test_what_was_claimed_is_claimed_again_before_anything_else(server: Scripted) -> None:
    client = server.client()
    server.answers[Verb.CLAIM] = verbs.DonePayload("run")
    assert client.connection.claim("flow/1", 3) == "run"
    server.connection.hang_up()
    server.clock.advance(1.0)
    client.put("Q", Message(b""))
    assert server.verbs() == [Verb.CLAIM, Verb.PUT]
    assert [(frame.name, frame.epoch) for frame in server.frames(Verb.CLAIM)] == [("flow/1", 3)] * 2
    server.answers[Verb.CLAIM] = Fenced("flow/1", 3, 4)
    server.connection.hang_up()
    server.clock.advance(1.0)
    for _ in range(2):
        with pytest.raises(Fenced):
            client.put("Q", Message(b""))
    assert len(server.connections) == 3
    assert server.connection.is_left


# --- heartbeats ----------------------------------------------------------------------------------


def test_looking_after_a_connection_never_waits(server: Scripted) -> None:
    server.heartbeat_s = 10.0
    client = server.client()
    client.look_after()  # a read would be an error here, as nothing has come
    assert server.verbs() == []


def test_who_is_silent_says_something_after_half_a_heartbeat(server: Scripted) -> None:
    server.heartbeat_s = 10.0
    client = server.client()
    for passed_s, said in ((4.9, 0), (0.1, 1), (1.0, 1), (3.9, 1), (0.1, 2)):
        server.clock.advance(passed_s)
        server.connection.say(Verb.ALIVE, 0, verbs.Empty())
        client.look_after()
        assert server.verbs().count(Verb.HEARTBEAT) == said


def test_a_server_that_says_nothing_is_left_after_two_and_a_half_heartbeats(server: Scripted) -> None:
    server.heartbeat_s = 10.0
    client = server.client()
    incoming = client.consume("R", 5)
    server.clock.advance(25.0)
    client.look_after()
    assert not server.connection.is_left
    server.clock.advance(0.1)
    client.look_after()
    assert server.connection.is_left
    assert incoming.ahead.is_lost


def test_without_heartbeats_nothing_is_said_and_nobody_is_left(server: Scripted) -> None:
    client = server.client()
    server.clock.advance(1e6)
    client.look_after()
    assert server.verbs() == []
    assert not server.connection.is_left


def test_what_was_not_taken_is_sent_by_who_looks_after_the_connection(server: Scripted) -> None:
    client = server.client()
    server.answers[Verb.GET] = verbs.MessageAnswer(True, Message(b"x"))
    original = server.connection.client

    def get_taken(_: Any) -> verbs.MessageAnswer:
        original.takes = 0  # the acknowledgement is not taken
        return verbs.MessageAnswer(True, Message(b"x"))

    server.answers[Verb.GET] = get_taken
    assert client.get("Q") is not None
    assert Verb.ACKNOWLEDGE not in server.verbs()
    original.takes = None
    client.look_after()
    assert Verb.ACKNOWLEDGE in server.verbs()


# --- the end -------------------------------------------------------------------------------------


def test_closing_says_goodbye_once_and_nothing_is_done_afterwards(server: Scripted) -> None:
    client = server.client()
    client.close()
    client.close()
    assert server.verbs() == [Verb.GOODBYE]
    assert server.connection.is_left
    for name in ("put", "dynamic"):
        with pytest.raises(ConnectionClosed):
            CHANGES[name][1](client)
    client.look_after()
    assert len(server.connections) == 1


def test_closing_a_connection_that_has_broken_needs_no_other(server: Scripted) -> None:
    client = server.client()
    cut_once(server, Verb.RESOLVE)
    with pytest.raises(ConnectionLost):
        client.connection.resolve(b"x", commit=True)
    client.close()
    assert len(server.connections) == 1


def test_closing_does_not_wait_long_for_a_server_that_does_not_answer(server: Scripted) -> None:
    client = server.client()
    server.answers[Verb.GOODBYE] = None
    client.close()
    assert server.clock.elapsed() == pytest.approx(2.0)
    assert server.connection.is_left
