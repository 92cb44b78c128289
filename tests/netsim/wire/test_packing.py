"""The elements of coded arrays, packed in one or several passes, equal the formulas computed here with numpy."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from netsim.coders import QSGD, FixedRange, MessageRange, Uniform
from netsim.errors import BadInput, WireError
from netsim.wire import packing
from netsim.wire.inputs import real_array
from tests.parts import every

LARGEST = float(np.finfo(np.float32).max)
RNG = np.random.default_rng(11)

Array = NDArray[Any]


def arrays(count: int) -> list[Array]:
    """Return finite vectors and matrices: of all magnitudes, with zeros of both signs, equal elements, or strides."""
    found: list[Array] = [np.zeros(0), np.zeros(3), -np.zeros(9), np.full(5, -LARGEST), np.full(4, 5e-324)]
    found += [np.array([LARGEST, 1e-45, -0.0, 1.0]), np.zeros((0, 4)), np.zeros((4, 0))]
    for _ in range(count):
        x = RNG.normal(size=int(RNG.integers(1, 70))) * 10.0 ** RNG.integers(-300, 38)
        x = np.clip(x, -LARGEST, LARGEST)
        found += [
            x,
            x[::-2],
            np.round(x / np.abs(x).max() * 8) / 8,
            np.tile(x, (3, 1)),
            np.asfortranarray(np.tile(x, (2, 1))),
        ]
    return found


def bits_of(integers: Array, bits: int) -> bytes:
    """Return integers of ``bits`` bits each, most significant bit first, padded to whole bytes."""
    text = "".join(f"{value:0{bits}b}" for value in integers.ravel().tolist())
    text += "0" * (-len(text) % 8)
    return bytes(int(text[i : i + 8], 2) for i in range(0, len(text), 8))


def cells_of(h: Array, low: float, high: float, bits: int) -> Array:
    """Return the cell number ⌊(h − u)/Δ⌋ of each element, clipped to the range; u is its low end, Δ the step."""
    step = (high - low) / 2**bits or 1.0
    return np.clip(np.floor((np.clip(h, low, high) - low) / step), 0, 2**bits - 1).astype(int)


@pytest.mark.parametrize("bits", [1, 2, 3, 7, 8, 9, 13, 16])
def test_uniform_sends_the_cells_of_the_messages_range_and_decodes_their_middles(bits: int) -> None:
    for h in arrays(15):
        coded = Uniform(bits).encode(h)
        # The range is the smallest float32 that is not below the largest magnitude.
        largest = np.abs(h).max(initial=0.0)
        reach = np.float32(largest)
        reach = float(reach if float(reach) >= largest else np.nextafter(reach, np.float32(np.inf)))
        cells = cells_of(h, -reach, reach, bits)
        assert coded == MessageRange(bits, h.shape, (reach,), bits_of(cells, bits))
        step = 2.0 * reach / 2**bits
        expected = -reach + (cells + 0.5) * step if step else np.zeros(h.shape)
        assert coded.decode().tobytes() == expected.tobytes()
        assert coded.decode().shape == h.shape
        assert coded.saturated == 0


@every("bits", [1, 3, 8, 16])
@every(("low", "high"), [(-1.0, 1.0), (0.0, 5e-324), (-1e-320, 0.0), (-4e307, 4e307), (0.5, 0.75), (-1e-9, 3.0)])
def test_a_fixed_range_saturates_and_counts_what_lies_outside(bits: int, low: float, high: float) -> None:
    inside = low + (high - low) * RNG.random(200)
    edges = np.array([low, high, np.nextafter(low, -np.inf), np.nextafter(high, -np.inf), 0.0, -0.0, 1e308, -1e308])
    for h in (inside, edges, 3.0 * inside, *arrays(5)):
        coded = Uniform(bits, low, high).encode(h)
        cells = cells_of(h, low, high, bits)
        outside = int(np.count_nonzero((h < low) | (h >= high)))
        assert coded == FixedRange(bits, h.shape, (low, high), bits_of(cells, bits))
        assert coded.saturated == outside
        step = (high - low) / 2**bits
        expected = low + (cells + 0.5) * step if step else np.zeros(h.shape)
        assert coded.decode().tobytes() == expected.tobytes()


@every("bits", [1, 4, 8, 15, 16])
@every("by_row", [False, True])
def test_qsgd_rounds_to_the_levels_below_or_above_by_its_draws(bits: int, by_row: bool) -> None:
    top = 2**bits - 1
    for v in (0.01 * each for each in arrays(10)):
        if by_row and v.ndim != 2:
            continue
        coded = QSGD(bits, by_row=by_row).encode(v, np.random.default_rng(3))
        norm = (
            np.array(coded.scale)[:, None]
            if by_row and len(coded.scale) != 1
            else coded.scale[0]
            if coded.scale
            else 1.0
        )
        factor = top / np.where(np.equal(norm, 0.0), 1.0, norm)
        uniforms = np.random.default_rng(3).random(v.shape)
        levels = np.minimum(np.floor(np.abs(v) * factor + uniforms), top).astype(int)
        if bits < 16:
            assert coded.data == bits_of(levels | (v < 0) * 2**bits, bits + 1)
        magnitude = norm * (levels / top)
        assert coded.decode().tobytes() == np.where(v < 0, -magnitude, magnitude).tobytes()


def test_checks_in_one_pass_see_what_numpy_sees() -> None:
    for array in arrays(20):
        assert packing.largest(array) == np.abs(array).max(initial=0.0)
        assert real_array(array) is array
        for at in range(0, array.size, 5):
            for wrong in (np.nan, np.inf, -np.inf):
                spoilt = array.copy()
                spoilt.flat[at] = wrong
                assert not packing.is_finite(spoilt)
                assert packing.to_float32(spoilt) is None
                with pytest.raises(BadInput, match="finite"):
                    real_array(spoilt)
    for other in (np.zeros(3, np.float32), np.zeros((1, 1, 1)), np.float64(1.0), np.array(1.0), [1.0], None, "x"):
        assert not packing.is_finite(other)
        assert packing.to_float32(other) is None


def test_a_float32_above_is_the_smallest_one() -> None:
    for value in [
        0.0,
        5e-324,
        1e-46,
        1e-45,
        1.1e-38,
        0.1,
        1.0,
        1.0 + 1e-12,
        LARGEST,
        *RNG.lognormal(0, 30, 200).tolist(),
    ]:
        found = packing.float32_above(value)
        assert type(found) is float
        assert found == float(np.float32(found)) >= value
        assert not found or float(np.nextafter(np.float32(found), np.float32(-1))) < value


def test_data_of_another_length_has_no_elements() -> None:
    for bits, count, length in ((3, 8, 2), (3, 8, 4), (16, 1, 1), (8, 0, 1)):
        with pytest.raises(WireError, match="cannot hold"):
            packing.middles(bytes(length), bits, (count,), -1.0, 1.0)
        with pytest.raises(WireError, match="cannot hold"):
            MessageRange(bits, (count,), (1.0,), bytes(length)).decode()


@pytest.mark.parametrize("shape", [(0,), (1,), (127,), (128,), (255,), (70_000,), (1 << 40,), (0, 3), (5, 300)])
def test_a_shape_is_read_back(shape: tuple[int, ...]) -> None:
    data = packing.pack_shape(shape)
    assert packing.unpack_shape(b"?" + data + b"rest", 1) == (shape, 1 + len(data))
    assert len(data) <= 19
    assert math.prod(shape) == packing.check_shape(shape)
