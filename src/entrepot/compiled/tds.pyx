# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""A message of tagged, delimited elements in TDS, between its text and values, in one call.

    A1=string-00001|B1=1.25|C1=1001

`models/tds/flat.py` makes a `Row` of a message that has no structures inside and nothing unusual. At the first doubt
the answer is None, and the twin (`tagged.py`, `fields.py`) does all of it again: it finds the mistake, or that there
is none.
"""

from cpython.list cimport PyList_GET_SIZE
from cpython.unicode cimport PyUnicode_Substring
from libc.math cimport isfinite

cdef extern from "Python.h":
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    Py_ssize_t PyUnicode_FindChar(object text, Py_UCS4 character, Py_ssize_t start, Py_ssize_t end, int direction) except -2
    Py_UCS4 PyUnicode_READ_CHAR(object text, Py_ssize_t at)
    object PyLong_FromUnicodeObject(object text, int base)
    object PyFloat_FromString(object text)

cdef enum:
    TEXT = 0
    INTEGER = 1
    FLOAT = 2

KINDS = {"text": TEXT, "integer": INTEGER, "float": FLOAT}

cdef enum:
    DIGITS_MAX = 40


cdef class Row:
    """The elements of a message; each may be there once."""

    cdef dict places
    cdef list keys
    cdef list kinds
    cdef list prefixes
    cdef dict places_by_key
    cdef Py_ssize_t count
    cdef Py_ssize_t longest
    cdef Py_UCS4 delimiter
    cdef Py_UCS4 separator
    cdef str joint
    cdef list needed

    def __init__(self, list fields, str delimiter, str separator):
        """Each field is (tag, name, kind, is needed)."""
        if len(delimiter) != 1 or len(separator) != 1 or delimiter == separator:
            raise ValueError("a delimiter and a separator are one character each")
        self.count = len(fields)
        self.places = {tag: place for place, (tag, _, _, _) in enumerate(fields)}
        self.keys = [name for _, name, _, _ in fields]
        self.places_by_key = {name: place for place, name in enumerate(self.keys)}
        if len(self.places) != self.count or len(self.places_by_key) != self.count:
            raise ValueError("two elements have the same tag or name")
        self.kinds = [KINDS[kind] for _, _, kind, _ in fields]
        self.needed = [place for place, field in enumerate(fields) if field[3]]
        self.prefixes = [f"{tag}{separator}" for tag, _, _, _ in fields]
        self.longest = max(len(tag) for tag in self.places)
        self.delimiter, self.separator, self.joint = ord(delimiter), ord(separator), delimiter

    def read(self, str text):
        """Name and value of each element, in the order of the text."""
        cdef Py_ssize_t end = PyUnicode_GET_LENGTH(text)
        cdef Py_ssize_t at = 0, stop, data
        cdef Py_ssize_t place
        cdef int kind
        cdef dict values = {}
        cdef str piece
        while True:
            stop = PyUnicode_FindChar(text, self.separator, at, min(end, at + self.longest + 1), 1)
            if stop < 0:
                return None
            found = self.places.get(PyUnicode_Substring(text, at, stop))
            if found is None:
                return None
            place = found
            key = self.keys[place]
            data = stop + 1
            stop = PyUnicode_FindChar(text, self.delimiter, data, end, 1)
            if stop < 0:
                stop = end
            if stop == data or key in values:
                return None
            piece = PyUnicode_Substring(text, data, stop)
            kind = self.kinds[place]
            if kind == TEXT:
                values[key] = piece
            elif kind == INTEGER:
                if not is_number(piece, False):
                    return None
                values[key] = PyLong_FromUnicodeObject(piece, 10)
            else:
                if not is_number(piece, True):
                    return None
                number = PyFloat_FromString(piece)
                if not isfinite(<double>number):
                    return None
                values[key] = number
            if stop == end:
                break
            at = stop + 1
        for needed in self.needed:
            if self.keys[<Py_ssize_t>needed] not in values:
                return None
        return values

    def write(self, list keys, list values):
        """The text of elements in this order."""
        cdef Py_ssize_t at, place, count = PyList_GET_SIZE(keys)
        cdef int kind
        cdef list pieces = []
        cdef set there
        cdef str piece
        if count != PyList_GET_SIZE(values) or not count:
            return None
        in_order = keys == self.keys
        there = set()
        for at in range(count):
            if in_order:
                place = at
            else:
                found = self.places_by_key.get(keys[at])
                if found is None or found in there:
                    return None
                there.add(found)
                place = found
            value = values[at]
            kind = self.kinds[place]
            if type(value) is str and kind == TEXT:
                if PyUnicode_FindChar(value, self.delimiter, 0, PyUnicode_GET_LENGTH(value), 1) >= 0:
                    return None
                piece = value
            elif type(value) is int and kind == INTEGER:
                piece = str(value)
            elif type(value) is float and kind == FLOAT:
                if not isfinite(<double>value):
                    return None
                piece = repr(value)
                if not is_plain(piece):
                    return None
            else:
                return None
            pieces.append(<str>self.prefixes[place] + piece)
        if not in_order:
            for needed in self.needed:
                if needed not in there:
                    return None
        return self.joint.join(pieces)


cdef bint is_number(str text, bint fraction):
    """-digits, and for a fraction -digits.digits: what int and float take, and the model's own expressions too."""
    cdef Py_ssize_t at = 0, size = PyUnicode_GET_LENGTH(text)
    cdef Py_UCS4 character
    cdef bint point = False
    if size > DIGITS_MAX:
        return False
    if PyUnicode_READ_CHAR(text, 0) == c"-":
        at = 1
    if at == size:
        return False
    for at in range(at, size):
        character = PyUnicode_READ_CHAR(text, at)
        if c"0" <= character <= c"9":
            continue
        if character != c"." or not fraction or point or not at or not c"0" <= PyUnicode_READ_CHAR(text, at - 1) <= c"9":
            return False
        point = True
    return True


cdef bint is_plain(str text):
    """Without an exponent, whose letter the model writes large."""
    cdef Py_ssize_t at
    for at in range(PyUnicode_GET_LENGTH(text)):
        if PyUnicode_READ_CHAR(text, at) == c"e":
            return False
    return True
