# SPDX-License-Identifier: Apache-2.0
"""The security checklist: who comes in, by which way, and what becomes of his connection."""

from __future__ import annotations

import contextlib
import shutil
import socket
import ssl
import time
from pathlib import Path
from typing import Any

import pytest

from entrepot.client.blocking import Connection, connect
from entrepot.client.blocking.connecting import connected_to
from entrepot.client.embedded import EmbeddedHost
from entrepot.errors import (
    AddressBlocked,
    AuthenticationFailed,
    ConnectFailed,
    ConnectionLost,
    ListenerUnsafe,
    MqscError,
    NotAuthorized,
    QueueManagerQuiescing,
)
from entrepot.server.security.users import Users
from entrepot.testing import certificates as kit
from entrepot.testing.certificates import Certificates, make_certificates
from entrepot.testing.servers import ServerThread
from unit.server.guests import PASSWORDS

from .strangers import PATIENCE_S, Stranger, as_user, audited, until

# --- no, wrong or blank credentials --------------------------------------------------------------

CREDENTIALS: dict[str, dict[str, Any]] = {
    "nothing": {"user": "", "password": ""},
    "wrong password": {"user": "ann", "password": "wrong"},
    "blank password": {"user": "ann", "password": ""},
    "unknown user": {"user": "nobody", "password": "wrong"},
    "unknown channel": {"user": "ann", "channel": "NOSUCH"},
    "closed channel": {"user": "ann", "channel": "SYSTEM.DEF.SVRCONN"},
    "encrypted channel": {"user": "ann", "channel": "CERT"},
    "administrator": {"user": "boss"},
    "machine's administrator": {"user": "root", "password": "root"},
    "strange user": {"user": 'x\r\n{"event":"connected"}\x7f\u202e', "password": "x"},
}


def test_refusals_take_a_second_say_the_same_and_leave_a_line_each(server: ServerThread, path: Path) -> None:
    before = len(audited(path))
    with contextlib.ExitStack() as stack:
        strangers = {what: stack.enter_context(Stranger(server)) for what in CREDENTIALS}
        begun = time.monotonic()
        for what, said in CREDENTIALS.items():
            strangers[what].hello(**said)
        for what, stranger in strangers.items():
            with pytest.raises(AuthenticationFailed) as refused:
                stranger.answer()
            assert time.monotonic() - begun >= 1.0, what
            assert (str(refused.value), refused.value.reason) == (str(AuthenticationFailed()), 2035)
            assert stranger.hear() == []
    refusals = [line for line in audited(path)[before:] if line["event"] == "refused"]
    assert len(refusals) == len(CREDENTIALS)
    assert {line["address"] for line in refusals} == {"127.0.0.1"}
    assert {line.get("user", "") for line in refusals} >= {"ann", "nobody", "boss", "root"}


def test_administrators_come_in_where_a_rule_says_so_and_nowhere_else(server: ServerThread) -> None:
    with pytest.raises(AuthenticationFailed):
        as_user(server, "boss")
    with as_user(server, "boss", "ADM") as boss:
        assert boss.mqsc("DISPLAY QMGR")[0].rows


def test_a_blocked_address_is_refused(server: ServerThread, admin: Connection) -> None:
    admin.mqsc("SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('127.0.0.1')")
    try:
        with pytest.raises(AddressBlocked):
            as_user(server, "ann")
    finally:
        admin.mqsc("SET CHLAUTH('*') TYPE(BLOCKADDR) ADDRLIST('127.0.0.1') ACTION(REMOVE)")
    as_user(server, "ann").close()


# --- TLS -----------------------------------------------------------------------------------------


def encrypted(server: ServerThread, context: ssl.SSLContext) -> Stranger:
    opened = socket.create_connection(("127.0.0.1", server.port("TLS")), PATIENCE_S)
    return Stranger(server, opened=context.wrap_socket(opened, server_hostname="localhost"))


def client(certificates: Certificates, name: str = "", own: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificates.authority)
    folder = own or (certificates.of(name) if name else None)
    if folder is not None:
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def no_tls_events(path: Path) -> list[str]:
    return [line["reason"] for line in audited(path) if line.get("reason", "").startswith("no TLS")]


def test_a_certificate_lets_in_whom_the_channel_wants(server: ServerThread, certificates: Certificates) -> None:
    with encrypted(server, client(certificates, "app1")) as app1:
        app1.hello(user="", channel="CERT")
        assert app1.answer().user == "ann"


