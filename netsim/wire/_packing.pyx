# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Pack and unpack the elements of coded arrays, compiled.

`netsim.wire.packing` defines these functions in Python and checks their arguments.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.math cimport INFINITY, fabs, nextafterf
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
cimport numpy as cnp

import numpy as np

cnp.import_array()

cdef double LARGEST = np.finfo(np.float32).max


cdef inline uint8_t* write_bits(uint8_t* to, uint64_t integer, int bits, uint64_t* held, int* waiting) noexcept nogil:
    """Append an integer of ``bits`` bits to ``held``, write all complete bytes, and return the next place to write.

    ``waiting`` counts the bits in ``held`` that are not yet written; this function updates the count.
    """
    held[0] = (held[0] << bits) | integer
    waiting[0] += bits
    while waiting[0] >= 8:
        waiting[0] -= 8
        to[0] = <uint8_t>(held[0] >> waiting[0] & 255)
        to += 1
    return to


cdef inline const uint8_t* read_bits(const uint8_t* at, int bits, uint64_t* held, int* waiting) noexcept nogil:
    """Read bytes into ``held`` until ``bits`` unused bits are there for the caller; return the next place to read.

    ``waiting`` counts the unused bits in ``held``. This function updates the count, and already subtracts the ``bits``
    bits that the caller uses next.
    """
    while waiting[0] < bits:
        held[0] = (held[0] << 8) | at[0]
        at += 1
        waiting[0] += 8
    waiting[0] -= bits
    return at


def pack(integers, int bits):
    """Pack integers of ``bits`` bits, as `netsim.wire.packing.pack` does."""
    cdef object array = np.ascontiguousarray(integers, dtype=np.uint16)
    cdef const uint16_t* values = <const uint16_t*>cnp.PyArray_DATA(array)
    cdef int64_t i, count = cnp.PyArray_SIZE(array)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, (count * bits + 7) // 8)
    cdef uint8_t* to = <uint8_t*>PyBytes_AS_STRING(data)
    cdef uint64_t held = 0, mask = (<uint64_t>1 << bits) - 1
    cdef int waiting = 0
    for i in range(count):
        to = write_bits(to, values[i] & mask, bits, &held, &waiting)
    if waiting:
        to[0] = <uint8_t>(held << (8 - waiting) & 255)
    return data


def unpack(bytes data, int bits, int64_t count):
    """Unpack ``count`` integers of ``bits`` bits; the caller must check the length of ``data``."""
    cdef cnp.npy_intp shape[1]
    shape[0] = count
    cdef object array = cnp.PyArray_EMPTY(1, shape, cnp.NPY_UINT16, 0)
    cdef uint16_t* to = <uint16_t*>cnp.PyArray_DATA(array)
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef uint64_t held = 0, mask = (<uint64_t>1 << bits) - 1
    cdef int waiting = 0
    cdef int64_t i
    for i in range(count):
        at = read_bits(at, bits, &held, &waiting)
        to[i] = <uint16_t>(held >> waiting & mask)
    return array


cdef inline bint is_plain(array) noexcept:
    """Return whether ``array`` is a contiguous vector or matrix of float64."""
    return (
        type(array) is cnp.ndarray
        and cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT64
        and cnp.PyArray_ISCARRAY_RO(array)
        and 1 <= cnp.PyArray_NDIM(array) <= 2
    )


def to_float32(array):
    """Round an array to float32; return None if `is_plain` refuses it, or an element is NaN or too large."""
    cdef const double* values
    cdef float* to
    cdef int64_t i
    cdef bint fits = True
    if not is_plain(array):
        return None
    result = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(array), cnp.PyArray_DIMS(array), cnp.NPY_FLOAT32, 0)
    values, to = <const double*>cnp.PyArray_DATA(array), <float*>cnp.PyArray_DATA(result)
    for i in range(cnp.PyArray_SIZE(array)):
        # This comparison is also False if the element is NaN.
        fits &= fabs(values[i]) <= LARGEST
        to[i] = <float>values[i]
    return result if fits else None


def is_finite(array):
    """Return whether `is_plain` accepts the array and all elements are finite."""
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
    """Return the largest magnitude of the elements, which must be finite."""
    cdef object whole = np.ascontiguousarray(array, dtype=np.float64)
    cdef const double* values = <const double*>cnp.PyArray_DATA(whole)
    cdef double most = 0.0
    cdef int64_t i
    for i in range(cnp.PyArray_SIZE(whole)):
        most = fabs(values[i]) if fabs(values[i]) > most else most
    return most


