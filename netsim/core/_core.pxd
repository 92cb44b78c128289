# cython: language_level=3
"""The part of the compiled core that other compiled modules may use: its types and their C members."""

from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy
cimport cython


cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define prefetch(at) __builtin_prefetch(at)
    #else
    #define prefetch(at)
    #endif
    """
    void prefetch(const void* at) noexcept nogil


cdef inline uint64_t mix(uint64_t z) noexcept nogil:
    z ^= z >> 30
    z *= <uint64_t>0xBF58476D1CE4E5B9ULL
    z ^= z >> 27
    z *= <uint64_t>0x94D049BB133111EBULL
    z ^= z >> 31
    return z


cdef inline uint64_t mix_word(uint64_t mixed, uint64_t word) noexcept nogil:
    return mix(mixed + word + <uint64_t>0x9E3779B97F4A7C15ULL)


cdef inline uint64_t bits_of(double value) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, &value, 8)
    return word


cdef inline uint64_t stream_key(uint64_t key, uint64_t purpose) noexcept nogil:
    """Return the key of a link's random stream for a purpose; see `netsim.util.draws.stream_keys`."""
    return mix(key * <uint64_t>0x94D049BB133111EBULL + purpose)


cdef inline double uniform(uint64_t key, uint64_t number) noexcept nogil:
    """Return number ``number`` of the random stream with this key, in [0, 1); see `netsim.util.draws`."""
    return <double>(mix(key + (number + 1) * <uint64_t>0x9E3779B97F4A7C15ULL) >> 11) * 1.1102230246251565e-16  # 2**-53


cdef enum:
    # C arrays have fixed sizes: a `Transmission` may have up to MOST_FIELDS fields, a tally up to MOST_TABLES tables.
    MOST_FIELDS = 32
    MOST_TABLES = 96
    # Indices of the record types that a tally stores, in the order of `KEPT`.
    KEPT_SENT = 0
    KEPT_OUTCOMES = 1
    KEPT_DETAILS = 2
    KEPT_LEFT = 3
    N_KEPT = 4

cdef struct Outcome:
    double time
    int64_t key
    int32_t kind
    int32_t cause


cdef struct Detail:
    int64_t round, reply


cdef struct Left:
    double time
    int64_t key, number, bits


@cython.final
cdef class Tally:
    cdef readonly int shift
    cdef readonly bint keeps
    cdef readonly dict kinds
    cdef readonly int64_t link_messages, duplicated
    cdef int64_t summed[MOST_FIELDS]
    cdef int64_t counted[MOST_TABLES]
    cdef int64_t links, agents, rows
    cdef object agent_keys_array, link_keys_array, kind_keys_array
    cdef const uint64_t* agent_keys
    cdef const uint64_t* link_keys
    cdef const uint64_t* kind_keys
    cdef list arrays
    cdef int64_t* data[MOST_TABLES]
    cdef uint64_t first_sum, second_sum
    # For each record type: `kept`, the buffer of stored bytes; `size`, the number of bytes in use; `returned`, the
    # number of bytes that `news` has returned.
    cdef list kept
    cdef int64_t size[N_KEPT]
    cdef int64_t returned[N_KEPT]
    cdef grow(self)
    cdef int64_t* table(self, int which) except NULL
    cdef int64_t* made(self, int which) except NULL
    cdef int count_sent(self, const int64_t* fields, int64_t links, int64_t round_number, bint reply) except -1
    cdef int count_outcome(self, double time, int64_t key, int32_t kind, int cause) except -1
    cdef int keep(self, int which, const void* record, int64_t length) except -1
    cpdef int link_bits(self, int64_t link, int64_t kind, int64_t bits) except -1
    cpdef int left(self, double time, int64_t key, int64_t number, int64_t bits) except -1
    cpdef int duplicate(self, int64_t link, int64_t kind) except -1
    cdef counts(self, str name)
    cdef since(self, const int64_t* first)


@cython.final
cdef class Frame:
    # The fields that receivers read come first, so that they lie in few cache lines.
    # `written`: the frame's bytes; None for a frame with a long vector. The bytes of such a frame are `head`, `vector`
    # and `trailer`, one after another, and `whole` joins them.
    cdef bytes written, vector
    # `start`: the offset in the frame's bytes at which a float64 or float32 vector begins, or 0 if the payload is no
    # such vector. `length`: the number of the vector's elements.
    cdef int64_t start, length
    # Whether the vector's elements are float32.
    cdef bint single
    cdef readonly bint plain
    cdef readonly int64_t round
    cdef readonly object sender
    cdef readonly str kind
    cdef readonly double sent_at
    cdef bytes head, trailer
    cdef readonly object request
    cdef readonly bint is_reply
    cdef readonly int64_t sequence
    # `measured`: whether the powers of signal, noise and interference at this receiver are known. `power` (of the
    # signal), `noise` and `interference`: these powers in mW.
    cdef bint measured
    cdef double power, noise, interference
    # `stamped`: whether the frame came over a radio. `first_bit` and `moment`: by the receiver's own clock (s), when its
    # signal began to arrive, and the sender's event; NaN: none.
    cdef bint stamped
    cdef double first_bit, moment
    cdef object value
    cdef bint read
    # In one receiver's copy of a `plain` frame: the original frame, whose payload the copy shares. Else None.
    cdef Frame sent
    # See `netsim.core.frame.Frame.carried`.
    cdef readonly object carried
    # If the payload is a coded array, or an array that has no `start`: the offset of the payload's content in the
    # frame's bytes. The content begins after the type number. 0 for all other payloads.
    cdef int extension
    cdef bytes whole(self)
    cpdef int64_t size(self)
    cdef const char* elements(self)
    cdef void fetch(self) noexcept
    cdef object checksum(self)
    cdef object decoded(self)
    cdef Frame heard(self, double first_bit, double moment)


