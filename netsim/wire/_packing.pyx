# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""The elements of coded arrays, compiled: integers of b bits in ⌈n·b/8⌉ bytes, cells of a range, float32.

`netsim.wire.packing` has the twins in Python, and the checks.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.math cimport INFINITY, fabs, nextafterf
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
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


cdef inline bint is_plain(array) noexcept:
    """Return whether this is a vector or matrix of float64 in one piece."""
    return (
        type(array) is cnp.ndarray
        and cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT64
        and cnp.PyArray_ISCARRAY_RO(array)
        and 1 <= cnp.PyArray_NDIM(array) <= 2
    )


def to_float32(array):
    """Return an array rounded to float32; None if it is not plain, or has elements that do not fit."""
    cdef const double* values
    cdef float* to
    cdef int64_t i
    cdef bint fits = True
    if not is_plain(array):
        return None
    result = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array), cnp.NPY_FLOAT32, 0)
    values, to = <const double*>cnp.PyArray_DATA(array), <float*>cnp.PyArray_DATA(result)
    for i in range(cnp.PyArray_SIZE(array)):
        # Not a number is not below the limit.
        fits &= fabs(values[i]) <= LARGEST
        to[i] = <float>values[i]
    return result if fits else None


def is_finite(array):
    """Return whether this is a plain array of finite elements."""
    cdef const double* values
    cdef int64_t i
    cdef bint finite = True
    if not is_plain(array):
        return False
    values = <const double*>cnp.PyArray_DATA(array)
    for i in range(cnp.PyArray_SIZE(array)):
        finite &= fabs(values[i]) < INFINITY
    return finite


def largest(array):
    """Return the largest magnitude of finite elements."""
    cdef object whole = np.ascontiguousarray(array, dtype=np.float64)
    cdef const double* values = <const double*>cnp.PyArray_DATA(whole)
    cdef double most = 0.0
    cdef int64_t i
    for i in range(cnp.PyArray_SIZE(whole)):
        most = fabs(values[i]) if fabs(values[i]) > most else most
    return most


def float32_above(double value):
    """Return the smallest float32 that is not below ``value``."""
    cdef float rounded = <float>value
    return rounded if rounded >= value else nextafterf(rounded, INFINITY)


def cells(array, double low, double high, int bits):
    """Return the packed cells of finite elements, and how many elements lie outside of the range."""
    cdef object whole = np.ascontiguousarray(array, dtype=np.float64)
    cdef const double* values = <const double*>cnp.PyArray_DATA(whole)
    cdef int64_t i, count = cnp.PyArray_SIZE(whole), outside = 0
    cdef int32_t cell, top = (1 << bits) - 1
    cdef double value, width = (high - low) / (1 << bits)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, (count * bits + 7) // 8)
    cdef uint8_t* to = <uint8_t*>PyBytes_AS_STRING(data)
    cdef uint64_t held = 0
    cdef int waiting = 0
    if width == 0.0:
        width = 1.0
    for i in range(count):
        value = values[i]
        outside += value < low or value >= high
        value = low if value < low else high if value > high else value
        # Not negative, so that the whole part is the floor; at most twice the number of cells.
        cell = <int32_t>((value - low) / width)
        held = (held << bits) | <uint64_t>(cell if cell < top else top)
        waiting += bits
        while waiting >= 8:
            waiting -= 8
            to[0] = <uint8_t>(held >> waiting & 255)
            to += 1
    if waiting:
        to[0] = <uint8_t>(held << (8 - waiting) & 255)
    return data, outside


def middles(bytes data, int bits, shape, double low, double high):
    """Return the middles of cells; ``data`` has the right length."""
    cdef object array = np.empty(shape)
    cdef double* to = <double*>cnp.PyArray_DATA(array)
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef uint64_t held = 0, mask = (<uint64_t>1 << bits) - 1
    cdef double step = (high - low) / (1 << bits)
    cdef int waiting = 0
    cdef int64_t i
    for i in range(cnp.PyArray_SIZE(array)):
        while waiting < bits:
            held = (held << 8) | at[0]
            at += 1
            waiting += 8
        waiting -= bits
        to[i] = low + (<double>(held >> waiting & mask) + 0.5) * step if step != 0.0 else 0.0
    return array
