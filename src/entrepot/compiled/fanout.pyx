# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Publications, from the bytes of their frames to the bytes of all deliveries.

Publications that come one behind the other on the same topic are taken
together: each becomes the bytes of one message, which all queues share, and
each subscriber gets all of them in one frame, a head of its own and then
bytes that are the same for everybody. So what a delivery costs beside that
is its entry on the queue.

Like `express.pyx` it looks first, and does the whole verb or nothing. A
plan of a topic is flat when its subscribers get the publication as it is,
without conditions; then each queue is looked at: a stream of a native
connection that waits takes its bytes, an ordinary queue without readers
stores them, and for all others `QueueManager.arrive` does what it does for
any message.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
cimport cython

from entrepot.compiled.entry cimport QueuedMessage, raw_entry
from entrepot.compiled.express cimport Publications
from entrepot.compiled.outlet cimport Outlet, only_outlet, take_of, take_turns, write
from entrepot.compiled.plain cimport *

import msgspec

from entrepot.errors import SpillFailed
from entrepot.message import Message

cdef enum:
    # States of an entry, as in engine/entry.py.
    LOCKED = 1
    # Verbs, as in server/wire/verbs.py.
    PUT = 2
    PUT_MANY = 39
    DONE = 65
    # Limits, as in limits.py, engine/ and server/.
    BODY_BYTES_MAX = 1048576
    HELD_BYTES_MAX = 67108864
    ASKED_BYTES_MAX = 65536
    OVERHEAD_BYTES = 640
    PLANS_MAX = 1000
    TOPIC_BYTES_MAX = 200       # a longer one is for the general way
    PREFIX_BYTES = 6            # "topic:"
    # Publications that are taken together.
    GROUP_MAX = 256
    GROUP_BYTES = 65536

cdef double WAIT_S_USUAL = 86400.0

cdef object _encode = msgspec.msgpack.Encoder().encode
cdef object _decode = msgspec.msgpack.Decoder(Message).decode
cdef object _SpillFailed = SpillFailed

_SAMPLE = Message(b"b", b"m", topic="t", user="u", application="a")
_LAYOUT = (
    b"\xdc\x00" + bytes([FIELDS]) + b"\xc4\x01b\xc4\x01m\xc4\x00\xc2\x00\x08\xcb" + bytes(8) + b"\xc0\xcb" + bytes(8)
    + b"\xa0" + (<const char*>middle())[:MIDDLE_BYTES] + b"\xa1u\xa1a\x80\x00\xa0\xa0\xa1t\xc2\xa0"
)
if _encode(_SAMPLE) != _LAYOUT:
    raise ImportError("Message has another layout than this module was made for")


@cython.final
@cython.no_gc
cdef class SharedPublication:
    """`SharedBody` for a message that is there as bytes: made a `Message` once, for all queues that have it."""

    cdef object __weakref__
    cdef public Py_ssize_t count
    cdef public object file
    cdef public Py_ssize_t index
    cdef bytes raw
    cdef object decoded

    @property
    def message(self):
        if self.decoded is None:
            self.decoded = _decode(self.raw)
        return self.decoded

    @property
    def body(self):
        return self.message.body


cdef SharedPublication share(bytes raw, Py_ssize_t count):
    cdef SharedPublication shared = SharedPublication.__new__(SharedPublication)
    shared.raw = raw
    shared.count = count
    return shared


@cython.final
cdef class Target:
    """A subscriber's queue, as long as the plan it is part of lives."""

    cdef object queue
    cdef object waiters
    cdef dict by_correlation
    cdef dict anyone
    cdef int queue_number
    cdef long long depth_max
    cdef Py_ssize_t buffer_bytes
    cdef bint fifo
    # How many subscribers get the same message, and whether this is the first of them.
    cdef Py_ssize_t sharers
    cdef bint begins


@cython.final
cdef class TopicRoute:
    """What is known of a topic, until a definition changes: then there are new plans."""

    cdef object plan
    cdef bytes topic            # as MessagePack writes it
    cdef Py_ssize_t topic_size  # without its head
    cdef bint is_flat
    cdef list targets
    cdef bint default_persistent
    cdef uint8_t default_priority
    cdef Py_ssize_t body_bytes_max
    # At which state of the authorities this connection was found to have the right to publish.
    cdef object allowed_at


