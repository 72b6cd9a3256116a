# SPDX-License-Identifier: Apache-2.0
"""FlowOrder, RouteToLabel, Label, Route, Passthrough, TryCatch and Throw: where a message goes next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from entrepot.errors import EsqlInvalid, LabelNotFound, UserException
from entrepot.esql import EsqlModule, EsqlRun, compile_condition
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.exception_list import with_exception
from entrepot.flows.journey import Journey
from entrepot.flows.nodes.node import FlowMistake, Node, NodeContext, Property
from entrepot.models.tree import Assembly, Element


class Passthrough(Node):
    type: ClassVar[str] = "Passthrough"
    about: ClassVar[str] = "Lets the message go on as it is; a place to link to."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmPassthru",)

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        self.propagate("out", assembly, journey)


class FlowOrder(Node):
    type: ClassVar[str] = "FlowOrder"
    about: ClassVar[str] = "Sends the message to `first`, and to `second` when all of that has succeeded."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmFlowOrder",)
    outputs: ClassVar[tuple[str, ...]] = ("first", "second", "failure")

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        self.propagate("first", assembly, journey)
        self.propagate("second", assembly, journey)


class Label(Node):
    type: ClassVar[str] = "Label"
    about: ClassVar[str] = "A place that RouteToLabel and PROPAGATE TO LABEL can name."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmLabel",)
    properties: ClassVar[tuple[Property, ...]] = (Property("label", "text", required=True, ibm="labelName"),)

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        self.propagate("out", assembly, journey)


class RouteToLabel(Node):
    type: ClassVar[str] = "RouteToLabel"
    about: ClassVar[str] = "Sends the message to the label that the destination list names first, or last."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmRouteToLabel",)
    outputs: ClassVar[tuple[str, ...]] = ("failure",)
    properties: ClassVar[tuple[Property, ...]] = (
        Property("order", "choice", "last", choices=("first", "last"), ibm="mode"),
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        self._is_last = self.settings["order"] == "last"

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        """The label is taken off the list, so that a RouteToLabel further on goes to the next.

        It stands there again afterwards, for who sent the message here. That costs less than a copy of the list.
        """
        destination = assembly.local_environment.first("Destination")
        router = None if destination is None else destination.first("RouterList")
        chosen = None if router is None else self._chosen(router)
        known = tuple(self.plan.labels)
        if router is None or chosen is None:
            raise LabelNotFound(self.plan.flow.name, self.name, "", known)
        named: Any = _label_of(chosen) or chosen
        label = self.plan.labels.get(str(named.value))
        if label is None:
            raise LabelNotFound(self.plan.flow.name, self.name, str(named.value), known)
        place = router.position(chosen)
        router.remove(chosen)
        try:
            label(assembly, journey)
        finally:
            router.insert(place, chosen)

    def _chosen(self, router: Element) -> Element | None:
        """The first entry of the list that has a label, or the last."""
        listed = router.all("DestinationData")
        chosen = next((data for data in self._in_order(listed) if _label_of(data) is not None), None)
        if chosen is not None:
            return chosen
        # Older flows write the label right below RouterList.
        return next(self._in_order([*router.all("labelName"), *router.all("labelname")]), None)

    def _in_order(self, listed: list[Element]) -> Iterator[Element]:
        return reversed(listed) if self._is_last else iter(listed)


def _label_of(data: Element) -> Element | None:
    return data.first("labelName") or data.first("labelname")


class RouteNode(Node):
    type: ClassVar[str] = "Route"
    about: ClassVar[str] = (
        "Asks questions in order: the message goes to the terminal of each that is true, or of the first."
    )
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmRoute",)
    outputs: ClassVar[tuple[str, ...]] = ("match", "default", "failure")
    outputs_free: ClassVar[bool] = True
    properties: ClassVar[tuple[Property, ...]] = (
        Property(
            "routes",
            "table",
            required=True,
            ibm="filterTable",
            about="a list of {when: an ESQL condition or an XPath, to: a terminal}",
        ),
        Property("mode", "choice", "all", choices=("all", "first"), ibm="distributionMode"),
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        self._routes: list[tuple[EsqlModule, str]] = [
            (compile_condition(condition_of(row["when"]), f"{self.name}.routes"), row.get("to", "match"))
            for row in self.settings["routes"]
        ]
        self._first_only = self.settings["mode"] == "first"

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        found = []
        for number, row in enumerate(definition.properties.get("routes") or (), 1):
            where = f"{definition.name}.routes[{number}]"
            if not isinstance(row, dict) or "when" not in row:
                found.append(FlowMistake(where, "it has no `when`", "Write {when: CONDITION, to: TERMINAL}."))
                continue
            try:
                compile_condition(condition_of(str(row["when"])), where)
            except EsqlInvalid as error:
                found += [FlowMistake(f"{at[0]}:{at[1]}:{at[2]}", at[3]) for at in error.mistakes]
            except ValueError as error:
                found.append(FlowMistake(where, str(error)))
        return found

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        matched = False
        for module, terminal in self._routes:
            run = EsqlRun(assembly)
            run.database = journey.world.database
            run.properties = self.user_properties
            if module.run(run) is True:
                matched = True
                self.propagate(terminal, assembly, journey)
                if self._first_only:
                    return
        if not matched:
            self.propagate("default", assembly, journey)


def condition_of(text: str) -> str:
    """The ESQL of a route; IBM's tables hold XPath, of which the common forms are understood."""
    from entrepot.flows.xpath import is_xpath, to_esql

    return to_esql(text) if is_xpath(text) else text


class TryCatch(Node):
    type: ClassVar[str] = "TryCatch"
    about: ClassVar[str] = "Sends the message to `try`; an error that comes back from there goes to `catch`."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmTryCatch",)
    outputs: ClassVar[tuple[str, ...]] = ("try", "catch", "failure")

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        catch = self.wires.get("catch")
        if catch is None:
            self.propagate("try", assembly, journey)
            return
        try:
            self.propagate("try", assembly, journey)
        except Exception as error:
            if journey.raised is not error:
                journey.raised, journey.raised_by = error, self
            journey.noted(self, error)
            catch(with_exception(assembly, error, journey), journey)


class ThrowNode(Node):
    type: ClassVar[str] = "Throw"
    about: ClassVar[str] = "Raises an error on purpose."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmThrow",)
    outputs: ClassVar[tuple[str, ...]] = ("failure",)
    properties: ClassVar[tuple[Property, ...]] = (
        Property("number", "integer", 3001, ibm="messageNumber"),
        Property("text", "text", "", ibm="messageText"),
        Property("catalog", "text", "", ibm="messageCatalog"),
    )

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        settings = self.settings
        text = settings["text"]
        # A place of its own, or a Compute that propagated the message here would claim the error for its line.
        raise UserException(
            text or "thrown by a Throw node",
            number=settings["number"],
            inserts=(text, f"{self.plan.flow.name}.{self.name.replace('/', '.')}"),
            place=self.name,
            catalog=settings["catalog"] or "BIPmsgs",
        )
