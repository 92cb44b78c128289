"""A shared medium of IEEE 802.15.4 at 2.4 GHz by the rules of ns-3's lr-wpan: nodes 1, 2, … send to a sink.

An event simulation that shares no code with netsim. Times are whole nanoseconds, and powers are in milliwatts. Each
rule has a switch, so that tests can show its effect. Sources: IEEE Std 802.15.4-2006, 6.9.9, 7.5.1.4 and annex E;
ns-3.37, src/lr-wpan.
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

BIT, BYTE, UNIT, CCA, TURN = 4_000, 32_000, 320_000, 128_000, 192_000
LONG_SPACE, SHORT_SPACE, ACK_WAIT = 640_000, 192_000, 864_000
HEADER, MAC_BYTES, ACK_BYTES, SHORT_FRAME = 6, 11, 5, 18
MIN_BE, MAX_BE, BACKOFFS, RETRIES = 3, 5, 4, 3
# With ns-3's value of Boltzmann's constant, 290 K, 5 MHz; 10 dB above the sensitivity, which is −106.58 dBm.
NOISE_DBM = 30.0 + 10.0 * math.log10(1.3803e-23 * 290.0 * 5e6)
DETECTION_DBM, LOCK_DB = -96.58, -5.0
# Order of events at one instant: radio states and ends of channel assessments, then ends of signals, then starts.
STATE, END, BEGIN = 0, 1, 2


@dataclass(frozen=True)
class Rules:
    """Switches for the rules of the medium."""

    # "ns3": the power at a signal's start and at the assessment's end counts; "any": that at any time of the 128 µs.
    cca: str = "ns3"
    # When an interferer ends before the frame, its power is ignored back to the last start of any signal.
    forgets: bool = True
    # Interfering powers add up and errors are drawn bit by bit; otherwise any overlap destroys all its frames.
    sinr: bool = True
    # A receiver keeps the first frame that it can decode; otherwise the reception of each frame is decided separately.
    locks: bool = True
    spaces: bool = True
    # A frame that is 3 dB stronger than the frame under reception replaces it.
    takeover: bool = False
    # Acknowledgements have no address, so that a waiting node takes another node's as a failure of its own.
    strays: bool = True


@dataclass
class Counts:
    """Numbers of messages by outcome, and the sum of seconds from request to first reception."""

    requests: int = 0
    received: int = 0
    # Messages of node 0 included in these numbers.
    first: int = 0
    duplicates: int = 0
    acknowledged: int = 0
    access_failed: int = 0
    no_ack: int = 0
    delay_s: float = 0.0


@dataclass(eq=False)
class Signal:
    """A frame on the air, or an acknowledgement of one."""

    source: int
    number: int
    dsn: int
    size: int
    is_ack: bool = False


@dataclass(eq=False)
class Node:
    """The state of a node's radio and MAC."""

    radio: str = "RX"
    air: dict[Signal, float] = field(default_factory=dict)
    # Frames under reception, with start and whether they are damaged; with ``locks`` at most one.
    reading: dict[Signal, list[float]] = field(default_factory=dict)
    assesses: bool = False
    peak: float = 0.0
    queue: deque[int] = field(default_factory=deque)
    busy: bool = False
    waits: bool = False
    turn: int = 0
    tries: int = 0
    backoffs: int = 0


@lru_cache(maxsize=100_000)
def bit_error_rate(sinr: float) -> float:
    """Return O-QPSK's bit error rate: 8/15 · 1/16 · Σ_k (−1)^k C(16, k) exp(20 SINR (1/k − 1)), k = 2 … 16."""
    terms = ((-1) ** k * math.comb(16, k) * math.exp(20.0 * sinr * (1.0 / k - 1.0)) for k in range(2, 17))
    return min(1.0, max(0.0, 8.0 / 15.0 / 16.0 * math.fsum(terms)))


