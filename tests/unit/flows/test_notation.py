# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from entrepot.errors import FlowInvalid, InvalidArgument
from entrepot.flows import FlowDefinition, Kernel, load_flow
from entrepot.flows.definition import FlowLink
from entrepot.flows.loading import inspect_flow, read_flow
from entrepot.flows.memory_world import MemoryWorld
from entrepot.flows.nodes import NODE_TYPES, find_type
from entrepot.message import Message
from entrepot.yaml_places import BYTES_MAX
from folding import for_each

ORDERS = """\
flow: orders
coordinated: yes
instances: 3
esql: [orders.esql]
models: [order.cpy]
subflows: [audit.yaml]
properties: {region: EU, limit: 100, code: 007, strict: true, reply: no}
promote: {input_queue: [Orders.queue], queues: [Orders.queue, Done.queue]}
nodes:
  Orders:
    type: MQInput
    queue: ORDERS
    domain: XMLNSC
    transaction: yes
    to: {out: [Price, Audit.in], catch: Refuse}
  Price:
    type: Compute
    module: Price
    throw_on_database_error: no
    to: Large
  Large:
    type: Filter
    condition: Root.XMLNSC.order.total > 1000
    to: {true: Done, false: Done, unknown: Refuse}
  Get: {type: MQGet, queue: 0042, wait_ms: -1, to: {noMessage: Refuse}}
  Audit: {subflow: audit, level: 3, mark: 01, to: Get}
  Done: {type: MQOutput, queue: DONE}
  Refuse: {type: MQOutput, queue: 'REFUSED'}
"""
ESQL = """\
CREATE COMPUTE MODULE Price
  CREATE FUNCTION Main() RETURNS BOOLEAN
  BEGIN
    SET OutputRoot = InputRoot;
    SET OutputRoot.XMLNSC.order.total = CAST(InputRoot.XMLNSC.order.quantity AS INTEGER) * 12;
    RETURN TRUE;
  END;
END MODULE;
"""
COPYBOOK = """\
       01 ORDER-RECORD.
          05 QUANTITY PIC 9(4).
"""
AUDIT = """\
subflow: audit
properties: {level: 1, mark: A}
nodes:
  in: {type: Input, to: Note}
  Note: {type: Trace, pattern: "${Root.XMLNSC.order.quantity}", to: out}
  out: {type: Output}
"""


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    for name, text in (
        ("orders.yaml", ORDERS),
        ("orders.esql", ESQL),
        ("order.cpy", COPYBOOK),
        ("audit.yaml", AUDIT),
    ):
        (tmp_path / name).write_text(text)
    return tmp_path / "orders.yaml"


def mistakes_in(text: str, file: str = "flow.yaml") -> list[str]:
    with pytest.raises(FlowInvalid) as caught:
        read_flow(text, file)
    return [f"{where}: {problem}" for where, problem, _ in caught.value.mistakes]


# --- what it means --------------------------------------------------------------------------------------------


def test_everything_that_a_file_says_is_in_the_definition(orders: Path) -> None:
    flow = load_flow(orders)
    assert (flow.name, flow.coordinated, flow.instances) == ("orders", True, 3)
    assert flow.promoted == {
        "input_queue": [("Orders", "queue")],
        "queues": [("Orders", "queue"), ("Done", "queue")],
    }
    assert [link for link in flow.links if link.source == "Orders"] == [
        FlowLink("Orders", "out", "Price", "in", flow.links[0].place),
        FlowLink("Orders", "out", "Audit", "in", flow.links[1].place),
        FlowLink("Orders", "catch", "Refuse", "in", flow.links[2].place),
    ]
    assert {(link.terminal, link.target) for link in flow.leading_from("Large")} == {
        ("true", "Done"),
        ("false", "Done"),
        ("unknown", "Refuse"),
    }


def test_files_are_read_and_travel_with_the_flow(orders: Path) -> None:
    flow = load_flow(orders)
    assert list(flow.esql.values()) == [ESQL]
    assert [list(each.messages) for each in flow.message_sets] == [["ORDER_RECORD"]]
    assert list(flow.subflows) == ["audit"]


