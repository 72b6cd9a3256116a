# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.errors import FlowInvalid
from entrepot.flows.checking import find_mistakes, require_valid
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.kernel import Kernel
from entrepot.flows.loading import inspect_flow, load_flow, read_flow

MODULES = """\
BROKER SCHEMA shop
CREATE COMPUTE MODULE Price
  DECLARE region EXTERNAL CHARACTER;
  DECLARE level EXTERNAL INTEGER 1;
  CREATE FUNCTION Main() RETURNS BOOLEAN
  BEGIN
    SET OutputRoot = InputRoot;
    RETURN TRUE;
  END;
END MODULE;
CREATE FILTER MODULE Large
  CREATE FUNCTION Main() RETURNS BOOLEAN
  BEGIN
    RETURN TRUE;
  END;
END MODULE;
"""


def plain() -> FlowDefinition:
    """A queue to a queue: nothing is wrong with it."""
    flow = FlowDefinition("f")
    flow.node("MQInput", "In", queue="IN")
    flow.node("MQOutput", "Out", queue="OUT")
    flow.link("In", "Out")
    return flow


def told(flow: FlowDefinition, *, warnings: bool = False) -> list[str]:
    return [f"{each.where}: {each.problem}" for each in find_mistakes(flow) if each.is_warning is warnings]


def advice(flow: FlowDefinition) -> str:
    (mistake,) = find_mistakes(flow)
    return mistake.advice


def test_flow_without_mistakes_is_valid() -> None:
    assert find_mistakes(plain()) == []
    require_valid(plain())


# --- nodes ----------------------------------------------------------------------------------------------------


def test_unknown_type_is_told_with_the_nearest() -> None:
    flow = plain()
    flow.nodes["Out"].type = "MQOutptu"
    assert told(flow) == ["Out: there is no node type 'MQOutptu'; did you mean MQOutput?"]
    assert "MQGet, MQInput, MQOutput" in advice(flow)


def test_unknown_missing_and_empty_properties_are_told() -> None:
    flow = plain()
    flow.nodes["In"].properties = {"quue": "IN"}
    assert told(flow) == [
        "In: MQInput has no property 'quue'; did you mean queue?",
        "In: queue is missing",
    ]
    flow.nodes["In"].properties = {"queue": ""}
    assert told(flow) == ["In: queue: nothing is said"]
    flow.nodes["In"].properties = {"queue": None}
    assert told(flow) == ["In: queue: nothing is said"]


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"queue": 5}, "queue: 5 is no text"),
        ({"queue": ["a"]}, "queue: a list is no text"),
        ({"queue": "Q", "wait_ms": "5"}, "wait_ms: '5' is no whole number"),
        ({"queue": "Q", "wait_ms": True}, "wait_ms: True is no whole number"),
        ({"queue": "Q", "browse": "yes"}, "browse: 'yes' is neither yes nor no"),
        ({"queue": "Q", "message": "repalce"}, "message: 'repalce' is none of replace, none; did you mean replace?"),
        ({"queue": "Q", "transaction": True}, "transaction: True is none of yes, no, automatic"),
    ],
)
def test_values_of_the_wrong_type_are_told(properties: dict[str, object], problem: str) -> None:
    flow = plain()
    flow.node("MQGet", "Get", **properties)
    flow.link("In", "Get")
    assert told(flow) == [f"Get: {problem}"]


def test_table_and_list_have_their_forms() -> None:
    flow = plain()
    flow.node("Route", "Ask", routes="no table")
    flow.link("In", "Ask")
    assert told(flow) == ["Ask: routes: 'no table' is no table"]


def test_what_a_node_type_finds_is_told_at_its_place_in_the_file() -> None:
    flow = read_flow("""\
flow: f
nodes:
  In: {type: MQInput, queue: IN, to: Price}
  Price:
    type: Compute
    throw_on_database_error: perhaps
    statements: |

      SET OutputRoot = InputRoot;
        SET OutputRoot.a = ;
    to: Ask
  Ask: {type: Filter, condition: "Root.a = ", to: {true: Way}}
  Way:
    type: Route
    routes:
      - {when: Root.a > 1, to: big}
      - {when: "Root.a >", to: small}
    to: {big: Fold}
  Fold:
    type: Compute
    statements: >
      SET OutputRoot
      = ;
""")
    assert told(flow) == [
        "flow.yaml:6:30: Price: throw_on_database_error: 'perhaps' is neither yes nor no",
        "flow.yaml:10:28: Price.statements: found ';' where an expression belongs",
        "flow.yaml:12:43: Ask.condition: found the end of the text where an expression belongs",
        "flow.yaml:16:7: Way.routes[2]: found the end of the text where an expression belongs",
        "flow.yaml:21: Fold.statements: found ';' where an expression belongs",
    ]


