# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: embedsignature=False, always_allow_keywords=True
"""Compiled versions of a radio's events, signals and MAC layer.

The Python twin of each class, in `events.py`, `signals.py`, `sinr.py`, `mac.py` or `energy.py`, defines and documents
its behaviour. A test checks that both give equal events, draws, counts and energies. This module calls Python code for
batteries, budgets and the link models that `Mac.draw` does not support.
"""

from collections import deque
from contextvars import copy_context
from math import inf

import numpy as np

from netsim.core.delivery import Delivery
from netsim.core.framing import damaged, without_sender
from netsim.core import records
from netsim.links.latency import Uniform
from netsim.links.loss import Bernoulli
from netsim.radio import mac as python_twin
from netsim.radio import phy as reception
from netsim.radio.airtime import Counts
from netsim.radio.energy import Meter, Schedule
from netsim.transport.path import Bursts, Path
from netsim.transport.transmitter import Transmitter
from netsim.util import draws

from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.math cimport INFINITY, NAN, ceil, exp, fabs, floor, log1p, log10, nextafter, pow, rint
from libc.stdint cimport int32_t, int64_t, uint64_t
cimport cython

from netsim.clock._loop cimport Due, FastClock, Timer, first_time, pop, push
from netsim.core._core cimport ArrivalQueue, Frame, Tally, uniform

cdef int ACCESS_FAILED = records.ACCESS_FAILED, ASLEEP = records.ASLEEP, COLLIDED = records.COLLIDED
cdef int CORRUPTED = records.CORRUPTED, HALF_DUPLEX = records.HALF_DUPLEX, LINK_DOWN = records.LINK_DOWN
cdef int LOST = records.LOST, QUEUE_FULL = records.QUEUE_FULL, RECEIVER_DOWN = records.RECEIVER_DOWN
cdef int REFUSED = records.REFUSED


cdef int STAMP_BITS = python_twin.STAMP_BITS
# BINOMIALS[k] is the binomial coefficient of term k of the sum in `netsim.radio.phy.oqpsk`.
cdef double[17] BINOMIALS
for each in reception._BINOMIALS:
    BINOMIALS[each[0]] = each[1]
cdef double MOST_DB = reception._MOST_DB
cdef double MICROSECOND = python_twin.MICROSECOND, MOST_UNITS = 2.0**python_twin.STAMP_BITS - 1


cdef inline double time_tolerance(double now) noexcept nogil:
    cdef double rounding = 4 * (nextafter(now, INFINITY) - now)
    return rounding if rounding > 1e-9 else 1e-9


# --- events -----------------------------------------------------------------------------------------------------------

cdef enum What:
    ASSESSED
    START
    REFUSE
    ARRIVE
    SENT
    NO_ACK
    ACKNOWLEDGE
    ACKNOWLEDGED


@cython.final
cdef class Event(Due):
    """An event of one node at its MAC layer, such as the end of a back-off."""

    cdef What what
    cdef Mac mac
    # The node's `flush_count` when the event was scheduled. If the count has changed when the event is due, the node
    # was switched off in between, and the event is dropped. With −1 the event is never dropped.
    cdef int64_t flushed
    # Each kind of event uses only some of the following attributes. `pending` is the frame to which the event refers.
    cdef PendingFrame pending
    # `turn`: in an ASSESSED event, how many assessments have found the channel busy; in all other events, `Mac.turn`
    # of the transmission. `index`: the index of the fragment in its frame.
    cdef int64_t turn, index
    # The signals that end at the event's time, and the age (s) that their frame carries (see `PendingFrame.age`). The
    # frame may be sent again before these signals arrive, with another age.
    cdef list signals
    cdef double age
    # The node that awaits an acknowledgement.
    cdef Mac sender


@cython.final
cdef class MediumTimer(Timer):
    """The timer that starts the medium's next event."""

    cdef EventQueue queue

    cdef int start(self) except -1:
        return self.queue.start(self)

    def _start(self):
        self.start()


@cython.final
cdef class EventQueue:
    """Priority queue of the medium's events; see `netsim.radio.events.EventQueue`."""

    cdef object loop, clock, context
    # The clock again if it is the compiled clock, for calls without Python overhead; else None.
    cdef FastClock fast
    cdef MediumTimer timer
    # A binary heap, ordered by `before`.
    cdef list events
    cdef int64_t count
    cdef readonly int64_t done

    def __init__(self, loop):
        self.loop, self.clock, self.context = loop, loop.clock, copy_context()
        self.fast = self.clock if isinstance(self.clock, FastClock) else None
        self.events = []

    cdef int at(self, double time, Event event) except -1:
        event.time, event.place = time, self.count
        self.count += 1
        push(self.events, event)
        if self.timer is None or time < self.timer._when:
            self.set_timer()
        return 0

    cdef double next_time(self) noexcept:
        return first_time(self.events) if self.events else INFINITY

    cpdef int catch_up(self, double now) except -1:
        while self.next_time() < now:
            self.next()
        return 0

    def stop(self):
        """Discard all events and cancel the timer."""
        self.events.clear()
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    cdef int set_timer(self) except -1:
        cdef MediumTimer timer = MediumTimer.__new__(MediumTimer)
        if self.timer is not None:
            self.timer.cancel()
        timer.queue, timer._loop, timer._context, timer._when = self, self.loop, self.context, self.next_time()
        self.timer = timer
        if self.fast is not None:
            return self.fast.set(timer._when, timer, True)
        self.clock.set_timer(timer._when, timer, timer._start, True)
        return 0

    cdef int start(self, MediumTimer timer) except -1:
        """Run the due events, after any other callbacks that are ready at this instant."""
        if timer is not self.timer:
            return 0
        if not (self.clock.is_alone() if self.fast is None else self.fast.is_alone()):
            self.loop.call_soon(self.due, timer, context=self.context)
            return 0
        try:
            self.context.run(self.due, timer)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            context = {"message": "Exception in an event of the medium", "exception": error, "handle": timer}
            self.loop.call_exception_handler(context)
        return 0

    def due(self, timer):
        """Run the due events, then advance the clock to later events as long as no agent has to act."""
        cdef double now
        if timer is not self.timer:
            return
        now = self.clock.now()
        try:
            while True:
                while self.next_time() <= now:
                    self.next()
                if not self.events:
                    break
                now = self.next_time()
                if not (self.clock.skip_to(now) if self.fast is None else self.fast.skip_to(now)):
                    break
        finally:
            self.timer = None
            if self.events:
                self.set_timer()

    cdef int next(self) except -1:
        cdef Event event = <Event>pop(self.events)
        self.done += 1
        return event.mac.run(event, event.time)


# --- reception --------------------------------------------------------------------------------------------------------

@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class Signal:
    """One transmission at one receiver; see `netsim.radio.signals.Signal`."""

    # The sender's `RadioLink`. A borrowed reference is safe because the link outlives the signal, and it exempts
    # signals from garbage collection.
    cdef void* link
    cdef public double start, end
    cdef double power, noise, draw, floor, joined
    cdef bint lost, seen
    cdef int cause, missed, channel
    cdef int64_t bits
    cdef readonly object reception
    cdef tuple content

    @property
    def mac(self):
        """The receiving node."""
        return (<RadioLink>self.link).mac

    cpdef spoil(self, int cause):
        """Record a drop reason, unless the signal already has one of higher precedence."""
        if not self.cause or rank(cause) < rank(self.cause):
            self.cause = cause


cdef int rank(int cause) noexcept:
    """Return the rank of a drop reason: of several reasons, a signal keeps the one with the lowest rank."""
    if cause == RECEIVER_DOWN:
        return 0
    if cause == LINK_DOWN:
        return 1
    if cause == LOST:
        return 2
    return 3 if cause == HALF_DUPLEX else 4


