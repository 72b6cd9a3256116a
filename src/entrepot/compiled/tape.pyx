# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""A tape: an XML body scanned once into an array of nodes, and elements that are made when somebody looks.

    <order id="7"><item>nail</item></order>
    0 order    children from 1
    1   @id    "7"
    2   item   "nail"

A scan takes what is plain: elements and attributes without namespaces, text, references to characters and to XML's
five entities, in UTF-8. Whatever else there is, and whatever is not well-formed, is left to lxml, which reads it or
says what is wrong; so what is taken here is only what lxml takes, and gives the same tree (models/xml/elements.py is
the twin; tests/fuzz/tape.py compares both).

A node is *regular* when writing its elements anew would give the bytes it came as. A regular part that was not
changed is copied by one memcpy; `write` makes the same text as models/xml/writing.py, and leaves to it what is
unusual.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from entrepot.compiled.element cimport (
    UNREAD,
    Element,
    Folder,
    charge_copies,
    loaded,
    value_of,
)

import os
import re
from sys import intern

from entrepot.limits import BODY_BYTES_MAX as _BODY_BYTES_MAX
from entrepot.models import element_types as kinds
from entrepot.models.tree_state import DEPTH_MAX as _DEPTH_MAX
from entrepot.models.value_text import xml_text
from entrepot.models.xml.characters import UNPREFIXED_NAME, attribute_text, content_text

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL
    int enter_recursion "Py_EnterRecursiveCall"(const char* where) except -1
    void leave_recursion "Py_LeaveRecursiveCall"()

cdef enum:
    NESTED_MAX = 250            # libxml2 stops at 256 levels
    TEXT_MAX = 9_000_000        # and at texts of ten million bytes
    NODES_MAX = 20_000_000
    ATTRIBUTES_MAX = 100
    NAME_MAX = 200
    NAMES_MAX = 16_384          # names that are known in the whole process; messages can make up names
    TABLE = 65_536              # a power of two
    PROBES_MAX = 32
    BODY_MAX = 1_000_000_000

    # What a node is.
    ELEMENT = 0
    ATTRIBUTE = 1
    TEXT = 2

    FOUND_MAX = 6               # so many children found alone, then the level is made as a whole
    SEARCHED_MAX = 64           # a search over more children than this counts
    SEARCHES_MAX = 4
    KEPT_MAX = 65_536           # a longer body is not kept for the sake of a second scan

cdef struct Node:
    int32_t name                # its number in the table of names, or NAMES_MAX and its number in the tape's own
    int32_t start               # of the start tag
    int32_t end                 # behind the end tag
    int32_t text                # the value
    int32_t text_end
    int32_t first               # the first of attributes, texts and elements below; -1 without any
    int32_t next                # the next one beside it
    int32_t behind              # the first node that is not below it
    uint8_t kind
    uint8_t escaped             # references, line ends or white space that the value does not have
    uint8_t regular
    uint8_t folder              # it has elements
    uint8_t tagged              # its own tags, and white space below it, are regular

cdef int32_t BODY_BYTES_MAX = _BODY_BYTES_MAX
cdef int DEPTH_MAX = _DEPTH_MAX

cdef object NAME = kinds.NAME
cdef object VALUE_KIND = kinds.XML_CONTENT
cdef object XML_ATTRIBUTE = kinds.XML_ATTRIBUTE
cdef object XMLNSC_FIELD = kinds.XMLNSC_FIELD
cdef object XMLNSC_FOLDER = kinds.XMLNSC_FOLDER
cdef object XMLNSC_ATTRIBUTE = kinds.XMLNSC_ATTRIBUTE

# --- names ---------------------------------------------------------------------------------------------------------

cdef struct Known:
    uint32_t hash
    int32_t number
    const char* text
    int32_t length

cdef Known known[TABLE]
cdef list names = []
cdef dict numbers = {}
# So that nobody can choose names that lie at one place of the table.
cdef uint32_t SALT = int.from_bytes(os.urandom(4), "little")

cdef uint8_t name_sign[256]
cdef uint8_t text_sign[256]
cdef enum:
    PLAIN_SIGN = 0
    SPECIAL_SIGN = 1            # & and CR, which the value has in another form; > and ], which it has as they are
    BLANK_SIGN = 2              # tab and line feed, which an attribute's value has as blanks
    WRONG_SIGN = 4              # no character of XML

