# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from entrepot.engine.quotas import CONNECTIONS
from entrepot.errors import (
    AddressBlocked,
    AuthenticationFailed,
    ChannelNotAvailable,
    EntrepotError,
    NotAuthorized,
    TooManyConnections,
    UserLimitReached,
)
from entrepot.server import password_checks
from entrepot.server.admission import Caller
from entrepot.server.connection_limiter import ConnectionLimiter
from entrepot.server.session_registry import Identity
from entrepot.server.wire.verbs import Verb

from .guests import PASSWORDS, House, Work, greeting

Inside = Callable[[Work], None]
LOOPBACK = Caller("127.0.0.1")
REMOTE = Caller("192.0.2.7")


@pytest.fixture(autouse=True)
def short_delay(monkeypatch: pytest.MonkeyPatch) -> float:
    """A refusal takes less than a second here, but more than nothing."""
    monkeypatch.setattr(password_checks, "FAILURE_DELAY_S", 0.02)
    return 0.02


async def admit(house: House, caller: Caller = LOOPBACK, **said: Any) -> Identity:
    user = said.pop("user", "")
    return await house.admission.admit(
        caller,
        kind=said.pop("kind", "SVRCONN"),
        channel=said.pop("channel", "APP"),
        user=user,
        password=said.pop("password", PASSWORDS.get(user, "")),
        application=said.pop("application", "tests"),
    )


CAUSES = {
    "wrong password": "wrong password",
    "another's password": "wrong password",
    "blank password": "wrong password",
    "password without user": "a password without a user",
    "unknown user": "unknown user",
    "user of the machine": "unknown user",
    "nobody": "neither password, certificate, rule nor channel",
    "unknown channel": "unknown channel",
    "channel of queue managers": "channel of type RCVR",
    "stopped channel": "the channel is stopped",
    "encrypted channel": "not encrypted, and SSLCIPH of the channel wants TLS",
    "closed by a rule": "NOACCESS by rule CHLAUTH(CLOSED) TYPE(ADDRESSMAP) for *",
    "administrator": "user boss is blocked by rule CHLAUTH(*) TYPE(BLOCKUSER) for *MQADMIN",
}


async def refusal(house: House, caller: Caller = LOOPBACK, **said: Any) -> EntrepotError:
    try:
        await admit(house, caller, **said)
    except EntrepotError as error:
        return error
    raise AssertionError("it was let in")


def refusals(house: House) -> list[dict[str, Any]]:
    return [fields for event, fields in house.audit if event == "refused"]


# --- who somebody is -----------------------------------------------------------------------------


def test_at_the_unix_socket_the_kernel_says_who_it_is(inside: Inside) -> None:
    async def work(house: House) -> None:
        own = await admit(house, Caller("unix", uid=os.geteuid()), channel="")
        assert (own.administrator, own.address, own.channel) == (True, "unix", "")
        other = await admit(house, Caller("unix", uid=54321), channel="")
        assert (other.user, other.administrator, other.groups) == ("54321", False, frozenset())
        house.admission.leave(own)
        house.admission.leave(other)

    inside(work)


def test_who_names_a_user_at_the_unix_socket_has_to_show_his_password(inside: Inside) -> None:
    async def work(house: House) -> None:
        caller = Caller("unix", uid=os.geteuid())
        assert isinstance(await refusal(house, caller, user="ann", password="wrong"), AuthenticationFailed)
        found = await admit(house, caller, user="ann")
        assert (found.user, found.administrator) == ("ann", False)
        house.admission.leave(found)

    inside(work)


def test_a_password_shows_who_it_is_and_the_groups_come_from_our_file(inside: Inside) -> None:
    async def work(house: House) -> None:
        found = await admit(house, user="ann")
        assert found == Identity("ann", frozenset({"clerks"}), "127.0.0.1", "APP", administrator=False)
        house.admission.leave(found)

    inside(work)


def test_without_password_the_channel_says_who_it_is_but_not_over_the_network(inside: Inside) -> None:
    async def work(house: House) -> None:
        assert isinstance(await refusal(house), AuthenticationFailed)
        house.mqsc("ALTER CHANNEL(APP) CHLTYPE(SVRCONN) MCAUSER('ann')")
        found = await admit(house)
        assert found.user == "ann"
        house.admission.leave(found)
        assert isinstance(await refusal(house, REMOTE), AuthenticationFailed)

    inside(work)


# --- one answer for all --------------------------------------------------------------------------

