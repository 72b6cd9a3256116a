# SPDX-License-Identifier: Apache-2.0
"""The Mapping node, with the copy mappings of the broker document (section 3.7): 30 fields between formats."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.errors import FlowInvalid
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.kernel import Kernel
from entrepot.flows.memory_world import MemoryWorld
from entrepot.flows.nodes.mapping import Mapping
from entrepot.message import Message
from entrepot.models import MRM, Element, MessageFormat
from entrepot.models.notation import read_notation
from folding import for_each

NAMES = [f"{letter}{number}" for letter in "ABC" for number in range(1, 11)]
VALUES: dict[str, Any] = {
    name: f"string-{number:05d}" if name[0] == "A" else number * 1.25 if name[0] == "B" else number * 1001
    for number, name in enumerate(NAMES, 1)
}
_KINDS = {"A": "string(12)", "B": "float", "C": "integer"}
_ELEMENTS = "".join(f"    - {name}: {_KINDS[name[0]]}\n      tds: {{tag: {name}}}\n" for name in NAMES)
SET = read_notation(
    f"""set: mapping30
formats:
  CWF1: cwf
  TDS1: {{kind: tds, separation: tagged delimited, delimiter: "|", tag_separator: "="}}
  XML1: xml
messages:
  CSIM:
{_ELEMENTS}""",
    "mapping30.yaml",
)
GENERIC = "<CSIM>" + "".join(f"<{name}>{value}</{name}>" for name, value in VALUES.items()) + "</CSIM>"


def _rendered(name: str) -> bytes:
    message = Element("CSIM")
    message.fill([Element(field, value) for field, value in VALUES.items()])
    return MRM.codec(MessageFormat(SET, "CSIM", name)).render(message, 1208, 546)


def _flow(source: dict[str, Any], mapping: dict[str, Any]) -> FlowDefinition:
    flow = FlowDefinition("copy", message_sets=[SET])
    flow.node("MQInput", "In", queue="IN", **source)
    flow.node("Mapping", "Copy", **mapping)
    flow.node("MQOutput", "Out", queue="OUT")
    flow.node("MQOutput", "Bad", queue="BAD")
    flow.link("In", "Copy")
    flow.link("Copy", "Out")
    flow.link("Copy", "Bad", terminal="failure")
    return flow


def _modelled(name: str) -> dict[str, Any]:
    return {"domain": "MRM", "message_set": "mapping30", "message_type": "CSIM", "message_format": name}


def _through(flow: FlowDefinition, body: bytes) -> Message:
    stage = MemoryWorld(now=0.0)
    stage.feed(Kernel(flow), "IN", Message(body, message_id=b"m" * 24))
    assert not stage.queues["BAD"]
    return stage.queues["OUT"][0]


@for_each("target", ["CWF1", "TDS1", "XML1"])
@for_each("source", ["CWF1", "TDS1", "XML1"])
def test_thirty_fields_are_copied_between_modelled_formats(source: str, target: str) -> None:
    flow = _flow(_modelled(source), {**_modelled(target), "map": {"copy": "all-same-names"}})
    assert _through(flow, _rendered(source)).body == _rendered(target)


def test_thirty_fields_named_one_by_one_are_copied_too() -> None:
    flow = _flow(_modelled("CWF1"), {**_modelled("TDS1"), "map": {"copy": list(NAMES)}})
    body = _through(flow, _rendered("CWF1")).body
    assert body == _rendered("TDS1")
    assert body.startswith(b"A1=string-00001|A2=string-00002|")


def test_fields_of_a_model_become_generic_xml() -> None:
    flow = _flow(_modelled("TDS1"), {"domain": "XML", "map": {"to": "CSIM", "copy": "all-same-names"}})
    body = _through(flow, _rendered("TDS1")).body
    assert body.startswith(b"<CSIM><A1>string-00001</A1><A2>") and b"<C1>21021</C1>" in body
    back = _flow({"domain": "XML"}, {**_modelled("TDS1"), "map": {"from": "CSIM", "copy": "all-same-names"}})
    assert _through(back, body).body == _rendered("TDS1")


def test_texts_of_generic_xml_become_the_numbers_that_the_model_wants() -> None:
    mapping = {**_modelled("CWF1"), "map": {"from": "CSIM", "copy": "all-same-names"}}
    assert _through(_flow({"domain": "XMLNSC"}, mapping), GENERIC.encode()).body == _rendered("CWF1")


def test_a_value_that_cannot_be_cast_goes_to_the_failure_terminal() -> None:
    flow = _flow({"domain": "XMLNSC"}, {**_modelled("CWF1"), "map": {"from": "CSIM", "copy": "all-same-names"}})
    stage = MemoryWorld(now=0.0)
    stage.feed(Kernel(flow), "IN", Message(GENERIC.replace("21021", "many").encode()))
    assert len(stage.queues["BAD"]) == 1 and not stage.queues["OUT"]


def test_repeating_structures_are_copied_element_by_element() -> None:
    message_set = read_notation(
        """set: repeated30
