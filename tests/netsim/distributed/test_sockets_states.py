"""Agents' states, written by one process and read by another: values and shared references."""

import collections
import copy
import copyreg
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import random
import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

from netsim import Agent, BadInput
from netsim.agents import LocalProblem, Squared
from netsim.distributed.states import StateReader, StateWriter
from tests.parts import Average, every


class Holder(Agent):
    def __init__(self) -> None:
        self.table = np.arange(40.0)
        self.view = self.table[::2]
        self.large = np.arange(20_000.0)
        self.notes: dict[str, Any] = {"inner": Average(2.0), "list": [1, 2, 3]}
        self.stream = (n for n in range(3))
        self.label = lambda: 3
        self.notes["nested"] = self.label

    async def run(self) -> None: ...


def test_an_agent_is_given_what_was_written_of_it() -> None:
    arrays: dict[bytes, bytes] = {}
    there, here = Holder(), Holder()
    writer, reader = StateWriter({0: there}, arrays.__setitem__), StateReader({0: here})
    stream, label = here.stream, here.label
    states = [writer.state(0)]
    there.table[3] = -1.0
    there.large[7] = np.nan
    there.notes["inner"].value[2] = 9.0
    there.notes["list"].append(4)
    there.added = frozenset({1, 2})  # type: ignore[attr-defined]
    states.append(writer.state(0))
    count = len(arrays)
    assert writer.state(0) == b""
    assert len(arrays) == count
    for digest, raw in arrays.items():
        reader.learn(digest, raw)
    for state in [*states, b""]:
        reader.restore(0, state)
    assert here.table[3] == -1.0
    assert here.notes["inner"].value[2] == 9.0
    assert np.isnan(here.large[7])
    assert here.notes["list"] == [1, 2, 3, 4]
    assert here.added == {1, 2}  # type: ignore[attr-defined]
    # Objects that cannot leave their process keep the reader's local values.
    assert here.stream is stream
    assert here.notes["nested"] is label
    # A restarted process writes the initial state again.
    reader.restore(0, states[0])
    assert here.large[7] == 7.0
    assert not hasattr(here, "added")


class Pile(list[int]):
    label = "old"


class Bag(set[int]):
    pass


class Reader:
    """A child object that an agent holds."""

    def __init__(self, source: Any) -> None:
        self.source = source


def transfer(changes: list[Any], there: Any, here: Any) -> None:
    """Write an agent's state at first and after each change, and restore each into another agent."""
    arrays: dict[bytes, bytes] = {}
    writer = StateWriter({0: there}, arrays.__setitem__)
    reader = StateReader({0: here})
    for change in [lambda agent: None, *changes]:
        change(there)
        state = writer.state(0)
        for digest, raw in arrays.items():
            reader.learn(digest, raw)
        reader.restore(0, state)


class Walker(Agent):
    """Holds some objects under several attribute names."""

    def __init__(self) -> None:
        self.x = self.first = np.arange(3.0)
        self.big = self.data = np.arange(10_000.0)
        self.history = [self.x]
        self.nodes = [Reader(number) for number in range(3)]
        self.current = self.nodes[0]
        self.rows: list[list[int]] = [[0]] * 3
        self.me = self
        self.columns: Any = None

    async def run(self) -> None: ...


def seen(agent: Any) -> dict[str, Any]:
    """Return an agent's attributes, and which names refer to the same object."""
    held = [*vars(agent).items(), *((f"history[{i}]", each) for i, each in enumerate(agent.history))]
    named: dict[int, list[str]] = {}
    for name, value in held + [(f"rows[{i}]", each) for i, each in enumerate(agent.rows)]:
        named.setdefault(id(value), []).append(name)
    values = {name: repr(value) for name, value in held if name not in ("nodes", "current", "me")}
    values |= {"nodes": [node.source for node in agent.nodes], "at": agent.nodes.index(agent.current)}
    by_column = agent.columns is not None and agent.columns.flags.f_contiguous
    return values | {"one": [names for names in named.values() if len(names) > 1], "by column": by_column}


def rebound(agent: Walker) -> None:
    agent.x = agent.x + 1.0
    agent.big = agent.big * 2.0
    agent.history.append(agent.x)
    agent.current = agent.nodes[1]


def in_place(agent: Walker) -> None:
    agent.x += 1.0
    agent.big[3] = -1.0
    agent.current.source += 10
    agent.rows[1] = [1]
    agent.rows[0].append(7)
    agent.columns = np.asfortranarray(np.arange(40_000.0).reshape(8, 5_000))


