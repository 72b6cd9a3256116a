# SPDX-License-Identifier: Apache-2.0
"""By every binding: what a flow puts with a unit of work, many messages in a frame."""

from __future__ import annotations

import pytest

from entrepot import Connection
from entrepot.errors import PutInhibited, QueueFull, QueueNotFound
from entrepot.message import Message
from entrepot.wire import codec


def messages(count: int, **fields: object) -> list[tuple[str, Message]]:
    return [("Q", Message(b"%d" % number, persistent=number % 2 == 0, **fields)) for number in range(count)]  # type: ignore[arg-type]


def test_all_of_them_come_with_the_commit_and_in_order(connection: Connection) -> None:
    with connection.unit_of_work() as unit:
        connection.host.put_many(unit._unit, messages(500))
        assert not list(connection.browse("Q"))
    found = list(connection.browse("Q"))
    assert [message.body for message in found] == [b"%d" % number for number in range(500)]
    assert [message.persistent for message in found] == [number % 2 == 0 for number in range(500)]
    assert len({message.message_id for message in found}) == 500


def test_none_of_them_comes_when_the_unit_is_backed_out(connection: Connection) -> None:
    unit = connection.unit_of_work()
    connection.host.put_many(unit._unit, messages(3))
    unit.back_out()
    assert not list(connection.browse("Q"))


def test_long_bodies_properties_and_short_ones_keep_their_order(connection: Connection) -> None:
    sizes = [10, 70_000, 5, 56 * 1024, 30_000, 30_000, 30_000, 1, 200_000, 2]
    puts = [("Q", Message(b"x" * size, properties={"n": size} if size % 2 else {})) for size in sizes]
    with connection.unit_of_work() as unit:
        connection.host.put_many(unit._unit, puts, answered=True)
    found = list(connection.browse("Q"))
    assert [len(message.body) for message in found] == sizes
    assert [message.properties.get("n") for message in found] == [size if size % 2 else None for size in sizes]


@pytest.mark.parametrize("answered", [False, True])
def test_a_refusal_is_told_with_its_queue_and_backs_everything_out(connection: Connection, answered: bool) -> None:
    puts = [*messages(2), ("NOWHERE", Message(b"")), *messages(2)]
    with pytest.raises(QueueNotFound) as caught, connection.unit_of_work() as unit:
        connection.host.put_many(unit._unit, puts, answered=answered)
    assert caught.value.queue == "NOWHERE"
    assert not list(connection.browse("Q"))


def test_who_asks_hears_of_what_was_refused_before(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) PUT(DISABLED)")
    with pytest.raises(PutInhibited), connection.unit_of_work() as unit:
        connection.host.put_many(unit._unit, messages(1))
        connection.host.put_many(unit._unit, [], answered=True)
        pytest.fail("nobody told")


def test_a_full_queue_refuses(connection: Connection) -> None:
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(3)")
    with pytest.raises(QueueFull), connection.unit_of_work() as unit:
        connection.host.put_many(unit._unit, messages(4), answered=True)
    with connection.unit_of_work() as unit:
        connection.host.put_many(unit._unit, messages(3))
    assert len(list(connection.browse("Q"))) == 3


def test_publications_reach_their_subscribers(connection: Connection) -> None:
    with connection.subscribe("prices/#") as subscription:
        with connection.unit_of_work() as unit:
            connection.host.put_many(unit._unit, [("topic:prices/ibm", Message(b"231")), *messages(1)])
        message = subscription.get(wait_s=5)
    assert message is not None
    assert message.body == b"231"


def test_no_frame_is_longer_than_a_server_takes() -> None:
    from entrepot.channels.client_core import ClientCore

    core = ClientCore("tests")
    core.message_id = lambda: b"m" * 24  # type: ignore[method-assign]
    full = Message(
        b"x" * 700, correlation_id=b"c" * 24, group_id=b"g" * 24, reply_to="R" * 48, reply_to_manager="M" * 48,
        format="F" * 8, user="u" * 64, application="a" * 64, report=1, expiry_s=1.5,
    )  # fmt: skip
    core.require_fitting = lambda message: None  # type: ignore[method-assign]
    for frame in core.put_many(1, [("Q" * 48, full)] * 1000):
        assert len(codec.encode(39, 0, frame)) <= codec._ASKED_BYTES_MAX