REFUSED: dict[str, dict[str, Any]] = {
    "wrong password": {"user": "ann", "password": "wrong"},
    "another's password": {"user": "ann", "password": PASSWORDS["boss"]},
    "blank password": {"user": "ann", "password": ""},
    "spaces": {"user": "ann", "password": "   "},
    "password with NUL": {"user": "ann", "password": PASSWORDS["ann"] + "\0"},
    "very long password": {"user": "ann", "password": "x" * 10_000},
    "password without user": {"user": "", "password": PASSWORDS["ann"]},
    "unknown user": {"user": "nobody", "password": "anything"},
    "user of the machine": {"user": "root", "password": "root"},
    "strange user": {"user": "../../etc/passwd\0", "password": "x"},
    "nobody": {"user": "", "password": ""},
    "unknown channel": {"user": "ann", "channel": "NOSUCH"},
    "system channel": {"user": "ann", "channel": "SYSTEM.DEF.SVRCONN"},
    "no channel": {"user": "ann", "channel": ""},
    "channel of queue managers": {"user": "ann", "channel": "IN"},
    "channel for other ways": {"user": "ann", "channel": "APP", "kind": "RCVR"},
    "stopped channel": {"user": "ann", "channel": "STOPPED"},
    "encrypted channel": {"user": "ann", "channel": "SECRET"},
    "closed by a rule": {"user": "ann", "channel": "CLOSED"},
    "administrator": {"user": "boss"},
}


def test_every_refusal_says_the_same_after_the_same_time_and_is_audited(inside: Inside, short_delay: float) -> None:
    async def work(house: House) -> None:
        house.mqsc(
            "DEFINE CHANNEL(STOPPED) CHLTYPE(SVRCONN)\nDEFINE CHANNEL(SECRET) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12)\n"
            "DEFINE CHANNEL(CLOSED) CHLTYPE(SVRCONN)\nDEFINE CHANNEL(IN) CHLTYPE(RCVR)\n"
            "SET CHLAUTH(CLOSED) TYPE(ADDRESSMAP) ADDRESS('*') USERSRC(NOACCESS)"
        )
        house.admission.stopped.add("STOPPED")
        for what, said in REFUSED.items():
            begun = time.monotonic()
            error = await refusal(house, **said)
            assert time.monotonic() - begun >= short_delay, what
            assert str(error) == str(AuthenticationFailed()), what
            assert error.reason == 2035
            assert refusals(house)[-1]["reason"].startswith(CAUSES.get(what, "")), (what, refusals(house)[-1])
            assert "audit log" not in refusals(house)[-1]["reason"]
        assert len(refusals(house)) == len(REFUSED)
        assert all(fields["address"] == "127.0.0.1" for fields in refusals(house))
        shown = str(house.audit)
        assert not any(password in shown for password in PASSWORDS.values())

    inside(work)