def reshaped(agent: Walker) -> None:
    agent.first = agent.x
    agent.history[:] = agent.history[-1:]
    agent.x.resize(5, refcheck=False)
    agent.nodes.reverse()
    if agent.columns is not None:
        agent.columns = np.ascontiguousarray(agent.columns)


def test_what_is_one_object_in_an_agent_is_one_wherever_it_is_read() -> None:
    steps = [rebound, in_place, reshaped, in_place, rebound, rebound]
    for count in range(len(steps) + 1):
        there, here = Walker(), Walker()
        transfer(list(steps[:count]), there, here)
        assert seen(here) == seen(there), count
        assert here.me is here


class Corner(NamedTuple):
    at: Any
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    size: int
    of: Any


class Colour(enum.Enum):
    RED = 1


class Values(Agent):
    """Holds one value of each supported kind."""

    def __init__(self) -> None:
        self.dice = self.also = np.random.default_rng(3)
        self.cost = LocalProblem(np.eye(40), np.ones(40), loss=Squared(), regularizer=0.1)
        self.things: Any = np.array([[1], "two", None], dtype=object)
        self.point = Corner(np.zeros(20), "a")
        self.fixed = Fixed(1, [2])
        self.error: Any = None
        self.colour: Any = None
        self.record = np.zeros(3, dtype=[("a", "i4"), ("b", "f8")])
        self.step = self.forward
        self.make = self.made
        self.put = self.fixed.of.append
        self.draw = self.dice.normal
        self.counts = collections.Counter("ab")
        self.order = collections.OrderedDict([(1, 2), (3, 4)])
        self.groups: Any = collections.defaultdict(list, {1: [2]})
        self.recent: Any = collections.deque([1, 2], maxlen=3)
        self.pile, self.bag = Pile([1, 2]), Bag({1, 2})
        self.python = random.Random(1)
        self.sum = np.sum
        self.many: Any = {}

    def forward(self) -> int:
        return self.fixed.size

    @classmethod
    def made(cls) -> type:
        return cls

    async def run(self) -> None: ...


def test_how_others_have_exceptions_pickled_is_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    # tblib, which Dask installs, registers such a reducer for exceptions.
    monkeypatch.setitem(copyreg.dispatch_table, ValueError, lambda error: (eval, ("1 / 0",)))

    def fail(agent: Values) -> None:
        agent.error = ValueError("so")

    there, here = Values(), Values()
    transfer([fail], there, here)
    assert repr(here.error) == "ValueError('so')"


def test_values_are_what_they_were() -> None:
    def change(agent: Values) -> None:
        agent.dice.random()
        agent.things[0].append(3)
        agent.point.at[4] += 2.0
        agent.fixed.of.append(5)
        object.__setattr__(agent.fixed, "size", agent.fixed.size + 1)
        agent.error = ValueError("so", [agent.fixed.size])
        agent.error.more = {"x": 1}
        agent.colour = Colour.RED
        agent.record["b"][1] += 0.5
        agent.counts["b"] += 4
        agent.order.move_to_end(1)
        agent.groups[5].append(6)
        agent.recent.extend([8, 9])
        agent.pile.append(3)
        agent.pile.label = agent.bag.label = "new"  # type: ignore[attr-defined]
        agent.python.random()
        agent.many[Corner(1, "b")] = (agent.fixed, fractions.Fraction(1, 3), 10**40, b"raw", {7, 8})

    there, here = Values(), Values()
    transfer([change, change, lambda agent: None, change], there, here)
    assert here.dice is here.also
    assert here.dice.random() == there.dice.random()
    assert here.things.tolist() == [[1, 3, 3, 3], "two", None]
    fixed = here.fixed
    assert here.cost.value(np.ones(40)) == there.cost.value(np.ones(40))
    assert here.make() is Values
    assert here.sum is np.sum
    here.put(6)
    assert fixed.of.pop() == 6
    assert here.draw() == there.draw()
    assert here.point.at[4] == 6.0
    assert (fixed.size, fixed.of, here.step()) == (4, [2, 5, 5, 5], 4)
    assert (repr(here.error), here.error.more) == ("ValueError('so', [4])", {"x": 1})
    assert here.colour is Colour.RED
    assert here.record.tolist() == there.record.tolist() == [(0, 0.0), (0, 1.5), (0, 0.0)]
    assert here.many == {Corner(1, "b"): (fixed, fractions.Fraction(1, 3), 10**40, b"raw", {7, 8})}
    assert here.many[Corner(1, "b")][0] is fixed
    assert (here.counts, [*here.order]) == ({"a": 1, "b": 13}, [3, 1])
    assert (here.groups, here.groups.default_factory) == ({1: [2], 5: [6, 6, 6]}, list)
    assert ([*here.recent], here.recent.maxlen) == ([9, 8, 9], 3)
    assert (here.pile, here.pile.label) == ([1, 2, 3, 3, 3], "new")
    assert (here.bag, vars(here.bag)) == ({1, 2}, {"label": "new"})
    assert here.python.random() == there.python.random()