class Medium:
    """One simulation run."""

    def __init__(
        self,
        powers_dbm: Sequence[Sequence[float]],
        metres: Sequence[Sequence[float]],
        seed: int,
        *,
        payload: int,
        acks: bool,
        rate: float,
        seconds: float,
        rules: Rules,
        sinks: Sequence[int] = (),
    ) -> None:
        self.power = [[10.0 ** (each / 10.0) for each in row] for row in powers_dbm]
        self.delay = [[round(1e9 * each / 299_792_458) for each in row] for row in metres]
        self.noise, self.detection = 10.0 ** (NOISE_DBM / 10.0), 10.0 ** (DETECTION_DBM / 10.0)
        self.size, self.acks, self.rate, self.until, self.rules = payload + MAC_BYTES, acks, rate, seconds, rules
        self.sinks = sinks or [0] * len(metres)
        self.draw = np.random.default_rng(seed)
        self.nodes = [Node() for _ in powers_dbm]
        self.first_dsn = [int(each) for each in self.draw.integers(256, size=len(self.nodes))]
        self.counts = Counts()
        self.requested: list[list[int]] = [[] for _ in self.nodes]
        self.arrived: set[tuple[int, int]] = set()
        self.now = self.order = 0
        self.events: list[tuple[int, int, int, Callable[[], None]]] = []

    def run(self) -> Counts:
        """Run to the end; with a rate, continue until the frames in progress have ended."""
        for i in (node for node, sink in enumerate(self.sinks) if node != sink):
            first = self.draw.exponential(1.0 / self.rate) if self.rate else self.draw.uniform(0.0, 0.01)
            self.after(round(1e9 * first), STATE, lambda i=i: self.request(i))
        end = round(1e9 * (self.until + (5.0 if self.rate else 0.0)))
        while self.events and self.events[0][0] <= end:
            self.now, _, _, call = heapq.heappop(self.events)
            call()
        return self.counts

    def after(self, delay: int, what: int, call: Callable[[], None]) -> None:
        self.order += 1
        heapq.heappush(self.events, (self.now + delay, what, self.order, call))

    # --- the sender ---------------------------------------------------------------------------------------------------

    def request(self, i: int) -> None:
        if self.now >= 1e9 * self.until:
            return
        node = self.nodes[i]
        node.queue.append(len(self.requested[i]))
        self.requested[i].append(self.now)
        self.counts.requests += 1
        if self.rate:
            self.after(round(1e9 * self.draw.exponential(1.0 / self.rate)), STATE, lambda: self.request(i))
        if not node.busy:
            self.next(i)

    def next(self, i: int) -> None:
        node = self.nodes[i]
        node.busy = bool(node.queue)
        if node.busy:
            node.tries = 0
            self.contend(i)

    def contend(self, i: int) -> None:
        self.nodes[i].tries += 1
        self.nodes[i].backoffs = 0
        self.back_off(i)

    def back_off(self, i: int) -> None:
        exponent = min(MIN_BE + self.nodes[i].backoffs, MAX_BE)
        self.after(int(self.draw.integers(2**exponent)) * UNIT, STATE, lambda: self.assess(i))

    def assess(self, i: int) -> None:
        node = self.nodes[i]
        node.assesses = True
        node.peak = self.total(i) if self.rules.cca == "any" else 0.0
        self.after(CCA, STATE, lambda: self.assessed(i))

    def assessed(self, i: int) -> None:
        node = self.nodes[i]
        node.assesses = False
        locked = self.rules.locks and node.reading
        if not (locked or max(node.peak, self.total(i)) >= self.detection or node.radio != "RX"):
            node.radio = "SWITCH"
            number = node.queue[0]
            dsn = (self.first_dsn[i] + number) % 256
            self.after(TURN, STATE, lambda: self.send(i, Signal(i, number, dsn, self.size)))
            return
        node.backoffs += 1
        if node.backoffs <= BACKOFFS:
            self.back_off(i)
            return
        self.counts.access_failed += 1
        self.confirm(i, 0)

    def confirm(self, i: int, space: int) -> None:
        """End the current frame, and begin the next one after a spacing."""
        self.nodes[i].queue.popleft()
        self.nodes[i].turn += 1
        self.nodes[i].waits = False
        if not self.rate:
            self.request(i)
        self.after(space if self.rules.spaces else 0, STATE, lambda: self.next(i))

    def send(self, i: int, signal: Signal) -> None:
        self.nodes[i].radio = "TX"
        length = (HEADER + signal.size) * BYTE
        for j in range(len(self.nodes)):
            if j != i:
                self.after(self.delay[i][j], BEGIN, lambda j=j: self.begin(j, signal, self.power[i][j]))
                self.after(self.delay[i][j] + length, END, lambda j=j: self.end(j, signal))
        self.after(length, STATE, lambda: self.sent(i, signal))

    def sent(self, i: int, signal: Signal) -> None:
        node = self.nodes[i]
        node.radio = "SWITCH"
        self.after(TURN, STATE, lambda: setattr(node, "radio", "RX"))
        if signal.is_ack:
            return
        if not self.acks:
            self.counts.acknowledged += 1
            self.confirm(i, self.space(signal.size))
            return
        node.waits, turn = True, node.turn
        self.after(ACK_WAIT, STATE, lambda: self.again(i, turn))

    def space(self, size: int) -> int:
        return LONG_SPACE if size > SHORT_FRAME else SHORT_SPACE

    def again(self, i: int, turn: int) -> None:
        node = self.nodes[i]
        if turn != node.turn:
            return
        node.turn += 1
        node.waits = False
        if node.tries <= RETRIES:
            self.contend(i)
        else:
            self.counts.no_ack += 1
            self.confirm(i, 0)

    # --- the receiver -------------------------------------------------------------------------------------------------

    def total(self, j: int) -> float:
        return math.fsum(self.nodes[j].air.values())

    def begin(self, j: int, signal: Signal, power: float) -> None:
        node = self.nodes[j]
        self.survive(j)
        around = self.total(j)
        decodable = power / (around + self.noise) > 10.0 ** (LOCK_DB / 10.0)
        if self.rules.takeover and any(power > 2.0 * node.air[each] for each in node.reading):
            node.reading.clear()
        if node.radio == "RX" and decodable and not (self.rules.locks and node.reading):
            node.reading[signal] = [self.now, 0.0]
        node.air[signal] = power
        if not self.rules.sinr and around:
            for state in node.reading.values():
                state[1] = 1.0
        if node.assesses:
            node.peak = max(node.peak, self.total(j))

    def end(self, j: int, signal: Signal) -> None:
        node = self.nodes[j]
        if signal in node.reading or not self.rules.forgets:
            self.survive(j)
        del node.air[signal]
        state = node.reading.pop(signal, None)
        if state is not None and node.radio == "RX" and not state[1]:
            self.got(j, signal)

    def survive(self, j: int) -> None:
        """Draw whether the part of the frame since the last change of interference was received without error."""
        node = self.nodes[j]
        for signal, state in node.reading.items():
            power = node.air[signal]
            rate = bit_error_rate(power / (math.fsum((self.total(j), -power)) + self.noise))
            bits = math.ceil((self.now - state[0]) / BIT)
            state[0] = self.now
            if rate and self.draw.random() >= (1.0 - rate) ** bits:
                state[1] = 1.0

    def got(self, j: int, signal: Signal) -> None:
        if signal.is_ack:
            self.got_ack(j, signal)
        elif j == self.sinks[signal.source]:
            message = signal.source, signal.number
            self.counts.duplicates += message in self.arrived
            if message not in self.arrived:
                self.arrived.add(message)
                self.counts.received += 1
                self.counts.first += j == 0
                self.counts.delay_s += 1e-9 * (self.now - self.requested[signal.source][signal.number])
            if self.acks:
                self.nodes[j].radio = "SWITCH"
                ack = Signal(signal.source, signal.number, signal.dsn, ACK_BYTES, is_ack=True)
                self.after(TURN, STATE, lambda: self.send(j, ack))

    def got_ack(self, j: int, ack: Signal) -> None:
        node = self.nodes[j]
        if not node.waits or not (self.rules.strays or ack.source == j):
            return
        if ack.dsn == (self.first_dsn[j] + node.queue[0]) % 256:
            self.counts.acknowledged += 1
            self.confirm(j, self.space(self.size))
        else:
            self.again(j, node.turn)
