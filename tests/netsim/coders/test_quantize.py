import itertools
import math
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.coders import MOST_BITS, QSGD, Float, MessageRange, NormLevels, Uniform, decoded
from netsim.errors import BadInput, WireError
from netsim.wire.codec import decode, encode, payload_bits
from netsim.wire.packing import pack, unpack
from tests.netsim.coders.test_coders import NO_VECTORS
from tests.parts import message_of

BITS = range(1, MOST_BITS + 1)
LARGEST = float(np.finfo(np.float32).max)
vectors = st.lists(st.floats(-1e6, 1e6) | st.floats(-1e-6, 1e-6), max_size=30).map(np.array)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, MOST_BITS), st.data())
def test_unpack_undoes_pack(bits: int, data: st.DataObject) -> None:
    integers = np.array(data.draw(st.lists(st.integers(0, 2**bits - 1), max_size=40)), dtype=np.uint16)
    packed = pack(integers, bits)
    assert len(packed) == -(-len(integers) * bits // 8)
    assert unpack(packed, bits, len(integers)).tolist() == integers.tolist()
    for wrong in (packed + b"\0", packed[:-1] if packed else b"\0"):
        with pytest.raises(WireError):
            unpack(wrong, bits, len(integers))


def test_pack_writes_the_most_significant_bit_first() -> None:
    assert pack(np.array([0b101, 0b001, 0b110]), 3) == bytes([0b10100111, 0b00000000])
    assert pack(np.array([0x1234]), 16) == b"\x12\x34"


# --- the uniform quantizer --------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.integers(1, MOST_BITS), vectors)
def test_error_is_at_most_half_a_step_of_each_messages_range(bits: int, h: np.ndarray) -> None:
    coded = Uniform(bits).encode(h)
    (reach,) = coded.scale
    size = np.abs(h).max(initial=0.0)
    assert size <= reach <= size + float(np.spacing(np.float32(size))), "the range is the next float32, no more"
    assert np.all(np.abs(coded.values - h) <= 2 * reach / 2**bits / 2 * (1 + 1e-9))
    assert coded.saturated == 0


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (0.0, 10.0), (-7.25, -7.0)])
def test_error_is_at_most_half_a_step_of_the_fixed_range(bits: int, low: float, high: float) -> None:
    h = np.concatenate([np.random.default_rng(bits).uniform(low, high, 500), [low, np.nextafter(high, low)]])
    coded = Uniform(bits, low, high).encode(h)
    step = (high - low) / 2**bits
    assert np.abs(coded.values - h).max() <= step / 2 * (1 + 1e-9)
    assert np.abs(coded.values - h).max() > step / 2 * 0.9
    assert coded.saturated == 0
    assert set(np.round((coded.values - low) / step - 0.5, 6)) <= set(range(2**bits))


def test_elements_outside_the_fixed_range_are_clipped_and_counted() -> None:
    coded = Uniform(2, -1, 1).encode([-9.0, -1.0, 0.1, 1.0, 9.0])
    assert coded.values.tolist() == [-0.75, -0.75, 0.25, 0.75, 0.75]
    assert coded.saturated == 3
    assert decode(encode(coded)).saturated == 0


@pytest.mark.parametrize("bits", [1, 3, 8, 16])
@pytest.mark.parametrize("n", [0, 1, 10])
def test_zeros_stay_zeros(bits: int, n: int) -> None:
    for coder in (Uniform(bits), QSGD(bits)):
        assert coder.encode(np.zeros(n), np.random.default_rng(0)).values.tolist() == [0.0] * n


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("size", [LARGEST, np.nextafter(LARGEST, 0), 1e30, 1e-30, 1e-44, 1e-170, 5e-324])
def test_sizes_at_the_ends_of_float32(bits: int, size: float) -> None:
    h = np.array([size, -size, size / 3, 0.0])
    v = h[1:2]
    rng = np.random.default_rng(0)
    for vector, coded, steps in ((h, Uniform(bits).encode(h), 2**bits), (v, QSGD(bits).encode(v, rng), 2**bits - 1)):
        (reach,) = coded.scale
        assert size <= reach <= size * (1 + 2e-7) + 1.5e-45
        assert np.abs(coded.values - vector).max() <= reach / steps * (1 + 1e-9)


