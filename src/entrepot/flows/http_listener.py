# SPDX-License-Identifier: Apache-2.0
"""HTTP listeners: one server for a port and process, on a thread of its own, for all HTTPInput nodes there.

A request waits here until a flow has answered it:

    client ── request ──> listener ── Message ──> source.next() ──> kernel
           <─ response ──          <── answer(identifier, reply) ── after the commit

The identifier has 24 bytes: the flow (4), the process (8), until when the
client waits (4, seconds since 1970), a count (8). So the holder of a reply knows
where its client is, even in another process.

Instances of a flow on one machine share the port: the kernel of the operating
system gives each connection to one of them. A port belongs to one flow, since
another one's instances would not know its paths.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from entrepot import limits
from entrepot.errors import AddressInUse
from entrepot.flows.http_headers import Headers, code_page_of, find
from entrepot.flows.http_requests import REASONS, RequestHead, RequestRefused, read_body, read_head, response
from entrepot.message import Message, MessageType

APPLICATION = "HTTP"
"""What a message says in `application` that is a request."""
CONNECTIONS_MAX = 2_000
REQUESTS_MAX = 1_000
"""Requests that wait for a flow's answer, for one listener."""
BYTES_MAX = 256 * limits.MIB
"""Bodies of requests that wait."""
START_S = 10.0
_FLOW_BYTES = 4
_OWNER_BYTES = 8
_DEADLINE_BYTES = 4
_COUNT_BYTES = 8
IDENTIFIER_BYTES = _FLOW_BYTES + _OWNER_BYTES + _DEADLINE_BYTES + _COUNT_BYTES
_KNOWN_BY = "Entrepot-Flow"
"""The header with which a listener tells its own kind to which flow it belongs."""

Answer = TypeVar("Answer")


class Reply(NamedTuple):
    """What a client gets."""

    status: int
    headers: Headers
    body: bytes


class RequestIdentifier(NamedTuple):
    """Whose request it is, taken apart."""

    flow: str
    owner: str
    deadline: int


def flow_mark(flow: str) -> str:
    """A flow's name in eight characters, for identifiers and the name of its reply queue."""
    return hashlib.sha256(flow.encode()).hexdigest()[: 2 * _FLOW_BYTES].upper()


def read_identifier(identifier: bytes) -> RequestIdentifier:
    """
    Raises:
        ValueError: This is none.
    """
    if len(identifier) != IDENTIFIER_BYTES:
        raise ValueError(f"{len(identifier)} bytes are no identifier of a request")
    owner_end = _FLOW_BYTES + _OWNER_BYTES
    deadline = int.from_bytes(identifier[owner_end : owner_end + _DEADLINE_BYTES], "big")
    if not deadline:
        raise ValueError("a request has a time by which its client is gone")  # an empty CorrelId, most likely
    return RequestIdentifier(
        identifier[:_FLOW_BYTES].hex().upper(), identifier[_FLOW_BYTES:owner_end].hex().upper(), deadline
    )


