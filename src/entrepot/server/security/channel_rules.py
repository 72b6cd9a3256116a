# SPDX-License-Identifier: Apache-2.0
"""From where, by whom and as whom a channel may be used: MQ's channel authentication records.

In this order, and the first that refuses ends it:

1. BLOCKADDR: any rule whose address fits keeps the connection out.
2. One rule maps the connection to a user: of those that fit, the one with
   the most specific channel profile; among its equals SSLPEERMAP beats
   USERMAP beats ADDRESSMAP; then the most specific certificate or user
   name, then the narrowest address. NOACCESS refuses, MAP gives its own
   user, CHANNEL leaves him as he is.
3. Without a rule he is who his password showed, else the channel's user.
4. BLOCKUSER: the rules with the most specific channel profile that fits,
   and no others, keep users out; `*MQADMIN` is every administrator.

So `*` blocks administrators on all channels, and one rule for one channel
that blocks `nobody` opens that one to them, as in MQ.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Literal

from entrepot.engine.definitions import ChannelRule
from entrepot.errors import AddressBlocked, AuthenticationFailed, SecurityError
from entrepot.server.security import addresses, distinguished_name
from entrepot.server.security.profiles import matches_text, rank

EVERY_ADMINISTRATOR = "*MQADMIN"

Because = Literal["BLOCKADDR", "NOACCESS", "BLOCKUSER", "NOUSER"]

_MAPPINGS = ("SSLPEERMAP", "USERMAP", "ADDRESSMAP")
"""The most specific first."""


@dataclass(frozen=True, slots=True)
class Allowed:
    user: str
    """As whom the partner acts."""
    rule: ChannelRule | None
    """The rule that mapped him, if one did."""


@dataclass(frozen=True, slots=True)
class Refused:
    because: Because
    rule: ChannelRule | None
    """For the audit log; the partner is not told."""
    user: str = ""

    def reason(self) -> str:
        """For the audit log."""
        if self.rule is None:
            return "neither password, certificate, rule nor channel says who it is"
        what = {"BLOCKUSER": f"user {self.user} is blocked", "NOUSER": "no user"}.get(self.because, self.because)
        rule = self.rule
        matched = rule.address or rule.client_user or rule.tls_peer or ",".join(rule.users)
        return f"{what} by rule CHLAUTH({rule.profile}) TYPE({rule.rule}) for {matched}"

    def as_error(self, address: str) -> SecurityError:
        """What the partner is told: an address that is kept out, or nothing but no."""
        return AddressBlocked(address) if self.because == "BLOCKADDR" else AuthenticationFailed()


Verdict = Allowed | Refused


def decide(
    rules: Iterable[ChannelRule],
    *,
    channel: str,
    address: str,
    client_user: str,
    tls_peer: str,
    channel_user: str,
    administrators: Container[str],
) -> Verdict:
    """Who somebody is on a channel, or that he may not use it.

    `client_user` has shown his password, or is empty: a name that is only
    claimed must not come here. `tls_peer` is `tls.peer_name` of a verified
    certificate, or empty. `channel_user` is the channel's MCAUSER.

    Raises:
        InvalidSetting: A rule's pattern is none; nobody comes in past a rule that cannot be understood.
    """
    fitting = [rule for rule in rules if matches_text(rule.profile, channel)]
    for rule in fitting:
        if rule.rule == "BLOCKADDR" and _keeps_out(rule, address):
            return Refused("BLOCKADDR", rule)
    mapping = min(
        (rule for rule in fitting if rule.rule in _MAPPINGS and _fits(rule, address, client_user, tls_peer)),
        key=_specificity,
        default=None,
    )
    user = client_user or channel_user
    if mapping is not None:
        if mapping.user_source == "NOACCESS":
            return Refused("NOACCESS", mapping, user)
        user = mapping.user if mapping.user_source == "MAP" else user
    if not user:
        return Refused("NOUSER", mapping)
    blocking = _blocks(fitting, user, administrators)
    return Allowed(user, mapping) if blocking is None else Refused("BLOCKUSER", blocking, user)


def _patterns(rule: ChannelRule) -> list[str]:
    """MQ's ADDRLIST has several addresses, with commas; ADDRESS has one."""
    return [part.strip() for part in rule.address.split(",")] if rule.rule == "BLOCKADDR" else [rule.address]


def _keeps_out(rule: ChannelRule, address: str) -> bool:
    return any(addresses.fits(pattern, address) for pattern in _patterns(rule))


def _fits(rule: ChannelRule, address: str, client_user: str, tls_peer: str) -> bool:
    if not addresses.fits(rule.address or "*", address):
        return False
    if rule.rule == "SSLPEERMAP":
        return distinguished_name.fits(rule.tls_peer, tls_peer)
    if rule.rule == "USERMAP":
        return bool(client_user) and matches_text(rule.client_user, client_user)
    return True


def _specificity(rule: ChannelRule) -> tuple[object, ...]:
    """A sort key, lowest first; rules of different types never come to the comparison of what they match."""
    what: dict[str, Callable[[], object]] = {
        "SSLPEERMAP": lambda: distinguished_name.rank(rule.tls_peer),
        "USERMAP": lambda: rank(rule.client_user),
        "ADDRESSMAP": lambda: (),
    }
    return (
        rank(rule.profile),
        _MAPPINGS.index(rule.rule),
        what[rule.rule](),
        addresses.width(rule.address or "*"),
        rule.name,
    )


def _blocks(fitting: Iterable[ChannelRule], user: str, administrators: Container[str]) -> ChannelRule | None:
    blocking = [rule for rule in fitting if rule.rule == "BLOCKUSER"]
    most_specific = min((rank(rule.profile) for rule in blocking), default=None)
    for rule in blocking:
        if rank(rule.profile) == most_specific:
            for name in rule.users:
                if user in administrators if name == EVERY_ADMINISTRATOR else matches_text(name, user):
                    return rule
    return None


def blocks_address(rules: Iterable[ChannelRule], address: str) -> ChannelRule | None:
    """The rule that keeps an address out of every channel, for whoever accepts connections: no byte need be read.

    Raises:
        InvalidSetting: A rule's pattern is none.
    """
    for rule in rules:
        if rule.rule == "BLOCKADDR" and rule.profile == "*" and _keeps_out(rule, address):
            return rule
    return None
