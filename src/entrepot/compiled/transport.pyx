# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The hot verbs of a client, from their arguments to the bytes of a frame, and from those to a message.

`PlainCore` writes plain puts and requests as frames and hears plain
answers; `PlainTransport` sends and receives them on a socket that is not
encrypted. What is not plain goes the general way: each method here calls
the one in Python that does all of it. Bytes are what msgspec would write.

Twins in Python: `client/plain.py`, `client/read_ahead.py`,
`client/blocking/blocking_reply.py`, `client/blocking/plain_transport.py`.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.errno cimport EAGAIN, EINTR, errno
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec
cimport cython

from entrepot.compiled.plain cimport *

import os
from collections import deque

import msgspec
from msgspec.structs import astuple

from entrepot.client.requests import queue_name
from entrepot.errors import EntrepotError, ProtocolError
from entrepot.message import Message, MessageType
from entrepot.server.wire.codec import LONG_BODY_BYTES as _LONG_BODY_BYTES

cdef extern from "Python.h":
    object PyObject_Vectorcall(object function, PyObject** args, size_t count, PyObject* names)
    unsigned long PyThread_get_thread_ident()
    void* PyUnicode_DATA(object text)

cdef extern from "sys/uio.h":
    struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "sys/socket.h":
    struct msghdr:
        iovec* msg_iov
        size_t msg_iovlen
    int MSG_DONTWAIT
    int MSG_NOSIGNAL
    ssize_t c_sendmsg "sendmsg"(int fd, const msghdr* message, int flags) nogil
    ssize_t c_recv "recv"(int fd, void* buffer, size_t size, int flags) nogil

cdef extern from "sched.h":
    int sched_yield() nogil

cdef extern from "poll.h":
    struct pollfd:
        int fd
        short events
        short revents
    short POLLIN
    int c_poll "poll"(pollfd* descriptors, unsigned long count, int timeout_ms) nogil

cdef extern from "string.h":
    void* memset(void* memory, int value, size_t size) nogil

cdef enum:
    # Verbs, as in server/wire/verbs.py.
    PUT = 2
    REQUEST = 4
    CREDIT = 14
    PUT_MANY = 39
    DONE = 65
    MESSAGE = 66
    DELIVERY = 69
    DELIVERIES = 74
    # As in client/protocol.py and client/blocking/blocking_transport.py.
    GATHER_BYTES = 131072
    PUT_MANY_BYTES = 57344
    PUT_BYTES = 800
    PIECES_MAX = 64
    HANDSHAKE_FRAME_BYTES_MAX = 16384
    # Names whose MessagePack is kept.
    NAMES_MAX = 1000
    NUMBER_MAX = 0xffffffff
    # Of a message, by their places among its fields.
    BODY = 0
    MESSAGE_ID = 1
    CORRELATION_ID = 2
    PERSISTENT = 3
    PRIORITY = 4
    TYPE = 5
    PUT_TIME = 6
    EXPIRY_S = 7
    REPLY_TO = 9
    USER = 19
    APPLICATION = 20
    PROPERTIES = 21
    TOPIC = 25
    # A longer message is made when it comes, so that its body is not copied twice.
    UNREAD_BYTES_MAX = 8192

cdef double STALE_S = 0.01
cdef double PATIENCE_S = 0.02
# How long a wait looks again and again before it sleeps: the time in which a partner on an idle machine answers. To sleep
# and be woken takes longer than the answer itself (docs/decisions/0037-a-short-wait-looks.md).
cdef double LOOKING_S = 0.0001
# Waits that may look in vain, one after another, until none does; then one in so many tries whether that has changed.
cdef enum:
    LOOKS_IN_VAIN_MAX = 8
    WAITS_WITHOUT_LOOKING = 256
    NOTHING_CAME = -2
# One processor can do nothing for the answer while it looks for it.
cdef bint LOOKS = len(os.sched_getaffinity(0)) > 1
cdef double WAIT_MAX_S = 3600.0
cdef double FOREVER = float("inf")
cdef Py_ssize_t LONG_BODY_BYTES = _LONG_BODY_BYTES

cdef object _encode = msgspec.msgpack.Encoder().encode
cdef str _CLOSED = "the queue manager has closed the connection"
cdef dict _names = {}
cdef tuple _usual = astuple(Message(b""))
cdef tuple _types = tuple(MessageType(number) if number in set(MessageType) else None for number in range(9))
cdef tuple _digits = tuple(range(10))
cdef bytes _no_bytes = b""
cdef object _true = True
cdef object _Message = Message
cdef PyObject* _template[FIELDS]

if len(_usual) != FIELDS or LONG_BODY_BYTES >= 1 << 24 or any(
    Message.__struct_fields__[place] != name
    for place, name in (
        (BODY, "body"), (MESSAGE_ID, "message_id"), (CORRELATION_ID, "correlation_id"), (PERSISTENT, "persistent"),
        (PRIORITY, "priority"), (TYPE, "type"), (PUT_TIME, "put_time"), (EXPIRY_S, "expiry_s"),
        (REPLY_TO, "reply_to"), (USER, "user"), (APPLICATION, "application"), (PROPERTIES, "properties"),
        (TOPIC, "topic"),
    )
):
    raise ImportError("the compiled line was built for another layout of messages")

cdef void _fill_template():
    cdef int i
    for i in range(FIELDS):
        _template[i] = <PyObject*>_usual[i]

_fill_template()


cdef inline double monotonic() noexcept nogil:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <double>now.tv_sec + <double>now.tv_nsec * 1e-9


# --- messages ---------------------------------------------------------------------------------------

# Most messages that reach a client come from one sender.
cdef bytes _sender_seen = b""
cdef object _user_seen = ""
cdef object _application_seen = ""
# And most publications are on one topic.
cdef str _topic_seen = ""


