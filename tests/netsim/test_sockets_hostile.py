"""What others may do to a run in several processes (docs/security.md): strangers, recordings, broken files."""

import collections
import os
import pickle
import random
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from netsim import UDP, Agent, BadInput, NetsimError, Network, gather
from netsim.sockets import job
from netsim.sockets.envelope import Beat, Message, Parcel, Refused, seal, unseal
from netsim.sockets.journal import STATE, entries
from netsim.sockets.restoring import StateReader
from netsim.sockets.session import DROPPED, Session
from netsim.sockets.states import StateWriter
from tests.netsim.test_sockets import PACE, conserved, must_be_the_same, network
from tests.parts import Average, addresses, in_parts, spread

KEY = b"sixteen bytes at least"
MESSAGE = Message(6, "state", 0.25, b"data", [3, 4, 0.5, 5, 6, 0.75])
PARCEL = Parcel(0, 1, 0, [MESSAGE, MESSAGE])


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "_MARGIN", 0.4)


def test_what_is_sealed_is_unsealed() -> None:
    beat = Beat(1, 2, 3, {"run": 0})
    for message in (PARCEL, beat):
        assert unseal(seal(message, KEY), KEY) == message
        assert type(unseal(seal(message, KEY), KEY)) is type(message)


def test_every_changed_bit_is_noticed() -> None:
    data = seal(PARCEL, KEY)
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Refused, match="strangers"):
            unseal(bytes(changed), KEY)
    for size in range(len(data)):
        with pytest.raises(Refused, match="strangers"):
            unseal(data[:size], KEY)


@pytest.mark.parametrize(
    "change", [{"host": -1}, {"host": True}, {"run": 2**63}, {"messages": "text"}, {"messages": [1]}]
)
def test_what_has_the_key_and_is_no_message_is_malformed(change: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="malformed"):
        unseal(seal(PARCEL._replace(**change), KEY), KEY)


@pytest.mark.parametrize(
    "change",
    [
        {"number": -1},
        {"kind": b"state"},
        {"sent_at": float("nan")},
        {"data": "text"},
        {"legs": []},
        {"legs": [3, 4]},
        {"legs": [3, 4, 1]},
        {"legs": [3, -4, 1.0]},
        {"legs": [3, 4, float("inf")]},
        {"legs": [3, None, 1.0]},
    ],
)
def test_a_frame_in_it_that_is_none_is_malformed(change: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="malformed"):
        unseal(seal(PARCEL._replace(messages=[MESSAGE, MESSAGE._replace(**change)]), KEY), KEY)


def test_no_bytes_make_anything_but_refused() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        body = rng.randbytes(rng.randrange(200))
        # As whoever has the key could.
        import hmac

        data = b"nsm1" + hmac.digest(KEY, body, "sha256")[:16] + body
        with pytest.raises(Refused, match="malformed"):
            unseal(data, KEY)