cdef int _sign
for _sign in range(256):
    name_sign[_sign] = 2 if chr(_sign).isalpha() and _sign < 128 or _sign == 95 else (
        1 if chr(_sign).isdigit() and _sign < 128 or _sign in (45, 46) else 0
    )
    text_sign[_sign] = PLAIN_SIGN
    if _sign < 32:
        text_sign[_sign] = WRONG_SIGN
text_sign[9] = text_sign[10] = BLANK_SIGN
text_sign[13] = text_sign[38] = text_sign[62] = text_sign[93] = SPECIAL_SIGN
for _sign in range(TABLE):
    known[_sign].number = -1


cdef int32_t number_of(Tape tape, const char* text, int32_t length) except -2:
    """The number of a name: known to the process, or to this tape alone when there are too many."""
    cdef uint32_t hashed = 2166136261u ^ SALT
    cdef int32_t i
    cdef uint32_t at
    cdef Known* entry
    for i in range(length):
        hashed = (hashed ^ <uint8_t>text[i]) * 16777619u
    at = (hashed ^ (hashed >> 15)) & (TABLE - 1)
    for i in range(PROBES_MAX):
        entry = &known[at]
        if entry.number < 0:
            if len(names) >= NAMES_MAX or length > NAME_MAX:
                break
            name = PyUnicode_DecodeUTF8(text, length, NULL)
            name = intern(name)
            entry.text = PyUnicode_AsUTF8AndSize(name, NULL)
            entry.length = length
            entry.hash = hashed
            entry.number = <int32_t>len(names)
            names.append(name)
            numbers[name] = entry.number
            return entry.number
        if entry.hash == hashed and entry.length == length and memcmp(entry.text, text, length) == 0:
            return entry.number
        at = (at + 1) & (TABLE - 1)
    name = PyUnicode_DecodeUTF8(text, length, NULL)
    if tape.own_names is None:
        tape.own_names = []
        tape.own_numbers = {}
    number = tape.own_numbers.get(name)
    if number is None:
        number = NAMES_MAX + len(tape.own_names)
        tape.own_names.append(name)
        tape.own_numbers[name] = number
    return number


@cython.final
@cython.no_gc
cdef class Tape:
    cdef bytes body
    cdef const char* p
    cdef Node* nodes
    cdef int32_t count
    cdef int32_t size
    # XMLNSC drops white space between elements; XML and XMLNS keep all text.
    cdef bint compact
    cdef list own_names
    cdef dict own_numbers

    def __dealloc__(self):
        PyMem_RawFree(self.nodes)

    cdef object name(self, int32_t node):
        cdef int32_t number = self.nodes[node].name
        return names[number] if number < NAMES_MAX else self.own_names[number - NAMES_MAX]

    cdef int32_t number(self, key):
        """-1 for a name that no element of this tape can have."""
        number = numbers.get(key)
        if number is None and self.own_numbers is not None:
            number = self.own_numbers.get(key)
        return -1 if number is None else number

    cdef int32_t add(self) except -2:
        cdef Node* nodes
        if self.count == self.size:
            if self.size >= NODES_MAX:
                return -1
            nodes = <Node*>PyMem_RawRealloc(self.nodes, <size_t>self.size * 2 * sizeof(Node))
            if nodes == NULL:
                raise MemoryError()
            self.nodes = nodes
            self.size *= 2
        self.count += 1
        return self.count - 1


# --- scanning ------------------------------------------------------------------------------------------------------

cdef inline bint is_blank(char sign):
    return sign == 32 or sign == 10 or sign == 9 or sign == 13


cdef bint is_reference(const char* p, int32_t at, int32_t end, int32_t* behind):
    """Whether the & at this place begins a reference to one of the five entities or to a character of XML."""
    cdef int32_t q = at + 1
    cdef uint32_t code = 0
    cdef int32_t digits = 0
    cdef uint8_t sign
    if q < end and p[q] == 35:
        q += 1
        if q < end and p[q] == 120:
            q += 1
            while q < end and digits < 8:
                sign = <uint8_t>p[q]
                if 48 <= sign <= 57:
                    code = code * 16 + sign - 48
                elif 65 <= sign <= 70:
                    code = code * 16 + sign - 55
                elif 97 <= sign <= 102:
                    code = code * 16 + sign - 87
                else:
                    break
                q += 1
                digits += 1
        else:
            while q < end and digits < 8 and 48 <= <uint8_t>p[q] <= 57:
                code = code * 10 + <uint8_t>p[q] - 48
                q += 1
                digits += 1
        if digits == 0 or q >= end or p[q] != 59:
            return False
        if not (
            code == 9 or code == 10 or code == 13 or 32 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD
            or 0x10000 <= code <= 0x10FFFF
        ):
            return False
    elif q + 3 <= end and (memcmp(p + q, b"lt;", 3) == 0 or memcmp(p + q, b"gt;", 3) == 0):
        q += 2
    elif q + 4 <= end and memcmp(p + q, b"amp;", 4) == 0:
        q += 3
    elif q + 5 <= end and (memcmp(p + q, b"quot;", 5) == 0 or memcmp(p + q, b"apos;", 5) == 0):
        q += 4
    else:
        return False
    behind[0] = q + 1
    return True


