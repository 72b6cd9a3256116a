# SPDX-License-Identifier: Apache-2.0
"""What SET AUTHREC, DELETE AUTHREC and SET CHLAUTH mean, checked as far as that goes without a queue manager."""

from __future__ import annotations

from typing import Any

from entrepot.engine.definitions import ChannelRule, rule_key
from entrepot.server.mqsc.commands import DeleteAuthority, Entity, SetAuthority, SetRule
from entrepot.server.mqsc.parameters import Parameters, ParsedParameters
from entrepot.server.mqsc.security_keywords import (
    AUTHORITIES_WITHOUT_EFFECT,
    AUTHREC,
    CHLAUTH,
    MAPS,
    authorities_of,
    expanded,
    profile_fits,
)
from entrepot.server.mqsc.syntax import Position, Value
from entrepot.server.mqsc.wording import listed

# What a rule that goes is known by; with REMOVEALL the profile and the type are enough.
_KNOWN_BY = {"ADDRESS", "ADDRLIST", "CLNTUSER", "SSLPEER", "USERLIST"}


class SecurityChecker:
    """Reads the parameters of one command; `at` is where its noun stands."""

    def __init__(self, parameters: Parameters, at: Position) -> None:
        self._parameters = parameters
        self._at = at

    # --- authority records --------------------------------------------------------------------

    def set_authority(self) -> SetAuthority | None:
        said = self._parameters.attributes(AUTHREC, "SET")
        named = self._named(said, "SET")
        if named is None:
            return None
        object_type = named[1]
        if not {"AUTHADD", "AUTHRMV"} & said.values.keys():
            self._parameters.error(self._at, "SET AUTHREC needs AUTHADD or AUTHRMV")
        return SetAuthority(
            *named,
            added=self._authorities(said, "AUTHADD", object_type),
            removed=self._authorities(said, "AUTHRMV", object_type),
            description=said.changes.get("description"),
            creates="AUTHADD" in said.values,
        )

    def delete_authority(self) -> DeleteAuthority | None:
        said = self._parameters.attributes(AUTHREC, "DELETE")
        if "DESCR" in said.places:
            self._parameters.error(said.places["DESCR"], "DESCR does not go with DELETE AUTHREC")
        named = self._named(said, "DELETE")
        return None if named is None else DeleteAuthority(*named)

    def _named(self, said: ParsedParameters, verb: str) -> tuple[Value, str, tuple[Entity, ...]] | None:
        """Which records the command is about; None after an error."""
        error = self._parameters.error
        object_type = said.changes.get("object_type")
        if "object_type" not in said.changes:
            error(self._at, f"{verb} AUTHREC needs OBJTYPE: {AUTHREC.attributes[1].form.expected}")
        profile = Value(said.changes.get("profile") or "", said.places.get("PROFILE", self._at))
        if "profile" not in said.changes and object_type not in (None, "QMGR"):
            error(self._at, f"{verb} AUTHREC needs PROFILE: the names of the {object_type}s it is for")
        if object_type is not None and not profile_fits(object_type, profile.text):
            error(profile.at, f"PROFILE cannot be {profile.text}. Expected: {AUTHREC.attributes[0].form.expected}")
        entities: list[Entity] = [(user, "") for user in said.values.get("PRINCIPAL") or ()]
        entities += [("", group) for group in said.values.get("GROUP") or ()]
        if not entities and not self._parameters.errors:
            error(self._at, f"{verb} AUTHREC needs PRINCIPAL or GROUP: whom it is about")
        if self._parameters.errors or object_type is None:
            return None
        return profile, object_type, tuple(dict.fromkeys(entities))

    def _authorities(self, said: ParsedParameters, option: str, object_type: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        known = authorities_of(object_type)
        for word in said.values.get(option, ()):
            if word in AUTHORITIES_WITHOUT_EFFECT:
                self._parameters.warnings.append(f"{word}: accepted without effect")
            for authority in expanded(object_type, word):
                if authority not in known:
                    problem = f"{option} of a {object_type} takes {listed(known)}, not {authority}"
                    self._parameters.error(said.places[option], problem)
                found[authority] = None
        return tuple(found)

    # --- channel rules ------------------------------------------------------------------------

    def set_rule(self, profile: Value) -> SetRule | None:
        said = self._parameters.attributes(CHLAUTH, "SET")
        rule = said.changes.get("rule")
        if "rule" not in said.changes:
            self._parameters.error(self._at, f"SET CHLAUTH needs TYPE: {CHLAUTH.attributes[1].form.expected}")
        action = said.values.get("ACTION", "ADD")
        if action in ("REMOVE", "REMOVEALL"):
            self._require_no_more_than_needed(said, action)
        addresses = self._addresses(said)
        if self._parameters.errors or rule is None:
            return None
        if action == "REMOVEALL":
            return SetRule(profile, rule, action, ())
        if action == "REMOVE" and rule in MAPS:
            said.changes["user_source"] = "NOACCESS"  # as whom nobody acts any more need not be said
        rules = tuple(_rule(profile.text, said.changes, address) for address in addresses)
        self._require_rules(said, rules[0])
        return SetRule(profile, rule, action, rules)

    def _require_no_more_than_needed(self, said: ParsedParameters, action: str) -> None:
        allowed = {"TYPE", "ACTION", *(_KNOWN_BY if action == "REMOVE" else ())}
        for keyword, at in said.places.items():
            if keyword not in allowed and (keyword in _KNOWN_BY or CHLAUTH.attribute(keyword)):
                self._parameters.error(at, f"{keyword} does not go with ACTION({action})")

    def _addresses(self, said: ParsedParameters) -> tuple[str, ...]:
        """The addresses that a rule has to be made for, each."""
        one = (said.changes.get("address") or "",)
        several: tuple[str, ...] = tuple(dict.fromkeys(said.values.get("ADDRLIST") or ()))
        if "ADDRLIST" not in said.places:
            return one
        at = said.places["ADDRLIST"]
        if said.changes.get("rule") not in ("BLOCKADDR", None):
            problem = f"ADDRLIST does not go with TYPE({said.changes['rule']}): it belongs to BLOCKADDR"
            self._parameters.error(at, problem)
        elif "address" in said.changes:
            self._parameters.error(at, "ADDRLIST contradicts ADDRESS: one of them says which addresses are blocked")
        return several or one

    def _require_rules(self, said: ParsedParameters, rule: ChannelRule) -> None:
        for broken in filter(None, (check(rule) for check in CHLAUTH.rules)):
            keyword, text, expected = broken
            problem = "is missing" if text == "missing" else f"cannot be {text}"
            self._parameters.error(said.places.get(keyword, self._at), f"{keyword} {problem}. Expected: {expected}")


def _rule(profile: str, changes: dict[str, Any], address: str) -> ChannelRule:
    key = rule_key(
        changes["rule"],
        profile,
        address=address,
        client_user=changes.get("client_user", ""),
        tls_peer=changes.get("tls_peer", ""),
    )
    return ChannelRule(**{**changes, "name": key, "profile": profile, "address": address})
