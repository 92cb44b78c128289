# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: embedsignature=False, always_allow_keywords=True
"""The compiled core: the way of a plain broadcast from payload to inbox, and its counting.

Each class and function has a twin in Python, in the module of its name beside this file, that defines it: the same
frames, draws and hash with either. A law test compares them.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.math cimport INFINITY
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memmove, memset
cimport cython
cimport numpy as cnp

import asyncio
from zlib import crc32

import numpy as np

from netsim.util import draws
from netsim.core.records import ALL_CAUSES, DETAIL, EXIT, LEFT, SENT, key_shift
from netsim.errors import AgentError
from netsim.links.latency import Constant as ConstantLatency
from netsim.links.latency import Uniform as UniformLatency
from netsim.links.loss import Bernoulli
from netsim.core.copies import as_state
from netsim.wire.codec import array_bytes, is_mutable, payload_bits, saturated, unpack_payload

cnp.import_array()

cdef extern from "Python.h":
    object PyContext_CopyCurrent()

cdef uint64_t GAMMA = 0x9E3779B97F4A7C15ULL
cdef double TO_UNIT = 1.1102230246251565e-16  # 2**-53

cdef enum:
    N_CAUSES = 14
    DELIVERED = 0
    LOST = 2


cdef inline uint64_t mix(uint64_t z) noexcept nogil:
    z ^= z >> 30
    z *= <uint64_t>0xBF58476D1CE4E5B9ULL
    z ^= z >> 27
    z *= <uint64_t>0x94D049BB133111EBULL
    z ^= z >> 31
    return z


cdef inline uint64_t mix_word(uint64_t mixed, uint64_t word) noexcept nogil:
    return mix(mixed + word + GAMMA)


cdef inline uint64_t bits_of(double value) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, &value, 8)
    return word


cdef inline double uniform(uint64_t key, uint64_t number) noexcept nogil:
    return <double>(mix(key + (number + 1) * GAMMA) >> 11) * TO_UNIT


# --- counting ---------------------------------------------------------------------------------------------------------

cdef struct Exit:
    double time
    int64_t key
    int32_t kind
    int32_t cause


cdef struct Sent:
    double time
    int64_t number, kind, sender, link, taken, payload_bits, raw_data_bits, wire_bits, saturated, each, checksum


cdef struct Detail:
    int64_t round, reply


cdef struct Left:
    double time
    int64_t key, number, bits


cdef enum:
    # Tables by link: the causes first.
    OFFERED = 14
    DUPLICATED = 15
    WIRE_BITS = 16
    N_BY_LINK = 17
    # Tables by sender.
    S_TRANSMISSIONS = 0
    S_PAYLOAD = 1
    S_RAW = 2
    S_WIRE = 3
    S_SATURATED = 4
    A_OFFERED = 5
    A_WIRE = 6
    N_BY_SENDER = 7

_BY_LINK = {name: number for number, name in enumerate((*ALL_CAUSES, "offered", "duplicated", "wire_bits"))}
_BY_SENDER = {
    name: number
    for number, name in enumerate(("transmissions", "payload_bits", "raw_data_bits", "wire_bits", "saturated"))
}
_TO_ALL = {"offered": A_OFFERED, "wire_bits": A_WIRE}


@cython.final
cdef class Tally:
    """Counts and hash of one run; see `netsim.core.tally.Tally`."""

    cdef readonly int shift
    cdef readonly bint keeps
    cdef readonly dict kinds
    cdef readonly int64_t transmissions, link_messages, duplicated, payload_bits, raw_data_bits, wire_bits, saturated
    cdef int64_t counted[N_CAUSES]
    cdef int64_t links, agents, rows
    cdef object agent_keys_array, link_keys_array, kind_keys_array
    cdef const uint64_t* agent_keys
    cdef const uint64_t* link_keys
    cdef const uint64_t* kind_keys
    cdef list by_link_arrays, by_sender_arrays
    cdef int64_t* by_link_data[N_BY_LINK]
    cdef int64_t* by_sender_data[N_BY_SENDER]
    cdef uint64_t first_sum, second_sum
    cdef bytearray kept_sent, kept_exits, kept_details, kept_left
    cdef int64_t sent_size, exits_size, details_size, left_size
    cdef int64_t sent_told, exits_told, details_told, left_told

    def __init__(self, agent_keys, link_keys, keep):
        self.agents, self.links = len(agent_keys), len(link_keys)
        self.shift = key_shift(self.links)
        self.kinds = {}
        self.agent_keys_array = np.ascontiguousarray(agent_keys, dtype=np.uint64)
        self.link_keys_array = np.ascontiguousarray(link_keys, dtype=np.uint64)
        self.agent_keys = <const uint64_t*>cnp.PyArray_DATA(self.agent_keys_array)
        self.link_keys = <const uint64_t*>cnp.PyArray_DATA(self.link_keys_array)
        self.kind_keys_array = np.zeros(0, dtype=np.uint64)
        self.kind_keys = NULL
        self.rows = 0
        self.by_link_arrays = [None] * N_BY_LINK
        self.by_sender_arrays = [None] * N_BY_SENDER
        memset(self.by_link_data, 0, sizeof(self.by_link_data))
        memset(self.by_sender_data, 0, sizeof(self.by_sender_data))
        memset(self.counted, 0, sizeof(self.counted))
        self.kept_sent = bytearray() if keep else None
        self.kept_exits = bytearray() if keep else None
        self.kept_details = bytearray() if keep else None
        self.kept_left = bytearray() if keep else None
        self.keeps = keep

    @property
    def exits(self):
        """How many link messages have ended so far, by cause."""
        return [self.counted[i] for i in range(N_CAUSES)]

    def kind(self, str name):
        """Return the number of a kind of message, new or known."""
        number = self.kinds.get(name)
        if number is None:
            number = self.kinds[name] = len(self.kinds)
            self.kind_keys_array = np.append(self.kind_keys_array, np.uint64(draws.name_key(name)))
            self.kind_keys = <const uint64_t*>cnp.PyArray_DATA(self.kind_keys_array)
            if len(self.kinds) > self.rows:
                self.grow()
        return number

    cdef grow(self):
        """Make room for more kinds in every table that is in use."""
        cdef int i
        self.rows = max(1, 2 * len(self.kinds) - 1)
        for i in range(N_BY_LINK):
            if self.by_link_data[i] != NULL:
                self.by_link_data[i] = NULL
                self.by_link_table(i)
        for i in range(N_BY_SENDER):
            if self.by_sender_data[i] != NULL:
                self.by_sender_data[i] = NULL
                self.by_sender_table(i)

    cdef int64_t* by_link_table(self, int which) except NULL:
        if self.by_link_data[which] == NULL:
            grown = np.zeros((self.rows, self.links), dtype=np.int64)
            before = self.by_link_arrays[which]
            if before is not None:
                grown[: len(before)] = before
            self.by_link_arrays[which] = grown
            self.by_link_data[which] = <int64_t*>cnp.PyArray_DATA(grown)
        return self.by_link_data[which]

    cdef int64_t* by_sender_table(self, int which) except NULL:
        if self.by_sender_data[which] == NULL:
            grown = np.zeros((self.rows, self.agents), dtype=np.int64)
            before = self.by_sender_arrays[which]
            if before is not None:
                grown[: len(before)] = before
            self.by_sender_arrays[which] = grown
            self.by_sender_data[which] = <int64_t*>cnp.PyArray_DATA(grown)
        return self.by_sender_data[which]

    def sent(self, record, int64_t links, int64_t round_number, bint reply):
        """Count a transmission over so many links; its round, and whether it answers a request, are only kept."""
        cdef Sent s
        (s.time, s.number, s.kind, s.sender, s.link, s.taken, s.payload_bits, s.raw_data_bits, s.wire_bits,
         s.saturated, s.each, s.checksum) = record
        self.count_sent(&s, links, round_number, reply)

    cdef int count_sent(self, Sent* s, int64_t links, int64_t round_number, bint reply) except -1:
        cdef Detail detail
        cdef uint64_t h
        cdef int64_t slot = s.kind * self.agents + s.sender
        cdef int64_t place
        self.link_messages += links
        if s.taken:
            self.transmissions += 1
            self.payload_bits += s.payload_bits
            self.raw_data_bits += s.raw_data_bits
            self.wire_bits += s.wire_bits
            self.saturated += s.saturated
        self.by_sender_table(S_TRANSMISSIONS)[slot] += s.taken
        self.by_sender_table(S_PAYLOAD)[slot] += s.payload_bits
        self.by_sender_table(S_RAW)[slot] += s.raw_data_bits
        self.by_sender_table(S_WIRE)[slot] += s.wire_bits
        self.by_sender_table(S_SATURATED)[slot] += s.saturated
        if s.link < 0:
            self.by_sender_table(A_OFFERED)[slot] += 1
            self.by_sender_table(A_WIRE)[slot] += s.each
        else:
            place = s.kind * self.links + s.link
            self.by_link_table(OFFERED)[place] += 1
            self.by_link_table(WIRE_BITS)[place] += s.each
        h = mix_word(0, self.agent_keys[s.sender])
        h = mix_word(h, self.kind_keys[s.kind])
        h = mix_word(h, self.link_keys[s.link] if s.link >= 0 else 0)
        h = mix_word(h, bits_of(s.time))
        h = mix_word(h, <uint64_t>s.number)
        h = mix_word(h, <uint64_t>s.taken)
        h = mix_word(h, <uint64_t>s.payload_bits)
        h = mix_word(h, <uint64_t>s.raw_data_bits)
        h = mix_word(h, <uint64_t>s.wire_bits)
        h = mix_word(h, <uint64_t>s.saturated)
        h = mix_word(h, <uint64_t>s.each)
        h = mix_word(h, <uint64_t>s.checksum)
        self.first_sum += h
        self.second_sum += mix_word(0, h)
        if self.keeps:
            self.sent_size = keep(self.kept_sent, self.sent_size, <const char*>s, sizeof(Sent))
            detail.round, detail.reply = round_number, reply
            self.details_size = keep(self.kept_details, self.details_size, <const char*>&detail, sizeof(Detail))
        return 0

    def link_bits(self, int64_t link, int64_t kind, int64_t bits):
        """Count the bits that crossed one link."""
        self.by_link_table(WIRE_BITS)[kind * self.links + link] += bits

    def left(self, double time, int64_t key, int64_t number, int64_t bits):
        """Keep when (s) a link message of this transmission left, and its bits; to be called if ``keeps``."""
        cdef Left record
        record.time, record.key, record.number, record.bits = time, key, number, bits
        self.left_size = keep(self.kept_left, self.left_size, <const char*>&record, sizeof(Left))

    def aired(self, int64_t sender, int64_t kind, int64_t bits):
        """Count bits that a shared medium carried for a sender, some time after `sent`."""
        self.wire_bits += bits
        self.by_sender_table(S_WIRE)[kind * self.agents + sender] += bits

    def duplicate(self, int64_t link, int64_t kind):
        """Count a second copy."""
        self.duplicated += 1
        self.by_link_table(DUPLICATED)[kind * self.links + link] += 1

    def delivered(self, times, keys, kinds):
        """Count link messages that reached an inbox: arrival times (s), keys, kinds."""
        for time, key, kind in zip(times, keys, kinds, strict=True):
            self.count_exit(time, key, kind, DELIVERED)

    def ended(self, double time, int64_t key, int32_t kind, int cause):
        """Count a link message that ended at ``time`` (s) for a cause."""
        self.count_exit(time, key, kind, cause)

    cdef int count_exit(self, double time, int64_t key, int32_t kind, int cause) except -1:
        cdef int64_t link = key >> self.shift
        cdef uint64_t h
        cdef Exit record
        self.counted[cause] += 1
        self.by_link_table(cause)[kind * self.links + link] += 1
        h = mix_word(0, self.link_keys[link] + <uint64_t>(key & (((<int64_t>1) << self.shift) - 1)) * GAMMA)
        h = mix_word(h, bits_of(time))
        h = mix_word(h, self.kind_keys[kind] + <uint64_t>cause)
        self.first_sum += h
        self.second_sum += mix_word(0, h)
        if self.kept_exits is not None:
            record.time, record.key, record.kind, record.cause = time, key, kind, cause
            self.exits_size = keep(self.kept_exits, self.exits_size, <const char*>&record, sizeof(Exit))
        return 0

    def by_link(self, str name):
        """Return ``offered``, ``duplicated``, ``wire_bits`` or a cause's counts, shape (kinds, links)."""
        cdef int which = _BY_LINK[name]
        if not self.kinds:
            return np.zeros((0, self.links), dtype=np.int64)
        self.by_link_table(which)
        return self.by_link_arrays[which][: len(self.kinds)]

    def by_sender(self, str name):
        """Return ``transmissions``, a kind of bits or ``saturated``, shape (kinds, agents)."""
        return self.senders(_BY_SENDER[name])

    def to_all(self, str name):
        """Return what each agent sent over all its links, ``offered`` or ``wire_bits`` a link, (kinds, agents)."""
        return self.senders(_TO_ALL[name])

    cdef senders(self, int which):
        if not self.kinds:
            return np.zeros((0, self.agents), dtype=np.int64)
        self.by_sender_table(which)
        return self.by_sender_arrays[which][: len(self.kinds)]

    @property
    def sums(self):
        """The two sums over all that was recorded so far that the trace hash is made of."""
        return np.array([self.first_sum, self.second_sum], dtype=np.uint64)

    def records(self):
        """Return what was kept: ``sent``, ``exits``, ``details`` and ``left``; None if nothing was to be kept."""
        if not self.keeps:
            return None
        return {
            "sent": np.frombuffer(bytes(self.kept_sent[: self.sent_size]), dtype=SENT),
            "exits": np.frombuffer(bytes(self.kept_exits[: self.exits_size]), dtype=EXIT),
            "details": np.frombuffer(bytes(self.kept_details[: self.details_size]), dtype=DETAIL),
            "left": np.frombuffer(bytes(self.kept_left[: self.left_size]), dtype=LEFT),
        }

    def news(self, bint forget):
        """Return what was kept since this was last called; with ``forget`` it is kept no longer."""
        found = {
            "sent": np.frombuffer(bytes(self.kept_sent[self.sent_told : self.sent_size]), dtype=SENT),
            "exits": np.frombuffer(bytes(self.kept_exits[self.exits_told : self.exits_size]), dtype=EXIT),
            "details": np.frombuffer(bytes(self.kept_details[self.details_told : self.details_size]), dtype=DETAIL),
            "left": np.frombuffer(bytes(self.kept_left[self.left_told : self.left_size]), dtype=LEFT),
        }
        if forget:
            self.sent_size = self.exits_size = self.details_size = self.left_size = 0
        self.sent_told, self.exits_told = self.sent_size, self.exits_size
        self.details_told, self.left_told = self.details_size, self.left_size
        return found


