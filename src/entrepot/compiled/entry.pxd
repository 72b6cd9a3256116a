# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3

cdef class QueuedMessage:
    cdef public long long key
    cdef public int queue
    cdef public int backouts
    cdef public long long log_position
    cdef public object run
    cdef public Py_ssize_t index
    cdef public int state
    cdef public bint resident
    cdef public object shared
    # The message, or None while it is only there as bytes: a plain one, with what the queue manager has settled.
    cdef object decoded
    cdef bytes raw
    cdef Py_ssize_t raw_body_bytes
    # Whether the raw message has a correlation id, by which it may have to be found.
    cdef bint raw_correlated

    cdef Py_ssize_t body_size(self) except -1
    cdef bytes encoded(self)


cdef QueuedMessage raw_entry(long long key, int queue, bytes raw, Py_ssize_t body_bytes, bint correlated)
