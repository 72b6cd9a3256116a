# SPDX-License-Identifier: Apache-2.0
"""Requests to HTTP servers, over connections that stay open between messages.

A connection that its server has closed in the meantime is noticed before it
is used again. A request that fails on its way is sent a second time only if
its method allows that (RFC 9110, idempotent methods) and the connection was
an old one.
"""

from __future__ import annotations

import http.client
import io
import select
import socket
import ssl
import time
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urljoin, urlsplit

from entrepot import limits
from entrepot.flows.http_headers import Headers, find

_AGAIN = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})
_REDIRECTS_MAX = 5
_MOVED = (301, 302, 303, 307, 308)
_PIECE_BYTES = 256 * limits.KIB

_Connection = http.client.HTTPConnection


class Response(NamedTuple):
    """What a server has answered."""

    url: str
    """Where it came from, after redirections."""
    status: int
    phrase: str
    version: str
    headers: Headers
    body: bytes


class UrlInvalid(ValueError):
    """A URL that nothing can be sent to."""


def split_url(url: str) -> SplitResult:
    """
    Raises:
        UrlInvalid: It has no server, or another scheme than http and https.
    """
    if any(character <= " " or character == "\x7f" for character in url):
        raise UrlInvalid("it has blanks or control characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UrlInvalid(str(error)) from error
    if parts.scheme not in ("http", "https"):
        raise UrlInvalid("it begins neither with http:// nor with https://")
    if not parts.hostname or port == 0:
        raise UrlInvalid("it names no server")
    if parts.username is not None or parts.password is not None:
        raise UrlInvalid("it has a user in it; authenticate in the header Authorization")
    if not url.isascii():
        raise UrlInvalid("it has characters that must be written with %")
    return parts


class HttpClient:
    """The connections of one node; for one thread."""

    def __init__(self, authorities_file: str = "") -> None:
        self._authorities_file = authorities_file
        self._context: ssl.SSLContext | None = None
        self._idle: dict[tuple[str, str, int | None], _Connection] = {}

    def send(
        self, method: str, url: str, headers: Headers, body: bytes, *, timeout_s: float, follow: bool = False
    ) -> Response:
        """Send a request, and wait for its response at most `timeout_s`, redirections included.

        Raises:
            UrlInvalid
            OSError, http.client.HTTPException: The server cannot be reached, is too slow, or speaks no HTTP.
        """
        deadline = time.monotonic() + timeout_s
        for _ in range(_REDIRECTS_MAX):
            answer = self._send_once(method, url, headers, body, deadline)
            location = find(answer.headers, "Location")
            if not follow or answer.status not in _MOVED or not location:
                return answer
            target = urljoin(url, location)
            if split_url(target)[:2] != split_url(url)[:2]:
                # Secrets for one server are not sent to the other.
                headers = [each for each in headers if each[0].lower() not in ("authorization", "cookie", "host")]
            if answer.status == 303 or (answer.status in (301, 302) and method == "POST"):
                method, body = "GET", b""
                headers = [each for each in headers if not each[0].lower().startswith("content-")]
            url = target
        raise http.client.HTTPException(f"more than {_REDIRECTS_MAX} redirections")

    def close(self) -> None:
        for connection in self._idle.values():
            connection.close()
        self._idle.clear()

    def _send_once(self, method: str, url: str, headers: Headers, body: bytes, deadline: float) -> Response:
        parts = split_url(url)
        key = (parts.scheme, str(parts.hostname), parts.port)
        connection, is_old = self._connection(key)
        while True:
            try:
                return self._exchange(connection, key, method, url, headers, body, deadline)
            except (ConnectionError, http.client.BadStatusLine):
                connection.close()
                if not is_old or method not in _AGAIN:
                    raise
                connection, is_old = self._new(key), False
            except BaseException:
                connection.close()
                raise

    def _connection(self, key: tuple[str, str, int | None]) -> tuple[_Connection, bool]:
        idle = self._idle.pop(key, None)
        if idle is not None and idle.sock is not None and not select.select([idle.sock], [], [], 0)[0]:
            return idle, True
        if idle is not None:
            idle.close()  # it sends something without a request: that it closes
        return self._new(key), False

    def _new(self, key: tuple[str, str, int | None]) -> _Connection:
        scheme, host, port = key
        if scheme == "http":
            return _Connection(host, port)
        if self._context is None:
            self._context = ssl.create_default_context(cafile=self._authorities_file or None)
        return http.client.HTTPSConnection(host, port, context=self._context)

    def _exchange(
        self,
        connection: _Connection,
        key: tuple[str, str, int | None],
        method: str,
        url: str,
        headers: Headers,
        body: bytes,
        deadline: float,
    ) -> Response:
        _limit(connection, deadline)
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.putrequest(method, target, skip_host=find(headers, "Host") is not None, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value.encode("latin-1"))
        if body or method not in ("GET", "HEAD", "DELETE", "OPTIONS"):
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body or None)
        connection.response_class = partial(_TimedResponse, deadline)  # type: ignore[assignment]
        answer = connection.getresponse()
        content = _read(answer)
        answer.close()  # the connection takes no other request before
        if not answer.will_close:
            self._idle[key] = connection
        else:
            connection.close()
        version = "HTTP/1.0" if answer.version == 10 else "HTTP/1.1"
        return Response(url, answer.status, answer.reason, version, answer.getheaders(), content)


class _TimedResponse(http.client.HTTPResponse):
    """A response that has come by a deadline, however little of it comes at a time."""

    def __init__(self, deadline: float, sock: socket.socket, *arguments: Any, **named: Any) -> None:
        super().__init__(sock, *arguments, **named)
        self.fp = io.BufferedReader(_TimedReader(self.fp.detach(), sock, deadline))


class _TimedReader(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._sock.settimeout(_left_s(self._deadline))
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left_s(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    return left_s


def _limit(connection: _Connection, deadline: float) -> None:
    connection.timeout = left_s = _left_s(deadline)
    if connection.sock is not None:
        connection.sock.settimeout(left_s)


def _read(answer: http.client.HTTPResponse) -> bytes:
    pieces = []
    total = 0
    while piece := answer.read1(_PIECE_BYTES):
        pieces.append(piece)
        total += len(piece)
        if total > limits.BODY_BYTES_MAX:
            raise http.client.HTTPException(f"the response has more than {limits.BODY_BYTES_MAX} bytes")
    if answer.length:
        raise http.client.IncompleteRead(b"".join(pieces), answer.length)
    return b"".join(pieces)
