# SPDX-License-Identifier: Apache-2.0
"""Import of .msgflow and .subflow files: what is translated, what is found, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from entrepot.errors import FlowInvalid
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.msgflow import load_msgflow
from entrepot.flows.msgflow.translation import find_property, types_by_ibm_name

_XMLNS = (
    'xmlns:xmi="http://www.omg.org/XMI" xmlns:ecore="http://www.eclipse.org/emf/2002/Ecore"'
    ' xmlns:eflow="http://www.ibm.com/wbi/2005/eflow" xmlns:utility="http://www.ibm.com/wbi/2005/eflow_utility"'
)
MODULE = """CREATE COMPUTE MODULE {}
  CREATE FUNCTION Main() RETURNS BOOLEAN
  BEGIN
    {}RETURN TRUE;
  END;
END MODULE;
"""


def _text(content: str, path: str = "F.msgflow", more: str = "", prefixes: str = "") -> str:
    return (
        f'<ecore:EPackage xmi:version="2.0" {_XMLNS} {prefixes} nsURI="{path}">\n'
        f'<eClassifiers xmi:type="eflow:FCMComposite" name="FCMComposite_1">{more}\n<composition>\n{content}\n'
        "</composition></eClassifiers></ecore:EPackage>"
    )


def _node(number: int, kind: str, label: str = "", inside: str = "", **attributes: str) -> str:
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return (
        f'<nodes xmi:type="{kind}:FCMComposite_1" xmi:id="FCMComposite_1_{number}" location="1,2"{written}>'
        f'<translation xmi:type="utility:ConstantString" string="{label or kind}"/>{inside}</nodes>'
    )


def _ibm(number: int, kind: str, label: str = "", inside: str = "", **attributes: str) -> str:
    return _node(number, f"ComIbm{kind}.msgnode", label or kind, inside, **attributes)


def _link(source: str, target: str, terminal: str = "OutTerminal.out", entrance: str = "InTerminal.in") -> str:
    ids = [f"FCMComposite_1_{each}" if each.isdigit() else each for each in (source, target)]
    return (
        f'<connections xmi:type="eflow:FCMConnection" sourceNode="{ids[0]}" targetNode="{ids[1]}"'
        f' sourceTerminalName="{terminal}" targetTerminalName="{entrance}"/>'
    )


def _terminals() -> str:
    return (
        '<nodes xmi:type="eflow:FCMSource" xmi:id="InTerminal.Input"><translation key="InTerminal.Input"/></nodes>\n'
        '<nodes xmi:type="eflow:FCMSink" xmi:id="OutTerminal.Output"><translation key="OutTerminal.Output"/></nodes>\n'
    )


def _property(name: str, default: str, kind: str = "EString") -> str:
    return (
        f'<eStructuralFeatures xmi:type="ecore:EAttribute" xmi:id="Property.{name}" name="{name}"'
        f' defaultValueLiteral="{default}"><eType href="http://www.eclipse.org/emf/2002/Ecore#//{kind}"/>'
        "</eStructuralFeatures>"
    )


def _promotion(name: str, node: str, href: str) -> str:
    return (
        f'<attributeLinks promotedAttribute="Property.{name}" overriddenNodes="FCMComposite_1_{node}">'
        f'<overriddenAttribute href="{href}"/></attributeLinks>'
    )


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _load(folder: Path, content: str, more: str = "", prefixes: str = "", **options: Any) -> FlowDefinition:
    _write(folder, {"P/.project": "<projectDescription><name>P</name></projectDescription>"})
    _write(folder, {"P/F.msgflow": _text(content, more=more, prefixes=prefixes)})
    return load_msgflow(folder / "P/F.msgflow", **options)


def _mistakes(folder: Path, content: str, **options: Any) -> list[str]:
    with pytest.raises(FlowInvalid) as caught:
        _load(folder, content, **options)
    return [f"{where} | {problem} | {advice}" for where, problem, advice in caught.value.mistakes]


# --- what is translated -------------------------------------------------------------------------


def test_nodes_are_called_after_their_labels_and_keep_their_places(tmp_path: Path) -> None:
    flow = _load(
        tmp_path,
        _ibm(1, "MQInput", "In", queueName="A") + "\n" + _ibm(2, "Passthru", "In") + "\n" + _link("1", "2"),
    )
    assert [(node.name, node.type, str(node.place)) for node in flow.nodes.values()] == [
        ("In", "MQInput", "P/F.msgflow:4"),
        ("In 2", "Passthrough", "P/F.msgflow:5"),
    ]
    assert [(link.source, link.terminal, link.target, link.input, link.place.line) for link in flow.links] == [
        ("In", "out", "In 2", "in", 6)
    ]


@pytest.mark.parametrize(
    ("kind", "attributes", "expected"),
    [
        # An MQInput that says nothing is transactional; ours would be automatic.
        ("MQInput", {"queueName": "Q"}, {"queue": "Q", "transaction": "yes"}),
        ("MQInput", {"queueName": "Q", "transactionMode": "no"}, {"queue": "Q", "transaction": "no"}),
        (
            "MQInput",
            {"queueName": "Q", "messageDomainProperty": "MRM", "messageSetProperty": "S", "validateMaster": "none"},
            {"queue": "Q", "transaction": "yes", "domain": "MRM", "message_set": "S"},
        ),
        ("MQOutput", {"destinationMode": "list"}, {"destination": "list"}),
        ("MQOutput", {"destinationMode": "reply"}, {"destination": "reply"}),
        ("MQOutput", {"destinationMode": "fixed", "queueName": "Q"}, {"destination": "queue", "queue": "Q"}),
        ("MQOutput", {"queueName": "Q", "newMsgId": "true", "persistenceMode": "yes"},
         {"queue": "Q", "new_message_id": True, "persistence": "yes"}),
        ("MQGet", {"queueName": "Q", "waitInterval": "50", "generateMode": "message"},
         {"queue": "Q", "wait_ms": 50, "message": "replace"}),
        ("RouteToLabel", {"mode": "routeToFirst"}, {"order": "first"}),
        ("RouteToLabel", {"mode": "routeToLast"}, {"order": "last"}),
        ("Label", {"labelName": "here"}, {"label": "here"}),
        ("Throw", {"messageNumber": "3051", "messageText": "no"}, {"number": 3051, "text": "no"}),
        ("Trace", {"destination": "file", "filePath": "t.txt", "pattern": "${Root}"},
         {"destination": "file", "file": "t.txt", "pattern": "${Root}"}),
        ("ResetContentDescriptor", {"messageDomain": "XMLNSC", "resetMessageDomain": "true"},
         {"domain": "XMLNSC", "reset_domain": True}),
        # A ResetContentDescriptor that says nothing resets nothing.
        ("ResetContentDescriptor", {}, {"reset_domain": False}),
        ("Validate", {"domain": "JSON", "checkDomain": "true"}, {"domain": "JSON", "check_domain": True}),
        ("TimeoutNotification", {"uniqueIdentifier": "T1", "operationMode": "controlled"},
         {"unique_id": "T1", "mode": "controlled"}),
        ("AggregateControl", {"aggregateName": "A", "timeoutInterval": "30"}, {"aggregate_name": "A", "timeout_s": 30}),
        ("AggregateRequest", {"folderName": "F"}, {"folder": "F"}),
        ("WSInput", {"URLSpecifier": "/a", "messageDomainProperty": "JSON"}, {"path": "/a", "domain": "JSON"}),
        ("WSRequest", {"URLSpecifier": "http://h/x", "httpMethod": "GET", "httpVersion": "1.1", "protocol": "TLS"},
         {"url": "http://h/x", "method": "GET"}),
    ],
)  # fmt: skip
def test_properties_and_values_are_translated(
    tmp_path: Path, kind: str, attributes: dict[str, str], expected: dict[str, Any]
) -> None:
    flow = _load(tmp_path, _ibm(1, kind, "N", **attributes))
    assert flow.nodes["N"].properties == expected


def test_every_node_type_that_ibm_has_is_known_by_its_name() -> None:
    names = types_by_ibm_name()
    for name in ("MQInput", "MQOutput", "MQReply", "MQGet", "Compute", "Filter", "Database", "MSLMapping", "Mapping",
                 "FlowOrder", "RouteToLabel", "Label", "Route", "Passthru", "TryCatch", "Throw", "Publication",
                 "ResetContentDescriptor", "Validate", "Trace", "JavaCompute", "AggregateControl", "AggregateRequest",
                 "AggregateReply", "Collector", "TimeoutControl", "TimeoutNotification", "FileInput", "FileOutput",
                 "WSInput", "WSReply", "WSRequest"):  # fmt: skip
        assert f"ComIbm{name}" in names, name
    assert find_property(names["ComIbmMSLMapping"], "mappingMode") is not None


def test_a_route_has_its_table_and_its_own_terminals(tmp_path: Path) -> None:
    inside = (
        '<outTerminals terminalNodeID="big" dynamic="true" label="big"/>'
        '<filterTable filterPattern="$Root/XMLNSC/a/b &gt; 5" routingOutputTerminal="big"/>'
    )
    flow = _load(
        tmp_path,
        _ibm(1, "Route", "R", inside, distributionMode="first")
        + _ibm(2, "Passthru", "P")
        + _link("1", "2", "big")
        + _link("1", "2", "OutTerminal.default"),
    )
    assert flow.nodes["R"].properties == {
        "mode": "first",
        "routes": [{"when": "$Root/XMLNSC/a/b > 5", "to": "big"}],
    }
    assert [link.terminal for link in flow.links] == ["big", "default"]


def test_prefixes_of_a_route_are_translated_with_it(tmp_path: Path) -> None:
    inside = (
        '<filterTable filterPattern="$Root/XMLNSC/p:a" routingOutputTerminal="match"/>'
        '<nsMappingTable nsPrefix="p" namespace="urn:p"/>'
    )
    flow = _load(tmp_path, _ibm(1, "Route", "R", inside))
    assert "{'urn:p'}:a" in flow.nodes["R"].properties["routes"][0]["when"]


def test_user_defined_properties_have_their_types_and_promoted_ones_their_nodes(tmp_path: Path) -> None:
    more = (
        _property("Region", "EU")
        + _property("Limit", "10", "EInt")
        + _property("Strict", "true", "EBoolean")
        + _property("queue", "ORDERS")
        + _promotion("queue", "1", "ComIbmMQInput.msgnode#Property.queueName")
        + _promotion("queue", "2", "ComIbmMQOutput.msgnode#Property.queueName")
    )
    flow = _load(tmp_path, _ibm(1, "MQInput", "In", queueName="X") + _ibm(2, "MQOutput", "Out", queueName="Y"), more)
    assert flow.user_properties == {"Region": "EU", "Limit": 10, "Strict": True}
    assert flow.promoted == {"queue": [("In", "queue"), ("Out", "queue")]}
    assert (flow.nodes["In"].properties["queue"], flow.nodes["Out"].properties["queue"]) == ("ORDERS", "ORDERS")


def test_a_java_class_becomes_the_python_function_that_stands_for_it(tmp_path: Path) -> None:
    content = _ibm(1, "JavaCompute", "J", javaClass="com.x.Upper")
    flow = _load(tmp_path, content, java={"com.x.Upper": "shop.text:upper"})
    assert (flow.nodes["J"].type, flow.nodes["J"].properties) == ("Python", {"function": "shop.text:upper"})


# --- what belongs to a flow ---------------------------------------------------------------------


def test_esql_comes_along_by_schema_and_path(tmp_path: Path) -> None:
    _write(
        tmp_path,
        {
            "P/a/b/Own.esql": "BROKER SCHEMA a.b\nPATH tools;\n" + MODULE.format("M", "CALL p();"),
            "P/tools/Tools.esql": "BROKER SCHEMA tools\nCREATE PROCEDURE p() BEGIN CALL far.q(); END;",
            "P/far/Far.esql": "BROKER SCHEMA far\nCREATE PROCEDURE q() BEGIN END;",
            "P/other/Broken.esql": "this is no ESQL",
        },
    )
    flow = _load(tmp_path, _ibm(1, "Compute", "C", computeExpression="esql://routine/a.b#M.Main"))
    assert flow.nodes["C"].properties["module"] == "a.b.M"
    assert sorted(flow.esql) == ["P/a/b/Own.esql", "P/far/Far.esql", "P/tools/Tools.esql"]


def test_a_subflow_is_found_in_a_project_that_is_referred_to(tmp_path: Path) -> None:
    inner = _text(_terminals() + _ibm(1, "Passthru", "Go"), "lib/S.subflow", _property("Level", "1", "EInt"))
    _write(
        tmp_path,
        {
            "Q/lib/S.subflow": inner,
            "P/.project": "<projectDescription><name>P</name><projects><project>Q</project></projects>"
            "</projectDescription>",
            "P/F.msgflow": _text(
                _node(1, "lib_S.subflow", "Sub", Level="3") + _link("1", "1", "OutTerminal.Output", "InTerminal.Input"),
                prefixes='xmlns:lib_S.subflow="lib/S.subflow"',
            ),
        },
    )
    flow = load_msgflow(tmp_path / "P/F.msgflow")
    assert flow.nodes["Sub"].properties == {"flow": "lib.S", "Level": 3}
    assert {name: node.type for name, node in flow.subflows["lib.S"].nodes.items()} == {
        "Input": "Input",
        "Output": "Output",
        "Go": "Passthrough",
    }
    assert [(link.terminal, link.input) for link in flow.links] == [("Output", "Input")]


def test_a_project_can_be_given_by_its_folder(tmp_path: Path) -> None:
    _write(tmp_path, {"elsewhere/Q/S.subflow": _text(_terminals(), "S.subflow")})
    content = _node(1, "S.subflow", "Sub")
    flow = _load(tmp_path, content, prefixes='xmlns:S.subflow="S.subflow"', projects=[tmp_path / "elsewhere/Q"])
    assert list(flow.subflows) == ["S"]


def test_a_promoted_property_of_a_subflow_can_be_promoted_again(tmp_path: Path) -> None:
    inner = _text(
        _terminals() + _ibm(1, "MQGet", "Get", queueName="X"),
        "S.subflow",
        _property("wait", "5") + _promotion("wait", "1", "ComIbmMQGet.msgnode#Property.waitInterval"),
    )
    _write(tmp_path, {"P/S.subflow": inner})
    more = _property("patience", "70") + _promotion("patience", "1", "S.subflow#Property.wait")
    flow = _load(tmp_path, _node(1, "S.subflow", "Sub"), more, 'xmlns:S.subflow="S.subflow"')
    assert flow.promoted == {"patience": [("Sub", "wait")]}
    assert flow.nodes["Sub"].properties["wait"] == 70
    assert flow.subflows["S"].nodes["Get"].properties["wait_ms"] == 5


# --- what is refused ----------------------------------------------------------------------------


def test_everything_that_is_not_supported_is_told_at_once_by_line(tmp_path: Path) -> None:
    content = "\n".join(
        [
            _ibm(1, "SOAPInput", "Soap"),
            _ibm(2, "MQInput", "In", queueName="Q", orderMode="byUserId", validateMaster="contentAndValue"),
            _ibm(3, "JavaCompute", "Java", javaClass="com.x.Y"),
            _ibm(4, "Compute", "C", computeExpression="esql://routine/#Missing.Main"),
            _ibm(5, "MSLMapping", "M", mappingExpression="msl://{default}#Nowhere"),
            _node(6, "lib_S.subflow", "Sub"),
            _ibm(7, "Route", "R", '<filterTable filterPattern="$Root//x" routingOutputTerminal="a"/>'),
            _ibm(8, "Throw", "T", messageNumber="many"),
            _ibm(9, "MQOutput", "O", "<surprise a='1'/>", persistenceMode="asQdef", queueName="Q"),
            _link("2", "77"),
        ]
    )
    told = _mistakes(tmp_path, content)
    for line, words in (
        (4, "SOAPInput are not supported"),
        (5, "orderMode='byUserId'"),
        (5, "validateMaster"),
        (6, 'java={"com.x.Y": "module:function"}'),
        (7, "module Missing is not there"),
        (8, "map Nowhere is not there"),
        (9, "subflow lib_S.subflow is not there"),
        (10, "descendants"),
        (11, "messageNumber"),
        (12, "asQdef"),
        (12, "<surprise>"),
        (13, "FCMComposite_1_77"),
    ):
        assert any(each.startswith(f"P/F.msgflow:{line} ") and words in each for each in told), (line, words, told)


def test_a_module_that_is_not_there_is_told_with_what_was_meant(tmp_path: Path) -> None:
    _write(tmp_path, {"P/F.esql": MODULE.format("F_Compute", "")})
    told = _mistakes(tmp_path, _ibm(1, "Compute", "C", computeExpression="esql://routine/#F_Compte.Main"))
    assert "F_Compte is not there; did you mean F_Compute?" in told[0]


def test_mistakes_in_esql_are_told_with_their_place(tmp_path: Path) -> None:
    _write(tmp_path, {"P/F.esql": MODULE.format("M", "SET = 1; ")})
    told = _mistakes(tmp_path, _ibm(1, "Compute", "C", computeExpression="esql://routine/#M.Main"))
    assert told[0].startswith("P/F.esql:4:")


def test_a_subflow_that_contains_itself_is_told_with_the_circle(tmp_path: Path) -> None:
    for name, other in (("A", "B"), ("B", "A")):
        inner = _text(
            _node(1, f"{other}.subflow", other), f"{name}.subflow", prefixes=f'xmlns:{other}.subflow="{other}.subflow"'
        )
        _write(tmp_path, {f"P/{name}.subflow": inner})
    told = _mistakes(tmp_path, _node(1, "A.subflow", "A"), prefixes='xmlns:A.subflow="A.subflow"')
    assert "F → A → B → A" in told[0]


def test_a_subflow_outside_of_the_projects_is_never_read(tmp_path: Path) -> None:
    _write(tmp_path, {"secret.subflow": _text(_terminals(), "secret.subflow")})
    told = _mistakes(tmp_path, _node(1, "x.subflow", "X"), prefixes='xmlns:x.subflow="../secret.subflow"')
    assert "../secret.subflow is not there" in told[0]


def test_the_generated_flow_of_a_rest_api_is_refused(tmp_path: Path) -> None:
    _write(tmp_path, {"P/.project": "<projectDescription/>", "P/restapi.descriptor": "<restapi/>"})
    _write(tmp_path, {"P/gen/R.msgflow": _text(_ibm(1, "RouteToLabel"), "gen/R.msgflow")})
    with pytest.raises(FlowInvalid, match="REST API"):
        load_msgflow(tmp_path / "P/gen/R.msgflow")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("<ecore", "F.msgflow:1:7 | this is no XML"),
        ("", "this is no XML"),
        ("<html/>", "this is no message flow: it begins with html"),
        ("<!DOCTYPE a [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><a>&e;</a>", "DOCTYPE"),
        ("<!DOCTYPE a [<!ENTITY x 'aaaa'><!ENTITY y '&x;&x;'>]><a>&y;</a>", "DOCTYPE"),
    ],
)
def test_damaged_and_hostile_files_are_told_with_their_place(tmp_path: Path, content: str, told: str) -> None:
    _write(tmp_path, {"F.msgflow": content})
    with pytest.raises(FlowInvalid) as caught:
        load_msgflow(tmp_path / "F.msgflow")
    where, problem, _ = caught.value.mistakes[0]
    assert told in f"{where} | {problem}"


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(FlowInvalid, match="there is no such file"):
        load_msgflow(tmp_path / "Nobody.msgflow")


def test_a_damaged_subflow_and_a_damaged_project_are_told(tmp_path: Path) -> None:
    _write(tmp_path, {"P/S.subflow": "<x"})
    told = _mistakes(tmp_path, _node(1, "S.subflow", "Sub"), prefixes='xmlns:S.subflow="S.subflow"')
    assert told[0].startswith("P/S.subflow:1:")
    _write(tmp_path, {"P/.project": "<projectDescription>"})
    with pytest.raises(FlowInvalid, match="no XML"):
        load_msgflow(tmp_path / "P/F.msgflow")
