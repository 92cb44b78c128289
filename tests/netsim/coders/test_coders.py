"""The coders against the formulas of their papers: errors, sums, and sizes in bits."""

import itertools
import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from netsim import Agent, Link, Network, topology
from netsim.coders import (
    MOST_BITS,
    QSGD,
    Coded,
    Coder,
    ErrorFeedback,
    Exact,
    Float,
    Floats,
    InParts,
    LowRank,
    MessageRange,
    Natural,
    NormLevels,
    RandomK,
    Sign,
    Signs,
    Sparse,
    Ternary,
    TopK,
    Trits,
    Uniform,
    decoded,
)
from netsim.core.frame import FrameEncoder
from netsim.errors import AgentError, BadInput, WireError
from netsim.wire.codec import decode, encode, payload_bits
from netsim.wire.packing import pack, unpack
from tests.parts import every, message_of, slow

CODERS: dict[str, Callable[[], Coder]] = {
    "Exact": Exact,
    "Float": lambda: Float(32),
    "Uniform": lambda: Uniform(3),
    "Uniform fixed": lambda: Uniform(3, -1, 1),
    "Uniform in 1 bit": lambda: Uniform(1),
    "Uniform in 16 bits": lambda: Uniform(16),
    "QSGD": lambda: QSGD(4),
    "QSGD in 16 bits": lambda: QSGD(16),
    "TopK": lambda: TopK(3),
    "TopK of Float": lambda: TopK(3, Float(16)),
    "TopK of Uniform": lambda: TopK(3, Uniform(4)),
    "TopK of Ternary": lambda: TopK(3, Ternary()),
    "RandomK": lambda: RandomK(3),
    "RandomK unbiased": lambda: RandomK(3, QSGD(5), unbiased=True),
    "Sign": Sign,
    "Ternary": Ternary,
    "Natural": Natural,
    "LowRank": lambda: LowRank(1),
    "LowRank of QSGD": lambda: LowRank(1, QSGD(5)),
    "ErrorFeedback": lambda: ErrorFeedback(TopK(2)),
    "ErrorFeedback of LowRank": lambda: ErrorFeedback(LowRank(1)),
}
every_coder = every("make", CODERS.values())
NEW = [name for name in CODERS if name not in ("Exact", "Float")]
vectors = arrays.arrays(
    np.float64, st.integers(0, 40), elements=st.floats(-1e6, 1e6) | st.floats(-1e-6, 1e-6) | st.just(0.0)
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def log2_up(n: int) -> int:
    """Return ⌈log₂ n⌉."""
    return next(bits for bits in itertools.count() if 2**bits >= n)


# --- what all have in common ------------------------------------------------------------------------------------------


@every_coder
@every("shape", [(0,), (1,), (2,), (9,), (130,), (1, 1), (3, 4), (0, 5), (5, 0)])
def test_receivers_take_it_for_the_same_values(make: Callable[[], Coder], shape: tuple[int, ...]) -> None:
    coder, vector = make(), rng(1).uniform(-1, 1, shape)
    sent = coder.encode(vector, rng(2))
    received = decode(encode([sent]))[0]
    assert decoded(received).shape == decoded(sent).shape == sent.shape == shape
    assert decoded(received).tobytes() == decoded(sent).tobytes() == coder.decode(received).tobytes()
    assert payload_bits(received) == payload_bits(sent)
    if isinstance(sent, Coded):
        assert received == sent
        assert not received.values.flags.writeable
        assert not sent.values.flags.writeable
        assert np.asarray(received).tobytes() == sent.values.tobytes()
    assert coder.whole == isinstance(coder, Exact | Float)


@every_coder
@every("shape", [(0,), (6,), (2, 3)])
def test_zeros_stay_zeros(make: Callable[[], Coder], shape: tuple[int, ...]) -> None:
    coder = make()
    # In a fixed range, zero is the edge of a quantization cell, so it is not decoded exactly.
    if not (isinstance(coder, Uniform) and coder.fixed):
        assert np.all(decoded(make().encode(np.zeros(shape), rng())) == 0.0)


NO_VECTORS = [
    ([1.0, np.nan], r"vector\[1\] = nan: must be finite"),
    ([-np.inf, 1.0], r"vector\[0\] = -inf: must be finite"),
    (np.zeros((2, 2, 1)), r"vector = \(2, 2, 1\): must be of one or two dimensions"),
    (3.0, r"vector = \(\): must be of one or two dimensions"),
    (np.array([1j]), r"vector = array\(\[0\.\+1\.j\]\): must be an array of real numbers"),
    (["one"], r"vector = \['one'\]: must be an array of real numbers"),
]


@every("name", [*NEW, "Float"])
@every(("vector", "message"), NO_VECTORS)
def test_what_is_no_vector_is_refused_in_one_line(name: str, vector: Any, message: str) -> None:
    with pytest.raises(BadInput, match=f"^{message}[^\n]*$"):
        CODERS[name]().encode(vector, rng())


SCALED = [Sign(), Ternary(), Uniform(4), QSGD(4), TopK(1, Uniform(3)), RandomK(2, QSGD(3)), ErrorFeedback(Sign())]


@every("coder", SCALED)
@every("size", [3.4028235678e38, 1e39, 1e300, 1.7e308])
def test_sizes_beyond_float32_are_refused(coder: Coder, size: float) -> None:
    with pytest.raises(BadInput, match=r"^vector has size \S+: must be at most 3\.40282e\+38[^\n]*$"):
        coder.encode([size, size], rng())


@pytest.mark.parametrize(
    "make", [lambda: QSGD(2), lambda: RandomK(1), Ternary, Natural, lambda: LowRank(1), lambda: ErrorFeedback(Exact())]
)
def test_who_draws_wants_a_generator(make: Callable[[], Coder]) -> None:
    for none in (None, 7, np.random):
        with pytest.raises(
            BadInput, match=r"^rng = [^\n]+: must be a numpy\.random\.Generator, from which this coder draws"
        ):
            make().encode([1.0], none)  # type: ignore[arg-type]


@every_coder
def test_lists_integers_and_numpys_numbers_are_vectors(make: Callable[[], Coder]) -> None:
    exact = decoded(make().encode(np.array([0.0, 1.0, -1.0, 0.0]), rng()))
    for same in ([0, 1, -1, 0], np.array([0, 1, -1, 0], np.int8), np.array([0, 1, -1, 0], ">f4")):
        assert decoded(make().encode(same, rng())).tolist() == exact.tolist()


BOTH = "must both be given (fixed range) or both be None (per-message range)"


@every(
    ("make", "message"),
    [
        (lambda: TopK(0), "k = 0: must be a whole number >= 1"),
        (lambda: TopK(2.0), "k = 2.0: must be a whole number >= 1"),
        (lambda: TopK(True), "k = True: must be a whole number >= 1"),
        (lambda: RandomK(-1), "k = -1: must be a whole number >= 1"),
        (lambda: RandomK(1, unbiased=1), "unbiased = 1: must be True or False"),
        (lambda: TopK(1, 32), "coder = 32: must be a netsim.coders.Coder"),
        (lambda: ErrorFeedback(None), "coder = None: must be a netsim.coders.Coder"),
        (lambda: Uniform(0), "bits = 0: must be a whole number from 1 to 16"),
        (lambda: Uniform(17), "bits = 17: must be a whole number from 1 to 16"),
        (lambda: QSGD(0), "bits = 0: must be a whole number from 1 to 16"),
        (lambda: QSGD(17), "bits = 17: must be a whole number from 1 to 16"),
        (lambda: QSGD(2.0), "bits = 2.0: must be a whole number from 1 to 16"),
        (lambda: Uniform(True), "bits = True: must be a whole number from 1 to 16"),
        (lambda: Uniform(4, 1, 1), "high = 1: must be a number > 1"),
        (lambda: Uniform(4, 2, 1), "high = 1: must be a number > 2"),
        (lambda: Uniform(4, 0), f"low = 0, high = None: {BOTH}"),
        (lambda: Uniform(4, high=1), f"low = None, high = 1: {BOTH}"),
        (lambda: Uniform(4, 0, np.inf), "high = inf: must be finite"),
        (
            lambda: Uniform(4, -1.7e308, 1.7e308),
            "high = 1.7e+308: must be within float64's range of low = -1.7e+308",
        ),
    ],
)
def test_bad_coders_are_refused(make: Any, message: str) -> None:
    assert message_of(make, BadInput) == message


@pytest.mark.parametrize("wrap", [lambda c: TopK(1, c), lambda c: RandomK(1, c), lambda c: LowRank(1, c)])
def test_a_memory_is_no_part_of_a_coder_that_cannot_keep_it(wrap: Callable[[Coder], Coder]) -> None:
    for coder in (ErrorFeedback(Sign()), LowRank(1)):
        with pytest.raises(BadInput, match=r"^coder = [^\n]+: must be one without a memory$"):
            wrap(coder)


@pytest.mark.parametrize("wrap", [lambda c: InParts(c, 2), ErrorFeedback])
def test_feedback_goes_around_all_other_coders(wrap: Callable[[Coder], Coder]) -> None:
    with pytest.raises(
        BadInput, match=r"^coder = [^\n]+: must be one without error feedback: ErrorFeedback must be outermost"
    ):
        wrap(ErrorFeedback(Sign()))


def test_settings_are_kept_as_pythons_own() -> None:
    top, some = TopK(np.uint8(3)), RandomK(np.int64(2), unbiased=np.True_)
    assert [type(top.k), type(some.k), type(some.unbiased)] == [int, int, bool]
    coded = top.encode(np.arange(9.0))
    assert type(coded.payload_bits) is int
    assert decode(encode(coded)) == coded


# --- float64 as it is -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.zeros(0), np.array([1.0, np.nan, np.inf]), np.ones((2, 3)), np.ones((2, 3)).T])
def test_exact_is_no_coder_at_all(value: Any) -> None:
    """Exact returns the same object: no copy, the same bytes, and no error even for a diverged state (inf or NaN)."""
    sent = Exact().encode(value, rng())
    assert sent is value
    assert decoded(sent) is value
    assert Exact().decode(sent) is value
    assert Exact().fresh().encode(value) is value


def test_exact_takes_what_becomes_float64() -> None:
    for value in ([1, 2], np.array([1, 2]), np.array([1, 2], "f4"), np.array([1, 2], ">f8")):
        sent = Exact().encode(value)
        assert type(sent) is np.ndarray
        assert sent.dtype == np.float64
        assert sent.tolist() == [1.0, 2.0]
    for bad in (["a"], np.array([1j]), [[1], [1, 2]], [10**400]):
        with pytest.raises(BadInput, match=r"^vector = [^\n]+: must be an array of real numbers$"):
            Exact().encode(bad)


# --- bits in bytes ---------------------------------------------------------------------------------------------------

BITS = range(1, MOST_BITS + 1)
LARGEST = float(np.finfo(np.float32).max)


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


@every("bits", BITS)
@every(("low", "high"), [(-1.0, 1.0), (0.0, 10.0), (-7.25, -7.0)])
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


@every("bits", BITS)
@every("size", [LARGEST, np.nextafter(LARGEST, 0), 1e30, 1e-30, 1e-44, 1e-170, 5e-324])
def test_sizes_at_the_ends_of_float32(bits: int, size: float) -> None:
    h = np.array([size, -size, size / 3, 0.0])
    v = h[1:2]
    rng = np.random.default_rng(0)
    for vector, coded, steps in ((h, Uniform(bits).encode(h), 2**bits), (v, QSGD(bits).encode(v, rng), 2**bits - 1)):
        (reach,) = coded.scale
        assert size <= reach <= size * (1 + 2e-7) + 1.5e-45
        assert np.abs(coded.values - vector).max() <= reach / steps * (1 + 1e-9)


# --- QSGD -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("n", [1, 8, 200])
def test_qsgd_is_unbiased_within_its_variance_bound(bits: int, n: int) -> None:
    v = np.random.default_rng(100 * n + bits).normal(size=n)
    rng, count = np.random.default_rng(bits), 300
    coded = [QSGD(bits).encode(v, rng) for _ in range(count)]
    samples = np.array([c.values for c in coded])
    top, square = 2**bits - 1, v @ v
    # Levels are ``step`` apart. Random rounding at a fraction f between two levels has the variance step²·f·(1 − f).
    step = coded[0].scale[0] / top
    fraction = np.abs(v) / step % 1
    deviation = np.sqrt(fraction * (1 - fraction)) * step
    # The normal approximation fails for means of rare events; Bernstein's bound has the additional term in 1/count.
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
    # The tolerance is half a unit in the last place, which is constant below the smallest normal number.
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


def test_settings_of_quantizers_are_kept_as_pythons_own() -> None:
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


def test_decoded_takes_arrays_as_they_are() -> None:
    vector = np.linspace(-1, 1, 9)
    assert decoded(vector) is vector
    coded = Uniform(4).encode(vector)
    assert decoded(coded) is coded.values
    assert decoded(vector.astype(np.float32)).tolist() == vector.astype(np.float32).tolist()


@every("coder", [Uniform(3), Uniform(8, -1, 1), QSGD(4), QSGD(16)])
@every("shape", [(4, 3), (1, 1), (0, 5), (5, 0)])
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


@every("coder", [Uniform, QSGD])
@every("bits", [1, 3, 8, 16])
@every("shape", [(4, 3), (1, 5), (0, 5), (5, 0), (3, 1)])
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
    """For any method, width, shape and scale, decoding bytes of the right length is refused or yields values."""
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


@every("shape", [(5, 0), (0, 5), (0, 0), (1, 0), (0, 1), (1, 1)])
@every("scales", range(7))
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


# --- few of the elements ----------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 45), vectors)
def test_top_k_keeps_the_largest_and_contracts(k: int, x: np.ndarray) -> None:
    order = sorted(range(len(x)), key=lambda i: (-abs(x[i]), i))[:k]
    coded = TopK(k).encode(x)
    assert coded.indices.tolist() == sorted(order)
    expected = np.zeros(len(x))
    expected[order] = x[order]
    assert coded.values.tolist() == expected.tolist()
    left = 1 - min(k, len(x)) / max(len(x), 1)
    assert np.sum((x - coded.values) ** 2) <= left * np.sum(x**2) * (1 + 1e-12)


@pytest.mark.parametrize("k", [1, 3, 7])
def test_of_equal_elements_the_first_travel(k: int) -> None:
    x = np.array([1.0, -2.0, 2.0, -1.0, 2.0, 0.0, 1.0])
    assert TopK(k).encode(x).indices.tolist() == [[1], [1, 2, 4], list(range(7))][(1, 3, 7).index(k)]


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 45), st.integers(0, 2**32), vectors)
def test_random_k_keeps_k_of_the_elements_as_they_are(k: int, seed: int, x: np.ndarray) -> None:
    coded = RandomK(k).encode(x, rng(seed))
    assert len(coded.indices) == min(k, len(x))
    assert np.all(np.diff(coded.indices) > 0)
    assert coded.values[coded.indices].tolist() == x[coded.indices].tolist()
    assert np.count_nonzero(np.delete(coded.values, coded.indices)) == 0
    large = RandomK(k, unbiased=True).encode(x, rng(seed))
    assert large.indices.tolist() == coded.indices.tolist()
    assert np.allclose(large.values, coded.values * max(len(x) / k, 1), rtol=1e-15, atol=0)


