# SPDX-License-Identifier: Apache-2.0
"""FlowOrder, RouteToLabel, Label, Route, Passthrough, TryCatch and Throw."""

from __future__ import annotations

import pytest

from entrepot.errors import FlowInvalid, LabelNotFound, UserException
from entrepot.flows.kernel import Kernel

from .drawn import Drawn, Stage, compute, drawn, node, reads, writes

COPY = "SET OutputRoot = InputRoot;"


def test_second_comes_after_all_of_first() -> None:
    flow = drawn(
        "In -> Order",
        "Order.first -> Step -> A",
        "Order.second -> B",
        In=reads(),
        Order=node("FlowOrder"),
        Step=node("Passthrough"),
        A=writes("A"),
        B=writes("B"),
    )
    assert [output.destination for output in Stage(flow).feed().outputs] == ["A", "B"]


def test_second_does_not_come_when_first_has_failed() -> None:
    flow = drawn(
        "In -> Order",
        "Order.first -> Fail",
        "Order.second -> B",
        In=reads(),
        Order=node("FlowOrder"),
        Fail=node("Throw"),
        B=writes("B"),
    )
    stage = Stage(flow)
    stage.feed()
    assert (stage.on("B"), len(stage.on("DEAD.LETTERS"))) == ([], 1)


# --- labels ---------------------------------------------------------------------------------------------------


def names(*labels: str) -> Drawn:
    statements = "".join(
        f"SET OutputLocalEnvironment.Destination.RouterList.DestinationData[{number}].labelName = '{label}';"
        for number, label in enumerate(labels, 1)
    )
    return compute(COPY + statements, mode="destinationAndMessage")


def routed(labels: Drawn, **route: str) -> Stage:
    return Stage(
        drawn(
            "In -> Names -> Go",
            "Red -> AtRed",
            "Blue -> AtBlue",
            In=reads(),
            Names=labels,
            Go=node("RouteToLabel", **route),
            Red=node("Label", label="red"),
            Blue=node("Label", label="blue"),
            AtRed=writes("RED"),
            AtBlue=writes("BLUE"),
        )
    )


@pytest.mark.parametrize(("order", "queue"), [("first", "RED"), ("last", "BLUE")])
def test_a_message_goes_to_the_first_or_last_label_of_its_list(order: str, queue: str) -> None:
    journey = routed(names("red", "blue"), order=order).feed()
    assert [output.destination for output in journey.outputs] == [queue]


def test_last_is_what_route_to_label_does_when_nobody_says() -> None:
    journey = routed(names("red", "blue")).feed()
    assert [output.destination for output in journey.outputs] == ["BLUE"]


def test_the_label_is_taken_off_the_list_so_that_the_next_one_comes_after_it() -> None:
    flow = drawn(
        "In -> Names -> Go",
        "Red -> AtRed -> Again",
        "Blue -> AtBlue",
        In=reads(),
        Names=names("blue", "red"),
        Go=node("RouteToLabel"),
        Again=node("RouteToLabel"),
        Red=node("Label", label="red"),
        Blue=node("Label", label="blue"),
        AtRed=writes("RED"),
        AtBlue=writes("BLUE"),
    )
    assert [output.destination for output in Stage(flow).feed().outputs] == ["RED", "BLUE"]


@pytest.mark.parametrize(("labels", "said"), [(("green",), "'green'"), ((), "names no label")])
def test_a_label_that_is_not_there_is_told_with_those_that_are(labels: tuple[str, ...], said: str) -> None:
    journey = routed(names(*labels)).feed()
    error = journey.failures[0].error
    assert isinstance(error, LabelNotFound)
    assert said in str(error)
    assert "blue, red" in str(error)


def test_the_list_of_the_node_before_stays_as_it_was() -> None:
    flow = drawn(
        "In -> Names -> Order",
        "Order.first -> Go",
        "Order.second -> Go",
        "Red -> AtRed",
        In=reads(),
        Names=names("red"),
        Order=node("FlowOrder"),
        Go=node("RouteToLabel"),
        Red=node("Label", label="red"),
        AtRed=writes("RED"),
    )
    assert [output.destination for output in Stage(flow).feed().outputs] == ["RED", "RED"]


def test_propagate_goes_to_labels_too() -> None:
    flow = drawn(
        "In -> Go",
        "Red -> AtRed",
        In=reads(),
        Go=compute(COPY + "PROPAGATE TO LABEL 'red'; RETURN FALSE;"),
        Red=node("Label", label="red"),
        AtRed=writes("RED"),
    )
    stage = Stage(flow)
    stage.feed()
    assert stage.on("RED") == [b"<order><id>7</id></order>"]


