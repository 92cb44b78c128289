"""Networks with `netsim.SixLowpan`: protocols work unchanged, and tshark and scapy can read the bytes on the air."""

import asyncio
import copy
import random
import re
import struct
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar
from zlib import crc32

import networkx as nx
import pytest

import netsim
from netsim import BadInput, Mote, Network, Part, Radio, Run, SixLowpan, WireError, presets, topology
from netsim.agents import CTP, FTSP, RPL, ContikiMAC, Dissemination, Requests, Sampler
from netsim.agents.protocols.packets import RplPackets
from netsim.faults import Crash
from netsim.ipv6 import IPv6Stack
from netsim.testing import Actor, Listener
from tests.command import ROOT, on_the_other_core
from tests.netsim.export.test_export import complaints, needs_tshark, tshark
from tests.parts import only_with

PRESET = presets.ieee802154()
CONTEXT = ("-o", "6lowpan.context0:fd00::/64", "-o", "udp.check_checksum:TRUE")
FRAME_BYTES = 17
# The largest size on the air (bits) of a message that fits in one frame.
MOST_OF_ONE = 8 * 100


def network(graph: Any, *, loss: float = 0.0, stack: SixLowpan | None = None, **options: Any) -> Network:
    """Return a network of motes whose links are all equally good, without a physical-layer model."""
    radio = Radio(acks=True, max_frame_retries=options.pop("retries", 3))
    link = replace(PRESET.link, loss=loss)
    return Network(graph, link, medium=radio, stack=stack or SixLowpan(), seed=1, **options)


class Node(RPL):
    """Reports a reading every 10 s; the root sends commands, and its last command takes several frames."""

    async def work(self) -> None:
        for _ in range(8):
            await asyncio.sleep(10)
            if not self.is_sink:
                self.report([21.5, len(self.heard)])
            elif self.down is not None:
                for node in self.down.routes:
                    self.down.send(node, ["set", node, bytes(150 if self.now > 70 else 1)])


def rpl_run(mode: str | None, **options: Any) -> tuple[Run, dict[Any, Any]]:
    """Run RPL on a line of five motes, in which each mote is a child of the previous one."""
    agents = {name: Node(name == "a", downward=mode, imin=0.512) for name in "abcde"}
    line = nx.relabel_nodes(topology.path(5), dict(enumerate("abcde")))
    return network(line, **options).run(agents, until=90, trace=True), agents


@pytest.fixture(scope="module")
def runs() -> dict[str, tuple[Run, dict[Any, Any]]]:
    return {mode: rpl_run(mode, retries=0) for mode in ("storing", "non-storing")}


# --- exact both ways --------------------------------------------------------------------------------------------------


class Talks(Part):
    kinds: ClassVar[tuple[str, ...]] = ("x", "coap")


def stack_of(mode: str | None = "storing") -> IPv6Stack:
    motes = {name: Mote(routing=RPL(name == "a", downward=mode), app=Talks()) for name in "abcd"}
    return IPv6Stack(SixLowpan(ports={"coap": 5683}), motes, ("known",), 116)


def any_value(rng: random.Random) -> Any:
    return rng.choice([None, 1, -(2**40), 20.5, "text", b"bytes" * rng.randrange(60), [1, "a", None], {"a": (1, 2)}])


def any_datagram(rng: random.Random) -> list[Any]:
    """Return a random datagram value, of a kind with or without a port."""
    return [rng.choice("abcde"), rng.choice(["dg", "x", "coap", "d", "foo"]), rng.choice([b"raw", any_value(rng)])]


def any_message(rng: random.Random) -> tuple[str, Any]:
    """Return a random kind and payload, mostly in the format of RPL's messages."""
    route = rng.sample("bcd", rng.randrange(4))
    ends = rng.choice("abcd"), rng.choice("abcd"), rng.randrange(2 ** rng.choice([7, 20, 39, 60]))
    form = {
        "dis": None,
        "dio": rng.choice([list, tuple])([rng.choice([0, 15, 16, 143, 144, 2**30]), rng.randrange(0x10000)]),
        "dao": [ends[0], rng.choice([None, ends[1]]), ends[2]],
        "d": [
            ends[0],
            ends[2],
            rng.randrange(65),
            rng.randrange(0x10010),
            rng.randrange(5),
            rng.choice([any_value, any_datagram])(rng),
        ],
        "dg": [(route or "b")[-1], ends[2], rng.randrange(65), rng.choice([None, route[1:]]), any_datagram(rng)],
        "dn": [(route or "b")[-1], ends[2], rng.randrange(65), rng.choice([None, route[1:]]), any_value(rng)],
        "x": any_value(rng),
        "coap": rng.choice([b"", bytes(50), any_value(rng)]),
        "known": any_value(rng),
        "unknown": any_value(rng),
    }
    kind = rng.choice(list(form))
    return kind, form[kind] if rng.random() < 0.9 else any_value(rng)


