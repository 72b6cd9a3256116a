# SPDX-License-Identifier: Apache-2.0
"""What becomes of errors, retries and bad messages: the rules of IBM's brokers ("Handling errors in message flows")."""

from __future__ import annotations

import pickle
import sqlite3
from typing import Any

import pytest

from entrepot.errors import FlowError, NowhereToSetAside, QueueNotFound, RetriedTooOften, UserException
from entrepot.esql import SqlDatabase
from entrepot.flows.flow_world import Output, QueueFacts
from entrepot.flows.journey import Earlier, NotAlone
from entrepot.flows.kernel import CRASHES_MAX, Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.flows.nodes import find_type
from entrepot.message import Message
from folding import for_each

from .drawn import Stage, compute, drawn, node, reads, writes

COPY = "SET OutputRoot = InputRoot;"
THROWS = "THROW USER EXCEPTION MESSAGE 2951 VALUES('no ship');"
SAYS_WHO = (
    "SET OutputRoot.XMLNSC.said.who = InputExceptionList.RecoverableException.Name;"
    "SET OutputRoot.XMLNSC.said.came = InputRoot.XMLNSC.order.id;"
)
LIMITED = QueueFacts(threshold=3, backout_queue="IN.BACKOUT", dead_letter_queue="DEAD")


# --- where an error goes ------------------------------------------------------------------------


def test_an_error_goes_to_the_failure_terminal_of_the_node_that_raised_it() -> None:
    stage = Stage(
        drawn(
            "In -> First -> Second -> Out",
            "First.failure -> Wrong",
            "Second.failure -> Say -> Bad",
            In=reads(),
            First=compute(COPY),
            Second=compute(THROWS),
            Say=compute(SAYS_WHO),
            Out=writes(),
            Wrong=writes("WRONG"),
            Bad=writes("BAD"),
        )
    )
    stage.feed()
    assert stage.on("BAD") == [b"<said><who>Second</who><came>7</came></said>"]
    assert stage.on("WRONG") == stage.on("OUT") == stage.on("DEAD.LETTERS") == []


def test_an_error_further_on_does_not_go_to_the_failure_terminals_before_it() -> None:
    stage = Stage(
        drawn(
            "In -> First -> Second",
            "First.failure -> Wrong",
            In=reads(),
            First=compute(COPY),
            Second=compute(THROWS),
            Wrong=writes("WRONG"),
        )
    )
    stage.feed()
    assert stage.on("WRONG") == []
    assert stage.on("DEAD.LETTERS") == [b"<order><id>7</id></order>"]


def test_the_catch_terminal_gets_the_message_as_it_came_in() -> None:
    stage = Stage(
        drawn(
            "In -> Change -> Fail",
            "In.catch -> Say -> Caught",
            In=reads(),
            Change=compute(COPY + "SET OutputRoot.XMLNSC.order.id = 99;"),
            Fail=compute(THROWS),
            Say=compute(SAYS_WHO),
            Caught=writes("CAUGHT"),
        )
    )
    journey = stage.feed()
    assert stage.on("CAUGHT") == [b"<said><who>Fail</who><came>7</came></said>"]
    assert stage.on("DEAD.LETTERS") == []
    assert [(failure.node, type(failure.error)) for failure in journey.failures] == [("In", UserException)]


def test_errors_are_noted_in_the_order_in_which_they_were_met() -> None:
    stage = Stage(
        drawn(
            "In -> First",
            "In.catch -> Second",
            "Second.failure -> Try",
            "Try.try -> Third",
            "Try.catch -> Caught",
            In=reads(),
            First=compute(THROWS),
            Second=compute(THROWS),
            Try=node("TryCatch"),
            Third=node("Throw", text="worse"),
            Caught=writes("CAUGHT"),
        )
    )
    journey = stage.feed()
    assert [failure.node for failure in journey.failures] == ["In", "Second", "Try"]
    assert len(stage.on("CAUGHT")) == 1