class Recorded(UDP):
    """Keeps what it sends."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.said: list[bytes] = []

    def send(self, to: str, data: bytes) -> None:
        if len(self.said) < 400:
            self.said.append(data)
        super().send(to, data)


def attack(to: str, transports: list[Recorded], over: threading.Event) -> int:
    """Send what is hostile to an address until it is over; return how many datagrams."""
    rng = random.Random(2)
    host, _, port = to.rpartition(":")
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while not over.is_set():
            said = [data for transport in transports for data in transport.said]
            kinds = [rng.randbytes(rng.randrange(60)), b"nsm1" + rng.randbytes(80), rng.randbytes(3000)]
            if said:
                data = rng.choice(said)
                kinds += [data, data[: rng.randrange(len(data))], data[:-1] + bytes([data[-1] ^ 1])]
            for data in kinds:
                try:
                    sender.sendto(data, (host, int(port)))
                except OSError:
                    continue
                sent += 1
            over.wait(0.002)
    return sent


def test_a_run_goes_on_under_attack_and_counts_it(tmp_path: Path) -> None:
    simulation, agents = network()
    simulated = simulation.run(agents, [spread], trace=True)
    places = addresses(2)
    shares = [list(range(6)), list(range(6, 12))]
    transports = [
        Recorded(places[me], {places[1 - me]: shares[1 - me]}, key=KEY, folder=tmp_path, pace=PACE / 2)
        for me in range(2)
    ]
    errors: list[BaseException] = []

    def part(transport: Recorded) -> None:
        made, agents = network()
        try:
            made.run(agents, [spread], transport=transport)
        except BaseException as error:
            errors.append(error)

    over = threading.Event()
    attacker = threading.Thread(target=attack, args=(places[0], transports, over))
    threads = [threading.Thread(target=part, args=(transport,)) for transport in transports]
    for thread in (attacker, *threads):
        thread.start()
    for thread in threads:
        thread.join(60)
    over.set()
    attacker.join()
    assert errors == []
    made, agents = network()
    must_be_the_same(simulated, gather(made, agents, tmp_path, [spread], trace=True))
    attacked, quiet = (transport.session for transport in transports)
    assert attacked.dropped["strangers"] > 100
    assert attacked.dropped["replayed"] > 20
    assert set(attacked.dropped) <= set(DROPPED)
    assert sum(quiet.dropped.values()) == 0


@pytest.mark.parametrize(
    "said",
    [
        {"run": -1},
        {"run": True},
        {"phase": -1},
        {"phase": 9},
        {"phase": 1.0},
        {"mark": "text"},
        {"sent": float("nan")},
        {"sent": 3},
        {"epoch": float("inf")},
        {"done": float("-inf")},
        {"why": None},
        {"why": "x" * 10_000},
        {"answer": []},
        {"answer": [1, 2.0, float("nan")]},
        {"answer": [1.0, 2.0, 3.0]},
        {"answer": 7},
        {"final": [0, 1.0]},
        {"final": [0, 1.0, 2.5]},
        {"final": [0, float("nan"), 3]},
    ],
)
def test_a_beat_that_says_what_none_says_is_malformed(said: dict[str, Any]) -> None:
    first = Session(UDP("127.0.0.1:9001", {"127.0.0.1:9002": [1]}, key=KEY))
    other = Session(UDP("127.0.0.1:9002", {"127.0.0.1:9001": [0]}, key=KEY))
    for session in (first, other):
        session.begin(b"mark")
    heard: list[bytes] = []
    other.transport.send = lambda to, data: heard.append(data)  # type: ignore[method-assign]
    other.beat()
    beat = unseal(heard[0], KEY)
    assert isinstance(beat, Beat)
    first.receive(seal(beat._replace(said={**beat.said, **said}), KEY))
    assert first.dropped == {"malformed": 1}
    assert first.peers[1].incarnation == -1
    first.receive(seal(beat._replace(said={name: beat.said[name] for name in beat.said if name not in said}), KEY))
    assert first.dropped == {"malformed": 2}
    first.receive(heard[0])
    assert first.dropped == {"malformed": 2}
    assert first.peers[1].incarnation == other.incarnation


def test_a_recording_does_not_begin_a_run() -> None:
    # Of an earlier process of the same name and key: it answers to nothing that this one has said.
    first = Session(UDP("127.0.0.1:9001", {"127.0.0.1:9002": [1]}, key=KEY))
    other = Session(UDP("127.0.0.1:9002", {"127.0.0.1:9001": [0]}, key=KEY))
    for session in (first, other):
        session.begin(b"mark")
    heard: list[bytes] = []
    other.transport.send = lambda to, data: heard.append(data)  # type: ignore[method-assign]
    for _ in range(5):
        other.beat()
    for data in heard:
        first.receive(data)
    assert not first.peers[1].met
    assert first.when(0.0) is None
    assert first.missing() == ["127.0.0.1:9002"]
    for data in heard:
        first.receive(data)
    assert first.dropped == {"replayed": 5}


# --- files ------------------------------------------------------------------------------------------------------------


class Evil:
    def __reduce__(self) -> Any:
        return os.system, ("touch hacked",)


def test_a_state_makes_no_object_of_a_class_that_no_agent_was_made_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    reader = StateReader({0: Average(1.0)})
    for value in (Evil(), os.system, nx.Graph(), Path("x"), collections.ChainMap()):
        with pytest.raises(NetsimError, match="an agent's state cannot be read"):
            reader.load(pickle.dumps({"value": value}))
    assert not (tmp_path / "hacked").exists()
    for broken in (b"", b"\x80", pickle.dumps({"value": 1.0})[:-3]):
        with pytest.raises(NetsimError, match="cannot be read"):
            reader.load(broken)


@pytest.mark.parametrize(
    "names",
    [
        ("netsim.transport.inbox", "asyncio.subprocess.subprocess.Popen"),
        ("netsim.transport.inbox", "asyncio.Queue"),
        ("tests.parts", "subprocess.Popen"),
        ("tests.parts", "Path"),
        ("netsim.agents", "os.system"),
        ("builtins", "list.append"),
    ],
)
def test_a_state_names_nothing_by_way_of_a_module_that_has_it(names: tuple[str, str]) -> None:
    reader = StateReader({0: Average(1.0)})
    text = b"".join(b"\x8c" + bytes([len(name)]) + name.encode() for name in names)
    with pytest.raises(NetsimError, match="an agent's state cannot be read"):
        reader.load(b"\x80\x04" + text + b"\x93.")


class Holder(Agent):
    def __init__(self) -> None:
        self.table = np.arange(40.0)
        self.view = self.table[::2]
        self.large = np.arange(20_000.0)
        self.notes: dict[str, Any] = {"inner": Average(2.0), "list": [1, 2, 3]}
        self.stream = (n for n in range(3))
        self.label = lambda: 3

    async def run(self) -> None: ...


def test_a_state_is_put_into_the_objects_that_are_there() -> None:
    arrays: dict[bytes, bytes] = {}
    writer = StateWriter(lambda digest, array: arrays.setdefault(digest, array.tobytes()) and None)
    there, here = Holder(), Holder()
    inner, table, stream = here.notes["inner"], here.table, here.stream
    reader = StateReader({0: here})
    states = [writer.state("there", there)]
    there.table[3] = -1.0
    there.large[7] = np.nan
    there.notes["inner"].value[2] = 9.0
    there.notes["list"].append(4)
    there.added = frozenset({1, 2})  # type: ignore[attr-defined]
    states.append(writer.state("there", there))
    count = len(arrays)
    states.append(writer.state("there", there))
    assert states[-1] == {"new": {}, "told": {}, "gone": []}
    assert len(arrays) == count
    for digest, raw in arrays.items():
        reader.learn(digest, raw)
    for state in states:
        reader.restore("process", 0, state)
    assert here.table is table
    assert here.notes["inner"] is inner
    assert here.stream is stream
    assert table[3] == -1.0
    assert inner.value[2] == 9.0
    assert np.isnan(here.large[7])
    assert here.notes["list"] == [1, 2, 3, 4]
    assert here.added == {1, 2}  # type: ignore[attr-defined]
    assert here.label() == 3
    # Another process of the same agent began again.
    reader.restore("its successor", 0, states[0])
    assert here.large[7] == 7.0
    assert not hasattr(here, "added")


class Pile(list[int]):
    label = "old"


class Reader:
    """Holds what its agent holds, too."""

    def __init__(self, source: Any) -> None:
        self.source = source


class Containers(Agent):
    def __init__(self) -> None:
        self.counts = collections.Counter("ab")
        self.order = collections.OrderedDict([(1, 2), (3, 4)])
        self.groups: Any = collections.defaultdict(list, {1: [2]})
        self.recent: Any = collections.deque([1, 2], maxlen=3)
        self.seen = {1, 2}
        self.pile = Pile([1, 2])
        self.dice = random.Random(1)
        self.reader = Reader(self.recent)
        self.model: Any = None
        self.best: Any = None

    async def run(self) -> None: ...


def told(changes: list[Any], there: Any, here: Any) -> None:
    """Tell one agent's state, at first and after each change, and put it into the other."""
    arrays: dict[bytes, bytes] = {}
    writer, reader = (
        StateWriter(lambda digest, array: arrays.__setitem__(digest, array.tobytes())),
        StateReader({0: here}),
    )
    for change in [lambda agent: None, *changes]:
        change(there)
        state = writer.state(0, there)
        for digest, raw in arrays.items():
            reader.learn(digest, raw)
        reader.restore("process", 0, state)