cdef int64_t keep(bytearray to, int64_t size, const char* record, int64_t length) except -1:
    """Append a record to those kept; return their new size."""
    if size + length > PyByteArray_GET_SIZE(to):
        PyByteArray_Resize(to, max(1 << 16, 2 * (size + length)))
    memcpy(PyByteArray_AS_STRING(to) + size, record, length)
    return size + length


# --- frames -----------------------------------------------------------------------------------------------------------

@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Frame:
    """What an agent receives; see `netsim.core.frame.Frame`."""

    cdef readonly str kind
    cdef readonly object sender
    cdef readonly int64_t round
    cdef readonly double sent_at
    cdef readonly bytes data
    cdef readonly bint plain
    cdef readonly object request
    cdef readonly bint is_reply
    cdef object value
    cdef bint read
    # Where in the data a plain array of float64 begins, and its length; 0: it is something else.
    cdef int64_t start, length

    def __init__(self, str kind, sender, int64_t round, double sent_at, bytes data, bint plain=True, request=None,
                 bint is_reply=False):
        self.kind = kind
        self.sender = sender
        self.round = round
        self.sent_at = sent_at
        self.data = data
        self.plain = plain
        self.request = request
        self.is_reply = is_reply

    @property
    def payload(self):
        """What was sent."""
        if not self.read:
            self.value = self.decoded()
            self.read = True
        return self.value

    cdef object decoded(self):
        cdef cnp.npy_intp shape[1]
        cdef object array
        cdef bytes raw
        if self.start == 0:
            return unpack_payload(self.data)[3]
        # Bytes of its own, so that the array is aligned, and cannot be made writable.
        raw = PyBytes_FromStringAndSize(PyBytes_AS_STRING(self.data) + self.start, 8 * self.length)
        shape[0] = self.length
        array = cnp.PyArray_SimpleNewFromData(1, shape, cnp.NPY_FLOAT64, PyBytes_AS_STRING(raw))
        cnp.set_array_base(array, raw)
        cnp.PyArray_CLEARFLAGS(array, cnp.NPY_ARRAY_WRITEABLE)
        return array

    def copy(self):
        """Return the same frame with a payload of its own."""
        return Frame(self.kind, self.sender, self.round, self.sent_at, self.data, self.plain, self.request,
                     self.is_reply)

    def __repr__(self):
        return f"<Frame {self.kind!r} from {self.sender!r} in round {self.round}, {len(self.data)} bytes>"

    def __reduce__(self):
        return Frame, (self.kind, self.sender, self.round, self.sent_at, self.data, self.plain, self.request,
                       self.is_reply)


