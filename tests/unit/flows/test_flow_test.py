# SPDX-License-Identifier: Apache-2.0
"""The kit for users' own tests of flows: feeding, stubs, databases, time, ways and trees, and assertions that tell."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from entrepot.errors import FlowInvalid, InvalidArgument, NowhereToSetAside, UserException
from entrepot.message import Message
from entrepot.models import parse_message
from entrepot.testing.flows import FlowTest, QueueFacts
from folding import for_each

from .drawn import compute, drawn, node, reads, writes

COPY = "SET OutputRoot = InputRoot;"


def pricing() -> Any:
    return drawn(
        "In -> Price -> Check",
        "Check.true -> Credit -> Done",
        "Check.false -> Small",
        "In.catch -> Errors",
        In=reads("ORDERS"),
        Price=compute(COPY + "SET OutputRoot.XMLNSC.order.total = CAST(InputRoot.XMLNSC.order.n AS INTEGER) * 2;"),
        Check=node("Filter", condition="Body.order.total > 5"),
        Credit=node("Passthrough"),
        Done=writes("DONE"),
        Small=writes("SMALL"),
        Errors=writes("ERRORS"),
    )


LARGE = "<order><n>3</n></order>"


def test_outputs_are_told_by_destination() -> None:
    result = FlowTest(pricing()).feed("ORDERS", LARGE)
    assert {queue: [message.body for message in messages] for queue, messages in result.outputs.items()} == {
        "DONE": [b"<order><n>3</n><total>6</total></order>"]
    }
    assert (result.published, result.failures) == ({}, [])


def test_the_way_of_a_message_names_nodes_and_terminals() -> None:
    trial = FlowTest(pricing())
    assert trial.feed("In", LARGE).path == ["In.out", "Price.out", "Check.true", "Credit.out", "Done"]
    assert trial.feed("ORDERS", "<order><n>x</n></order>").path == ["In.out", "Price", "In.catch", "Errors"]


def test_trees_are_kept_as_they_came_to_each_node_and_left_it() -> None:
    result = FlowTest(pricing()).feed("ORDERS", LARGE)
    visit = result.at("Price")
    assert visit.input.root.get("XMLNSC", "order", "total") is None
    assert visit.output.root.get("XMLNSC", "order", "total") == 6
    assert [terminal for terminal, _ in result.at("Check").outputs] == ["true"]
    with pytest.raises(AssertionError, match="0 times at 'Small'"):
        result.at("Small")
    with pytest.raises(AssertionError, match="nothing left"):
        _ = result.at("Done").output


def test_labels_are_part_of_the_way() -> None:
    flow = drawn(
        "In -> Go",
        "Red -> Out",
        In=reads(),
        Go=compute(COPY + "PROPAGATE TO LABEL 'red'; RETURN FALSE;"),
        Red=node("Label", label="red"),
        Out=writes(),
    )
    assert FlowTest(flow).feed("IN", "<a/>").path == ["In.out", "Go.label:red", "Red.out", "Out"]


@pytest.mark.parametrize(
    "body",
    [
        LARGE,
        LARGE.encode(),
        Message(LARGE.encode()),
        parse_message(Message(LARGE.encode()), domain="XMLNSC").root,
        parse_message(Message(LARGE.encode()), domain="XMLNSC"),
    ],
)
def test_a_message_may_be_text_bytes_a_message_or_a_tree(body: Any) -> None:
    result = FlowTest(pricing()).feed("ORDERS", body, persistent=True)
    result.assert_output("DONE", body=b"<order><n>3</n><total>6</total></order>", persistent=True)


def test_a_dictionary_is_json() -> None:
    flow = drawn("In -> Out", In=reads(domain="JSON"), Out=writes())
    FlowTest(flow).feed("IN", {"a": [1, 2]}).assert_output("OUT", json={"a": [1, 2]})


def test_what_does_not_exist_is_told_with_what_does() -> None:
    trial = FlowTest(pricing())
    with pytest.raises(InvalidArgument, match=r"In \(ORDERS\)"):
        trial.feed("ORDRES", LARGE)
    with pytest.raises(InvalidArgument, match="correlation_id"):
        trial.feed("ORDERS", LARGE, corelation_id=b"x")
    with pytest.raises(InvalidArgument, match="Credit"):
        trial.stub("Kredit", None)
    with pytest.raises(InvalidArgument, match="feed"):
        trial.stub("In", None)
    with pytest.raises(FlowInvalid):
        FlowTest(drawn("In -> Nowhere", In=reads()))


# --- stubs ------------------------------------------------------------------------------------------------


def test_a_stub_replaces_the_body_or_the_whole_message() -> None:
    trial = FlowTest(pricing())
    trial.stub("Credit", lambda message: "<credit>good</credit>")
    trial.feed("ORDERS", LARGE, correlation_id=b"C" * 24).assert_output(
        "DONE", xml="<credit>good</credit>", correlation_id=b"C" * 24
    )
    trial.stub("Credit", {"credit": "good"})
    trial.feed("ORDERS", LARGE).assert_output("DONE", json={"credit": "good"})

    def doubles(message: Any) -> Any:
        message.root.first("XMLNSC").first("order").first("total").set_value(12)
        return message

    trial.stub("Credit", doubles)
    trial.feed("ORDERS", LARGE).assert_output("DONE", tree={"XMLNSC.order.total": 12})


def test_a_stub_chooses_the_terminal() -> None:
    trial = FlowTest(pricing())
    trial.stub("Check", lambda message: ("false", None))
    trial.feed("ORDERS", LARGE).assert_destinations("SMALL")
    trial.stub("Check", lambda message: [("true", None), ("false", "<x/>")])
    trial.feed("ORDERS", LARGE).assert_destinations("DONE", "SMALL")


def test_a_stub_that_raises_is_the_node_s_error() -> None:
    trial = FlowTest(pricing())
    trial.stub("Credit", ConnectionError("no credit service"))
    result = trial.feed("ORDERS", LARGE)
    result.assert_output("ERRORS", body=LARGE)
    assert isinstance(result.assert_failed(ConnectionError, "no credit"), ConnectionError)
    assert result.at("Credit").error is not None


def test_a_stub_that_names_no_terminal_of_the_node_is_the_test_s_mistake() -> None:
    trial = FlowTest(pricing())
    trial.stub("Check", lambda message: ("flase", None))
    with pytest.raises(InvalidArgument, match="true, false, unknown"):
        trial.feed("ORDERS", LARGE)


def test_the_environment_is_told_as_the_flow_left_it() -> None:
    flow = drawn("In -> Do -> Out", In=reads(), Do=compute(COPY + "SET Environment.Seen = 5;"), Out=writes())
    assert FlowTest(flow).feed("IN", "<a/>").environment.get("Seen") == 5


# --- databases, queues, time ----------------------------------------------------------------------------------

STOCK = "CREATE TABLE stock (article TEXT, pieces INTEGER); INSERT INTO stock VALUES ('tea', 5);"


def taking(source: str = "") -> Any:
    return drawn(
        "In -> Take -> Check -> Out",
        In=reads(),
        Take=node(
            "Database",
            data_source=source,
            statements="UPDATE Database.stock AS S SET pieces = S.pieces - 1 WHERE S.article = Body.article;",
        ),
        Check=compute("IF InputRoot.XMLNSC.article = 'salt' THEN THROW USER EXCEPTION; END IF;" + COPY),
        Out=writes(),
    )


def test_a_text_is_sql_for_a_new_database_in_memory() -> None:
    trial = FlowTest(taking("SHOP"), databases={"SHOP": STOCK})
    trial.feed("IN", "<article>tea</article>", persistent=True)
    trial.feed("IN", "<article>salt</article>", persistent=True).assert_failed(UserException)
    assert trial.database("SHOP").execute("SELECT pieces FROM stock").fetchall() == [(4,)]
    with pytest.raises(InvalidArgument, match="SHOP"):
        trial.database("SHIP")


def test_a_connection_is_used_as_it_is() -> None:
    connection = sqlite3.connect(":memory:")
    connection.executescript(STOCK)
    trial = FlowTest(taking(), databases=connection)
    trial.feed("IN", "<article>tea</article>")
    assert trial.database() is connection
    assert connection.execute("SELECT pieces FROM stock").fetchone() == (4,)


def test_thresholds_and_backout_queues_can_be_set() -> None:
    flow = drawn("In -> Fail", In=reads(), Fail=node("Throw", text="never"))
    trial = FlowTest(flow, queues={"IN": QueueFacts(threshold=3, backout_queue="BACK")})
    result = trial.feed("IN", "<a/>", persistent=True)
    result.assert_output("BACK", body="<a/>", properties={"entrepot_flow": "shop"})
    assert result.path == ["In.out", "Fail"] * 3
    trial.limit("IN", dead_letter_queue="")
    trial.feed("IN", "<a/>").assert_failed(NowhereToSetAside)
    FlowTest(flow).feed("IN", "<a/>").assert_output("DEAD.LETTERS")


def test_messages_can_lie_on_queues_beforehand() -> None:
    flow = drawn("In -> Get -> Out", In=reads(), Get=node("MQGet", queue="PARTS", domain="XMLNSC"), Out=writes())
    trial = FlowTest(flow)
    trial.put("PARTS", "<part/>")
    trial.feed("IN", "<a/>").assert_output("OUT", body="<part/>")
    assert trial.messages("PARTS") == []


def test_a_flow_that_feeds_itself_goes_on_when_it_is_told() -> None:
    flow = drawn("In -> Next", "Again -> Out", In=reads(), Next=writes("NEXT"), Again=reads("NEXT"), Out=writes())
    trial = FlowTest(flow)
    trial.feed("IN", "<a/>").assert_destinations("NEXT")
    trial.run_all().assert_destinations("OUT")


def test_time_is_what_the_test_says_and_passes_when_it_says() -> None:
    stamp = "SET OutputRoot.XMLNSC.t = CAST(CURRENT_GMTTIMESTAMP AS CHARACTER FORMAT 'HH:mm:ss');"
    flow = drawn("In -> Do -> Out", In=reads(), Do=compute(stamp), Out=writes())
    trial = FlowTest(flow, now=datetime(2026, 1, 31, 12, tzinfo=UTC))
    trial.feed("IN", "<a/>").assert_output("OUT", body="<t>12:00:00</t>")
    trial.pass_time(90).assert_no_output()
    trial.feed("IN", "<a/>").assert_output("OUT", body="<t>12:01:30</t>")


def test_timers_of_the_flow_fire_as_time_passes() -> None:
    flow = drawn("Tick -> Out", Tick=node("TimeoutNotification", unique_id="t", interval_s=10), Out=writes())
    trial = FlowTest(flow, now=1000.0)
    trial.pass_time(9).assert_no_output()
    fired = trial.pass_time(26)
    fired.assert_destinations("OUT", "OUT", "OUT")
    fired.assert_path(*["Tick.out", "Out"] * 3)


def test_user_defined_properties_can_be_set() -> None:
    esql = (
        "CREATE COMPUTE MODULE M DECLARE region EXTERNAL CHARACTER 'none'; CREATE FUNCTION Main() RETURNS BOOLEAN "
        "BEGIN SET OutputRoot.XMLNSC.r = region; RETURN TRUE; END; END MODULE;"
    )
    flow = drawn("In -> Do -> Out", esql=esql, In=reads(), Do=node("Compute", module="M"), Out=writes())
    flow.user_properties["region"] = "EU"
    FlowTest(flow, user_properties={"region": "US"}).feed("IN", "<a/>").assert_output("OUT", body="<r>US</r>")
    assert flow.user_properties == {"region": "EU"}
    with pytest.raises(InvalidArgument, match="region"):
        FlowTest(flow, user_properties={"regoin": "US"})


def test_traces_and_publications_are_told() -> None:
    flow = drawn(
        "In -> Note -> File -> Publish",
        In=reads(),
        Note=node("Trace", pattern="got ${Body.a}"),
        File=node("Trace", pattern="line", destination="file", file="x.txt"),
        Publish=node("Publication", topic="news/a"),
    )
    result = FlowTest(flow).feed("IN", "<a>1</a>")
    result.assert_published("news/a", xml="<a>1</a>")
    assert (result.trace, result.files) == (["got '1'"], {"x.txt": "line"})


def test_a_flow_is_loaded_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "small.yaml"
    nodes = "  In: {type: MQInput, queue: A, to: Out}\n  Out: {type: MQOutput, queue: B}\n"
    file.write_text(f"flow: small\nnodes:\n{nodes}")
    FlowTest(file).feed("A", b"x").assert_output("B", body=b"x")


# --- assertions that tell --------------------------------------------------------------------------------------


@for_each(
    ("assertion", "told"),
    [
        (lambda result: result.assert_output("ERRORS"), "0 messages are there"),
        (lambda result: result.assert_output("DONE", number=2), "expected message 2 on DONE"),
        (lambda result: result.assert_output("DONE", body="<x/>"), "from byte 1 on"),
        (lambda result: result.assert_output("DONE", xml="<order><n>4</n></order>"), "/n: expected '4', found '3'"),
        (lambda result: result.assert_output("DONE", tree={"XMLNSC.order.n": 4}), "order.n: expected 4, found '3'"),
        (lambda result: result.assert_output("DONE", json={}), "no JSON"),
        (lambda result: result.assert_output("DONE", persistent=True), "persistent: expected True, found False"),
        (lambda result: result.assert_output("DONE", persistant=True), "no such field"),
        (lambda result: result.assert_output("DONE", properties={"a": 1}), "property a: expected 1, found None"),
        (lambda result: result.assert_no_output("DONE"), "expected nothing on DONE"),
        (lambda result: result.assert_no_output(), "any queue"),
        (lambda result: result.assert_destinations("SMALL"), "expected messages on SMALL"),
        (lambda result: result.assert_failed(), "nothing failed"),
        (lambda result: result.assert_path("In.out"), "expected: In.out"),
        (lambda result: result.assert_published("a"), "published on a"),
    ],
)  # fmt: skip
def test_an_assertion_that_does_not_hold_tells_what_is_there_and_the_way_it_took(assertion: Any, told: str) -> None:
    result = FlowTest(pricing()).feed("ORDERS", LARGE)
    with pytest.raises(AssertionError) as caught:
        assertion(result)
    assert told in str(caught.value)
    assert "In.out → Price.out" in str(caught.value)


def test_an_assertion_that_does_not_hold_tells_errors_too() -> None:
    result = FlowTest(pricing()).feed("ORDERS", "<order><n>x</n></order>")
    with pytest.raises(AssertionError, match="error at In: CastFailed"):
        result.assert_succeeded()


def test_assertions_that_hold_say_nothing() -> None:
    result = FlowTest(pricing()).feed("ORDERS", LARGE, type=8)
    result.assert_succeeded()
    result.assert_path("In.out", "Price.out", "Check.true", "Credit.out", "Done")
    result.assert_no_output("SMALL")
    message = result.assert_output("DONE", number=1)
    assert result.tree(message, "XMLNSC").get("XMLNSC", "order", "n") == "3"
    assert result.tree("DONE", "XMLNSC").get("XMLNSC", "order", "n") == "3"
