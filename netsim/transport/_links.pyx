# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: embedsignature=False, always_allow_keywords=True
"""Compiled classes that carry a frame over a link: budget, fragments, queue and rate; loss, latency and copies.

The Python twin of each class defines and documents its behaviour (`netsim.transport.stages` names the modules). Tests
check that random draws, times, causes and counts of both are equal. Bernoulli and Gilbert-Elliott losses and constant
and uniform delays are compiled. For other models, and for varying rates, Python code is called.
"""

from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.set cimport PySet_Contains, PySet_GET_SIZE
from libc.math cimport INFINITY, fabs, floor, nextafter, pow
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t
cimport cython

from netsim.core._core cimport ArrivalQueue, BroadcastPath, Frame, Tally, mix, uniform

from functools import lru_cache

from netsim.core.framing import damaged
from netsim.core.records import CORRUPTED, LINK_DOWN, LOST, QUEUE_FULL, REFUSED, TO_ALL
from netsim.links.latency import Constant as ConstantLatency
from netsim.links.latency import Uniform as UniformLatency
from netsim.links.loss import LAST_SLOT as _LAST_SLOT
from netsim.links.loss import Bernoulli, Clocked, GilbertElliott, slots_key
from netsim.transport.path import Delays, catch_up
from netsim.transport.transmitter import bit_limit, transmitters_of
from netsim.util import draws

cdef int C_CORRUPTED = CORRUPTED, C_LINK_DOWN = LINK_DOWN, C_LOST = LOST
cdef int C_QUEUE_FULL = QUEUE_FULL, C_REFUSED = REFUSED, ACCEPTED = 0
cdef int64_t ALL_LINKS = TO_ALL, LAST_SLOT = _LAST_SLOT

# {cause of rejection: the name that `Transmitter.accept` returns for it}
_NAMES = {ACCEPTED: "", QUEUE_FULL: "queue_full", REFUSED: "refused"}


cdef struct Fragment:
    int64_t bits
    double end


cdef struct Departure:
    # The fields mean the same as in `netsim.transport.transmitter.Departure`. The array `fragments` has `room`
    # elements, of which `count` are used. `number` is the number of the transmission.
    int cause
    double start
    int64_t bits, count, room, number
    Fragment* fragments


cdef int reserve(Departure* sent, int64_t count) except -1:
    """Set the number of fragments, and enlarge their array if necessary."""
    cdef Fragment* grown
    if count > sent.room:
        grown = <Fragment*>PyMem_Realloc(sent.fragments, count * sizeof(Fragment))
        if grown == NULL:
            raise MemoryError
        sent.fragments, sent.room = grown, count
    sent.count = count
    return 0


cdef inline double tolerance(double now) noexcept nogil:
    """Return the rounding tolerance (s) near ``now``, as `netsim.transport.transmitter.time_tolerance` does."""
    cdef double error = 4 * (nextafter(fabs(now), INFINITY) - fabs(now))
    return error if error > 1e-9 else 1e-9


cdef inline bint exceeds(int64_t bits, double most) noexcept nogil:
    """Return whether ``bits`` exceed a limit; above 2**53 compare integers, because doubles would be rounded."""
    if bits <= <int64_t>1 << 53:
        return <double>bits > most
    return most < 9e18 and bits > <int64_t>floor(most)


# --- the sending side -------------------------------------------------------------------------------------------------

cdef struct Waiting:
    double end
    int64_t bits, number


cdef enum:
    NO_BUDGET = 0
    PER_SECOND = 1
    PER_ROUND = 2


