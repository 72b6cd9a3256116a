# SPDX-License-Identifier: Apache-2.0
"""A node of a .msgflow file to one of ours: types, properties and values by the declarations of the node types.

What our declarations name (`ibm`) is translated; beside them stand here the
spellings that differ, the defaults that differ, and the attributes that change
nothing of what a message becomes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from entrepot.esql.parsing.words import words
from entrepot.flows.msgflow.xmi import FileNode
from entrepot.flows.nodes import NODE_TYPES, find_type
from entrepot.flows.nodes.node import Node, Property
from entrepot.flows.property_values import problem_with, read_value
from entrepot.flows.xpath import is_xpath, to_esql

Wrong = Callable[[str, str], None]
"""Told of a problem, and of what to do about it."""

_SPELLINGS: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("MQOutput", "destination"): {"fixed": "queue", "queueName": "queue"},
    ("MQGet", "message"): {"message": "replace"},
    ("RouteToLabel", "order"): {"routeToFirst": "first", "routeToLast": "last"},
    ("Trace", "destination"): {"localErrorLog": "localError"},
    ("Validate", "validation"): {"inherit": "none"},
    ("Collector", "coordination"): {"allComplete": "all", "firstComplete": "first"},
}
"""What IBM calls a value, and what we call it."""
_SUBSTITUTES: Mapping[tuple[str, str], str] = {("Mapping", "mappingMode"): "mode"}
"""Attributes that one of our types has under another name than the type that it shares the property with."""
_HANDLER_COLUMNS: Mapping[str, tuple[str, type]] = {
    "name": ("terminal", str),
    "terminal": ("terminal", str),
    "inputTerminal": ("terminal", str),
    "quantity": ("quantity", int),
    "timeout": ("timeout_s", float),
    "correlationPath": ("correlation_path", str),
    "correlationPattern": ("correlation_pattern", str),
}
"""Columns of a Collector's table of event handlers."""
DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "MQInput": {"transaction": "yes"},
    "ResetContentDescriptor": {"reset_domain": False},
}
"""What a file that says nothing means, where our own default is another."""
_HARMLESS = words(
    "location rotation nodeVersion componentLevel additionalInstances startInstancesWhenFlowStarts"
    " parserXmlnscBuildTreeUsingXMLSchema parseTiming parserUseForXmlnscDomain parserXmlnscMixedContentRetainMode"
    " parserXmlnscCommentsRetainMode parserXmlnscProcessingInstructionsRetainMode parserXmlnscOpaqueElements"
    " parserXmlnscUseForXmlnsDomain validateTiming validateAllValueConstraints validateFixups"
    " validateIncludeAllValueConstraints treatWarningsAsErrors validateCache securityProfileName policyUrl"
    " traceText httpVersion protocol enableCRLCheck subflowImplFile shortDescription longDescription"
)
"""Places on the screen, tuning, and choices that no message can tell."""
_HARMLESS_VALUES: Mapping[str, frozenset[str]] = {
    "validateMaster": frozenset({"none", "inherit"}),
    "validateFailureAction": frozenset({"exception", "exceptionList"}),
    "messageDomain": frozenset({""}),
    "orderMode": frozenset({"default"}),
    "faultFormat": frozenset({"HTML"}),
    "connection": frozenset({"SERVER", "default"}),
    "convert": frozenset({"false"}),
    "segmentationAllowed": frozenset({"false"}),
    "alternateUserAuthority": frozenset({"false"}),
    "messageContext": frozenset({"passAll", "default"}),
}
"""Attributes that are understood with these values only."""
_HARMLESS_TABLES = frozenset(
    {"inTerminals", "shortDescription", "longDescription", "colorGraphic16", "colorGraphic32", "version"}
)
_ROUTINE = re.compile(r"esql://routine/(?P<schema>[^#]*)#(?P<module>[^.]+)(?:\.Main)?")
_MAP = re.compile(r"msl://(?P<schema>[^#]*)#(?P<name>.+)")


@cache
def types_by_ibm_name() -> Mapping[str, type[Node]]:
    """Our node types by what IBM's files call them."""
    found = {}
    for name in NODE_TYPES:
        node_type = find_type(name)
        found.update(dict.fromkeys(node_type.ibm, node_type))
    return found


def module_name(reference: str) -> tuple[str, str] | None:
    """Schema and module of esql://routine/schema#Module.Main; None when it is nothing of the kind."""
    found = _ROUTINE.fullmatch(reference)
    return None if found is None else (found["schema"].replace("/", ".").strip("."), found["module"])


def map_name(reference: str) -> tuple[str, str] | None:
    """Schema and name of msl://{default}#Map."""
    found = _MAP.fullmatch(reference)
    if found is None:
        return None
    schema = found["schema"].strip("/")
    return ("" if schema == "{default}" else schema.replace("/", ".")), found["name"].removesuffix(".Main")


