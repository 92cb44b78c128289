"""Payloads and frames as bytes: encoding, refused values, and hostile bytes."""

import asyncio
import collections
import enum
import math
import random
import struct
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgpack
import networkx as nx
import numpy as np
import pytest

from netsim import Agent, Network, topology
from netsim.coders import QSGD, Coded, FixedRange, MessageRange, Sparse, Uniform
from netsim.core.frame import FrameEncoder
from netsim.core.framing import decode_frame, without_sender
from netsim.errors import AgentError, BadInput, WireError
from netsim.testing import Actor
from netsim.wire.codec import decode, encode, is_mutable, payload_bits
from netsim.wire.payloads import MOST_NESTED
from tests.command import python
from tests.fuzzers import wire
from tests.fuzzers.wire import same
from tests.parts import every, slow


@every(
    "array",
    [
        np.arange(12.0).reshape(3, 4)[::2, ::-1],
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(5, dtype=">i4"),
        np.array([[np.nan, -0.0], [np.inf, 5e-324]], dtype=np.longdouble),
        np.zeros((0, 7)),
        np.zeros((2, 0, 3), dtype=">c16"),
        np.array(3.5),
        np.zeros(3, dtype=[("a", "<f8", (2, 3)), ("b", [("c", ">i2"), ("d", "S3")])]),
        np.zeros(2, dtype=np.dtype([("a", "u1"), ("b", "f8")], align=True)),
        np.zeros(2, dtype=[(("a title", "a"), "f8")]),
        np.zeros(3, dtype="V0"),
        np.zeros(3, dtype=[]),
        np.array(["", "né"]),
        np.array([b"a\0", b""]),
        np.array(["2024-01-01", "NaT"], dtype="M8[7D]"),
        np.zeros(2, dtype=np.dtype("f8", metadata={"unit": "m"})),
    ],
)
def test_arrays_of_every_layout_arrive_whole(array: np.ndarray) -> None:
    received = decode(encode(array))
    assert same(received, array)
    assert same(decode(encode([array, 1]))[0], array)


def test_received_arrays_are_readonly_aligned_and_no_copies() -> None:
    for seed in range(200):
        received = decode(encode(wire.any_array(random.Random(seed))))
        assert not received.flags.writeable
        assert received.flags.aligned
        assert received.flags.c_contiguous
        owner = received
        while isinstance(owner, np.ndarray):
            owner = owner.base
        assert isinstance(owner, bytes)


def test_bytearrays_and_views_arrive_as_bytes() -> None:
    assert same(decode(encode([bytearray(b"ab"), memoryview(b"cd")])), [b"ab", b"cd"])


class Own:
    pass


class Colour(enum.IntEnum):
    RED = 1


class Pair(collections.namedtuple("Pair", "a b")):
    pass


class Array(np.ndarray):
    pass


def subclass(kind: type, *arguments: Any) -> Any:
    """Return an instance of a class that is derived from an encodable type."""
    return type(f"Own{kind.__name__}", (kind,), {})(*arguments)


records = np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])
crowd = [complex(10**15 - 1000003 * i, i) for i in range(257)]
overlapping = np.dtype({"names": ["a", "b"], "formats": ["f8", "f8"], "offsets": [4, 0]})
circle: list[Any] = []
circle.append(circle)


