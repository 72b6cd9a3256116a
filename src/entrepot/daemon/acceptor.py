# SPDX-License-Identifier: Apache-2.0
"""Accepting encrypted connections: counted from the first packet on, not only once their handshake is over.

asyncio tells a protocol of its connection when the handshake has succeeded.
Until then nobody would count it, and who opens connections and says nothing
could use up all descriptors of the process, the log's among them.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable

from entrepot.server.connection_limiter import ConnectionLimiter

HANDSHAKES_MAX = 1000
"""Handshakes of one listener at a time."""
_PAUSE_S = 0.1
_RESERVE_MIN = 64


class Acceptor:
    """Listening sockets whose connections are encrypted; on the loop's thread only."""

    def __init__(
        self,
        sockets: list[socket.socket],
        make: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext,
        handshake_s: float,
        gate: ConnectionLimiter,
        failed: Callable[[str, str], None],
    ) -> None:
        self.sockets = sockets
        self._make = make
        self._context = context
        self._handshake_s = handshake_s
        self._gate = gate
        """For those whose handshake is under way."""
        self._failed = failed
        """Told of every handshake that failed: from where, and why."""
        self._loop = asyncio.get_running_loop()
        self._greeting: set[asyncio.Task[None]] = set()
        self._accepting = [self._loop.create_task(self._accept(listening)) for listening in sockets]

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                accepted, peer = await self._loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(_PAUSE_S)  # out of descriptors, most likely: others have to end first
                continue
            address = str(peer[0])
            if not self._gate.enter(address):
                accepted.close()
                continue
            task = self._loop.create_task(self._greet(accepted, address))
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    async def _greet(self, accepted: socket.socket, address: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make, accepted, ssl=self._context, ssl_handshake_timeout=self._handshake_s
            )
        except OSError as error:
            # It was no handshake, or none that we accept, or took too long.
            accepted.close()
            self._failed(address, getattr(error, "reason", "") or str(error))
        finally:
            self._gate.leave(address)

    def close(self) -> None:
        """Accept no more; those that are in stay."""
        for task in self._accepting:
            task.cancel()
        for listening in self.sockets:
            self._loop.call_soon(listening.close)  # once nobody waits for it any more
        self.sockets = []


def listen_at(address: str, port: int, backlog: int) -> list[socket.socket]:
    """Listening sockets for all that an address stands for, as asyncio makes them.

    Raises:
        OSError: Somebody else has the port, or nobody has the address.
    """
    opened: list[socket.socket] = []
    try:
        places = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, where in dict.fromkeys(places):
            opened.append(listening := socket.socket(family, kind, protocol))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.setblocking(False)
            listening.bind(where)
            listening.listen(backlog)
    except BaseException:
        for listening in opened:
            listening.close()
        raise
    return opened


def connections_max() -> int:
    """How many connections the process may have, with enough descriptors left for log, runs and channels."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard and hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    if soft == resource.RLIM_INFINITY:
        return 1_000_000
    return max(soft - max(_RESERVE_MIN, soft // 8), 1)