def test_each_set_of_k_is_as_likely_as_any_other() -> None:
    draws, count = rng(3), 6000
    sets = Counter(tuple(RandomK(2).encode(np.ones(4), draws).indices.tolist()) for _ in range(count))
    assert set(sets) == set(itertools.combinations(range(4), 2))
    chi_squared = sum((seen - count / 6) ** 2 / (count / 6) for seen in sets.values())
    assert chi_squared < 20.5, "of 5 degrees of freedom; one in a thousand is larger"


@pytest.mark.parametrize(("n", "k"), [(5, 1), slow(12, 4), (40, 39), (6, 6), (3, 9)])
def test_random_k_has_the_error_in_closed_form(n: int, k: int) -> None:
    x, draws, count = rng(n).normal(size=n), rng(k), 1000
    share = min(k / n, 1.0)
    for unbiased, error in ((False, 1 - share), (True, 1 / share - 1)):
        samples = np.array([RandomK(k, unbiased=unbiased).encode(x, draws).values for _ in range(count)])
        errors = np.sum((samples - x) ** 2, axis=1)
        assert abs(errors.mean() - error * (x @ x)) <= 5 * errors.std() / math.sqrt(count) + 1e-12
        mean = x if unbiased else share * x
        deviation = np.abs(x) * math.sqrt(share * (1 - share)) / (share if unbiased else 1)
        assert np.all(np.abs(samples.mean(axis=0) - mean) <= 5 * deviation / math.sqrt(count) + 1e-12)