@every(
    "value",
    [
        {1, 2},
        np.array([None, 1]),
        np.array([1, [2]], dtype=object),
        np.zeros(2, dtype=[("a", "O")]),
        np.array(["a"], "T"),
        np.ma.masked_array([1, 2], mask=[0, 1]),
        2**70,
        -(2**63) - 1,
        Own(),
        Own,
        print,
        Colour.RED,
        range(3),
        "\ud800",
        circle,
        np.zeros(2, overlapping),
        np.zeros(2, [("x" * 300, "f8")]),
        np.zeros(2, np.dtype([("a", np.dtype(("f2", (4,))), (2,))])),
        np.str_("a\0"),
        np.bytes_(b"a\0"),
        enum.StrEnum("Name", ["A"]).A,
        subclass(str, "a"),
        subclass(int, 1),
        subclass(float, 1.0),
        subclass(complex, 1j),
        subclass(bytes, b"a"),
        subclass(list),
        subclass(tuple),
        subclass(dict),
        subclass(np.float64, 1.0),
        collections.defaultdict(int, a=1),
        collections.defaultdict(int),
        collections.Counter("a"),
        Pair(1, 2),
        Decimal(1),
        Fraction(1, 2),
        frozenset({1}),
        np.zeros(2).view(Array),
        np.zeros((2, 2)).view(np.recarray),
        records,
        records[0],
        np.longlong(1),
        memoryview(np.zeros(2)),
        memoryview(b"\xff").cast("b"),
        memoryview(bytearray(b"abcd")).cast("B", (2, 2)),
        {memoryview(b"\xff").cast("b"): 1, b"\xff": 2},
        msgpack.ExtType(3, b"\x90"),
        msgpack.Timestamp(1),
        dict.fromkeys(crowd),
        {("k", (crowd[0], i)): dict.fromkeys(crowd) for i in range(2)},
        MessageRange(3, (1,), (0.1,), b"\0"),
        MessageRange(3, (1,), (1e300,), b"\0"),
        MessageRange(3, (2,), (1.0,), b""),
        MessageRange(3, (np.int64(1),), (1.0,), b"\0"),  # type: ignore[arg-type]
        MessageRange(np.int64(3), (1,), (1.0,), b"\0"),  # type: ignore[arg-type]
        MessageRange(3, (1,), (np.float64(1.0),), b"\0"),
        MessageRange(3, (1,), (1.0,), bytearray(1)),  # type: ignore[arg-type]
        MessageRange(3, [1], (1.0,), b"\0"),  # type: ignore[arg-type]
        FixedRange(3, (1,), (1.0,), b"\0"),
    ],
)
@every("wrap", [lambda x: x, lambda x: [x], lambda x: {"k": (x,)}])
def test_what_cannot_travel_is_refused_in_one_line(value: Any, wrap: Any) -> None:
    # An invalid quantized vector raises an error with a message of its own.
    message = r"^(cannot encode|no (coded array|\w+ quantized vector)|\d+ bytes cannot hold)[^\n]*$"
    with pytest.raises(WireError, match=message):
        encode(wrap(value))
    with pytest.raises(WireError, match=message):
        FrameEncoder().encode("m", 0, 0, wrap(value))


def test_numbers_of_equal_layout_are_one_to_arrays() -> None:
    sent = np.arange(3, dtype=np.longlong)
    assert same(decode(encode(sent)), sent)


def test_what_is_between_the_fields_of_a_structure_does_not_travel() -> None:
    fields = np.dtype([("a", "S3"), ("b", [("c", "u1"), ("d", "f8")], (2,))], align=True)
    sent = np.ndarray((3, 2), fields, b"\xee" * 6 * fields.itemsize)
    clean = np.zeros_like(sent)
    clean["a"], clean["b"]["c"], clean["b"]["d"] = sent["a"], sent["b"]["c"], sent["b"]["d"]
    assert clean.tobytes() != sent.tobytes()
    for array, same_but_clean in ((sent, clean), (sent.T[::-1], clean.T[::-1]), (sent[0, 0], clean[0, 0])):
        assert encode(array) == encode(same_but_clean)
        assert same(decode(encode(array)), array)


def test_elements_of_no_size_cost_nothing_however_many() -> None:
    for dtype in ("S0", [("a", "S0")], [("a", [("b", "V0")], (2,))]):
        sent = np.ndarray((2**40,), dtype, b"")
        assert decode(encode(sent)).shape == (2**40,)


# --- nesting ----------------------------------------------------------------------------------------------------------

WRAPS = {
    "list": lambda value: [value],
    "tuple": lambda value: (value,),
    "dict": lambda value: {"k": value},
}


def nest(depth: int, wrap: Any, inmost: Any = 1.0) -> Any:
    for _ in range(depth):
        inmost = wrap(inmost)
    return inmost


@pytest.mark.parametrize("name", ["list", "tuple", "dict"])
def test_a_payload_may_be_nested_as_deep_as_is_documented_and_no_deeper(name: str) -> None:
    encoder = FrameEncoder()
    value = nest(MOST_NESTED, WRAPS[name])
    assert same(decode(encode(value)), value)
    assert same(decode_frame(encoder.encode("m", 0, 0, value), 0.0, NAMES).payload, value)
    for depth in (MOST_NESTED + 1, 200, 800, 5000):
        with pytest.raises(WireError, match=r"^cannot encode the payload: [^\n]* nested deeper than 32$"):
            encoder.encode("m", 0, 0, nest(depth, WRAPS[name]))


