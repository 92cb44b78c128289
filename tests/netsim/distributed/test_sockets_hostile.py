"""Attacks on a run in several processes (docs/security.md): datagrams of strangers, replays, damaged files."""

import collections
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from netsim import BadInput, NetsimError, Network, Run
from netsim.distributed import UDP, merge, merge_parts, node
from netsim.distributed.envelope import FrameBatch, Heartbeat, Message, Refused, seal, unseal
from netsim.distributed.journal import ROW, STATE, entries, entry
from netsim.distributed.membership import DROPPED, Membership
from netsim.distributed.states import StateReader
from netsim.wire.codec import encode
from tests.command import ROOT
from tests.fuzzers import journals as journals_fuzzer
from tests.fuzzers.journals import build, call, maker, named, new, plain, refer, state_of
from tests.netsim.distributed.test_sockets import PACE, conserved, network
from tests.parts import Average, addresses, in_parts, must_be_the_same, played, shares, spread

# Slow: processes connect over real sockets and wait in real time.
pytestmark = pytest.mark.slow

KEY = b"sixteen bytes at least"
MESSAGE = Message(6, "state", 0.25, b"data", [3, 4, 0.5, 5, 6, 0.75])
BATCH = FrameBatch(0, 1, 0, [MESSAGE, MESSAGE])


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "_START_MARGIN", 0.4)


def test_what_is_sealed_is_unsealed() -> None:
    beat = Heartbeat(1, 2, 3, {"run": 0})
    for message in (BATCH, beat):
        assert unseal(seal(message, KEY), KEY) == message
        assert type(unseal(seal(message, KEY), KEY)) is type(message)


def test_every_changed_bit_is_noticed() -> None:
    data = seal(BATCH, KEY)
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
        unseal(seal(BATCH._replace(**change), KEY), KEY)


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
        unseal(seal(BATCH._replace(messages=[MESSAGE, MESSAGE._replace(**change)]), KEY), KEY)


def test_no_bytes_make_anything_but_refused() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        body = rng.randbytes(rng.randrange(200))
        # This simulates an attacker who has the key.
        import hmac

        data = b"nsm1" + hmac.digest(KEY, body, "sha256")[:16] + body
        with pytest.raises(Refused, match="malformed"):
            unseal(data, KEY)


class Recorded(UDP):
    """A transport that records the datagrams it sends."""

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.sent: list[bytes] = []

    def send(self, to: str, data: bytes) -> None:
        if len(self.sent) < 400:
            self.sent.append(data)
        super().send(to, data)


def attack(to: str, transports: list[Recorded], over: threading.Event) -> int:
    """Send hostile datagrams to an address until the run is over; return how many were sent."""
    rng = random.Random(2)
    host, _, port = to.rpartition(":")
    sent = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while not over.is_set():
            recorded = [data for transport in transports for data in transport.sent]
            kinds = [rng.randbytes(rng.randrange(60)), b"nsm1" + rng.randbytes(80), rng.randbytes(3000)]
            if recorded:
                data = rng.choice(recorded)
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
    half = partial(network, rounds=6)
    simulation, agents = half()
    simulated = simulation.run(agents, [spread], trace=True)
    peers = shares(addresses(2), range(12))
    transports = {
        here: Recorded(here, others, key=KEY, folder=tmp_path, pace=PACE / 4) for here, others in peers.items()
    }
    over = threading.Event()
    attacker = threading.Thread(target=attack, args=(min(peers), [*transports.values()], over))
    attacker.start()
    outcome = played(half, transports)
    over.set()
    attacker.join()
    assert [type(each) for each in outcome.values()] == [Run] * 2, outcome
    made, agents = half()
    must_be_the_same(simulated, merge_parts(made, agents, tmp_path, [spread], trace=True))
    attacked, quiet = (transport.membership for _, transport in sorted(transports.items()))
    assert attacked.dropped["strangers"] > 100
    assert attacked.dropped["replayed"] > 20
    assert set(attacked.dropped) <= set(DROPPED)
    assert sum(quiet.dropped.values()) == 0


def meeting() -> tuple[Membership, Membership, list[bytes]]:
    """Let two processes exchange hellos; return both, and the datagrams of the second."""
    first = Membership(UDP("127.0.0.1:9001", {"127.0.0.1:9002": [1]}, key=KEY))
    other = Membership(UDP("127.0.0.1:9002", {"127.0.0.1:9001": [0]}, key=KEY))
    for membership in (first, other):
        membership.begin(b"mark")
    heard: list[bytes] = []
    other.transport.send = lambda to, data: heard.append(data)  # type: ignore[method-assign]
    return first, other, heard