def find_property(node_type: type[Node], attribute: str) -> Property | None:
    """The property of ours that an attribute sets."""
    name = _SUBSTITUTES.get((node_type.type, attribute))
    for declared in node_type.properties:
        if declared.name == name or (declared.ibm and declared.ibm == attribute):
            return declared
    return None


def translate_value(node_type: type[Node], declared: Property, text: str) -> Any:
    """What an attribute's text means; the text itself when it means nothing, so that it is told as wrong."""
    spelled = _SPELLINGS.get((node_type.type, declared.name), {}).get(text)
    if spelled is not None:
        return spelled
    if declared.kind == "choice":
        wanted = text.replace(" ", "").lower()
        return next((choice for choice in declared.choices if choice.lower() == wanted), text)
    return read_value(text, declared)


def translate_node(node: FileNode, node_type: type[Node], java: Mapping[str, str], wrong: Wrong) -> dict[str, Any]:
    """The properties of a node by our names; ESQL and maps are left as references."""
    properties: dict[str, Any] = dict(DEFAULTS.get(node_type.type, {}))
    for attribute, text in node.attributes.items():
        declared = find_property(node_type, attribute)
        if declared is None:
            _refuse_attribute(node, attribute, text, wrong)
            continue
        if node_type.type == "Python" and declared.name == "function":
            function = _function_for(text, java, wrong)
            if function:
                properties["function"] = function
            continue
        value = translate_value(node_type, declared, text)
        problem = problem_with(value, declared) if declared.kind not in ("table", "any") else ""
        if problem:
            wrong(f"{node.type}.{attribute}: {problem}", "")
        properties[declared.name] = value
    _add_tables(node, node_type, properties, wrong)
    return properties


def _refuse_attribute(node: FileNode, attribute: str, text: str, wrong: Wrong) -> None:
    if attribute in _HARMLESS or attribute.startswith("monitor") or text in _HARMLESS_VALUES.get(attribute, ()):
        return
    if attribute == "validateMaster":
        wrong(f"{node.type}.{attribute}={text!r} is not supported", "Put a Validate node behind it instead.")
        return
    wrong(f"{node.type}.{attribute}={text!r} is not supported", "Take it out where the flow can do without it.")


def _function_for(java_class: str, java: Mapping[str, str], wrong: Wrong) -> str:
    function = java.get(java_class, "")
    if not function:
        wrong(
            f"the Java class {java_class} cannot run here",
            f'Write it in Python and say java={{"{java_class}": "module:function"}}.',
        )
    return function


def _add_tables(node: FileNode, node_type: type[Node], properties: dict[str, Any], wrong: Wrong) -> None:
    for name, rows in node.tables.items():
        if name in _HARMLESS_TABLES or name.startswith("monitor"):
            continue
        if node_type.type == "Route" and name == "filterTable":
            properties["routes"] = _routes(rows, _prefixes(node), wrong)
        elif node_type.type == "Route" and name.lower() == "nsmappingtable":
            continue
        elif node_type.type == "Collector" and name == "eventHandlerPropertyTable":
            properties["handlers"] = [_handler(row, wrong) for row in rows]
        else:
            declared = find_property(node_type, name)
            if declared is None or declared.kind != "table":
                wrong(f"{node.type}: <{name}> is not supported", "")
            else:
                properties[declared.name] = rows


def _handler(row: Mapping[str, str], wrong: Wrong) -> dict[str, Any]:
    handler: dict[str, Any] = {}
    for column, text in row.items():
        if column not in _HANDLER_COLUMNS:
            wrong(f"event handlers have no {column} here", "")
            continue
        name, kind = _HANDLER_COLUMNS[column]
        try:
            handler[name] = kind(text)
        except ValueError:
            wrong(f"an event handler's {column} is {text!r}, which is no number", "")
    return handler


def _prefixes(node: FileNode) -> dict[str, str]:
    rows = next((rows for name, rows in node.tables.items() if name.lower() == "nsmappingtable"), [])
    return {row.get("nsPrefix", ""): row.get("namespace", "") for row in rows}


def _routes(rows: list[dict[str, str]], namespaces: Mapping[str, str], wrong: Wrong) -> list[dict[str, str]]:
    routes = []
    for row in rows:
        condition = row.get("filterPattern", "")
        try:
            translated = to_esql(condition, namespaces=namespaces)
        except ValueError as error:
            wrong(f"the filter pattern {condition!r}: {error}", "Write it with what Route tables know, or in ESQL.")
            continue
        # XPath stays as it is where a Route understands it alone; prefixes are known to this table only.
        kept = condition if is_xpath(condition) and not namespaces else translated
        routes.append({"when": kept, "to": row.get("routingOutputTerminal", "match")})
    return routes