# --- arrivals ---------------------------------------------------------------------------------------------------------

cdef struct Entry:
    double time
    int64_t key
    PyObject* frame
    int32_t kind


cdef inline bint before(const Entry* a, const Entry* b) noexcept nogil:
    return a.time < b.time or (a.time == b.time and a.key < b.key)


cdef void sift_up(Entry* heap, int64_t place) noexcept nogil:
    cdef Entry entry = heap[place]
    cdef int64_t parent
    while place > 0:
        parent = (place - 1) >> 1
        if not before(&entry, &heap[parent]):
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = entry


cdef void sift_down(Entry* heap, int64_t size, int64_t place) noexcept nogil:
    cdef Entry entry = heap[place]
    cdef int64_t child
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and before(&heap[child + 1], &heap[child]):
            child += 1
        if not before(&heap[child], &entry):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = entry


cdef void sort_entries(Entry* entries, int64_t size) noexcept nogil:
    """Sort in place: few by insertion, many by a heap."""
    cdef int64_t i, j
    cdef Entry entry
    if size <= 48:
        for i in range(1, size):
            entry = entries[i]
            j = i
            while j > 0 and before(&entry, &entries[j - 1]):
                entries[j] = entries[j - 1]
                j -= 1
            entries[j] = entry
        return
    for i in range((size >> 1) - 1, -1, -1):
        sift_down(entries, size, i)
    # The smallest comes off the heap first: fill from the back, then turn round.
    for i in range(size - 1, 0, -1):
        entry = entries[0]
        entries[0] = entries[i]
        entries[i] = entry
        sift_down(entries, i, 0)
    for i in range(size >> 1):
        entry = entries[i]
        entries[i] = entries[size - 1 - i]
        entries[size - 1 - i] = entry


