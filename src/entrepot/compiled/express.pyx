# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The flat way of a server's hot verbs, from the bytes of a frame to the bytes of the next one.

`FastPath` does for one native connection what `Conversation`, `Session` and
`engine.express` do together, for frames in which nothing is special: it
looks first, and then does the whole verb, or returns having done nothing
and those do it. It works on the engine's own objects, whose private parts
it knows; it has no clock, no disk and no socket of its own.

A message stays the bytes it came as, with what the queue manager has
settled spliced in (`entry.pyx`).
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
cimport cython

from entrepot.compiled.durable cimport PlainPut, PutSettlement, plain_put, promise_put, promise_unit
from entrepot.compiled.entry cimport QueuedMessage, raw_entry
from entrepot.compiled.outlet cimport Outlet, next_lane, only_outlet, take_of, take_turns, write
from entrepot.compiled.plain cimport *

from functools import partial
from heapq import heappush

import msgspec

from entrepot.compiled import compiled
from entrepot.engine.criteria import Criteria
from entrepot.engine.unit_of_work import RECORD_BYTES as _RECORD_BYTES
from entrepot.errors import EntrepotError, RequestTimedOut
from entrepot.message import Message, MessageType

cdef enum:
    # States of an entry, as in engine/entry.py.
    AVAILABLE = 0
    LOCKED = 1
    GONE = 2
    # Verbs, as in server/wire/verbs.py.
    PUT = 2
    GET = 3
    REQUEST = 4
    COMMIT = 8
    CREDIT = 14
    PUT_MANY = 39
    DONE = 65
    MESSAGE = 66
    # Limits, as in limits.py, engine/express.py and server/.
    BODY_BYTES_MAX = 1048576
    CREDIT_MAX = 100000
    LONG_BODY_BYTES = 65536
    FRAMES_AT_ONCE = 1000
    ASKED_BYTES_MAX = 65536
    WAYS_MAX = 1000
    UNITS_MAX = 1000
    OVERHEAD_BYTES = 640

cdef double TIMEOUT_S_USUAL = 86400.0
cdef double STEP_S_MIN = 0.5            # as in engine/steady_time.py

cdef Py_ssize_t RECORD_BYTES = _RECORD_BYTES

cdef object _encode = msgspec.msgpack.Encoder().encode
cdef object _NO_BODY = Message(b"")

_SAMPLE = Message(b"b", b"m", b"c", True, 7, MessageType.REQUEST, reply_to="q", user="u", application="a")
_LAYOUT = (
    b"\xdc\x00" + bytes([FIELDS]) + b"\xc4\x01b\xc4\x01m\xc4\x01c\xc3\x07\x01\xcb" + bytes(8) + b"\xc0\xcb" + bytes(8)
    + b"\xa1q" + (<const char*>middle())[:MIDDLE_BYTES] + b"\xa1u\xa1a" + (<const char*>ending())[:ENDING_BYTES]
)
if _encode(_SAMPLE) != _LAYOUT:
    # A field was added to Message, and not to plain.pxd: the form in Python serves until it is.
    raise ImportError("Message has another layout than this module was made for")


@cython.final
cdef class PutRoute:
    """What is known of a name that plain messages can be put to, until a definition changes.

    Every change of a definition makes new routes, so a route that is still
    the same stands for all of this.
    """

    cdef object route
    cdef object queue
    cdef object waiters
    cdef dict by_correlation
    cdef dict anyone
    cdef int queue_number
    cdef bint takes_puts
    cdef bint gives
    cdef bint default_persistent
    cdef bint temporary
    cdef uint8_t default_priority
    cdef Py_ssize_t body_bytes_max
    cdef long long depth_max
    cdef Py_ssize_t buffer_bytes
    cdef bint fifo


cdef PutRoute way_of(object objects, str name, object route):
    cdef PutRoute way = PutRoute.__new__(PutRoute)
    queue = route.queue
    definition = queue.definition
    waiters = queue.waiters
    way.route = route
    way.queue = queue
    way.waiters = waiters
    way.by_correlation = waiters.by_correlation
    way.anyone = waiters.any
    way.queue_number = queue.number
    way.takes_puts = not (
        name in objects.name_lists
        or not route.put_enabled
        or route.internal
        or route.target_queue
        or queue.watched
        or definition.stream_queue
    )
    way.gives = bool(route.get_enabled and not route.target_queue)
    way.default_persistent = route.default_persistent
    way.default_priority = route.default_priority
    way.temporary = definition.dynamic == "TEMPORARY"
    way.body_bytes_max = min(route.body_bytes_max, BODY_BYTES_MAX - 1)
    way.depth_max = definition.depth_max
    way.buffer_bytes = definition.buffer_bytes
    way.fifo = definition.delivery == "FIFO"
    return way


cdef class Publications:
    """What a connection publishes: `fanout.pyx` does it where that is built, and else the general way."""

    cdef Py_ssize_t take(self, const uint8_t* begin, const uint8_t* end, int* frames) except -1:
        """Publish what the first frames ask for, of which one is whole; how many bytes these have. Counts `frames` up."""
        return 0


