# SPDX-License-Identifier: Apache-2.0
"""Flows from files: our YAML, and IBM's .msgflow and .subflow, each with all that belongs to it.

    flow = load_flow("orders.yaml")

ESQL, models and subflows are read along and travel with the definition, so
that it can run where the files are not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from entrepot.errors import FlowInvalid, InvalidArgument
from entrepot.flows.checking import find_mistakes, in_order
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.nodes.node import FlowMistake
from entrepot.flows.notation import FlowReader
from entrepot.yaml_places import BYTES_MAX, Place

YAML_SUFFIXES = (".yaml", ".yml")
IBM_SUFFIXES = (".msgflow", ".subflow")


@dataclass(frozen=True, slots=True)
class Inspection:
    """A flow, and everything that is wrong with it."""

    flow: FlowDefinition | None
    """As far as it could be read."""
    mistakes: tuple[FlowMistake, ...]
    """Warnings too."""

    @property
    def is_valid(self) -> bool:
        return all(mistake.is_warning for mistake in self.mistakes)


def load_flow(
    path: str | Path, *, projects: Sequence[Path] = (), java: Mapping[str, str] | None = None
) -> FlowDefinition:
    """The flow of a file.

    `projects` are further folders in which a .msgflow finds what it refers to; `java` says which Python function
    (`module:function`) stands for each of its Java classes.

    Raises:
        FlowInvalid: It cannot be read; says everything that is wrong with it.
        InvalidArgument: No kind of file that has a flow in it.
    """
    loader = _FlowLoader(projects, java)
    flow = loader.load(Path(path))
    loader.require_readable(flow)
    return flow


def read_flow(text: str, file: str = "flow.yaml") -> FlowDefinition:
    """The flow that a text in the notation describes; files that it names are looked for beside `file`.

    Raises:
        FlowInvalid: Says everything that is wrong with it.
    """
    loader = _FlowLoader(())
    flow = loader.read(text, Path(file))
    loader.require_readable(flow)
    return flow


def inspect_flow(path: str | Path, *, projects: Sequence[Path] = ()) -> Inspection:
    """Everything that is wrong with the flow of a file, as `entrepot flow check` tells it.

    Raises:
        InvalidArgument: No kind of file that has a flow in it.
    """
    loader = _FlowLoader(projects)
    try:
        flow = loader.load(Path(path))
    except FlowInvalid as error:
        return Inspection(None, tuple(FlowMistake(*mistake) for mistake in error.mistakes))
    return Inspection(flow, tuple(loader.all_mistakes(flow)))


class _FlowLoader:
    """Reads a flow and its subflows, each file once."""

    def __init__(self, projects: Sequence[Path], java: Mapping[str, str] | None = None) -> None:
        self._projects = projects
        self._java = java
        self._loaded: dict[Path, FlowDefinition] = {}
        self._open: list[Path] = []
        self._mistakes: list[FlowMistake] = []
        self._is_complete = True

    def load(self, path: Path) -> FlowDefinition:
        suffix = path.suffix.lower()
        if suffix in IBM_SUFFIXES:
            from entrepot.flows.msgflow import load_msgflow

            return load_msgflow(path, projects=self._projects, java=self._java)
        if suffix not in YAML_SUFFIXES:
            expected = f"a {', '.join(YAML_SUFFIXES + IBM_SUFFIXES[:-1])} or {IBM_SUFFIXES[-1]} file"
            raise InvalidArgument("flow file", str(path), expected)
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            column = error.start - content.rfind(b"\n", 0, error.start)
            problem = f"the byte {content[error.start]:#04x} is no UTF-8"
            raise FlowInvalid(path.stem, ((f"{path}:{line}:{column}", problem, "Save the file as UTF-8."),)) from None
        return self.read(text, path)

    def read(self, text: str, path: Path) -> FlowDefinition:
        self._open.append(path.resolve())
        try:
            reader = FlowReader(str(path), self._subflow, self._mistakes)
            flow = reader.read(text)
            self._is_complete = self._is_complete and reader.is_complete
        finally:
            self._open.pop()
        return flow

    def _subflow(self, path: Path, place: Place) -> FlowDefinition | None:
        key = path.resolve()
        if key in self._loaded:
            return self._loaded[key]
        if key in self._open:
            circle = " → ".join(each.name for each in [*self._open[self._open.index(key) :], key])
            problem = f"files ask for each other in a circle: {circle}"
            self._mistakes.append(FlowMistake(str(place), problem, "A subflow cannot contain itself."))
            return None
        try:
            flow = self._loaded[key] = self.load(path)
        except FlowInvalid as error:
            self._mistakes += [FlowMistake(*mistake) for mistake in error.mistakes]
            return None
        except InvalidArgument as error:
            self._mistakes.append(FlowMistake(str(place), error.what, error.advice))
            return None
        return flow

    def all_mistakes(self, flow: FlowDefinition) -> list[FlowMistake]:
        return in_order([*self._mistakes, *find_mistakes(flow, is_complete=self._is_complete)])

    def require_readable(self, flow: FlowDefinition) -> None:
        """All mistakes are reported together; a flow that can be read is checked when it is to run."""
        if self._mistakes:
            found = [mistake for mistake in self.all_mistakes(flow) if not mistake.is_warning]
            raise FlowInvalid(flow.name, tuple((error.where, error.problem, error.advice) for error in found))