def test_values_have_the_types_that_nodes_declare(orders: Path) -> None:
    nodes = load_flow(orders).nodes
    assert nodes["Orders"].properties["transaction"] == "yes"
    assert nodes["Price"].properties["throw_on_database_error"] is False
    assert nodes["Get"].properties == {"queue": "0042", "wait_ms": -1}


def test_values_that_nobody_declares_are_what_they_look_like(orders: Path) -> None:
    assert load_flow(orders).user_properties == {
        "region": "EU",
        "limit": 100,
        "code": "007",
        "strict": True,
        "reply": "no",
    }


def test_values_for_a_subflow_have_the_types_that_it_wants(orders: Path) -> None:
    assert load_flow(orders).nodes["Audit"].properties == {"flow": "audit", "level": 3, "mark": "01"}


def test_every_node_link_and_property_has_its_place(orders: Path) -> None:
    flow = load_flow(orders)
    price = flow.nodes["Price"]
    assert str(price.place) == f"{orders}:16:3"
    assert str(price.places["module"]) == f"{orders}:18:13"
    refuse = next(link for link in flow.links if link.terminal == "catch")
    assert str(refuse.place) == f"{orders}:15:41"
    assert str(flow.places["promote.queues"]) == f"{orders}:8:40"


def test_flow_that_was_read_runs(orders: Path) -> None:
    stage = MemoryWorld()
    stage.feed(Kernel(load_flow(orders)), "ORDERS", Message(body=b"<order><quantity>100</quantity></order>"))
    assert [message.body for message in stage.queues["DONE"]] == [
        b"<order><quantity>100</quantity><total>1200</total></order>"
    ]
    assert stage.traces == [("", "'100'")]


def test_name_with_a_point_is_a_node_before_it_is_a_terminal() -> None:
    flow = read_flow("""\
flow: f
nodes:
  A: {type: MQInput, queue: Q, to: [B.in, B, C.odd]}
  B: {type: MQOutput, queue: Q}
  B.in: {type: MQOutput, queue: Q}
  C: {type: MQOutput, queue: Q}
""")
    assert [(link.target, link.input) for link in flow.links] == [("B.in", "in"), ("B", "in"), ("C", "odd")]


def test_swift_is_named_and_does_not_travel() -> None:
    flow = read_flow("flow: f\nmodels: [swift, 'swift:MT103']\nnodes:\n  A: {type: MQInput, queue: Q}\n")
    assert flow.message_sets == []


def test_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfflow: f\nnodes:\n  A: {type: MQInput, queue: Q}\n")
    assert load_flow(path).name == "f"


def test_no_node_type_has_a_property_that_the_notation_takes_for_itself() -> None:
    taken = {"type", "subflow", "to"}
    declared = {(name, each.name) for name in NODE_TYPES for each in find_type(name).properties}
    assert {(name, said) for name, said in declared if said in taken} == set()


# --- what is wrong --------------------------------------------------------------------------------------------


