# SPDX-License-Identifier: Apache-2.0
"""An instance of a flow in trouble, on a real queue manager: bad messages between good ones, and queues that refuse.

What IBM documents is the answer: failure and catch terminals first, then the
backout queue when the threshold is reached, then the dead-letter queue.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from entrepot.engine.folder import create
from entrepot.errors import Fenced
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.live.instance import Instance
from entrepot.models.tree import Assembly
from entrepot.testing.servers import ServerThread

from .conftest import LOG
from .staged import Stage, compute, drawn, node, reads, until, writes

pytestmark = pytest.mark.usefixtures("quick")


def order(number: object) -> str:
    return f"<order><n>{number}</n></order>"


# --- a bad message between good ones, node by node -------------------------------------------------------------


def _raises(assembly: Assembly, send: Any) -> Assembly:
    number = assembly.root.get("XMLNSC", "order", "n")
    match str(number):
        case "error":
            raise ValueError("no such number")
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "generator":
            raise GeneratorExit
        case "nothing":
            return number  # type: ignore[return-value]
        case "recursion":
            return _raises(assembly, send) if send else assembly
    return assembly


N = "InputRoot.XMLNSC.order.n"
TO_LABEL = f"SET OutputLocalEnvironment.Destination.RouterList.DestinationData[1].labelName = 'L' || {N};"
TO_QUEUE = "SET OutputLocalEnvironment.Destination.MQ.DestinationData[1].queueName = InputRoot.XMLNSC.order.q;"
THROW = "THROW USER EXCEPTION MESSAGE 2951 VALUES('far too many');"
TO_LISTED = f"IF {N} <> '99' THEN {TO_QUEUE} END IF;"
BROKEN = "<order><n>"
LABELS = {f"L{number}": node("Label", label=f"L{number}") for number in range(1, 5)}
COPY = compute(f"SET OutputRoot.XMLNSC.order.m = {N};")
PYTHON = {"X": node("Python", function=_raises)}
EVERY: dict[str, tuple[dict[str, Any], str | bytes, str]] = {
    "Compute: broken XML": ({"X": COPY}, BROKEN, "XML"),
    "Compute: cast": (
        {"X": compute(f"SET OutputRoot.XMLNSC.order.m = CAST({N} AS INTEGER);")},
        order("seven"),
        "seven",
    ),
    "Compute: division": (
        {"X": compute(f"SET OutputRoot.XMLNSC.order.m = 1 / (CAST({N} AS INTEGER) - 99);")},
        order(99),
        "zero",
    ),
    "Compute: THROW": ({"X": compute(f"IF {N} = '99' THEN {THROW} END IF;")}, order(99), "far too many"),
    "Compute: label": (
        {"X": compute(f"PROPAGATE TO LABEL 'L' || {N}; RETURN FALSE;"), **LABELS},
        order(99),
        "L99",
    ),
    "Mapping: broken XML": ({"X": node("Mapping", map={"copy": ["order.n"]})}, BROKEN, "XML"),
    "Filter: broken XML": ({"X": node("Filter", condition="Root.XMLNSC.order.n > 0")}, BROKEN, "XML"),
    "Route: broken XML": ({"X": node("Route", routes=[{"when": "Root.XMLNSC.order.n > 0"}])}, BROKEN, "XML"),
    "RouteToLabel": (
        {"X": compute(TO_LABEL, mode="destinationAndMessage"), "Y": node("RouteToLabel"), **LABELS},
        order(99),
        "L99",
    ),
    "Validate": ({"X": node("Validate", validation="content")}, BROKEN, "XML"),
    "Python: any exception": (PYTHON, order("error"), "no such number"),
    "Python: exit": (PYTHON, order("exit"), "wanted to exit with 3"),
    "Python: interrupt": (PYTHON, order("interrupt"), "wanted to raise KeyboardInterrupt"),
    "Python: generator exit": (PYTHON, order("generator"), "wanted to raise GeneratorExit"),
    "Python: no message": (PYTHON, order("nothing"), "return the message"),
    "Python: endless": (PYTHON, order("recursion"), "recursion"),
    "ResetContentDescriptor": (
        {
            "Y": node("ResetContentDescriptor", domain="JSON"),
            "X": compute("SET OutputRoot.JSON.Data.m = InputRoot.JSON.Data.n;"),
        },
        b"{\xff",
        "JSON",
    ),
    "Trace": ({"Y": node("Trace", pattern="${Root.XMLNSC.order.n}"), "X": COPY}, BROKEN, "XML"),
    "MQOutput: no list": ({"X": compute(TO_LISTED, mode="destinationAndMessage")}, order(99), "lists no queue"),
}
TERMINALS = {"Filter": ("true", "false", "unknown"), "Route": ("match", "default"), "Validate": ("match",)}


def _every(case: str, source: str, target: str) -> FlowDefinition:
    nodes = dict(EVERY[case][0])
    chain = [name for name in ("Y", "X") if name in nodes] if case != "RouteToLabel" else ["X", "Y"]
    listed = writes("", destination="list") if case == "MQOutput: no list" else writes(target)
    last = chain[-1]
    ends = [f"{last}.{terminal}" for terminal in TERMINALS.get(nodes[last][0], ("out",))]
    ends = [name for name in nodes if name.startswith("L")] or ends
    return drawn(" -> ".join(["In", *chain]), *(f"{end} -> Out" for end in ends), In=reads(source), Out=listed, **nodes)


@pytest.mark.parametrize("case", EVERY)
def test_a_bad_message_goes_to_the_backout_queue_and_its_neighbours_come_out(stage: Stage, case: str) -> None:
    aside, target = stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside})")
    _, bad, reason = EVERY[case]
    numbers = range(1, 5)

    def good(number: int) -> str:
        if case == "ResetContentDescriptor":
            return f'{{"n": {number}}}'
        return f"<order><n>{number}</n><q>{target}</q></order>"

    stage.put(source, good(1), good(2), bad, good(3), good(4))
    with stage.running(_every(case, source, target)) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
        assert running.count("messages") == 5
        assert running.count("set_aside") == 1
        assert running.count("outputs") == 5
    came = stage.messages(target)
    assert [_number(message.body) for message in came] == list(numbers)
    assert all(message.backout_count == 0 for message in came)
    (set_aside,) = stage.messages(aside)
    assert set_aside.body == (bad if isinstance(bad, bytes) else bad.encode())
    assert reason in str(set_aside.properties["entrepot_error"])


def _number(body: bytes) -> int:
    return int("".join(filter(str.isdigit, body.decode().partition("</n>")[0].partition("}")[0].partition(",")[0])))


# --- what nodes beside the way refuse ---------------------------------------------------------------------------

BESIDE: dict[str, tuple[tuple[str, dict[str, Any]], str]] = {
    "Throw": (node("Throw", text="on purpose"), "on purpose"),
    "Validate": (node("Validate", domain="JSON", check_domain=True), "its domain is XMLNSC, not JSON"),
    "MQReply": (node("MQReply"), "ReplyToQ is empty"),
    "Publication": (node("Publication"), "names a topic"),
    "MQGet": (node("MQGet", queue="NOBODY.HAS.IT"), "there is no queue NOBODY.HAS.IT"),
    "AggregateRequest": (node("AggregateRequest", folder="A"), "has not come through an AggregateControl"),
    "TimeoutControl": (node("TimeoutControl", unique_id="T"), "timeout request"),
    "Database": (node("Database", statements="INSERT INTO Database.t (n) VALUES (1);"), "data source"),
}


@pytest.mark.parametrize("case", BESIDE)
def test_what_one_node_refuses_is_only_that_messages_affair(stage: Stage, case: str) -> None:
    aside, target = stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside})")
    refusing, reason = BESIDE[case]
    flow = drawn(
        "In -> Which -> X",
        "Which.false -> Out",
        "Which.true -> X",
        In=reads(source),
        Which=node("Filter", condition="Root.XMLNSC.order.n = '99'"),
        X=refusing,
        Out=writes(target),
    )
    flow.links = [link for link in flow.links if link.terminal != "out" or link.source == "In"]
    stage.put(source, order(1), order(99), order(2))
    with stage.running(flow) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
    assert stage.bodies(target) == [order(1), order(2)]
    (set_aside,) = stage.messages(aside)
    assert reason in str(set_aside.properties["entrepot_error"])


# --- queues that refuse -----------------------------------------------------------------------------------------

REFUSALS = {
    "missing": ("", "there is no queue"),
    "full": ("MAXDEPTH(1)", "holds its maximum"),
    "inhibited": ("PUT(DISABLED)", "are inhibited"),
    "short": ("MAXMSGL(10)", "takes 10"),
}


def _refusing(stage: Stage, kind: str) -> str:
    if kind == "missing":
        return "NOT.THERE.AT.ALL"
    queue = stage.queue(REFUSALS[kind][0])
    if kind == "full":
        stage.put(queue, "in the way")
    return queue


@pytest.mark.parametrize("connected", [False, True], ids=["alone", "with failure terminal"])
@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refused_output_is_its_own_messages_failure(stage: Stage, kind: str, connected: bool) -> None:
    aside, target, failed = stage.queue(), stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside})")
    refusing = _refusing(stage, kind)

    def to(number: int, queue: str) -> str:
        return f"<order><n>{number}</n><q>{queue}</q></order>"

    flow = drawn(
        "In -> X -> Out",
        *(["Out.failure -> Failed"] if connected else []),
        In=reads(source),
        X=compute(TO_QUEUE, mode="destinationAndMessage"),
        Out=writes("", destination="list"),
        Failed=writes(failed),
    )
    if not connected:
        del flow.nodes["Failed"]
    good = [to(number, target) for number in (1, 2, 4, 5)]
    stage.put(source, *good[:2], to(3, refusing), *good[2:])
    with stage.running(flow) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
        assert running.count("given_back") >= 1, "told puts are refused when the unit commits"
        assert running.count("messages") == 5
        assert running.count("set_aside") == (0 if connected else 1)
    assert stage.bodies(target) == good
    assert all(message.backout_count == 0 for message in stage.messages(target))
    if connected:
        assert stage.bodies(failed) == [to(3, refusing)]
        assert stage.bodies(aside) == []
        return
    (set_aside,) = stage.messages(aside)
    assert REFUSALS[kind][1] in str(set_aside.properties["entrepot_error"])
    assert set_aside.backout_count == 0


# --- tries, terminals and queues --------------------------------------------------------------------------------


class Fails:
    """A function for a Python node that fails on bad orders, and remembers what it has seen."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, assembly: Assembly, _: Any) -> Assembly:
        number = str(assembly.root.get("XMLNSC", "order", "n"))
        self.seen.append(number)
        if number.startswith("bad"):
            raise ValueError(f"{number} is bad")
        return assembly


