# SPDX-License-Identifier: Apache-2.0
"""Frames that nobody should send, from a seed: right ones bent, wild ones well formed, and noise."""

from __future__ import annotations

import math
import random
import typing
from typing import Any

import msgspec

from entrepot.message import Message, PutInUnit
from entrepot.server.wire import verbs
from entrepot.server.wire.codec import encode
from entrepot.server.wire.frame import HEAD, HEAD_BYTES
from entrepot.server.wire.verbs import PAYLOADS, Verb
from unit.server.guests import SAMPLES

_WHOLE = (0, 1, 2, 3, 9, 10, -1, 255, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, -(2**31), -(2**63))
_REAL = (0.0, 0.001, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e308, 5e-324, 60.0, 1e10)
_TEXTS = (
    "", "Q", "R", "Q@QM1", "Q@", "@", "Q@NOWHERE", "NOWHERE", "q", "\0", "é" * 20, "x" * 48, "x" * 49, "x" * 98,
    "x" * 5000, "SYSTEM.DEFAULT.MODEL.QUEUE", "SYSTEM.DEAD.LETTER.QUEUE", "SYSTEM.CHANNEL.SYNCQ", "F.*", "../../etc/x",
    "colour = 'red'", "colour LIKE '%a%'", "(", "NOT NOT a", "a IN ('b')", "JMSPriority > 3", "status", "dump",
    "checkpoint", "ENTREPOT", "DISPLAY QUEUE(*)", "DISPLAY QMGR ALL", "DEFINE QLOCAL(F) REPLACE", "DELETE QLOCAL(F)",
    "DISPLAY CONN(*)", "ALTER QLOCAL(F) MAXDEPTH(", "* only a comment", "\ud7ff\U0010ffff", "\u202e\r\n\x7f",
)  # fmt: skip
_BYTES = (b"", b"x", b"\0", b"y" * 24, b"z" * 128, b"z" * 129, bytes(1000), b"\xff" * 16)


_FIELDS = {
    verb: list(
        zip(
            [field.type for field in msgspec.structs.fields(PAYLOADS[verb])],
            msgspec.structs.astuple(payload),
            strict=True,
        )
    )
    for verb, payload in SAMPLES.items()
}
"""The type and a usual value of each field of a verb."""
_WANTED = [(field.type, field.default) for field in msgspec.structs.fields(verbs.Wanted)]


