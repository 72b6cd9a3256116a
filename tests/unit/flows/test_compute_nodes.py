# SPDX-License-Identifier: Apache-2.0
"""Compute, Filter and Database."""

from __future__ import annotations

import sqlite3

import pytest

from entrepot.errors import CastFailed, DatabaseFailed, FlowInvalid, ModelNotFound
from entrepot.esql import SqlDatabase
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.kernel import Kernel

from .drawn import Stage, compute, drawn, node, reads, writes

COPY = "SET OutputRoot = InputRoot;"
ORDER = b"<order><id>7</id></order>"


def through(statements: str, **properties: object) -> FlowDefinition:
    return drawn(
        "In -> Do -> Out",
        "Do.out1 -> One",
        "Do.out2 -> Two",
        "Do.failure -> Bad",
        In=reads(),
        Do=compute(statements, **properties),
        Out=writes(),
        One=writes("ONE"),
        Two=writes("TWO"),
        Bad=writes("BAD"),
    )


# --- Compute ------------------------------------------------------------------------------------------------


def test_a_module_of_the_flow_s_files_is_found_with_or_without_its_schema() -> None:
    esql = (
        "BROKER SCHEMA shop.orders CREATE COMPUTE MODULE Price CREATE FUNCTION Main() RETURNS BOOLEAN BEGIN "
        "SET OutputRoot.XMLNSC.ok = 'yes'; RETURN TRUE; END; END MODULE;"
    )
    for name in ("Price", "shop.orders.Price"):
        flow = drawn("In -> Do -> Out", esql=esql, In=reads(), Do=node("Compute", module=name), Out=writes())
        stage = Stage(flow)
        stage.feed()
        assert stage.on("OUT") == [b"<ok>yes</ok>"]


def test_a_module_that_is_not_there_is_refused_before_the_flow_runs() -> None:
    with pytest.raises((FlowInvalid, ModelNotFound), match="Pirce"):
        Kernel(drawn("In -> Do", In=reads(), Do=node("Compute", module="Pirce")))


def test_return_false_sends_nothing_on() -> None:
    journey = Stage(through(COPY + "RETURN FALSE;")).feed()
    assert journey.outputs == []


def test_propagate_sends_messages_at_once_and_the_program_goes_on() -> None:
    statements = """
        SET OutputRoot.XMLNSC.n = 1; PROPAGATE TO TERMINAL 'out1';
        SET OutputRoot.XMLNSC.n = 2; PROPAGATE TO TERMINAL 'out2';
        SET OutputRoot.XMLNSC.n = 3; PROPAGATE;
        RETURN FALSE;"""
    stage = Stage(through(statements))
    journey = stage.feed()
    assert [output.destination for output in journey.outputs] == ["ONE", "TWO", "OUT"]
    assert (stage.on("ONE"), stage.on("TWO"), stage.on("OUT")) == ([b"<n>1</n>"], [b"<n>2</n>"], [b"<n>3</n>"])


def test_propagate_clears_the_output_unless_it_is_told_to_delete_none() -> None:
    cleared = Stage(through("SET OutputRoot.XMLNSC.a.x = 1; PROPAGATE; SET OutputRoot.XMLNSC.a.y = 2; RETURN TRUE;"))
    cleared.feed()
    kept = Stage(
        through("SET OutputRoot.XMLNSC.a.x = 1; PROPAGATE DELETE NONE; SET OutputRoot.XMLNSC.a.y = 2; RETURN TRUE;")
    )
    kept.feed()
    assert cleared.on("OUT") == [b"<a><x>1</x></a>", b"<a><y>2</y></a>"]
    assert kept.on("OUT") == [b"<a><x>1</x></a>", b"<a><x>1</x><y>2</y></a>"]


def test_an_error_behind_a_propagate_is_not_the_compute_s_own() -> None:
    flow = drawn(
        "In -> Do -> Fail",
        "Do.failure -> Bad",
        In=reads(),
        Do=compute(COPY + "PROPAGATE; RETURN FALSE;"),
        Fail=node("Throw"),
        Bad=writes("BAD"),
    )
    stage = Stage(flow)
    journey = stage.feed()
    assert (stage.on("BAD"), journey.failures[0].node) == ([], "Fail")


def test_failure_gets_the_message_that_came_into_the_node() -> None:
    stage = Stage(through("SET OutputRoot.XMLNSC.half = 'made'; THROW USER EXCEPTION;"))
    stage.feed(ORDER)
    assert stage.on("BAD") == [ORDER]


