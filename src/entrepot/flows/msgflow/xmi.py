# SPDX-License-Identifier: Apache-2.0
"""A .msgflow or .subflow file as it is: XMI of a package with one composite.

    <ecore:EPackage nsURI="shop/Orders.msgflow">
      <eClassifiers xmi:type="eflow:FCMComposite" name="FCMComposite_1">
        <eStructuralFeatures xmi:id="Property.region" name="region" defaultValueLiteral="EU">
          <eType href="...#//EString"/>
        <composition>
          <nodes xmi:type="ComIbmMQInput.msgnode:FCMComposite_1" xmi:id="FCMComposite_1_1" queueName="ORDERS">
            <translation string="Orders"/>
          <connections sourceNode="..." sourceTerminalName="OutTerminal.out" targetNode="..." ...="InTerminal.in"/>
        <attributeLinks promotedAttribute="Property.queue" overriddenNodes="FCMComposite_1_1">
          <overriddenAttribute href="ComIbmMQInput.msgnode#Property.queueName"/>

Files come from strangers: no document types, no entities, no network.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lxml import etree

from entrepot.errors import ModelInvalid
from entrepot.models.mxsd.files import parse_xml

BYTES_MAX = 16 * 1024 * 1024
NODES_MAX = 5_000
XMI = "{http://www.omg.org/XMI}"
_PROPERTY = "Property."
SOURCE, SINK = "FCMSource", "FCMSink"


@dataclass(slots=True)
class FileNode:
    """A node as its file has it."""

    id: str
    type: str
    """ComIbmMQInput; FCMSource and FCMSink for terminals; nothing for a subflow."""
    subflow: str
    """The path of the file that it stands for."""
    label: str
    attributes: dict[str, str]
    tables: dict[str, list[dict[str, str]]]
    """Rows of elements inside of it, such as filterTable."""
    terminals: list[str]
    """Output terminals that were added to it."""
    line: int


@dataclass(frozen=True, slots=True)
class FileConnection:
    source: str
    source_terminal: str
    target: str
    target_terminal: str
    line: int


@dataclass(frozen=True, slots=True)
class FileProperty:
    """Something that can be set from outside: a user-defined property, or a promoted one."""

    id: str
    name: str
    default: str | None
    type: str
    """EString, EInt and so on."""
    line: int


@dataclass(frozen=True, slots=True)
class FilePromotion:
    """A property that sets those of nodes."""

    property: str
    nodes: tuple[str, ...]
    attribute: str
    line: int


@dataclass(slots=True)
class FlowFile:
    file: str
    path: str
    """Within its project, by its own word: shop/Orders.msgflow."""
    nodes: list[FileNode] = field(default_factory=list)
    connections: list[FileConnection] = field(default_factory=list)
    properties: list[FileProperty] = field(default_factory=list)
    promotions: list[FilePromotion] = field(default_factory=list)


def read_flow_file(content: bytes, file: str) -> FlowFile:
    """
    Raises:
        ModelInvalid: It is no XML, or no message flow. Says line and column.
    """
    if len(content) > BYTES_MAX:
        raise ModelInvalid(file, 1, 1, f"the file is larger than {BYTES_MAX} bytes")
    root = parse_xml(content, file)
    composite = next((each for each in _elements(root) if _local(each) == "eClassifiers"), None)
    if _local(root) != "EPackage" or composite is None:
        raise ModelInvalid(file, root.sourceline or 1, 1, f"this is no message flow: it begins with {_local(root)}")
    flow = FlowFile(file, str(root.get("nsURI") or ""))
    for element in _elements(composite):
        match _local(element):
            case "composition":
                _read_composition(element, flow)
            case "eStructuralFeatures":
                flow.properties.append(_read_property(element))
            case "attributeLinks":
                flow.promotions.append(_read_promotion(element))
    return flow


def _local(element: etree._Element) -> str:
    return str(etree.QName(element).localname)


def _elements(parent: etree._Element) -> list[etree._Element]:
    return [child for child in parent if isinstance(child.tag, str)]


def _read_composition(composition: etree._Element, flow: FlowFile) -> None:
    for element in _elements(composition):
        line = element.sourceline or 1
        if _local(element) == "nodes":
            if len(flow.nodes) >= NODES_MAX:
                raise ModelInvalid(flow.file, line, 1, f"a flow has at most {NODES_MAX} nodes")
            flow.nodes.append(_read_node(element))
        elif _local(element) == "connections":
            flow.connections.append(
                FileConnection(
                    str(element.get("sourceNode") or ""),
                    _terminal(element.get("sourceTerminalName"), "OutTerminal."),
                    str(element.get("targetNode") or ""),
                    _terminal(element.get("targetTerminalName"), "InTerminal."),
                    line,
                )
            )


def _terminal(name: str | None, prefix: str) -> str:
    """Terminals that were added to a node stand there without a prefix."""
    return str(name or "").removeprefix(prefix)


def _read_node(element: etree._Element) -> FileNode:
    kind, _, _ = str(element.get(f"{XMI}type") or "").rpartition(":")
    type_name, subflow = str(element.get(f"{XMI}type") or "").rpartition(":")[2], ""
    if kind.endswith(".msgnode"):
        type_name = kind.removesuffix(".msgnode").rpartition("/")[2]
    elif kind.endswith((".subflow", ".msgflow")):
        # The prefix has underscores where the path has slashes; its namespace is the path.
        type_name, subflow = "", str(element.nsmap.get(kind) or element.get("subflowImplFile") or kind)
    attributes = {str(name): str(value) for name, value in element.attrib.items() if not str(name).startswith("{")}
    node = FileNode(
        str(element.get(f"{XMI}id") or ""), type_name, subflow, "", attributes, {}, [], element.sourceline or 1
    )
    for child in _elements(element):
        rows = {str(name): str(value) for name, value in child.attrib.items() if not str(name).startswith("{")}
        if _local(child) == "translation":
            node.label = rows.get("string") or rows.get("key") or ""
        elif _local(child) == "outTerminals":
            node.terminals.append(rows.get("terminalNodeID") or rows.get("label") or "")
        else:
            node.tables.setdefault(_local(child), []).append(rows)
    return node


def _read_property(element: etree._Element) -> FileProperty:
    kind = next((str(each.get("href") or "") for each in _elements(element) if _local(each) == "eType"), "")
    return FileProperty(
        str(element.get(f"{XMI}id") or ""),
        str(element.get("name") or ""),
        element.get("defaultValueLiteral"),
        kind.rpartition("//")[2],
        element.sourceline or 1,
    )


def _read_promotion(element: etree._Element) -> FilePromotion:
    href = next(
        (str(each.get("href") or "") for each in _elements(element) if _local(each) == "overriddenAttribute"), ""
    )
    return FilePromotion(
        str(element.get("promotedAttribute") or ""),
        tuple(str(element.get("overriddenNodes") or "").split()),
        href.rpartition("#")[2].removeprefix(_PROPERTY),
        element.sourceline or 1,
    )
