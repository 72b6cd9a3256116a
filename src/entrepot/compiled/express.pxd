# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3

from libc.stdint cimport uint8_t


cdef class Publications:
    cdef Py_ssize_t take(self, const uint8_t* begin, const uint8_t* end, int* frames) except -1
