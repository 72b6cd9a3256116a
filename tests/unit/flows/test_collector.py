# SPDX-License-Identifier: Apache-2.0
"""Collections in virtual time, after IBM's topics on the Collector node: folders called after terminals below
Root.Collection, handlers with quantity, timeout and correlation, expiry, and control messages."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from entrepot.errors import NotCollectable
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.flows.nodes.collector import Collector
from entrepot.message import Message
from folding import for_each

SHOW = """
    DECLARE I INTEGER 1;
    CREATE FIELD OutputRoot.XMLNSC.seen;
    SET OutputRoot.XMLNSC.seen.(XMLNSC.Attribute)name = InputRoot.Collection.CollectionName;
    SET OutputRoot.XMLNSC.seen.(XMLNSC.Attribute)match = InputLocalEnvironment.Wildcard.WildcardMatch;
    FOR item AS InputRoot.Collection.*[] DO
        IF FIELDNAME(item) <> 'CollectionName' THEN
            CREATE LASTCHILD OF OutputRoot.XMLNSC.seen NAME FIELDNAME(item) VALUE item.XMLNSC.m.v;
        END IF;
    END FOR;
    RETURN TRUE;
"""
BY_KEY = {"correlation_path": "InputRoot.XMLNSC.m.k"}


def definition(handlers: list[dict[str, Any]], *, fails: bool = False, **properties: Any) -> FlowDefinition:
    """Each terminal has a queue of its own, and what leaves goes to OUT, EXPIRE and CAUGHT."""
    flow = FlowDefinition("gather")
    flow.node("Collector", "Collect", handlers=handlers, **properties)
    for terminal in [row["terminal"] for row in handlers] + ["control"]:
        flow.node("MQInput", f"In {terminal}", queue=terminal.upper(), domain="XMLNSC")
        flow.link(f"In {terminal}", "Collect", input=terminal)
    for terminal in ("out", "expire"):
        flow.node("Compute", f"Show {terminal}", statements=SHOW)
        flow.node("MQOutput", f"To {terminal}", queue=terminal.upper())
        flow.link("Collect", f"Show {terminal}", terminal=terminal)
        flow.link(f"Show {terminal}", f"To {terminal}")
    if fails:
        flow.node("Throw", "Throw", text="no")
        flow.link("Collect", "Throw")
        flow.link("Collect", "Throw", terminal="expire")
    return flow


@cache
def two_each() -> Kernel:
    return Kernel(definition([{"terminal": "a", "quantity": 2}, {"terminal": "b"}]))


@cache
def correlated() -> Kernel:
    rows = [{"terminal": "a", **BY_KEY}, {"terminal": "b", **BY_KEY}]
    return Kernel(definition(rows, collection_name="set of *", collection_expiry_s=60))


def message(value: str, key: str = "", **more: Any) -> Message:
    return Message(f"<m><k>{key}</k><v>{value}</v></m>".encode(), **more)


def bodies(stage: MemoryWorld, queue: str) -> list[str]:
    return [each.body.decode() for each in stage.queues[queue]]


def feed(stage: MemoryWorld, kernel: Kernel, *items: tuple[str, str] | tuple[str, str, str]) -> None:
    for terminal, *rest in items:
        stage.feed(kernel, terminal.upper(), message(*rest))


def leftovers(stage: MemoryWorld) -> list[str]:
    """Stores that still hold something, but for tokens."""
    return [store for store, _ in stage.stores if not store.endswith(".TOKENS")]


def test_a_collection_is_complete_when_every_handler_has_its_quantity() -> None:
    stage = MemoryWorld(now=1000.0)
    feed(stage, two_each(), ("a", "1"), ("b", "2"))
    assert bodies(stage, "OUT") == []
    feed(stage, two_each(), ("a", "3"))
    assert bodies(stage, "OUT") == ['<seen name="" match=""><a>1</a><b>2</b><a>3</a></seen>']
    assert not leftovers(stage)


def test_what_a_collection_does_not_take_begins_the_next_one() -> None:
    stage = MemoryWorld(now=1000.0)
    feed(stage, two_each(), *[("a", str(number)) for number in range(1, 6)])
    feed(stage, two_each(), ("b", "x"), ("b", "y"), ("b", "z"))
    shown = [
        '<seen name="" match=""><a>1</a><a>2</a><b>x</b></seen>',
        '<seen name="" match=""><a>3</a><a>4</a><b>y</b></seen>',
    ]
    assert bodies(stage, "OUT") == shown
    feed(stage, two_each(), ("a", "6"))
    assert bodies(stage, "OUT")[2:] == ['<seen name="" match=""><a>5</a><b>z</b><a>6</a></seen>']


def test_messages_with_different_correlation_strings_do_not_meet() -> None:
    stage = MemoryWorld(now=1000.0)
    feed(stage, correlated(), ("a", "1", "red"), ("b", "2", "blue"), ("b", "3", "red"))
    assert bodies(stage, "OUT") == ['<seen name="set of red" match="red"><a>1</a><b>3</b></seen>']


def test_a_deep_backlog_of_one_terminal_does_not_make_states_grow() -> None:
    stage = MemoryWorld(now=1000.0)
    big = "x" * 1000
    for _ in range(200):
        feed(stage, two_each(), ("a", big))
    assert max(len(kept.message.body) for kept, _ in stage.stores.values()) < 5000


def test_a_pattern_picks_the_correlation_string() -> None:
    rows = [
        {"terminal": "a", "correlation_path": "$Body/m/k", "correlation_pattern": "*.csv"},
        {"terminal": "b", "correlation_path": "InputBody.m.k", "correlation_pattern": "ref-*"},
    ]
    stage, kernel = MemoryWorld(now=1000.0), Kernel(definition(rows, collection_name="*"))
    feed(stage, kernel, ("a", "1", "may.csv"), ("b", "2", "ref-june"), ("b", "3", "ref-may"))
    assert bodies(stage, "OUT") == ['<seen name="may" match="may"><a>1</a><b>3</b></seen>']
    feed(stage, kernel, ("a", "4", "may.txt"), ("b", "5", "other"))
    assert bodies(stage, "OUT")[1:] == ['<seen name="" match=""><a>4</a><b>5</b></seen>']


def test_an_incomplete_collection_goes_to_expire() -> None:
    stage = MemoryWorld(now=1000.0)
    feed(stage, correlated(), ("a", "1", "red"))
    stage.pass_time(59.9, correlated())
    assert bodies(stage, "EXPIRE") == []
    stage.pass_time(0.2, correlated())
    assert bodies(stage, "EXPIRE") == ['<seen name="set of red" match="red"><a>1</a></seen>']
    assert not leftovers(stage)
    feed(stage, correlated(), ("b", "2", "red"))
    assert bodies(stage, "OUT") == []


def test_a_complete_collection_leaves_no_timer_behind() -> None:
    stage = MemoryWorld(now=1000.0)
    feed(stage, correlated(), ("a", "1", "red"), ("b", "2", "red"))
    assert not leftovers(stage)


def test_a_handler_is_satisfied_when_its_time_is_over() -> None:
    rows = [{"terminal": "a", "quantity": 0, "timeout_s": 10}, {"terminal": "b"}]
    stage, kernel = MemoryWorld(now=1000.0), Kernel(definition(rows))
    feed(stage, kernel, ("a", "1"), ("b", "2"), ("a", "3"))
    stage.pass_time(9, kernel)
    feed(stage, kernel, ("a", "4"))
    assert bodies(stage, "OUT") == []
    stage.pass_time(1.1, kernel)
    assert bodies(stage, "OUT") == ['<seen name="" match=""><a>1</a><b>2</b><a>3</a><a>4</a></seen>']
    assert not leftovers(stage)


def test_a_handler_whose_time_is_over_waits_for_the_others_but_takes_no_more() -> None:
    rows = [{"terminal": "a", "quantity": 5, "timeout_s": 10}, {"terminal": "b"}]
    stage, kernel = MemoryWorld(now=1000.0), Kernel(definition(rows))
    feed(stage, kernel, ("a", "1"))
    stage.pass_time(11, kernel)
    feed(stage, kernel, ("a", "2"), ("b", "3"))
    assert bodies(stage, "OUT") == ['<seen name="" match=""><a>1</a><b>3</b></seen>']
    feed(stage, kernel, ("b", "4"))
    stage.pass_time(11, kernel)
    assert bodies(stage, "OUT")[1:] == ['<seen name="" match=""><a>2</a><b>4</b></seen>']


@pytest.mark.parametrize(("coordination", "counts"), [("all", [0, 2, 2, 3]), ("first", [0, 1, 2, 3])])
def test_complete_collections_wait_for_control_messages(coordination: str, counts: list[int]) -> None:
    stage, kernel = MemoryWorld(now=1000.0), Kernel(definition([{"terminal": "a"}], coordination=coordination))
    seen = []
    feed(stage, kernel, ("a", "1"), ("a", "2"))
    seen.append(len(bodies(stage, "OUT")))
    feed(stage, kernel, ("control", ""))
    seen.append(len(bodies(stage, "OUT")))
    feed(stage, kernel, ("control", ""))
    seen.append(len(bodies(stage, "OUT")))
    if coordination == "first":
        feed(stage, kernel, ("control", ""))
    feed(stage, kernel, ("a", "3"))
    seen.append(len(bodies(stage, "OUT")))
    assert seen == counts
    assert [body.split("<a>")[1][0] for body in bodies(stage, "OUT")] == ["1", "2", "3"]


def test_control_messages_are_ignored_without_coordination() -> None:
    stage = MemoryWorld(now=1000.0)
    feed(stage, two_each(), ("a", "1"), ("control", ""), ("a", "2"), ("b", "3"))
    assert len(bodies(stage, "OUT")) == 1


class OtherHas(MemoryWorld):
    """Another instance has every state at the moment, but for messages that nobody has seen yet."""

    held = False

    def take(self, store: str, key: bytes) -> Message | None:
        return None if self.held else super().take(store, key)


def test_a_message_for_a_collection_in_other_hands_comes_again() -> None:
    stage = OtherHas(now=1000.0)
    stage.prime(correlated())
    feed(stage, correlated(), ("a", "1", "red"))
    stage.held = True
    feed(stage, correlated(), ("b", "2", "red"))
    stage.pass_time(1, correlated())
    assert bodies(stage, "OUT") == []
    stage.held = False
    stage.pass_time(1, correlated())
    assert bodies(stage, "OUT") == ['<seen name="set of red" match="red"><a>1</a><b>2</b></seen>']
    assert not leftovers(stage)


def test_a_new_collection_waits_while_another_instance_makes_one() -> None:
    """Both found none, and would each make their own."""
    stage = OtherHas(now=1000.0)
    stage.prime(correlated())
    stage.held = True
    feed(stage, correlated(), ("a", "1", "red"), ("b", "2", "red"))
    stage.held = False
    stage.pass_time(1, correlated())
    assert len(bodies(stage, "OUT")) == 1


def test_an_expiry_that_finds_the_collection_in_other_hands_comes_again() -> None:
    stage = OtherHas(now=1000.0)
    feed(stage, correlated(), ("a", "1", "red"))
    stage.held = True
    stage.pass_time(61, correlated())
    assert bodies(stage, "EXPIRE") == []
    stage.held = False
    stage.pass_time(1, correlated())
    assert len(bodies(stage, "EXPIRE")) == 1


@pytest.mark.parametrize(("persistence", "expected"), [("automatic", True), ("yes", True), ("no", False)])
def test_open_collections_survive_a_restart_as_said(persistence: str, expected: bool) -> None:
    stage, kernel = (
        MemoryWorld(now=1000.0),
        Kernel(definition([{"terminal": "a", "quantity": 3}], persistence=persistence)),
    )
    stage.feed(kernel, "A", message("1", persistent=True))
    stage.feed(kernel, "A", message("2"))
    kept = [kept for (store, _), (kept, _) in stage.stores.items() if not store.endswith(".TOKENS")]
    assert {each.message.persistent for each in kept} == {expected}


def test_a_message_that_fails_leaves_its_collection_as_it_was() -> None:
    rows = [{"terminal": "a", **BY_KEY}, {"terminal": "b", **BY_KEY}]
    stage, kernel = MemoryWorld(now=1000.0), Kernel(definition(rows, fails=True, collection_name="set of *"))
    stage.feed(kernel, "A", message("1", "red", persistent=True))
    before = dict(stage.stores)
    stage.feed(kernel, "B", message("2", "red", persistent=True))
    assert bodies(stage, "DEAD.LETTERS") == ["<m><k>red</k><v>2</v></m>"]
    assert stage.stores == before


def test_an_expired_collection_that_fails_is_set_aside_message_by_message() -> None:
    rows = [{"terminal": "a", "quantity": 2}, {"terminal": "b"}]
    stage, kernel = MemoryWorld(now=1000.0), Kernel(definition(rows, fails=True, collection_expiry_s=5))
    feed(stage, kernel, ("a", "1"), ("b", "2"))
    stage.pass_time(6, kernel)
    assert bodies(stage, "DEAD.LETTERS") == ["<m><k></k><v>1</v></m>", "<m><k></k><v>2</v></m>"]
    assert not leftovers(stage)


def test_a_collection_is_not_collected() -> None:
    flow = definition([{"terminal": "a"}])
    flow.node("Collector", "Again", handlers=[{"terminal": "x"}])
    flow.link("Collect", "Again", input="x")
    stage = MemoryWorld(now=1000.0)
    journey = stage.feed(Kernel(flow), "A", message("1", persistent=True))
    assert isinstance(journey.failures[0].error, NotCollectable)


@for_each(
    ("rows", "problem"),
    [
        ([{"quantity": 1}], "names no terminal"),
        ([{"terminal": "a"}, {"terminal": "a"}], "is taken"),
        ([{"terminal": "a", "quantity": -1}], "quantity is -1"),
        ([{"terminal": "a", "quantity": 0}], "never be complete"),
        ([{"terminal": "a", "correlation_pattern": "*"}], "a pattern but no path"),
        ([{"terminal": "a", "correlation_path": "InputRoot.a", "correlation_pattern": "*-*"}], "several *"),
        ([{"terminal": "a", "correlation_path": "1 +"}], "handlers[1]"),
        ([{"terminal": "b"}], "terminal a, which has no event handler"),
    ],
)
def test_mistakes_in_handlers_are_told_before_the_flow_runs(rows: list[dict[str, Any]], problem: str) -> None:
    flow = FlowDefinition("wrong")
    node = flow.node("Collector", "Collect", handlers=rows)
    flow.node("MQInput", "In", queue="A")
    flow.link("In", "Collect", input="a")
    told = [f"{mistake.where}: {mistake.problem}" for mistake in Collector.check(node, flow)]
    assert any(problem in text for text in told), told
