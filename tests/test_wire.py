import contextlib
import enum
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from netsim import Agent, Network, topology
from netsim.errors import BadInput, WireError
from netsim.quantize import QSGD, Quantized, Uniform
from netsim.transport.frame import FrameEncoder
from netsim.transport.framing import decode_frame
from netsim.transport.wire import decode, encode, is_mutable, payload_bits

# Any bit pattern of a double: NaNs with payloads, infinities, −0.
floats = st.integers(0, 2**64 - 1).map(lambda bits: struct.unpack("<d", struct.pack("<Q", bits))[0])
integers = st.integers(-(2**63), 2**64 - 1)
plain_dtypes = st.one_of(
    hnp.scalar_dtypes(),
    hnp.byte_string_dtypes(),
    hnp.unicode_string_dtypes(),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
    hnp.complex_number_dtypes(),
)
dtypes = plain_dtypes | hnp.array_dtypes(plain_dtypes, max_size=3)
shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def random_array(dtype: np.dtype[Any], shape: tuple[int, ...], seed: int) -> np.ndarray:
    """An array of random bytes, so that every bit pattern occurs."""
    size = math.prod(shape) * dtype.itemsize
    return np.ndarray(shape, dtype, np.random.default_rng(seed).bytes(size))


arrays = st.builds(random_array, dtypes, shapes, st.integers(0, 2**32))
scalars = hnp.arrays(plain_dtypes, ()).map(lambda array: array[()])
hashables = st.one_of(
    st.none(), st.booleans(), integers, st.floats(allow_nan=False), st.text(max_size=5), st.binary(max_size=5)
)
leaves = st.one_of(hashables, floats, st.builds(complex, floats, floats), scalars, arrays)
payloads = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(hashables | st.tuples(hashables, hashables), inner, max_size=4)
    ),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    """Whether two payloads agree in type and in every bit."""
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, float):
        return struct.pack("<d", a) == struct.pack("<d", b)
    if isinstance(a, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a), list(b)) and same(list(a.values()), list(b.values()))
    return bool(a == b)


@settings(max_examples=400, deadline=None)
@given(payloads)
def test_decode_undoes_encode_bit_for_bit(value: Any) -> None:
    assert same(decode(encode(value)), value)


@pytest.mark.parametrize(
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


@settings(max_examples=100, deadline=None)
@given(arrays)
def test_received_arrays_are_readonly_aligned_and_no_copies(array: np.ndarray) -> None:
    received = decode(encode(array))
    assert not received.flags.writeable
    assert received.flags.aligned
    assert received.flags.c_contiguous
    owner = received
    while isinstance(owner, np.ndarray):
        owner = owner.base
    assert isinstance(owner, bytes)


def test_bytearrays_and_views_arrive_as_bytes() -> None:
    assert same(decode(encode([bytearray(b"ab"), memoryview(b"cd")])), [b"ab", b"cd"])


@pytest.mark.parametrize("coder", [Uniform(3), Uniform(8, -1, 1), QSGD(4), QSGD(15), QSGD(16)])
@pytest.mark.parametrize("n", [0, 1, 7, 130])
def test_quantized_vectors_travel_as_they_are(coder: Uniform | QSGD, n: int) -> None:
    rng = np.random.default_rng(n)
    sent = coder.encode(rng.normal(size=n), rng)
    received = decode(encode({"h": sent}))["h"]
    assert received == sent
    assert received.values.tobytes() == sent.values.tobytes()


class Own:
    pass


class Colour(enum.IntEnum):
    RED = 1


overlapping = np.dtype({"names": ["a", "b"], "formats": ["f8", "f8"], "offsets": [4, 0]})
circle: list[Any] = []
circle.append(circle)


@pytest.mark.parametrize(
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
        np.str_("a\0"),
        np.bytes_(b"a\0"),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x], lambda x: {"k": (x,)}], ids=["bare", "list", "dict"])
def test_what_cannot_travel_is_refused_in_one_line(value: Any, wrap: Any) -> None:
    with pytest.raises(WireError, match=r"^cannot encode[^\n]*$"):
        encode(wrap(value))
    with pytest.raises(WireError, match=r"^cannot encode[^\n]*$"):
        FrameEncoder().encode("m", 0, 0, wrap(value))