@pytest.mark.parametrize("mode", [None, "storing", "non-storing"])
def test_what_arrives_is_what_was_sent(mode: str | None) -> None:
    rng, stack = random.Random(1), stack_of(mode)
    counts: Counter[str] = Counter()
    for _ in range(2000):
        kind, payload = any_message(rng)
        sender, to = rng.sample("abcd", 2)
        request: tuple[int, bool] | tuple[()] = (3, True) if rng.random() < 0.1 else ()
        extra = rng.choice([0, 0, 0, 7]), *request
        receiver = rng.choice([None, to])
        frame = stack.frame(kind, sender, extra[0], 1.5, payload, receiver, *request)
        ends = "abcd".index(sender) + 1, 0xFFFF if receiver is None else "abcd".index(to) + 1
        parts = list(frame.carried.parts(frame.data))
        assert stack.read(parts, *ends) == (kind, extra[0], payload, *(request or (None, False)))
        for each in (frame, frame.copy(), copy.deepcopy(frame), frame.received(None, 1.0)):
            assert (each.payload, each.kind, each.sender, each.data) == (payload, kind, sender, b"".join(parts))
            assert type(each.payload) is type(payload)
        assert max(map(len, parts)) <= 116
        counts[kind] += parts[0][0] >> 3 != 0b11000
    assert set(counts) == {"dis", "dio", "dao", "d", "dn", "dg", "x", "coap", "known", "unknown"}


def test_ports_are_by_kind_and_bytes_of_a_given_port_stand_alone() -> None:
    stack = stack_of()
    assert stack.ports == {"known": 61616, "d": 61617, "dn": 61618, "dg": 61619, "x": 61620, "coap": 5683}
    request = bytes.fromhex("41010007 2a 6051 74".replace(" ", ""))
    data = stack.frame("coap", "b", 0, 0.0, request, "a").data
    assert data[:7] == bytes.fromhex("7e33f016331633")
    assert data[9:] == request
    # Messages that are not bytes, have a round number or expect an answer are sent in full, on a separate port.
    for frame in (stack.frame("coap", "b", 0, 0.0, "text", "a"), stack.frame("x", "b", 1, 0.0, None, "a")):
        assert frame.data[:4] == bytes.fromhex("7e33f3ff")


# --- RPL --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["storing", "non-storing"])
def test_readings_and_commands_arrive_over_four_hops(mode: str, runs: Any) -> None:
    _, agents = runs[mode]
    assert len(agents["a"].heard) == sum(agent.taken for agent in agents.values()) == 4 * 8
    assert {each.hops for each in agents["a"].heard.values()} == {1, 2, 3, 4}
    heard = list(agents["e"].down.received.values())
    assert {each.hops for each in heard} == {4}
    assert heard[-1].value == ["set", "e", bytes(150)]


