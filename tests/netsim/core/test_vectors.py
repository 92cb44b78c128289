"""Vectors and coded arrays in frames: on every code path, the bytes equal the codec's and the values equal numpy's."""

import pickle
import random
import zlib
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray

from netsim import Agent, AgentError, Link, Network, latency, topology
from netsim.coders import Coded, Uniform, register
from netsim.core import Copies
from netsim.core.frame import FrameEncoder
from netsim.errors import WireError
from netsim.transport import Heard
from netsim.wire.codec import encode, payload_bits, saturated
from tests.fuzzers import wire
from tests.parts import every

RNG = np.random.default_rng(8)

Array = NDArray[Any]


class Talker(Agent):
    """Broadcasts one payload a round, and stores the payloads it receives."""

    def __init__(self, payloads: list[Any]) -> None:
        self.payloads = payloads
        self.heard: list[Heard] = []

    async def run(self) -> None:
        async for k in self.rounds(len(self.payloads)):
            await self.broadcast("state", self.payloads[k - 1])
            self.heard.append(await self.collect())


def exchanged(payloads: list[list[Any]]) -> tuple[list[Talker], Any]:
    """Run agents that broadcast their payloads on a complete graph; return the agents and the run."""
    agents = dict(enumerate(map(Talker, payloads)))
    link = Link(latency=latency.uniform(0.0, 0.5))
    run = Network(topology.complete(len(agents)), link, seed=4).run(agents)
    return list(agents.values()), run


def odd_arrays() -> list[Array]:
    """Return one array of every unusual kind that an agent might send."""
    values = RNG.normal(size=40) * 10.0 ** RNG.integers(-30, 30, size=40)
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 5e-324, 3.4e38, -1.5])
    signalling = np.array([0x7F800001, 0xFFA00000, 0x7FC12345], dtype=np.uint32).view(np.float32)
    locked = values.astype(np.float32)
    locked.flags.writeable = False
    arrays = [signalling, locked, np.frombuffer(b"\0" + values.tobytes(), np.uint8)[1:].view("<f8")]
    for dtype in (np.float64, np.float32, ">f4", ">f8", np.float16, np.int32, np.int64, np.uint8, np.complex64):
        with np.errstate(all="ignore"):
            vector = np.concatenate([special, values]).astype(dtype)
        arrays += [vector, vector[::2], vector[::-1], vector[:1], vector[:0], vector[3], np.array(vector[4])]
        arrays += [vector.reshape(5, -1), np.asfortranarray(vector.reshape(5, -1)), vector.reshape(1, -1)]
    return arrays


