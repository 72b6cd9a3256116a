# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The flat way of a restart: from the bytes of the log to messages on their queues.

`take` replays what a window of the log holds, groups included, as long as
nothing is special: what `LogReader.records` and `engine/restart.py` do
together, which also do whatever it leaves. So it reports no damage; at the
first doubt it stops, and the general way finds out what is there. `stand`
lets messages stand on their queues.

A plain message stays the bytes that the log has of it (`entry.pyx`). It works
on the engine's own objects, whose private parts it knows, and has no disk of
its own.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Contains, PyDict_DelItem, PyDict_GetItem, PyDict_SetItem
from cpython.list cimport PyList_Append
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from entrepot.compiled.entry cimport QueuedMessage, raw_entry
from entrepot.compiled.plain cimport Plain, find_plain, little, whole

import msgspec
from crc32c import crc32c

from entrepot.engine.recovery_log.group import GROUP_BYTES as _GROUP_BYTES
from entrepot.engine.recovery_log.group import GroupKey
from entrepot.engine.recovery_log.record import FRAME_HEAD_BYTES as _FRAME_HEAD_BYTES
from entrepot.engine.recovery_log.record import RecordType, decode
from entrepot.message import Message, MessageType

cdef enum:
    # As in recovery_log/record.py and group.py; `_require_layout` compares them.
    FRAME_HEAD_BYTES = 20
    CRC_AT = 16
    GROUP_PAYLOAD_BYTES = 48
    GROUP = 1
    PUT = 2
    REMOVE = 3
    TAKEN = 4
    COMMIT = 5
    OVERHEAD_BYTES = 640        # as in engine/entry.py
    # From here on the crc32c package, which uses the processor's own instruction, is worth calling.
    LONG_BYTES = 256

cdef long long KEY_MAX = <long long>0x7fffffffffffffff
cdef object _crc32c = crc32c
cdef object _decode = decode
cdef object _GroupKey = GroupKey


def _require_layout():
    """Leave all to the form in Python where a module that this one copies from has changed."""
    sample = Message(b"b", b"m", b"c", True, 7, MessageType.REQUEST, 1.5, reply_to="q", user="u", application="a")
    cdef bytes raw = msgspec.msgpack.encode(sample)
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(raw)
    cdef Plain message
    kinds = (RecordType.GROUP, RecordType.PUT, RecordType.REMOVE, RecordType.TAKEN, RecordType.COMMIT)
    if (
        not find_plain(p, p + len(raw), &message)
        or message.end != p + len(raw)
        or tuple(map(int, kinds)) != (GROUP, PUT, REMOVE, TAKEN, COMMIT)
        or _FRAME_HEAD_BYTES != FRAME_HEAD_BYTES
        or _GROUP_BYTES != FRAME_HEAD_BYTES + GROUP_PAYLOAD_BYTES
    ):
        raise ImportError("the log has another layout than this module was made for")


# --- CRC-32C of short pieces ---

cdef uint32_t TABLES[8][256]


cdef void fill_tables() noexcept:
    cdef uint32_t crc
    cdef int i, j
    for i in range(256):
        crc = i
        for j in range(8):
            crc = (crc >> 1) ^ (<uint32_t>0x82f63b78 if crc & 1 else 0)
        TABLES[0][i] = crc
    for i in range(256):
        for j in range(1, 8):
            crc = TABLES[j - 1][i]
            TABLES[j][i] = (crc >> 8) ^ TABLES[0][crc & 0xff]


fill_tables()


cdef uint32_t short_crc(const uint8_t* p, Py_ssize_t size, uint32_t seed) noexcept nogil:
    """What `crc32c` answers, without a call of Python."""
    cdef uint32_t crc = ~seed
    cdef uint32_t second
    while size >= 8:
        crc ^= little(p)
        second = little(p + 4)
        crc = (
            TABLES[7][crc & 0xff] ^ TABLES[6][(crc >> 8) & 0xff] ^ TABLES[5][(crc >> 16) & 0xff] ^ TABLES[4][crc >> 24]
            ^ TABLES[3][second & 0xff] ^ TABLES[2][(second >> 8) & 0xff] ^ TABLES[1][(second >> 16) & 0xff]
            ^ TABLES[0][second >> 24]
        )
        p += 8
        size -= 8
    while size > 0:
        crc = (crc >> 8) ^ TABLES[0][(crc ^ p[0]) & 0xff]
        p += 1
        size -= 1
    return ~crc


# --- parts of a payload ---


cdef inline uint64_t little64(const uint8_t* p) noexcept nogil:
    return little(p) | (<uint64_t>little(p + 4) << 32)


cdef inline double little_real(const uint8_t* p) noexcept nogil:
    cdef uint64_t bits = little64(p)
    cdef double value
    memcpy(&value, &bits, 8)
    return value