cdef inline uint8_t signs_in(const char* p, int32_t start, int32_t end):
    cdef uint8_t signs = 0
    cdef uint8_t unusual = 0
    cdef uint8_t sign
    cdef int32_t i
    # Most texts have none of them. This loop is one that C makes wide instructions of.
    for i in range(start, end):
        sign = <uint8_t>p[i]
        unusual |= (sign < 32) | (sign == 38) | (sign == 62) | (sign == 93)
    if unusual:
        for i in range(start, end):
            signs |= text_sign[<uint8_t>p[i]]
    return signs


cdef bint look_closely(const char* p, int32_t start, int32_t end, Node* node):
    """What a text with special signs means for its node; False when it is not well-formed."""
    cdef int32_t i = start
    cdef int32_t behind
    cdef char sign
    while i < end:
        sign = p[i]
        if sign == 38:
            if not is_reference(p, i, end, &behind):
                return False
            node.escaped = True
            # &amp; &lt; and &gt; are written so again; other references are not.
            if node.kind == ATTRIBUTE or not (
                (behind - i == 5 and p[i + 1] == 97) or (behind - i == 4 and p[i + 1] != 35)
            ):
                node.regular = False
            i = behind
            continue
        if sign == 13:
            node.escaped = True
            node.regular = False
        elif sign == 62:
            node.regular = False
            if node.kind != ATTRIBUTE and i - start >= 2 and p[i - 1] == 93 and p[i - 2] == 93:
                return False
        i += 1
    return True


