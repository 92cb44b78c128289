"""CoAP by aiocoap over frames: requests are answered once, whole and in order, or time out; equal runs are equal."""

import asyncio
import collections
import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable, Coroutine, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import netsim
from netsim import BadInput, Link, Mote, Network, Part, Radio
from netsim.agents import RPL, ContikiMAC, XMac
from netsim.faults import ClockSkew, Crash
from tests.command import ROOT
from tests.netsim.export.test_export import needs_tshark, tshark
from tests.parts import free_port, slow

aiocoap = pytest.importorskip("aiocoap", reason="no aiocoap: pip install '.[test]'")

from aiocoap import GET, PUT, Message, error, resource  # noqa: E402
from aiocoap.numbers import ACK, NON  # noqa: E402
from aiocoap.numbers.constants import TransportTuning  # noqa: E402

from netsim.agents.protocols.coap import CoAP  # noqa: E402

LINK = Link(rate=250e3, header_bits=136)
ACKS = Radio(acks=True)
"""A radio whose MAC layer repeats frames: at a loss of 30 %, at most one CoAP message in a hundred is lost."""
BODY = bytes(range(256)) * 16
MAX_TRANSMIT_WAIT = 93.0  # RFC 7252, 4.8.2


class Patient(TransportTuning):  # type: ignore[misc]
    """A CoAP endpoint with twenty transmissions: at a loss of 0.3 each way, all fail once in 700,000 exchanges."""

    MAX_RETRANSMIT, ACK_TIMEOUT = 19, 0.1
    MAX_TRANSMIT_SPAN = MAX_TRANSMIT_WAIT = 60.0