@pytest.mark.parametrize("payload", [None, 7, "θ", [1, {"a": (2.0, b"x")}], np.arange(3.0)])
def test_frames_of_several_senders_differ_in_the_senders_number_only(payload: object) -> None:
    encoder = FrameEncoder(["d"])
    rests = [without_sender(encoder.encode("m", sender, 3, payload)) for sender in (0, 127, 128, 70_000)]
    assert len(set(rests)) == 1
    assert rests[0] == without_sender(FrameEncoder().encode("m", 5, 3, payload))
    for kind, number, other in (("n", 3, payload), ("d", 3, payload), ("m", 4, payload), ("m", 3, "other")):
        assert without_sender(encoder.encode(kind, 0, number, other)) != rests[0]


def test_keys_count_as_nested_too() -> None:
    encoder = FrameEncoder()
    key = nest(MOST_NESTED - 1, WRAPS["tuple"])
    assert same(decode_frame(encoder.encode("m", 0, 0, {key: 1}), 0.0, NAMES).payload, {key: 1})
    with pytest.raises(WireError, match="nested deeper"):
        encoder.encode("m", 0, 0, {(key,): 1})


def test_a_payload_nested_too_deep_is_refused_before_it_is_counted() -> None:
    class Sender(Agent):
        refused = 0

        async def run(self) -> None:
            for value in (nest(800, WRAPS["list"]), nest(150, WRAPS["tuple"]), [circle], dict.fromkeys(crowd)):
                for to in (None, *self.neighbors):
                    try:
                        await (self.broadcast("m", value) if to is None else self.send(to, "m", value))
                    except WireError:
                        self.refused += 1
            await asyncio.sleep(1.0)

    run = Network(nx.path_graph(2)).run({0: Sender(), 1: Sender()})
    assert run.agents[0].refused == 8
    assert run.ledger.link_messages == run.ledger.transmissions == run.ledger.wire_bits == 0


def test_deeply_nested_bytes_do_not_kill_the_interpreter() -> None:
    program = """
        import struct
        from netsim.errors import WireError
        from netsim.core.framing import decode_frame
        from netsim.wire.codec import decode
        body = b"\\x90"
        for _ in range(3000):
            body = b"\\xc9" + struct.pack(">IB", len(body) + 1, 3) + b"\\x91" + body
        frame = b"\\x94\\xa1m\\x00\\x00"
        for data in (body, frame + body, b"\\x81" * 9 + body, b"\\x91" * 100_000, b"\\x81" * 100_000):
            for read in (decode, lambda data: decode_frame(data, 0.0, ["a"])):
                try:
                    read(data)
                except WireError as error:
                    print(str(error).count("\\n"))
    """
    assert python(program) == "0\n" * 10


# --- hostile bytes ----------------------------------------------------------------------------------------------------

NAMES = ["a", "b", "c"]


def ext(code: int, body: bytes) -> bytes:
    return b"\xc8" + struct.pack(">HB", len(body), code) + body