def test_a_message_is_tried_up_to_the_threshold_of_its_queue(stage: Stage) -> None:
    aside, target = stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside}) BOTHRESH(3)")
    fails = Fails()
    flow = drawn("In -> X -> Out", In=reads(source), X=node("Python", function=fails), Out=writes(target))
    stage.put(source, order(1), order("bad"), order(2))
    with stage.running(flow) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
        assert running.count("failed") == 3
    assert fails.seen == ["1", "bad", "bad", "bad", "2"]
    assert stage.bodies(aside) == [order("bad")]
    assert stage.bodies(target) == [order(1), order(2)]


def test_the_failure_terminal_of_the_input_comes_after_all_tries_and_before_the_backout_queue(stage: Stage) -> None:
    aside, target, failed = stage.queue(), stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside}) BOTHRESH(2)")
    fails = Fails()
    flow = drawn(
        "In -> X -> Out",
        "In.failure -> Why -> Failed",
        In=reads(source),
        X=node("Python", function=fails),
        Out=writes(target),
        Why=compute(
            "SET OutputRoot.XMLNSC.order.why = InputExceptionList.*[1].Text || InputExceptionList.*[1].*[<].Text;"
        ),
        Failed=writes(failed),
    )
    stage.put(source, order("bad"), order(1))
    with stage.running(flow) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
    assert fails.seen == ["bad", "bad", "1"]
    assert "bad is bad" in stage.bodies(failed)[0]
    assert stage.bodies(aside) == []
    assert stage.bodies(target) == [order(1)]