class Counter(resource.ObservableResource):
    """A resource whose value is the number of its changes; it stores the payloads of PUT requests."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.puts, self.rendered = 0, list[bytes](), 0

    async def render_get(self, request: Any) -> Any:
        self.rendered += 1
        return Message(payload=str(self.value).encode())

    async def render_put(self, request: Any) -> Any:
        self.puts.append(request.payload)
        return Message(code=aiocoap.CHANGED)

    def change(self) -> None:
        self.value += 1
        self.updated_state()


class Body(resource.Resource):
    async def render_get(self, request: Any) -> Any:
        return Message(payload=BODY)


class Short(resource.Resource):
    async def render_get(self, request: Any) -> Any:
        return Message(payload=BODY[:512])


class Slow(resource.Resource):
    async def render_get(self, request: Any) -> Any:
        await asyncio.sleep(5)
        return Message(payload=b"at last")


class Changes(Part):
    """Changes the counter every ``period`` seconds."""

    def __init__(self, counter: Counter, period: float = 10.0) -> None:
        self.counter, self.period = counter, period

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.period)
            self.counter.change()


class Does(Part):
    """Runs a job with the CoAP context, and stores its results in ``found``."""

    def __init__(self, job: Callable[["Does"], Coroutine[Any, Any, None]]) -> None:
        self.job, self.found = job, list[Any]()

    async def run(self) -> None:
        await self.job(self)

    @property
    def coap(self) -> Any:
        return self.mote.coap

    async def get(self, uri: str = "coap://0/n", **more: Any) -> bytes:
        """Return the payload of a response, or raise an error."""
        response = await self.coap.context.request(Message(code=GET, uri=uri, **more)).response
        assert response.code.is_successful(), response.code
        return bytes(response.payload)


def server(period: float = 10.0) -> Mote:
    site, counter = resource.Site(), Counter()
    for name, each in {"n": counter, "body": Body(), "slow": Slow()}.items():
        site.add_resource([name], each)
    return Mote(coap=CoAP(site), app=Changes(counter, period))


def client(job: Callable[[Does], Coroutine[Any, Any, None]]) -> Mote:
    return Mote(coap=CoAP(), app=Does(job))


def play(motes: Any, *, loss: float = 0.0, until: float = 300.0, medium: Any = None, **options: Any) -> Any:
    link = LINK.with_loss(netsim.loss.bernoulli(loss)) if loss else LINK
    graph = options.pop("graph", nx.complete_graph(list(motes)))
    network = Network(graph, link, medium=medium or Radio(), seed=options.pop("seed", 4), **options)
    return network.run(motes, until=until, trace=True)


async def transfer(self: Does) -> None:
    """Get 4 kB block-wise, and then put them back."""
    self.found.append(await self.get("coap://0/body", transport_tuning=Patient()))
    request = Message(code=PUT, uri="coap://0/n", payload=BODY, transport_tuning=Patient())
    self.found.append((await self.coap.context.request(request).response).code)


async def observe(self: Does) -> None:
    request = self.coap.context.request(Message(code=GET, uri="coap://0/n", observe=0))
    self.found.append(int((await request.response).payload))
    async for notification in request.observation:
        self.found.append(int(notification.payload))


def test_a_body_of_4096_bytes_arrives_whole_in_blocks_at_30_percent_loss() -> None:
    motes = {0: server(1000.0), 1: client(transfer)}
    run = play(motes, loss=0.3, until=4000.0)
    assert motes[1].app.found == [BODY, aiocoap.CHANGED]
    assert motes[0].app.counter.puts == [BODY]
    sent = run.ledger.table(by=["kind"]).set_index("kind").loc["coap"]
    assert sent["delivered"] >= 2 * 2 * len(BODY) / 64
    assert 0.25 < sent["lost"] / (sent["lost"] + sent["delivered"]) < 0.35


def test_a_replay_shows_messages_in_words_and_open_requests() -> None:
    async def ask(self: Does) -> None:
        await self.coap.context.request(Message(code=GET, uri="coap://0/n")).response

    motes = {0: server(1000.0), 1: client(ask)}
    run = play(motes, until=30.0)
    assert {*run.trace.texts} == {"CON GET n", "ACK 2.05 Content"}
    mine = run.states[run.states["agent"] == 1]
    assert mine["coap.requests"].max() == 1
    assert mine["coap.requests"].iloc[-1] == 0


def test_notifications_arrive_in_order_at_30_percent_loss() -> None:
    motes = {0: server(), 1: client(observe)}
    play(motes, loss=0.3, until=600.0, medium=ACKS)
    found = motes[1].app.found
    assert found == sorted(set(found))
    assert len(found) > 40
    assert found[-1] >= 57


def test_runs_repeat_to_the_byte() -> None:
    """Runs repeat although aiocoap keeps observers in a set, because it draws from the node's own generator."""
    hashes = set()
    for _ in range(3):
        motes = {0: server()} | {node: client(observe) for node in range(1, 8)}
        run = play(motes, loss=0.3, until=100.0, medium=ACKS)
        hashes.add((run.trace_hash, str([motes[node].app.found for node in range(1, 8)])))
    assert len(hashes) == 1
    motes = {0: server()} | {node: client(observe) for node in range(1, 8)}
    assert play(motes, loss=0.3, until=100.0, medium=ACKS, seed=5).trace_hash not in {trace for trace, _ in hashes}


def test_observers_are_notified_in_the_order_in_which_they_came() -> None:
    async def later(self: Does) -> None:
        await asyncio.sleep(0.5 * self.name)
        await observe(self)

    motes = {0: server(30.0)} | {node: client(later) for node in range(1, 12)}
    run = play(motes, until=31.0)
    told = run.on_air[(run.on_air["sender"] == 0) & (run.on_air["start_s"] >= 30.0)]
    assert list(told["receiver"])[:11] == list(range(1, 12))


def test_a_request_without_an_answer_ends_within_max_transmit_wait() -> None:
    """RFC 7252, 4.2: there are five transmissions; the first pause takes 2 to 3 s, and each next one twice as long."""
    waits = []

    async def ask(self: Does) -> None:
        try:
            await self.get()
        except error.ConRetransmitsExceeded:
            waits.append(self.now)

    for seed in range(8):
        motes = {0: server(), 1: client(ask)}
        run = play(motes, loss=1.0, seed=seed)
        began = run.on_air["start_s"].to_numpy()
        assert len(began) == 5
        first = began[1] - began[0]
        assert 2.0 <= first <= 3.001
        assert began[4] - began[0] == pytest.approx(15 * first, abs=0.05)
        assert waits[-1] == pytest.approx(31 * first, abs=0.1)
    assert len(set(waits)) == 8
    assert max(waits) <= MAX_TRANSMIT_WAIT


