# SPDX-License-Identifier: Apache-2.0
"""Compute, Filter and Database: the nodes whose work is ESQL.

The ESQL is a module of the flow's files (`module`), or stands in the node
itself (`statements`, and `condition` for a filter), as the broker document
prints it.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar

from entrepot.errors import EsqlInvalid, LabelNotFound, ModelNotFound
from entrepot.esql import EsqlModule, EsqlRun, compile_condition, compile_statements
from entrepot.esql.runtime.statements import outgoing
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.journey import Journey
from entrepot.flows.nodes.node import FlowMistake, Node, NodeContext, Property
from entrepot.models.tree import Assembly

MODES = ("message", "destination", "destinationAndMessage", "exception", "exceptionAndMessage",
         "exceptionAndDestination", "all")  # fmt: skip
_MODULE = Property("module", "text", "", ibm="computeExpression", about="a module of the flow's .esql files")
_STATEMENTS = Property("statements", "esql", "", about="ESQL without a module around it")
_DATABASE = (
    Property("data_source", "text", "", ibm="dataSource", about="the database of statements that name none"),
    Property(
        "database_transaction",
        "choice",
        "automatic",
        choices=("automatic", "commit"),
        ibm="transaction",
        about="automatic: database work ends with the message; commit: when this node has done",
    ),
    Property("throw_on_database_error", "flag", True, ibm="throwExceptionOnDatabaseError"),
)


class _EsqlNode(Node):
    """What the three share."""

    kind: ClassVar[str]

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        self._module = self._compiled()
        settings = self.settings
        # A run is made for every message, so all that is the same for each of them lies in its class.
        attributes: dict[str, Any] = {
            "properties": MappingProxyType(dict(self.user_properties)),
            "labels": MappingProxyType({"MessageFlowLabel": plan.flow.name, "NodeLabel": self.name}),
            "database_source": settings["data_source"],
            "throw_on_database_error": settings["throw_on_database_error"],
            "mode": settings.get("mode", ""),
        }
        self._run_class: type[EsqlRun] = type("NodeRun", (EsqlRun,), attributes)
        self._commits = settings["database_transaction"] == "commit"

    def _compiled(self) -> EsqlModule:
        settings = self.settings
        if settings.get("condition"):
            return compile_condition(settings["condition"], f"{self.name}.condition")
        if settings["statements"]:
            return compile_statements(settings["statements"], f"{self.name}.statements", kind=self.kind)
        if self.plan.program is None:
            raise ModelNotFound("module", settings["module"], ())
        return find_module(self.plan.program.modules, settings["module"])

    def _run(self, assembly: Assembly, journey: Journey) -> EsqlRun:
        run = self._run_class(assembly)
        run.database = journey.world.database
        run.report = partial(_report, journey)
        now = journey.time_of_run()
        if now is not None:
            run._now = now
        return run

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        properties = definition.properties
        given = [name for name in ("module", "statements", "condition") if properties.get(name)]
        if len(given) != 1:
            problem = "it has no ESQL" if not given else f"it has {' and '.join(given)}"
            return [
                FlowMistake(definition.name, problem, "Say one of module, statements and, for a Filter, condition.")
            ]
        try:
            if properties.get("condition"):
                compile_condition(properties["condition"], f"{definition.name}.condition")
            elif properties.get("statements"):
                compile_statements(properties["statements"], f"{definition.name}.statements", kind=cls.kind)
        except EsqlInvalid as error:
            return [FlowMistake(f"{at[0]}:{at[1]}:{at[2]}", at[3]) for at in error.mistakes]
        return []


def find_module(modules: dict[str, EsqlModule], name: str) -> EsqlModule:
    """A module by its name, with or without its schema.

    Raises:
        ModelNotFound: There is none.
    """
    if name in modules:
        return modules[name]
    alike = [module for full, module in modules.items() if full.rpartition(".")[2] == name]
    if len(alike) == 1:
        return alike[0]
    raise ModelNotFound("module", name, tuple(modules))


def _report(journey: Journey, where: str, number: int, text: str, inserts: tuple[str, ...]) -> None:
    journey.world.trace("", f"{where} {number}: {text} {' '.join(inserts)}".rstrip())


class Compute(_EsqlNode):
    type: ClassVar[str] = "Compute"
    kind: ClassVar[str] = "COMPUTE"
    about: ClassVar[str] = "Makes a new message with ESQL, or several with PROPAGATE."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmCompute",)
    outputs: ClassVar[tuple[str, ...]] = ("out", "failure", "out1", "out2", "out3", "out4")
    properties: ClassVar[tuple[Property, ...]] = (
        _MODULE,
        _STATEMENTS,
        Property("mode", "choice", "message", choices=MODES, ibm="computeMode", about="which trees are the node's own"),
        *_DATABASE,
    )

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        run = self._run(assembly, journey)
        run.emit = partial(self._emit, journey)
        goes_on = self._module.run(run)
        if self._commits:
            journey.world.finish_database(self.settings["data_source"])
        if goes_on is True:
            self.propagate("out", outgoing(run), journey)

    def _emit(self, journey: Journey, where: str, name: str, leaving: Assembly) -> None:
        if where == "terminal":
            self.propagate(name, leaving, journey)
            return
        label = self.plan.labels.get(name)
        if label is None:
            raise LabelNotFound(self.plan.flow.name, self.name, name, tuple(self.plan.labels))
        label(leaving, journey)


class FilterNode(_EsqlNode):
    type: ClassVar[str] = "Filter"
    kind: ClassVar[str] = "FILTER"
    about: ClassVar[str] = "Asks one question about a message: true, false or unknown."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmFilter",)
    outputs: ClassVar[tuple[str, ...]] = ("true", "false", "unknown", "failure")
    properties: ClassVar[tuple[Property, ...]] = (
        Property("module", "text", "", ibm="filterExpression", about=_MODULE.about),
        _STATEMENTS,
        Property("condition", "esql", "", about="one ESQL expression"),
        *_DATABASE,
    )

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        answer = self._module.run(self._run(assembly, journey))
        if self._commits:
            journey.world.finish_database(self.settings["data_source"])
        self.propagate("true" if answer is True else "false" if answer is False else "unknown", assembly, journey)


class DatabaseNode(_EsqlNode):
    type: ClassVar[str] = "Database"
    kind: ClassVar[str] = "DATABASE"
    about: ClassVar[str] = "Works on a database with ESQL; the message goes on as it came."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmDatabase", "ComIbmDataInsert", "ComIbmDataUpdate", "ComIbmDataDelete")
    properties: ClassVar[tuple[Property, ...]] = (
        Property("module", "text", "", ibm="statement", about=_MODULE.about),
        _STATEMENTS,
        *_DATABASE,
    )

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        self._module.run(self._run(assembly, journey))
        if self._commits:
            journey.world.finish_database(self.settings["data_source"])
        self.propagate("out", assembly, journey)