@cython.final
@cython.no_gc
cdef class Arrivals:
    """The frames on their way to one inbox; see `netsim.core.arrivals.Arrivals`."""

    cdef Tally tally
    cdef Entry* entries
    # Entries in use; how many of them, from the first, are a heap; how many there is room for.
    cdef int64_t size, heap, room
    cdef public bint careful

    def __cinit__(self, Tally tally):
        self.tally = tally

    def __dealloc__(self):
        cdef int64_t i
        for i in range(self.size):
            Py_DECREF(<object>self.entries[i].frame)
        PyMem_Free(self.entries)

    def __len__(self):
        return self.size

    cdef int add(self, double time, int64_t key, int32_t kind, Frame frame) except -1:
        cdef Entry* grown
        cdef Entry* entry
        if self.size == self.room:
            self.room = max(8, 2 * self.room)
            grown = <Entry*>PyMem_Realloc(self.entries, self.room * sizeof(Entry))
            if grown == NULL:
                self.room = self.size
                raise MemoryError
            self.entries = grown
        entry = &self.entries[self.size]
        entry.time, entry.key, entry.kind, entry.frame = time, key, kind, <PyObject*>frame
        Py_INCREF(frame)
        self.size += 1
        return 0

    def push(self, double time, int64_t key, int32_t kind, Frame frame):
        """Add a frame that must be looked at."""
        self.add(time, key, kind, frame)
        self.careful = True

    cdef void merge(self) noexcept:
        while self.heap < self.size:
            sift_up(self.entries, self.heap)
            self.heap += 1

    def first(self):
        """Return the time of the next arrival, in seconds; infinite if there is none."""
        self.merge()
        return self.entries[0].time if self.size else INFINITY

    cdef int64_t arrange(self, double until) noexcept:
        """Return how many arrive before ``until``, and put these in order at the front."""
        cdef int64_t count = 0
        if self.heap == 0:
            sort_entries(self.entries, self.size)
            while count < self.size and self.entries[count].time < until:
                count += 1
        return count

    cdef void drop(self, int64_t count) noexcept:
        """Forget the first ``count``; the rest is in order, and so a heap."""
        self.size -= count
        memmove(self.entries, self.entries + count, self.size * sizeof(Entry))
        self.heap = self.size
        self.shrink()

    cdef void shrink(self) noexcept:
        if self.size == 0:
            self.heap = 0
            self.careful = False
            if self.room > 1024:
                PyMem_Free(self.entries)
                self.entries, self.room = NULL, 0

    cdef bint pop(self, double until, Entry* taken) noexcept:
        """Take the first of the heap if it arrives before ``until``."""
        if self.size == 0 or not self.entries[0].time < until:
            return False
        taken[0] = self.entries[0]
        self.size -= 1
        self.heap = self.size
        if self.size:
            self.entries[0] = self.entries[self.size]
            sift_down(self.entries, self.size, 0)
        return True

    def due(self, double until):
        """Remove and return, in order, what arrives before ``until`` (s)."""
        cdef Entry entry
        cdef int64_t i, count
        found = []
        if self.heap == 0:
            count = self.arrange(until)
            for i in range(count):
                found.append(as_tuple(&self.entries[i]))
            self.drop(count)
            return found
        self.merge()
        while self.pop(until, &entry):
            found.append(as_tuple(&entry))
        self.shrink()
        return found

    def deliver(self, double until):
        """Remove and return the frames that arrive before ``until`` (s), and count them as delivered."""
        cdef Entry entry
        cdef int64_t i, count
        cdef list found
        if self.heap == 0:
            count = self.arrange(until)
            found = PyList_New(count)
            for i in range(count):
                self.tally.count_exit(self.entries[i].time, self.entries[i].key, self.entries[i].kind, DELIVERED)
                # The list takes over the reference.
                PyList_SET_ITEM_raw(found, i, self.entries[i].frame)
            self.drop(count)
            return found
        self.merge()
        found = []
        while self.pop(until, &entry):
            self.tally.count_exit(entry.time, entry.key, entry.kind, DELIVERED)
            found.append(<object>entry.frame)
            Py_DECREF(<object>entry.frame)
        self.shrink()
        return found

    def clear(self):
        """Forget all of it."""
        cdef int64_t i
        for i in range(self.size):
            Py_DECREF(<object>self.entries[i].frame)
        self.size = 0
        self.shrink()

    def under_way(self):
        """Return key and kind of all that it holds."""
        return [(self.entries[i].key, self.entries[i].kind) for i in range(self.size)]