cdef object message_of(const Plain* found, const Piece* topic, kind, source, number):
    """The message that was found in a frame; as a delivery of `kind` it has two more fields."""
    global _sender_seen, _user_seen, _application_seen, _topic_seen
    cdef PyObject* args[FIELDS + 2]
    cdef Piece user = found.reply_to, application = found.reply_to  # both are found below, since `found` was
    cdef const uint8_t* p = found.correlation_id.at + found.correlation_id.whole + 3
    cdef Py_ssize_t size
    cdef object body, message_id, correlation_id, put_time, expiry_s, reply_to, properties
    memcpy(args, _template, sizeof(_template))
    body = PyBytes_FromStringAndSize(<const char*>found.body.content, found.body.size)
    message_id = PyBytes_FromStringAndSize(<const char*>found.message_id.content, found.message_id.size)
    correlation_id = PyBytes_FromStringAndSize(<const char*>found.correlation_id.content, found.correlation_id.size)
    put_time = real(p + 1)
    args[BODY] = <PyObject*>body
    args[MESSAGE_ID] = <PyObject*>message_id
    args[CORRELATION_ID] = <PyObject*>correlation_id
    if found.persistent:
        args[PERSISTENT] = <PyObject*>_true
    args[PRIORITY] = <PyObject*>_digits[found.priority]
    args[TYPE] = <PyObject*>_types[found.type]
    args[PUT_TIME] = <PyObject*>put_time
    if found.expires:
        expiry_s = found.expiry_s
        args[EXPIRY_S] = <PyObject*>expiry_s
    if found.reply_to.size:
        reply_to = PyUnicode_DecodeASCII(<const char*>found.reply_to.content, found.reply_to.size, NULL)
        args[REPLY_TO] = <PyObject*>reply_to
    p = text(found.reply_to.at + found.reply_to.whole + MIDDLE_BYTES, found.end, &user)
    p = text(p, found.end, &application)
    size = p - user.at
    if size != PyBytes_GET_SIZE(_sender_seen) or memcmp(user.at, PyBytes_AS_STRING(_sender_seen), size) != 0:
        _user_seen = PyUnicode_DecodeASCII(<const char*>user.content, user.size, NULL)
        _application_seen = PyUnicode_DecodeASCII(<const char*>application.content, application.size, NULL)
        _sender_seen = PyBytes_FromStringAndSize(<const char*>user.at, size)
    # Another message's sender may be seen while this one is made: these stay ours.
    cdef object user_seen = _user_seen, application_seen = _application_seen
    args[USER] = <PyObject*>user_seen
    args[APPLICATION] = <PyObject*>application_seen
    properties = {}
    args[PROPERTIES] = <PyObject*>properties
    cdef str topic_seen
    if topic != NULL and topic.size:
        topic_seen = _topic_seen
        if topic.size != len(topic_seen) or memcmp(topic.content, PyUnicode_DATA(topic_seen), topic.size) != 0:
            _topic_seen = topic_seen = PyUnicode_DecodeASCII(<const char*>topic.content, topic.size, NULL)
        args[TOPIC] = <PyObject*>topic_seen
    if kind is None:
        return PyObject_Vectorcall(_Message, args, FIELDS, NULL)
    args[FIELDS] = <PyObject*>source
    args[FIELDS + 1] = <PyObject*>number
    return PyObject_Vectorcall(kind, args, FIELDS + 2, NULL)


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Unread:
    """A message that has come and that was not asked for yet: found in its frame, but not made."""

    cdef bytes frame
    cdef Plain found
    cdef Piece topic


cpdef delivered(kind, message, source, number):
    """A message as a delivery of `kind`: with two more fields."""
    cdef PyObject* args[FIELDS + 2]
    cdef tuple fields = astuple(message)
    cdef int i
    if type(message) is not _Message:
        return kind(*fields[:FIELDS], source, number)
    for i in range(FIELDS):
        args[i] = <PyObject*>fields[i]
    args[FIELDS] = <PyObject*>source
    args[FIELDS + 1] = <PyObject*>number
    return PyObject_Vectorcall(kind, args, FIELDS + 2, NULL)


# --- frames -----------------------------------------------------------------------------------------


cdef struct Draft:
    # A message to be put: what makes it differ from any other plain one.
    const uint8_t* body
    Py_ssize_t body_bytes
    const uint8_t* id_head
    Py_ssize_t id_head_bytes
    uint32_t id_count
    bint has_id
    const uint8_t* correlation_id
    Py_ssize_t correlation_bytes
    uint8_t type
    double expiry_s             # 0: none
    const uint8_t* reply_to     # as MessagePack writes it
    Py_ssize_t reply_to_bytes
    const uint8_t* sender       # user and application, the same
    Py_ssize_t sender_bytes


cdef inline Py_ssize_t draft_bytes(const Draft* draft) noexcept nogil:
    """How many bytes `put_draft` writes."""
    cdef Py_ssize_t head = 2 if draft.body_bytes < 0x100 else 3 if draft.body_bytes < 0x10000 else 5
    return (
        3 + head + draft.body_bytes + 2 + (draft.id_head_bytes + 4 if draft.has_id else 0) + 2
        + draft.correlation_bytes + 3 + 9 + (9 if draft.expiry_s > 0 else 1) + 9 + draft.reply_to_bytes
        + MIDDLE_BYTES + draft.sender_bytes + ENDING_BYTES
    )


