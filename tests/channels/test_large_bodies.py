# SPDX-License-Identifier: Apache-2.0
"""Bodies as long as they may be: they arrive whole, memory stays within a few copies, and longer ones do no harm."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import entrepot.aio
from channels.processes import Program, ServerProcess, forget_peak, memory_bytes, until
from channels.proxy import Proxy
from conftest import let_tester_in
from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.engine.folder import create
from entrepot.errors import MessageTooLong
from entrepot.limits import BODY_BYTES_MAX, MIB
from entrepot.server.wire.verbs import Verb
from entrepot.testing.servers import ServerThread


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue manager whose log has room for the longest message."""
    path = tmp_path_factory.mktemp("large") / "QM1"
    create(path)
    with connect(f"embedded:{path}") as connection:
        connection.mqsc(f"DEFINE QLOCAL(Q) MAXMSGL({BODY_BYTES_MAX})\nDEFINE QLOCAL(R) MAXMSGL({BODY_BYTES_MAX})")
    let_tester_in(path)
    return path


@pytest.fixture(scope="module")
def process(roomy: Path) -> Iterator[ServerProcess]:
    with ServerProcess(roomy) as process:
        yield process


@pytest.mark.parametrize("binding", ["unix", "tcp"])
def test_the_longest_body_goes_there_and_back_within_a_few_copies(process: ServerProcess, binding: str) -> None:
    url = process.unix_url if binding == "unix" else process.tcp_url
    lines = f"""
        import hashlib, os
        part = os.urandom({MIB})
        body = part * {BODY_BYTES_MAX // MIB}
        print(hashlib.sha256(body).hexdigest())
        sys.stdin.readline()
        connection.put("Q", body)
        print("put")
        sys.stdin.readline()
        body = part = None
        print("forgotten")
        sys.stdin.readline()
        body = connection.get("Q", wait_s=60).body
        print(hashlib.sha256(body).hexdigest())
        sys.stdin.readline()
    """
    with Program(url, lines) as program:
        expected = program.said()
        peaks = {}
        for step in ("put", "get"):
            for who, pid in (("server", process.pid), ("client", program.pid)):
                forget_peak(pid)
                peaks[step, who] = -memory_bytes(pid)
            program.tell()
            said = program.said()
            for who, pid in (("server", process.pid), ("client", program.pid)):
                peaks[step, who] += memory_bytes(pid, "VmHWM")
            if step == "put":
                program.tell()
                assert program.said() == "forgotten"
            else:
                assert said == expected
        assert {key: round(peak / BODY_BYTES_MAX, 1) for key, peak in peaks.items() if peak > 4 * BODY_BYTES_MAX} == {}
        program.tell()
        program.finish()


def test_a_long_persistent_body_survives_a_kill(process: ServerProcess) -> None:
    body = bytes(range(256)) * (BODY_BYTES_MAX // 256)
    with process.connect() as connection:
        connection.put("R", body, persistent=True)
        process.restart()
        message = connection.get("R", wait_s=60)
        assert message is not None
        assert hashlib.sha256(message.body).digest() == hashlib.sha256(body).digest()


def test_memory_is_given_back(process: ServerProcess) -> None:
    with process.connect() as connection:
        body = bytes(BODY_BYTES_MAX)
        connection.put("Q", body)
        assert connection.get("Q") is not None
        before = memory_bytes(process.pid)
        for _ in range(4):
            connection.put("Q", body)
            assert connection.get("Q") is not None
        until(lambda: memory_bytes(process.pid) < before + BODY_BYTES_MAX, "a few long messages leave nothing behind")


def test_a_body_that_is_too_long_is_refused_before_it_is_sent(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        client.put("Q", b"before")
        until(lambda: Verb.PUT in proxy.asked, "it is noted")
        verbs = len(proxy.asked)
        too_long = bytes(BODY_BYTES_MAX + 1)
        for verb in (client.put, client.unit_of_work().put, client.pipeline().put, client.request):
            with pytest.raises(MessageTooLong) as caught:
                verb("Q", too_long)
            assert (caught.value.body_bytes, caught.value.body_bytes_max) == (BODY_BYTES_MAX + 1, BODY_BYTES_MAX)
        assert len(proxy.asked) <= verbs + 1, "but for the reply queue"
        client.put("Q", b"after")
        assert client.calls.core.opened == 1
    assert [message.body for message in connection.browse("Q")] == [b"before", b"after"]


def test_tasks_are_refused_the_same(server: ServerThread) -> None:
    async def main() -> None:
        async with await entrepot.aio.connect(server.unix_url) as connection:
            for verb in (connection.put, connection.unit_of_work().put, connection.request):
                with pytest.raises(MessageTooLong):
                    await verb("Q", bytes(101 * MIB))
            await connection.put("Q", b"after")
            assert connection.calls.core.opened == 1

    asyncio.run(main())


def test_the_channel_may_allow_less_than_the_queue(server: ServerThread, connection: Connection) -> None:
    connection.mqsc("ALTER CHANNEL(SYSTEM.DEF.SVRCONN) CHLTYPE(SVRCONN) MAXMSGL(1000)")
    with connect(server.unix_url) as client:
        client.put("Q", bytes(1000))
        with pytest.raises(MessageTooLong, match="the channel to"):
            client.put("Q", bytes(1001))


def test_long_messages_are_got_many_at_a_time_and_browsed(process: ServerProcess) -> None:
    """What one answer can carry has a limit, which many long messages must not exceed."""
    with process.connect() as connection:
        sizes = [3 * MIB, 99 * MIB, 60 * MIB, 1, 60 * MIB]
        for number, size in enumerate(sizes):
            connection.put("R", b"%d" % number * size, group_id=b"g", sequence=number + 1, last_in_group=number == 4)
        assert [len(message.body) for message in connection.browse("R")] == sizes
        with connection.unit_of_work() as unit:
            found = []
            while more := unit.get_many("R", 100):
                found += more
            assert [len(message.body) for message in found] == sizes
            unit.back_out()
        with connection.unit_of_work() as unit:
            assert [len(message.body) for message in unit.get_group("R") or ()] == sizes
            unit.back_out()
        assert connection.calls.core.opened == 1
        connection.mqsc("CLEAR QLOCAL(R)")