cdef const uint8_t* read_keys(const uint8_t* p, const uint8_t* end, list keys) except? NULL:
    """Where an array of keys ends; NULL when there is none."""
    cdef Py_ssize_t count
    cdef uint64_t key = 0
    if p >= end:
        return NULL
    if (p[0] & 0xf0) == 0x90:
        count = p[0] & 0x0f
        p += 1
    elif p[0] == 0xdc and end - p >= 3:
        count = (p[1] << 8) | p[2]
        p += 3
    else:
        return NULL
    while count > 0:
        p = whole(p, end, &key)
        if p == NULL or key > <uint64_t>KEY_MAX:
            return NULL
        PyList_Append(keys, <long long>key)
        count -= 1
    return p


# --- replaying ---


cdef class Replaying:
    """What `take` has to do with, for the time of one call."""

    cdef object replay
    cdef dict alive
    cdef dict units
    cdef dict recounted
    cdef set from_checkpoint
    cdef long long resting_last
    cdef long long key_last
    cdef long long applied

    cdef int arrive(self, QueuedMessage entry) except -1:
        """`_Replay._arrive`"""
        key = entry.key
        if not PyDict_Contains(self.alive, key):
            if entry.key > self.resting_last or self.replay._find_resting(key) is None:
                PyDict_SetItem(self.alive, key, entry)
        return 0

    cdef int remove(self, list keys) except -1:
        """`_Replay._remove`"""
        cdef PyObject* found
        cdef QueuedMessage entry
        for key in keys:
            if self.recounted:
                self.recounted.pop(key, None)
            found = PyDict_GetItem(self.alive, key)
            if found != NULL:
                entry = <QueuedMessage><object>found
                PyDict_DelItem(self.alive, key)
                if entry.run is not None:
                    entry.run.set_gone(entry.index)
            elif <long long>key <= self.resting_last:
                self.replay._remove((key,))
        return 0

    cdef int count(self, list keys, int by, bint new) except -1:
        """`_Replay._count`"""
        cdef PyObject* found
        cdef QueuedMessage entry
        for key in keys:
            if new and <long long>key <= self.resting_last:
                self.replay._count((key,), by, new=new)
                continue
            found = PyDict_GetItem(self.alive, key)
            if found != NULL and (new or key not in self.from_checkpoint):
                entry = <QueuedMessage><object>found
                entry.backouts = max(entry.backouts + by, 0)
                if entry.run is not None:
                    self.recounted[key] = entry.backouts
        return 0

    cdef list parts(self, uint64_t unit):
        """What a unit of work has done so far."""
        cdef object number = unit
        cdef PyObject* found = PyDict_GetItem(self.units, number)
        cdef list parts
        if found != NULL:
            return <list><object>found
        parts = []
        PyDict_SetItem(self.units, number, parts)
        return parts

    cdef bint put(self, const uint8_t* p, const uint8_t* end, long long position) except -1:
        """unit, targets, message, alike: a plain message without time limit for one queue"""
        cdef uint64_t unit = 0, queue = 0, key = 0
        cdef Plain message
        cdef QueuedMessage entry
        if end - p < 6 or p[0] != 0x94:
            return False
        p = whole(p + 1, end, &unit)
        if p == NULL or end - p < 2 or p[0] != 0x91 or p[1] != 0x92:
            return False
        p = whole(p + 2, end, &queue)
        if p == NULL or queue > 0x7fffffff:
            return False
        p = whole(p, end, &key)
        if p == NULL or key > <uint64_t>KEY_MAX or not find_plain(p, end, &message):
            return False
        if message.expires or end - message.end != 1 or message.end[0] != 0x90:
            return False
        entry = raw_entry(
            <long long>key, <int>queue, PyBytes_FromStringAndSize(<const char*>p, message.end - p), message.body.size,
            message.correlation_id.size > 0,
        )
        entry.log_position = position
        if entry.key > self.key_last:
            self.key_last = entry.key
        if unit:
            PyList_Append(self.parts(unit), entry)
        else:
            self.arrive(entry)
        return True

    cdef bint removal(self, const uint8_t* p, const uint8_t* end) except -1:
        """unit, keys"""
        cdef uint64_t unit = 0
        cdef list keys = []
        if end - p < 3 or p[0] != 0x92:
            return False
        p = whole(p + 1, end, &unit)
        if p == NULL or read_keys(p, end, keys) != end:
            return False
        if unit:
            PyList_Append(self.parts(unit), keys)
        else:
            self.remove(keys)
        return True

    cdef bint taken(self, const uint8_t* p, const uint8_t* end, long long position) except -1:
        """keys, forgiven"""
        cdef list keys = [], forgiven = []
        if end - p < 2 or p[0] != 0x92:
            return False
        p = read_keys(p + 1, end, keys)
        if p == NULL or read_keys(p, end, forgiven) != end:
            return False
        self.count(keys, 1, position >= self.applied)
        self.count(forgiven, -1, position >= self.applied)
        return True

    cdef bint commit(self, const uint8_t* p, const uint8_t* end) except -1:
        """unit"""
        cdef uint64_t unit = 0
        if end - p < 2 or p[0] != 0x91 or whole(p + 1, end, &unit) != end:
            return False
        for part in self.units.pop(unit, ()):
            if isinstance(part, list):
                self.remove(<list>part)
            else:
                self.arrive(<QueuedMessage>part)
        return True


