# SPDX-License-Identifier: Apache-2.0
"""Who is there: protocol headers and SASL, before anything else is listened to.

Proton's own SASL layer checks passwords within a call, if at all; ours may
take a second to hash one, beside the loop. So these three small frames are
ours, and the engine begins where they end:

    partner  AMQP 3 1 0 0   init (mechanism, response)            AMQP 0 1 0 0
    we       AMQP 3 1 0 0   mechanisms                 outcome

No I/O here: bytes go in, bytes and a `ClaimedIdentity` come out.
"""

from __future__ import annotations

import enum
import struct
from typing import Any, NamedTuple

from entrepot.server.amqp.codec import (
    Described,
    Malformed,
    Symbol,
    Symbols,
    UByte,
    decode_all,
    encode,
    encode_described,
)

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"

_HEAD = struct.Struct(">IBBH")
_SASL_TYPE = 1
_MECHANISMS, _INIT, _OUTCOME = 0x40, 0x41, 0x44
FRAME_BYTES_MAX = 8192
"""Of a SASL frame. The standard says 512, but some send tickets of a few thousand bytes as passwords."""


class Outcome(enum.IntEnum):
    OK = 0
    AUTH = 1
    SYS = 2
    SYS_PERM = 3
    SYS_TEMP = 4


class ClaimedIdentity(NamedTuple):
    """Who a partner says it is."""

    mechanism: str
    """Empty: it has spoken no SASL at all."""
    user: str = ""
    password: str = ""


class HandshakeFailed(Exception):
    """The partner does not keep to the protocol; `farewell` is all that is left to say."""

    def __init__(self, farewell: bytes, problem: str) -> None:
        super().__init__(farewell, problem)
        self.farewell = farewell
        self.problem = problem


class _Stage(enum.Enum):
    HEADER = enum.auto()
    INIT = enum.auto()
    JUDGED = enum.auto()
    """Somebody decides about the claim; what comes meanwhile waits."""
    SECOND_HEADER = enum.auto()
    OVER = enum.auto()


class Handshake:
    """One connection's beginning, up to AMQP's own header."""

    def __init__(self, mechanisms: tuple[str, ...]) -> None:
        self._mechanisms = mechanisms
        self._stage = _Stage.HEADER
        self._with_sasl = False
        self.waiting = b""
        """What has come and was not looked at yet; once the handshake is over, the beginning of the rest."""

    @property
    def is_over(self) -> bool:
        """AMQP's own header has come, and whoever sent it is admitted; the header is not in `waiting`."""
        return self._stage is _Stage.OVER

    def feed(self, data: bytes) -> tuple[bytes, ClaimedIdentity | None]:
        """Take bytes; returns what to say and, once, a claim, for `accepted` to be called if it is good.

        Raises:
            HandshakeFailed
        """
        self.waiting += data
        if self._stage is _Stage.HEADER:
            header = self._header()
            if header == AMQP_HEADER:
                self._stage = _Stage.JUDGED
                return b"", ClaimedIdentity("")
            if not header:
                return b"", None
            self._with_sasl = True
            self._stage = _Stage.INIT
            return SASL_HEADER + _frame(_MECHANISMS, [Symbols(self._mechanisms)]), self._init()
        if self._stage is _Stage.INIT:
            return b"", self._init()
        if self._stage is _Stage.SECOND_HEADER and self._header(AMQP_HEADER):
            self._stage = _Stage.OVER
        return b"", None

    def accepted(self) -> bytes:
        """The claim is good; returns what to say. `feed` goes on with what came meanwhile."""
        self._stage = _Stage.SECOND_HEADER if self._with_sasl else _Stage.OVER
        return outcome(Outcome.OK) if self._with_sasl else b""

    def _header(self, only: bytes = b"") -> bytes:
        """One of the two headers, or nothing as long as it is not there."""
        # Other protocols are refused with their first bytes, as they may wait for us to speak.
        if not self.waiting.startswith(b"AMQP"[: len(self.waiting)]):
            raise HandshakeFailed(only or SASL_HEADER, f"the header {self.waiting[:8]!r}")
        if len(self.waiting) < len(AMQP_HEADER):
            return b""
        header, self.waiting = self.waiting[:8], self.waiting[8:]
        if header not in ((only,) if only else (AMQP_HEADER, SASL_HEADER)):
            raise HandshakeFailed(only or SASL_HEADER, f"the header {header!r}")
        return header

    def _init(self) -> ClaimedIdentity | None:
        if len(self.waiting) < _HEAD.size:
            return None
        size, offset, kind, _ = _HEAD.unpack_from(self.waiting)
        if not 8 <= 4 * offset <= size <= FRAME_BYTES_MAX or kind != _SASL_TYPE:
            raise HandshakeFailed(b"", "a frame that is not SASL's")
        if len(self.waiting) < size:
            return None
        frame, self.waiting = self.waiting[4 * offset : size], self.waiting[size:]
        self._stage = _Stage.JUDGED
        return _claim(frame, self._mechanisms)


def outcome(code: Outcome) -> bytes:
    return _frame(_OUTCOME, [UByte(code)])


def _frame(code: int, fields: list[Any]) -> bytes:
    body = encode_described(code, encode(fields))
    return _HEAD.pack(len(body) + 8, 2, _SASL_TYPE, 0) + body


def _claim(frame: bytes, mechanisms: tuple[str, ...]) -> ClaimedIdentity:
    refused = outcome(Outcome.AUTH)
    try:
        performative = decode_all(frame)
    except Malformed as error:
        raise HandshakeFailed(refused, str(error)) from error
    if not isinstance(performative, Described) or performative.descriptor not in (_INIT, "amqp:sasl-init:list"):
        raise HandshakeFailed(refused, "SASL does not begin with init")
    fields = performative.value
    if not isinstance(fields, list) or not fields or not isinstance(fields[0], Symbol):
        raise HandshakeFailed(refused, "no mechanism")
    mechanism = str(fields[0])
    response = fields[1] if len(fields) > 1 else None
    if mechanism not in mechanisms or not isinstance(response, bytes | None):
        raise HandshakeFailed(refused, f"the mechanism {mechanism:.20}")
    if mechanism != "PLAIN":
        return ClaimedIdentity(mechanism)
    parts = (response or b"").split(b"\x00")
    try:
        acting_as, user, password = (part.decode() for part in parts)
    except ValueError as error:
        raise HandshakeFailed(refused, "PLAIN without user and password") from error
    # Nobody acts as somebody else, and a password of nobody's would count as none at all.
    if not user or acting_as not in ("", user):
        raise HandshakeFailed(refused, "PLAIN for nobody, or for somebody else")
    return ClaimedIdentity(mechanism, user, password)