def test_a_repeated_request_is_carried_out_once() -> None:
    """RFC 7252, 4.5: requests are repeated, because most of the server's acknowledgements are lost."""

    async def put(self: Does) -> None:
        for k in range(20):
            request = Message(code=PUT, uri="coap://0/n", payload=bytes([k]))
            with suppress(error.ConRetransmitsExceeded):
                await self.coap.context.request(request).response
                self.found.append(k)

    motes = {0: server(1e4), 1: client(put)}
    run = play(motes, loss=0.5, until=2000.0)
    puts = [each[0] for each in motes[0].app.counter.puts]
    assert len(puts) == len(set(puts))
    assert set(motes[1].app.found) <= set(puts)
    assert len(motes[1].app.found) >= 15
    assert len(run.on_air) > 60


def test_a_late_answer_comes_in_a_message_of_its_own() -> None:
    async def ask(self: Does) -> None:
        self.found += [await self.get("coap://0/slow"), round(self.now)]

    motes = {0: server(), 1: client(ask)}
    run = play(motes, until=60.0)
    assert motes[1].app.found == [b"at last", 5]
    assert list(run.on_air["sender"]) == [1, 0, 0, 1]  # the frames are GET, empty ACK, response and ACK


@pytest.mark.parametrize("keeps_state", [False, True])
def test_a_server_that_crashes_in_the_middle_answers_again(keeps_state: bool) -> None:
    """Blocks, an observation and a slow answer are in progress; each pending request ends or starts again."""

    async def insist(self: Does) -> None:
        watching = asyncio.create_task(observe(self))
        for uri in ("coap://0/body", "coap://0/slow") * 2:
            while True:
                try:
                    async with asyncio.timeout(MAX_TRANSMIT_WAIT):
                        self.found.append((self.now, len(await self.get(uri))))
                    break
                except (error.Error, TimeoutError, AssertionError) as why:
                    self.found.append((self.now, type(why)))
        watching.cancel()

    motes = {0: server(), 1: client(insist)}
    crash = Crash(0, at=2.0, until=40.0, keeps_state=keeps_state)
    run = play(motes, loss=0.3, until=2000.0, medium=ACKS, faults=[crash, Crash(0, at=60.0, until=61.0)])
    lengths = [what for _, what in (each for each in motes[1].app.found if isinstance(each, tuple))]
    assert [each for each in lengths if isinstance(each, int)] == [4096, 7, 4096, 7]
    assert run.ended_at == 2000.0
    assert motes[0].app.counter.value > 150  # the mote's other part restarted as well


def test_a_client_that_crashes_begins_again() -> None:
    async def ask(self: Does) -> None:
        self.found.append((await self.get("coap://0/body"), self.now))

    motes = {0: server(), 1: client(ask)}
    play(motes, loss=0.3, until=900.0, medium=ACKS, faults=[Crash(1, at=3.0, until=6.0)])
    [(body, at)] = motes[1].app.found
    assert body == BODY
    assert at > 6.0


def test_timers_of_a_crashed_node_are_over() -> None:
    async def ask(self: Does) -> None:
        if self.now == 0:
            await self.get()

    motes = {0: Mote(coap=CoAP()), 1: client(ask)}
    run = play(motes, loss=1.0, until=None, faults=[Crash(1, at=3.5, until=4.0)])
    assert run.on_air["start_s"].max() < 3.5
    assert run.ended_at == 4.0


def test_an_old_notification_is_told_from_a_new_one_by_simulated_time() -> None:
    """RFC 7641, 3.4: the lower sequence number is older, unless 128 s have passed."""

    class Server(Part):
        kinds = ("coap",)

        async def run(self) -> None:
            frame = await self.inbox.get()
            asked = Message.decode(frame.payload)
            for number, pause, kind, mid in (
                (5, 0, ACK, asked.mid),
                (3, 10, NON, 1),
                (4, 120, NON, 2),
                (6, 10, NON, 3),
            ):
                await asyncio.sleep(pause)
                said = Message(code=aiocoap.CONTENT, _mtype=kind, _mid=mid, _token=asked.token, observe=number)
                said.payload = str(number).encode()
                await self.send(frame.sender, "coap", said.encode())

    motes = {0: Mote(app=Server()), 1: client(observe)}
    play(motes, until=300.0)
    assert motes[1].app.found == [5, 4, 6]


# --- below it ---------------------------------------------------------------------------------------------------------


