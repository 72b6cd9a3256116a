# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Plain persistent messages, from the bytes of a frame to the bytes of the log.

The compiled form of `engine.express.put_durably`, and of `plan` with the
commit that follows. A message is spliced into its record and stands on its
queue as the same bytes. The records of a unit of work are one buffer. What
is written is what `recovery_log.record.frame` would write, to the byte.

It works on the engine's own objects under the engine's lock, and has no
clock, disk or thread of its own.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_FromStringAndSize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
cimport cython

from entrepot.compiled.entry cimport QueuedMessage, raw_entry
from entrepot.compiled.outlet cimport Outlet, only_outlet
from entrepot.compiled.plain cimport put_bytes, put_whole

import msgspec
from crc32c import crc32c

from entrepot.engine.recovery_log.group import GROUP_BYTES as _GROUP_BYTES
from entrepot.engine.recovery_log.record import CommitRecord, PutRecord, frame
from entrepot.engine.unit_of_work import RECORD_BYTES as _RECORD_BYTES
from entrepot.engine.unit_of_work import UnitState
from entrepot.errors import SpillFailed
from entrepot.message import Message

cdef enum:
    FRAME_HEAD_BYTES = 20       # as in recovery_log/record.py
    CRC_AT = 16
    PUT_RECORD = 2
    COMMIT_RECORD = 5
    # A put's payload beside its message: four fields, unit, one target of queue and key, no further messages.
    PUT_BYTES_MAX = 1 + 9 + 1 + 1 + 9 + 9 + 1
    COMMIT_BYTES_MAX = FRAME_HEAD_BYTES + 1 + 9

cdef object _decode = msgspec.msgpack.Decoder(Message).decode
cdef object _encode = msgspec.msgpack.Encoder().encode
cdef object _crc32c = crc32c
cdef Py_ssize_t GROUP_BYTES = _GROUP_BYTES
cdef Py_ssize_t RECORD_BYTES = _RECORD_BYTES
cdef object ACTIVE = UnitState.ACTIVE
cdef object ENDING = UnitState.ENDING
cdef object COMMITTED = UnitState.COMMITTED


# --- records ---


cdef inline uint8_t* put_head(uint8_t* q, Py_ssize_t length, uint8_t kind, uint64_t position) noexcept nogil:
    """All of a frame's head but the CRC; where the CRC stands."""
    cdef int i
    for i in range(4):
        q[i] = <uint8_t>(<uint32_t>length >> (8 * i))
    q[4] = kind
    q[5] = q[6] = q[7] = 0
    for i in range(8):
        q[8 + i] = <uint8_t>(position >> (8 * i))
    return q + CRC_AT


cdef inline Py_ssize_t whole_bytes(uint64_t value) noexcept nogil:
    if value < 0x80:
        return 1
    if value < 0x100:
        return 2
    if value < 0x10000:
        return 3
    return 5 if value <= <uint64_t>0xffffffff else 9


cdef inline Py_ssize_t put_record_bytes(uint64_t unit, uint64_t queue, uint64_t key, Py_ssize_t raw_bytes) noexcept nogil:
    return FRAME_HEAD_BYTES + 4 + whole_bytes(unit) + whole_bytes(queue) + whole_bytes(key) + raw_bytes


cdef inline uint8_t* put_put_record(
    uint8_t* q, uint64_t position, uint64_t unit, uint64_t queue, uint64_t key, const uint8_t* raw, Py_ssize_t raw_bytes
) noexcept nogil:
    """A PUT record without its CRC; where it ends."""
    put_head(q, put_record_bytes(unit, queue, key, raw_bytes) - FRAME_HEAD_BYTES, PUT_RECORD, position)
    q += FRAME_HEAD_BYTES
    q[0] = 0x94
    q = put_whole(q + 1, unit)
    q[0] = 0x91
    q[1] = 0x92
    q = put_whole(put_whole(q + 2, queue), key)
    q = put_bytes(q, raw, raw_bytes)
    q[0] = 0x90
    return q + 1


cdef int seal(object view, uint8_t* memory, Py_ssize_t start, Py_ssize_t end, object seed) except -1:
    """Write the CRC of the record between two offsets of the memory that `view` shows."""
    cdef uint32_t crc = _crc32c(view[start + FRAME_HEAD_BYTES : end], _crc32c(view[start : start + CRC_AT], seed))
    cdef int i
    for i in range(4):
        memory[start + CRC_AT + i] = <uint8_t>(crc >> (8 * i))
    return 0


cdef object begin_append(log):
    """Where the next record will stand; a group begins if none gathers. As `RecoveryLog.append` does it."""
    cdef list buffers = <list>log._buffers
    position = log.appended_position
    if not buffers:
        buffers.append(b"")
        log._begin_group()
        return position + GROUP_BYTES
    return position