cdef class Receiver:
    """One node's receiver; see `netsim.radio.signals.Receiver`."""

    # `signals` is an array of owned references to `Signal` objects: `count` is its length, `room` its capacity.
    cdef PyObject** signals
    cdef int64_t count, room
    cdef double captures_above, carrier_start, earlier_until, carrier_end
    cdef readonly int channel
    cdef public double sends_until

    def __cinit__(self):
        self.captures_above = INFINITY
        self.carrier_start = self.earlier_until = self.carrier_end = self.sends_until = -1.0

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.count):
            Py_DECREF(<object>self.signals[i])
        PyMem_Free(self.signals)

    cdef int hear(self, Signal signal, double now, double width) except -1:
        cdef Signal each
        cdef int64_t i, kept = 0
        if self.sends_until > signal.start + width:
            signal.spoil(HALF_DUPLEX)
        for i in range(self.count):
            each = <Signal>self.signals[i]
            if each.end > now:
                self.signals[kept] = <PyObject*>each
                kept += 1
                if each.end > signal.start + width and each.start < signal.end - width:
                    if each.channel == signal.channel:
                        each.noise += signal.power
                        signal.noise += each.power
            else:
                Py_DECREF(each)
        self.count = kept
        return self.add(signal)

    cdef int add(self, Signal signal) except -1:
        cdef PyObject** grown
        if self.count == self.room:
            grown = <PyObject**>PyMem_Realloc(self.signals, (2 * self.room + 4) * sizeof(PyObject*))
            if grown == NULL:
                raise MemoryError
            self.signals, self.room = grown, 2 * self.room + 4
        self.signals[self.count] = <PyObject*>signal
        Py_INCREF(signal)
        self.count += 1
        return 0

    cdef int fate(self, Signal signal, double now) except -1:
        if signal.cause:
            return signal.cause
        if signal.noise and not (signal.power >= self.captures_above * signal.noise and signal.power > signal.noise):
            return COLLIDED
        return LOST if signal.lost else 0

    cdef int turn(self, double now, double until) except -1:
        return 0

    cdef int send(self, double now, double end) except -1:
        cdef Signal each
        cdef int64_t i
        cdef double width = time_tolerance(now)
        self.sends_until = end
        for i in range(self.count):
            each = <Signal>self.signals[i]
            if each.end > now + width and each.start < end - width:
                each.spoil(HALF_DUPLEX)
        return 0

    def stop(self, double now):
        """Stop sending at ``now`` (s)."""
        self.sends_until = now

    def deafen(self, double now):
        """Drop the signals that are arriving at ``now`` (s), because the node is switched off."""
        self.drop(now, RECEIVER_DOWN)

    cdef int hears(self, double now) except -1:
        """Return whether a neighbour's signal that may still be received is arriving at ``now`` (s)."""
        cdef Signal each
        cdef int64_t i
        for i in range(self.count):
            each = <Signal>self.signals[i]
            if each.start <= now < each.end and (<RadioLink>each.link).index >= 0 and not each.cause:
                return True
        return False

    cdef list drop(self, double now, int cause):
        """Drop the signals that are arriving at ``now`` (s), with the drop reason ``cause``, and return them."""
        cdef Signal each
        cdef int64_t i
        cdef list missed = []
        for i in range(self.count):
            each = <Signal>self.signals[i]
            if each.end > now:
                each.spoil(cause)
                missed.append(each)
        return missed

    cdef list tune(self, int channel, double now):
        """Change the channel at ``now`` (s); drop the signals that are arriving, and return them."""
        cdef list missed = self.drop(now, ASLEEP)
        self.channel = channel
        self.senses_until(now)
        return missed

    cdef void sense(self, double now, double end, double width) noexcept:
        if now > self.carrier_start + width:
            self.carrier_start, self.earlier_until = now, self.carrier_end
        if end > self.carrier_end:
            self.carrier_end = end

    def senses_until(self, double end):
        """Set the time (s) at which all carriers have ended, after a carrier was cut short or the channel changed."""
        self.carrier_end = end
        self.earlier_until = min(self.earlier_until, end)

    cdef int is_busy(self, double since, double now) except -1:
        cdef double width = time_tolerance(now)
        return max(self.carrier_until(now, width), self.sends_until) > since + width

    cdef double carrier_until(self, double now, double width) noexcept:
        return self.earlier_until if self.carrier_start >= now - width else self.carrier_end


@cython.final
cdef class SinrReceiver(Receiver):
    """One node's receiver with a `Phy`; see `netsim.radio.sinr.SinrReceiver`."""

    # The method `Phy.log_success`; None for `oqpsk`, whose bit errors this class computes itself.
    cdef object model
    cdef object noise, seed, key, name
    cdef double turnaround, cca, usual_floor, lock_above, weight, busy_from, deaf_until, concurrent
    cdef bint senses_power, as_ns3, forgets
    cdef int64_t unseen
    cdef Signal locked

    def __init__(self, phy, radio, seed, key, name):
        self.model = None if phy.error_rate is reception.oqpsk else phy.log_success
        self.seed, self.key, self.name = seed, key, name
        self.noise = None if phy.noise is None else phy.floor
        self.turnaround, self.cca = radio.turnaround, radio.cca
        self.senses_power, self.as_ns3 = radio.sensing is None, phy.cca == "ns3"
        self.forgets = phy.chunks == "ns3"
        self.usual_floor = 10.0 ** (phy.noise_dbm / 10.0)
        self.lock_above = 10.0 ** (phy.lock_db / 10.0)
        self.weight = 10.0 ** (phy.interference_db / 10.0)
        self.busy_from = 10.0 ** (phy.sense_dbm / 10.0)
        self.concurrent = phy.concurrent_s
        self.deaf_until = -1.0

    cdef int hear(self, Signal signal, double now, double width) except -1:
        cdef Signal each
        cdef int64_t i, kept = 0
        cdef double oldest = now - self.cca - width
        self.see(now - width)
        if self.locked is not None and self.locked.end > oldest:
            oldest = min(oldest, self.locked.start)
        for i in range(self.count):
            each = <Signal>self.signals[i]
            if each.end > oldest or not each.seen:
                self.signals[kept] = <PyObject*>each
                kept += 1
            else:
                Py_DECREF(each)
        self.count = kept
        signal.floor = self.usual_floor
        self.unseen += 1
        return self.add(signal)

    cdef int hears(self, double now) except -1:
        self.see(now - time_tolerance(now))
        return self.locked is not None and self.locked.end > now

    cdef int see(self, double until) except -1:
        """Process the signals that start before ``until`` (s), in order of their starts."""
        cdef Signal each, first
        cdef int64_t i
        while self.unseen:
            first = None
            for i in range(self.count):
                each = <Signal>self.signals[i]
                if not each.seen and each.start < until and (first is None or each.start < first.start):
                    first = each
            if first is None:
                return 0
            self.begin(first, time_tolerance(first.start))
            first.seen = True
            self.unseen -= 1
        return 0

    cdef int begin(self, Signal signal, double width) except -1:
        """Lock the receiver on a beginning signal if possible; otherwise set the signal's drop reason ``missed``."""
        cdef Signal each
        cdef int64_t i
        cdef double begin = signal.start, power = signal.power, others = 0.0
        if self.locked is not None and self.locked.end <= begin + width:
            self.locked = None
        if signal.cause:
            return 0
        if begin < self.deaf_until - width:
            signal.missed = HALF_DUPLEX
            return 0
        for i in range(self.count):
            each = <Signal>self.signals[i]
            if each.seen and each.end > begin + width and each.channel == signal.channel:
                if self.joins(each, signal):
                    power += each.power
                else:
                    others += each.power
        signal.floor = self.usual_floor
        if self.noise is not None:
            signal.floor = self.noise_at(begin)
        if self.locked is not None:
            if self.joins(self.locked, signal) and outranks(signal, self.locked):
                self.locked.missed, self.locked = COLLIDED, signal
            else:
                signal.missed = COLLIDED
        elif power > self.lock_above * (self.weight * others + signal.floor):
            self.locked = signal
        else:
            signal.missed = COLLIDED if power > self.lock_above * signal.floor else LOST
        return 0

    cdef bint joins(self, Signal other, Signal signal) except -1:
        """Return whether the powers of two signals add up.

        They do if the signals are copies of one fragment and begin at most `Phy.concurrent_s` apart.
        """
        if signal.content is None or other.content != signal.content:
            return False
        return abs(other.start - signal.start) <= self.concurrent

    cdef int fate(self, Signal signal, double now) except -1:
        cdef double success
        self.see(now - time_tolerance(now))
        if signal.cause or signal.missed:
            return signal.cause or signal.missed
        success = self.success(signal, time_tolerance(now))
        if signal.draw >= success:
            return COLLIDED if signal.noise else LOST
        return LOST if signal.lost else 0

    cdef double success(self, Signal signal, double width) except? -1.0:
        """Return the probability that all bits of a signal are correct; also store the signal's mean interference."""
        cdef Signal each
        cdef int64_t i
        cdef list others = None
        cdef NeighbourLink link
        cdef double begin, end, length, log_success = 0.0, total, joined, share, sinr
        for i in range(self.count):
            each = <Signal>self.signals[i]
            if each.end > signal.start + width and each.start < signal.end - width and each is not signal:
                if each.channel == signal.channel and each.power > 0.0:
                    if others is None:
                        others = []
                    others.append(each)
        if others is None:
            link = <NeighbourLink>signal.link
            if signal.power != link.clear_power or signal.floor != link.clear_floor:
                link.clear_success = self.log_success(signal.power / signal.floor)
                link.clear_power, link.clear_floor = signal.power, signal.floor
            return exp(signal.bits * link.clear_success)
        times = {signal.start, signal.end}
        for each in others:
            if signal.start < each.start < signal.end:
                times.add(each.start)
            if signal.start < each.end < signal.end and not self.forgets:
                times.add(each.end)
        length = signal.end - signal.start
        moments = sorted(times)
        for i in range(len(moments) - 1):
            begin, end, total, joined = moments[i], moments[i + 1], 0.0, 0.0
            share = (end - begin) / length
            for each in others:
                if each.start <= begin and each.end >= end:
                    if self.joins(each, signal):
                        joined += each.power
                    else:
                        total += each.power
            signal.noise += total * share
            signal.joined += joined * share
            sinr = (signal.power + joined) / (self.weight * total + signal.floor)
            log_success += signal.bits * share * self.log_success(sinr)
        return exp(log_success)

    cpdef double log_success(self, double sinr) except? 1.0:
        """Return ln(1 − BER) for a ratio of powers; see `netsim.radio.phy.Phy.log_success`."""
        cdef double decibels, total = 0.0
        cdef int k
        if self.model is not None:
            return self.model(sinr)
        decibels = 10.0 * log10(sinr) if sinr > 0.0 else -INFINITY
        sinr = pow(10.0, max(decibels, -MOST_DB) / 10.0)
        for k in range(2, 17):
            total += BINOMIALS[k] * exp(20.0 * sinr * (1.0 / k - 1.0))
        return log1p(-min(max(8.0 / 15.0 / 16.0 * total, 0.0), 0.5))

    cdef int turn(self, double now, double until) except -1:
        self.see(now - time_tolerance(now))
        self.deaf_until = until
        return 0

    cdef int send(self, double now, double end) except -1:
        self.turn(now, end + self.turnaround)
        Receiver.send(self, now, end)
        self.locked = None
        return 0

    def stop(self, double now):
        """Stop sending at ``now`` (s)."""
        self.sends_until = self.deaf_until = now

    cdef list drop(self, double now, int cause):
        self.see(now - time_tolerance(now))
        self.locked = None
        if cause == RECEIVER_DOWN:
            self.deaf_until = min(self.deaf_until, now)
        return Receiver.drop(self, now, cause)

    cdef list tune(self, int channel, double now):
        """Change the channel at ``now`` (s); drop the signals that are arriving, and return them."""
        cdef list missed = self.drop(now, ASLEEP)
        self.channel = channel
        return missed

    cdef int is_busy(self, double since, double now) except -1:
        cdef Signal each
        cdef int64_t i
        cdef double width = time_tolerance(now), noise = 0.0
        cdef list begun = None
        self.see(now - width)
        if now < self.deaf_until - width or (self.locked is not None and self.locked.end > now - width):
            return True
        if not self.senses_power:
            return self.carrier_until(now, width) > since + width
        for i in range(self.count):
            each = <Signal>self.signals[i]
            if each.end > since + width and each.start < now - width and each.channel == self.channel:
                if begun is None:
                    begun = []
                begun.append(each)
        if self.noise is not None:
            noise = self.noise_at(now)
        if begun is None:
            return noise >= self.busy_from
        if self.as_ns3:
            if noise + power_at(begun, now, -width) >= self.busy_from:
                return True
            for each in begun:
                if each.start > since - width and noise + power_at(begun, each.start, width) >= self.busy_from:
                    return True
            return False
        for each in begun:
            if noise + power_at(begun, max(since, each.start), width) >= self.busy_from:
                return True
        return False

    cdef double noise_at(self, double time) except? -1.0:
        """Return the noise (mW) at ``time`` (s) by the phy's noise model."""
        return self.noise(self.seed, self.key, self.name, time)