@pytest.mark.parametrize(
    ("mode", "root", "local"),
    [
        ("message", "new", "came"),
        ("destination", "came", "new"),
        ("destinationAndMessage", "new", "new"),
        ("all", "new", "new"),
    ],
)
def test_the_mode_says_which_trees_are_the_node_s_own(mode: str, root: str, local: str) -> None:
    flow = drawn(
        "In -> Before -> Do -> Tell -> Out",
        In=reads(),
        Before=compute(
            "SET OutputRoot.XMLNSC.root = 'came'; SET OutputLocalEnvironment.tree = 'came';",
            mode="destinationAndMessage",
        ),
        Do=compute("SET OutputRoot.XMLNSC.root = 'new'; SET OutputLocalEnvironment.tree = 'new';", mode=mode),
        Tell=compute(
            "SET OutputRoot.XMLNSC.t.root = InputRoot.XMLNSC.root;"
            "SET OutputRoot.XMLNSC.t.local = InputLocalEnvironment.tree;"
        ),
        Out=writes(),
    )
    stage = Stage(flow)
    stage.feed()
    assert stage.on("OUT") == [f"<t><root>{root}</root><local>{local}</local></t>".encode()]


def test_two_computes_in_a_row_keep_only_the_headers_that_were_copied() -> None:
    flow = drawn(
        "In -> First -> Second -> Out",
        In=reads(),
        First=compute("SET OutputRoot.MQMD = InputRoot.MQMD; SET OutputRoot.XMLNSC.a = 1;"),
        Second=compute("SET OutputRoot.XMLNSC.b = InputRoot.XMLNSC.a;"),
        Out=writes(),
    )
    stage = Stage(flow)
    stage.feed(correlation_id=b"C" * 24)
    assert [(message.body, message.correlation_id) for message in stage.messages("OUT")] == [(b"<b>1</b>", b"")]


def test_user_defined_properties_and_labels_are_seen_by_esql() -> None:
    statements = (
        "DECLARE region EXTERNAL CHARACTER 'none'; SET OutputRoot.XMLNSC.t.region = region;"
        "SET OutputRoot.XMLNSC.t.flow = MessageFlowLabel; SET OutputRoot.XMLNSC.t.node = NodeLabel;"
    )
    esql = (
        f"CREATE COMPUTE MODULE Tell DECLARE region EXTERNAL CHARACTER 'none'; CREATE FUNCTION Main() RETURNS BOOLEAN "
        f"BEGIN {statements.partition(';')[2]} RETURN TRUE; END; END MODULE;"
    )
    flow = drawn("In -> Do -> Out", esql=esql, In=reads(), Do=node("Compute", module="Tell"), Out=writes())
    flow.user_properties["region"] = "EU"
    stage = Stage(flow)
    stage.feed()
    assert stage.on("OUT") == [b"<t><region>EU</region><flow>shop</flow><node>Do</node></t>"]


def test_esql_is_told_the_time_of_the_world_it_runs_in() -> None:
    stage = Stage(
        through("SET OutputRoot.XMLNSC.t = CAST(CURRENT_GMTTIMESTAMP AS CHARACTER FORMAT 'yyyy-MM-dd HH:mm:ss');")
    )
    stage.feed()
    stage.world.pass_time(60)
    stage.feed()
    assert stage.on("OUT") == [b"<t>1970-01-12 13:46:40</t>", b"<t>1970-01-12 13:47:40</t>"]


def test_shared_variables_live_from_message_to_message() -> None:
    esql = (
        "DECLARE seen SHARED INTEGER 0; CREATE COMPUTE MODULE Count CREATE FUNCTION Main() RETURNS BOOLEAN BEGIN "
        "BEGIN ATOMIC SET seen = seen + 1; END; SET OutputRoot.XMLNSC.n = seen; RETURN TRUE; END; END MODULE;"
    )
    stage = Stage(drawn("In -> Do -> Out", esql=esql, In=reads(), Do=node("Compute", module="Count"), Out=writes()))
    stage.feed()
    stage.feed()
    assert stage.on("OUT") == [b"<n>1</n>", b"<n>2</n>"]


def test_mistakes_in_statements_are_told_with_line_and_column() -> None:
    with pytest.raises(FlowInvalid, match="2:"):
        Kernel(through("SET OutputRoot = InputRoot;\nSET x = 1;"))


def test_log_writes_to_the_user_trace() -> None:
    stage = Stage(through(COPY + "LOG USER TRACE VALUES('order', InputRoot.XMLNSC.order.id);"))
    stage.feed()
    ((destination, text),) = stage.world.traces
    assert destination == ""
    assert "order" in text
    assert "7" in text


# --- Filter -------------------------------------------------------------------------------------------------


def asked(**properties: object) -> Stage:
    return Stage(
        drawn(
            "In -> Ask",
            "Ask.true -> Yes",
            "Ask.false -> No",
            "Ask.unknown -> Maybe",
            "Ask.failure -> Bad",
            In=reads(),
            Ask=node("Filter", **properties),
            Yes=writes("YES"),
            No=writes("NO"),
            Maybe=writes("MAYBE"),
            Bad=writes("BAD"),
        )
    )