@every("k", [1, 3, 99, 100, 101])
@every(("coder", "bits"), [(Exact(), 64), (Float(16), 16), (Uniform(5, -9, 9), 5)])
def test_bits_of_few_elements(k: int, coder: Coder, bits: int) -> None:
    for n in (1, 2, 3, 100, 65536, 65537, 100_000):
        count = min(k, n)
        coded = TopK(k, coder).encode(rng(n).normal(size=n))
        places = 0 if count == n else count * log2_up(n)
        assert payload_bits(coded) == places + count * bits
        assert len(coded.places) == -(-places // 8)
        assert decode(encode(coded)) == coded
        assert decode(encode(coded)).indices.tolist() == coded.indices.tolist()


def test_what_is_clipped_among_the_few_is_counted() -> None:
    coded = TopK(3, Uniform(4, -1, 1)).encode([0.1, 5.0, -7.0, 0.5])
    assert coded.saturated == 2
    assert decode(encode(coded)).saturated == 0


def test_elements_that_become_infinite_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^n/k · vector\[0\] = inf: must be finite"):
        RandomK(1, unbiased=True).encode([1e308] * 4, rng())


def test_too_long_for_few_elements() -> None:
    long = np.broadcast_to(0.0, ((1 << 24) + 1,))
    with pytest.raises(BadInput, match=r"^vector = \(16777217,\): must be of at most 16777216 elements$"):
        TopK(1).encode(long)


# --- signs and three levels -------------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(vectors)
def test_sign_is_the_mean_size_with_the_sign(x: np.ndarray) -> None:
    coded = Sign().encode(x)
    mean = math.fsum(abs(float(one)) for one in x) / max(len(x), 1)
    assert math.isclose(coded.scale, mean, rel_tol=1e-7, abs_tol=1e-44)
    assert coded.values.tolist() == [-coded.scale if one < 0 else coded.scale for one in x.tolist()]
    assert payload_bits(coded) == len(x) + 32
    assert len(coded.data) == -(-len(x) // 8)
    if mean > 1e-30:
        error, square = np.sum((x - coded.values) ** 2), np.sum(x**2)
        assert math.isclose(error, square - len(x) * mean**2, rel_tol=0, abs_tol=1e-6 * square)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), vectors)
