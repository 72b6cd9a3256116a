# SPDX-License-Identifier: Apache-2.0
"""The AMQP listeners of a real server: plain, and with TLS and certificates; proton's client at the other end."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection

import entrepot
from entrepot.daemon.server import Server
from entrepot.engine.folder import create
from entrepot.server.mqsc import run_script
from entrepot.server.security.users import Users
from entrepot.testing.certificates import Certificates, make_certificates, openssl
from entrepot.testing.servers import ServerThread
from hosted import Host, Hosted

pytestmark = pytest.mark.skipif(openssl() is None, reason="needs the openssl command")

SCRIPT = """
ALTER QMGR SSLKEYR('{tls}')
DEFINE QLOCAL(Q)
DEFINE CHANNEL(PLAIN) CHLTYPE(SVRCONN) MCAUSER('guest')
DEFINE CHANNEL(CERTIFIED) CHLTYPE(SVRCONN) SSLCIPH(ANY_TLS12_OR_HIGHER) SSLCAUTH(REQUIRED)
DEFINE LISTENER(AMQP) PROTOCOL(AMQP) PORT({plain}) CHANNEL(PLAIN)
DEFINE LISTENER(AMQPS) PROTOCOL(AMQP) PORT({secure}) CHANNEL(CERTIFIED) TLS(YES)
SET CHLAUTH(CERTIFIED) TYPE(SSLPEERMAP) SSLPEER('CN=app1') USERSRC(MAP) MCAUSER('app1')
SET AUTHREC PROFILE('QM1') OBJTYPE(QMGR) PRINCIPAL('guest') AUTHADD(CONNECT)
SET AUTHREC PROFILE('QM1') OBJTYPE(QMGR) PRINCIPAL('app1') AUTHADD(CONNECT)
SET AUTHREC PROFILE('Q') OBJTYPE(QUEUE) PRINCIPAL('guest') AUTHADD(PUT,GET)
SET AUTHREC PROFILE('Q') OBJTYPE(QUEUE) PRINCIPAL('app1') AUTHADD(PUT,GET)
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class Running:
    def __init__(self, folder: Path) -> None:
        self.certificates: Certificates = make_certificates(folder / "tls", ["server", "app1"])
        self.path = folder / "QM1"
        self.plain, self.secure = free_port(), free_port()
        create(self.path)
        host = Host(self.path)
        script = SCRIPT.format(tls=self.certificates.of("server"), plain=self.plain, secure=self.secure)
        answers = run_script(script, host, "test")
        host.close()
        assert [str(error) for answer in answers for error in answer.errors] == []
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        assert self._ready.wait(60)
        if self._problem is not None:
            raise self._problem

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        try:
            self.server = await Server.start(self.path)
        except BaseException as error:
            self._problem = error
            return
        finally:
            self._ready.set()
        await self.server.stopped()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.stop(), self.loop).result(60)
        self._thread.join(60)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("listeners"))
    yield running
    running.stop()


def certified(running: Running, *, shown: bool = True) -> SSLDomain:
    domain = SSLDomain(SSLDomain.MODE_CLIENT)
    domain.set_trusted_ca_db(str(running.certificates.authority))
    domain.set_peer_authentication(SSLDomain.VERIFY_PEER)
    if shown:
        own = running.certificates.of("app1")
        domain.set_credentials(str(own / "cert.pem"), str(own / "key.pem"), None)
    return domain


def test_listener_that_is_defined_accepts_amqp(running: Running) -> None:
    client = BlockingConnection(f"127.0.0.1:{running.plain}", timeout=60)
    client.create_sender("Q").send(Message(body="plain", durable=True))
    assert [row["PROTOCOL"] for row in running.server._rows("CONN")] == ["AMQP"]
    client.close()
    message = Hosted(running.server.host).get("Q", wait_s=60)
    assert message is not None
    assert (message.body, message.user) == (b"plain", "guest")


def test_certificate_says_who_is_there(running: Running) -> None:
    client = BlockingConnection(
        f"amqps://127.0.0.1:{running.secure}",
        timeout=60,
        ssl_domain=certified(running),
        allowed_mechs="EXTERNAL",
    )
    client.create_sender("Q").send(Message(body="certified", durable=True))
    client.close()
    message = Hosted(running.server.host).get("Q", wait_s=60)
    assert message is not None
    assert (message.body, message.user) == (b"certified", "app1")


def test_external_without_a_certificate_is_refused(running: Running) -> None:
    with pytest.raises(ConnectionException):
        BlockingConnection(
            f"amqps://127.0.0.1:{running.secure}",
            timeout=60,
            ssl_domain=certified(running, shown=False),
            allowed_mechs="EXTERNAL",
            reconnect=False,
        )


def test_stopping_server_tells_amqp_clients(tmp_path: Path) -> None:
    running = Running(tmp_path)
    client = BlockingConnection(f"127.0.0.1:{running.plain}", timeout=60)
    sender = client.create_sender("Q")
    stopping = threading.Thread(target=running.stop)
    stopping.start()
    with pytest.raises(ConnectionException, match=r"amqp:connection:forced|disconnected"):
        while True:
            sender.send(Message(body="x"))
            time.sleep(0.01)
    stopping.join(90)
    assert not stopping.is_alive()


def test_the_port_of_the_command_line_admits_who_has_a_password_and_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "QM1"
    create(path)
    users = Users.load(path)
    users.add("app", "secret")
    users.save()
    with ServerThread(path) as server:
        assert server.server is not None
        server.run(server.server.listen_for_amqp(0, "AMQP.CLIENTS"))
        with entrepot.connect(server.unix_url) as connection:
            connection.mqsc(
                "DEFINE QLOCAL(Q)\nSET AUTHREC OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT)\n"
                "SET AUTHREC PROFILE(Q) OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,GET)"
            )
        url = f"amqp://127.0.0.1:{server.port('COMMAND.LINE.AMQP')}"
        client = BlockingConnection(url, timeout=30, user="app", password="secret", allow_insecure_mechs=True)
        client.create_sender(f"{url}/Q").send(Message(body=b"x"))
        client.close()
        with pytest.raises(ConnectionException):
            BlockingConnection(url, timeout=30, allowed_mechs="ANONYMOUS")
        assert server.server.admission_advice() == []
