# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
"""Pack and unpack frames for other workers, compiled; `netsim.parallel.parcels` defines the format."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from netsim.core._core cimport ArrivalQueue, Entry, Frame

cdef double INFINITY = float("inf")


cdef packed struct Head:
    uint32_t kind, entry_kind, flags, size, count
    int64_t round
    double sent_at
    int64_t request, sequence, start, length


cdef packed struct Leg:
    double time
    int64_t key


cdef enum:
    PLAIN = 1
    REQUEST = 2
    REPLY = 4
    SINGLE = 8


def pack(ArrivalQueue queue, list kinds):
    """Remove all frames from a queue; return them packed into bytes, and the first arrival time (s)."""
    cdef int64_t i, j, count = queue.size, size = 0, frames = 0, texts = 0
    cdef double first = INFINITY
    cdef PyObject* last = NULL
    cdef Frame frame
    cdef Head head
    cdef Leg leg
    cdef char* at
    cdef bytes names, packed, written
    cdef uint32_t word
    cdef dict number = {}
    if not count:
        return b"", first
    for i in range(count):
        if queue.entries[i].time < first:
            first = queue.entries[i].time
        if queue.entries[i].frame != last:
            last = queue.entries[i].frame
            frame = <Frame>last
            frames += 1
            size += sizeof(Head) + frame.size()
            number.setdefault(frame.kind, len(number))
            number.setdefault(kinds[queue.entries[i].kind], len(number))
        size += sizeof(Leg)
    parts = []
    for text in number:
        raw = text.encode("utf-8", "surrogatepass")
        parts.append(len(raw).to_bytes(4, "little") + raw)
    names = b"".join(parts)
    packed = PyBytes_FromStringAndSize(NULL, 8 + PyBytes_GET_SIZE(names) + size)
    at = PyBytes_AS_STRING(packed)
    word = len(number)
    memcpy(at, &word, 4)
    word = frames
    memcpy(at + 4, &word, 4)
    memcpy(at + 8, PyBytes_AS_STRING(names), PyBytes_GET_SIZE(names))
    at += 8 + PyBytes_GET_SIZE(names)
    i = 0
    while i < count:
        last = queue.entries[i].frame
        frame = <Frame>last
        j = i
        while j < count and queue.entries[j].frame == last:
            j += 1
        head.kind, head.entry_kind = number[frame.kind], number[kinds[queue.entries[i].kind]]
        head.flags = (
            (PLAIN if frame.plain else 0) | (REQUEST if frame.request is not None else 0)
            | (REPLY if frame.is_reply else 0) | (SINGLE if frame.single else 0)
        )
        written = frame.whole()
        head.size, head.count = PyBytes_GET_SIZE(written), j - i
        head.round, head.sent_at, head.sequence = frame.round, frame.sent_at, frame.sequence
        head.request = 0 if frame.request is None else frame.request
        head.start, head.length = frame.start, frame.length
        memcpy(at, &head, sizeof(Head))
        at += sizeof(Head)
        memcpy(at, PyBytes_AS_STRING(written), head.size)
        at += head.size
        while i < j:
            leg.time, leg.key = queue.entries[i].time, queue.entries[i].key
            memcpy(at, &leg, sizeof(Leg))
            at += sizeof(Leg)
            i += 1
    queue.clear()
    return packed, first


def unpack(bytes data, tally, list names, const int64_t[:] senders, const int64_t[:] receivers, list queues,
           const uint8_t[:] watched, int64_t open_round, double open_deadline):
    """Compiled form of `netsim.parallel.parcels.unpack`: add a parcel's frames to their receivers' queues."""
    cdef const char* at = PyBytes_AS_STRING(data)
    cdef const char* end = at + PyBytes_GET_SIZE(data)
    cdef uint32_t texts, frames, i, length
    cdef int shift = tally.shift
    cdef int64_t link, receiver, links = senders.shape[0]
    cdef int32_t kind_id
    cdef Frame frame
    cdef Head head
    cdef Leg leg
    cdef ArrivalQueue queue
    cdef bint careful
    touched = []
    if at == end:
        return touched
    if end - at < 8:
        raise ValueError("the parcel is cut short")
    memcpy(&texts, at, 4)
    memcpy(&frames, at + 4, 4)
    at += 8
    kinds = []
    for i in range(texts):
        if end - at < 4:
            raise ValueError("the parcel is cut short")
        memcpy(&length, at, 4)
        if end - at - 4 < length:
            raise ValueError("the parcel is cut short")
        kinds.append(at[4:4 + length].decode("utf-8", "surrogatepass"))
        at += 4 + length
    for i in range(frames):
        if end - at < <int64_t>sizeof(Head):
            raise ValueError("the parcel is cut short")
        memcpy(&head, at, sizeof(Head))
        at += sizeof(Head)
        if (
            head.kind >= texts or head.entry_kind >= texts or not head.count
            or end - at < <int64_t>head.size + <int64_t>head.count * <int64_t>sizeof(Leg)
            or head.start < 0 or head.length < 0 or head.length > head.size
            or head.start + head.length * (4 if head.flags & SINGLE else 8) > head.size
        ):
            raise ValueError("the parcel has a frame that cannot be")
        frame = Frame.__new__(Frame)
        frame.kind, frame.round, frame.sent_at, frame.sequence = kinds[head.kind], head.round, head.sent_at, head.sequence
        frame.written = PyBytes_FromStringAndSize(at, head.size)
        frame.plain, frame.is_reply = (head.flags & PLAIN) != 0, (head.flags & REPLY) != 0
        frame.request = head.request if head.flags & REQUEST else None
        frame.start, frame.length, frame.single = head.start, head.length, (head.flags & SINGLE) != 0
        at += head.size
        kind_id = tally.kind(kinds[head.entry_kind])
        while head.count:
            memcpy(&leg, at, sizeof(Leg))
            at += sizeof(Leg)
            head.count -= 1
            link = leg.key >> shift
            if leg.key < 0 or link >= links:
                raise ValueError("the parcel names a link that is none of the network")
            if frame.sender is None:
                frame.sender = names[senders[link]]
            receiver = receivers[link]
            queue = queues[receiver]
            if queue is None:
                raise ValueError("the parcel has a frame for an agent of another worker")
            queue.add(leg.time, leg.key, kind_id, frame)
            if frame.round == open_round:
                careful = leg.time >= open_deadline
            else:
                careful = frame.round != 0
            if careful or not frame.plain:
                queue.careful = True
            if watched[receiver]:
                touched.append((frame.sent_at, receiver))
    return touched
