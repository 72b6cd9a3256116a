# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Plain messages as bytes: found in a frame, checked, and spliced into another without being taken apart.

A plain message has body, ids, type, expiry and reply-to queue, and the
default in every other field. MessagePack writes those defaults as the same
bytes each time, so that "nothing special" is one comparison. Whatever does
not match to the byte is left to msgspec, which knows all of MessagePack.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

cdef enum:
    FIELDS = 28                 # of Message; `require_layout` compares with the real one
    HEAD_BYTES = 12             # of a frame
    ID_BYTES_MAX = 128
    NAME_BYTES_MAX = 48
    # Everything of a message beside body, ids, reply-to queue and sender, at most.
    DESCRIPTOR_BYTES_MAX = 80

cdef inline const uint8_t* middle() noexcept nogil:
    """From reply_to_manager to encoding, all defaults."""
    return <const uint8_t*>b"\xa0\xc4\x00\x01\xc2\x00\x00\xa0\xcd\x04\xb8\xcd\x02\x22"

cdef inline const uint8_t* ending() noexcept nogil:
    """From properties to authorized_as, all defaults."""
    return <const uint8_t*>b"\x80\x00\xa0\xa0\xa0\xc2\xa0"

cdef enum:
    MIDDLE_BYTES = 14
    ENDING_BYTES = 7
    # Where the topic stands in the ending.
    TOPIC_AT = 4


cdef struct Piece:
    const uint8_t* at           # with its MessagePack head
    Py_ssize_t whole            # bytes, head included
    const uint8_t* content
    Py_ssize_t size


cdef struct Plain:
    Piece body
    Piece message_id
    Piece correlation_id
    Piece reply_to
    bint persistent             # what the message says of itself; a put's own word counts instead
    uint8_t priority            # the same
    uint8_t type
    bint expires
    double expiry_s
    const uint8_t* end          # behind its last byte


cdef inline const uint8_t* text(const uint8_t* p, const uint8_t* end, Piece* piece) noexcept nogil:
    """Where a short string ends; NULL when there is none, or a long one."""
    piece.at = p
    if p >= end:
        return NULL
    if (p[0] & 0xe0) == 0xa0:
        piece.size = p[0] & 0x1f
        piece.content = p + 1
    elif p[0] == 0xd9 and end - p >= 2:
        piece.size = p[1]
        piece.content = p + 2
    else:
        return NULL
    if end - piece.content < piece.size:
        return NULL
    p = piece.content + piece.size
    piece.whole = p - piece.at
    return p


cdef inline const uint8_t* binary(const uint8_t* p, const uint8_t* end, Piece* piece) noexcept nogil:
    """Where bytes end; NULL when there are none, or they end beyond the frame."""
    piece.at = p
    if end - p < 2:
        return NULL
    if p[0] == 0xc4:
        piece.size = p[1]
        piece.content = p + 2
    elif p[0] == 0xc5 and end - p >= 3:
        piece.size = (p[1] << 8) | p[2]
        piece.content = p + 3
    elif p[0] == 0xc6 and end - p >= 5:
        piece.size = (<Py_ssize_t>p[1] << 24) | (p[2] << 16) | (p[3] << 8) | p[4]
        piece.content = p + 5
    else:
        return NULL
    if end - piece.content < piece.size:
        return NULL
    p = piece.content + piece.size
    piece.whole = p - piece.at
    return p