def valid_frame(seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    payload = [
        rng.normal(size=3),
        np.array([(1, b"x")], dtype=[("a", "<i4"), ("b", "S2")]),
        Uniform(3).encode(rng.normal(size=9)),
        QSGD(16).encode(rng.normal(size=3), rng),
        {"k": (1, None, 2.5)},
        1j,
        np.float32(1),
        "text",
        b"bytes",
        np.datetime64("2024-01-01"),
    ]
    return FrameEncoder().encode("state", 1, 7, payload[seed % 11 :], *((4, True) if seed % 2 else ()))


def test_every_truncation_is_refused() -> None:
    for seed in range(12):
        data = valid_frame(seed)
        decode_frame(data, 0.0, NAMES)
        for end in range(len(data)):
            with pytest.raises(WireError):
                decode(data[:end])
        with pytest.raises(WireError):
            decode(data + b"\0")


def tuple_of(body: bytes) -> bytes:
    return b"\xc9" + struct.pack(">IB", len(body), 3) + body


def array_of(descr: Any, shape: list[Any], raw: bytes = b"") -> bytes:
    head = msgpack.packb([descr, *shape])
    return ext(1, raw + head + bytes([len(head)]))


def keyed(keys: list[complex]) -> bytes:
    pairs = b"".join(b"\xd8\x04" + struct.pack("<dd", key.real, key.imag) + b"\x00" for key in keys)
    return b"\xdf" + struct.pack(">I", len(keys)) + pairs


@every("depth", range(MOST_NESTED - 2, MOST_NESTED + 5))
@every("name", ["list", "tuple", "dict"])
def test_what_decodes_also_encodes(name: str, depth: int) -> None:
    data = b"\x07"
    for _ in range(depth):
        data = {"list": b"\x91" + data, "dict": b"\x81\x01" + data, "tuple": tuple_of(b"\x91" + data)}[name]
    if depth <= MOST_NESTED + 1:  # The frame itself counts as one level.
        assert same(decode(encode(decode(data))), decode(data))
    else:
        with pytest.raises(WireError, match="nested deeper than 32"):
            decode(data)


def test_many_keys_of_equal_hash_are_refused_at_once() -> None:
    assert len(decode(keyed(crowd[:256]))) == len(decode(encode(dict.fromkeys(crowd[:256])))) == 256
    with pytest.raises(WireError, match="more than 256 keys of a dict have the same hash"):
        decode(keyed(crowd))
    grid = {(i, j): 0 for i in range(-20, 21) for j in range(-20, 21)}
    assert decode(encode(grid)) == grid


TRAILER = b"\x92\xa3|S0\xcf" + (2**63).to_bytes(8)


@every(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91" * 5000,
        ext(1, b""),
        ext(2, b"\xff"),
        ext(3, b""),
        ext(4, b"short"),
        ext(5, b""),
        ext(99, b"x"),
        b"\x81\x90\x01",
        ext(1, TRAILER + bytes([len(TRAILER)])),
        ext(5, b"\x83\x01"),
        ext(5, bytes([0 << 5 | 3]) + b"\x00" + struct.pack("<dd", 1, math.inf)),
        ext(5, bytes([0 << 5 | 3]) + b"\x00" + struct.pack("<dd", -1.7e308, 1.7e308)),
        ext(5, bytes([1 << 5 | 3]) + b"\x00" + struct.pack("<f", -1)),
        ext(5, bytes([1 << 5 | 17]) + b"\x00" + struct.pack("<f", 1)),
        ext(5, bytes([1 << 5 | 0]) + b"\x00" + struct.pack("<f", 1)),
        ext(5, bytes([3 << 5 | 3]) + b"\x00" + struct.pack("<f", 1)),
        ext(5, bytes([1 << 5 | 3]) + b"\xff" + struct.pack("<f", 1)),
        (b"\xdd\x00\x0f\x42\x40" * 1000 + bytes(10**6)),
        (b"\xdf\x00\x0f\x42\x40\x00" * 1000 + bytes(10**6)),
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x01",
        tuple_of(b"\xdd\xff\xff\xff\xff"),
        tuple_of(array_of("|S0", [1 << 40])),
        tuple_of(array_of("|u1", [1], b"a")),
        ext(5, b"\x23\xdd\x05\xf5\xe1\x00" + b"\xdd\x05\xf5\xe1\x00" * 2),
        ext(2, array_of("<f8", [1], bytes(8))[4:]),
        ext(4, bytes(17)),
        ext(4, bytes(24)),
        array_of("<M8[0s]", [1], bytes(8)),
        array_of([["a", [["b", "<m8[0D]", [2]]]]], [1], bytes(16)),
        array_of("|O", [1], bytes(8)),
        array_of("T", [1], bytes(16)),
        array_of([["a", "|O"]], [1], bytes(8)),
        array_of("<f8", [1] * 65, bytes(8)),
        array_of("<f8", [-1], bytes(8)),
        array_of("<f8", [2**63, 0]),
        array_of("<f8", [1.0], bytes(8)),
        array_of([["a", "<f8", [2**31]]], [0]),
        array_of([["a", "<f8", [3]]], [1] * 64, bytes(24)),
        b"\xd7\xff" + bytes(8),
        b"\x91\xd6\xff" + bytes(4),
        b"\xa1\xff",
    ],
)
def test_known_attacks_and_claims_that_cost_more_than_their_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(data)


