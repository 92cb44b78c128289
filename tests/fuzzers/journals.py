"""Forged journals, made from honest ones by exchanging parts and by inventing states and events.

`merge_parts` must read a forged journal or raise a NetsimError; afterwards a probe reads the agents' attributes. A
damaged journal must be refused, unless it is only truncated. To repeat a seed, call
``check_one(np.random.default_rng(seed))`` or ``check_damage(…)``. ``python -m tests.fuzzers.journals 0 500`` tries a
range of seeds.
"""

import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import pickle
import pickletools
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import numpy as np

import netsim
from netsim import Agent, Link, NetsimError, Network, core, latency, topology
from netsim.core.records import LEFT, OUTCOME, SENT
from netsim.distributed.journal import ARRAY, BEGIN, END, KINDS, MARK, RECORDS, ROW, STATE, entries, entry
from netsim.distributed.node import mark_of
from netsim.distributed.states import StateWriter
from netsim.wire.codec import encode

Rng = np.random.Generator
Entries = list[tuple[int, Any]]


class Colour(enum.Enum):
    RED = 1


class Corner(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    size: int
    of: Any


class Itself:
    def __init__(self) -> None:
        self.parts = [1.0]

    def __getstate__(self) -> Any:
        return {"parts": self.parts}

    def __setstate__(self, state: Any) -> None:
        self.parts = state["parts"]


class Holder(Agent):
    """Holds one value of each type that a journal may contain, and changes it in each round."""

    def __init__(self, number: int) -> None:
        self.value = np.full(20, float(number))
        self.table = np.asfortranarray(np.arange(12_000.0).reshape(100, 120))
        self.record = np.zeros(9, dtype=[("a", "i4"), ("b", "f8")])
        self.items = np.array([[1], "two", None], dtype=object)
        self.dice = {name: getattr(np.random, name)(number) for name in ("MT19937", "PCG64", "Philox", "SFC64")}
        self.streams = [np.random.Generator(each) for each in self.dice.values()] + [np.random.RandomState(number)]
        self.old = random.Random(number)
        self.copies = core.Copies((number, 9), (3,))
        self.things: Any = [Fixed(1, [2]), Corner(1, "b"), Itself(), ValueError("so", [number]), Colour.RED]
        self.simple: Any = (fractions.Fraction(1, 3), decimal.Decimal("0.1"), datetime.date(2020, 1, 2), 10**40, 1j)
        self.more: Any = (np.float32(1), np.dtype("i4"), range(3), bytearray(b"x"), functools.partial(round, 1.5))
        self.kept: Any = collections.deque(maxlen=3)
        self.counts = collections.Counter("ab")
        self.groups: Any = collections.defaultdict(list, {9: [{2, 3}]})
        self.how: Any = (self.rolled, np.sum, list, self.kept.append)
        self.frames: list[Any] = []

    def rolled(self) -> float:
        return self.old.random()

    async def run(self) -> None:
        async for number in self.rounds(4):
            await self.broadcast("state", self.value)
            self.frames = await self.collect()
            self.value = sum((frame.payload for frame in self.frames), self.value) / (1 + len(self.frames))
            self.table[number] += 1
            self.items[0].append(number)
            self.kept.append(self.value)
            self.counts[number] += 1
            self.groups[number].append(Fixed(number, self.things))
            self.rolled()
            for stream in self.streams:
                stream.random()


def look(agents: Any) -> int:
    """Read all attributes of agents, as a probe could, and ignore errors of damaged values."""
    for agent in agents.values():
        len(repr(vars(agent)))
        for stream in agent.streams:
            stream.random()
            stream.integers(9) if isinstance(stream, np.random.Generator) else stream.randint(9)
        for frame in agent.frames:
            len(repr(frame.payload))
        agent.copies.heard(9)
        agent.rolled()
        float(agent.table.sum())
    return 1


def made() -> tuple[Network, dict[int, Agent]]:
    link = Link(latency=latency.uniform(0.01, 0.2), loss=0.1, duplicate=0.1, corrupt=0.1)
    graph = topology.ring(4)
    return Network(graph, link, round_period=0.1, seed=1), {node: Holder(node) for node in graph}


@functools.cache
def honest() -> tuple[tuple[int, Any], ...]:
    """Return the journal entries that a run in one process would have written."""
    network, agents = made()
    found: Entries = []
    names = {id(agent): number for number, agent in enumerate(agents.values())}
    writer = StateWriter(agents, lambda digest, data: found.append((ARRAY, [digest, data])))

    def states(in_round: int) -> None:
        for name, agent in agents.items():
            found.append((STATE, [names[id(agent)], writer.state(name), in_round]))

    def row(number: int) -> None:
        states(number)
        found.append((ROW, [number, 0.1 * number, True]))

    states(0)
    run = network.run(agents, trace=True, progress=row)
    records = run.ledger.tally.records()
    places = dict.fromkeys(agents, 0)
    begin = {"host": "a", "hosts": ["a"], "incarnation": 1, "run": 0, "netsim": netsim.__version__}
    begin |= {"mark": mark_of(network.settings, agents, places), "places": [*places.values()]}
    begin |= {"joined": 0.0, "sampled": False, "epoch": 0.0}
    events = [records[name].tobytes() for name in ("sent", "exits", "details", "left")]
    end = {"end": run.ended_at, "in_flight": [[int(key), int(kind)] for key, kind in run.ledger.in_flight()], "why": ""}
    end |= {"dead": [], "clocks": {}, "dropped": {}, "datagrams": [0, 0, 0, 0], "overruns": 0, "longest_lag": 0.0}
    states(4)
    return ((BEGIN, begin), (KINDS, list(run.ledger.tally.kinds)), *found, (RECORDS, events), (END, end))


def packed(content: Any) -> bytes:
    return bytes(msgpack.packb(content, unicode_errors="surrogatepass"))


def gathered(found: Any, folder: Path) -> Any:
    """Return the run that `merge_parts` reads from these entries."""
    path = folder / "run-0" / "a.journal"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        file.write(MARK)
        for what, content in found:
            body = content if isinstance(content, bytes) else packed(content)
            file.write(entry(what, body))
    network, agents = made()
    return netsim.distributed.merge_parts(network, agents, folder, [look], trace=True)


# --- hostile ----------------------------------------------------------------------------------------------------------


def array(descr: Any, shape: list[int], raw: bytes) -> bytes:
    head = msgpack.packb([descr, *shape])
    return msgpack.packb(msgpack.ExtType(1, raw + head + bytes([len(head)])))


BAD_ARRAYS = (
    *(
        array(each, [1], b"A" * 8)
        for each in ("O", "|O", "T", "object", [["a", "O"]], [["a", [["b", "O"]]]], "f8,O", "x")
    ),
    *(array("f8", shape, b"A" * 8) for shape in ([2], [-1], [2**40], [2**62], [0], [1, 1, 2**63 - 1])),
    *(array(each, [2**40], b"") for each in ("V0", "S0", "U0")),
    array("f8", [0, 2**60], b""),
    *(b"", b"\xc1", encode("text"), encode([1.0]), encode(np.float64(1.0)), encode((1, 2))),
)


# A state is a pickle, so these are pickle instructions, which may be combined in any order.


def plain(value: Any) -> bytes:
    """Return the pickle instructions of a value, without protocol header and stop instruction."""
    return pickletools.optimize(pickle.dumps(value, 3))[2:-1]


def in_tuple(*values: bytes) -> bytes:
    return pickle.MARK + b"".join(values) + pickle.TUPLE


def named(module: Any, name: Any) -> bytes:
    return plain(module) + plain(name) + pickle.STACK_GLOBAL


def call(function: bytes, *values: bytes) -> bytes:
    return function + in_tuple(*values) + pickle.REDUCE


def maker(name: str, *values: bytes) -> bytes:
    """Return pickle instructions that call one of the allowed functions with these values."""
    return call(named("netsim.distributed.states", name), *values)


def new(cls: bytes, *values: bytes) -> bytes:
    return cls + in_tuple(*values) + pickle.NEWOBJ


def build(value: bytes, state: bytes) -> bytes:
    return value + state + pickle.BUILD


def refer(*reference: Any) -> bytes:
    return plain(reference) + pickle.BINPERSID


def state_of(**attributes: bytes) -> bytes:
    """Return the pickled state of an agent with these attributes."""
    items = b"".join(plain(name) + value for name, value in attributes.items())
    return pickle.PROTO + b"\x05" + pickle.EMPTY_DICT + pickle.MARK + items + pickle.SETITEMS + pickle.STOP


HERE = "tests.fuzzers.journals"
NAMES = (
    ("os", "system"), ("os", "_exit"), ("builtins", "eval"), ("builtins", "getattr"), ("numpy", "ndarray"),
    ("numpy", "dtype"), ("numpy._core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "scalar"),
    ("netsim.transport.inbox", "asyncio.subprocess.subprocess.Popen"), (HERE, "sys.exit"), (HERE, "Path"),
    ("netsim.distributed.states", "importlib"), ("netsim.distributed.states", "_empty"), ("copyreg", "__newobj__"),
    ("", ""),
    (1, 2), ("netsim.core._core", "Tally"), ("netsim.clock.clock", "Loop"), ("builtins", "list.append"),
)  # fmt: skip
CLASSES = (
    *NAMES, (HERE, "Holder"), (HERE, "Itself"), (HERE, "Fixed"), (HERE, "Corner"), (HERE, "Colour"),
    ("numpy.random._pcg64", "PCG64"), ("numpy.random._generator", "Generator"), ("random", "Random"),
    ("netsim.core._core", "Copies"), ("netsim.core._core", "Frame"), ("netsim.core.frame", "Frame"),
    *(("builtins", name) for name in ("ValueError", "UnicodeDecodeError", "OSError", "object", "int", "list", "set",
                                      "range", "slice", "frozenset", "bytearray", "bool", "tuple")),
    *(("collections", name) for name in ("OrderedDict", "Counter", "defaultdict", "deque")),
    ("asyncio.queues", "Queue"), ("decimal", "Decimal"), ("fractions", "Fraction"), ("functools", "partial"),
    *(("datetime", name) for name in ("date", "datetime", "time", "timedelta", "timezone")),
)  # fmt: skip
LONG = maker("_of_arguments", named("builtins", "range"), plain(0), plain(10**12), plain(1))
ARGUMENTS = (
    (), (plain(1),), (plain(10**12),), (plain("x"),), (plain("1e999999999999"),), (plain((1,)),), (plain([1, [2]]),),
    (LONG,), (plain(0), LONG), (plain(None), plain(3), plain(2**70)), (named("builtins", "list"),),
    (named("builtins", "list"), plain({1: 2})), tuple(plain(10**9) for _ in range(8)), (plain(b"x" * 10),),
    (refer("agent", 0),), (plain([(2**61 - 1) * i for i in range(2000)]),),
)  # fmt: skip
STATES = (
    *map(plain, (1, None, {}, {"x": 1}, {1: 2}, {"__class__": 1}, (None, {"size": 1}), (None, {"__class__": int}))),
    *map(plain, (({}, {"__dict__": {}}), ((), (), {}, None), {"__setstate__": 1}, {"_netsim": 1}, [1], "x")),
)
REFERENCES = (
    *((kind, number) for kind in ("agent", "left out") for number in (-1, 0, 4, 2**63, "0", 1.5)),
    *(("array", number, kept, raw, order) for raw in BAD_ARRAYS for number, kept, order in ((0, False, 1), (7, 0, 0))),
    *(("name", *each) for each in NAMES),
    *(("left out", None), ("array", 0), ("array", 9, True, b"none of them", False), ("x", 1), (), 1, "agent", None),
)
VALUES: tuple[bytes, ...] = (
    *(named(*each) for each in NAMES),
    *(call(named(*each), plain("true")) for each in NAMES),
    call(named("os", "_exit"), plain(77)),
    *(refer(*each) if isinstance(each, tuple) else plain(each) + pickle.BINPERSID for each in REFERENCES),
    *(maker(name, plain(raw)) for name in ("_scalar", "_dtype") for raw in (*BAD_ARRAYS, encode(1j), 5)),
    *(maker("_items", plain(shape), plain([1, 2])) for shape in ((2,), (1,), (-1, -2), (2**40,), (2, 1), 2, "x")),
    *(
        maker("_method", holder, plain(name))
        for holder in (refer("agent", 0), named("builtins", "list"), plain([1]), plain("x"), refer("left out", 0))
        for name in ("append", "run", "__class__", "_netsim", "format", "__init__", 1)
    ),
    *(maker("_member", named(*each), plain(name)) for each in CLASSES[-30:] for name in ("RED", "real")),
    *(maker("_bits", plain(name), state) for name in ("PCG64", "MT19937", "x") for state in STATES),
    *(maker(name, *values) for values in ARGUMENTS for name in
      ("_bits", "_generator", "_old_generator", "_random", "_frame", "_copies", "_of_arguments")),
    *(maker("_copies", plain((1, 2)), plain([3, 4]), plain([5])), maker("_random", plain((3, (1,) * 625, None)))),
    *(maker("_frame", *map(plain, ("x", 0, 1, 0.5, raw, False, 0, False))) for raw in BAD_ARRAYS),
    *(pickle.BYTEARRAY8 + b"\xff" * 5 + bytes(3), pickle.BINBYTES8 + b"\xff" * 5 + bytes(3)),
    *(pickle.FRAME + b"\xff" * 5 + bytes(3), pickle.LONG4 + b"\xff" * 3 + b"\x7f", pickle.EXT1 + b"\x01"),
    *(pickle.EMPTY_TUPLE * 400 + pickle.TUPLE1 * 400, pickle.EMPTY_LIST * 400 + pickle.APPEND * 399),
    *(pickle.GLOBAL + b"os\nsystem\n", pickle.MARK + plain("true") + pickle.INST + b"os\nsystem\n"),
    *(plain(value) for value in (float("nan"), float("inf"), 2**63, -(2**63), 10**4000, True, None, {1}, "\ud800")),
)  # fmt: skip


def any_of(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def made_up(rng: Rng) -> bytes:
    """Return pickle instructions that build a random, possibly invalid, value."""
    how = int(rng.integers(5))
    if how < 2:
        return any_of(rng, VALUES)
    cls = named(*any_of(rng, CLASSES))
    value = (maker("_of_arguments", cls, *any_of(rng, ARGUMENTS)), new(cls, *any_of(rng, ARGUMENTS)), new(cls))[how - 2]
    if rng.random() < 0.4:
        value = build(any_of(rng, (value, value, cls, refer("agent", 0), refer("left out", 0))), any_of(rng, STATES))
    if rng.random() < 0.3:
        add = any_of(rng, ((pickle.APPENDS, 2), (pickle.SETITEMS, 2), (pickle.ADDITEMS, 3), (pickle.SETITEMS, 3)))
        value += pickle.MARK + b"".join(any_of(rng, VALUES) for _ in range(add[1])) + add[0]
    return value


def anything(rng: Rng) -> Any:
    """Return a random value that msgpack encodes."""
    kind = int(rng.integers(6))
    if kind < 2:
        return int(rng.integers(-(2**63), 2**63 - 1)) >> int(rng.integers(64))
    if kind == 2:
        return rng.bytes(int(rng.integers(40)))
    return any_of(rng, (0, 1, -1, 2**31, 2**63, 1e300, -0.0, float("nan"), "", "\ud800", b"", [], {}, [[]], True, None))


def changed(rng: Rng, value: Any) -> Any:
    """Return a value with a random part replaced, removed or duplicated, or an entirely new value."""
    if not isinstance(value, list | dict) or not value or rng.random() < 0.1:
        return anything(rng)
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = any_of(rng, keys)
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    how = rng.random()
    if how < 0.08:
        del copy[key]
    elif how < 0.16 and isinstance(copy, list):
        copy.insert(int(key), any_of(rng, copy))
    elif how < 0.2 and isinstance(copy, dict):
        copy[any_of(rng, (0, 1, 7, -1, 2**40, "x", None))] = copy.pop(key)
    else:
        copy[key] = changed(rng, copy[key])
    return copy


def changed_state(rng: Rng, content: Any) -> Any:
    """Return a pickled state with one part replaced."""
    which, state, in_round = content
    how = rng.random()
    if how < 0.1:
        return changed(rng, content)
    if how < 0.2:
        return [which, flipped(rng, state), in_round]
    if how < 0.5 or not state:
        return [which, state_of(**{any_of(rng, ("value", "old", "more", "x")): made_up(rng)}), in_round]
    starts = [place for _, _, place in pickletools.genops(state)]
    # Pickle frames are removed, because their sizes would have to match.
    steps = [state[low:high] for low, high in zip(starts, [*starts[1:], len(state)], strict=True)]
    steps = [step for step in steps if step[:1] != pickle.FRAME]
    for _ in range(int(rng.integers(1, 3))):
        place = int(rng.integers(1, len(steps)))
        values = [each for each, step in enumerate(steps) if step[:1] in (pickle.BININT1, pickle.BINFLOAT, pickle.NONE)]
        place = any_of(rng, values) if values and rng.random() < 0.7 else place
        steps[place] = any_of(rng, (b"", steps[place] * 2, any_of(rng, steps), made_up(rng), made_up(rng)))
    return [which, b"".join(steps), in_round]


def flipped(rng: Rng, data: bytes) -> bytes:
    if not data:
        return b"\xc1"
    copy = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        copy[int(rng.integers(len(copy)))] = int(rng.integers(256))
    return bytes(copy[: int(rng.integers(1, len(copy) + 1))] if rng.random() < 0.2 else copy)


def changed_events(rng: Rng, content: list[bytes]) -> list[bytes]:
    """Return recorded events with one number changed."""
    copy = list(content)
    place, dtype = any_of(rng, ((0, SENT), (1, OUTCOME), (3, LEFT)))
    if rng.random() < 0.1 or not copy[place] or len(copy[place]) % dtype.itemsize:
        copy[int(rng.integers(4))] = rng.bytes(int(rng.integers(300)))
        return copy
    events = np.frombuffer(copy[place], dtype).copy()
    name = any_of(rng, dtype.names)
    row = int(rng.integers(len(events)))
    whole = dtype[name].kind == "i"
    most = np.iinfo(dtype[name]).max if whole else 0
    odd = (-1, 0, 1, 7, most, -most - 1, most // 2, 10**6) if whole else (-1.0, 1e300, float("nan"), float("inf"), 0.05)
    events[row][name] = any_of(rng, odd)
    copy[place] = events.tobytes()
    return copy


def hostile(rng: Rng) -> Entries:
    """Return the entries of a tampered journal; a content given as bytes is written unpacked."""
    found = list(honest())
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(found)))
        # Mostly choose states and events, as they are most of a journal.
        wanted = any_of(rng, (STATE, STATE, STATE, RECORDS, RECORDS, ARRAY, None))
        places = [number for number, (what, _) in enumerate(found) if what == wanted]
        place = any_of(rng, places) if places else place
        what, content = found[place]
        how = rng.random()
        if isinstance(content, bytes):
            # An entry that was already tampered with is left as it is.
            continue
        if how < 0.03:
            del found[place]
        elif how < 0.06:
            found.insert(int(rng.integers(len(found))), (what, content))
        elif how < 0.1:
            found[place] = what, flipped(rng, packed(content))
        elif how < 0.13:
            found[place] = any_of(rng, (*range(8), 2**31)), packed(content)
        elif what == STATE and how < 0.95:
            found[place] = what, packed(changed_state(rng, content))
        elif what == RECORDS:
            found[place] = what, packed(changed_events(rng, content))
        elif what == ARRAY and how < 0.6:
            found[place] = what, [content[0], any_of(rng, BAD_ARRAYS)]
        else:
            found[place] = what, packed(changed(rng, content))
    return found


def check_one(rng: Rng) -> bool:
    """Return whether a hostile journal was read; an error other than NetsimError propagates."""
    found = hostile(rng)
    with tempfile.TemporaryDirectory() as folder:
        try:
            run = gathered(found, Path(folder))
        except NetsimError as refused:
            says = str(refused)
        else:
            # Counts must be integers even in a forged journal, or this call would fail.
            run.ledger.table()
            return True
    assert "\n" not in says
    return False


@functools.cache
def written() -> tuple[bytes, tuple[Any, ...]]:
    """Return an honest journal's bytes, and its entries."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "honest"
        path.write_bytes(MARK + b"".join(entry(what, packed(content)) for what, content in honest()))
        return path.read_bytes(), tuple(entries(path))


def check_damage(rng: Rng) -> None:
    """Check that a truncated journal yields its first entries, and that one with a changed byte is refused."""
    data, whole = written()
    place = int(rng.integers(len(data)))
    # Few entries hold most of the bytes, so half of the changes are made near the beginning or the end.
    place = any_of(rng, (place, place, int(rng.integers(300)), len(data) - 1 - int(rng.integers(300))))
    is_cut = rng.random() < 0.3
    damaged = bytearray(data[:place] if is_cut else data)
    if not is_cut:
        damaged[place] ^= int(rng.integers(1, 256))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged"
        path.write_bytes(damaged)
        found = None
        with contextlib.suppress(NetsimError):
            found = tuple(entries(path))
    assert (found is not None) == is_cut
    assert found is None or packed(found) == packed(whole[: len(found)])


def megabytes() -> float:
    """Return the peak memory of this process in megabytes; NaN if the system does not report it."""
    try:
        return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    except OSError:
        return float("nan")


def main() -> None:
    """Try a range of seeds; print how many journals could be read."""
    first, stop = map(int, sys.argv[1:])
    accepted = 0
    for seed in range(first, stop):
        try:
            accepted += check_one(np.random.default_rng(seed))
            check_damage(np.random.default_rng(seed))
        except BaseException:
            print(f"seed {seed}", file=sys.stderr)
            raise
    print(f"{stop - first} journals, {accepted} gathered, {megabytes():.0f} MB")


if __name__ == "__main__":
    main()
