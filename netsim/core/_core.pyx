# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: embedsignature=False, always_allow_keywords=True
"""The compiled core: it carries broadcasts over links that only lose and delay frames, and counts the frames.

Each class and function has an equivalent in a Python module of this folder, its twin, which defines and documents it.
Both give the same frames, random draws and trace hash; tests/netsim/core/test_core.py compares them. `_core.pxd`
declares the types for other compiled modules.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_New
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.math cimport INFINITY, NAN
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset
cimport cython
cimport numpy as cnp

import asyncio
import math
import os
from zlib import crc32

import numpy as np

from netsim.util import draws
from netsim.core.records import ALL_CAUSES, BY_LINK, DELIVERED, KEPT, LOST, SUMMED, TO_ALL, Transmission, key_shift
from netsim.errors import AgentError
from netsim.links.latency import Constant as ConstantLatency
from netsim.links.latency import Uniform as UniformLatency
from netsim.links.loss import Bernoulli
from netsim.core.copies import as_state
from netsim.core.delivery import Delivery
from netsim.core.frame import message_hash
from netsim.wire import registry
from netsim.wire.codec import (
    ARRAY,
    array_trailer,
    extension,
    is_mutable,
    payload_bits,
    read_extension,
    saturated,
    unpack_payload,
)
from netsim.wire.coded import Coded

cnp.import_array()

cdef extern from "Python.h":
    object PyContext_CopyCurrent()
    void PyErr_SetObject(object, object)

cdef extern from *:
    """
    #include <stdlib.h>
    #ifdef __GLIBC__
    #include <malloc.h>
    /* By default glibc returns freed memory to the system, and getting it back costs more than copying, checking and
       adding the vectors that it holds. So keep freed blocks of up to 32 MB, the most that malloc allows. */
    static void keep_freed_memory(void) {
        mallopt(M_MMAP_THRESHOLD, 1 << 25);
        mallopt(M_TRIM_THRESHOLD, 0x7FFFFFFF);
    }
    #else
    static void keep_freed_memory(void) {}
    #endif
    """
    void keep_freed_memory()

# When the first vector of at least this many bytes is sent, the process is set to keep freed memory
# (`keep_freed_memory`), unless the environment sets options of malloc itself.
cdef int64_t LARGE = 1 << 20
cdef bint _keeps_memory = any(name.startswith("MALLOC_") for name in os.environ)

cdef int ARRAY_NUMBER = ARRAY
# Vectors of at least this many bytes are stored separately from a frame's other bytes, so that they are aligned and
# numpy can use them without a copy.
cdef int64_t APART = 1 << 16
cdef uint64_t GAMMA = 0x9E3779B97F4A7C15ULL


# --- checksums --------------------------------------------------------------------------------------------------------

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    #include <immintrin.h>

    static int folds(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    }

    __attribute__((target("pclmul,sse4.1")))
    static __m128i folded(__m128i x, __m128i by, __m128i next) {
        return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)), next);
    }

    /* Take the `count` bytes at `at`, with `crc` XORed into the first 4, and write to `out` 16 bytes that have the same
       CRC-32 remainder. `count` is a multiple of 64. See Gopal et al., "Fast CRC computation for generic polynomials
       using PCLMULQDQ instruction", Intel 2009: the constants are x**n modulo the polynomial, reflected. */
    __attribute__((target("pclmul,sse4.1")))
    static void fold(const char* at, int64_t count, uint32_t crc, char* out) {
        const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
        const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
        const __m128i* next = (const __m128i*)at;
        const __m128i* end = (const __m128i*)(at + count);
        __m128i a = _mm_xor_si128(_mm_loadu_si128(next), _mm_cvtsi32_si128((int)crc));
        __m128i b = _mm_loadu_si128(next + 1), c = _mm_loadu_si128(next + 2), d = _mm_loadu_si128(next + 3);
        for (next += 4; next < end; next += 4) {
            a = folded(a, by_64, _mm_loadu_si128(next));
            b = folded(b, by_64, _mm_loadu_si128(next + 1));
            c = folded(c, by_64, _mm_loadu_si128(next + 2));
            d = folded(d, by_64, _mm_loadu_si128(next + 3));
        }
        a = folded(folded(folded(a, by_16, b), by_16, c), by_16, d);
        memcpy(out, &a, 16);
    }
    #else
    static int folds(void) { return 0; }
    static void fold(const char* at, int64_t count, uint32_t crc, char* out) {}
    #endif
    """
    bint folds() nogil
    void fold(const char* at, int64_t count, uint32_t crc, char* out) nogil

cdef bint CAN_FOLD = folds()


cdef object crc_on(uint32_t crc, bytes data):
    """Return ``crc32(data, crc)``, several times faster for long data."""
    cdef int64_t size = PyBytes_GET_SIZE(data)
    cdef int64_t count = size & ~(<int64_t>63)
    cdef char[16 + 63] rest
    if count < 256 or not CAN_FOLD:
        return crc32(data, crc)
    fold(PyBytes_AS_STRING(data), count, crc ^ 0xFFFFFFFFu, rest)
    memcpy(rest + 16, PyBytes_AS_STRING(data) + count, size - count)
    # `crc32` inverts its register at the start and at the end, so both values of the register are inverted here.
    return crc32(PyBytes_FromStringAndSize(rest, 16 + size - count), 0xFFFFFFFFu)


# --- counting ---------------------------------------------------------------------------------------------------------

# Each F_* is the index of a field of `Transmission` in a C array with 8 bytes per field.
_FIELDS = Transmission._fields
assert len(_FIELDS) <= MOST_FIELDS
cdef int N_FIELDS = len(_FIELDS)
cdef int F_TIME = _FIELDS.index("time"), F_NUMBER = _FIELDS.index("number"), F_KIND = _FIELDS.index("kind")
cdef int F_SENDER = _FIELDS.index("sender"), F_LINK = _FIELDS.index("link"), F_TAKEN = _FIELDS.index("taken")
cdef int F_PAYLOAD = _FIELDS.index("payload_bits"), F_RAW = _FIELDS.index("raw_data_bits")
cdef int F_WIRE = _FIELDS.index("wire_bits"), F_SATURATED = _FIELDS.index("saturated")
cdef int F_EACH = _FIELDS.index("each"), F_CHECKSUM = _FIELDS.index("checksum")
# SUMMED_FIELDS: the indices of the fields that are summed over transmissions. MIXED_FIELDS: the indices of the fields
# that enter the hash unchanged.
cdef int[MOST_FIELDS] SUMMED_FIELDS, MIXED_FIELDS
cdef int N_SUMMED = 0, N_MIXED = 0
for _index, _name in enumerate(_FIELDS):
    if _index in SUMMED.values():
        SUMMED_FIELDS[N_SUMMED] = _index
        N_SUMMED += 1
    if _name not in ("sender", "kind", "link", "time"):
        MIXED_FIELDS[N_MIXED] = _index
        N_MIXED += 1