cdef Tape scan(bytes body, int32_t pos, bint compact):
    """The tape of a body from a place on; None when it is for lxml to read it, or to say what is wrong."""
    cdef const char* p = PyBytes_AS_STRING(body)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(body)
    cdef int32_t n, lt, q, name_end, node, at, value, above, attribute_before
    cdef int32_t open_nodes[NESTED_MAX]
    cdef int32_t last_child[NESTED_MAX]
    cdef int depth = 0
    cdef const char* found
    cdef Node* here
    cdef uint8_t signs
    cdef char quote
    cdef Tape tape
    if length > BODY_MAX:
        return None
    n = <int32_t>length
    tape = Tape.__new__(Tape)
    tape.body = body
    tape.p = p
    tape.compact = compact
    tape.size = n // 24 + 16
    tape.nodes = <Node*>PyMem_RawMalloc(<size_t>tape.size * sizeof(Node))
    if tape.nodes == NULL:
        raise MemoryError()
    while pos < n:
        found = <const char*>memchr(p + pos, 60, n - pos)
        if found == NULL:
            return None
        lt = <int32_t>(found - p)
        if lt + 2 >= n:
            return None
        if lt > pos:
            if depth == 0 or lt - pos > TEXT_MAX:
                return None
            above = open_nodes[depth - 1]
            here = &tape.nodes[above]
            signs = signs_in(p, pos, lt)
            if signs & WRONG_SIGN:
                return None
            if p[lt + 1] == 47 and not here.folder:
                # All that a field has: its value. While lxml drops white space, it may lose some before a carriage return.
                if compact and signs & SPECIAL_SIGN and memchr(p + pos, 13, lt - pos) != NULL:
                    return None
                here.text = pos
                here.text_end = lt
                if signs & SPECIAL_SIGN and not look_closely(p, pos, lt, here):
                    return None
            elif compact:
                # White space between elements is dropped; a text there is rare.
                for q in range(pos, lt):
                    if p[q] != 32 and p[q] != 10 and p[q] != 9:
                        return None
                here.regular = here.tagged = False
            else:
                node = tape.add()
                if node < 0:
                    return None
                here = &tape.nodes[node]
                here.name = -1
                here.kind = TEXT
                here.start = here.text = pos
                here.end = here.text_end = lt
                here.first = here.next = -1
                here.behind = node + 1
                here.escaped = False
                here.regular = True
                here.folder = False
                if signs & SPECIAL_SIGN and not look_closely(p, pos, lt, here):
                    return None
                if not here.regular:
                    tape.nodes[above].regular = False
                if last_child[depth - 1] < 0:
                    tape.nodes[above].first = node
                else:
                    tape.nodes[last_child[depth - 1]].next = node
                last_child[depth - 1] = node
        if p[lt + 1] == 47:
            # An end tag.
            if depth == 0:
                return None
            here = &tape.nodes[open_nodes[depth - 1]]
            at = here.start + 1
            q = lt + 2
            while q < n and p[q] == p[at] and name_sign[<uint8_t>p[q]]:
                q += 1
                at += 1
            if q >= n or name_sign[<uint8_t>p[at]] or name_sign[<uint8_t>p[q]]:
                return None
            if p[q] != 62:
                while q < n and is_blank(p[q]):
                    q += 1
                if q >= n or p[q] != 62:
                    return None
                here.regular = here.tagged = False
            if not here.folder and here.text == here.text_end:
                # <a></a> is written as <a/>.
                here.regular = here.tagged = False
            here.end = q + 1
            here.behind = tape.count
            depth -= 1
            if depth > 0 and not here.regular:
                tape.nodes[open_nodes[depth - 1]].regular = False
            pos = q + 1
            if depth == 0:
                break
            continue
        # A start tag.
        q = lt + 1
        if name_sign[<uint8_t>p[q]] != 2:
            return None
        while q < n and name_sign[<uint8_t>p[q]]:
            q += 1
        name_end = q
        if q >= n or (p[q] != 62 and p[q] != 47 and not is_blank(p[q])) or depth >= NESTED_MAX - 1:
            return None
        node = tape.add()
        if node < 0:
            return None
        here = &tape.nodes[node]
        here.kind = ELEMENT
        here.start = lt
        here.text = here.text_end = 0
        here.first = here.next = -1
        here.escaped = False
        here.regular = here.tagged = True
        here.folder = False
        here.name = number_of(tape, p + lt + 1, name_end - lt - 1)
        if depth > 0:
            above = open_nodes[depth - 1]
            tape.nodes[above].folder = True
            if last_child[depth - 1] < 0:
                tape.nodes[above].first = node
            else:
                tape.nodes[last_child[depth - 1]].next = node
            last_child[depth - 1] = node
        attribute_before = -1
        while is_blank(p[q]):
            # One blank before an attribute is regular.
            at = q
            while q < n and is_blank(p[q]):
                q += 1
            if q >= n:
                return None
            if p[q] == 62 or p[q] == 47:
                tape.nodes[node].regular = tape.nodes[node].tagged = False
                break
            if q - at != 1 or p[at] != 32:
                tape.nodes[node].regular = tape.nodes[node].tagged = False
            at = q
            if name_sign[<uint8_t>p[q]] != 2:
                return None
            while q < n and name_sign[<uint8_t>p[q]]:
                q += 1
            name_end = q
            if q < n and p[q] != 61:
                tape.nodes[node].regular = tape.nodes[node].tagged = False
                while q < n and is_blank(p[q]):
                    q += 1
            if q >= n or p[q] != 61:
                return None
            q += 1
            if q < n and is_blank(p[q]):
                tape.nodes[node].regular = tape.nodes[node].tagged = False
                while q < n and is_blank(p[q]):
                    q += 1
            if q >= n or (p[q] != 34 and p[q] != 39):
                return None
            if name_end - at == 5 and memcmp(p + at, b"xmlns", 5) == 0:
                return None
            quote = p[q]
            found = <const char*>memchr(p + q + 1, quote, n - q - 1)
            if found == NULL:
                return None
            value = tape.add()
            if value < 0:
                return None
            here = &tape.nodes[value]
            here.kind = ATTRIBUTE
            here.name = number_of(tape, p + at, name_end - at)
            here.start = at
            here.text = q + 1
            here.text_end = <int32_t>(found - p)
            here.end = here.text_end + 1
            here.first = here.next = -1
            here.behind = value + 1
            here.escaped = False
            here.regular = quote == 34
            here.folder = False
            if here.text_end - here.text > TEXT_MAX:
                return None
            if memchr(p + here.text, 60, here.text_end - here.text) != NULL:
                return None
            if quote == 39 and memchr(p + here.text, 34, here.text_end - here.text) != NULL:
                here.regular = False
            signs = signs_in(p, here.text, here.text_end)
            if signs & WRONG_SIGN:
                return None
            if signs & BLANK_SIGN:
                here.escaped = True
                here.regular = False
            if signs & SPECIAL_SIGN and not look_closely(p, here.text, here.text_end, here):
                return None
            if not here.regular:
                tape.nodes[node].regular = tape.nodes[node].tagged = False
            q = here.end
            # An attribute stands only once; there are few, and documents with many are lxml's.
            at = tape.nodes[node].first
            while at >= 0:
                if tape.nodes[at].name == here.name or value - node > ATTRIBUTES_MAX:
                    return None
                at = tape.nodes[at].next
            if attribute_before < 0:
                tape.nodes[node].first = value
            else:
                tape.nodes[attribute_before].next = value
            attribute_before = value
            if q >= n or (p[q] != 62 and p[q] != 47 and not is_blank(p[q])):
                return None
        if q >= n:
            return None
        if p[q] == 62:
            open_nodes[depth] = node
            last_child[depth] = attribute_before
            depth += 1
            pos = q + 1
        elif p[q] == 47 and q + 1 < n and p[q + 1] == 62:
            here = &tape.nodes[node]
            here.end = q + 2
            here.behind = tape.count
            if depth == 0:
                pos = q + 2
                break
            if not here.regular:
                tape.nodes[open_nodes[depth - 1]].regular = False
            pos = q + 2
        else:
            return None
    if depth != 0 or tape.count == 0:
        return None
    while pos < n and is_blank(p[pos]):
        pos += 1
    if pos != n:
        return None
    return tape