def test_the_environment_keeps_what_was_written_before_the_error_and_the_local_environment_does_not() -> None:
    stage = Stage(
        drawn(
            "In -> Change -> Fail",
            "In.catch -> Say -> Caught",
            In=reads(),
            Change=compute(
                COPY + "SET Environment.Seen = 'yes'; SET OutputLocalEnvironment.Seen = 'yes';",
                mode="destinationAndMessage",
            ),
            Fail=compute(THROWS),
            Say=compute(
                "SET OutputRoot.XMLNSC.said.environment = COALESCE(Environment.Seen, 'no');"
                "SET OutputRoot.XMLNSC.said.local = COALESCE(InputLocalEnvironment.Seen, 'no');"
            ),
            Caught=writes("CAUGHT"),
        )
    )
    stage.feed()
    assert stage.on("CAUGHT") == [b"<said><environment>yes</environment><local>no</local></said>"]


def test_try_catch_takes_the_error_and_the_flow_goes_on() -> None:
    stage = Stage(
        drawn(
            "In -> Order",
            "Order.first -> Try",
            "Order.second -> After",
            "Try.try -> Fail",
            "Try.catch -> Say -> Caught",
            In=reads(),
            Order=node("FlowOrder"),
            Try=node("TryCatch"),
            Fail=compute(THROWS),
            Say=compute(SAYS_WHO),
            Caught=writes("CAUGHT"),
            After=writes("AFTER"),
        )
    )
    stage.feed()
    assert stage.on("CAUGHT") == [b"<said><who>Fail</who><came>7</came></said>"]
    assert stage.on("AFTER") == [b"<order><id>7</id></order>"]


def test_the_innermost_try_catch_takes_the_error() -> None:
    stage = Stage(
        drawn(
            "In -> Outer",
            "Outer.try -> Inner",
            "Inner.try -> Fail",
            "Inner.catch -> Near",
            "Outer.catch -> Far",
            In=reads(),
            Outer=node("TryCatch"),
            Inner=node("TryCatch"),
            Fail=compute(THROWS),
            Near=writes("NEAR"),
            Far=writes("FAR"),
        )
    )
    stage.feed()
    assert (len(stage.on("NEAR")), len(stage.on("FAR"))) == (1, 0)


def test_an_error_on_the_catch_path_travels_on_to_the_next_try_catch() -> None:
    stage = Stage(
        drawn(
            "In -> Outer",
            "Outer.try -> Inner",
            "Inner.try -> Fail",
            "Inner.catch -> Worse",
            "Outer.catch -> Say -> Far",
            In=reads(),
            Outer=node("TryCatch"),
            Inner=node("TryCatch"),
            Fail=compute(THROWS),
            Worse=node("Throw", text="worse"),
            Say=compute(SAYS_WHO),
            Far=writes("FAR"),
        )
    )
    stage.feed()
    assert stage.on("FAR") == [b"<said><who>Worse</who><came>7</came></said>"]


def test_an_error_on_a_failure_path_travels_on_and_does_not_come_back_to_it() -> None:
    stage = Stage(
        drawn(
            "In -> Try",
            "Try.try -> Fail",
            "Fail.failure -> Worse",
            "Try.catch -> Say -> Caught",
            In=reads(),
            Try=node("TryCatch"),
            Fail=compute(THROWS),
            Worse=node("Throw", text="worse"),
            Say=compute(SAYS_WHO),
            Caught=writes("CAUGHT"),
        )
    )
    stage.feed()
    assert stage.on("CAUGHT") == [b"<said><who>Worse</who><came>7</came></said>"]


