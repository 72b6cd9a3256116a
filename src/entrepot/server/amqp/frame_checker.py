# SPDX-License-Identifier: Apache-2.0
"""Looks at every frame before proton's engine does, because the engine trusts its peers too much.

Version 0.40 was compiled with AddressSanitizer and given frames that no
decent client sends: a `begin` that answers a session of somebody else's
makes it use memory after it has freed it, and a handle beyond the peer's
own limit silences it for good. One such connection would take the whole
queue manager with it. So these rules are kept here, in a language in which
breaking them costs the connection only; docs/decisions/0012-amqp-engine.md
has the findings, tests/unit/server/amqp/test_fuzz.py goes on looking.

Of a transfer without a state only the handle is read, because most frames are
transfers.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from entrepot.server.amqp.codec import Malformed, decode
from entrepot.server.amqp.conditions import FRAMING_ERROR, INVALID_FIELD, NOT_ALLOWED, RESOURCE_LIMIT_EXCEEDED, Refusal

_HEAD = struct.Struct(">IBBH")
_OPEN, _BEGIN, _ATTACH, _FLOW, _TRANSFER, _DISPOSITION, _DETACH, _END, _CLOSE = range(0x10, 0x19)

FRAME_BYTES_MAX = 65_536
"""What we announce."""
OPENING_FRAME_BYTES_MAX = 16_384
"""Of the first frame. The standard says 512; some clients have more to say about themselves."""
CHANNEL_MAX = 255
LINKS_MAX = 1024
"""Of one session; a link costs about 2 KiB."""
_UINT_MAX = 2**32 - 1
_TRANSFER_FIELDS_PLAIN = 7
"""Those before the state are numbers, booleans and the tag, in which nothing else can be hidden."""


class _Session:
    __slots__ = ("handle_max", "names", "senders")

    def __init__(self, handle_max: int) -> None:
        self.handle_max = handle_max
        self.senders: dict[int, bool] = {}
        """Attached handles, and whether the partner sends by them."""
        self.names: dict[int, tuple[bytes, bool]] = {}


class CheckedBytes(NamedTuple):
    frames: bytes
    """Whole frames that the engine may have."""
    refusal: Refusal | None
    """Why the connection has to end behind them."""


class FrameChecker:
    """One connection's rules."""

    __slots__ = ("_closed", "_frame_bytes_max", "_opened", "_rest", "_sessions", "_sessions_max")

    def __init__(self) -> None:
        self._rest = b""
        self._sessions: dict[int, _Session] = {}
        self._opened = False
        self._closed = False
        self._frame_bytes_max = OPENING_FRAME_BYTES_MAX
        self._sessions_max = CHANNEL_MAX + 1

    def check(self, data: bytes) -> CheckedBytes:
        """The whole frames of what has come so far, up to the first that breaks a rule."""
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        refusal: Refusal | None = None
        try:
            while end - at >= 8:
                size, offset, kind, channel = _HEAD.unpack_from(data, at)
                if size > self._frame_bytes_max or size < 8:
                    raise Refusal(FRAMING_ERROR, f"a frame of {size} bytes, the limit is {self._frame_bytes_max}")
                if at + size > end:
                    break
                if offset != 2 or kind != 0:
                    raise Refusal(FRAMING_ERROR, f"a frame of type {kind} with a header of {4 * offset} bytes")
                if size > 8:
                    self._check_frame(data, at + 8, at + size, channel)
                at += size
        except Refusal as refused:
            refusal = refused
        except (IndexError, Malformed, struct.error) as error:
            refusal = Refusal(FRAMING_ERROR, f"a performative that cannot be read: {error}")
        self._rest = data[at:] if at < end and refusal is None else b""
        return CheckedBytes(data if at == end else data[:at], refusal)

    def _check_frame(self, data: bytes, at: int, end: int, channel: int) -> None:
        # Descriptors in other forms than this one are legal, but nobody uses them and every form is a risk.
        if data[at] != 0 or data[at + 1] != 0x53:
            raise Refusal(FRAMING_ERROR, "a performative without a short descriptor")
        code = data[at + 2]
        at += 3
        if code == _TRANSFER:
            session = self._sessions.get(channel)
            if session is None:
                raise Refusal(NOT_ALLOWED, f"no session has begun on channel {channel}")
            form = data[at]
            handle_at = at + 3 if form == 0xC0 else at + 9
            if form not in (0xC0, 0xD0):
                raise Malformed("no list of fields")
            if form == 0xD0 or data[at + 2] > _TRANSFER_FIELDS_PLAIN:
                _fields_of_transfer(data, at, end)
            form = data[handle_at]
            if form == 0x43:
                handle = 0
            elif form == 0x52:
                handle = data[handle_at + 1]
            else:
                handle = _uint(decode(data[handle_at:end])[0])
            if not session.senders.get(handle, False):
                raise Refusal(INVALID_FIELD, f"no sender is attached with handle {handle}")
            return
        if self._closed:
            raise Refusal(NOT_ALLOWED, "the connection has been closed")
        if not self._opened:
            if code != _OPEN or channel:
                raise Refusal(NOT_ALLOWED, "a connection begins with open, on channel 0")
            self._open(data, at, end)
            return
        if code == _BEGIN:
            self._begin(_fields(data, at, end, 5), channel)
        elif code == _CLOSE:
            _fields(data, at, end, 1)
            self._closed = True
        elif code == _OPEN or not _OPEN < code < _CLOSE:
            raise Refusal(NOT_ALLOWED, f"performative {code:#x} here")
        else:
            session = self._sessions.get(channel)
            if session is None:
                raise Refusal(NOT_ALLOWED, f"no session has begun on channel {channel}")
            if code == _ATTACH:
                self._attach(session, _fields(data, at, end, 3))
            elif code == _FLOW:
                linked = _fields(data, at, end, 5)[4]
                if linked is not None and _uint(linked) not in session.senders:
                    raise Refusal(INVALID_FIELD, f"no link is attached with handle {linked}")
            elif code == _DETACH:
                handle = _uint(_fields(data, at, end, 1)[0])
                if session.senders.pop(handle, None) is None:
                    raise Refusal(INVALID_FIELD, f"no link is attached with handle {handle}")
                del session.names[handle]
            elif code == _DISPOSITION:
                _fields(data, at, end, 2)
            elif code == _END:
                _fields(data, at, end, 1)
                del self._sessions[channel]

    def _open(self, data: bytes, at: int, end: int) -> None:
        fields = _fields(data, at, end, 4)
        if fields[3] is not None:
            self._sessions_max = min(self._sessions_max, _uint(fields[3]) + 1)
        self._opened = True
        self._frame_bytes_max = FRAME_BYTES_MAX

    def _begin(self, fields: list[object], channel: int) -> None:
        if fields[0] is not None:
            raise Refusal(NOT_ALLOWED, "begin answers a session, but this end has begun none")
        if channel in self._sessions or channel > CHANNEL_MAX:
            raise Refusal(NOT_ALLOWED, f"channel {channel} is in use, or above the limit of {CHANNEL_MAX}")
        if len(self._sessions) >= self._sessions_max:
            raise Refusal(RESOURCE_LIMIT_EXCEEDED, f"more than {self._sessions_max} sessions")
        self._sessions[channel] = _Session(_UINT_MAX if fields[4] is None else _uint(fields[4]))

    def _attach(self, session: _Session, fields: list[object]) -> None:
        name, handle, role = fields
        handle = _uint(handle)
        if not isinstance(name, str) or not isinstance(role, bool):
            raise Malformed("attach without name or role")
        if handle in session.senders or handle > _UINT_MAX // 2:
            raise Refusal(NOT_ALLOWED, f"handle {handle} is in use, or too large")
        link = (name.encode(), role)
        if link in session.names.values():
            raise Refusal(NOT_ALLOWED, f"link {name:.100} is attached already")
        if len(session.senders) >= min(LINKS_MAX, session.handle_max + 1):
            raise Refusal(RESOURCE_LIMIT_EXCEEDED, f"more than {len(session.senders)} links in one session")
        session.senders[handle] = not role
        session.names[handle] = link


