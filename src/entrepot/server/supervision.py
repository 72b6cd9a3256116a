# SPDX-License-Identifier: Apache-2.0
"""MQSC from a session: every command is carried out only if its user may, and control reaches the running server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from entrepot.engine.definitions import (
    AuthorityRecord,
    ChannelRule,
    Definition,
    ManagerAttributes,
    SubscriptionDefinition,
)
from entrepot.engine.host import Host
from entrepot.errors import NotAuthorized
from entrepot.server.security.authority import Authority, needed_for
from entrepot.server.security.targets import rights_on_targets
from entrepot.server.session_registry import Identity

_ADMISSION_KINDS = (AuthorityRecord.kind, ChannelRule.kind, ManagerAttributes.kind)


class ServerControl(Protocol):
    """What a server offers to administrators; all of it may be called from any thread but the loop's."""

    def definitions_changed(self) -> None: ...

    def start_object(self, kind: str, name: str) -> None: ...

    def stop_object(self, kind: str, name: str, *, force: bool, inactive: bool) -> None: ...

    def reset_channel(self, name: str, sequence: int) -> None: ...

    def resolve_channel(self, name: str, *, commit: bool) -> None: ...

    def ping_channel(self, name: str) -> str: ...

    def running(self, noun: str) -> list[dict[str, int | float | str]]: ...

    def refused(self, identity: Identity, error: NotAuthorized) -> None:
        """Somebody may not what he wanted to do."""

    def commanded(self, identity: Identity, verb: str, kind: str, name: str) -> None:
        """An administrator's command is about to be carried out; raises when it cannot be audited."""


class SupervisedManager:
    """mqsc's Administered for one partner; runs in the office's thread."""

    def __init__(self, host: Host, identity: Identity, authority: Authority, control: ServerControl) -> None:
        self._host = host
        self._identity = identity
        self._authority = authority
        self._control = control

    def _require_definable(self, verb: str, definition: Definition, existing: Definition | None) -> None:
        """Refuse a DEFINE or ALTER unless the user has the right, and what the definition grants on its targets."""
        changed = _changed(existing, definition)
        targets = rights_on_targets(definition, changed, self._host.settings.name)
        self._require(verb, definition.kind, definition.name, changed, targets)

    def _require(
        self,
        verb: str,
        kind: str,
        name: str,
        changed: Iterable[str] = (),
        targets: Iterable[tuple[str, str]] = (),
    ) -> None:
        identity = self._identity
        if not identity.administrator:
            try:
                self._authority.require_command(identity.user, identity.groups, verb, kind, name, changed)
                for target, word in targets:
                    self._authority.require(identity.user, identity.groups, "QUEUE", target, word)
            except NotAuthorized as error:
                self._control.refused(identity, error)
                raise
        if verb != "DISPLAY":
            self._control.commanded(identity, verb, kind, name)

    def _may_see(self, kind: str, name: str) -> bool:
        identity = self._identity
        if identity.administrator:
            return True
        need = needed_for("DISPLAY", kind)
        return need is not None and self._authority.allows(
            identity.user, identity.groups, need.object_type, name, need.word
        )

    # --- looking --------------------------------------------------------------------------------

    def manager_attributes(self) -> ManagerAttributes:
        attributes = self._host.manager_attributes()
        if not self._may_see("QMGR", attributes.name):
            raise NotAuthorized(self._identity.user, attributes.name, "DSP")
        return attributes

    def definitions(self) -> Iterable[Definition]:
        return [each for each in self._host.definitions() if self._may_see(each.kind, each.name)]

    def find(self, kind: str, name: str) -> Definition | None:
        if not self._may_see(kind, name):
            raise NotAuthorized(self._identity.user, name, "DSP")
        return self._host.find(kind, name)

    def queue_status(self, name: str) -> Mapping[str, int | float | str]:
        if not self._may_see("QUEUE", name):
            raise NotAuthorized(self._identity.user, name, "DSP")
        return self._host.queue_status(name)

    def running(self, noun: str) -> list[dict[str, int | float | str]]:
        rows = self._control.running(noun)
        if noun == "CHSTATUS":
            return [row for row in rows if self._may_see("CHANNEL", str(row["CHANNEL"]))]
        if not self._may_see("QMGR", self._host.settings.name):
            raise NotAuthorized(self._identity.user, self._host.settings.name, "DSP")
        return rows

    # --- changing -------------------------------------------------------------------------------

    def define(self, definition: Definition, *, replace: bool) -> None:
        # Without REPLACE it must be new, and who may not define is not told whether it would be.
        existing = self._host.find(definition.kind, definition.name) if replace else None
        verb = "DEFINE" if existing is None else "ALTER"
        self._require_definable(verb, definition, existing)
        if isinstance(definition, SubscriptionDefinition) and existing is None:
            definition = msgspec.structs.replace(definition, user=self._identity.user)
        self._host.define(definition, replace=replace)
        self._told(definition.kind)

    def alter(self, definition: Definition) -> None:
        existing: Definition | None = (
            self._host.manager_attributes()
            if isinstance(definition, ManagerAttributes)
            else self._host.find(definition.kind, definition.name)
        )
        self._require_definable("ALTER", definition, existing)
        self._host.alter(definition)
        self._told(definition.kind)

    def delete(self, kind: str, name: str, *, purge: bool) -> None:
        self._require("DELETE", kind, name)
        self._host.delete(kind, name, purge=purge)
        self._told(kind)

    def _told(self, kind: str) -> None:
        if kind in _ADMISSION_KINDS:
            self._control.definitions_changed()

    def clear(self, name: str) -> int:
        self._require("CLEAR", "QLOCAL", name)
        return self._host.clear(name)

    def clear_retained(self, topic: str) -> int:
        with self._host.lock:
            nearest = self._host.manager.objects.subscribers.ruling(topic).names[0]
        self._require("CLEAR", "TOPIC", nearest)
        return self._host.clear_retained(topic)

    # --- controlling ----------------------------------------------------------------------------

    def start_object(self, kind: str, name: str) -> None:
        self._require("START", kind, name)
        self._control.start_object(kind, name)

    def stop_object(self, kind: str, name: str, *, force: bool, inactive: bool) -> None:
        self._require("STOP", kind, name)
        self._control.stop_object(kind, name, force=force, inactive=inactive)

    def reset_channel(self, name: str, sequence: int) -> None:
        self._require("RESET", "CHANNEL", name)
        self._control.reset_channel(name, sequence)

    def resolve_channel(self, name: str, *, commit: bool) -> None:
        self._require("RESOLVE", "CHANNEL", name)
        self._control.resolve_channel(name, commit=commit)

    def ping_channel(self, name: str) -> str:
        self._require("PING", "CHANNEL", name)
        return self._control.ping_channel(name)


def _changed(existing: Definition | None, definition: Definition) -> set[str]:
    """The fields in which a definition differs from what was there, or from a new one's."""
    before = msgspec.structs.asdict(existing or type(definition)(name=definition.name))
    return {field for field, value in msgspec.structs.asdict(definition).items() if before.get(field) != value}
