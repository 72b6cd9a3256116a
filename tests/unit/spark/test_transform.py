# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from entrepot.errors import FlowNotStreamable, InvalidArgument
from entrepot.flows.definition import FlowDefinition
from entrepot.message import Message
from entrepot.models.tree import Assembly
from entrepot.spark.replaying.transform import OUTPUT_SCHEMA, OutputBatch, Runner, TaskSettings, rows_in
from entrepot.spark.tables.rows import messages_of, queue_batch


def doubling(**more: Any) -> FlowDefinition:
    flow = FlowDefinition("doubling")
    flow.node("MQInput", "In", queue="IN", domain="XMLNSC")
    flow.node(
        "Compute",
        "Double",
        statements="SET OutputRoot = InputRoot; SET OutputRoot.XMLNSC.n = CAST(InputRoot.XMLNSC.n AS INTEGER) * 2;",
    )
    flow.node("MQOutput", "Out", queue="OUT", **more)
    flow.link("In", "Double")
    flow.link("Double", "Out")
    return flow


def run(flow: FlowDefinition, *messages: Message, queue: str = "", **options: Any) -> list[dict[str, Any]]:
    runner = Runner(TaskSettings.of(flow, rows_say_queue=bool(queue), **options))
    collected = OutputBatch()
    runner.run(*rows_in(queue_batch(queue, messages)), collected)
    runner.end_batch()
    batch = collected.batch()
    assert batch.schema == OUTPUT_SCHEMA
    return list(batch.to_pylist())


def test_rows_go_in_and_rows_come_out() -> None:
    (row,) = run(doubling(), Message(b"<n>21</n>", message_id=b"\x01" * 24, properties={"a": 1}))
    assert (row["body"], row["destination"], row["node"], row["error"]) == (b"<n>42</n>", "OUT", "Out", None)
    assert row["source_message_id"] == b"\x01" * 24
    assert (row["properties"], row["property_types"]) == ([("a", "1")], [("a", "int")])


def test_a_bad_message_becomes_a_row_with_its_error_and_its_neighbours_are_unharmed() -> None:
    messages = [Message(body, message_id=body) for body in (b"<n>1</n>", b"<n>x</n>", b"no xml", b"<n>2</n>")]
    rows = run(doubling(), *messages, dead_letters="BAD")
    assert [row["body"] for row in rows] == [b"<n>2</n>", b"<n>x</n>", b"no xml", b"<n>4</n>"]
    assert [row["destination"] for row in rows] == ["OUT", "BAD", "BAD", "OUT"]
    assert [row["error"] is None for row in rows] == [True, False, False, True]


def _interrupts(assembly: Assembly, _: Any) -> Assembly:
    if assembly.root.get("XMLNSC", "n") == "bad":
        raise KeyboardInterrupt
    return assembly


def test_a_function_that_raises_what_ends_processes_costs_its_own_row_only() -> None:
    flow = FlowDefinition("interrupting")
    flow.node("MQInput", "In", queue="IN", domain="XMLNSC")
    flow.node("Python", "Work", function=_interrupts)
    flow.node("MQOutput", "Out", queue="OUT")
    flow.link("In", "Work")
    flow.link("Work", "Out")
    messages = [Message(b"<n>%s</n>" % body, message_id=body) for body in (b"1", b"bad", b"2")]
    rows = run(flow, *messages, dead_letters="BAD")
    assert [row["destination"] for row in rows] == ["OUT", "BAD", "OUT"]
    assert rows[1]["error"] == "_interrupts wanted to raise KeyboardInterrupt"


def test_a_row_without_an_id_gets_the_same_one_whenever_it_is_read() -> None:
    first, second = (run(doubling(), Message(b"<n>1</n>"))[0]["source_message_id"] for _ in range(2))
    assert first == second
    assert len(first) == 24