# The names of a tally's tables, as in the Python twin. The tables of the causes come first, so that a cause's number is
# the index of the cause's table. The other tables with a column per link follow.
_TABLES = (*BY_LINK, *(f"sender {name}" for name in SUMMED), "all offered", "all wire_bits")
cdef int N_CAUSES = len(ALL_CAUSES), N_BY_LINK = len(BY_LINK), N_TABLES = len(_TABLES)
cdef int T_OFFERED = _TABLES.index("offered"), T_DUPLICATED = _TABLES.index("duplicated")
cdef int T_WIRE = _TABLES.index("wire_bits"), T_SENDERS_WIRE = _TABLES.index("sender wire_bits")
cdef int T_ALL_OFFERED = _TABLES.index("all offered"), T_ALL_WIRE = _TABLES.index("all wire_bits")
cdef int S_WIRE = list(SUMMED).index("wire_bits")
cdef int C_DELIVERED = DELIVERED, C_LOST = LOST, ALL_LINKS = TO_ALL
assert N_TABLES <= MOST_TABLES


@cython.final
cdef class Tally:
    """Counts and hash of one run; see `netsim.core.tally.Tally`."""

    def __init__(self, agent_keys, link_keys, keep):
        self.agents, self.links = len(agent_keys), len(link_keys)
        self.shift = key_shift(self.links)
        self.kinds = {}
        self.agent_keys_array = np.ascontiguousarray(agent_keys, dtype=np.uint64)
        self.link_keys_array = np.ascontiguousarray(link_keys, dtype=np.uint64)
        self.agent_keys = <const uint64_t*>cnp.PyArray_DATA(self.agent_keys_array)
        self.link_keys = <const uint64_t*>cnp.PyArray_DATA(self.link_keys_array)
        self.kind_keys_array = np.zeros(0, dtype=np.uint64)
        self.arrays = [None] * N_TABLES
        self.kept = [bytearray() for _ in KEPT]
        self.keeps = keep

    @property
    def exits(self):
        """How many link messages have ended so far, by cause."""
        return [self.counted[i] for i in range(N_CAUSES)]

    @property
    def totals(self):
        """The running totals of the columns in `netsim.core.records.SUMMED`, in their order."""
        return [self.summed[i] for i in range(N_SUMMED)]

    def kind(self, str name):
        """Return the id of a kind of message, assigning one if the kind is new."""
        number = self.kinds.get(name)
        if number is None:
            number = self.kinds[name] = len(self.kinds)
            self.kind_keys_array = np.append(self.kind_keys_array, np.uint64(draws.name_key(name)))
            self.kind_keys = <const uint64_t*>cnp.PyArray_DATA(self.kind_keys_array)
            if len(self.kinds) > self.rows:
                self.grow()
        return number

    cdef grow(self):
        """Add rows for more kinds to every table in use."""
        cdef int i
        self.rows = max(1, 2 * len(self.kinds) - 1)
        for i in range(N_TABLES):
            if self.data[i] != NULL:
                self.made(i)

    cdef int64_t* table(self, int which) except NULL:
        return self.data[which] if self.data[which] != NULL else self.made(which)

    cdef int64_t* made(self, int which) except NULL:
        """Allocate the table with this index or, if it exists, add rows to it; return it."""
        grown = np.zeros((self.rows, self.links if which < N_BY_LINK else self.agents), dtype=np.int64)
        before = self.arrays[which]
        if before is not None:
            grown[: len(before)] = before
        self.arrays[which] = grown
        self.data[which] = <int64_t*>cnp.PyArray_DATA(grown)
        return self.data[which]

    def sent(self, record, int64_t links, int64_t round_number, bint reply):
        """Count a transmission over ``links`` links; ``round_number`` and ``reply`` are only stored for the trace."""
        cdef int64_t fields[MOST_FIELDS]
        cdef int i
        for i in range(N_FIELDS):
            fields[i] = bits_of(record[i]) if i == F_TIME else <int64_t>record[i]
        self.count_sent(fields, links, round_number, reply)

    cdef int count_sent(self, const int64_t* fields, int64_t links, int64_t round_number, bint reply) except -1:
        cdef Detail detail
        cdef uint64_t h
        cdef int64_t kind = fields[F_KIND], link = fields[F_LINK]
        cdef int64_t by_sender = kind * self.agents + fields[F_SENDER], by_link = kind * self.links + link
        cdef int i
        self.link_messages += links
        for i in range(N_SUMMED):
            self.summed[i] += fields[SUMMED_FIELDS[i]] if fields[F_TAKEN] else 0
            self.table(N_BY_LINK + i)[by_sender] += fields[SUMMED_FIELDS[i]]
        if link == ALL_LINKS:
            self.table(T_ALL_OFFERED)[by_sender] += 1
            self.table(T_ALL_WIRE)[by_sender] += fields[F_EACH]
        else:
            self.table(T_OFFERED)[by_link] += 1
            self.table(T_WIRE)[by_link] += fields[F_EACH]
        h = mix_word(0, self.agent_keys[fields[F_SENDER]])
        h = mix_word(h, self.kind_keys[kind])
        h = mix_word(h, self.link_keys[link] if link != ALL_LINKS else 0)
        h = mix_word(h, <uint64_t>fields[F_TIME])
        for i in range(N_MIXED):
            h = mix_word(h, <uint64_t>fields[MIXED_FIELDS[i]])
        self.first_sum += h
        self.second_sum += mix_word(0, h)
        if self.keeps:
            detail.round, detail.reply = round_number, reply
            self.keep(KEPT_SENT, fields, N_FIELDS * sizeof(int64_t))
            self.keep(KEPT_DETAILS, &detail, sizeof(Detail))
        return 0

    cpdef int link_bits(self, int64_t link, int64_t kind, int64_t bits) except -1:
        """Count the wire bits that a message took on one link."""
        self.table(T_WIRE)[kind * self.links + link] += bits
        return 0

    cpdef int left(self, double time, int64_t key, int64_t number, int64_t bits) except -1:
        """Store the time (s) at which a link message left, and its wire bits; call this only if ``keeps`` is true."""
        cdef Left record
        record.time, record.key, record.number, record.bits = time, key, number, bits
        return self.keep(KEPT_LEFT, &record, sizeof(Left))

    def aired(self, int64_t sender, int64_t kind, int64_t bits):
        """Count wire bits that a node sent on a shared medium, where `sent` is called before their number is known."""
        self.summed[S_WIRE] += bits
        self.table(T_SENDERS_WIRE)[kind * self.agents + sender] += bits

    cpdef int duplicate(self, int64_t link, int64_t kind) except -1:
        """Count a second copy of a message, made by a link that duplicates."""
        self.duplicated += 1
        self.table(T_DUPLICATED)[kind * self.links + link] += 1
        return 0

    def delivered(self, times, keys, kinds):
        """Count link messages that reached an inbox, given their arrival times (s), keys and kinds."""
        for time, key, kind in zip(times, keys, kinds, strict=True):
            self.count_outcome(time, key, kind, C_DELIVERED)

    def ended(self, double time, int64_t key, int32_t kind, int cause):
        """Count a link message that ended at ``time`` (s) for a cause."""
        self.count_outcome(time, key, kind, cause)

    cdef int count_outcome(self, double time, int64_t key, int32_t kind, int cause) except -1:
        cdef int64_t link = key >> self.shift
        cdef uint64_t h
        cdef Outcome record
        self.counted[cause] += 1
        self.table(cause)[kind * self.links + link] += 1
        h = mix_word(0, self.link_keys[link] + <uint64_t>(key & (((<int64_t>1) << self.shift) - 1)) * GAMMA)
        h = mix_word(h, bits_of(time))
        h = mix_word(h, self.kind_keys[kind] + <uint64_t>cause)
        self.first_sum += h
        self.second_sum += mix_word(0, h)
        if self.keeps:
            record.time, record.key, record.kind, record.cause = time, key, kind, cause
            self.keep(KEPT_OUTCOMES, &record, sizeof(Outcome))
        return 0

    cdef int keep(self, int which, const void* record, int64_t length) except -1:
        """Append a record to the stored records of its type."""
        cdef bytearray to = <bytearray>self.kept[which]
        if self.size[which] + length > PyByteArray_GET_SIZE(to):
            PyByteArray_Resize(to, max(1 << 16, 2 * (self.size[which] + length)))
        memcpy(PyByteArray_AS_STRING(to) + self.size[which], record, length)
        self.size[which] += length
        return 0

    def by_link(self, str name):
        """Return a column of `netsim.core.records.BY_LINK`, shape (kinds, links)."""
        return self.counts(name)

    def by_sender(self, str name):
        """Return a column of `netsim.core.records.SUMMED`, shape (kinds, agents)."""
        return self.counts("sender " + name)

    def to_all(self, str name):
        """Return the broadcasts' part of the column ``offered`` or ``wire_bits``, shape (kinds, agents).

        A broadcast adds the same number to every link of its sender, so this number is stored once, for the sender.
        """
        return self.counts("all " + name)

    cdef counts(self, str name):
        cdef int which = _TABLES.index(name)
        if not self.kinds:
            return np.zeros((0, self.links if which < N_BY_LINK else self.agents), dtype=np.int64)
        self.table(which)
        return self.arrays[which][: len(self.kinds)]

    @property
    def sums(self):
        """The two sums, over all records so far, from which the trace hash is computed."""
        return np.array([self.first_sum, self.second_sum], dtype=np.uint64)

    cdef since(self, const int64_t* first):
        """Return {name of record type: array of stored records}; the records of type i from byte ``first[i]`` on."""
        return {
            name: np.frombuffer(bytes(self.kept[i][first[i] : self.size[i]]), dtype)
            for i, (name, dtype) in enumerate(KEPT.items())
        }

    def records(self):
        """Return the stored records as arrays with the names and dtypes of `KEPT`; None if ``keeps`` is false."""
        cdef int64_t first[N_KEPT]
        memset(first, 0, sizeof(first))
        return self.since(first) if self.keeps else None

    def news(self, bint forget):
        """Return the records stored since the last call; with ``forget``, discard all stored records afterwards."""
        found = self.since(self.returned)
        if forget:
            memset(self.size, 0, sizeof(self.size))
        memcpy(self.returned, self.size, sizeof(self.size))
        return found