def test_whatever_an_agent_keeps_things_in_is_as_it_was() -> None:
    def change(agent: Containers) -> None:
        agent.counts["b"] += 4
        agent.order.move_to_end(1)
        agent.groups[5].append(6)
        agent.recent.extend([8, 9])
        agent.seen.discard(1)
        agent.pile.append(3)
        agent.pile.label = "new"
        agent.dice.random()

    there, here = Containers(), Containers()
    before = {name: value for name, value in vars(here).items() if name != "dice"}
    told([change, change], there, here)
    assert here.counts == {"a": 1, "b": 9}
    assert [*here.order] == [3, 1]
    assert here.groups == {1: [2], 5: [6, 6]}
    assert [*here.recent] == [9, 8, 9]
    assert here.recent.maxlen == 3
    assert here.seen == {2}
    assert (here.pile, here.pile.label) == ([1, 2, 3, 3], "new")
    assert here.dice.random() == there.dice.random()
    assert here.reader.source is here.recent
    # Who holds one of them sees it, too.
    assert all(vars(here)[name] is value for name, value in before.items())


def test_what_two_attributes_come_to_hold_is_one_object() -> None:
    def learn(agent: Any) -> None:
        agent.model = agent.best = Reader(3.0)
        agent.first = agent.second = [agent.model]

    def replace(agent: Any) -> None:
        agent.recent = collections.deque([7], maxlen=1)
        agent.reader.source = agent.recent
        agent.model.source = 5.0

    there, here = Containers(), Containers()
    told([learn, replace], there, here)
    assert here.model is here.best
    assert here.model.source == 5.0
    assert here.first is here.second  # type: ignore[attr-defined]
    assert here.first[0] is here.model  # type: ignore[attr-defined]
    assert here.reader.source is here.recent
    assert (*here.recent, here.recent.maxlen) == (7, 1)