def test_the_catch_terminal_has_a_message_at_its_first_failure(stage: Stage) -> None:
    aside, target, caught = stage.queue(), stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside}) BOTHRESH(5)")
    fails = Fails()
    flow = drawn(
        "In -> X -> Out",
        "In.catch -> Caught",
        In=reads(source),
        X=node("Python", function=fails),
        Out=writes(target),
        Caught=writes(caught),
    )
    stage.put(source, order("bad"), order(1))
    with stage.running(flow) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
        assert running.count("failed") == 0, "somebody has caught it"
    assert fails.seen == ["bad", "1"]
    assert stage.bodies(caught) == [order("bad")]
    assert stage.bodies(target) == [order(1)]


def test_what_the_failure_terminal_and_the_backout_queue_refuse_goes_to_the_dead_letter_queue(stage: Stage) -> None:
    aside = stage.queue("PUT(DISABLED)")
    source = stage.queue(f"BOQNAME({aside})")
    flow = drawn(
        "In -> X",
        "In.failure -> Failed",
        In=reads(source),
        X=node("Throw", text="on purpose"),
        Failed=writes("NOT.THERE.EITHER"),
    )
    dead = len(stage.messages("DEAD"))
    stage.put(source, order(1), order(2))
    with stage.running(flow) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
    letters = stage.messages("DEAD")[dead:]
    assert [letter.body.decode() for letter in letters] == [order(1), order(2)]
    problem = str(letters[0].properties["entrepot_error"])
    assert "on purpose" in problem
    assert f"{aside} refused it" in problem


