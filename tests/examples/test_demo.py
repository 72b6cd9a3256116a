# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import entrepot
from demo import run as demo_run
from demo import sender as demo_sender
from demo.orders import (
    CUSTOMERS,
    FORMS,
    LARGE_FROM_CENTS,
    PRICES_CENTS,
    OrderBook,
    number_of_correlation,
)
from demo.story import demo
from demo.verdict import EMPTY, LEDGER, NEWS, OUTCOMES, PLACES, Seen, expectations, judge, ranges
from demo.world import FLOWS, _reason, _seen, flow_path
from entrepot.errors import ConnectFailed
from entrepot.esql import SqlDatabase
from entrepot.flows import Kernel, load_flow
from entrepot.flows.flow_world import QueueFacts
from entrepot.flows.memory_world import MemoryWorld
from entrepot.message import Message
from folding import for_each

BOOK = OrderBook(120)


# --- the verdict --------------------------------------------------------------------------------------


def good() -> dict[str, list[Seen]]:
    return {
        place: [Seen(number, None if place == "ORDERS.REFUSED" else cents) for number, cents in orders.items()]
        for place, orders in expectations(BOOK).items()
    }


def test_verdict_holds_when_every_order_is_once_where_it_belongs() -> None:
    verdict = judge(BOOK, good())
    assert verdict.holds
    assert sum(place.found for place in verdict.places if place.place in OUTCOMES) == 120


@for_each("place", [place for place in PLACES if place not in EMPTY])
def test_verdict_finds_an_order_that_is_lost_or_twice_at_any_place(place: str) -> None:
    found = good()
    order = found[place].pop()
    verdict = judge(BOOK, found)
    assert not verdict.holds
    assert [each.lost for each in verdict.places if each.place == place] == [[order.number]]
    assert verdict.lost == ([order.number] if place in OUTCOMES else [])

    found[place] += [order, order]
    verdict = judge(BOOK, found)
    assert not verdict.holds
    assert [each.twice for each in verdict.places if each.place == place] == [[order.number]]
    assert verdict.twice == ([order.number] if place in OUTCOMES else [])


@pytest.mark.parametrize("place", EMPTY)
def test_verdict_finds_what_was_left_on_the_way(place: str) -> None:
    found = good()
    found[place] = [Seen(7)]
    verdict = judge(BOOK, found)
    assert [each.place for each in verdict.places if not each.holds] == [place]


def test_verdict_finds_an_order_at_another_place_or_with_another_amount() -> None:
    found = good()
    order = found["PRICED.EU"].pop()
    found["PRICED.US"].append(order)
    verdict = judge(BOOK, found)
    assert [(each.place, each.lost, each.foreign) for each in verdict.places if not each.holds] == [
        ("PRICED.EU", [order.number], []),
        ("PRICED.US", [], [order.number]),
    ]
    found = good()
    first = found[LEDGER][0]
    found[LEDGER][0] = Seen(first.number, 1)
    assert [each.wrong for each in judge(BOOK, found).places if not each.holds] == [[first.number]]


def test_verdict_finds_an_order_that_nobody_has_sent() -> None:
    found = good()
    found["CONFIRMED"].append(Seen(121, LARGE_FROM_CENTS))
    assert not judge(BOOK, found).holds


def test_a_place_that_was_not_read_at_all_is_lost() -> None:
    found = good()
    del found[LEDGER]
    assert not judge(BOOK, found).holds


def test_ranges() -> None:
    assert ranges([3, 1, 2, 7, 9, 10]) == "1–3, 7, 9–10"
    assert ranges([]) == "none"


# --- the orders ---------------------------------------------------------------------------------------


def test_orders_come_in_all_forms_and_a_few_have_each_flaw() -> None:
    assert {BOOK.order(number).form for number in BOOK.numbers} == set(FORMS)
    assert len(set(BOOK.refused.values())) == 5
    assert all(number in BOOK.numbers for number in BOOK.refused)
    assert len(BOOK.refused) == len(OrderBook(10_000).refused) == 8
    assert {place for place, orders in expectations(BOOK).items() if not orders} == set(EMPTY)


def test_orders_are_written_as_their_form_says() -> None:
    record, payment, text = (BOOK.order(number) for number in (1, 2, 3))
    assert record.body() == "00000001C006BISCUIT ".encode("cp500") + bytes.fromhex("00002C")
    assert b"\r\n:20:ORDER00000002\r\n" in payment.body()
    assert b"\r\n:70:TAR 3\r\n" in payment.body()
    assert b":32A:240105EUR26,97\r\n" in payment.body()
    assert text.body() == (
        b"<order><number>3</number><customer>C008</customer><article>LAMP</article><pieces>4</pieces></order>"
    )
    assert number_of_correlation(text.correlation_id) == 3
    assert number_of_correlation(b"AMQ QM1 1234") == 0


def test_what_is_expected_of_the_database_is_what_it_is_filled_with() -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(flow_path("shop.sql").read_text())
        assert dict(database.execute("SELECT id, region FROM customer")) == CUSTOMERS
        assert dict(database.execute("SELECT article, cents FROM price")) == PRICES_CENTS


def test_flow_and_expectation_agree_on_what_is_large() -> None:
    assert load_flow(flow_path("orders.yaml")).user_properties == {"large_from_cents": LARGE_FROM_CENTS}


