"""Payloads of other libraries: their arrays, bfloat16, and classes registered by users."""

import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import netsim
from netsim import Agent, AgentError, BadInput, Link, Network, WireError, payloads, topology
from netsim.core.frame import FrameEncoder
from netsim.core.framing import decode_frame
from netsim.wire import payloads as room
from netsim.wire.codec import decode, encode, is_mutable, payload_bits
from netsim.wire.payloads import MOST_NESTED
from tests.command import python
from tests.parts import only_with


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Unregister the types that a test has registered."""
    before = dict(room._packing), dict(room._unpacking)
    yield
    for now, then in zip((room._packing, room._unpacking), before, strict=True):
        now.clear()
        now.update(then)  # type: ignore[call-overload]


class Tensor:
    """Another library's array on some device; only an array on the CPU can be read."""

    def __init__(self, values: Any, device: tuple[int, int] = (1, 0)) -> None:
        self.values, self.device = np.asarray(values), device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        assert self.device[0] in (1, 3, 11)
        return self.values

    def cpu(self) -> "Tensor":
        return Tensor(self.values)


class OnlyDLPack:
    """An array that supports no protocol but DLPack."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self.values.__dlpack__(**kwargs)


@dataclass
class Model:
    weight: Any
    name: str


class Point(NamedTuple):
    x: float
    y: float


class Talker(Agent):
    """Broadcasts a payload, modifies it, and stores the payloads that it receives."""

    def __init__(self, payload: Any, change: Any = None) -> None:
        self.payload, self.change = payload, change
        self.heard: list[Any] = []

    async def run(self) -> None:
        async for _ in self.rounds(1):
            await self.broadcast("model", self.payload)
            if self.change is not None:
                self.change(self.payload)
            self.heard += [frame.payload for frame in await self.collect()]


def exchanged(payload: Any, change: Any = None, link: Link | None = None) -> tuple[list[Any], Any]:
    """Return an agent's payload as its two neighbours receive it, and the run."""
    agents = {0: Talker(payload, change), 1: Talker(None), 2: Talker(None)}
    run = Network(topology.star(3), link or Link(), seed=1).run(agents)
    return [agents[1].heard[0], agents[2].heard[0]], run


def same(a: Any, b: NDArray[Any]) -> bool:
    return type(a) is np.ndarray and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_short_values_count_their_encoded_length() -> None:
    ends = [0, 31, 32, 127, 128, 255, 256, 2**15, 2**16, 2**31, 2**32, 2**63 - 1]
    numbers = [sign * each + step for each in ends for sign in (1, -1) for step in (0, 1)]
    texts = [letter * count for letter in "a\x7fä€" for count in (0, 1, 8, 15, 16, 31, 32, 33, 300)]
    for value in [*numbers, *texts, True, False, None, 2**64 - 1]:
        assert payload_bits(value) == payload_bits([value]) == 8 * len(encode(value)), value
    # Values that are equal but have different types have different sizes.
    assert [payload_bits(value) for value in (1, 1.0, True, np.float32(1), 1j)] == [8, 64, 8, 32, 8 * len(encode(1j))]
    for value in (2**64, -(2**63) - 1, "\ud800"):
        with pytest.raises(WireError):
            payload_bits(value)


# --- arrays of other libraries ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values", [np.array([1.5, np.nan, -0.0], np.float32), np.arange(6).reshape(2, 3), np.array(2.0)]
)
@pytest.mark.parametrize("kind", [Tensor, OnlyDLPack])
def test_an_array_of_another_library_arrives_as_the_numpy_array_that_it_is(kind: Any, values: NDArray[Any]) -> None:
    assert same(decode(encode(kind(values))), values)
    assert encode(kind(values)) == encode(values)
    assert payload_bits(kind(values)) == 8 * values.nbytes
    for heard in exchanged(kind(values))[0]:
        assert same(heard, values)
        assert not heard.flags.writeable


def test_a_tree_of_them_arrives_with_every_bit_and_counts_each() -> None:
    state = OrderedDict(weight=Tensor(np.ones((2, 3), np.float32)), bias=Tensor(np.zeros(3, np.float16)))
    tree = {"layers": [state, (Tensor([1, 2]), 5)]}
    found, run = exchanged(tree)
    for heard in found:
        assert type(heard["layers"][0]) is dict
        assert list(heard["layers"][0]) == ["weight", "bias"]
        assert same(heard["layers"][0]["weight"], np.ones((2, 3), np.float32))
        assert same(heard["layers"][0]["bias"], np.zeros(3, np.float16))
        assert same(heard["layers"][1][0], np.array([1, 2]))
    own = {"layers": [{"weight": np.ones((2, 3), np.float32), "bias": np.zeros(3, np.float16)}, (np.array([1, 2]), 5)]}
    # Each of the two neighbours sends None, which has 8 bits.
    assert run.ledger.payload_bits == exchanged(own)[1].ledger.payload_bits == payload_bits(tree) + 16
    assert run.trace_hash == exchanged(own)[1].trace_hash