class Mangler:
    """An endless supply; the same seed gives the same frames."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._asked = list(SAMPLES)
        self._right = [encode(verb, 7, payload) for verb, payload in SAMPLES.items()]

    def frame(self) -> bytes:
        """The next frame, or what pretends to be one."""
        make = self.random.choices(
            (self._wild, self._bent, self._cut, self._misnamed, self._misshapen, self._noise, self._lying),
            (50, 20, 6, 8, 6, 5, 5),
        )[0]
        return make()

    def _number(self) -> int:
        return self.random.choice((0, 0, 1, 2, 3, 7, 8, 9, self.random.randrange(2**32)))

    def _right_frame(self) -> bytearray:
        return bytearray(self.random.choice(self._right))

    def _bent(self) -> bytes:
        """A right frame of which a few bytes are others."""
        frame = self._right_frame()
        for _ in range(self.random.randint(1, 4)):
            place = self.random.randrange(4, len(frame))
            flipped = frame[place] ^ 1 << self.random.randrange(8)
            frame[place] = self.random.choice((flipped, self.random.randrange(256)))
        return bytes(frame)

    def _cut(self) -> bytes:
        """A frame that ends too early, with a length that says so or does not."""
        frame = self._right_frame()
        cut = frame[: self.random.randrange(HEAD_BYTES, len(frame) + 1)]
        if self.random.random() < 0.8:
            cut[:4] = (len(cut) - 4).to_bytes(4, "little")
        return bytes(cut)

    def _misnamed(self) -> bytes:
        """The payload of one verb under the name of another."""
        frame = self._right_frame()
        frame[4] = self.random.choice((self.random.randrange(256), *self._asked))
        return bytes(frame)

    def _misshapen(self) -> bytes:
        """Well-formed MessagePack of another shape."""
        payload = self._anything(4)
        content = msgspec.msgpack.encode(payload)
        verb = self.random.choice(self._asked)
        return HEAD.pack(len(content) + HEAD_BYTES - 4, verb, self._number()) + content

    def _noise(self) -> bytes:
        return self.random.randbytes(self.random.choice((1, 3, 12, 50, 400)))

    def _lying(self) -> bytes:
        """A length that is not the frame's."""
        frame = self._right_frame()
        length = self.random.choice((0, 7, 8, len(frame), 2**14, 2**20, 2**27, 2**31, 2**32 - 1))
        frame[:4] = length.to_bytes(4, "little")
        return bytes(frame)

    def _wild(self) -> bytes:
        """A frame as the protocol wants it, with values as nobody would."""
        verb = self.random.choice(self._asked)
        if verb in (Verb.HELLO, Verb.CHANNEL_HELLO, Verb.GOODBYE) and self.random.random() < 0.9:
            verb = Verb.PUT
        if verb in (Verb.MQSC, Verb.MANAGE) and self.random.random() < 0.7:
            verb = Verb.CREDIT  # the office has only one clerk
        values = [self._value(kind) if self.random.random() < 0.4 else usual for kind, usual in _FIELDS[verb]]
        content = msgspec.msgpack.encode(values)
        return HEAD.pack(len(content) + HEAD_BYTES - 4, verb, self._number()) + content

    def _value(self, kind: Any) -> Any:
        choose = self.random.choice
        if kind is str:
            return choose(_TEXTS)
        if kind is int:
            return choose(_WHOLE)
        if kind is float:
            return choose(_REAL)
        if kind is bool:
            return choose((True, False))
        if kind is bytes:
            return choose(_BYTES)
        if kind is Message:
            return self._message()
        if kind == verbs.Wanted | None:
            return None if self.random.random() < 0.3 else self._wanted()
        if kind in (list[str], list[bytes]):
            (each,) = typing.get_args(kind)
            return [self._value(each) for _ in range(choose((0, 1, 2, 33, 501)))]
        if kind == list[tuple[str, str, int]]:
            return [[choose(_TEXTS), choose(_TEXTS), choose(_WHOLE)] for _ in range(choose((0, 1, 2, 33)))]
        if kind == list[PutInUnit]:
            return [
                [choose(_TEXTS), choose((None, True, False)), choose((None, *_WHOLE)), self._message()]
                for _ in range(choose((0, 1, 2, 33)))
            ]
        if kind == str | list[str]:
            return choose((choose(_TEXTS), [choose(_TEXTS) for _ in range(self.random.randrange(4))]))
        if kind == tuple[int, int] | None:
            return choose((None, (choose(_WHOLE), choose(_WHOLE))))
        if kind == list[tuple[int, int]]:
            return [(choose(_WHOLE), choose(_WHOLE)) for _ in range(choose((0, 1, 3, 5000)))]
        if kind == dict[str, Any]:
            return {choose(_TEXTS): self._anything(2) for _ in range(self.random.randrange(3))}
        for plain in (bool, int, str, bytes):
            if kind == plain | None:
                return None if self.random.random() < 0.3 else self._value(plain)
        raise AssertionError(f"no idea what to make for {kind}")

    def _wanted(self) -> list[Any]:
        return [self._value(kind) if self.random.random() < 0.5 else usual for kind, usual in _WANTED]

    def _message(self) -> list[Any]:
        """A message of which some fields are strange."""
        values = list(msgspec.structs.astuple(Message(b"body")))
        for place in self.random.sample(range(len(values)), self.random.randint(1, 4)):
            values[place] = self._like(values[place]) if self.random.random() < 0.9 else self._anything(2)
        return values

    def _like(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                self.random.choice(_TEXTS): self._anything(1 if self.random.random() < 0.5 else 0)
                for _ in range(self.random.randrange(4))
            }
        if value is None:
            return self.random.choice(_REAL)
        kind = next(kind for kind in (bool, int, float, str, bytes) if isinstance(value, kind))
        return self._value(kind)

    def _anything(self, depth: int) -> Any:
        choose = self.random.choice
        if depth and self.random.random() < 0.5:
            several = [self._anything(depth - 1) for _ in range(self.random.randrange(5))]
            return several if self.random.random() < 0.6 else {choose(_TEXTS): each for each in several}
        return choose((None, True, choose(_WHOLE), choose(_REAL), choose(_TEXTS), choose(_BYTES)))
