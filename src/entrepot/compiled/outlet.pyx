# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Deliveries as bytes: from entries of queues to the frames of those who consume them.

An outlet belongs to a stream of a native connection. What it delivers stands
under the stream's unit of work, as `Stream` and `NativeConsumers` would have
it; whatever they have to see to, they are left to do.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport uint8_t, uint64_t
cimport cython

from entrepot.compiled.entry cimport QueuedMessage
from entrepot.compiled.plain cimport HEAD_BYTES, put_bytes, put_frame_head, put_whole

from threading import get_ident

from entrepot.engine.unit_of_work import Take
from entrepot.engine.waiting import StandingWaiter

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject*, Py_ssize_t)

cdef enum:
    # States of an entry, as in engine/entry.py.
    AVAILABLE = 0
    LOCKED = 1
    # Verbs, as in server/wire/verbs.py.
    DELIVERY = 69
    DELIVERIES = 74
    # Limits, as in server/stream.py, server/wire/codec.py and engine/entry.py.
    HELD_BYTES_MAX = 67108864
    PUMP_AT_ONCE = 128
    PUMP_BYTES = 1048576
    LONG_BODY_BYTES = 65536
    OVERHEAD_BYTES = 640
    # A frame of this size is not copied once more to be written with others.
    DIRECT_BYTES = 16384

cdef object _Take = Take
cdef object _StandingWaiter = StandingWaiter


cdef object take_of(queue, QueuedMessage entry):
    """`Take(queue, entry)`"""
    take = PyType_GenericAlloc(<PyTypeObject*>_Take, 2)
    Py_INCREF(queue)
    PyTuple_SET_ITEM(take, 0, queue)
    Py_INCREF(entry)
    PyTuple_SET_ITEM(take, 1, entry)
    return take


cdef int take_turns(waiter, Py_ssize_t count) except -1:
    """`StandingWaiter.take_turn`, as often; more than once only for one that waits alone."""
    cdef dict shelf
    cdef long long credit = waiter.credit - count
    waiter.credit = credit
    waiters = waiter.among
    if waiters is None:
        return 0
    shelf = <dict>waiter.shelf
    if credit <= 0:
        del shelf[waiter.number]
        waiter.among = None
    elif len(shelf) > 1 or waiters.by_correlation:
        # Where it waits alone, there is nobody to stand behind.
        del shelf[waiter.number]
        number = waiters._next
        waiters._next = number + 1
        waiter.number = number
        shelf[number] = waiter
    return 0


cdef Outlet only_outlet(dict anyone):
    """The outlet of whoever waits longest for any message, if that one takes bytes now; else None."""
    cdef Outlet outlet
    waiter = next(iter(anyone.values()))
    if type(waiter) is not _StandingWaiter or waiter.criteria is not None:
        return None
    outlet = <Outlet>waiter.outlet
    return outlet if outlet is not None and outlet.is_ready() else None


cdef int write(engine, link, bytes frame) except -1:
    """Behind all that was said in this turn."""
    if engine.turn is None or (PyBytes_GET_SIZE(frame) >= DIRECT_BYTES and not link._out):
        link.transport.write(frame)
    else:
        link._write(frame)
    return 0


cdef object next_lane(queue):
    """The lane that the next message stands at the front of, in memory; None: the general way has to look."""
    for lane in <list>queue._order:
        if lane._returned:
            return None
        if lane._front:
            return lane
        if lane.runs or lane._back:
            return None
    return None