def test_ternary_has_three_levels_of_the_largest_size(seed: int, x: np.ndarray) -> None:
    coded = Ternary().encode(x, rng(seed))
    size = np.abs(x).max(initial=0.0)
    assert size <= coded.scale <= size * (1 + 2e-7) + 1.5e-45
    assert set(np.abs(coded.values).tolist()) <= {0.0, coded.scale}
    assert np.all((coded.values == 0) | (np.sign(coded.values) == np.sign(x)))
    assert payload_bits(coded) == 8 * -(-len(x) // 5) + 32
    assert 8 * len(coded.data) + 32 == payload_bits(coded)


@pytest.mark.parametrize("n", [1, 4, 50])
def test_ternary_is_unbiased_with_its_variance(n: int) -> None:
    x, draws, count = rng(n).normal(size=n), rng(n + 1), 1000
    coded = [Ternary().encode(x, draws) for _ in range(count)]
    samples, scale = np.array([one.values for one in coded]), coded[0].scale
    deviation = np.sqrt(np.maximum(scale * np.abs(x) - x**2, 0))
    assert np.all(np.abs(samples.mean(axis=0) - x) <= 5 * deviation / math.sqrt(count) + 7 * scale / count)
    errors = np.sum((samples - x) ** 2, axis=1)
    closed = scale * np.abs(x).sum() - x @ x
    assert abs(errors.mean() - closed) <= 5 * errors.std() / math.sqrt(count) + 7 * scale**2 / count


# --- error feedback ---------------------------------------------------------------------------------------------------


@every("name", [name for name in CODERS if not name.startswith("ErrorFeedback")])
@every("shape", [(0,), (1,), (12,), (3, 5)])
def test_what_was_decoded_and_what_is_left_are_all_there_was(name: str, shape: tuple[int, ...]) -> None:
    coder, draws = ErrorFeedback(CODERS[name]()), rng(4)
    inputs = [rng(seed).normal(size=shape) * 10.0 ** (seed % 3) for seed in range(60)]
    outputs = [decoded(coder.encode(x, draws)) for x in inputs]
    assert coder.residual is not None
    largest = np.abs([*inputs, *outputs, coder.residual]).max(initial=0.0)
    assert np.allclose(np.sum(outputs, axis=0) + coder.residual, np.sum(inputs, axis=0), rtol=0, atol=1e-12 * largest)
    # Scaling by n/k for small k leaves an error larger than the vector itself. It is no contraction, so the error
    # memory grows.
    assert (largest > 1e5) == (name == "RandomK unbiased" and math.prod(shape) >= 12)
    assert coder.whole == CODERS[name]().whole


def test_feedback_is_its_recursion() -> None:
    inner, draws, again = Uniform(2), rng(0), ErrorFeedback(Uniform(2))
    error = np.zeros(5)
    assert again.residual is None
    for seed in range(10):
        x = rng(seed).normal(size=5)
        expected = decoded(inner.encode(x + error))
        assert decoded(again.encode(x, draws)).tolist() == expected.tolist()
        error = x + error - expected
        assert again.residual.tolist() == error.tolist()
    with pytest.raises(ValueError, match="read-only"):
        again.residual[0] = 1.0


def test_every_agent_has_a_memory_of_its_own() -> None:
    given = ErrorFeedback(Sign())
    first, second = given.fresh(), given.fresh()
    assert isinstance(first, ErrorFeedback)
    assert first is not second
    mine, others = rng(1), rng(2)
    first.encode([1.0, 5.0], mine)
    assert first.residual is not None
    assert second.residual is None
    assert first.fresh().encode([0.0, 0.0], others).payload_bits == 34  # type: ignore[union-attr]
    for coder in (Exact(), Float(16), Uniform(3), QSGD(2), TopK(2), RandomK(2), Sign(), Ternary()):
        assert coder.fresh() is coder


def test_a_memory_that_two_agents_share_is_refused() -> None:
    coder, mine = ErrorFeedback(Sign()), rng(1)
    coder.encode([1.0, 5.0], mine)
    before = coder.residual
    with pytest.raises(BadInput, match=r"^coder = ErrorFeedback: must serve one agent, [^\n]+coder\.fresh\(\)\)$"):
        coder.encode([1.0, 5.0], rng(1))
    assert coder.residual is before


class Sender(Agent):
    """Sends a vector a round."""

    def __init__(self, coder: Coder, shape: tuple[int, ...] = (20,)) -> None:
        self.coder = coder
        self.shape = shape
        self.sent: list[Any] = []
        self.heard: list[tuple[Any, Any]] = []

    async def run(self) -> None:
        async for _ in self.rounds(4):
            self.sent.append(self.coder.encode(self.rng.normal(size=self.shape), self.rng))
            await self.broadcast("x", self.sent[-1])
            self.heard += [(frame.sender, frame.payload) for frame in await self.collect()]


def test_agents_that_share_a_memory_end_the_run_with_a_line_that_says_so() -> None:
    coder = ErrorFeedback(Sign())
    with pytest.raises(AgentError, match=r"coder = ErrorFeedback: must serve one agent"):
        Network(topology.ring(3), seed=1).run({i: Sender(coder) for i in range(3)})
    agents = {i: Sender(coder.fresh()) for i in range(3)}
    Network(topology.ring(3), seed=1).run(agents)
    residuals = [agent.coder.residual.tolist() for agent in agents.values()]  # type: ignore[attr-defined]
    assert residuals[0] != residuals[1] != residuals[2]


def test_what_feedback_refuses_leaves_its_memory_as_it_was() -> None:
    coder, draws = ErrorFeedback(TopK(1)), rng(0)
    coder.encode([1.0, 2.0], draws)
    before = coder.residual
    for vector, message in (
        ([1.0, 2.0, 3.0], r"vector = \(3,\): must have shape \(2,\), like earlier vectors"),
        ([np.nan, 2.0], r"vector\[0\] = nan: must be finite"),
    ):
        with pytest.raises(BadInput, match=f"^{message}"):
            coder.encode(vector, draws)
    coder = ErrorFeedback(TopK(1))
    coder.encode([1e308, 1.1e308], draws)
    with pytest.raises(BadInput, match=r"^vector \+ residual\[0\] = inf: must be finite"):
        coder.encode([1.7e308, 0.0], draws)
    assert before is not None


# --- on the network ---------------------------------------------------------------------------------------------------


def said_bits(name: str, n: int) -> int:
    """Return the bits that docs/coders.md states for the coder and a vector of n = 20 elements."""
    few = 3 * log2_up(n)
    return {
        "Exact": 64 * n,
        "Float": 32 * n,
        "Uniform": 3 * n + 32,
        "Uniform fixed": 3 * n,
        "Uniform in 1 bit": n + 32,
        "Uniform in 16 bits": 16 * n + 32,
        "QSGD": 5 * n + 32,
        "QSGD in 16 bits": 17 * n + 32,
        "TopK": few + 3 * 64,
        "TopK of Float": few + 3 * 16,
        "TopK of Uniform": few + 3 * 4 + 32,
        "TopK of Ternary": few + 8 + 32,
        "RandomK": few + 3 * 64,
        "RandomK unbiased": few + 3 * 6 + 32,
        "Sign": n + 32,
        "Ternary": 8 * 4 + 32,
        "Natural": 9 * n,
        # A vector is no matrix, so it is sent uncompressed.
        "LowRank": 32 * n,
        "LowRank of QSGD": 6 * n + 32,
        "ErrorFeedback": 2 * log2_up(n) + 2 * 64,
        "ErrorFeedback of LowRank": 32 * n,
    }[name]


@every("name", CODERS)
@every("medium", ["wires", "radio"])
def test_the_ledger_has_the_bits_that_crossed(name: str, medium: Any) -> None:
    graph = topology.ring(5)
    agents = {i: Sender(CODERS[name]()) for i in graph}
    run = Network(graph, Link(latency=0.01, loss=0.2, header_bits=24), medium=medium, seed=3).run(agents)
    encoder, wire = FrameEncoder(), 0
    for number, agent in enumerate(agents.values()):
        for round_number, sent in enumerate(agent.sent, 1):
            wire += 8 * len(encoder.encode("x", number, round_number, sent)) + 24
        for sender, payload in agent.heard:
            assert any(decoded(payload).tobytes() == decoded(sent).tobytes() for sent in agents[sender].sent)
    assert run.ledger.transmissions == 20
    assert run.ledger.payload_bits == 20 * said_bits(name, 20)
    assert run.ledger.wire_bits == wire * (1 if medium == "radio" else 2)
    saturated = sum(sent.saturated for agent in agents.values() for sent in agent.sent if isinstance(sent, Coded))
    assert run.ledger.saturated == saturated
    assert (saturated > 0) == (name == "Uniform fixed")


def test_a_copy_of_another_shape_is_refused_before_it_is_made() -> None:
    class Listener(Agent):
        async def run(self) -> None:
            from netsim.core import Copies

            copies = Copies(self.neighbors, (20,))
            async for _ in self.rounds(1):
                await self.broadcast("x", Sparse.of((1 << 24,), np.array([5]), np.ones(1)))
                copies.take_in(await self.collect())

    with pytest.raises(AgentError, match=r"must be an array of numbers of shape \(20,\), not Sparse\("):
        Network(topology.ring(3), seed=1).run({i: Listener() for i in range(3)})


# --- bytes ------------------------------------------------------------------------------------------------------------

X = [1.0, -2.0, 0.0, 0.5, 4.0, -0.25]


@every(
    ("coded", "number", "content"),
    [
        (Uniform(3, -2, 2).encode(X), 5, "03 06 00000000000000c0 0000000000000040 c25ec0"),
        (Uniform(3).encode(X), 5, "23 06 00008040 aa4ec0"),
        (Uniform(2, by_row=True).encode([X[:2], X[2:4]]), 5, "a2 920202 00000040 0000003f cb"),
        (QSGD(3).encode(X, rng()), 5, "43 06 c0ba9340 2b0069"),
        (QSGD(16).encode(X[:3], rng()), 5, "50 03 bd1b0f40 727ce4f80000 40"),
        (Floats.of(np.array([1.0, -2.0], "f4")), 6, "20 02 0000803f 000000c0"),
        (TopK(2).encode(X), 7, "06 02 06 30 40 02 00000000000000c0 0000000000001040"),
        (TopK(2, Float(16)).encode([X, X]), 7, "920206 02 06 4a 10 02 0044 0044"),
        (TopK(9, Uniform(4)).encode(X), 7, "06 06 05 24 06 00008040 a489f7"),
        (TopK(1, Float(16)).encode([0.0] * 0x4321 + [1.0] + [0.0] * 0x10000), 7, "ce00014322 01 06 4321 00 10 01 003c"),
        (Sign().encode(X), 8, "06 5555a53f 44"),
        (Trits((6,), 4.0, bytes([0, 242])), 9, "06 00008040 00f2"),
    ],
)
def test_the_bytes_are_what_they_always_were(coded: Coded, number: int, content: str) -> None:
    """Encoded bytes are compared with literals, because files of older runs and other processes must stay readable."""
    body = bytes.fromhex(content)
    data = encode(coded)
    assert data.endswith(bytes([number]) + body)
    assert coded.pack() == body
    assert decode(data) == coded


def test_bytes_of_three_levels() -> None:
    assert Trits((6,), 4.0, bytes([0, 242])).values.tolist() == [-4.0] * 5 + [4.0]
    assert Trits((2,), 1.0, bytes([81 * 2 + 27 * 0 + 9 + 3 + 1])).values.tolist() == [1.0, -1.0]


ONE = Floats.of(np.ones(1))


@every(
    "coded",
    [
        Floats(8, (1,), b"0"),
        Floats(16.0, (1,), b"00"),  # type: ignore[arg-type]
        Floats(16, (2,), b"00"),
        Floats(64, (1,), np.array(np.nan).tobytes()),
        Signs((9,), 1.0, b"0"),
        Signs((8,), 0.1, b"0"),
        Signs((8,), -1.0, b"0"),
        Signs((8,), math.nan, b"0"),
        Signs((8,), 1, b"0"),
        Signs((8,), 1.0, bytearray(1)),  # type: ignore[arg-type]
        Signs((2, 2, 2), 1.0, b"0"),
        Signs((-8,), 1.0, b"0"),
        Trits((5,), 1.0, b""),
        Trits((5,), 1.0, b"\xf3"),
        Trits((5,), 0.1, b"0"),
        Sparse((4,), b"0", ONE.values),  # type: ignore[arg-type]
        Sparse((4,), b"", ONE),
        Sparse((3,), b"\xc0", ONE),
        Sparse((0,), b"", ONE),
        Sparse((4,), b"\x00", Floats.of(np.ones(2))),
        Sparse((4,), b"\x40", Floats.of(np.ones(2))),
        Sparse((4,), b"\x00", Floats.of(np.ones((1, 1)))),
        Sparse((4,), b"\x00", Sparse((1,), b"", ONE)),
        Sparse(((1 << 24) + 1,), b"0000", ONE),
        Sparse((2,), b"\x00", Signs((1,), 0.1, b"0")),
    ],
)
def test_parts_that_do_not_fit_cannot_travel(coded: Coded) -> None:
    with pytest.raises(WireError, match=r"^[^\n]+$"):
        encode(coded)


def test_a_part_that_is_no_float_is_refused() -> None:
    for part, message in (
        (np.ones(2, int), "int64"),
        (np.ones(2, "c8"), "complex64"),
        (np.full(2, np.inf), "not finite"),
    ):
        with pytest.raises(BadInput, match=message):
            Sparse.of((4,), np.arange(2), part)


# --- a fixed range that is not the end --------------------------------------------------------------------------------


@given(st.integers(1, 7), st.lists(st.integers(-300_000, 300_000), min_size=1, max_size=20))
def test_a_quantizer_that_does_not_saturate_is_equation_3_21_as_printed(bits: int, numbers: list[int]) -> None:
    """Equation 3.21 of the dissertation, u + (⌊(h − u)/Δ⌋ + ½)Δ, holds for any h; more bits are sent if necessary."""
    h = np.array(numbers) / 1024.0  # multiples of 1/1024 are exact in binary
    coded = Uniform(bits, -1.0, 1.0, saturate=False).encode(h)
    step = 2.0 / 2**bits
    np.testing.assert_array_equal(coded.values, -1.0 + (np.floor((h + 1.0) / step) + 0.5) * step)
    assert coded.saturated == 0
    width = next(
        w for w in itertools.count(bits) if (-(2.0 ** (w - bits)) <= h).all() and (h < 2.0 ** (w - bits)).all()
    )
    assert coded.payload_bits == width * len(h)


def test_a_quantizer_that_does_not_saturate_does_at_16_bits() -> None:
    coded = Uniform(3, -1.0, 1.0, saturate=False).encode([1e9, 0.1])
    assert (coded.payload_bits, coded.saturated) == (32, 1)
    huge = Uniform(3, -1e308, 1e307, saturate=False).encode([1.7e308])
    assert np.isfinite(huge.values).all()


def test_within_its_range_it_is_the_one_that_saturates() -> None:
    h = np.random.default_rng(5).uniform(-1.0, 1.0, 50)
    assert Uniform(3, -1.0, 1.0, saturate=False).encode(h) == Uniform(3, -1.0, 1.0).encode(h)
    with pytest.raises(BadInput, match=r"^saturate = False: must go with low and high[^\n]+$"):
        Uniform(3, saturate=False)
