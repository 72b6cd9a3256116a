# SPDX-License-Identifier: Apache-2.0
"""A simulated queue manager that coordinates: units with a message each, their branches, and what their users hold."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from entrepot.engine.definitions import LocalQueue
from entrepot.engine.global_units import GlobalUnits
from entrepot.engine.in_doubt import InDoubt
from entrepot.engine.quotas import PREPARED_UNITS
from entrepot.engine.recovery_log.record import Branch
from entrepot.engine.settlement import Settlement
from entrepot.engine.unit_of_work import Unit
from entrepot.errors import EntrepotError
from entrepot.message import Message, Report
from entrepot.testing import Fault, PlannedFaults
from unit.engine.simulated import Simulated

SHOP = "postgresql://db/shop"
ROWS = "sqlite:////rows.db"


class Coordinating(Simulated):
    """Beside Q there are C, for copies of what arrives on S, and R, for reports."""

    def __init__(self) -> None:
        super().__init__()
        for queue in (LocalQueue(name="C"), LocalQueue(name="R"), LocalQueue(name="S", stream_queue="C")):
            self.manager.administration.define(queue, replace_existing=False)
        self.manager.force()

    @property
    def units(self) -> GlobalUnits:
        return self.manager.global_units

    @property
    def in_doubt(self) -> InDoubt:
        return self.manager.in_doubt

    def begun(self, body: bytes = b"x", queue: str = "Q") -> Unit:
        """A global unit that has put a message."""
        unit = self.units.begin()
        self.manager.put(queue, Message(body), persistent=True, unit=unit)
        return unit

    def took(self) -> Unit:
        """A global unit that has got the next message of Q."""
        unit = self.units.begin()
        assert self.manager.get("Q", unit=unit)[0] is not None
        return unit

    def put_with_report(self, report: Report) -> None:
        self.manager.put("Q", Message(b"asked", report=report, reply_to="R"), persistent=True)
        self.manager.force()

    def on(self, queue: str) -> list[Message]:
        return self.manager.browse(queue, None, None, 1000)[0]

    def settled(self, settlement: Settlement | None) -> None:
        """Force the log, and hand on what became of it."""
        assert settlement is not None
        assert not settlement.done
        self.manager.force()
        assert settlement.done
        if settlement.error is not None:
            raise settlement.error

    def fill_disk(self) -> None:
        """The next write of the log finds no space."""
        no_space = Fault(at=1, error_number=errno.ENOSPC, operations=frozenset({"write"}))
        self.disk.faults = PlannedFaults(no_space)

    def limit_users_to(self, count: int) -> None:
        attributes = replace(self.manager.objects.manager, user_prepared_max=count)
        self.manager.administration.alter(attributes)
        self.manager.force()

    def held(self, user: str = "ann") -> int:
        """How many units are counted for a user."""
        return self.manager.quotas.held(PREPARED_UNITS, user)

    def asks_for_room(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, bool]]:
        """What the log is asked for from now on: so many bytes, and whether its last part will do."""
        asked: list[tuple[int, bool]] = []
        require_room = self.manager.log.require_room

        def spy(size: int, *, reserved: bool) -> None:
            asked.append((size, reserved))
            require_room(size, reserved=reserved)

        monkeypatch.setattr(self.manager.log, "require_room", spy)
        return asked

    def refuse_room(self, monkeypatch: pytest.MonkeyPatch, error: EntrepotError) -> Callable[[], None]:
        """Let the log have no room; until what is returned is called."""

        def refuse(size: int, *, reserved: bool) -> None:
            raise error

        require_room = self.manager.log.require_room
        monkeypatch.setattr(self.manager.log, "require_room", refuse)
        return lambda: monkeypatch.setattr(self.manager.log, "require_room", require_room)


def branches(unit: Unit, count: int = 2) -> list[Branch]:
    name = unit.transaction_id.decode()
    return [Branch(SHOP, f"{name}-{number}", 700 + number) for number in range(count)]


def ids(unit: Unit, *numbers: int) -> list[str]:
    return [f"{unit.transaction_id.decode()}-{number}" for number in numbers]