@pytest.mark.parametrize("way", [None, "ack", "nack"])
def test_what_changes_after_it_was_sent_arrives_as_it_was(way: Any) -> None:
    link = Link(latency=0.1) if way is None else Link(latency=0.1, reliability=way)

    def change(payload: Any) -> None:
        payload["w"].values += 5.0

    for heard in exchanged({"w": Tensor([1.0, 2.0])}, change, link)[0]:
        np.testing.assert_array_equal(heard["w"], [1.0, 2.0])

    def change_one(payload: Tensor) -> None:
        payload.values[:] = -1.0

    for heard in exchanged(Tensor([1.0, 2.0]), change_one, link)[0]:
        np.testing.assert_array_equal(heard, [1.0, 2.0])


@pytest.mark.parametrize(("device", "named"), [((2, 1), "CUDA 1"), ((8, 0), "Metal 0"), ((99, 3), "DLPack type 99 3")])
def test_an_array_on_another_device_is_refused_in_one_line(device: tuple[int, int], named: str) -> None:
    message = rf"^cannot encode a \S+Tensor on device {named}: copy it to the CPU first, or register how \(\S+\)$"
    for payload in (Tensor([1.0], device), {"w": [Tensor([1.0], device)]}):
        for function in (encode, payload_bits):
            with pytest.raises(WireError, match=message):
                function(payload)
    with pytest.raises(AgentError, match=message[1:]):
        exchanged(Tensor([1.0], device))


def test_it_is_copied_when_told() -> None:
    payloads.register(Tensor, lambda tensor: tensor.cpu())
    for heard in exchanged({"w": Tensor([1.0, 2.0], (2, 0))})[0]:
        assert same(heard["w"], np.array([1.0, 2.0]))
    payloads.register(Tensor, lambda tensor: tensor.cpu(), Tensor, name="T")
    for heard in exchanged(Tensor([1.0, 2.0], (2, 0)))[0]:
        assert type(heard) is Tensor
        np.testing.assert_array_equal(heard.values, [1.0, 2.0])


def test_memory_that_is_pinned_for_another_device_is_the_cpus() -> None:
    assert same(decode(encode(Tensor([1.0], (3, 0)))), np.array([1.0]))


