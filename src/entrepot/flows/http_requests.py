# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 as a server reads and writes it (RFC 9112): request head, body, response.

Strict where leniency has let requests be smuggled past proxies: a length and
chunks together, two lengths, folded lines, blanks before a colon are all
refused.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import ClassVar, Protocol
from urllib.parse import unquote, urlsplit

from entrepot.flows.http_headers import TOKEN, Headers, find

REASONS = {int(status): status.phrase for status in HTTPStatus}

IDLE_S = 30.0
"""For a request's head to come, and for the next one on a connection that stays."""
PATIENCE_S = 30.0
RATE_BYTES_PER_S = 16 * 1024
"""A body may take so long, and a second more for so many bytes that have come."""
_HEADERS_MAX = 100
_PIECE_BYTES = 64 * 1024
_CHUNK_LINE_BYTES_MAX = 1024

_REQUEST_LINE = re.compile(rf"({TOKEN.pattern}) ([!-~]+) HTTP/(\d)\.(\d)", re.ASCII)
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(;[^\r\n]*)?\r\n")
_VALUE = re.compile(r"[\t -~\x80-\xff]*")


class RequestRefused(Exception):
    """A request that is answered with an error at once."""

    def __init__(self, status: int, problem: str, headers: Headers | None = None) -> None:
        super().__init__(status, problem)
        self.status = status
        self.problem = problem
        self.headers = headers or []


@dataclass(slots=True)
class RequestHead:
    """What stands before the body."""

    BYTES_MAX: ClassVar[int] = 64 * 1024

    method: str
    target: str
    version: str
    headers: Headers
    keep_alive: bool
    length: int
    """Of the body; 0 when it comes in chunks."""
    chunked: bool
    expects_continue: bool

    @property
    def path(self) -> str:
        return unquote(urlsplit(self.target).path) or "/"


async def read_head(reader: asyncio.StreamReader) -> RequestHead | None:
    """The head of the next request; None when the client has closed the connection.

    Raises:
        Refused: It is none, or too long.
        TimeoutError: It did not come.
    """
    async with asyncio.timeout(IDLE_S):
        try:
            block = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as error:
            if error.partial.strip():
                raise RequestRefused(400, "The request ends in its headers.") from None
            return None
        except asyncio.LimitOverrunError:
            raise RequestRefused(431, f"The headers have more than {RequestHead.BYTES_MAX} bytes.") from None
    return parse_head(block)


