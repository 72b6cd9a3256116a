# SPDX-License-Identifier: Apache-2.0
"""By every binding: a commit that is on its way while the next unit of work has messages of the same reader."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot import Connection
from entrepot.client.blocking import Reader, UnitOfWork, connect
from entrepot.errors import Fenced, QueueFull, UnitBackedOut, UnitFinished
from entrepot.testing.servers import ServerThread

READ_AHEAD = pytest.mark.parametrize("read_ahead", [1, 3, 100])


def fill(connection: Connection, count: int) -> list[bytes]:
    """Messages of which every second one is persistent."""
    bodies = [b"%d" % number for number in range(count)]
    for number, body in enumerate(bodies):
        connection.put("Q", body, persistent=number % 2 == 0)
    return bodies


def left(connection: Connection, queue: str = "Q") -> list[tuple[bytes, int]]:
    return [(message.body, message.backout_count) for message in connection.browse(queue)]


def moved(connection: Connection, reader: Reader, count: int) -> UnitOfWork:
    """A unit of work that moves so many messages from Q to R."""
    unit = connection.unit_of_work()
    for _ in range(count):
        message = reader.get(unit, wait_s=60)
        assert message is not None
        unit.put("R", message.body, persistent=message.persistent)
    return unit


@pytest.fixture
def pair(connection: Connection) -> Connection:
    connection.mqsc("DEFINE QLOCAL(R)")
    return connection


@READ_AHEAD
def test_units_that_follow_each_other_move_every_message_once_and_in_order(pair: Connection, read_ahead: int) -> None:
    expected = fill(pair, 40)
    with pair.reader("Q", read_ahead=read_ahead) as reader:
        before: UnitOfWork | None = None
        for count in (1, 7, 2, 10, 20):
            unit = moved(pair, reader, count)
            if before is not None:
                before.finish_commit()
                assert before.state == "committed"
            unit.begin_commit()
            assert unit.state == "committing"
            before = unit
        assert before is not None
        before.finish_commit()
    assert left(pair) == []
    assert [body for body, _ in left(pair, "R")] == expected


@READ_AHEAD
def test_when_a_commit_fails_the_next_unit_is_backed_out_and_nothing_counts_as_tried(
    pair: Connection, read_ahead: int
) -> None:
    expected = fill(pair, 12)
    pair.mqsc("ALTER QLOCAL(R) MAXDEPTH(5)")
    with pair.reader("Q", read_ahead=read_ahead) as reader:
        first = moved(pair, reader, 4)
        first.commit()
        try:
            second = moved(pair, reader, 2)
        except QueueFull:  # in one process a put is answered
            return
        second.begin_commit()
        third = connection_free(pair, reader)
        with pytest.raises(UnitBackedOut) as told:
            third.commit()
        assert isinstance(told.value.__cause__, QueueFull)
        assert (second.state, third.state) == ("backed out", "backed out")
        with pytest.raises(QueueFull):
            second.finish_commit()
        assert left(pair) == [(body, 0) for body in expected[4:]]
        pair.mqsc("ALTER QLOCAL(R) MAXDEPTH(100)")
        moved(pair, reader, 8).commit()
    assert [body for body, _ in left(pair, "R")] == expected


def connection_free(connection: Connection, reader: Reader) -> UnitOfWork:
    """A unit of work that takes a message and puts nothing, so that nothing but the one before can refuse it."""
    unit = connection.unit_of_work()
    assert reader.get(unit, wait_s=60) is not None
    return unit


@READ_AHEAD
@pytest.mark.parametrize("ending", ["begin_commit", "prepare"])
def test_no_end_of_the_next_unit_lets_it_happen_when_the_one_before_has_failed(
    pair: Connection, read_ahead: int, ending: str
) -> None:
    expected = fill(pair, 6)
    pair.mqsc("ALTER QLOCAL(R) MAXDEPTH(1)")
    with pair.reader("Q", read_ahead=read_ahead) as reader:
        try:
            first = moved(pair, reader, 2)
        except QueueFull:
            return
        first.begin_commit()
        second = connection_free(pair, reader)
        with pytest.raises(UnitBackedOut):
            second.begin_commit() if ending == "begin_commit" else second.prepare(b"second")
        assert second.state == "backed out"
        assert left(pair) == [(body, 0) for body in expected]
        assert pair.in_doubt() == []


@READ_AHEAD
def test_a_unit_that_fails_by_itself_does_not_undo_the_commit_before(pair: Connection, read_ahead: int) -> None:
    expected = fill(pair, 6)
    with pair.reader("Q", read_ahead=read_ahead) as reader:
        first = moved(pair, reader, 2)
        first.begin_commit()
        moved(pair, reader, 2).back_out(counted=False)
        first.finish_commit()
        first.finish_commit()  # once more changes nothing
        assert first.state == "committed"
        assert left(pair) == [(body, 0) for body in expected[2:]]
        moved(pair, reader, 4).commit()
    assert [body for body, _ in left(pair, "R")] == expected


def test_a_unit_in_which_nothing_was_done_is_committed_at_once(pair: Connection) -> None:
    unit = pair.unit_of_work()
    unit.begin_commit()
    assert unit.state == "committed"
    unit.finish_commit()


def test_a_unit_whose_commit_is_on_its_way_takes_nothing_more(pair: Connection) -> None:
    fill(pair, 4)
    with pair.reader("Q") as reader:
        unit = moved(pair, reader, 1)
        unit.begin_commit()
        for verb in (unit.commit, unit.back_out, unit.begin_commit, lambda: unit.put("R", b"more")):
            with pytest.raises(UnitFinished):
                verb()
        unit.finish_commit()
    assert len(left(pair, "R")) == 1


def test_what_is_on_its_way_happens_though_the_connection_is_closed(url: str, pair: Connection) -> None:
    expected = fill(pair, 6)
    other = connect(url)
    reader = other.reader("Q")
    moved(other, reader, 3).begin_commit()
    moved(other, reader, 1)
    other.close()
    assert [body for body, _ in left(pair, "R")] == expected[:3]
    assert [body for body, _ in left(pair)] == expected[3:]


def test_many_units_on_their_way_stay_within_what_may_be_held(pair: Connection) -> None:
    pair.mqsc("ALTER QMGR MAXUMSGS(10)")
    expected = fill(pair, 200)
    with pair.reader("Q", read_ahead=100) as reader:
        before: list[UnitOfWork] = []
        for _ in range(50):
            unit = pair.unit_of_work()
            count = 0
            while count < 4:
                messages = reader.get_many(unit, 4 - count, wait_s=60)
                assert messages
                count += len(messages)
                unit.put_messages([("R", message.persistent, None, message) for message in messages])
            if before:
                before.pop().finish_commit()
            unit.begin_commit()
            before.append(unit)
        before.pop().finish_commit()
    assert [body for body, _ in left(pair, "R")] == expected


@pytest.fixture
def breaking(template: Path, tmp_path: Path) -> Iterator[tuple[ServerThread, Connection]]:
    folder = Path(shutil.copytree(template, tmp_path / "QM1"))
    with ServerThread(folder) as server, connect(server.unix_url) as connection:
        connection.mqsc("DEFINE QLOCAL(R)")
        yield server, connection


def test_who_is_fenced_commits_nothing_that_came_behind(breaking: tuple[ServerThread, Connection]) -> None:
    server, connection = breaking
    expected = fill(connection, 6)
    with connect(server.unix_url) as old, connect(server.unix_url) as new:
        old.claim("flow/x", 1)
        reader = old.reader("Q")
        first = moved(old, reader, 2)
        first.begin_commit()
        second = moved(old, reader, 2)
        first.finish_commit()
        new.claim("flow/x", 2)
        with pytest.raises(Fenced):
            second.commit()
        assert [body for body, _ in left(new, "R")] == expected[:2]
        assert [body for body, _ in left(new)] == expected[2:]