# --- values --------------------------------------------------------------------------------------------------------

cdef object text_of(Tape tape, Node* node):
    """The characters of a value: references replaced, line ends as XML has them."""
    cdef const char* p = tape.p
    cdef int32_t i, out, behind
    cdef uint32_t code
    cdef char* buffer
    cdef char sign
    if not node.escaped:
        return PyUnicode_DecodeUTF8(p + node.text, node.text_end - node.text, NULL)
    # Whatever a reference stands for is not longer than the reference.
    buffer = <char*>PyMem_RawMalloc(node.text_end - node.text + 1)
    if buffer == NULL:
        raise MemoryError()
    try:
        out = 0
        i = node.text
        while i < node.text_end:
            sign = p[i]
            if sign == 38:
                is_reference(p, i, node.text_end, &behind)
                if p[i + 1] == 35:
                    code = int(p[i + 3 : behind - 1], 16) if p[i + 2] == 120 else int(p[i + 2 : behind - 1])
                    out += encode_character(code, buffer + out)
                else:
                    buffer[out] = entity(p, i)
                    out += 1
                i = behind
                continue
            if sign == 13:
                sign = 10
                if i + 1 < node.text_end and p[i + 1] == 10:
                    i += 1
            if node.kind == ATTRIBUTE and (sign == 10 or sign == 9):
                sign = 32
            buffer[out] = sign
            out += 1
            i += 1
        return PyUnicode_DecodeUTF8(buffer, out, NULL)
    finally:
        PyMem_RawFree(buffer)


cdef char entity(const char* p, int32_t at):
    if p[at + 1] == 108:
        return 60
    if p[at + 1] == 103:
        return 62
    if p[at + 1] == 113:
        return 34
    return 38 if p[at + 2] == 109 else 39


cdef int encode_character(uint32_t code, char* to):
    if code < 0x80:
        to[0] = <char>code
        return 1
    if code < 0x800:
        to[0] = <char>(0xC0 | code >> 6)
        to[1] = <char>(0x80 | code & 0x3F)
        return 2
    if code < 0x10000:
        to[0] = <char>(0xE0 | code >> 12)
        to[1] = <char>(0x80 | code >> 6 & 0x3F)
        to[2] = <char>(0x80 | code & 0x3F)
        return 3
    to[0] = <char>(0xF0 | code >> 18)
    to[1] = <char>(0x80 | code >> 12 & 0x3F)
    to[2] = <char>(0x80 | code >> 6 & 0x3F)
    to[3] = <char>(0x80 | code & 0x3F)
    return 4


# --- elements ------------------------------------------------------------------------------------------------------

