# SPDX-License-Identifier: Apache-2.0
"""Something to administer that is no more than a dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from entrepot.engine.definitions import Definition, ManagerAttributes, QueueDefinition
from entrepot.errors import ObjectExists, ObjectNotFound, QueueExists, QueueNotEmpty, QueueNotFound


class InMemoryManager:
    """An `Administered` whose queues have as many messages as a test says."""

    def __init__(self, *definitions: Definition, name: str = "TEST") -> None:
        self.attributes = ManagerAttributes(name=name)
        self.objects: dict[tuple[str, str], Definition] = {}
        self.depths: dict[str, int] = {}
        self.vanishing: set[str] = set()
        self.done: list[tuple[object, ...]] = []
        """What was started, stopped and mended."""
        self.rows: dict[str, list[dict[str, int | float | str]]] = {}
        for definition in definitions:
            self.define(definition, replace=False)

    def manager_attributes(self) -> ManagerAttributes:
        return self.attributes

    def definitions(self) -> Iterable[Definition]:
        return list(self.objects.values())

    def find(self, kind: str, name: str) -> Definition | None:
        return self.objects.get((_name_space(kind), name))

    def define(self, definition: Definition, *, replace: bool) -> None:
        key = (_name_space(definition.kind), definition.name)
        if key in self.objects and not replace:
            if isinstance(definition, QueueDefinition):
                raise QueueExists(definition.name)
            raise ObjectExists(definition.kind, definition.name)
        self.objects[key] = definition

    def alter(self, definition: Definition) -> None:
        if isinstance(definition, ManagerAttributes):
            self.attributes = definition
        else:
            self.objects[_name_space(definition.kind), definition.name] = definition

    def delete(self, kind: str, name: str, *, purge: bool) -> None:
        if self.depths.get(name) and not purge:
            raise QueueNotEmpty(name, self.depths[name])
        if self.objects.pop((_name_space(kind), name), None) is None:
            raise ObjectNotFound(kind, name)

    def clear(self, name: str) -> int:
        return self.depths.pop(name, 0)

    def clear_retained(self, topic: str) -> int:
        self.done.append(("clear", topic))
        return self.depths.pop(topic, 0)

    def queue_status(self, name: str) -> Mapping[str, int | float | str]:
        if name in self.vanishing:
            raise QueueNotFound(name)
        return {"CURDEPTH": self.depths.get(name, 0), "IPPROCS": 0, "OPPROCS": 1, "MSGAGE": 1.5, "LPUTDATE": ""}

    def start_object(self, kind: str, name: str) -> None:
        self.done.append(("start", kind, name))

    def stop_object(self, kind: str, name: str, *, force: bool, inactive: bool) -> None:
        self.done.append(("stop", kind, name, force, inactive))

    def reset_channel(self, name: str, sequence: int) -> None:
        self.done.append(("reset", name, sequence))

    def resolve_channel(self, name: str, *, commit: bool) -> None:
        self.done.append(("resolve", name, commit))

    def ping_channel(self, name: str) -> str:
        return f"{name} answers in 1 ms."

    def running(self, noun: str) -> list[dict[str, int | float | str]]:
        return self.rows.get(noun, [])


def _name_space(kind: str) -> str:
    return "QUEUE" if kind in ("QLOCAL", "QMODEL", "QALIAS", "QREMOTE") else kind
