"""An agent's outbox: it encodes a message once and hands it to the links (docs/links.md walks through the stages).

agent → outbox → link → inbox → agent: you are at the outbox.
"""

import asyncio
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

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

__all__ = ["SENDS_AT_ONCE", "Outbox", "Wiring"]

SENDS_AT_ONCE = 100_000
"""How often an agent may send at one instant of simulated time. One that sends more never waits for anything."""

_CAUSES = {"refused": REFUSED, "queue_full": QUEUE_FULL}
_TAKEN = 0


@dataclass(frozen=True)
class Wiring:
    """Where one agent's frames go: its outgoing links in order.

    Attributes
    ----------
    inboxes : sequence of Inbox or RemoteEndpoint
        What takes the frames: a neighbour's inbox, or what stands for one that runs elsewhere.
    receivers : sequence of int
        The neighbours' numbers.
    first : int
        Number of the first of its links; the others follow.
    keys : uint64 array, shape (links,)
        The links' keys.
    block : int
        Broadcasts whose outcomes are drawn at a time.
    seed : int
        The network's.
    radio : Link or None
        On a radio, the settings of the agent's one transmitter.
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
    """Sends what one agent says.

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
    watching : dict
        Who wants to be told when something is on its way there, by link index.
    """

    __slots__ = (
        "_agents",
        "_at_once",
        "_header_bits",
        "_instant",
        "_kinds",
        "_mac",
        "_name",
        "_number",
        "_paths",
        "_plain",
        "_quick",
        "_shared",
        "_broadcast_path",
        "_transmissions",
        "_transmitters",
        "_wiring",
        "bursts",
        "down",
        "link_index_of",
        "watching",
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
        self._at_once, self._instant = 0, -1.0
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
        # Whether a broadcast needs no more than a row of its link draws.
        self._plain = (
            not self._transmitters
            and mac is None
            and len(headers) <= 1
            and all(link.is_simple for link in {id(link): link for link in wiring.links}.values())
            and bool(wiring.links)
        )
        self._quick = self._plain
        self.link_index_of = {neighbor: link_index for link_index, neighbor in enumerate(wiring.neighbors)}
        self.watching: dict[int, Inbox | RemoteEndpoint] = {}
        for link_index, inbox in enumerate(wiring.inboxes):
            inbox.watchers += (self.watching, link_index)

    def broadcast(self, kind: str, payload: Any, round_number: int, raw_data: bool) -> int:
        """Send to every neighbour; return how many links took the frame."""
        shared = self._shared
        rounds = shared.rounds
        now = shared.loop.now()
        if now == self._instant or shared.looks or type(kind) is not str:
            self._check(kind, now)
        else:
            self._instant, self._at_once = now, 1
        deadline = rounds.open_deadline if round_number == rounds.open_round else rounds.deadline(round_number)
        if now >= deadline and rounds.is_closing(round_number, now):
            round_number, deadline = 0, math.inf
        kind_id = self._kinds.get(kind)
        if kind_id is None:
            kind_id = self._kind(kind)
        if self._quick:
            number = self._transmissions
            taken = self._broadcast_path.broadcast(
                now, number, kind_id, kind, round_number, payload, raw_data, deadline
            )
            self._transmissions = number + 1
        else:
            taken = self._offer_all(now, kind_id, kind, round_number, payload, raw_data)
        if self.watching:
            for link_index in sorted(self.watching):
                self.watching[link_index].watch()
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
        """Send to one neighbour; return whether the link took the frame.

        On a `netsim.Radio` whether it was acknowledged is put into ``outcome``, if that is given.
        """
        shared, link_index = self._shared, self.link_index_of[to]
        now = shared.loop.now()
        self._check(kind, now)
        if round_number and shared.rounds.is_closing(round_number, now):
            round_number = 0
        kind_id = self._kinds.get(kind)
        if kind_id is None:
            kind_id = self._kind(kind)
        data = shared.encoder.encode(kind, self._number, round_number, payload, request, is_reply, sequence)
        frame = new_frame(kind, self._name, round_number, now, data, payload, request, is_reply, sequence)
        taken = self._offer(now, kind_id, frame, (link_index,), payload, raw_data, outcome=outcome) > 0
        if link_index in self.watching:
            self.watching[link_index].watch()
        return taken

    @property
    def sent(self) -> int:
        """How many messages it has sent: the number of the next one."""
        return self._transmissions

    @property
    def acknowledges(self) -> bool:
        """Whether the link layer acknowledges what is sent to one neighbour."""
        return self._mac is not None and self._mac.acknowledges

    def set_link(self, to: Hashable, up: bool) -> None:
        """Cut the link to a neighbour, or mend it."""
        (self.down.discard if up else self.down.add)(self.link_index_of[to])
        self._choose_path()

    def skip_numbers(self, count: int) -> None:
        """Leave the first so many numbers of transmissions to somebody who sent under the same name before."""
        self._transmissions = max(self._transmissions, count)

    def send_one_by_one(self) -> None:
        """Send each frame on its own: its receivers' rounds may close at other times than this agent's."""
        self._plain = False
        self._choose_path()

    def begin_jitter(self, link_index: int, number: int, most: float) -> None:
        """Let a burst of jitter (up to ``most`` seconds) begin on a link, the fault of this number in the script."""
        wiring = self._wiring
        key = draws.stream_keys(wiring.seed, wiring.keys[link_index : link_index + 1], f"jitter {number}")
        self.bursts.begin(link_index, number, most, draws.Stream(int(key[0])), wiring.links[link_index].fifo)
        self._choose_path()

    def end_jitter(self, link_index: int, number: int) -> None:
        """Let a burst of jitter end."""
        self.bursts.end(link_index, number)
        self._choose_path()

    def _choose_path(self) -> None:
        self._quick = self._plain and not (self.down or self.bursts.matter)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _check(self, kind: str, now: float) -> None:
        """Raise AgentError if the run is over, or if the agent never waits; tell who wants to know that it sends."""
        if type(kind) is not str:
            raise check.refuse("kind", kind, "a text (str)")
        if self._shared.over:
            raise RunOver(f"agent {self._name!r} cannot send {kind!r}: the run is over, and what it sent is counted")
        if now != self._instant:
            self._instant, self._at_once = now, 0
        self._at_once += 1
        if self._at_once > SENDS_AT_ONCE:
            raise AgentError(
                f"agent {self._name!r} sent {SENDS_AT_ONCE:,} messages at one instant: it must wait for something "
                "in between"
            )
        if self._shared.on_send is not None:
            self._shared.on_send(self._name)

    def _kind(self, name: str) -> int:
        """Return the number of a kind of message."""
        number = self._kinds[name] = self._shared.tally.kind(name)
        return number

    def _key(self, link_index: int, number: int) -> int:
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
        """Offer a broadcast, which may be numbered, to each link; return how many took it."""
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
        """Offer a frame to links, or to the shared medium, and count it; return how many links took it."""
        wiring, tally, on_radio = self._wiring, self._shared.tally, self._wiring.radio is not None
        number = self._transmissions
        self._transmissions += 1
        if self._mac is not None:
            # The medium counts what the frame costs on the air as it is sent; that a link is cut no sender can know.
            taken, wire = self._hand_over(
                self._mac, now, TxRequest(number, kind_id, frame, link_indices, not to_all, outcome)
            )
        else:
            taken, wire = self._carry(now, number, kind_id, frame, link_indices, to_all)
        bits, raw, clipped = weighed(payload, raw_data) if taken else (0, 0, 0)
        link, each = (TO_ALL, 0) if to_all else (wiring.first + link_indices[0], 0 if on_radio else wire)
        me, check_sum = self._number, crc32(frame.data)
        record = Transmission(now, number, kind_id, me, link, int(taken > 0), bits, raw, wire, clipped, each, check_sum)
        tally.sent(record, len(link_indices), frame.round, frame.is_reply)
        return taken

    def _carry(
        self, now: float, number: int, kind_id: int, frame: Frame, link_indices: Sequence[int], to_all: bool
    ) -> tuple[int, int]:
        """Send a frame over links one by one; return how many took it, and the bits sent."""
        wiring, tally, size = self._wiring, self._shared.tally, len(frame.data)
        on_radio = wiring.radio is not None
        delays = self._broadcast_path.delays() if to_all else ()
        # A radio sends once for all, unless every link is cut.
        once = self._leave(now, None, size) if on_radio and not self.down.issuperset(link_indices) else None
        taken = wire = 0
        for link_index in link_indices:
            sent = once if once is not None and link_index not in self.down else self._leave(now, link_index, size)
            if sent.cause:
                tally.ended(now, self._key(link_index, number), kind_id, sent.cause)
                continue
            taken += 1
            if tally.keeps and (to_all or sent.start > now):
                tally.left(sent.start, self._key(link_index, number), number, sent.bits)
            if delays and wiring.links[link_index].is_simple and len(sent.ends) == 1:
                copies = [(sent.ends[0] + delays[link_index], False)] if delays[link_index] >= 0.0 else []
            else:
                copies = self._path(link_index).carry(sent.ends)
            self._arrive(now, link_index, number, kind_id, frame, self.bursts.delayed(link_index, copies), sent)
            wire = sent.bits if on_radio else wire + sent.bits
            if to_all and not on_radio:
                tally.link_bits(wiring.first + link_index, kind_id, sent.bits)
        return taken, wire

    def _hand_over(self, mac: "Mac", now: float, request: TxRequest) -> tuple[int, int]:
        """Give a frame to the MAC layer; return how many links took it, and no bits yet."""
        cause = mac.take(request, now)
        if not cause:
            return len(request.link_indices), 0
        for link_index in request.link_indices:
            self._shared.tally.ended(now, self._key(link_index, request.number), request.kind, cause)
        if request.outcome is not None:
            request.outcome.set_result(False)
        return 0, 0

    def _leave(self, now: float, link_index: int | None, size: int) -> Departure:
        """Pass the transmitter of a link; without an index, that of the agent's radio."""
        if link_index in self.down:
            return Departure(LINK_DOWN, now, (), 0)
        transmitter = self._transmitters.get(link_index or 0)
        if transmitter is None:
            on_wires = link_index is not None and self._wiring.radio is None
            header = self._wiring.links[link_index or 0].header_bits if on_wires else self._header_bits
            return Departure(_TAKEN, now, (now,), 8 * size + header)
        fragments = transmitter.fragments(size)
        cause, start, ends = transmitter.accept(now, fragments)
        if cause:
            return Departure(_CAUSES[cause], now, (), 0)
        return Departure(_TAKEN, start, ends, sum(fragments))

    def _arrive(
        self, now: float, link_index: int, number: int, kind: int, frame: Frame, copies: Copies, sent: Departure
    ) -> None:
        """Put a frame's copies into the neighbour's inbox, or count why not."""
        wiring, tally = self._wiring, self._shared.tally
        key = self._key(link_index, number)
        if not copies:
            tally.ended(now, key, kind, LOST)
        for copy, (time, corrupted) in enumerate(copies):
            if copy:
                # A number of its own: two copies may arrive at the same instant.
                key = self._key(link_index, self._transmissions)
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
        """Return what a receiver makes of a frame with one bit flipped; None if it notices."""
        if self._wiring.links[link_index].crc:
            return None
        return damaged(frame, self._path(link_index).damage_place(), self._agents)

    def _path(self, link_index: int) -> Path:
        path = self._paths.get(link_index)
        if path is None:
            wiring = self._wiring
            link = wiring.links[link_index]
            # On a simple link the link draws have used this link's own streams.
            purpose = "one by one " if link.is_simple else ""
            path = self._paths[link_index] = Path(link, wiring.keys[link_index : link_index + 1], wiring.seed, purpose)
        return path