cdef inline uint8_t* put_draft(uint8_t* q, const Draft* draft) noexcept nogil:
    """A message as msgspec writes it; where it ends."""
    q[0] = 0xdc
    q[1] = 0
    q[2] = FIELDS
    q = put_binary_head(q + 3, draft.body_bytes)
    q = put_bytes(q, draft.body, draft.body_bytes)
    q[0] = 0xc4
    if draft.has_id:
        q[1] = <uint8_t>(draft.id_head_bytes + 4)
        q = put_bytes(q + 2, draft.id_head, draft.id_head_bytes)
        q[0] = <uint8_t>(draft.id_count >> 24)
        q[1] = <uint8_t>(draft.id_count >> 16)
        q[2] = <uint8_t>(draft.id_count >> 8)
        q[3] = <uint8_t>draft.id_count
        q += 4
    else:
        q[1] = 0
        q += 2
    q[0] = 0xc4
    q[1] = <uint8_t>draft.correlation_bytes
    q = put_bytes(q + 2, draft.correlation_id, draft.correlation_bytes)
    q[0] = 0xc2
    q[1] = 0
    q[2] = draft.type
    q = put_real(q + 3, 0.0)
    if draft.expiry_s > 0:
        q = put_real(q, draft.expiry_s)
    else:
        q[0] = 0xc0
        q += 1
    q = put_real(q, 0.0)
    q = put_bytes(q, draft.reply_to, draft.reply_to_bytes)
    q = put_bytes(q, middle(), MIDDLE_BYTES)
    q = put_bytes(q, draft.sender, draft.sender_bytes)
    return put_bytes(q, ending(), ENDING_BYTES)


cdef inline uint8_t flag_of(value) noexcept:
    return 0xc0 if value is None else 0xc3 if value is True else 0xc2


cdef bytes packed_name(name):
    """A queue's name as MessagePack writes it.

    Raises:
        InvalidName
    """
    found = _names.get(name)
    if found is None:
        found = _encode(queue_name(name))
        if len(_names) < NAMES_MAX:
            _names[name] = found
    return <bytes>found


@cython.freelist(64)
cdef class BlockingReply:
    """One verb's answer; whoever waits for it may have to read for others."""

    cdef public bint done
    cdef public bint unit_active
    cdef public object value
    cdef public object error
    cdef public object ticket
    cdef public int verb
    cdef public uint32_t number

    def resolve(self, value):
        self.resolve_to(value)

    cdef int resolve_to(self, value) except -1:
        self.value = value
        self.done = True
        if self.ticket is not None:
            self.release()
        return 0

    def fail(self, error, *, unit_active=False):
        self.error = error
        self.unit_active = unit_active
        self.done = True
        if self.ticket is not None:
            self.release()

    cdef int release(self) except -1:
        try:
            self.ticket.release()
        except RuntimeError:
            pass  # released already, to let its thread read
        return 0