# --- the flows, in memory -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stage() -> Iterator[tuple[MemoryWorld, sqlite3.Connection]]:
    """All orders, through all flows."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript(flow_path("shop.sql").read_text())
        stage = MemoryWorld(
            database=SqlDatabase({"SHOP": database}), facts={"ORDERS": QueueFacts(3, "ORDERS.REFUSED", "")}
        )
        kernels = {name: Kernel(load_flow(flow_path(f"{name}.yaml"))) for name in FLOWS}
        for order in map(BOOK.order, BOOK.numbers):
            message = Message(
                order.body(),
                persistent=True,
                format=order.form,
                ccsid=order.ccsid,
                encoding=order.encoding,
                correlation_id=order.correlation_id,
                message_id=order.correlation_id,
            )
            stage.feed(kernels["orders"], "ORDERS", message)
        for queue, flow in (("BACKOFFICE", "backoffice"), ("ANSWERS", "confirm")):
            for message in stage.queues.pop(queue):
                stage.feed(kernels[flow], queue, message)
        yield stage, database


def test_flows_bring_every_order_to_its_place(stage: tuple[MemoryWorld, sqlite3.Connection]) -> None:
    rehearsal, database = stage
    found = {queue: [_seen(message) for message in messages] for queue, messages in rehearsal.queues.items()}
    for topic, messages in rehearsal.published.items():
        found[f"NEWS.{topic.removeprefix('orders/')}"] = [_seen(message) for message in messages]
    # Who gets what by its content is the queue manager's affair.
    found["NEWS.LARGE"] = [_seen(message) for message in rehearsal.queues["CONFIRMED"]]
    found[LEDGER] = [Seen(*row) for row in database.execute("SELECT number, cents FROM ledger")]
    assert set(NEWS) <= set(found)
    verdict = judge(BOOK, found)
    assert [place for place in verdict.places if not place.holds] == []


def test_flows_say_what_is_wrong_with_an_order(stage: tuple[MemoryWorld, sqlite3.Connection]) -> None:
    told = {number_of_correlation(each.correlation_id): each for each in stage[0].queues["ORDERS.REFUSED"]}
    reasons = {BOOK.refused[number]: _reason(message) for number, message in told.items()}
    assert "Premature end of data" in reasons["XML cut off"]
    assert "it needs 8 bytes, and the message has 5 left" in reasons["record too short"]
    assert "field 99Z does not belong here" in reasons["field that SWIFT does not know"]
    assert reasons["unknown customer"].endswith("nobody knows the customer C999")
    assert reasons["unknown customer"].startswith("orders.esql:")
    assert reasons["paid too little"].endswith("paid 150 of 250 cents")
    assert all(message.body == BOOK.order(number).body() for number, message in told.items())


def test_large_orders_have_three_answers(stage: tuple[MemoryWorld, sqlite3.Connection]) -> None:
    for message in stage[0].queues["CONFIRMED"]:
        assert (
            b"<credit>good for it</credit><stock>on the shelf</stock><freight>leaves tomorrow</freight>" in message.body
        )
        assert message.persistent


# --- the sender ---------------------------------------------------------------------------------------


def test_sender_goes_on_from_its_place(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path}/QM"
    with entrepot.connect(url) as connection:
        connection.mqsc("DEFINE QLOCAL(ORDERS)\nDEFINE QLOCAL(ORDERS.SENT)")
        connection.put(demo_sender.PLACE, b"70", persistent=True)
        sender = demo_sender.Sender(url, BOOK, lambda: 0)
        while sender.sent < BOOK.count:
            sender.send_some(connection)
        numbers = [number_of_correlation(message.correlation_id) for message in connection.browse("ORDERS")]
        assert numbers == list(range(71, 121))
        assert [message.body for message in connection.browse(demo_sender.PLACE)] == [b"120"]
        assert all(message.persistent for message in connection.browse("ORDERS"))


# --- the command --------------------------------------------------------------------------------------


class Watched:
    """A flow whose tasks are seen so, one look after the other."""

    name = "confirm"
    is_running = True

    def __init__(self, *looks: list[dict[str, Any]] | Exception) -> None:
        self._looks = list(looks)

    def status(self) -> list[dict[str, Any]]:
        look = self._looks.pop(0)
        if isinstance(look, Exception):
            raise look
        return look


def test_a_task_that_has_not_said_its_process_yet_is_waited_for_before_it_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed = []
    monkeypatch.setattr(demo_run.os, "kill", lambda pid, number: killed.append((pid, number)))
    run = demo_run.Run(SimpleNamespace(url=""), BOOK, None)  # type: ignore[arg-type]
    task = {"name": "confirm/0", "connected": True, "epoch": 7, "pid": 40}
    run._flows["confirm"] = Watched(  # type: ignore[assignment]
        [],
        ConnectFailed("unix:./qm", "it starts"),
        [task | {"pid": None}],
        [task | {"connected": False}],
        [task],
        [task],
        [task | {"epoch": 8, "pid": 41}],
    )
    run._kill_task("confirm", lambda _: None)
    assert killed == [(40, signal.SIGKILL)]
    assert run._flows["confirm"]._looks == []  # type: ignore[attr-defined]


def test_demo_wants_enough_orders() -> None:
    app = typer.Typer()
    app.command()(demo)
    assert CliRunner().invoke(app, ["--orders", "3"]).exit_code == 2