cdef inline bint is_ascii(const uint8_t* p, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(size):
        if p[i] < 0x20 or p[i] > 0x7e:
            return False
    return True


cdef inline double real(const uint8_t* p) noexcept nogil:
    """Eight bytes of a float64, big-endian."""
    cdef uint64_t bits = 0
    cdef int i
    cdef double value
    for i in range(8):
        bits = (bits << 8) | p[i]
    memcpy(&value, &bits, 8)
    return value


cdef inline uint8_t* put_real(uint8_t* q, double value) noexcept nogil:
    """A float64 with its head; where it ends."""
    cdef uint64_t bits
    cdef int i
    memcpy(&bits, &value, 8)
    q[0] = 0xcb
    for i in range(8):
        q[1 + i] = <uint8_t>(bits >> (56 - 8 * i))
    return q + 9


cdef inline const uint8_t* whole(const uint8_t* p, const uint8_t* end, uint64_t* value) noexcept nogil:
    """A whole number from 0 on, in its shortest form; NULL when there is none."""
    cdef int i, size
    if p >= end:
        return NULL
    if p[0] < 0x80:
        value[0] = p[0]
        return p + 1
    if p[0] < 0xcc or p[0] > 0xcf:
        return NULL
    size = 1 << (p[0] - 0xcc)
    if end - p <= size:
        return NULL
    value[0] = 0
    for i in range(size):
        value[0] = (value[0] << 8) | p[1 + i]
    return p + 1 + size


cdef inline uint8_t* put_whole(uint8_t* q, uint64_t value) noexcept nogil:
    """A whole number as msgspec writes it; where it ends."""
    cdef int i, size
    if value < 0x80:
        q[0] = <uint8_t>value
        return q + 1
    if value < 0x100:
        q[0] = 0xcc
        size = 1
    elif value < 0x10000:
        q[0] = 0xcd
        size = 2
    elif value <= <uint64_t>0xffffffff:
        q[0] = 0xce
        size = 4
    else:
        q[0] = 0xcf
        size = 8
    for i in range(size):
        q[1 + i] = <uint8_t>(value >> (8 * (size - 1 - i)))
    return q + 1 + size


cdef inline uint8_t* put_binary_head(uint8_t* q, Py_ssize_t size) noexcept nogil:
    """The head of so many bytes as msgspec writes it; where it ends."""
    if size < 0x100:
        q[0] = 0xc4
        q[1] = <uint8_t>size
        return q + 2
    if size < 0x10000:
        q[0] = 0xc5
        q[1] = <uint8_t>(size >> 8)
        q[2] = <uint8_t>size
        return q + 3
    q[0] = 0xc6
    q[1] = <uint8_t>(size >> 24)
    q[2] = <uint8_t>(size >> 16)
    q[3] = <uint8_t>(size >> 8)
    q[4] = <uint8_t>size
    return q + 5


cdef inline uint8_t* put_bytes(uint8_t* q, const uint8_t* content, Py_ssize_t size) noexcept nogil:
    memcpy(q, content, size)
    return q + size


cdef inline uint8_t* put_frame_head(uint8_t* q, Py_ssize_t size, uint8_t verb, uint32_t number) noexcept nogil:
    """The head of a frame of `size` bytes in all; where its payload begins."""
    cdef uint32_t length = <uint32_t>(size - 4)
    q[0] = <uint8_t>length
    q[1] = <uint8_t>(length >> 8)
    q[2] = <uint8_t>(length >> 16)
    q[3] = <uint8_t>(length >> 24)
    q[4] = verb
    q[5] = q[6] = q[7] = 0
    q[8] = <uint8_t>number
    q[9] = <uint8_t>(number >> 8)
    q[10] = <uint8_t>(number >> 16)
    q[11] = <uint8_t>(number >> 24)
    return q + HEAD_BYTES


cdef inline uint32_t little(const uint8_t* p) noexcept nogil:
    return p[0] | (<uint32_t>p[1] << 8) | (<uint32_t>p[2] << 16) | (<uint32_t>p[3] << 24)


cdef inline const uint8_t* find_until_ending(const uint8_t* p, const uint8_t* end, Plain* found) noexcept nogil:
    """Where the last fields begin of a message that is plain so far; NULL when it is not."""
    cdef Piece sender
    if end - p < 3 or p[0] != 0xdc or p[1] != 0 or p[2] != FIELDS:
        return NULL
    p = binary(p + 3, end, &found.body)
    if p == NULL:
        return NULL
    p = binary(p, end, &found.message_id)
    if p == NULL or found.message_id.size > ID_BYTES_MAX:
        return NULL
    p = binary(p, end, &found.correlation_id)
    if p == NULL or found.correlation_id.size > ID_BYTES_MAX:
        return NULL
    # Three single bytes, a time, an expiry of one byte at least, and a delay.
    if end - p < 3 + 9 + 1 + 9:
        return NULL
    if p[0] != 0xc2 and p[0] != 0xc3:
        return NULL
    found.persistent = p[0] == 0xc3
    found.priority = p[1]
    found.type = p[2]
    if found.priority > 9 or not (found.type == 8 or found.type == 1 or found.type == 2 or found.type == 4):
        return NULL
    p += 3
    if p[0] != 0xcb:
        return NULL
    p += 9
    if p[0] == 0xc0:
        found.expires = False
        found.expiry_s = 0.0
        p += 1
    elif p[0] == 0xcb and end - p >= 9 + 9:
        found.expires = True
        found.expiry_s = real(p + 1)
        if not 0.0 < found.expiry_s < 1e9:
            return NULL
        p += 9
    else:
        return NULL
    if memcmp(p, b"\xcb\x00\x00\x00\x00\x00\x00\x00\x00", 9) != 0:
        return NULL
    p = text(p + 9, end, &found.reply_to)
    if p == NULL or found.reply_to.size > NAME_BYTES_MAX or not is_ascii(found.reply_to.content, found.reply_to.size):
        return NULL
    if end - p < MIDDLE_BYTES or memcmp(p, middle(), MIDDLE_BYTES) != 0:
        return NULL
    # Who has sent it is what the server knows, not what stands here.
    p = text(p + MIDDLE_BYTES, end, &sender)
    if p == NULL or not is_ascii(sender.content, sender.size):
        return NULL
    p = text(p, end, &sender)
    if p == NULL or not is_ascii(sender.content, sender.size):
        return NULL
    return p


cdef inline bint find_plain(const uint8_t* p, const uint8_t* end, Plain* found) noexcept nogil:
    """Whether a plain message begins here and ends within the frame; a stranger may have written it."""
    p = find_until_ending(p, end, found)
    if p == NULL or end - p < ENDING_BYTES or memcmp(p, ending(), ENDING_BYTES) != 0:
        return False
    found.end = p + ENDING_BYTES
    return True


cdef inline bint find_delivered(const uint8_t* p, const uint8_t* end, Plain* found, Piece* topic) noexcept nogil:
    """The same for what a subscriber gets: it may tell the topic that it was published on."""
    p = find_until_ending(p, end, found)
    if p == NULL or end - p < ENDING_BYTES or memcmp(p, ending(), TOPIC_AT) != 0:
        return False
    p = text(p + TOPIC_AT, end, topic)
    if p == NULL or end - p < 2 or p[0] != 0xc2 or p[1] != 0xa0 or not is_ascii(topic.content, topic.size):
        return False
    found.end = p + 2
    return True


cdef inline Py_ssize_t plain_bytes(const Plain* message, Py_ssize_t id_bytes, Py_ssize_t sender_bytes) noexcept nogil:
    """How many bytes `put_plain` writes."""
    return (
        3 + message.body.whole + 2 + id_bytes + message.correlation_id.whole + 3 + 9
        + (9 if message.expires else 1) + 9 + message.reply_to.whole + MIDDLE_BYTES + sender_bytes + ENDING_BYTES
    )


cdef inline uint8_t* put_plain(
    uint8_t* q, const Plain* message, const uint8_t* message_id, Py_ssize_t id_bytes, bint persistent,
    uint8_t priority, double put_time, const uint8_t* sender, Py_ssize_t sender_bytes,
) noexcept nogil:
    """A plain message as msgspec would write it, with what the queue manager has settled; where it ends.

    `sender`: user and application, as MessagePack writes them.
    """
    q[0] = 0xdc
    q[1] = 0
    q[2] = FIELDS
    q = put_bytes(q + 3, message.body.at, message.body.whole)
    q[0] = 0xc4
    q[1] = <uint8_t>id_bytes
    q = put_bytes(q + 2, message_id, id_bytes)
    q = put_bytes(q, message.correlation_id.at, message.correlation_id.whole)
    q[0] = 0xc3 if persistent else 0xc2
    q[1] = priority
    q[2] = message.type
    q = put_real(q + 3, put_time)
    if message.expires:
        q = put_real(q, message.expiry_s)
    else:
        q[0] = 0xc0
        q += 1
    q = put_real(q, 0.0)
    q = put_bytes(q, message.reply_to.at, message.reply_to.whole)
    q = put_bytes(q, middle(), MIDDLE_BYTES)
    q = put_bytes(q, sender, sender_bytes)
    return put_bytes(q, ending(), ENDING_BYTES)


cdef inline bint are_plain(const uint8_t* p, const uint8_t* end, uint64_t count) noexcept nogil:
    """Whether a PUT_MANY ends with so many puts of plain messages, in which nothing is left to understand."""
    cdef uint64_t index
    cdef Piece name
    cdef Plain message
    for index in range(count):
        if end - p < 2 or p[0] != 0x94:
            return False
        p = text(p + 1, end, &name)
        if p == NULL or end - p < 2 or not is_ascii(name.content, name.size):
            return False
        if p[0] != 0xc0 and p[0] != 0xc2 and p[0] != 0xc3 or p[1] != 0xc0 and p[1] > 0x7f:
            return False
        if not find_plain(p + 2, end, &message):
            return False
        p = message.end
    return p == end