@cython.final
cdef class ReplyGet:
    """A get by correlation id that waits for the reply to a request: `LeasingWaiter` and `WaitingGet` in one object."""

    cdef FastPath lane
    cdef uint32_t asked
    cdef bytes correlation_id
    cdef str reply_queue
    cdef str queue
    cdef double timeout_s
    cdef bint waits
    cdef object _unit
    cdef public object among
    cdef public object shelf
    cdef public long long number
    cdef public object message
    cdef public object settlement
    cdef public object error
    cdef public object search

    # --- what the engine asks a waiter ---

    @property
    def criteria(self):
        return Criteria(correlation_id=self.correlation_id)

    @property
    def unit(self):
        if self._unit is None:
            self._unit = self.lane.engine.host.private_unit()
        return self._unit

    @property
    def is_private(self):
        return True

    @property
    def wants_whole_group(self):
        return False

    def leave(self):
        if self.among is not None:
            self.among.remove(self)

    def take_turn(self):
        self.leave()

    def serve(self, message, settlement=None):
        self.message = message
        self.settlement = settlement
        self.lane.engine.post(self.woken)

    def give_up(self, error):
        self.leave()
        self.error = error
        self.lane.engine.post(self.woken)

    # --- what its session asks ---

    @property
    def guard(self):
        """No unit of work of its partner."""
        return None

    @property
    def is_waiting(self):
        return self.waits

    cdef bint end(self) except -1:
        if not self.waits:
            return False
        self.waits = False
        (<set>self.lane.session.waiting).discard(self)
        return True

    cpdef woken(self):
        session = self.lane.session
        if not self.end() or session.closed:
            session.registry.host.give_back(self.reply_queue, self)
        elif session.fenced is not None:
            session.registry.host.give_back(self.reply_queue, self)
            self.lane.conversation._got(self.asked, None, None, session.fenced)
        else:
            lease = None if self._unit is None else session.leased(self._unit)
            self.lane.conversation._got(self.asked, self.message, lease, self.error)

    def expire(self):
        """Its time is up; a message that has come at the last moment is delivered all the same."""
        session = self.lane.session
        session.engine.stop_waiting(self)
        if self.message is None and self.error is None and self.end():
            error = session.fenced or RequestTimedOut(self.queue, self.timeout_s)
            self.lane.conversation._got(self.asked, None, None, error)

    def cancel(self):
        self.expire()