cdef class ReadAhead:
    """Messages that came by credit and wait to be used."""

    cdef public object number
    cdef public object queue
    cdef public object wanted
    cdef public object opened
    cdef object came
    """Messages and unread ones, in their order."""
    cdef Py_ssize_t unread
    cdef public Py_ssize_t credit_step
    cdef public Py_ssize_t given
    cdef public Py_ssize_t told
    cdef public object error
    cdef public object wake
    cdef bint lost

    def __init__(self, number, queue, wanted, credit, opened):
        self.number = number
        self.queue = queue
        self.wanted = wanted
        self.opened = opened
        self.came = deque()
        self.credit_step = max(credit // 2, 1)

    @property
    def arrived(self):
        """The messages themselves."""
        cdef Unread unread
        if self.unread:
            for place, message in enumerate(self.came):
                if type(message) is Unread:
                    unread = <Unread>message
                    self.came[place] = message_of(&unread.found, &unread.topic, None, None, None)
            self.unread = 0
        return self.came

    @property
    def has_some(self):
        """Whether a message is here."""
        return len(self.came) > 0

    @property
    def count(self):
        """How many messages are here."""
        return len(self.came)

    def arrive(self, messages):
        self.came.extend(messages)
        if self.wake is not None:
            self.wake()

    def lose(self, error):
        """Nothing more comes by this connection."""
        self.error = error
        self.lost = True
        if self.wake is not None:
            self.wake()

    @property
    def is_lost(self):
        """Whether the server has taken back what was not settled."""
        return self.lost

    def next(self):
        """What came first, if anything is left."""
        cdef Unread unread
        while self.came:
            message = self.came.popleft()
            if type(message) is Unread:
                unread = <Unread>message
                self.unread -= 1
                message = message_of(&unread.found, &unread.topic, None, None, None)
            # What a server has lost sight of it puts back if it is persistent, so this one would come twice.
            # Nonpersistent ones it has let go of: they are here or nowhere.
            if not self.lost or not message.persistent:
                return message
        return None

    def use(self):
        """What was given last has been used; whether the server should hear of it."""
        if self.lost:
            return False
        self.given += 1
        return self.given - self.told >= self.credit_step


cdef class Turns:
    """The usual turn of a loop over a consumer's messages; see `client/consumed.py`."""

    cdef public object _incoming
    cdef public Py_ssize_t _number
    cdef public bint _at_hand
    cdef public bint _closed

    cpdef bint _used(self) except -1:
        """See `client.consumed.Turns._used`."""
        cdef ReadAhead ahead
        if self._incoming is None:
            return False
        found = self._incoming.ahead
        if type(found) is not ReadAhead:
            return False
        ahead = <ReadAhead>found
        if ahead.lost or ahead.given + 1 - ahead.told >= ahead.credit_step:
            return False
        ahead.given += 1
        self._at_hand = False
        return True

    cpdef _turn(self, kind):
        """See `client.consumed.Turns._turn`."""
        cdef ReadAhead ahead
        cdef Unread unread
        if self._closed or self._incoming is None:
            return None
        found = self._incoming.ahead
        if type(found) is not ReadAhead:
            return None
        ahead = <ReadAhead>found
        if ahead.lost or not ahead.came:
            return None
        if self._at_hand:
            if ahead.given + 1 - ahead.told >= ahead.credit_step:
                return None
            ahead.given += 1
        self._number += 1
        self._at_hand = True
        message = ahead.came.popleft()
        if type(message) is Unread:
            unread = <Unread>message
            ahead.unread -= 1
            return message_of(&unread.found, &unread.topic, kind, self, self._number)
        return delivered(kind, message, self, self._number)


cdef class PlainCore:
    """Writes plain puts and requests as frames, and hears plain answers; see `client/plain.py`."""

    cdef public int opened
    cdef public dict pending
    cdef public dict consumers
    cdef public list out
    cdef public Py_ssize_t out_bytes
    cdef public bint urgent
    cdef public object fenced
    cdef public Py_ssize_t body_bytes_max
    cdef public uint32_t _number
    cdef public bint _joins
    cdef public Py_ssize_t _joined
    """How many puts share the frame that is being written."""
    cdef Py_ssize_t joined_bytes
    cdef public object _made
    cdef public bytes _id_head
    cdef object sender
    cdef bytes sender_packed
    cdef uint8_t* memory
    cdef Py_ssize_t memory_bytes
    cdef Py_ssize_t filled
    """The puts that share a frame, behind each other."""

    def __dealloc__(self):
        PyMem_Free(self.memory)

    # --- what goes out ------------------------------------------------------------------------------

    cdef bint drafts(self, Draft* draft, body, correlation_id, kind, sender) except -1:
        """Begin a plain message; False when it is none."""
        memset(draft, 0, sizeof(Draft))
        if body.__class__ is not bytes or correlation_id.__class__ is not bytes:
            return False
        draft.body = <const uint8_t*>PyBytes_AS_STRING(<bytes>body)
        draft.body_bytes = PyBytes_GET_SIZE(<bytes>body)
        draft.correlation_id = <const uint8_t*>PyBytes_AS_STRING(<bytes>correlation_id)
        draft.correlation_bytes = PyBytes_GET_SIZE(<bytes>correlation_id)
        if (
            draft.body_bytes >= LONG_BODY_BYTES
            or draft.body_bytes > self.body_bytes_max
            or draft.correlation_bytes > ID_BYTES_MAX
            or PyBytes_GET_SIZE(self._id_head) + 4 > ID_BYTES_MAX
        ):
            return False
        if sender is not self.sender:
            self.sender_packed = _encode(sender.user) + _encode(sender.application)
            self.sender = sender
        draft.sender = <const uint8_t*>PyBytes_AS_STRING(self.sender_packed)
        draft.sender_bytes = PyBytes_GET_SIZE(self.sender_packed)
        draft.type = <uint8_t>kind
        draft.reply_to = <const uint8_t*>b"\xa0"
        draft.reply_to_bytes = 1
        return True

    cdef bytes name(self, Draft* draft):
        """Give a message an id; the id."""
        cdef bytes head = self._id_head
        cdef bytes message_id
        cdef uint8_t* q
        draft.id_head = <const uint8_t*>PyBytes_AS_STRING(head)
        draft.id_head_bytes = PyBytes_GET_SIZE(head)
        draft.id_count = next(self._made)
        draft.has_id = True
        message_id = PyBytes_FromStringAndSize(NULL, draft.id_head_bytes + 4)
        q = put_bytes(<uint8_t*>PyBytes_AS_STRING(message_id), draft.id_head, draft.id_head_bytes)
        q[0] = <uint8_t>(draft.id_count >> 24)
        q[1] = <uint8_t>(draft.id_count >> 16)
        q[2] = <uint8_t>(draft.id_count >> 8)
        q[3] = <uint8_t>draft.id_count
        return message_id

    cdef uint32_t expect(self, int verb, slot) except? 0:
        """The number of a frame; `slot` is where its answer goes, if it wants one."""
        cdef uint32_t number
        if slot is None:
            return 0
        number = self._number % <uint32_t>NUMBER_MAX + 1
        self._number = number
        if type(slot) is BlockingReply:
            (<BlockingReply>slot).verb = verb
            (<BlockingReply>slot).number = number
        else:
            slot.verb = verb
            slot.number = number
        self.pending[number] = slot
        return number

    cdef int gathered(self, bytes frame) except -1:
        self.out.append(frame)
        self.out_bytes += PyBytes_GET_SIZE(frame)
        return 0

    cpdef bytes gather_put(self, name, body, persistent, priority, correlation_id, kind, sender, slot):
        """See `client.plain.PlainCore.gather_put`."""
        cdef Draft draft
        cdef bytes packed, frame, message_id
        cdef uint8_t* q
        cdef Py_ssize_t size
        if (
            name.__class__ is not str
            or not is_digit(priority)
            or not self.drafts(&draft, body, correlation_id, kind, sender)
        ):
            return self.put_any(name, body, persistent, priority, correlation_id, kind, sender, slot)
        packed = packed_name(name)
        if self._joined:
            self._gather_joined()
        message_id = self.name(&draft)
        size = HEAD_BYTES + 1 + PyBytes_GET_SIZE(packed) + 1 + 1 + 1 + 9 + draft_bytes(&draft)
        frame = PyBytes_FromStringAndSize(NULL, size)
        q = put_frame_head(<uint8_t*>PyBytes_AS_STRING(frame), size, PUT, self.expect(PUT, slot))
        q[0] = 0x96
        q = put_bytes(q + 1, <const uint8_t*>PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))
        q[0] = 0
        q[1] = flag_of(persistent)
        q[2] = 0xc0 if priority is None else <uint8_t>priority
        q = put_real(q + 3, 0.0)
        put_draft(q, &draft)
        self.gathered(frame)
        return message_id

    cpdef gather_request(self, name, body, reply_queue, double timeout_s, persistent, sender, slot):
        """See `client.plain.PlainCore.gather_request`."""
        cdef Draft draft
        cdef bytes packed, reply_to, frame
        cdef uint8_t* q
        cdef Py_ssize_t size
        if (
            name.__class__ is not str
            or timeout_s <= 0.0
            or not self.drafts(&draft, body, _no_bytes, 1, sender)
        ):
            return self.request_any(name, body, reply_queue, timeout_s, persistent, sender, slot)
        packed, reply_to = packed_name(name), packed_name(reply_queue)
        if self._joined:
            self._gather_joined()
        draft.expiry_s = timeout_s
        draft.reply_to = <const uint8_t*>PyBytes_AS_STRING(reply_to)
        draft.reply_to_bytes = PyBytes_GET_SIZE(reply_to)
        size = HEAD_BYTES + 1 + PyBytes_GET_SIZE(packed) + draft.reply_to_bytes + 9 + 1 + 1 + draft_bytes(&draft)
        frame = PyBytes_FromStringAndSize(NULL, size)
        q = put_frame_head(<uint8_t*>PyBytes_AS_STRING(frame), size, REQUEST, self.expect(REQUEST, slot))
        q[0] = 0x96
        q = put_bytes(q + 1, <const uint8_t*>PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))
        q = put_bytes(q, draft.reply_to, draft.reply_to_bytes)
        q = put_real(q, timeout_s)
        q[0] = flag_of(persistent)
        q[1] = 0xc0
        put_draft(q + 2, &draft)
        self.gathered(frame)

    cpdef bytes join_put(self, name, body, persistent, sender):
        """See `client.plain.PlainCore.join_put`."""
        cdef Draft draft
        cdef bytes message_id
        if (
            not self._joins
            or name.__class__ is not str
            or not self.drafts(&draft, body, _no_bytes, 8, sender)
            or draft.body_bytes + PUT_BYTES > PUT_MANY_BYTES
        ):
            return self.join_any(name, body, persistent, sender)
        packed = packed_name(name)
        message_id = self.name(&draft)
        self.make_room(0, draft.body_bytes + PUT_BYTES)
        self.join_draft(packed, persistent, &draft)
        self.out_bytes += draft.body_bytes
        return message_id

    cdef int make_room(self, uint32_t unit, Py_ssize_t size) except -1:
        """Gather the puts that share a frame if it has no room for one more of about this size."""
        self.joined_bytes += size
        if self.joined_bytes > PUT_MANY_BYTES:
            if self._joined:
                self.gather_many(unit)
            self.joined_bytes = size
        return 0

    cdef uint8_t* grown(self, Py_ssize_t size) except NULL:
        """Room for more bytes of the frame that is being written."""
        cdef uint8_t* memory
        cdef Py_ssize_t wanted = self.filled + size
        if wanted > self.memory_bytes:
            wanted = max(2 * wanted, PUT_MANY_BYTES + 4096)
            memory = <uint8_t*>PyMem_Realloc(self.memory, wanted)
            if memory == NULL:
                raise MemoryError
            self.memory, self.memory_bytes = memory, wanted
        return self.memory + self.filled

    cdef int join_draft(self, bytes packed, persistent, const Draft* draft) except -1:
        cdef uint8_t* q = self.grown(1 + PyBytes_GET_SIZE(packed) + 2 + draft_bytes(draft))
        q[0] = 0x94
        q = put_bytes(q + 1, <const uint8_t*>PyBytes_AS_STRING(packed), PyBytes_GET_SIZE(packed))
        q[0] = flag_of(persistent)
        q[1] = 0xc0
        self.filled = put_draft(q + 2, draft) - self.memory
        self._joined += 1
        return 0

    def join_one(self, tuple put, Py_ssize_t size):
        """See `client.plain.PlainCore.join_one`."""
        cdef bytes content = _encode(put)
        self.make_room(0, size)
        put_bytes(self.grown(PyBytes_GET_SIZE(content)), <const uint8_t*>PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content))
        self.filled += PyBytes_GET_SIZE(content)
        self._joined += 1

    def _gather_joined(self):
        """Gather the frame that puts without an answer share."""
        self.gather_many(0)
        self.joined_bytes = 0

    cdef Py_ssize_t gather_many(self, uint32_t unit) except -1:
        """Gather the puts that share a frame; how many bytes it has."""
        cdef uint8_t head[16]
        cdef uint8_t* q = head
        cdef Py_ssize_t size
        cdef bytes frame
        q[0] = 0x92
        q = put_whole(q + 1, unit)
        if self._joined < 16:
            q[0] = <uint8_t>(0x90 | self._joined)
            q += 1
        else:
            q[0] = 0xdc
            q[1] = <uint8_t>(self._joined >> 8)
            q[2] = <uint8_t>self._joined
            q += 3
        size = HEAD_BYTES + (q - head) + self.filled
        frame = PyBytes_FromStringAndSize(NULL, size)
        q = put_bytes(
            put_frame_head(<uint8_t*>PyBytes_AS_STRING(frame), size, PUT_MANY, 0), head, q - head
        )
        put_bytes(q, self.memory, self.filled)
        self._joined = 0
        self.filled = 0
        self.out.append(frame)
        return size

    def gather_bodies(self, uint32_t unit, name, bodies, persistent, sender):
        """See `client.plain.PlainCore.gather_bodies`."""
        cdef Draft draft
        cdef list message_ids = []
        cdef Py_ssize_t longest = min(PUT_MANY_BYTES - PUT_BYTES, self.body_bytes_max)
        if name.__class__ is not str or not self.drafts(&draft, _no_bytes, _no_bytes, 8, sender):
            return self.bodies_any(unit, name, bodies, persistent, sender)
        for body in bodies:
            if body.__class__ is not bytes or PyBytes_GET_SIZE(<bytes>body) > longest:
                return self.bodies_any(unit, name, bodies, persistent, sender)
        packed = packed_name(name)
        if self._joined:
            self._gather_joined()
        for body in bodies:
            self.drafts(&draft, body, _no_bytes, 8, sender)
            message_ids.append(self.name(&draft))
            self.joined_bytes += draft.body_bytes + PUT_BYTES
            if self.joined_bytes > PUT_MANY_BYTES:
                self.out_bytes += self.gather_many(unit)
                self.joined_bytes = draft.body_bytes + PUT_BYTES
            self.join_draft(packed, persistent, &draft)
        if self._joined:
            self.out_bytes += self.gather_many(unit)
        self.joined_bytes = 0
        return message_ids

    cpdef gather_credit(self, ahead):
        """See `client.plain.PlainCore.gather_credit`."""
        cdef uint8_t content[64]
        cdef uint8_t* q = content + HEAD_BYTES
        cdef uint64_t given = ahead.given
        cdef uint64_t more = given - <uint64_t>ahead.told
        ahead.told = given
        if self._joined:
            self._gather_joined()
        q[0] = 0x94
        q = put_whole(q + 1, ahead.number)
        q = put_whole(q, given)
        q = put_whole(q, more)
        q[0] = 0
        q += 1
        put_frame_head(content, q - content, CREDIT, 0)
        self.gathered(PyBytes_FromStringAndSize(<const char*>content, q - content))

    # --- what comes in ------------------------------------------------------------------------------

    cpdef hear(self, reader, Py_ssize_t count):
        """See `client.plain.PlainCore.hear`."""
        cdef Py_buffer buffer
        cdef const uint8_t* begin
        cdef const uint8_t* p
        cdef const uint8_t* end
        cdef Py_ssize_t start
        cdef uint32_t length
        if reader._long is not None:
            self.hear_any(reader, count, 0)
            return
        rest = <bytes>reader._rest
        PyObject_GetBuffer(reader._shared, &buffer, PyBUF_SIMPLE)
        try:
            p = begin = <const uint8_t*>buffer.buf
            end = p + PyBytes_GET_SIZE(<bytes>rest) + count
            while end - p >= HEAD_BYTES:
                length = little(p)
                if length + 4 > <Py_ssize_t>(end - p) or (
                    length > HANDSHAKE_FRAME_BYTES_MAX and length > reader.frame_bytes_max
                ):
                    break
                if not self.heard(p, p + 4 + length):
                    break
                p += 4 + length
            start = p - begin
        finally:
            PyBuffer_Release(&buffer)
        if p == end:
            if rest:
                reader._rest = _no_bytes
        else:
            self.hear_any(reader, count, start)

    cdef bint heard(self, const uint8_t* p, const uint8_t* end) except -1:
        """Do what a frame says if it is plain; False, and nothing is done, when it is not."""
        cdef Plain found
        cdef Piece topic
        cdef uint8_t verb = p[4]
        cdef uint32_t number = little(p + 8)
        p += HEAD_BYTES
        if verb == DELIVERY:
            return self.heard_delivery(p, end)
        if verb == MESSAGE:
            if end - p < 3 or p[0] != 0x92 or p[1] != 0xc2:
                return False
            if p[2] == 0xc0 and end - p == 3:
                value = None
            elif find_delivered(p + 2, end, &found, &topic) and found.end == end:
                if number not in self.pending:
                    return False
                value = message_of(&found, &topic, None, None, None)
            else:
                return False
        elif verb == DONE:
            if end - p >= 2 and p[0] == 0x91 and p[1] == 0xc0 and end - p == 2:
                value = None
            elif end - p >= 3 and p[0] == 0x91 and p[1] == 0xc4 and end - p == 3 + p[2]:
                value = PyBytes_FromStringAndSize(<const char*>p + 3, p[2])
            else:
                return False
        elif verb == DELIVERIES:
            return self.heard_deliveries(p, end)
        else:
            return False
        slot = self.pending.pop(number, None)
        if slot is None:
            return False
        if type(slot) is BlockingReply:
            (<BlockingReply>slot).resolve_to(value)
        else:
            slot.resolve(value)
        return True

    cdef bint heard_delivery(self, const uint8_t* p, const uint8_t* end) except -1:
        cdef Plain found
        cdef Piece topic
        cdef Unread unread
        cdef uint64_t consumer, delivery
        if end - p < 3 or p[0] != 0x93:
            return False
        p = whole(p + 1, end, &consumer)
        if p == NULL:
            return False
        p = whole(p, end, &delivery)
        if p == NULL:
            return False
        ahead = self.consumers.get(consumer)
        if type(ahead) is ReadAhead and end - p <= UNREAD_BYTES_MAX:
            unread = unread_in(p, end)
            if unread is None:
                return False
            (<ReadAhead>ahead).came.append(unread)
            (<ReadAhead>ahead).unread += 1
            if (<ReadAhead>ahead).wake is not None:
                (<ReadAhead>ahead).wake()
            return True
        if not find_delivered(p, end, &found, &topic) or found.end != end:
            return False
        if ahead is not None:
            ahead.arrive((message_of(&found, &topic, None, None, None),))
        return True

    cdef bint heard_deliveries(self, const uint8_t* p, const uint8_t* end) except -1:
        cdef Plain found
        cdef Piece topic
        cdef uint64_t consumer, delivery
        cdef Py_ssize_t count
        cdef list messages = []
        cdef bint is_read
        cdef bytes content
        cdef Unread unread
        if end - p < 4 or p[0] != 0x93:
            return False
        p = whole(p + 1, end, &consumer)
        if p == NULL:
            return False
        p = whole(p, end, &delivery)
        if p == NULL or p >= end:
            return False
        if (p[0] & 0xf0) == 0x90:
            count = p[0] & 0x0f
            p += 1
        elif p[0] == 0xdc and end - p >= 3:
            count = (p[1] << 8) | p[2]
            p += 3
        else:
            return False
        ahead = self.consumers.get(consumer)
        is_read = type(ahead) is not ReadAhead or end - p > count * <Py_ssize_t>UNREAD_BYTES_MAX
        if not is_read:
            content = PyBytes_FromStringAndSize(<const char*>p, end - p)
            p = <const uint8_t*>PyBytes_AS_STRING(content)
            end = p + PyBytes_GET_SIZE(content)
        for _ in range(count):
            if is_read:
                if not find_delivered(p, end, &found, &topic):
                    return False
                messages.append(message_of(&found, &topic, None, None, None))
                p = found.end
            else:
                unread = Unread.__new__(Unread)
                if not find_delivered(p, end, &unread.found, &unread.topic):
                    return False
                unread.frame = content
                messages.append(unread)
                p = unread.found.end
        if p != end:
            return False
        if ahead is not None:
            if not is_read:
                (<ReadAhead>ahead).unread += count
            ahead.arrive(messages)
        return True