cdef TopicRoute course_of(manager, str topic, plan):
    cdef TopicRoute course = TopicRoute.__new__(TopicRoute)
    cdef Target target
    ruling = plan.ruling.topic
    course.plan = plan
    course.topic = _encode(topic)
    course.topic_size = len(topic)
    course.targets = []
    course.default_persistent = ruling.default_persistent == "YES"
    course.default_priority = ruling.default_priority
    course.body_bytes_max = min(manager.objects.manager.body_bytes_max, BODY_BYTES_MAX - 1)
    course.is_flat = not (ruling.publish == "DISABLED" or plan.broken or plan.streaming)
    queues = set()
    for party in plan.parties:
        shape = party.shape
        if (
            party.selector is not None
            or party.content is not None
            or party.proxy_for
            or shape.priority is not None
            or shape.correlation_id is not None
            or shape.user_data
            or shape.target_queue
        ):
            course.is_flat = False
            break
        for member in party.members:
            queue = member.queue
            definition = queue.definition
            target = Target.__new__(Target)
            target.queue = queue
            target.waiters = queue.waiters
            target.anyone = queue.waiters.any
            target.by_correlation = queue.waiters.by_correlation
            target.queue_number = queue.number
            target.depth_max = member.depth_max
            target.buffer_bytes = definition.buffer_bytes
            target.fifo = definition.delivery == "FIFO"
            target.sharers = len(party.members)
            target.begins = member is party.members[0]
            course.body_bytes_max = min(course.body_bytes_max, <Py_ssize_t>member.body_bytes_max)
            course.targets.append(target)
            queues.add(queue)
    if len(queues) < len(course.targets):
        course.is_flat = False  # a queue would have to have room for several
    return course


cdef struct Group:
    # Publications that are taken together: where each ends in the bytes of all, and its first key.
    int count
    uint8_t priority            # of all of them
    Py_ssize_t ends[GROUP_MAX + 1]
    Py_ssize_t body_bytes[GROUP_MAX]
    long long first_keys[GROUP_MAX]


cdef struct Publication:
    const uint8_t* topic
    Py_ssize_t topic_bytes
    uint8_t persistent
    uint8_t priority
    uint32_t number
    Plain message


cdef Py_ssize_t find_publication(const uint8_t* begin, const uint8_t* end, bint many, Publication* found) noexcept nogil:
    """The bytes of a plain publication that begins here, a PUT or one of the `many` in a frame; 0 when there is none."""
    cdef Piece name
    cdef Py_ssize_t size
    cdef const uint8_t* p = begin
    cdef double wait_s
    found.number = 0
    if not many:
        if end - begin < HEAD_BYTES or begin[4] != PUT:
            return 0
        size = 4 + <Py_ssize_t>little(begin)
        if size < HEAD_BYTES or end - begin < size:
            return 0
        end = begin + size
        found.number = little(begin + 8)
        p += HEAD_BYTES
    if end - p < 2 or p[0] != (0x94 if many else 0x96):
        return 0
    p = text(p + 1, end, &name)
    if p == NULL or not PREFIX_BYTES < name.size <= TOPIC_BYTES_MAX or end - p < 12:
        return 0
    if memcmp(name.content, b"topic:", PREFIX_BYTES) != 0 or not is_ascii(name.content, name.size):
        return 0
    found.topic = name.content + PREFIX_BYTES
    found.topic_bytes = name.size - PREFIX_BYTES
    if many:
        found.persistent, found.priority = p[0], p[1]
        p += 2
    else:
        if p[0] != 0 or p[3] != 0xcb:
            return 0  # in a unit of work
        wait_s = real(p + 4)
        if not 0.0 <= wait_s <= WAIT_S_USUAL:
            return 0
        found.persistent, found.priority = p[1], p[2]
        p += 12
    if not find_plain(p, end, &found.message) or (not many and found.message.end != end):
        return 0
    # What has to be found by its correlation id, or at its time, is for the general way.
    return 0 if found.message.expires or found.message.correlation_id.size else found.message.end - begin