def test_an_array_that_cannot_be_read_ends_in_one_line() -> None:
    class Broken:
        def __array__(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("two\nlines")

    with pytest.raises(WireError, match=r"^cannot encode a \S+Broken: two lines$"):
        encode([Broken()])
    with pytest.raises(WireError, match="only plain data"):
        encode(Tensor(np.array([None])))


def test_a_subclass_of_a_tuple_is_refused_until_it_is_registered() -> None:
    with pytest.raises(WireError, match=r"^cannot encode a"):
        encode([1.0, Point(1.0, 2.0)])
    with pytest.raises(BadInput, match=r"^kind = [^\n]+: must be a class that netsim does not encode itself"):
        payloads.register(dict, list)


# --- bfloat16 ---------------------------------------------------------------------------------------------------------


def every_bfloat16() -> NDArray[Any]:
    from ml_dtypes import bfloat16

    return np.arange(1 << 16, dtype=np.uint16).view(bfloat16)


@only_with("ml_dtypes")
def test_bfloat16_travels_as_its_16_bits() -> None:
    numbers = every_bfloat16()
    assert payload_bits(numbers) == 16 * len(numbers)
    assert 0 < len(encode(numbers)) - 2 * len(numbers) < 40
    for array in (numbers, numbers[::-3], numbers.reshape(256, -1).T, numbers[:0], np.array(numbers[5])):
        received = decode(encode(array))
        assert same(received, array)
        assert not received.flags.writeable
    found, run = exchanged({"w": numbers, "b": [numbers[:3]]})
    assert run.ledger.payload_bits == 16 * (len(numbers) + 3) + 2 * 16 + 2 * 8
    assert all(same(heard["w"], numbers) and same(heard["b"][0], numbers[:3]) for heard in found)
    assert not is_mutable(room.encodable(numbers))
    heard = exchanged(numbers)[0]
    assert heard[0] is heard[1], "one object for all receivers"


@only_with("ml_dtypes")
def test_states_of_bfloat16_can_be_added() -> None:
    from ml_dtypes import bfloat16

    from netsim.core import Copies
    from netsim.transport import Heard

    numbers = np.array([1.0, 2.5], bfloat16)
    frames = [decode_frame(FrameEncoder().encode("x", 0, k, numbers), 0.0, ["a"]) for k in (1, 2)]
    copies = Copies(["a"], (2,))
    copies.take_in(frames, add=True)
    assert copies["a"].tolist() == [2.0, 5.0]
    assert Heard(frames).stack().tolist() == [[1.0, 2.5]] * 2


@only_with("ml_dtypes")
def test_without_ml_dtypes_bfloat16_arrives_as_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = every_bfloat16()
    sent, one = encode(numbers), encode(np.array(numbers[5]))
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    received = decode(sent)
    assert received.dtype == np.float32
    assert not received.flags.writeable
    assert received.view(np.uint32).tolist() == [bits << 16 for bits in range(1 << 16)]
    assert (decode(one).dtype, decode(one).shape) == (np.float32, ())


def test_hostile_bytes_under_its_name_are_refused() -> None:
    for content in (1, [1], np.zeros(2), np.zeros(2, ">u2")):
        with pytest.raises(WireError, match="16 bits an element"):
            decode(encode(room.Named("bfloat16", content)))


# --- registered classes -----------------------------------------------------------------------------------------------


def test_an_object_of_a_registered_class_arrives() -> None:
    payloads.register(Model, lambda model: [model.weight, model.name], lambda parts: Model(*parts), name="m")
    model = Model(Tensor(np.arange(3.0)), "of mine")
    found, run = exchanged([model, 1])
    for heard in found:
        assert type(heard[0]) is Model
        assert same(heard[0].weight, np.arange(3.0))
        assert heard[0].name == "of mine"
    assert found[0][0] is not found[1][0], "a receiver may change its own"
    content = [np.arange(3.0), "of mine"]
    assert payload_bits(model) == payload_bits(content)
    # The head has three bytes, and is followed by the name in msgpack's encoding.
    assert len(encode(model)) == 3 + len(encode("m")) + len(encode(content))
    assert encode(model)[2:5] == bytes([12]) + encode("m")
    assert exchanged([content, 1])[1].ledger.payload_bits == run.ledger.payload_bits


def test_registered_objects_may_hold_others() -> None:
    payloads.register(Point, lambda point: [*point], lambda parts: Point(*parts))
    payloads.register(Model, lambda model: vars(model), lambda parts: Model(**parts))
    model = Model({"at": Point(1.0, 2.0)}, "a")
    assert decode(encode({"x": model})) == {"x": model}
    assert f"{Model.__module__}.Model".encode() in encode(model)


def test_a_name_is_one_class() -> None:
    class Other:
        pass

    payloads.register(Model, vars, lambda parts: Model(**parts), name="m")
    with pytest.raises(BadInput, match=r"^name = 'm': must be free; it is the name of \S+\.Model$"):
        payloads.register(Other, vars, lambda parts: Other(), name="m")
    with pytest.raises(BadInput, match="free"):
        payloads.register(Other, vars, lambda parts: Other(), name="bfloat16")
    again = type("Model", (), {"__module__": Model.__module__, "__qualname__": Model.__qualname__})
    payloads.register(again, lambda model: 1, lambda parts: again(), name="m")
    assert type(decode(encode(again()))) is again
    with pytest.raises(WireError, match="cannot encode a"):
        encode(Model(1, "a"))
    with pytest.raises(BadInput, match="must come with unpack"):
        payloads.register(Other, vars, name="o")
    for name in ("", "x" * 256, 5, "\ud800"):
        with pytest.raises(BadInput, match=r"^name = [^\n]+: must be text of 1 to 255 bytes$"):
            payloads.register(Other, vars, lambda parts: Other(), name=name)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [list, np.ndarray, np.float64, float, netsim.coders.Signs, 5, None, OrderedDict])
def test_what_netsim_encodes_itself_is_not_registered(kind: Any) -> None:
    with pytest.raises(BadInput, match=r"^kind = [^\n]+: must be a class that netsim does not encode itself[^\n]+$"):
        payloads.register(kind, list)
    with pytest.raises(BadInput, match=r"^pack = 5: must be a function of one argument$"):
        payloads.register(Model, 5)  # type: ignore[arg-type]