def test_decoding_hostile_bytes_takes_memory_and_time_in_proportion_to_their_number() -> None:
    # The process may use 1 GB more than the interpreter, and a few seconds.
    program = """
        import resource, struct, time
        from netsim.errors import WireError
        from netsim.wire.codec import decode
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, used + 2**30))
        n = 10**6
        body = b"\\xc6" + struct.pack(">I", n) + bytes(n)
        for _ in range(40):
            body = b"\\xc9" + struct.pack(">IB", len(body) + 1, 3) + b"\\x91" + body
        lists = b"\\xdd" + struct.pack(">I", n)
        attacks = [body, lists * 1000 + bytes(n), lists + b"\\x90" * n]
        start = time.process_time()
        for data in attacks:
            try:
                decode(data)
            except WireError as error:
                assert "MemoryError" not in str(error), error
        assert time.process_time() - start < 20
    """
    python(program)


@every(
    "fields",
    [
        5,
        [],
        ["m", 0, 0],
        ["m", 3, 0, None],
        ["m", -1, 0, None],
        ["m", 0, -1, None],
        [b"m", 0, 0, None],
        ["m", 0.0, 0, None],
        ["m", 0, 0, None, 1],
        ["m", 0, 0, None, 1, 1],
        ["m", 0, 0, None, "1", True],
        ["m", 0, 0, None, 1, True, 2],
        ["m", 0, 0, None, True, True],
        ("m", 0, 0, None),
        {"m": 0},
    ],
)
def test_well_formed_bytes_may_still_be_no_frame(fields: Any) -> None:
    with pytest.raises(WireError, match="no frame"):
        decode_frame(encode(fields), 0.0, NAMES)


@every("dtype", ["<f8", "<i8", "|u1", "<U2", "<M8[D]", "|V5", [("a", "<i4"), ("b", "<f4")]])
@every("shape", [(), (0,), (1,), (4,), (6,), (4, 1), (6, 0), (0, 4), (4, 2, 3)])
def test_an_array_of_any_shape_is_no_frame(dtype: Any, shape: tuple[int, ...]) -> None:
    for data in (encode(np.zeros(shape, dtype)), encode([np.zeros(shape, dtype)]), encode(np.zeros((), dtype)[()])):
        with pytest.raises(WireError, match="no frame"):
            decode_frame(data, 0.0, NAMES)


@pytest.mark.parametrize("place", range(6))
def test_a_frame_with_an_array_in_place_of_a_field_is_no_frame(place: int) -> None:
    for shape in ((), (0,), (1,), (2, 2)):
        fields: list[Any] = ["m", 0, 0, None, 1, True]
        fields[place] = np.ones(shape, int)
        if place == 3:
            assert decode_frame(encode(fields), 0.0, NAMES).payload.shape == shape
        else:
            with pytest.raises(WireError, match="no frame"):
                decode_frame(encode(fields), 0.0, NAMES)


# --- random payloads and bytes, a few seconds of them; `tests.fuzzers.wire` goes on as long as one likes -------------


@pytest.mark.parametrize("block", [0, *map(slow, range(1, 4))])
def test_hostile_bytes_give_wire_errors_or_payloads(block: int) -> None:
    for seed in range(1000 * block, 1000 * (block + 1)):
        try:
            wire.check_one(random.Random(seed))
        except BaseException as error:
            raise AssertionError(f"check_one(random.Random({seed}))") from error


def test_the_fuzzer_finds_its_way_in() -> None:
    accepted = [wire.check_hostile(wire.hostile(random.Random(seed))) for seed in range(1500)]
    assert 0.05 < sum(accepted) / len(accepted) < 0.6


def test_a_seed_repeats_what_it_found() -> None:
    for make in (wire.hostile, wire.payload):
        assert repr(make(random.Random(5))) == repr(make(random.Random(5)))


