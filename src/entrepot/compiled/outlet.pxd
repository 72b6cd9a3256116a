# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3

from libc.stdint cimport uint8_t, uint64_t

from entrepot.compiled.entry cimport QueuedMessage


cdef class Outlet:
    cdef object stream
    cdef object waiter
    cdef object numbered
    cdef object link
    cdef object engine
    cdef object thread

    cdef bint is_ready(self) except -1
    cdef int hand(self, queue, list entries, Py_ssize_t body_bytes) except -1
    cdef int send(self, list entries) except -1
    cdef int send_some(self, list entries) except -1
    cdef int write_deliveries(self, int count, const uint8_t* messages, Py_ssize_t size) except -1
    cdef bint take_arrival(self, manager, queue, QueuedMessage entry) except -1


cdef object take_of(queue, QueuedMessage entry)
cdef int take_turns(waiter, Py_ssize_t count) except -1
cdef Outlet only_outlet(dict anyone)
cdef int write(engine, link, bytes frame) except -1
cdef object next_lane(queue)