cdef bint outranks(Signal one, Signal other) noexcept:
    """Return whether ``one`` ranks above ``other``: signals of neighbours rank first, then stronger signals."""
    cdef bint is_neighbour = (<RadioLink>one.link).index >= 0
    if is_neighbour != ((<RadioLink>other.link).index >= 0):
        return is_neighbour
    return one.power > other.power


cdef double power_at(list signals, double moment, double width) noexcept:
    """Return the total power (mW) at ``moment`` (s) of the signals that end later than ``moment + width`` (s)."""
    cdef Signal each
    cdef double total = 0.0
    for each in signals:
        if each.start <= moment and each.end > moment + width:
            total += each.power
    return total


# --- frames and links -------------------------------------------------------------------------------------------------

@cython.final
cdef class PendingFrame:
    """A frame whose outcome is not yet known on every link; see `netsim.radio.mac.PendingFrame`."""

    cdef int64_t number, bits
    cdef int32_t kind
    cdef Frame frame
    cdef int to
    cdef object outcome
    cdef double late_at, since, not_before, energy
    cdef list fragments
    # Both arrays have one element per link. `open`: 1 while the frame's outcome on the link is unknown, else 0.
    # `failed`: why the first fragment failed on the link; 0 if none did.
    cdef bytearray open, failed
    cdef int64_t n_open
    cdef int64_t index, retries, received, attempts, backoffs
    cdef double gain, watts
    cdef int then
    # The time by the sender's own clock of the event that the frame reports (NaN: none), and the event's age (s) when
    # the frame was last sent.
    cdef double moment, age
    # The true start and end (s) of the latest transmission (NaN: not sent yet), and its channel.
    cdef double began, ends
    cdef int channel
    # See `netsim.radio.mac.PendingFrame`.
    cdef Frame received_as
    cdef bint begun
    cdef int cause, ended

    cdef bint is_last(self) noexcept:
        return self.index == len(self.fragments) - 1

    cdef int fail(self, int link_index, int cause) except -1:
        """Record why a fragment failed on a link, unless an earlier fragment has already failed there."""
        if not self.failed[link_index]:
            self.failed[link_index] = cause
        return 0

    cdef bytes content(self, mtu):
        """Return the bytes of the frame that the current fragment carries."""
        cdef bytes data = self.frame.whole()
        if self.frame.carried is not None:
            age = None if self.age != self.age else self.age
            return self.frame.carried.content(data, self.index, age, self.moment == self.moment)
        return data if mtu is None else data[self.index * mtu : (self.index + 1) * mtu]

    cdef int set_outcome(self, bint acknowledged, bint metered, clock, bint complete) except -1:
        if self.outcome is not None and not self.outcome.done():
            energy = self.energy if metered else None
            when = local(clock, self.began), local(clock, self.ends), self.channel
            reason = records.ALL_CAUSES[self.ended]
            self.outcome.set_result(Delivery(acknowledged, self.attempts, self.backoffs, reason, energy, *when, complete))
        return 0


cdef double local(clock, double time) except? -1.0:
    """Return the reading (s) of a node's clock at a true time (s); ``clock`` is None if the node's clock is exact."""
    return time if clock is None else clock.local(time)


cdef struct Draws:
    # State of the random draws of losses and delays on one link, for the models that `Mac.draw` supports. `loss` is
    # the probability of a loss. The delay is uniform on [`low`, `low` + `width`), or always `low` if `width` < 0.
    # `count` is the number of draws so far. The draws equal those of `netsim.transport.path.Path`.
    double loss, low, width
    uint64_t loss_key, latency_key
    int64_t count


cdef class RadioLink:
    """A link from a sender to a node that its transmissions reach; see `netsim.radio.mac.RadioLink`."""

    cdef Mac mac
    cdef int index
    cdef double power, delay
    # The key that identifies the link in the draws of fading.
    cdef object key


@cython.final
cdef class NeighbourLink(RadioLink):
    """A link to a neighbour. A link that only interferes is a plain `RadioLink`, which saves memory."""

    # The neighbour's queue for the frames that arrive over this link.
    cdef ArrivalQueue arrivals
    # If `Mac.draw` does not support the link's models: the `Path` objects that decide the losses and delays of frames
    # and of acknowledgements. Otherwise None, and the draws below decide.
    cdef object path, ack_path
    # The draws of losses and delays: `draws` for frames, `ack_draws` for acknowledgements.
    cdef Draws draws, ack_draws
    # A cache for signals without interference: the power and noise floor of the last one, and its ln(1 − BER), where
    # BER is the bit error rate.
    cdef double clear_power, clear_floor, clear_success
    # The keys of the two streams of draws that decide whether frames and acknowledgements are received.
    cdef uint64_t chance_key, ack_chance_key
    # The number of draws so far from each of the two streams.
    cdef int64_t chances, ack_chances

    cdef double chance(self, bint is_ack) noexcept:
        """Return the uniform draw that decides whether a transmission is received."""
        if is_ack:
            self.ack_chances += 1
            return uniform(self.ack_chance_key, self.ack_chances - 1)
        self.chances += 1
        return uniform(self.chance_key, self.chances - 1)

    cdef double cross(self, double end, int64_t bits, bint is_ack, bint* lost) except? -1.0:
        """Return the arrival time (s) of a transmission that ends at ``end`` (s); set ``lost`` to 1 if it is lost."""
        cdef Draws* draws = &self.ack_draws if is_ack else &self.draws
        cdef double delay = draws.low
        path = self.ack_path if is_ack else self.path
        if path is not None:
            arrival, lost[0] = path.cross(end, bits)
            return arrival
        lost[0] = draws.loss != 0.0 and uniform(draws.loss_key, draws.count) < draws.loss
        if draws.width >= 0.0:
            delay += draws.width * uniform(draws.latency_key, draws.count)
        draws.count += 1
        return end + delay


