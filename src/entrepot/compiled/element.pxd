# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3

cdef class Element:
    cdef public object key
    # UNREAD where a tape has it (tape.pyx).
    cdef object held
    cdef public object kind
    cdef public Element parent
    cdef public list _children
    cdef public dict _index
    cdef public bint _has_changed

    cdef object read_value(self)
    cdef int mark(self, bint structure) except -1
    cdef dict named(self)
    cpdef list load(self)
    cpdef Element first(self, key)
    cpdef list all(self, key)
    cpdef Element new_child(self, key, kind=*)
    cpdef Element append(self, Element child)
    cpdef set_value(self, value)
    cpdef is_leaf(self)
    cpdef clear(self)
    cpdef Element copy(self)
    cpdef Element _twin(self)
    cpdef replace_content(self, Element source)


cdef class Folder(Element):
    cdef public object domain
    cdef public object body
    cdef public object ccsid
    cdef public object encoding
    cdef public object model
    cdef public bint dirty
    cdef public bint restructured
    cdef public dict touched
    cdef public object peeked


cdef class Root(Element):
    cdef public object unread
    cdef public dict opened


cdef object UNREAD
cdef object NAME
cdef list STRUCTURE
cdef object COPIES

cdef Element new_element(key, value)
cdef list loaded(Element element)
cdef object value_of(Element element)
cdef int note_structure() except -1
cdef int charge_copies(Py_ssize_t count) except -1
cdef list copies_of(list children)
