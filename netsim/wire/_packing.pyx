# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Elements of coded arrays in one pass, compiled: integers of b bits in ⌈n·b/8⌉ bytes, and rounding to float32.

`netsim.wire.packing` has the twins in Python, and the checks.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t
cimport numpy as cnp

import numpy as np

cnp.import_array()

# The largest float32.
cdef double LARGEST = np.finfo(np.float32).max


def pack(integers, int bits):
    """Return the packed bytes."""
    cdef object array = np.ascontiguousarray(integers, dtype=np.uint16)
    cdef const uint16_t* values = <const uint16_t*>cnp.PyArray_DATA(array)
    cdef int64_t i, count = cnp.PyArray_SIZE(array)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, (count * bits + 7) // 8)
    cdef uint8_t* to = <uint8_t*>PyBytes_AS_STRING(data)
    cdef uint64_t held = 0, mask = (<uint64_t>1 << bits) - 1
    cdef int waiting = 0
    for i in range(count):
        held = (held << bits) | (values[i] & mask)
        waiting += bits
        while waiting >= 8:
            waiting -= 8
            to[0] = <uint8_t>(held >> waiting & 255)
            to += 1
    if waiting:
        to[0] = <uint8_t>(held << (8 - waiting) & 255)
    return data


def unpack(bytes data, int bits, int64_t count):
    """Return the integers; ``data`` has the right length."""
    cdef cnp.npy_intp shape[1]
    shape[0] = count
    cdef object array = cnp.PyArray_EMPTY(1, shape, cnp.NPY_UINT16, 0)
    cdef uint16_t* to = <uint16_t*>cnp.PyArray_DATA(array)
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef uint64_t held = 0, mask = (<uint64_t>1 << bits) - 1
    cdef int waiting = 0
    cdef int64_t i
    for i in range(count):
        while waiting < bits:
            held = (held << 8) | at[0]
            at += 1
            waiting += 8
        waiting -= bits
        to[i] = <uint16_t>(held >> waiting & mask)
    return array


def to_float32(array):
    """Return an array of float64 rounded to float32; None if it is another array, or has elements that do not fit."""
    cdef const double* values
    cdef float* to
    cdef int64_t i, count
    cdef bint fits = True
    if type(array) is not cnp.ndarray or cnp.PyArray_TYPE(array) != cnp.NPY_FLOAT64:
        return None
    if not cnp.PyArray_ISCARRAY_RO(array) or not 1 <= cnp.PyArray_NDIM(array) <= 2:
        return None
    result = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array), cnp.NPY_FLOAT32, 0)
    values, to = <const double*>cnp.PyArray_DATA(array), <float*>cnp.PyArray_DATA(result)
    count = cnp.PyArray_SIZE(array)
    for i in range(count):
        # Not a number is not below either limit.
        fits &= -LARGEST <= values[i] <= LARGEST
        to[i] = <float>values[i]
    return result if fits else None