def test_domain_and_model_that_are_not_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text("set: shop\nmessages:\n  Order:\n    - id: string(4)\n")
    text = """\
flow: f
models: [shop.yaml, swift]
nodes:
  A: {type: MQInput, queue: Q, domain: XMLNSX, to: Out}
  B: {type: MQInput, queue: Q, domain: MRM, message_set: shpo, to: Out}
  C: {type: MQInput, queue: Q, domain: MRM, message_set: shop, message_type: Ordre, message_format: CWF1, to: Out}
  D: {type: MQInput, queue: Q, domain: MRM, message_set: SWIFT, message_type: MT103, message_format: TDS1, to: Out}
  E: {type: MQInput, queue: Q, domain: MRM, message_set: shop, message_type: Order, message_format: XML1, to: Out}
  Out: {type: MQOutput, queue: Q}
"""
    (tmp_path / "f.yaml").write_text(text)
    assert [each.partition(".yaml:")[2] for each in told(load_flow(tmp_path / "f.yaml"))] == [
        "4:40: A: there is no domain 'XMLNSX'; did you mean XMLNS?",
        "5:58: B: there is no message set 'shpo'; did you mean shop?",
        "6:78: C: the set shop has no type 'Ordre'; did you mean Order?",
        "6:101: C: the set shop has no format 'CWF1'",
    ]


# --- links ----------------------------------------------------------------------------------------------------


def test_links_to_what_is_not_there_are_told_with_what_is() -> None:
    flow = plain()
    flow.link("In", "Otu", terminal="catch")
    flow.link("Nobody", "Out")
    assert told(flow) == [
        "In: its terminal catch is linked to 'Otu', and there is no such node; did you mean Out?",
        "Nobody: a link begins here, and there is no such node",
    ]
    assert {mistake.advice for mistake in find_mistakes(flow)} == {"There is In, Out."}


def test_terminals_that_a_type_has_not_are_told() -> None:
    flow = plain()
    flow.link("In", "Out", terminal="cacth")
    flow.link("In", "Out", terminal="catch", input="side")
    assert told(flow) == [
        "In: MQInput has no output terminal 'cacth'; did you mean catch?",
        "In: it is linked to the terminal 'side' of Out, which MQOutput has not",
    ]


def test_types_with_terminals_of_any_name_take_any() -> None:
    flow = plain()
    flow.node("Route", "Way", routes=[{"when": "TRUE", "to": "north"}])
    flow.link("In", "Way", terminal="catch")
    flow.link("Way", "Out", terminal="north")
    assert find_mistakes(flow) == []


def test_nothing_can_be_linked_to_an_input_node() -> None:
    flow = plain()
    flow.link("Out", "In")
    assert told(flow) == ["Out: it is linked to In, where messages enter"]


def test_flow_without_an_input_node_is_told() -> None:
    flow = FlowDefinition("f")
    flow.node("MQOutput", "Out", queue="OUT")
    assert told(flow) == ["flow: it has no input node, so no message can come in"]


def test_what_nobody_reaches_is_a_warning() -> None:
    flow = plain()
    flow.node("Trace", "Lost")
    flow.node("Trace", "Behind")
    flow.link("Lost", "Behind")
    assert told(flow) == []
    assert told(flow, warnings=True) == ["Lost: no message ever gets here", "Behind: no message ever gets here"]
    require_valid(flow)


def test_input_node_whose_messages_go_nowhere_is_a_warning() -> None:
    flow = plain()
    flow.node("MQInput", "Other", queue="OTHER")
    expected = "Other: its terminal out is not linked to anything, so messages are lost here"
    assert told(flow, warnings=True) == [expected]


def test_circle_is_a_warning_that_names_it() -> None:
    flow = plain()
    flow.node("Trace", "A")
    flow.node("Trace", "B")
    flow.link("In", "A")
    flow.link("A", "B")
    flow.link("B", "A")
    flow.link("A", "A", terminal="failure")
    assert told(flow, warnings=True) == [
        "B: links go round in a circle: A → B → A",
        "A: links go round in a circle: A → A",
    ]
    Kernel(flow)


def test_link_that_is_there_twice_is_a_warning() -> None:
    flow = plain()
    flow.link("In", "Out")
    assert told(flow, warnings=True) == [
        "In: its terminal out is linked to Out twice, so each message goes there twice"
    ]


# --- labels ---------------------------------------------------------------------------------------------------


def routed() -> FlowDefinition:
    flow = plain()
    flow.node("RouteToLabel", "Go")
    flow.link("In", "Go")
    return flow


def test_route_to_label_needs_a_label() -> None:
    assert told(routed()) == ["Go: there is no Label that it could route to"]


def test_labels_are_reached_without_links_and_have_one_name_each() -> None:
    flow = routed()
    flow.node("Label", "A", label="EU")
    assert find_mistakes(flow) == []
    flow.node("Label", "B", label="EU")
    assert told(flow) == ["B: A has the label 'EU' already"]


def test_label_that_nothing_can_name_is_reached_by_nobody() -> None:
    flow = plain()
    flow.node("Label", "A", label="EU")
    assert told(flow, warnings=True) == ["A: no message ever gets here"]


# --- ESQL -----------------------------------------------------------------------------------------------------


