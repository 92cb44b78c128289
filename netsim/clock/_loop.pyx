# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: embedsignature=False, always_allow_keywords=True, auto_pickle=False
"""Compiled version of virtual time: its timers, and the methods of the event loop that run for each sleep.

The Python version, `netsim.clock.virtual_clock` and `netsim.clock.clock`, defines and documents the behaviour;
tests/netsim/clock/test_clock_twins.py compares both. In debug mode, if agents have their own clocks, and while hooks
note each call, the loop's methods that set timers call the methods of the Python version instead.
"""

import asyncio
from asyncio.format_helpers import _format_callback_source

from netsim.clock.clock import Loop
from netsim.clock.task import Future
from netsim.clock.virtual_clock import LATEST, VirtualSelector

from libc.math cimport INFINITY

cdef extern from "Python.h":
    object PyContext_CopyCurrent()
    int PyContext_Enter(object) except -1
    int PyContext_Exit(object) except -1

cdef double LAST = LATEST
cdef int64_t FIRST = -(<int64_t>1 << 62)
# The callback of the timer that `asyncio.sleep` sets.
cdef object SET_RESULT = asyncio.futures._set_result_unless_cancelled


# --- a heap -----------------------------------------------------------------------------------------------------------

cdef class Due:
    """An entry of the timer heap; subclasses define what happens when it is due."""

    cdef bint dropped(self) except -1:
        """Return whether the entry was cancelled."""
        return False

    cdef int start(self) except -1:
        """Run the entry, or append it to the ready callbacks; called when the entry is due."""
        return 0


cdef inline bint before(Due a, Due b) noexcept:
    return a.time < b.time or (a.time == b.time and a.place < b.place)


cdef int push(list heap, Due due) except -1:
    cdef Py_ssize_t place = len(heap), parent
    heap.append(due)
    while place > 0:
        parent = (place - 1) >> 1
        if not before(due, <Due>heap[parent]):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = due
    return 0


cdef Due pop(list heap):
    cdef Due first = <Due>heap[0], due = <Due>heap.pop()
    cdef Py_ssize_t place = 0, child, size = len(heap)
    if size == 0:
        return due
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and before(<Due>heap[child + 1], <Due>heap[child]):
            child += 1
        if not before(<Due>heap[child], due):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = due
    return first


cdef double first_time(list heap) noexcept:
    """Return the time (s) of the first entry of a heap that is not empty."""
    return (<Due>heap[0]).time


# --- timers -----------------------------------------------------------------------------------------------------------

cdef class Timer(Due):
    """A callback, due now or later: `asyncio.Handle` and `asyncio.TimerHandle` in one."""

    cdef bint dropped(self) except -1:
        return self._cancelled

    cdef int start(self) except -1:
        cdef FastLoop loop = self._loop
        if not self.wakes or not loop.clock.is_alone():
            loop._ready.append(self)
        elif not self._cancelled:
            future, result = self._args
            if not future.cancelled():
                future.set_result(result)
        return 0

    cdef int run(self) except -1:
        """Call the callback in the timer's context; pass an exception to the loop's exception handler."""
        context, callback = self._context, self._callback
        try:
            PyContext_Enter(context)
            try:
                callback(*self._args)
            finally:
                PyContext_Exit(context)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            message = f"Exception in callback {_format_callback_source(self._callback, self._args)}"
            self._loop.call_exception_handler({"message": message, "exception": error, "handle": self})
        return 0

    def _run(self):
        self.run()

    def when(self):
        """Return the time (s) at which the callback is due."""
        return self._when

    def cancel(self):
        """Prevent the callback from running."""
        self._cancelled = True
        self._callback = self._args = None

    def cancelled(self):
        """Return whether the callback was cancelled."""
        return self._cancelled

    def get_context(self):
        """Return the context in which the callback runs."""
        return self._context

    def __hash__(self):
        return hash(self._when)

    def __repr__(self):
        more = self._callback, self._args, self._loop, self._context
        made = asyncio.Handle(*more) if self._when == -INFINITY else asyncio.TimerHandle(self._when, *more)
        made._cancelled = self._cancelled
        return repr(made)


cdef class Start(Due):
    """An entry that calls a function when it is due, unless ``handle``, which is no `Timer`, was cancelled."""

    cdef object handle, call

    cdef bint dropped(self) except -1:
        return self.handle.cancelled()

    cdef int start(self) except -1:
        self.call()
        return 0


# --- the clock --------------------------------------------------------------------------------------------------------