def test_without_any_place_a_message_stays_the_other_input_goes_on_and_all_recovers_by_itself(stage: Stage) -> None:
    target = stage.queue()
    source, other = stage.queue(), stage.queue()
    stage.connection.mqsc("ALTER QMGR DEADQ('')")
    try:
        fails = Fails()
        flow = drawn(
            "In -> X -> Out",
            "Other -> Out",
            In=reads(source),
            Other=reads(other),
            X=node("Python", function=fails),
            Out=writes(target),
        )
        stage.put(source, order(1), order("bad"), order(2))
        with stage.running(flow) as running:
            running.until(lambda: "no terminal or queue takes it" in running.problem, "it tells")
            assert "bad is bad" in running.problem
            running.until(lambda: stage.bodies(target) == [order(1)], "who stood before the bad one is through")
            for number in range(20):
                stage.put(other, order(f"other {number}"))
                running.until(lambda: stage.drained(other), "the other input goes on")
            spent = running.count("given_back")
            assert spent < 40, "and the bad one is not tried without pause"
            aside = stage.queue()
            stage.connection.mqsc(f"ALTER QLOCAL({source}) BOQNAME({aside})")
            running.until(lambda: stage.drained(source), "it recovers")
            running.until(lambda: not running.problem, "and says so")
        assert stage.bodies(aside) == [order("bad")]
        assert sorted(body for body in stage.bodies(target) if "other" not in body) == [order(1), order(2)]
        assert len(stage.bodies(target)) == 22
    finally:
        stage.connection.mqsc("ALTER QMGR DEADQ(DEAD)")


def test_a_message_of_an_instance_that_crashed_again_and_again_is_not_tried_any_more(stage: Stage) -> None:
    aside, target = stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside})")
    stage.put(source, order(1), order(2), order(3))
    for times in range(5):
        with stage.connection.unit_of_work() as unit:
            # The third has been in fewer units than the others.
            unit.get_many(source, 3 if times else 2)
            unit.back_out()
    fails = Fails()
    flow = drawn("In -> X -> Out", In=reads(source), X=node("Python", function=fails), Out=writes(target))
    with stage.running(flow) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
        running.until(lambda: running.count("units") >= 3, "each is alone, so that a crash would be its own")
    assert fails.seen == ["3"]
    assert stage.bodies(aside) == [order(1), order(2)]
    assert "never committed" in str(stage.messages(aside)[0].properties["entrepot_error"])


# --- transaction modes ------------------------------------------------------------------------------------------


def _modes(source: str, target: str, first: str, last: str, mode: str) -> FlowDefinition:
    return drawn(
        "In -> Order",
        "Order.first -> First",
        "Order.second -> X -> Out",
        In=reads(source, transaction=mode),
        Order=node("FlowOrder"),
        First=writes(target, transaction=first),
        X=compute("IF InputRoot.XMLNSC.order.n = 'bad' THEN THROW USER EXCEPTION; END IF;"),
        Out=writes(target, transaction=last),
    )


