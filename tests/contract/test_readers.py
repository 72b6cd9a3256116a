# SPDX-License-Identifier: Apache-2.0
"""By every binding: readers, whose messages come ahead of their units of work where that is a gain."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pytest

from entrepot import Connection
from entrepot.client.blocking import Reader, UnitOfWork, connect
from entrepot.errors import (
    ConnectionClosed,
    GetInhibited,
    InvalidArgument,
    QueueFull,
    QueueNotFound,
    TooManyUncommitted,
    UnitFinished,
)
from folding import for_each

READ_AHEAD = pytest.mark.parametrize("read_ahead", [1, 2, 5, 100])


def fill(connection: Connection, count: int) -> list[bytes]:
    """Messages of which every second one is persistent."""
    bodies = [b"%d" % number for number in range(count)]
    for number, body in enumerate(bodies):
        connection.put("Q", body, persistent=number % 2 == 0, properties={"n": number})
    return bodies


def left(connection: Connection, queue: str = "Q") -> list[tuple[bytes, int]]:
    return [(message.body, message.backout_count) for message in connection.browse(queue)]


def commit(connection: Connection, reader: Reader, count: int) -> list[bytes]:
    """Use so many messages in a unit of work."""
    with connection.unit_of_work() as unit:
        found = [reader.get(unit, wait_s=60) for _ in range(count)]
    return [message.body for message in found if message is not None]


@READ_AHEAD
def test_units_use_a_queues_messages_in_order(connection: Connection, read_ahead: int) -> None:
    expected = fill(connection, 30)
    with connection.reader("Q", read_ahead=read_ahead) as reader:
        assert [commit(connection, reader, count) for count in (1, 4, 0, 20)] == [
            expected[:1],
            expected[1:5],
            [],
            expected[5:25],
        ]
    assert left(connection) == [(body, 0) for body in expected[25:]]


@READ_AHEAD
def test_what_is_there_comes_without_waiting_and_none_when_there_is_none(
    connection: Connection, read_ahead: int
) -> None:
    with connection.reader("Q", read_ahead=read_ahead) as reader:
        for _ in range(20):
            connection.put("Q", b"there")
            with connection.unit_of_work() as unit:
                assert reader.get(unit) is not None
                assert reader.get(unit) is None
                assert reader.get(unit, wait_s=0.001) is None


@READ_AHEAD
def test_a_unit_that_is_backed_out_gives_back_what_it_had_and_counts_nothing_else(
    connection: Connection, read_ahead: int
) -> None:
    expected = fill(connection, 8)
    with connection.reader("Q", read_ahead=read_ahead) as reader:
        for tries in range(3):
            unit = connection.unit_of_work()
            found = [reader.get(unit, wait_s=60) for _ in range(3)]
            assert [(each.body, each.backout_count) for each in found if each] == [(b, tries) for b in expected[:3]]
            unit.back_out()
        assert commit(connection, reader, 5) == expected[:5]
    assert left(connection) == [(body, 0) for body in expected[5:]]


@READ_AHEAD
def test_puts_and_what_was_used_happen_together(connection: Connection, read_ahead: int) -> None:
    connection.mqsc("DEFINE QLOCAL(R) MAXDEPTH(3)")
    expected = fill(connection, 6)
    with connection.reader("Q", read_ahead=read_ahead) as reader:
        for _ in range(3):
            with connection.unit_of_work() as unit:
                message = reader.get(unit, wait_s=60)
                assert message is not None
                unit.put("R", message.body, persistent=True)
        with pytest.raises(QueueFull), connection.unit_of_work() as unit:  # told at the commit, through a channel
            assert reader.get(unit, wait_s=60) is not None
            unit.put("R", b"too much")
        with connection.unit_of_work() as unit:
            again = [reader.get(unit, wait_s=60) for _ in range(3)]
    assert [(each.body, each.backout_count) for each in again if each] == [(b"3", 1), (b"4", 0), (b"5", 0)]
    assert left(connection) == []
    assert [body for body, _ in left(connection, "R")] == expected[:3]


@READ_AHEAD
def test_what_a_unit_has_stays_with_it_when_the_reader_is_closed(connection: Connection, read_ahead: int) -> None:
    expected = fill(connection, 9)
    for ending in ("back_out", "commit"):
        unit = connection.unit_of_work()
        with connection.reader("Q", read_ahead=read_ahead) as reader:
            assert [message and message.body for message in (reader.get(unit), reader.get(unit))] == expected[:2]
        assert reader.get(unit) is None
        reader.close()
        assert [body for body, _ in left(connection)] == expected[2:], "what was read ahead is back at once"
        getattr(unit, ending)()
    assert left(connection) == [(body, 0) for body in expected[2:]]


@READ_AHEAD
def test_what_a_unit_has_stays_with_it_when_the_queue_is_inhibited(connection: Connection, read_ahead: int) -> None:
    fill(connection, 1)
    with connection.reader("Q", read_ahead=read_ahead) as reader, connection.unit_of_work() as unit:
        assert reader.get(unit, wait_s=60) is not None
        connection.mqsc("ALTER QLOCAL(Q) GET(DISABLED)")
        for _ in range(2):
            with pytest.raises(GetInhibited):
                reader.get(unit, wait_s=60)
        connection.mqsc("ALTER QLOCAL(Q) GET(ENABLED)")
        connection.put("Q", b"later")
        later = reader.get(unit, wait_s=60)
        assert later is not None
        assert later.body == b"later"
    assert left(connection) == []


def test_a_missing_queue_is_told_and_may_come(connection: Connection) -> None:
    with connection.reader("LATER") as reader, connection.unit_of_work() as unit:
        with pytest.raises(QueueNotFound):
            reader.get(unit)
        connection.mqsc("DEFINE QLOCAL(LATER)")
        connection.put("LATER", b"now")
        assert reader.get(unit) is not None


def test_a_selector_leaves_the_others(connection: Connection) -> None:
    fill(connection, 6)
    with connection.reader("Q", selector="n >= 2 AND n < 5") as reader:
        assert commit(connection, reader, 3) == [b"2", b"3", b"4"]
    assert left(connection) == [(b"0", 0), (b"1", 0), (b"5", 0)]


def test_several_readers_share_a_unit(connection: Connection) -> None:
    connection.mqsc("DEFINE QLOCAL(R)")
    fill(connection, 4)
    connection.put("R", b"r")
    with connection.reader("Q") as one, connection.reader("R") as two:
        for ending in ("back_out", "commit"):
            unit = connection.unit_of_work()
            assert [each and each.body for each in (one.get(unit), two.get(unit), one.get(unit))] == [b"0", b"r", b"1"]
            assert unit.get("Q", selector="n = 9") is None
            getattr(unit, ending)()
    assert left(connection) == [(b"2", 0), (b"3", 0)]
    assert left(connection, "R") == []


@READ_AHEAD
def test_a_unit_takes_no_more_than_it_may(connection: Connection, read_ahead: int) -> None:
    connection.mqsc("ALTER QMGR MAXUMSGS(3)\nDEFINE QLOCAL(R)")
    expected = fill(connection, 9)
    with connection.reader("Q", read_ahead=read_ahead) as reader:
        for ending, puts in (("back_out", 0), ("commit", 0), ("commit", 2)):
            unit = connection.unit_of_work()
            for _ in range(puts):
                unit.put("R", b"")
            assert all(reader.get(unit, wait_s=60) for _ in range(3 - puts))
            with pytest.raises(TooManyUncommitted):
                reader.get(unit, wait_s=60)
            getattr(unit, ending)()
    assert [body for body, _ in left(connection)] == expected[4:]
    assert len(left(connection, "R")) == 2


@READ_AHEAD
def test_a_prepared_unit_keeps_what_it_has_used(connection: Connection, read_ahead: int) -> None:
    expected = fill(connection, 8)
    with connection.reader("Q", read_ahead=read_ahead) as reader:
        for name, decision in ((b"one", True), (b"two", False)):
            unit = connection.unit_of_work()
            assert [reader.get(unit, wait_s=60) is not None for _ in range(2)] == [True, True]
            unit.prepare(name)
            assert commit(connection, reader, 1) != []
            connection.resolve(name, commit=decision)
    assert left(connection) == [(expected[3], 1), (expected[4], 1), (expected[6], 0), (expected[7], 0)]


@READ_AHEAD
def test_what_has_expired_is_not_handed_out(connection: Connection, read_ahead: int) -> None:
    connection.put("Q", b"first")
    connection.put("Q", b"short-lived", expiry_s=0.2)
    connection.put("Q", b"last")
    with connection.reader("Q", read_ahead=read_ahead) as reader, connection.unit_of_work() as unit:
        first = reader.get(unit, wait_s=60)
        time.sleep(0.3)
        last = reader.get(unit, wait_s=60)
        assert [each and (each.body, each.backout_count) for each in (first, last)] == [(b"first", 0), (b"last", 0)]
    assert left(connection) == []


def test_one_unit_at_a_time(connection: Connection, url: str) -> None:
    fill(connection, 3)
    with connection.reader("Q") as reader, connect(url) as other:
        one, two = connection.unit_of_work(), connection.unit_of_work()
        assert reader.get(one) is not None
        with pytest.raises(InvalidArgument, match="another one"):
            reader.get(two)
        with pytest.raises(InvalidArgument, match="connection"):
            reader.get(other.unit_of_work())
        one.commit()
        with pytest.raises(UnitFinished):
            reader.get(one)
        assert reader.get(two) is not None
        two.commit()
    assert left(connection) == [(b"2", 0)]


@READ_AHEAD
@pytest.mark.parametrize("ending", ["back_out", "commit"])
@pytest.mark.parametrize("others", ["back_out", "commit"])
def test_a_unit_that_found_nothing_does_not_decide_for_the_next(
    connection: Connection, read_ahead: int, ending: str, others: str
) -> None:
    connection.mqsc("DEFINE QLOCAL(R)")
    with connection.reader("Q", read_ahead=read_ahead) as reader:
        one, two = connection.unit_of_work(), connection.unit_of_work()
        one.put("R", b"one")
        assert reader.get(one) is None
        fill(connection, 3)
        assert [reader.get(two, wait_s=60) is not None for _ in range(2)] == [True, True]
        two.put("R", b"two")
        getattr(one, others)()
        getattr(two, ending)()
    kept = [(b"2", 0)]
    assert left(connection) == ([(b"0", 1), (b"1", 1), *kept] if ending == "back_out" else kept)
    expected = [(b"one", 0)] * (others == "commit") + [(b"two", 0)] * (ending == "commit")
    assert left(connection, "R") == expected


@READ_AHEAD
def test_what_returns_comes_before_what_a_later_reader_has_read_ahead(connection: Connection, read_ahead: int) -> None:
    connection.put("Q", b"first")
    unit = connection.unit_of_work()
    with connection.reader("Q", read_ahead=read_ahead) as reader:
        assert reader.get(unit) is not None
    with connection.reader("Q", read_ahead=read_ahead) as reader:
        assert reader.get(unit) is None
        fill(connection, 3)
        unit.back_out()
        assert commit(connection, reader, 4) == [b"first", b"0", b"1", b"2"]


def test_a_closed_connection_ends_its_readers(url: str, connection: Connection) -> None:
    fill(connection, 3)
    other = connect(url)
    reader, unit = other.reader("Q"), other.unit_of_work()
    assert reader.get(unit) is not None
    other.close()
    with pytest.raises(ConnectionClosed):
        reader.get(unit)
    reader.close()
    assert left(connection) == [(b"0", 1), (b"1", 0), (b"2", 0)]


@for_each("wrong", [0, -1, 1.5, None, 10**9])
def test_wrong_arguments_are_told_at_once(connection: Connection, wrong: int) -> None:
    with pytest.raises(InvalidArgument):
        connection.reader("Q", read_ahead=wrong)


# --- the same as gets in units, whatever is done ----------------------------------------------------------


class Play:
    """Verbs by chance, and what came of them; the same seed does the same on any connection."""

    def __init__(self, connection: Connection, seed: int) -> None:
        self._connection = connection
        self._chance = random.Random(seed)
        self._read_ahead = self._chance.choice((2, 3, 10, 100))
        self._readers: dict[str, Reader] = {}
        self._unit: UnitOfWork | None = None
        self._made = 0
        self.found: list[tuple[bytes, int] | None] = []

    def run(self, steps: int) -> None:
        verbs = (self._put, self._get, self._commit, self._back_out, self._close)
        for _ in range(steps):
            self._chance.choices(verbs, (30, 50, 12, 6, 3))[0]()
        if self._unit is not None:
            self._unit.back_out()
        for reader in self._readers.values():
            reader.close()

    def _queue(self) -> str:
        return self._chance.choice("QQR")

    def _begun(self) -> UnitOfWork:
        if self._unit is None:
            self._unit = self._connection.unit_of_work()
        return self._unit

    def _put(self) -> None:
        sender = self._connection if self._chance.random() < 0.6 else self._begun()
        queue, persistent = self._queue(), self._chance.random() < 0.5
        for _ in range(self._chance.choice((1, 1, 5))):
            self._made += 1
            sender.put(queue, b"%d" % self._made, persistent=persistent)

    def _get(self) -> None:
        queue = self._queue()
        if queue not in self._readers:
            self._readers[queue] = self._connection.reader(queue, read_ahead=self._read_ahead)
        message = self._readers[queue].get(self._begun())
        self.found.append(message and (message.body, message.backout_count))

    def _commit(self) -> None:
        self._begun().commit()
        self._unit = None

    def _back_out(self) -> None:
        self._begun().back_out()
        self._unit = None

    def _close(self) -> None:
        reader = self._readers.pop(self._queue(), None)
        if reader is not None:
            reader.close()


@pytest.mark.parametrize("seed", range(8))
def test_reading_ahead_changes_nothing_that_can_be_seen(
    connection: Connection, template: Path, tmp_path: Path, seed: int
) -> None:
    shutil.copytree(template, tmp_path / "QM1")
    objects = "DEFINE QLOCAL(R)\nDEFINE QLOCAL(BAD)\nALTER QLOCAL(Q) BOTHRESH(2) BOQNAME(BAD)"
    outcomes = []
    with connect(f"embedded:{tmp_path / 'QM1'}") as plain:
        for each in (plain, connection):
            each.mqsc(objects)
            play = Play(each, seed)
            play.run(400)
            # What failed too often moves when somebody wants it.
            with each.unit_of_work() as unit:
                rest = unit.get_many("Q", 1_000)
            outcomes.append(
                (play.found, rest and [message.body for message in rest], left(each, "R"), left(each, "BAD"))
            )
    assert [each and each[0] for each in outcomes[0][0]] == [each and each[0] for each in outcomes[1][0]]
    assert outcomes[0] == outcomes[1]


def test_a_reader_that_looks_ahead_less_leaves_more_to_others(connection: Connection) -> None:
    for number in range(40):
        connection.put("Q", b"%d" % number)
    with connection.reader("Q", read_ahead=20) as reader:
        reader.look_ahead(2)
        found = []
        for _ in range(40):
            with connection.unit_of_work() as unit:
                message = reader.get(unit, wait_s=60)
                assert message is not None
                found.append(message.body)
    assert found == [b"%d" % number for number in range(40)]


def test_many_come_at_once_and_one_that_was_tried_comes_alone(connection: Connection) -> None:
    for number in range(6):
        connection.put("Q", b"%d" % number)
    with connection.reader("Q") as reader:
        unit = connection.unit_of_work()
        tried = reader.get_many(unit, 2, wait_s=60)
        unit.back_out()
        assert [message.body for message in tried] == [b"0", b"1"]
        with connection.unit_of_work() as unit:
            first = reader.get_many(unit, 10, wait_s=60)
        assert first[0].body == b"0"
        assert first[0].backout_count == 1
