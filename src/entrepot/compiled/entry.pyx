# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""A message while it rests on a queue, in memory: as the bytes it came as, until somebody looks at it.

Most messages are put, delivered and settled without anything but their
size being of interest. Their `Message` is made when it is asked for.
"""

cimport cython

import msgspec

from entrepot.message import Message

cdef enum:
    OVERHEAD_BYTES = 640        # as in engine/entry.py

cdef object _Raw = msgspec.Raw
cdef object _decode = msgspec.msgpack.Decoder(Message).decode
cdef object _encode = msgspec.msgpack.Encoder().encode


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class QueuedMessage:
    """An entry of a queue; engine/entry.py has its twin, and says what the fields mean."""

    def __init__(
        self, key, queue, message, backouts=0, log_position=-1, run=None, index=0, state=0, resident=False, shared=None
    ):
        self.key = key
        self.queue = queue
        self.decoded = message
        self.backouts = backouts
        self.log_position = log_position
        self.run = run
        self.index = index
        self.state = state
        self.resident = resident
        self.shared = shared

    @property
    def message(self):
        if self.decoded is None:
            # What several queues have is decoded once for all of them (`fanout.SharedPublication`).
            self.decoded = _decode(self.raw) if self.shared is None else self.shared.message
            self.raw = None
        return self.decoded

    @message.setter
    def message(self, message):
        self.decoded = message
        self.raw = None

    @property
    def recorded(self):
        """What a record takes for its message, without looking at it."""
        return _Raw(self.raw) if self.decoded is None and self.shared is None else self.message

    @property
    def body_bytes(self):
        return self.body_size()

    @property
    def is_indexed(self):
        """Whether its queue may have to find it by a correlation id or a group; a plain message has no group."""
        if self.decoded is None:
            return self.raw_correlated
        return bool(self.decoded.correlation_id or self.decoded.group_id)

    @property
    def memory_bytes(self):
        """Its part of the memory; a body that several queues have is there once."""
        if self.shared is None:
            return self.body_size() + OVERHEAD_BYTES
        return self.body_size() // self.shared.count + OVERHEAD_BYTES

    cdef Py_ssize_t body_size(self) except -1:
        return self.raw_body_bytes if self.decoded is None else len(self.decoded.body)

    cdef bytes encoded(self):
        """The message as the wire and the log have it."""
        return self.raw if self.decoded is None else _encode(self.decoded)

    def __repr__(self):
        return f"QueuedMessage(key={self.key}, queue={self.queue}, state={self.state}, backouts={self.backouts})"


cdef QueuedMessage raw_entry(long long key, int queue, bytes raw, Py_ssize_t body_bytes, bint correlated):
    cdef QueuedMessage entry = QueuedMessage.__new__(QueuedMessage)
    entry.key = key
    entry.queue = queue
    entry.log_position = -1
    entry.raw = raw
    entry.raw_body_bytes = body_bytes
    entry.raw_correlated = correlated
    return entry
