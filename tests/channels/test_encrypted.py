# SPDX-License-Identifier: Apache-2.0
"""The same through TLS, whose records do not end where frames do, and which is not for two threads at a time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import entrepot.aio
from channels.processes import until, without_stalls
from channels.threads import in_threads
from conftest import TESTER
from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.errors import ConnectFailed, ConnectionLost
from entrepot.testing.certificates import make_certificates, openssl
from entrepot.testing.servers import ServerThread

pytestmark = pytest.mark.skipif(openssl() is None, reason="certificates are made with openssl")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificates(tmp_path_factory.mktemp("tls"), ["server"]).of("server")


@pytest.fixture
def server(folder: Path, certificates: Path) -> Iterator[ServerThread]:
    with connect(f"embedded:{folder}") as connection:
        connection.mqsc(f"ALTER QMGR SSLKEYR('{certificates}')\nDEFINE LISTENER(TLS) PORT(0) TLS(YES)")
    with ServerThread(folder) as server:
        yield server


@pytest.fixture
def url(server: ServerThread, certificates: Path) -> str:
    return f"mqs://{TESTER}@localhost:{server.port('TLS')}/QM1?ca={certificates / 'ca.pem'}"


@pytest.fixture
def client(url: str) -> Iterator[Connection]:
    with connect(url) as client:
        yield client


@pytest.mark.parametrize("size", [0, 1, 16_000, 16_384, 100_000, 3_000_000])
def test_bodies_of_any_length_come_whole(client: Connection, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    client.put("Q", body, persistent=True)
    message = client.get("Q", wait_s=60)
    assert message is not None
    assert message.body == body


def test_threads_share_an_encrypted_connection(client: Connection) -> None:
    def work(thread: int) -> None:
        mine = b"t%d" % thread
        for number in range(40):
            client.put("Q", b"%d" % number * 1_000, correlation_id=mine, persistent=number % 5 == 0)
            message = client.get("Q", correlation_id=mine, wait_s=60)
            assert message is not None
            assert message.body == b"%d" % number * 1_000

    in_threads([lambda thread=thread: work(thread) for thread in range(8)])


def test_saying_and_hearing_much_at_once(client: Connection, connection: Connection) -> None:
    count, body = 30, bytes(400_000)
    for _ in range(count):
        connection.put("Q", body)

    def read() -> None:
        with client.consume("Q", read_ahead=count, wait_s=60) as consumption:
            for _ in range(count):
                assert next(consumption).body == body

    def write() -> None:
        with client.pipeline() as pipeline:
            for _ in range(count):
                pipeline.put("R", body)

    in_threads([read, write])
    assert sum(1 for _ in connection.browse("R")) == count


def test_an_encrypted_connection_is_kept_alive_while_nobody_uses_it(connection: Connection, url: str) -> None:
    connection.mqsc("ALTER CHANNEL(SYSTEM.DEF.SVRCONN) CHLTYPE(SVRCONN) HBINT(1)")

    def rest() -> None:
        with connect(url) as client:
            with client.unit_of_work() as unit:
                unit.put("Q", b"begun", persistent=True)
                time.sleep(4)
            consumption = client.consume("Q")
            assert consumption.get(wait_s=60) is not None
            assert client.calls.core.opened == 1

    without_stalls(rest)


def test_a_wait_ends_in_time(client: Connection) -> None:
    begun = time.monotonic()
    assert client.get("Q", wait_s=0.2) is None
    assert client.consume("Q").get(wait_s=0.2) is None
    assert 0.35 < time.monotonic() - begun < 20


def test_a_server_that_stops_is_noticed(server: ServerThread, url: str) -> None:
    client = connect(url, reconnect_s=0)
    errors: list[ConnectionLost] = []

    def wait() -> None:
        with pytest.raises(ConnectionLost) as caught:
            client.get("Q", wait_s=60)
        errors.append(caught.value)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert server.server is not None
    host = server.server.host
    until(lambda: host.queue_status("Q")["IPPROCS"] == 1, "it waits")
    server.stop(immediate=False)
    waiting.join(30)
    assert len(errors) == 1
    with pytest.raises(ConnectFailed):
        client.put("Q", b"")
    client.close()


def test_an_idle_encrypted_connection_goes_on(server: ServerThread, client: Connection) -> None:
    client.put("Q", b"before", persistent=True)
    assert server.server is not None
    opened = client.calls.line._socket
    for link in list(server.server.registry.links):
        server.server.registry.loop.call_soon_threadsafe(link.close)
    # A put that is under way when the connection breaks would rightly be told as unknown.
    until(lambda: client.calls.line._has_gone(opened), "the connection is gone")
    client.put("Q", b"after", persistent=True)
    assert [message.body for message in client.browse("Q")] == [b"before", b"after"]
    assert client.calls.core.opened == 2


def test_tasks_use_it_too(url: str) -> None:
    async def main() -> None:
        async with await entrepot.aio.connect(url) as client:
            await asyncio.gather(*(client.put("Q", b"%d" % n * 5_000, persistent=n % 2 == 0) for n in range(100)))
            found = [await client.get("Q", wait_s=60) for _ in range(100)]
            assert sorted(int(message.body[:1]) for message in found if message) == sorted(
                int(str(n)[0]) for n in range(100)
            )

    asyncio.run(main())


def test_who_does_not_know_the_authority_is_not_connected(server: ServerThread) -> None:
    with pytest.raises(ConnectFailed, match="certificate"):
        connect(f"mqs://{TESTER}@localhost:{server.port('TLS')}/QM1")
