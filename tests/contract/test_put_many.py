# SPDX-License-Identifier: Apache-2.0
"""By every binding: what is put with a unit of work, many messages in a frame, by flows and by `put_many`."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot import Connection
from entrepot.errors import InvalidArgument, MessageTooLong, PutInhibited, QueueFull, QueueNotFound
from entrepot.limits import BODY_BYTES_MAX
from entrepot.message import Message, PutInUnit
from entrepot.server.wire import codec
from folding import for_each


def messages(count: int) -> list[PutInUnit]:
    return [("Q", number % 2 == 0, None, Message(b"%d" % number)) for number in range(count)]


def test_all_of_them_come_with_the_commit_and_in_order(connection: Connection) -> None:
    with connection.unit_of_work() as unit:
        unit.put_messages(messages(500))
        assert not list(connection.browse("Q"))
    found = list(connection.browse("Q"))
    assert [message.body for message in found] == [b"%d" % number for number in range(500)]
    assert [message.persistent for message in found] == [number % 2 == 0 for number in range(500)]
    assert len({message.message_id for message in found}) == 500


def test_none_of_them_comes_when_the_unit_is_backed_out(connection: Connection) -> None:
    unit = connection.unit_of_work()
    unit.put_messages(messages(3))
    unit.back_out()
    assert not list(connection.browse("Q"))


def test_long_bodies_properties_and_short_ones_keep_their_order(connection: Connection) -> None:
    sizes = [10, 70_000, 5, 56 * 1024, 30_000, 30_000, 30_000, 1, 200_000, 2]
    puts = [("Q", None, None, Message(b"x" * size, properties={"n": size} if size % 2 else {})) for size in sizes]
    with connection.unit_of_work() as unit:
        unit.put_messages(puts, answered=True)
    found = list(connection.browse("Q"))
    assert [len(message.body) for message in found] == sizes
    assert [message.properties.get("n") for message in found] == [size if size % 2 else None for size in sizes]


@pytest.mark.parametrize("answered", [False, True])
def test_a_refusal_is_told_with_its_queue_and_backs_everything_out(connection: Connection, answered: bool) -> None:
    puts = [*messages(2), ("NOWHERE", None, None, Message(b"")), *messages(2)]
    with pytest.raises(QueueNotFound) as caught, connection.unit_of_work() as unit:
        unit.put_messages(puts, answered=answered)
    assert caught.value.queue == "NOWHERE"
    assert not list(connection.browse("Q"))


def test_who_asks_hears_of_what_was_refused_before(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) PUT(DISABLED)")
    with pytest.raises(PutInhibited), connection.unit_of_work() as unit:
        unit.put_messages(messages(1))
        unit.put_messages([], answered=True)
        pytest.fail("nobody told")


def test_a_full_queue_refuses(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(3)")
    with pytest.raises(QueueFull), connection.unit_of_work() as unit:
        unit.put_messages(messages(4), answered=True)
    with connection.unit_of_work() as unit:
        unit.put_messages(messages(3))
    assert len(list(connection.browse("Q"))) == 3


def test_publications_reach_their_subscribers(connection: Connection) -> None:
    with connection.subscribe("prices/#") as subscription:
        with connection.unit_of_work() as unit:
            unit.put_messages([("topic:prices/ibm", None, None, Message(b"231")), *messages(1)])
        message = subscription.get(wait_s=60)
    assert message is not None
    assert message.body == b"231"


def test_bodies_become_messages_that_are_alike(connection: Connection) -> None:
    bodies: list[Any] = [b"one", bytearray(b"two"), memoryview(b"three")]
    with connection.unit_of_work() as unit:
        ids = unit.put_many("Q", bodies, persistent=True, priority=7, properties={"n": 1}, correlation_id=b"c" * 24)
        assert unit.put_many("Q", []) == []
    found = list(connection.browse("Q"))
    assert [message.body for message in found] == [b"one", b"two", b"three"]
    assert [message.message_id for message in found] == ids
    assert {(m.persistent, m.priority, m.properties["n"], m.correlation_id) for m in found} == {(True, 7, 1, b"c" * 24)}
    assert all(message.user and message.application == connection.application for message in found)


def test_what_is_left_open_is_the_queues_to_say(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) DEFPSIST(YES) DEFPRTY(3)")
    with connection.unit_of_work() as unit:
        unit.put_many("Q", [b"a"])
    (message,) = connection.browse("Q")
    assert (message.persistent, message.priority) == (True, 3)


@for_each(
    ("bodies", "options", "argument"),
    [
        (b"one", {}, "bodies"),
        ("one", {}, "bodies"),
        (7, {}, "bodies"),
        ([b"one", "two"], {}, "body"),
        ([b"one"], {"message_id": b"m" * 24}, "message_id"),
        ([b"one"], {"wait_s": 1.0}, "wait_s"),
        ([b"one"], {"priority": 11}, "priority"),
    ],
)
def test_wrong_arguments_put_nothing(connection: Connection, bodies: Any, options: Any, argument: str) -> None:
    with connection.unit_of_work() as unit:
        with pytest.raises(InvalidArgument) as caught:
            unit.put_many("Q", bodies, **options)
        assert caught.value.argument == argument
    assert not list(connection.browse("Q"))


def test_a_body_that_is_too_long_for_the_channel_puts_none_of_them(connection: Connection) -> None:
    with connection.unit_of_work() as unit:
        with pytest.raises(MessageTooLong):
            unit.put_many("Q", [b"one", bytes(BODY_BYTES_MAX + 1)])
        unit.back_out()
    assert not list(connection.browse("Q"))


def test_no_frame_is_longer_than_a_server_takes() -> None:
    from entrepot.client.protocol import ClientCore

    core = ClientCore("tests")
    core.message_id = lambda: b"m" * 24  # type: ignore[method-assign]
    full = Message(
        b"x" * 700, correlation_id=b"c" * 24, group_id=b"g" * 24, reply_to="R" * 48, reply_to_manager="M" * 48,
        format="F" * 8, user="u" * 64, application="a" * 64, report=1, expiry_s=1.5,
    )  # fmt: skip
    core.require_fitting = lambda message: None  # type: ignore[method-assign]
    for frame in core._frames_of(1, [("Q" * 48, True, 0, full)] * 1000, []):
        assert len(codec.encode(39, 0, frame)) <= codec._ASKED_BYTES_MAX