@cython.final
cdef class Transmitter:
    """Queue and transmitter of a link or of a radio; see `netsim.transport.transmitter.Transmitter`."""

    # For a varying rate: the function from `Rate.on_port`; else None.
    cdef object leave, link
    # The rate in bits per second, if it is constant; 0 if sending takes no time.
    cdef double rate
    cdef int64_t queue, queue_bits, mtu
    cdef readonly int64_t header_bits
    cdef double busy_until
    # `held`: a ring buffer of the frames that have not left. `first`: the index of its oldest frame. `count`: its
    # number of frames. `room`: its capacity, a power of 2. `held_bits`: the total bits of its frames.
    cdef Waiting* held
    cdef int64_t first, count, room, held_bits
    # Settings and state of the budget. A budget per second is a token bucket, which held `tokens` at the time `then`
    # (s). Of a budget per round, `used` bits were used in the round `window`.
    cdef int budget
    cdef bint refuses
    cdef double bits, most, size, tokens, then, period, offset, window
    cdef int64_t used

    def __init__(self, link, double round_period, double offset=0.0):
        self.link = link
        if isinstance(link.rate, (float, int)):
            self.rate = link.rate
        elif link.rate is not None:
            self.leave = link.rate.on_port()
        self.set_queue(link)
        self.mtu = INT64_MAX if link.mtu is None else min(link.mtu, INT64_MAX)
        self.header_bits = link.header_bits
        self.period, self.offset = round_period, offset
        if link.budget is not None:
            self.set_budget(link.budget_model)

    cdef set_queue(self, link):
        self.queue = INT64_MAX if link.queue is None else min(link.queue, INT64_MAX)
        self.queue_bits = INT64_MAX if link.queue_bits is None else min(link.queue_bits, INT64_MAX)

    cdef set_budget(self, budget):
        self.budget = PER_SECOND if budget.per == "second" else PER_ROUND
        self.refuses = budget.over == "refuse"
        self.bits = budget.bits
        self.size = budget.bits if budget.burst is None else budget.burst
        self.most = bit_limit(self.size)
        self.tokens, self.window = self.size, -INFINITY

    def __dealloc__(self):
        PyMem_Free(self.held)

    @property
    def release(self):
        """A function that returns the time from which the budget allows a frame; None without a budget."""
        return self.released if self.budget else None

    def released(self, double now, int64_t bits):
        """Return the earliest time (s) at which a frame may be sent; infinity if it is refused."""
        return self.from_bucket(now, bits) if self.budget == PER_SECOND else self.from_round(now, bits)

    cdef double from_bucket(self, double now, int64_t bits) noexcept:
        cdef double start = self.then if self.then > now else now
        cdef double held = self.tokens + (start - self.then) * self.bits
        cdef double wait
        held = held if held < self.size else self.size
        wait = (<double>bits - held) / self.bits
        wait = wait if wait > 0.0 else 0.0
        if exceeds(bits, self.most) or start + wait == INFINITY or (self.refuses and wait > tolerance(now)):
            return INFINITY
        if self.refuses:
            wait = 0.0
        self.tokens, self.then = held + wait * self.bits - <double>bits, start + wait
        return self.then

    cdef double from_round(self, double now, int64_t bits) noexcept:
        cdef double since = now - self.offset
        cdef double early = since / self.period + 1e-9
        cdef double rounded = (since + 4 * (nextafter(fabs(now), INFINITY) - fabs(now))) / self.period
        cdef double present, opening
        if exceeds(bits, self.most):
            return INFINITY
        present = floor(rounded if rounded > early else early)
        if present > self.window:
            self.window, self.used = present, 0
        if exceeds(self.used + bits, self.most):
            if self.refuses:
                return INFINITY
            self.window, self.used = self.window + 1, 0
        self.used += bits
        opening = self.offset + self.window * self.period
        return opening if opening > now else now

    def fragments(self, int64_t size):
        """Return the number of bits, header included, of each fragment of a frame of ``size`` bytes."""
        return [self.fragment(size, i) for i in range(self.fragment_count(size))]

    cdef int64_t fragment_count(self, int64_t size) noexcept:
        return 1 if size <= self.mtu else (size + self.mtu - 1) // self.mtu

    cdef int64_t fragment(self, int64_t size, int64_t index) noexcept:
        """Return the number of bits of one fragment, header included."""
        cdef int64_t rest = size if index == 0 else size - index * self.mtu
        return 8 * (rest if rest < self.mtu else self.mtu) + self.header_bits

    def change(self, link, double now):
        """Set a new rate and new limits of the queue; return the frames whose departures change."""
        cdef double before = self.rate, scale, left, last = now
        # Only constant rates occur here, because `netsim.engine.link_changes` refuses to change varying rates.
        cdef double rate = link.rate if isinstance(link.rate, (float, int)) else 0.0
        cdef Waiting* each
        cdef int64_t i
        cdef list shifts = []
        self.set_queue(link)
        self.link, self.rate = link, rate
        if rate == before or self.busy_until <= now or before == 0.0:
            return shifts
        scale = 0.0 if rate == 0.0 else before / rate
        self.busy_until = now + (self.busy_until - now) * scale
        for i in range(self.count):
            each = &self.held[(self.first + i) & (self.room - 1)]
            if each.end > now:
                left = now + (each.end - now) * scale
                shifts.append((each.number, left - each.end, last if shifts else -INFINITY, each.bits))
                each.end = last = left
        return shifts

    def clear(self, double now):
        """Drop all frames that have not left at ``now`` (s); the budget that they used is not returned."""
        self.first = self.count = self.held_bits = 0
        if self.busy_until > now:
            self.busy_until = now
        if self.leave is not None:
            self.leave = self.link.rate.on_port()

    def accept(self, double now, list fragments, int64_t number=0):
        """Offer a frame, given by the bits of its fragments.

        Return the cause of rejection ("" if accepted), the start time and the end time of each fragment (s).
        """
        cdef Departure sent
        cdef int64_t i
        sent.fragments, sent.room, sent.number = NULL, 0, number
        try:
            reserve(&sent, len(fragments))
            for i in range(sent.count):
                sent.fragments[i].bits = fragments[i]
            self.depart(now, &sent)
            return _NAMES[sent.cause], sent.start, [sent.fragments[i].end for i in range(sent.count)]
        finally:
            PyMem_Free(sent.fragments)

    cdef int transmit(self, double now, int64_t size, Departure* sent) except -1:
        """Divide a frame of ``size`` bytes into fragments, and offer them (see `depart`)."""
        cdef int64_t i
        reserve(sent, self.fragment_count(size))
        for i in range(sent.count):
            sent.fragments[i].bits = self.fragment(size, i)
        return self.depart(now, sent)

    cdef int depart(self, double now, Departure* sent) except -1:
        """Offer the fragments in ``sent``; set their end times there, or the cause of rejection."""
        cdef double end, present = now + tolerance(now)
        cdef int64_t i
        sent.start, sent.bits = now, 0
        for i in range(sent.count):
            sent.bits += sent.fragments[i].bits
        while self.count and self.held[self.first].end <= present:
            self.held_bits -= self.held[self.first].bits
            self.first = (self.first + 1) & (self.room - 1)
            self.count -= 1
        if self.count >= self.queue or self.held_bits + sent.bits > self.queue_bits:
            sent.cause, sent.count = C_QUEUE_FULL, 0
            return 0
        if self.budget:
            end = self.from_bucket(now, sent.bits) if self.budget == PER_SECOND else self.from_round(now, sent.bits)
            if end == INFINITY:
                sent.cause, sent.count = C_REFUSED, 0
                return 0
            sent.start = end
        sent.cause = ACCEPTED
        if self.busy_until > sent.start:
            sent.start = self.busy_until
        end = sent.start
        for i in range(sent.count):
            if self.leave is not None:
                end = self.leave(end, sent.fragments[i].bits)
            elif self.rate != 0.0:
                end += <double>sent.fragments[i].bits / self.rate
            sent.fragments[i].end = end
        self.busy_until = end
        self.hold(end, sent.bits, sent.number)
        return 0

    cdef int hold(self, double end, int64_t bits, int64_t number) except -1:
        """Append a frame to the ring buffer of frames that have not left."""
        cdef Waiting* grown
        cdef int64_t i
        if self.count == self.room:
            grown = <Waiting*>PyMem_Malloc(max(4, 2 * self.room) * sizeof(Waiting))
            if grown == NULL:
                raise MemoryError
            for i in range(self.count):
                grown[i] = self.held[(self.first + i) & (self.room - 1)]
            PyMem_Free(self.held)
            self.held, self.first, self.room = grown, 0, max(4, 2 * self.room)
        i = (self.first + self.count) & (self.room - 1)
        self.held[i].end, self.held[i].bits, self.held[i].number = end, bits, number
        self.count += 1
        self.held_bits += bits
        return 0