@cython.final
cdef class Outlet:
    """Where a stream of a native connection takes messages as bytes, without being woken for each."""

    def __init__(self, stream, numbered, link, engine):
        self.stream = stream
        self.waiter = stream.waiter
        self.numbered = numbered
        self.link = link
        self.engine = engine
        self.thread = get_ident()

    cdef bint is_ready(self) except -1:
        """Whether what comes now may be sent before anything else."""
        return not self.waiter.arrived and not self.stream.closed and not self.waiter.unit.counted

    cdef int hand(self, queue, list entries, Py_ssize_t body_bytes) except -1:
        """Deliver entries that are locked and have had their turn; they stand under the stream's unit from now on."""
        cdef list takes = <list>self.waiter.unit.takes
        cdef QueuedMessage entry
        for entry in entries:
            takes.append(take_of(queue, entry))
        stream = self.stream
        held_bytes = stream._held_bytes + body_bytes
        stream._held_bytes = held_bytes
        if held_bytes >= HELD_BYTES_MAX:
            self.engine.stop_waiting(self.waiter)
        return self.send(entries)

    cdef bint take_arrival(self, manager, queue, QueuedMessage entry) except -1:
        """Send an entry that has just come and stands nowhere yet; False: nothing was done.

        Called under the engine's lock, on any thread: only the loop's own may write.
        """
        if get_ident() != self.thread:
            return False
        queue.depth += 1
        if entry.log_position >= 0:
            manager.young[entry.key] = entry
        queue.uncommitted_gets += 1
        entry.state = LOCKED
        take_turns(self.waiter, 1)
        self.hand(queue, [entry], entry.body_size())
        return True

    cdef int send(self, list entries) except -1:
        """Several in a frame, as far as the reader and their size allow."""
        cdef Py_ssize_t index, first = 0, size = 0, count = len(entries)
        cdef QueuedMessage entry
        cdef bint together
        if count == 1:
            return self.send_some(entries)
        together = self.numbered._together
        for index in range(count):
            entry = <QueuedMessage>entries[index]
            if index > first and (not together or size + entry.body_size() > LONG_BODY_BYTES):
                self.send_some(entries[first:index])
                first = index
                size = 0
            size += entry.body_size()
        return self.send_some(entries[first:] if first else entries)

    cdef int send_some(self, list entries) except -1:
        cdef QueuedMessage entry
        cdef bytes joined
        if len(entries) == 1:
            entry = <QueuedMessage>entries[0]
            joined = entry.encoded()
        else:
            joined = b"".join([(<QueuedMessage>each).encoded() for each in entries])
        return self.write_deliveries(
            len(entries), <const uint8_t*>PyBytes_AS_STRING(joined), PyBytes_GET_SIZE(joined)
        )

    cdef int write_deliveries(self, int count, const uint8_t* messages, Py_ssize_t size) except -1:
        """consumer, delivery, message; or consumer, first delivery, messages"""
        cdef uint8_t head[24]
        cdef uint8_t* q
        cdef bytes frame
        numbered = self.numbered
        delivered = numbered._delivered
        numbered._delivered = delivered + count
        head[0] = 0x93
        q = put_whole(put_whole(head + 1, numbered._number), delivered + 1)
        if count > 15:
            q[0] = 0xdc
            q[1] = <uint8_t>(count >> 8)
            q[2] = <uint8_t>count
            q += 3
        elif count > 1:
            q[0] = <uint8_t>(0x90 | count)
            q += 1
        frame = PyBytes_FromStringAndSize(NULL, HEAD_BYTES + (q - head) + size)
        q = put_bytes(
            put_frame_head(
                <uint8_t*>PyBytes_AS_STRING(frame), HEAD_BYTES + (q - head) + size,
                DELIVERIES if count > 1 else DELIVERY, 0,
            ),
            head, q - head,
        )
        put_bytes(q, messages, size)
        return write(self.engine, self.link, frame)


def pump(Outlet outlet not None, str name not None):
    """Deliver what a stream has credit for and its queue has in memory, and let it wait if that is all.

    `Stream._deliver_some` for messages of which nothing is special; False: it has to go on.
    """
    cdef list takes, found = []
    cdef Py_ssize_t limit, body_bytes = 0, memory_bytes = 0, size
    cdef QueuedMessage entry
    cdef bint is_done
    stream, waiter, engine = outlet.stream, outlet.waiter, outlet.engine
    unit, manager = waiter.unit, engine.manager
    if unit.counted or unit.private or waiter.criteria is not None or manager.group_commit.failure is not None:
        return False
    route = (<dict>manager.objects.routes).get(name)
    if route is None or route.target_queue or not route.get_enabled:
        return False
    queue = route.queue
    takes = <list>unit.takes
    limit = min(PUMP_AT_ONCE, <Py_ssize_t>waiter.credit, <Py_ssize_t>unit.limit - len(takes) - len(<list>unit.puts))
    host = engine.host
    host.lock.acquire()
    try:
        timers = manager.timers
        if timers._waiting and timers._waiting[0][0] <= timers._now():
            return False
        lane = next_lane(queue)
        if lane is not None:
            front = lane._front
            popleft = front.popleft
            while front and len(found) < limit and body_bytes < PUMP_BYTES:
                entry = <QueuedMessage>popleft()
                if entry.state != AVAILABLE or entry.backouts or (
                    entry.decoded is not None and (entry.decoded.expiry_s is not None or entry.decoded.report)
                ):
                    front.appendleft(entry)
                    break
                entry.resident = False
                entry.state = LOCKED
                size = entry.body_size()
                body_bytes += size
                if entry.shared is None:
                    memory_bytes += size + OVERHEAD_BYTES
                else:
                    memory_bytes += size // <Py_ssize_t>entry.shared.count + OVERHEAD_BYTES
                found.append(entry)
                takes.append(take_of(queue, entry))
            lane.memory_bytes -= memory_bytes
            queue.uncommitted_gets += len(found)
            waiter.credit -= len(found)
            stream._held_bytes += body_bytes
        is_done = len(found) == limit or body_bytes >= PUMP_BYTES
        if not is_done and is_empty(queue):
            is_done = True
            queue.waiters.add(waiter)
    finally:
        host.lock.release()
    if found:
        outlet.send(found)
    return is_done


cdef bint is_empty(queue) except -1:
    for lane in <list>queue._order:
        if lane._front or lane.runs or lane._back or lane._returned:
            return False
    return True
