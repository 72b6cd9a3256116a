# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from conftest import Place
from entrepot.client.blocking import Connection
from entrepot.errors import LedgerUnreadable
from entrepot.spark.tables.ledger import LEDGER, SinkLedger, finish_single_writes, unit_name

QUERY = "5f0cbe22-8d9c-4c8e-a6a6-b1f9f4a1f1d4"


@pytest.fixture
def connection(place: Place) -> Connection:
    opened = place.open()
    opened.mqsc("DEFINE QLOCAL(Q)")
    return opened


def prepared(connection: Connection, *bodies: bytes, batch: int = 0, sink: str = "", query: str = QUERY) -> str:
    """What a task does."""
    unit = connection.unit_of_work()
    for body in bodies:
        unit.put("Q", body, persistent=True)
    name = unit_name(query, sink, batch, 0)
    unit.prepare(name)
    return name.decode()


def on_queue(connection: Connection) -> list[bytes]:
    return [message.body for message in connection.browse("Q")]


def test_a_batch_is_there_when_it_is_committed_and_not_before(connection: Connection) -> None:
    units = [prepared(connection, b"a", b"b"), prepared(connection, b"c")]
    assert on_queue(connection) == []
    assert SinkLedger(connection, QUERY).commit(0, units)
    assert sorted(on_queue(connection)) == [b"a", b"b", b"c"]
    assert connection.in_doubt() == []


def test_a_batch_that_comes_again_is_not_written_again(connection: Connection) -> None:
    SinkLedger(connection, QUERY).commit(3, [prepared(connection, b"a", batch=3)])
    assert not SinkLedger(connection, QUERY).commit(3, [prepared(connection, b"a", batch=3)])
    assert not SinkLedger(connection, QUERY).commit(2, [prepared(connection, b"older", batch=2)])
    assert on_queue(connection) == [b"a"]
    assert connection.in_doubt() == []
    SinkLedger(connection, QUERY).commit(4, [prepared(connection, b"b", batch=4)])
    assert on_queue(connection) == [b"a", b"b"]


class Died(Exception):
    pass


def dying_after(connection: Connection, resolutions: int) -> Connection:
    """The same connection, for a driver that dies when it has ended so many units."""
    left = resolutions
    resolve = connection.resolve

    def counted(name: bytes, *, commit: bool) -> None:
        nonlocal left
        if not left:
            raise Died
        left -= 1
        resolve(name, commit=commit)

    connection.resolve = counted  # type: ignore[method-assign]
    return connection


@pytest.mark.parametrize("resolutions", [0, 1, 2])
def test_what_was_decided_is_finished_after_a_crash(place: Place, connection: Connection, resolutions: int) -> None:
    units = [prepared(connection, b"%d" % number) for number in range(3)]
    with pytest.raises(Died):
        SinkLedger(dying_after(connection, resolutions), QUERY).commit(0, units)
    again = place.reopen()
    assert not SinkLedger(again, QUERY).commit(0, [prepared(again, b"0"), prepared(again, b"1"), prepared(again, b"2")])
    assert sorted(on_queue(again)) == [b"0", b"1", b"2"]
    assert again.in_doubt() == []


def test_an_abort_after_the_decision_takes_nothing_back(place: Place, connection: Connection) -> None:
    units = [prepared(connection, b"a"), prepared(connection, b"b")]
    with pytest.raises(Died):
        SinkLedger(dying_after(connection, 1), QUERY).commit(0, units)
    again = place.reopen()
    SinkLedger(again, QUERY).abort(0, units)
    assert sorted(on_queue(again)) == [b"a", b"b"]


def test_an_abort_before_the_decision_leaves_nothing(connection: Connection) -> None:
    SinkLedger(connection, QUERY).abort(0, [prepared(connection, b"a")])
    assert on_queue(connection) == []
    assert connection.in_doubt() == []


def test_failed_attempts_are_backed_out_and_others_units_are_let_alone(connection: Connection) -> None:
    prepared(connection, b"a failed attempt's")
    other = prepared(connection, b"another sink's", sink="other")
    stranger = prepared(connection, b"another query's", query="0" * 36)
    SinkLedger(connection, QUERY).commit(0, [prepared(connection, b"a")])
    assert on_queue(connection) == [b"a"]
    assert sorted(connection.in_doubt()) == sorted([other.encode(), stranger.encode()])


def test_two_sinks_of_one_query_have_batches_of_their_own(connection: Connection) -> None:
    SinkLedger(connection, QUERY, "one").commit(0, [prepared(connection, b"a", sink="one")])
    assert SinkLedger(connection, QUERY, "two").commit(0, [prepared(connection, b"b", sink="two")])
    assert on_queue(connection) == [b"a", b"b"]


def test_the_ledger_has_one_record_however_many_batches(connection: Connection) -> None:
    for batch in range(5):
        SinkLedger(connection, QUERY).commit(batch, [prepared(connection, b"", batch=batch)])
    (record,) = connection.browse(LEDGER)
    assert record.persistent
    assert b'"batch":4' in record.body


def test_a_single_write_whose_driver_died_is_finished_by_the_next_one(place: Place, connection: Connection) -> None:
    writer = "ab" * 16
    units = [prepared(connection, b"a", query=writer, batch=-1), prepared(connection, b"b", query=writer, batch=-1)]
    with pytest.raises(Died):
        SinkLedger(dying_after(connection, 1), writer).commit(-1, units)
    again = place.reopen()
    assert finish_single_writes(again) == 1
    assert sorted(on_queue(again)) == [b"a", b"b"]
    assert finish_single_writes(again) == 0
    assert list(again.browse(LEDGER)) == []


def test_a_stranger_on_the_ledger_is_told_of(connection: Connection) -> None:
    SinkLedger(connection, QUERY).commit(0, [prepared(connection, b"a")])
    (record,) = connection.browse(LEDGER)
    connection.get(LEDGER)
    connection.put(LEDGER, b"hello", correlation_id=record.correlation_id)
    with pytest.raises(LedgerUnreadable, match=LEDGER):
        SinkLedger(connection, QUERY).commit(1, [prepared(connection, b"b", batch=1)])
    assert on_queue(connection) == [b"a"]