@needs_tshark
@pytest.mark.parametrize("mode", ["storing", "non-storing"])
def test_tshark_finds_nothing_wrong_and_counts_what_the_run_counts(mode: str, runs: Any, tmp_path: Path) -> None:
    run, _ = runs[mode]
    path = run.export(tmp_path / "run.pcapng")
    assert complaints(path, *CONTEXT) == []
    columns: tuple[str, ...] = (
        "icmpv6.code",
        "udp.dstport",
        "ipv6.src",
        "ipv6.dst",
        "ipv6.hlim",
        "icmpv6.rpl.opt.transit.parent",
    )
    columns = (*columns, "icmpv6.rpl.dio.dagid", "ipv6.routing.segleft", "wpan.frame_length", "udp.checksum.status")
    flags = [word for column in columns for word in ("-e", column)]
    rows = [
        dict(zip(columns, line.split("\t"), strict=True)) for line in tshark(path, *CONTEXT, "-T", "fields", *flags)
    ]
    # A datagram is complete with its last frame. If the first frame is full, that is the second of two.
    on_air = run.on_air
    is_part = (on_air["bits"] > MOST_OF_ONE) & (on_air["fragment"] == 0)
    assert is_part.sum() > 10
    whole = Counter(on_air[~is_part & (on_air["kind"] != "ack")]["kind"])
    codes = {"0": "dis", "1": "dio", "2": "dao"}
    assert {codes[code]: count for code, count in Counter(row["icmpv6.code"] for row in rows).items() if code} == {
        kind: whole[kind] for kind in codes.values() if whole[kind]
    }
    ports = Counter(row["udp.dstport"] for row in rows)
    assert (ports["61616"], ports["61617"]) == (whole["d"], whole["dn"])
    assert len(rows) == len(on_air)
    assert {row["icmpv6.rpl.dio.dagid"] for row in rows} == {"", "fd00::ff:fe00:1"}
    assert {row["udp.checksum.status"] for row in rows} == {"", "1"}
    of_far = [row for row in rows if row["ipv6.src"] == "fd00::ff:fe00:5"]
    assert {row["ipv6.hlim"] for row in of_far if row["udp.dstport"] == "61616"} == {"64", "63", "62", "61"}
    if mode == "non-storing":
        assert {row["ipv6.hlim"] for row in of_far if row["icmpv6.code"] == "2"} == {"64", "63", "62", "61"}
        parents = {row["ipv6.src"]: row["icmpv6.rpl.opt.transit.parent"] for row in rows if row["icmpv6.code"] == "2"}
        assert parents == {f"fd00::ff:fe00:{node}": f"fd00::ff:fe00:{node - 1}" for node in range(2, 6)}
        ways = {row["ipv6.routing.segleft"] for row in rows if row["udp.dstport"] == "61617"}
        assert ways == {"", "0", "1", "2", "3"}


@needs_tshark
def test_bits_on_the_air_are_those_of_the_frames_that_tshark_reads(runs: Any, tmp_path: Path) -> None:
    run, _ = runs["non-storing"]
    lengths = tshark(run.export(tmp_path / "run.pcapng"), "-T", "fields", "-e", "frame.len", "-e", "wpan-tap.length")
    # 6 bytes of preamble and length precede each frame; an acknowledgement itself has 5 bytes.
    bits = [8 * (int(each) - int(tap) + 6) for each, tap in (line.split("\t") for line in lengths)]
    assert bits == run.on_air["bits"].tolist()
    assert run.ledger.wire_bits == sum(bits)


def test_a_source_route_moves_on_as_rfc_6554_has_it() -> None:
    stack = stack_of("non-storing")
    frames = [
        stack.frame("dn", "a", 0, 0.0, ["d", 5, 0, ["c", "d"], "v"], "b"),
        stack.frame("dn", "b", 0, 0.0, ["d", 5, 1, ["d"], "v"], "c"),
        stack.frame("dn", "c", 0, 0.0, ["d", 5, 2, [], "v"], "d"),
    ]
    # At each hop: the segments left, and the last two bytes of the two addresses in the routing header (c d, b d, b c).
    for frame, (left, route) in zip(frames, ((2, "00030004"), (1, "00020004"), (0, "00020003")), strict=True):
        assert bytes.fromhex(f"03{left:02x}ee400000{route}00000000") in frame.data
    # The checksum covers the final destination, so it stays the same on all hops.
    assert len({frame.data[-7:] for frame in frames}) == 1


@only_with("scapy")
def test_scapy_writes_the_same_control_messages() -> None:
    from scapy.contrib import rpl
    from scapy.layers.inet6 import ICMPv6RPL

    motes = {name: RPL(name == "a", downward="non-storing") for name in "abc"}
    stack = IPv6Stack(SixLowpan(), motes, (), 116)
    packets = RplPackets(motes, stack)
    root, b, c = (f"fd00::ff:fe00:{number}" for number in (1, 2, 3))
    configuration = rpl.RPLOptDODAGConfig(
        DIOIntDoubl=8, DIOIntMin=12, DIORedun=10, MaxRankIncrease=1792, MinRankIncrease=256, OCP=1, DefLifetime=30
    )
    configuration.LifetimeUnit = 60
    prefix = rpl.RPLOptPIO(plen=64, L=0, A=1, R=0, prefix="fd00::")
    head = rpl.RPLDIO(RPLInstanceID=0, ver=241, rank=512, G=1, mop=1, prf=0, dtsn=0, dodagid=root)
    transit = rpl.RPLOptTIO(pathseq=7, pathlifetime=30, parentaddr=b)
    theirs = {
        ("dis", None, None): rpl.RPLDIS(),
        ("dio", None, (1, 512)): head / configuration / prefix,
        ("dao", "b", ("c", "b", 7)): rpl.RPLDAO(RPLInstanceID=0, D=0, daoseq=7)
        / rpl.RPLOptTgt(plen=128, prefix=c)
        / transit,
    }
    for code, ((kind, to, payload), message) in enumerate(theirs.items()):
        packet = packets.write(kind, "c", to, list(payload) if payload else None)
        assert packet is not None
        ours = packet.body[:2] + bytes(2) + packet.body[4:]
        assert ours == bytes(ICMPv6RPL(code=code, cksum=0) / message), kind


