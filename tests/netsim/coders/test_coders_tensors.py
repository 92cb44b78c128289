"""Natural compression, low-rank matrices, and coders of a model's tensors, against their papers."""

import itertools
from typing import Any

import numpy as np
import pytest

from netsim import Agent, BadInput, Network, topology
from netsim.agents import CHOCO
from netsim.coders import (
    QSGD,
    Coder,
    ErrorFeedback,
    Exact,
    Factors,
    Float,
    Floats,
    InParts,
    LowRank,
    Natural,
    Powers,
    Several,
    Sign,
    TopK,
    Uniform,
    decoded,
)
from netsim.errors import WireError
from netsim.wire import registry
from netsim.wire.codec import decode, encode, payload_bits
from tests.oracle import compression

SHAPES = {"conv": (4, 3, 2), "weight": (5, 8), "bias": (5,), "scale": ()}
SIZE = 24 + 40 + 5 + 1


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# --- natural compression ----------------------------------------------------------------------------------------------


def test_natural_compression_is_the_papers() -> None:
    x = rng(1).normal(size=400) * 2.0 ** rng(2).integers(-100, 100, size=400)
    x[:4] = 0.0, -0.0, 0.25, -1024.0
    expected = [compression.natural(t, u) for t, u in zip(x, rng(3).random(400), strict=True)]
    assert Natural().encode(x, rng(3)).values.tolist() == expected


def test_it_is_unbiased_with_an_eighth_of_the_square_as_variance() -> None:
    # Between 1 and 2 the variance is (t − 1)(2 − t): t²/9 for t = 3/2, and t²/8 for t = 4/3, the worst case.
    x = np.array([1.0, 1.5, 4.0 / 3.0, -1.9, -3.2, 2.0**-130, 0.0])
    draws = rng(5)
    many = np.array([Natural().encode(x, draws).values for _ in range(20_000)])
    assert set(many[:, 1]) == {1.0, 2.0}
    spread = np.abs(x[:5]) / np.sqrt(8.0 * len(many))
    assert np.all(np.abs(many.mean(axis=0)[:5] - x[:5]) < 5.0 * spread)
    variance = ((many - x) ** 2).mean(axis=0)
    assert variance[0] == variance[6] == 0.0
    np.testing.assert_allclose(variance[1:3], [1.5**2 / 9.0, (4.0 / 3.0) ** 2 / 8.0], rtol=0.03)
    assert np.all(variance[:5] <= x[:5] ** 2 / 8.0 * 1.03)
    # Values below float32's smallest normal number are rounded to that number or to 0.
    assert set(many[:, 5]) == {0.0, 2.0**-126}
    np.testing.assert_allclose(many[:, 5].mean(), x[5], rtol=0.15)