def parse_head(block: bytes) -> RequestHead:
    """
    Raises:
        Refused: With what is wrong.
    """
    # Empty lines before a request are left over from an earlier one, and allowed.
    lines = block.decode("latin-1").lstrip("\r\n").removesuffix("\r\n\r\n").split("\r\n")
    match = _REQUEST_LINE.fullmatch(lines[0])
    if match is None:
        raise RequestRefused(400, "The first line is no request.")
    method, target, major, minor = match.groups()
    if major != "1":
        raise RequestRefused(505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.")
    if target != "*" and not target.startswith("/") and not re.match(r"https?://", target):
        raise RequestRefused(400, "The request has no path.")
    headers = _parse_headers(lines[1:])
    if minor != "0" and len([1 for name, _ in headers if name.lower() == "host"]) != 1:
        raise RequestRefused(400, "A request has one header Host.")
    length, chunked = _framing(headers, minor)
    connection = {
        part.strip().lower() for name, value in headers if name.lower() == "connection" for part in value.split(",")
    }
    expects = find(headers, "Expect")
    if expects is not None and expects.lower() != "100-continue":
        raise RequestRefused(417, "Only 100-continue can be expected.")
    return RequestHead(
        method,
        target,
        f"HTTP/{major}.{minor}",
        headers,
        keep_alive="keep-alive" in connection if minor == "0" else "close" not in connection,
        length=length,
        chunked=chunked,
        expects_continue=expects is not None and minor != "0",
    )


def _parse_headers(lines: list[str]) -> Headers:
    if len(lines) > _HEADERS_MAX:
        raise RequestRefused(431, f"There are more than {_HEADERS_MAX} headers.")
    headers = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise RequestRefused(400, "A header cannot be read.")
        headers.append((name, value.strip(" \t")))
    return headers


def _framing(headers: Headers, minor: str) -> tuple[int, bool]:
    """How long the body is, and whether it comes in chunks."""
    codings = [value for name, value in headers if name.lower() == "transfer-encoding"]
    lengths = {value for name, value in headers if name.lower() == "content-length"}
    if codings:
        if lengths or minor == "0":
            raise RequestRefused(400, "It does not say clearly how long the body is.")
        if len(codings) != 1 or codings[0].strip().lower() != "chunked":
            raise RequestRefused(501, "Only chunked is understood as Transfer-Encoding.")
        return 0, True
    if not lengths:
        return 0, False
    text = lengths.pop()
    if lengths or not re.fullmatch(r"\d{1,18}", text, re.ASCII):
        raise RequestRefused(400, "It does not say clearly how long the body is.")
    return int(text), False


async def read_body(
    reader: asyncio.StreamReader, head: RequestHead, bytes_max: int, came: Callable[[int], None]
) -> bytes:
    """The body of a request; `came` hears of each piece, and may refuse it.

    Raises:
        Refused: It is too long, its chunks are none, or it comes too slowly.
    """
    if head.length > bytes_max:
        raise RequestRefused(413, f"A body has at most {bytes_max} bytes.")
    pace = _Pace(came)
    try:
        if not head.chunked:
            return await _read(reader, head.length, pace)
        return await _read_chunks(reader, bytes_max, pace)
    except TimeoutError:
        raise RequestRefused(408, "The body comes too slowly.") from None
    except asyncio.IncompleteReadError:
        raise RequestRefused(400, "The body ends early.") from None


class _Pace:
    """How long a client may take, the longer the more has come."""

    def __init__(self, heard: Callable[[int], None]) -> None:
        self._began = time.monotonic()
        self._heard = heard
        self._came = 0

    def came(self, size: int) -> None:
        self._came += size
        self._heard(size)

    def left_s(self) -> float:
        return self._began + PATIENCE_S + self._came / RATE_BYTES_PER_S - time.monotonic()


async def _read(reader: asyncio.StreamReader, length: int, pace: _Pace) -> bytes:
    pieces: list[bytes] = []
    missing = length
    while missing:
        async with asyncio.timeout(pace.left_s()):
            piece = await reader.read(min(missing, _PIECE_BYTES))
        if not piece:
            raise asyncio.IncompleteReadError(b"", missing)
        pieces.append(piece)
        missing -= len(piece)
        pace.came(len(piece))
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def _read_chunks(reader: asyncio.StreamReader, bytes_max: int, pace: _Pace) -> bytes:
    pieces: list[bytes] = []
    total = 0
    while True:
        match = _CHUNK_SIZE.fullmatch(await _line(reader, pace))
        if match is None:
            raise RequestRefused(400, "A chunk does not say its size.")
        size = int(match.group(1), 16)
        if not size:
            break
        total += size
        if total > bytes_max:
            raise RequestRefused(413, f"A body has at most {bytes_max} bytes.")
        pieces.append(await _read(reader, size, pace))
        if await _read(reader, 2, pace) != b"\r\n":
            raise RequestRefused(400, "A chunk is longer than it says.")
    for _ in range(_HEADERS_MAX):
        if await _line(reader, pace) == b"\r\n":  # trailers are read, and mean nothing to us
            return b"".join(pieces)
    raise RequestRefused(431, f"There are more than {_HEADERS_MAX} headers after the body.")


async def _line(reader: asyncio.StreamReader, pace: _Pace) -> bytes:
    async with asyncio.timeout(pace.left_s()):
        try:
            line = await reader.readuntil(b"\r\n")
        except asyncio.LimitOverrunError:
            raise RequestRefused(400, "A chunk does not say its size.") from None
    if len(line) > _CHUNK_LINE_BYTES_MAX:
        raise RequestRefused(400, "A chunk does not say its size.")
    return line


class ResponseParts(Protocol):
    """What a response is made of."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Headers: ...
    @property
    def body(self) -> bytes: ...


def response(reply: ResponseParts, *, keep_alive: bool, head_only: bool = False) -> bytes:
    """A response as it is sent."""
    status = reply.status
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in reply.headers]
    if find(reply.headers, "Date") is None:
        lines.append(f"Date: {formatdate(usegmt=True)}")
    has_body = status >= 200 and status not in (204, 304)
    if has_body:
        lines.append(f"Content-Length: {len(reply.body)}")
    lines.append(f"Connection: {'keep-alive' if keep_alive else 'close'}")
    head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return head + reply.body if has_body and not head_only else head