cdef Unread unread_in(const uint8_t* p, const uint8_t* end):
    """The plain message that fills what is left of a frame, in a copy of it; None when there is none."""
    cdef Unread unread = Unread.__new__(Unread)
    unread.frame = PyBytes_FromStringAndSize(<const char*>p, end - p)
    p = <const uint8_t*>PyBytes_AS_STRING(unread.frame)
    end = p + PyBytes_GET_SIZE(unread.frame)
    return unread if find_delivered(p, end, &unread.found, &unread.topic) and unread.found.end == end else None


cdef inline bint is_digit(priority) noexcept:
    """Whether it is a priority, or none."""
    cdef Py_ssize_t i
    if priority is None:
        return True
    for i in range(10):
        if priority is _digits[i]:
            return True
    return False


# --- the line ---------------------------------------------------------------------------------------


cdef class PlainTransport:
    """The hot verbs of a blocking line; see `client/blocking/plain_transport.py`."""

    cdef public PlainCore core
    cdef public object _lock
    cdef public object _reading
    cdef public object _reader_thread
    cdef public list _followers
    cdef public object _socket
    cdef public int _descriptor
    """Of the socket, where it may be read and written here; -1: by the methods in Python."""
    cdef public object _reader
    cdef public list _backlog
    cdef public object _later
    cdef public bint _closed
    cdef public double _said
    cdef public double _heard
    cdef int _looks_in_vain
    cdef int _waits_without_looking

    cdef int make_ready(self) except -1:
        """Have a connection for a verb; called with the lock held."""
        if (
            self._descriptor < 0
            or self._socket is None
            or self._closed
            or self._later
            or self.core.fenced is not None
            or monotonic() - self._heard >= STALE_S
        ):
            self._make_ready()
        return 0

    cdef int send_now(self) except -1:
        """Send what has gathered, or leave it to `_relieve`; called with the lock held."""
        cdef iovec pieces[PIECES_MAX]
        cdef msghdr message
        cdef Py_ssize_t count, i, total = 0, size
        cdef ssize_t sent
        cdef int problem, descriptor = self._descriptor
        cdef PlainCore core = self.core
        cdef list out
        if core._joined:
            core._gather_joined()
        out = core.out
        count = len(out)
        if descriptor < 0 or self._socket is None or self._backlog or count > PIECES_MAX:
            self._send()
            return 0
        if count == 0:
            return 0
        for i in range(count):
            part = out[i]
            if part.__class__ is not bytes:
                self._send()
                return 0
            pieces[i].iov_base = PyBytes_AS_STRING(<bytes>part)
            pieces[i].iov_len = PyBytes_GET_SIZE(<bytes>part)
            total += PyBytes_GET_SIZE(<bytes>part)
        opened = self._socket
        core.out = []
        core.out_bytes = 0
        core.urgent = False
        self._said = monotonic()
        memset(&message, 0, sizeof(message))
        message.msg_iov = pieces
        message.msg_iovlen = count
        with nogil:
            sent = c_sendmsg(descriptor, &message, MSG_DONTWAIT | MSG_NOSIGNAL)
            problem = errno
        if sent == total:
            return 0
        if sent < 0:
            if problem != EAGAIN and problem != EINTR:
                self._give_up(opened, os.strerror(problem))
                return 0
            sent = 0
        for part in out:
            size = PyBytes_GET_SIZE(<bytes>part)
            if sent >= size:
                sent -= size
            else:
                self._backlog.append(memoryview(part)[sent:])
                sent = 0
        return 0

    def request_plain(self, name, body, reply_queue, double timeout_s, persistent, sender, int opened):
        """See `transport.Transport.request_plain`."""
        cdef BlockingReply slot = BlockingReply.__new__(BlockingReply)
        lock = self._lock
        lock.acquire()
        try:
            self.make_ready()
            if self.core.opened != opened:
                return None
            try:
                self.core.gather_request(name, body, reply_queue, timeout_s, persistent, sender, slot)
                self.send_now()
            except EntrepotError:
                raise
            except BaseException:
                self._interrupted()
                raise
        finally:
            lock.release()
        return self.answer_to(slot)

    def put_plain(self, name, body, persistent, sender):
        """See `transport.Transport.put_plain`."""
        cdef BlockingReply slot = BlockingReply.__new__(BlockingReply)
        message_id = self.put_now(name, body, persistent, None, _no_bytes, 8, sender, slot)
        self.answer_to(slot)
        return message_id

    def reply_plain(self, name, body, priority, correlation_id, sender):
        """See `transport.Transport.reply_plain`."""
        message_id = self.put_now(name, body, False, priority, correlation_id, 2, sender, None)
        if self._backlog:
            self._relieve()
        return message_id

    cdef put_now(self, name, body, persistent, priority, correlation_id, kind, sender, slot):
        lock = self._lock
        lock.acquire()
        try:
            self.make_ready()
            try:
                message_id = self.core.gather_put(name, body, persistent, priority, correlation_id, kind, sender, slot)
                self.send_now()
            except EntrepotError:
                raise
            except BaseException:
                self._interrupted()
                raise
        finally:
            lock.release()
        return message_id

    def join_plain(self, name, body, persistent, sender):
        """See `transport.Transport.join_plain`."""
        lock = self._lock
        lock.acquire()
        try:
            self.make_ready()
            try:
                message_id = self.core.join_put(name, body, persistent, sender)
                if self.core.out_bytes > GATHER_BYTES:
                    self.send_now()
            except EntrepotError:
                raise
            except BaseException:
                self._interrupted()
                raise
        finally:
            lock.release()
        if self._backlog:
            self._relieve()
        return message_id

    def arrived(self, ahead, double deadline):
        """See `transport.Transport.arrived`."""
        cdef BlockingReply slot
        if ahead.has_some or ahead.error is not None:
            return
        if self.core.out or self.core._joined:
            lock = self._lock
            lock.acquire()
            try:
                self.send_now()
            finally:
                lock.release()
        if self._descriptor >= 0 and not self._backlog and self._reading.acquire(False):
            try:
                self.read_until(None, ahead, deadline)
            finally:
                self.stop_reading()
            if ahead.has_some or ahead.error is not None or monotonic() >= deadline:
                return
        slot = BlockingReply.__new__(BlockingReply)
        ahead.wake = lambda: slot.resolve(None)
        if not ahead.has_some and ahead.error is None:
            self._wait(slot, deadline)
        ahead.wake = None

    cdef answer_to(self, BlockingReply slot):
        """Wait for an answer; see `transport.Transport.answer`."""
        if self._backlog:
            self._relieve()
        while not slot.done:
            if self._descriptor >= 0 and not self._backlog and self._reading.acquire(False):
                try:
                    self.read_until(slot, None, FOREVER)
                finally:
                    self.stop_reading()
                if slot.done:
                    break
            self._wait(slot)
        if slot.error is not None:
            raise slot.error
        return slot.value

    cdef int stop_reading(self) except -1:
        self._reader_thread = 0
        self._reading.release()
        if self._followers:
            self._pass_the_turn()
        return 0

    cdef int read_until(self, BlockingReply slot, ahead, double deadline) except -1:
        """Read for all until a slot is done or something has come ahead, but no longer than till the deadline.

        It returns before that where the methods in Python have to go on.
        """
        cdef Py_buffer buffer
        cdef ssize_t count
        cdef Py_ssize_t begun
        cdef int problem, descriptor, flags, ready
        cdef bint is_late = False
        cdef double left_s
        cdef pollfd waiting
        self._reader_thread = PyThread_get_thread_ident()
        while True:
            if slot is not None:
                if slot.done:
                    return 0
            elif ahead.has_some or ahead.error is not None:
                return 0
            left_s = FOREVER
            if deadline != FOREVER:
                left_s = deadline - monotonic()
                if left_s <= 0:
                    return 0
            opened = self._socket
            reader = self._reader
            descriptor = self._descriptor
            if opened is None or descriptor < 0 or self._backlog or reader._long is not None:
                return 0
            flags = 0
            if is_late or left_s < PATIENCE_S * 0.8:
                waiting.fd = descriptor
                waiting.events = POLLIN
                waiting.revents = 0
                # Rounded up, as Python does, so that time is up when it has passed.
                ready = <int>(min(left_s, WAIT_MAX_S) * 1000.0 + 0.999)
                with nogil:
                    ready = c_poll(&waiting, 1, ready)
                    problem = errno
                if ready <= 0:
                    if ready < 0 and problem == EINTR:
                        self.heed_signals()
                    continue
                if self._socket is not opened:
                    continue
                flags = MSG_DONTWAIT
            rest = <bytes>reader._rest
            begun = PyBytes_GET_SIZE(<bytes>rest)
            PyObject_GetBuffer(reader._shared, &buffer, PyBUF_WRITABLE)
            try:
                put_bytes(<uint8_t*>buffer.buf, <const uint8_t*>PyBytes_AS_STRING(<bytes>rest), begun)
                with nogil:
                    count = NOTHING_CAME
                    if flags == 0:
                        count = self.look(descriptor, <uint8_t*>buffer.buf + begun, buffer.len - begun)
                    if count == NOTHING_CAME:
                        count = c_recv(descriptor, <uint8_t*>buffer.buf + begun, buffer.len - begun, flags)
                    problem = errno
            finally:
                PyBuffer_Release(&buffer)
            if count > 0:
                self.heed(opened, reader, count)
            elif count == 0:
                self._break(opened, _CLOSED)
            elif problem == EINTR:
                self.heed_signals()
            elif problem == EAGAIN:
                # A signal that came before the system call has not interrupted it.
                self.heed_signals()
                is_late = True
            else:
                self._break(opened, os.strerror(problem))

    cdef ssize_t look(self, int descriptor, uint8_t* buffer, Py_ssize_t size) noexcept nogil:
        """Read without sleeping what comes within a moment; NOTHING_CAME also where it was not tried."""
        cdef ssize_t count
        cdef double end
        if not LOOKS:
            return NOTHING_CAME
        if self._looks_in_vain >= LOOKS_IN_VAIN_MAX:
            self._waits_without_looking += 1
            if self._waits_without_looking < WAITS_WITHOUT_LOOKING:
                return NOTHING_CAME
            self._waits_without_looking = 0
        end = monotonic() + LOOKING_S
        while True:
            count = c_recv(descriptor, buffer, size, MSG_DONTWAIT)
            if count < 0:
                count = NOTHING_CAME
            if monotonic() > end:
                # Also where it has come by now: others had the processor for long, and this wait should have slept.
                self._looks_in_vain = min(self._looks_in_vain + 1, LOOKS_IN_VAIN_MAX)
                return count
            if count != NOTHING_CAME:
                self._looks_in_vain = 0
                return count
            # Others that can run on this processor do so meanwhile, the partner among them.
            sched_yield()

    cdef int heed_signals(self) except -1:
        try:
            PyErr_CheckSignals()
        except BaseException:
            self._interrupted()
            raise
        return 0

    cdef int heed(self, opened, reader, Py_ssize_t count) except -1:
        lock = self._lock
        try:
            lock.acquire()
            try:
                if self._socket is not opened:
                    return 0  # whoever it was meant for knows that the connection has broken
                self._heard = monotonic()
                self.core.hear(reader, count)
                if self.core.urgent:
                    self._send()
            finally:
                lock.release()
        except (OSError, ValueError, ProtocolError) as error:
            self._break(opened, (error.strerror if isinstance(error, OSError) else None) or str(error))
        except BaseException:
            self._interrupted()
            raise
        return 0