@cython.final
cdef class TapeElement(Element):
    """An element, attribute or text at a place of a tape; its children are made when somebody looks."""

    cdef Tape tape
    cdef int32_t node
    cdef int32_t searches
    cdef list found

    def __init__(self):
        raise TypeError("elements of a tape come from a message")

    cdef object read_value(self):
        cdef Node* node = &self.tape.nodes[self.node]
        self.held = None if node.folder else text_of(self.tape, node)
        return self.held

    cpdef is_leaf(self):
        if self._children is None:
            return self.tape.nodes[self.node].first < 0
        return not self._children

    cpdef list load(self):
        cdef Tape tape = self.tape
        cdef list children = []
        cdef list found = self.found
        cdef int32_t at = tape.nodes[self.node].first
        cdef TapeElement child
        cdef TapeElement before
        while at >= 0:
            child = None
            if found is not None:
                for before in found:
                    if before.node == at:
                        child = before
                        break
            if child is None:
                child = element_at(tape, at, self)
            children.append(child)
            at = tape.nodes[at].next
        self._children = children
        self.found = None
        return children

    cpdef Element first(self, key):
        cdef Tape tape
        cdef TapeElement child
        cdef int32_t number, at, steps
        if self._children is not None:
            return Element.first(self, key)
        if self.found is not None:
            for child in self.found:
                if child.key is key or child.key == key:
                    return child
        tape = self.tape
        number = tape.number(key)
        if number < 0:
            # Texts have no name.
            return Element.first(self, key) if key == "" else None
        at = tape.nodes[self.node].first
        steps = 0
        while at >= 0:
            if tape.nodes[at].name == number:
                if self.found is None:
                    self.found = []
                elif len(self.found) >= FOUND_MAX:
                    self.load()
                    return Element.first(self, key)
                child = element_at(tape, at, self)
                self.found.append(child)
                break
            steps += 1
            at = tape.nodes[at].next
        else:
            child = None
        if steps > SEARCHED_MAX:
            self.searches += 1
            if self.searches >= SEARCHES_MAX:
                self.load()
        return child

    cpdef clear(self):
        cdef Element child
        if self.found is not None:
            for child in self.found:
                child.parent = None
                child._has_changed = True
            self.found = None
        Element.clear(self)

    def rename(self, key):
        # What is found by its number would be found under the old name.
        if self.parent is not None:
            loaded(self.parent)
        Element.rename(self, key)

    cpdef Element copy(self):
        cdef TapeElement twin
        if self._has_changed or self.found is not None or self._children is not None:
            return Element.copy(self)
        # As it came: the copy stands for the same place. It is paid for as if it were made.
        charge_copies(self.tape.nodes[self.node].behind - self.node)
        twin = element_at(self.tape, self.node, None)
        twin.key = self.key
        twin.kind = self.kind
        twin.held = self.held
        # Alone it has no folder to notify of changes, so it never counts as unchanged; what is below it does.
        twin._has_changed = True
        return twin


cdef TapeElement element_at(Tape tape, int32_t at, Element parent):
    cdef TapeElement element = TapeElement.__new__(TapeElement)
    cdef Node* node = &tape.nodes[at]
    element.tape = tape
    element.node = at
    element.parent = parent
    element.held = UNREAD
    if node.kind == ELEMENT:
        element.key = tape.name(at)
        if tape.compact:
            element.kind = XMLNSC_FOLDER if node.folder else XMLNSC_FIELD
        else:
            element.kind = NAME
    elif node.kind == ATTRIBUTE:
        element.key = tape.name(at)
        element.kind = XMLNSC_ATTRIBUTE if tape.compact else XML_ATTRIBUTE
    else:
        element.key = ""
        element.kind = VALUE_KIND
    return element


_DECLARED = re.compile(
    rb"<\?xml[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(?:\"1\.0\"|'1\.0')"
    rb"(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(?:\"(?:[Uu][Tt][Ff]-8|US-ASCII)\"|'(?:[Uu][Tt][Ff]-8|US-ASCII)'))?"
    rb"(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*(?:\"(?:yes|no)\"|'(?:yes|no)'))?[ \t\r\n]*\?>[ \t\r\n]*"
).match
# The tape that was made last; a body that is scanned again right after is usually the same one.
cdef Tape latest = None
_NO_CHARACTERS = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")