def _uint(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _UINT_MAX:
        raise Malformed("no whole number where one is needed")
    return value


def _fields_of_transfer(data: bytes, at: int, end: int) -> None:
    """Behind the fields of a transfer comes its payload."""
    short = data[at] == 0xC0
    size = data[at + 1] if short else int(struct.unpack_from(">I", data, at + 1)[0])
    last = at + (2 if short else 5) + size
    if last > end:
        raise Malformed("fields beyond the frame")
    _fields(data, at, last, 0)


def _fields(data: bytes, at: int, end: int, count: int) -> list[object]:
    """The first fields of a performative; those that are not there are None.

    All of them are read: the engine keeps what it cannot make sense of inside a field, an array whose elements are
    longer than itself for instance, and falls over it when the field is to be encoded again.
    """
    form = data[at]
    if form == 0x45:
        return [None] * count
    if form == 0xC0:
        there, last, at = data[at + 2], at + 2 + data[at + 1], at + 3
    elif form == 0xD0:
        size, there = struct.unpack_from(">II", data, at + 1)
        last, at = at + 5 + size, at + 9
    else:
        raise Malformed("no list of fields")
    if last > end:
        raise Malformed("fields beyond the frame")
    inside, at = data[at:last], 0
    fields: list[object] = []
    for _ in range(there):
        value, at = decode(inside, at)
        fields.append(value)
    if at != len(inside):
        raise Malformed("more bytes than fields")
    return fields[:count] + [None] * (count - len(fields))
