# SPDX-License-Identifier: Apache-2.0
"""A connection that breaks without the server noticing: what it held comes first on the next one, in its order."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

import entrepot.aio
from channels.proxy import Proxy
from entrepot import Connection
from entrepot.client.blocking import connect
from entrepot.errors import UnitBackedOut
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import decode, encode
from entrepot.server.wire.frame import HEAD, VERSION
from entrepot.server.wire.verbs import MAGIC, Verb
from entrepot.testing.servers import ServerThread


def fill(connection: Connection, count: int = 10) -> None:
    for number in range(count):
        connection.put("Q", b"%d" % number, persistent=True)


def test_a_unit_that_the_server_still_holds_does_not_let_others_overtake(connection: Connection, proxy: Proxy) -> None:
    fill(connection)
    with connect(proxy.url) as client:
        unit = client.unit_of_work()
        assert [unit.get("Q").body for _ in range(3)] == [b"0", b"1", b"2"]  # type: ignore[union-attr]
        proxy.part()
        with pytest.raises(UnitBackedOut):
            unit.get("Q")
        with client.unit_of_work() as again:
            found = [(message.body, message.backout_count) for message in again.get_many("Q", 5)]
    assert found == [(b"0", 1), (b"1", 1), (b"2", 1), (b"3", 0), (b"4", 0)]


def test_a_loop_goes_on_with_what_the_server_still_holds(connection: Connection, proxy: Proxy) -> None:
    fill(connection)
    with connect(proxy.url) as client, client.consume("Q", read_ahead=6, wait_s=0.5) as consumption:
        assert [int(next(consumption).body) for _ in range(2)] == [0, 1]
        proxy.part()
        rest = [int(message.body) for message in consumption]
    # What was here already comes first, then all again that the server did not know to be used.
    assert list(dict.fromkeys([0, 1, *rest])) == list(range(10)), "none has overtaken another"


def test_a_reader_goes_on_with_what_the_server_still_holds(connection: Connection, proxy: Proxy) -> None:
    fill(connection)
    with connect(proxy.url) as client, client.reader("Q", read_ahead=6) as reader:
        with client.unit_of_work() as unit:
            assert reader.get(unit, wait_s=60).body == b"0"  # type: ignore[union-attr]
        proxy.part()
        rest: list[bytes] = []
        while len(rest) < 9:
            with client.unit_of_work() as unit:
                rest += [message.body for message in reader.get_many(unit, 3, wait_s=60)]
    assert rest == [b"%d" % number for number in range(1, 10)]


def test_a_task_goes_on_with_what_the_server_still_holds(connection: Connection, proxy: Proxy) -> None:
    fill(connection)

    async def main() -> list[bytes]:
        async with await entrepot.aio.connect(proxy.url) as client:
            unit = client.unit_of_work()
            assert len(await unit.get_many("Q", 3)) == 3
            proxy.part()
            with pytest.raises(UnitBackedOut):
                await unit.get("Q", wait_s=60)
            async with client.unit_of_work() as again:
                return [message.body for message in await again.get_many("Q", 4)]

    assert asyncio.run(main()) == [b"0", b"1", b"2", b"3"]


def test_a_token_that_is_not_known_ends_nothing(connection: Connection, server: ServerThread) -> None:
    fill(connection, 1)
    unit = connection.unit_of_work()
    assert unit.get("Q") is not None
    for before in (b"", b"x" * 16, bytes(16)):
        with _greeted(server.path, before) as (welcome, _):
            assert len(welcome.token) == 16
    assert unit.state == "active"
    unit.commit()


def test_every_session_has_a_token_of_its_own_which_ends_it_once(connection: Connection, server: ServerThread) -> None:
    with _greeted(server.path, b"") as (first, opened), _greeted(server.path, first.token) as (second, _):
        assert first.token != second.token
        assert opened.recv(1) == b"", "the session before has ended"
        with _greeted(server.path, first.token):
            assert len(connection.mqsc("DISPLAY CONN(*)")[0].rows) == 3


class _greeted:
    """A connection by hand, with what it says of a session before."""

    def __init__(self, path: Path, before: bytes) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path / "socket"))
        self._socket.settimeout(60)
        self._before = before

    def __enter__(self) -> tuple[verbs.Welcome, socket.socket]:
        hello = verbs.Hello(MAGIC, VERSION, application="by hand", before=self._before)
        self._socket.sendall(encode(Verb.HELLO, 1, hello))
        head = self._socket.recv(HEAD.size, socket.MSG_WAITALL)
        length, verb, _ = HEAD.unpack(head)
        rest = self._socket.recv(length + 4 - HEAD.size, socket.MSG_WAITALL)
        welcome = decode(verb, memoryview(rest))
        assert isinstance(welcome, verbs.Welcome)
        return welcome, self._socket

    def __exit__(self, *_: object) -> None:
        self._socket.close()