def test_every_coded_type_is_drawn_and_arrives_bit_for_bit() -> None:
    drawn: dict[type, int] = {}
    parts = set()
    for seed in range(1500):
        rng = random.Random(seed)
        coded = wire.any_coded(rng)
        wire.check_payload(coded)
        assert decode(encode(coded)) == coded
        drawn[type(coded)] = drawn.get(type(coded), 0) + 1
        if isinstance(coded, Sparse):
            parts.add(type(coded.part))
    assert drawn.keys() == wire.CODED.keys()
    assert min(drawn.values()) > 20
    assert len(parts) >= 6


@pytest.mark.parametrize("number", [slow(n) if k % 2 else n for k, n in enumerate(sorted(set(wire.CODED.values())))])
def test_damaged_coded_arrays_are_wire_errors_or_arrays(number: int) -> None:
    accepted = refused = 0
    for seed in range(1200):
        rng = random.Random(seed)
        coded = wire.any_coded(rng)
        body = coded.pack() if wire.CODED[type(coded)] == number else b""
        body = wire.mutated(rng, body) if body else wire.near_coded(rng)
        try:
            read = decode(msgpack.packb(msgpack.ExtType(number, body)))
        except WireError:
            refused += 1
            continue
        assert isinstance(read, Coded)
        accepted += 1
        wire.use(read)
        assert decode(encode(read)) == read
    assert accepted > 20
    assert refused > 20


def test_what_bytes_claim_is_checked_before_it_is_made() -> None:
    """For every type and every claimed size, decoding is refused or yields a coded array, and needs little memory."""
    lengths = [
        msgpack.packb(length) for length in (2**20, 2**24, 2**31, 2**40, 2**47, 2**63, [2**20, 2**20], [0, 2**40])
    ]
    bodies = [head + length + rest for head in (b"", b"\x41", b"\xa1", b"\x03", b"\x10") for length in lengths
              for rest in (b"", b"\0" * 9, *(other + b"\x06" + bytes(20) for other in lengths))]  # fmt: skip
    for number in set(wire.CODED.values()):
        for body in bodies:
            data = msgpack.packb(msgpack.ExtType(number, body))
            tracemalloc.start()
            try:
                decode(data)
            except WireError:
                pass
            finally:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
            assert peak < 100_000, (number, body)


def test_coded_arrays_within_each_other_are_refused() -> None:
    body = b"\x01\x01\x06\x10\x01\x00\x3c"
    assert isinstance(decode(msgpack.packb(msgpack.ExtType(7, body))), Sparse)
    for _ in range(3000):
        body = b"\x01\x01\x07" + body
    with pytest.raises(WireError):
        decode(msgpack.packb(msgpack.ExtType(7, body)))


# --- frames -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("request_", "is_reply"), [(None, False), (None, True), (0, False), (7, True), (2**40, True)])
def test_frames_are_the_encoded_list_of_their_fields(request_: int | None, is_reply: bool) -> None:
    for seed in range(40):
        rng = random.Random(seed)
        kind, sender, number, payload = wire.any_text(rng), seed % 3, rng.randint(0, 2**40), wire.payload(rng, 3)
        data = FrameEncoder().encode(kind, sender, number, payload, request_, is_reply)
        assert data == encode([kind, sender, number, payload] + ([] if request_ is None else [request_, is_reply]))
        frame = decode_frame(data, 2.5, NAMES)
        assert (frame.kind, frame.sender, frame.round) == (kind, NAMES[sender], number)
        assert (frame.sent_at, frame.request) == (2.5, request_)
        assert frame.is_reply == (request_ is not None and is_reply)
        assert frame.sequence == 0
        assert same(frame.payload, payload)


@every("size", [0, 1, 2, 15, 16, 29, 30, 31, 32, 127, 128, 8190, 8193])
@every("dtype", ["f8", "f4"])
def test_frames_of_vectors_are_so_too_where_the_form_of_their_length_changes(size: int, dtype: str) -> None:
    vector = np.arange(size, dtype=dtype)
    for payload in (vector, vector[::2], vector.reshape(-1, 1), [vector, 1]):
        assert FrameEncoder().encode("m", 1, 300, payload) == encode(["m", 1, 300, payload])