class _Process:
    """The listeners of this process; a child that was forked begins anew."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.owner = os.urandom(_OWNER_BYTES)
        self.lock = threading.Lock()
        self.listeners: dict[tuple[str, int], HttpListener] = {}


_process = _Process()


def _here() -> _Process:
    global _process
    # What a fork has copied is the parent's.
    if _process.pid != os.getpid():
        _process = _Process()
    return _process


def owner() -> str:
    """How identifiers name this process."""
    return _here().owner.hex().upper()


def is_waiting(identifier: bytes) -> bool:
    """Whether a client of this process still waits for that answer."""
    return any(identifier in listener.waiting for listener in list(_here().listeners.values()))


def answer(identifier: bytes, reply: Reply) -> None:
    """Send a client its answer; one that waits no more gets none."""
    for listener in list(_here().listeners.values()):
        if identifier in listener.waiting:
            listener.answer(identifier, reply)


@dataclass(slots=True)
class WaitingRequest:
    """A request, and the client that waits."""

    message: Message
    settled: asyncio.Future[Reply]


@dataclass(slots=True)
class HttpRoute:
    """Requests for one path."""

    path: str
    """`/orders`, or `/orders/*` for everything below."""
    methods: frozenset[str]
    """Empty for all."""
    timeout_s: float
    ready: deque[WaitingRequest] = field(default_factory=deque)
    arrived: threading.Condition = field(default_factory=threading.Condition)


class HttpSource:
    """Requests for one HTTPInput node (input_node.Source)."""

    def __init__(self, listener: HttpListener, route: HttpRoute) -> None:
        self._listener = listener
        self._route = route
        self._handed_out: list[WaitingRequest] = []

    @property
    def port(self) -> int:
        return self._listener.port

    def next(self, wait_s: float) -> Message | None:
        route = self._route
        end = time.monotonic() + wait_s
        with route.arrived:
            while True:
                while route.ready:
                    waiting = route.ready.popleft()
                    # A client whose time was up before its request was read is not worth the work.
                    if waiting.message.message_id in self._listener.waiting:
                        self._handed_out.append(waiting)
                        return waiting.message
                left_s = end - time.monotonic()
                if left_s <= 0 or not route.arrived.wait(left_s):
                    return None

    def committed(self) -> None:
        self._handed_out.clear()

    def backed_out(self) -> None:
        with self._route.arrived:
            self._route.ready.extendleft(reversed(self._handed_out))
        self._handed_out.clear()

    def left_in_doubt(self) -> None:
        """Requests must not be carried out twice: their clients decide."""
        for waiting in self._handed_out:
            text = "Whether the request has been carried out is not known. Look before you send it again."
            self._listener.answer(waiting.message.message_id, _text_reply(500, text))
        self._handed_out.clear()

    def close(self) -> None:
        """Turn away clients that still wait, and stop listening when no other node does."""
        _close_route(self._listener, self._route)


def open_source(
    *,
    flow: str,
    host: str,
    port: int,
    path: str,
    methods: frozenset[str],
    timeout_s: float,
    context: ssl.SSLContext | None = None,
) -> HttpSource:
    """Listen for requests for a path.

    Raises:
        AddressInUse: Something else listens at that port, or the address is none of this machine.
    """
    process = _here()
    route = HttpRoute(path, methods, timeout_s)
    with process.lock:
        listener = process.listeners.get((host, port))
        if listener is None:
            if port:
                _require_own(flow, host, port, context)
            listener = process.listeners[host, port] = HttpListener(flow, host, port, process.owner, context)
            try:
                listener.start()
            except BaseException:
                del process.listeners[host, port]
                raise
        elif listener.flow != flow:
            raise AddressInUse(f"{host}:{port}", f"the flow {listener.flow} listens there")
        if path in listener.routes:
            raise AddressInUse(f"{host}:{port}{path}", "another node of the flow has that path")
        listener.routes[path] = route
    return HttpSource(listener, route)


def _close_route(listener: HttpListener, route: HttpRoute) -> None:
    process = _here()
    with process.lock:
        if listener.routes.get(route.path) is route:
            del listener.routes[route.path]
        with route.arrived:
            route.ready.clear()
        if not listener.routes:
            process.listeners = {key: kept for key, kept in process.listeners.items() if kept is not listener}
            listener.stop()


def _require_own(flow: str, host: str, port: int, context: ssl.SSLContext | None) -> None:
    """Sharing a port is for instances of one flow; the operating system lets any of the user's programs share it."""
    target = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 -- not bound here
    try:
        probe = socket.create_connection((target, port), timeout=START_S)
    except OSError:
        return  # nothing listens; whether one can is found out by listening
    known = f"{_KNOWN_BY}: {flow_mark(flow)}".encode()
    answer = b""
    try:
        if context is not None:
            blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
            probe = blind.wrap_socket(probe)
        with probe:
            probe.sendall(b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            while len(answer) < 4 * limits.KIB and (piece := probe.recv(limits.KIB)):
                answer += piece
    except OSError:
        probe.close()
    if known not in answer.split(b"\r\n"):
        raise AddressInUse(f"{host}:{port}", "another flow or program listens there; a port belongs to one flow")


class HttpListener:
    """A server on a thread of its own."""

    def __init__(self, flow: str, host: str, port: int, owner: bytes, context: ssl.SSLContext | None) -> None:
        self.flow = flow
        self.host = host
        self.port = port
        self.routes: dict[str, HttpRoute] = {}
        self.waiting: dict[bytes, WaitingRequest] = {}
        """By identifier; changed on the loop's thread only."""
        self._head = bytes.fromhex(flow_mark(flow)) + owner
        self._count = itertools.count(1)
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.bytes_held = 0
        self._thread = threading.Thread(target=self._run, name=f"entrepot-http-{port}", daemon=True)

    # --- start and stop -----------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()
        try:
            self._on_loop(self._listen())
        except OSError as error:
            self._end()
            raise AddressInUse(f"{self.host}:{self.port}", str(error)) from error

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _on_loop(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_S)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(
            self._connected,
            self.host,
            self.port,
            limit=RequestHead.BYTES_MAX,
            reuse_port=True,
            backlog=1_024,
            ssl=self._context,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Take no more; waiting clients are told that the service has gone."""
        self._on_loop(self._close())
        self._end()

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        for waiting in list(self.waiting.values()):
            _settle(waiting, _text_reply(503, "The flow that serves this path has stopped."))
        await asyncio.sleep(0)
        # Those that have an answer to send get a moment for it; idle ones are cut off.
        if self._connections:
            await asyncio.wait(self._connections, timeout=0.2)
        for task in self._connections:
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=1)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_S)

    def answer(self, identifier: bytes, reply: Reply) -> None:
        """From any thread."""
        try:
            self._loop.call_soon_threadsafe(self._answered, identifier, reply)
        except RuntimeError:
            return  # it has just stopped, and told its clients so

    def _answered(self, identifier: bytes, reply: Reply) -> None:
        waiting = self.waiting.get(identifier)
        if waiting is not None:
            _settle(waiting, reply)

    # --- one connection -----------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            if len(self._connections) > CONNECTIONS_MAX:
                writer.write(response(_text_reply(503, "Too many connections."), keep_alive=False))
                return
            while await self._exchange(reader, writer):
                pass
        except (OSError, EOFError, TimeoutError, asyncio.CancelledError):
            pass  # it has gone, or was too slow, or we stop
        finally:
            self._connections.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and its response; whether the connection stays."""
        try:
            head = await read_head(reader)
            if head is None:
                return False
            reply = await self._dealt_with(head, reader, writer)
        except RequestRefused as refused:
            # What follows on the connection may be the rest of what was refused.
            writer.write(response(_text_reply(refused.status, refused.problem, refused.headers), keep_alive=False))
            await writer.drain()
            return False
        writer.write(response(reply, keep_alive=head.keep_alive, head_only=head.method == "HEAD"))
        await writer.drain()
        return head.keep_alive and self._server is not None and self._server.is_serving()

    async def _dealt_with(self, head: RequestHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Reply:
        if head.target == "*":
            return Reply(200, [(_KNOWN_BY, flow_mark(self.flow))], b"")
        route = self._route(head)
        if len(self.waiting) >= REQUESTS_MAX or self.bytes_held + head.length > BYTES_MAX:
            raise _full()
        if head.expects_continue:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        held = _Held(self)
        try:
            body = await read_body(reader, head, limits.BODY_BYTES_MAX, held.grow)
            return await self._answer_of(self._message(head, body, route, writer), route)
        finally:
            self.bytes_held -= held.bytes

    async def _answer_of(self, message: Message, route: HttpRoute) -> Reply:
        waiting = WaitingRequest(message, self._loop.create_future())
        self.waiting[message.message_id] = waiting
        with route.arrived:
            route.ready.append(waiting)
            route.arrived.notify()
        try:
            async with asyncio.timeout(route.timeout_s):
                return await waiting.settled
        except TimeoutError:
            return _text_reply(504, "The flow has not answered in time.")
        finally:
            del self.waiting[message.message_id]

    def _route(self, head: RequestHead) -> HttpRoute:
        path = head.path
        route = self.routes.get(path)
        if route is None:
            candidates = [
                each
                for each in self.routes.values()
                if each.path.endswith("/*") and (path + "/").startswith(each.path[:-1])
            ]
            route = max(candidates, key=lambda each: len(each.path), default=None)
        if route is None:
            raise RequestRefused(404, "No flow serves this path.")
        if route.methods and head.method not in route.methods:
            allowed = ", ".join(sorted(route.methods))
            raise RequestRefused(405, f"Only {allowed} can be used here.", [("Allow", allowed)])
        return route

    def _message(self, head: RequestHead, body: bytes, route: HttpRoute, writer: asyncio.StreamWriter) -> Message:
        now = time.time()
        deadline = min(int(now + route.timeout_s) + 1, 2 ** (8 * _DEADLINE_BYTES) - 1)
        identifier = (
            self._head + deadline.to_bytes(_DEADLINE_BYTES, "big") + next(self._count).to_bytes(_COUNT_BYTES, "big")
        )
        peer = writer.get_extra_info("peername")
        return Message(
            body,
            message_id=identifier,
            correlation_id=identifier,
            type=MessageType.REQUEST,
            put_time=now,
            application=APPLICATION,
            ccsid=code_page_of(find(head.headers, "Content-Type") or ""),
            properties={
                "method": head.method,
                "target": head.target,
                "version": head.version,
                "headers": "\n".join(f"{name}:{value}" for name, value in head.headers),
                "client": str(peer[0]) if isinstance(peer, tuple) else "",
                "port": self.port,
                "scheme": "https" if self._context is not None else "http",
            },
        )


class _Held:
    """The part of a body that is in memory; all of them together have a limit."""

    def __init__(self, listener: HttpListener) -> None:
        self._listener = listener
        self.bytes = 0

    def grow(self, size: int) -> None:
        self.bytes += size
        self._listener.bytes_held += size
        if self._listener.bytes_held > BYTES_MAX:
            raise _full()


def _full() -> RequestRefused:
    return RequestRefused(503, "Too many requests wait already; try again later.", [("Retry-After", "1")])


def _settle(waiting: WaitingRequest, reply: Reply) -> None:
    if not waiting.settled.done():
        waiting.settled.set_result(reply)


def _text_reply(status: int, text: str, headers: Headers | None = None) -> Reply:
    body = f"{status} {REASONS.get(status, '')}\n{text}\n".encode()
    return Reply(status, [("Content-Type", "text/plain; charset=utf-8"), *(headers or [])], body)