class Walker(Agent):
    """Keeps where it began, where it was, and by other names what it has."""

    def __init__(self) -> None:
        self.x = self.first = np.arange(3.0)
        self.big = self.data = np.arange(10_000.0)
        self.history = [self.x]
        self.table = self.best = {"a": 1}
        self.nodes = [Reader(number) for number in range(3)]
        self.current = self.nodes[0]
        self.rows: list[list[int]] = [[0]] * 3
        self.me = self
        self.columns: Any = None

    async def run(self) -> None: ...


def seen(agent: Any) -> dict[str, Any]:
    """Return what an agent holds in the eyes of whoever reads it, and which of its names are one object's."""
    named: dict[int, list[str]] = {}
    for name, value in [*vars(agent).items(), *((f"history[{i}]", each) for i, each in enumerate(agent.history))]:
        named.setdefault(id(value), []).append(name)
    values = {name: repr(value) for name, value in vars(agent).items() if name not in ("nodes", "current", "me")}
    values |= {"nodes": [node.source for node in agent.nodes], "current": agent.current.source}
    one = [names for names in named.values() if len(names) > 1]
    same = [agent.rows[i] is agent.rows[j] for i, j in ((0, 1), (1, 2), (0, 2))]
    columns = getattr(agent, "columns", None)
    by_column = columns is not None and columns.ndim == 2 and columns.flags.f_contiguous
    return values | {"one": one, "at": agent.nodes.index(agent.current), "same": same, "by column": by_column}


def rebound(agent: Walker) -> None:
    agent.x = agent.x + 1.0
    agent.big = agent.big * 2.0
    agent.history.append(agent.x)
    agent.table = dict(agent.table, a=2)
    agent.current = agent.nodes[1]