cdef class FastPath:
    """One native connection's plain frames; with `asyncio.BufferedProtocol` beside it, a protocol."""

    cdef object link
    cdef object conversation
    cdef object session
    cdef object registry
    cdef object memory
    cdef object engine
    cdef object host
    cdef object manager
    cdef object group_commit
    cdef object objects
    cdef object steady
    cdef object clock_now
    cdef object clock_elapsed
    cdef object loop_time
    cdef object deadlines
    cdef object reader
    cdef object hear
    cdef object view
    cdef object lock_acquire
    cdef object lock_release
    cdef object put_rest
    cdef bytes sender
    cdef bint administrator
    cdef dict ways
    cdef Publications publications
    cdef Py_ssize_t waiting_max
    # What the link reads into; a view of it that the link has keeps it from being resized.
    cdef bytearray memory_read
    cdef Py_ssize_t frame_bytes_max
    # Whether the link's reader has kept nothing, so that the next bytes stand at the beginning.
    cdef bint is_clean

    def __init__(self, link, conversation, bytearray memory_read not None, frame_bytes_max, hear, put_rest):
        """`memory_read` is what the link reads into.

        `hear` hears what is not plain of so many bytes that were read, behind so many that were heard.
        `put_rest` puts what is left of a PUT_MANY, from an index on.
        """
        session = conversation.session
        registry = session.registry
        self.link = link
        self.conversation = conversation
        self.session = session
        self.registry = registry
        self.memory = registry.memory
        self.engine = registry.engine
        self.host = registry.host
        self.manager = registry.engine.manager
        self.group_commit = self.manager.group_commit
        self.objects = self.manager.objects
        self.steady = self.manager.steady
        self.clock_now = self.manager.clock.now
        self.clock_elapsed = self.manager.clock.elapsed
        self.loop_time = registry.loop.time
        self.deadlines = registry.deadlines
        self.reader = link.reader
        self.hear = hear
        self.view = memoryview(memory_read)
        self.lock_acquire = registry.host.lock.acquire
        self.lock_release = registry.host.lock.release
        self.put_rest = put_rest
        self.sender = _encode(session.identity.user) + _encode(session.application)
        self.administrator = session.identity.administrator
        self.ways = {}
        fanout = compiled("fanout")
        self.publications = Publications() if fanout is None else fanout.Fanout(link, conversation, put_rest)
        self.frame_bytes_max = frame_bytes_max
        self.waiting_max = conversation.waiting_max
        self.memory_read = memory_read

    # --- what the transport asks a protocol ---

    def get_buffer(self, Py_ssize_t size_hint):
        if self.is_clean:
            return self.view
        return self.link.get_buffer(size_hint)

    def buffer_updated(self, Py_ssize_t count):
        cdef Py_ssize_t end, heard = 0
        link = self.link
        if link.closed:
            return  # an encrypted connection may still bring what came before its end
        link.heard = self.loop_time()
        end = count if self.is_clean else <Py_ssize_t>self.reader.standing(count)
        if link._held is None:
            heard = self.take(end)
            if link.closed:
                return
        if heard == end and end:
            if not self.is_clean:
                self.reader.done()
                self.is_clean = True
            if self.engine.crowded and not link.closed:
                link._slow_down()
        else:
            self.is_clean = False
            self.hear(count, heard)

    def connection_made(self, transport):
        self.link.connection_made(transport)

    def connection_lost(self, problem):
        self.link.connection_lost(problem)

    def eof_received(self):
        return self.link.eof_received()

    def pause_writing(self):
        self.link.pause_writing()

    def resume_writing(self):
        self.link.resume_writing()

    cdef Py_ssize_t take(self, Py_ssize_t end) except -1:
        """Do what the first frames ask of the `end` bytes that were read; how many bytes these have."""
        cdef const uint8_t* begin = <const uint8_t*>PyByteArray_AS_STRING(self.memory_read)
        cdef Py_ssize_t at = 0, size, published
        cdef int frames = 0
        cdef bint many = False
        session = self.session
        if end > PyByteArray_GET_SIZE(self.memory_read) or session.fenced is not None or session.blocked or self.memory.is_short:
            return 0
        try:
            while end - at >= HEAD_BYTES and frames < FRAMES_AT_ONCE:
                size = 4 + <Py_ssize_t>little(begin + at)
                if size < HEAD_BYTES or size - 4 > self.frame_bytes_max or end - at < size:
                    break
                if not many and size < end:
                    # What many frames cause is told in a few writes.
                    many = True
                    self.engine.__enter__()
                published = 0
                if begin[at + 4] == PUT or begin[at + 4] == PUT_MANY:
                    published = self.publications.take(begin + at, begin + end, &frames)
                if published:
                    at += published
                elif self.verb(begin[at + 4], little(begin + at + 8), begin + at + HEAD_BYTES, begin + at + size):
                    at += size
                    frames += 1
                else:
                    break
                if session.blocked or self.link.closed or self.link._held is not None:
                    break
        finally:
            if many:
                self.engine.__exit__()
        return at

    cdef bint verb(self, uint8_t verb, uint32_t number, const uint8_t* p, const uint8_t* end) except -1:
        if verb == PUT:
            return self.put(number, p, end)
        if verb == REQUEST:
            return self.request(number, p, end)
        if verb == CREDIT:
            return number == 0 and self.credit(p, end)
        if verb == PUT_MANY:
            return self.put_many(number, p, end)
        if verb == COMMIT:
            return self.commit(number, p, end)
        if verb == GET:
            return self.get(number, p, end)
        return False

    # --- names and authorities ---

    cdef PutRoute way(self, str name):
        """What is known of a name; None where the general way has to find out."""
        cdef PutRoute way
        route = (<dict>self.objects.routes).get(name)
        if route is None:
            return None
        way = <PutRoute>self.ways.get(name)
        if way is None or way.route is not route:
            if len(self.ways) >= WAYS_MAX:
                self.ways.clear()
            way = self.ways[name] = way_of(self.objects, name, route)
        return way

    cdef bint may(self, str name, str what) except -1:
        """Whether an authority is known; if not, the general way asks for it."""
        if self.administrator:
            return True
        session = self.session
        return ("QUEUE", name, what) in <set>session._allowed and session._allowed_at == self.registry.authority_epoch

    cdef bint may_wait(self) except -1:
        """`Session.count_waiting`; False: the general way refuses it."""
        session = self.session
        waiting = len(<set>session.waiting) + len(<set>session.consumers) + 1
        if waiting > session._waiting_held:
            try:
                session.hold_waiting(waiting)
            except EntrepotError:
                return False
        return True

    cdef bytes new_message_id(self):
        """`QueueManager.new_message_id`"""
        cdef uint64_t key = self.manager.key_next + 1
        cdef bytes head = <bytes>self.manager._id_head
        cdef Py_ssize_t size = PyBytes_GET_SIZE(head)
        cdef bytes message_id = PyBytes_FromStringAndSize(NULL, size + 8)
        cdef uint8_t* q = put_bytes(
            <uint8_t*>PyBytes_AS_STRING(message_id), <const uint8_t*>PyBytes_AS_STRING(head), size
        )
        cdef int i
        self.manager.key_next = key
        for i in range(8):
            q[i] = <uint8_t>(key >> (56 - 8 * i))
        return message_id

    cdef double put_time(self, bint expires) except? -1.0:
        """`QueueManager.put_time`"""
        cdef double wall = self.clock_now()
        if expires and not -STEP_S_MIN < wall - <double>self.clock_elapsed() - <double>self.steady._wall_base < STEP_S_MIN:
            return self.manager.follow_clock()
        return wall

    # --- put ---

    cdef bint put(self, uint32_t number, const uint8_t* p, const uint8_t* end) except -1:
        """queue, unit, persistent, priority, wait_s, message"""
        cdef Piece name
        cdef Plain message
        cdef uint8_t persistent, priority
        cdef bytes message_id
        if end - p < 2 or p[0] != 0x96:
            return False
        p = text(p + 1, end, &name)
        if p == NULL or end - p < 12 or p[0] != 0 or p[3] != 0xcb or real(p + 4) != 0.0:
            return False  # in a unit of work, or willing to wait for room
        persistent, priority = p[1], p[2]
        p += 12
        if not find_plain(p, end, &message) or message.end != end:
            return False
        message_id = self.put_plain(&name, persistent, priority, &message, None)
        if message_id is None:
            return self.put_durable(number, &name, persistent, priority, &message)
        if number:
            self.answer(number, message_id)
        return True

    cdef bint put_durable(
        self, uint32_t number, const Piece* name, uint8_t persistent, uint8_t priority, const Plain* message
    ) except -1:
        """Put a persistent message, to be answered once it is forced; `engine.express.put_durably`."""
        cdef PutRoute way
        cdef bytes message_id, raw
        cdef QueuedMessage entry
        if persistent == 0xc2 or message.expires:
            return False
        way = self.way_to(name, persistent, &priority, message)
        if way is None or way.temporary or not (persistent == 0xc3 or way.default_persistent):
            return False
        manager, queue = self.manager, way.queue
        self.lock_acquire()
        try:
            if self.group_commit.failure is not None or queue.unoffered:
                return False
            if <long long>queue.depth + <long long>queue.reserved >= way.depth_max:
                return False
            try:
                manager.require_room(message.body.size + RECORD_BYTES, reserved=False)
            except EntrepotError:
                return False  # the general way waits for room, or tells
            # From here on it is done.
            message_id = self.id_of(message)
            raw = self.splice(message, message_id, True, priority, self.clock_now())
            key = manager.key_next + 1
            manager.key_next = key
            entry = raw_entry(key, way.queue_number, raw, message.body.size, message.correlation_id.size > 0)
            promise_put(manager, self.engine, self.was_put, queue, entry, priority, raw, message_id, number)
        finally:
            self.lock_release()
        self.conversation._outstanding += 1
        self.engine._want_force()
        return True

    def was_put(self, PutSettlement settlement not None):
        """`Conversation._was_put`"""
        conversation = self.conversation
        outstanding = conversation._outstanding - 1
        conversation._outstanding = outstanding
        if settlement.error is not None:
            conversation._answer(settlement.number, settlement.error, settlement.message_id)
        elif settlement.number:
            self.answer(settlement.number, settlement.message_id)
        if not outstanding and conversation._syncing:
            conversation._synchronized()

    cdef PutRoute way_to(self, const Piece* queue, uint8_t persistent, uint8_t* priority, const Plain* message):
        """What is known of a name that this partner may put a plain message to, and the priority that it gets there."""
        cdef PutRoute way
        cdef str name
        if not is_ascii(queue.content, queue.size):
            return None
        name = PyUnicode_DecodeASCII(<const char*>queue.content, queue.size, NULL)
        way = self.way(name)
        if way is None or not way.takes_puts or message.body.size > way.body_bytes_max or not self.may(name, "PUT"):
            return None
        if persistent != 0xc0 and persistent != 0xc2 and persistent != 0xc3:
            return None
        if priority[0] == 0xc0:
            priority[0] = way.default_priority
        elif priority[0] > 9:
            return None
        return way

    cdef bytes id_of(self, const Plain* message):
        if message.message_id.size:
            return PyBytes_FromStringAndSize(<const char*>message.message_id.content, message.message_id.size)
        return self.new_message_id()

    cdef bytes locked_id_of(self, const Plain* message):
        """The same where the host's lock is not held, under which alone keys are given out."""
        if message.message_id.size:
            return self.id_of(message)
        self.lock_acquire()
        try:
            return self.new_message_id()
        finally:
            self.lock_release()

    cdef bytes splice(self, const Plain* message, bytes message_id, bint persistent, uint8_t priority, double now):
        """The message with what the queue manager has settled, as the wire and the log have it."""
        cdef Py_ssize_t sender_bytes = PyBytes_GET_SIZE(self.sender)
        cdef bytes raw = PyBytes_FromStringAndSize(
            NULL, plain_bytes(message, PyBytes_GET_SIZE(message_id), sender_bytes)
        )
        put_plain(
            <uint8_t*>PyBytes_AS_STRING(raw), message, <const uint8_t*>PyBytes_AS_STRING(message_id),
            PyBytes_GET_SIZE(message_id), persistent, priority, now, <const uint8_t*>PyBytes_AS_STRING(self.sender),
            sender_bytes,
        )
        return raw

    cdef bytes put_plain(
        self, const Piece* queue, uint8_t persistent, uint8_t priority, const Plain* message, ReplyGet get
    ):
        """Put a nonpersistent message; its id, or None when nothing was done. `get` begins to wait for its reply."""
        cdef PutRoute way
        if persistent == 0xc3:
            return None
        way = self.way_to(queue, persistent, &priority, message)
        if way is None or (persistent == 0xc0 and way.default_persistent):
            return None
        if self.engine._ready:
            return None  # others are to be served first
        self.lock_acquire()
        try:
            return self.place(way, priority, message, get)
        finally:
            self.lock_release()

    cdef bytes place(self, PutRoute way, uint8_t priority, const Plain* message, ReplyGet get):
        """The same, under the host's lock."""
        cdef Outlet outlet = None
        cdef ReplyGet reader = None
        cdef bytes message_id
        cdef long long key
        cdef double now
        cdef QueuedMessage entry
        cdef dict shelf
        queue = way.queue
        manager = self.manager
        if self.group_commit.failure is not None or queue.unoffered:
            return None
        if <long long>queue.depth + <long long>queue.reserved >= way.depth_max:
            return None
        lane = None
        if way.by_correlation or way.anyone:
            waiter = None
            if way.by_correlation:
                shelf = <dict>way.by_correlation.get(
                    PyBytes_FromStringAndSize(<const char*>message.correlation_id.content, message.correlation_id.size)
                )
                if shelf:
                    if way.anyone:
                        return None  # who came first?
                    waiter = next(iter(shelf.values()))
                    if type(waiter) is not ReplyGet:
                        return None
                    reader = <ReplyGet>waiter
            if reader is None:
                if not way.anyone:
                    return None
                outlet = only_outlet(way.anyone)
                if outlet is None:
                    return None
        elif message.expires:
            return None  # its time has to be watched on the queue
        else:
            lane = self.standing_place(way, queue, priority, message)
            if lane is None:
                return None
        # From here on it is done.
        now = self.put_time(message.expires)
        message_id = self.id_of(message)
        key = manager.key_next + 1
        manager.key_next = key
        if reader is not None:
            # Waiters.remove_keyed
            reader.among = None
            del shelf[reader.number]
            if not shelf:
                del way.by_correlation[reader.correlation_id]
            reader.end()
            self.reply_to(reader, message, message_id, priority, now)
        else:
            entry = raw_entry(
                key, way.queue_number, self.splice(message, message_id, False, priority, now), message.body.size,
                message.correlation_id.size > 0,
            )
            queue.depth += 1
            if queue._by_message_id is not None or message.correlation_id.size:
                queue._index(entry)
            if outlet is not None:
                take_turns(outlet.waiter, 1)
                entry.state = LOCKED
                queue.uncommitted_gets += 1
                outlet.hand(queue, [entry], message.body.size)
            else:
                self.stand(lane, entry, key, message.body.size + OVERHEAD_BYTES)
        if get is not None:
            get.correlation_id = message_id
            self.wait_for_reply(get)
        return message_id

    cdef object standing_place(self, PutRoute way, queue, uint8_t priority, const Plain* message):
        """The lane of the queue where a message can simply stand at the front's end; None: the general way has to."""
        order = <list>queue._order
        if len(order) != 1:
            return None
        lane = (<dict>queue._lanes).get(0 if way.fifo else priority)
        if (
            lane is None
            or lane.runs
            or lane._back
            or lane._key_last > self.manager.key_next
            or <Py_ssize_t>lane.memory_bytes + message.body.size + OVERHEAD_BYTES > way.buffer_bytes
        ):
            return None
        return lane

    cdef int stand(self, lane, QueuedMessage entry, long long key, Py_ssize_t size) except -1:
        entry.resident = True
        lane.memory_bytes += size
        lane._key_last = key
        lane._front.append(entry)
        return 0

    # --- what goes out ---

    cdef int answer(self, uint32_t number, bytes message_id) except -1:
        """DONE with a message id."""
        cdef Py_ssize_t id_bytes = PyBytes_GET_SIZE(message_id)
        cdef Py_ssize_t size = HEAD_BYTES + 3 + id_bytes
        cdef bytes frame = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t* q = put_frame_head(<uint8_t*>PyBytes_AS_STRING(frame), size, DONE, number)
        q[0] = 0x91
        q = put_binary_head(q + 1, id_bytes)
        put_bytes(q, <const uint8_t*>PyBytes_AS_STRING(message_id), id_bytes)
        return write(self.engine, self.link, frame)

    cdef int reply_to(
        self, ReplyGet reader, const Plain* message, bytes message_id, uint8_t priority, double now
    ) except -1:
        """MESSAGE, without a lease, for the one who has waited for it."""
        cdef Py_ssize_t size = plain_bytes(message, PyBytes_GET_SIZE(message_id), PyBytes_GET_SIZE(self.sender))
        cdef bytes frame = PyBytes_FromStringAndSize(NULL, HEAD_BYTES + 2 + size)
        cdef uint8_t* q = put_frame_head(<uint8_t*>PyBytes_AS_STRING(frame), HEAD_BYTES + 2 + size, MESSAGE, reader.asked)
        q[0] = 0x92
        q[1] = 0xc2
        put_plain(
            q + 2, message, <const uint8_t*>PyBytes_AS_STRING(message_id), PyBytes_GET_SIZE(message_id), False, priority,
            now, <const uint8_t*>PyBytes_AS_STRING(self.sender), PyBytes_GET_SIZE(self.sender),
        )
        (<dict>reader.lane.conversation._asked).pop(reader.asked, None)
        return write(self.engine, reader.lane.link, frame)

    # --- get ---

    cdef bint get(self, uint32_t number, const uint8_t* p, const uint8_t* end) except -1:
        """queue, unit, wait_s, wanted; of a message that is there, for a get outside of units of work."""
        cdef Piece name
        cdef PutRoute way
        cdef QueuedMessage entry = None
        cdef str queue_name
        cdef double wait_s
        cdef bint leased
        if end - p < 2 or p[0] != 0x94:
            return False
        p = text(p + 1, end, &name)
        if p == NULL or end - p != 11 or p[0] != 0 or p[1] != 0xcb or p[10] != 0xc0:
            return False
        wait_s = real(p + 2)
        if not 0.0 <= wait_s < TIMEOUT_S_USUAL or not is_ascii(name.content, name.size):
            return False
        conversation, session = self.conversation, self.session
        asked, leases = <dict>conversation._asked, <dict>conversation._leases
        if number == 0 or number in asked or len(asked) + len(leases) >= self.waiting_max:
            return False
        queue_name = PyUnicode_DecodeASCII(<const char*>name.content, name.size, NULL)
        way = self.way(queue_name)
        if way is None or not way.gives or not self.may(queue_name, "GET") or self.engine._ready:
            return False
        queue = way.queue
        if not queue.depth or queue.watched or self.group_commit.failure is not None:
            return False
        if wait_s > 0.0 and not self.may_wait():
            return False
        self.lock_acquire()
        try:
            self.manager.timers.tick()
            lane = next_lane(queue)
            if lane is None:
                return False
            entry = <QueuedMessage>lane._front[0]
            if entry.state != AVAILABLE or entry.backouts or entry.decoded is not None or entry.raw_correlated:
                return False
            if queue._by_message_id is not None:
                return False
            # From here on it is done.
            lane._front.popleft()
            lane.memory_bytes -= entry.memory_bytes
            entry.resident = False
            leased = entry.log_position >= 0
            raw = entry.raw
            if leased:
                entry.state = LOCKED
                queue.uncommitted_gets += 1
                guard = self.host.private_unit()
                guard.takes.append(take_of(queue, entry))
                if guard.counted:
                    self.manager.backout_counts.count(queue, entry)
            else:
                entry.state = GONE
                queue.depth -= 1
                entry.decoded = _NO_BODY
                entry.raw = None
        finally:
            self.lock_release()
        if leased:
            session.leases.add(guard)
            leases[number] = guard
        return self.answer_with(number, raw, leased) == 0

    cdef int answer_with(self, uint32_t number, bytes raw, bint leased) except -1:
        """MESSAGE"""
        cdef Py_ssize_t size = HEAD_BYTES + 2 + PyBytes_GET_SIZE(raw)
        cdef bytes frame = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t* q = put_frame_head(<uint8_t*>PyBytes_AS_STRING(frame), size, MESSAGE, number)
        q[0] = 0x92
        q[1] = 0xc3 if leased else 0xc2
        put_bytes(q + 2, <const uint8_t*>PyBytes_AS_STRING(raw), PyBytes_GET_SIZE(raw))
        return write(self.engine, self.link, frame)

    # --- request ---

    cdef bint request(self, uint32_t number, const uint8_t* p, const uint8_t* end) except -1:
        """queue, reply_queue, timeout_s, persistent, priority, message"""
        cdef Piece name, replies
        cdef Plain message
        cdef uint8_t persistent, priority
        cdef double timeout_s
        cdef PutRoute way
        cdef ReplyGet get
        cdef str reply_queue
        if end - p < 2 or p[0] != 0x96:
            return False
        p = text(p + 1, end, &name)
        if p == NULL:
            return False
        p = text(p, end, &replies)
        if p == NULL or end - p < 11 or p[0] != 0xcb or not is_ascii(replies.content, replies.size):
            return False
        timeout_s, persistent, priority = real(p + 1), p[9], p[10]
        if not 0.0 < timeout_s < TIMEOUT_S_USUAL:
            return False
        p += 11
        if not find_plain(p, end, &message) or message.end != end:
            return False
        conversation, session = self.conversation, self.session
        asked = <dict>conversation._asked
        if number == 0 or number in asked or len(asked) + len(<dict>conversation._leases) >= self.waiting_max:
            return False
        reply_queue = PyUnicode_DecodeASCII(<const char*>replies.content, replies.size, NULL)
        if not self.may(reply_queue, "GET") and reply_queue not in <list>session.temporary:
            return False
        if not self.may_wait():
            return False
        way = self.way(reply_queue)
        if way is None or not way.gives or way.queue.depth:
            return False
        get = ReplyGet.__new__(ReplyGet)
        get.lane = self
        get.asked = number
        get.reply_queue = reply_queue
        get.queue = PyUnicode_DecodeASCII(<const char*>name.content, name.size, NULL) if is_ascii(
            name.content, name.size
        ) else ""
        get.timeout_s = timeout_s
        get.among = way.waiters
        return self.put_plain(&name, persistent, priority, &message, get) is not None

    cdef int wait_for_reply(self, ReplyGet get) except -1:
        """Let a get wait whose request was put."""
        cdef dict shelf
        get.waits = True
        # Waiters.add_keyed
        waiters = get.among
        shelf = <dict>waiters.by_correlation.get(get.correlation_id)
        if shelf is None:
            shelf = waiters.by_correlation[get.correlation_id] = {}
        get.number = waiters._next
        waiters._next = get.number + 1
        get.shelf = shelf
        shelf[get.number] = get
        (<set>self.session.waiting).add(get)
        self.conversation._asked[get.asked] = get
        # Deadlines.after
        deadlines = self.deadlines
        heap = <list>deadlines._heap
        when = self.loop_time() + get.timeout_s
        if len(heap) >= deadlines._tidy_at or deadlines._timer is None or when < deadlines._due:
            deadlines.after(get.timeout_s, get)
        else:
            number = deadlines._number + 1
            deadlines._number = number
            heappush(heap, (when, number, get))
        return 0

    # --- many puts in a frame ---

    cdef bint put_many(self, uint32_t number, const uint8_t* p, const uint8_t* end) except -1:
        """unit, [[queue, persistent, priority, message], ...]"""
        cdef uint64_t count, index = 0, done, unit = 0
        cdef const uint8_t* begin = p
        cdef bint together
        if end - p < 4 or end - p > ASKED_BYTES_MAX or p[0] != 0x92:
            return False
        p = whole(p + 1, end, &unit)
        if p == NULL or end - p < 3 or (number and not unit):
            return False
        if (p[0] & 0xf0) == 0x90:
            count = p[0] & 0x0f
            p += 1
        elif p[0] == 0xdc:
            count = (p[1] << 8) | p[2]
            p += 3
        else:
            return False
        if unit:
            return self.plan(number, unit, count, p, end)
        if not are_plain(p, end, count):
            return False  # none of them is put if one cannot be understood
        together = self.engine.turn is None
        if together:
            self.engine.__enter__()
        try:
            while index < count:
                done = self.put_run(&p, end, count - index)
                if not done:
                    if not self.put_next(&p, end):
                        if index == 0:
                            return False
                        self.put_rest(self.conversation, begin[: end - begin], index)
                        if self.session.blocked:
                            self.link.hold()
                        return True
                    done = 1
                index += done
        finally:
            if together:
                self.engine.__exit__()
        return True

    cdef uint64_t put_run(self, const uint8_t** at, const uint8_t* end, uint64_t count) except? 0:
        """Put the next nonpersistent messages that go the same way together: to one reader, or onto an empty way.

        Returns how many; with 0, nothing was done.
        """
        cdef const uint8_t* p = at[0]
        cdef Piece name, other
        cdef Plain message
        cdef PutRoute way
        cdef Outlet outlet = None
        cdef QueuedMessage entry
        cdef list entries = []
        cdef uint8_t priority, asked, standing_priority = 0
        cdef Py_ssize_t size = 0, room
        cdef long long key
        if end - p < 2 or p[0] != 0x94:
            return 0
        p = text(p + 1, end, &name)
        if p == NULL or end - p < 2 or not find_plain(p + 2, end, &message):
            return 0
        priority = p[1]
        way = self.way_to(&name, p[0], &priority, &message)
        if way is None or self.engine._ready:
            return 0
        queue, manager = way.queue, self.manager
        self.lock_acquire()
        try:
            if (
                self.group_commit.failure is not None or queue.unoffered or way.by_correlation
                or queue._by_message_id is not None
            ):
                return 0
            room = min(<long long>count, way.depth_max - <long long>queue.depth - <long long>queue.reserved)
            lane = None
            if not way.anyone:
                lane = self.standing_place(way, queue, priority, &message)
                if lane is None:
                    return 0
                standing_priority = priority
                size = <Py_ssize_t>lane.memory_bytes
            else:
                if len(way.anyone) > 1:
                    return 0  # each takes its turn
                outlet = only_outlet(way.anyone)
                if outlet is None:
                    return 0
                room = min(room, <Py_ssize_t>outlet.waiter.credit)
            now = self.put_time(False)
            key = manager.key_next
            p = at[0]
            while len(entries) < room:
                if end - p < 2 or p[0] != 0x94:
                    break
                p = text(p + 1, end, &other)
                if p == NULL or end - p < 2 or other.size != name.size or memcmp(other.content, name.content, name.size):
                    break
                asked = p[1]
                if p[0] != 0xc2 and (p[0] != 0xc0 or way.default_persistent) or asked != 0xc0 and asked > 9:
                    break
                priority = way.default_priority if asked == 0xc0 else asked
                if not find_plain(p + 2, end, &message) or message.correlation_id.size or message.expires:
                    break
                if message.body.size > way.body_bytes_max or not message.message_id.size:
                    break
                if lane is not None:
                    size += message.body.size + OVERHEAD_BYTES
                    if size > way.buffer_bytes or (priority != standing_priority and not way.fifo):
                        break
                elif entries and size + message.body.size > LONG_BODY_BYTES:
                    break
                else:
                    size += message.body.size
                key += 1
                entry = raw_entry(
                    key, way.queue_number, self.splice(&message, self.id_of(&message), False, priority, now),
                    message.body.size, False,
                )
                if lane is not None:
                    entry.resident = True
                else:
                    entry.state = LOCKED
                entries.append(entry)
                p = at[0] = message.end
            if not entries:
                return 0
            manager.key_next = key
            queue.depth += len(entries)
            if lane is not None:
                lane._key_last = key
                for entry in entries:
                    lane.memory_bytes += entry.memory_bytes
                lane._front.extend(entries)
            else:
                queue.uncommitted_gets += len(entries)
                take_turns(outlet.waiter, len(entries))
                outlet.hand(queue, entries, size)
            return len(entries)
        finally:
            self.lock_release()

    cdef bint put_next(self, const uint8_t** at, const uint8_t* end) except -1:
        cdef const uint8_t* p = at[0]
        cdef Piece name
        cdef Plain message
        cdef uint8_t persistent, priority
        if end - p < 2 or p[0] != 0x94:
            return False
        p = text(p + 1, end, &name)
        if p == NULL or end - p < 2:
            return False
        persistent, priority = p[0], p[1]
        if not find_plain(p + 2, end, &message):
            return False
        if self.put_plain(&name, persistent, priority, &message, None) is None:
            if not self.put_durable(0, &name, persistent, priority, &message):
                return False
        at[0] = message.end
        return True

    # --- units of work ---

    cdef bint plan(self, uint32_t number, uint64_t named, uint64_t count, const uint8_t* p, const uint8_t* end) except -1:
        """Puts of a unit of work, all of them or none; `engine.express.plan`."""
        cdef PutRoute way = None
        cdef Piece name, before
        cdef Plain message
        cdef uint8_t persistent, priority, asked
        cdef bint stays
        cdef uint64_t index
        cdef Py_ssize_t body_bytes = 0
        cdef list planned = [], queues = None
        cdef dict places = {}
        conversation, manager = self.conversation, self.manager
        if self.group_commit.failure is not None:
            return False
        before.size = -1
        before.content = NULL
        now = self.clock_now()
        for index in range(count):
            if end - p < 2 or p[0] != 0x94:
                return False
            p = text(p + 1, end, &name)
            if p == NULL or end - p < 2:
                return False
            persistent, asked = p[0], p[1]
            if not find_plain(p + 2, end, &message) or message.expires:
                return False
            p = message.end
            priority = asked
            if before.size != name.size or memcmp(before.content, name.content, name.size) != 0:
                way = self.way_to(&name, persistent, &priority, &message)
                if way is None:
                    return False
                queues = [way.queue]
                before = name
            else:
                if message.body.size > way.body_bytes_max or not 0xc2 <= persistent <= 0xc3 and persistent != 0xc0:
                    return False
                if asked == 0xc0:
                    priority = way.default_priority
                elif asked > 9:
                    return False
            stays = persistent == 0xc3 or (persistent == 0xc0 and way.default_persistent)
            if stays and way.temporary:
                return False
            # By queue, because several names may lead to it.
            places[way.queue] = places.get(way.queue, 0) + 1
            body_bytes += message.body.size
            planned.append(
                plain_put(
                    queues, self.splice(&message, self.locked_id_of(&message), stays, priority, now),
                    message.body.size, stays, message.correlation_id.size > 0, priority,
                )
            )
        if p != end:
            return False
        unit = (<dict>conversation._units).get(named)
        if unit is None:
            if len(<dict>conversation._units) >= UNITS_MAX:
                return False
            unit = conversation._unit(named)
        self.lock_acquire()
        try:
            if unit.clock_steps != self.steady.count:
                return False
            for queue, taken in places.items():
                if <long long>queue.depth + <long long>queue.reserved + <long long>taken > queue.definition.depth_max:
                    return False
            try:
                unit.require_active()
                unit.require_room(body_bytes, len(planned))
            except EntrepotError:
                return False  # the general way tells
            for queue, taken in places.items():
                queue.reserved += taken
            unit.puts += planned
            unit.body_bytes += body_bytes
        finally:
            self.lock_release()
        if number:
            conversation._answer(number, conversation._errors.get(named))
        return True

    cdef bint commit(self, uint32_t number, const uint8_t* p, const uint8_t* end) except -1:
        """unit, used, counted"""
        cdef uint64_t named = 0
        conversation, session = self.conversation, self.session
        if end - p < 4 or p[0] != 0x93:
            return False
        p = whole(p + 1, end, &named)
        if p == NULL or end - p != 2 or p[0] != 0x90 or p[1] != 0xc3 or conversation._errors or session.waiting:
            return False
        unit = (<dict>conversation._units).get(named)
        if unit is None:
            return False
        done = partial(session._ended, unit, partial(conversation._committed, number, named, unit))
        self.lock_acquire()
        try:
            if promise_unit(self.manager, self.engine, done, unit) is None:
                return False
        except EntrepotError:
            return False  # the general way waits for room, or tells
        finally:
            self.lock_release()
        del conversation._units[named]
        self.engine._want_force()
        return True

    # --- credit ---

    cdef bint credit(self, const uint8_t* p, const uint8_t* end) except -1:
        """consumer, used, more, seen"""
        cdef uint64_t number = 0, used = 0, more = 0, seen = 0
        cdef Py_ssize_t count, delivered, settled, index, size = 0
        cdef QueuedMessage entry
        cdef list takes
        cdef tuple take
        cdef uint8_t fields
        if end - p < 4:
            return False
        fields = p[0]
        if fields != 0x94 and fields != 0x93:
            return False
        p = whole(p + 1, end, &number)
        if p != NULL:
            p = whole(p, end, &used)
        if p != NULL:
            p = whole(p, end, &more)
        if p != NULL and fields == 0x94:
            p = whole(p, end, &seen)
        if p != end or seen or more > CREDIT_MAX:
            return False
        stream = (<dict>self.conversation.consumers._streams).get(number)
        if stream is None or stream.held or stream.closed:
            return False
        waiter, unit = stream.waiter, stream._unit
        if waiter.credit + more > CREDIT_MAX or unit.consequential:
            return False
        takes = <list>unit.takes
        settled = stream._settled
        delivered = settled + len(takes) - len(<list>waiter.arrived)
        count = (<Py_ssize_t>used if used < <uint64_t>delivered else delivered) - settled
        if count > 0:
            self.lock_acquire()
            try:
                queue = None
                for index in range(count):
                    take = <tuple>takes[index]
                    entry = <QueuedMessage>take[1]
                    if entry.log_position >= 0 or entry.state != LOCKED:
                        return False
                    if take[0] is not queue:
                        queue = take[0]
                        if queue.watched:
                            return False
                    if entry.decoded is not None and (entry.decoded.report or entry.decoded.group_id):
                        return False
                for index in range(count):
                    take = <tuple>takes[index]
                    queue, entry = take[0], <QueuedMessage>take[1]
                    size += entry.body_size()
                    self.remove(queue, entry)
            finally:
                self.lock_release()
            del takes[:count]
            stream._settled = settled + count
            stream._held_bytes -= size
        waiter.credit += more
        if waiter.among is None:
            stream.pump()
        return True

    cdef int remove(self, queue, QueuedMessage entry) except -1:
        """A nonpersistent entry that is locked leaves for good; `Queue.remove`."""
        if entry.decoded is not None or entry.raw_correlated or queue._by_message_id is not None:
            queue.remove(entry)
            return 0
        queue.uncommitted_gets -= 1
        queue.depth -= 1
        entry.state = GONE
        entry.decoded = _NO_BODY
        entry.raw = None
        entry.shared = None
        return 0
