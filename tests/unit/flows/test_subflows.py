# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from entrepot.errors import FlowInvalid
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.kernel import Kernel
from entrepot.flows.loading import load_flow, read_flow
from entrepot.flows.memory_world import MemoryWorld
from entrepot.flows.subflows import NODES_MAX, expand, expand_with_mistakes, set_properties
from entrepot.message import Message


def passing(name: str = "audit") -> FlowDefinition:
    """A subflow with one node between its terminals."""
    flow = FlowDefinition(name)
    flow.node("Input", "in")
    flow.node("Trace", "Log", pattern="seen")
    flow.node("Output", "out")
    flow.link("in", "Log")
    flow.link("Log", "out")
    return flow


def around(*subflows: FlowDefinition) -> FlowDefinition:
    """A flow with a queue before and behind each of them, one after the other."""
    flow = FlowDefinition("orders", subflows={each.name: each for each in subflows})
    before = flow.node("MQInput", "In", queue="IN")
    for each in subflows:
        node = flow.node("Subflow", each.name.title(), flow=each.name)
        flow.link(before, node)
        before = node
    flow.link(before, flow.node("MQOutput", "Done", queue="DONE"))
    return flow


def links_of(flow: FlowDefinition) -> list[tuple[str, str, str, str]]:
    return [(link.source, link.terminal, link.target, link.input) for link in flow.links]


def told(flow: FlowDefinition) -> list[str]:
    with pytest.raises(FlowInvalid) as caught:
        expand(flow)
    return [f"{where}: {problem}" for where, problem, _ in caught.value.mistakes]


# --- in their places ------------------------------------------------------------------------------------------


def test_nodes_of_a_subflow_are_called_after_both_and_links_go_through_its_terminals() -> None:
    flat = expand(around(passing()))
    assert list(flat.nodes) == ["In", "Audit/Log", "Done"]
    assert links_of(flat) == [("In", "out", "Audit/Log", "in"), ("Audit/Log", "out", "Done", "in")]
    assert flat.subflows == {}


def test_one_subflow_may_be_used_twice_and_in_another() -> None:
    outer = FlowDefinition("outer", subflows={"audit": passing()})
    outer.node("Input", "in")
    outer.node("Subflow", "A", flow="audit")
    outer.node("Subflow", "B", flow="audit")
    outer.node("Output", "out")
    for source, target in (("in", "A"), ("A", "B"), ("B", "out")):
        outer.link(source, target)
    flat = expand(around(outer))
    assert list(flat.nodes) == ["In", "Outer/A/Log", "Outer/B/Log", "Done"]
    assert links_of(flat) == [
        ("In", "out", "Outer/A/Log", "in"),
        ("Outer/A/Log", "out", "Outer/B/Log", "in"),
        ("Outer/B/Log", "out", "Done", "in"),
    ]


def test_subflow_without_nodes_between_its_terminals_is_a_link() -> None:
    straight = FlowDefinition("straight")
    straight.node("Input", "in")
    straight.node("Output", "out")
    straight.link("in", "out")
    assert links_of(expand(around(straight, passing()))) == [
        ("In", "out", "Audit/Log", "in"),
        ("Audit/Log", "out", "Done", "in"),
    ]


def test_links_that_meet_at_a_terminal_all_go_on_in_their_order() -> None:
    part = FlowDefinition("part")
    part.node("Input", "in")
    part.node("Filter", "Ask", condition="TRUE")
    part.node("Output", "out")
    part.link("in", "out")
    part.link("in", "Ask")
    part.link("Ask", "out", terminal="true")
    part.link("Ask", "out", terminal="false")
    flow = around(part)
    flow.link("Part", flow.node("MQOutput", "Also", queue="ALSO"))
    assert links_of(expand(flow)) == [
        ("In", "out", "Done", "in"),
        ("In", "out", "Also", "in"),
        ("In", "out", "Part/Ask", "in"),
        ("Part/Ask", "true", "Done", "in"),
        ("Part/Ask", "true", "Also", "in"),
        ("Part/Ask", "false", "Done", "in"),
        ("Part/Ask", "false", "Also", "in"),
    ]


