# SPDX-License-Identifier: Apache-2.0
"""By every binding: who acts under a name, and that nobody goes on whose place was taken."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.errors import EntrepotError, Fenced, InvalidArgument, LimitExceeded, QueueFull, QueueNotFound
from entrepot.testing.servers import ServerThread
from folding import for_each


def left(connection: Connection, queue: str = "Q") -> list[tuple[bytes, int]]:
    return [(message.body, message.backout_count) for message in connection.browse(queue)]


def left_soon(connection: Connection, count: int) -> list[tuple[bytes, int]]:
    """A connection that breaks is noticed when the server reads from it."""
    deadline = time.monotonic() + 60
    while len(found := left(connection)) != count and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_a_claim_is_renewed_and_tells_its_status(connection: Connection) -> None:
    assert connection.claim("flow/1", 3) == ""
    assert connection.claim("flow/1", 3, status={"messages": 7, "nodes": {"in": [1, 2.5, None]}}) == ""
    assert connection.claim("flow/1", 3) == ""
    (found,) = connection.claims()
    assert (found.name, found.epoch, found.connected, found.application) == ("flow/1", 3, True, "tests")
    assert found.status == {"messages": 7, "nodes": {"in": [1, 2.5, None]}}
    assert time.time() - 60 < found.since <= found.renewed_at <= time.time()
    assert connection.claims("other") == []


def test_who_comes_with_a_higher_epoch_fences_who_was_there(connection: Connection, url: str) -> None:
    connection.mqsc("DEFINE QLOCAL(R)")
    connection.put("Q", b"one", persistent=True)
    with connect(url) as old, connect(url) as new:
        old.claim("flow/1", 1)
        unit = old.unit_of_work()
        assert unit.get("Q", wait_s=60) is not None
        unit.put("R", b"result", persistent=True)
        new.claim("flow/1", 2)
        assert left(new) == [(b"one", 1)], "what it had got is back at once"
        with pytest.raises(Fenced) as refused:
            unit.commit()
        assert (refused.value.name, refused.value.epoch, refused.value.current) == ("flow/1", 1, 2)
        assert refused.value.outcome == "not_done"
        assert unit.state == "backed out"
        for verb in (
            lambda: old.put("R", b"more"),
            lambda: old.get("Q"),
            lambda: old.claim("flow/1", 1),
            lambda: old.claim("flow/1", 3),
            lambda: old.unit_of_work().put("R", b"more"),
            lambda: list(old.browse("Q")),
            lambda: old.mqsc("DISPLAY QMGR"),
        ):
            with pytest.raises(Fenced):
                verb()
        assert new.get("Q").body == b"one"  # type: ignore[union-attr]
    assert left(connection, "R") == []


def test_what_was_committed_before_stands(connection: Connection, url: str) -> None:
    connection.mqsc("DEFINE QLOCAL(R)")
    with connect(url) as old, connect(url) as new:
        old.claim("flow/1", 1)
        with old.unit_of_work() as unit:
            unit.put("R", b"done", persistent=True)
        new.claim("flow/1", 2)
    assert left(connection, "R") == [(b"done", 0)]


def test_a_unit_that_is_left_by_an_error_of_a_fenced_connection_does_not_hide_it(url: str) -> None:
    with connect(url) as old, connect(url) as new:
        old.claim("flow/1", 1)
        with pytest.raises(ZeroDivisionError), old.unit_of_work() as unit:
            unit.put("Q", b"never")
            new.claim("flow/1", 2)
            raise ZeroDivisionError
        with pytest.raises(Fenced), old.unit_of_work():
            old.put("Q", b"never")
        assert left(new) == []


def test_what_a_fenced_reader_has_read_ahead_is_back_at_once(url: str) -> None:
    with connect(url) as old, connect(url) as new:
        old.claim("flow/1", 1)
        for number in range(50):
            new.put("Q", b"%d" % number, persistent=number % 2 == 0)
        reader, unit = old.reader("Q", read_ahead=20), old.unit_of_work()
        assert [reader.get(unit, wait_s=60) is not None for _ in range(3)] == [True] * 3
        new.claim("flow/1", 2)
        assert left(new) == [(b"%d" % number, int(number < 3)) for number in range(50)]
        with pytest.raises(Fenced):
            for _ in range(50):  # what came before it knew is of no use to it
                reader.get(unit, wait_s=60)
            unit.commit()
        reader.close()
        assert len(left(new)) == 50


def test_who_waits_for_a_message_is_told(url: str) -> None:
    errors: list[EntrepotError] = []

    def wait(verb: str) -> None:
        try:
            with connect(url) as old:
                old.claim(verb, 1)
                ready.set()
                if verb == "unit":
                    old.unit_of_work().get("Q", wait_s=60)
                elif verb == "plain":
                    old.get("Q", wait_s=60)
                else:
                    old.unit_of_work().get_group("Q", wait_s=60)
        except EntrepotError as error:
            errors.append(error)

    with connect(url) as new:
        for number, verb in enumerate(("unit", "plain", "group"), 1):
            ready = threading.Event()
            thread = threading.Thread(target=wait, args=(verb,))
            thread.start()
            assert ready.wait(30)
            time.sleep(0.1)
            new.claim(verb, 2)
            thread.join(90)
            assert not thread.is_alive()
            assert [type(error) for error in errors] == [Fenced] * number
        new.put("Q", b"for others")
        assert left(new) == [(b"for others", 0)]


def test_the_same_or_a_lower_epoch_is_refused_while_somebody_holds_it(url: str) -> None:
    with connect(url) as holder, connect(url) as other:
        holder.claim("flow/1", 5)
        for epoch in (5, 4, 1):
            with pytest.raises(Fenced, match="5"):
                other.claim("flow/1", epoch)
        assert holder.claim("flow/1", 5) == "", "who was refused has fenced nobody"
        other.put("Q", b"and goes on")
        holder.claim("flow/1", 6)
        other.claim("flow/2", 1)


def test_the_same_epoch_may_come_back_when_its_connection_is_gone(url: str) -> None:
    with connect(url) as watcher:
        with connect(url) as first:
            first.claim("flow/1", 5)
        deadline = time.monotonic() + 60
        while watcher.claims()[0].connected and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [(claim.epoch, claim.connected) for claim in watcher.claims()] == [(5, False)]
        with pytest.raises(Fenced):
            watcher.claim("flow/1", 4)
        assert watcher.claim("flow/1", 5) == ""


def test_a_retired_epoch_is_fenced_and_never_comes_back(url: str) -> None:
    with connect(url) as old, connect(url) as driver:
        old.claim("flow/1", 7)
        driver.retire("flow/1", 7)
        assert old.claim("flow/1", 7) == "", "nobody below 7, so 7 goes on"
        driver.retire("flow/1", 8)
        with pytest.raises(Fenced):
            old.put("Q", b"")
        driver.retire("flow/1", 3)
        for epoch in (3, 7):
            with pytest.raises(Fenced):
                driver.claim("flow/1", epoch)
        driver.claim("flow/1", 8)
        driver.retire("flow/never", 2)
        with pytest.raises(Fenced):
            driver.claim("flow/never", 1)


def test_orders_reach_all_whose_names_begin_so_until_a_higher_epoch(url: str) -> None:
    with connect(url) as one, connect(url) as two, connect(url) as driver:
        one.claim("flow/a/1", 1)
        two.claim("flow/b/1", 1)
        assert driver.instruct("flow/a", "stop") == 1
        assert (one.claim("flow/a/1", 1), one.claim("flow/a/1", 1), two.claim("flow/b/1", 1)) == ("stop", "stop", "")
        assert [claim.order for claim in driver.claims("flow/")] == ["stop", ""]
        assert driver.instruct("flow/", "pause") == 2
        assert (one.claim("flow/a/1", 1), two.claim("flow/b/1", 1)) == ("pause", "pause")
        assert driver.claim("flow/a/1", 2) == ""
        assert driver.instruct("nobody", "stop") == 0


def test_next_epoch_is_above_everything_under_its_prefix(connection: Connection) -> None:
    assert [connection.next_epoch("flow/a") for _ in range(3)] == [1, 2, 3]
    connection.claim("flow/a/1", 10)
    assert connection.next_epoch("flow/a") == 11
    connection.retire("flow/a/2", 20)
    assert connection.next_epoch("flow/") == 21
    assert connection.next_epoch("flow/a/1") > 21, "it was given for all that begins with flow/"
    assert connection.next_epoch("other") == 1


def test_an_epoch_rises_by_a_bounded_step_so_that_no_claim_spends_those_of_others(connection: Connection) -> None:
    for verb in (connection.claim, connection.retire):
        with pytest.raises(LimitExceeded, match="1000000"):
            verb("zz", 2**62 - 1)
    assert connection.claims() == [], "a refused claim is not remembered"
    assert connection.next_epoch("") == 1
    connection.claim("zz", 1_000_001)
    assert connection.next_epoch("zz/flow/") == 2, "another name's epoch does not matter"
    assert connection.next_epoch("z") == 1_000_002
    connection.claim("zz/2", 2_000_002)
    with pytest.raises(LimitExceeded):
        connection.claim("zz/3", 2_000_003)


def test_epochs_outlive_the_queue_manager(folder: Path) -> None:
    for epoch in range(1, 4):
        with connect(f"embedded:{folder}") as connection:
            assert [claim.epoch for claim in connection.claims("flow")] == ([epoch - 1] if epoch > 1 else [])
            assert not any(claim.connected for claim in connection.claims())
            connection.claim("flow", epoch)
            for lower in range(1, epoch):
                with pytest.raises(Fenced):
                    connection.claim("flow", lower)
            connection.claim("flow", epoch)
            assert connection.next_epoch("run") == epoch
            assert connection.claims()[0].order == ""
            connection.instruct("flow", "stop")
    with connect(f"embedded:{folder}") as connection:
        claims = connection.calls.line._host.manager.objects.claims  # type: ignore[attr-defined]
        assert sorted(claims) == ["", "flow", "run"], "one for each name, not for each epoch"
        with pytest.raises(QueueNotFound):
            connection.put("SYSTEM.CLAIMS.QUEUE", b"", persistent=True)


def test_a_client_claims_again_after_a_restart_and_before_anything_else(folder: Path) -> None:
    with ServerThread(folder) as server:
        old = connect(server.unix_url, reconnect_s=60)
        other = connect(server.unix_url, reconnect_s=60)
        old.claim("flow/1", 1)
        other.claim("flow/2", 1, status={"a": 1})
    with ServerThread(folder) as server, connect(server.unix_url) as new:
        new.claim("flow/1", 2)
        assert other.get("Q") is None  # which asks again when its connection turns out to be broken
        other.put("Q", b"of one that was not fenced")
        assert [(claim.name, claim.connected) for claim in new.claims()] == [("flow/1", True), ("flow/2", True)]
        with pytest.raises(Fenced):
            old.get("Q")
        with pytest.raises(Fenced):
            old.put("Q", b"and knows it")
        other.close()
        old.close()
        assert left(new) == [(b"of one that was not fenced", 0)]


def test_a_connection_that_broke_takes_its_own_claim_back(folder: Path) -> None:
    with ServerThread(folder) as server, connect(server.unix_url, reconnect_s=60) as worker:
        worker.claim("flow/1", 1)
        for _ in range(20):
            worker.calls.line._interrupted()  # as an interrupt does: the server may not know yet
            assert worker.claim("flow/1", 1) == ""
            worker.put("Q", b"goes on")
        assert len(left(worker)) == 20


def test_a_fenced_connection_is_closed_by_the_server(folder: Path) -> None:
    with ServerThread(folder) as server, connect(server.unix_url) as old, connect(server.unix_url) as new:
        old.claim("flow/1", 1)
        new.claim("flow/1", 2)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and len(new.mqsc("DISPLAY CONN(*)")[0].rows) > 1:
            time.sleep(0.05)
        assert len(new.mqsc("DISPLAY CONN(*)")[0].rows) == 1


def test_puts_of_a_pipeline_behind_the_fence_are_refused(url: str) -> None:
    with connect(url) as old, connect(url) as new:
        old.claim("flow/1", 1)
        with pytest.raises(Fenced), old.pipeline() as pipeline:
            pipeline.put("Q", b"before")
            pipeline.wait()
            new.claim("flow/1", 2)
            pipeline.put("Q", b"behind")
        assert left_soon(new, 1) == [(b"before", 0)]


def test_a_put_that_waits_for_room_is_refused_when_it_is_fenced(connection: Connection, url: str) -> None:
    connection.mqsc("DEFINE QLOCAL(SMALL) MAXDEPTH(1)")
    connection.put("SMALL", b"full")
    errors: list[EntrepotError] = []

    def put() -> None:
        try:
            old.put("SMALL", b"late", wait_s=60)
        except EntrepotError as error:
            errors.append(error)

    with connect(url) as old:
        old.claim("flow/1", 1)
        thread = threading.Thread(target=put)
        thread.start()
        time.sleep(0.1)
        connection.claim("flow/1", 2)
        assert connection.get("SMALL") is not None
        thread.join(90)
        assert [type(error) for error in errors] == [Fenced]
        time.sleep(0.05)
        assert left(connection, "SMALL") == []


@for_each("name", ["", "x" * 201, "line\nbreak", None, 5, b"x"])
def test_a_name_that_is_none_is_told(connection: Connection, name: str) -> None:
    for verb in (lambda: connection.claim(name, 1), lambda: connection.retire(name, 1)):
        with pytest.raises(InvalidArgument, match="name"):
            verb()


@for_each("epoch", [0, -1, 2**63, 1.5, True, None])
def test_an_epoch_that_is_none_is_told(connection: Connection, epoch: int) -> None:
    with pytest.raises(InvalidArgument, match="epoch"):
        connection.claim("x", epoch)


@pytest.mark.parametrize("status", [{"x": object()}, [1], "text", {"x": "y" * 20_000}])
def test_a_status_that_json_cannot_say_is_told(connection: Connection, status: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match="status"):
        connection.claim("x", 1, status=status)
    assert connection.claims() == []


# --- messages that are given back unharmed ----------------------------------------------------------------


@pytest.mark.parametrize("read_ahead", [0, 1, 5])
def test_an_uncounted_back_out_gives_messages_back_as_they_were(connection: Connection, read_ahead: int) -> None:
    connection.mqsc("DEFINE QLOCAL(BAD)\nALTER QLOCAL(Q) BOTHRESH(2) BOQNAME(BAD)")
    for number in range(6):
        connection.put("Q", b"%d" % number, persistent=number % 2 == 0)
    reader = connection.reader("Q", read_ahead=read_ahead) if read_ahead else None
    for counted, count in ((False, 0), (False, 0), (True, 0), (False, 1), (False, 1)):
        unit = connection.unit_of_work()
        found = [reader.get(unit, wait_s=60) if reader else unit.get("Q") for _ in range(4)]
        assert [message and (message.body, message.backout_count) for message in found] == [
            (b"%d" % number, count) for number in range(4)
        ]
        unit.back_out(counted=counted)
    if reader is not None:
        reader.close()
    assert left(connection) == [(b"%d" % number, int(number < 4)) for number in range(6)]
    assert left(connection, "BAD") == []


@pytest.mark.parametrize("read_ahead", [0, 5])
def test_a_refused_put_is_told_at_the_commit_with_its_queue_and_counts_only_if_it_shall(
    connection: Connection, read_ahead: int
) -> None:
    connection.mqsc("DEFINE QLOCAL(SMALL) MAXDEPTH(1)")
    connection.put("SMALL", b"full")
    for number in range(3):
        connection.put("Q", b"%d" % number, persistent=True)
    reader = connection.reader("Q", read_ahead=read_ahead) if read_ahead else None
    for counted, count in ((False, 0), (False, 0), (True, 1)):
        unit = connection.unit_of_work()
        for _ in range(2):
            assert (reader.get(unit, wait_s=60) if reader else unit.get("Q")) is not None
        with pytest.raises(QueueFull) as refused:
            unit.put("SMALL", b"refused")
            unit.commit(counted=counted)
        assert refused.value.queue == "SMALL"
        if unit.state == "active":
            unit.back_out(counted=counted)
        assert unit.state == "backed out"
        assert sorted(left_soon(connection, 3))[:2] == [(b"0", count), (b"1", count)]
    if reader is not None:
        reader.close()


def test_a_lost_connection_counts_all_the_same(folder: Path) -> None:
    with ServerThread(folder) as server, connect(server.unix_url) as connection:
        connection.put("Q", b"one", persistent=True)
        unit = connection.unit_of_work()
        assert unit.get("Q") is not None
        connection.calls.line._interrupted()  # type: ignore[attr-defined]
        unit.back_out(counted=False)
        assert left_soon(connection, 1) == [(b"one", 1)]


def test_counts_are_right_after_a_restart(folder: Path) -> None:
    with connect(f"embedded:{folder}") as connection:
        for number in range(4):
            connection.put("Q", b"%d" % number, persistent=True)
        connection.administration.checkpoint()
        connection.administration.checkpoint()  # the first ones are in a run now
        for number in range(4, 8):
            connection.put("Q", b"%d" % number, persistent=True)
        for counted in (False, True, False):
            unit = connection.unit_of_work()
            assert len(unit.get_many("Q", 6)) == 6
            unit.back_out(counted=counted)
        expected = [(b"%d" % number, int(number < 6)) for number in range(8)]
        assert left(connection) == expected
    for _ in range(2):
        with connect(f"embedded:{folder}") as connection:
            assert left(connection) == expected