cdef extern from "Python.h":
    void PyList_SET_ITEM_raw "PyList_SET_ITEM"(object, Py_ssize_t, PyObject*)


cdef tuple as_tuple(Entry* entry):
    """Return an entry as Python has it; the tuple takes over the reference."""
    found = (entry.time, entry.key, entry.kind, <object>entry.frame)
    Py_DECREF(<object>entry.frame)
    return found


# --- copies of the neighbours' states ---------------------------------------------------------------------------------

@cython.final
cdef class Copies:
    """One row for each neighbour; see `netsim.core.copies.Copies`."""

    cdef dict places
    cdef readonly object table
    cdef double* data
    cdef int64_t rows, width
    cdef int64_t* rounds

    def __init__(self, neighbors, tuple shape, start=None):
        cdef int64_t i
        self.places = {neighbor: place for place, neighbor in enumerate(neighbors)}
        self.rows = len(self.places)
        self.table = np.zeros((self.rows, *shape))
        if start is not None:
            self.table[:] = start
        self.width = self.table.size // self.rows if self.rows else 0
        self.data = <double*>cnp.PyArray_DATA(self.table)
        PyMem_Free(self.rounds)
        self.rounds = <int64_t*>PyMem_Malloc(max(self.rows, 1) * sizeof(int64_t))
        if self.rounds == NULL:
            raise MemoryError
        for i in range(self.rows):
            self.rounds[i] = -1

    def __dealloc__(self):
        PyMem_Free(self.rounds)

    def __reduce__(self):
        return Copies, (tuple(self.places), self.table.shape[1:]), (self.table, [self.rounds[i] for i in range(self.rows)])

    def __setstate__(self, state):
        self.table[:] = state[0]
        for i in range(self.rows):
            self.rounds[i] = state[1][i]

    def __len__(self):
        return self.rows

    def __getitem__(self, neighbor):
        """Return the copy of one neighbour's state: a row of the table, not to be kept."""
        return self.table[self.places[neighbor]]

    def items(self):
        """Return each neighbour with the copy of its state."""
        return zip(self.places, self.table, strict=True)

    def heard(self, neighbor):
        """Return whether a frame of this neighbour was ever taken in."""
        return self.rounds[<int64_t>self.places[neighbor]] >= 0

    def take_in(self, frames, *, bint add=False):
        """Put what was heard in the place of the copies, or add it to them."""
        cdef Frame frame
        cdef int64_t place, i
        cdef double* row
        cdef double value
        cdef const char* said
        cdef bint is_vector = cnp.PyArray_NDIM(self.table) == 2
        for frame in frames:
            found = self.places.get(frame.sender)
            if found is None:
                raise AgentError(f"{frame!r}: its sender must be one of the neighbours whose states are kept")
            place = found
            if frame.round and frame.round == self.rounds[place]:
                continue
            if frame.start and is_vector and frame.length == self.width:
                row = self.data + place * self.width
                said = PyBytes_AS_STRING(frame.data) + frame.start
                if add:
                    for i in range(self.width):
                        memcpy(&value, said + 8 * i, 8)
                        row[i] += value
                else:
                    memcpy(row, said, 8 * self.width)
            else:
                array = as_state(frame, self.table.shape[1:])
                if add:
                    self.table[place] += array
                else:
                    self.table[place] = array
            self.rounds[place] = frame.round

    def sum(self):
        """Return the sum of all copies, row by row."""
        cdef int64_t i, place
        cdef double* row
        cdef double* to
        if not self.rows:
            return np.zeros(self.table.shape[1:])
        total = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(self.table) - 1, cnp.PyArray_DIMS(self.table) + 1, cnp.NPY_FLOAT64, 0)
        to = <double*>cnp.PyArray_DATA(total)
        memcpy(to, self.data, self.width * sizeof(double))
        for place in range(1, self.rows):
            row = self.data + place * self.width
            for i in range(self.width):
                to[i] += row[i]
        return total


cdef int64_t common_length(frames) except -2:
    """Return the length of the vectors that all frames carry; -1 if some carry something else, or another length."""
    cdef Frame frame
    cdef int64_t length = -1
    for frame in frames:
        if frame.start == 0 or (length >= 0 and frame.length != length):
            return -1
        length = frame.length
    return length