def in_place(agent: Walker) -> None:
    agent.x += 1.0
    agent.big[3] = -1.0
    agent.table["b"] = 3
    agent.current.source += 10
    agent.rows[1] = [1]
    agent.rows[0].append(7)
    agent.columns = np.asfortranarray(np.arange(40.0).reshape(8, 5))


def given_up(agent: Walker) -> None:
    agent.best = agent.table
    agent.first = agent.x
    agent.history[:] = agent.history[-1:]
    del agent.columns


def reshaped(agent: Walker) -> None:
    agent.x.resize(5, refcheck=False)
    agent.nodes.reverse()
    agent.columns = agent.data[::7]


def test_a_new_object_is_new_and_a_changed_one_the_same() -> None:
    steps = [rebound, in_place, given_up, rebound, reshaped, in_place, given_up, rebound]
    for count in range(len(steps) + 1):
        there, here = Walker(), Walker()
        told(list(steps[:count]), there, here)
        assert seen(here) == seen(there), count
        assert here.me is here


def test_agents_that_were_made_with_one_array_do_not_write_into_each_others() -> None:
    shared = np.zeros(3)
    here, other = Walker(), Walker()
    here.x = here.first = other.x = other.first = shared
    there = Walker()
    there.x = there.first = np.zeros(3)
    told([rebound, in_place], there, here)
    assert shared.tolist() == other.x.tolist() == [0.0, 0.0, 0.0]
    assert here.x.tolist() == [2.0, 2.0, 2.0]


def test_what_nothing_holds_any_more_is_let_go_of() -> None:
    agent = Walker()
    writer = StateWriter(lambda digest, array: None)
    before = writer.state(0, agent)
    for _ in range(3):
        agent.x = agent.x + 1.0
        agent.big = agent.big + 1.0
        state = writer.state(0, agent)
        assert len(state["new"]) == 2
    # The first two are held by other names.
    assert len(state["gone"]) == 2
    assert len(before["told"]) > len(state["told"]) == 3


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journals")
    in_parts(network, folder, probes=[spread], pace=PACE)
    return folder


def without_end(part: Path, rng: random.Random) -> None:
    """Cut a file off somewhere, as a copy that was broken off."""
    os.truncate(part, rng.randrange(part.stat().st_size))


def test_a_part_that_is_cut_off_later_is_named_or_adds_up(journals: Path, tmp_path: Path) -> None:
    rng = random.Random(3)
    seen = set()
    for trial in range(25):
        folder = tmp_path / str(trial)
        shutil.copytree(journals, folder)
        part = sorted((folder / "run-0").glob("*.journal"))[trial % 4]
        without_end(part, rng)
        made, agents = network()
        try:
            run = gather(made, agents, folder, [spread])
        except NetsimError as error:
            says = str(error)
            assert "\n" not in says
            named = ("must be whole; others have frames", "must hold what all processes", "must be what a process")
            seen.add(next(each for each in named if each in says))
        else:
            # All that it sent is there; what it heard last may be not.
            conserved(run)
            seen.add("missing" if run.ledger.table()["missing"].sum() else "nothing missing")
    assert "must be whole; others have frames" in seen


def test_gathering_names_what_is_wrong(journals: Path, tmp_path: Path) -> None:
    made, agents = network()
    with pytest.raises(BadInput, match="must hold what processes wrote of run 1; there is none"):
        gather(made, agents, journals, run=1)
    with pytest.raises(BadInput, match="there is none"):
        gather(made, agents, tmp_path)
    other = Network(made.graph, seed=8, round_period=0.1)
    with pytest.raises(BadInput, match="must be of this network and these agents"):
        gather(other, agents, journals)
    with pytest.raises(BadInput, match="run = -1"):
        gather(made, agents, journals, run=-1)


def test_a_journal_tells_states_rows_and_events(journals: Path) -> None:
    part = sorted((journals / "run-0").glob("*.journal"))[0]
    kinds = collections.Counter(what for what, _ in entries(part))
    # Three agents: at the beginning, at each of 12 rows, at the end.
    assert kinds[STATE] == 3 * 14