# --- datagrams --------------------------------------------------------------------------------------------------------


class Tells(Part):
    """Sends a datagram of each kind to all other nodes, and stores the datagrams that it receives."""

    kinds: ClassVar[tuple[str, ...]] = ("x", "coap")

    def __init__(self) -> None:
        self.heard = list[Any]()

    async def run(self) -> None:
        # Agents send one after the other, because collisions would lose some of the frames.
        await asyncio.sleep(20 * "bacd".index(self.name) + 20)
        for to in "abcd".replace(self.name, ""):
            for payload, *kind in SAID:
                assert self.mote.routing.datagram(to, payload, *kind)
                await asyncio.sleep(1)
        async for message in self.inbox:
            self.heard.append((message.sender, message.payload, message.kind))


class Keeps(RPL):
    """Stores the datagrams that have no kind."""

    def take_datagram(self, sender: Any, payload: Any) -> None:
        self.mote.app.heard.append((sender, payload))


SAID: list[Any] = [({"any": [1.5, None]},), ({"of": "x"}, "x"), (b"raw", "coap"), (bytes(200), "coap"), (5, "coap")]


@pytest.mark.parametrize("mode", ["storing", "non-storing"])
@pytest.mark.parametrize("stack", [None, SixLowpan(ports={"coap": 5683})])
def test_datagrams_reach_the_part_that_owns_their_kind(mode: str, stack: SixLowpan | None) -> None:
    motes = {name: Mote(routing=Keeps(name == "b", downward=mode, imin=0.5, queue=30), app=Tells()) for name in "abcd"}
    line = nx.relabel_nodes(topology.path(4), dict(enumerate("abcd")))
    Network(line, PRESET.link, medium=Radio(acks=True), stack=stack, seed=1).run(motes, until=120)
    for name, mote in motes.items():
        expected = [(sender, *said) for sender in "abcd".replace(name, "") for said in SAID]
        assert sorted(map(repr, mote.app.heard)) == sorted(map(repr, expected))
        assert not mote.foreign
        assert not mote.routing.foreign
        assert not mote.routing.heard


def test_datagrams_of_a_kind_that_nobody_owns_or_rpl_does_end_at_the_target() -> None:
    class Forges(Part):
        async def run(self) -> None:
            await asyncio.sleep(10)
            with pytest.raises(BadInput, match="kind = 'dao': must be a kind of another part"):
                self.mote.routing.datagram("a", 1, "dao")
            self.mote.routing.datagram("a", 1, "nobody's")
            forged = ["b", 10**6, 0, 300, 2, ["a", "dio", [0, 5]]]
            await self.mote.routing.deliver("a", "d", forged)

    motes = {"a": Mote(routing=RPL(True, downward="storing", imin=0.5)), "b": Mote(routing=RPL(downward="storing"))}
    motes["b"] = Mote(app=Forges(), **motes["b"].parts)
    network(nx.Graph([("a", "b")])).run(motes, until=20)
    assert motes["a"].foreign == {"nobody's": 1}
    assert motes["a"].routing.foreign == {"dio": 1}


# --- all of the rest --------------------------------------------------------------------------------------------------


class Doubles(Requests):
    def answer_to(self, sender: Any, value: Any) -> Any:
        return [sender, 2 * value]


class Asks(Part):
    """Sends a request to each neighbour."""

    def __init__(self) -> None:
        self.found = list[Any]()

    async def run(self) -> None:
        for node in self.neighbors:
            self.found.append(await self.mote.asks.ask(node, 21.5))


