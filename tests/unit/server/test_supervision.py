# SPDX-License-Identifier: Apache-2.0
"""Commands of a session reach the server only if its user may give them, and are written down before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrepot.engine.definitions import AuthorityRecord, LocalQueue, SubscriptionDefinition
from entrepot.errors import AuditFailed, NotAuthorized
from entrepot.message import Message
from entrepot.server.security.authority import Authority
from entrepot.server.session_registry import Identity
from entrepot.server.supervision import SupervisedManager

from .guests import House, Work

Inside = Callable[[Work], None]
ANN, ROOT = Identity("ann"), Identity("root", administrator=True)

CONTROLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("start_object", ("CHANNEL", "C"), {}, "START CHANNEL C"),
    ("stop_object", ("LISTENER", "L"), {"force": True, "inactive": False}, "STOP LISTENER L"),
    ("reset_channel", ("C", 7), {}, "RESET CHANNEL C"),
    ("resolve_channel", ("C",), {"commit": True}, "RESOLVE CHANNEL C"),
    ("ping_channel", ("C",), {}, "PING CHANNEL C"),
]


class Server:
    """Writes down what it is asked to do."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.refusals: list[str] = []
        self.can_write = True
        self.rows: list[dict[str, int | float | str]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def ask(*arguments: Any, **options: Any) -> str:
            self.asked.append((name, arguments, options))
            return "answer"

        return ask

    def refused(self, identity: Identity, error: NotAuthorized) -> None:
        self.refusals.append(f"{identity.user}: {error.authority}")

    def commanded(self, identity: Identity, verb: str, kind: str, name: str) -> None:
        if not self.can_write:
            raise AuditFailed("audit.log", "disk full")
        self.asked.append(f"{verb} {kind} {name}")

    def running(self, _noun: str) -> list[dict[str, int | float | str]]:
        return self.rows


class Office:
    """What one user's commands act on."""

    def __init__(self, house: House, identity: Identity) -> None:
        self.server = Server()
        self.commands = SupervisedManager(house.host, identity, house.authority, self.server)  # type: ignore[arg-type]

    @property
    def changes_told(self) -> int:
        return sum(each[0] == "definitions_changed" for each in self.server.asked)


def allowed(house: House, *records: str) -> Authority:
    house.mqsc("\n".join(f"SET AUTHREC {record} PRINCIPAL('ann')" for record in records))
    return house.authority


def test_controls_are_written_down_and_then_carried_out(inside: Inside) -> None:
    async def work(house: House) -> None:
        office = Office(house, ROOT)
        for name, arguments, options, audited in CONTROLS:
            office.server.asked.clear()
            getattr(office.commands, name)(*arguments, **options)
            assert office.server.asked == [audited, (name, arguments, options)]
        assert office.commands.ping_channel("C") == "answer"

    inside(work)


def test_who_may_not_control_is_refused_and_that_is_told(inside: Inside) -> None:
    async def work(house: House) -> None:
        office = Office(house, ANN)
        for name, arguments, options, _ in CONTROLS:
            with pytest.raises(NotAuthorized):
                getattr(office.commands, name)(*arguments, **options)
        assert office.server.asked == []
        assert len(office.server.refusals) == len(CONTROLS)

    inside(work)


def test_what_cannot_be_written_down_is_not_carried_out(inside: Inside) -> None:
    async def work(house: House) -> None:
        office = Office(house, ROOT)
        office.server.can_write = False
        for name, arguments, options, _ in CONTROLS:
            with pytest.raises(AuditFailed):
                getattr(office.commands, name)(*arguments, **options)
        changes: list[Callable[[], Any]] = [
            lambda: office.commands.define(LocalQueue(name="NEW"), replace=False),
            lambda: office.commands.alter(LocalQueue(name="Q", depth_max=7)),
            lambda: office.commands.delete("QLOCAL", "Q", purge=True),
            lambda: office.commands.clear("Q"),
            lambda: office.commands.clear_retained("prices"),
        ]
        house.host.put("Q", Message(b"stays"), persistent=False)
        for change in changes:
            with pytest.raises(AuditFailed):
                change()
        assert office.server.asked == []
        assert house.host.find("QLOCAL", "NEW") is None
        assert [message.body for message in house.host.browse("Q", None, None, 9)[0]] == [b"stays"]

    inside(work)


def test_what_a_user_may_not_change_stays_as_it_is(inside: Inside) -> None:
    async def work(house: House) -> None:
        office = Office(house, ANN)
        commands = office.commands
        house.host.put("Q", Message(b"stays"), persistent=False)
        changes: list[Callable[[], Any]] = [
            lambda: commands.define(LocalQueue(name="NEW"), replace=False),
            lambda: commands.define(LocalQueue(name="Q"), replace=True),
            lambda: commands.alter(LocalQueue(name="Q", depth_max=7)),
            lambda: commands.delete("QLOCAL", "Q", purge=True),
            lambda: commands.clear("Q"),
            lambda: commands.clear_retained("prices"),
        ]
        for change in changes:
            with pytest.raises(NotAuthorized):
                change()
        assert office.server.asked == []
        assert house.host.find("QLOCAL", "NEW") is None
        assert house.depth("Q") == 1

    inside(work)


def test_what_a_user_may_not_see_is_not_shown(inside: Inside) -> None:
    async def work(house: House) -> None:
        allowed(house, "PROFILE('Q') OBJTYPE(QUEUE) AUTHADD(DSP)", "PROFILE('C1') OBJTYPE(CHANNEL) AUTHADD(DSP)")
        ann, root = Office(house, ANN), Office(house, ROOT)
        rows: list[dict[str, int | float | str]] = [{"CHANNEL": "C1"}, {"CHANNEL": "C2"}]
        ann.server.rows = root.server.rows = rows
        assert [each.name for each in ann.commands.definitions()] == ["Q"]
        assert {"Q", "R"} <= {each.name for each in root.commands.definitions()}
        assert ann.commands.find("QLOCAL", "Q") is not None
        assert ann.commands.queue_status("Q")["CURDEPTH"] == 0
        assert (ann.commands.running("CHSTATUS"), root.commands.running("CHSTATUS")) == (rows[:1], rows)
        assert root.commands.running("CONN") == rows
        hidden: list[Callable[[], Any]] = [
            lambda: ann.commands.find("QLOCAL", "R"),
            lambda: ann.commands.queue_status("R"),
            lambda: ann.commands.running("CONN"),
            ann.commands.manager_attributes,
        ]
        for look in hidden:
            with pytest.raises(NotAuthorized):
                look()

    inside(work)


def test_admission_is_told_of_what_concerns_it_and_of_nothing_else(inside: Inside) -> None:
    async def work(house: House) -> None:
        office = Office(house, ROOT)
        commands = office.commands
        commands.define(LocalQueue(name="NEW"), replace=False)
        commands.delete("QLOCAL", "NEW", purge=False)
        assert office.changes_told == 0
        found = next(each for each in house.host.definitions() if isinstance(each, AuthorityRecord))
        commands.define(found, replace=True)
        commands.alter(commands.manager_attributes())
        commands.delete(found.kind, found.name, purge=False)
        assert office.changes_told == 3

    inside(work)


def test_a_subscription_belongs_to_who_defines_it_and_stays_with_him(inside: Inside) -> None:
    async def work(house: House) -> None:
        wanted = SubscriptionDefinition(name="S", topic="prices", destination="Q", managed=False, user="somebody else")
        for user in ("root", "other"):
            commands = Office(house, Identity(user, administrator=True)).commands
            commands.define(wanted if user == "root" else house.host.find("SUB", "S"), replace=user == "other")  # type: ignore[arg-type]
            found = house.host.find("SUB", "S")
            assert isinstance(found, SubscriptionDefinition) and found.user == "root"

    inside(work)