def test_several_terminals_are_told_apart_by_name_and_those_without_links_are_dropped() -> None:
    part = FlowDefinition("part")
    for name in ("normal", "urgent"):
        part.node("Input", name)
    for name in ("done", "failed", "unused"):
        part.node("Output", name)
    part.node("Passthrough", "P")
    part.node("Passthrough", "Q")
    part.link("normal", "P")
    part.link("urgent", "Q")
    part.link("P", "done")
    part.link("Q", "failed")
    part.link("Q", "unused")
    flow = FlowDefinition("f", subflows={"part": part})
    flow.node("MQInput", "In", queue="IN")
    flow.node("Subflow", "Part", flow="part")
    flow.node("MQOutput", "A", queue="A")
    flow.node("MQOutput", "B", queue="B")
    flow.link("In", "Part", input="urgent")
    flow.link("In", "Part", terminal="catch", input="normal")
    flow.link("Part", "A", terminal="done")
    flow.link("Part", "B", terminal="failed")
    assert links_of(expand(flow)) == [
        ("In", "out", "Part/Q", "in"),
        ("In", "catch", "Part/P", "in"),
        ("Part/P", "out", "A", "in"),
        ("Part/Q", "out", "B", "in"),
    ]


def test_definitions_stay_as_they_were() -> None:
    audit = passing()
    audit.promoted["text"] = [("Log", "pattern")]
    flow = around(audit)
    flow.nodes["Audit"].properties["text"] = "other"
    flat = expand(flow)
    assert flat.nodes["Audit/Log"].properties == {"pattern": "other"}
    assert audit.nodes["Log"].properties == {"pattern": "seen"}
    assert list(flow.nodes) == ["In", "Audit", "Done"]
    assert links_of(expand(flat)) == links_of(flat)


def test_esql_and_models_of_subflows_come_along_once() -> None:
    one, two = passing("one"), passing("two")
    one.esql = {"shared.esql": "-- same", "own.esql": "-- one"}
    two.esql = {"shared.esql": "-- same", "own.esql": "-- two"}
    assert expand(around(one, two)).esql == {
        "shared.esql": "-- same",
        "own.esql": "-- one",
        "two/own.esql": "-- two",
    }


def test_subflow_with_terminals_stays_drawn_when_it_is_the_whole() -> None:
    assert links_of(expand(passing())) == [("in", "out", "Log", "in"), ("Log", "out", "out", "in")]


# --- properties -----------------------------------------------------------------------------------------------

TELL = """\
    SET OutputRoot = InputRoot;
    SET Environment.told = COALESCE(Environment.told, '') || region || CAST(level AS CHARACTER) || ' ';
"""


def telling(tmp_path: Path, nodes: str, *, properties: str = "{}") -> str:
    """What ESQL in subflows sees as its properties, in the order of the nodes."""
    (tmp_path / "tell.esql").write_text(f"""\
CREATE COMPUTE MODULE Tell
  DECLARE region EXTERNAL CHARACTER 'none';
  DECLARE level EXTERNAL INTEGER 0;
  CREATE FUNCTION Main() RETURNS BOOLEAN
  BEGIN
{TELL}
    RETURN TRUE;
  END;
END MODULE;
""")
    (tmp_path / "part.yaml").write_text("""\
subflow: part
esql: [tell.esql]
properties: {level: 1}
nodes:
  in: {type: Input, to: Tell}
  Tell: {type: Compute, module: Tell, to: out}
  out: {type: Output}
""")
    (tmp_path / "outer.yaml").write_text("""\
subflow: outer
subflows: [part.yaml]
properties: {region: outer}
nodes:
  in: {type: Input, to: Part}
  Part: {subflow: part, to: out}
  out: {type: Output}
""")
    (tmp_path / "f.yaml").write_text(f"""\
flow: f
esql: [tell.esql]
subflows: [part.yaml, outer.yaml]
properties: {properties}
nodes:
  In: {{type: MQInput, queue: IN, to: A}}
{nodes}
  Trace: {{type: Trace, pattern: "${{Environment.told}}"}}
""")
    stage = MemoryWorld()
    stage.feed(Kernel(load_flow(tmp_path / "f.yaml")), "IN", Message(body=b""))
    return stage.traces[0][1].strip("' ")