# --- the path ---------------------------------------------------------------------------------------------------------

cdef struct Copy:
    double time
    bint corrupted


cdef enum:
    # How a path decides losses and delays. Losses: NEVER (no fragment is lost), ALONE (fragments are lost
    # independently), IN_BURSTS (a Gilbert-Elliott model makes a step for each fragment) or IN_SLOTS (a Gilbert-Elliott
    # model makes a step for each time slot). Delays: CONSTANT or UNIFORM. Either: ASKED (a model in Python decides).
    NEVER = 0
    ASKED = 1
    ALONE = 2
    IN_BURSTS = 3
    IN_SLOTS = 4
    CONSTANT = 5
    UNIFORM = 6


cdef struct Numbers:
    # State of a random stream: `key` selects the stream (`netsim.util.draws`), `drawn` counts the numbers drawn so far.
    uint64_t key
    uint64_t drawn


# Cached, because the key depends only on seed and purpose, so all links use the same keys.
_name_key = lru_cache(maxsize=64, typed=True)(lambda seed, purpose: draws.name_key((seed, purpose)))


cdef uint64_t stream_key(uint64_t link_key, seed, purpose) except? 0:
    """Return the stream key of one link, as `netsim.util.draws.stream_keys` does for many links."""
    cdef uint64_t name = _name_key(seed, purpose)
    return mix(link_key * <uint64_t>0x94D049BB133111EBULL + name)