@cython.final
cdef class Fanout(Publications):
    """One native connection's plain publications."""

    cdef object link
    cdef object conversation
    cdef object put_rest
    cdef object session
    cdef object registry
    cdef object engine
    cdef object manager
    cdef object group_commit
    cdef object subscribers
    cdef object clock_now
    cdef object lock_acquire
    cdef object lock_release
    cdef bytes sender
    cdef bint administrator
    cdef dict courses
    cdef Py_ssize_t frame_bytes_max

    def __init__(self, link, conversation, put_rest):
        """`put_rest` puts what is left of a PUT_MANY, from an index on."""
        session = conversation.session
        registry = session.registry
        self.link = link
        self.conversation = conversation
        self.put_rest = put_rest
        self.session = session
        self.registry = registry
        self.engine = registry.engine
        self.manager = registry.engine.manager
        self.group_commit = self.manager.group_commit
        self.subscribers = self.manager.objects.subscribers
        self.clock_now = self.manager.clock.now
        self.lock_acquire = registry.host.lock.acquire
        self.lock_release = registry.host.lock.release
        self.sender = _encode(session.identity.user) + _encode(session.application)
        self.administrator = session.identity.administrator
        self.courses = {}
        self.frame_bytes_max = link.reader.frame_bytes_max

    cdef Py_ssize_t take(self, const uint8_t* begin, const uint8_t* end, int* frames) except -1:
        cdef Py_ssize_t size = 4 + <Py_ssize_t>little(begin)
        if begin[4] == PUT_MANY:
            if not self.take_many(begin, begin + size):
                return 0
            frames[0] += 1
            return size
        return self.take_some(begin, end, 0, frames)

    cdef bint take_many(self, const uint8_t* begin, const uint8_t* end) except -1:
        """unit, [[queue, persistent, priority, message], ...]"""
        cdef const uint8_t* p = begin + HEAD_BYTES
        cdef Publication found
        cdef Py_ssize_t taken
        cdef int count, done = 0
        if little(begin + 8) or not 4 <= end - p <= ASKED_BYTES_MAX or p[0] != 0x92 or p[1] != 0:
            return False  # in a unit of work, or more than a frame may have
        p += 2
        if (p[0] & 0xf0) == 0x90:
            count = p[0] & 0x0f
            p += 1
        elif p[0] == 0xdc and end - p >= 3:
            count = (p[1] << 8) | p[2]
            p += 3
        else:
            return False
        if find_publication(p, end, True, &found) == 0 or not are_plain(p, end, count):
            return False  # none of them is published if one cannot be understood
        while done < count:
            taken = self.take_some(p, end, count - done, &done)
            if taken == 0:
                if done:
                    self.put_rest(self.conversation, (begin + HEAD_BYTES)[: end - begin - HEAD_BYTES], done)
                    if self.session.blocked:
                        self.link.hold()
                return done > 0
            p += taken
        return count > 0

    cdef Py_ssize_t take_some(self, const uint8_t* begin, const uint8_t* end, int most, int* count) except -1:
        """Publish what comes first, from frames of their own, or up to `most` from one frame; how many bytes it had."""
        cdef Publication found
        cdef Py_ssize_t size
        cdef TopicRoute course
        if find_publication(begin, end, most > 0, &found) == 0 or self.group_commit.failure is not None:
            return 0
        course = self.course(PyUnicode_DecodeASCII(<const char*>found.topic, found.topic_bytes, NULL))
        if course is None or not course.is_flat or not self.may(course):
            return 0
        self.lock_acquire()
        try:
            size = self.publish(course, begin, end, most, count)
        finally:
            self.lock_release()
        if self.engine._ready:
            self.engine.drain()
        return size

    cdef TopicRoute course(self, str topic):
        """What is known of a topic; None where the general way has to find out."""
        cdef TopicRoute course
        plan = (<dict>self.subscribers._plans).get(topic)
        if plan is None:
            return None
        course = <TopicRoute>self.courses.get(topic)
        if course is None or course.plan is not plan:
            if len(self.courses) >= PLANS_MAX:
                self.courses.clear()
            course = self.courses[topic] = course_of(self.manager, topic, plan)
        return course

    cdef bint may(self, TopicRoute course) except -1:
        """`SessionAuthority.require_topic`, without telling of a refusal: the general way does."""
        if self.administrator:
            return True
        epoch = self.registry.authority_epoch
        if course.allowed_at is None or course.allowed_at != epoch:
            for name in course.plan.ruling.names:
                if self.session.may("TOPIC", name, "PUB"):
                    course.allowed_at = epoch
                    return True
            return False
        return True

    # --- under the host's lock ---

    cdef Py_ssize_t publish(
        self, TopicRoute course, const uint8_t* begin, const uint8_t* end, int most, int* count
    ) except -1:
        """Take publications on one topic while they come one behind the other; how many bytes they have."""
        cdef Group group
        cdef Target target
        cdef Publication found
        cdef Plain* message = &found.message
        cdef long long room = GROUP_MAX, key
        cdef Py_ssize_t size, taken, place, id_bytes, sender_bytes = PyBytes_GET_SIZE(self.sender)
        cdef Py_ssize_t topic_bytes = PyBytes_GET_SIZE(course.topic), members = len(course.targets)
        cdef const uint8_t* topic = <const uint8_t*>PyBytes_AS_STRING(course.topic)
        cdef const uint8_t* at = begin
        cdef uint8_t* q
        cdef uint32_t number
        cdef bytes message_id, raw, joined
        cdef list raws = [], answers = [], shared = None
        cdef double now
        manager = self.manager
        for target in course.targets:
            queue = target.queue
            room = min(room, target.depth_max - <long long>queue.depth - <long long>queue.reserved)
        if most > 0:
            room = min(room, most)
        now = self.clock_now()
        group.count = 0
        group.ends[0] = 0
        key = manager.key_next
        while group.count < room:
            taken = find_publication(at, end, most > 0, &found)
            if taken == 0 or taken - 4 > self.frame_bytes_max or message.body.size > course.body_bytes_max:
                break
            if found.topic_bytes != course.topic_size or memcmp(
                found.topic, topic + (topic_bytes - course.topic_size), course.topic_size
            ) != 0:
                break
            if found.persistent != 0xc2 and (found.persistent != 0xc0 or course.default_persistent):
                break
            if found.priority == 0xc0:
                found.priority = course.default_priority
            elif found.priority > 9:
                break
            if group.count == 0:
                group.priority = found.priority
            elif found.priority != group.priority or group.ends[group.count] + message.body.size > GROUP_BYTES:
                break
            if message.message_id.size:
                message_id = PyBytes_FromStringAndSize(<const char*>message.message_id.content, message.message_id.size)
            else:
                message_id = manager.new_message_id()
                key = manager.key_next
            id_bytes = PyBytes_GET_SIZE(message_id)
            size = plain_bytes(message, id_bytes, sender_bytes) + topic_bytes - 1
            raw = PyBytes_FromStringAndSize(NULL, size)
            q = put_plain(
                <uint8_t*>PyBytes_AS_STRING(raw), message, <const uint8_t*>PyBytes_AS_STRING(message_id), id_bytes, False,
                found.priority, now, <const uint8_t*>PyBytes_AS_STRING(self.sender), sender_bytes,
            )
            # The last three fields are topic, retained and authorized_as, of one byte each.
            q = put_bytes(q - 3, topic, topic_bytes)
            q[0] = 0xc2
            q[1] = 0xa0
            raws.append(raw)
            group.body_bytes[group.count] = message.body.size
            group.first_keys[group.count] = key + 1
            key += members
            manager.key_next = key
            group.count += 1
            group.ends[group.count] = group.ends[group.count - 1] + size
            if found.number:
                answers.append((found.number, message_id))
            at += taken
        if group.count == 0:
            return 0
        count[0] += group.count
        for number, message_id in answers:
            self.answer(number, message_id)
        joined = <bytes>raws[0] if group.count == 1 else b"".join(raws)
        for place in range(members):
            target = <Target>course.targets[place]
            if target.sharers == 1:
                shared = None
            elif target.begins:
                shared = [share(<bytes>raw, target.sharers) for raw in raws]
            self.distribute(target, &group, place, raws, shared, joined)
        return at - begin

    cdef int distribute(
        self, Target target, const Group* group, Py_ssize_t place, list raws, list shared, bytes joined
    ) except -1:
        """Let a queue have all of them."""
        cdef int given = 0, some
        cdef Outlet outlet
        queue = target.queue
        if not (queue.unoffered or queue.watched or queue._by_message_id is not None or target.by_correlation):
            while target.anyone and given < group.count:
                outlet = only_outlet(target.anyone)
                if outlet is None:
                    break
                some = 1
                if len(target.anyone) == 1:
                    some = min(group.count - given, <int>min(<long long>outlet.waiter.credit, GROUP_MAX))
                self.hand(target, outlet, group, place, given, some, raws, shared, joined)
                given += some
            if given < group.count and not target.anyone and self.stand(target, group, place, given, raws, shared):
                return 0
        if given < group.count:
            self.arrive(queue, target, group, place, given, raws, shared)
        return 0

    cdef QueuedMessage entry(
        self, Target target, const Group* group, Py_ssize_t place, int index, list raws, list shared
    ):
        cdef QueuedMessage entry = raw_entry(
            group.first_keys[index] + place, target.queue_number, <bytes>raws[index], group.body_bytes[index], False
        )
        if shared is not None:
            entry.shared = shared[index]
        return entry

    cdef int arrive(
        self, queue, Target target, const Group* group, Py_ssize_t place, int first, list raws, list shared
    ) except -1:
        """The general way, for a queue or a reader that asks for more."""
        cdef int index
        engine = self.engine
        engine._inside = True
        try:
            for index in range(first, group.count):
                try:
                    self.manager.arrive(queue, self.entry(target, group, place, index, raws, shared))
                except _SpillFailed:
                    continue  # it is in memory; the next put to this queue is told
        finally:
            engine._inside = False
        return 0

    cdef bint stand(self, Target target, const Group* group, Py_ssize_t place, int first, list raws, list shared) except -1:
        """Let them stand on a queue in memory that nobody reads just now; False when that takes more than this."""
        cdef int index
        cdef Py_ssize_t size = 0
        cdef QueuedMessage entry
        cdef list order
        queue = target.queue
        lane = queue._lane(group.priority)
        order = <list>queue._order
        if len(order) != 1 or lane.runs or lane._back or lane._key_last > group.first_keys[first] + place:
            return False
        for index in range(first, group.count):
            size += group.body_bytes[index] // target.sharers + OVERHEAD_BYTES
        if <Py_ssize_t>lane.memory_bytes + size > target.buffer_bytes:
            return False
        append = lane._front.append
        for index in range(first, group.count):
            entry = self.entry(target, group, place, index, raws, shared)
            entry.resident = True
            append(entry)
        lane.memory_bytes += size
        lane._key_last = entry.key
        queue.depth += group.count - first
        return True

    cdef int hand(
        self, Target target, Outlet outlet, const Group* group, Py_ssize_t place, int first, int some, list raws,
        list shared, bytes joined,
    ) except -1:
        """Let a stream have some of them, under its unit of work."""
        cdef int index
        cdef Py_ssize_t size = 0
        cdef QueuedMessage entry
        cdef list takes
        queue, stream, waiter = target.queue, outlet.stream, outlet.waiter
        take_turns(waiter, some)
        queue.depth += some
        queue.uncommitted_gets += some
        takes = <list>waiter.unit.takes
        for index in range(first, first + some):
            entry = self.entry(target, group, place, index, raws, shared)
            entry.state = LOCKED
            size += group.body_bytes[index]
            takes.append(take_of(queue, entry))
        stream._held_bytes += size
        if <Py_ssize_t>stream._held_bytes >= HELD_BYTES_MAX:
            self.engine.stop_waiting(waiter)
        if some == 1 or outlet.numbered._together:
            return outlet.write_deliveries(
                some, <const uint8_t*>PyBytes_AS_STRING(joined) + group.ends[first],
                group.ends[first + some] - group.ends[first],
            )
        for index in range(first, first + some):
            outlet.write_deliveries(
                1, <const uint8_t*>PyBytes_AS_STRING(joined) + group.ends[index], group.ends[index + 1] - group.ends[index]
            )
        return 0

    cdef int answer(self, uint32_t number, bytes message_id) except -1:
        """DONE with a message id."""
        cdef Py_ssize_t id_bytes = PyBytes_GET_SIZE(message_id)
        cdef Py_ssize_t size = HEAD_BYTES + 3 + id_bytes
        cdef bytes frame = PyBytes_FromStringAndSize(NULL, size)
        cdef uint8_t* q = put_frame_head(<uint8_t*>PyBytes_AS_STRING(frame), size, DONE, number)
        q[0] = 0x91
        put_bytes(put_binary_head(q + 1, id_bytes), <const uint8_t*>PyBytes_AS_STRING(message_id), id_bytes)
        write(self.engine, self.link, frame)
        return 0