# --- frames -----------------------------------------------------------------------------------------------------------

@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Frame:
    """A received message; see `netsim.core.frame.Frame`."""

    def __init__(self, str kind, sender, int64_t round, double sent_at, bytes data, bint plain=True, request=None,
                 bint is_reply=False, int64_t sequence=0, reception=None, carried=None):
        self.kind = kind
        self.carried = carried
        self.stamped = reception is not None
        if self.stamped:
            signal, self.first_bit, event = reception
            self.moment, self.measured = NAN if event is None else event, signal is not None
            if self.measured:
                self.power, self.noise, self.interference = signal
        self.sender = sender
        self.round = round
        self.sent_at = sent_at
        self.written = data
        self.plain = plain
        self.request = request
        self.is_reply = is_reply
        self.sequence = sequence

    @property
    def payload(self):
        """The message, decoded at the first read."""
        if not self.read:
            self.value = self.decoded() if self.sent is None else self.sent.payload
            self.read = True
        return self.value

    @property
    def data(self):
        """The frame's bytes as they crossed the link."""
        return self.whole()

    cdef bytes whole(self):
        """Return the joined bytes of the frame. Do not store them, because a long vector would then be held twice."""
        return self.written if self.vector is None else self.head + self.vector + self.trailer

    cpdef int64_t size(self):
        """Return the frame's size in bytes."""
        if self.vector is None:
            return PyBytes_GET_SIZE(self.written)
        return PyBytes_GET_SIZE(self.head) + PyBytes_GET_SIZE(self.vector) + PyBytes_GET_SIZE(self.trailer)

    cdef const char* elements(self):
        """Return a pointer to the vector's elements, which may be unaligned."""
        return PyBytes_AS_STRING(self.written) + self.start if self.vector is None else PyBytes_AS_STRING(self.vector)

    cdef void fetch(self) noexcept:
        """Prefetch the first elements of the vector; the processor fetches the following elements by itself."""
        cdef const char* at = self.elements()
        cdef int64_t i
        for i in range(0, min(8 * self.length, 1024), 64):
            prefetch(at + i)

    cdef object checksum(self):
        """Return the CRC of the frame's bytes."""
        if self.vector is None:
            return crc_on(0, self.written)
        return crc32(self.trailer, crc_on(crc32(self.head), self.vector))

    cdef object decoded(self):
        cdef cnp.npy_intp shape[1]
        cdef object array
        cdef bytes raw = self.vector
        cdef int kind
        if self.carried is not None:
            return self.carried.payload(self.written)
        if self.extension:
            return read_extension(self.written[self.extension - 1], self.written[self.extension :])
        if self.start == 0:
            return unpack_payload(self.written)[3]
        if raw is None:
            # Copy the elements to a new bytes object: numpy arrays on its memory are aligned, and cannot be made
            # writable.
            raw = PyBytes_FromStringAndSize(self.elements(), (4 if self.single else 8) * self.length)
        shape[0] = self.length
        kind = cnp.NPY_FLOAT32 if self.single else cnp.NPY_FLOAT64
        array = cnp.PyArray_SimpleNewFromData(1, shape, kind, PyBytes_AS_STRING(raw))
        cnp.set_array_base(array, raw)
        cnp.PyArray_CLEARFLAGS(array, cnp.NPY_ARRAY_WRITEABLE)
        return array

    def copy(self):
        """Return a copy of the frame; the copy decodes the payload again, so the two share no payload."""
        return Frame(*self.__reduce__()[1])

    @property
    def rssi_dbm(self):
        """The power (dBm) with which the signal was received; None unless a `netsim.Radio` has ``powers`` or a phy."""
        return 10.0 * math.log10(self.power) if self.measured else None

    @property
    def snr_db(self):
        """Signal power over noise plus mean interference (dB); None unless a `netsim.Radio` has a phy."""
        if not self.measured or self.noise == 0.0:
            return None
        return 10.0 * math.log10(self.power / (self.noise + self.interference))

    @property
    def lqi(self):
        """The link quality, from 0 for an `snr_db` of 0 or less to 255 for 40 or more; None without an `snr_db`."""
        snr = self.snr_db
        return None if snr is None else round(255 * min(max(snr / 40.0, 0.0), 1.0))

    @property
    def began(self):
        """When the frame's first bit arrived, by the receiver's own clock (s); None unless it came over a radio."""
        return self.first_bit if self.stamped else None

    @property
    def event(self):
        """Time (s) of the sender's ``event`` by the receiver's own clock; None without an event, or if too old."""
        return self.moment if self.stamped and self.moment == self.moment else None

    def received(self, signal, double began, event=None):
        """Return a copy for one receiver, with the power of signal, noise and interference (mW) at that receiver."""
        cdef Frame frame = self.heard(began, NAN if event is None else event)
        if signal is not None:
            frame.measured = True
            frame.power, frame.noise, frame.interference = signal
        return frame

    cdef Frame heard(self, double first_bit, double moment):
        """Return a copy for one receiver, with times by its own clock, and without powers."""
        cdef Frame frame = Frame.__new__(Frame)
        frame.kind, frame.sender, frame.round, frame.sent_at = self.kind, self.sender, self.round, self.sent_at
        frame.written, frame.plain, frame.request = self.written, self.plain, self.request
        frame.head, frame.vector, frame.trailer = self.head, self.vector, self.trailer
        frame.is_reply, frame.sequence, frame.carried = self.is_reply, self.sequence, self.carried
        frame.stamped, frame.first_bit, frame.moment = True, first_bit, moment
        frame.start, frame.length, frame.single, frame.extension = self.start, self.length, self.single, self.extension
        frame.sent = self if self.plain else None
        return frame

    def __hash__(self):
        return message_hash(self.sender, self.kind, self.round, self.sent_at, self.sequence, self.request)

    def __repr__(self):
        return f"<Frame {self.kind!r} from {self.sender!r} in round {self.round}, {self.size()} bytes>"

    def __reduce__(self):
        fields = (self.kind, self.sender, self.round, self.sent_at, self.data, self.plain, self.request, self.is_reply,
                  self.sequence)
        if not self.stamped and self.carried is None:
            return Frame, fields
        signal = (self.power, self.noise, self.interference) if self.measured else None
        return Frame, (*fields, (signal, self.began, self.event) if self.stamped else None, self.carried)