cdef inline double next_of(Numbers* numbers) noexcept nogil:
    numbers.drawn += 1
    return uniform(numbers.key, numbers.drawn - 1)


@cython.final
cdef class Path:
    """One link, from the departure of a frame's bits to its arrivals; see `netsim.transport.path.Path`."""

    cdef object lost, delays, link, key, seed
    cdef str purpose
    cdef int loss_kind, latency_kind
    cdef bint draws_losses, is_clocked, is_bad, is_certain, is_fifo
    # Losses: `comes` is the probability of a loss or, in a Gilbert-Elliott model, of the step from the good to the bad
    # state. `stays` is the probability of staying in the bad state. `bad` and `good` are the loss probabilities in the
    # two states; `is_certain` means that they are 1 and 0.
    # Delays (s): constant delays equal `low`; uniform delays lie in [low, low + width).
    cdef double comes, stays, bad, good, low, width, duplicate, corrupt
    cdef public double last
    # The length (s) of a time slot of a Gilbert-Elliott model.
    cdef double slot
    # `loss_bits`: the length in bits to which the loss probability refers, or 0 if it holds for fragments of any
    # length. `lengths`: `loss_bits` divided by the length of the current fragment, or 0 if that does not matter.
    cdef int64_t loss_bits
    cdef double lengths
    # `slots`: the key of the random stream that has a uniform number for each time slot. `is_bad` is the state in the
    # time slot `slot_number`.
    cdef uint64_t slots
    cdef int64_t slot_number
    cdef Numbers loss_numbers, latency_numbers, duplicate_numbers, corrupt_numbers

    def __init__(self, link, key, seed, str purpose=""):
        self.key, self.seed, self.purpose = key, seed, purpose
        self.set_latency(link.latency_model)
        self.set_loss(link.loss_model)
        self.set_rest(link)

    def change(self, link, last=None):
        """Apply new settings as if the link had always had them: fragment n uses uniform number n of its stream."""
        if link.latency_model is not self.link.latency_model:
            if self.latency_kind == ASKED:
                self.latency_numbers.drawn = self.delays.drawn
            self.set_latency(link.latency_model)
        if link.loss_model is not self.link.loss_model:
            self.set_loss(link.loss_model)
            self.catch_up(link.loss_model)
        if last is not None:
            self.last = last
        self.set_rest(link)

    cdef uint64_t stream(self, str name) except? 0:
        cdef uint64_t link_key = self.key[0]
        return stream_key(link_key, self.seed, self.purpose + name)

    cdef set_latency(self, model):
        if type(model) is ConstantLatency:
            self.latency_kind, self.low = CONSTANT, model.fixed
        elif type(model) is UniformLatency:
            self.latency_kind, self.low, self.width = UNIFORM, model.low, model.high - model.low
            self.latency_numbers.key = self.stream("latency")
        else:
            self.latency_kind = ASKED
            key = draws.stream_keys(self.seed, self.key, self.purpose + "latency")
            self.delays = Delays(model, key, self.latency_numbers.drawn)

    cdef set_rest(self, link):
        self.link = link
        self.loss_bits = link.loss_bits or 0
        self.duplicate, self.corrupt, self.is_fifo = link.duplicate, link.corrupt, link.fifo
        if self.duplicate:
            self.duplicate_numbers.key = self.stream("duplicate")
        if self.corrupt:
            self.corrupt_numbers.key = self.stream("corrupt")

    cdef catch_up(self, model):
        """Replay all earlier fragments in a loss model with memory, as `netsim.transport.path.catch_up` does."""
        cdef uint64_t i
        if self.loss_kind == IN_BURSTS:
            for i in range(self.loss_numbers.drawn):
                self.is_bad = uniform(self.loss_numbers.key, i) < (self.stays if self.is_bad else self.comes)
        elif self.loss_kind == ASKED and self.draws_losses:
            key = draws.stream_keys(self.seed, self.key, self.purpose + "loss")
            catch_up(model, self.lost, key, self.loss_numbers.drawn)

    cdef set_loss(self, model):
        cdef double state = 0.0
        if type(model) is Bernoulli:
            self.comes = model.mean
            self.loss_kind = ALONE if self.comes else NEVER
            if self.comes:
                self.loss_numbers.key = self.stream("loss")
            return
        self.draws_losses = bool(model.mean)
        if self.draws_losses:
            self.loss_numbers.key = self.stream("loss")
            state = uniform(self.stream("loss state"), 0)
        if type(model) is GilbertElliott and self.draws_losses:
            self.loss_kind = IN_BURSTS
            self.comes, self.stays, self.is_bad = model.p, 1.0 - model.r, state < model.share_bad
            self.bad, self.good, self.is_certain = model.bad, model.good, model.is_certain
            if model.slot is not None:
                self.loss_kind, self.slot, self.slots = IN_SLOTS, model.slot, slots_key(state)
                self.slot_number = 0
            return
        self.lost = model.on_link(state)
        self.is_clocked = isinstance(self.lost, Clocked)
        self.loss_kind = ASKED

    cdef int is_lost(self, double end) except -1:
        """Return whether a fragment that left at ``end`` (s) is lost."""
        cdef double u, limit
        if self.loss_kind == NEVER:
            self.loss_numbers.drawn += 1
            return False
        if self.loss_kind == ASKED:
            if self.is_clocked:
                self.lost.time = end
            if not self.draws_losses:
                self.loss_numbers.drawn += 1
                return False
            return bool(self.lost(self.number()))
        u = self.number()
        if self.loss_kind == ALONE:
            return u < self.comes
        if self.loss_kind == IN_SLOTS:
            self.move_to_slot(end)
            return u < (self.bad if self.is_bad else self.good)
        limit = self.stays if self.is_bad else self.comes
        self.is_bad = u < limit
        if self.is_certain:
            return self.is_bad
        return u / limit < self.bad if self.is_bad else (u - limit) / (1.0 - limit) < self.good

    cdef double number(self) noexcept:
        """Return the next uniform number for losses, transformed for the fragment's length if `lengths` is set."""
        cdef double u = next_of(&self.loss_numbers)
        return 1.0 - pow(1.0 - u, self.lengths) if self.lengths > 0.0 else u

    cdef void move_to_slot(self, double time) noexcept:
        """Set `is_bad` for the slot that contains ``time`` (s).

        Uniform number n decides the step from slot n to slot n + 1. If it is below `low` or at least `high`, it sets
        the state of slot n + 1, whatever the state of slot n is. So start from the latest such number or, if there is
        none, from the slot whose state is known. The numbers after that either all keep the state or all flip it; `odd`
        is whether there is an odd number of them.
        """
        cdef double low = min(self.comes, self.stays), high = max(self.comes, self.stays), u
        cdef double slots = time / self.slot + 1e-9
        cdef int64_t number = LAST_SLOT if slots >= <double>LAST_SLOT else <int64_t>slots
        cdef int64_t after = number
        cdef bint odd = False
        while after > self.slot_number:
            after -= 1
            u = uniform(self.slots, after)
            if u < low or u >= high:
                self.is_bad = u < low
                break
            odd = not odd
        if odd and self.comes > self.stays:
            self.is_bad = not self.is_bad
        self.slot_number = number

    cdef double delay(self) except? -1.0:
        """Return the next delay (s)."""
        if self.latency_kind == CONSTANT:
            self.latency_numbers.drawn += 1
            return self.low
        if self.latency_kind == UNIFORM:
            return self.low + self.width * next_of(&self.latency_numbers)
        return self.delays.next()

    cdef int carry_sent(self, const Departure* sent, Copy* copies) except -1:
        """Compute the arrivals of the copies of a transmitted frame; return the number of copies (0 if it is lost)."""
        cdef bint lost = False
        cdef double arrival = 0.0, time
        cdef int64_t i
        cdef int arrive = 1
        for i in range(sent.count):
            if self.is_lost(sent.fragments[i].end):
                lost = True
            time = sent.fragments[i].end + self.delay()
            if time > arrival:
                arrival = time
        if lost:
            return 0
        copies[0].time = arrival
        if self.duplicate and next_of(&self.duplicate_numbers) < self.duplicate:
            copies[1].time = sent.fragments[sent.count - 1].end + self.delay()
            arrive = 2
        for i in range(arrive):
            self.hand_over(&copies[i])
        return arrive

    cdef void hand_over(self, Copy* copy) noexcept:
        """Decide whether a copy is corrupted; on a ``fifo`` link, delay it so that it overtakes no earlier frame."""
        if self.is_fifo:
            if self.last > copy.time:
                copy.time = self.last
            self.last = copy.time
        copy.corrupted = self.corrupt != 0.0 and next_of(&self.corrupt_numbers) < self.corrupt

    def carry(self, ends):
        """Return the arrivals of a frame whose fragments left at ``ends`` (s); none if any fragment is lost."""
        cdef Departure sent
        cdef Copy copies[2]
        cdef int64_t i
        cdef int count
        sent.fragments, sent.room = NULL, 0
        try:
            reserve(&sent, len(ends))
            for i in range(sent.count):
                sent.fragments[i].end = ends[i]
            count = self.carry_sent(&sent, copies)
            return [(copies[i].time, bool(copies[i].corrupted)) for i in range(count)]
        finally:
            PyMem_Free(sent.fragments)

    def cross(self, double end, int64_t bits):
        """Return the arrival time of a fragment of ``bits`` that left at ``end`` (s), and whether it is lost."""
        cdef bint lost
        self.lengths = <double>self.loss_bits / <double>bits
        lost = self.is_lost(end)
        self.lengths = 0.0
        return end + self.delay(), lost

    def arrive(self, double time):
        """Return when a frame that arrives at ``time`` (s) is delivered, and whether it is corrupted."""
        cdef Copy copy
        copy.time = time
        self.hand_over(&copy)
        return copy.time, bool(copy.corrupted)

    def damaged_share(self):
        """Return the position of the flipped bit in a corrupted frame, as a share of the frame's length."""
        return next_of(&self.corrupt_numbers) if self.corrupt else 0.0