def test_an_error_that_an_esql_handler_takes_never_leaves_the_node() -> None:
    handled = (
        "DECLARE EXIT HANDLER FOR SQLSTATE LIKE '%' BEGIN SET OutputRoot.XMLNSC.handled = SQLSTATE; END; " + THROWS
    )
    stage = Stage(
        drawn(
            "In -> Careful -> Out",
            "Careful.failure -> Bad",
            In=reads(),
            Careful=compute(f"BEGIN {handled} END;"),
            Out=writes(),
            Bad=writes("BAD"),
        )
    )
    journey = stage.feed()
    assert stage.on("OUT") == [b"<handled>U02951</handled>"]
    assert stage.on("BAD") == journey.failures == []


def test_what_was_put_before_a_caught_error_stays_in_the_unit_of_work() -> None:
    stage = Stage(
        drawn(
            "In -> Try",
            "Try.try -> Order",
            "Order.first -> Early",
            "Order.second -> Fail",
            "Try.catch -> Caught",
            In=reads(),
            Try=node("TryCatch"),
            Order=node("FlowOrder"),
            Early=writes("EARLY"),
            Fail=compute(THROWS),
            Caught=writes("CAUGHT"),
        )
    )
    stage.feed(persistent=True)
    assert (len(stage.on("EARLY")), len(stage.on("CAUGHT"))) == (1, 1)


# --- retry, and setting aside ------------------------------------------------------------------