@pytest.mark.parametrize(
    ("body", "queue"),
    [("<o><n>5</n></o>", "YES"), ("<o><n>1</n></o>", "NO"), ("<o/>", "MAYBE"), ("<o><n>x</n></o>", "BAD")],
)
def test_a_filter_has_three_answers(body: str, queue: str) -> None:
    journey = asked(condition="CAST(Body.o.n AS INTEGER) > 3").feed(body)
    assert [output.destination for output in journey.outputs] == [queue]


def test_statements_may_decide_too() -> None:
    journey = asked(statements="IF Body.o.n = 1 THEN RETURN TRUE; END IF; RETURN UNKNOWN;").feed("<o><n>2</n></o>")
    assert [output.destination for output in journey.outputs] == ["MAYBE"]


def test_an_answer_that_is_no_boolean_is_an_error() -> None:
    journey = asked(condition="Body.o.n").feed("<o><n>perhaps</n></o>")
    assert [output.destination for output in journey.outputs] == ["BAD"]
    assert isinstance(journey.failures[0].error, CastFailed)


# --- Database -------------------------------------------------------------------------------------------------


def shop() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE stock (article TEXT PRIMARY KEY, pieces INTEGER)")
    database.execute("INSERT INTO stock VALUES ('tea', 5)")
    database.commit()
    return database


def test_a_database_node_works_on_the_database_and_the_message_goes_on_as_it_came() -> None:
    database = shop()
    flow = drawn(
        "In -> Do -> Out",
        In=reads(),
        Do=node(
            "Database",
            statements="UPDATE Database.stock AS S SET pieces = S.pieces - 1 WHERE S.article = Body.article;",
        ),
        Out=writes(),
    )
    stage = Stage(flow, database=SqlDatabase(database))
    stage.feed("<article  >tea</article>")
    assert database.execute("SELECT pieces FROM stock").fetchall() == [(4,)]
    assert stage.on("OUT") == [b"<article  >tea</article>"]


def test_a_database_error_is_the_node_s_own() -> None:
    flow = drawn(
        "In -> Do -> Out",
        "Do.failure -> Bad",
        In=reads(),
        Do=node("Database", statements="INSERT INTO Database.stock (article, pieces) VALUES ('tea', 1);"),
        Out=writes(),
        Bad=writes("BAD"),
    )
    stage = Stage(flow, database=SqlDatabase(shop()))
    journey = stage.feed()
    error = journey.failures[0].error
    assert isinstance(error, DatabaseFailed)
    assert (error.sqlstate, len(stage.on("BAD")), stage.on("OUT")) == ("23000", 1, [])


def test_without_throwing_on_database_errors_the_program_looks_at_sqlstate_itself() -> None:
    statements = (
        "INSERT INTO Database.stock (article, pieces) VALUES ('tea', 1); SET OutputRoot.XMLNSC.state = SQLSTATE;"
    )
    flow = drawn("In -> Do -> Out", In=reads(), Do=compute(statements, throw_on_database_error=False), Out=writes())
    stage = Stage(flow, database=SqlDatabase(shop()))
    stage.feed()
    assert stage.on("OUT") == [b"<state>23000</state>"]


def test_with_commit_a_node_s_database_work_stays_whatever_becomes_of_the_message() -> None:
    insert = "INSERT INTO Database.stock (article, pieces) VALUES ('{}', 1);"
    flow = drawn(
        "In -> Kept -> Lost -> Fail",
        In=reads(),
        Kept=node("Database", statements=insert.format("kept"), database_transaction="commit"),
        Lost=node("Database", statements=insert.format("lost")),
        Fail=node("Throw"),
    )
    database = shop()
    stage = Stage(flow, database=SqlDatabase(database))
    stage.feed(persistent=True)
    assert database.execute("SELECT article FROM stock ORDER BY article").fetchall() == [("kept",), ("tea",)]


def test_a_data_source_that_is_not_there_is_told_by_name() -> None:
    flow = drawn(
        "In -> Do", In=reads(), Do=node("Database", data_source="SHOP", statements="DELETE FROM Database.stock;")
    )
    error = Stage(flow).feed().failures[0].error
    assert isinstance(error, DatabaseFailed)
    assert "'SHOP'" in str(error)


def test_a_node_with_no_esql_and_one_with_two_are_refused() -> None:
    with pytest.raises(FlowInvalid, match="no ESQL"):
        Kernel(drawn("In -> Do", In=reads(), Do=node("Compute")))
    with pytest.raises(FlowInvalid, match="module and statements"):
        Kernel(drawn("In -> Do", In=reads(), Do=node("Compute", module="A", statements=COPY)))