def stacked(frames):
    """Return the vectors of float64 that frames carry, as rows; None if they carry anything else."""
    cdef Frame frame
    cdef cnp.npy_intp shape[2]
    cdef int64_t length = common_length(frames)
    cdef char* to
    if length < 0:
        return None
    shape[0], shape[1] = len(frames), length
    table = cnp.PyArray_EMPTY(2, shape, cnp.NPY_FLOAT64, 0)
    to = <char*>cnp.PyArray_DATA(table)
    for frame in frames:
        memcpy(to, PyBytes_AS_STRING(frame.data) + frame.start, 8 * length)
        to += 8 * length
    return table


def added(frames):
    """Return the sum of the vectors of float64 that frames carry, one by one; None if they carry anything else."""
    cdef Frame frame
    cdef cnp.npy_intp shape[1]
    cdef int64_t i, length = common_length(frames)
    cdef double* to
    cdef double value
    cdef const char* said
    cdef bint first = True
    if length < 0:
        return None
    shape[0] = length
    total = cnp.PyArray_EMPTY(1, shape, cnp.NPY_FLOAT64, 0)
    to = <double*>cnp.PyArray_DATA(total)
    for frame in frames:
        said = PyBytes_AS_STRING(frame.data) + frame.start
        if first:
            memcpy(to, said, 8 * length)
            first = False
            continue
        for i in range(length):
            memcpy(&value, said + 8 * i, 8)
            to[i] += value
    return total


# --- vectors ----------------------------------------------------------------------------------------------------------

cdef inline bint is_plain(array) noexcept:
    return (
        type(array) is cnp.ndarray and cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT64 and cnp.PyArray_ISCARRAY_RO(array)
    )


cdef bint alike(y, a, b) except -1:
    """Return whether three arrays are of float64, in one piece, and of one shape."""
    return (
        is_plain(y) and is_plain(a) and is_plain(b)
        and cnp.PyArray_SAMESHAPE(y, a) and cnp.PyArray_SAMESHAPE(y, b)
    )


def add_scaled_sum(y, double alpha, a, b):
    """Return y + alpha·(a + b), for arrays of one shape."""
    if not alike(y, a, b):
        return y + alpha * (a + b)
    return combined(y, alpha, a, 1.0, b)


def add_scaled_difference(y, double alpha, a, b):
    """Return y + alpha·(a − b), for arrays of one shape."""
    if not alike(y, a, b):
        return y + alpha * (a - b)
    return combined(y, alpha, a, -1.0, b)


def add_weighted_rows(start, weights, rows):
    """Return start + Σ_i weights[i]·rows[i], added one after the other; ``rows`` has one axis more than ``start``."""
    cdef object total = start.copy()
    cdef int64_t i, j, width = cnp.PyArray_SIZE(start), count = cnp.PyArray_DIM(weights, 0)
    cdef double* to
    cdef const double* row
    cdef double weight
    if not (is_plain(total) and is_plain(weights) and is_plain(rows) and cnp.PyArray_SIZE(rows) == count * width):
        for one, vector in zip(weights, rows, strict=True):
            total += one * vector
        return total
    to = <double*>cnp.PyArray_DATA(total)
    row = <const double*>cnp.PyArray_DATA(rows)
    for i in range(count):
        weight = (<const double*>cnp.PyArray_DATA(weights))[i]
        for j in range(width):
            to[j] += weight * row[j]
        row += width
    return total


cdef object combined(y, double alpha, a, double sign, b):
    cdef object result = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(y), cnp.PyArray_DIMS(y), cnp.NPY_FLOAT64, 0)
    cdef double* to = <double*>cnp.PyArray_DATA(result)
    cdef const double* py = <const double*>cnp.PyArray_DATA(y)
    cdef const double* pa = <const double*>cnp.PyArray_DATA(a)
    cdef const double* pb = <const double*>cnp.PyArray_DATA(b)
    cdef int64_t i, size = cnp.PyArray_SIZE(y)
    for i in range(size):
        to[i] = py[i] + alpha * (pa[i] + sign * pb[i])
    return result


# --- broadcasts -------------------------------------------------------------------------------------------------------

