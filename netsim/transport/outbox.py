"""An agent's outbox: it encodes a message once and hands it to the links (docs/links.md walks through the stages).

The data path is agent → outbox (this module) → link → inbox → agent.
"""

import asyncio
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from netsim._former import former_names
from netsim.core import BroadcastPath, Frame
from netsim.core.broadcast_path import weighed
from netsim.core.framing import damaged, new_frame
from netsim.core.link_draws import LinkDraws
from netsim.core.records import CORRUPTED, LINK_DOWN, LOST, QUEUE_FULL, REFUSED, TO_ALL, Transmission
from netsim.errors import AgentError, RunOver
from netsim.links.link import Link
from netsim.transport.path import Bursts, Copies, Path
from netsim.transport.shared import Shared
from netsim.transport.transmitter import Departure, TxRequest, transmitters_of
from netsim.util import check, draws
from netsim.util.draws import Keys

if TYPE_CHECKING:
    from netsim.distributed.relay import RemoteEndpoint
    from netsim.radio.mac import Mac
    from netsim.transport.inbox import Inbox

__all__ = ["MAX_SENDS_PER_INSTANT", "Outbox", "Wiring"]

__getattr__ = former_names(__name__)

MAX_SENDS_PER_INSTANT = 100_000
"""Maximum messages per agent at one simulated time; more indicate a loop that never lets time pass."""

_CAUSES = {"refused": REFUSED, "queue_full": QUEUE_FULL}
_ACCEPTED = 0


@dataclass(frozen=True)
class Wiring:
    """One agent's outgoing links, in order.

    Attributes
    ----------
    inboxes : sequence of Inbox or RemoteEndpoint
        The destination of each link: a neighbour's inbox, or the endpoint of one in another process.
    receivers : sequence of int
        The neighbours' indices among all agents.
    first : int
        Index of the first of these links among all links of the network.
    keys : uint64 array, shape (links,)
        The links' keys.
    block : int
        The number of broadcasts whose outcomes are drawn at once.
    seed : int
        The network's seed.
    radio : Link or None
        On a radio, the settings of the agent's single transmitter.
    """

    links: Sequence[Link]
    neighbors: Sequence[Hashable]
    inboxes: "Sequence[Inbox | RemoteEndpoint]"
    receivers: Sequence[int]
    first: int
    keys: Keys
    block: int
    seed: int
    radio: Link | None


