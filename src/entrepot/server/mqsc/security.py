# SPDX-License-Identifier: Apache-2.0
"""SET AUTHREC, DELETE AUTHREC and SET CHLAUTH carried out: records and rules found, merged and replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from entrepot.engine.definitions import AuthorityRecord, ChannelRule, authority_key
from entrepot.errors import MqscCommandFailed
from entrepot.server.mqsc.administered import Administered
from entrepot.server.mqsc.commands import DeleteAuthority, Entity, SetAuthority, SetRule
from entrepot.server.mqsc.keywords import require_valid
from entrepot.server.mqsc.security_keywords import RULE_MATCHES
from entrepot.server.mqsc.syntax import Position, Value

_OWN_MANAGER = "SELF"
"""How MQ's own dumps call the queue manager that they are of."""


class SecurityRun:
    """One command about authorities or rules on its way to its answer."""

    def __init__(self, administered: Administered, refusal: Callable[[Position, str], MqscCommandFailed]) -> None:
        self._administered = administered
        self._refusal = refusal

    # --- authority records --------------------------------------------------------------------

    def set_authority(self, command: SetAuthority) -> list[str]:
        """Take away first, then give: what AUTHADD and AUTHRMV both name is there afterwards."""
        profile = self._profile(command.object_type, command.profile)
        lines = []
        for record in [self._record(command, profile, entity) for entity in command.entities]:
            kept = [word for word in record.authorities if word not in command.removed]
            changed = msgspec.structs.replace(record, authorities=tuple(dict.fromkeys((*kept, *command.added))))
            if command.description is not None:
                changed = msgspec.structs.replace(changed, description=command.description)
            require_valid(changed)
            self._administered.define(changed, replace=True)
            lines.append(f"{_whose(record)}: {', '.join(changed.authorities) or 'none'}.")
        return lines

    def _record(self, command: SetAuthority, profile: str, entity: Entity) -> AuthorityRecord:
        found = self._find_record(command.object_type, profile, entity)
        if found is not None:
            return found
        made = _new_record(command.object_type, profile, entity)
        if not command.creates:
            raise self._missing(made, command.profile)
        return made

    def delete_authority(self, command: DeleteAuthority) -> list[str]:
        profile = self._profile(command.object_type, command.profile)
        records = []
        for entity in command.entities:
            found = self._find_record(command.object_type, profile, entity)
            if found is None:
                raise self._missing(_new_record(command.object_type, profile, entity), command.profile)
            records.append(found)
        for record in records:
            self._administered.delete(record.kind, record.name, purge=False)
        return [f"{_whose(record)}: deleted." for record in records]

    def _profile(self, object_type: str, said: Value) -> str:
        """There is one queue manager, so its records have no profile; a script may name it all the same."""
        if object_type != "QMGR":
            return said.text
        own = self._administered.manager_attributes().name
        if said.text not in ("", own) and said.text.upper() != _OWN_MANAGER:
            raise self._refusal(said.at, f"{said.text} is another queue manager, this one is {own}")
        return ""

    def _find_record(self, object_type: str, profile: str, entity: Entity) -> AuthorityRecord | None:
        found = self._administered.find(AuthorityRecord.kind, authority_key(object_type, profile, *entity))
        return found if isinstance(found, AuthorityRecord) else None

    def _missing(self, record: AuthorityRecord, said: Value) -> MqscCommandFailed:
        whose = _whose(record)
        return self._refusal(said.at, f"there is no {whose[0].lower()}{whose[1:]} (DISPLAY AUTHREC lists them)")

    # --- channel rules ------------------------------------------------------------------------

    def set_rule(self, command: SetRule) -> list[str]:
        existing = {
            definition.name: definition
            for definition in self._administered.definitions()
            if isinstance(definition, ChannelRule)
            and (definition.rule, definition.profile) == (command.rule, command.profile.text)
        }
        if command.action == "REMOVEALL":
            if not existing:
                raise self._no_rule(command)
            self._remove(existing)
        elif command.rule == "BLOCKUSER":
            self._block_users(command, command.rules[0], existing)
        elif command.action == "REMOVE":
            if any(rule.name not in existing for rule in command.rules):
                raise self._no_rule(command)
            self._remove(rule.name for rule in command.rules)
        else:
            self._make_rules(command, existing)
        return [f"Channel rules of type {command.rule} for {command.profile.text} changed."]

    def _make_rules(self, command: SetRule, existing: dict[str, ChannelRule]) -> None:
        # Blocked addresses are one list to MQ, so adding one that is there already is no mistake.
        replace = command.action == "REPLACE" or command.rule == "BLOCKADDR"
        for rule in command.rules:
            if rule.name in existing and not replace:
                problem = f"a rule of type {rule.rule} for {rule.profile} that matches the same exists already"
                raise self._refusal(command.profile.at, f"{problem} (use ACTION(REPLACE))")
        for rule in command.rules:
            require_valid(rule)
            self._administered.define(rule, replace=replace)

    def _block_users(self, command: SetRule, said: ChannelRule, existing: dict[str, ChannelRule]) -> None:
        """There is one list of users for a profile: ADD adds to it and REMOVE removes from it."""
        old = existing.get(said.name)
        if command.action == "REMOVE" and (old is None or not set(said.users).issubset(old.users)):
            raise self._no_rule(command)
        changed = said
        if old is not None and command.action != "REPLACE":
            kept = [user for user in old.users if command.action == "ADD" or user not in said.users]
            added = said.users if command.action == "ADD" else ()
            users = tuple(dict.fromkeys((*kept, *added)))
            changed = msgspec.structs.replace(old, users=users, description=said.description or old.description)
        if not changed.users:
            self._remove([changed.name])
            return
        require_valid(changed)
        self._administered.define(changed, replace=True)

    def _remove(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            self._administered.delete(ChannelRule.kind, name, purge=False)

    def _no_rule(self, command: SetRule) -> MqscCommandFailed:
        which = "" if command.action == "REMOVEALL" else f" with this {RULE_MATCHES[command.rule]}"
        problem = f"there is no rule of type {command.rule} for {command.profile.text}{which}"
        return self._refusal(command.profile.at, f"{problem} (DISPLAY CHLAUTH lists them)")


def _new_record(object_type: str, profile: str, entity: Entity) -> AuthorityRecord:
    principal, group = entity
    fields = {"profile": profile, "object_type": object_type, "principal": principal, "group": group}
    return AuthorityRecord(name=authority_key(object_type, profile, *entity), **fields)  # type: ignore[arg-type]


def _whose(record: AuthorityRecord) -> str:
    whom = f"user {record.principal}" if record.principal else f"group {record.group}"
    return f"Authority of {whom} for {record.object_type} {record.profile}".rstrip()