@cython.final
cdef class Spreader:
    """Encodes an agent's broadcasts and carries them; see `netsim.core.spreader.Spreader`."""

    cdef object encoder, name, fan
    cdef Tally tally
    cdef list receivers
    cdef int64_t number, first, degree, header_bits, count
    cdef bint on_radio
    # Draws of its own, where all links have the same settings, of the usual kinds.
    cdef bint inline_draws, draws_latency
    cdef double loss, low, width
    cdef object latency_array, loss_array
    cdef const uint64_t* latency_keys
    cdef const uint64_t* loss_keys
    # What a frame begins with, by kind: up to the round.
    cdef dict heads

    def __init__(self, encoder, int64_t number, name, fan, receivers, int64_t first, Tally tally, int64_t header_bits,
                 bint on_radio):
        cdef Arrivals each
        self.encoder, self.name, self.fan, self.tally = encoder, name, fan, tally
        self.receivers = list(receivers)
        for each in self.receivers:
            pass  # Each is checked to be one of this core's: `spread` takes that for granted.
        self.number, self.first, self.degree = number, first, len(self.receivers)
        self.header_bits, self.on_radio = header_bits, on_radio
        self.heads = {}
        settings = fan.only
        if settings is not None and isinstance(settings.loss, Bernoulli):
            self.prepare(settings, fan)

    cdef prepare(self, settings, fan):
        model = settings.latency
        self.loss = settings.loss.mean
        if type(model) is ConstantLatency:
            self.low, self.width, self.draws_latency = model.fixed, 0.0, False
        elif type(model) is UniformLatency:
            self.low, self.width, self.draws_latency = model.low, model.high - model.low, True
            self.latency_array = np.ascontiguousarray(fan.stream("latency"))
            self.latency_keys = <const uint64_t*>cnp.PyArray_DATA(self.latency_array)
        else:
            return
        if self.loss:
            self.loss_array = np.ascontiguousarray(fan.stream("loss"))
            self.loss_keys = <const uint64_t*>cnp.PyArray_DATA(self.loss_array)
        self.inline_draws = True

    def delays(self):
        """Return the next broadcast's delay on each link, in seconds; negative where it is lost."""
        cdef int64_t place
        if not self.inline_draws:
            return self.fan.next()
        row = [self.delay(place) for place in range(self.degree)]
        self.count += 1
        return row

    cdef inline double delay(self, int64_t place) noexcept:
        if self.loss != 0.0 and uniform(self.loss_keys[place], self.count) < self.loss:
            return -1.0
        if self.draws_latency:
            return self.low + self.width * uniform(self.latency_keys[place], self.count)
        return self.low

    def broadcast(self, double now, int64_t number, int32_t slot, str kind, int64_t round_number, payload,
                  bint raw_data, double deadline):
        """Encode a message and carry it over every link; return how many there are."""
        cdef Frame frame = Frame.__new__(Frame)
        cdef Sent s
        frame.kind, frame.sender, frame.round, frame.sent_at, frame.plain = kind, self.name, round_number, now, True
        if not self.encode_vector(frame, kind, round_number, payload):
            frame.data = self.encoder.encode(kind, self.number, round_number, payload)
            frame.plain = not is_mutable(payload)
            s.payload_bits = payload_bits(payload)
            s.saturated = saturated(payload)
        else:
            s.payload_bits, s.saturated = 64 * frame.length, 0
        self.spread(now, number, slot, frame, deadline)
        s.time, s.number, s.kind, s.sender, s.link, s.taken = now, number, slot, self.number, -1, 1
        s.raw_data_bits = s.payload_bits if raw_data else 0
        s.each = 8 * PyBytes_GET_SIZE(frame.data) + self.header_bits
        s.wire_bits = s.each if self.on_radio else s.each * self.degree
        if self.on_radio:
            s.each = 0
        s.checksum = crc32(frame.data)
        self.tally.count_sent(&s, self.degree, round_number, False)
        return self.degree

    cdef int spread(self, double now, int64_t number, int32_t slot, Frame frame, double deadline) except -1:
        cdef int64_t place, key = (self.first << self.tally.shift) + number
        cdef int64_t step = (<int64_t>1) << self.tally.shift
        cdef double delay
        cdef Arrivals receiver
        cdef list row = None if self.inline_draws else self.fan.next()
        for place in range(self.degree):
            delay = self.delay(place) if row is None else <double>row[place]
            if delay < 0.0:
                self.tally.count_exit(now, key, slot, LOST)
            else:
                receiver = <Arrivals>self.receivers[place]
                receiver.add(now + delay, key, slot, frame)
                if not frame.plain or now + delay >= deadline:
                    receiver.careful = True
            key += step
        self.count += 1
        return 0

    cdef bint encode_vector(self, Frame frame, str kind, int64_t round_number, payload) except -1:
        """Write the bytes of a float64 vector, the usual payload; return whether it is one."""
        cdef bytes head, trailer, data
        cdef uint8_t* at
        cdef int64_t raw, size, header
        if type(payload) is not cnp.ndarray or cnp.PyArray_NDIM(payload) != 1:
            return False
        if cnp.PyArray_TYPE(payload) != cnp.NPY_FLOAT64 or not cnp.PyArray_ISCARRAY_RO(payload):
            return False
        frame.length = cnp.PyArray_DIM(payload, 0)
        raw = 8 * frame.length
        if raw == 0 or raw > 0x7FFFFFFF or not 0 <= round_number <= 0x7FFFFFFF:
            return False
        head = self.heads.get(kind)
        if head is None:
            head = self.heads[kind] = self.encoder.head(kind, self.number)
        trailer = vector_trailer(frame.length)
        size = raw + PyBytes_GET_SIZE(trailer)
        header = PyBytes_GET_SIZE(head)
        data = PyBytes_FromStringAndSize(NULL, header + integer_size(round_number) + extension_size(size) + size)
        at = <uint8_t*>PyBytes_AS_STRING(data)
        memcpy(at, PyBytes_AS_STRING(head), header)
        at = write_integer(at + header, round_number)
        at = write_extension(at, size)
        frame.start = at - <uint8_t*>PyBytes_AS_STRING(data)
        memcpy(at, cnp.PyArray_DATA(payload), raw)
        memcpy(at + raw, PyBytes_AS_STRING(trailer), PyBytes_GET_SIZE(trailer))
        frame.data = data
        return True


cdef int64_t _trailer_length = -1
cdef bytes _trailer = b""


cdef bytes vector_trailer(int64_t length):
    """Return what follows the raw bytes of a float64 vector (see `netsim.wire.codec`)."""
    global _trailer_length, _trailer
    if length != _trailer_length:
        _trailer = array_bytes(np.empty(length))[8 * length:]
        _trailer_length = length
    return _trailer


cdef int64_t integer_size(int64_t value) noexcept nogil:
    """Return the bytes of a whole number in [0, 2³¹) as msgpack writes it."""
    return 1 if value < 128 else 2 if value < 256 else 3 if value < 65536 else 5


cdef uint8_t* write_integer(uint8_t* at, int64_t value) noexcept nogil:
    if value < 128:
        at[0] = <uint8_t>value
        return at + 1
    if value < 256:
        at[0], at[1] = 0xCC, <uint8_t>value
        return at + 2
    if value < 65536:
        at[0], at[1], at[2] = 0xCD, <uint8_t>(value >> 8), <uint8_t>(value & 255)
        return at + 3
    at[0] = 0xCE
    return write_big_endian(at + 1, value)


