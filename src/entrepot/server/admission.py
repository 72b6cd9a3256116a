# SPDX-License-Identifier: Apache-2.0
"""Who comes in, and as whom: passwords, certificates, address rules, and how many at a time."""

from __future__ import annotations

import asyncio
import os
import pwd
import socket
import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from entrepot.engine.definitions import CLIENT_CHANNEL, AuthorityRecord, Channel, ChannelRule
from entrepot.engine.host import Host
from entrepot.engine.quotas import CONNECTIONS
from entrepot.errors import (
    AddressBlocked,
    AuthenticationFailed,
    CertificateUnusable,
    ChannelNotAvailable,
    EntrepotError,
    NotAuthorized,
    TooManyConnections,
    UserLimitReached,
)
from entrepot.server.connection_limiter import ConnectionLimiter
from entrepot.server.password_checks import PasswordChecks
from entrepot.server.security.addresses import parse_address
from entrepot.server.security.authority import Authority
from entrepot.server.security.channel_rules import Refused, blocks_address, decide
from entrepot.server.security.distinguished_name import fits as peer_fits
from entrepot.server.security.tls import peer_name
from entrepot.server.security.users import ADMINISTRATORS, Users, own_names
from entrepot.server.session_registry import Identity

STRANGERS_MAX = 4_000
STRANGERS_PER_ADDRESS_MAX = 1_000
_PEER_CREDENTIALS = struct.Struct("iII")