# --- hostile bytes ----------------------------------------------------------------------------------------------------

NAMES = ["a", "b", "c"]


def must_be_safe(data: bytes) -> None:
    """Decoding may find something in the bytes or raise WireError, and nothing else, decoding of payloads included."""
    for read in (decode, lambda data: decode_frame(data, 0.0, NAMES).payload):
        with contextlib.suppress(WireError):
            repr(read(data))


def ext(code: int, body: bytes) -> bytes:
    return b"\xc8" + struct.pack(">HB", len(body), code) + body


@settings(max_examples=1000, deadline=None)
@given(st.binary(max_size=60) | st.builds(ext, st.integers(0, 255), st.binary(max_size=40)))
def test_random_bytes_give_wire_errors_only(data: bytes) -> None:
    must_be_safe(data)


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


@settings(max_examples=1000, deadline=None)
@given(st.integers(0, 21), st.data())
def test_damaged_frames_give_wire_errors_only(seed: int, draw: st.DataObject) -> None:
    data = bytearray(valid_frame(seed))
    for bit in draw.draw(st.lists(st.integers(0, 8 * len(data) - 1), min_size=1, max_size=4)):
        data[bit // 8] ^= 1 << bit % 8
    must_be_safe(bytes(data))


def test_every_truncation_is_refused() -> None:
    for seed in range(12):
        data = valid_frame(seed)
        decode_frame(data, 0.0, NAMES)
        for end in range(len(data)):
            with pytest.raises(WireError):
                decode(data[:end])
        with pytest.raises(WireError):
            decode(data + b"\0")


TRAILER = b"\x92\xa3|S0\xcf" + (2**63).to_bytes(8)


@pytest.mark.parametrize(
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
    ],
)
def test_known_attacks_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(data)


@pytest.mark.parametrize(
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
        {"m": 0},
    ],
)
def test_well_formed_bytes_may_still_be_no_frame(fields: Any) -> None:
    with pytest.raises(WireError, match="no frame"):
        decode_frame(encode(fields), 0.0, NAMES)


# --- frames -----------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    st.text(max_size=9),
    st.integers(0, 2),
    st.integers(0, 2**40),
    payloads,
    st.none() | st.integers(0, 2**40),
    st.booleans(),
)
def test_frames_are_the_encoded_list_of_their_fields(
    kind: str, sender: int, number: int, payload: Any, request: int | None, is_reply: bool
) -> None:
    data = FrameEncoder().encode(kind, sender, number, payload, request, is_reply)
    assert data == encode([kind, sender, number, payload] + ([] if request is None else [request, is_reply]))
    frame = decode_frame(data, 2.5, NAMES)
    assert (frame.kind, frame.sender, frame.round) == (kind, NAMES[sender], number)
    assert (frame.sent_at, frame.request) == (2.5, request)
    assert frame.is_reply == (request is not None and is_reply)
    assert same(frame.payload, payload)


def test_an_encoder_recovers_from_a_payload_that_it_refused() -> None:
    encoder = FrameEncoder()
    with pytest.raises(WireError):
        encoder.encode("m", 0, 0, np.zeros(2, overlapping))
    assert encoder.encode("m", 0, 0, np.arange(3)) == encode(["m", 0, 0, np.arange(3)])


@pytest.mark.parametrize("kind", [5, None, b"m", ["m"], enum.StrEnum("Kind", ["M"]).M])
@pytest.mark.parametrize("payload", [1, np.zeros(1)])
def test_a_kind_is_a_text(kind: Any, payload: Any) -> None:
    class Sender(Agent):
        async def run(self) -> None:
            with pytest.raises(BadInput, match=r"^kind = .*: must be a text"):
                await self.broadcast(kind, payload)
            with pytest.raises(BadInput, match=r"^kind = .*: must be a text"):
                await self.send(self.neighbors[0], kind, payload)

    run = Network(topology.path(2)).run({0: Sender(), 1: Sender()})
    assert run.ledger.table().empty


# --- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
        (Quantized("range", 1, (0,), (0.0,), b""), False),
    ],
)
def test_is_mutable(payload: Any, mutable: bool) -> None:
    assert is_mutable(payload) is mutable
    if not mutable and isinstance(payload, np.ndarray):
        with pytest.raises(ValueError, match="read-only"):
            decode(encode(payload))[0] = 1