# --- arrivals ---------------------------------------------------------------------------------------------------------

cdef inline bint before(const Entry* a, const Entry* b) noexcept nogil:
    return a.time < b.time or (a.time == b.time and a.key < b.key)


cdef void sift_up(Entry* heap, int64_t index) noexcept nogil:
    cdef Entry entry = heap[index]
    cdef int64_t parent
    while index > 0:
        parent = (index - 1) >> 1
        if not before(&entry, &heap[parent]):
            break
        heap[index] = heap[parent]
        index = parent
    heap[index] = entry


cdef void sift_down(Entry* heap, int64_t size, int64_t index) noexcept nogil:
    cdef Entry entry = heap[index]
    cdef int64_t child
    while True:
        child = 2 * index + 1
        if child >= size:
            break
        if child + 1 < size and before(&heap[child + 1], &heap[child]):
            child += 1
        if not before(&heap[child], &entry):
            break
        heap[index] = heap[child]
        index = child
    heap[index] = entry


cdef void sort_entries(Entry* entries, int64_t size) noexcept nogil:
    """Sort entries in place, by insertion if they are few, else by a heap. Entries that are in order need no sort."""
    cdef int64_t i = 1, j
    cdef Entry entry
    while i < size and before(&entries[i - 1], &entries[i]):
        i += 1
    if i >= size:
        return
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
    # A heap yields its smallest entry first, and each entry taken frees a place at the back. So fill the places from
    # the back, then reverse all entries.
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
cdef class ArrivalQueue:
    """The frames on their way to one inbox; see `netsim.core.arrival_queue.ArrivalQueue`."""

    def __cinit__(self, Tally tally):
        self.tally, self.up = tally, True

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

    def push(self, double time, int64_t key, int32_t kind, Frame frame, double deadline=-INFINITY):
        """Add a frame; set ``careful`` if `Frame.plain` is false or the frame arrives at or after ``deadline`` (s)."""
        self.put(time, key, kind, frame, deadline)

    cdef int put(self, double time, int64_t key, int32_t kind, Frame frame, double deadline) except -1:
        self.add(time, key, kind, frame)
        if time >= deadline or not frame.plain:
            self.careful = True
        return 0

    cdef void merge(self) noexcept:
        while self.heap < self.size:
            sift_up(self.entries, self.heap)
            self.heap += 1

    def first(self):
        """Return the time of the next arrival, in seconds; infinite if there is none."""
        self.merge()
        return self.entries[0].time if self.size else INFINITY

    cdef int64_t arrange(self, double until) noexcept:
        """Sort the entries if there is no heap; return how many of them arrive before ``until`` (s)."""
        cdef int64_t count = 0
        if self.heap == 0:
            sort_entries(self.entries, self.size)
            while count < self.size and self.entries[count].time < until:
                count += 1
            self.fetch(count)
        return count

    cdef void fetch(self, int64_t count) noexcept:
        """Prefetch the scattered memory that is needed to count and read the first ``count`` entries."""
        cdef Entry* entry
        cdef const int64_t* delivered
        cdef int64_t i, link
        for i in range(count):
            entry = &self.entries[i]
            link = entry.key >> self.tally.shift
            delivered = self.tally.data[C_DELIVERED]
            prefetch(&self.tally.link_keys[link])
            if delivered != NULL:
                prefetch(&delivered[entry.kind * self.tally.links + link])
            prefetch(entry.frame)
            prefetch(<const char*>entry.frame + 64)

    cdef void drop(self, int64_t count) noexcept:
        """Drop the first ``count`` entries. The other entries are sorted, and therefore a heap."""
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
        """Pop the heap's first entry if it arrives before ``until`` (s); return whether it did."""
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
        """Remove and return, in order, the entries that arrive before ``until`` (s)."""
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
                self.tally.count_outcome(self.entries[i].time, self.entries[i].key, self.entries[i].kind, C_DELIVERED)
                # The list takes over the entry's reference to the frame.
                PyList_SET_ITEM_raw(found, i, self.entries[i].frame)
            self.drop(count)
            return found
        self.merge()
        found = []
        while self.pop(until, &entry):
            self.tally.count_outcome(entry.time, entry.key, entry.kind, C_DELIVERED)
            found.append(<object>entry.frame)
            Py_DECREF(<object>entry.frame)
        self.shrink()
        return found

    def clear(self):
        """Remove all frames without counting an outcome for them."""
        cdef int64_t i
        for i in range(self.size):
            Py_DECREF(<object>self.entries[i].frame)
        self.size = 0
        self.shrink()

    def under_way(self):
        """Return the key and the kind id of each frame in the queue."""
        return [(self.entries[i].key, self.entries[i].kind) for i in range(self.size)]