@pytest.mark.parametrize("coder", [Uniform(4), QSGD(4)])
@pytest.mark.parametrize("size", [3.4028235678e38, 1e39, 1e300])
def test_sizes_beyond_float32_are_refused(coder: Any, size: float) -> None:
    with pytest.raises(BadInput, match=r"^vector has size \S+: must be at most 3\.40282e\+38[^\n]*$"):
        coder.encode([0.0, size], np.random.default_rng(0))


@pytest.mark.parametrize("coder", [Uniform(4), Uniform(4, -1, 1), QSGD(4)])
@pytest.mark.parametrize(("vector", "message"), NO_VECTORS)
def test_what_is_no_vector_is_refused(coder: Any, vector: Any, message: str) -> None:
    with pytest.raises(BadInput, match=f"^{message}"):
        coder.encode(vector, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Uniform(0), "bits = 0: must be a whole number from 1 to 16"),
        (lambda: Uniform(17), "bits = 17: must be a whole number from 1 to 16"),
        (lambda: QSGD(0), "bits = 0: must be a whole number from 1 to 16"),
        (lambda: QSGD(17), "bits = 17: must be a whole number from 1 to 16"),
        (lambda: QSGD(2.0), "bits = 2.0: must be a whole number from 1 to 16"),
        (lambda: Uniform(True), "bits = True: must be a whole number from 1 to 16"),
        (lambda: Uniform(4, 1, 1), "high = 1: must be a number > 1"),
        (lambda: Uniform(4, 2, 1), "high = 1: must be a number > 2"),
        (
            lambda: Uniform(4, 0),
            "low = 0, high = None: must both be given (fixed range) or both be None (per-message range)",
        ),
        (
            lambda: Uniform(4, high=1),
            "low = None, high = 1: must both be given (fixed range) or both be None (per-message range)",
        ),
        (lambda: Uniform(4, 0, np.inf), "high = inf: must be finite"),
        (lambda: Uniform(4, -1.7e308, 1.7e308), "high = 1.7e+308: must be within float64's range of low = -1.7e+308"),
    ],
)
def test_bad_coders_are_refused(make: Any, message: str) -> None:
    assert message_of(make, BadInput) == message


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("make", [Uniform, lambda b: Uniform(b, -2, 2), QSGD], ids=["range", "fixed", "qsgd"])
def test_sender_and_receivers_take_it_for_the_same_values(bits: int, make: Any) -> None:
    rng = np.random.default_rng(bits)
    for n in (1, 5, 64):
        sent = make(bits).encode(rng.normal(size=n), rng)
        received = decode(encode(sent))
        assert received.values.tobytes() == sent.values.tobytes()
        assert not received.values.flags.writeable
        assert np.asarray(received).tobytes() == sent.values.tobytes()
        assert len(sent.data) == -(-n * (bits + (make is QSGD)) // 8)


# --- QSGD -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("n", [1, 8, 200])
def test_qsgd_is_unbiased_within_its_variance_bound(bits: int, n: int) -> None:
    v = np.random.default_rng(100 * n + bits).normal(size=n)
    rng, count = np.random.default_rng(bits), 1000
    coded = [QSGD(bits).encode(v, rng) for _ in range(count)]
    samples = np.array([c.values for c in coded])
    top, square = 2**bits - 1, v @ v
    # Levels are a step apart, and rounding up or down is a coin toss: its variance is exactly step²·f·(1 − f).
    step = coded[0].scale[0] / top
    fraction = np.abs(v) / step % 1
    deviation = np.sqrt(fraction * (1 - fraction)) * step
    # Bernstein's bound, for the many tosses of a coin that nearly always falls on one side.
    assert np.all(np.abs(samples.mean(axis=0) - v) <= 6 * deviation / np.sqrt(count) + 7 * step / count)
    errors = np.sum((samples - v) ** 2, axis=1)
    noise = 5 * errors.std() / np.sqrt(count) + 7 * step**2 / count
    assert abs(errors.mean() - np.sum(deviation**2)) <= noise
    assert errors.mean() - noise <= min(n / top**2, np.sqrt(n) / top) * square


def test_qsgd_values_are_levels_of_the_norm_with_the_sign_of_the_element() -> None:
    v = np.random.default_rng(5).normal(size=50)
    coded = QSGD(3).encode(v, np.random.default_rng(0))
    levels = coded.values / coded.scale[0] * 7
    assert np.allclose(levels, np.round(levels))
    assert np.all((coded.values == 0) | (np.sign(coded.values) == np.sign(v)))
    assert np.linalg.norm(v) <= coded.scale[0] <= np.linalg.norm(v) * (1 + 2e-7)


def test_qsgd_keeps_a_single_element_and_follows_its_generator() -> None:
    v = np.array([0.0, -3.0, 0.0])
    assert np.allclose(QSGD(1).encode(v, np.random.default_rng(0)).values, v, rtol=2e-7)
    w = np.random.default_rng(0).normal(size=20)
    again = [QSGD(2).encode(w, np.random.default_rng(seed)).data for seed in (1, 1, 2)]
    assert again[0] == again[1] != again[2]


# --- floating point ---------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.sampled_from([16, 32, 64]), st.lists(st.floats(-6e4, 6e4) | st.floats(-1e-3, 1e-3), max_size=30))
def test_floats_are_the_nearest_of_their_precision(bits: int, numbers: list[float]) -> None:
    vector = np.array(numbers)
    sent = Float(bits).encode(vector)
    assert sent.dtype.itemsize * 8 == bits
    assert sent.tolist() == [float(np.dtype(f"f{bits // 8}").type(number)) for number in numbers]
    received = decode(encode(sent))
    assert received.dtype == sent.dtype
    assert decoded(received).tobytes() == decoded(sent).tobytes()
    assert decoded(sent).dtype == np.float64
    assert payload_bits(sent) == payload_bits(received) == bits * len(numbers)
    # Half a unit in the last place; below the smallest normal number that unit stays as it is.
    limits = np.finfo(sent.dtype)
    half = np.maximum(np.abs(vector), float(limits.tiny)) * float(limits.eps) / 2
    assert np.all(np.abs(decoded(sent) - vector) <= half)
    if bits == 64:
        assert decoded(sent).tobytes() == vector.tobytes()


def test_only_floats_are_precise_enough_for_a_whole_state() -> None:
    assert all(Float(bits).whole for bits in (16, 32, 64))
    assert not Uniform(16).whole
    assert not QSGD(16).whole


@pytest.mark.parametrize(("bits", "largest"), [(16, 65504.0), (32, LARGEST), (64, 1.7976931348623157e308)])
def test_the_largest_numbers_travel(bits: int, largest: float) -> None:
    assert decoded(Float(bits).encode([largest, -largest])).tolist() == [largest, -largest]


@pytest.mark.parametrize(
    ("bits", "size", "message"),
    [
        (16, 65505.0, "vector = 65505.0: must be at most 65504 for 16 bits"),
        (16, -7e4, "vector = 70000.0: must be at most 65504 for 16 bits"),
        (32, 3.5e38, "vector = 3.5e+38: must be at most 3.40282e+38 for 32 bits"),
    ],
)
def test_numbers_too_large_for_so_few_bits_are_refused(bits: int, size: float, message: str) -> None:
    assert message_of(lambda: Float(bits).encode([0.0, size]), BadInput) == message


@pytest.mark.parametrize("bits", [0, 8, 33, 128, "64", None, 16.0, 64.0, np.float32(32)])
def test_floats_of_other_sizes_are_refused(bits: Any) -> None:
    with pytest.raises(BadInput, match=r"^bits = [^\n]+: must be 16, 32 or 64$"):
        Float(bits)


def test_settings_are_kept_as_pythons_own() -> None:
    coders = [Float(np.int8(16)), Uniform(np.uint8(3), np.float32(-1), np.int8(1)), QSGD(np.uint8(3), by_row=np.True_)]
    assert [coder.bits for coder in coders] == [16, 3, 3]
    assert {type(coder.bits) for coder in coders} == {int}
    assert [type(end) for end in coders[1].fixed] == [float, float]
    assert coders[2].by_row is True
    for make in (lambda: Uniform(3, by_row="no"), lambda: QSGD(3, by_row=1)):
        with pytest.raises(BadInput, match=r"^by_row = \S+: must be True or False$"):
            make()
    rng = np.random.default_rng(0)
    assert decode(encode(coders[1].encode(rng.uniform(-1, 1, 9)))).bits == 3


def test_floats_refuse_what_is_no_vector() -> None:
    for bits in (16, 32, 64):
        with pytest.raises(BadInput, match=r"^vector\[1\] = nan: must be finite"):
            Float(bits).encode([1.0, np.nan])
        with pytest.raises(BadInput, match=r"^vector = \(2, 2, 1\): must be of one or two dimensions$"):
            Float(bits).encode(np.zeros((2, 2, 1)))


@pytest.mark.parametrize("coder", [Uniform(4), Uniform(4, -2, 2), QSGD(4)])
def test_decoded_gives_the_values_of_a_coded_vector(coder: Any) -> None:
    coded = coder.encode(np.linspace(-1, 1, 9), np.random.default_rng(0))
    assert decoded(coded) is coded.values
    assert decoded(decode(encode(coded))).tobytes() == coded.values.tobytes()


def test_decoded_takes_arrays_as_they_are() -> None:
    vector = np.linspace(-1, 1, 9)
    assert decoded(vector) is vector
    assert decoded(vector.astype(np.float32)).tolist() == vector.astype(np.float32).tolist()


@pytest.mark.parametrize("coder", [Uniform(3), Uniform(8, -1, 1), QSGD(4), QSGD(16)])
@pytest.mark.parametrize("shape", [(4, 3), (1, 1), (0, 5), (5, 0)])
def test_a_matrix_is_coded_as_its_elements_in_a_row(coder: Any, shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(0).uniform(-1, 1, shape)
    coded = coder.encode(matrix, np.random.default_rng(1))
    flat = coder.encode(matrix.ravel(), np.random.default_rng(1))
    assert coded.shape == coded.values.shape == shape
    assert coded.values.ravel().tolist() == flat.values.tolist()
    assert coded.payload_bits == flat.payload_bits
    again = decode(encode(coded))
    assert again == coded
    assert again.values.shape == shape


def test_rows_have_a_scale_each() -> None:
    matrix = np.array([[1.0, -0.5], [100.0, 20.0], [0.0, 0.0]])
    coded = Uniform(8, by_row=True).encode(matrix)
    assert coded.scale == (1.0, 100.0, 0.0)
    assert payload_bits(coded) == 3 * (2 * 8 + 32)
    assert np.allclose(coded.values, matrix, rtol=0.0, atol=[[1 / 128], [100 / 128], [0]])
    assert len(encode(coded)) == len(encode(Uniform(8).encode(matrix))) + 2 * 4


@pytest.mark.parametrize("coder", [Uniform, QSGD])
@pytest.mark.parametrize("bits", [1, 3, 8, 16])
@pytest.mark.parametrize("shape", [(4, 3), (1, 5), (0, 5), (5, 0), (3, 1)])
def test_rows_are_coded_as_they_would_be_alone(coder: Any, bits: int, shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(0).uniform(-1, 1, shape) * np.geomspace(1e-200, 1e30, shape[0])[:, None]
    rng = np.random.default_rng(1)
    alone = [coder(bits).encode(row, rng) for row in matrix]
    coded = coder(bits, by_row=True).encode(matrix, np.random.default_rng(1))
    assert coded.scale == tuple(row.scale[0] for row in alone)
    assert coded.values.shape == shape
    for row, values in zip(alone, coded.values, strict=True):
        assert row.values.tolist() == values.tolist()
    assert coded.payload_bits == sum(row.payload_bits for row in alone)
    again = decode(encode(coded))
    assert again == coded
    assert again.values.tolist() == coded.values.tolist()


def test_rows_are_of_a_matrix_and_have_no_fixed_range() -> None:
    for coder in (Uniform(3, by_row=True), QSGD(3, by_row=True)):
        with pytest.raises(BadInput, match=r"vector = \(2,\): must be a matrix, for by_row = True"):
            coder.encode(np.ones(2), np.random.default_rng(0))
    with pytest.raises(BadInput, match="by_row = True, low = -1: must go without a fixed range"):
        Uniform(3, -1, 1, by_row=True)


@pytest.mark.parametrize(("shape", "scales"), [(2, 2), ([2, 2], 1), ([2, 2], 3), ([2, 2], 0)])
def test_hostile_rows_are_refused(shape: Any, scales: int) -> None:
    for method in (0, 1, 2):
        head = bytes([1 << 7 | method << 5 | 1]) + msgpack.packb(shape)
        with pytest.raises(WireError):
            decode(msgpack.packb(msgpack.ExtType(5, head + np.ones(scales, "<f4").tobytes() + b"\0")))


@pytest.mark.parametrize("by_row", [0, 1])
@pytest.mark.parametrize("method", [0, 1, 2, 3])
def test_what_is_decoded_has_values_whatever_its_parts(method: int, by_row: int) -> None:
    """Every method, width, shape and scale, with as many bytes of data as they need: refused, or good for use."""
    shapes: list[Any] = [
        0,
        1,
        3,
        [0],
        [3],
        [5, 0],
        [0, 5],
        [0, 0],
        [1, 0],
        [0, 1],
        [2, 3],
        [1, 3],
        [1 << 40, 0],
        [-1, 0],
    ]
    inf, nan = np.inf, np.nan
    scales = [[], [1.0], [0.0], [-1.0], [nan], [inf], [1.0, 2.0], [2.0, 1.0], [-inf, inf], [1.0, nan], [0.0] * 5]
    accepted = 0
    for bits, shape, scale in itertools.product((0, 1, 3, 15, 16, 17, 31), shapes, scales):
        lengths = shape if isinstance(shape, list) else [shape]
        count = max(math.prod(lengths), 0)
        sizes = [2 * count + -(-count // 8)] if bits == 16 and method == 2 else []
        for size in [*sizes, -(-count * bits // 8), -(-count * (bits + 1) // 8)]:
            head = bytes([by_row << 7 | method << 5 | bits]) + msgpack.packb(shape)
            side = np.array(scale, "<f4" if method else "<f8").tobytes()
            try:
                coded = decode(msgpack.packb(msgpack.ExtType(5, head + side + b"\x5a" * size)))
            except WireError:
                continue
            accepted += 1
            assert coded.values.shape == coded.shape == tuple(lengths)
            assert np.isfinite(coded.values).all()
            assert coded.payload_bits >= 0
            assert decode(encode(coded)) == coded
    assert (accepted > 0) == (method < 3 and not (method == 0 and by_row))


@pytest.mark.parametrize("shape", [(5, 0), (0, 5), (0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("scales", range(7))
def test_a_scale_for_the_array_or_one_for_each_row(shape: tuple[int, int], scales: int) -> None:
    for method in (MessageRange, NormLevels):
        coded = method(1, shape, (1.0,) * scales, b"\0" * math.prod(shape))
        if scales in (1, shape[0]):
            assert decode(encode(coded)).values.shape == shape
        else:
            with pytest.raises(WireError, match=r"has scale \("):
                encode(coded)


@pytest.mark.parametrize("shape", [[1, 2, 3], [1.0, 2], [-1, 2], [True, 1], [0, 1 << 62], []])
def test_hostile_shapes_are_refused(shape: list[Any]) -> None:
    coded = bytes([1 << 5 | 1]) + msgpack.packb(shape) + np.zeros(1, "<f4").tobytes() + b"\0"
    with pytest.raises(WireError):
        decode(msgpack.packb(msgpack.ExtType(5, coded)))