def document_of(Folder folder, bint compact):
    """The document element of a folder's body, or None when it is for lxml to read it."""
    cdef bytes body
    cdef int32_t start = 0
    cdef Tape tape
    global latest
    if type(folder.body) is not bytes:
        return None
    body = folder.body
    tape = latest
    if tape is not None and tape.body is body and tape.compact == compact and folder.ccsid == 1208:
        # OutputRoot has the same message as InputRoot.
        return element_at(tape, 0, folder)
    if not body.isascii():
        if folder.ccsid != 1208:
            return None
        try:
            body.decode()
        except UnicodeDecodeError:
            return None
        if _NO_CHARACTERS[0] in body or _NO_CHARACTERS[1] in body:
            return None
        ascii = False
    else:
        ascii = True
    if body[:1] != b"<":
        return None
    if body[1:2] == b"?":
        declared = _DECLARED(body)
        if declared is None or (not ascii and b"US-ASCII" in declared[0]):
            return None
        start = declared.end()
    tape = scan(body, start, compact)
    if tape is None:
        return None
    if folder.ccsid == 1208 and len(body) <= KEPT_MAX:
        latest = tape
    return element_at(tape, 0, folder)


# --- writing -------------------------------------------------------------------------------------------------------

class NotPlain(Exception):
    """There is something that models/xml/writing.py has to write, or to refuse."""


cdef dict writable = {}
cdef object _matches = UNPREFIXED_NAME.fullmatch
cdef uint8_t content_sign[256]
cdef enum:
    ESCAPED_SIGN = 1
    QUOTED_SIGN = 2
    NO_SIGN = 4
    HIGH_SIGN = 8               # U+FFFE and U+FFFF begin with it
for _sign in range(256):
    content_sign[_sign] = NO_SIGN if _sign < 32 else 0
content_sign[9] = content_sign[10] = QUOTED_SIGN
content_sign[13] = ESCAPED_SIGN
content_sign[34] = content_sign[39] = QUOTED_SIGN
content_sign[38] = content_sign[60] = content_sign[62] = ESCAPED_SIGN
content_sign[0xEF] = HIGH_SIGN