cdef extern from "Python.h":
    void PyList_SET_ITEM_raw "PyList_SET_ITEM"(object, Py_ssize_t, PyObject*)


cdef tuple as_tuple(Entry* entry):
    """Return an entry as a tuple, which takes over the entry's reference to the frame."""
    found = (entry.time, entry.key, entry.kind, <object>entry.frame)
    Py_DECREF(<object>entry.frame)
    return found


# --- copies of the neighbours' states ---------------------------------------------------------------------------------

# The last class found to inherit `__array__` and `values` from `Coded`. The class is stored, because testing it again
# for every frame took longer than copying a row.
cdef object decoded_by_coded = None


@cython.final
cdef class Copies:
    """A table with one row per neighbour; see `netsim.core.copies.Copies`."""

    def __init__(self, neighbors, tuple shape, start=None):
        cdef int64_t i
        self.neighbors = list(neighbors)
        self.row_of = {neighbor: i for i, neighbor in enumerate(self.neighbors)}
        self.rows = len(self.row_of)
        self.table = np.zeros((self.rows, *shape))
        if start is not None:
            self.table[:] = start
        self.width = self.table.size // self.rows if self.rows else 0
        self.data = <double*>cnp.PyArray_DATA(self.table)
        PyMem_Free(self.rounds)
        self.rounds = <int64_t*>PyMem_Malloc(2 * max(self.rows, 1) * sizeof(int64_t))
        if self.rounds == NULL:
            raise MemoryError
        self.following = self.rounds + self.rows
        for i in range(self.rows):
            self.rounds[i], self.following[i] = -1, (i + 1) % self.rows

    def __dealloc__(self):
        PyMem_Free(self.rounds)

    def __reduce__(self):
        return Copies, (tuple(self.row_of), self.table.shape[1:]), (self.table, [self.rounds[i] for i in range(self.rows)])

    def __setstate__(self, state):
        self.table[:] = state[0]
        for i in range(self.rows):
            self.rounds[i] = state[1][i]

    def __len__(self):
        return self.rows

    def __getitem__(self, neighbor):
        """Return the copy of one neighbour's state: a view of the table, which later frames change."""
        return self.table[self.row_of[neighbor]]

    def items(self):
        """Return each neighbour with the copy of its state."""
        return zip(self.row_of, self.table, strict=True)

    def heard(self, neighbor):
        """Return whether any frame of this neighbour has been taken in."""
        return self.rounds[<int64_t>self.row_of[neighbor]] >= 0

    def take_in(self, frames, *, bint add=False):
        """Replace the copies of the senders' states by the frames' payloads; if ``add``, add the payloads instead."""
        for frame in frames:
            self.take(frame, add)

    cdef int64_t row(self, Frame frame) except -1:
        """Return the row of a frame's sender."""
        cdef int64_t expected
        if self.rows:
            expected = self.following[self.last]
            if self.neighbors[expected] is frame.sender:
                self.last = expected
                return expected
        found = self.row_of.get(frame.sender)
        if found is None:
            raise AgentError(f"{frame!r}: its sender must be one of the neighbours whose states are kept")
        self.following[self.last] = found
        self.last = found
        return self.last

    cdef int take(self, Frame frame, bint add) except -1:
        cdef int64_t index = self.row(frame)
        if frame.round and frame.round == self.rounds[index]:
            return 0
        if frame.start and cnp.PyArray_NDIM(self.table) == 2 and frame.length == self.width:
            if add:
                add_elements(self.data + index * self.width, frame, self.width)
            else:
                copy_elements(self.data + index * self.width, frame, self.width)
        else:
            array = self.state_of(frame)
            if is_plain(array):
                self.put(index, array, add)
            elif add:
                self.table[index] += array
            else:
                self.table[index] = array
        self.rounds[index] = frame.round
        return 0

    cdef object state_of(self, Frame frame):
        """Return the payload as `as_state` does, but faster for coded arrays whose class does not override `values`."""
        payload = frame.payload
        cdef object kind = type(payload)
        global decoded_by_coded
        if kind is not decoded_by_coded and isinstance(payload, Coded) and kind.__array__ is Coded.__array__:
            decoded_by_coded = kind if kind.values is Coded.values else None
        if kind is decoded_by_coded:
            values = payload.values
            if is_plain(values) and cnp.PyArray_SIZE(values) == self.width and values.shape == self.table.shape[1:]:
                return values
        return as_state(frame, self.table.shape[1:])

    cdef int put(self, int64_t index, array, bint add) except -1:
        """Write an array of the states' shape into a row, or add it to the row."""
        cdef double* row = self.data + index * self.width
        cdef const double* values = <const double*>cnp.PyArray_DATA(array)
        cdef int64_t i
        if add:
            for i in range(self.width):
                row[i] += values[i]
        else:
            memcpy(row, values, self.width * sizeof(double))
        return 0

    cpdef int receive(self, ArrivalQueue arrivals, double until, bint add=False) except -1:
        """Take in the frames that arrive before ``until`` (s), remove them from the queue, count them as delivered."""
        cdef Entry* entry
        cdef int64_t i, count
        if arrivals.heap != 0:
            self.take_in(arrivals.deliver(until), add=add)
            return 0
        count = arrivals.arrange(until)
        for i in range(count):
            entry = &arrivals.entries[i]
            arrivals.tally.count_outcome(entry.time, entry.key, entry.kind, C_DELIVERED)
        try:
            for i in range(count):
                self.take(<Frame>arrivals.entries[i].frame, add)
        finally:
            for i in range(count):
                Py_DECREF(<object>arrivals.entries[i].frame)
            arrivals.drop(count)
        return 0

    def sum(self):
        """Return the sum of all copies, added in the order of the rows."""
        cdef int64_t i, index
        cdef double* row
        cdef double* to
        if not self.rows:
            return np.zeros(self.table.shape[1:])
        total = cnp.PyArray_EMPTY(cnp.PyArray_NDIM(self.table) - 1, cnp.PyArray_DIMS(self.table) + 1, cnp.NPY_FLOAT64, 0)
        to = <double*>cnp.PyArray_DATA(total)
        memcpy(to, self.data, self.width * sizeof(double))
        for index in range(1, self.rows):
            row = self.data + index * self.width
            for i in range(self.width):
                to[i] += row[i]
        return total