class Number(int):
    pass


class Level(enum.IntEnum):
    LOW = 1


class Keeper:
    """Restores its state by its own ``__setstate__``, which reads the complete state."""

    def __init__(self) -> None:
        self.parts: Any = {"sizes": [1]}
        self.total = 1

    def __getstate__(self) -> Any:
        return {"parts": self.parts}

    def __setstate__(self, state: Any) -> None:
        self.parts = state["parts"]
        self.total = sum(self.parts["sizes"])


ONE_OF_EACH: dict[str, Any] = {
    **{"none": None, "true": True, "int": -7, "long": -(2**70), "float": -0.0, "text": "\ud800é", "bytes": b"\x00"},
    **{"complex": 1 - 2j, "tuple": (1, ("a",)), "frozen": frozenset({1, "x"}), "bytearray": bytearray(b"ab")},
    **{"range": range(1, 9, 2), "slice": slice(None, 3), "decimal": decimal.Decimal("-1.50"), "number": Number(3)},
    **{"fraction": fractions.Fraction(2, 3), "date": datetime.date(2024, 2, 29), "level": Level.LOW},
    **{"when": datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.timezone(datetime.timedelta(hours=-2), "there"))},
    **{"span": datetime.timedelta(days=-1, microseconds=3), "time": datetime.time(1, 2, 3, 4)},
    **{"scalar": np.float32(1.5), "moment": np.datetime64("2024-01-02", "s"), "dtype": np.dtype([("a", "<i4")])},
    **{
        "partial": functools.partial(round, 1.25, ndigits=1),
        "ufunc": np.tanh,
        "function": np.linalg.norm,
        "class": list,
    },
    **{
        "strided": np.arange(20.0)[::-2],
        "times": np.array(["2024-01-02"], dtype="M8[D]"),
        "none of it": np.zeros((0, 3)),
    },
    **{"fields": np.array([(1, "é")], dtype=[("a", "<i2"), ("b", "<U2")]), "whole": np.array(3.0)},
    **{"items": np.array([[1], None, "x"], dtype=object), "path": collections.OrderedDict(b=1, a=[2])},
    **{"old": np.random.RandomState(3), "bits": np.random.Philox(5), "missing": FileNotFoundError(2, "none", "here")},
}


def shown(value: Any) -> Any:
    """Return the properties of a value that must survive a transfer."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tolist()
    if isinstance(value, np.random.RandomState | np.random.Philox):
        return repr(value.random_raw(3) if isinstance(value, np.random.Philox) else value.random(3))
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    return type(value), repr(value)


@every("name", ONE_OF_EACH)
def test_whatever_may_be_held_arrives(name: str) -> None:
    """Values are transferred both in the initial state and as attributes added later."""

    def hold(agent: Any) -> None:
        agent.late = [ONE_OF_EACH[name]]

    there, here = (Averages(value) for value in (ONE_OF_EACH[name], copy.deepcopy(ONE_OF_EACH[name])))
    # Functions are transferred only if the agent held them from the beginning.
    transfer([hold], there, here)
    assert shown(here.first) == shown(there.first)
    assert shown(here.late[0]) == shown(copy.deepcopy(ONE_OF_EACH[name]))


class Averages(Agent):
    def __init__(self, value: Any) -> None:
        self.first = value
        self.late: Any = None

    async def run(self) -> None: ...


def test_what_takes_its_state_itself_is_given_all_of_it() -> None:
    def change(agent: Any) -> None:
        agent.first.parts["sizes"].append(5)

    there, here = Averages(Keeper()), Averages(Keeper())
    transfer([change, change, lambda agent: setattr(agent, "late", Keeper())], there, here)
    assert here.first.total == 11
    assert here.late.total == 1


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (re.compile("x"), "re.Pattern"),
        (pd.DataFrame({"a": [1]}), "BlockManager"),
        (np.ma.masked_array([1.0]), "numpy.ma.MaskedArray"),
        (memoryview(b"x"), "builtins.memoryview"),
        (np.array([(1, None)], dtype=[("a", "i4"), ("b", "O")])[0], "cannot encode"),
        ("x".join, "the method join of a str"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_cannot_be_written_is_refused_by_name(value: Any, name: str) -> None:
    writer = StateWriter({"a": Averages(value)}, lambda digest, data: None)
    with pytest.raises(BadInput, match=rf"^agents\['a'\]: must have a state that a journal can hold \(.*{name}"):
        writer.state("a")