def test_other_parts_work_beside_it_and_stamped_frames_are_no_packets() -> None:
    image = bytes(range(256)) * 3
    agents: dict[int, Any] = {
        node: Mote(
            time=FTSP(5),
            routing=RPL(node == 0, imin=0.5),
            update=Dissemination(image if node == 0 else None),
            asks=Doubles(),
            asking=Asks(),
            app=Sampler(5.0),
        )
        for node in range(3)
    }
    run = network(topology.path(3)).run(agents, until=90, trace=True)
    assert all(mote.update.image == image for mote in agents.values())
    assert agents[2].time.is_synchronised
    assert agents[1].asking.found == [[1, 43.0]] * 2
    samples = {(origin, each.value[0]) for (origin, _), each in agents[0].routing.heard.items()}
    assert samples >= {(node, slot) for node in range(3) for slot in list(agents[node].app.taken)[:-1]}
    assert len(samples) > 15
    assert not any(mote.foreign for mote in agents.values())
    kinds = Counter(run.on_air["kind"])
    assert counted(run, lambda content: content[:1] == b"\x3f") == kinds[next(iter(FTSP.kinds))]


def counted(run: Run, holds: Any) -> int:
    """Return the number of frames on the air that contain the given bytes."""
    data = b"".join(part.tobytes() for part in run.trace.chunks("contents"))
    count = place = 0
    for rows in run.trace.chunks("on_air"):
        for size in rows["size"].tolist():
            count += holds(data[place : place + size])
            place += size
    return count


async def stamps(agent: Any) -> None:
    await asyncio.sleep(2.0)
    await agent.radio.transmit("x", [1], event=agent.now - 1.5)


def test_the_age_of_an_event_is_the_last_four_bytes_of_its_frame() -> None:
    run = network(nx.Graph([(0, 1)])).run({0: Actor(stamps), 1: Listener()}, trace=True)
    [data] = [part.tobytes() for part in run.trace.chunks("contents")]
    [start] = run.on_air["start_s"]
    assert struct.unpack("!I", data[-4:]) == (round((start - 0.5) * 1e6),)
    assert run.ledger.wire_bits == 8 * (len(data) + FRAME_BYTES)


async def tells(agent: Any) -> None:
    for number in range(100):
        await agent.broadcast("x", bytes([number]) * 300)
        await asyncio.sleep(1.0)


def test_a_lost_fragment_loses_the_datagram() -> None:
    run = network(nx.Graph([(0, 1)]), loss=0.3).run({0: Actor(tells), 1: (ear := Listener())}, trace=True, until=200)
    assert len(run.on_air) == 3 * 100
    # All three fragments of a datagram arrive with probability 0.7³ = 0.34.
    found = netsim.testing.counts(run)
    assert 20 <= found["delivered"] <= 50
    assert found["delivered"] + found["lost"] == 100
    assert all(payload == payload[:1] * 300 for payload in ear.payloads)


def test_a_message_in_a_round_arrives_in_its_round() -> None:
    rounds = {node: netsim.testing.Rounder(10) for node in range(2)}
    network(topology.path(2)).run(rounds)
    heard = [each for agent in rounds.values() for each in agent.heard]
    # Both nodes start at the same instant and sometimes draw the same back-off, so some frames collide.
    assert len(heard) > 10
    assert all(number == payload for number, _, payload in heard)


def fingerprints() -> str:
    """Return the hashes of two runs, and checksums of the frames that they sent."""
    stamped = network(nx.Graph([(0, 1)])).run({0: Actor(stamps), 1: Listener()}, trace=True)
    runs = rpl_run("non-storing", loss=0.1, faults=[Crash("c", at=40, until=50)])[0], stamped
    return repr([(run.trace_hash, [crc32(part.tobytes()) for part in run.trace.chunks("contents")]) for run in runs])


def test_both_cores_have_the_same_run() -> None:
    code = "from tests.netsim.ipv6.test_stack import fingerprints; print(fingerprints())"
    assert on_the_other_core(code).strip() == fingerprints()


# --- docs/ipv6.md -----------------------------------------------------------------------------------------------------