def test_propagate_to_a_label_that_is_not_there_is_an_error_of_the_compute() -> None:
    flow = drawn(
        "In -> Go",
        "Go.failure -> Bad",
        In=reads(),
        Go=compute(COPY + "PROPAGATE TO LABEL 'green'; RETURN FALSE;"),
        Red=node("Label", label="red"),
        Bad=writes("BAD"),
    )
    stage = Stage(flow)
    journey = stage.feed()
    assert len(stage.on("BAD")) == 1
    assert isinstance(journey.failures[0].error, LabelNotFound)


# --- Route ----------------------------------------------------------------------------------------------------------

ROUTES = [
    {"when": "Body.order.price > 10", "to": "dear"},
    {"when": "Body.order.price > 5", "to": "fair"},
    {"when": "Body.order.region = 'EU'", "to": "near"},
]


def sorted_by(mode: str, body: str) -> list[str]:
    flow = drawn(
        "In -> Sort",
        "Sort.dear -> Dear",
        "Sort.fair -> Fair",
        "Sort.near -> Near",
        "Sort.default -> Rest",
        In=reads(),
        Sort=node("Route", routes=ROUTES, mode=mode),
        Dear=writes("DEAR"),
        Fair=writes("FAIR"),
        Near=writes("NEAR"),
        Rest=writes("REST"),
    )
    return [output.destination for output in Stage(flow).feed(body).outputs]


@pytest.mark.parametrize(
    ("mode", "body", "where"),
    [
        ("all", "<order><price>12</price><region>EU</region></order>", ["DEAR", "FAIR", "NEAR"]),
        ("first", "<order><price>12</price><region>EU</region></order>", ["DEAR"]),
        ("all", "<order><price>7</price></order>", ["FAIR"]),
        ("all", "<order><price>1</price></order>", ["REST"]),
        ("first", "<order/>", ["REST"]),
    ],
)
def test_a_message_goes_to_the_terminals_whose_questions_are_true(mode: str, body: str, where: list[str]) -> None:
    assert sorted_by(mode, body) == where


def test_a_route_whose_question_is_no_esql_is_refused_before_it_runs() -> None:
    flow = drawn("In -> Sort", In=reads(), Sort=node("Route", routes=[{"when": "Body.order. >", "to": "match"}]))
    with pytest.raises(FlowInvalid, match="routes"):
        Kernel(flow)


# --- TryCatch and Throw -----------------------------------------------------------------------------------------


def test_without_a_catch_path_a_try_catch_lets_the_error_through() -> None:
    flow = drawn("In -> Try", "Try.try -> Fail", In=reads(), Try=node("TryCatch"), Fail=node("Throw"))
    stage = Stage(flow)
    stage.feed()
    assert len(stage.on("DEAD.LETTERS")) == 1


def test_throw_raises_its_number_and_text() -> None:
    flow = drawn("In -> Stop", In=reads(), Stop=node("Throw", number=3005, text="too dear"))
    error = Stage(flow).feed().failures[0].error
    assert isinstance(error, UserException)
    assert (error.number, error.inserts, error.place) == (3005, ("too dear", "shop.Stop"), "Stop")


def test_throw_has_a_failure_terminal_of_its_own() -> None:
    flow = drawn("In -> Stop", "Stop.failure -> Bad", In=reads(), Stop=node("Throw"), Bad=writes("BAD"))
    stage = Stage(flow)
    stage.feed()
    assert len(stage.on("BAD")) == 1


def test_a_compute_that_propagated_a_message_does_not_claim_the_error_of_a_throw() -> None:
    flow = drawn(
        "In -> Send -> Stop",
        In=reads(),
        Send=compute(COPY + "PROPAGATE; RETURN FALSE;"),
        Stop=node("Throw", text="halt"),
    )
    journey = Stage(flow).feed()
    assert journey.failures[0].node == "Stop"
    assert journey.failures[0].error.place == "Stop"  # type: ignore[attr-defined]


def test_passthrough_changes_nothing() -> None:
    flow = drawn("In -> Through -> Out", In=reads(), Through=node("Passthrough"), Out=writes())
    stage = Stage(flow)
    stage.feed(b"<a  b='c'/>")
    assert stage.on("OUT") == [b"<a  b='c'/>"]
