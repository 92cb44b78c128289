"""Coded types that users define: their numbers in frames, and errors in their methods."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import msgpack
import numpy as np
import pytest

import netsim
from netsim import Agent, Network, topology
from netsim.coders import (
    Coded,
    Coder,
    ErrorFeedback,
    Exact,
    RandomK,
    Sign,
    TopK,
    check_shape,
    pack_shape,
    register,
    unpack_elements,
    unpack_shape,
)
from netsim.core.frame import FrameEncoder
from netsim.core.framing import decode_frame
from netsim.errors import AgentError, BadInput, WireError
from netsim.wire import registry
from netsim.wire.codec import decode, encode, is_mutable, payload_bits
from tests.parts import every


@pytest.fixture(autouse=True)
def numbers() -> Iterator[None]:
    """Unregister the coded types that a test registers."""
    before = dict(registry.KINDS), dict(registry.NUMBERS)
    # Documentation examples that ran earlier in this process may also have registered types.
    for number in [number for number in registry.KINDS if number >= 64]:
        del registry.KINDS[number]
    for kind in [kind for kind, number in registry.NUMBERS.items() if number >= 64]:
        del registry.NUMBERS[kind]
    yield
    for now, then in zip((registry.KINDS, registry.NUMBERS), before, strict=True):
        now.clear()
        now.update(then)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Tenths(Coded):
    """Multiples of 0.1 from -12.7 to 12.7, one byte each."""

    shape: tuple[int, ...]
    data: bytes
    saturated: int = 0

    @property
    def payload_bits(self) -> int:
        return 8 * len(self.data)

    def pack(self) -> bytes:
        return pack_shape(self.shape) + self.data

    @classmethod
    def unpack(cls, data: bytes, /) -> Self:
        return cls(*unpack_elements(data, 8))

    def decode(self) -> Any:
        return np.frombuffer(self.data, np.int8).reshape(self.shape) / 10


class InTenths(Coder):
    """Rounds values to multiples of 0.1."""

    def encode(self, vector: Any, rng: np.random.Generator | None = None) -> Tenths:
        tenths = np.rint(10 * np.asarray(vector))
        clipped = np.clip(tenths, -127, 127)
        return Tenths(clipped.shape, clipped.astype(np.int8).tobytes(), int(np.count_nonzero(clipped != tenths)))


class Talker(Agent):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    async def run(self) -> None:
        async for _ in self.rounds(2):
            await self.broadcast("x", InTenths().encode([[0.52, 99.0], [-1.0, 0.0]]))
            self.heard += [frame.payload for frame in await self.collect()]


def test_a_type_of_ones_own_travels_with_its_bits() -> None:
    register(100)(Tenths)
    sent = InTenths().encode([[0.52, 99.0], [-1.0, 0.0]])
    data = encode(sent)
    assert data == b"\xc7\x07\x64" + b"\x92\x02\x02" + bytes([5, 127, 246, 0])
    assert decode(data).values.tolist() == [[0.5, 12.7], [-1.0, 0.0]]
    assert payload_bits([sent, 1.0]) == 32 + 64
    assert not is_mutable((sent, 1))
    agents = {i: Talker() for i in range(3)}
    run = Network(topology.ring(3), seed=1).run(agents)
    assert run.ledger.payload_bits == 3 * 2 * 32
    assert run.ledger.saturated == 3 * 2
    assert run.ledger.wire_bits == sum(2 * 2 * 8 * len(FrameEncoder().encode("x", i, 1, sent)) for i in range(3))
    assert len({id(payload) for agent in agents.values() for payload in agent.heard}) == 6, (
        "one object for all receivers"
    )
    assert np.asarray(agents[0].heard[0]).tolist() == [[0.5, 12.7], [-1.0, 0.0]]


def test_it_may_be_a_part_of_few_elements_and_have_feedback() -> None:
    register(100)(Tenths)
    coder = ErrorFeedback(TopK(2, InTenths()))
    coded = coder.encode([0.0, 3.14, -50.0, 1.0], np.random.default_rng(0))
    assert isinstance(coded, Coded)
    assert decode(encode(coded)).values.tolist() == [0.0, 3.1, -12.7, 0.0]
    assert (payload_bits(coded), coded.saturated) == (2 * 2 + 16, 1)


def test_without_a_number_it_cannot_travel() -> None:
    sent = InTenths().encode([1.0])
    message = r"^cannot encode a \S+\.Tenths: it has no number on the wire \(netsim\.coders\.register\)$"
    for payload in (sent, [sent], TopK(1, InTenths()).encode([1.0, 2.0])):
        with pytest.raises(WireError, match=message):
            encode(payload)
    with pytest.raises(WireError, match="unknown extension type 100"):
        decode(b"\xd5\x64\x01\x05")
    with pytest.raises(AgentError, match="no number on the wire"):
        Network(topology.ring(3), seed=1).run({i: Talker() for i in range(3)})


@pytest.mark.parametrize("number", [63, 128, 5, 0, -1, 64.0, "64", None, True])
def test_numbers_that_are_not_others_to_give_are_refused(number: Any) -> None:
    with pytest.raises(BadInput, match=r"^number = [^\n]+: must be a whole number from 64 to 127$"):
        register(number)
    assert register(np.uint8(64))(Tenths) is Tenths


def test_a_number_is_given_once() -> None:
    register(100)(Tenths)
    for again in (100, 101):
        with pytest.raises(BadInput, match=r"^Tenths has number 100: must be registered once$"):
            register(again)(Tenths)

    @dataclass(frozen=True)
    class Other(Tenths):
        pass

    with pytest.raises(BadInput, match=r"^number = 100: must be free; 100 is \S+\.Tenths$"):
        register(100)(Other)
    with pytest.raises(WireError, match=r"cannot encode a \S+Other: it has no number"):
        encode(Other((0,), b""))
    with pytest.raises(BadInput, match=r"^MessageRange has number 5: must be registered once$"):
        register(100)(netsim.coders.MessageRange)


def test_a_class_that_was_defined_anew_takes_the_place_of_the_old() -> None:
    """A notebook cell that runs again defines its class a second time."""
    register(100)(Tenths)
    again = dataclass(frozen=True)(type("Tenths", (Tenths,), {"__module__": Tenths.__module__}))
    register(100)(again)
    assert type(decode(encode(again((1,), b"\x05")))) is again
    with pytest.raises(WireError, match="no number"):
        encode(Tenths((1,), b"\x05"))


def test_what_is_no_coded_type_gets_no_number() -> None:
    class Half(Coded):
        def pack(self) -> bytes:
            return b""

    class Changing(Tenths):
        pass

    for kind, message in (
        (dict, r"kind = <class 'dict'>: must be a class derived from netsim\.coders\.Coded"),
        (InTenths(), r"kind = [^\n]+: must be a class derived from netsim\.coders\.Coded"),
        (Half, r"Half has no decode, payload_bits, unpack: must define all abstract members of netsim\.coders\.Coded"),
        (Changing, r"Changing is mutable: must be a dataclass with frozen=True, because receivers share it"),
    ):
        with pytest.raises(BadInput, match=f"^{message}$"):
            register(100)(kind)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="abstract"):
        Coder()  # type: ignore[abstract]


class OddError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even the message")


ERRORS = [ValueError("two\nlines"), KeyError("x"), StopIteration(), RecursionError(), MemoryError(), AssertionError()]
ERRORS += [OSError(5), ZeroDivisionError(), AttributeError(), OddError(), ExceptionGroup("g", [ValueError()])]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_whatever_unpack_raises_is_a_wire_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    register(100)(Tenths)

    def unpack(data: bytes) -> Tenths:
        raise error

    monkeypatch.setattr(Tenths, "unpack", unpack)
    sent = InTenths().encode([1.0])
    message = rf"^2 bytes are not a Tenths: {type(error).__name__}$"
    for payload in (sent, [sent], (sent,), {"a": sent}, {sent: 1}):
        with pytest.raises(WireError, match=message):
            decode(encode(payload))
        with pytest.raises(WireError, match=message):
            decode_frame(FrameEncoder().encode("x", 0, 1, payload), 0.0, ["a"])
    with pytest.raises(WireError, match=message):
        decode(encode(TopK(1, InTenths()).encode([1.0])))
    with pytest.raises(AgentError, match="are not a Tenths"):
        Network(topology.ring(3), seed=1).run({i: Talker() for i in range(3)})


@pytest.mark.parametrize("made", [None, b"", Sign().encode([1.0]), 5])
def test_an_unpack_that_makes_something_else_is_a_wire_error(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    register(100)(Tenths)
    monkeypatch.setattr(Tenths, "unpack", lambda data: made)
    with pytest.raises(WireError, match=rf"^2 bytes are not a Tenths: its unpack\(\) returns a {type(made).__name__}$"):
        decode(encode(InTenths().encode([1.0])))


def test_what_else_a_type_may_do_wrong_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    register(100)(Tenths)
    sent = InTenths().encode([1.0, 2.0])
    monkeypatch.setattr(Tenths, "pack", lambda self: bytearray(2))
    with pytest.raises(WireError, match=r"^cannot encode a \S+\.Tenths: its pack\(\) does not return bytes$"):
        encode(sent)
    monkeypatch.setattr(Tenths, "pack", lambda self: {}["no\nsuch"])
    with pytest.raises(WireError, match=r"^cannot encode the payload: [^\n]+$"):
        encode([sent])
    for bits in (-1, 1.5, None, np.int64(-16), 1 << 49, True):
        monkeypatch.setattr(Tenths, "payload_bits", bits)
        with pytest.raises(WireError, match=r"^Tenths\.payload_bits is [^\n]+: must be a whole number from 0 to"):
            payload_bits(sent)
    monkeypatch.setattr(Tenths, "payload_bits", np.uint8(16))
    assert type(payload_bits(sent)) is int
    monkeypatch.setattr(Tenths, "decode", lambda self: np.zeros(3))
    with pytest.raises(WireError, match=r"^Tenths of shape \(2,\) decodes to shape \(3,\)$"):
        _ = sent.values


def test_values_are_made_once_and_not_to_be_written() -> None:
    asked = []

    @register(101)
    @dataclass(frozen=True)
    class Asked(Tenths):
        def decode(self) -> Any:
            asked.append(1)
            return [0.1, 0.2]

    coded = Asked((2,), b"ab")
    assert coded.values is coded.values
    assert len(asked) == 1
    with pytest.raises(ValueError, match="read-only"):
        coded.values[0] = 1.0
    assert np.array(coded, copy=True).flags.writeable
    assert isinstance(Coded.__dict__["values"], cached_property)


def test_coders_are_at_the_public_edge() -> None:
    for name in netsim.coders.__all__:
        assert getattr(netsim.coders, name) is not None
    assert netsim.coders.Exact is Exact
    assert sorted(registry.KINDS)[:5] == [5, 6, 7, 8, 9]
    # `read_extension` decodes these numbers itself, before it looks for a coded type.
    assert not {1, 2, 3, 4, 12, 15} & set(registry.KINDS)
    names = {kind.__name__: number for kind, number in registry.NUMBERS.items() if number < 64}
    assert names == {
        "FixedRange": 5,
        "MessageRange": 5,
        "NormLevels": 5,
        "Floats": 6,
        "Sparse": 7,
        "Signs": 8,
        "Trits": 9,
        "Residues": 10,
        "Several": 11,
        "Powers": 13,
        "Factors": 14,
    }


@every("shape", [(0,), (127,), (128,), (255,), (256,), (65536,), (1 << 40,), (3, 4), (0, 0), (300, 70000)])
def test_shapes_are_read_as_they_were_written(shape: tuple[int, ...]) -> None:
    data = pack_shape(shape)
    assert data == msgpack.packb(shape[0] if len(shape) == 1 else list(shape))
    assert unpack_shape(b"xx" + data + b"rest", 2) == (shape, 2 + len(data))
    for cut in range(len(data)):
        with pytest.raises(WireError, match=r"^[^\n]+$"):
            unpack_shape(data[:cut])


@pytest.mark.parametrize(
    "shape", [(1 << 48,), (1 << 40, 1 << 40), (0, 1 << 62), (1, 2, 3), (), (-1,), (2.0,), [1], None]
)
def test_what_is_no_shape_is_refused(shape: Any) -> None:
    with pytest.raises(WireError, match=r"^no coded array has shape [^\n]+$"):
        check_shape(shape)


@pytest.mark.parametrize("kind", [TopK, RandomK])
def test_places_within_places_are_refused_by_the_sender(kind: Any) -> None:
    for part in (TopK(1), RandomK(1)):
        with pytest.raises(BadInput, match="must be one that sends all k elements"):
            kind(2, part)

    class Own(Coder):
        def encode(self, vector: Any, rng: Any = None) -> Any:
            return TopK(1).encode(vector, rng)

    with pytest.raises(BadInput, match="must be one that sends all k elements"):
        kind(2, Own()).encode(np.arange(4.0), np.random.default_rng(0))