class Tries:
    """A Python node that fails so many times."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.count = 0

    def __call__(self, message: Any, send: Any) -> Any:
        self.count += 1
        if self.left:
            self.left -= 1
            raise ValueError("not yet")
        return message


def tried(failures: int, facts: QueueFacts | None, *routes: str, **nodes: Any) -> tuple[Stage, Tries]:
    tries = Tries(failures)
    flow = drawn("In -> Do -> Out", *routes, In=reads(), Do=node("Python", function=tries), Out=writes(), **nodes)
    return Stage(flow, facts=facts), tries


@pytest.mark.parametrize(("threshold", "count"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_a_message_is_tried_up_to_the_threshold_and_once_without_one(threshold: int, count: int) -> None:
    stage, tries = tried(99, QueueFacts(threshold, "IN.BACKOUT"))
    stage.feed(persistent=True)
    assert tries.count == count
    assert len(stage.on("IN.BACKOUT")) == 1


def test_a_message_that_succeeds_before_the_threshold_is_not_set_aside() -> None:
    stage, tries = tried(2, LIMITED)
    journey = stage.feed(persistent=True)
    assert (tries.count, len(stage.on("OUT")), stage.on("IN.BACKOUT")) == (3, 1, [])
    assert len(journey.outputs) == 1


def test_earlier_units_of_work_count_as_tries() -> None:
    stage, tries = tried(99, LIMITED)
    stage.feed(persistent=True, backout_count=2)
    assert tries.count == 1


def test_nothing_is_left_behind_by_a_try_that_failed() -> None:
    flow = drawn(
        "In -> Order",
        "Order.first -> Early",
        "Order.second -> Fail",
        In=reads(),
        Order=node("FlowOrder"),
        Early=writes("EARLY"),
        Fail=compute(THROWS),
    )
    stage = Stage(flow, facts=LIMITED)
    stage.feed(persistent=True)
    assert stage.on("EARLY") == []
    assert len(stage.on("IN.BACKOUT")) == 1


def test_the_failure_terminal_of_the_input_node_goes_before_the_backout_queue() -> None:
    stage, _ = tried(99, LIMITED, "In.failure -> Say -> Bad", Say=compute(SAYS_WHO), Bad=writes("BAD"))
    journey = stage.feed(persistent=True)
    assert stage.on("BAD") == [b"<said><who>Do</who><came>7</came></said>"]
    assert stage.on("IN.BACKOUT") == stage.on("DEAD") == []
    assert [(failure.node, str(failure.error)) for failure in journey.failures] == [("Do", "not yet")]


def test_the_backout_queue_goes_before_the_dead_letter_queue() -> None:
    stage, _ = tried(99, LIMITED)
    stage.feed(b"<order/>", persistent=True, properties={"region": "EU"}, correlation_id=b"c" * 24)
    (message,) = stage.messages("IN.BACKOUT")
    assert stage.on("DEAD") == []
    assert (message.body, message.correlation_id, message.persistent) == (b"<order/>", b"c" * 24, True)
    assert message.properties == {"region": "EU", "entrepot_flow": "shop", "entrepot_error": "not yet"}


def test_without_a_backout_queue_the_dead_letter_queue_takes_it() -> None:
    stage, _ = tried(99, QueueFacts(dead_letter_queue="DEAD"))
    stage.feed(persistent=True)
    assert len(stage.on("DEAD")) == 1


def test_a_message_that_nobody_takes_stays_where_it_is_and_says_why() -> None:
    stage, _ = tried(99, QueueFacts())
    with pytest.raises(NowhereToSetAside, match="not yet"):
        stage.feed(persistent=True)
    assert stage.on("OUT") == []


def test_an_error_on_the_way_from_the_failure_terminal_leads_to_the_backout_queue() -> None:
    stage, _ = tried(
        99,
        LIMITED,
        "In.failure -> Order",
        "Order.first -> Note",
        "Order.second -> Worse",
        Order=node("FlowOrder"),
        Note=writes("NOTE"),
        Worse=node("Throw", text="worse"),
    )
    stage.feed(persistent=True)
    assert stage.on("NOTE") == []
    (message,) = stage.messages("IN.BACKOUT")
    assert "not yet" in str(message.properties["entrepot_error"])
    assert "worse" in str(message.properties["entrepot_error"])


def test_an_error_on_the_catch_path_of_the_input_node_is_retried() -> None:
    stage, tries = tried(99, LIMITED, "In.catch -> Worse", Worse=node("Throw", text="worse"))
    stage.feed(persistent=True)
    assert tries.count == 3
    (message,) = stage.messages("IN.BACKOUT")
    assert message.properties["entrepot_error"] == "Worse: worse"


def test_a_message_that_was_in_many_crashes_is_set_aside_untried() -> None:
    stage, tries = tried(0, LIMITED)
    stage.feed(persistent=True, backout_count=LIMITED.threshold + CRASHES_MAX - 1)
    journey = stage.feed(persistent=True, backout_count=LIMITED.threshold + CRASHES_MAX)
    assert tries.count == 1
    assert [type(failure.error) for failure in journey.failures] == [RetriedTooOften]
    assert [message.backout_count for message in stage.messages("IN.BACKOUT")] == [0]


class Refusing(MemoryWorld):
    """A world in which one queue does not exist, and every put is answered at once."""

    careful = True

    def put(self, output: Output) -> None:
        if output.destination == "IN.BACKOUT":
            raise QueueNotFound(output.destination)

    def settle(self, journey: Any) -> None:
        self.outputs = journey.outputs


def test_a_backout_queue_that_refuses_leaves_it_to_the_dead_letter_queue() -> None:
    world = Refusing(facts={"IN": LIMITED})
    kernel = Kernel(drawn("In -> Fail", In=reads(), Fail=compute(THROWS)))
    world.feed(kernel, "IN", Message(b"<order/>", persistent=True))
    assert [output.destination for output in world.outputs] == ["DEAD"]
    assert "IN.BACKOUT refused it" in str(world.outputs[0].message.properties["entrepot_error"])


# --- transaction modes ---------------------------------------------------------------------------


def failing_after_put(transaction: str, output: str = "automatic") -> Stage:
    flow = drawn(
        "In -> Order",
        "Order.first -> Early",
        "Order.second -> Fail",
        In=reads(transaction=transaction),
        Order=node("FlowOrder"),
        Early=writes("EARLY", transaction=output),
        Fail=compute(THROWS),
    )
    return Stage(flow, facts=QueueFacts(dead_letter_queue="DEAD"))


@pytest.mark.parametrize(
    ("transaction", "persistent", "output", "stays"),
    [
        ("yes", False, "automatic", False),
        ("yes", True, "automatic", False),
        ("no", True, "automatic", True),
        ("automatic", True, "automatic", False),
        ("automatic", False, "automatic", True),
        ("yes", True, "no", True),
        ("no", True, "yes", False),
    ],
)
def test_what_a_failed_message_put_goes_with_it_where_there_is_a_unit_of_work(
    transaction: str, persistent: bool, output: str, stays: bool
) -> None:
    stage = failing_after_put(transaction, output)
    stage.feed(persistent=persistent)
    assert len(stage.on("EARLY")) == (1 if stays else 0)
    assert len(stage.on("DEAD")) == 1


def test_outside_of_a_unit_of_work_nothing_is_tried_again() -> None:
    tries = Tries(99)
    flow = drawn("In -> Do", In=reads(transaction="no"), Do=node("Python", function=tries))
    stage = Stage(flow, facts=LIMITED)
    stage.feed(persistent=True)
    assert tries.count == 1
    assert len(stage.on("IN.BACKOUT")) == 1


def test_what_was_left_behind_stays_though_the_failure_terminal_fails_too() -> None:
    flow = drawn(
        "In -> Order",
        "Order.first -> Early",
        "Order.second -> Fail",
        "In.failure -> Worse",
        In=reads(transaction="no"),
        Order=node("FlowOrder"),
        Early=writes("EARLY"),
        Fail=compute(THROWS),
        Worse=node("Throw"),
    )
    stage = Stage(flow, facts=LIMITED)
    stage.feed()
    assert (len(stage.on("EARLY")), len(stage.on("IN.BACKOUT"))) == (1, 1)


# --- work that only a whole unit can undo ----------------------------------------------------------


def test_a_message_that_failed_after_database_work_asks_for_its_whole_unit_back() -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (id TEXT)")
    flow = drawn(
        "In -> Insert -> Fail",
        In=reads(),
        Insert=node("Database", statements="INSERT INTO Database.orders (id) VALUES (Body.order.id);"),
        Fail=compute(THROWS),
    )
    kernel, world = Kernel(flow), MemoryWorld(database=SqlDatabase(database))
    with pytest.raises(NotAlone) as caught:
        kernel.process(kernel.points[0], Message(b"<order><id>7</id></order>"), world)
    assert caught.value.earlier.tries == 1
    assert isinstance(caught.value.earlier.error, UserException)


def test_database_work_of_a_failed_message_is_backed_out_and_of_others_is_kept() -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders (id TEXT)")
    flow = drawn(
        "In -> Insert -> Check -> Out",
        In=reads(),
        Insert=node("Database", statements="INSERT INTO Database.orders (id) VALUES (Body.order.id);"),
        Check=compute(f"IF InputRoot.XMLNSC.order.id = 'bad' THEN {THROWS} END IF; {COPY}"),
        Out=writes(),
    )
    stage = Stage(flow, database=SqlDatabase(database))
    for order in ("1", "bad", "2"):
        stage.feed(f"<order><id>{order}</id></order>", persistent=True)
    database.rollback()
    assert database.execute("SELECT id FROM orders ORDER BY id").fetchall() == [("1",), ("2",)]
    assert (len(stage.on("OUT")), len(stage.on("DEAD.LETTERS"))) == (2, 1)


def test_database_work_on_a_failure_path_that_fails_is_backed_out_too() -> None:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE notes (id TEXT)")
    flow = drawn(
        "In -> Fail",
        "In.failure -> Note -> Worse",
        In=reads(),
        Fail=compute(THROWS),
        Note=node("Database", statements="INSERT INTO Database.notes (id) VALUES ('x');"),
        Worse=node("Throw", text="worse"),
    )
    stage = Stage(flow, database=SqlDatabase(database))
    stage.feed(persistent=True)
    assert database.execute("SELECT COUNT(*) FROM notes").fetchone() == (0,)
    assert len(stage.on("DEAD.LETTERS")) == 1


def test_a_message_that_another_one_got_returns_when_that_one_fails() -> None:
    flow = drawn(
        "In -> Get -> Fail",
        In=reads(),
        Get=node("MQGet", queue="PARTS", domain="XMLNSC"),
        Fail=compute(THROWS),
    )
    stage = Stage(flow, facts=LIMITED)
    stage.world.put_now(Output("PARTS", Message(b"<part>1</part>")))
    stage.world.put_now(Output("PARTS", Message(b"<part>2</part>")))
    stage.feed(persistent=True)
    assert stage.on("PARTS") == [b"<part>1</part>", b"<part>2</part>"]
    assert len(stage.on("IN.BACKOUT")) == 1


def test_what_happened_before_is_counted_when_a_unit_was_given_back() -> None:
    stage, tries = tried(99, LIMITED)
    entry = stage.kernel.points[0]
    journey = stage.kernel.process(
        entry, Message(b"<order/>", persistent=True), stage.world, Earlier(3, ValueError("three times"))
    )
    assert tries.count == 0
    assert journey.outputs[0].message.properties["entrepot_error"] == "three times"


# --- bad messages, good neighbours -----------------------------------------------------------------

GOOD = b"<order><id>7</id><price>2.50</price></order>"
BAD = {
    "broken XML": Message(b"<order><id>7</order>"),
    "no XML at all": Message(b"\x00\xff\x00"),
    "empty": Message(b""),
    "unknown code page": Message(GOOD, ccsid=31_999),
    "bytes that its code page has not": Message(b"<order><id>\xff\xfe</id></order>", ccsid=1208),
    "a header that is none": Message(b"RFH nonsense", format="MQHRF2"),
    "missing field": Message(b"<order/>"),
    "text for a number": Message(b"<order><id>7</id><price>much</price></order>"),
}
READS_ALL = COPY + "SET OutputRoot.XMLNSC.order.total = CAST(InputRoot.XMLNSC.order.price AS DECIMAL) * 2;"
NEEDS = (
    "DECLARE total DECIMAL CAST(Body.order.price AS DECIMAL);"
    "IF total IS NULL THEN THROW USER EXCEPTION VALUES('no price'); END IF;"
)
NODES = {
    "Compute": compute(READS_ALL + "IF OutputRoot.XMLNSC.order.total IS NULL THEN THROW USER EXCEPTION; END IF;"),
    "Filter": node("Filter", statements=NEEDS + "RETURN total > 0;"),
    "Database": node("Database", statements=NEEDS),
    "Route": node("Route", routes=[{"when": "CAST(Body.order.price AS DECIMAL) > 0", "to": "match"}]),
    "Validate": node("Validate", domain="XMLNSC", validation="content"),
    "ResetContentDescriptor": node("ResetContentDescriptor", domain="XMLNSC"),
    "Trace": node("Trace", pattern="${Root} ${CAST(Body.order.price AS DECIMAL)}"),
    "Publication": node("Publication", topic="orders"),
    "MQOutput": node("MQOutput", queue="COPY"),
    "MQReply": node("MQReply"),
    "MQGet": node("MQGet", queue="PARTS", by_correlation_id=True),
    "Passthrough": node("Passthrough"),
    "FlowOrder": node("FlowOrder"),
    "TryCatch": node("TryCatch"),
    "RouteToLabel": node("RouteToLabel"),
    "Throw": node("Throw"),
    "Python": node(
        "Python", function=lambda message, send: message if message.root.get("XMLNSC", "order", "id") else 1
    ),
}


ON = ("out", "true", "false", "unknown", "match", "default", "first", "try", "noMessage")


@for_each("kind", NODES)
def test_bad_messages_harm_no_neighbour_and_none_is_lost(kind: str) -> None:
    leading_on = [terminal for terminal in find_type(kind).outputs if terminal in ON]
    routes = [f"Node.{terminal} -> Out" for terminal in leading_on]
    flow = drawn("In -> Node", *routes, In=reads(), Node=NODES[kind], Out=writes(), Place=node("Label", label="place"))
    world = MemoryWorld()
    kernel = Kernel(flow)
    fed = 0
    for bad in BAD.values():
        for message in (Message(GOOD, reply_to="REPLIES"), bad):
            world.feed(kernel, "IN", message)
            fed += 1
    good = [message for message in world.queues["OUT"] if message.body.startswith(b"<order><id>7</id><price>2.50</")]
    dead = world.queues["DEAD.LETTERS"]
    arrived = len(world.queues["OUT"]) + len(dead)
    if kind == "RouteToLabel" or kind == "Throw":
        assert len(dead) == fed
    else:
        assert len(good) >= len(BAD)
        assert arrived == fed
    bodies = [message.body for message in dead]
    assert all(any(bad.body == body for bad in BAD.values()) or body == GOOD for body in bodies)


def test_a_flow_that_runs_in_a_circle_fails_the_message_and_nothing_else() -> None:
    stage = Stage(
        drawn("In -> Test", "Test.true -> Again -> Test", "Test.false -> Out",
              In=reads(), Out=writes(), Again=node("Passthrough"),
              Test=node("Filter", condition="Body.order.id = 'round'"))
    )  # fmt: skip
    stage.feed("<order><id>round</id></order>")
    stage.feed("<order><id>straight</id></order>")
    assert (len(stage.on("OUT")), len(stage.on("DEAD.LETTERS"))) == (1, 1)


# --- the rest -----------------------------------------------------------------------------------------


def test_links_of_one_terminal_are_followed_in_the_order_in_which_they_were_drawn() -> None:
    flow = drawn("In -> B", "In -> A", "In -> C", In=reads(), A=writes("A"), B=writes("B"), C=writes("C"))
    journey = Stage(flow).feed()
    assert [output.destination for output in journey.outputs] == ["B", "A", "C"]


def test_an_error_on_one_link_keeps_the_later_links_from_being_followed() -> None:
    flow = drawn("In -> A", "In -> Fail", "In -> C", In=reads(), A=writes("A"), Fail=compute(THROWS), C=writes("C"))
    stage = Stage(flow)
    stage.feed(persistent=True)
    assert (stage.on("A"), stage.on("C"), len(stage.on("DEAD.LETTERS"))) == ([], [], 1)


def test_a_branch_does_not_see_what_another_one_made_of_the_message() -> None:
    flow = drawn(
        "In -> Change -> A",
        "In -> B",
        In=reads(),
        Change=compute(COPY + "SET OutputRoot.XMLNSC.order.id = 8;"),
        A=writes("A"),
        B=writes("B"),
    )
    stage = Stage(flow)
    stage.feed()
    assert stage.on("A") == [b"<order><id>8</id></order>"]
    assert stage.on("B") == [b"<order><id>7</id></order>"]


def test_a_point_is_found_by_node_or_by_queue() -> None:
    kernel = Kernel(drawn("In -> Out", In=reads("ORDERS"), Out=writes()))
    assert kernel.point("In") is kernel.point("ORDERS") is kernel.points[0]
    with pytest.raises(KeyError):
        kernel.point("NOWHERE")


def test_a_kernel_pickles_as_its_definition() -> None:
    kernel = pickle.loads(pickle.dumps(Kernel(drawn("In -> Out", In=reads(), Out=writes()))))
    world = MemoryWorld()
    world.feed(kernel, "IN", Message(GOOD))
    assert [message.body for message in world.queues["OUT"]] == [GOOD]


def test_every_error_of_a_flow_is_one_of_ours_where_it_can_be() -> None:
    journey = Stage(drawn("In -> Fail", In=reads(), Fail=compute(THROWS))).feed()
    assert isinstance(journey.failures[0].error, FlowError)