@pytest.mark.parametrize("sequence", [1, 32, 2**40, 2**63 - 1])
def test_a_numbered_frame_has_its_number_negative_where_requests_have_theirs(sequence: int) -> None:
    data = FrameEncoder().encode("m", 1, 3, np.arange(3.0), sequence=sequence)
    assert data == encode(["m", 1, 3, np.arange(3.0), -sequence, False])
    frame = decode_frame(data, 2.5, NAMES)
    assert (frame.sequence, frame.request, frame.is_reply, frame.plain) == (sequence, -sequence, False, False)
    assert frame.copy().sequence == sequence


def test_a_number_that_no_link_gives_is_no_frame() -> None:
    with pytest.raises(WireError):
        decode_frame(encode(["m", 1, 3, None, -(2**63), False]), 2.5, NAMES)


def test_an_encoder_recovers_from_a_payload_that_it_refused() -> None:
    encoder = FrameEncoder()
    with pytest.raises(WireError):
        encoder.encode("m", 0, 0, np.zeros(2, overlapping))
    assert encoder.encode("m", 0, 0, np.arange(3)) == encode(["m", 0, 0, np.arange(3)])


@every("kind", [5, None, b"m", ["m"], enum.StrEnum("Kind", ["M"]).M])
@every("payload", [1, np.zeros(1)])
def test_a_kind_is_a_text(kind: Any, payload: Any) -> None:
    class Sender(Agent):
        async def run(self) -> None:
            with pytest.raises(BadInput, match=r"^kind = .*: must be a str"):
                await self.broadcast(kind, payload)
            with pytest.raises(BadInput, match=r"^kind = .*: must be a str"):
                await self.send(self.neighbors[0], kind, payload)

    run = Network(topology.path(2)).run({0: Sender(), 1: Sender()})
    assert run.ledger.table().empty


# --- counting ---------------------------------------------------------------------------------------------------------


@every(
    ("payload", "bits"),
    [
        (1.5, 64),
        (np.float32(1), 32),
        (np.zeros(5), 320),
        (np.zeros((2, 3), "f4"), 192),
        (np.array(True), 8),
        (7, 8),
        (None, 8),
        ("abc", 32),
        (b"abc", 40),
        (2**40, 72),
        ([1.0, np.zeros(2), (2.0, [3.0])], 320),
        ({"a": 1.0, 2.0: np.zeros(1)}, 16 + 192),
        (Uniform(3, -1, 1).encode(np.zeros(100)), 300),
        (Uniform(3).encode(np.zeros(100)), 332),
        (QSGD(3).encode(np.zeros(100), np.random.default_rng(0)), 432),
        ([Uniform(1, 0, 1).encode(np.zeros(9)), 0.0], 73),
        ([], 0),
    ],
)
def test_payload_bits(payload: Any, bits: int) -> None:
    assert payload_bits(payload) == bits


def test_a_vector_of_100_elements_of_3_bits_is_38_bytes_of_a_frame() -> None:
    def length(n: int) -> int:
        return len(FrameEncoder().encode("m", 0, 1, Uniform(3, -1, 1).encode(np.zeros(n))))

    coded = Uniform(3, -1, 1).encode(np.linspace(-1, 1, 100))
    assert len(coded.data) == 38
    assert coded.data in FrameEncoder().encode("m", 0, 1, coded)
    assert length(100) - length(1) == 38 - 1


@every(
    ("payload", "mutable"),
    [
        ([], True),
        ({}, True),
        ((1, [2]), True),
        ((1, (2.0, "a")), False),
        (np.zeros(3), False),
        (np.float64(1), False),
        (1, False),
        (None, False),
        (b"", False),
        ("", False),
        (1j, False),
        (True, False),
        ((), False),
        (MessageRange(1, (0,), (0.0,), b""), False),
    ],
)
def test_is_mutable(payload: Any, mutable: bool) -> None:
    assert is_mutable(payload) is mutable
    if not mutable and isinstance(payload, np.ndarray):
        with pytest.raises(ValueError, match="read-only"):
            decode(encode(payload))[0] = 1


@pytest.mark.parametrize("payload", [1.0, "text", np.ones(3), None])
def test_a_kind_that_cannot_be_encoded_is_named(payload: Any) -> None:
    graph = topology.path(2)
    with pytest.raises(AgentError, match=r"cannot encode the kind '\\ud800'"):
        Network(graph).run({node: Actor(lambda me: me.broadcast("\ud800", payload)) for node in graph})