def put_record(unit, queue, key, bytes raw not None, position, seed):
    """The bytes of one PUT record; for tests, which compare it with `frame`."""
    cdef Py_ssize_t size = put_record_bytes(unit, queue, key, PyBytes_GET_SIZE(raw))
    cdef bytearray memory = PyByteArray_FromStringAndSize(NULL, size)
    cdef uint8_t* q = <uint8_t*>PyByteArray_AS_STRING(memory)
    put_put_record(q, position, unit, queue, key, <const uint8_t*>PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))
    seal(memoryview(memory), q, 0, size, seed)
    return bytes(memory)


# The layout of records is known here and in record.py: let them agree, or let the form in Python serve.
_sample = Message(b"body", b"id", put_time=1.5)
if put_record(300, 7, 2**40, _encode(_sample), 4096, 99) != b"".join(
    frame(PutRecord(300, [(7, 2**40)], _sample), 4096, 99)
):
    raise ImportError("PUT records have another layout than this module was made for")


# --- arriving ---


cdef bint handed_over(manager, queue, QueuedMessage entry) except -1:
    """Whether the reader that waits for any message, and longest, took it as bytes."""
    cdef Outlet outlet
    waiters = queue.waiters
    if queue.watched or queue.unoffered or queue._by_message_id is not None or entry.raw_correlated:
        return False
    if waiters.by_correlation or waiters.for_groups or not waiters.any:
        return False
    outlet = only_outlet(<dict>waiters.any)
    return outlet is not None and outlet.take_arrival(manager, queue, entry)


cdef int arrive(manager, queue, QueuedMessage entry, int priority) except -1:
    """`QueueManager.arrive` for a plain message that was forced; a disk that refuses to spill is told later."""
    cdef Py_ssize_t size
    if queue.watched or queue.waiters:
        if handed_over(manager, queue, entry):
            return 0
        try:
            manager.arrive(queue, entry)
        except SpillFailed:
            pass
        return 0
    queue.depth += 1
    if entry.log_position >= 0:
        manager.young[entry.key] = entry
    if queue._by_message_id is not None or entry.raw_correlated:
        queue._index(entry)
    definition = queue.definition
    lane = None
    if len(<list>queue._order) == 1:
        lane = (<dict>queue._lanes).get(0 if definition.delivery == "FIFO" else priority)
    try:
        if lane is None:
            queue._lane(priority).add(entry, room_bytes=definition.buffer_bytes - queue.memory_bytes)
            return 0
        size = entry.memory_bytes
        if entry.key > lane._key_last and not lane.runs and not lane._back and (
            <Py_ssize_t>lane.memory_bytes + size <= <Py_ssize_t>definition.buffer_bytes
        ):
            entry.resident = True
            lane.memory_bytes += size
            lane._key_last = entry.key
            lane._front.append(entry)
        else:
            lane.add(entry, room_bytes=definition.buffer_bytes - lane.memory_bytes)
    except OSError:
        pass  # it is committed and in memory; the next put to this queue is told
    return 0


# --- a put on its own ---


@cython.final
cdef class PutSettlement:
    """A put that is answered once it is forced; `Settlement` says what its methods promise."""

    def settle(self):
        self.queue.reserved -= 1
        arrive(self.manager, self.queue, self.entry, self.priority)
        self.finish()

    def fail(self, error):
        self.queue.reserved -= 1
        self.error = error
        self.finish()

    def abandon(self, error):
        self.error = error
        self.finish()

    cdef int finish(self) except -1:
        self.done = True
        self.entry = None
        self.engine.post(self)
        if self.wake is not None:
            self.wake()
        return 0

    def __call__(self):
        """Answer; on the loop."""
        self.answer(self)


cdef PutSettlement promise_put(
    manager, engine, answer, queue, QueuedMessage entry, int priority, bytes raw, bytes message_id, number
):
    """Let the log have a plain persistent message, for which it has room; `answer` is called with what is returned."""
    cdef PutSettlement settlement = PutSettlement.__new__(PutSettlement)
    cdef Py_ssize_t size = put_record_bytes(0, entry.queue, entry.key, PyBytes_GET_SIZE(raw))
    cdef bytearray memory = PyByteArray_FromStringAndSize(NULL, size)
    cdef uint8_t* q = <uint8_t*>PyByteArray_AS_STRING(memory)
    log = manager.log
    entry.log_position = log.appended_position
    position = begin_append(log)
    put_put_record(q, position, 0, entry.queue, entry.key, <const uint8_t*>PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))
    seal(memoryview(memory), q, 0, size, log._secrets.seed)
    (<list>log._buffers).append(memory)
    log.appended_position = settlement.position = position + size
    settlement.manager = manager
    settlement.engine = engine
    settlement.answer = answer
    settlement.queue = queue
    settlement.entry = entry
    settlement.priority = priority
    settlement.message_id = message_id
    settlement.number = number
    manager.group_commit._pending.append(settlement)
    queue.reserved += 1
    return settlement