cdef uint8_t* write_big_endian(uint8_t* at, int64_t value) noexcept nogil:
    cdef int i
    for i in range(4):
        at[i] = <uint8_t>(value >> (24 - 8 * i) & 255)
    return at + 4


cdef int64_t extension_size(int64_t size) noexcept nogil:
    """Return the bytes of the head of an extension of so many bytes, as msgpack writes it."""
    if size == 1 or size == 2 or size == 4 or size == 8 or size == 16:
        return 2
    return 3 if size < 256 else 4 if size < 65536 else 6


cdef uint8_t* write_extension(uint8_t* at, int64_t size) noexcept nogil:
    """Write the head of an extension of type 1, an array."""
    if size == 1 or size == 2 or size == 4 or size == 8 or size == 16:
        at[0] = 0xD4 if size == 1 else 0xD5 if size == 2 else 0xD6 if size == 4 else 0xD7 if size == 8 else 0xD8
        at += 1
    elif size < 256:
        at[0], at[1] = 0xC7, <uint8_t>size
        at += 2
    elif size < 65536:
        at[0], at[1], at[2] = 0xC8, <uint8_t>(size >> 8), <uint8_t>(size & 255)
        at += 3
    else:
        at[0] = 0xC9
        at = write_big_endian(at + 1, size)
    at[0] = 1
    return at + 1


# --- gates ------------------------------------------------------------------------------------------------------------

cdef enum:
    PENDING = 0
    DONE = 1
    CANCELLED = 2


@cython.final
@cython.freelist(256)
cdef class Waiter:
    """One task's wait at a gate: a future that the gate makes done."""

    cdef object loop, callback, context, number, message
    cdef list more
    cdef int state
    cdef public bint _asyncio_future_blocking

    def get_loop(self):
        return self.loop

    def done(self):
        return self.state != PENDING

    def cancelled(self):
        return self.state == CANCELLED

    def result(self):
        if self.state == DONE:
            return self.number
        if self.state == CANCELLED:
            raise self.cancellation()
        raise asyncio.InvalidStateError("Result is not set.")

    def exception(self):
        if self.state == CANCELLED:
            raise self.cancellation()
        if self.state == PENDING:
            raise asyncio.InvalidStateError("Exception is not set.")
        return None

    cdef object cancellation(self):
        return asyncio.CancelledError() if self.message is None else asyncio.CancelledError(self.message)

    def cancel(self, msg=None):
        if self.state != PENDING:
            return False
        self.state = CANCELLED
        self.message = msg
        self.loop.call_soon(self.run_callbacks)
        return True

    def add_done_callback(self, fn, *, context=None):
        if context is None:
            context = PyContext_CopyCurrent()
        if self.state != PENDING:
            self.loop.call_soon(fn, self, context=context)
        elif self.callback is None:
            self.callback, self.context = fn, context
        else:
            if self.more is None:
                self.more = []
            self.more.append((fn, context))

    def remove_done_callback(self, fn):
        all_of_them = [(self.callback, self.context)] if self.callback is not None else []
        all_of_them += self.more or []
        kept = [pair for pair in all_of_them if pair[0] != fn]
        self.callback, self.context = kept[0] if kept else (None, None)
        self.more = kept[1:] or None
        return len(all_of_them) - len(kept)

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        if self.state == PENDING:
            self._asyncio_future_blocking = True
            return self
        raise StopIteration(self.result())

    def run_callbacks(self):
        """Call whoever waits."""
        self.go(getattr(self.loop, "on_call", None))

    cdef int go(self, notes) except -1:
        """Call whoever waits, once those were told that note calls (`netsim.clock.clock.Loop.note_calls`)."""
        callback, context, more = self.callback, self.context, self.more
        self.callback = self.context = self.more = None
        if notes:
            for _, each in [(callback, context), *(more or ())]:
                for note in notes if each is not None else ():
                    note(each)
        if callback is not None:
            self.call(callback, context)
        for callback, context in more or ():
            self.call(callback, context)
        return 0

    cdef int call(self, callback, context) except -1:
        try:
            context.run(callback, self)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self.loop.call_exception_handler(
                {"message": f"Exception in callback {callback!r}", "exception": error, "future": self}
            )
        return 0


@cython.final
cdef class Gate:
    """Opens again and again; see `netsim.core.gate.Gate`."""

    cdef object loop
    cdef list waiting

    def __init__(self, loop):
        self.loop = loop
        self.waiting = []

    def __len__(self):
        return len(self.waiting)

    def wait(self):
        """Return a future of the number with which it opens next."""
        cdef Waiter waiter = Waiter.__new__(Waiter)
        waiter.loop = self.loop
        waiter.state = PENDING
        self.waiting.append(waiter)
        return waiter

    def open(self, number):
        """Let all go on."""
        cdef Waiter waiter
        cdef list done = []
        for waiter in self.waiting:
            if waiter.state == PENDING:
                waiter.state = DONE
                waiter.number = number
                done.append(waiter)
        self.waiting = []
        if done:
            # One callback for all: each in turn, as if each had been called soon.
            self.loop.call_soon(self.go_on, done)

    def go_on(self, list waiters):
        cdef Waiter waiter
        cdef Py_ssize_t i, size = len(waiters)
        notes = getattr(self.loop, "on_call", None)
        for i in range(size):
            waiter = waiters[i]
            try:
                waiter.go(notes)
            except BaseException:
                # Only what ends the whole loop comes this far; the others still go on if that is taken up again.
                if i + 1 < size:
                    self.loop.call_soon(self.go_on, waiters[i + 1:])
                raise

    def clear(self):
        """Let nobody who waits go on."""
        self.waiting = []