Audit = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known about a connection before it says anything."""

    address: str
    """An IP address, or `unix`."""
    uid: int | None = None
    """Of the process at the other end of a Unix socket."""
    tls: bool = False
    tls_peer: str = ""
    """The distinguished name in its certificate, if it has shown one that our authority has signed."""

    @classmethod
    def of(cls, transport: Any) -> Caller:
        """The caller at the other end of an asyncio transport."""
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family == socket.AF_UNIX:
            credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER_CREDENTIALS.size)
            _, uid, _ = _PEER_CREDENTIALS.unpack(credentials)
            return cls("unix", uid=uid)
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else "unknown"  # it has gone before anybody could look
        ssl_object = transport.get_extra_info("ssl_object")
        if ssl_object is None:
            return cls(address)
        certificate = ssl_object.getpeercert(binary_form=True)
        return cls(address, tls=True, tls_peer=_named(certificate) if certificate else "")

    @property
    def is_loopback(self) -> bool:
        address = parse_address(self.address)
        return self.uid is not None or (address is not None and address.is_loopback)


class Admission:
    """The door of one server; on the loop's thread but for the hashing of passwords."""

    def __init__(self, host: Host, users: Users, authority: Authority, audit: Audit) -> None:
        self._host = host
        self.users = users
        self._authority = authority
        self._audit = audit
        self.strangers = ConnectionLimiter(STRANGERS_MAX, STRANGERS_PER_ADDRESS_MAX)
        """Connections of TCP that are not admitted yet, or are being refused."""
        self.checks = PasswordChecks(users, asyncio.get_running_loop().time)
        self._rules: list[ChannelRule] = []
        self.stopped: set[str] = set()
        """Client channels that an administrator has stopped, until the next start."""
        self._on_channel: Counter[str] = Counter()
        self._on_channel_from: Counter[tuple[str, str]] = Counter()
        self.refresh()

    def meet(self, caller: Caller) -> bool:
        """Whether one more connection may show who it is; if so, it has to `part`."""
        met = caller.uid is not None or self.strangers.enter(caller.address)
        if not met:
            self.turned_away(caller, "connections that are not admitted yet")
        return met

    def part(self, caller: Caller) -> None:
        """The connection is admitted, or gone."""
        if caller.uid is None:
            self.strangers.leave(caller.address)

    def turned_away(self, caller: Caller, limit: str) -> None:
        """A connection was ended before it could say anything."""
        self._audit("refused", address=caller.address, reason=f"limit reached: {limit}")

    def channel(self, name: str) -> Channel:
        """The definition of a channel; a nameless one is the default for clients.

        Raises:
            ChannelNotAvailable: There is none.
        """
        found = self._host.find("CHANNEL", name or CLIENT_CHANNEL)
        if not isinstance(found, Channel):
            raise ChannelNotAvailable(name, "there is no such channel")
        return found

    def channel_of(self, identity: Identity) -> Channel:
        """The definition by which an admitted partner is treated; the local binding goes on without any."""
        found = self._host.find("CHANNEL", identity.channel or CLIENT_CHANNEL)
        return found if isinstance(found, Channel) else Channel(name="")

    async def admit(
        self,
        caller: Caller,
        *,
        kind: Literal["SVRCONN", "RCVR"],
        channel: str,
        user: str,
        password: str,
        application: str,
    ) -> Identity:
        """Let a partner in, as somebody, and count it until `leave`.

        Raises:
            AuthenticationFailed, AddressBlocked: After a pause, with the same words whatever the cause.
            ChannelNotAvailable, TooManyConnections: It may not use the channel, or not now.
        """
        try:
            identity = await self._identify(caller, kind, channel, user, password)
            self._require_room(identity)
        except (TooManyConnections, UserLimitReached) as error:
            self._audit("refused", user=user, address=caller.address, channel=channel, reason=error.what)
            raise
        except EntrepotError as error:
            self._audit("refused", user=user, address=caller.address, channel=channel, reason=_why(error))
            await asyncio.sleep(self.checks.failure_delay_s(caller.address))
            if isinstance(error, AuthenticationFailed | AddressBlocked | NotAuthorized):
                raise
            # What is wrong with our own files and rules is not for a stranger to read.
            raise AuthenticationFailed() from error
        self._count(identity)
        self._audit(
            "connected", user=identity.user, address=caller.address, channel=identity.channel, object=application
        )
        return identity

    def _count(self, identity: Identity) -> None:
        self._on_channel[identity.channel] += 1
        self._on_channel_from[identity.channel, identity.address] += 1

    def leave(self, identity: Identity) -> None:
        """An admitted partner has gone."""
        self._host.manager.quotas.let_go(CONNECTIONS, identity.user, id(identity))
        self._on_channel[identity.channel] -= 1
        self._on_channel_from[identity.channel, identity.address] -= 1
        if not self._on_channel_from[identity.channel, identity.address]:
            del self._on_channel_from[identity.channel, identity.address]

    def instances(self, channel: str) -> int:
        return self._on_channel[channel]

    async def _identify(
        self, caller: Caller, kind: Literal["SVRCONN", "RCVR"], channel_name: str, user: str, password: str
    ) -> Identity:
        self.users.refresh()
        if caller.uid is not None and not user and not channel_name and kind == "SVRCONN":
            return self._local(caller.uid)
        blocking = blocks_address(self._rules, caller.address)
        if blocking is not None:
            # First of all, so that an address that is kept out costs no hash.
            raise _refusal(Refused("BLOCKADDR", blocking), caller.address)
        # Before anything is said about the channel, so that the time it takes does not tell which ones there are.
        shown = await self._verified(caller, user, password)
        definition = self._usable(channel_name, kind)
        self._require_tls(definition, caller)
        self._require_password(definition, caller, shown)
        verdict = decide(
            self._rules,
            channel=definition.name,
            address=caller.address,
            client_user=shown,
            tls_peer=caller.tls_peer,
            channel_user=definition.user,
            administrators=self.users.administrators() | own_names(),
        )
        if isinstance(verdict, Refused):
            raise _refusal(verdict, caller.address)
        if not (caller.is_loopback or shown or caller.tls_peer):
            # Over the network an identity has to be proven; the channel's user is not enough.
            raise AuthenticationFailed() from _Cause("neither a password nor a certificate, over the network")
        groups = self.users.groups_of(verdict.user)
        identity = Identity(
            verdict.user, groups, caller.address, definition.name, administrator=ADMINISTRATORS in groups
        )
        if kind == "SVRCONN" and not self._authority.allows(
            identity.user, groups, "QMGR", self._host.settings.name, "CONNECT"
        ):
            raise NotAuthorized(identity.user, self._host.settings.name, "CONNECT")
        return identity

    def _local(self, uid: int) -> Identity:
        """The standard binding: the kernel says who is at the other end of a Unix socket."""
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            name = str(uid)
        # Who could read the queue manager's files anyway may do everything with it.
        if uid in (os.geteuid(), 0):
            return Identity(name, frozenset({ADMINISTRATORS}), "unix", "", administrator=True)
        groups = self.users.groups_of(name)
        return Identity(name, groups, "unix", "", administrator=ADMINISTRATORS in groups)

    def _usable(self, name: str, kind: str) -> Channel:
        try:
            definition = self.channel(name)
        except ChannelNotAvailable:
            # Before authentication a partner is not told which channels exist.
            raise AuthenticationFailed() from _Cause("unknown channel")
        if definition.channel_type != kind:
            raise AuthenticationFailed() from _Cause(f"channel of type {definition.channel_type}, wanted as {kind}")
        if definition.name in self.stopped:
            raise AuthenticationFailed() from _Cause("the channel is stopped")
        return definition

    def _require_tls(self, definition: Channel, caller: Caller) -> None:
        if not definition.tls:
            return
        if not caller.tls:
            raise AuthenticationFailed() from _Cause("not encrypted, and SSLCIPH of the channel wants TLS")
        if definition.tls_client_required and not caller.tls_peer:
            raise AuthenticationFailed() from _Cause("no client certificate, and SSLCAUTH of the channel wants one")
        if definition.tls_peer and not peer_fits(definition.tls_peer, caller.tls_peer):
            problem = f"certificate {caller.tls_peer!r} does not fit SSLPEER({definition.tls_peer})"
            raise AuthenticationFailed() from _Cause(problem)

    async def _verified(self, caller: Caller, user: str, password: str) -> str:
        """The user whose password was shown, or nobody when none was.

        Raises:
            AuthenticationFailed: The password is wrong.
        """
        if not (user or password) or self._host.manager_attributes().password_check == "NONE":  # noqa: S105
            return ""
        if not await self.checks.verify(caller.address, user, password):
            raise AuthenticationFailed() from _Cause(self._what_is_wrong_with(user))
        return user

    def _what_is_wrong_with(self, user: str) -> str:
        if not user:
            return "a password without a user"
        return "wrong password" if self.users.knows(user) else "unknown user"

    def _require_password(self, definition: Channel, caller: Caller, shown: str) -> None:
        certified = bool(definition.tls and definition.tls_client_required and caller.tls_peer)
        required = self._host.manager_attributes().password_check == "REQUIRED"  # noqa: S105
        if required and not shown and not certified and definition.channel_type == "SVRCONN":
            raise AuthenticationFailed() from _Cause("no password, and CHCKCLNT(REQUIRED) wants one")

    def refresh(self) -> None:
        """Definitions have changed: live by those that are there now."""
        enabled = self._host.manager_attributes().channel_rules_enabled
        definitions = list(self._host.definitions())
        self._rules = [rule for rule in definitions if isinstance(rule, ChannelRule)] if enabled else []
        self._authority.changed([record for record in definitions if isinstance(record, AuthorityRecord)])

    def _require_room(self, identity: Identity) -> None:
        if identity.channel:
            self._require_instances(identity)
        limited = not identity.administrator
        self._host.manager.quotas.hold(CONNECTIONS, identity.user, id(identity), limited=limited)

    def _require_instances(self, identity: Identity) -> None:
        definition = self.channel(identity.channel)
        if self._on_channel[identity.channel] >= definition.instances_max:
            raise TooManyConnections(f"channel {identity.channel}", definition.instances_max)
        if self._on_channel_from[identity.channel, identity.address] >= definition.instances_per_address_max:
            what_of = f"channel {identity.channel} from {identity.address}"
            raise TooManyConnections(what_of, definition.instances_per_address_max)


def _named(certificate: bytes) -> str:
    try:
        return peer_name(certificate)
    except CertificateUnusable:
        return ""  # our authority has signed something strange; it names nobody


def _refusal(verdict: Refused, address: str) -> EntrepotError:
    error = verdict.as_error(address)
    error.__cause__ = _Cause(verdict.reason())
    return error


class _Cause(Exception):
    """Why a partner was refused: for the audit log, and never for the partner."""


def _why(error: EntrepotError) -> str:
    return str(error.__cause__) if isinstance(error.__cause__, _Cause) else error.what
