# SPDX-License-Identifier: Apache-2.0
"""Claims through real sockets: whose names they are, a queue manager that is killed, frames by hand, and tasks."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import entrepot.aio
from channels.processes import ServerProcess, until
from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.errors import EntrepotError, Fenced, NotAuthorized, UnitBackedOut
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import decode, encode
from entrepot.server.wire.error_form import from_wire
from entrepot.server.wire.frame import VERSION, FrameReader
from entrepot.server.wire.verbs import MAGIC, Verb
from entrepot.testing.servers import ServerThread


def bodies(connection: Connection, queue: str = "Q") -> list[bytes]:
    return [message.body for message in connection.browse(queue)]


# --- whose they are -----------------------------------------------------------------------------------------


@pytest.fixture
def users(server: ServerThread) -> Iterator[dict[str, Connection]]:
    """An administrator, and two users who may do little more than connect."""
    with connect(server.unix_url) as root:
        root.mqsc(
            """
            DEFINE LISTENER(L) PORT(0) IPADDR('127.0.0.1')
            START LISTENER(L)
            DEFINE CHANNEL(A) CHLTYPE(SVRCONN) MCAUSER('ann')
            DEFINE CHANNEL(B) CHLTYPE(SVRCONN) MCAUSER('bob')
            ALTER QMGR CHLAUTH(DISABLED)
            SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('ann') AUTHADD(CONNECT)
            SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('bob') AUTHADD(CONNECT)
            SET AUTHREC PROFILE('ann/*') OBJTYPE(CLAIM) PRINCIPAL('ann') AUTHADD(SET)
            SET AUTHREC PROFILE('bob/*') OBJTYPE(CLAIM) PRINCIPAL('bob') AUTHADD(SET)
            """
        )
        url = f"mq://127.0.0.1:{server.port('L')}/QM1?channel="
        with connect(url + "A") as ann, connect(url + "A") as ann_again, connect(url + "B") as bob:
            yield {"root": root, "ann": ann, "ann again": ann_again, "bob": bob}


def test_a_name_is_for_users_with_authority_and_for_administrators(users: dict[str, Connection]) -> None:
    root, ann, bob = users["root"], users["ann"], users["bob"]
    ann.claim("ann/1", 1)
    bob.claim("bob/1", 1)
    for verb in (
        lambda: bob.claim("ann/1", 2),
        lambda: bob.claim("zz", 1),
        lambda: bob.next_epoch(""),
        lambda: bob.next_epoch("ann/"),
        lambda: bob.retire("ann/1", 2),
        lambda: bob.instruct("ann", "stop"),
        lambda: bob.instruct("", "stop"),
    ):
        with pytest.raises(NotAuthorized, match="bob"):
            verb()
    assert ann.claim("ann/1", 1) == ""
    assert [claim.name for claim in bob.claims()] == ["bob/1"]
    assert [(claim.name, claim.user) for claim in root.claims()] == [("ann/1", "ann"), ("bob/1", "bob")]
    assert bob.next_epoch("bob/") == 2
    assert root.instruct("", "stop") == 2
    assert (ann.claim("ann/1", 1), bob.claim("bob/1", 1)) == ("stop", "stop")
    root.retire("bob/1", 2)
    with pytest.raises(Fenced):
        bob.claims()


def test_a_user_fences_himself(users: dict[str, Connection]) -> None:
    users["ann"].claim("ann/1", 1)
    users["ann again"].claim("ann/1", 2)
    with pytest.raises(Fenced):
        users["ann"].claims()
    assert users["bob"].claims() == []


# --- a kill -------------------------------------------------------------------------------------------------


def test_nobody_comes_back_after_a_kill(folder: Path) -> None:
    with ServerProcess(folder) as server:
        for epoch in range(1, 4):
            zombie = server.connect(reconnect_s=60.0)
            zombie.claim("flow/1", 2 * epoch - 1)
            unit = zombie.unit_of_work()
            unit.put("R", b"%d" % epoch, persistent=True)
            worker = server.connect()
            worker.claim("flow/1", 2 * epoch)
            worker.close()
            server.restart()
            with pytest.raises((Fenced, UnitBackedOut)):
                unit.commit()
            with pytest.raises(Fenced):
                zombie.get("Q")
            zombie.close()
            with server.connect() as watcher:
                assert bodies(watcher, "R") == []
                assert watcher.next_epoch("flow/") > 2 * epoch
                assert [claim.epoch for claim in watcher.claims("flow/1")] == [2 * epoch]


def test_a_retired_epoch_and_numbers_that_were_given_outlive_a_kill(folder: Path) -> None:
    with ServerProcess(folder) as server:
        with server.connect() as driver:
            driver.retire("flow/1", 9)
            given = driver.next_epoch("run")
        server.restart()
        with server.connect() as driver:
            with pytest.raises(Fenced):
                driver.claim("flow/1", 8)
            assert driver.next_epoch("run") > given


# --- frames by hand -----------------------------------------------------------------------------------------


class Bare:
    """A client that says what it likes, and reads only when it is asked to."""

    def __init__(self, folder: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(folder / "socket"))
        self.socket.settimeout(60)
        self._reader = FrameReader(memoryview(bytearray(65536)))
        self._frames: list[tuple[int, int, object]] = []
        self.say(Verb.HELLO, 1, verbs.Hello(MAGIC, VERSION))
        assert self.hear()[0] == Verb.WELCOME

    def say(self, verb: int, number: int, payload: verbs.Payload) -> None:
        self.socket.sendall(encode(verb, number, payload))

    def hear(self) -> tuple[int, int, object]:
        while not self._frames:
            count = self.socket.recv_into(self._reader.buffer())
            if not count:
                return 0, 0, None
            self._frames += [(verb, number, decode(verb, view)) for verb, number, view in self._reader.frames(count)]
        return self._frames.pop(0)


def test_a_commit_that_was_read_before_stands_and_one_behind_is_refused(server: ServerThread, folder: Path) -> None:
    with connect(server.unix_url) as successor:
        old = Bare(folder)
        old.say(Verb.CLAIM, 2, verbs.ClaimPayload("flow/1", 1))
        assert old.hear() == (Verb.DONE, 2, verbs.DonePayload(""))
        for unit in (1, 2):
            message = entrepot.Message(b"%d" % unit)
            old.say(Verb.PUT, 0, verbs.Put("Q", unit, True, None, 0.0, message))
        old.say(Verb.COMMIT, 3, verbs.Commit(1))
        assert old.hear()[:2] == (Verb.DONE, 3)
        successor.claim("flow/1", 2)
        old.say(Verb.COMMIT, 4, verbs.Commit(2))
        old.say(Verb.PUT, 0, verbs.Put("Q", 0, True, None, 0.0, entrepot.Message(b"behind")))
        old.say(Verb.SYNCHRONIZE, 5, verbs.Empty())
        verb, number, closing = old.hear()
        assert (verb, number) == (Verb.CLOSING, 0)
        told = from_wire(closing.error)  # type: ignore[attr-defined]
        assert isinstance(told, Fenced)
        for expected in (4, 5):
            verb, number, failed = old.hear()
            assert (verb, number, failed.unit_active) == (Verb.FAILED, expected, False)  # type: ignore[attr-defined]
            assert isinstance(from_wire(failed.error), Fenced)  # type: ignore[attr-defined]
        assert old.hear()[0] == 0, "and then the connection ends"
        old.socket.close()
        assert bodies(successor) == [b"1"]


def test_without_a_token_a_second_connection_with_the_same_epoch_is_refused(server: ServerThread, folder: Path) -> None:
    one, two = Bare(folder), Bare(folder)
    one.say(Verb.CLAIM, 2, verbs.ClaimPayload("flow/1", 1))
    assert one.hear()[0] == Verb.DONE
    two.say(Verb.CLAIM, 2, verbs.ClaimPayload("flow/1", 1))
    assert two.hear()[0] == Verb.FAILED
    one.socket.close()
    with connect(server.unix_url) as watcher:
        until(lambda: not watcher.claims()[0].connected, "its end is noticed")
    two.say(Verb.CLAIM, 3, verbs.ClaimPayload("flow/1", 1))
    assert two.hear()[0] == Verb.DONE
    two.socket.close()


def test_a_client_takes_its_own_claim_from_a_connection_that_is_not_known_to_be_gone(folder: Path) -> None:
    with ServerThread(folder):
        one, two, three = Bare(folder), Bare(folder), Bare(folder)
        one.say(Verb.CLAIM, 2, verbs.ClaimPayload("flow/1", 1, b"mine"))
        assert one.hear()[0] == Verb.DONE
        three.say(Verb.CLAIM, 2, verbs.ClaimPayload("flow/1", 1, b"other"))
        assert three.hear()[0] == Verb.FAILED
        two.say(Verb.CLAIM, 2, verbs.ClaimPayload("flow/1", 1, b"mine"))
        assert two.hear()[0] == Verb.DONE
        assert one.hear()[0] == Verb.CLOSING
        for each in (one, two, three):
            each.socket.close()


# --- tasks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", ["embedded", "unix"])
def test_tasks_claim_and_are_fenced(folder: Path, binding: str) -> None:
    async def main(url: str) -> None:
        async with await entrepot.aio.connect(url) as old, await entrepot.aio.connect(url) as new:
            assert await old.claim("flow/1", await new.next_epoch("flow/"), status={"n": 1}) == ""
            assert await new.instruct("flow/", "stop") == 1
            assert await old.claim("flow/1", 1) == "stop"
            assert [(claim.name, claim.status) for claim in await new.claims()] == [("flow/1", {"n": 1})]
            await new.put("Q", b"one", persistent=True)
            unit = old.unit_of_work()
            assert await unit.get("Q", wait_s=60) is not None
            await unit.back_out(counted=False)
            unit = old.unit_of_work()
            found = await unit.get("Q", wait_s=60)
            assert found is not None
            assert found.backout_count == 0
            waiting = asyncio.create_task(old.get("R", wait_s=60))
            await asyncio.sleep(0.05)
            await new.claim("flow/1", 2)
            for refused in (waiting, unit.commit(), old.put("R", b""), old.claim("flow/1", 1), old.claims()):
                with pytest.raises(Fenced):
                    await refused
            await new.put("R", b"for others")
            assert [message.body async for message in new.browse("R")] == [b"for others"]
            assert [message.backout_count async for message in new.browse("Q")] == [1]
            await new.retire("flow/1", 3)
            with pytest.raises(Fenced):
                await new.claims()

    if binding == "embedded":
        asyncio.run(asyncio.wait_for(main(f"embedded:{folder}"), 120))
        return
    with ServerThread(folder) as server:
        asyncio.run(asyncio.wait_for(main(server.unix_url), 120))


def test_a_task_claims_again_after_a_restart(folder: Path) -> None:
    async def main() -> None:
        with ServerThread(folder) as server:
            old = await entrepot.aio.connect(server.unix_url, reconnect_s=60)
            other = await entrepot.aio.connect(server.unix_url, reconnect_s=60)
            await old.claim("flow/1", 1)
            await other.claim("flow/2", 1)
            await asyncio.to_thread(server.stop)
        with ServerThread(folder) as server, connect(server.unix_url) as new:
            await asyncio.to_thread(new.claim, "flow/1", 2)
            assert await other.get("Q") is None
            assert [claim.connected for claim in new.claims()] == [True, True]
            for _ in range(2):
                with pytest.raises(Fenced):
                    await old.get("Q")
            await old.close()
            await other.close()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_an_older_server_does_not_know_claims_and_says_so(
    server: ServerThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    from entrepot.server.conversation import Conversation

    known = {verb: method for verb, method in Conversation._VERBS.items() if verb != Verb.CLAIM}
    monkeypatch.setattr(Conversation, "_VERBS", known)
    with connect(server.unix_url) as connection:
        with pytest.raises(EntrepotError, match=r"C22.*30"):
            connection.claim("flow/1", 1)
        connection.put("Q", b"the connection mends itself")
