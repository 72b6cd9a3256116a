# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""A run of CWF fields, between the bytes of a record and values, in one call.

`models/cwf/steps.py` makes a `Run` of its fields and has the same in Python. Text in code pages whose ASCII is
ASCII, integers and floats are done here; every other field by its own reader and writer. At the first doubt the
answer is None, and the twin does all of it again: it finds the mistake, or that there is none.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE, PyList_New, PyList_SET_ITEM
from cpython.ref cimport Py_INCREF
from cpython.unicode cimport PyUnicode_DecodeASCII, PyUnicode_DecodeLatin1, PyUnicode_DecodeUTF8
from libc.math cimport isinf
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    object PyUnicode_FromStringAndSize(const char* text, Py_ssize_t size)

cdef enum:
    BY_PYTHON = 0
    TEXT = 1
    INTEGER = 2
    FLOAT = 3

cdef enum:
    UTF_8 = 0
    ASCII = 1
    LATIN_1 = 2

PAGES = {"utf-8": UTF_8, "ascii": ASCII, "latin-1": LATIN_1, "iso8859-1": LATIN_1}


cdef struct Field:
    int kind
    Py_ssize_t start
    Py_ssize_t size
    uint8_t pad
    int page
    bint signed
    bint big


cdef class Run:
    """Fields of fixed sizes side by side."""

    cdef Field* fields
    cdef Py_ssize_t count
    cdef Py_ssize_t size
    cdef bytes template
    cdef list readers
    cdef list writers
    cdef list names

    def __cinit__(self, list names, list fields, bytes template):
        """Each field is (start, size, reader, writer, code of struct or "", is big-endian, (pad, codec) of text or None);
        `template` has what lies between them."""
        cdef Py_ssize_t place
        cdef Field* field
        self.count = len(fields)
        self.size = len(template)
        self.template = template
        self.names = names
        if len(names) != self.count:
            raise ValueError("a field has no name")
        self.readers = [each[2] for each in fields]
        self.writers = [each[3] for each in fields]
        self.fields = <Field*>malloc(max(self.count, 1) * sizeof(Field))
        if self.fields is NULL:
            raise MemoryError
        for place in range(self.count):
            start, size, _, _, code, big, text = fields[place]
            if not 0 <= start <= self.size - size or size < 0:
                raise ValueError("a field lies outside of its run")
            field = self.fields + place
            memset(field, 0, sizeof(Field))
            field.start, field.size, field.big = start, size, big
            if text is not None and text[1] in PAGES and len(text[0]) == 1:
                field.kind, field.pad, field.page = TEXT, text[0][0], PAGES[text[1]]
            elif code in ("f", "d") and size == (4 if code == "f" else 8):
                field.kind = FLOAT
            elif code and code in "bBhHiIq" and size == {"b": 1, "h": 2, "i": 4, "q": 8}[code.lower()]:
                field.kind, field.signed = INTEGER, code.islower()

    def __dealloc__(self):
        free(self.fields)

    def read(self, bytes body, Py_ssize_t offset):
        """The values of all fields; None where the record is too short.

        What is no text in its code page raises, as a reader does.
        """
        cdef Py_ssize_t place, size
        cdef Field* field
        cdef const uint8_t* at
        cdef list values
        if offset < 0 or PyBytes_GET_SIZE(body) - offset < self.size:
            return None
        cdef const uint8_t* record = <const uint8_t*>PyBytes_AS_STRING(body) + offset
        values = []
        for place in range(self.count):
            field = self.fields + place
            at = record + field.start
            size = field.size
            if field.kind == TEXT:
                while size and at[size - 1] == field.pad:
                    size -= 1
                if field.page == UTF_8:
                    value = PyUnicode_DecodeUTF8(<const char*>at, size, NULL)
                elif field.page == ASCII:
                    value = PyUnicode_DecodeASCII(<const char*>at, size, NULL)
                else:
                    value = PyUnicode_DecodeLatin1(<const char*>at, size, NULL)
            elif field.kind == INTEGER:
                value = read_integer(at, field)
            elif field.kind == FLOAT:
                value = read_float(at, field)
            else:
                value = self.readers[place](PyBytes_FromStringAndSize(<const char*>at, size))
            values.append(value)
        return values

    def read_named(self, bytes body, Py_ssize_t offset):
        """The same by name."""
        cdef Py_ssize_t place
        cdef list values = self.read(body, offset)
        cdef dict named = {}
        if values is None:
            return None
        for place in range(self.count):
            named[self.names[place]] = values[place]
        return named

    def write_elements(self, list elements):
        """The bytes of elements that are the fields of the run, in order; None for all others."""
        cdef Py_ssize_t place
        cdef list values
        if PyList_GET_SIZE(elements) != self.count:
            return None
        values = []
        for place in range(self.count):
            element = elements[place]
            if element.key != self.names[place]:
                return None
            values.append(element.value)
        return self.write(values)

    def write(self, list values):
        """The bytes of the run; None where a value is of another type, or does not fit."""
        cdef Py_ssize_t place, size
        cdef Field* field
        cdef uint8_t* at
        cdef bytes raw
        if PyList_GET_SIZE(values) != self.count:
            return None
        cdef bytes written = PyBytes_FromStringAndSize(NULL, self.size)
        cdef uint8_t* record = <uint8_t*>PyBytes_AS_STRING(written)
        memcpy(record, PyBytes_AS_STRING(self.template), self.size)
        for place in range(self.count):
            field = self.fields + place
            at = record + field.start
            value = values[place]
            if field.kind == TEXT and type(value) is str and PyUnicode_IS_COMPACT_ASCII(value):
                size = PyUnicode_GET_LENGTH(value)
                if size > field.size:
                    return None
                memcpy(at, PyUnicode_DATA(value), size)
                memset(at + size, field.pad, field.size - size)
            elif field.kind == INTEGER:
                if type(value) is not int or not write_integer(at, field, value):
                    return None
            elif field.kind == FLOAT:
                if type(value) is not float or not write_float(at, field, value):
                    return None
            else:
                raw = self.writers[place](value)
                if PyBytes_GET_SIZE(raw) != field.size:
                    return None
                memcpy(at, PyBytes_AS_STRING(raw), field.size)
        return written