@pytest.mark.parametrize("shape", [(0,), (1,), (16,), (3, 5)])
def test_an_element_is_nine_bits(shape: tuple[int, ...]) -> None:
    coded = Natural().encode(rng().normal(size=shape), rng())
    assert payload_bits(coded) == 9 * int(np.prod(shape))
    assert len(coded.data) == -(-9 * int(np.prod(shape)) // 8)
    number, data = registry.pack(coded)
    assert number == 13
    assert Powers.unpack(data) == coded
    assert decode(encode(coded)).values.tobytes() == coded.values.tobytes()


def test_the_bytes_are_sign_and_exponent() -> None:
    coded = Natural().encode([1.0, -2.0, 0.0], rng())
    bits = f"{127:09b}" + f"{256 + 128:09b}" + f"{0:09b}"
    assert coded.pack() == bytes([3]) + int(bits.ljust(32, "0"), 2).to_bytes(4, "big")


def test_what_is_too_large_is_refused() -> None:
    assert Natural().encode([3.4e38, -(2.0**128)], rng()).values[1] == -(2.0**128)
    with pytest.raises(BadInput, match=r"^vector = 3.5e\+38: must be at most 3.40282e\+38 in size$"):
        Natural().encode([1.0, -3.5e38], rng())
    for data in (b"", b"\x01", b"\x01\x00", b"\x01\x00\x00\x00"):
        with pytest.raises(WireError, match=r"^[^\n]+$"):
            Powers.unpack(data)


# --- low rank ---------------------------------------------------------------------------------------------------------


def test_power_sgd_is_the_papers() -> None:
    steps = [rng(k).normal(size=(9, 7)) for k in range(12)]
    coder = ErrorFeedback(LowRank(2, Exact()))
    draws = rng(30)
    sent = [decoded(coder.encode(step, draws)) for step in steps]
    expected = compression.power_sgd(steps, rng(30).standard_normal((7, 2)))
    np.testing.assert_allclose(sent, expected, rtol=0.0, atol=1e-9)


def test_the_error_is_what_the_basis_does_not_reach() -> None:
    matrix = rng(1).normal(size=(30, 20))
    coded = LowRank(3, Exact()).encode(matrix, rng(2))
    assert isinstance(coded, Factors)
    basis = coded.left.values
    np.testing.assert_allclose(basis.T @ basis, np.eye(3), atol=1e-12)
    error = np.sum((matrix - coded.values) ** 2)
    np.testing.assert_allclose(error, np.sum(matrix**2) - np.sum((basis.T @ matrix) ** 2), rtol=1e-10)
    assert error < np.sum(matrix**2)


def test_a_warm_start_finds_the_best_matrix_of_that_rank() -> None:
    left, right = np.linalg.qr(rng(1).normal(size=(30, 30)))[0], np.linalg.qr(rng(2).normal(size=(20, 20)))[0]
    sizes = 0.5 ** np.arange(20)
    matrix = (left[:, :20] * sizes) @ right.T
    coder, draws = LowRank(4, Exact()), rng(3)
    errors = [np.sum((matrix - decoded(coder.encode(matrix, draws))) ** 2) for _ in range(25)]
    best = np.sum(sizes[4:] ** 2)
    assert errors[0] > 1.01 * best
    np.testing.assert_allclose(errors[-1], best, rtol=1e-9)
    fresh = np.sum((matrix - decoded(coder.fresh().encode(matrix, rng(3)))) ** 2)
    assert fresh == errors[0], "a fresh one begins anew"


def test_a_matrix_of_that_rank_arrives() -> None:
    matrix = rng(1).normal(size=(12, 2)) @ rng(2).normal(size=(2, 15))
    for rank in (2, 3):
        np.testing.assert_allclose(decoded(LowRank(rank, Exact()).encode(matrix, rng())), matrix, atol=1e-12)
    np.testing.assert_allclose(decoded(LowRank(2).encode(matrix, rng())), matrix, atol=1e-5)


def test_it_goes_on_after_zeros() -> None:
    coder, draws = LowRank(1, Exact()), rng(4)
    assert not decoded(coder.encode(np.zeros((6, 5)), draws)).any()
    last = np.zeros((6, 5))
    last[5, 4] = 1.0
    np.testing.assert_allclose(decoded(coder.encode(last, draws)), last, atol=1e-12)
    for scale in (1e-300, 1e300):
        found = decoded(coder.encode(scale * last, draws))
        np.testing.assert_allclose(found / scale, last, atol=1e-9)


@pytest.mark.parametrize(("coder", "bits"), [(None, 32), (Exact(), 64), (Natural(), 9), (Float(16), 16)])
def test_bits_are_those_of_the_factors(coder: Coder | None, bits: int) -> None:
    coded = LowRank(2, coder).encode(rng().normal(size=(10, 30)), rng(1))
    assert payload_bits(coded) == bits * 2 * (10 + 30)
    number, data = registry.pack(coded)  # type: ignore[arg-type]
    assert number == 14
    heads = 2 * 5
    assert heads < len(data) <= heads + -(-bits * 20 // 8) + -(-bits * 60 // 8) + 8
    received = decode(encode(coded))
    assert received == coded
    assert received.values.tobytes() == decoded(coded).tobytes()


@pytest.mark.parametrize("shape", [(20,), (2, 30), (1, 7), (3, 6)])
def test_what_would_not_be_smaller_travels_whole(shape: tuple[int, ...]) -> None:
    array = rng().normal(size=shape)
    found = LowRank(2).encode(array, rng(1))
    np.testing.assert_array_equal(decoded(found), array.astype(np.float32))
    assert payload_bits(found) == 32 * array.size


def test_bad_settings_and_matrices_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^rank = 0: must be a whole number >= 1$"):
        LowRank(0)
    with pytest.raises(BadInput, match=r"^coder = 3: must be a netsim.coders.Coder$"):
        LowRank(1, 3)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"^coder = TopK[^\n]+: must be one that sends all elements of P and Q$"):
        LowRank(1, TopK(2)).encode(np.ones((5, 5)), rng())
    with pytest.raises(BadInput, match=r"at most 3.40282e\+38 for 32 bits"):
        LowRank(1).encode(np.full((5, 5), 1e39), rng())
    with pytest.raises(BadInput, match=r"must be finite"):
        LowRank(1).encode(np.full((5, 5), 1e308), rng())
    with pytest.raises(BadInput, match=r"^vector's basis\[0, 0\] = (nan|inf): must be finite"):
        LowRank(1).encode(np.full((200, 3), 5e307), rng())
    with pytest.raises(BadInput, match=r"^vector = \(4097, 4096\): must be of at most 16777216 elements$"):
        LowRank(1).encode(np.broadcast_to(0.0, (4097, 4096)), rng())


def test_hostile_factors_are_refused() -> None:
    good = registry.pack(LowRank(1).encode(rng().normal(size=(4, 5)), rng()))[1]  # type: ignore[arg-type]
    assert Factors.unpack(good).shape == (4, 5)
    for data in (*(good[:cut] for cut in range(len(good))), good + b"x"):
        with pytest.raises(WireError, match=r"^[^\n]+$"):
            Factors.unpack(data)
    nested = bytes([14]) + len(good).to_bytes(4, "big") + good
    with pytest.raises(WireError, match="whose elements all travel"):
        Factors.unpack(nested + nested)
    column, other = Floats.of(np.ones((3, 1))), Floats.of(np.ones((3, 2)))
    huge, long = Floats.of(np.full((3, 1), 1e300)), Floats.of(np.ones((4097, 1), np.float16))
    bad: list[tuple[Any, Any]] = [
        (column, other),
        (column, Floats.of(np.ones(3))),
        (column, 5),
        (huge, huge),
        (long, long),
    ]
    bad.append((column, TopK(1).encode(np.ones((3, 1)))))
    for left, right in bad:
        with pytest.raises(WireError, match=r"^[^\n]+$"):
            Factors(left, right).pack()


# --- tensors of a model -----------------------------------------------------------------------------------------------


def tensors(vector: Any) -> dict[str, Any]:
    """Split a vector into the model's tensors, by name."""
    cut = np.split(vector, np.cumsum([24, 40, 5])[:3])
    return dict(zip(SHAPES, [cut[0].reshape(4, 6), cut[1].reshape(5, 8), *cut[2:]], strict=True))


@pytest.mark.parametrize("coder", [Uniform(3), Sign(), TopK(1), Exact(), QSGD(4), Natural()])
def test_each_tensor_is_coded_by_itself(coder: Coder) -> None:
    vector = rng(1).normal(size=SIZE)
    coded = InParts(coder, SHAPES).encode(vector, rng(2))
    draws = rng(2)
    alone = [coder.encode(part, draws) for part in tensors(vector).values()]
    expected = np.concatenate([decoded(each).ravel() for each in alone])
    received = decode(encode(coded))
    assert received == coded
    assert received.shape == (SIZE,)
    np.testing.assert_array_equal(received.values, expected)
    assert payload_bits(coded) == sum(map(payload_bits, alone))


def test_names_have_coders_of_their_own_and_each_its_memory() -> None:
    coders = {"weight": LowRank(1), "bias": Float(32), "conv": LowRank(2, Exact()), "scale": Exact()}
    coder, draws = InParts(coders, SHAPES), rng(9)
    alone, other = {name: each.fresh() for name, each in coders.items()}, rng(9)
    for k in range(3):
        vector = rng(k).normal(size=SIZE)
        found = coder.encode(vector, draws).values
        expected = [decoded(alone[name].encode(part, other)).ravel() for name, part in tensors(vector).items()]
        np.testing.assert_array_equal(found, np.concatenate(expected))
    assert payload_bits(coder.encode(vector, draws)) == 64 * 2 * (4 + 6) + 32 * (5 + 8) + 32 * 5 + 64
    twin = coder.fresh()
    assert twin is not coder
    first = InParts(coders, SHAPES).encode(vector, rng(1))
    assert twin.encode(vector, rng(1)) == first != coder.encode(vector, rng(1))
    plain = InParts(Sign(), SHAPES)
    assert plain.fresh() is plain


def test_bytes_of_tensors_begin_with_a_zero() -> None:
    coded = InParts(Float(32), {"a": (2, 2), "b": 3}).encode(np.arange(7.0))
    number, data = registry.pack(coded)
    parts = [Floats.of(np.arange(4, dtype=np.float32).reshape(2, 2)), Floats.of(np.arange(4, 7, dtype=np.float32))]
    packed = [b"\x06" + len(part.pack()).to_bytes(4, "big") + part.pack() for part in parts]
    assert (number, data) == (11, b"\x00\x02" + b"".join(packed))
    assert Several.unpack(data) == coded
    for bad in (*(data[:cut] for cut in range(len(data))), data + b"x", data[1:]):
        with pytest.raises(WireError, match=r"^[^\n]+$"):
            Several.unpack(bad)


def test_a_model_shared_with_neighbours_is_the_same_at_both_ends() -> None:
    class Talker(Agent):
        def __init__(self, coder: Coder) -> None:
            self.coder = coder
            self.sent: list[Any] = []
            self.heard: list[Any] = []

        async def run(self) -> None:
            coder = ErrorFeedback(self.coder).fresh()
            async for _ in self.rounds(3):
                coded = coder.encode(self.rng.normal(size=SIZE), self.rng)
                self.sent.append(decoded(coded))
                await self.broadcast("change", coded)
                self.heard += (await self.collect()).stack().tolist()

    coder = InParts({"weight": LowRank(1), "bias": Exact(), "conv": LowRank(1), "scale": Natural()}, SHAPES)
    agents = {i: Talker(coder) for i in range(2)}
    run = Network(topology.path(2), seed=3).run(agents)
    for one, other in itertools.permutations(agents.values()):
        np.testing.assert_array_equal(one.heard, other.sent)
    assert run.ledger.payload_bits == 2 * 3 * (32 * (4 + 6) + 32 * (5 + 8) + 64 * 5 + 9)


def test_bad_parts_are_refused() -> None:
    for parts, message in [
        ({}, r"parts = 0: must be from 1 to 255 tensors"),
        ({"a": (2, 0)}, r"parts\['a'\] = 0: must be a whole number >= 1"),
        ({"a": (2, 1.5)}, r"parts\['a'\] = 1.5: must be a whole number >= 1"),
        ({str(k): 1 for k in range(256)}, r"parts = 256: must be from 1 to 255 tensors"),
    ]:
        with pytest.raises(BadInput, match=f"^{message}$"):
            InParts(Sign(), parts)
    with pytest.raises(
        BadInput, match=r"^parts = .*: must be a number of parts, or the shapes of tensors by their names"
    ):
        InParts(Sign(), [(2,), (3,)])  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=r"^coder = \['a'\]: must have the names of the parts, \['b'\]$"):
        InParts({"a": Sign()}, {"b": 2})
    with pytest.raises(BadInput, match=r"^coder = 5: must be a netsim.coders.Coder$"):
        InParts({"a": 5}, {"a": 2})  # type: ignore[dict-item]
    for vector in (np.ones(SIZE + 1), np.ones((SIZE, 1))):
        with pytest.raises(BadInput, match=rf"must be of shape \({SIZE},\), the elements of all parts$"):
            InParts(Sign(), SHAPES).encode(vector)