formats: {XML1: xml}
messages:
  Order:
    - number: integer
    - line*:
        - sku: string
        - count: integer
    - tag*: string
""",
        "repeated.yaml",
    )
    flow = _flow(
        {"domain": "XMLNSC"},
        {
            "domain": "MRM",
            "message_set": "repeated30",
            "message_type": "Order",
            "message_format": "XML1",
            "map": {"from": "Order", "copy": "all-same-names"},
        },
    )
    flow.message_sets.append(message_set)
    lines = "<line><sku>a</sku><count>1</count></line><line><sku>b</sku><count>2</count></line>"
    body = f"<Order><number>7</number>{lines}<tag>x</tag><tag>y</tag><unknown>1</unknown></Order>"
    assert _through(flow, body.encode()).body.endswith(body.replace("<unknown>1</unknown>", "").encode())


def test_a_map_file_of_ibm_can_stand_in_the_node() -> None:
    text = """<mappingRoot xmlns="http://www.ibm.com/2008/ccl/Mapping"><mappingDeclaration name="M">
      <input path="mb:msg(a,assembly,XMLNSC,Properties)" var="i"/>
      <output path="mb:msg(b,assembly,XMLNSC,Properties)" var="o"/>
      <move><input path="$i/a/x"/><output path="$o/b/y"/></move></mappingDeclaration></mappingRoot>"""
    assert _through(_flow({"domain": "XMLNSC"}, {"map": text}), b"<a><x>1</x></a>").body == b"<b><y>1</y></b>"


@pytest.mark.parametrize(
    ("properties", "where", "told"),
    [
        ({"map": {"copy": ["a"], "sett": {}}}, "Copy.map.sett", "did you mean 'set'"),
        ({"map": {"set": {"a": "source.b +"}}}, "Copy.map.set.a", "expression"),
        ({"map": {"set": {"a": "Nobody(1)"}}}, "Copy.map", "Nobody"),
        ({"map": 3}, "Copy.map", "table"),
        ({"map": {}, "message_set": "mapping30", "message_type": "X"}, "Copy.map", "no message 'X'"),
        ({"map": {}, "message_set": "nobody", "message_type": "X"}, "Copy.map", "nobody"),
        ({"map": "<mappingRoot"}, "Copy.map:1", "no XML"),
    ],
)
def test_a_bad_map_is_told_before_the_flow_runs(properties: dict[str, Any], where: str, told: str) -> None:
    flow = _flow({"domain": "XMLNSC"}, properties)
    found = Mapping.check(NodeDefinition("Copy", "Mapping", properties), flow)
    assert any(mistake.where.startswith(where) and told in mistake.problem for mistake in found), found
    with pytest.raises(FlowInvalid):
        Kernel(flow)