cdef class FastClock:
    """Compiled methods that run for each timer; `CompiledSelector` inherits all others from `VirtualSelector`."""

    cpdef double now(self) noexcept:
        return self._now

    cpdef bint is_alone(self) except -1:
        cdef list timers = self._timers
        return not (self.passes or self.ready or (timers and first_time(timers) <= self._now))

    cpdef bint skip_to(self, double time) except -1:
        cdef list timers = self._timers
        while timers and first_time(timers) <= time and (<Due>timers[0]).dropped():
            pop(timers)
        if self.ready or self._instant_ends or self.on_pass or time > LAST or (timers and first_time(timers) <= time):
            return False
        for onlooker in self.onlookers:
            if onlooker.until < time:
                return False
        self._now, self.passes = time, 0
        return True

    def set_timer(self, double time, handle, start, bint first=False):
        cdef Start due = Start.__new__(Start)
        due.handle, due.call = handle, start
        self.set(time, due, first)

    cdef int set(self, double time, Due due, bint first) except -1:
        cdef list kept
        if time > LAST:
            self.beyond = self.beyond or time < INFINITY
            return 0
        if len(self._timers) >= self._purge_size:
            kept = [each for each in self._timers if not (<Due>each).dropped()]
            self._timers.clear()
            for each in kept:
                push(self._timers, <Due>each)
            self._purge_size = max(1000, 2 * len(kept))
        due.time, due.place = time, self.count + (FIRST if first else 0)
        self.count += 1
        return push(self._timers, due)

    def pending(self):
        return [(<Start>each).handle if type(each) is Start else each
                for each in self._timers if not (<Due>each).dropped()]

    def select(self, timeout=None):
        cdef bint idle = timeout is None
        ready = self.one_pass(idle)
        while idle and not (ready or self.ready):
            ready = self.one_pass(idle)
        return ready

    cdef list one_pass(self, bint idle):
        cdef list timers = self._timers
        cdef double now
        self.passes += 1
        if self.passes > self.limit:
            self._too_many_passes()
        if self.on_pass:
            for callback in list(self.on_pass):
                callback()
        while timers and (<Due>timers[0]).dropped():
            pop(timers)
        if idle and not (timers and first_time(timers) <= self._now):
            if self._instant_ends:
                callbacks, self._instant_ends = self._instant_ends, []
                for callback in callbacks:
                    callback()
                return []
            if not timers:
                return self._stand_still()
            if self.onlookers:
                self._wait_for_onlookers(first_time(timers))
            else:
                self._now, self.passes = first_time(timers), 0
        now = self._now
        while timers and first_time(timers) <= now:
            pop(timers).start()
        return []


class CompiledSelector(FastClock, VirtualSelector):
    """A `VirtualSelector` whose methods that run for each timer are compiled."""


# --- the loop ---------------------------------------------------------------------------------------------------------

cdef class FastLoop:
    """Compiled methods that run for each sleep; `CompiledLoop` inherits all others from `Loop`."""

    cdef public FastClock clock
    cdef public object _ready
    cdef public bint _closed, _debug, _stopping, skewed
    cdef public list on_call
    # True while `create_future` makes a future, whose constructor calls `get_debug`: that call needs no further check.
    cdef bint makes

    def time(self):
        return super().time() if self.skewed else self.clock._now

    def call_soon(self, callback, *args, context=None):
        if self._closed or self._debug:
            return super().call_soon(callback, *args, context=context)
        cdef Timer handle = self.timer(-INFINITY, callback, args, context)
        self._ready.append(handle)
        return handle

    def call_later(self, delay, callback, *args, context=None):
        if delay is None or delay != delay or self.uses_twin():
            return super().call_later(delay, callback, *args, context=context)
        return self.set(float(self.clock._now + delay), callback, args, context)

    def call_at(self, when, callback, *args, context=None):
        if when != when or self.uses_twin():
            return super().call_at(when, callback, *args, context=context)
        return self.set(float(when), callback, args, context)

    def call_at_simulated(self, when, callback, *args, context=None):
        if self.uses_twin():
            return super().call_at_simulated(when, callback, *args, context=context)
        return self.set(when, callback, args, context)

    cdef bint uses_twin(self) except -1:
        return self._closed or self._debug or self.skewed or bool(self.on_call)

    cdef Timer set(self, double when, callback, tuple args, context):
        cdef Timer timer = self.timer(when, callback, args, context)
        timer.wakes = callback is SET_RESULT
        self.clock.set(when, timer, False)
        return timer

    cdef Timer timer(self, double when, callback, tuple args, context):
        cdef Timer timer = Timer.__new__(Timer)
        timer._loop, timer._when, timer._callback, timer._args = self, when, callback, args
        timer._context = PyContext_CopyCurrent() if context is None else context
        return timer

    def create_future(self):
        self.makes = True
        return Future(loop=self)

    def get_debug(self):
        if self.makes:
            self.makes = False
            return self._debug
        return super().get_debug()

    def _run_once(self):
        if self._debug:
            return super()._run_once()
        ready = self._ready
        events = self.clock.select(0 if self._stopping or ready else None)
        if events:
            self._process_events(events)
        # If one of these handles adds a callback, that callback runs in the next pass.
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            if type(handle) is Timer:
                (<Timer>handle).run()
            else:
                handle._run()


class CompiledLoop(FastLoop, Loop):
    """A `Loop` in virtual time whose methods that run for each sleep are compiled."""
