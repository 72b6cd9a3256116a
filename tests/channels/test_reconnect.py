# SPDX-License-Identifier: Apache-2.0
"""A connection that breaks: what goes on by itself, what has to be told, and which outcomes are unknown."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import entrepot.aio
from channels.processes import ServerProcess, until
from channels.proxy import Proxy, descriptors
from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.errors import (
    ConnectFailed,
    ConnectionLost,
    EntrepotError,
    SecurityError,
    UnitBackedOut,
    UnitFinished,
)
from entrepot.server.security.users import Users
from entrepot.server.wire.verbs import Verb
from entrepot.testing.servers import ServerThread


class Verdict:
    """What becomes of a verb in a thread of its own."""

    def __init__(self, verb: Callable[[], Any]) -> None:
        self.value: Any = None
        self.error: EntrepotError | None = None
        self._thread = threading.Thread(target=self._run, args=(verb,))
        self._thread.start()

    def _run(self, verb: Callable[[], Any]) -> None:
        try:
            self.value = verb()
        except EntrepotError as error:
            self.error = error

    def wait(self) -> Any:
        self._thread.join(90)
        assert not self._thread.is_alive(), "it waits for ever"
        return self.value

    @property
    def is_there(self) -> bool:
        return not self._thread.is_alive()


def bodies(connection: Connection, queue: str = "Q") -> list[bytes]:
    return [message.body for message in connection.browse(queue)]


def depth(connection: Connection) -> int:
    return int(str(connection.mqsc("DISPLAY QSTATUS(Q) CURDEPTH")[0].rows[0]["CURDEPTH"]))


def cut_and_settle(proxy: Proxy) -> None:
    """Break connections, and let everybody see it."""
    proxy.cut()
    proxy.settle()
    time.sleep(0.05)  # for as long as that after a word from the server a client takes its connection for granted


# --- what goes on -----------------------------------------------------------------------------------


def test_an_idle_connection_goes_on_after_a_restart(process: ServerProcess) -> None:
    with process.connect() as connection:
        connection.put("Q", b"before", persistent=True)
        process.restart()
        connection.put("Q", b"after", persistent=True)
        assert bodies(connection) == [b"before", b"after"]
        assert connection.calls.core.opened == 2


def test_a_connection_that_waits_in_vain_for_long_is_the_same_afterwards(
    connection: Connection, other: Connection
) -> None:
    with connection.consume("Q", wait_s=0.02) as messages:
        for _ in range(12):  # more often than a wait looks before it sleeps
            assert messages.get(wait_s=0.02) is None
            assert connection.get("Q", wait_s=0.02) is None
        other.put("Q", b"at last", persistent=False)
        found = messages.get(wait_s=10)
    assert found is not None
    assert found.body == b"at last"
    assert connection.calls.core.opened == 1


def test_every_verb_of_an_idle_connection_goes_on(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        for number, verb in enumerate(
            (
                lambda: client.put("Q", b"", persistent=True),
                lambda: client.get("Q"),
                lambda: client.browse("Q"),
                client.in_doubt,
                lambda: client.mqsc("PING QMGR"),
                client.dynamic_queue,
                lambda: client.consume("Q").close(),
                lambda: client.unit_of_work().commit(),
                lambda: client.administration.status(),
            )
        ):
            cut_and_settle(proxy)
            verb()
            assert client.calls.core.opened == number + 2


READS: tuple[tuple[str, Callable[[Connection], Any]], ...] = (
    ("MQSC", lambda client: client.mqsc("DISPLAY QMGR; DIS QLOCAL(Q) +\n CURDEPTH\n* a remark\nPING QMGR")),
    ("IN_DOUBT", lambda client: client.in_doubt()),
    ("BROWSE", lambda client: client.browse("Q")),
    ("CLAIMS", lambda client: client.claims("")),
    ("OUTCOMES", lambda client: client._coordinator.outcomes(["x"])),
    ("MANAGE", lambda client: client.administration.status()),
    ("MANAGE", lambda client: client.administration.dump()),
)


def test_a_verb_that_only_reads_is_asked_again_when_its_answer_is_lost(proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        for verb, read in READS:
            proxy.asked.clear()
            proxy.deaf = True
            reading = Verdict(partial(read, client))
            until(lambda verb=verb: Verb[verb] in proxy.asked, "it was asked")
            proxy.cut()
            reading.wait()
            assert reading.error is None, verb
            until(lambda verb=verb: proxy.asked.count(Verb[verb]) == 2, f"{verb} was asked again")
        proxy.deaf = True
        defining = Verdict(lambda: client.mqsc("DISPLAY QMGR\nDEFINE QLOCAL(NEW)"))
        until(lambda: proxy.asked.count(Verb.MQSC) == 1, "it was asked")
        proxy.cut()
        defining.wait()
        assert isinstance(defining.error, ConnectionLost), "it might be carried out twice"


def test_a_verb_of_a_task_that_only_reads_is_asked_again_when_its_answer_is_lost(proxy: Proxy) -> None:
    async def test(client: entrepot.aio.Connection) -> None:
        for verb, read in (
            (Verb.MQSC, lambda: client.mqsc("DIS QLOCAL(*)")),
            (Verb.IN_DOUBT, client.in_doubt),
            (Verb.CLAIMS, client.claims),
        ):
            proxy.asked.clear()
            proxy.deaf = True
            reading = asyncio.create_task(read())
            await until_so(lambda verb=verb: verb in proxy.asked, "it was asked")
            await cut_for_tasks(proxy)
            await reading
            await until_so(lambda verb=verb: proxy.asked.count(verb) == 2, f"{verb.name} was asked again")

    run(test, proxy.url)


def test_who_finds_no_queue_manager_is_told_how_long_it_was_waited_for(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url, reconnect_s=0.2) as client:
        unit = client.unit_of_work()
        unit.put("Q", b"never")
        proxy.refusing = True
        cut_and_settle(proxy)
        with pytest.raises(ConnectFailed, match=r"tried for 0\.2 s \(reconnect_s\)"):
            client.put("Q", b"never")
        with pytest.raises(ConnectFailed):
            unit.commit()
        assert unit.state == "backed out", "a connection that broke has backed it out"
    assert bodies(connection) == []


def test_a_waiting_get_goes_on(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        waiting = Verdict(lambda: client.get("Q", wait_s=60))
        until(lambda: Verb.GET in proxy.asked, "it waits")
        for _ in range(3):
            accepted = proxy.accepted
            proxy.cut()
            until(lambda accepted=accepted: proxy.accepted > accepted, "it is back")
        connection.put("Q", b"came", persistent=True)
        assert waiting.wait().body == b"came"


def test_a_waiting_get_goes_on_across_a_restart(process: ServerProcess) -> None:
    with process.connect() as client, process.connect() as writer:
        waiting = Verdict(lambda: client.get("Q", wait_s=60))
        time.sleep(0.1)
        process.restart()
        writer.put("Q", b"came", persistent=True)
        assert waiting.wait().body == b"came"


def test_a_get_waits_no_longer_because_its_connection_broke(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        begun = time.monotonic()
        waiting = Verdict(lambda: client.get("Q", wait_s=0.6))
        time.sleep(0.3)
        proxy.cut()
        assert waiting.wait() is None
        assert waiting.error is None
        assert 0.5 < time.monotonic() - begun < 50


def test_a_browse_looks_again(connection: Connection, proxy: Proxy) -> None:
    for number in range(1_200):
        connection.put("Q", b"%d" % number)
    with connect(proxy.url) as client:
        cursor = client.browse("Q")
        assert next(cursor).body == b"0"
        proxy.deaf = True
        rest = Verdict(lambda: [message.body for message in cursor])
        until(lambda: proxy.asked.count(Verb.BROWSE) == 2, "it asks for more")
        proxy.cut()
        assert rest.wait() == [b"%d" % number for number in range(1, 1_200)]


def test_a_persistent_message_whose_way_broke_comes_again(connection: Connection, proxy: Proxy) -> None:
    connection.put("Q", b"once more", persistent=True)
    with connect(proxy.url) as client:
        proxy.deaf = True
        waiting = Verdict(lambda: client.get("Q", wait_s=60))
        until(lambda: Verb.GET in proxy.asked, "it has asked")
        time.sleep(0.05)
        proxy.cut()
        message = waiting.wait()
        assert (message.body, message.backout_count) == (b"once more", 1)
    assert bodies(connection) == []


# --- unknown outcomes ---------------------------------------------------------------------------------


def test_a_put_whose_answer_is_lost_has_an_unknown_outcome(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        proxy.deaf = True
        put = Verdict(lambda: client.put("Q", b"once", persistent=True))
        until(lambda: bodies(connection), "the server has done it")
        assert not put.is_there
        proxy.cut()
        put.wait()
        assert isinstance(put.error, ConnectionLost)
        assert (put.error.outcome, put.error.retryable) == ("unknown", True)
        client.put("Q", b"and goes on", persistent=True)
    assert bodies(connection) == [b"once", b"and goes on"]


def test_a_commit_whose_answer_is_lost_has_an_unknown_outcome(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        unit = client.unit_of_work()
        unit.put("Q", b"once", persistent=True)
        proxy.deaf = True
        commit = Verdict(unit.commit)
        until(lambda: bodies(connection), "the server has done it")
        proxy.cut()
        commit.wait()
        assert isinstance(commit.error, ConnectionLost)
        assert unit.state == "unknown"
        with pytest.raises(UnitFinished):
            unit.commit()
        with client.unit_of_work() as another:
            another.put("Q", b"and goes on", persistent=True)
    assert bodies(connection) == [b"once", b"and goes on"]


def test_a_prepare_whose_answer_is_lost_has_an_unknown_outcome(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        unit = client.unit_of_work()
        unit.put("Q", b"in doubt", persistent=True)
        proxy.deaf = True
        prepare = Verdict(lambda: unit.prepare(b"transaction"))
        until(lambda: connection.in_doubt() == [b"transaction"], "the server has done it")
        proxy.cut()
        prepare.wait()
        assert isinstance(prepare.error, ConnectionLost)
        assert unit.state == "unknown"
        assert client.in_doubt() == [b"transaction"]
        client.resolve(b"transaction", commit=True)
    assert bodies(connection) == [b"in doubt"]


# --- units of work ------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["put", "get", "get_many", "commit"])
def test_an_open_unit_is_backed_out_and_says_so(connection: Connection, proxy: Proxy, verb: str) -> None:
    connection.put("Q", b"work", persistent=True)
    with connect(proxy.url) as client:
        unit = client.unit_of_work()
        assert unit.get("Q") is not None
        unit.put("R", b"half")
        cut_and_settle(proxy)
        with pytest.raises(UnitBackedOut) as caught:
            {
                "put": lambda: unit.put("R", b"other half"),
                "get": lambda: unit.get("Q"),
                "get_many": lambda: unit.get_many("Q"),
                "commit": unit.commit,
            }[verb]()
        assert caught.value.outcome == "not_done"
        assert unit.state == "backed out"
        with client.unit_of_work() as again:
            work = again.get("Q", wait_s=60)
            assert work is not None
            assert work.backout_count == 1
    assert bodies(connection, "R") == []


def test_a_get_that_waits_in_a_unit_backs_it_out(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        unit = client.unit_of_work()
        waiting = Verdict(lambda: unit.get("Q", wait_s=60))
        until(lambda: Verb.GET in proxy.asked, "it waits")
        proxy.cut()
        waiting.wait()
        assert isinstance(waiting.error, UnitBackedOut)
        assert unit.state == "backed out"


def test_a_unit_in_which_nothing_was_done_moves_to_the_new_connection(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        unit = client.unit_of_work()
        cut_and_settle(proxy)
        unit.put("Q", b"done", persistent=True)
        unit.commit()
    assert bodies(connection) == [b"done"]


def test_backing_out_needs_no_connection(proxy: Proxy) -> None:
    with connect(proxy.url, reconnect_s=0) as client:
        unit = client.unit_of_work()
        unit.put("Q", b"")
        cut_and_settle(proxy)
        unit.back_out()
        assert unit.state == "backed out"


# --- what does not come back --------------------------------------------------------------------------


def test_who_does_not_want_to_reconnect_is_told_at_once(proxy: Proxy) -> None:
    client = connect(proxy.url, reconnect_s=0)
    waiting = Verdict(lambda: client.get("Q", wait_s=60))
    until(lambda: Verb.GET in proxy.asked, "it waits")
    begun = time.monotonic()
    proxy.cut()
    waiting.wait()
    assert isinstance(waiting.error, ConnectionLost)
    for _ in range(2):
        with pytest.raises(ConnectFailed):
            client.put("Q", b"")
    assert time.monotonic() - begun < 50
    client.close()


def test_a_server_that_does_not_come_back_is_given_up(process: ServerProcess) -> None:
    with process.connect(reconnect_s=0.5) as client:
        process.kill()
        time.sleep(0.05)
        begun = time.monotonic()
        with pytest.raises(ConnectFailed):
            client.put("Q", b"")
        assert 0.2 < time.monotonic() - begun < 50
        process.start()
        client.put("Q", b"but later it goes on")


def test_closing_ends_a_reconnect(process: ServerProcess) -> None:
    client = process.connect(reconnect_s=60)
    process.kill()
    putting = Verdict(lambda: client.put("Q", b""))
    time.sleep(0.2)
    begun = time.monotonic()
    client.close()
    putting.wait()
    assert isinstance(putting.error, EntrepotError)
    assert time.monotonic() - begun < 50


def test_a_password_that_is_right_no_more_is_told_at_once(process: ServerProcess, folder: Path) -> None:
    def change_password() -> None:
        process.kill()
        users = Users.load(folder)
        users.remove("tester")
        users.add("tester", "another one", ["mqm"])
        users.save()
        process.start()

    async def task() -> None:
        async with await entrepot.aio.connect(process.tcp_url, reconnect_s=60) as client:
            await asyncio.to_thread(change_password)
            begun = time.monotonic()
            with pytest.raises(SecurityError):
                await client.put("Q", b"")
            assert time.monotonic() - begun < 50, "no time is spent on trying again"

    with connect(process.tcp_url, reconnect_s=60) as client:
        client.mqsc(f"ALTER LISTENER(TCP) PORT({process.port})")
        asyncio.run(task())
        begun = time.monotonic()
        with pytest.raises(SecurityError):
            client.put("Q", b"")
        assert time.monotonic() - begun < 50, "no time is spent on trying again"


def test_broken_connections_leave_no_descriptors(proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        client.put("Q", b"")
        cut_and_settle(proxy)
        client.put("Q", b"")
        before = descriptors()
        for _ in range(20):
            cut_and_settle(proxy)
            client.put("Q", b"")
        until(lambda: descriptors() <= before + 4, "each new one replaces an old one")


def test_many_threads_reconnect_once(connection: Connection, proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        cut_and_settle(proxy)
        puts = [Verdict(lambda n=n: client.put("Q", b"%d" % n, persistent=True)) for n in range(16)]
        for put in puts:
            put.wait()
            assert put.error is None
        assert client.calls.core.opened == 2
    assert sorted(map(int, bodies(connection))) == list(range(16))


# --- tasks --------------------------------------------------------------------------------------------


def run(test: Callable[[entrepot.aio.Connection], Awaitable[None]], url: str, **options: float) -> None:
    async def main() -> None:
        async with await entrepot.aio.connect(url, **options) as connection:  # type: ignore[arg-type]
            await test(connection)

    asyncio.run(asyncio.wait_for(main(), 120))


async def cut_for_tasks(proxy: Proxy) -> None:
    proxy.cut()
    await asyncio.to_thread(proxy.settle)
    await asyncio.sleep(0.05)


async def until_so(reached: Callable[[], object], what: str) -> None:
    await asyncio.to_thread(until, reached, what)


def test_tasks_go_on_after_a_restart(process: ServerProcess) -> None:
    async def test(client: entrepot.aio.Connection) -> None:
        waiting = asyncio.create_task(client.get("R", wait_s=60))
        await client.put("Q", b"before", persistent=True)
        await asyncio.to_thread(process.restart)
        await until_so(lambda: client.calls.core.opened == 2, "who waits is back")
        await client.put("Q", b"after", persistent=True)
        assert [message.body async for message in client.browse("Q")] == [b"before", b"after"]
        await client.put("R", b"came")
        message = await waiting
        assert message is not None
        assert message.body == b"came"

    run(test, process.unix_url)


def test_tasks_hear_of_unknown_outcomes(connection: Connection, proxy: Proxy) -> None:
    async def test(client: entrepot.aio.Connection) -> None:
        proxy.deaf = True
        put = asyncio.create_task(client.put("Q", b"once", persistent=True))
        await until_so(lambda: bodies(connection), "the server has done it")
        await cut_for_tasks(proxy)
        with pytest.raises(ConnectionLost) as caught:
            await put
        assert caught.value.outcome == "unknown"
        unit = client.unit_of_work()
        await unit.put("Q", b"twice", persistent=True)
        await client.in_doubt()
        proxy.deaf = True
        commit = asyncio.create_task(unit.commit())
        await until_so(lambda: len(bodies(connection)) == 2, "the server has done it")
        await cut_for_tasks(proxy)
        with pytest.raises(ConnectionLost):
            await commit
        assert unit.state == "unknown"

    run(test, proxy.url)


def test_open_units_of_tasks_are_backed_out(connection: Connection, proxy: Proxy) -> None:
    connection.put("Q", b"work", persistent=True)

    async def test(client: entrepot.aio.Connection) -> None:
        unit = client.unit_of_work()
        assert await unit.get("Q") is not None
        await unit.put("R", b"half")
        await cut_for_tasks(proxy)
        with pytest.raises(UnitBackedOut):
            await unit.commit()
        assert unit.state == "backed out"
        waiting = client.unit_of_work()
        get = asyncio.create_task(waiting.get("R", wait_s=60))
        await until_so(lambda: proxy.asked.count(Verb.GET) == 2, "it waits")
        await cut_for_tasks(proxy)
        with pytest.raises(UnitBackedOut):
            await get
        async with client.unit_of_work() as again:
            work = await again.get("Q", wait_s=60)
            assert work is not None
            assert work.backout_count == 1

    run(test, proxy.url)
    assert bodies(connection, "R") == []


def test_tasks_that_do_not_want_to_reconnect_are_told_at_once(proxy: Proxy) -> None:
    async def test(client: entrepot.aio.Connection) -> None:
        waiting = asyncio.create_task(client.get("Q", wait_s=60))
        await until_so(lambda: Verb.GET in proxy.asked, "it waits")
        await cut_for_tasks(proxy)
        with pytest.raises(ConnectionLost):
            await waiting
        with pytest.raises(ConnectFailed):
            await client.put("Q", b"")

    run(test, proxy.url, reconnect_s=0)


def test_a_consumption_of_tasks_survives_its_connection(connection: Connection, proxy: Proxy) -> None:
    for number in range(30):
        connection.put("Q", b"%d" % number, persistent=number % 2 == 0)

    async def test(client: entrepot.aio.Connection) -> None:
        async with await client.consume("Q", read_ahead=10) as consumption:
            used = [await consumption.get(60) for _ in range(5)]
            await client.mqsc("PING QMGR")  # its answer comes behind what is on its way
            await cut_for_tasks(proxy)
            while await asyncio.to_thread(depth, connection):
                while (message := await consumption.get(0.1)) is not None:
                    used.append(message)
        found = [int(message.body) for message in used if message is not None]
        assert sorted(set(found)) == list(range(30))
        assert all(number % 2 == 0 for number in found if found.count(number) > 1), "nonpersistent ones never twice"

    run(test, proxy.url)


def test_many_tasks_reconnect_once(connection: Connection, proxy: Proxy) -> None:
    async def test(client: entrepot.aio.Connection) -> None:
        await cut_for_tasks(proxy)
        await asyncio.gather(*(client.put("Q", b"%d" % n, persistent=True) for n in range(50)))
        assert client.calls.core.opened == 2

    run(test, proxy.url)
    assert sorted(map(int, bodies(connection))) == list(range(50))


def test_a_wrong_place_is_told_at_once(parent: Path, server: ServerThread) -> None:
    begun = time.monotonic()
    with pytest.raises(ConnectFailed):
        connect(f"unix:{parent / 'nobody'}")
    with pytest.raises(ConnectFailed):
        asyncio.run(entrepot.aio.connect(f"unix:{parent / 'nobody'}"))
    assert time.monotonic() - begun < 50
