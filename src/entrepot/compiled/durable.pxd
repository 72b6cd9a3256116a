# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3

from libc.stdint cimport uint8_t

from entrepot.compiled.entry cimport QueuedMessage


cdef class PlainPut:
    cdef readonly list queues
    # The message, or None while it is only there as bytes.
    cdef object decoded
    cdef bytes raw
    cdef Py_ssize_t body_bytes
    cdef bint persistent
    cdef bint correlated
    cdef uint8_t priority


cdef PlainPut plain_put(list queues, bytes raw, Py_ssize_t body_bytes, bint persistent, bint correlated, uint8_t priority)


cdef class PutSettlement:
    cdef public object wake
    cdef readonly object position
    cdef readonly bint done
    cdef readonly object error
    cdef object manager
    cdef object engine
    cdef object answer
    cdef object queue
    cdef QueuedMessage entry
    cdef int priority
    cdef readonly bytes message_id
    cdef readonly object number

    cdef int finish(self) except -1


cdef class UnitSettlement:
    cdef public object wake
    cdef readonly object position
    cdef readonly bint done
    cdef readonly object error
    cdef object manager
    cdef object engine
    cdef object answer
    cdef readonly object unit
    cdef list puts
    cdef list entries

    cdef int finish(self) except -1


cdef PutSettlement promise_put(
    manager, engine, answer, queue, QueuedMessage entry, int priority, bytes raw, bytes message_id, number
)

cdef UnitSettlement promise_unit(manager, engine, answer, unit)
