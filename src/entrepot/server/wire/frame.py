# SPDX-License-Identifier: Apache-2.0
"""Frames: what travels, cut out of a stream of bytes.

    length u32 | verb u8 | 3 zero bytes | number u32 | payload in MessagePack

All little-endian; `length` counts everything behind itself. `number` is the
asker's, and its answer carries the same; 0 asks for no answer. Version and
the checklist for changing it are in docs/WIRE.md.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from mmap import mmap

from entrepot.errors import ForeignProtocol, FrameTooLong, FrameUnreadable
from entrepot.limits import FRAME_OVERHEAD_BYTES_MAX, KIB
from entrepot.server.wire.foreign import foreign_protocol

PORT = 1414
"""Where servers listen unless they are told otherwise."""
SOCKET = "socket"
"""What the Unix socket in a queue manager's folder is called."""
VERSION = 1
HEAD = struct.Struct("<IBxxxI")
HEAD_BYTES = HEAD.size
_LENGTH_BYTES = 4
_BEHIND_LENGTH_BYTES = HEAD_BYTES - _LENGTH_BYTES

_LONG_FRAME_BYTES = 256 * KIB

HANDSHAKE_FRAME_BYTES_MAX = 16 * KIB
"""Who has not said who he is gets no more memory than this."""

_READ_BYTES = 256 * KIB
_of_thread = threading.local()

Frame = tuple[int, int, memoryview]
"""Verb, number, payload; the payload is valid until the next frame is asked for."""


def frame_bytes_max(body_bytes_max: int) -> int:
    """The longest frame for messages of at most this many bytes: descriptor and properties come on top."""
    return body_bytes_max + FRAME_OVERHEAD_BYTES_MAX


def read_buffer() -> memoryview:
    """Memory to read into that all connections of an event loop share, as each cuts what it has read at once."""
    buffer: memoryview | None = getattr(_of_thread, "buffer", None)
    if buffer is None:
        buffer = _of_thread.buffer = memoryview(bytearray(_READ_BYTES))
    return buffer


class FrameReader:
    """Cuts frames out of what a transport reads into the buffer it asks for here.

    `buffer` lends memory to read into, `frames` yields what is complete after
    that. Most reads are served from one buffer that all connections of an
    event loop share, because reading and cutting happen without a break; only
    the rest of a frame that did not come whole is a connection's own.
    """

    __slots__ = ("_filled", "_is_known", "_long", "_rest", "_shared", "_wanted", "frame_bytes_max")

    def __init__(self, shared: memoryview, frame_bytes_max: int = HANDSHAKE_FRAME_BYTES_MAX) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._shared = shared
        self._rest = b""
        """The beginning of a frame that did not come whole."""
        self._long: bytearray | mmap | None = None
        """Memory of a frame that does not fit into the shared one."""
        self._filled = 0
        self._wanted = 0
        self._is_known = False
        """Whether the first bytes have been looked at, by which other protocols are told."""

    def widen(self, shared: memoryview, frame_bytes_max: int) -> None:
        """The partner is known now: read more at a time, and longer frames."""
        self._shared = shared
        self.frame_bytes_max = frame_bytes_max

    def buffer(self) -> memoryview:
        """Where to read the next bytes into."""
        if self._long is not None:
            return memoryview(self._long)[self._filled :]
        if not self._rest:
            return self._shared
        # Nobody else reads before we have cut what is read now, so the rest can wait there for its continuation.
        begun = len(self._rest)
        self._shared[:begun] = self._rest
        return self._shared[begun:]

    def only_frame(self, count: int) -> Frame | None:
        """The frame, if what was read is just one: most reads are, and need no more than this."""
        if self._rest or self._long is not None or count < HEAD_BYTES:
            return None
        length, verb, number = HEAD.unpack_from(self._shared)
        if length + _LENGTH_BYTES != count or length > self.frame_bytes_max:
            return None
        self._is_known = True
        return verb, number, self._shared[HEAD_BYTES:count]

    def standing(self, count: int) -> int:
        """How many bytes stand at the beginning of the shared memory now that `count` were read; 0: in memory apart."""
        return 0 if self._long is not None else len(self._rest) + count

    def done(self) -> None:
        """All that was read has been heard, by another who cuts it."""
        self._rest = b""

    def frames(self, count: int, start: int = 0) -> Iterator[Frame]:
        """The frames that are whole now that `count` bytes were read into `buffer`; `start` bytes have been heard.

        Raises:
            ProtocolError: What came is no frame of ours; nothing after it can be understood.
        """
        if self._long is None:
            end = len(self._rest) + count
            self._rest = b""
            yield from self._cut(self._shared, end, start)
            return
        self._filled += count
        if self._filled < self._wanted:
            return
        whole, filled = self._long, self._filled
        self._long, self._filled = None, 0
        yield from self._cut(memoryview(whole), filled)

    def _cut(self, view: memoryview, end: int, start: int = 0) -> Iterator[Frame]:
        if not self._is_known and end >= _LENGTH_BYTES:
            foreign = foreign_protocol(bytes(view[: min(end, 16)]))
            if foreign:
                raise ForeignProtocol(foreign)
            self._is_known = True
        while end - start >= _LENGTH_BYTES:
            length = int.from_bytes(view[start : start + _LENGTH_BYTES], "little")
            if not _BEHIND_LENGTH_BYTES <= length <= self.frame_bytes_max:
                if length < _BEHIND_LENGTH_BYTES:
                    raise FrameUnreadable(f"a frame of {length} bytes cannot hold its own head")
                raise FrameTooLong(length, self.frame_bytes_max)
            stop = start + _LENGTH_BYTES + length
            if stop > end:
                self._keep(view[start:end], stop - start)
                return
            _, verb, number = HEAD.unpack_from(view, start)
            yield verb, number, view[start + HEAD_BYTES : stop]
            start = stop
        if start < end:
            self._keep(view[start:end], HEAD_BYTES)

    def _keep(self, rest: memoryview, wanted: int) -> None:
        if wanted < len(self._shared):
            self._rest = bytes(rest)
            return
        # Its length was checked. A long frame gets memory of its own that the system hands out page by
        # page as bytes really come, so that one who only announces it costs nothing.
        own = bytearray(wanted) if wanted < _LONG_FRAME_BYTES else mmap(-1, wanted)
        own[: len(rest)] = rest
        self._long, self._filled, self._wanted = own, len(rest), wanted
