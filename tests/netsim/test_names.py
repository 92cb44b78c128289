"""Equal names are the same name and have the same key, whatever their type; names without a key are refused."""

import math
from collections import namedtuple
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netsim import BadInput, Deployment, Link, Network, latency, topology
from netsim.faults import Partition
from netsim.radio.pathloss import LogDistance
from netsim.testing import Rounder
from netsim.util.draws import derived, name_key
from tests.parts import every, message_of


class Room(IntEnum):
    HALL = 3


class Word(StrEnum):
    HALL = "hall"


class Plain(Enum):
    HALL = 3


class Lower(str):
    """A string that compares without regard to case."""

    def __hash__(self) -> int:
        return hash(self.lower())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()


@dataclass(frozen=True)
class Place:
    x: int


Point = namedtuple("Point", "x y")

# Keys seed random streams, so these must never change: published runs depend on them.
KEYS: list[tuple[Hashable, int]] = [
    (0, 0xD1AE1CAA10BB908A),
    (1, 0x1882C786ECC63317),
    (-7, 0x0C4121259DEDD753),
    (2**70, 0x6A5B3BB9B71F66B9),
    ("a", 0x3395AC8F5BBE65A7),
    ("", 0x92BFE04F375B5507),
    ("é\n", 0xE2FC6B873A0D321D),
    ((1, 2), 0xE9CB1794D93E1865),
    ((0, "x"), 0x18D7E603468FD756),
    (((1, 2), "b"), 0x5DCF15694F606503),
    ((1, (2, (3,))), 0x0A3FB32029F4A397),
    ((), 0xC39C374D70CDB2D3),
    (b"ab", 0xCB918B92D389B57B),
    (None, 0x3D2015A019AB5606),
    (0.5, 0x60CA6F9724270977),
    (math.inf, 0x9693C2DE0B376311),
    (Fraction(1, 3), 0xB4880559461D5E1E),
    (1 + 2j, 0x3D3FFE3E7F4A956C),
]

EQUAL: list[list[Hashable]] = [
    [0, False, 0.0, -0.0, Fraction(0), Decimal("-0"), 0j, complex(0, -0.0), np.False_, np.int64(0), np.float32(-0.0)],
    [1, True, 1.0, Fraction(1), Decimal("1.00"), 1 + 0j, np.True_, np.uint8(1), np.float16(1), np.complex64(1)],
    [3, Room.HALL, np.int8(3), np.longlong(3), np.longdouble(3)],
    [0.5, Fraction(1, 2), Decimal("0.5"), np.float16(0.5), np.float32(0.5), np.longdouble(0.5), 0.5 + 0j],
    [Fraction(1, 10), Decimal("0.1"), Decimal("0.10")],
    [math.inf, Decimal("inf"), np.float32(math.inf), np.longdouble(math.inf)],
    [2**70, 2.0**70, Decimal(2**70), Fraction(2**70), np.float32(2.0**70)],
    [10**400, Decimal("1e400"), Fraction(10**400)],
    [1.5 + 2j, np.complex64(1.5 + 2j)],
    [complex(0.0, 2), complex(-0.0, 2)],
    ["hall", Word.HALL, np.str_("hall")],
    [b"hall", np.bytes_(b"hall")],
    [(1, ("hall", 2)), (True, (Word.HALL, 2.0)), (np.int64(1), (np.str_("hall"), Fraction(2)))],
    [(1, 2), Point(1, 2.0)],
]


@every(("name", "key"), KEYS)
def test_keys_stay_as_published(name: Hashable, key: int) -> None:
    assert name_key(name) == key


@every("names", EQUAL)
def test_equal_names_have_one_key(names: list[Hashable]) -> None:
    assert len(set(names)) == 1
    assert len({name_key(name) for name in names}) == 1
    assert len({derived(1, name, "draws") for name in names}) == 1


def test_different_names_have_different_keys() -> None:
    names = {names[0] for names in EQUAL} | {name for name, _ in KEYS} | {"1", b"1", (1,), "None"}
    assert len({name_key(name) for name in names}) == len(names)


NUMBERS = st.one_of(
    st.integers(),
    st.booleans(),
    st.floats(allow_nan=False),
    st.fractions(-(10**9), 10**9, max_denominator=10**6),
    st.decimals(-1000, 1000, places=3),
    st.complex_numbers(allow_nan=False),
    st.integers(-(2**31), 2**31 - 1).map(np.int32),
    st.floats(width=32, allow_nan=False).map(np.float32),
    st.floats(width=16, allow_nan=False).map(np.float16),
)
SMALL = st.sampled_from([each for names in EQUAL for each in names])
NAMES = st.recursive(NUMBERS | SMALL | st.text(), lambda inner: st.tuples(inner, inner), max_leaves=3)


@given(NAMES, NAMES)
def test_keys_are_equal_just_if_names_are(one: Hashable, other: Hashable) -> None:
    are_equal = len({one, other}) == 1
    assert (name_key(one) == name_key(other)) == are_equal


@every(
    "name",
    [
        *(math.nan, np.float32("nan"), Decimal("nan"), complex(1, math.nan), (1, math.nan)),
        *(np.timedelta64(1, "s"), np.datetime64("2020-01-01"), Decimal("1e999999999")),
        # On some systems longdouble has the precision of a float.
        *([np.longdouble("0.1")] if np.finfo(np.longdouble).nmant > np.finfo(float).nmant else []),
        *(10**5000, Fraction(1, 10**5000), Lower("Hall"), Place(1), Plain.HALL, frozenset({1}), object),
    ],
)
def test_what_has_no_key_is_refused_by_name(name: Hashable) -> None:
    graph = nx.Graph([(0, name)])
    message = message_of(lambda: Network(graph), BadInput)
    assert message.startswith("node = ")
    assert "\n" not in message
    assert message == message_of(lambda: name_key(name), BadInput)


FORMS: list[Callable[[int], Any]] = [np.int64, float, Fraction, np.float32, np.uint8, Decimal]


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_a_network_with_names_of_another_type_is_the_same(form: Callable[[int], Any]) -> None:
    def hash_of(form: Callable[[int], Any]) -> str:
        graph = nx.relabel_nodes(topology.ring(5), {k: form(k) for k in range(5)})
        link = Link(latency=latency.uniform(0.01, 0.1), loss=0.3)
        return Network(graph, link, seed=1).run({name: Rounder(5) for name in graph}).trace_hash

    assert hash_of(form) == hash_of(int)


def test_a_site_is_the_same_for_names_of_another_type() -> None:
    def powers(form: Callable[[int], Any]) -> list[Any]:
        places = {form(k): (40.0 * k, 3.0) for k in range(5)}
        deployment = Deployment(places, path_loss=LogDistance(shadowing=6.0), seed=4)
        return sorted((int(a), int(b), power) for (a, b), power in deployment.powers.items())

    assert powers(np.int64) == powers(int)


def test_a_partition_lists_equal_names_in_one_order() -> None:
    names = [2, 10, 1, "a"]
    assert Partition([np.int64(2), 10.0, True, np.str_("a")], at=1.0) == Partition(names, at=1.0)
