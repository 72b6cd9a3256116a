# SPDX-License-Identifier: Apache-2.0
"""A server that is told to stop: what partners may still end, and what becomes of those who have nothing to end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import entrepot.aio
from channels.processes import ServerProcess, until
from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.errors import ConnectFailed, ConnectionLost, EntrepotError, QueueManagerInUse, UnitBackedOut
from entrepot.server.security.audit import AuditLog
from entrepot.testing.servers import ServerThread


def stop(server: ServerThread, *, immediate: bool = False) -> threading.Thread:
    """Tell a server to stop, and go on."""
    thread = threading.Thread(target=lambda: server.stop(immediate=immediate))
    thread.start()
    return thread


def bodies(folder: Path, queue: str = "Q") -> list[bytes]:
    with connect(f"embedded:{folder}") as connection:
        return [message.body for message in connection.browse(queue)]


def test_an_open_unit_may_still_commit(server: ServerThread, folder: Path) -> None:
    client = connect(server.unix_url, reconnect_s=0)
    client.put("Q", b"work", persistent=True)
    unit = client.unit_of_work()
    work = unit.get("Q")
    assert work is not None
    stopping = stop(server)
    until(lambda: _refuses(server), "nobody is let in any more")
    unit.put("R", work.body, persistent=True)
    unit.commit()
    assert unit.state == "committed"
    stopping.join(60)
    assert not stopping.is_alive(), "then nothing keeps it"
    client.close()
    assert (bodies(folder), bodies(folder, "R")) == ([], [b"work"])


def test_who_does_not_end_his_unit_in_time_is_backed_out(server: ServerThread, folder: Path) -> None:
    client = connect(server.unix_url, reconnect_s=0)
    client.put("Q", b"work", persistent=True)
    unit = client.unit_of_work()
    assert unit.get("Q") is not None
    begun = time.monotonic()
    assert server.server is not None
    server.run(server.server.stop(patience_s=0.5))
    assert 0.4 < time.monotonic() - begun < 50
    with pytest.raises((UnitBackedOut, ConnectFailed, ConnectionLost)):
        unit.commit()
    client.close()
    assert bodies(folder) == [b"work"]


def test_an_immediate_stop_backs_out_at_once(server: ServerThread, folder: Path) -> None:
    client = connect(server.unix_url, reconnect_s=0)
    client.put("Q", b"work", persistent=True)
    unit = client.unit_of_work()
    assert unit.get("Q") is not None
    unit.put("R", b"half", persistent=True)
    begun = time.monotonic()
    assert server.server is not None
    server.run(server.server.stop(immediate=True, patience_s=60))
    assert time.monotonic() - begun < 50
    client.close()
    assert (bodies(folder), bodies(folder, "R")) == ([b"work"], [])
    with connect(f"embedded:{folder}") as connection:
        (work,) = connection.browse("Q")
        assert work.backout_count == 0, "that a queue manager stops is not the message's fault"


def test_idle_connections_do_not_keep_it_and_come_back(folder: Path) -> None:
    with ServerThread(folder) as first:
        client = connect(first.unix_url)
        client.put("Q", b"before", persistent=True)
        begun = time.monotonic()
        assert first.server is not None
        first.run(first.server.stop(patience_s=60))
        assert time.monotonic() - begun < 50
    with ServerThread(folder):
        client.put("Q", b"after", persistent=True)
        assert [message.body for message in client.browse("Q")] == [b"before", b"after"]
        client.close()


def test_who_waits_hears_why(server: ServerThread) -> None:
    client = connect(server.unix_url, reconnect_s=0)
    errors: list[EntrepotError] = []

    def wait() -> None:
        try:
            client.get("Q", wait_s=60)
        except EntrepotError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until(lambda: _readers(server) == 1, "it waits")
    server.stop(immediate=False)
    waiting.join(60)
    assert isinstance(errors[0], ConnectionLost)
    assert "queue manager QM1 ends this connection" in str(errors[0])
    client.close()


def test_who_waits_goes_on_with_the_next_server(folder: Path) -> None:
    found: list[Any] = []
    with ServerThread(folder) as first:
        client = connect(first.unix_url)
        waiting = threading.Thread(target=lambda: found.append(client.get("Q", wait_s=60)))
        waiting.start()
        until(lambda: _readers(first) == 1, "it waits")
        first.stop(immediate=False)
    with ServerThread(folder) as second, connect(second.unix_url) as writer:
        writer.put("Q", b"came", persistent=True)
        waiting.join(60)
        assert found[0].body == b"came"
        client.close()


def test_puts_during_a_stop_happened_as_their_clients_were_told(server: ServerThread, folder: Path) -> None:
    outcomes: list[str] = []
    stop_putting = threading.Event()

    def put(number: int, client: Connection) -> None:
        with client:
            while not stop_putting.is_set():
                try:
                    client.put("Q", b"%d" % number, persistent=True)
                    outcomes.append("done")
                except ConnectFailed:
                    return
                except ConnectionLost:
                    outcomes.append("unknown")
                    return

    # Connected now: a stopping server lets nobody in.
    clients = [connect(server.unix_url, reconnect_s=0) for _ in range(4)]
    putters = [threading.Thread(target=put, args=each) for each in enumerate(clients)]
    for putter in putters:
        putter.start()
    until(lambda: len(outcomes) > 50, "they put")
    server.stop(immediate=False)
    stop_putting.set()
    for putter in putters:
        putter.join(60)
    done, unknown = outcomes.count("done"), outcomes.count("unknown")
    assert done <= len(bodies(folder)) <= done + unknown


def test_tasks_may_end_their_units_too(server: ServerThread, folder: Path) -> None:
    async def main() -> None:
        client = await entrepot.aio.connect(server.unix_url, reconnect_s=0)
        unit = client.unit_of_work()
        await unit.put("Q", b"work", persistent=True)
        await client.in_doubt()
        stopping = asyncio.create_task(asyncio.to_thread(server.stop, immediate=False))
        await asyncio.to_thread(until, lambda: _refuses(server), "nobody is let in any more")
        await unit.commit()
        await stopping
        await client.close()

    asyncio.run(main())
    assert bodies(folder) == [b"work"]


def test_only_one_server_has_the_folder(server: ServerThread, folder: Path) -> None:
    with pytest.raises(QueueManagerInUse), ServerThread(folder):
        pass
    with connect(server.unix_url) as client:
        client.put("Q", b"the first one goes on")


def test_a_socket_that_a_killed_server_left_is_no_obstacle(process: ServerProcess) -> None:
    process.kill()
    assert (process.path / "socket").is_socket()
    with pytest.raises(ConnectFailed):
        process.connect()
    process.start()
    with process.connect() as client:
        client.put("Q", b"")


def test_a_server_whose_disk_fails_while_it_stops_ends_all_the_same(process: ServerProcess) -> None:
    process.path.rename(process.path.with_name("elsewhere"))  # so that no last checkpoint can be written
    assert process.stop() != 0


def test_a_server_that_stops_in_good_order_says_so(process: ServerProcess) -> None:
    assert process.stop() == 0


def _refuses(server: ServerThread) -> bool:
    try:
        connect(server.unix_url, reconnect_s=0).close()
    except EntrepotError:
        return True
    return False


def _readers(server: ServerThread) -> int:
    assert server.server is not None
    return int(server.server.host.queue_status("Q")["IPPROCS"])


def test_the_folder_is_left_without_a_socket(server: ServerThread, connection: Connection) -> None:
    assert (server.path / "socket").is_socket()
    server.stop(immediate=False)
    assert not (server.path / "socket").exists()


def test_whoever_starts_when_the_folder_is_let_go_has_socket_and_audit_log_to_itself(
    server: ServerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = server.server
    assert stopping is not None
    close, left = stopping.host.close, []

    def let_go() -> None:
        close()
        left.append((server.path / "socket").exists())
        AuditLog.open(server.path).close()  # refused while another has it

    monkeypatch.setattr(stopping.host, "close", let_go)
    server.stop(immediate=False)
    assert (left, stopping.failed) == ([False], False)


def test_what_a_reader_has_seen_when_the_queue_manager_stops_was_not_tried(server: ServerThread, folder: Path) -> None:
    with connect(server.unix_url, reconnect_s=0) as client:
        for number in range(3):
            client.put("Q", b"%d" % number, persistent=True)
        with contextlib.suppress(EntrepotError), client.reader("Q", read_ahead=3) as reader:
            unit = client.unit_of_work()
            assert reader.get(unit, wait_s=60) is not None
            assert client.in_doubt() == [], "the server knows what was seen"
            server.stop(immediate=True)
    with connect(f"embedded:{folder}") as connection:
        assert [message.backout_count for message in connection.browse("Q")] == [0, 0, 0]


def test_a_server_thread_whose_server_has_stopped_by_itself_is_stopped(folder: Path) -> None:
    for _ in range(5):
        with ServerThread(folder) as server:
            assert server.server is not None
            server.run(server.server.stop())
