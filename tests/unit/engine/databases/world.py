# SPDX-License-Identifier: Apache-2.0
"""A global unit of work among stand-ins that write down, in one list, what each of them is told."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from entrepot.client.blocking.global_unit import GlobalUnitOfWork
from entrepot.engine.databases import points
from entrepot.engine.databases.branch import OneTimeBranch, OpenBranch
from entrepot.engine.recovery_log.record import Branch
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import ConnectionLost

UNIT = "entrepot-00-1-7"
BACKED_OUT = ["local back-out: counted True", "roll back 0", "roll back 1"]


def refused() -> OperationalError:
    return OperationalError("COMMIT", {}, Exception("it does not"))


def lost() -> ConnectionLost:
    return ConnectionLost("mq://there", "it broke")


def fail_at(monkeypatch: pytest.MonkeyPatch, point: str, error: BaseException) -> None:
    """Let something be raised when a point is reached."""

    def reached(name: str) -> None:
        if name == point:
            raise error

    monkeypatch.setattr(points, "reached", reached)


class World:
    """A unit of work with two databases of two phases, 0 and 1, or also with one of one phase, 2."""

    def __init__(self, *, last: bool = False, two_phase: int = 2) -> None:
        self.events: list[str] = []
        """What has happened, in this order."""
        self.faults: dict[str, list[BaseException]] = {}
        """What is raised by the next events of a name; they happen all the same."""
        self.on: dict[str, Callable[[], object]] = {}
        """What happens with an event besides."""
        self.own = SimpleNamespace(number=7, state=UnitState.ACTIVE)
        """The unit at the queue manager, as this side knows it."""
        self.outcomes: list[Any] = []
        """What the queue manager answers, the last for ever."""
        self.ends: dict[str, str] = {}
        """How branches have ended that are committed without their connection, where that is not `committed`."""
        self.can_be_asked = True
        self.is_unknown = False
        self.connections_told = 0
        resources: list[Any] = [Database(self, str(number)) for number in range(two_phase)]
        resources += [Database(self, "2", one_phase=True)] * last
        self.unit = GlobalUnitOfWork(
            Local(self),  # type: ignore[arg-type]
            UNIT,
            QueueManager(self),  # type: ignore[arg-type]
            resources,
            Recovery(self),  # type: ignore[arg-type]
            self._told,
        )

    def _told(self, _: Any) -> None:
        self.connections_told += 1

    def happens(self, event: str) -> None:
        self.events.append(event)
        name = event.partition(":")[0]
        if name in self.on:
            self.on[name]()
        if self.faults.get(name):
            raise self.faults[name].pop(0)

    def begin(self) -> GlobalUnitOfWork:
        """All its databases take part."""
        assert len(self.unit.databases()) > 0
        return self.unit

    def since(self, event: str) -> list[str]:
        """What has happened behind an event."""
        return self.events[self.events.index(event) + 1 :]


class Local:
    """The unit's part at the queue manager."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.remote = world.own

    def commit(self, *, counted: bool) -> None:
        self._world.happens(f"local commit: counted {counted}")
        self._world.own.state = UnitState.COMMITTED

    def back_out(self, *, counted: bool) -> None:
        self._world.happens(f"local back-out: counted {counted}")
        self._world.own.state = UnitState.BACKED_OUT


class QueueManager:
    def __init__(self, world: World) -> None:
        self._world = world
        self.remote = world.own

    def decide(self, unit: Any, forms: list[Branch], *, counted: bool) -> None:
        self._world.happens(f"decide: {[form.branch_id for form in forms]} counted {counted}")
        unit.state = UnitState.COMMITTED

    def prepare(self, unit: Any, forms: list[Branch], *, counted: bool) -> None:
        self._world.happens(f"leave to last: {[form.branch_id for form in forms]} counted {counted}")
        unit.state = UnitState.PREPARED

    def resolve(self, _: str, *, commit: bool) -> None:
        self._world.happens(f"resolve: {commit}")

    def finish(self, _: str, branch_ids: list[str]) -> None:
        self._world.happens(f"finish: {branch_ids}")

    def outcomes(self, _: list[str]) -> list[str]:
        self._world.events.append("ask")
        answers = self._world.outcomes
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return [answer]


class Recovery:
    def __init__(self, world: World) -> None:
        self._world = world
        self.remote = world.own

    def later(self, resources: list[Any], _: str) -> None:
        self._world.happens(f"later: {[resource.name for resource in resources]}")

    def tell_later(self, _: str, *, commit: bool) -> None:
        self._world.happens(f"tell later: {commit}")


class Database:
    def __init__(self, world: World, name: str, *, one_phase: bool = False) -> None:
        self._world = world
        self.name = name
        self.engine = f"engine {name}"
        self._kind = LastAgent if one_phase else TwoPhaseBranch

    def open(self, branch_id: str) -> OpenBranch:
        self._world.happens(f"open {self.name}")
        return self._kind(self._world, self, branch_id)

    def commit(self, _: Branch) -> str:
        self._world.happens(f"recommit {self.name}")
        return self._world.ends.get(self.name, "committed")

    def told(self, _: str) -> None:
        self._world.happens(f"told {self.name}")


class TwoPhaseBranch(OpenBranch):
    def __init__(self, world: World, resource: Any, branch_id: str) -> None:
        self._world = world
        self.resource = resource
        self.branch_id = branch_id
        self.connection: Any = f"connection {resource.name}"

    def _happens(self, what: str) -> None:
        self._world.happens(f"{what} {self.resource.name}")

    @property
    def form(self) -> Branch:
        return Branch(self.resource.name, self.branch_id)

    def require_open(self) -> None:
        self._happens("require open")

    def prepare(self) -> None:
        self._happens("prepare")

    def commit(self) -> None:
        self._happens("commit")

    def roll_back(self) -> None:
        self._happens("roll back")

    def leave(self) -> None:
        self._happens("leave")


class LastAgent(TwoPhaseBranch, OneTimeBranch):
    @property
    def form(self) -> Branch:
        return Branch(self.resource.name, "")

    @property
    def can_be_asked(self) -> bool:
        return self._world.can_be_asked

    def is_unknown(self, _: object) -> bool:  # type: ignore[override]
        return self._world.is_unknown
