# SPDX-License-Identifier: Apache-2.0
"""A queue beyond its buffer: order, searches and files, in memory and on disk."""

from __future__ import annotations

from typing import Any

import pytest

from conftest import host_of
from entrepot import Connection, Message, limits
from entrepot.engine.criteria import Criteria
from entrepot.engine.queue import Queue
from entrepot.engine.search import Search, SearchBudget, SearchPaused

BODY = 500


def body_of(number: int) -> bytes:
    return b"%06d" % number + b"x" * (BODY - 6)


def number_of(message: Message | None) -> int | None:
    return None if message is None else int(message.body[:6])


def drain(connection: Connection, queue: str = "Q") -> list[int]:
    return [int(message.body[:6]) for message in iter(lambda: connection.get(queue), None)]


def the_queue(connection: Connection) -> Queue:
    return host_of(connection)._manager.objects.queues["Q"]


@pytest.fixture
def spilling(place: Any, small_runs: int) -> tuple[Any, Connection]:
    """A queue Q with room for a handful of messages in memory."""
    connection = place.open()
    connection.mqsc("DEFINE QLOCAL(Q) BUFFER(20000)")
    return place, connection


@pytest.mark.parametrize("delivery", ["PRIORITY", "FIFO"])
@pytest.mark.parametrize("kind", ["nonpersistent", "persistent", "mixed"])
def test_order_holds_beyond_the_buffer(spilling: Any, kind: str, delivery: str) -> None:
    place, connection = spilling
    connection.mqsc(f"ALTER QLOCAL(Q) MSGDLVSQ({delivery})")
    numbers = range(300)
    for number in numbers:
        persistent = {"nonpersistent": False, "persistent": True, "mixed": number % 3 == 0}[kind]
        connection.put("Q", body_of(number), priority=number % 2, persistent=persistent)
    assert the_queue(connection).run_count > 2
    expected = sorted(numbers, key=lambda n: 0 if delivery == "FIFO" else -(n % 2))
    assert [number_of(message) for message in connection.browse("Q")] == expected
    assert drain(connection) == expected
    assert host_of(connection).queue_status("Q")["MEMORY"] == 0
    for _ in range(3):
        connection.administration.checkpoint()
    assert place.files("runs") == []


def test_memory_stays_bounded(spilling: Any) -> None:
    _, connection = spilling
    most = 0
    for number in range(500):
        connection.put("Q", body_of(number), persistent=number % 10 == 0)
        most = max(most, the_queue(connection).memory_bytes)
    for _ in range(500):
        connection.get("Q")
        most = max(most, the_queue(connection).memory_bytes)
    assert most < 20_000 + 3 * limits.RUN_BYTES
    assert the_queue(connection).memory_bytes == 0


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_restart_keeps_persistent_messages_of_a_deep_queue_in_order(spilling: Any, how: str) -> None:
    place, connection = spilling
    expected = []
    for number in range(400):
        connection.put("Q", body_of(number), persistent=number % 4 != 0)
        expected.append(number)
        if number % 7 == 0:
            assert number_of(connection.get("Q")) == expected.pop(0)
        if number in (100, 200, 300):
            connection.administration.checkpoint()
    expected = [number for number in expected if number % 4 != 0]
    if how == "kill":
        place = place.killed()
    else:
        place.close()
    connection = place.open()
    assert host_of(connection).queue_status("Q")["CURDEPTH"] == len(expected)
    assert [number_of(message) for message in connection.browse("Q")] == expected
    connection = place.reopen()
    for number in range(1000, 1100):
        connection.put("Q", body_of(number), persistent=number % 2 == 0)
        expected.append(number)
    assert drain(connection) == expected
    connection = place.reopen()
    assert drain(connection) == []
    place.close()