@for_each(
    ("text", "told"),
    [
        ("", "flow.yaml:1:1: the file is empty"),
        ("- a\n", "flow.yaml:1:1: a flow is a table, not a list"),
        ("flow: f\nnodes:\n  A: {type: MQInput\n  B: x\n", "flow.yaml:4:4: this is no YAML"),
        ("flow: f\n\tnodes: x\n", "flow.yaml:2:1: this is no YAML"),
        ("flow: f\n nodes: x\n", "flow.yaml:2:7: this is no YAML"),
        ("flow: \x01\n", "flow.yaml:1:7: this is no YAML"),
        ("flow: f\nflow: g\nnodes: {A: {type: MQInput, queue: Q}}\n", "flow.yaml:2:1: 'flow' is there twice"),
        ("flow: f\nnods: {}\n", "flow.yaml:2:1: a flow has no 'nods'; did you mean nodes?"),
        (
            "flow: f\nsubflow: g\nnodes: {A: {type: MQInput, queue: Q}}\n",
            "flow.yaml:2:10: it says both flow and subflow",
        ),
        ("nodes: {A: {type: MQInput, queue: Q}}\n", "flow.yaml:1:1: it does not say what it is called"),
        ("flow: f\n", "flow.yaml:1:7: it has no nodes"),
        ("flow: f\nnodes: [A]\n", "flow.yaml:2:8: a list stands where a table belongs"),
        ("flow: f\nnodes:\n  A: MQInput\n", "flow.yaml:3:6: the node A is 'MQInput'"),
        ("flow: f\nnodes:\n  A: {queue: Q}\n", "flow.yaml:3:3: the node A has no type"),
        ("flow: f\nnodes:\n  A: {type: X, subflow: y}\n", "flow.yaml:3:3: the node A is a type and a subflow at once"),
        ("flow: f\nnodes:\n  A/B: {type: MQInput}\n", "flow.yaml:3:3: 'A/B' is no name for a node"),
        ("flow: f\nnodes:\n  in: {type: Input}\n", "flow.yaml:3:14: in is a terminal of type Input"),
        ("flow: f\ninstances: 0\nnodes: {}\n", "flow.yaml:2:12: instances: 0 is not between 1 and 1000"),
        ("flow: f\nnodes:\n  A: &a {type: MQInput, queue: Q}\n", "flow.yaml:3:6: &a is an anchor"),
        ("flow: f\nnodes:\n  A: {type: MQInput, queue: *q}\n", "flow.yaml:3:29: *q is an alias"),
        ("flow: !!str f\nnodes:\n  A: {type: MQInput, queue: Q}\n", "flow.yaml:1:7: tag:yaml.org,2002:str is a tag"),
        ("flow: f\n---\nflow: g\n", "flow.yaml:2:1: a second document begins"),
        ("flow: f\n? [a]\n: b\n", "flow.yaml:2:3: a key must be a word, not a list"),
        (f"flow: {'[' * 60}{']' * 60}\n", "flow.yaml:1:56: lists and tables lie deeper than 50 in each other"),
        (
            "flow: f\npromote: {q: [B.queue]}\nnodes:\n  A: {type: MQInput, queue: Q}\n",
            "flow.yaml:2:15: 'B.queue' is no NODE.PROPERTY of this flow",
        ),
        ("flow: f\nmodels: ['swift:MT104']\nnodes: {}\n", "flow.yaml:2:11: the set SWIFT has no message 'MT104'"),
    ],
)
def test_what_cannot_be_understood_is_told_with_its_place(text: str, told: str) -> None:
    said = mistakes_in(text)
    assert any(each.startswith(told) for each in said), said


def test_all_mistakes_are_told_at_once_and_in_order() -> None:
    text = """\
flow: f
instnaces: 2
coordinated: maybe
nodes:
  A:
    type: MQInput
    to: Nobody
  B: {type: Comput}
  B: {type: Trace}
"""
    assert mistakes_in(text) == [
        "flow.yaml:2:1: a flow has no 'instnaces'; did you mean instances?",
        "flow.yaml:3:14: coordinated: 'maybe' is neither yes nor no",
        "flow.yaml:5:3: A: queue is missing",
        "flow.yaml:7:9: A: its terminal out is linked to 'Nobody', and there is no such node",
        "flow.yaml:8:13: B: there is no node type 'Comput'; did you mean Compute?",
        "flow.yaml:9:3: 'B' is there twice",
    ]


def test_file_of_something_else_is_one_mistake() -> None:
    model = "set: shop\nformats: {}\nmessages: {}\n"
    assert mistakes_in(model) == ["flow.yaml:1:1: this is no flow: it has neither a name nor nodes"]