@cython.final
@cython.no_gc
cdef class Writer:
    """Writes elements into one buffer; raises NotPlain for what is unusual, and then nothing was changed."""

    cdef char* buffer
    cdef Py_ssize_t size
    cdef Py_ssize_t length
    cdef bint compact

    def __dealloc__(self):
        PyMem_RawFree(self.buffer)

    cdef int reserve(self, Py_ssize_t count) except -1:
        cdef Py_ssize_t size
        cdef char* buffer
        if self.length + count > self.size:
            if self.length + count > BODY_BYTES_MAX:
                raise NotPlain
            size = max(self.size * 2, self.length + count)
            buffer = <char*>PyMem_RawRealloc(self.buffer, size)
            if buffer == NULL:
                raise MemoryError()
            self.buffer = buffer
            self.size = size
        return 0

    cdef int raw(self, const char* text, Py_ssize_t count) except -1:
        self.reserve(count)
        memcpy(self.buffer + self.length, text, count)
        self.length += count
        return 0

    cdef int sign(self, char sign) except -1:
        self.reserve(1)
        self.buffer[self.length] = sign
        self.length += 1
        return 0

    cdef int text(self, text) except -1:
        cdef Py_ssize_t count
        cdef const char* p
        try:
            p = PyUnicode_AsUTF8AndSize(text, &count)
        except UnicodeEncodeError:
            raise NotPlain from None
        return self.raw(p, count)

    cdef int content(self, value, bint quoted) except -1:
        """The text of a value between tags, or between an attribute's quotes."""
        cdef Py_ssize_t count
        cdef Py_ssize_t i
        cdef const char* p
        cdef uint8_t signs = 0
        cdef uint8_t unusual = ESCAPED_SIGN | NO_SIGN | HIGH_SIGN
        if quoted:
            unusual |= QUOTED_SIGN
        if type(value) is not str:
            try:
                value = xml_text(value)
            except TypeError:
                raise NotPlain from None
        try:
            p = PyUnicode_AsUTF8AndSize(value, &count)
        except UnicodeEncodeError:
            raise NotPlain from None
        for i in range(count):
            signs |= content_sign[<uint8_t>p[i]]
        if signs & unusual:
            try:
                if quoted:
                    value = attribute_text(value)
                    return self.text(value[1 : len(value) - 1])
                return self.text(content_text(value))
            except ValueError:
                raise NotPlain from None
        return self.raw(p, count)

    cdef int name(self, key) except -1:
        if key not in writable:
            if not _matches(key):
                raise NotPlain
            if len(writable) < NAMES_MAX and len(key) <= NAME_MAX:
                writable[key] = True
        return self.text(key)

    cdef int element(self, Element element, int depth) except -1:
        cdef TapeElement read = None
        cdef Node* node
        cdef Element child
        cdef list children
        cdef bint opened = False
        cdef Py_ssize_t attributes = 0
        if type(element) is TapeElement:
            read = <TapeElement>element
            node = &read.tape.nodes[read.node]
            if node.regular and node.kind == ELEMENT and not element._has_changed and read.tape.compact == self.compact:
                return self.raw(read.tape.p + node.start, node.end - node.start)
            if element._children is None and node.folder and node.kind == ELEMENT and read.tape.compact == self.compact:
                if read.held is UNREAD and read.found is not None and read.key is read.tape.name(read.node):
                    if self.around(read, node, depth):
                        return 0
        elif type(element) is not Element:
            raise NotPlain
        if depth >= DEPTH_MAX:
            raise NotPlain
        children = loaded(element)
        value = value_of(element)
        self.sign(60)
        self.name(element.key)
        for child in children:
            if self.is_attribute(child.kind):
                # Each name once.
                if attributes:
                    for before in children:
                        if before is child:
                            break
                        if self.is_attribute((<Element>before).kind) and (<Element>before).key == child.key:
                            raise NotPlain
                attributes += 1
                if attributes > ATTRIBUTES_MAX:
                    raise NotPlain
                self.sign(32)
                self.name(child.key)
                self.raw(b'="', 2)
                self.content(value_of(child), True)
                self.sign(34)
        if len(children) == attributes:
            if value is None or value == "":
                return self.raw(b"/>", 2)
            self.sign(62)
            self.content(value, False)
        else:
            self.sign(62)
            if value is not None:
                self.content(value, False)
            for child in children:
                kind = child.kind
                if self.is_element(kind):
                    self.element(child, depth + 1)
                elif not self.is_attribute(kind):
                    if kind != VALUE_KIND or self.compact:
                        raise NotPlain
                    self.content(value_of(child), False)
        self.raw(b"</", 2)
        self.name(element.key)
        return self.sign(62)

    cdef bint around(self, TapeElement element, Node* node, int depth) except -1:
        """Write an element of which a few children were looked at: those by themselves, all between them as it came."""
        cdef Tape tape = element.tape
        cdef const char* p = tape.p
        cdef TapeElement child
        cdef TapeElement looked
        cdef int32_t at = node.first
        cdef int32_t from_place
        cdef Py_ssize_t length = self.length
        if depth >= DEPTH_MAX:
            raise NotPlain
        # The start tag, with its attributes, and what follows up to the first child that is written by itself.
        if not node.tagged:
            return False
        from_place = node.start
        while at >= 0:
            looked = None
            for child in element.found:
                if child.node == at:
                    looked = child
                    break
            if looked is not None and looked._has_changed or not tape.nodes[at].regular:
                if tape.nodes[at].kind != ELEMENT or (looked is not None and not self.is_element(looked.kind)):
                    self.length = length
                    return False
                self.raw(p + from_place, tape.nodes[at].start - from_place)
                self.element(element_at(tape, at, element) if looked is None else looked, depth + 1)
                from_place = tape.nodes[at].end
            at = tape.nodes[at].next
        self.raw(p + from_place, node.end - from_place)
        return True

    cdef bint is_attribute(self, kind):
        return kind == XMLNSC_ATTRIBUTE or (not self.compact and kind == XML_ATTRIBUTE)

    cdef bint is_element(self, kind):
        if kind == NAME:
            return True
        return self.compact and (kind == XMLNSC_FIELD or kind == XMLNSC_FOLDER)


def render(Folder folder, bint compact, bytes head):
    """A folder with one document element in UTF-8, behind the declaration; None where Python has to write it."""
    cdef Writer writer
    cdef Element element
    cdef list children = loaded(folder)
    cdef Element document = children[len(children) - 1]
    if folder.touched is not None:
        for element in list(folder.touched):
            element.mark(True)
    writer = Writer.__new__(Writer)
    writer.compact = compact
    writer.size = 512 + (len(folder.body) * 5 // 4 if type(folder.body) is bytes else 4096)
    writer.buffer = <char*>PyMem_RawMalloc(writer.size)
    if writer.buffer == NULL:
        raise MemoryError()
    try:
        writer.raw(PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
        if not writer.is_element(document.kind):
            return None
        writer.element(document, 1)
    except NotPlain:
        return None
    return PyBytes_FromStringAndSize(writer.buffer, writer.length)