def test_ids_that_a_flow_makes_are_the_same_in_every_try() -> None:
    flow = doubling(new_message_id=True)
    made = [run(flow, Message(b"<n>1</n>", message_id=b"a"), Message(b"<n>1</n>", message_id=b"b")) for _ in range(2)]
    assert [row["message_id"] for row in made[0]] == [row["message_id"] for row in made[1]]
    assert made[0][0]["message_id"] not in (b"a", made[0][1]["message_id"])


def two_inputs() -> FlowDefinition:
    flow = FlowDefinition("two")
    for name in ("ONE", "TWO"):
        flow.node("MQInput", f"In {name}", queue=name)
        flow.node("MQOutput", f"Out {name}", queue=f"{name}.DONE")
        flow.link(f"In {name}", f"Out {name}")
    return flow


def test_the_queue_of_a_row_says_where_it_enters() -> None:
    assert [row["destination"] for row in run(two_inputs(), Message(b""), queue="TWO")] == ["TWO.DONE"]
    (lost,) = run(two_inputs(), Message(b""), queue="THREE")
    assert lost["error"] == "the flow reads ONE, TWO, and not the queue 'THREE'"
    assert [row["destination"] for row in run(two_inputs(), Message(b""), point="In ONE")] == ["ONE.DONE"]


def test_several_inputs_want_to_know_which_one() -> None:
    with pytest.raises(InvalidArgument, match="has 2 input nodes"):
        TaskSettings.of(two_inputs())
    with pytest.raises(InvalidArgument, match="no input node 'Nowhere'"):
        TaskSettings.of(two_inputs(), point="Nowhere")


@pytest.mark.parametrize(
    ("type_name", "properties"),
    [("MQGet", {"queue": "Q"}), ("AggregateControl", {"aggregate": "A"}), ("FileOutput", {"folder": "x", "file": "y"})],
)
def test_flows_that_want_more_than_rows_are_refused(type_name: str, properties: dict[str, Any]) -> None:
    flow = doubling()
    flow.node(type_name, "Special", **properties)
    with pytest.raises(FlowNotStreamable, match=f"Special is {type_name}, which"):
        TaskSettings.of(flow)


def enriching(statement: str) -> FlowDefinition:
    flow = FlowDefinition("enriching")
    flow.node("MQInput", "In", queue="IN", domain="XMLNSC")
    flow.node("Compute", "Ask", statements=statement, data_source="SHOP")
    flow.node("MQOutput", "Out", queue="OUT")
    flow.link("In", "Ask")
    flow.link("Ask", "Out")
    return flow


@pytest.fixture
def shop(tmp_path: Path) -> dict[str, str]:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE part (id INTEGER, name TEXT)")
        connection.execute("INSERT INTO part VALUES (7, 'bolt')")
    return {"SHOP": f"sqlite:///{path}"}


def test_a_database_is_read(shop: dict[str, str]) -> None:
    flow = enriching(
        "SET OutputRoot = InputRoot; SET OutputRoot.XMLNSC.n.name ="
        " THE(SELECT ITEM p.NAME FROM Database.part AS p WHERE p.ID = 7);"
    )
    (row,) = run(flow, Message(b"<n/>"), databases=shop)
    assert row["body"] == b"<n><name>bolt</name></n>"


def test_a_database_is_not_changed(shop: dict[str, str]) -> None:
    flow = enriching("SET OutputRoot = InputRoot; INSERT INTO Database.part (ID, NAME) VALUES (8, 'nut');")
    (row,) = run(flow, Message(b"<n/>"), databases=shop)
    assert "only read" in row["error"]
    with sqlite3.connect(shop["SHOP"].removeprefix("sqlite:///")) as connection:
        assert connection.execute("SELECT count(*) FROM part").fetchone() == (1,)


def test_what_came_in_can_be_read_back_from_what_comes_out() -> None:
    runner = Runner(TaskSettings.of(doubling()))
    outputs, error = runner.outputs_of(Message(b"<n>3</n>", message_id=b"x", ccsid=1208, properties={"k": b"\x01"}))
    collected = OutputBatch()
    for output in outputs:
        collected.add(b"x", output, error)
    assert messages_of(collected.batch()) == [outputs[0].message]