def over(below: Callable[[Any], dict[str, Any]], motes: dict[Any, Mote]) -> dict[Any, Mote]:
    """Return motes with the additional parts that ``below(node)`` returns."""
    return {node: Mote(**below(node), **mote.parts) for node, mote in motes.items()}


@pytest.mark.parametrize("mac", [slow(XMac), ContikiMAC])
def test_it_works_above_a_mac_layer(mac: Any) -> None:
    async def ask(self: Does) -> None:
        self.found += [await self.get(), await self.get("coap://0/body")]

    medium = Radio(acks=True, max_frame_retries=0, access="aloha")
    motes = over(lambda _: {"mac": mac()}, {0: server(1e4), 1: client(ask)})
    play(motes, loss=0.05, until=200.0, medium=medium, graph=nx.path_graph(2))
    assert motes[1].app.found == [b"0", BODY]


@pytest.mark.parametrize("names", [(0, 1, 2, 3), ("0", "1", "2", "3"), ((0, 0), (0, 1), (1, 0), (1, 1))])
@pytest.mark.parametrize("mode", ["storing", "non-storing"])
def test_over_rpl_all_nodes_ask_all(mode: str, names: Any) -> None:
    """The motes form a line of four, whose ends are three hops apart; the root is the second mote."""

    async def ask(self: Does) -> None:
        await asyncio.sleep(30)
        for node in names:
            if node != self.name:
                self.found.append(await self.get(self.coap.uri(node, "n")))

    def routed(node: Any) -> Mote:
        own = server().coap
        return Mote(routing=RPL(node == names[1], downward=mode, imin=0.5), coap=own, app=Does(ask))

    motes = {node: routed(node) for node in names}
    medium, graph = Radio(acks=True, max_frame_retries=0), nx.path_graph(names)
    play(motes, loss=0.1, until=150.0, medium=medium, graph=graph)
    assert all(mote.app.found == [b"0"] * 3 for mote in motes.values())
    assert not motes[names[1]].routing.heard
    assert not any(mote.routing.down.received for mote in motes.values())


def test_over_rpl_an_unknown_node_is_waited_for_and_readings_stay_readings() -> None:
    async def ask(self: Does) -> None:
        await asyncio.sleep(30)
        self.mote.routing.report(20.5)
        with pytest.raises(error.ConRetransmitsExceeded):
            await self.get("coap://nobody/n")
        self.found.append(self.now)

    def routed(node: int) -> Mote:
        return Mote(routing=RPL(node == 0, downward="storing", imin=0.5), coap=CoAP(), app=Does(ask))

    motes = {node: routed(node) for node in range(3)}
    play(motes, until=150.0, medium=Radio(acks=True, max_frame_retries=0), graph=nx.path_graph(3))
    assert all(30 + 62 <= mote.app.found[0] <= 30 + MAX_TRANSMIT_WAIT for mote in motes.values())
    assert [heard.value for heard in motes[0].routing.heard.values()] == [20.5] * 3


COMMENT, NOTE = "1048576", "4194304"
"""Wireshark's numbers for the severities of its expert information."""