def programmed(text: str, **properties: object) -> FlowDefinition:
    flow = plain()
    flow.esql["shop.esql"] = text
    flow.user_properties["region"] = "EU"
    flow.node("Compute", "Price", **properties)
    flow.link("In", "Price")
    return flow


def test_module_is_found_with_and_without_its_schema() -> None:
    assert find_mistakes(programmed(MODULES, module="Price")) == []
    assert find_mistakes(programmed(MODULES, module="shop.Price")) == []


def test_module_that_is_not_there_or_of_another_kind_is_told() -> None:
    assert told(programmed(MODULES, module="Prcie")) == ["Price: there is no module 'Prcie'; did you mean Price?"]
    expected = "Price: Large is a FILTER MODULE, and Compute wants a COMPUTE MODULE"
    assert told(programmed(MODULES, module="Large")) == [expected]


def test_module_that_several_schemas_have_must_be_named_in_full() -> None:
    flow = programmed(MODULES, module="Price")
    flow.esql["other.esql"] = MODULES.replace("SCHEMA shop", "SCHEMA other")
    assert told(flow) == ["Price: the module 'Price' is in several schemas"]
    assert "Say which: other.Price or shop.Price." in [mistake.advice for mistake in find_mistakes(flow)]


def test_mistakes_in_programs_are_told_by_file_line_and_column() -> None:
    broken = MODULES.replace("SET OutputRoot = InputRoot;", "SET OutputRoot = ;")
    assert told(programmed(broken, module="Price")) == ["shop.esql:7:22: found ';' where an expression belongs"]
    unknown = MODULES.replace("SET OutputRoot = InputRoot;", "CALL missing();")
    (said,) = told(programmed(unknown, module="Price"))
    assert said.startswith("shop.esql:7:5: there is no procedure")


def test_what_only_the_compiler_refuses_is_told_too() -> None:
    java = 'CREATE PROCEDURE f() LANGUAGE JAVA EXTERNAL NAME "a.B.c";\n'
    calling = MODULES.replace("SET OutputRoot = InputRoot;", "CALL f();").replace(
        "SCHEMA shop\n", f"SCHEMA shop\n{java}"
    )
    (said,) = told(programmed(calling, module="Price"))
    assert said.startswith("shop.esql:2:")
    assert "give a Python function of that name" in said


def test_external_variable_without_a_value_is_a_warning() -> None:
    flow = programmed(MODULES, module="Price")
    flow.user_properties = {"regoin": "EU"}
    assert told(flow, warnings=True) == [
        "shop.esql:3:11: the EXTERNAL region is no property of the flow, so it is NULL; did you mean regoin?"
    ]


# --- subflows -------------------------------------------------------------------------------------------------


def with_part(part: FlowDefinition, times: int = 1) -> FlowDefinition:
    flow = plain()
    flow.subflows[part.name] = part
    for number in range(times):
        flow.node("Subflow", f"Part{number}", flow=part.name)
        flow.link("In", f"Part{number}")
    return flow


def test_mistake_of_a_subflow_is_told_once_however_often_it_is_used() -> None:
    part = read_flow("subflow: part\nnodes:\n  in: {type: Input, to: A}\n  A: {type: Trace, patern: x}\n", "part.yaml")
    assert told(with_part(part, 3)) == ["part.yaml:4:28: A: Trace has no property 'patern'; did you mean pattern?"]


def test_property_that_a_subflow_promotes_must_be_said_where_it_is_used() -> None:
    part = FlowDefinition("part")
    part.node("Input", "in")
    part.node("MQGet", "Get")
    part.link("in", "Get")
    part.promoted["queue"] = [("Get", "queue")]
    flow = with_part(part)
    assert told(flow) == ["Part0/Get: queue is missing"]
    flow.nodes["Part0"].properties["queue"] = "Q"
    assert find_mistakes(flow) == []


def test_subflow_can_be_checked_alone_and_cannot_run(tmp_path: Path) -> None:
    path = tmp_path / "part.yaml"
    path.write_text(
        "subflow: part\nnodes:\n  in: {type: Input, to: A}\n  A: {type: Trace, to: out}\n  out: {type: Output}\n"
    )
    assert inspect_flow(path).mistakes == ()
    with pytest.raises(FlowInvalid, match="this is a subflow, and only a flow can run"):
        Kernel(load_flow(path))


def test_subflow_that_no_node_stands_for_is_a_warning() -> None:
    flow = plain()
    flow.subflows["part"] = FlowDefinition("part")
    assert told(flow, warnings=True) == ["flow: no node is the subflow part"]


def test_kernel_refuses_a_flow_with_all_that_is_wrong_in_it_and_its_subflows() -> None:
    part = FlowDefinition("part")
    part.node("Input", "in")
    part.node("Trace", "A", patern="x")
    part.link("in", "A")
    flow = with_part(part)
    flow.node("Subflow", "Gone", flow="gone")
    flow.nodes["Out"].properties = {"queue": 5}
    with pytest.raises(FlowInvalid) as caught:
        Kernel(flow)
    assert [where for where, _, _ in caught.value.mistakes] == ["Gone", "Out", "Part0/A"]
