# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from conftest import Place
from entrepot.errors import InvalidArgument, QueueNotFound
from entrepot.spark.tables.options import ReadingOptions, WritingOptions

URL = {"url": "unix:./qm1"}


def test_what_is_not_said_has_its_default() -> None:
    options = ReadingOptions.read({**URL, "queue": "A, B"})
    assert (options.queues, options.consume, options.partitions, options.messages_max) == (("A", "B"), False, 2, 10_000)
    writing = WritingOptions.read({**URL, "topic": "prices/ibm"})
    assert (writing.destination, writing.persistent, writing.unit_messages) == ("topic://prices/ibm", True, 1_000)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"queue": "A"}, "option url: it is missing"),
        ({"url": "embedded:./qm1", "queue": "A"}, "for one process"),
        (URL, "option queue: it is missing"),
        ({**URL, "queue": "A", "mode": "steal"}, "option mode: 'steal'"),
        ({**URL, "queue": "A", "partitions": "0"}, "option partitions"),
        ({**URL, "queue": "A", "maxMessagesPerTrigger": "many"}, "option maxMessagesPerTrigger: 'many'"),
        ({**URL, "queue": "A", "colour": "red"}, "option colour: there is no such option"),
    ],
)
def test_wrong_options_of_reading_are_refused_by_name(options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        ReadingOptions.read(options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({**URL, "queue": "A", "topic": "t"}, "option topic"),
        ({**URL, "queue": "A", "persistent": "perhaps"}, "option persistent: 'perhaps'"),
        ({**URL, "queue": "A", "messagesPerUnit": "20000"}, "option messagesPerUnit"),
    ],
)
def test_wrong_options_of_writing_are_refused_by_name(options: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidArgument, match=told):
        WritingOptions.read(options)


def test_a_pattern_means_the_queues_it_matches_and_not_the_systems_own(place: Place) -> None:
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(ORDERS.EU)\nDEFINE QLOCAL(ORDERS.US)\nDEFINE QLOCAL(DONE)")
    assert ReadingOptions.read({**URL, "queue": "ORDERS.*"}).names(connection) == ["ORDERS.EU", "ORDERS.US"]
    assert ReadingOptions.read({**URL, "queue": "DONE,*"}).names(connection) == ["DONE", "ORDERS.EU", "ORDERS.US"]
    with pytest.raises(QueueNotFound):
        ReadingOptions.read({**URL, "queue": "NONE.*"}).names(connection)