def float32_above(double value):
    """Round ``value`` up to float32."""
    cdef float rounded = <float>value
    return rounded if rounded >= value else nextafterf(rounded, INFINITY)


def cells(array, double low, double high, int bits):
    """Return the packed cell numbers of all elements, which must be finite, and how many are outside [low, high)."""
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
        # The cast rounds down, because the quotient is >= 0. It fits in an int32_t: at most twice the number of cells.
        cell = <int32_t>((value - low) / width)
        to = write_bits(to, cell if cell < top else top, bits, &held, &waiting)
    if waiting:
        to[0] = <uint8_t>(held << (8 - waiting) & 255)
    return data, outside


cdef object new_array(shape):
    """Return a new float64 array; faster than np.empty for a vector."""
    cdef cnp.npy_intp length[1]
    if len(shape) != 1:
        return np.empty(shape)
    length[0] = shape[0]
    return cnp.PyArray_EMPTY(1, length, cnp.NPY_FLOAT64, 0)


def middles(bytes data, int bits, shape, double low, double high):
    """Decode cell numbers to the middles of cells; the caller must check the length of ``data``."""
    cdef object array = new_array(shape)
    cdef double* to = <double*>cnp.PyArray_DATA(array)
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef uint64_t held = 0, mask = (<uint64_t>1 << bits) - 1
    cdef double step = (high - low) / (1 << bits)
    cdef int waiting = 0
    cdef int64_t i
    for i in range(cnp.PyArray_SIZE(array)):
        at = read_bits(at, bits, &held, &waiting)
        to[i] = low + (<double>(held >> waiting & mask) + 0.5) * step if step != 0.0 else 0.0
    return array


def signed_levels(array, factors, uniforms, int bits):
    """Pack each element's sign and its level ⌊|element|·factor + uniform⌋, at most 2**bits − 1."""
    cdef object whole = np.ascontiguousarray(array, dtype=np.float64), drawn = np.ascontiguousarray(uniforms)
    cdef object each = np.ascontiguousarray(factors, dtype=np.float64)
    cdef const double* values = <const double*>cnp.PyArray_DATA(whole)
    cdef const double* draws = <const double*>cnp.PyArray_DATA(drawn)
    cdef const double* factor = <const double*>cnp.PyArray_DATA(each)
    cdef int64_t i, j, rows = cnp.PyArray_SIZE(each), count = cnp.PyArray_SIZE(whole), width = count // max(rows, 1)
    cdef bytes data = PyBytes_FromStringAndSize(NULL, (count * (bits + 1) + 7) // 8)
    cdef uint8_t* to = <uint8_t*>PyBytes_AS_STRING(data)
    cdef uint64_t held = 0
    cdef int32_t level, top = (1 << bits) - 1
    cdef int waiting = 0
    for i in range(rows):
        for j in range(i * width, (i + 1) * width):
            level = <int32_t>(fabs(values[j]) * factor[i] + draws[j])
            level = (level if level < top else top) | (values[j] < 0.0) << bits
            to = write_bits(to, level, bits + 1, &held, &waiting)
    if waiting:
        to[0] = <uint8_t>(held << (8 - waiting) & 255)
    return data


def shares(bytes data, int bits, shape, scales):
    """Decode signs and levels to ± scale · level / (2**bits − 1); the caller must check the length of ``data``."""
    cdef object array = new_array(shape), each = np.ascontiguousarray(scales, dtype=np.float64)
    cdef double* to = <double*>cnp.PyArray_DATA(array)
    cdef const double* scale = <const double*>cnp.PyArray_DATA(each)
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef int64_t i, j, rows = cnp.PyArray_SIZE(each), width = cnp.PyArray_SIZE(array) // max(rows, 1)
    cdef uint64_t held = 0, code, mask = (<uint64_t>1 << (bits + 1)) - 1, top = (<uint64_t>1 << bits) - 1
    cdef double value
    cdef int waiting = 0
    for i in range(rows):
        for j in range(i * width, (i + 1) * width):
            at = read_bits(at, bits + 1, &held, &waiting)
            code = held >> waiting & mask
            value = scale[i] * (<double>(code & top) / <double>top)
            to[j] = -value if code > top else value
    return array
