# cython: language_level=3
"""What other compiled modules may use of the compiled clock: its queue of timers."""

from libc.stdint cimport int64_t


cdef class Due:
    # Entries are sorted by `time` (s), at which they are due. `place` orders the entries of the same time.
    cdef double time
    cdef int64_t place
    cdef bint dropped(self) except -1
    cdef int start(self) except -1


cdef int push(list heap, Due due) except -1
cdef Due pop(list heap)
cdef double first_time(list heap) noexcept


cdef class Timer(Due):
    cdef readonly object _loop, _callback, _context
    cdef readonly tuple _args
    cdef readonly bint _cancelled
    # Whether the callback ends a sleep: if nothing else happens now, the timer then calls it at once.
    cdef bint wakes
    # The time (s) for which the timer was set; minus infinity for a handle of `call_soon`.
    cdef double _when
    cdef object __weakref__
    cdef int run(self) except -1


cdef class FastClock:
    cdef public double _now, limit
    cdef public int64_t passes, _purge_size
    cdef public bint beyond
    cdef public list _timers, _instant_ends, on_pass, onlookers
    cdef public object ready
    cdef int64_t count
    cpdef double now(self) noexcept
    cpdef bint is_alone(self) except -1
    cpdef bint skip_to(self, double time) except -1
    cdef int set(self, double time, Due due, bint first) except -1
    cdef list one_pass(self, bint idle)