@cython.final
cdef class Emission:
    """A fragment, acknowledgement or carrier on the air; see `netsim.radio.mac.Emission`."""

    cdef readonly double end
    cdef readonly bint is_ack, is_carrier
    cdef readonly list reached


# --- sleep and energy -------------------------------------------------------------------------------------------------

cdef class FastSchedule:
    """The methods of `netsim.radio.energy.Schedule` that run for each frame; `CompiledSchedule` inherits the others."""

    cdef public double period, offset
    cdef double _awake, _shortest
    cdef double[::1] starts, lengths

    def __init__(self, double period, windows, double offset):
        super().__init__(period, windows, offset)
        self._awake, self._shortest = self.awake, self.shortest
        self.starts, self.lengths = np.array(windows, dtype=np.float64).T.copy()

    cdef double rounding(self, double time) noexcept:
        cdef double ulp = nextafter(fabs(time), INFINITY) - fabs(time)
        return min(1e-9 * self.period, max(1e-3 * self._shortest, 4 * ulp))

    cdef double number(self, double time) noexcept:
        """Return the index of the period that contains ``time`` (s)."""
        return floor((time - self.offset + self.rounding(time)) / self.period)

    cpdef bint is_awake(self, double time) noexcept:
        cdef double phase = max(0.0, time - self.offset - self.number(time) * self.period)
        cdef double rounding = self.rounding(time)
        cdef Py_ssize_t i
        for i in range(self.starts.shape[0]):
            if self.starts[i] - rounding <= phase < self.starts[i] + self.lengths[i] - rounding:
                return True
        return False

    cpdef double next_awake(self, double time) noexcept:
        cdef double number = self.number(time), phase
        cdef Py_ssize_t i
        if self.is_awake(time):
            return time
        phase = max(0.0, time - self.offset - number * self.period)
        for i in range(self.starts.shape[0]):
            if self.starts[i] > phase:
                return number * self.period + self.offset + self.starts[i]
        return (number + 1) * self.period + self.offset + self.starts[0]

    cpdef double awake_seconds(self, double start, double end) noexcept:
        return self.until(end) - self.until(start)

    cdef double until(self, double time) noexcept:
        cdef double number = self.number(time), total = 0.0
        cdef double phase = max(0.0, time - self.offset - number * self.period)
        cdef Py_ssize_t i
        for i in range(self.starts.shape[0]):
            total += min(max(phase - self.starts[i], 0.0), self.lengths[i])
        return number * self._awake + total


class CompiledSchedule(FastSchedule, Schedule):
    """A `Schedule` whose methods that run for each frame are compiled."""


@cython.final
cdef class Reception:
    """A frame on whose reception a node spends energy; see `netsim.radio.energy.Reception`."""

    cdef public double start, end, watts


cdef struct Spent:
    # The seconds spent in each of the `STATES`, and the energy of bits (J).
    double sent, received, listened, slept, bits


cdef class FastMeter:
    """The methods of `netsim.radio.energy.Meter` that run for each frame; `CompiledMeter` inherits the others."""

    cdef public double _bit_energy, _since, sends_until, _hears_until, _bit_watts, transmit_watts, _more_watts
    cdef public double _more_energy, committed, allowance, died_at, dies_at, last_frame
    cdef public bint _on, _listening
    cdef public list _heard
    cdef public dict _part_seconds
    cdef Spent spent
    cdef double receive_watts, receive_bit
    cdef FastSchedule schedule

    def __init__(self, energy, FastSchedule schedule):
        super().__init__(energy, schedule)
        self.schedule, self.receive_watts, self.receive_bit = schedule, energy.receive, energy.receive_bit

    @property
    def _seconds(self):
        return self.spent.sent, self.spent.received, self.spent.listened, self.spent.slept

    @_seconds.setter
    def _seconds(self, seconds):
        self.spent.sent, self.spent.received, self.spent.listened, self.spent.slept = seconds

    cdef Spent lately(self, double now) except *:
        cdef Spent more
        cdef double since = self._since, sent, received, awake = 0.0
        cdef Reception each
        if not self._on or now <= since:
            more.sent = more.received = more.listened = more.slept = more.bits = 0.0
            return more
        sent = min(max(self.sends_until, since), now)
        received = min(max(self._hears_until, sent), now)
        if self._listening:
            awake = now - received if self.schedule is None else self.schedule.awake_seconds(received, now)
        more.bits = self._bit_watts * (sent - since)
        if self.receive_bit:
            for each in self._heard:
                if each.end > sent:
                    more.bits += each.watts * (min(each.end, now) - sent)
        more.sent, more.received, more.listened = sent - since, received - sent, awake
        more.slept = max(0.0, now - received - awake)
        return more

    def _lately(self, double now):
        cdef Spent more = self.lately(now)
        return more.sent, more.received, more.listened, more.slept, more.bits

    cdef int advance(self, double now) except -1:
        cdef Spent more
        if now > self._since:
            more = self.lately(now)
            self.spent.sent += more.sent
            self.spent.received += more.received
            self.spent.listened += more.listened
            self.spent.slept += more.slept
            self._bit_energy += more.bits
            self._more_energy += self._more_watts * more.sent
            if self._part_seconds:
                self._part_seconds = self.part_seconds(now)
            self._since = now
        return 0

    def _advance(self, double now):
        self.advance(now)

    cpdef double transmit(self, double start, double end, int64_t bits, double distance, double watts) except? -1.0:
        cdef double joules, until = 0.0, before = start - 2 * time_tolerance(start)
        cdef list heard = [each for each in self._heard if (<Reception>each).start < before]
        for each in heard:
            until = max(until, (<Reception>each).end)
        self._heard, self._hears_until = heard, until
        self.advance(start)
        joules = self.energy.to_send(bits, 0.0, distance)
        self.sends_until, self._bit_watts = end, self._watts(start, end, joules) if joules else 0.0
        self._more_watts = watts - <double>self.energy.transmit
        joules = watts * (end - start) + joules
        self.committed += joules
        return joules

    cpdef Reception receive(self, double start, double end, int64_t bits):
        cdef Reception reception = Reception.__new__(Reception)
        cdef double joules = self.receive_bit * bits, more
        self.advance(start)
        reception.start, reception.end = start, end
        if joules and end > start:
            reception.watts = joules / (end - start)
        elif joules:
            self._bit_energy += joules
        if start < self._hears_until:
            self._heard = [each for each in self._heard if (<Reception>each).end > start]
            self._heard.append(reception)
        else:
            self._heard = [reception]
        more = end - max(start, self._hears_until, self.sends_until)
        if more > 0:
            joules += self.receive_watts * more
        if end > self._hears_until:
            self._hears_until = end
        self.committed += joules
        return reception


class CompiledMeter(FastMeter, Meter):
    """A `Meter` whose methods that run for each frame are compiled."""


# --- the layer --------------------------------------------------------------------------------------------------------

ACCESS = ("aloha", "slotted_aloha", "csma")
"""The channel access methods of this module, in the order of the enum `Access`."""

cdef enum Access:
    ALOHA
    SLOTTED_ALOHA
    CSMA