class Distance:
    """The cost ½‖θ − c‖² of one agent; the sum over all agents is minimal at the mean of their c."""

    size = 70

    def __init__(self, minimum: Any) -> None:
        self.minimum = minimum

    def gradient(self, theta: Any) -> Any:
        return theta - self.minimum


@pytest.mark.parametrize(
    ("coder", "gamma", "bits"),
    [
        (Natural(), 0.5, 9 * 70),
        (InParts({"weight": LowRank(1), "bias": Float(32)}, {"weight": (8, 8), "bias": (6,)}), 0.3, 32 * (16 + 6)),
        (InParts(LowRank(2, Natural()), {"weight": (8, 8), "bias": (6,)}), 0.2, 9 * (2 * 16 + 6)),
    ],
)
def test_choco_agrees_on_the_optimum_with_them(coder: Coder, gamma: float, bits: int) -> None:
    graph, draws = topology.ring(4), rng(0)
    weights = topology.metropolis_weights(graph)
    minima = draws.normal(size=(4, 70))
    agents = {
        i: CHOCO(Distance(minima[i]), 400, eta=lambda k: 3.0 / (k + 30.0), gamma=gamma, weights=weights[i], coder=coder)
        for i in graph
    }
    run = Network(graph, seed=1).run(agents)
    mean = minima.mean(axis=0)
    errors = [np.linalg.norm(agent.theta - mean) / np.linalg.norm(mean) for agent in agents.values()]
    assert max(errors) < 0.1
    assert run.ledger.payload_bits == 4 * 400 * bits
