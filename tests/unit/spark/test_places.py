# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from conftest import Place
from entrepot.client.blocking import Connection
from entrepot.client.options import criteria
from entrepot.spark.tables.places import LaneStretch, extents, messages_within


@pytest.fixture
def connection(place: Place) -> Connection:
    opened = place.open()
    opened.mqsc("DEFINE QLOCAL(Q) MAXDEPTH(10000)\nDEFINE QLOCAL(OTHER)\nDEFINE QLOCAL(FIFO) MSGDLVSQ(FIFO)")
    return opened


def bodies(connection: Connection, queue: str, stretches: list[LaneStretch], selector: str = "") -> list[bytes]:
    wanted = criteria({"selector": selector}) if selector else None
    found = (messages_within(connection, queue, stretch, wanted) for stretch in stretches)
    return [message.body for messages in found for message in messages]


def test_an_empty_queue_reaches_nowhere(connection: Connection) -> None:
    assert extents(connection, "Q") == []


def test_stretches_have_each_message_once_in_the_order_of_delivery(connection: Connection) -> None:
    for number in range(1200):
        connection.put("Q", b"%d" % number, priority=number % 3, properties={"even": number % 2 == 0})
        if number % 5 == 0:
            connection.put("OTHER", b"")  # numbers are given to all queues, so there are gaps
    expected = [message.body for message in connection.browse("Q")]
    reached = extents(connection, "Q")
    assert [extent.lane for extent in reached] == [-2, -1, 0]
    for parts in (1, 2, 7):
        stretches = [part for extent in reached for part in extent.split(parts)]
        assert len(stretches) == 3 * parts
        assert bodies(connection, "Q", stretches) == expected
    even = [message.body for message in connection.browse("Q", selector="even")]
    assert bodies(connection, "Q", [part for extent in reached for part in extent.split(4)], "even") == even


def test_what_comes_later_lies_behind_the_stretch(connection: Connection) -> None:
    for number in range(5):
        connection.put("Q", b"%d" % number)
    reached = extents(connection, "Q")
    for number in range(5, 9):
        connection.put("Q", b"%d" % number)
    assert bodies(connection, "Q", reached) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_queue_in_order_of_arrival_is_one_lane_whatever_the_priorities(connection: Connection) -> None:
    for number in range(6):
        connection.put("FIFO", b"%d" % number, priority=number)
    reached = extents(connection, "FIFO")
    assert [extent.lane for extent in reached] == [0]
    assert bodies(connection, "FIFO", reached[0].split(3)) == [b"0", b"1", b"2", b"3", b"4", b"5"]