# --- all stages of an agent's links -----------------------------------------------------------------------------------

cdef struct Settings:
    int64_t header_bits
    bint is_simple


@cython.final
cdef class LinkStages:
    """Carries one agent's frames over its links; see `netsim.transport.link_stages.LinkStages`."""

    cdef BroadcastPath broadcast_path
    cdef Tally tally
    cdef object wiring, agents, kinds, bursts
    cdef set down
    # One item per link: its transmitter (None if it needs none), its path (None before its first frame), its settings.
    cdef list transmitters, paths
    cdef Settings* settings
    cdef int64_t first, degree
    cdef bint on_radio
    cdef double period, offset
    cdef Departure sent

    def __init__(self, BroadcastPath path, wiring, shared, agents, set down, bursts):
        cdef int64_t i
        self.broadcast_path, self.wiring, self.tally, self.agents = path, wiring, shared.tally, agents
        self.kinds = shared.encoder.kinds
        self.down, self.bursts = down, bursts
        self.first, self.degree, self.on_radio = wiring.first, len(wiring.links), wiring.radio is not None
        self.period, self.offset = shared.rounds.period, shared.rounds.offset
        own = transmitters_of(wiring.links, wiring.radio, self.period, self.offset, Transmitter)
        self.transmitters = [own.get(i) for i in range(self.degree)]
        self.paths = [None] * self.degree
        PyMem_Free(self.settings)
        self.settings = <Settings*>PyMem_Malloc(max(self.degree, 1) * sizeof(Settings))
        if self.settings == NULL:
            raise MemoryError
        for i in range(self.degree):
            link = wiring.links[i]
            self.settings[i].header_bits = (wiring.radio if self.on_radio else link).header_bits
            self.settings[i].is_simple = wiring.draws_together(i)

    def __dealloc__(self):
        PyMem_Free(self.settings)
        PyMem_Free(self.sent.fragments)

    def change(self, int64_t index, link, double now, last):
        """Change a link's settings from ``now`` (s) on; return the frames whose departures change."""
        self.settings[index].is_simple = self.wiring.draws_together(index)
        if self.paths[index] is not None or last is not None:
            self.path(index).change(link, last)
        if self.on_radio:
            return []
        if self.transmitters[index] is not None:
            return (<Transmitter>self.transmitters[index]).change(link, now)
        if link.has_port:
            self.transmitters[index] = Transmitter(link, self.period, self.offset)
        return []

    def clear(self, int64_t index, double now):
        """Drop the frames that wait to leave on a wired link."""
        if not self.on_radio and self.transmitters[index] is not None:
            (<Transmitter>self.transmitters[index]).clear(now)

    def set_last(self, int64_t index, double last):
        """Set the latest arrival (s) on a ``fifo`` link after the arrivals of its frames in flight changed."""
        self.path(index).last = last

    def offer(self, int32_t kind_id, Frame frame, payload, bint raw_data, int64_t link, double deadline):
        """Offer a frame to one link or to all links, and count it; return how many links accepted it."""
        cdef BroadcastPath path = self.broadcast_path
        cdef bint to_all = link == ALL_LINKS
        cdef int64_t number = path.sent, taken = 0, wire = 0, index
        cdef int64_t start = 0 if to_all else link, end = self.degree if to_all else link + 1
        path.sent += 1
        self.sent.number = number
        if to_all:
            path.next_row()
        if self.on_radio and self.any_up(start, end):
            self.transmit(frame, start)
        for index in range(start, end):
            if self.is_down(index):
                self.tally.count_outcome(frame.sent_at, self.key(index, number), kind_id, C_LINK_DOWN)
                continue
            if not self.on_radio:
                self.transmit(frame, index)
            if self.sent.cause != ACCEPTED:
                self.tally.count_outcome(frame.sent_at, self.key(index, number), kind_id, self.sent.cause)
                continue
            taken += 1
            wire = self.sent.bits if self.on_radio else wire + self.sent.bits
            self.cross(kind_id, frame, number, index, to_all, deadline)
        link = ALL_LINKS if to_all else self.first + link
        path.count(number, kind_id, frame, payload, raw_data, link, taken, wire, 0 if to_all or self.on_radio else wire)
        return taken

    cdef inline int64_t key(self, int64_t index, int64_t number) noexcept:
        return ((self.first + index) << self.tally.shift) + number

    cdef inline int is_down(self, int64_t index) except -1:
        return PySet_GET_SIZE(self.down) != 0 and PySet_Contains(self.down, index)

    cdef int any_up(self, int64_t start, int64_t end) except -1:
        """Return whether at least one link in a range of indices is not cut."""
        cdef int64_t index
        for index in range(start, end):
            if not self.is_down(index):
                return True
        return False

    cdef int transmit(self, Frame frame, int64_t index) except -1:
        """Transmit a frame on a link, or on the agent's radio."""
        cdef Departure* sent = &self.sent
        transmitter = self.transmitters[index]
        if transmitter is not None:
            return (<Transmitter>transmitter).transmit(frame.sent_at, frame.size(), sent)
        reserve(sent, 1)
        sent.cause, sent.start = ACCEPTED, frame.sent_at
        sent.bits = sent.fragments[0].bits = 8 * frame.size() + self.settings[index].header_bits
        sent.fragments[0].end = frame.sent_at
        return 0

    cdef int cross(self, int32_t kind_id, Frame frame, int64_t number, int64_t index, bint to_all,
                   double deadline) except -1:
        """Carry a transmitted frame over one link."""
        cdef Copy copies[2]
        cdef double delay
        cdef int count
        if self.tally.keeps and (to_all or self.sent.start > frame.sent_at):
            self.tally.left(self.sent.start, self.key(index, number), number, self.sent.bits)
        if to_all and self.sent.count == 1 and self.settings[index].is_simple:
            delay = self.broadcast_path.delay(index)
            copies[0].time, copies[0].corrupted = self.sent.fragments[0].end + delay, False
            count = 1 if delay >= 0.0 else 0
        else:
            count = self.path(index).carry_sent(&self.sent, copies)
        if self.bursts.matter:
            if self.bursts.loses(index):
                count = 0
            self.delay_in_burst(index, copies, count)
        self.arrive(kind_id, frame, number, index, copies, count, deadline)
        if to_all and not self.on_radio:
            self.tally.link_bits(self.first + index, kind_id, self.sent.bits)
        return 0

    cdef Path path(self, int64_t index):
        """Return a link's path, created on first use."""
        path = self.paths[index]
        if path is None:
            wiring = self.wiring
            # Broadcasts over a simple link use the random streams "loss" and "latency" (`LinkDraws`). The path must not
            # draw the same numbers again, so the names of its streams get a prefix.
            purpose = "one by one " if wiring.began_simple(index) else ""
            path = self.paths[index] = Path(wiring.links[index], wiring.keys[index : index + 1], wiring.seed, purpose)
        return <Path>path

    cdef int delay_in_burst(self, int64_t index, Copy* copies, int count) except -1:
        cdef int i
        delayed = self.bursts.delayed(index, [(copies[i].time, bool(copies[i].corrupted)) for i in range(count)])
        for i in range(count):
            copies[i].time = delayed[i][0]
        return 0

    cdef int arrive(self, int32_t kind_id, Frame frame, int64_t number, int64_t index, const Copy* copies, int count,
                    double deadline) except -1:
        """Put a frame's copies into the neighbour's queue, or count why they are dropped."""
        cdef ArrivalQueue arrivals = <ArrivalQueue>self.broadcast_path.receivers[index]
        cdef int64_t key = self.key(index, number)
        cdef int copy
        if count == 0:
            self.tally.count_outcome(frame.sent_at, key, kind_id, C_LOST)
        for copy in range(count):
            if copy:
                key = self.key(index, self.broadcast_path.sent)
                self.broadcast_path.sent += 1
                self.tally.duplicate(self.first + index, kind_id)
                if self.tally.keeps:
                    self.tally.left(self.sent.start, key, number, self.sent.bits)
            if not copies[copy].corrupted:
                arrivals.put(copies[copy].time, key, kind_id, frame, deadline)
                continue
            received = None
            if not self.wiring.links[index].crc:
                received = damaged(frame, self.path(index).damaged_share(), self.agents, self.kinds)
            if received is None:
                self.tally.count_outcome(copies[copy].time, key, kind_id, C_CORRUPTED)
            else:
                arrivals.put(copies[copy].time, key, kind_id, received, -INFINITY)
        return 0