def test_an_unknown_user_costs_the_same_work_as_a_wrong_password(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(house: House) -> None:
        hashed = []
        monkeypatch.setattr("entrepot.server.security.passwords.matches", lambda *_: hashed.append(1))
        for said in (
            {"user": "ann", "password": "wrong"},
            {"user": "nobody", "password": "wrong"},
            {"user": "ann", "password": ""},
            {"user": "ann", "channel": "NOSUCH"},
        ):
            await refusal(house, **said)
        assert len(hashed) == 4

    inside(work)


def test_who_may_not_connect_is_refused_after_the_same_time(inside: Inside, short_delay: float) -> None:
    async def work(house: House) -> None:
        house.mqsc("SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHRMV(CONNECT)")
        begun = time.monotonic()
        error = await refusal(house, user="ann")
        assert isinstance(error, NotAuthorized)
        assert error.reason == 2035
        assert time.monotonic() - begun >= short_delay

    inside(work)


def test_the_audit_log_knows_the_cause_that_the_partner_is_not_told(inside: Inside) -> None:
    async def work(house: House) -> None:
        await refusal(house, user="boss")
        assert "BLOCKUSER" in refusals(house)[-1]["reason"]
        await refusal(house, user="ann", channel="SYSTEM.DEF.SVRCONN")
        assert "NOACCESS" in refusals(house)[-1]["reason"]
        found = await admit(house, user="ann", application="orders")
        assert house.audit[-1] == (
            "connected",
            {"user": "ann", "address": "127.0.0.1", "channel": "APP", "object": "orders"},
        )
        house.admission.leave(found)

    inside(work)


# --- rules ---------------------------------------------------------------------------------------


def test_administrators_are_kept_out_until_somebody_opens_a_channel_to_them(inside: Inside) -> None:
    async def work(house: House) -> None:
        assert isinstance(await refusal(house, user="boss"), AuthenticationFailed)
        house.mqsc("ALTER CHANNEL(APP) CHLTYPE(SVRCONN) MCAUSER('root')")
        assert isinstance(await refusal(house), AuthenticationFailed)
        house.mqsc("SET CHLAUTH(APP) TYPE(BLOCKUSER) USERLIST('nobody')")
        found = await admit(house, user="boss")
        assert found.administrator
        house.admission.leave(found)

    inside(work)


def test_a_blocked_address_is_told_so(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('192.0.2.*')")
        error = await refusal(house, REMOTE, user="ann")
        assert isinstance(error, AddressBlocked)
        assert error.reason == 2035
        assert refusals(house)[-1]["reason"] == "BLOCKADDR by rule CHLAUTH(*) TYPE(BLOCKADDR) for 192.0.2.*"
        assert not house.users._proofs._digests, "nothing was hashed for it"

    inside(work)


def test_passwords_may_be_required_or_switched_off(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER CHANNEL(APP) CHLTYPE(SVRCONN) MCAUSER('ann')\nALTER QMGR CHCKCLNT(REQUIRED)")
        assert isinstance(await refusal(house), AuthenticationFailed)
        house.admission.leave(await admit(house, user="ann"))
        house.mqsc("ALTER QMGR CHCKCLNT(NONE)")
        # Whom somebody claims to be without proof counts for nothing.
        found = await admit(house, user="boss", password="anything")
        assert (found.user, found.administrator) == ("ann", False)
        house.admission.leave(found)
        assert isinstance(await refusal(house, REMOTE, user="ann"), AuthenticationFailed)

    inside(work)


def test_a_certificate_stands_for_a_password_where_the_channel_wants_one(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc(
            "DEFINE CHANNEL(TLS) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12) SSLPEER('CN=app*,O=Port')\n"
            "SET CHLAUTH(TLS) TYPE(SSLPEERMAP) SSLPEER('CN=app1,O=Port') MCAUSER('ann')"
        )
        right = Caller("192.0.2.7", tls=True, tls_peer="CN=app1,O=Port")
        found = await admit(house, right, channel="TLS")
        assert found.user == "ann"
        house.admission.leave(found)
        for wrong in (
            Caller("192.0.2.7"),
            Caller("192.0.2.7", tls=True),
            Caller("192.0.2.7", tls=True, tls_peer="CN=app1,O=Elsewhere"),
            Caller("192.0.2.7", tls=True, tls_peer="CN=other,O=Port"),
            Caller("192.0.2.7", tls=True, tls_peer="CN=app2,O=Port"),  # fits the channel, and nobody knows who it is
        ):
            assert isinstance(await refusal(house, wrong, channel="TLS"), AuthenticationFailed), wrong

    inside(work)


# --- how many ------------------------------------------------------------------------------------


def test_a_channel_has_so_many_instances_and_no_more(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER CHANNEL(APP) CHLTYPE(SVRCONN) MAXINST(2)")
        first, second = await admit(house, user="ann"), await admit(house, user="ann")
        assert house.admission.instances("APP") == 2
        error = await refusal(house, user="ann")
        assert isinstance(error, TooManyConnections)
        assert error.limit == 2
        house.admission.leave(first)
        third = await admit(house, user="ann")
        house.admission.leave(second)
        house.admission.leave(third)

    inside(work)


def test_one_address_has_so_many_instances_and_no_more(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER CHANNEL(APP) CHLTYPE(SVRCONN) MAXINSTC(1)")
        here = await admit(house, user="ann")
        assert isinstance(await refusal(house, user="ann"), TooManyConnections)
        there = await admit(house, REMOTE, user="ann")
        house.admission.leave(here)
        house.admission.leave(there)
        assert not house.admission._on_channel_from

    inside(work)


def test_a_user_has_so_many_connections_and_an_administrator_more(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("ALTER QMGR USRCONN(2)\nSET CHLAUTH(APP) TYPE(BLOCKUSER) USERLIST('nobody')")
        held = [await admit(house, user="ann") for _ in range(2)]
        error = await refusal(house, user="ann")
        assert isinstance(error, UserLimitReached)
        assert "USRCONN" in str(error)
        assert refusals(house)[-1]["reason"] == "ann would hold 3 connections, the limit is 2"
        held += [await admit(house, user="boss") for _ in range(3)]
        house.admission.leave(held.pop(0))
        held.append(await admit(house, user="ann"))
        for identity in held:
            house.admission.leave(identity)
        assert house.host.manager.quotas.held(CONNECTIONS, "ann") == 0

    inside(work)


def test_an_address_has_so_many_connections_that_are_not_admitted(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.admission.strangers = ConnectionLimiter(100, 3)
        guests = [house.guest(uid=None) for _ in range(5)]
        assert [guest.link.closed for guest in guests] == [False] * 3 + [True] * 2
        assert "limit reached" in refusals(house)[-1]["reason"]
        assert not house.guest(uid=None, address="10.0.0.1").link.closed
        house.admission.leave(await admit(house, user="ann"))
        await guests[0].ask(Verb.HELLO, 1, greeting(channel="APP", user="ann", password=PASSWORDS["ann"]))
        assert not house.guest(uid=None).link.closed, "who was admitted makes room"

    inside(work)


def test_a_flood_of_passwords_takes_two_processors_at_most(inside: Inside, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(house: House) -> None:
        busy, most, lock = 0, 0, threading.Lock()

        def verify(*_: str) -> bool:
            nonlocal busy, most
            with lock:
                busy += 1
                most = max(most, busy)
            time.sleep(0.005)
            with lock:
                busy -= 1
            return False

        monkeypatch.setattr(house.users, "verify", verify)
        await asyncio.gather(*(refusal(house, user="ann", password=str(number)) for number in range(20)))
        assert most == 2

    inside(work)


def test_a_password_that_was_right_a_moment_ago_is_not_hashed_again(
    inside: Inside, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(house: House) -> None:
        house.admission.leave(await admit(house, user="ann"))
        monkeypatch.setattr(house.users, "verify", lambda *_: pytest.fail("hashed again"))
        house.admission.leave(await admit(house, user="ann"))

    inside(work)


# --- what is wrong on our side -------------------------------------------------------------------


def test_nobody_comes_in_by_a_file_of_users_that_others_could_have_written(inside: Inside) -> None:
    async def work(house: House) -> None:
        (house.host.path / "users.json").chmod(0o644)
        error = await refusal(house, user="ann")
        assert str(error) == str(AuthenticationFailed())
        assert "not private" in refusals(house)[-1]["reason"]
        (house.host.path / "users.json").chmod(0o600)
        house.admission.leave(await admit(house, user="ann"))

    inside(work)


def test_a_removed_user_is_out_at_once(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.admission.leave(await admit(house, user="ann"))
        others = type(house.users).load(house.host.path)
        others.remove("ann")
        others.save()
        assert isinstance(await refusal(house, user="ann"), AuthenticationFailed)

    inside(work)


def test_the_local_binding_goes_on_without_the_default_channel(inside: Inside) -> None:
    async def work(house: House) -> None:
        house.mqsc("DELETE CHANNEL(SYSTEM.DEF.SVRCONN)")
        with pytest.raises(ChannelNotAvailable):
            house.admission.channel("")
        await house.admitted()
        assert isinstance(await refusal(house, user="ann", channel=""), AuthenticationFailed)

    inside(work)


# --- callers -------------------------------------------------------------------------------------


def transport(**infos: Any) -> Any:
    return SimpleNamespace(get_extra_info=lambda name: infos.get(name))


def test_a_caller_by_tcp_has_an_address_and_no_uid() -> None:
    tcp = SimpleNamespace(family=socket.AF_INET)
    found = Caller.of(transport(socket=tcp, peername=("192.0.2.7", 999)))
    assert found == Caller("192.0.2.7")
    assert not found.is_loopback
    assert Caller("::1").is_loopback
    assert Caller("127.8.8.8").is_loopback
    assert Caller("unix", uid=5).is_loopback
    assert not Caller("unknown").is_loopback


def test_a_caller_that_has_gone_already_has_no_address() -> None:
    assert Caller.of(transport(socket=SimpleNamespace(family=socket.AF_INET))) == Caller("unknown")


def test_a_certificate_that_nobody_can_read_names_nobody() -> None:
    encrypted = SimpleNamespace(getpeercert=lambda **_: b"\x30\x03nonsense")
    tcp = SimpleNamespace(family=socket.AF_INET)
    found = Caller.of(transport(socket=tcp, peername=("192.0.2.7", 999), ssl_object=encrypted))
    assert (found.tls, found.tls_peer) == (True, "")