cdef struct Entry:
    double time
    int64_t key
    PyObject* frame
    int32_t kind


@cython.final
cdef class ArrivalQueue:
    cdef Tally tally
    cdef Entry* entries
    # `size`: the number of entries in use. `heap`: how many of them, from the first on, form a heap. `room`: the number
    # of entries that fit into the allocated memory.
    cdef int64_t size, heap, room
    cdef public bint careful, up
    cdef int add(self, double time, int64_t key, int32_t kind, Frame frame) except -1
    cdef int put(self, double time, int64_t key, int32_t kind, Frame frame, double deadline) except -1
    cdef void merge(self) noexcept
    cdef int64_t arrange(self, double until) noexcept
    cdef void fetch(self, int64_t count) noexcept
    cdef void drop(self, int64_t count) noexcept
    cdef void shrink(self) noexcept
    cdef bint pop(self, double until, Entry* taken) noexcept


@cython.final
cdef class Copies:
    cdef dict row_of
    cdef list neighbors
    # Each frame belongs to the row of its sender. `last`: the row of the latest frame. `following[row]`: the row of the
    # frame that came next after the latest frame of `row`. Frames mostly come in the same order in every round, so the
    # row `following[last]` is tried first, which saves a lookup.
    cdef int64_t* following
    cdef int64_t last
    cdef readonly object table
    cdef double* data
    cdef int64_t rows, width
    cdef int64_t* rounds
    cdef int64_t row(self, Frame frame) except -1
    cdef int take(self, Frame frame, bint add) except -1
    cdef object state_of(self, Frame frame)
    cdef int put(self, int64_t index, array, bint add) except -1
    cpdef int receive(self, ArrivalQueue arrivals, double until, bint add=*) except -1


@cython.final
cdef class BroadcastPath:
    cdef object encoder, name, draws, take
    cdef Tally tally
    cdef list receivers
    cdef int64_t number, first, degree, header_bits
    cdef public int64_t sent
    cdef bint on_radio
    # `inline_draws`: whether all links have the same settings, with independent losses and constant or uniform delays.
    # If True, this class draws delays and losses itself, and `row_number` counts the broadcasts for which it has drawn.
    # If False, `row` holds the delays that `netsim.core.link_draws` has drawn.
    cdef bint inline_draws, draws_latency
    cdef int64_t row_number
    cdef list row
    cdef double loss, low, width
    cdef uint64_t latency_key, loss_key
    cdef object keys_array
    cdef const uint64_t* keys
    # For each kind of message: the bytes that precede the round in every frame of that kind. The bytes of the last kind
    # also stand in `last_head`: with many agents, each agent's dictionary is rarely in the processor's cache.
    cdef dict heads
    cdef str last_kind
    cdef bytes last_head
    cdef choose_draws(self)
    cdef prepare(self, settings, draws)
    cdef int next_row(self) except -1
    cdef double delay(self, int64_t index) noexcept
    cpdef Frame frame(self, double now, str kind, int64_t round_number, payload, request=*, bint is_reply=*,
                      int64_t sequence=*)
    cpdef int64_t broadcast(self, double now, int32_t kind_id, str kind, int64_t round_number, payload, bint raw_data,
                            double deadline) except -1
    cpdef int count(self, int64_t number, int32_t kind_id, Frame frame, payload, bint raw_data, int64_t link,
                    int64_t taken, int64_t wire, int64_t each) except -1
    cdef int spread(self, double now, int64_t number, int32_t kind_id, Frame frame, double deadline) except -1
    cpdef int64_t offer_to_mac(self, int32_t kind_id, Frame frame, payload, bint raw_data, int64_t link_index,
                               double deadline, outcome, event=*) except -1
    cdef uint8_t* begin_extension(self, Frame frame, str kind, int64_t round_number, int number, int64_t size,
                                  int64_t room) except NULL
    cdef uint8_t* begin(self, Frame frame, str kind, int64_t round_number, int64_t room) except NULL
    cdef bint encode_vector(self, Frame frame, str kind, int64_t round_number, payload) except -1
    cdef bint encode_float(self, Frame frame, str kind, int64_t round_number, payload) except -1
    cdef bint encode_extension(self, Frame frame, str kind, int64_t round_number, payload) except -1