# --- vectors in frames ------------------------------------------------------------------------------------------------

cdef void copy_elements(double* to, Frame frame, int64_t count) noexcept:
    """Copy the first elements of a frame's vector, which may be unaligned in the frame."""
    cdef const char* sent = frame.elements()
    cdef int64_t i
    cdef float small
    if not frame.single:
        memcpy(to, sent, 8 * count)
        return
    for i in range(count):
        memcpy(&small, sent + 4 * i, 4)
        to[i] = small


cdef void add_elements(double* to, Frame frame, int64_t count) noexcept:
    """Add the first elements of a frame's vector to an array."""
    cdef const char* sent = frame.elements()
    cdef int64_t i
    cdef float small
    cdef double value
    if frame.single:
        for i in range(count):
            memcpy(&small, sent + 4 * i, 4)
            to[i] += small
    else:
        for i in range(count):
            memcpy(&value, sent + 8 * i, 8)
            to[i] += value


cdef int64_t common_length(frames) except -2:
    """Return the common length of the frames' vectors; -1 if lengths differ or a payload is no vector."""
    cdef Frame frame
    cdef int64_t length = -1
    for frame in frames:
        if frame.start == 0 or (length >= 0 and frame.length != length):
            return -1
        length = frame.length
        frame.fetch()
    return length


def stacked(frames):
    """Return the frames' vectors as rows of float64; None if a payload is no vector, or their lengths differ."""
    cdef Frame frame
    cdef cnp.npy_intp shape[2]
    cdef int64_t length = common_length(frames)
    cdef double* to
    if length < 0:
        return None
    shape[0], shape[1] = len(frames), length
    table = cnp.PyArray_EMPTY(2, shape, cnp.NPY_FLOAT64, 0)
    to = <double*>cnp.PyArray_DATA(table)
    for frame in frames:
        copy_elements(to, frame, length)
        to += length
    return table


def added(frames):
    """Return the sum of the frames' vectors in float64; None if a payload is no vector, or their lengths differ."""
    cdef Frame frame
    cdef cnp.npy_intp shape[1]
    cdef int64_t length = common_length(frames)
    cdef double* to
    cdef bint first = True
    if length < 0:
        return None
    shape[0] = length
    total = cnp.PyArray_EMPTY(1, shape, cnp.NPY_FLOAT64, 0)
    to = <double*>cnp.PyArray_DATA(total)
    for frame in frames:
        if first:
            copy_elements(to, frame, length)
            first = False
        else:
            add_elements(to, frame, length)
    return total


# --- vectors ----------------------------------------------------------------------------------------------------------

cdef inline bint is_plain(array) noexcept:
    return (
        type(array) is cnp.ndarray and cnp.PyArray_TYPE(array) == cnp.NPY_FLOAT64 and cnp.PyArray_ISCARRAY_RO(array)
    )