# --- units of work ---


@cython.final
@cython.freelist(1024)
cdef class PlainPut:
    """A plain message that arrives on its queue when the unit commits: `PendingPut`, as bytes until it is looked at."""

    @property
    def message(self):
        if self.decoded is None:
            self.decoded = _decode(self.raw)
        return self.decoded

    def __iter__(self):
        return iter((self.queues, self.message))


cdef PlainPut plain_put(list queues, bytes raw, Py_ssize_t body_bytes, bint persistent, bint correlated, uint8_t priority):
    cdef PlainPut put = PlainPut.__new__(PlainPut)
    put.queues = queues
    put.raw = raw
    put.body_bytes = body_bytes
    put.persistent = persistent
    put.correlated = correlated
    put.priority = priority
    return put


@cython.final
cdef class UnitSettlement:
    """The commit of a unit of plain puts."""

    def settle(self):
        cdef PlainPut put
        cdef QueuedMessage entry
        cdef Py_ssize_t index
        self.unit.state = COMMITTED
        self.unit.let_go()
        for index in range(len(self.puts)):
            put = <PlainPut>self.puts[index]
            entry = <QueuedMessage>self.entries[index]
            queue = put.queues[0]
            queue.reserved -= 1
            arrive(self.manager, queue, entry, put.priority)
        self.finish()

    def fail(self, error):
        self.error = self.manager.undo(self.unit, error)
        self.finish()

    def abandon(self, error):
        self.error = error
        self.finish()

    cdef int finish(self) except -1:
        self.done = True
        self.puts = self.entries = None
        self.engine.post(self)
        if self.wake is not None:
            self.wake()
        return 0

    def __call__(self):
        """Answer; on the loop."""
        self.answer(self.error)


cdef UnitSettlement promise_unit(manager, engine, answer, unit):
    """Commit an active unit of plain puts, of which some are persistent; None: nothing was done, the general way has to.

    Raises:
        LogFull, DiskFull, DiskFailed: Nothing was done.
    """
    cdef list puts = <list>unit.puts
    cdef list entries = []
    cdef PlainPut put
    cdef QueuedMessage entry
    cdef Py_ssize_t count = len(puts), persistent = 0, size = 0, at = 0, start
    cdef uint64_t number = 0, position
    cdef long long key
    cdef bytearray memory
    cdef uint8_t* q
    cdef UnitSettlement settlement
    if unit.takes or unit.consequential or manager.group_commit.failure is not None:
        return None
    if unit.state is not ACTIVE or unit.clock_steps != manager.steady.count:
        return None
    for index in range(count):
        if type(puts[index]) is not PlainPut:
            return None
        put = <PlainPut>puts[index]
        if put.persistent:
            persistent += 1
            size += PyBytes_GET_SIZE(put.raw) + FRAME_HEAD_BYTES + PUT_BYTES_MAX
    if not persistent:
        return None
    manager.require_room(unit.body_bytes + RECORD_BYTES * (persistent + 1), reserved=False)
    # From here on it is done.
    unit.forgiving = False
    if persistent > 1:
        number = next(manager._unit_numbers)
    log = manager.log
    log_position = log.appended_position
    position = begin_append(log)
    seed = log._secrets.seed
    memory = PyByteArray_FromStringAndSize(NULL, size + COMMIT_BYTES_MAX)
    q = <uint8_t*>PyByteArray_AS_STRING(memory)
    view = memoryview(memory)
    key = manager.key_next
    for index in range(count):
        put = <PlainPut>puts[index]
        queue = put.queues[0]
        key += 1
        entry = raw_entry(key, queue.number, put.raw, put.body_bytes, put.correlated)
        entries.append(entry)
        if put.persistent:
            entry.log_position = log_position
            start = at
            at = put_put_record(
                q + start, position + start, number, entry.queue, key,
                <const uint8_t*>PyBytes_AS_STRING(put.raw), PyBytes_GET_SIZE(put.raw),
            ) - q
            seal(view, q, start, at, seed)
    manager.key_next = key
    if number:
        start = at
        q[start + FRAME_HEAD_BYTES] = 0x91
        at = put_whole(q + start + FRAME_HEAD_BYTES + 1, number) - q
        put_head(q + start, at - start - FRAME_HEAD_BYTES, COMMIT_RECORD, position + start)
        seal(view, q, start, at, seed)
    (<list>log._buffers).append(view[:at])
    settlement = UnitSettlement.__new__(UnitSettlement)
    log.appended_position = settlement.position = position + at
    unit.state = ENDING
    settlement.manager = manager
    settlement.engine = engine
    settlement.answer = answer
    settlement.unit = unit
    settlement.puts = puts
    settlement.entries = entries
    manager.group_commit._pending.append(settlement)
    return settlement