@pytest.mark.parametrize(
    ("mode", "persistent", "first", "left"),
    [
        ("yes", True, "automatic", 0),
        ("yes", False, "automatic", 0),
        ("automatic", True, "automatic", 0),
        ("automatic", True, "no", 1),
        ("yes", True, "no", 1),
        ("automatic", False, "automatic", 1),
        ("automatic", False, "yes", 0),
        ("no", True, "automatic", 1),
        ("no", True, "yes", 0),
    ],
)
def test_what_a_failed_message_leaves_behind_depends_on_the_transaction_modes(
    stage: Stage, mode: str, persistent: bool, first: str, left: int
) -> None:
    aside, target = stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside})")
    stage.put(source, order(1), order("bad"), order(2), persistent=persistent)
    with stage.running(_modes(source, target, first, "automatic", mode)) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
    assert stage.bodies(aside) == [order("bad")]
    assert stage.bodies(target).count(order("bad")) == left
    assert stage.bodies(target).count(order(1)) == 2
    assert stage.bodies(target).count(order(2)) == 2


def test_a_flow_asks_another_one_and_gets_the_reply_in_its_unit_of_work(stage: Stage) -> None:
    asked, replies, target, aside = stage.queue(), stage.queue(), stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside})")
    asking = drawn(
        "In -> Ask -> Which -> Get -> X -> Out",
        In=reads(source),
        Ask=writes(asked, transaction="no", new_message_id=True),
        Which=compute(
            "SET OutputRoot.MQMD.CorrelId = InputLocalEnvironment.WrittenDestination.MQ.DestinationData.msgId;"
        ),
        Get=node("MQGet", queue=replies, by_correlation_id=True, domain="XMLNSC", wait_ms=10_000),
        X=compute("IF InputRoot.XMLNSC.order.n = 'bad' THEN THROW USER EXCEPTION VALUES('refused'); END IF;"),
        Out=writes(target),
    )
    answering = drawn(
        "In -> X -> Out",
        In=reads(asked),
        X=compute("SET OutputRoot.XMLNSC.order.answered = 'yes';"),
        Out=node("MQReply"),
    )
    stage.put(source, order(1), order("bad"), order(2), reply_to=replies)
    with stage.running(answering), stage.running(asking) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
    assert [body.count("answered") for body in stage.bodies(target)] == [2, 2]
    assert [_number(message.body) for message in stage.messages(target)] == [1, 2]
    assert stage.bodies(aside) == [order("bad")]
    assert all("bad" in body for body in stage.bodies(replies)), "only replies that nobody could use are left"


# --- inputs that are not there for a while ----------------------------------------------------------------------


def test_an_input_queue_that_is_inhibited_or_deleted_is_waited_for(stage: Stage) -> None:
    target, source = stage.queue(), stage.queue()
    flow = drawn("In -> Out", In=reads(source), Out=writes(target))
    with stage.running(flow) as running:
        stage.put(source, order(1))
        running.until(lambda: stage.depth(target) == 1, "it works")
        stage.connection.mqsc(f"ALTER QLOCAL({source}) GET(DISABLED)")
        running.until(lambda: "inhibited" in running.problem, "it tells")
        stage.put(source, order(2))
        stage.connection.mqsc(f"ALTER QLOCAL({source}) GET(ENABLED)")
        running.until(lambda: stage.depth(target) == 2, "it goes on")
        running.until(lambda: not running.problem, "and all is well")
        _deleted(stage, source)
        running.until(lambda: f"no queue {source}" in running.problem, "it tells")
        stage.connection.mqsc(f"DEFINE QLOCAL({source})")
        stage.put(source, order(3))
        running.until(lambda: stage.depth(target) == 3, "it goes on")
        assert running.count("given_back") == 0, "no message has come to harm"


def _deleted(stage: Stage, queue: str) -> None:
    """A queue that somebody reads can only be deleted between two of its gets."""
    stage.connection.mqsc(f"ALTER QLOCAL({queue}) GET(DISABLED)")

    def is_deleted() -> bool:
        return stage.connection.administration.mqsc(f"DELETE QLOCAL({queue})")[0].ok

    until(is_deleted, lambda: f"{queue} is deleted")


def test_a_queue_manager_that_stops_and_starts_again_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "QM1"
    create(path, log=LOG)
    with ServerThread(path) as server:
        stage = Stage(server.unix_url)
        source, target = stage.queue("BOTHRESH(1)"), stage.queue()
        flow = drawn("In -> Out", In=reads(source), Out=writes(target))
        stage.put(source, *(order(number) for number in range(300)))
        running = stage.running(flow)
        at_work = running.__enter__()
        at_work.until(lambda: stage.depth(target) > 20, "it works")
        server.stop()
    with ServerThread(path):
        at_work.until(lambda: stage.drained(source), "it goes on")
        running.__exit__(None, None, None)
        assert stage.bodies("SYSTEM.DEAD.LETTER.QUEUE") == [], "that a queue manager stops is no message's fault"
        assert stage.bodies(target) == [order(number) for number in range(300)]
        stage.connection.close()


