# SPDX-License-Identifier: Apache-2.0
"""The blocking client's consumers and readers: messages that came before they were asked for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from entrepot.errors import ConnectionLost, QueueNotFound, TooManyUncommitted
from entrepot.message import Message
from entrepot.server.wire import verbs
from entrepot.server.wire.verbs import Verb

from .scripted import Scripted, scripted


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    server = scripted(monkeypatch)
    server.answers[Verb.HEARTBEAT] = verbs.Empty()
    server.answers[Verb.CONSUME] = lambda frame: verbs.DonePayload(4 if frame.held else None)
    yield server
    server.close()


def lose_quietly(server: Scripted) -> None:
    """The server hangs up while nobody says anything."""
    server.connection.hang_up()
    server.clock.advance(1.0)


# --- consumers -----------------------------------------------------------------------------------


def deliver(server: Scripted, consumer: int, first: int, *bodies: bytes, persistent: bool = True) -> None:
    messages = [Message(body, persistent=persistent) for body in bodies]
    server.connection.say(Verb.DELIVERIES, 0, verbs.Deliveries(consumer, first, messages))


def test_a_consumer_that_stops_first_says_what_was_used(server: Scripted) -> None:
    client = server.client()
    incoming = client.consume("Q", 10)
    deliver(server, 1, 1, b"1", b"2", b"3")
    for _ in range(2):
        assert incoming.get(1.0) is not None
        incoming.done()
    assert server.verbs() == [Verb.CONSUME]
    incoming.close(tried=True)
    incoming.close(tried=True)
    assert server.verbs() == [Verb.CONSUME, Verb.CREDIT, Verb.STOP_CONSUMING]
    assert [(frame.used, frame.more) for frame in server.frames(Verb.CREDIT)] == [(2, 2)]
    assert [frame.tried for frame in server.frames(Verb.STOP_CONSUMING)] == [3]
    assert incoming.get(0.0) is None


def test_a_consumer_says_how_far_it_has_come_when_nothing_comes_for_a_moment(server: Scripted) -> None:
    client = server.client()
    incoming = client.consume("Q", 10)
    deliver(server, 1, 1, b"1")
    assert incoming.get(1.0) is not None
    incoming.done()
    assert incoming.get(1.0) is None
    assert server.verbs() == [Verb.CONSUME, Verb.CREDIT, Verb.HEARTBEAT]
    assert 1.0 <= server.clock.elapsed() < 1.1


def test_a_message_is_settled_or_returned_only_while_its_connection_is_there(server: Scripted) -> None:
    client = server.client()
    incoming = client.consume("Q", 10)
    deliver(server, 1, 1, b"1", b"2", b"3", b"4")
    for settle in (incoming.ack, lambda: incoming.retry(1.0), lambda: incoming.reject("no use")):
        assert incoming.get(1.0) is not None
        settle()
    assert server.verbs() == [Verb.CONSUME, Verb.CREDIT, Verb.RETURN, Verb.RETURN]
    assert [frame.delivery for frame in server.frames(Verb.RETURN)] == [2, 3]
    assert incoming.get(0.0) is not None
    lose_quietly(server)
    client.put("Q", Message(b""))
    for settle in (incoming.ack, lambda: incoming.retry(1.0), lambda: incoming.reject("no use")):
        with pytest.raises(ConnectionLost):
            settle()
    assert server.verbs() == [Verb.PUT]


def test_a_consumer_that_was_refused_is_forgotten(server: Scripted) -> None:
    client = server.client()
    server.answers[Verb.CONSUME] = QueueNotFound("Q")
    for open_one in (client.open_consumer, client.begin_holding):
        with pytest.raises(QueueNotFound):
            open_one("Q", 5)
    assert client.core.consumers == {}


def test_a_loop_goes_on_by_the_next_connection_and_says_nothing_of_the_last(server: Scripted) -> None:
    client = server.client()
    incoming = client.consume("Q", 10)
    deliver(server, 1, 1, b"1", b"2")
    deliver(server, 1, 3, b"n", persistent=False)
    assert incoming.get(0.0) is not None
    lose_quietly(server)
    client.put("Q", Message(b""))
    incoming.done()
    last = incoming.get(0.0)
    assert last is not None and last.body == b"n"
    assert incoming.get(0.0) is None
    assert server.verbs() == [Verb.PUT, Verb.CONSUME, Verb.HEARTBEAT]


# --- readers -------------------------------------------------------------------------------------


def test_a_unit_has_no_more_messages_than_may_be_uncommitted(server: Scripted) -> None:
    client = server.client()
    ahead = client.begin_holding("Q", 10)  # the server holds four
    deliver(server, 1, 1, b"1", b"2", b"3", b"4")
    client.wait_for_more(ahead, server.clock.now())
    unit = client.begin()
    client.put("Q", Message(b""), unit=unit)
    assert [message.body for message in client.hand_out(ahead, unit, 10)] == [b"1", b"2", b"3"]
    with pytest.raises(TooManyUncommitted):
        client.hand_out(ahead, unit, 10)
    client.commit(unit)
    assert [message.body for message in client.hand_out(ahead, client.begin(), 10)] == [b"4"]


def test_the_server_is_told_what_is_handed_out_before_the_application_has_it(server: Scripted) -> None:
    client = server.client()
    ahead = client.begin_holding("Q", 2)
    deliver(server, 1, 1, b"1", b"2")
    client.wait_for_more(ahead, server.clock.now())
    unit = client.begin()
    assert len(client.hand_out(ahead, unit, 1)) == 1
    assert [(frame.used, frame.more, frame.seen) for frame in server.frames(Verb.CREDIT)] == [(0, 1, 1)]
    client.commit(unit)
    assert server.frames(Verb.COMMIT)[0].used == [(1, 1)]
    assert ahead.settled == 1


def test_what_a_broken_connection_takes_back_is_not_handed_out(server: Scripted) -> None:
    client = server.client()
    ahead = client.begin_holding("Q", 4)
    deliver(server, 1, 1, b"1", b"2")
    client.wait_for_more(ahead, server.clock.now())
    server.connection.client.problem = BrokenPipeError(32, "Broken pipe")
    unit = client.begin()
    assert client.hand_out(ahead, unit, 2) == []
    assert ahead.is_lost and not unit.used
    assert client.hand_out(ahead, unit, 2) == []


def test_a_reader_that_stops_leaves_with_a_unit_what_that_has(server: Scripted) -> None:
    client = server.client()
    stopped = []
    for consumer, end in ((1, lambda unit: None), (2, client.commit)):
        ahead = client.begin_holding("Q", 4)
        deliver(server, consumer, 1, b"1", b"2")
        client.wait_for_more(ahead, server.clock.now())
        unit = client.begin()
        assert len(client.hand_out(ahead, unit, 1)) == 1
        end(unit)
        client.stop_holding(ahead)
        client.stop_holding(ahead)
        frame = server.frames(Verb.STOP_CONSUMING)[-1]
        stopped.append((frame.consumer, frame.used, frame.unit == unit.number))
    assert stopped == [(1, 1, True), (2, 0, False)]
    assert len(server.frames(Verb.STOP_CONSUMING)) == 2


def test_a_unit_that_is_backed_out_gives_back_what_was_read_ahead(server: Scripted) -> None:
    client = server.client()
    ahead = client.begin_holding("Q", 4)
    deliver(server, 1, 1, b"1", b"2")
    client.wait_for_more(ahead, server.clock.now())
    unit = client.begin()
    client.hand_out(ahead, unit, 1)
    client.back_out(unit)
    assert server.verbs()[-2:] == [Verb.BACK_OUT, Verb.STOP_CONSUMING]
    assert ahead.is_lost


def test_a_reader_asks_for_more_when_a_unit_with_all_that_it_may_have_has_ended(server: Scripted) -> None:
    client = server.client()
    ahead = client.begin_holding("Q", 10)  # the server holds four
    deliver(server, 1, 1, b"1", b"2", b"3", b"4")
    client.wait_for_more(ahead, server.clock.now())
    unit = client.begin()
    assert len(client.hand_out(ahead, unit, 10)) == 4
    client.commit(unit)
    assert client.hand_out(ahead, client.begin(), 10) == []
    assert [(frame.more, frame.seen) for frame in server.frames(Verb.CREDIT)] == [(0, 4), (4, 4)]