def test_errors_of_pack_and_unpack_are_told() -> None:
    payloads.register(Model, lambda model: model.gone, lambda parts: parts.gone, name="m")  # type: ignore[attr-defined]
    with pytest.raises(WireError, match=r"^cannot encode a \S+\.Model: its pack raises [^\n]*'gone'$"):
        encode(Model(1, "a"))
    with pytest.raises(WireError, match=r"^cannot decode a \S+\.Model: its unpack raises [^\n]*'gone'$"):
        decode(encode(room.Named("m", 1)))
    with pytest.raises(WireError, match=r"^unknown payload 'nobody': its class is not registered here"):
        decode(encode(room.Named("nobody", 1)))
    payloads.register(Model, lambda model: model)
    with pytest.raises(WireError, match=r"^cannot encode a [^\n]+$"):
        encode(Model(1, "a"))


def test_nesting_is_limited_for_objects_too() -> None:
    payloads.register(Model, lambda model: model.weight, lambda weight: Model(weight, ""), name="m")
    deep: Any = 1
    for _ in range(MOST_NESTED):
        deep = Model(deep, "")
    assert decode(encode([1])) == [1]
    data = encode(deep)
    assert decode(data) == deep
    for _ in range(100):
        deep = Model([deep], "")
    with pytest.raises(WireError, match="nested deeper than 32"):
        encode(deep)
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(WireError, match="nested deeper than 32"):
        encode(circle)


def test_what_holds_itself_twice_is_refused_at_once() -> None:
    payloads.register(Model, lambda model: [model, model], lambda parts: parts[0], name="m")
    circle: list[Any] = [Model(1, "a")]
    circle.extend([circle, circle])
    for payload in (Model(1, "a"), circle):
        with pytest.raises(WireError, match="nested deeper than 32"):
            encode(payload)


def test_a_pack_that_returns_its_object_is_told() -> None:
    for name in (None, "m"):
        payloads.register(Model, lambda model: model, None if name is None else lambda model: model, name=name)
        with pytest.raises(WireError, match=r"^cannot encode a \S+\.Model: its pack returns the same object$"):
            encode(Model(1, "a"))


def test_hostile_bytes_of_a_name_end_in_an_error() -> None:
    payloads.register(Model, lambda model: model.weight, lambda weight: Model(weight, ""), name="m")
    good = encode(Model([1, {"a": np.ones(2)}], ""))
    body = good[3:]
    for cut in range(len(body)):
        with pytest.raises(WireError, match=r"^[^\n]+$"):
            decode(b"\xc7" + bytes([cut, 12]) + body[:cut])
    for name in (5, b"m", None, [1]):
        named = encode(name) + encode(1)
        with pytest.raises(WireError, match=r"^[^\n]+$"):
            decode(b"\xc7" + bytes([len(named), 12]) + named)


# --- the libraries themselves -----------------------------------------------------------------------------------------


@only_with("jax")
def test_trees_of_jax_arrive() -> None:
    # JAX conflicts with forking, which other tests do, so it is used in a separate process.
    python(
        """
        import jax, numpy as np, pytest
        from netsim.errors import WireError
        from netsim.wire.codec import encode, payload_bits
        from tests.netsim.wire.test_payloads import exchanged, same

        jnp = jax.numpy
        tree = {"w": jnp.arange(6.0).reshape(2, 3), "layers": [(jnp.ones(2, jnp.bfloat16), jnp.int32(3))]}
        for heard in exchanged(tree)[0]:
            assert jax.tree.structure(heard) == jax.tree.structure(tree)
            for one, other in zip(jax.tree.leaves(heard), jax.tree.leaves(tree), strict=True):
                assert same(one, np.asarray(other))
        assert payload_bits(tree["layers"]) == 2 * 16 + 32
        with pytest.raises(WireError, match=r"^cannot encode a \\S+Tracer: "):
            jax.jit(encode)(jnp.ones(2))
        """
    )


def test_a_state_of_pytorch_arrives() -> None:
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(3, 2)
    state = layer.state_dict()
    for heard in exchanged(state)[0]:
        assert list(heard) == list(state)
        assert all(same(heard[name], state[name].numpy()) for name in state)
    assert all(
        same(a, b.detach().numpy())
        for a, b in zip(decode(encode([*layer.parameters()])), layer.parameters(), strict=True)
    )
    half = layer.to(torch.bfloat16).state_dict()
    assert payload_bits(half["weight"]) == 16 * 6
    received = decode(encode(half))
    for name, tensor in half.items():
        np.testing.assert_array_equal(received[name].astype(np.float32), tensor.float().numpy())
    with pytest.raises(WireError, match=r"^cannot encode a torch.Tensor: [^\n]+$"):
        encode(torch.ones(2, device="meta"))
