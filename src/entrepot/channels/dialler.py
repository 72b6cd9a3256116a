# SPDX-License-Identifier: Apache-2.0
"""How a sender reaches the other queue manager: CONNAME, sockets, TLS; and not all senders at once.

host(1414)            one place; 1414 is the port when none is said
a(1414),b(1414)       several, tried in turn
unix:PATH             a queue manager on this machine: its folder, or a socket
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
from collections import deque
from collections.abc import Callable
from pathlib import Path

from entrepot.engine.definitions import Channel
from entrepot.errors import ConnectFailed, EntrepotError
from entrepot.server.framed_connection import FramedConnection
from entrepot.server.security.distinguished_name import fits
from entrepot.server.security.tls import peer_name
from entrepot.server.wire.frame import PORT, SOCKET

_AT_ONCE_MAX = 64
"""Connections that are being opened at a time: more would only wait in the other end's backlog."""
_TIMEOUT_S = 10.0
_REMOTE = re.compile(r"(?P<host>[^()\s]+)(\((?P<port>[0-9]+)\))?")
_UNIX = "unix:"

MakeLink = Callable[[], FramedConnection]
Dialled = Callable[[FramedConnection | None, EntrepotError | None], None]
GiveUp = Callable[[], None]
Dial = Callable[[Channel, int, MakeLink, Dialled], GiveUp]
"""Open a connection for a channel and tell of it once; the number says with which of its places to begin."""
TlsOf = Callable[[Channel], ssl.SSLContext | None]


def places(connection_name: str, first: int = 0) -> list[str]:
    """The places that a CONNAME names, beginning with one of them."""
    names = [place.strip() for place in connection_name.split(",") if place.strip()]
    first = first % len(names) if names else 0
    return names[first:] + names[:first]


class Dialler:
    """Opens connections for all senders of a queue manager; on the loop's thread only."""

    def __init__(
        self,
        tls_of: TlsOf = lambda _: None,
        *,
        at_once_max: int = _AT_ONCE_MAX,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._tls_of = tls_of
        """For channels with SSLCIPH."""
        self._at_once_max = at_once_max
        self._timeout_s = timeout_s
        self._waiting: deque[_Call] = deque()
        self._calling: set[asyncio.Task[None]] = set()

    def dial(self, definition: Channel, first: int, make_link: MakeLink, done: Dialled) -> GiveUp:
        """See `Dial`."""
        call = _Call(definition, first, make_link, done)
        self._waiting.append(call)
        self._go_on()
        return call.give_up

    def _go_on(self) -> None:
        while self._waiting and len(self._calling) < self._at_once_max:
            call = self._waiting.popleft()
            if call.done is not None:
                task = self._loop.create_task(self._call(call))
                self._calling.add(task)
                task.add_done_callback(self._called)

    def _called(self, task: asyncio.Task[None]) -> None:
        self._calling.discard(task)
        self._go_on()

    async def _call(self, call: _Call) -> None:
        problems = []
        for place in places(call.definition.connection_name, call.first):
            try:
                async with asyncio.timeout(self._timeout_s):
                    link = await self._open(place, call)
            except (OSError, EntrepotError, ValueError) as error:
                what = error.what if isinstance(error, EntrepotError) else str(error) or type(error).__name__
                problems.append(f"{place}: {what}")
                continue
            call.tell(link, None)
            return
        name = call.definition.connection_name
        call.tell(None, ConnectFailed(name or "CONNAME()", "; ".join(problems) or "it names no place"))

    async def _open(self, place: str, call: _Call) -> FramedConnection:
        definition = call.definition
        context = self._tls_of(definition) if definition.tls else None
        if definition.tls and context is None:
            raise ConnectFailed(place, "the channel wants TLS (SSLCIPH), and this queue manager has no certificates")
        if place.startswith(_UNIX):
            opened = await self._open_unix(Path(place.removeprefix(_UNIX)))
            _, link = await self._loop.create_connection(call.make_link, sock=opened)
            return link
        match = _REMOTE.fullmatch(place)
        if match is None:
            raise ConnectFailed(place, "this is no host(port)")
        host, port = match["host"], int(match["port"] or PORT)
        transport, link = await self._loop.create_connection(
            call.make_link, host, port, ssl=context, server_hostname=host if context else None
        )
        opened = transport.get_extra_info("socket")
        if opened is not None:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        _require_peer(definition, transport, place)
        link.address = place
        return link

    async def _open_unix(self, path: Path) -> socket.socket:
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        opened.setblocking(False)
        # By way of a descriptor, because the path of a Unix socket has at most 107 bytes.
        folder, name = (path, SOCKET) if path.is_dir() else (path.parent, path.name)
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                await self._loop.sock_connect(opened, f"/proc/self/fd/{descriptor}/{name}")
            finally:
                os.close(descriptor)
        except BaseException:
            opened.close()
            raise
        return opened

    async def close(self) -> None:
        """Open nothing any more."""
        self._waiting.clear()
        calling = list(self._calling)
        for task in calling:
            task.cancel()
        await asyncio.gather(*calling, return_exceptions=True)


class _Call:
    """One sender's wish to be connected."""

    __slots__ = ("definition", "done", "first", "make_link")

    def __init__(self, definition: Channel, first: int, make_link: MakeLink, done: Dialled) -> None:
        self.definition = definition
        self.first = first
        self.make_link = make_link
        self.done: Dialled | None = done

    def give_up(self) -> None:
        self.done = None

    def tell(self, link: FramedConnection | None, error: EntrepotError | None) -> None:
        done, self.done = self.done, None
        if done is not None:
            done(link, error)
        elif link is not None:
            link.close()


def _require_peer(definition: Channel, transport: asyncio.BaseTransport, place: str) -> None:
    """Refuse a partner whose certificate does not say what SSLPEER wants."""
    if not definition.tls_peer:
        return
    encrypted = transport.get_extra_info("ssl_object")
    certificate = encrypted.getpeercert(binary_form=True) if encrypted is not None else None
    name = peer_name(certificate) if certificate else ""
    if not fits(definition.tls_peer, name):
        transport.close()
        raise ConnectFailed(place, f"its certificate names {name or 'nobody'}, not {definition.tls_peer}")
