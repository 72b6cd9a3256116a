# SPDX-License-Identifier: Apache-2.0
"""Flows in YAML, written by people: docs/FLOWS.md has the notation.

    flow: orders
    nodes:
      Orders:
        type: MQInput
        queue: ORDERS
        to: {out: Done, catch: Errors}
      Done: {type: MQOutput, queue: DONE}
      Errors: {type: MQOutput, queue: ERRORS}

Reading goes on behind a mistake, so that all of them can be reported at once.
Every node, link and property keeps its place in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from entrepot.errors import EntrepotError, EsqlInvalid, ModelInvalid
from entrepot.esql.program import read_program
from entrepot.flows.declarations import declared_by_subflow, declared_by_type
from entrepot.flows.definition import INPUT, OUTPUT, SUBFLOW, FlowDefinition, FlowLink, NodeDefinition
from entrepot.flows.nodes.node import FlowMistake, Property
from entrepot.flows.property_values import meant, problem_with, read_plain, read_value
from entrepot.models import find_set, load_set
from entrepot.yaml_places import Listing, Place, Scalar, Table, Written, read_yaml, words_for

KEYS = ("flow", "subflow", "coordinated", "instances", "esql", "models", "subflows", "properties", "promote", "nodes")
_INSTANCES = Property("instances", "integer", 1)
_COORDINATED = Property("coordinated", "flag", False)
INSTANCES_MAX = 1000

ReadSubflow = Callable[[Path, Place], FlowDefinition | None]
"""The subflow of a file that a flow asks for; None when there is none, which has been reported then."""


class FlowReader:
    """Reads one file; `mistakes` has what is wrong with it."""

    def __init__(self, file: str, read_subflow: ReadSubflow, mistakes: list[FlowMistake]) -> None:
        self._file = file
        self._folder = Path(file).parent
        self._read_subflow = read_subflow
        self._mistakes = mistakes
        self._flow = FlowDefinition(Path(file).stem, place=Place(file, 1, 1))
        self._targets: list[tuple[str, str, Scalar]] = []
        """Source, terminal and what it is linked to; understood when all names are known."""
        self._is_part = False
        self._broken: set[str] = set()
        """Where YAML itself is wrong; what that leads to is not reported too."""
        self.is_complete = True
        """Whether all files were there that it asks for; if not, what seems to be missing may be in them."""

    def read(self, text: str) -> FlowDefinition:
        """The flow, as far as it could be understood."""
        known = len(self._mistakes)
        root = read_yaml(text, self._file, self._wrong)
        self._broken = {mistake.where for mistake in self._mistakes[known:]}
        if root is None:
            self.is_complete = False
            if not self._broken:
                self._wrong(Place(self._file, 1, 1), "the file is empty", "A flow begins with `flow: NAME`.")
        elif not isinstance(root, Table):
            self.is_complete = False
            self._wrong(root.place, f"a flow is a table, not {words_for(root)}", "It begins with `flow: NAME`.")
        elif not root.keys & {"flow", "subflow", "nodes"}:
            self.is_complete = False
            self._wrong(root.place, "this is no flow: it has neither a name nor nodes", "It begins with `flow: NAME`.")
        else:
            self._whole(root)
        return self._flow

    def _wrong(self, place: Place, problem: str, advice: str = "") -> None:
        if str(place) not in self._broken:
            self._mistakes.append(FlowMistake(str(place), problem, advice))

    def _whole(self, root: Table) -> None:
        for key, _ in root:
            if key.text not in KEYS:
                known = meant(key.text, KEYS) or f"; a flow has {', '.join(KEYS)}"
                self._wrong(key.place, f"a flow has no {key.text!r}{known}")
        self._name(root)
        self._settings(root)
        self._esql(root.get("esql"))
        self._models(root.get("models"))
        self._subflows(root.get("subflows"))
        self._nodes(root.get("nodes"))
        self._promotions(root.get("promote"))

    def _name(self, root: Table) -> None:
        self._is_part = root.get("subflow") is not None
        names = [written for key in ("flow", "subflow") if (written := root.get(key)) is not None]
        if len(names) != 1:
            problem = "it says both flow and subflow" if names else "it does not say what it is called"
            self._wrong(names[1].place if names else root.place, problem, "Say `flow: NAME`, or `subflow: NAME`.")
        for written in names[:1]:
            name = self._text(written, "a name")
            if name.strip():
                self._flow.name = name.strip()
                self._flow.place = written.place

    def _settings(self, root: Table) -> None:
        coordinated, instances = root.get("coordinated"), root.get("instances")
        if coordinated is not None:
            self._flow.coordinated = self._declared(coordinated, _COORDINATED) is True
        if instances is not None:
            count = self._declared(instances, _INSTANCES)
            if isinstance(count, int) and not 1 <= count <= INSTANCES_MAX:
                self._wrong(instances.place, f"instances: {count} is not between 1 and {INSTANCES_MAX}")
            elif isinstance(count, int):
                self._flow.instances = count
        for key, written in self._table(root.get("properties"), "properties: NAME: VALUE"):
            self._flow.user_properties[key.text] = _untyped(written)
            self._flow.places[f"properties.{key.text}"] = key.place

    def _declared(self, written: Written, declared: Property) -> Any:
        value = _typed(written, declared)
        problem = problem_with(value, declared)
        if problem:
            self._wrong(written.place, f"{declared.name}: {problem}")
            return None
        return value

    # --- files ------------------------------------------------------------------------------------------------

    def _esql(self, written: Written | None) -> None:
        for name in self._texts(written, "esql: [FILE.esql]"):
            path = self._folder / name.text
            try:
                self._flow.esql[str(path)] = read_program(path)
            except EsqlInvalid as error:
                self.is_complete = False
                self._mistakes += [FlowMistake(f"{at[0]}:{at[1]}:{at[2]}", at[3]) for at in error.mistakes]
            except (OSError, ValueError) as error:
                self._absent(name, error)

    def _models(self, written: Written | None) -> None:
        for name in self._texts(written, "models: [FILE.cpy, FILE.yaml, swift]"):
            shipped, _, message = name.text.partition(":")
            if shipped.lower() == "swift":
                # It is too large to travel with every flow; every process finds it for itself.
                known = find_set("SWIFT").messages
                if message and message not in known:
                    self._wrong(name.place, f"the set SWIFT has no message {message!r}{meant(message, known)}")
                continue
            path = self._folder / name.text
            try:
                path.stat()  # readers of models tell a missing file each in their own way
                self._flow.message_sets.append(load_set(path))
            except ModelInvalid as error:
                self.is_complete = False
                self._wrong(Place(error.file, error.line, error.column), error.problem)
            except EntrepotError as error:
                self.is_complete = False
                self._wrong(name.place, error.what, error.advice)
            except (OSError, ValueError) as error:
                self._absent(name, error)

    def _subflows(self, written: Written | None) -> None:
        for name in self._texts(written, "subflows: [FILE.yaml]"):
            try:
                found = self._read_subflow(self._folder / name.text, name.place)
            except (OSError, ValueError) as error:
                self._absent(name, error)
                continue
            if found is None:
                self.is_complete = False
            elif found.name in self._flow.subflows:
                self._wrong(name.place, f"there is a subflow {found.name!r} already", "Give one of them another name.")
            else:
                self._flow.subflows[found.name] = found
                self._flow.places[f"subflows.{found.name}"] = name.place

    def _absent(self, name: Scalar, error: Exception) -> None:
        self.is_complete = False
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self._wrong(name.place, f"{name.text} cannot be read: {reason}", f"Files are looked for in {self._folder}.")

    # --- nodes ------------------------------------------------------------------------------------------------

    def _nodes(self, written: Written | None) -> None:
        if written is None or (isinstance(written, Scalar) and written.is_empty):
            self._wrong(self._flow.place, "it has no nodes", "Say `nodes:` and below it NAME: {type: TYPE, ...}.")
        for name, node in self._table(written, "nodes: NAME: {type: TYPE, ...}"):
            if not name.text.strip() or "/" in name.text:
                self._wrong(name.place, f"{name.text!r} is no name for a node", "A name is not empty and has no `/`.")
                continue
            self._node(name, node)
        for source, terminal, target in self._targets:
            self._link(source, terminal, target)

    def _node(self, name: Scalar, table: Written) -> None:
        node = self._flow.nodes[name.text] = NodeDefinition(name.text, "", place=name.place)
        if not isinstance(table, Table):
            self._wrong(table.place, f"the node {name.text} is {words_for(table)}", "Write NAME: {type: TYPE, ...}.")
            return
        kinds = [key for key, _ in table if key.text in ("type", "subflow")]
        if len(kinds) != 1:
            problem = "is a type and a subflow at once" if kinds else "has no type"
            self._wrong(name.place, f"the node {name.text} {problem}", "Say type: TYPE, or subflow: NAME.")
        for key, written in table:
            if key.text == "type":
                node.type = node.type or self._text(written, "a node type")
                node.places["type"] = written.place
            elif key.text == "subflow":
                node.type, node.properties["flow"] = SUBFLOW, self._text(written, "the name of a subflow")
                node.places["flow"] = written.place
        if node.type in (INPUT, OUTPUT) and not self._is_part:
            problem = f"{name.text} is a terminal of type {node.type}, which only subflows have"
            self._wrong(node.places["type"], problem, "Begin the file with `subflow: NAME` if it is to be one.")
        declared = self._declarations(node)
        for key, written in table:
            if key.text == "to":
                self._links(name.text, written)
            elif key.text not in ("type", "subflow"):
                node.properties[key.text] = _typed(written, declared.get(key.text))
                node.places[key.text] = written.place

    def _declarations(self, node: NodeDefinition) -> dict[str, Property]:
        """What is known about the properties that a node can have."""
        if node.type != SUBFLOW:
            return declared_by_type(node.type)
        subflow = self._flow.subflows.get(str(node.properties.get("flow", "")))
        return {} if subflow is None else declared_by_subflow(subflow)

    def _links(self, source: str, written: Written) -> None:
        if not isinstance(written, Table):
            self._links_of_terminal(source, "out", written)
            return
        for terminal, targets in written:
            self._links_of_terminal(source, terminal.text, targets)

    def _links_of_terminal(self, source: str, terminal: str, written: Written) -> None:
        for target in self._texts(written, "to: NODE, or to: {TERMINAL: NODE}"):
            self._targets.append((source, terminal, target))

    def _link(self, source: str, terminal: str, target: Scalar) -> None:
        """NODE, or NODE.TERMINAL where no node has that name."""
        name, entrance = target.text, "in"
        if name not in self._flow.nodes and "." in name:
            before, _, behind = name.rpartition(".")
            if before in self._flow.nodes:
                name, entrance = before, behind
        self._flow.links.append(FlowLink(source, terminal, name, entrance, target.place))

    def _promotions(self, written: Written | None) -> None:
        for name, targets in self._table(written, "promote: NAME: [NODE.PROPERTY]"):
            pairs: list[tuple[str, str]] = []
            for path in self._texts(targets, "promote: NAME: [NODE.PROPERTY]"):
                node, dot, prop = path.text.rpartition(".")
                if dot and node in self._flow.nodes:
                    pairs.append((node, prop))
                else:
                    near = meant(node or path.text, self._flow.nodes)
                    self._wrong(path.place, f"{path.text!r} is no NODE.PROPERTY of this flow{near}")
            self._flow.promoted[name.text] = pairs
            self._flow.places[f"promote.{name.text}"] = name.place

    # --- forms ------------------------------------------------------------------------------------------------

    def _text(self, written: Written, what: str) -> str:
        if isinstance(written, Scalar) and not written.is_empty:
            return written.text
        self._wrong(written.place, f"{words_for(written)} stands where {what} belongs")
        return ""

    def _texts(self, written: Written | None, form: str) -> Iterable[Scalar]:
        """One text, or a list of them."""
        if written is None:
            return
        for item in written.items if isinstance(written, Listing) else [written]:
            if isinstance(item, Scalar) and not item.is_empty:
                yield item
            else:
                self._wrong(item.place, f"{words_for(item)} stands where a text belongs", f"Write `{form}`.")

    def _table(self, written: Written | None, form: str) -> Iterable[tuple[Scalar, Written]]:
        if isinstance(written, Table):
            return written
        if written is not None and not (isinstance(written, Scalar) and written.is_empty):
            self._wrong(written.place, f"{words_for(written)} stands where a table belongs", f"Write `{form}`.")
        return ()


def _typed(written: Written, declared: Property | None) -> Any:
    if isinstance(written, Scalar):
        if written.is_empty:
            return None
        if declared is not None and (written.is_plain or declared.kind not in ("any", "table")):
            return read_value(written.text, declared)
    if isinstance(written, Listing) and declared is not None and declared.kind == "list":
        return [item.text if isinstance(item, Scalar) else _untyped(item) for item in written.items]
    return _untyped(written)


def _untyped(written: Written) -> Any:
    if isinstance(written, Scalar):
        return read_plain(written.text) if written.is_plain else written.text
    if isinstance(written, Listing):
        return [_untyped(item) for item in written.items]
    return {key.text: _untyped(value) for key, value in written}