FROM_M2_TO_M3 = {
    "61 88 0b 73 6e 04 00 03 00": "MAC header: data, acknowledgement requested, number 11, PAN 0x6e73, to 4, from 3",
    "7c": "IPHC: traffic class and flow label are 0, the next header is compressed, the hop limit follows",
    "67": "addresses under context 0; two bytes of the source follow, the target's is that of the MAC header",
    "3e": "hop limit 62",
    "00 01": "the source ends in 1: m0",
    "e3 0e": "next: a routing header of 14 bytes, and after it another compressed header",
    "03 01 ee 20 00 00": "a source route with one segment left, without 14 bytes of each address; 2 bytes are padding",
    "00 02 00 03 00 05 00 00": "m1 and m2, where the packet has been, m4, and the padding",
    "f3 11": "UDP with the ports 61617 and 61617, four bits of each",
    "fa 1b": "UDP's checksum, the same on all hops",
    "92 04 a6 6c 65 64 20 6f 6e": 'msgpack: [4, "led on"]',
    "28 40": "frame check sequence",
}
"""The parts of the command's frame on its third hop, as defined by RFC 4944, 6282, 6554 and IEEE 802.15.4."""


@needs_tshark
def test_the_page_shows_what_tshark_prints(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "ipv6.md").read_text(encoding="utf-8")
    [script] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(script, "ipv6.md", "exec"), namespace)
    path = namespace["run"].export(tmp_path / "run.pcapng")
    shown = re.findall(r"^```console\n\$ (.*?)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(shown) == 2
    for command, printed in shown:
        done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout == printed
    frame = bytes.fromhex("".join(FROM_M2_TO_M3))
    assert f"{len(frame)} bytes" in page
    assert frame in path.read_bytes()
    assert complaints(path, *CONTEXT) == []


# --- refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"ports": {"a": 0}}, "ports['a'] = 0: must be a whole number from 1 to 65535"),
        ({"ports": {"a": 61616}}, "ports['a'] = 61616: must be outside 61440 to 61631, which other kinds have"),
        ({"ports": {"a": 7, "b": 7}}, "ports = {'a': 7, 'b': 7}: must be different for each kind"),
        ({"prefix": "fd00::/48"}, "prefix = 'fd00::/48': must be a /64 of IPv6, as fd00::/64"),
    ],
)
def test_settings_are_checked(settings: Any, text: str) -> None:
    with pytest.raises(BadInput, match=re.escape(text)):
        SixLowpan(**settings)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"medium": "wires"}, "must be left out unless medium is a netsim.Radio"),
        (
            {"link": presets.lora().link},
            "stack: needs frames of IEEE 802.15.4, as netsim.presets.ieee802154() has them",
        ),
        ({"link": replace(PRESET.link, mtu=None)}, "the link has header_bits = 136, mtu = None"),
        ({"link": replace(PRESET.link, crc=False)}, "stack: needs crc = True"),
        ({"link": replace(PRESET.link, reliability="nack")}, "reliability = 'nack': must be left out with a stack"),
    ],
)
def test_networks_without_its_frames_are_refused(options: Mapping[str, Any], text: str) -> None:
    given = {"link": PRESET.link, "medium": Radio(), "stack": SixLowpan(), **options}
    with pytest.raises(BadInput, match=re.escape(text)):
        Network(topology.path(2), **given)


@pytest.mark.filterwarnings("ignore:is_sink")
@pytest.mark.parametrize(
    ("agents", "text"),
    [
        (
            [Mote(mac=ContikiMAC(), routing=RPL(True)), RPL()],
            "agents[0]: must have no MAC layer of its own; ContikiMAC",
        ),
        ([RPL(True), RPL(True)], "stack: RPL must have one root, whose address names the DODAG; 2 are sinks"),
        ([RPL(True), CTP(True)], "stack: kind 'd' must be of one protocol; two have other packets for it"),
    ],
)
def test_agents_that_cannot_share_a_stack_are_refused(agents: list[Any], text: str) -> None:
    with pytest.raises(BadInput, match=re.escape(text)):
        network(topology.path(2)).run(dict(enumerate(agents)), until=1)


def test_what_is_too_long_is_refused_where_it_is_sent() -> None:
    with pytest.raises(WireError, match="a packet of 2,049 bytes: must be of at most 1,280"):
        stack_of().frame("x", "a", 0, 0.0, bytes(1998), None)
    with pytest.raises(WireError, match="118 bytes with an event must fit in a frame of 116, its age included"):
        stack_of().frame("x", "a", 0, 0.0, bytes(110), None, is_stamped=True)