def same_bits(a: Any, b: Any) -> bool:
    """Return whether two arrays are equal bit for bit, including NaN."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 30, 63, 64, 300, 16_400, 33_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bytes_of_a_vector_are_the_codecs(size: int, dtype: type) -> None:
    vector = RNG.normal(size=size).astype(dtype)
    agents, run = exchanged([[vector] * 300, [vector[:-1]] * 300])
    for k in (1, 127, 128, 255, 256, 300):
        frame = agents[1].heard[k - 1][0]
        assert frame.data == FrameEncoder().encode("state", 0, k, vector)
        assert same_bits(frame.payload, vector)
    assert run.ledger.payload_bits == 300 * 8 * dtype().itemsize * (2 * size - 1)


def test_the_checksum_is_zlibs_whatever_the_length() -> None:
    lengths = [1, 100, *range(1020, 1060), 4095, 16_383, 16_384, 16_385, 20_001]
    vectors = [RNG.normal(size=length).astype(np.float32) for length in lengths]
    texts = [RNG.bytes(length) for length in (*range(180, 400), 4000, *range(4060, 4200), 70_001)]
    payloads: list[Any] = [*vectors, *(vector.astype(np.float64) for vector in vectors), *texts]
    agents = dict(enumerate(map(Talker, [payloads, [None] * len(payloads)])))
    run = Network(topology.path(2), seed=4).run(agents, trace=True)
    assert run.trace is not None
    sent = np.concatenate([*run.trace.chunks("sent")])
    checksums = sent["checksum"][sent["sender"] == 0]
    assert checksums.tolist() == [zlib.crc32(heard[0].data) for heard in agents[1].heard]


def test_a_long_vector_is_pickled_and_copied_with_its_frame() -> None:
    vector = RNG.normal(size=20_000)
    agents, _ = exchanged([[vector], [vector]])
    frame = agents[1].heard[0][0]
    for again in (pickle.loads(pickle.dumps(frame)), frame.copy(), frame.received((1.0, 0.0, 0.0), 0.5)):
        assert again.data == frame.data
        assert same_bits(again.payload, vector)
    vector[:] = 0.0
    assert frame.payload.any()


def test_odd_arrays_arrive_as_they_were() -> None:
    arrays = odd_arrays()
    before = [array.tobytes() for array in arrays]
    agents, run = exchanged([arrays, arrays[::-1]])
    for k, sent in enumerate(arrays, 1):
        frame = agents[1].heard[k - 1][0]
        assert frame.data == FrameEncoder().encode("state", 0, k, sent)
        assert same_bits(frame.payload, sent)
        assert frame.payload is frame.payload
        if isinstance(frame.payload, np.ndarray):
            assert not frame.payload.flags.writeable
            with pytest.raises(ValueError, match="WRITEABLE"):
                frame.payload.flags.writeable = True
            assert frame.payload.flags.aligned
    assert [array.tobytes() for array in arrays] == before
    assert run.ledger.payload_bits == 2 * sum(map(payload_bits, arrays))


@every("size", [1, 7, 2047, 2048, 2049, 10_000, 20_000])
@every("kinds", [["f4"], ["f8"], ["f4", "f8"], ["f4", "f8", ">f4", "i4"]])
def test_sums_and_rows_are_those_of_numpy_to_the_last_bit(size: int, kinds: list[str]) -> None:
    vectors = [(RNG.normal(size=size) * 10.0 ** RNG.integers(-2, 9)).astype(kinds[i % len(kinds)]) for i in range(6)]
    agents, _ = exchanged([[vector] for vector in vectors])
    heard = agents[2].heard[0]
    rows = np.array([vectors[sender].astype(np.float64) for sender in heard.senders])
    total = rows[0].copy()
    for row in rows[1:]:
        total += row
    assert len(heard) == 5
    assert same_bits(heard.stack(), rows)
    assert same_bits(heard.sum(), total)
    weights = dict(enumerate(RNG.normal(size=6)))
    weighed = rows[0] * weights[heard.senders[0]]
    for sender, row in zip(heard.senders[1:], rows[1:], strict=True):
        weighed += row * weights[sender]
    assert same_bits(heard.sum(weights=weights), weighed)


@pytest.mark.parametrize("add", [False, True])
def test_copies_take_in_vectors_of_float32_and_float64(add: bool) -> None:
    vectors = [[RNG.normal(size=50).astype(RNG.choice(["f4", "f8"])) for _ in range(5)] for _ in range(4)]
    agents, _ = exchanged(vectors)
    copies, expected = Copies(range(1, 4), (50,)), np.zeros((3, 50))
    for k, heard in enumerate(agents[0].heard):
        copies.take_in(heard, add=add)
        for sender in range(1, 4):
            expected[sender - 1] = vectors[sender][k] + (expected[sender - 1] if add else 0.0)
        assert same_bits(copies.table, expected)


# --- coded arrays, and any payloads -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [-0.0, np.inf, -np.nan, 5e-324, 20.5, True, None])
def test_the_bytes_of_a_plain_number_are_the_codecs(number: float | None) -> None:
    agents, run = exchanged([[number] * 300, [0.0] * 300])
    for k, (frame,) in enumerate(agents[1].heard, 1):
        assert frame.data == encode(["state", 0, k, number]) == FrameEncoder().encode("state", 0, k, number)
        assert wire.same(frame.payload, number)
    assert run.ledger.payload_bits == 300 * (payload_bits(number) + 64)


@pytest.mark.parametrize("seed", range(30))
def test_the_bytes_of_any_payload_are_the_codecs(seed: int) -> None:
    rng = random.Random(seed)
    payloads = [wire.any_coded(rng) if rng.random() < 0.6 else wire.payload(rng) for _ in range(20)]
    agents, run = exchanged([payloads, payloads[::-1]])
    for k, sent in enumerate(payloads, 1):
        frame = agents[1].heard[k - 1][0]
        assert frame.data == encode(["state", 0, k, sent]) == FrameEncoder().encode("state", 0, k, sent)
        assert wire.same(frame.payload, sent)
        if isinstance(sent, Coded):
            assert frame.payload is not sent
            assert frame.payload is frame.payload
            assert same_bits(frame.payload.values, sent.values)
            assert not frame.payload.values.flags.writeable
    assert run.ledger.payload_bits == 2 * sum(map(payload_bits, payloads))
    assert run.ledger.saturated == 2 * sum(map(saturated, payloads))


@register(119)
@dataclass(frozen=True)
class Refusing(Coded):
    """An object whose encoding raises an error of its own."""

    shape: tuple[int, ...]
    error: str

    @property
    def payload_bits(self) -> int:
        return 8

    def pack(self) -> bytes:
        if self.error:
            raise WireError(self.error)
        return bytes(1 // len(self.error))

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        raise NotImplementedError

    def decode(self) -> Array:
        return np.zeros(self.shape)


@pytest.mark.parametrize("medium", [Link(), Link(rate=1e6)])
@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (Refusing((1,), "no bytes today"), "no bytes today"),
        (Refusing((1,), ""), "cannot encode the payload: (integer division|division by zero)"),
        (replace(Uniform(3).encode(np.ones(4)), scale=(0.1,)), "it is not a float32"),
        (replace(Uniform(3).encode(np.ones(4)), bits=17), "no range quantized vector has 17 bits"),
    ],
)
def test_what_a_coded_array_refuses_ends_the_run_the_same_way_on_any_link(
    medium: Link, payload: Any, message: str
) -> None:
    with pytest.raises(AgentError, match=message):
        Network(topology.complete(2), medium).run({0: Talker([payload]), 1: Talker([1.0])})
    with pytest.raises(WireError, match=message):
        FrameEncoder().encode("state", 0, 1, payload)
    with pytest.raises(WireError, match=message):
        encode(payload)