def take(replay, reader, long long position, long long group_end, long long until):
    """Replay from a position on what lies in the reader's window, up to the first group at or behind `until`.

    Returns where it has stopped, and where the group ends in which that is. The
    caller sees to it that no start has cut anything off here.
    """
    cdef object data = reader._data
    cdef const uint8_t[::1] view = data
    cdef const uint8_t* window = &view[0]
    cdef const uint8_t* p
    cdef Py_ssize_t size = view.shape[0], offset, begin, behind
    cdef long long base = reader._base, records = 0
    cdef uint32_t seed = reader._seed, crc, incarnation = reader.incarnation
    cdef uint64_t check = 0
    cdef uint8_t kind
    cdef bint used, grouped
    cdef Replaying now = Replaying.__new__(Replaying)
    key = reader._keys[position // reader._payload_bytes]
    # Only groups that follow another one, by its check.
    grouped = isinstance(key, _GroupKey) and reader._check is not None
    if grouped:
        check = reader._check
    now.replay = replay
    now.alive = replay.alive
    now.units = replay.units
    now.recounted = replay.manager.recounted
    now.from_checkpoint = replay.from_checkpoint
    now.resting_last = replay.resting_last
    now.key_last = replay.key_last
    now.applied = replay.checkpoint.applied_position
    offset = position - base
    while True:
        begin = offset + FRAME_HEAD_BYTES
        if begin > size:
            break
        p = window + offset
        behind = begin + little(p)
        kind = p[4]
        position = base + offset
        if behind > size or little64(p + 8) != <uint64_t>position:
            break
        if kind == GROUP:
            if not grouped or position != group_end or position >= until or behind - begin != GROUP_PAYLOAD_BYTES:
                break
            p = window + begin
            if little(p + 16) != incarnation or little64(p + 32) != check:
                break
            secrets = key.secrets(position, incarnation, little(p + 20), check)
            if little64(p + 40) != <uint64_t>secrets[0]:
                break
            crc = secrets[1]
            if short_crc(p, GROUP_PAYLOAD_BYTES, short_crc(window + offset, CRC_AT, crc)) != little(p - 4):
                break
            seed = crc
            check = little64(p + 40)
            group_end = base + behind + <long long>little64(p)
            reader._seed = seed
            reader._check = check
            reader.time = little_real(p + 24)
            reader.forced_position = max(reader.forced_position, little64(p + 8))
            replay.begin_group(position, reader.time)
        else:
            if base + behind > group_end:
                break
            crc = short_crc(p, CRC_AT, seed)
            if behind - begin < LONG_BYTES:
                crc = short_crc(window + begin, behind - begin, crc)
            else:
                crc = _crc32c(data[begin:behind], crc)
            if crc != little(p + CRC_AT):
                break
            used = False
            if kind == PUT:
                used = now.put(window + begin, window + behind, position)
            elif kind == TAKEN:
                used = now.taken(window + begin, window + behind, position)
            elif kind == REMOVE:
                used = now.removal(window + begin, window + behind)
            elif kind == COMMIT:
                used = now.commit(window + begin, window + behind)
            if not used:
                try:
                    record = _decode(kind, data[begin:behind])
                except (msgspec.MsgspecError, KeyError):
                    break
                replay.act(position, record)
        records += 1
        offset = behind
    replay.key_last = max(replay.key_last, now.key_last)
    replay.records += records
    return base + offset, group_end


# --- putting it to work ---


def stand(manager, list keys, dict alive):
    """Let messages stand on their queues, in the order of their keys: `QueueManager.recover` for each of them."""
    cdef dict queues = manager.objects.queues_by_number
    cdef dict young = manager.young
    cdef dict lanes
    cdef QueuedMessage entry
    cdef Plain message
    cdef const uint8_t* raw
    cdef Py_ssize_t size
    for key in keys:
        entry = <QueuedMessage>alive[key]
        queue = queues.get(entry.queue)
        if queue is None:
            continue  # the queue was deleted after the message arrived
        if entry.decoded is None and not entry.raw_correlated and queue._by_message_id is None:
            raw = <const uint8_t*>PyBytes_AS_STRING(entry.raw)
            if not find_plain(raw, raw + PyBytes_GET_SIZE(entry.raw), &message):
                raise AssertionError("a message that is kept as bytes is plain")
            size = entry.raw_body_bytes + OVERHEAD_BYTES
            definition = queue.definition
            lanes = queue._lanes
            lane = lanes.get(0 if definition.delivery == "FIFO" else message.priority)
            if (
                lane is not None
                and len(lanes) == 1
                and not lane.runs
                and not lane._back
                and entry.key > <long long>lane._key_last
                and <Py_ssize_t>lane.memory_bytes + size <= <Py_ssize_t>definition.buffer_bytes
            ):
                queue.depth += 1
                young[key] = entry
                entry.resident = True
                lane.memory_bytes += size
                lane._key_last = entry.key
                lane._front.append(entry)
                continue
        manager.recover(queue, entry)


_require_layout()
