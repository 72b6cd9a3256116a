# SPDX-License-Identifier: Apache-2.0
"""ResetContentDescriptor, Validate, Trace and Python."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.errors import FlowInvalid, MessageUnreadable, ModelNotFound, ValidationFailed
from entrepot.flows.kernel import Kernel
from entrepot.models.tree import Assembly
from folding import for_each

from .drawn import Drawn, Stage, compute, drawn, node, reads, writes

COPY = "SET OutputRoot = InputRoot;"


def between(middle: Drawn, *routes: str, domain: str = "XMLNSC", terminal: str = "out", **nodes: Drawn) -> Stage:
    return Stage(
        drawn(
            "In -> Node",
            f"Node.{terminal} -> Say -> Out",
            "Node.failure -> Bad",
            *routes,
            In=reads(domain=domain),
            Node=middle,
            Say=nodes.pop("Say", node("Passthrough")),
            Out=writes(),
            Bad=writes("BAD"),
            **nodes,
        )
    )


# --- ResetContentDescriptor ----------------------------------------------------------------------------------


def test_another_parser_reads_the_body_from_here_on() -> None:
    stage = between(
        node("ResetContentDescriptor", domain="JSON"),
        domain="BLOB",
        Say=compute("SET OutputRoot.XMLNSC.id = InputRoot.JSON.Data.id;"),
    )
    stage.feed(b'{"id": 7}')
    assert stage.on("OUT") == [b"<id>7</id>"]


def test_a_tree_that_was_changed_is_written_before_it_is_read_again() -> None:
    stage = Stage(
        drawn(
            "In -> Change -> Reset -> Say -> Out",
            In=reads(),
            Change=compute(COPY + "SET OutputRoot.XMLNSC.order.id = 8;"),
            Reset=node("ResetContentDescriptor", domain="BLOB"),
            Say=compute("SET OutputRoot.XMLNSC.bytes = CAST(InputRoot.BLOB.BLOB AS CHARACTER CCSID 1208);"),
            Out=writes(),
        )
    )
    stage.feed()
    assert stage.on("OUT") == [b"<bytes>&lt;order&gt;&lt;id&gt;8&lt;/id&gt;&lt;/order&gt;</bytes>"]


def test_the_headers_stay_as_they_are() -> None:
    stage = between(node("ResetContentDescriptor", domain="JSON"), domain="BLOB")
    stage.feed(b"{}", correlation_id=b"C" * 24, properties={"region": "EU"})
    (message,) = stage.messages("OUT")
    assert (message.body, message.correlation_id, message.properties) == (b"{}", b"C" * 24, {"region": "EU"})


def test_the_node_s_word_counts_more_than_what_mqrfh2_says_of_the_body() -> None:
    makes_header = (
        "SET OutputRoot.Properties = InputRoot.Properties; SET OutputRoot.MQMD = InputRoot.MQMD;"
        "SET OutputRoot.MQRFH2.mcd.Msd = 'xmlnsc'; SET OutputRoot.BLOB.BLOB = CAST('{\"id\": 7}' AS BLOB CCSID 1208);"
    )
    stage = Stage(
        drawn(
            "In -> Make -> Reset -> Say -> Out",
            In=reads(),
            Make=compute(makes_header),
            Reset=node("ResetContentDescriptor", domain="JSON"),
            Say=compute(
                "SET OutputRoot.XMLNSC.t.id = InputRoot.JSON.Data.id;"
                "SET OutputRoot.XMLNSC.t.msd = InputRoot.MQRFH2.mcd.Msd;"
            ),
            Out=writes(),
        )
    )
    stage.feed()
    assert stage.on("OUT") == [b"<t><id>7</id><msd>json</msd></t>"]


def test_a_body_that_the_new_parser_cannot_read_fails_where_it_is_read() -> None:
    stage = between(
        node("ResetContentDescriptor", domain="JSON"), Say=compute("SET OutputRoot.XMLNSC.id = InputRoot.JSON.Data.id;")
    )
    journey = stage.feed(b"<order/>")
    assert (journey.failures[0].node, type(journey.failures[0].error)) == ("Say", MessageUnreadable)
    assert stage.on("DEAD.LETTERS") == [b"<order/>"]


def test_a_domain_that_is_not_there_is_refused_before_it_runs() -> None:
    with pytest.raises(FlowInvalid, match="XMLX"):
        between(node("ResetContentDescriptor", domain="XMLX"))


def test_a_message_set_that_is_not_there_is_the_node_s_error() -> None:
    stage = between(node("ResetContentDescriptor", reset_domain=False), domain="BLOB")
    stage.kernel.nodes["Node"].settings.update(domain="MRM", message_set="no such set")
    journey = stage.feed()
    assert isinstance(journey.failures[0].error, ModelNotFound)
    assert len(stage.on("BAD")) == 1


# --- Validate ---------------------------------------------------------------------------------------------------


def test_a_message_of_the_right_domain_goes_to_match() -> None:
    stage = between(node("Validate", domain="XMLNSC"), terminal="match")
    stage.feed()
    assert len(stage.on("OUT")) == 1


def test_a_message_of_another_domain_goes_to_failure_and_says_why() -> None:
    stage = between(node("Validate", domain="JSON", check_domain=True), terminal="match")
    journey = stage.feed()
    assert len(stage.on("BAD")) == 1
    assert isinstance(journey.failures[0].error, ValidationFailed)
    assert "XMLNSC, not JSON" in str(journey.failures[0].error)


def test_the_message_set_is_checked_when_it_is_asked_for() -> None:
    stage = between(node("Validate", message_set="orders", check_message_set=True), terminal="match")
    journey = stage.feed()
    assert "MessageSet is empty, not orders" in str(journey.failures[0].error)


def test_validation_of_the_content_reads_all_of_it() -> None:
    broken = b"<order><id>7</order>"
    lazy = between(node("Validate", domain="XMLNSC"), terminal="match")
    lazy.feed(broken)
    strict = between(node("Validate", domain="XMLNSC", validation="content"), terminal="match")
    journey = strict.feed(broken)
    assert (lazy.on("OUT"), strict.on("BAD")) == ([broken], [broken])
    assert isinstance(journey.failures[0].error, MessageUnreadable)


# --- Trace ------------------------------------------------------------------------------------------------------------


def traced(pattern: str, body: bytes = b"<order id='a'><n>7</n></order>", **properties: Any) -> list[tuple[str, str]]:
    stage = between(node("Trace", pattern=pattern, **properties))
    stage.feed(body)
    assert stage.on("OUT") == [body]
    return stage.world.traces


@for_each(
    ("pattern", "text"),
    [
        ("order ${Body.order.n}!", "order '7'!"),
        ("${CAST(Body.order.n AS INTEGER) + 1}", "8"),
        ("${Body.order.nothing}", "NULL"),
        ("no inserts, a $ and a {brace}", "no inserts, a $ and a {brace}"),
        ("${Root.XMLNSC.{'order'}.n} at the end", "'7' at the end"),
        ("${UPPER('a')}${UPPER('b')}", "'A''B'"),
        ("${Body.order.n = '7'}", "TRUE"),
        ("open ${Body.order", "open ${Body.order"),
    ],
)
def test_a_pattern_is_written_with_the_values_of_its_expressions(pattern: str, text: str) -> None:
    assert traced(pattern) == [("", text)]


def test_a_tree_is_written_element_by_element() -> None:
    ((_, text),) = traced("${Root.XMLNSC}")
    assert text.splitlines() == [
        "(0x01000000:Folder):XMLNSC = (",
        "  (0x01000000:Folder):order = (",
        "    (0x03000100:Attribute):id = 'a' (CHARACTER)",
        "    (0x03000000:Field):n = '7' (CHARACTER)",
        "  )",
        ")",
    ]


def test_the_whole_message_is_written_with_its_headers() -> None:
    ((_, text),) = traced("${Root}")
    assert [line for line in text.splitlines() if line.startswith("  (0x01000000:")][:2] == [
        "  (0x01000000:Name):Properties = (",
        "  (0x01000000:Name):MQMD = (",
    ]


def test_a_trace_leaves_no_mark_in_the_environment() -> None:
    stage = between(
        node("Trace", pattern="${Body}"),
        Say=compute("SET OutputRoot.XMLNSC.n = CARDINALITY(Environment.*[]);"),
    )
    stage.feed()
    assert stage.on("OUT") == [b"<n>0</n>"]


def test_a_file_is_named_as_the_destination() -> None:
    assert traced("x", destination="file", file="orders.txt") == [("orders.txt", "x")]
    assert traced("x", destination="none") == []


def test_what_a_message_lacks_does_not_stop_it() -> None:
    ((_, text),) = traced("got ${CAST(Body.order.n AS DATE)}")
    assert text.startswith("got (CastFailed")


def test_a_pattern_that_is_no_esql_is_refused_before_it_runs() -> None:
    flow = drawn("In -> Node", In=reads(), Node=node("Trace", pattern="${Body..x}"))
    with pytest.raises(FlowInvalid, match=r"\$\{Body\.\.x\}"):
        Kernel(flow)


# --- Python -----------------------------------------------------------------------------------------------------------


def counts_up(message: Assembly, send: Any) -> Assembly:
    order = message.root.first("XMLNSC").first("order")  # type: ignore[union-attr]
    order.first("id").set_value("8")  # type: ignore[union-attr]
    return message


def test_a_function_changes_a_message_of_its_own() -> None:
    stage = between(node("Python", function=counts_up), "In -> Beside", Beside=writes("BESIDE"))
    stage.feed()
    assert stage.on("OUT") == [b"<order><id>8</id></order>"]
    assert stage.on("BESIDE") == [b"<order><id>7</id></order>"]


def test_a_catch_terminal_sees_the_message_as_it_was_before_the_function_changed_it() -> None:
    def fails(message: Assembly, send: Any) -> None:
        counts_up(message, send)
        message.local_environment.add("Seen", "yes")
        raise ValueError("after all")

    stage = Stage(
        drawn("In -> Do", "In.catch -> Caught", In=reads(), Do=node("Python", function=fails), Caught=writes("CAUGHT"))
    )
    stage.feed()
    assert stage.on("CAUGHT") == [b"<order><id>7</id></order>"]


def test_send_goes_to_any_terminal_and_as_often_as_one_likes() -> None:
    def twice(message: Assembly, send: Any) -> None:
        send("alternate", message)
        send("alternate", message)
        send("special", message)

    stage = between(
        node("Python", function=twice),
        "Node.alternate -> A",
        "Node.special -> B",
        A=writes("A"),
        B=writes("B"),
    )
    stage.feed()
    assert (len(stage.on("A")), len(stage.on("B")), stage.on("OUT")) == (2, 1, [])


def test_a_function_is_found_by_module_and_name() -> None:
    stage = between(node("Python", function="unit.flows.test_contents_nodes:counts_up"))
    stage.feed()
    assert stage.on("OUT") == [b"<order><id>8</id></order>"]


@pytest.mark.parametrize("said", ["no_colon", "no.such.module:f", "json:nothing", "json:__name__", ""])
def test_a_function_that_cannot_be_found_is_refused_before_it_runs(said: str) -> None:
    with pytest.raises(FlowInvalid):
        Kernel(drawn("In -> Do", In=reads(), Do=node("Python", function=said)))


def test_what_is_no_message_is_told() -> None:
    stage = between(node("Python", function=lambda message, send: 42))
    journey = stage.feed()
    assert "returned int" in str(journey.failures[0].error)
    assert len(stage.on("BAD")) == 1