class Outbox:
    """Sends one agent's messages.

    Parameters
    ----------
    number : int
        The agent's number, its address on the wire.
    name : Hashable
        The agent's name.
    agents : sequence
        All agents' names, by number.
    mac : Mac, optional
        On a `netsim.Radio`, the MAC layer of the agent's node.

    Attributes
    ----------
    link_index_of : dict
        Each neighbour's index among the links.
    bursts : Bursts
        Bursts of jitter on the links.
    down : set of int
        The indices of the links that are cut.
    subscribers : dict
        Inboxes to notify (`Inbox.watch`) of each frame sent to them, by link index.
    """

    __slots__ = (
        "_agents",
        "_broadcast_path",
        "_fast_path_allowed",
        "_header_bits",
        "_kinds",
        "_last_send_time",
        "_mac",
        "_name",
        "_number",
        "_paths",
        "_sends_this_instant",
        "_shared",
        "_transmissions",
        "_transmitters",
        "_uses_fast_path",
        "_wiring",
        "bursts",
        "down",
        "link_index_of",
        "subscribers",
    )

    def __init__(
        self,
        shared: Shared,
        number: int,
        name: Hashable,
        wiring: Wiring,
        agents: Sequence[Hashable],
        mac: "Mac | None" = None,
    ) -> None:
        self._shared = shared
        self._number = number
        self._name = name
        self._wiring = wiring
        self._mac = mac
        self._agents = agents
        self._kinds: dict[str, int] = {}
        self._transmissions = 0
        self._sends_this_instant, self._last_send_time = 0, -1.0
        self.down: set[int] = set()
        self.bursts = Bursts()
        self._paths: dict[int, Path] = {}
        self._transmitters = transmitters_of(wiring.links, wiring.radio, shared.rounds.period, shared.rounds.offset)
        headers = {link.header_bits for link in wiring.links} if wiring.radio is None else {wiring.radio.header_bits}
        self._header_bits = min(headers, default=0)
        self._broadcast_path = BroadcastPath(
            shared.encoder,
            number,
            name,
            LinkDraws(wiring.links, wiring.keys, wiring.seed, wiring.block),
            [inbox.arrivals for inbox in wiring.inboxes],
            wiring.first,
            shared.tally,
            self._header_bits,
            wiring.radio is not None,
        )
        # Whether a broadcast needs only one row of link draws, so that it can use the fast path.
        self._fast_path_allowed = (
            not self._transmitters
            and mac is None
            and len(headers) <= 1
            and all(link.is_simple for link in {id(link): link for link in wiring.links}.values())
            and bool(wiring.links)
        )
        self._uses_fast_path = self._fast_path_allowed
        self.link_index_of = {neighbor: link_index for link_index, neighbor in enumerate(wiring.neighbors)}
        self.subscribers: dict[int, Inbox | RemoteEndpoint] = {}
        for link_index, inbox in enumerate(wiring.inboxes):
            inbox.watchers += (self.subscribers, link_index)

    def broadcast(self, kind: str, payload: Any, round_number: int, raw_data: bool) -> int:
        """Send to every neighbour; return how many links accepted the frame."""
        shared = self._shared
        rounds = shared.rounds
        now = shared.loop.now()
        if now == self._last_send_time or shared.looks or type(kind) is not str:
            self._check_and_count_send(kind, now)
        else:
            self._last_send_time, self._sends_this_instant = now, 1
        deadline = rounds.open_deadline if round_number == rounds.open_round else rounds.deadline(round_number)
        if now >= deadline and rounds.is_closing(round_number, now):
            round_number, deadline = 0, math.inf
        kind_id = self._kinds.get(kind)
        if kind_id is None:
            kind_id = self._kind_id(kind)
        if self._uses_fast_path:
            number = self._transmissions
            taken = self._broadcast_path.broadcast(
                now, number, kind_id, kind, round_number, payload, raw_data, deadline
            )
            self._transmissions = number + 1
        else:
            taken = self._offer_all(now, kind_id, kind, round_number, payload, raw_data)
        if self.subscribers:
            for link_index in sorted(self.subscribers):
                self.subscribers[link_index].watch()
        return taken

    def send(
        self,
        to: Hashable,
        kind: str,
        payload: Any,
        round_number: int,
        raw_data: bool,
        request: int | None = None,
        is_reply: bool = False,
        outcome: asyncio.Future[bool] | None = None,
        sequence: int = 0,
    ) -> bool:
        """Send to one neighbour; return whether the link accepted the frame.

        On a `netsim.Radio`, the result of ``outcome`` is set to whether the frame was acknowledged.
        """
        shared, link_index = self._shared, self.link_index_of[to]
        now = shared.loop.now()
        self._check_and_count_send(kind, now)
        if round_number and shared.rounds.is_closing(round_number, now):
            round_number = 0
        kind_id = self._kinds.get(kind)
        if kind_id is None:
            kind_id = self._kind_id(kind)
        data = shared.encoder.encode(kind, self._number, round_number, payload, request, is_reply, sequence)
        frame = new_frame(kind, self._name, round_number, now, data, payload, request, is_reply, sequence)
        taken = self._offer(now, kind_id, frame, (link_index,), payload, raw_data, outcome=outcome) > 0
        if link_index in self.subscribers:
            self.subscribers[link_index].watch()
        return taken

    @property
    def sent(self) -> int:
        """The number of messages sent so far."""
        return self._transmissions

    @property
    def kinds(self) -> Iterable[str]:
        """The kinds of message sent so far, in the order of their first use."""
        return self._kinds

    @property
    def acknowledges(self) -> bool:
        """Whether the link layer acknowledges frames to one neighbour."""
        return self._mac is not None and self._mac.acknowledges

    def set_link(self, to: Hashable, up: bool) -> None:
        """Take down or restore the link to a neighbour."""
        (self.down.discard if up else self.down.add)(self.link_index_of[to])
        self._choose_path()

    def skip_numbers(self, count: int) -> None:
        """Continue from transmission number ``count`` or later, since an earlier process may have used lower ones."""
        self._transmissions = max(self._transmissions, count)

    def disable_fast_path(self) -> None:
        """Disable the fast broadcast path, because receivers' rounds may close at different times."""
        self._fast_path_allowed = False
        self._choose_path()

    def begin_jitter(self, link_index: int, number: int, most: float) -> None:
        """Begin a burst of jitter (up to ``most`` s) on a link; ``number`` is the fault's index in the script."""
        wiring = self._wiring
        key = draws.stream_keys(wiring.seed, wiring.keys[link_index : link_index + 1], f"jitter {number}")
        self.bursts.begin(link_index, number, most, draws.Stream(int(key[0])), wiring.links[link_index].fifo)
        self._choose_path()

    def end_jitter(self, link_index: int, number: int) -> None:
        """End a burst of jitter."""
        self.bursts.end(link_index, number)
        self._choose_path()

    def _choose_path(self) -> None:
        self._uses_fast_path = self._fast_path_allowed and not (self.down or self.bursts.matter)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _check_and_count_send(self, kind: str, now: float) -> None:
        """Raise AgentError if the run is over or the agent sends too often; report the send to the watcher."""
        if type(kind) is not str:
            raise check.refuse("kind", kind, "a str")
        if self._shared.over:
            raise RunOver(f"agent {self._name!r} cannot send {kind!r}: the run is over and its counts are final")
        if now != self._last_send_time:
            self._last_send_time, self._sends_this_instant = now, 0
        self._sends_this_instant += 1
        if self._sends_this_instant > MAX_SENDS_PER_INSTANT:
            raise AgentError(
                f"agent {self._name!r} sent {MAX_SENDS_PER_INSTANT:,} messages at one instant: "
                "it must let simulated time pass in between"
            )
        if self._shared.on_send is not None:
            self._shared.on_send(self._name)

    def _kind_id(self, name: str) -> int:
        """Return the id of a kind of message."""
        number = self._kinds[name] = self._shared.tally.kind(name)
        return number

    def _frame_key(self, link_index: int, number: int) -> int:
        return (self._wiring.first + link_index << self._shared.tally.shift) + number

    # --- stages of one frame on one link ------------------------------------------------------------------------------

    def _offer_all(
        self,
        now: float,
        kind_id: int,
        kind: str,
        round_number: int,
        payload: Any,
        raw_data: bool,
        sequence: int = 0,
    ) -> int:
        """Offer a broadcast, with an optional sequence number, to each link; return how many links accepted it."""
        if not self._wiring.links:
            return 0
        data = self._shared.encoder.encode(kind, self._number, round_number, payload, sequence=sequence)
        frame = new_frame(kind, self._name, round_number, now, data, payload, sequence=sequence)
        return self._offer(now, kind_id, frame, range(len(self._wiring.links)), payload, raw_data, to_all=True)

    def _offer(
        self,
        now: float,
        kind_id: int,
        frame: Frame,
        link_indices: Sequence[int],
        payload: Any,
        raw_data: bool,
        to_all: bool = False,
        outcome: asyncio.Future[bool] | None = None,
    ) -> int:
        """Offer a frame to links, or to the shared medium, and count it; return how many links accepted it."""
        wiring, tally, on_radio = self._wiring, self._shared.tally, self._wiring.radio is not None
        number = self._transmissions
        self._transmissions += 1
        if self._mac is not None:
            # The medium counts the bits at transmission, because a sender cannot detect that a link is down.
            taken, wire = self._queue_at_mac(
                self._mac, now, TxRequest(number, kind_id, frame, link_indices, not to_all, outcome)
            )
        else:
            taken, wire = self._send_over_links(now, number, kind_id, frame, link_indices, to_all)
        bits, raw, clipped = weighed(payload, raw_data) if taken else (0, 0, 0)
        link, each = (TO_ALL, 0) if to_all else (wiring.first + link_indices[0], 0 if on_radio else wire)
        me, check_sum = self._number, crc32(frame.data)
        record = Transmission(now, number, kind_id, me, link, int(taken > 0), bits, raw, wire, clipped, each, check_sum)
        tally.sent(record, len(link_indices), frame.round, frame.is_reply)
        return taken

    def _send_over_links(
        self, now: float, number: int, kind_id: int, frame: Frame, link_indices: Sequence[int], to_all: bool
    ) -> tuple[int, int]:
        """Send a frame over each link separately; return the number of accepting links and the bits sent."""
        wiring, tally, size = self._wiring, self._shared.tally, len(frame.data)
        on_radio = wiring.radio is not None
        delays = self._broadcast_path.delays() if to_all else ()
        # A radio transmits once for all links, unless all links are down.
        once = self._transmit(now, None, size) if on_radio and not self.down.issuperset(link_indices) else None
        taken = wire = 0
        for link_index in link_indices:
            sent = once if once is not None and link_index not in self.down else self._transmit(now, link_index, size)
            if sent.cause:
                tally.ended(now, self._frame_key(link_index, number), kind_id, sent.cause)
                continue
            taken += 1
            if tally.keeps and (to_all or sent.start > now):
                tally.left(sent.start, self._frame_key(link_index, number), number, sent.bits)
            if delays and wiring.links[link_index].is_simple and len(sent.ends) == 1:
                copies = [(sent.ends[0] + delays[link_index], False)] if delays[link_index] >= 0.0 else []
            else:
                copies = self._path(link_index).carry(sent.ends)
            self._arrive(now, link_index, number, kind_id, frame, self.bursts.delayed(link_index, copies), sent)
            wire = sent.bits if on_radio else wire + sent.bits
            if to_all and not on_radio:
                tally.link_bits(wiring.first + link_index, kind_id, sent.bits)
        return taken, wire

    def _queue_at_mac(self, mac: "Mac", now: float, request: TxRequest) -> tuple[int, int]:
        """Pass a frame to the MAC layer; return the number of accepting links, and 0 since the MAC counts the bits."""
        cause = mac.take(request, now)
        if not cause:
            return len(request.link_indices), 0
        for link_index in request.link_indices:
            self._shared.tally.ended(now, self._frame_key(link_index, request.number), request.kind, cause)
        if request.outcome is not None:
            request.outcome.set_result(False)
        return 0, 0

    def _transmit(self, now: float, link_index: int | None, size: int) -> Departure:
        """Transmit a frame on a link or, if ``link_index`` is None, on the agent's radio."""
        if link_index in self.down:
            return Departure(LINK_DOWN, now, (), 0)
        transmitter = self._transmitters.get(link_index or 0)
        if transmitter is None:
            on_wires = link_index is not None and self._wiring.radio is None
            header = self._wiring.links[link_index or 0].header_bits if on_wires else self._header_bits
            return Departure(_ACCEPTED, now, (now,), 8 * size + header)
        fragments = transmitter.fragments(size)
        cause, start, ends = transmitter.accept(now, fragments)
        if cause:
            return Departure(_CAUSES[cause], now, (), 0)
        return Departure(_ACCEPTED, start, ends, sum(fragments))

    def _arrive(
        self, now: float, link_index: int, number: int, kind: int, frame: Frame, copies: Copies, sent: Departure
    ) -> None:
        """Put a frame's copies into the neighbour's inbox, or count why they are dropped."""
        wiring, tally = self._wiring, self._shared.tally
        key = self._frame_key(link_index, number)
        if not copies:
            tally.ended(now, key, kind, LOST)
        for copy, (time, corrupted) in enumerate(copies):
            if copy:
                # A second copy has its own number, because both may arrive at the same instant.
                key = self._frame_key(link_index, self._transmissions)
                self._transmissions += 1
                tally.duplicate(wiring.first + link_index, kind)
                if tally.keeps:
                    tally.left(sent.start, key, number, sent.bits)
            received = self._damaged(link_index, frame) if corrupted else frame
            if received is None:
                tally.ended(time, key, kind, CORRUPTED)
            else:
                wiring.inboxes[link_index].arrivals.push(time, key, kind, received)

    def _damaged(self, link_index: int, frame: Frame) -> Frame | None:
        """Return the frame as decoded with one flipped bit, or None if a CRC detects the corruption."""
        if self._wiring.links[link_index].crc:
            return None
        return damaged(frame, self._path(link_index).damaged_share(), self._agents)

    def _path(self, link_index: int) -> Path:
        path = self._paths.get(link_index)
        if path is None:
            wiring = self._wiring
            link = wiring.links[link_index]
            # On a simple link, LinkDraws uses the link's default random streams, so this path needs separate ones.
            purpose = "one by one " if link.is_simple else ""
            path = self._paths[link_index] = Path(link, wiring.keys[link_index : link_index + 1], wiring.seed, purpose)
        return path