@pytest.mark.parametrize(
    "change",
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
def test_a_heartbeat_with_a_field_that_none_has_is_malformed(change: dict[str, Any]) -> None:
    first, other, heard = meeting()
    other.send_heartbeat()
    beat = unseal(heard[0], KEY)
    assert isinstance(beat, Heartbeat)
    first.receive(seal(beat._replace(state={**beat.state, **change}), KEY))
    assert first.dropped == {"malformed": 1}
    assert first.peers[1].incarnation == -1
    first.receive(seal(beat._replace(state={name: beat.state[name] for name in beat.state if name not in change}), KEY))
    assert first.dropped == {"malformed": 2}
    first.receive(heard[0])
    assert first.dropped == {"malformed": 2}
    assert first.peers[1].incarnation == other.incarnation


def test_a_recording_does_not_begin_a_run() -> None:
    # Datagrams replayed from an earlier process with the same name and key must not answer this process's hello.
    first, other, heard = meeting()
    for _ in range(5):
        other.send_heartbeat()
    for data in heard:
        first.receive(data)
    assert not first.peers[1].met
    assert first.start_time(0.0) is None
    assert first.missing() == ["127.0.0.1:9002"]
    for data in heard:
        first.receive(data)
    assert first.dropped == {"replayed": 5}


# --- files ------------------------------------------------------------------------------------------------------------


FOREIGN = [
    *(("os", "system"), ("builtins", "eval"), ("networkx.classes.graph", "Graph"), ("pathlib", "PosixPath")),
    *(("numpy", "ndarray"), ("numpy", "dtype"), ("numpy._core.numeric", "_frombuffer"), ("copyreg", "__newobj__")),
    # Attributes reached through a module that an allowed module imports.
    *(("netsim.transport.inbox", "asyncio.subprocess.subprocess.Popen"), ("netsim.transport.inbox", "asyncio.Queue")),
    *(("tests.parts", "subprocess.Popen"), ("tests.parts", "Path"), ("netsim.agents", "os.system")),
    *(("netsim.distributed.states", "importlib.import_module"), ("builtins", "list.append")),
]


def must_not_be_read(value: bytes, says: str = "") -> None:
    with pytest.raises(NetsimError, match=rf"^an agent's state cannot be read \(.*{says}"):
        StateReader({0: Average(1.0)}).restore(0, state_of(value=value))


@pytest.mark.parametrize(("module", "name"), FOREIGN)
def test_a_state_names_nothing_that_no_agent_was_made_of(module: str, name: str) -> None:
    found = named(module, name)
    for value in (found, call(found, plain("true")), new(found), refer("name", module, name)):
        must_not_be_read(value)


def test_a_state_has_nothing_called_and_gives_attributes_only_to_what_it_made() -> None:
    own, agent = named("tests.parts", "Average"), refer("agent", 0)
    for cls in (own, named("builtins", "list"), named("builtins", "ValueError")):
        must_not_be_read(call(cls, plain(1.0)), "it calls a function that is not allowed")
    for value in (own, agent, named("builtins", "list")):
        must_not_be_read(
            build(value, plain((None, {"count": 1}))), "it gives attributes to an object that it did not create"
        )
    must_not_be_read(build(new(own), plain((None, {"__class__": 1}))), "has no slot __class__")
    must_not_be_read(
        maker("_method", agent, plain("__init__")) + maker("_of_arguments", own, plain(1)), "not created from"
    )
    # Pickle instructions that no state uses are refused.
    for value in (b"cos\nsystem\n", b"(Vtrue\nios\nsystem\n", b"\x82\x01"):
        must_not_be_read(value)


@pytest.mark.parametrize("place", [-1, 700, 2**31 - 1, 2**40])
def test_a_random_generator_is_given_no_place_beyond_its_numbers(place: int) -> None:
    for name in ("MT19937", "Philox", "RandomState"):
        stream = getattr(np.random, name)(1)
        state: Any = stream.get_state(legacy=False) if name == "RandomState" else stream.state
        where = state if name == "Philox" else state["state"]
        where["buffer_pos" if name == "Philox" else "pos"] = place
        # Encode the arrays as they are encoded in a state.
        items = b"".join(plain(key) + in_a_state(each) for key, each in state.items())
        content = b"}(" + items + b"u"
        made = maker("_old_generator", content) if name == "RandomState" else maker("_bits", plain(name), content)
        must_not_be_read(made, "pos of a random generator is invalid")


def in_a_state(value: Any) -> bytes:
    if isinstance(value, dict):
        return b"}(" + b"".join(plain(key) + in_a_state(each) for key, each in value.items()) + b"u"
    if isinstance(value, np.ndarray):
        return refer("array", id(value), False, encode(value), False)
    return plain(value)


GATHERS = """
import pickle, sys, tempfile
from pathlib import Path
import numpy as np
from netsim import NetsimError
from netsim.core.records import OUTCOME, SENT
from netsim.distributed.journal import RECORDS, STATE
from tests.fuzzers.journals import gathered, honest

class Array:
    def __reduce__(self):
        return np.ndarray, ((1,), np.dtype("O"), b"A" * 8)

class Crash:
    def __reduce__(self):
        return list, (Array(),)

def events(dtype, **numbers):
    event = np.zeros(1, dtype)
    for name, number in numbers.items():
        event[name] = number
    return RECORDS, [event.tobytes() if dtype is each else b"" for each in (SENT, OUTCOME, None, None)]

entries = {
    "pickle": (STATE, [0, pickle.dumps({"value": Crash()}), 0]),
    "link": events(OUTCOME, key=2**62), "cause": events(OUTCOME, cause=10**8), "kind": events(OUTCOME, kind=-(10**8)),
    "sender": events(SENT, sender=10**12), "to": events(SENT, link=10**12),
}
found = list(honest())
found.insert(-1, entries[sys.argv[1]])
with tempfile.TemporaryDirectory() as folder:
    try:
        gathered(found, Path(folder))
    except NetsimError as error:
        print(error)
"""


@pytest.mark.parametrize("what", ["pickle", "link", "cause", "kind", "sender", "to"])
def test_gathering_a_hostile_journal_ends_in_one_line(what: str) -> None:
    done = subprocess.run([sys.executable, "-c", GATHERS, what], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    says = (
        "an agent's state cannot be read" if what == "pickle" else "must have events of this network's agents and links"
    )
    assert says in done.stdout
    assert done.stdout.count("\n") == 1


def test_hostile_journals_are_gathered_or_refused_and_nothing_else() -> None:
    """Runs in a separate process, because a failure could crash it."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzzers.journals", "0", "150"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    count = int(done.stdout.split()[2])
    assert 10 < count < 75
    if sys.platform == "linux":
        # No allocation was as large as the size that a damaged file claims.
        assert int(done.stdout.split()[4]) < 600


def test_an_honest_journal_of_the_fuzzer_is_the_run(tmp_path: Path) -> None:
    made, agents = journals_fuzzer.made()
    simulated = made.run(agents, trace=True)
    run = journals_fuzzer.gathered(journals_fuzzer.honest(), tmp_path)
    assert run.trace_hash == simulated.trace_hash
    assert run.ledger.table().drop(columns="missing").equals(simulated.ledger.table())
    ours, theirs = run.agents[0], agents[0]
    assert ours.value.tolist() == theirs.value.tolist()
    assert [repr(frame) for frame in ours.frames] == [repr(frame) for frame in theirs.frames]


@pytest.fixture(scope="module")
def journals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journals")
    in_parts(network, folder, probes=[spread], pace=2 * PACE)
    return folder


def without_end(part: Path, rng: random.Random) -> None:
    """Truncate a file at a random position, as an interrupted copy would."""
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
            run = merge_parts(made, agents, folder, [spread])
        except NetsimError as error:
            says = str(error)
            assert "\n" not in says
            named = (
                "must be whole; others have frames",
                "must hold the journals of all processes",
                "must be a journal of a process",
            )
            seen.add(next(each for each in named if each in says))
        else:
            # All frames that the part sent are present; the last ones that it received may be missing.
            conserved(run)
            seen.add("missing" if run.ledger.table()["missing"].sum() else "nothing missing")
    assert "must be whole; others have frames" in seen


@pytest.mark.parametrize("byte", [0, 4, 8, 12, 16], ids=["size", "what", "body's", "head's", "body"])
def test_a_damaged_entry_is_named(byte: int, journals: Path, tmp_path: Path) -> None:
    """If damage in the middle of a file went unnoticed, the entries after it would be dropped silently."""
    folder = tmp_path / "parts"
    shutil.copytree(journals, folder)
    part = sorted((folder / "run-0").glob("*.journal"))[0]
    sizes = [len(entry(what, msgpack.packb(content))) for what, content in entries(part)]
    place = part.stat().st_size - sum(sizes[len(sizes) // 2 :])
    data = bytearray(part.read_bytes())
    data[place + byte] ^= 1
    part.write_bytes(data)
    made, agents = network()
    with pytest.raises(BadInput) as refused:
        merge_parts(made, agents, folder, [spread])
    assert str(refused.value) == f"file = {str(part)!r}: must be unchanged; the entry at byte {place} is damaged"


def test_a_journal_that_is_cut_off_gives_its_first_entries(journals: Path, tmp_path: Path) -> None:
    part = sorted((journals / "run-0").glob("*.journal"))[0]
    whole, data = list(entries(part)), part.read_bytes()
    cut = tmp_path / "cut"
    for left in (0, 5, 20, len(data) // 2, len(data) - 1):
        cut.write_bytes(data[:left])
        found = list(entries(cut))
        assert found == whole[: len(found)]
        assert len(found) < len(whole)
    # Files of the previous format version are refused, too.
    for other in (b"another file", b"netsim journal 2\n" + data[17:]):
        cut.write_bytes(other)
        with pytest.raises(NetsimError, match=r"must be a journal of a process, written by this netsim$"):
            list(entries(cut))


def test_gathering_names_what_is_wrong(journals: Path, tmp_path: Path) -> None:
    made, agents = network()
    with pytest.raises(BadInput, match="must hold the journals of run 1; there are none"):
        merge_parts(made, agents, journals, run=1)
    with pytest.raises(BadInput, match="there are none"):
        merge_parts(made, agents, tmp_path)
    other = Network(made.graph, seed=8, round_period=0.1)
    with pytest.raises(BadInput, match="must be of this network and these agents"):
        merge_parts(other, agents, journals)
    with pytest.raises(BadInput, match="run = -1"):
        merge_parts(made, agents, journals, run=-1)


def test_a_journal_tells_states_rows_and_events(journals: Path) -> None:
    part = sorted((journals / "run-0").glob("*.journal"))[0]
    kinds = collections.Counter(what for what, _ in entries(part))
    # Each of the three agents has a state at the beginning, at each row and at the end; a busy machine may miss some
    # rows.
    assert kinds[ROW] > 1
    assert kinds[STATE] == 3 * (kinds[ROW] + 2)


short = partial(network, rounds=3)


def in_whole(folder: Path, peers: Any) -> None:
    """Run two parts until both have ended."""
    for outcome in in_parts(short, folder, peers=peers, pace=PACE).values():
        assert isinstance(outcome, Run), outcome


def test_a_folder_of_two_deployments_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "_START_TOLERANCE", 0.2)
    peers = shares(addresses(2), range(12))
    for _ in range(2):
        in_whole(tmp_path, peers)
    made, agents = short()
    with pytest.raises(BadInput, match="are of two, which started at different times: give each deployment its own"):
        merge_parts(made, agents, tmp_path)


def test_a_part_that_is_there_twice_is_refused(journals: Path, tmp_path: Path) -> None:
    """The entries of the duplicate part would be counted twice."""
    folder = tmp_path / "parts"
    shutil.copytree(journals, folder)
    part = sorted((folder / "run-0").glob("*.journal"))[0]
    shutil.copy(part, part.with_name("002-7.journal"))
    made, agents = network()
    with pytest.raises(BadInput, match=rf"002-7.journal': must be there once; {part.name} is the same journal$"):
        merge_parts(made, agents, folder)


def test_parts_of_two_deployments_are_not_put_together(tmp_path: Path) -> None:
    """The set of processes is complete, but they come from different deployments."""
    peers, mixed = shares(addresses(2), range(12)), tmp_path / "mixed" / "run-0"
    mixed.mkdir(parents=True)
    for number in range(2):
        in_whole(tmp_path / str(number), peers)
        (part,) = (tmp_path / str(number) / "run-0").glob(f"{number:03d}-*.journal")
        shutil.copy(part, mixed)
    made, agents = short()
    with pytest.raises(BadInput, match=r"must hold the journals of one run; '.*' ran with another process '.*' than"):
        merge_parts(made, agents, tmp_path / "mixed")
