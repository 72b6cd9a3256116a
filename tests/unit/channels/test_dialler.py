# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.channels.dialler import Dialler, places
from entrepot.engine.definitions import Channel
from entrepot.engine.folder import create
from entrepot.engine.recovery_log.settings import LogSettings
from entrepot.errors import ConnectFailed, EntrepotError
from entrepot.server.framed_connection import FramedConnection
from entrepot.server.security.tls import client_context, server_context
from entrepot.server.session_registry import SessionRegistry
from entrepot.testing.certificates import Certificates, make_certificates, openssl
from hosted import Host


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    create(tmp_path / "QM1", log=LogSettings(segment_bytes=64 * 1024, primary=2, secondary=2))
    host = Host(tmp_path / "QM1")
    yield host
    host.close()


def on_loop(host: Host, work: Callable[[SessionRegistry], Awaitable[None]]) -> None:
    async def main() -> None:
        registry = SessionRegistry(host)
        await work(registry)
        registry.close()

    asyncio.run(main())


async def dialled(
    registry: SessionRegistry, dialler: Dialler, name: str, *, first: int = 0, **options: Any
) -> tuple[FramedConnection | None, EntrepotError | None]:
    told: asyncio.Future[tuple[FramedConnection | None, EntrepotError | None]] = registry.loop.create_future()
    definition = Channel(name="C", channel_type="SDR", connection_name=name, **options)
    dialler.dial(
        definition, first, lambda: FramedConnection(registry), lambda link, error: told.set_result((link, error))
    )
    return await told


async def listening(registry: SessionRegistry, **options: Any) -> tuple[asyncio.Server, int]:
    server = await registry.loop.create_server(asyncio.Protocol, "127.0.0.1", 0, **options)
    return server, server.sockets[0].getsockname()[1]


async def turns() -> None:
    """Enough turns of the loop for all that waits for nothing else."""
    for _ in range(20):
        await asyncio.sleep(0)


def test_places_are_tried_in_turn_beginning_anywhere() -> None:
    assert places("a(1), b(2),c") == ["a(1)", "b(2)", "c"]
    assert places("a(1),b(2),c", 4) == ["b(2)", "c", "a(1)"]
    assert places("", 3) == []


def test_the_first_place_that_answers_is_taken(host: Host) -> None:
    async def work(registry: SessionRegistry) -> None:
        server, port = await listening(registry)
        link, error = await dialled(registry, Dialler(), f"127.0.0.1(1),127.0.0.1({port})")
        assert error is None
        assert link is not None
        assert link.address == f"127.0.0.1({port})"
        link.close()
        server.close()

    on_loop(host, work)


def test_all_problems_are_told_when_nobody_answers(host: Host) -> None:
    async def work(registry: SessionRegistry) -> None:
        name = "127.0.0.1(1),unix:/nowhere,what is this"
        link, error = await dialled(registry, Dialler(), name)
        assert link is None
        assert isinstance(error, ConnectFailed)
        for place in ("127.0.0.1(1): ", "unix:/nowhere: ", "what is this: "):
            assert place in str(error)
        _, error = await dialled(registry, Dialler(), "")
        assert "names no place" in str(error)

    on_loop(host, work)


def test_a_queue_manager_on_this_machine_is_found_by_its_folder(host: Host, tmp_path: Path) -> None:
    async def work(registry: SessionRegistry) -> None:
        deep = tmp_path / ("d" * 100)
        deep.mkdir()
        (tmp_path / "short").symlink_to(deep)
        server = await registry.loop.create_unix_server(asyncio.Protocol, str(tmp_path / "short" / "socket"))
        for name in (f"unix:{deep}", f"unix:{deep}/socket"):
            link, error = await dialled(registry, Dialler(), name)
            assert error is None
            assert link is not None
            link.close()
        server.close()

    on_loop(host, work)