def test_files_that_are_missing_or_wrong_are_told_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "bad.cpy").write_text("       01 X PIC Q.\n")
    (tmp_path / "bad.esql").write_bytes(b"\n -- \xff")
    text = (
        "flow: f\nesql: [gone.esql, bad.esql]\nmodels: [gone.cpy, bad.cpy, x.txt]\nsubflows: [gone.yaml]\nnodes: {}\n"
    )
    file = tmp_path / "f.yaml"
    said = mistakes_in(text, str(file))
    assert f"{file}:2:8: gone.esql cannot be read: No such file or directory" in said
    assert f"{tmp_path}/bad.esql:2:5: the byte 0xff is no UTF-8" in said
    assert f"{file}:3:10: gone.cpy cannot be read: No such file or directory" in said
    assert any(each.startswith(f"{tmp_path}/bad.cpy:1:") for each in said)
    assert f"{file}:4:12: gone.yaml cannot be read: No such file or directory" in said


def test_what_a_missing_file_may_hold_is_not_called_missing(tmp_path: Path) -> None:
    text = """\
flow: f
esql: [gone.esql]
subflows: [gone.yaml]
models: [gone.cpy]
nodes:
  A: {type: MQInput, queue: Q, domain: MRM, message_set: S, to: B}
  B: {type: Compute, module: M, to: C}
  C: {subflow: gone, to: D}
  D: {type: RouteToLabel}
"""
    assert [each.partition(": ")[2] for each in mistakes_in(text, str(tmp_path / "f.yaml"))] == [
        "gone.esql cannot be read: No such file or directory",
        "gone.yaml cannot be read: No such file or directory",
        "gone.cpy cannot be read: No such file or directory",
    ]


def test_mistakes_of_a_subflow_are_told_in_its_file(tmp_path: Path) -> None:
    (tmp_path / "part.yaml").write_text("subflow: part\nnodes:\n  in: {type: Input, too: out}\n  out: {type: Output}\n")
    text = "flow: f\nsubflows: [part.yaml]\nnodes:\n  A: {type: MQInput, queue: Q, to: P}\n  P: {subflow: part}\n"
    (tmp_path / "f.yaml").write_text(text)
    load_flow(tmp_path / "f.yaml")  # it can be read; what a terminal may say is a matter of checking
    (tmp_path / "part.yaml").write_text("subflow: part\nnodez: {}\n")
    with pytest.raises(FlowInvalid, match=r"part\.yaml:2:1: a flow has no 'nodez'"):
        load_flow(tmp_path / "f.yaml")


def test_files_that_ask_for_each_other_are_told_with_the_circle(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("flow: a\nsubflows: [b.yaml]\nnodes:\n  A: {type: MQInput, queue: Q}\n")
    (tmp_path / "b.yaml").write_text("subflow: b\nsubflows: [a.yaml]\nnodes:\n  A: {type: Trace}\n")
    with pytest.raises(
        FlowInvalid, match=r"b.yaml:2:12: files ask for each other in a circle: a.yaml → b.yaml → a.yaml"
    ):
        load_flow(tmp_path / "a.yaml")


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"\.yaml, \.yml, \.msgflow or \.subflow"):
        load_flow(tmp_path / "orders.txt")


def test_file_that_is_not_there_is_the_systems_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_flow(tmp_path / "orders.yaml")


def test_enormous_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(BYTES_MAX + 10)
    with pytest.raises(FlowInvalid, match="more than 16777216 characters"):
        load_flow(path)


def test_text_that_is_no_utf8_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"flow: f\n# caf\xe9\n")
    (told,) = inspect_flow(path).mistakes
    assert (told.where, told.problem) == (f"{path}:2:6", "the byte 0xe9 is no UTF-8")


def test_importing_the_room_is_light() -> None:
    import subprocess
    import sys

    program = "import sys, entrepot.flows; print([m for m in sys.modules if m.startswith(('lark', 'lxml', 'yaml'))])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"


def test_the_room_offers_three_names() -> None:
    import entrepot.flows

    assert FlowDefinition is entrepot.flows.FlowDefinition
    with pytest.raises(AttributeError, match="nothing"):
        _ = entrepot.flows.nothing
