# SPDX-License-Identifier: Apache-2.0
"""A message flow of IBM's tools with all that belongs to it: subflows, ESQL, maps, message sets.

    flow = load_msgflow(Path("Shop/orders/Orders.msgflow"), projects=[Path("Common")])

Subflows are found by their paths in the flow's project and in those that it
refers to. Of the ESQL, the schemas come along that the flow's modules are in,
and those that these name in PATH or in calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from entrepot.errors import EntrepotError, EsqlInvalid, FlowInvalid, ModelInvalid
from entrepot.esql.parsing import parse_file
from entrepot.esql.program import read_program
from entrepot.flows.definition import INPUT, OUTPUT, SUBFLOW, FlowDefinition, FlowLink, NodeDefinition
from entrepot.flows.maps.gdm import read_map
from entrepot.flows.msgflow.projects import Projects, project_of, read_bytes
from entrepot.flows.msgflow.translation import (
    find_property,
    map_name,
    module_name,
    translate_node,
    translate_value,
    types_by_ibm_name,
)
from entrepot.flows.msgflow.xmi import SINK, SOURCE, FileNode, FileProperty, FlowFile, read_flow_file
from entrepot.flows.nodes import find_type
from entrepot.flows.property_values import meant, read_plain
from entrepot.models.logical import MessageSet
from entrepot.models.message_sets import load_set
from entrepot.models.mxsd.files import find_message_set
from entrepot.yaml_places import Place

DEPTH_MAX = 50
_NUMBERS = frozenset({"EInt", "ELong", "EShort", "EDouble", "EFloat", "EBigDecimal", "EIntegerObject", "ELongObject"})


def load_msgflow(
    path: Path | str, *, projects: Sequence[Path | str] = (), java: Mapping[str, str] | None = None
) -> FlowDefinition:
    """A flow, or a subflow, from a .msgflow or .subflow file.

    `projects` are folders of projects beside those that the flow's own project
    refers to. `java` says which Python function (`module:function`) stands for
    a class of a JavaCompute node.

    Raises:
        FlowInvalid: Everything in it that is damaged, missing or not supported.
    """
    return _MsgflowLoader(Path(path), [Path(each) for each in projects], java or {}).load()


@dataclass(slots=True)
class _Loaded:
    flow: FlowDefinition
    nodes: dict[str, NodeDefinition] = field(default_factory=dict)
    """By their ids in the file."""
    file_nodes: dict[str, FileNode] = field(default_factory=dict)


class _MsgflowLoader:
    def __init__(self, path: Path, others: Sequence[Path], java: Mapping[str, str]) -> None:
        self._path = path
        self._others = others
        self._java = java
        self._mistakes: list[tuple[str, str, str]] = []
        self._loaded: dict[Path, FlowDefinition] = {}
        self._modules: dict[str, tuple[str, str, str]] = {}
        self._schemas: set[str] = set()
        self._message_sets: dict[str, MessageSet] = {}

    def load(self) -> FlowDefinition:
        flow: FlowDefinition | None = None
        try:
            own = read_flow_file(read_bytes(self._path), str(self._path)) if self._path.is_file() else None
            if own is None:
                self._wrong(str(self._path), "there is no such file")
            else:
                self._projects = Projects(project_of(self._path, own.path), self._others)
                self._refuse_rest(own)
                flow = self._flow(self._path.resolve(), own, ())
                flow.esql = self._esql()
                flow.message_sets = list(self._message_sets.values())
        except ModelInvalid as error:
            self._damaged(error)
        if flow is None or self._mistakes:
            mistakes = tuple(dict.fromkeys(self._mistakes))
            raise FlowInvalid(self._path.stem, mistakes)
        return flow

    def _refuse_rest(self, own: FlowFile) -> None:
        """The flow that the toolkit makes for a REST API asks the product for the label of each operation."""
        if (self._projects.home / "restapi.descriptor").is_file() and own.path.startswith("gen/"):
            problem = "this is the flow of a REST API, whose operations are found by what its descriptor says"
            self._wrong(str(self._path), problem, "Import the subflows of its operations, and route to them yourself.")

    def _wrong(self, where: str, problem: str, advice: str = "") -> None:
        self._mistakes.append((where, problem, advice))

    def _damaged(self, error: ModelInvalid) -> None:
        self._wrong(f"{error.file}:{error.line}:{error.column}", error.problem, "Restore the file.")

    # --- flows ----------------------------------------------------------------------------------

    def _flow(self, path: Path, file: FlowFile, around: tuple[Path, ...]) -> FlowDefinition:
        shown = self._projects.shown(path)
        loaded = _Loaded(FlowDefinition(path.stem, place=Place(shown)))
        promoted = {promotion.property for promotion in file.promotions}
        for declared in file.properties:
            if declared.id not in promoted:
                loaded.flow.user_properties[declared.name] = _user_value(declared)
        for node in file.nodes:
            self._node(node, loaded, shown, (*around, path))
        self._links(file, loaded, shown)
        self._promotions(file, loaded, shown)
        return loaded.flow

    def _node(self, node: FileNode, loaded: _Loaded, shown: str, around: tuple[Path, ...]) -> None:
        where = f"{shown}:{node.line}"
        label = node.label or node.id
        if node.type in (SOURCE, SINK):
            prefix = "InTerminal." if node.type == SOURCE else "OutTerminal."
            name, kind, properties = node.id.removeprefix(prefix), INPUT if node.type == SOURCE else OUTPUT, {}
        elif node.subflow:
            name, kind, properties = label, SUBFLOW, self._subflow(node, loaded.flow, where, around)
        else:
            node_type = types_by_ibm_name().get(node.type)
            if node_type is None:
                known = [each.removeprefix("ComIbm") for each in types_by_ibm_name()]
                guess = meant(node.type.removeprefix("ComIbm"), known)
                self._wrong(where, f"{label}: nodes of the type {node.type} are not supported{guess}", "")
                return
            name, kind = label, node_type.type
            properties = translate_node(
                node,
                node_type,
                self._java,
                lambda problem, advice: self._wrong(where, f"{label}: {problem}", advice),
            )
            self._resolve(properties, where, label)
            self._count_instances(node, loaded.flow)
        name = _unique(name, loaded.flow)
        made = NodeDefinition(name, kind, properties, Place(shown, node.line))
        loaded.flow.nodes[name] = loaded.nodes[node.id] = made
        loaded.file_nodes[node.id] = node

    def _count_instances(self, node: FileNode, flow: FlowDefinition) -> None:
        more = node.attributes.get("additionalInstances", "0")
        if more.isdigit():
            flow.instances = max(flow.instances, 1 + int(more))

    def _subflow(self, node: FileNode, flow: FlowDefinition, where: str, around: tuple[Path, ...]) -> dict[str, Any]:
        key = node.subflow.rpartition(".")[0].replace("/", ".")
        properties: dict[str, Any] = {"flow": key}
        path = self._projects.find(node.subflow)
        if path is None:
            missing = f", and the projects {', '.join(self._projects.missing)}" if self._projects.missing else ""
            known = ", ".join(folder.name for folder in self._projects.folders)
            problem = f"{node.label}: the subflow {node.subflow} is not there{missing}"
            self._wrong(where, problem, f"Looked in {known}. Name its project with `projects`.")
            return properties
        if path in around or len(around) > DEPTH_MAX:
            circle = " → ".join(each.stem for each in (*around, path))
            self._wrong(where, f"{node.label}: a subflow contains itself: {circle}", "Break the circle.")
            return properties
        if path not in self._loaded:
            try:
                content = read_flow_file(read_bytes(path), self._projects.shown(path))
            except ModelInvalid as error:
                self._damaged(error)
                return properties
            self._loaded[path] = self._flow(path, content, around)
        inner = flow.subflows[key] = self._loaded[path]
        for attribute, text in node.attributes.items():
            if attribute in inner.promoted or attribute in inner.user_properties:
                properties[attribute] = _value_for(inner, attribute, text)
            elif attribute not in ("location", "rotation", "subflowImplFile"):
                has = ", ".join(sorted([*inner.promoted, *inner.user_properties])) or "none"
                self._wrong(where, f"{node.label}: the subflow {key} has no property {attribute}", f"It has {has}.")
        return properties

    def _links(self, file: FlowFile, loaded: _Loaded, shown: str) -> None:
        known = {node.id for node in file.nodes}
        for each in file.connections:
            source, target = loaded.nodes.get(each.source), loaded.nodes.get(each.target)
            place = Place(shown, each.line)
            for end in (each.source, each.target):
                if end not in known:
                    self._wrong(str(place), f"a connection names the node {end!r}, which is not there")
            if source is None or target is None:
                continue
            terminal = "out" if source.type == INPUT else _terminal(source, each.source_terminal)
            entrance = "in" if target.type == OUTPUT else each.target_terminal or "in"
            loaded.flow.links.append(FlowLink(source.name, terminal, target.name, entrance, place))

    def _promotions(self, file: FlowFile, loaded: _Loaded, shown: str) -> None:
        properties = {each.id: each for each in file.properties}
        for promotion in file.promotions:
            where = f"{shown}:{promotion.line}"
            declared = properties.get(promotion.property)
            if declared is None:
                self._wrong(where, f"the promoted property {promotion.property!r} is declared nowhere")
                continue
            for node_id in promotion.nodes:
                node = loaded.nodes.get(node_id)
                if node is None:
                    if node_id not in {each.id for each in file.nodes}:
                        self._wrong(where, f"{declared.name}: the node {node_id!r} is not there")
                    continue
                self._promote(declared, node, promotion.attribute, loaded.flow, where)

    def _promote(
        self, promoted: FileProperty, node: NodeDefinition, attribute: str, flow: FlowDefinition, where: str
    ) -> None:
        if node.type == SUBFLOW:
            inner = flow.subflows.get(str(node.properties["flow"]))
            known = inner is not None and (attribute in inner.promoted or attribute in inner.user_properties)
            name, value = attribute, promoted.default
            if known and inner is not None and promoted.default is not None:
                value = _value_for(inner, attribute, promoted.default)
        else:
            declared = find_property(find_type(node.type), attribute)
            known, name, value = declared is not None, attribute, promoted.default
            if declared is not None:
                name = declared.name
                value = (
                    None
                    if promoted.default is None
                    else translate_value(find_type(node.type), declared, promoted.default)
                )
        if not known:
            self._wrong(where, f"{promoted.name}: {node.type} {node.name} has no property {attribute} that can be set")
            return
        flow.promoted.setdefault(promoted.name, []).append((node.name, name))
        if value is not None and value != "":
            node.properties[name] = value
            if node.type != SUBFLOW:
                self._resolve(node.properties, where, node.name)

    # --- what nodes refer to --------------------------------------------------------------------

    def _resolve(self, properties: dict[str, Any], where: str, label: str) -> None:
        module = properties.get("module")
        if isinstance(module, str) and module.startswith("esql:"):
            found = module_name(module)
            if found is None:
                self._wrong(
                    where, f"{label}: {module!r} names no module", "It reads esql://routine/schema#Module.Main."
                )
                return
            schema, name = found
            properties["module"] = f"{schema}.{name}" if schema else name
            self._modules.setdefault(properties["module"], (name, where, label))
            self._schemas.add(schema)
        if isinstance(properties.get("map"), str):
            self._resolve_map(properties, where, label)
        wanted = properties.get("message_set")
        if wanted and properties.get("domain") == "MRM" and wanted not in self._message_sets:
            self._find_message_set(str(wanted))

    def _resolve_map(self, properties: dict[str, Any], where: str, label: str) -> None:
        found = map_name(properties["map"])
        if found is None:
            self._wrong(where, f"{label}: {properties['map']!r} names no map", "It reads msl://schema#Map.")
            return
        schema, name = found
        path = self._projects.find("/".join([*schema.split("."), f"{name}.map"]).lstrip("/"))
        if path is None:
            old = self._projects.find("/".join([*schema.split("."), f"{name}.msgmap"]).lstrip("/"))
            advice = f"{old.name} is of the old kind: convert it to .map with the toolkit." if old else ""
            self._wrong(where, f"{label}: the map {schema + '.' if schema else ''}{name} is not there", advice)
            return
        shown = self._projects.shown(path)
        read = read_map(
            read_bytes(path), shown, name=name, schemas=lambda wanted: self._projects.schema_content(path, wanted)
        )
        for place, problem in read.problems:
            self._wrong(place, problem, "Do this part in a Compute node.")
        properties["map"] = read.table
        for key in ("domain", "message_set", "message_type", "message_format"):
            value = getattr(read.target, key)
            if value:
                properties.setdefault(key, value)

    def _find_message_set(self, name: str) -> None:
        """The message set of that name in a project; a shipped one needs no files."""
        for path in self._projects.models():
            described = find_message_set(str(path))
            if described is None or described[0] != name:
                continue
            try:
                found = load_set(path)
            except EntrepotError as error:
                self._wrong(self._projects.shown(path), error.what)
                continue
            before = self._message_sets.get(name)
            if before is not None:
                found = replace(before, messages={**before.messages, **found.messages})
            self._message_sets[name] = found

    def _esql(self) -> dict[str, str]:
        """The texts of all schemas that are needed."""
        if not self._modules:
            return {}
        available = self._projects.schemas()
        texts: dict[str, str] = {}
        known_modules: set[str] = set()
        done: set[str] = set()
        waiting = sorted(self._schemas)
        while waiting:
            schema = waiting.pop()
            if schema in done:
                continue
            done.add(schema)
            for path in available.get(schema, ()):
                text, more, modules = self._esql_file(path, available)
                texts[self._projects.shown(path)] = text
                known_modules |= modules
                waiting += more
        if not all(texts.values()):
            return texts  # whatever a file lacks may stand in one that cannot be read
        for module, (name, where, label) in self._modules.items():
            if module not in known_modules:
                guess = meant(name, [each.rpartition(".")[2] for each in known_modules])
                self._wrong(where, f"{label}: the ESQL module {module} is not there{guess}")
        return texts

    def _esql_file(self, path: Path, available: Mapping[str, Any]) -> tuple[str, list[str], set[str]]:
        shown = self._projects.shown(path)
        try:
            text = read_program(path)
            source = parse_file(text, shown)
        except EsqlInvalid as error:
            for _, line, column, problem, _ in error.mistakes:
                self._wrong(f"{shown}:{line}:{column}", problem)
            return "", [], set()
        schema = ".".join(source.schema)
        more = [".".join(each) for each in source.path]
        more += [each for each in available if each and re.search(rf"\b{re.escape(each)}\.", text)]
        return text, more, {f"{schema}.{each.name}" if schema else each.name for each in source.modules}


def _unique(name: str, flow: FlowDefinition) -> str:
    made, number = name, 1
    while made in flow.nodes:
        number += 1
        made = f"{name} {number}"
    return made


def _terminal(source: NodeDefinition, name: str) -> str:
    """A terminal by our name; IBM's differ in capitals at most."""
    name = name or "out"
    if source.type == SUBFLOW:
        return name
    known = find_type(source.type).outputs
    return next((each for each in known if each.lower() == name.lower()), name) if name not in known else name


def _user_value(declared: FileProperty) -> Any:
    text = declared.default or ""
    if declared.type == "EBoolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return read_plain(text) if declared.type in _NUMBERS else text


def _value_for(flow: FlowDefinition, name: str, text: str) -> Any:
    """What a text means for a promoted or user-defined property of a subflow."""
    for node_name, property_name in flow.promoted.get(name, ()):
        node = flow.nodes[node_name]
        if node.type == SUBFLOW:
            return _value_for(flow.subflows[str(node.properties["flow"])], property_name, text)
        node_type = find_type(node.type)
        declared = next((each for each in node_type.properties if each.name == property_name), None)
        return text if declared is None else translate_value(node_type, declared, text)
    before = flow.user_properties.get(name)
    if isinstance(before, bool):
        return text.lower() == "true"
    return read_plain(text) if isinstance(before, int | float) else text