cdef object read_integer(const uint8_t* at, Field* field):
    cdef uint64_t number = 0
    cdef Py_ssize_t place
    for place in range(field.size):
        number = number << 8 | at[place if field.big else field.size - 1 - place]
    cdef int unused = 64 - 8 * <int>field.size
    if field.signed:
        return <long long>(<int64_t>(number << unused) >> unused)
    return <unsigned long long>number


cdef bint write_integer(uint8_t* at, Field* field, object value) except -1:
    cdef int overflow = 0
    cdef long long number = PyLong_AsLongLongAndOverflow(value, &overflow)
    cdef Py_ssize_t place
    cdef int bits = 8 * <int>field.size
    cdef long long limit
    if overflow:
        return False
    if bits < 64:
        limit = <long long>1 << (bits - 1 if field.signed else bits)
        if number >= limit or number < (-limit if field.signed else 0):
            return False
    for place in range(field.size):
        at[field.size - 1 - place if field.big else place] = <uint8_t>(<uint64_t>number >> 8 * place)
    return True


cdef object read_float(const uint8_t* at, Field* field):
    cdef uint8_t raw[8]
    cdef Py_ssize_t place
    cdef float single
    cdef double number
    for place in range(field.size):
        raw[place] = at[field.size - 1 - place if field.big else place]
    if field.size == 4:
        memcpy(&single, raw, 4)
        return <double>single
    memcpy(&number, raw, 8)
    return number


cdef bint write_float(uint8_t* at, Field* field, object value) except -1:
    cdef uint8_t raw[8]
    cdef Py_ssize_t place
    cdef double number = PyFloat_AS_DOUBLE(value)
    cdef float single = <float>number
    if field.size == 4:
        if isinf(single) and not isinf(number):
            return False
        memcpy(raw, &single, 4)
    else:
        memcpy(raw, &number, 8)
    for place in range(field.size):
        at[field.size - 1 - place if field.big else place] = raw[place]
    return True


cdef uint32_t _order_probe = 1
# Floats are taken as this machine has them, from the lowest byte on; elsewhere the twin serves.
if (<uint8_t*>&_order_probe)[0] != 1:
    raise ImportError("this machine's numbers begin with their highest byte")