cdef bint alike(y, a, b) except -1:
    """Return whether three arrays are contiguous float64 arrays of one shape."""
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
    """Return start + Σ_i weights[i]·rows[i], summed in order of i; ``rows`` has one axis more than ``start``."""
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
cdef class BroadcastPath:
    """Encodes broadcasts and puts them into arrival queues; see `netsim.core.broadcast_path.BroadcastPath`."""

    def __init__(self, encoder, int64_t number, name, draws, receivers, int64_t first, Tally tally, int64_t header_bits,
                 bint on_radio, take=None):
        cdef ArrivalQueue each
        self.take = take
        self.encoder, self.name, self.draws, self.tally = encoder, name, draws, tally
        self.receivers = list(receivers)
        for each in self.receivers:
            pass  # Cython checks the type of `each` here: `spread` casts to it without a check.
        self.number, self.first, self.degree = number, first, len(self.receivers)
        self.header_bits, self.on_radio = header_bits, on_radio
        self.heads = {}
        self.row_number = -1
        self.choose_draws()

    cdef choose_draws(self):
        """Draw delays and losses in compiled code if all links share settings that it supports."""
        settings = self.draws.only
        self.inline_draws = False
        if self.take is None and settings is not None and isinstance(settings.loss, Bernoulli):
            self.prepare(settings, self.draws)

    def links_changed(self):
        """Apply changed settings of the links to the losses and delays of all following broadcasts."""
        cdef int64_t count = self.row_number + 1 if self.inline_draws else self.draws.count
        self.row_number = count - 1
        self.draws.change(count)
        self.choose_draws()

    cdef prepare(self, settings, draws):
        model = settings.latency
        self.loss = settings.loss.mean
        if type(model) is ConstantLatency:
            self.low, self.width, self.draws_latency = model.fixed, 0.0, False
        elif type(model) is UniformLatency:
            self.low, self.width, self.draws_latency = model.low, model.high - model.low, True
            self.latency_key = draws.purpose_key("latency")
        else:
            return
        if self.loss:
            self.loss_key = draws.purpose_key("loss")
        # The keys of random streams are recomputed at each draw, because storing them would take more memory than the
        # links' own keys.
        self.keys_array = np.ascontiguousarray(draws.keys, dtype=np.uint64)
        self.keys = <const uint64_t*>cnp.PyArray_DATA(self.keys_array)
        self.inline_draws = True

    def delays(self):
        """Return the next broadcast's delay on each link, in seconds; negative where the frame is lost."""
        cdef int64_t index
        self.next_row()
        return [self.delay(index) for index in range(self.degree)]

    cdef int next_row(self) except -1:
        """Advance to the next broadcast, whose delays `delay` then returns."""
        if self.inline_draws:
            self.row_number += 1
        else:
            self.row = self.draws.next()
        return 0

    cdef double delay(self, int64_t index) noexcept:
        cdef uint64_t key
        if not self.inline_draws:
            return <double>self.row[index]
        if self.loss != 0.0 and uniform(stream_key(self.keys[index], self.loss_key), self.row_number) < self.loss:
            return -1.0
        if self.draws_latency:
            key = stream_key(self.keys[index], self.latency_key)
            return self.low + self.width * uniform(key, self.row_number)
        return self.low

    cpdef Frame frame(self, double now, str kind, int64_t round_number, payload, request=None, bint is_reply=False,
                      int64_t sequence=0):
        """Encode a message of the agent and return its frame."""
        cdef Frame frame = Frame.__new__(Frame)
        frame.kind, frame.sender, frame.round, frame.sent_at = kind, self.name, round_number, now
        frame.request, frame.is_reply, frame.sequence = request, is_reply, sequence
        frame.plain = request is None and sequence == 0
        if not frame.plain or not (
            self.encode_vector(frame, kind, round_number, payload)
            or self.encode_float(frame, kind, round_number, payload)
            or self.encode_extension(frame, kind, round_number, payload)
        ):
            frame.written = self.encoder.encode(kind, self.number, round_number, payload, request, is_reply, sequence)
            frame.plain = frame.plain and not is_mutable(payload)
        return frame

    cpdef int64_t broadcast(self, double now, int32_t kind_id, str kind, int64_t round_number, payload, bint raw_data,
                            double deadline) except -1:
        """Encode a message, send it over every link and return the number of links that accepted it."""
        cdef Frame frame = self.frame(now, kind, round_number, payload)
        cdef int64_t each, number = self.sent
        if self.take is not None:
            return self.offer_to_mac(kind_id, frame, payload, raw_data, ALL_LINKS, deadline, None)
        self.spread(now, number, kind_id, frame, deadline)
        each = 8 * frame.size() + self.header_bits
        self.count(number, kind_id, frame, payload, raw_data, ALL_LINKS, self.degree,
                   each if self.on_radio else each * self.degree, 0 if self.on_radio else each)
        self.sent = number + 1
        return self.degree

    cpdef int64_t offer_to_mac(self, int32_t kind_id, Frame frame, payload, bint raw_data, int64_t link_index,
                               double deadline, outcome, event=None) except -1:
        """Pass a frame for one link, or for all, to the MAC layer, count it, and return how many links accepted it."""
        cdef bint to_all = link_index == ALL_LINKS
        cdef int64_t index, number = self.sent, taken = self.degree if to_all else 1
        cdef int64_t first = self.first if to_all else self.first + link_index
        cdef int cause
        self.sent = number + 1
        cause = self.take(frame.sent_at, number, kind_id, frame, link_index, outcome, deadline, event)
        if cause:
            for index in range(first, first + taken):
                self.tally.count_outcome(frame.sent_at, (index << self.tally.shift) + number, kind_id, cause)
            if outcome is not None:
                outcome.set_result(Delivery(False, 0, 0, ALL_CAUSES[cause]))
            taken = 0
        # Count no wire bits here: the medium counts them when it transmits the frame. A broadcast counts as accepted
        # even if the agent has no neighbours or its links are cut, because the broadcast is on the air.
        self.count(number, kind_id, frame, payload, raw_data, ALL_LINKS if to_all else first, cause == 0, 0, 0)
        return taken

    cpdef int count(self, int64_t number, int32_t kind_id, Frame frame, payload, bint raw_data, int64_t link,
                    int64_t taken, int64_t wire, int64_t each) except -1:
        """Count a transmission, which was accepted if ``taken`` is not 0.

        ``wire`` is the number of wire bits of the whole transmission. ``each`` is the number of wire bits that are
        counted here for every single link; see `Transmission.each`.
        """
        cdef int64_t fields[MOST_FIELDS]
        memset(fields, 0, sizeof(fields))
        if taken and frame.start:
            fields[F_PAYLOAD] = (32 if frame.single else 64) * frame.length
        elif taken and type(payload) is float:
            fields[F_PAYLOAD] = 64
        elif taken:
            fields[F_PAYLOAD] = payload_bits(payload)
            fields[F_SATURATED] = saturated(payload)
        fields[F_TIME], fields[F_NUMBER], fields[F_KIND] = bits_of(frame.sent_at), number, kind_id
        fields[F_SENDER], fields[F_LINK], fields[F_TAKEN] = self.number, link, taken > 0
        fields[F_RAW] = fields[F_PAYLOAD] if raw_data else 0
        fields[F_WIRE], fields[F_EACH], fields[F_CHECKSUM] = wire, each, frame.checksum()
        self.tally.count_sent(fields, self.degree if link == ALL_LINKS else 1, frame.round, frame.is_reply)
        return 0

    cdef int spread(self, double now, int64_t number, int32_t kind_id, Frame frame, double deadline) except -1:
        cdef int64_t index, key = (self.first << self.tally.shift) + number
        cdef int64_t step = (<int64_t>1) << self.tally.shift
        cdef double delay
        cdef ArrivalQueue queue
        self.next_row()
        for index in range(self.degree):
            prefetch(<PyObject*>self.receivers[index])
        for index in range(self.degree):
            queue = <ArrivalQueue>self.receivers[index]
            prefetch(&queue.entries[queue.size])
        for index in range(self.degree):
            delay = self.delay(index)
            if delay < 0.0:
                self.tally.count_outcome(now, key, kind_id, C_LOST)
            else:
                (<ArrivalQueue>self.receivers[index]).put(now + delay, key, kind_id, frame, deadline)
            key += step
        return 0

    cdef bint encode_vector(self, Frame frame, str kind, int64_t round_number, payload) except -1:
        """Write a frame's bytes if its payload is a contiguous float64 or float32 vector; return whether it wrote them.

        Vectors without elements, or of 2³¹ bytes and more, are left to the Python encoder.
        """
        global _keeps_memory
        cdef bytes trailer
        cdef uint8_t* at
        cdef int64_t raw
        if type(payload) is not cnp.ndarray or cnp.PyArray_NDIM(payload) != 1:
            return False
        frame.single = cnp.PyArray_TYPE(payload) == cnp.NPY_FLOAT32
        if not (frame.single or cnp.PyArray_TYPE(payload) == cnp.NPY_FLOAT64) or not cnp.PyArray_ISCARRAY_RO(payload):
            return False
        frame.length = cnp.PyArray_DIM(payload, 0)
        raw = (4 if frame.single else 8) * frame.length
        if raw == 0 or raw > 0x7FFFFFFF or not 0 <= round_number <= 0x7FFFFFFF:
            return False
        trailer = vector_trailer(frame.single, frame.length)
        if raw >= LARGE and not _keeps_memory:
            _keeps_memory = True
            keep_freed_memory()
        if raw >= APART:
            self.begin_extension(frame, kind, round_number, ARRAY_NUMBER, raw + PyBytes_GET_SIZE(trailer), 0)
            frame.head, frame.written, frame.trailer = frame.written, None, trailer
            frame.start = PyBytes_GET_SIZE(frame.head)
            frame.vector = PyBytes_FromStringAndSize(<const char*>cnp.PyArray_DATA(payload), raw)
            return True
        at = self.begin_extension(frame, kind, round_number, ARRAY_NUMBER, raw + PyBytes_GET_SIZE(trailer),
                                  raw + PyBytes_GET_SIZE(trailer))
        frame.start = at - <uint8_t*>PyBytes_AS_STRING(frame.written)
        memcpy(at, cnp.PyArray_DATA(payload), raw)
        memcpy(at + raw, PyBytes_AS_STRING(trailer), PyBytes_GET_SIZE(trailer))
        return True

    cdef bint encode_float(self, Frame frame, str kind, int64_t round_number, payload) except -1:
        """Write a frame's bytes if its payload is a float; return whether it wrote them."""
        cdef uint8_t* at
        cdef uint64_t bits
        cdef int place
        if type(payload) is not float or not 0 <= round_number <= 0x7FFFFFFF:
            return False
        at = self.begin(frame, kind, round_number, 9)
        bits = <uint64_t>bits_of(payload)
        at[0] = 0xCB
        for place in range(8):
            at[1 + place] = <uint8_t>(bits >> (56 - 8 * place))
        return True

    cdef bint encode_extension(self, Frame frame, str kind, int64_t round_number, payload) except -1:
        """Write a frame's bytes if its payload is an array or a coded array; return whether it wrote them."""
        cdef bytes content
        cdef uint8_t* at
        cdef int number
        if type(payload) is not cnp.ndarray and type(payload) not in registry.NUMBERS:
            return False
        if not 0 <= round_number <= 0x7FFFFFFF:
            return False
        try:
            number, content = extension(payload)
        except Exception:
            return False
        if PyBytes_GET_SIZE(content) > 0x7FFFFFFF:
            return False
        at = self.begin_extension(frame, kind, round_number, number, PyBytes_GET_SIZE(content),
                                  PyBytes_GET_SIZE(content))
        frame.extension = <int>(at - <uint8_t*>PyBytes_AS_STRING(frame.written))
        memcpy(at, PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content))
        return True

    cdef uint8_t* begin_extension(self, Frame frame, str kind, int64_t round_number, int number, int64_t size,
                                  int64_t room) except NULL:
        """Write a frame's bytes up to the content of its payload, a msgpack extension of ``size`` bytes.

        Returns a pointer to where the content begins; ``room`` bytes are allocated there.
        """
        return write_extension(self.begin(frame, kind, round_number, extension_size(size) + room), number, size)

    cdef uint8_t* begin(self, Frame frame, str kind, int64_t round_number, int64_t room) except NULL:
        """Write a frame's bytes up to its payload; return a pointer to the ``room`` bytes allocated after them."""
        cdef bytes head = self.last_head
        cdef uint8_t* at
        if head is None or kind is not self.last_kind:
            head = self.heads.get(kind)
            if head is None:
                head = self.heads[kind] = self.encoder.head(kind, self.number)
            self.last_kind, self.last_head = kind, head
        frame.written = PyBytes_FromStringAndSize(NULL, PyBytes_GET_SIZE(head) + integer_size(round_number) + room)
        at = <uint8_t*>PyBytes_AS_STRING(frame.written)
        memcpy(at, PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
        return write_integer(at + PyBytes_GET_SIZE(head), round_number)


# A cache of `vector_trailer`, with one entry for float64 and one for float32: the length of the last vector, and the
# trailer for this length. One entry for each type is enough, because most vectors have the same length.
cdef int64_t[2] _trailer_lengths = [-1, -1]
cdef list _trailers = [b"", b""]
cdef list _DTYPES = [np.dtype(np.float64), np.dtype(np.float32)]


cdef bytes vector_trailer(bint single, int64_t length):
    """Return the trailer that follows a vector's raw bytes (see `netsim.wire.codec`)."""
    if length != _trailer_lengths[single]:
        _trailers[single] = array_trailer(_DTYPES[single], (length,))[0]
        _trailer_lengths[single] = length
    return <bytes>_trailers[single]


cdef int64_t integer_size(int64_t value) noexcept nogil:
    """Return the number of bytes in which msgpack writes a whole number in [0, 2³¹)."""
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
    """Return the number of bytes in which msgpack writes the head of an extension of ``size`` bytes."""
    if size == 1 or size == 2 or size == 4 or size == 8 or size == 16:
        return 2
    return 3 if size < 256 else 4 if size < 65536 else 6


cdef uint8_t* write_extension(uint8_t* at, int number, int64_t size) noexcept nogil:
    """Write the head of an extension with this type number; return a pointer to the byte after it."""
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
    at[0] = <uint8_t>number
    return at + 1


# --- round barriers -----------------------------------------------------------------------------------------------------

cdef enum:
    PENDING = 0
    DONE = 1
    CANCELLED = 2


@cython.final
@cython.freelist(256)
cdef class Waiter:
    """The future on which one task waits at a barrier."""

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
        if self.state != DONE:
            self.result()
        # For speed: the first line sets StopIteration and its value without an exception object, and the second line
        # passes both on without a traceback.
        PyErr_SetObject(StopIteration, self.number)
        raise StopIteration

    def run_callbacks(self):
        """Run the callbacks of a cancelled future; `RoundBarrier.go_on` runs those of all other futures."""
        self.go(getattr(self.loop, "on_call", None))

    cdef int go(self, notes) except -1:
        """Pass each callback's context to ``notes`` (`netsim.clock.clock.Loop.note_calls`), then run the callbacks."""
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
cdef class RoundBarrier:
    """A barrier that opens once per round; see `netsim.core.round_barrier.RoundBarrier`."""

    cdef object loop
    cdef list waiting

    def __init__(self, loop):
        self.loop = loop
        self.waiting = []

    def __len__(self):
        return len(self.waiting)

    def wait(self):
        """Return a future that yields the number given to the next `open`."""
        cdef Waiter waiter = Waiter.__new__(Waiter)
        waiter.loop = self.loop
        waiter.state = PENDING
        self.waiting.append(waiter)
        return waiter

    def open(self, number):
        """Resume all waiting tasks with the number of the round."""
        cdef Waiter waiter
        cdef list done = []
        for waiter in self.waiting:
            if waiter.state == PENDING:
                waiter.state = DONE
                waiter.number = number
                done.append(waiter)
        self.waiting = []
        if done:
            # One callback resumes all tasks one after another, in the same order as a `call_soon` for each task.
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
                # Only an error that ends the loop leads here. The remaining tasks resume if the loop runs again.
                if i + 1 < size:
                    self.loop.call_soon(self.go_on, waiters[i + 1:])
                raise

    def clear(self):
        """Forget all waiting tasks: no later call of `open` resumes them."""
        self.waiting = []