def test_not_all_are_called_at_once_and_all_are_called(host: Host) -> None:
    async def work(registry: SessionRegistry) -> None:
        server, port = await listening(registry)
        dialler = Dialler(at_once_max=3)
        busiest = 0

        async def one() -> None:
            nonlocal busiest
            link, _ = await dialled(registry, dialler, f"127.0.0.1({port})")
            busiest = max(busiest, len(dialler._calling))
            assert link is not None
            link.close()

        await asyncio.gather(*(one() for _ in range(20)))
        assert busiest <= 3
        server.close()

    on_loop(host, work)


def test_as_many_are_called_at_once_as_may_be_and_no_more(host: Host) -> None:
    async def work(registry: SessionRegistry) -> None:
        calls: list[asyncio.Future[Any]] = []

        async def connect(*_: Any, **__: Any) -> Any:
            calls.append(registry.loop.create_future())
            return await calls[-1]

        registry.loop.create_connection = connect  # type: ignore[method-assign, assignment]
        dialler = Dialler(at_once_max=3)
        told: list[EntrepotError | None] = []
        for _ in range(5):
            definition = Channel(name="C", connection_name="b(1414)")
            dialler.dial(definition, 0, lambda: FramedConnection(registry), lambda _, error: told.append(error))
        for answered in range(5):
            await turns()
            assert (len(calls), len(told)) == (min(answered + 3, 5), answered)
            calls[answered].set_exception(ConnectionRefusedError(111, "Connection refused"))
        await turns()
        assert [type(error) for error in told] == [ConnectFailed] * 5

    on_loop(host, work)


@pytest.mark.parametrize("name", ["what is this", "host(port)", "host()", "(1414)", "host(1414"])
def test_what_names_no_place_is_told_without_being_called(host: Host, name: str) -> None:
    async def work(registry: SessionRegistry) -> None:
        told: list[EntrepotError | None] = []
        definition = Channel(name="C", connection_name=name)
        Dialler().dial(definition, 0, lambda: FramedConnection(registry), lambda _, error: told.append(error))
        await turns()
        assert [type(error) for error in told] == [ConnectFailed]
        assert "no host(port)" in str(told[0])

    on_loop(host, work)


def test_who_has_given_up_hears_nothing_and_leaves_no_connection(host: Host) -> None:
    async def work(registry: SessionRegistry) -> None:
        server, port = await listening(registry)
        dialler = Dialler()
        links: list[FramedConnection] = []

        def make() -> FramedConnection:
            links.append(FramedConnection(registry))
            return links[-1]

        definition = Channel(name="C", connection_name=f"127.0.0.1({port})")
        give_up = dialler.dial(definition, 0, make, lambda *_: pytest.fail("told"))
        await asyncio.sleep(0)
        give_up()
        while not links or not links[0].closed:
            await asyncio.sleep(0.001)
        server.close()

    on_loop(host, work)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if openssl() is None:
        pytest.skip("needs the openssl command")
    return make_certificates(tmp_path_factory.mktemp("tls") / "tls", ["server", "app1"])


def test_a_channel_with_tls_is_encrypted_and_knows_its_partner(host: Host, certificates: Certificates) -> None:
    context: ssl.SSLContext = client_context(certificates.authority)

    async def work(registry: SessionRegistry) -> None:
        server, port = await listening(registry, ssl=server_context(certificates.of("server")))
        place = f"localhost({port})"
        link, error = await dialled(registry, Dialler(lambda _: context), place, tls="ANY")
        assert error is None
        assert link is not None
        assert link.transport.get_extra_info("ssl_object") is not None
        link.close()
        for peer, refused in (("CN=server", False), ("CN=somebody", True)):
            link, error = await dialled(registry, Dialler(lambda _: context), place, tls="ANY", tls_peer=peer)
            assert (error is not None) == refused
            if link is not None:
                link.close()
        server.close()

    on_loop(host, work)


def test_a_channel_that_wants_tls_never_goes_without(host: Host) -> None:
    async def work(registry: SessionRegistry) -> None:
        server, port = await listening(registry)
        _, error = await dialled(registry, Dialler(), f"127.0.0.1({port})", tls="ANY")
        assert "no certificates" in str(error)
        server.close()

    on_loop(host, work)