def test_esql_of_a_subflow_sees_its_own_properties_and_those_around_it(tmp_path: Path) -> None:
    nodes = """\
  A: {subflow: part, to: B}
  B: {subflow: part, level: 7, to: C}
  C: {type: Compute, module: Tell, to: D}
  D: {subflow: outer, region: here, to: E}
  E: {subflow: outer, to: Trace}
"""
    told_by_nodes = telling(tmp_path, nodes, properties="{region: EU, level: 3}")
    assert told_by_nodes == "EU1 EU7 EU3 here1 outer1"


def test_defaults_of_the_program_hold_where_nobody_says_anything(tmp_path: Path) -> None:
    assert (
        telling(tmp_path, "  A: {type: Compute, module: Tell, to: B}\n  B: {subflow: part, to: Trace}\n")
        == "none0 none1"
    )


def test_promoted_properties_reach_nodes_through_several_subflows() -> None:
    inner = passing("inner")
    inner.promoted["text"] = [("Log", "pattern")]
    outer = FlowDefinition("outer", subflows={"inner": inner})
    outer.node("Input", "in")
    outer.node("Subflow", "Deep", flow="inner")
    outer.link("in", "Deep")
    outer.promoted["note"] = [("Deep", "text")]
    flow = FlowDefinition("f", subflows={"outer": outer})
    flow.node("MQInput", "In", queue="IN")
    flow.node("Subflow", "A", flow="outer", note="first")
    flow.node("Subflow", "B", flow="outer")
    flow.link("In", "A")
    flow.link("In", "B")
    flat = expand(flow)
    assert flat.nodes["A/Deep/Log"].properties == {"pattern": "first"}
    assert flat.nodes["B/Deep/Log"].properties == {"pattern": "seen"}


def test_properties_can_be_set_from_outside_as_texts() -> None:
    flow = read_flow("""\
flow: f
properties: {region: EU, limit: 5, strict: true}
promote: {wait: [Get.wait_ms], queue: [In.queue, Get.queue]}
nodes:
  In: {type: MQInput, queue: IN, to: Get}
  Get: {type: MQGet, queue: IN}
""")
    changed = set_properties(flow, {"wait": "250", "queue": "0815", "region": "US", "limit": "9", "strict": "no"})
    assert changed.nodes["Get"].properties == {"queue": "0815", "wait_ms": 250}
    assert changed.nodes["In"].properties["queue"] == "0815"
    assert changed.user_properties == {"region": "US", "limit": 9, "strict": False}
    assert flow.user_properties == {"region": "EU", "limit": 5, "strict": True}
    assert flow.nodes["Get"].properties == {"queue": "IN"}
    with pytest.raises(FlowInvalid, match=r"the flow f has no property 'regoin' that can be set; did you mean region"):
        set_properties(flow, {"regoin": "US"})


# --- running --------------------------------------------------------------------------------------------------


def test_error_inside_travels_back_as_if_there_were_no_subflow() -> None:
    part = FlowDefinition("part")
    part.node("Input", "in")
    part.node("Throw", "Refuse", text="no")
    part.link("in", "Refuse")
    flow = FlowDefinition("f", subflows={"part": part})
    flow.node("MQInput", "In", queue="IN")
    flow.node("TryCatch", "Try")
    flow.node("Subflow", "Part", flow="part")
    flow.node("MQOutput", "Caught", queue="CAUGHT")
    flow.link("In", "Try")
    flow.link("Try", "Part", terminal="try")
    flow.link("Try", "Caught", terminal="catch")
    stage = MemoryWorld()
    journey = stage.feed(Kernel(flow), "IN", Message(body=b"x"))
    assert len(stage.queues["CAUGHT"]) == 1
    assert journey.raised_by is not None
    assert journey.raised_by.name == "Part/Refuse"