def test_a_certificate_of_another_name_or_none_is_refused(server: ServerThread, certificates: Certificates) -> None:
    for name in ("other", ""):
        with encrypted(server, client(certificates, name)) as stranger:
            stranger.hello(user="", channel="CERT")
            with pytest.raises(AuthenticationFailed):
                stranger.answer()


def test_plain_text_at_an_encrypted_listener_ends_before_any_verb(server: ServerThread, path: Path) -> None:
    before = len(no_tls_events(path))
    with Stranger(server, "TLS") as plain:
        plain.hello()
        with contextlib.suppress(ConnectionError):
            while answer := plain.socket.recv(1000):
                assert answer[0] == 21  # an alert of TLS, and no frame of ours
    until(lambda: len(no_tls_events(path)) == before + 1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_of_tls_are_refused(server: ServerThread, certificates: Certificates, path: Path) -> None:
    before = len(no_tls_events(path))
    context = client(certificates)
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        encrypted(server, context)
    until(lambda: len(no_tls_events(path)) == before + 1)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = client(certificates)
        context.minimum_version = context.maximum_version = version
        encrypted(server, context).socket.close()


def test_an_expired_or_foreign_certificate_is_refused_before_any_verb(
    server: ServerThread, certificates: Certificates, tmp_path: Path, path: Path
) -> None:
    foreign = make_certificates(tmp_path / "foreign", ["app1"])
    expired = tmp_path / "expired"
    shutil.copytree(certificates.folder, expired)
    shutil.rmtree(expired / "app1")
    _make_expired(expired)
    before = len(no_tls_events(path))
    for own in (foreign.of("app1"), expired / "app1"):
        with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
            _try_certificate(server, client(certificates, own=own))
    until(lambda: len(no_tls_events(path)) == before + 2)


def _try_certificate(server: ServerThread, context: ssl.SSLContext) -> None:
    # With TLS 1.3 the client learns of a refusal when it reads.
    with encrypted(server, context) as stranger:
        stranger.hello(user="", channel="CERT")
        stranger.answer()


def _make_expired(folder: Path) -> None:
    kit._make(Certificates(folder), "app1", "Port", 0)
    time.sleep(1.1)


def test_the_client_refuses_a_server_that_is_not_the_one_it_trusts(server: ServerThread, tmp_path: Path) -> None:
    foreign = make_certificates(tmp_path / "foreign", [])
    port = server.port("TLS")
    with pytest.raises(ConnectFailed):
        connect(f"mqs://localhost:{port}/QM1?channel=APP&ca={foreign.authority}", user="ann", password=PASSWORDS["ann"])


def test_an_encrypted_client_goes_about_its_business(server: ServerThread, certificates: Certificates) -> None:
    own = certificates.of("app1")
    url = (
        f"mqs://localhost:{server.port('TLS')}/QM1?channel=CERT&ca={certificates.authority}"
        f"&cert={own}/cert.pem&key={own}/key.pem"
    )
    with connect(url) as connection, pytest.raises(NotAuthorized):
        connection.put("Q", b"x")


# --- listeners -----------------------------------------------------------------------------------


def test_a_listener_for_the_network_does_not_start_where_nobody_could_show_who_he_is(
    founded: Path, certificates: Certificates, tmp_path: Path
) -> None:
    path = tmp_path / "QM1"
    shutil.copytree(founded, path)
    (path / "users.json").unlink()
    with connected_to(EmbeddedHost(path)) as connection:
        connection.mqsc("DEFINE LISTENER(OPEN) PORT(0) IPADDR('0.0.0.0')")
    with pytest.raises(ListenerUnsafe), ServerThread(path):
        pass
    # A user with a password will do, unless passwords are not looked at; a certificate authority, too.
    users = Users.load(path)
    users.add("ann", "x")
    users.save()
    with ServerThread(path) as server, connect(server.unix_url) as admin:
        admin.mqsc("STOP LISTENER(OPEN)\nALTER QMGR CHCKCLNT(NONE)")
        with pytest.raises(MqscError, match="clients there could not be identified"):
            admin.mqsc("START LISTENER(OPEN)")
        shutil.copytree(certificates.folder, path / "tls")
        admin.mqsc("ALTER QMGR SSLKEYR('tls/server')\nALTER LISTENER(OPEN) TLS(YES)\nSTART LISTENER(OPEN)")
        (path / "tls" / "server" / "ca.pem").unlink()
        admin.mqsc("STOP LISTENER(OPEN)")
        with pytest.raises(MqscError, match="clients there could not be identified"):
            admin.mqsc("START LISTENER(OPEN)")


def test_a_channel_user_alone_is_not_enough_over_the_network(server: ServerThread, admin: Connection) -> None:
    admin.mqsc("ALTER CHANNEL(OTHER) CHLTYPE(SVRCONN) MCAUSER('ann')\nSTART LISTENER(OPEN)")
    address = _own_address()
    try:
        if address is None:
            pytest.skip("this machine has no address but the loopback one")
        opened = socket.create_connection((address, server.port("OPEN")), PATIENCE_S)
        with Stranger(server, opened=opened) as stranger:
            stranger.hello(user="", channel="OTHER")
            with pytest.raises(AuthenticationFailed):
                stranger.answer()
    finally:
        admin.mqsc("STOP LISTENER(OPEN)")
    with Stranger(server) as here:
        here.hello(user="", channel="OTHER")
        assert here.answer().user == "ann"


def _own_address() -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
        probe.connect(("192.0.2.1", 9))  # sends nothing
        return str(probe.getsockname()[0])
    return None


# --- connections ---------------------------------------------------------------------------------


def test_connections_are_shown_as_the_server_knows_them_and_can_be_ended(
    server: ServerThread, ann: Connection, admin: Connection
) -> None:
    rows = {str(row["USERID"]): row for row in admin.mqsc("DISPLAY CONN(*)")[0].rows}
    assert (rows["ann"]["CHANNEL"], rows["ann"]["CONNAME"], rows["ann"]["APPLTAG"]) == ("APP", "127.0.0.1", "tests")
    own = next(row for row in rows.values() if row["APPLTAG"] == "admin")
    assert (own["CHANNEL"], own["CONNAME"]) == ("", "unix")
    admin.mqsc(f"STOP CONN({rows['ann']['CONN']})")
    until(lambda: "ann" not in {row["USERID"] for row in admin.mqsc("DISPLAY CONN(*)")[0].rows})
    with pytest.raises((ConnectionLost, QueueManagerQuiescing, ConnectFailed)):
        ann.put("Q", b"x")
    for nobody in ("999999", "0", "²", "-1", "x"):
        with pytest.raises(MqscError):
            admin.mqsc(f"STOP CONN('{nobody}')")


def test_a_stopped_channel_lets_nobody_in_and_ends_who_is(server: ServerThread, admin: Connection) -> None:
    admin.mqsc("ALTER CHANNEL(OTHER) CHLTYPE(SVRCONN) MCAUSER('ann')")
    with as_user(server, "ann", "OTHER") as connection:
        assert [row["MCAUSER"] for row in admin.mqsc("DISPLAY CHSTATUS(OTHER)")[0].rows] == ["ann"]
        admin.mqsc("STOP CHANNEL(OTHER)")
        with pytest.raises((ConnectionLost, QueueManagerQuiescing, ConnectFailed, AuthenticationFailed)):
            for _ in range(100):
                connection.mqsc("DISPLAY QUEUE(*)")
                time.sleep(0.01)
        with pytest.raises(AuthenticationFailed):
            as_user(server, "ann", "OTHER")
        admin.mqsc("START CHANNEL(OTHER)")
        as_user(server, "ann", "OTHER").close()


def test_authority_that_is_taken_away_is_gone_at_once(ann: Connection, admin: Connection) -> None:
    admin.mqsc("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT)")
    for _ in range(3):
        ann.put("Q", b"x")
    admin.mqsc("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHRMV(PUT)")
    with pytest.raises(NotAuthorized):
        ann.put("Q", b"x")
    admin.mqsc("CLEAR QLOCAL(Q)")


def test_bodies_are_bytes_whatever_they_look_like(ann: Connection, admin: Connection) -> None:
    admin.mqsc("SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('ann') AUTHADD(PUT, GET)")
    for body in (b"cos\nsystem\n(S'false'\ntR.", b"!!python/object/apply:os.system [false]", b"\xac\xed\x00\x05sr"):
        ann.put("Q", body, properties={"__class__": "os.system", "__reduce__": body})
        found = ann.get("Q")
        assert found is not None
        assert (found.body, found.properties["__reduce__"]) == (body, body)