def test_restart_keeps_order_when_checkpoints_and_spills_overlap(spilling: Any) -> None:
    """Messages in memory before and behind a run share a checkpoint's run, which then embraces the other."""
    place, connection = spilling
    expected = []
    for number in range(120):
        connection.put("Q", body_of(number), persistent=True, priority=0)
        expected.append(number)
        if number % 25 == 24:
            for _ in range(2):
                connection.administration.checkpoint()
    for _ in range(3):
        connection = place.reopen()
        assert [number_of(message) for message in connection.browse("Q")] == expected
        for _ in range(5):
            assert number_of(connection.get("Q")) == expected.pop(0)
    assert drain(connection) == expected


def test_messages_on_disk_are_found_by_id_and_selector(spilling: Any) -> None:
    _place, connection = spilling
    for number in range(300):
        connection.put(
            "Q",
            body_of(number),
            message_id=b"m%d" % number,
            correlation_id=b"c%d" % (number // 2),
            properties={"n": number},
            persistent=number % 2 == 0,
        )
    gone = set()
    for number in (150, 299, 0, 77, 78):
        assert number_of(connection.get("Q", message_id=b"m%d" % number)) == number
        gone.add(number)
    assert number_of(connection.get("Q", correlation_id=b"c100")) == 200
    assert number_of(connection.get("Q", correlation_id=b"c100")) == 201
    assert connection.get("Q", correlation_id=b"c100") is None
    assert number_of(connection.get("Q", selector="n > 249 AND n < 260")) == 250
    assert number_of(connection.get("Q", selector="n > 249 AND n < 260")) == 251
    assert connection.get("Q", selector="n = 300") is None
    gone |= {200, 201, 250, 251}
    rest = [number for number in range(300) if number not in gone]
    assert [number_of(message) for message in connection.browse("Q")] == rest
    assert drain(connection) == rest


def test_earlier_message_on_disk_comes_before_a_later_one_in_memory(spilling: Any) -> None:
    _, connection = spilling
    for number in range(100):
        wanted = number in (50, 99)
        connection.put("Q", body_of(number), correlation_id=b"c" if wanted else b"", properties={"w": wanted})
    assert number_of(connection.get("Q", correlation_id=b"c")) == 50
    connection.put("Q", body_of(50), correlation_id=b"c", properties={"w": True})
    assert number_of(connection.get("Q", selector="w = TRUE")) == 99


def test_higher_priority_on_disk_comes_before_a_lower_one_in_memory(spilling: Any) -> None:
    _, connection = spilling
    connection.put("Q", body_of(0), correlation_id=b"c", priority=1)
    for number in range(1, 100):
        connection.put("Q", body_of(number), correlation_id=b"c" if number == 70 else b"", priority=5)
    assert number_of(connection.get("Q", correlation_id=b"c")) == 70
    assert number_of(connection.get("Q", correlation_id=b"c")) == 0


@pytest.mark.parametrize("persistent", [False, True])
def test_what_was_taken_from_disk_and_backed_out_finds_its_place(spilling: Any, persistent: bool) -> None:
    _, connection = spilling
    for number in range(200):
        connection.put("Q", body_of(number), message_id=b"m%d" % number, persistent=persistent)
    unit = connection.unit_of_work()
    for number in (150, 60, 199, 3):
        assert number_of(unit.get("Q", message_id=b"m%d" % number)) == number
    left = [number for number in range(200) if number not in (150, 60, 199, 3)]
    assert [number_of(message) for message in connection.browse("Q")] == left
    unit.back_out()
    assert [number_of(message) for message in connection.browse("Q")] == list(range(200))
    counts = {number_of(m): m.backout_count for m in connection.browse("Q")}
    assert {n for n, count in counts.items() if count == 1} == {150, 60, 199, 3}
    assert drain(connection) == list(range(200))


def test_unit_that_has_taken_everything_gives_it_all_back(spilling: Any) -> None:
    _, connection = spilling
    for number in range(200):
        connection.put("Q", body_of(number), persistent=number % 2 == 0)
    unit = connection.unit_of_work()
    assert [number_of(unit.get("Q")) for _ in range(200)] == list(range(200))
    for number in range(200, 300):
        connection.put("Q", body_of(number))
    unit.back_out()
    assert drain(connection) == list(range(300))


def test_reading_many_by_one_selector_reads_each_run_once(spilling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, connection = spilling
    for number in range(300):
        connection.put("Q", body_of(number), properties={"odd": number % 2 == 1})
    store = host_of(connection)._manager.store
    reads = []
    read = store.read

    def counted(number: int, gone: bytes | bytearray = b"") -> Any:
        reads.append(number)
        return read(number, gone)

    monkeypatch.setattr(store, "read", counted)
    found = [number_of(connection.get("Q", selector="odd = TRUE")) for _ in range(150)]
    assert found == list(range(1, 300, 2))
    assert len(reads) == len(set(reads))


@pytest.mark.parametrize("restart", [False, True])
def test_whole_groups_are_found_on_disk(spilling: Any, restart: bool) -> None:
    place, connection = spilling
    for number in range(90):
        connection.put(
            "Q",
            body_of(number),
            group_id=b"g%d" % (number % 3),
            sequence=30 - number // 3,
            last_in_group=number < 3,
            persistent=True,
        )
    for number in range(100, 160):
        connection.put("Q", body_of(number), group_id=b"incomplete", sequence=number - 98, persistent=True)
    if restart:
        for _ in range(2):
            connection.administration.checkpoint()
        connection = place.reopen()
    with connection.unit_of_work() as unit:
        for group in range(3):
            found = [number_of(message) for message in unit.get_group("Q") or ()]
            assert found == list(range(87 + group, -1, -3))
        assert unit.get_group("Q") is None
    assert number_of(connection.get("Q", group_id=b"incomplete")) == 100
    assert host_of(connection).queue_status("Q")["CURDEPTH"] == 59


def test_a_message_that_was_got_before_groups_are_looked_at_is_no_part_of_its_group(spilling: Any) -> None:
    place, connection = spilling
    for number in range(60):
        connection.put(
            "Q",
            body_of(number),
            message_id=b"m%d" % number,
            group_id=b"g%d" % (number // 30),
            sequence=number % 30 + 1,
            last_in_group=number % 30 == 29,
            persistent=True,
        )
    for _ in range(2):
        connection.administration.checkpoint()
    connection = place.reopen()
    assert the_queue(connection).run_count > 1
    assert number_of(connection.get("Q", message_id=b"m55")) == 55
    with connection.unit_of_work() as unit:
        found = unit.get_group("Q")
        assert found is not None
        assert [number_of(message) for message in found] == list(range(30))
        assert unit.get_group("Q") is None, "the second group lacks a message"


def put_member(connection: Connection, group: bytes, sequence: int, colour: str, *, last: bool = False) -> None:
    body = b"%s%d" % (group, sequence)
    colours = {"colour": colour}
    connection.put("Q", body, group_id=group, sequence=sequence, last_in_group=last, properties=colours)


def test_a_whole_group_has_to_have_a_message_that_is_wanted(connection: Connection) -> None:
    for group, colour in ((b"a", "red"), (b"b", "blue"), (b"c", "blue")):
        for sequence in (1, 2):
            put_member(connection, group, sequence, colour, last=sequence == 2 and group != b"b")
    connection.put("Q", b"alone", properties={"colour": "blue"})
    with connection.unit_of_work() as unit:
        found = [unit.get_group("Q", selector="colour = 'blue'") for _ in range(3)]
        bodies = [[message.body for message in group] for group in found if group is not None]
        assert bodies == [[b"c1", b"c2"], [b"alone"]]
        assert unit.get("Q", whole_group=True, selector="colour = 'blue'") is None
    assert [message.body for message in connection.browse("Q")] == [b"a1", b"a2", b"b1", b"b2"]


def test_one_message_of_a_whole_group_is_the_first_in_sequence_that_is_wanted(connection: Connection) -> None:
    for sequence, colour in ((3, "blue"), (1, "red"), (2, "blue")):
        put_member(connection, b"g", sequence, colour, last=sequence == 3)
    with connection.unit_of_work() as unit:
        found = [unit.get("Q", whole_group=True, selector="colour = 'blue'") for _ in range(3)]
        assert [message and message.body for message in found] == [b"g2", b"g3", None]


@pytest.mark.parametrize("how", ["message id", "correlation id", "selector"])
def test_the_earliest_is_found_whether_it_is_in_memory_or_on_disk(spilling: Any, how: str) -> None:
    _, connection = spilling
    wanted = {3, 50, 51, 99}
    options: dict[str, Any] = {
        "message id": {"message_id": b"m"},
        "correlation id": {"correlation_id": b"c"},
        "selector": {"selector": "w = TRUE"},
    }[how]
    for number in range(100):
        ids = {"message_id": b"m", "correlation_id": b"c"} if number in wanted else {}
        connection.put("Q", body_of(number), properties={"w": number in wanted}, **ids)  # type: ignore[arg-type]
    unit = connection.unit_of_work()
    assert number_of(unit.get("Q", **options)) == 3
    assert number_of(connection.get("Q", **options)) == 50
    unit.back_out()
    found = [number_of(connection.get("Q", **options)) for _ in range(4)]
    assert found == [3, 51, 99, None]


def test_a_browse_goes_on_behind_its_place_in_lower_priorities_too(connection: Connection) -> None:
    for number, priority in enumerate((1, 5, 1, 5, 3)):
        connection.put("Q", b"%d" % number, priority=priority)
    queue = the_queue(connection)
    expected = [1, 3, 4, 0, 2]
    entries = list(queue.after(None))
    assert [int(entry.message.body) for entry in entries] == expected
    for place, entry in enumerate(entries):
        assert [int(later.message.body) for later in queue.after(queue.place_of(entry))] == expected[place + 1 :]
    oldest = queue.oldest()
    assert oldest is not None
    assert oldest.message.body == b"0"


def test_messages_are_counted_from_a_priority_up_to_a_limit(connection: Connection) -> None:
    for priority in (0, 4, 5, 5, 9):
        connection.put("Q", b"", priority=priority)
    queue = the_queue(connection)
    assert [queue.available_from(priority, 99) for priority in (0, 4, 5, 6, 9)] == [5, 4, 3, 1, 1]
    assert [queue.available_from(0, limit) for limit in (0, 2, 5)] == [0, 2, 5]


def test_expired_messages_on_disk_reach_nobody(timed: Any, small_runs: int) -> None:
    connection = timed.open()
    connection.mqsc("DEFINE QLOCAL(Q) BUFFER(5000)")
    for number in range(100):
        connection.put("Q", body_of(number), expiry_s=5 if number % 2 else None, persistent=number % 3 == 0)
    timed.advance(6)
    assert [number_of(message) for message in connection.browse("Q")] == list(range(0, 100, 2))
    assert drain(connection) == list(range(0, 100, 2))
    timed.advance(0)
    assert host_of(connection).queue_status("Q")["CURDEPTH"] == 0


def test_clear_empties_a_deep_queue(spilling: Any) -> None:
    place, connection = spilling
    for number in range(200):
        connection.put("Q", body_of(number), persistent=number % 2 == 0)
    answer = connection.mqsc("CLEAR QLOCAL(Q)")[0]
    assert "200" in " ".join(answer.output)
    assert host_of(connection).queue_status("Q")["CURDEPTH"] == 0
    connection = place.reopen()
    assert drain(connection) == []


def test_backout_counts_of_messages_on_disk_survive(spilling: Any) -> None:
    place, connection = spilling
    for number in range(100):
        connection.put("Q", body_of(number), message_id=b"m%d" % number, persistent=True)
    for times in (1, 2):
        unit = connection.unit_of_work()
        message = unit.get("Q", message_id=b"m80")
        assert message is not None
        assert message.backout_count == times - 1
        unit.back_out()
        connection.administration.checkpoint()
    killed = place.killed()
    again = killed.open()
    assert [m.backout_count for m in again.browse("Q", message_id=b"m80")] == [2]
    killed.close()


def test_index_by_message_id_sees_messages_of_before(connection: Connection) -> None:
    queue = the_queue(connection)
    connection.put("Q", b"", message_id=b"a")
    assert queue._by_message_id is None, "not made before it is asked for"
    assert connection.get("Q", message_id=b"a") is not None
    connection.put("Q", b"", message_id=b"b")
    assert connection.get("Q", message_id=b"b") is not None
    assert queue._by_message_id == {}


def test_many_gets_by_id_from_the_middle_leave_no_debris(connection: Connection) -> None:
    queue = the_queue(connection)
    connection.mqsc("ALTER QLOCAL(Q) MAXDEPTH(10000)")
    for number in range(1000):
        connection.put("Q", b"", correlation_id=b"%d" % number)
    for number in range(1, 1000):
        assert connection.get("Q", correlation_id=b"%d" % number) is not None
    (lane,) = queue._order
    assert len(lane._front) < 200
    assert queue._by_correlation_id.keys() == {b"0"}


def test_late_arrivals_of_prepared_units_keep_their_places_over_restarts(spilling: Any) -> None:
    """Their keys are older than those of their neighbours in the log, in memory and in checkpoints."""
    place, connection = spilling
    expected = []
    for round_ in range(6):
        unit = connection.unit_of_work()
        held = [round_ * 100 + n for n in range(5)]
        for number in held:
            unit.put("Q", body_of(number), persistent=True)
        unit.prepare(b"%d" % round_)
        expected += held
        for number in range(round_ * 100 + 5, round_ * 100 + 40):
            connection.put("Q", body_of(number), persistent=True)
            expected.append(number)
        if round_ % 2:
            connection.administration.checkpoint()
        connection.resolve(b"%d" % round_, commit=True)
        connection.put("Q", body_of(round_ * 100 + 40), persistent=True)
        expected.append(round_ * 100 + 40)
        assert [number_of(message) for message in connection.browse("Q")] == expected
    for _ in range(3):
        connection.administration.checkpoint()
        connection = place.reopen()
        assert [number_of(message) for message in connection.browse("Q")] == expected
    assert drain(connection) == expected


@pytest.mark.parametrize("persistent", [False, True])
def test_indexes_have_only_what_is_in_memory(spilling: Any, persistent: bool) -> None:
    _, connection = spilling
    connection.put("Q", b"", message_id=b"first")
    connection.get("Q", message_id=b"first")  # from now on there is an index by message id
    for number in range(100):
        ids = {"message_id": b"m%d" % number, "correlation_id": b"c%d" % number}
        connection.put("Q", body_of(number), persistent=persistent, **ids)  # type: ignore[arg-type]
    queue = the_queue(connection)
    in_memory = sum(1 for lane in queue._order for _ in lane.in_memory())
    assert in_memory < 60
    assert queue._by_message_id is not None
    assert len(queue._by_message_id) == len(queue._by_correlation_id) == in_memory
    assert drain(connection) == list(range(100))
    assert (queue._by_message_id, queue._by_correlation_id) == ({}, {})


def test_after_a_restart_a_search_gets_to_know_groups_a_run_in_a_turn(
    spilling: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, connection = spilling
    for number in range(100):
        connection.put("Q", body_of(number), group_id=b"g", sequence=number + 1, persistent=True)
    for _ in range(2):
        connection.administration.checkpoint()
    manager = host_of(place.reopen()).manager
    runs = manager.objects.queues["Q"].run_count
    assert runs > 3
    reads, read = [0], manager.store.read

    def counted(number: int, gone: bytes | bytearray = b"") -> Any:
        reads[-1] += 1
        return read(number, gone)

    monkeypatch.setattr(manager.store, "read", counted)
    search = Search(SearchBudget(), Criteria(whole_group=True))
    for _ in range(runs - 1):
        search.turn.left = 1
        with pytest.raises(SearchPaused):
            manager.get_group("Q", search.criteria, manager.begin(), search)
        reads.append(0)
    assert reads == [1] * (runs - 1) + [0]