@cython.final
cdef class Mac:
    """The MAC layer of one node; see `netsim.radio.mac.Mac`."""

    # The attributes that are read for each arriving signal come first, so that they share a CPU cache line.
    cdef readonly Receiver receiver
    cdef readonly FastMeter meter
    cdef readonly FastSchedule schedule
    cdef public bint on, listening
    cdef double heard_from
    cdef readonly object medium, name, wiring, inbox, clock
    cdef readonly int64_t number
    # The index of the node's first link in the network-wide order of links.
    cdef int64_t first
    cdef public set down
    cdef public dict subscribers
    cdef public object bursts
    cdef readonly Emission emission
    cdef public list sensers, distances
    cdef readonly dict link_index_of
    cdef public double gain
    cdef readonly int channel
    cdef bint tells_power, waits
    cdef EventQueue events
    cdef Tally tally
    cdef list links, deaf, log
    # {node number: link} for all nodes that this node's transmissions reach or have ever reached; None until the first
    # call of `set_power`.
    cdef dict reached
    # `has_phy`: the radio has a `Phy`. `concurs`: the powers of copies of one fragment may add up.
    cdef bint has_phy, concurs
    # The method `Phy.gain`; None if signals do not fade.
    cdef object fading
    # {purpose of draws, such as "loss": for each of the node's links, the key of its stream of draws}.
    cdef dict keys
    # The node's `Radio`, the `Link` of its transmitter, and its `Transmitter`.
    cdef object radio, link, transmitter
    cdef Access way
    cdef readonly bint acknowledges
    cdef int min_be, max_be, max_csma_backoffs, max_frame_retries, ack_kind
    cdef int64_t max_sifs_bits
    cdef double slot, unit_backoff, cca, turnaround, lifs, sifs, rate, share, most_queued, most_queued_bits
    # The key of the stream of random draws for back-offs.
    cdef uint64_t stream
    # The number of draws so far from this stream.
    cdef int64_t drawn
    # See the attributes with the same names in `netsim.radio.mac.Mac`.
    cdef object queue
    cdef int64_t queued_bits, turn, flush_count
    # Whether a jitter burst may delay the frames of the current arrival event.
    cdef bint in_burst
    cdef double silent_until
    # See the attributes `_bands` and `_silence` of `netsim.radio.mac.Mac`.
    cdef dict bands, silence
    cdef bint refuses
    cdef dict open
    # See the attributes with the same names in `netsim.radio.airtime.Counts`.
    cdef int64_t frames, retries, acks, duplicates, no_ack, busy, access_failures, silences
    cdef double airtime_s, ack_airtime_s, queueing_s, access_s, silence_s

    def __init__(self, medium, number, name, wiring, inbox, clock=None):
        radio, link = medium.radio, wiring.radio
        self.medium, self.radio, self.link = medium, radio, link
        self.number, self.name, self.wiring, self.inbox, self.clock = number, name, wiring, inbox, clock
        self.first = wiring.first
        self.events, self.tally, self.log = medium.events, medium.tally, medium.airtime.log
        streams = ("loss", "latency", "ack loss", "ack latency")[: 4 if radio.acks else 2]
        phy = radio.phy
        if phy is not None:
            streams += ("reception", "ack reception")
        self.keys = {name: draws.stream_keys(medium.seed, wiring.keys, name) for name in streams}
        self.has_phy = phy is not None
        self.fading = None if phy is None or phy.fading is None else phy.gain
        self.concurs = phy is not None and phy.concurrent_s > 0.0
        if phy is None:
            self.receiver = Receiver()
            self.receiver.captures_above = radio.captures_above
        else:
            self.receiver = SinrReceiver(phy, radio, medium.seed, draws.name_key(name), name)
        self.gain, self.listening = 1.0, True
        self.tells_power = phy is not None or radio.powers is not None
        self.heard_from = 10.0 ** (radio.weakest_dbm / 10.0)
        cycle, energy = radio.cycle_of(name), radio.energy_of(name)
        if cycle is not None:
            schedule = cycle.of(name, clock)
            self.schedule = CompiledSchedule(schedule.period, schedule.windows, schedule.offset)
        self.meter = None if energy is None else CompiledMeter(energy, self.schedule)
        self.down, self.subscribers, self.bursts = set(), {}, Bursts()
        self.on = True
        self.links, self.deaf, self.sensers, self.distances, self.link_index_of = [], [], [], [], {}
        self.transmitter = Transmitter(link, medium.round_period)
        self.way = ACCESS.index(radio.access_of(name))
        self.acknowledges, self.ack_kind = radio.acks, medium.ack_kind
        self.min_be, self.max_be, self.max_csma_backoffs = radio.min_be, radio.max_be, radio.max_csma_backoffs
        self.max_frame_retries, self.slot = radio.max_frame_retries, radio.slot or 0.0
        self.unit_backoff, self.cca, self.turnaround = radio.unit_backoff, radio.cca, radio.turnaround
        self.lifs, self.sifs, self.max_sifs_bits = radio.lifs, radio.sifs, radio.max_sifs_bits
        self.share, self.bands, self.silence = radio.share_of(name), radio.band_of, {}
        self.refuses = radio.refuses_silent
        # 0 makes `seconds` call `Radio.seconds`, which applies the ``Radio.airtime`` model.
        self.rate = link.rate if radio.airtime is None else 0.0
        self.most_queued, self.most_queued_bits = link.queue or inf, link.queue_bits or inf
        key = np.array([draws.name_key(name)], dtype=np.uint64)
        self.stream = draws.stream_keys(medium.seed, key, "back-off")[0]
        self.queue, self.open = deque(), {}

    def reach(self, Mac mac, int index, double power, double delay):
        """Add a link to a node that this node's transmissions reach.

        ``index`` is the index of the link if the node is a neighbour, or −1 if the transmissions only interfere there.
        """
        link = self.link_to(mac, index, power, delay)
        self.links.append(link)
        if self.reached is not None:
            self.reached[mac.number] = link

    def reach_deaf(self, Mac mac, int index):
        """Add a neighbour to which the link loses every frame."""
        self.deaf.append(self.link_to(mac, index, 0.0, 0.0))

    def set_power(self, Mac mac, double power):
        """Set the power (mW) at which later transmissions reach a node; with 0 they no longer reach it."""
        cdef RadioLink link
        if self.reached is None:
            self.reached = {(<RadioLink>each).mac.number: each for each in self.links}
        link = self.reached.get(mac.number)
        if link is None:
            if power > 0.0:
                self.reach(mac, -1, power, 0.0)
            return
        if link.index < 0 and (link.power > 0.0) != (power > 0.0):
            self.links = [each for each in self.links if each is not link]
            if power > 0.0:
                self.links.append(link)
        link.power = power

    # --- in the agent's hand ------------------------------------------------------------------------------------------

    def tune(self, int channel, double now):
        """Change the channel after all queued frames have ended, or at ``now`` (s) if the queue is empty."""
        self.events.catch_up(now)
        self.channel = channel
        if self.queue:
            (<PendingFrame>self.queue[len(self.queue) - 1]).then = channel
        else:
            self.tune_to(channel, now)

    cdef int tune_to(self, int channel, double now) except -1:
        """Change the channel at ``now`` (s); frames being received are lost."""
        if channel != self.receiver.channel:
            self.miss(self.receiver.tune(channel, now), now)
        return 0

    def listen(self, bint on, double now):
        """Switch the receiver on or off at ``now`` (s), as the agent asked; switching off loses arriving frames."""
        self.events.catch_up(now)
        if self.listening and not on:
            self.miss(self.receiver.drop(now, ASLEEP), now)
        self.listening = on
        if on and self.waits:
            self.waits = False
            self.contend(now)

    cdef bint waits_until_on(self) noexcept:
        self.waits = not self.listening
        return self.waits

    def hears(self, double now):
        """Return whether a signal that may still be received is arriving at ``now`` (s)."""
        self.events.catch_up(now)
        return bool(self.receiver.hears(now))

    def senses(self, double now):
        """Return whether a clear channel assessment that ends at ``now`` (s) finds the channel busy."""
        self.events.catch_up(now)
        return bool(self.receiver.is_busy(now - self.cca, now))

    cdef int miss(self, list signals, double now) except -1:
        cdef Signal signal
        for signal in signals:
            if signal.reception is not None and self.meter is not None:
                self.meter.hears_no_more(signal.reception, now)
                self.medium.watch.plan(self, now)
        return 0

    # --- building -----------------------------------------------------------------------------------------------------

    cdef RadioLink link_to(self, Mac mac, int index, double power, double delay):
        cdef RadioLink link = NeighbourLink.__new__(NeighbourLink) if index >= 0 else RadioLink.__new__(RadioLink)
        link.mac, link.index, link.power, link.delay = mac, index, power, delay
        if self.fading is not None:
            # Sort the ends, so that both directions of a link have the same key and therefore the same fading.
            ends = sorted([draws.name_key(each) for each in (self.name, mac.name)])
            link.key = int(draws.link_keys(*[np.array([each], dtype=np.uint64) for each in ends])[0])
        if index >= 0:
            self.set_up(<NeighbourLink>link)
        return link

    cdef int set_up(self, NeighbourLink link) except -1:
        """Set the queue in which a link's frames arrive, and the link's draws."""
        cdef int index = link.index
        if self.has_phy:
            link.chance_key = self.keys["reception"][index]
            link.ack_chance_key = self.keys["ack reception"][index]
        self.link_index_of[link.mac.number] = index
        link.arrivals = self.wiring.inboxes[index].arrivals
        link.path = self.draw(&link.draws, index, "")
        if self.acknowledges:
            link.ack_path = self.draw(&link.ack_draws, index, "ack ")
        return 0

    cdef object draw(self, Draws* to, int index, str purpose):
        """Set up a link's draws and return None; if the link's models are unsupported, return a `Path` instead.

        Supported are Bernoulli losses per frame with fixed or uniform delays, without ``corrupt`` and ``fifo``.
        """
        link = self.wiring.links[index]
        loss, latency = link.loss_model, link.latency_model
        is_uniform = type(latency) is Uniform
        is_usual = type(loss) is Bernoulli and link.loss_bits is None and not (link.corrupt or link.fifo)
        if not is_usual or (latency.fixed is None and not is_uniform):
            return Path(link, self.wiring.keys[index : index + 1], self.medium.seed, purpose)
        to.loss, to.loss_key = loss.mean, self.keys[purpose + "loss"][index]
        to.latency_key = self.keys[purpose + "latency"][index]
        to.low, to.width = (latency.low, latency.high - latency.low) if is_uniform else (latency.fixed, -1.0)
        to.count = 0
        return None

    @property
    def access(self):
        """The node's channel access method."""
        return ACCESS[self.way]

    @property
    def counts(self):
        """The node's counts so far."""
        return Counts(self.frames, self.retries, self.acks, self.duplicates, self.no_ack, self.busy,
                      self.access_failures, self.airtime_s, self.ack_airtime_s, self.queueing_s, self.access_s,
                      self.silences, self.silence_s)

    # --- taking frames ------------------------------------------------------------------------------------------------

    def take(self, double now, int64_t number, int32_t kind, Frame frame, int to, outcome, double late_at, event=None):
        """Queue a frame at ``now`` (s); return 0, or the drop reason if the frame is rejected."""
        cdef PendingFrame pending
        cdef Py_ssize_t n_links = len(self.wiring.links)
        cdef int64_t bits, stamp = 0 if event is None else STAMP_BITS // 8
        cdef double not_before = now
        self.events.catch_up(now)
        if not self.on:
            return LINK_DOWN
        if frame.carried is None:
            fragments = self.transmitter.fragments(frame.size() + stamp)
        else:
            fragments = [8 * (size + stamp) + self.link.header_bits for size in frame.carried.sizes]
        bits = sum(fragments)
        if len(self.queue) >= self.most_queued or self.queued_bits + bits > self.most_queued_bits:
            return QUEUE_FULL
        if self.transmitter.release is not None:
            not_before = self.transmitter.release(now, bits)
            if not_before == INFINITY:
                return REFUSED
        pending = PendingFrame.__new__(PendingFrame)
        pending.number, pending.kind, pending.frame, pending.to = number, kind, frame, to
        pending.outcome, pending.late_at, pending.fragments, pending.bits = outcome, late_at, fragments, bits
        pending.since, pending.not_before = now, not_before
        pending.gain, pending.watts, pending.then = self.gain, self.watts(), -1
        pending.moment = NAN if event is None else event
        pending.began = pending.ends = NAN
        pending.channel = -1
        pending.failed = bytearray(n_links)
        if to < 0:
            pending.open, pending.n_open = bytearray(b"\x01") * n_links, n_links
        else:
            pending.open, pending.n_open = bytearray(n_links), 1
            pending.open[to] = 1
        if pending.n_open:
            self.open[number] = pending
        self.queued_bits += bits
        self.queue.append(pending)
        if len(self.queue) == 1:
            self.contend(max(now, not_before))
        return 0

    def under_way(self):
        """Return (ledger key, kind id) for each frame on each link where its outcome is still unknown."""
        cdef PendingFrame pending
        found = []
        for pending in self.open.values():
            found += [(self.key(i, pending), pending.kind) for i in range(len(pending.open)) if pending.open[i]]
        return found

    cdef int64_t key(self, int link_index, PendingFrame pending) noexcept:
        return (self.first + link_index << self.tally.shift) + pending.number

    cdef bint is_present(self, PendingFrame pending) except -1:
        return len(self.queue) > 0 and self.queue[0] is pending

    cdef int finish(self, double now, bint acknowledged, bint complete) except -1:
        """Remove the current frame from the queue, set its outcome, and start with the next frame."""
        cdef PendingFrame pending = self.queue.popleft()
        self.queued_bits -= pending.bits
        if self.meter is not None:
            self.meter.last_frame = pending.energy
        pending.set_outcome(acknowledged, self.meter is not None, self.clock, complete)
        if pending.then >= 0:
            self.tune_to(pending.then, now)
        if self.queue:
            pending = self.queue[0]
            self.contend(max(now, pending.not_before))
        return 0

    # --- events -------------------------------------------------------------------------------------------------------

    cdef Event event(self, What what, PendingFrame pending=None, int64_t turn=0):
        cdef Event event = Event.__new__(Event)
        event.what, event.mac, event.flushed, event.pending, event.turn = what, self, -1, pending, turn
        return event

    cdef int at(self, double time, Event event) except -1:
        """Schedule an event of this node at ``time`` (s); switching the node off before then drops the event."""
        event.flushed = self.flush_count
        return self.events.at(time, event)

    cdef int run(self, Event event, double now) except -1:
        """Process an event of this node at ``now`` (s), unless the node was switched off after it was scheduled."""
        if event.flushed >= 0 and not (self.on and event.flushed == self.flush_count):
            return 0
        if event.what == ASSESSED:
            return self.assessed(event.turn, now)
        if event.what == REFUSE:
            return self.give_up(now, REFUSED)
        if event.what == START:
            return self.start(now)
        if event.what == ARRIVE:
            return self.arrive(event, now)
        if event.what == SENT:
            return self.sent(event.pending, now)
        if event.what == NO_ACK:
            return self.gets_no_ack(event.turn, now)
        if event.what == ACKNOWLEDGE:
            return self.acknowledge(event.sender, event.pending, event.turn, now)
        return self.acknowledged(event, now)

    # --- access -------------------------------------------------------------------------------------------------------

    cdef int contend(self, double at) except -1:
        """Contend for the channel on behalf of the current fragment, from the time ``at`` (s) on."""
        cdef PendingFrame pending = self.queue[0]
        cdef double begin, silence
        if self.waits_until_on():
            return 0
        at = max(at, self.silent_until)
        if self.share > 0.0:
            silence = self.silence.get(self.band(), 0.0)
            if silence > at + time_tolerance(at):
                if self.refuses:
                    return self.at(at, self.event(REFUSE))
                self.silences += 1
                self.silence_s += silence - at
            at = max(at, silence)
        begin = self.awake_from(at)
        self.queueing_s += begin - pending.since
        pending.since = begin
        return self.seek_access(begin, pending.retries)

    cdef int band(self) except -2:
        """Return the index of the radio channel's band, or −1 if the channel is in no band."""
        return self.bands.get(self.receiver.channel, -1) if self.bands else -1

    cdef double awake_from(self, double time) except? -1.0:
        return time if self.schedule is None else self.schedule.next_awake(time)

    cdef int64_t units(self, int64_t failures) except -1:
        """Draw a random back-off, as a number of back-off units, after ``failures`` failed attempts."""
        cdef int64_t most = 1
        most <<= min(self.min_be + failures, <int64_t>self.max_be)
        self.drawn += 1
        (<PendingFrame>self.queue[0]).backoffs += 1
        return <int64_t>(uniform(self.stream, self.drawn - 1) * most)

    cdef int seek_access(self, double at, int64_t retries) except -1:
        cdef double first, later
        if self.way == ALOHA:
            later = self.units(retries - 1) * self.unit_backoff if retries else 0.0
            return self.at(self.awake_from(at + later), self.event(START))
        if self.way == SLOTTED_ALOHA:
            at = self.awake_from(at)
            later = self.units(retries - 1) if retries else 0.0
            first = ceil((at - time_tolerance(at)) / self.slot)
            return self.at(max(at, (first + later) * self.slot), self.event(START))
        return self.back_off(at, 0)

    cdef int back_off(self, double at, int64_t busy) except -1:
        cdef double wait = self.units(busy) * self.unit_backoff, begin = self.awake_from(at) + wait
        cdef double awake = self.awake_from(begin)
        if awake != begin:
            begin = awake + wait
        return self.at(begin + self.cca, self.event(ASSESSED, None, busy))

    cdef int assessed(self, int64_t busy, double now) except -1:
        if self.waits_until_on():
            return 0
        if not self.receiver.is_busy(now - self.cca, now):
            self.receiver.turn(now, now + self.turnaround)
            return self.at(now + self.turnaround, self.event(START))
        self.busy += 1
        if busy == self.max_csma_backoffs:
            self.access_failures += 1
            return self.give_up(now, ACCESS_FAILED)
        return self.back_off(now, busy + 1)

    # --- sending ------------------------------------------------------------------------------------------------------

    cdef double seconds(self, int64_t bits) except -1.0:
        """Return the time on the air (s) of ``bits`` bits."""
        return bits / self.rate if self.rate > 0.0 else self.radio.seconds(bits, self.link)

    cdef int start(self, double now) except -1:
        """Send the current fragment, unless the radio is off or still sending, or the battery is empty."""
        cdef PendingFrame pending = self.queue[0]
        cdef double seconds, units
        if self.is_battery_empty(now) or self.waits_until_on():
            return 0
        if self.receiver.sends_until > now + time_tolerance(now):
            return self.seek_access(self.receiver.sends_until, pending.retries)
        seconds = self.seconds(pending.fragments[pending.index])
        self.frames += 1
        self.retries += pending.retries > 0
        self.airtime_s += seconds
        self.access_s += now - pending.since
        self.turn += 1
        pending.begun = True
        pending.attempts += 1
        pending.began, pending.ends, pending.channel = now, now + seconds, self.receiver.channel
        if pending.moment == pending.moment:
            units = rint((local(self.clock, now) - pending.moment) / MICROSECOND)
            pending.age = max(units, 0.0) * MICROSECOND if units <= MOST_UNITS else NAN
        if self.share > 0.0:
            self.silence[self.band()] = now + seconds + seconds * (1.0 / self.share - 1.0)
        return self.transmit(pending, now, now + seconds)

    def carry(self, double now, double end):
        """Emit a carrier from ``now`` to ``end`` (s): power without a frame, so no receiver locks on it."""
        cdef double width = time_tolerance(now)
        cdef int channel = self.receiver.channel
        cdef list reached = []
        cdef RadioLink link
        cdef Signal signal
        cdef Receiver receiver
        self.events.catch_up(now)
        if self.is_battery_empty(now):
            return
        self.spend(now, end, 0, -1, self.watts())
        self.receiver.send(now, end)
        self.emission = Emission.__new__(Emission)
        self.emission.end, self.emission.is_carrier, self.emission.reached = end, True, reached
        for each in self.links:
            link = <RadioLink>each
            signal = Signal.__new__(Signal)
            signal.link, signal.power = <void*>link, link.power * self.gain
            signal.channel, signal.cause = channel, LOST
            signal.start, signal.end = now + link.delay, end + link.delay
            if self.fading is not None:
                ends = self.name, link.mac.name
                signal.power *= <double>self.fading(self.medium.seed, link.key, channel, ends, signal.start)
            link.mac.receiver.hear(signal, now, width)
            reached.append(signal)
        for receiver in self.sensers:
            if receiver.channel == channel:
                receiver.sense(now, end, width)

    def leave_unsent(self, double seconds):
        """Correct the counts after an abort: the last ``seconds`` of the current emission are not sent."""
        if self.emission.is_ack:
            self.ack_airtime_s -= seconds
            return
        self.airtime_s -= seconds
        if self.share > 0.0:
            self.silence[self.band()] -= seconds / self.share

    cdef bint is_battery_empty(self, double now) except -1:
        return self.meter is not None and self.meter.dies_at <= now

    cdef int sent(self, PendingFrame pending, double now) except -1:
        """Handle the end of a sent fragment: wait for its acknowledgement, or go on to the next fragment or frame."""
        # An emission that is still going on is not the fragment but an acknowledgement, which this node began to send
        # at this instant (within the time tolerance).
        if self.emission is not None and self.emission.end <= now:
            self.emission = None
        if not self.is_present(pending):
            return 0
        pending.since = now
        if pending.to < 0 or not self.acknowledges:
            return self.fragment_done(now)
        wait = self.radio.wait_for_ack(self.link)
        return self.at(now + <double>wait + time_tolerance(now), self.event(NO_ACK, None, self.turn))

    cdef int acknowledged(self, Event event, double now) except -1:
        """Handle an arriving acknowledgement: if it is intact and of the current turn, go on to the next fragment."""
        if self.receiver.fate(<Signal>event.signals[0], now) or not self.inbox.arrivals.up:
            return 0
        if self.is_present(event.pending) and event.turn == self.turn and self.on:
            self.turn += 1
            event.pending.since = now
            return self.fragment_done(now)
        return 0

    cdef int gets_no_ack(self, int64_t turn, double now) except -1:
        cdef PendingFrame pending
        if turn != self.turn:
            return 0
        pending = self.queue[0]
        self.turn += 1
        self.no_ack += 1
        pending.since = now
        if pending.retries == self.max_frame_retries:
            return self.give_up(now, pending.cause or LOST)
        pending.retries += 1
        return self.contend(now)

    cdef int fragment_done(self, double now) except -1:
        cdef PendingFrame pending = self.queue[0]
        cdef double space
        if self.way == CSMA:
            space = self.sifs if <int64_t>pending.fragments[pending.index] <= self.max_sifs_bits else self.lifs
            self.silent_until = max(self.silent_until, now + space)
        if pending.is_last():
            return self.finish(now, pending.to >= 0 and self.acknowledges, True)
        pending.index += 1
        pending.retries = 0
        return self.contend(now)

    cdef int give_up(self, double now, int cause) except -1:
        self.end_all(self.queue[0], now, cause)
        return self.finish(now, False, False)

    # --- on the air ---------------------------------------------------------------------------------------------------

    cdef int transmit(self, PendingFrame pending, double now, double end) except -1:
        """Send the current fragment from ``now`` to ``end`` (s), and schedule the arrivals of its signals."""
        cdef Event event
        if self.tally.keeps and pending.index == 0 and pending.retries == 0:
            for each in range(len(pending.open)) if pending.to < 0 else (pending.to,):
                self.tally.left(now, self.key(each, pending), pending.number, pending.bits)
        arrivals = self.emit(pending, now, end, pending.kind, pending.fragments[pending.index], pending.to)
        for arrival, signals in arrivals.items():
            event = self.event(ARRIVE, pending, self.turn)
            event.index, event.signals, event.age = pending.index, signals, pending.age
            self.events.at(arrival, event)
        return self.events.at(end, self.event(SENT, pending))

    cdef int acknowledge(self, Mac sender, PendingFrame pending, int64_t turn, double now) except -1:
        """Acknowledge the fragment that ``sender`` sent in turn ``turn``, if this node still can.

        It cannot if it is sending or its battery is empty, or if the sender is on another channel or in another turn.
        """
        cdef Event event
        cdef double end
        cdef bint busy = self.receiver.sends_until > now + time_tolerance(now)
        busy = busy or self.receiver.channel != sender.receiver.channel
        if busy or turn != sender.turn or self.is_battery_empty(now):
            return 0
        bits, to = self.radio.ack_bits, self.link_index_of[sender.number]
        end = now + self.seconds(bits)
        self.acks += 1
        self.ack_airtime_s += end - now
        [(arrival, signals)] = self.emit(pending, now, end, self.ack_kind, bits, to).items()
        event = sender.event(ACKNOWLEDGED, pending, turn)
        event.signals = signals
        return self.events.at(arrival, event)

    cdef double watts(self) except? -1.0:
        """Return the power (W) drawn while sending at the current transmit power."""
        return 0.0 if self.meter is None else self.meter.transmit_watts

    cdef dict emit(self, PendingFrame pending, double now, double end, int32_t kind, int64_t bits, int to):
        """Emit from ``now`` to ``end`` (s) on link ``to`` (−1: all); return the addressees' signals by arrival time."""
        cdef bint is_ack = kind == self.ack_kind, may_lose = False, is_target, lost = False
        cdef double width = time_tolerance(now), joules, arrival, last = -1.0, power = 0.0
        cdef double gain = self.gain if is_ack else pending.gain
        cdef dict arrivals = {}
        cdef list reached = [], together = None
        cdef RadioLink link
        cdef Signal signal
        cdef Receiver receiver
        cdef int channel = self.receiver.channel
        cdef tuple content = None
        joules = self.spend(now, end, bits, to, self.watts() if is_ack else pending.watts)
        if not is_ack:
            pending.energy += joules
            if self.concurs:
                data = pending.frame.whole()
                content = (without_sender(data) if pending.frame.carried is None else data, pending.index)
        may_lose = not is_ack and <bint>self.bursts.matter
        self.tally.aired(self.number, kind, bits)
        self.receiver.send(now, end)
        self.emission = Emission.__new__(Emission)
        self.emission.end, self.emission.is_ack, self.emission.reached = end, is_ack, reached
        for each in self.links:
            link = <RadioLink>each
            is_target = link.index >= 0 and (to < 0 or to == link.index)
            signal = Signal.__new__(Signal)
            signal.link, signal.power = <void*>link, link.power * gain
            signal.bits, signal.channel, signal.content = bits, channel, content
            if is_target:
                arrival = (<NeighbourLink>link).cross(end, bits, is_ack, &lost)
                if may_lose and self.bursts.loses(link.index):
                    lost = True
                signal.start, signal.end, signal.lost = now + (arrival - end), arrival, lost
                if self.down and link.index in self.down:
                    signal.cause = LINK_DOWN
                if self.has_phy:
                    signal.draw = (<NeighbourLink>link).chance(is_ack)
                if together is None or arrival != last:
                    together, last = arrivals.setdefault(arrival, []), arrival
                together.append(signal)
            else:
                signal.start, signal.end = now + link.delay, end + link.delay
            if link.index >= 0 or self.has_phy:
                link.mac.begin_reception(signal, now, end, bits, is_ack and is_target)
            if self.fading is not None:
                ends = self.name, link.mac.name
                signal.power *= <double>self.fading(self.medium.seed, link.key, channel, ends, signal.start)
            link.mac.receiver.hear(signal, now, width)
            reached.append(signal)
            if is_target:
                power = signal.power
        if self.log is not None:
            row = (self.number, self.first + to if to >= 0 else -1, kind, pending.number, pending.index)
            power = power if to >= 0 and self.radio.powers is not None else 0.0
            data = b"" if is_ack else pending.content(self.link.mtu)
            self.log.append((now, end, *row, pending.retries, bits, channel, power, data, True))
        for link in self.deaf:
            if to < 0 or to == link.index:
                signal = Signal.__new__(Signal)
                signal.link, signal.start, signal.end = <void*>link, now, end
                signal.cause = LINK_DOWN if link.index in self.down else LOST
                if not link.mac.on or link.mac.is_battery_empty(now):
                    signal.spoil(RECEIVER_DOWN)
                link.mac.receiver.hear(signal, now, width)
                arrivals.setdefault(end, []).append(signal)
        for receiver in self.sensers:
            if receiver.channel == channel:
                receiver.sense(now, end, width)
        return arrivals

    cdef double spend(self, double now, double end, int64_t bits, int to, double watts) except? -1.0:
        """Charge this node for an emission on link ``to`` (−1: all) at the power ``watts``; return the energy (J)."""
        cdef double joules
        distances = self.distances
        if self.meter is None:
            return 0.0
        distance = 0.0 if not distances else distances[to] if to >= 0 else max(distances)
        joules = self.meter.transmit(now, end, bits, distance, watts)
        self.watch_battery(now)
        return joules

    cdef int begin_reception(self, Signal signal, double now, double end, int64_t bits, bint awaits) except -1:
        """Drop a signal that this node cannot receive, or meter the energy that the node spends to hear it.

        A node that is off, asleep or on another channel drops the signal. If ``awaits``, the signal is an
        acknowledgement for this node, which receives it even while asleep. Hearing a signal costs energy only if it
        comes from a neighbour and is strong enough, and this node is not sending.
        """
        if not self.on or self.is_battery_empty(now):
            signal.spoil(RECEIVER_DOWN)
        elif signal.channel != self.receiver.channel or not (awaits or self.is_awake(now)):
            signal.spoil(ASLEEP)
        elif (<RadioLink>signal.link).index < 0 or self.meter is None or signal.power < self.heard_from:
            return 0
        elif self.receiver.sends_until <= now + time_tolerance(now):
            signal.reception = self.meter.receive(now, end, bits)
            self.watch_battery(now)
        return 0

    cdef bint is_awake(self, double now) except -1:
        return self.listening and (self.schedule is None or self.schedule.is_awake(now))

    cdef int watch_battery(self, double now) except -1:
        if self.meter.committed > self.meter.allowance:
            self.medium.watch.plan(self, now)
        return 0

    # --- outcomes of a frame ------------------------------------------------------------------------------------------

    cdef int arrive(self, Event event, double now) except -1:
        """Decide the outcome of a fragment at the receivers of the event's signals, which end at ``now`` (s)."""
        cdef Signal signal
        cdef NeighbourLink link
        self.in_burst = self.bursts.matter
        for each in event.signals:
            signal = <Signal>each
            link = <NeighbourLink>signal.link
            cause = link.mac.receiver.fate(signal, now) if link.arrivals.up else RECEIVER_DOWN
            self.arrived(event, signal, link, cause, now)
        return 0

    cdef int arrived(self, Event event, Signal signal, NeighbourLink link, int cause, double now) except -1:
        """Record that a neighbour received a fragment or, if ``cause`` is not 0, why not."""
        cdef PendingFrame pending = event.pending
        cdef Event answer
        if pending.to >= 0 and self.acknowledges:
            cause = cause or <int>pending.failed[link.index]
            pending.cause = cause or self.take_in(event, signal, link, now)
            if not pending.cause:
                answer = link.mac.event(ACKNOWLEDGE, pending, event.turn)
                answer.sender = self
                link.mac.receiver.turn(now, now + self.turnaround)
                link.mac.at(now + self.turnaround, answer)
            return 0
        if cause:
            pending.fail(link.index, cause)
        if event.index == len(pending.fragments) - 1 and pending.open[link.index]:
            cause = <int>pending.failed[link.index] or self.deliver(event, signal, link, now)
            if cause:
                self.ended(pending, link.index, now, cause)
        return 0

    cdef int take_in(self, Event event, Signal signal, NeighbourLink link, double now) except -1:
        """Receive a fragment that needs an acknowledgement; return 0, or the drop reason."""
        cdef PendingFrame pending = event.pending
        cdef int cause = 0
        if event.index < pending.received:
            link.mac.duplicates += 1
            return 0
        if event.index == len(pending.fragments) - 1 and pending.open[link.index]:
            cause = self.deliver(event, signal, link, now)
        pending.received += not cause
        return cause

    cdef int deliver(self, Event event, Signal signal, NeighbourLink link, double now) except -1:
        """Put a frame into the neighbour's arrival queue; return 0, or `CORRUPTED` if it is dropped as damaged."""
        cdef PendingFrame pending = event.pending
        cdef Frame frame = pending.frame
        cdef double time = now, late_at = pending.late_at
        cdef bint corrupted = False, shared
        cdef double began = local(link.mac.clock, signal.start), moment
        path = link.path
        if path is not None:
            time, corrupted = path.arrive(now)
        if self.in_burst:
            [(time, corrupted)] = self.bursts.delayed(link.index, [(time, corrupted)])
        if corrupted:
            crc = self.wiring.links[link.index].crc
            received = None if crc else damaged(frame, path.damaged_share(), self.medium.names, self.medium.kinds)
            if received is None:
                return CORRUPTED
            frame, late_at = received, -INFINITY
        shared = not (self.tells_power or corrupted)
        if shared and pending.received_as is not None and pending.received_as.first_bit == began:
            frame = pending.received_as
        else:
            moment = began - event.age if pending.moment == pending.moment else NAN
            if shared and not frame.stamped:
                # No other receiver has this frame yet, so it can be changed instead of copied.
                frame.stamped, frame.first_bit, frame.moment = True, began, moment
            else:
                frame = frame.heard(began, moment)
            if self.tells_power:
                frame.measured = True
                frame.power, frame.noise, frame.interference = signal.power + signal.joined, signal.floor, signal.noise
            if shared:
                pending.received_as = frame
        link.arrivals.add(time, self.key(link.index, pending), pending.kind, frame)
        if not frame.plain or time >= late_at:
            link.arrivals.careful = True
        self.close(pending, link.index)
        if self.subscribers and link.index in self.subscribers:
            self.subscribers[link.index].watch()
        return 0

    cdef int end_all(self, PendingFrame pending, double now, int cause) except -1:
        """Count a frame as not delivered on every link where its outcome is still unknown."""
        cdef int link_index
        for link_index in range(len(pending.open)):
            if pending.open[link_index]:
                self.ended(pending, link_index, now, <int>pending.failed[link_index] or cause)
        return 0

    cdef int ended(self, PendingFrame pending, int link_index, double now, int cause) except -1:
        """Count a frame as not delivered on one link, with the drop reason ``cause``."""
        self.tally.count_outcome(now, self.key(link_index, pending), pending.kind, cause)
        pending.ended = cause
        return self.close(pending, link_index)

    cdef int close(self, PendingFrame pending, int link_index) except -1:
        pending.open[link_index] = 0
        pending.n_open -= 1
        if pending.n_open == 0:
            del self.open[pending.number]
        return 0

    def on_neighbour_off(self, Mac neighbour):
        """Mark partly sent frames as failed at a neighbour that was switched off: it lost the fragments it had."""
        cdef PendingFrame pending
        cdef int link_index = self.link_index_of[neighbour.number]
        for pending in self.open.values():
            if pending.open[link_index] and (pending.index or pending.received):
                pending.fail(link_index, RECEIVER_DOWN)

    def flush(self, double now):
        """Drop all queued frames: a frame that was sent at least once counts as lost, any other frame as refused."""
        cdef PendingFrame pending
        self.flush_count += 1
        self.waits = False
        self.queued_bits = 0
        waiting, self.queue = self.queue, deque()
        for pending in waiting:
            self.end_all(pending, now, (pending.cause or LOST) if pending.begun else REFUSED)
            pending.set_outcome(False, self.meter is not None, self.clock, False)