def test_an_instance_that_was_replaced_ends_and_commits_nothing_any_more(stage: Stage) -> None:
    source, target = stage.queue(), stage.queue()
    flow = drawn("In -> Out", In=reads(source), Out=writes(target))
    with pytest.raises(Fenced), stage.running(flow) as old:
        name = old.deployment.claim_name(0)
        old.until(lambda: any(claim.connected for claim in stage.connection.claims(name)), "it runs")
        with stage.running(flow) as new:
            stage.put(source, order(1))
            new.until(lambda: stage.drained(source), "the new one works")
            until(lambda: old.errors, lambda: "the old one has ended")
            assert new.count("messages") == 1
    assert stage.bodies(target) == [order(1)]


# --- what is told -----------------------------------------------------------------------------------------------


def test_numbers_of_flow_and_nodes_add_up(stage: Stage, tmp_path: Path) -> None:
    aside, target = stage.queue(), stage.queue()
    source = stage.queue(f"BOQNAME({aside}) BOTHRESH(2)")
    flow = drawn(
        "In -> Tell -> X -> Out",
        In=reads(source),
        Tell=node("Trace", pattern="order ${Root.XMLNSC.order.n}"),
        X=node("Python", function=Fails()),
        Out=writes(target),
    )
    bodies = [order(1), order("bad"), order(2)]
    stage.put(source, *bodies)
    trace = tmp_path / "trace"
    with stage.running(flow, node_statistics=True, user_trace=str(trace)) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
    (told,) = running.results
    assert (told["messages"], told["outputs"], told["failed"], told["set_aside"]) == (3, 3, 2, 1)
    assert told["bytes_in"] == sum(map(len, bodies))
    assert told["bytes_out"] == sum(map(len, bodies))
    nodes = told["nodes"]
    assert {name: (each["messages"], each["errors"]) for name, each in nodes.items()} == {
        "In": (4, 2),
        "Tell": (4, 2),
        "X": (4, 2),
        "Out": (2, 0),
    }
    elapsed_ms = sum(each["elapsed_ms"] for each in nodes.values())
    assert 0 < elapsed_ms <= told["elapsed_s"] * 1000
    lines = Path(f"{trace}.0").read_text().splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["'1'", "'bad'", "'bad'", "'2'"]


def test_a_unit_that_is_given_back_is_not_counted_twice(stage: Stage) -> None:
    target, aside = stage.queue("MAXDEPTH(2)"), stage.queue()
    source = stage.queue(f"BOQNAME({aside})")
    stage.put(source, *(order(number) for number in range(5)))
    with stage.running(drawn("In -> Out", In=reads(source), Out=writes(target))) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
        assert running.count("given_back") > 0
        assert running.count("messages") == 5
        assert running.count("outputs") == 5
        assert running.count("bytes_in") == 5 * len(order(0))
    assert stage.bodies(target) == [order(0), order(1)]
    assert stage.bodies(aside) == [order(2), order(3), order(4)]


def test_what_fails_after_the_commit_undoes_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = stage.queue(), stage.queue()

    def fails() -> None:
        raise ValueError("too late")

    original = Instance._committed
    monkeypatch.setattr(Instance, "_committed", lambda self, source, after: original(self, source, [fails, *after]))
    stage.put(source, order(1), order(2))
    with stage.running(drawn("In -> Out", In=reads(source), Out=writes(target))) as running:
        running.until(lambda: stage.drained(source), "all are dealt with")
        assert running.count("given_back") == 0
    assert stage.bodies(target) == [order(1), order(2)]


def test_a_queue_manager_that_allows_only_small_units_is_served_in_small_ones(stage: Stage) -> None:
    source, target = stage.queue(), stage.queue()
    bodies = [order(number) for number in range(30)]
    stage.put(source, *bodies)
    stage.connection.mqsc("ALTER QMGR MAXUMSGS(8)")
    try:
        with stage.running(drawn("In -> Out", In=reads(source), Out=writes(target))) as running:
            running.until(lambda: stage.drained(source), "all are dealt with")
            assert running.count("set_aside") == 0
    finally:
        stage.connection.mqsc("ALTER QMGR MAXUMSGS(10000)")
    assert stage.bodies(target) == bodies