def test_labels_inside_of_subflows_are_found_from_anywhere() -> None:
    part = FlowDefinition("part")
    part.node("Label", "Europe", label="EU")
    part.node("Output", "out")
    part.link("Europe", "out")
    flow = FlowDefinition("f", subflows={"part": part})
    flow.node("MQInput", "In", queue="IN")
    flow.node(
        "Compute",
        "Choose",
        statements="SET OutputLocalEnvironment.Destination.RouterList.DestinationData[1].labelName = 'EU';",
        mode="destination",
    )
    flow.node("RouteToLabel", "Go")
    flow.node("Subflow", "Part", flow="part")
    flow.node("MQOutput", "Done", queue="DONE")
    flow.link("In", "Choose")
    flow.link("Choose", "Go")
    flow.link("Part", "Done")
    stage = MemoryWorld()
    stage.feed(Kernel(flow), "IN", Message(body=b"x"))
    assert [message.body for message in stage.queues["DONE"]] == [b"x"]


def test_flow_with_subflows_pickles() -> None:
    flow = around(passing())
    assert list(expand(pickle.loads(pickle.dumps(flow))).nodes) == ["In", "Audit/Log", "Done"]


# --- what is wrong --------------------------------------------------------------------------------------------


def test_missing_subflow_is_told_with_those_there_are() -> None:
    flow = around(passing())
    flow.nodes["Audit"].properties["flow"] = "aduit"
    assert told(flow) == ["Audit: there is no subflow 'aduit'; did you mean audit?"]


def test_subflow_that_contains_itself_is_told_with_the_circle() -> None:
    a, b = passing("a"), passing("b")
    a.subflows["b"], b.subflows["a"] = b, a
    a.node("Subflow", "B", flow="b")
    b.node("Subflow", "A", flow="a")
    assert told(around(a)) == ["A: a subflow contains itself: orders → a → b → a"]


def test_flow_that_is_its_own_subflow_is_told() -> None:
    flow = FlowDefinition("f")
    flow.subflows["f"] = flow
    flow.node("Subflow", "Again", flow="f")
    assert told(flow) == ["Again: a subflow contains itself: f → f"]


def test_terminals_and_properties_that_a_subflow_has_not_are_told() -> None:
    flow = around(passing())
    flow.link("In", "Audit", terminal="catch", input="urgent")
    flow.link("Audit", "Done", terminal="failure")
    flow.nodes["Audit"].properties["pattern"] = "x"
    assert told(flow) == [
        "Audit: the flow audit has no property 'pattern' that can be set",
        "Audit: this subflow has no input terminal 'urgent'",
        "Audit: this subflow has no output terminal 'failure'",
    ]


def test_promoted_property_of_nothing_is_told() -> None:
    flow = around(passing())
    flow.subflows["audit"].promoted = {"a": [("Lgo", "pattern")], "b": [("Log", "patern")]}
    assert told(flow) == [
        "audit: the promoted property a is one of 'Lgo', which is no node; did you mean Log?",
        "audit: the promoted property b is 'patern' of Log, which has none; did you mean pattern?",
    ]


def test_links_that_go_round_through_subflows_without_a_node_are_told() -> None:
    straight = FlowDefinition("straight")
    straight.node("Input", "in")
    straight.node("Output", "out")
    straight.link("in", "out")
    flow = FlowDefinition("f", subflows={"straight": straight})
    flow.node("MQInput", "In", queue="IN")
    flow.node("Subflow", "A", flow="straight")
    flow.link("In", "A")
    flow.link("A", "A")
    assert any("goes round through subflows without meeting any node" in each for each in told(flow))


def test_names_that_meet_when_subflows_are_in_place_are_told() -> None:
    flow = around(passing())
    flow.node("Trace", "Audit/Log")
    assert told(flow) == ["Audit/Log: two nodes have this name when subflows are in their places"]


def test_subflows_that_double_each_other_are_refused_before_they_fill_the_memory() -> None:
    inner = passing("s0")
    for number in range(1, 40):
        outer = FlowDefinition(f"s{number}", subflows={inner.name: inner})
        outer.node("Subflow", "A", flow=inner.name)
        outer.node("Subflow", "B", flow=inner.name)
        inner = outer
    flat, mistakes = expand_with_mistakes(inner)
    assert len(flat.nodes) <= NODES_MAX + 1
    assert any(f"more than {NODES_MAX:,} nodes" in mistake.problem for mistake in mistakes)