class Notes(RPL):
    """Records the CoAP messages that its node sends."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, imin=0.5, **settings)
        self.sent = list[bytes]()

    def datagram(self, to: Hashable, payload: Any, *kind: str) -> bool:
        self.sent.append(payload)
        return super().datagram(to, payload, *kind)


def routed_run(mode: str, root: int, stack: netsim.SixLowpan | None) -> tuple[Any, dict[int, Any]]:
    """Run a line of four motes in which the first gets blocks from the last, puts blocks, and observes it."""

    async def ask(self: Does) -> None:
        await asyncio.sleep(30)
        self.found.append(await self.get("coap://3/log"))
        put = Message(code=PUT, uri="coap://3/n", payload=b"on")
        self.found.append((await self.coap.context.request(put).response).code)
        request = self.coap.context.request(Message(code=GET, uri="coap://3/n", observe=0))
        await request.response
        async for notification in request.observation:
            self.found.append(int(notification.payload))

    ends = {0: Mote(coap=CoAP(), app=Does(ask)), 1: Mote(coap=CoAP()), 2: Mote(coap=CoAP()), 3: server(30.0)}
    ends[3].coap.site.add_resource(["log"], Short())
    motes = over(lambda node: {"routing": Notes(node == root, downward=mode)}, ends)
    preset = netsim.presets.ieee802154(acks=True)
    link = preset.link.with_loss(netsim.loss.bernoulli(0.1))
    network = Network(nx.path_graph(4), link, medium=preset.radio, seed=4, stack=stack)
    return network.run(motes, until=130, trace=True), motes


@needs_tshark
@pytest.mark.parametrize(
    ("mode", "root"),
    [
        ("storing", 1),
        ("non-storing", 1),
        pytest.param("non-storing", 0, marks=pytest.mark.slow),
        pytest.param("storing", 3, marks=pytest.mark.slow),
    ],
)
def test_over_rpl_tshark_reads_each_message_on_all_hops(mode: str, root: int, tmp_path: Path) -> None:
    run, motes = routed_run(mode, root, netsim.SixLowpan(ports={"coap": 5683}))
    assert motes[0].app.found[:2] == [BODY[:512], aiocoap.CHANGED]
    assert motes[0].app.found[-1] == 4
    assert motes[0].app.found == routed_run(mode, root, None)[1][0].app.found
    columns = ["ipv6.src", "ipv6.dst", "ipv6.opt.smf_dpd.ident", "ipv6.hlim", "udp.srcport", "udp.dstport"]
    columns += ["udp.checksum", "udp.checksum.status", "ipv6.routing.segleft", "udp.payload"]
    columns += ["_ws.col.Protocol", "_ws.expert.severity"]
    flags = [word for column in columns for word in ("-e", column)]
    context = "-o", "6lowpan.context0:fd00::/64", "-o", "udp.check_checksum:TRUE"
    lines = tshark(run.export(tmp_path / "run.pcapng"), *context, "-T", "fields", *flags)
    every = [line.split("\t") for line in lines]
    # tshark reports comments, and notes about retransmissions, but no warnings and no errors.
    assert {(row[10], row[11]) for row in every} == {
        ("CoAP", COMMENT),
        ("CoAP", f"{COMMENT},{NOTE}"),
        ("ICMPv6", COMMENT),
        ("IEEE 802.15.4", COMMENT),
    }
    rows = [row for row in every if row[10] == "CoAP"]
    # The ledger's datagrams are the CoAP frames; all other frames on the air belong to RPL.
    on_air = collections.Counter(run.on_air["kind"])
    assert len(rows) == on_air["d"] + on_air["dg"]
    assert all(row[4:6] == ["5683", "5683"] and row[7] == "1" for row in rows)
    # Each datagram is tracked from origin to target, with hop limits from 64 down and one checksum.
    found: dict[tuple[str, str], list[list[str]]] = {}
    for row in rows:
        found.setdefault((row[0], row[2]), []).append(row)
    sent = {node: mote.routing.sent for node, mote in motes.items()}
    assert not sent[1]
    assert not sent[2]
    for node in (0, 3):
        ours = [each for (source, _), each in found.items() if source == f"fd00::ff:fe00:{node + 1}"]
        assert [bytes.fromhex(each[0][9]) for each in ours] == sent[node]
        assert all(len({(row[6], row[9]) for row in each}) == 1 for each in ours)
        assert collections.Counter(tuple(sorted({row[3] for row in each})) for each in ours) == {
            ("62", "63", "64"): len(ours)
        }
        for each in ours:
            last = [row for row in each if row[3] == "62"]
            assert {row[1] for row in last} == {f"fd00::ff:fe00:{4 - node}"}
    routed = {row[8] for row in rows}
    assert routed == ({""} if mode == "storing" else {"", "0", "1"} if root == 1 else {"", "0", "1", "2"})


@pytest.mark.slow
def test_a_client_in_a_process_of_its_own_asks_a_mote_over_the_border_router() -> None:
    """The script docs/examples/border_router.py runs over UDP on the loopback interface."""
    script, port = ROOT / "docs" / "examples" / "border_router.py", free_port()
    begin = f"import asyncio, runpy; script = runpy.run_path({str(script)!r}); "
    with subprocess.Popen([sys.executable, "-c", f"{begin}script['network_run']({port})"]) as network:
        try:
            ask = f"{begin}asyncio.run(script['client']({port}))"
            done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=300)
            assert network.poll() is None
        finally:
            network.kill()
    assert (done.stdout, done.stderr) == ("2.05 Content 21.5\n", "")


# --- whom, and what ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [7, -1, "sink", "Sink", "a.b.c", "10.0.0.1", "x/y", "a:b", "é €", (0, 1), ("a", 2), 2.5]
)
def test_a_node_is_asked_by_its_name(name: Any) -> None:
    async def ask(self: Does) -> None:
        assert await self.get(self.coap.uri(name, "n")) == b"0"
        assert await self.get(self.coap.uri(name, "n").replace("/n", ":5683/n")) == b"0"
        response = await self.coap.context.request(Message(code=GET, uri=self.coap.uri(name, "n"))).response
        assert response.get_request_uri() == self.coap.uri(name, "n")
        self.found.append(response.remote.node)

    motes = {name: server(), "asks": client(ask)}
    play(motes, until=9.0)
    assert motes["asks"].app.found == [name]


def test_the_name_is_the_address_and_does_not_travel() -> None:
    """A GET with a path of one letter has 4 bytes of header, 2 of token and 2 of option (RFC 7252, 3)."""
    heard = []

    class Hears(Part):
        kinds = ("coap",)

        async def run(self) -> None:
            heard.append((await self.inbox.get()).payload)

    async def ask(self: Does) -> None:
        await self.get("coap://server/n")

    play({"server": Mote(app=Hears()), 1: client(ask)}, until=1.0)
    message = heard.pop()
    assert type(message) is bytes
    assert (message[0], message[1], message[6:]) == (0x42, 0x01, b"\xb1n")
    assert len(message) == 8


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("coap://9/n", "node 1: no neighbour is named 9; its neighbours are 0, '0', 2"),
        ("coap://0/n", "node 1: 2 neighbours are named 0; its neighbours are 0, '0', 2"),
    ],
)
def test_who_is_no_neighbour_cannot_be_asked(uri: str, why: str) -> None:
    async def ask(self: Does) -> None:
        with pytest.raises(error.ResolutionError) as found:
            await self.get(uri)
        self.found.append(str(found.value))

    motes = {1: client(ask), 0: server(), "0": server(), 2: server()}
    play(motes, until=9.0)
    assert motes[1].app.found == [f"Name resolution error: {why}"]


def test_two_servers_are_asked_at_once() -> None:
    async def ask(self: Does) -> None:
        self.found += await asyncio.gather(*(self.get(f"coap://{k}/{what}") for what in ("n", "body") for k in (0, 2)))

    motes = {0: server(), 1: client(ask), 2: server()}
    play(motes, loss=0.3, until=90.0, medium=ACKS)
    assert motes[1].app.found == [b"0", b"0", BODY, BODY]


def test_a_hundred_requests_at_once_are_all_answered() -> None:
    async def ask(self: Does) -> None:
        self.found += await asyncio.gather(*(self.get() for _ in range(100)))

    motes = {0: server(1e4), 1: client(ask)}
    play(motes, loss=0.3, until=900.0, medium=ACKS)
    assert motes[1].app.found == [b"0"] * 100
    assert motes[0].app.counter.rendered == 100


def test_both_ask_each_other() -> None:
    async def ask(self: Does) -> None:
        self.found.append(await self.get(f"coap://{1 - self.name}/n"))

    motes: dict[int, Any] = {node: server() for node in (0, 1)}
    for node, mote in motes.items():
        motes[node] = Mote(coap=CoAP(mote.coap.site), app=Does(ask))
    play(motes, until=9.0)
    assert [mote.app.found for mote in motes.values()] == [[b"0"], [b"0"]]


def test_a_cancelled_observation_ends_at_both() -> None:
    async def some(self: Does) -> None:
        request = self.coap.context.request(Message(code=GET, uri="coap://0/n", observe=0))
        self.found.append(int((await request.response).payload))
        async for notification in request.observation:
            self.found.append(int(notification.payload))
            if len(self.found) == 3:
                break
        request.observation.cancel()

    motes = {0: server(), 1: client(some)}
    run = play(motes, until=300.0)
    assert motes[1].app.found == [0, 1, 2]
    assert not motes[0].app.counter._observations
    assert run.on_air["start_s"].max() < 41.0  # the next notification is answered by a reset (RFC 7641, 3.6)


def test_a_request_given_up_in_the_middle_leaves_nothing() -> None:
    async def ask(self: Does) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await self.get("coap://0/body")
        self.found.append(await self.get())

    motes = {0: server(), 1: client(ask)}
    play(motes, loss=0.4, until=300.0, medium=ACKS)
    assert motes[1].app.found == [b"0"]


@pytest.mark.parametrize("who", [0, 1])
def test_a_context_that_is_shut_down_in_the_middle_neither_answers_nor_waits(who: int) -> None:
    async def ask(self: Does) -> None:
        for _ in range(2):
            with pytest.raises(error.Error) as found:
                await self.get("coap://0/body")
            self.found.append(type(found.value))

    class Closes(Part):
        async def run(self) -> None:
            await asyncio.sleep(1.0)
            await self.mote.coap.context.shutdown()

    motes = {0: server(), 1: client(ask)}
    motes[who] = Mote(closes=Closes(), **motes[who].parts)
    play(motes, loss=0.4, until=300.0)
    assert motes[1].app.found == [error.ConRetransmitsExceeded if who == 0 else error.LibraryShutdown] * 2


def test_both_sizes_of_blocks_are_negotiated() -> None:
    for here, there in ((16, 64), (64, 16), (1024, 64), (16, 1024)):
        motes = {0: server(1e4), 1: client(transfer)}
        motes[0].coap.block, motes[1].coap.block = here, there
        run = play(motes, until=100.0)
        assert (motes[1].app.found, motes[0].app.counter.puts) == ([BODY, aiocoap.CHANGED], [BODY])
        assert len(run.on_air) >= 2 * (len(BODY) / min(here, there) + len(BODY) / max(here, there))


def test_a_node_can_be_copied_while_transfers_are_remembered() -> None:
    """With ``workers``, a node is pickled to another process and back."""
    motes = {0: server(1e4), 1: client(transfer)}
    play(motes, until=9.0)
    assert motes[0].coap.site._resources["n",]._block1._assemblies._items
    for mote in motes.values():
        copied = pickle.loads(pickle.dumps(mote.coap))
        assert copied.block == 64


def test_a_clock_that_runs_wrong_changes_nothing() -> None:
    motes = {0: server(), 1: client(transfer)}
    play(motes, loss=0.3, until=4000.0, faults=[ClockSkew(0, offset=1000.0, drift=1e-3), ClockSkew(1, drift=-1e-3)])
    assert motes[1].app.found == [BODY, aiocoap.CHANGED]


def test_a_node_without_a_mote_serves() -> None:
    class Server(CoAP):
        async def run(self) -> None:
            self.ended = False
            await super().run()
            self.ended = True

    async def ask(self: Does) -> None:
        self.found.append(await self.get())

    site = resource.Site()
    site.add_resource(["n"], Counter())
    motes: dict[int, Any] = {0: Server(site), 1: client(ask)}
    play(motes, until=None)
    assert motes[1].app.found == [b"0"]
    assert motes[0].ended
    assert motes[0].context is None


def test_garbage_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    class Shouts(Part):
        async def run(self) -> None:
            for payload in (None, 5, "x", [b"x"], b"", b"x", b"\x40\x01\x00"):
                await self.broadcast("coap", payload)
            for _ in range(400):
                payload = bytearray(self.rng.bytes(int(self.rng.integers(4, 24))))
                payload[0] = 0x40 | payload[0] & 0x3F
                await self.broadcast("coap", bytes(payload))
                await asyncio.sleep(0.05)

    async def ask(self: Does) -> None:
        for _ in range(40):
            self.found.append(await self.get())
            await asyncio.sleep(0.5)

    motes = {0: server(1e4), 1: client(ask), 2: Mote(app=Shouts())}
    play(motes, until=300.0)
    assert motes[1].app.found == [b"0"] * 40
    assert motes[0].coap.foreign["coap"] > 7


def test_without_aiocoap_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiocoap", None)
    monkeypatch.delitem(sys.modules, "netsim.agents.protocols.coap")
    line = r"^CoAP: must go with aiocoap, which is not installed: in netsim's clone, pip install '\.\[coap\]'$"
    with pytest.raises(BadInput, match=line):
        importlib.import_module("netsim.agents.protocols.coap")


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("block = 48: must be ", {"block": 48}),
        ("block = 8: must be ", {"block": 8}),
        ("site = 5: must be ", {"site": 5}),
    ],
)
def test_wrong_settings_are_refused(message: str, settings: Any) -> None:
    with pytest.raises(BadInput, match=message):
        CoAP(**settings)
