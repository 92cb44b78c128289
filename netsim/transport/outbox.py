"""An agent's outbox: it encodes a message once and passes the frame to the links (docs/links.md describes each step).

On the path agent → outbox → link → inbox → agent, this module is the outbox.
"""

import asyncio
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netsim.core import ArrivalQueue, BroadcastPath, Frame
from netsim.core.broadcast_path import Take
from netsim.core.delivery import Delivery
from netsim.core.link_draws import LinkDraws
from netsim.core.records import TO_ALL
from netsim.errors import AgentError, RunOver
from netsim.links.link import Link
from netsim.transport.path import Bursts
from netsim.transport.shared import Shared
from netsim.transport.sharing import SharedStages
from netsim.transport.stages import LinkStages
from netsim.transport.transmitter import Shift
from netsim.util import check, draws
from netsim.util.draws import Keys

if TYPE_CHECKING:
    from netsim.transport.inbox import Inbox, RemoteEndpoint

__all__ = ["MAX_SENDS_PER_INSTANT", "Outbox", "Wiring"]

MAX_SENDS_PER_INSTANT = 100_000
"""An agent that sends more messages than this at one simulated time is stopped: it probably never lets time pass."""


@dataclass(slots=True)
class Wiring:
    """One agent's outgoing links, in order.

    Attributes
    ----------
    inboxes : sequence of Inbox or RemoteEndpoint
        The destination of each link: the neighbour's inbox or, if the neighbour is in another process, an endpoint.
    receivers : sequence of int
        The neighbours' indices among all agents.
    first : int
        The index of the agent's first link in the network-wide order of links.
    keys : uint64 array, shape (links,)
        The key of each link, which selects the link's random streams.
    block : int
        The number of broadcasts for which delays and losses are drawn at a time.
    seed : int
        The network's seed.
    radio : Link or None
        On a radio, the settings of the agent's single transmitter.
    changed : dict or None
        For each link whose settings have changed: whether it was simple (`Link.is_simple`) when the run began, and
        whether its frames must be kept in order since then. None: no link has changed.
    """

    links: list[Link]
    neighbors: Sequence[Hashable]
    inboxes: "Sequence[Inbox | RemoteEndpoint]"
    receivers: Sequence[int]
    first: int
    keys: Keys
    block: int
    seed: int
    radio: Link | None
    changed: dict[int, tuple[bool, bool]] | None = None

    def began_simple(self, index: int) -> bool:
        """Return whether a link was simple (`Link.is_simple`) when the run began."""
        return self.links[index].is_simple if not self.changed or index not in self.changed else self.changed[index][0]

    def draws_together(self, index: int) -> bool:
        """Return whether `LinkDraws` draws the losses and delays of a link's broadcasts.

        This holds for links that were simple from the beginning. A link that became simple later keeps its separate
        streams: otherwise it would draw numbers for the second time.
        """
        if not self.changed or index not in self.changed:
            return self.links[index].is_simple
        began_simple, keeps_order = self.changed[index]
        return self.links[index].is_simple and began_simple and not keeps_order

    def change(self, index: int, link: Link) -> None:
        """Set the settings of a link."""
        before = self.links[index]
        if self.changed is None:
            self.changed = {}
        began_simple, keeps_order = self.changed.get(index, (before.is_simple, False))
        # With a shorter latency, new frames must not overtake frames in flight.
        keeps_order = keeps_order or (link.fifo and link.latency_model is not before.latency_model)
        self.changed[index], self.links[index] = (began_simple, keeps_order), link


@dataclass(slots=True, eq=False, repr=False)
class Outbox:
    """The outbox of one agent, which encodes, counts and sends its messages.

    Parameters
    ----------
    number : int
        The agent's number, which is its address on the wire.
    name : Hashable
        The agent's name.
    agents : sequence
        The names of all agents, indexed by number.
    take : callable, optional
        On a `netsim.Radio`, the method `Mac.take` of the agent's node, which accepts or rejects each frame.

    Attributes
    ----------
    acknowledges : bool
        Whether the link layer acknowledges frames to one neighbour.
    bursts : Bursts
        Faults that delay or lose single frames of the agent's links.
    down : set of int
        The indices of the links that are cut.
    subscribers : dict
        {link index: inbox whose `Inbox.watch` must be called after each frame sent to it}.
    """

    _shared: Shared
    _number: int
    _name: Hashable
    _wiring: Wiring
    _agents: Sequence[Hashable]
    _take: Take | None = None
    acknowledges: bool = False
    bursts: Bursts = field(default_factory=Bursts)
    down: set[int] = field(default_factory=set)
    subscribers: "dict[int, Inbox | RemoteEndpoint]" = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    _sends_this_instant: int = 0
    _last_send_time: float = -1.0
    _rounds_differ: bool = False
    # Created for the first frame that cannot take the fast path `_broadcast_path`; None before.
    _stages: LinkStages | SharedStages | None = None
    _link_index_of: dict[Hashable, int] | None = None
    _broadcast_path: BroadcastPath = field(init=False)
    # Whether any of the links has an end with a capacity.
    _shares: bool = field(init=False)
    _fast_path_allowed: bool = field(init=False)
    _uses_fast_path: bool = field(init=False)

    def __post_init__(self) -> None:
        shared, wiring, take = self._shared, self._wiring, self._take
        headers = {link.header_bits for link in self._transmitting()}
        self._broadcast_path = BroadcastPath(
            shared.encoder,
            self._number,
            self._name,
            LinkDraws(wiring.links, wiring.keys, wiring.seed, wiring.block),
            [inbox.arrivals for inbox in wiring.inboxes],
            wiring.first,
            shared.tally,
            min(headers, default=0),
            wiring.radio is not None,
            take,
        )
        ends = slice(wiring.first, wiring.first + len(wiring.links))
        self._shares = shared.sharing is not None and bool(shared.sharing.limited[ends].any())
        self._fast_path_allowed = self._can_use_fast_path()
        self._uses_fast_path = self._fast_path_allowed
        for link_index, inbox in enumerate(wiring.inboxes):
            inbox.watchers += (self.subscribers, link_index)

    def _transmitting(self) -> Sequence[Link]:
        """Return the settings of all transmitters: of the radio, or of the links, but only once if all are equal."""
        links, radio = self._wiring.links, self._wiring.radio
        return (links if len(set(map(id, links))) > 1 else links[:1]) if radio is None else [radio]

    def _can_use_fast_path(self) -> bool:
        """Return whether the fast path can carry broadcasts as long as no link is cut.

        It can on a MAC layer, and on links that only lose and delay frames and add headers of equal length.
        """
        wiring, transmitters = self._wiring, self._transmitting()
        links = range(len(wiring.links) if wiring.changed or len(set(map(id, wiring.links))) > 1 else 1)
        if not wiring.links or self._shares or self._rounds_differ:
            return False
        if self._take is not None:
            return self._shared.stack is None
        return (
            len({link.header_bits for link in transmitters}) <= 1
            and all(map(wiring.draws_together, links))
            and not any(link.has_port for link in transmitters)
        )

    def broadcast(self, kind: str, payload: Any, round_number: int, raw_data: bool) -> int:
        """Send a message to every neighbour; return how many links accepted the frame."""
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
        kind_id = self.kinds.get(kind)
        if kind_id is None:
            kind_id = self._kind_id(kind)
        if self._uses_fast_path:
            taken = self._broadcast_path.broadcast(now, kind_id, kind, round_number, payload, raw_data, deadline)
        elif self._wiring.links or self._take is not None:
            # A radio transmits even if no neighbour can hear it.
            frame = self._frame(None, now, kind, round_number, payload)
            taken = self._offer(kind_id, frame, payload, raw_data, deadline=deadline)
        else:
            taken = 0
        # A MAC layer calls `watch` itself when a frame arrives.
        if self._take is None and self.subscribers:
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
        outcome: asyncio.Future[Delivery] | None = None,
        sequence: int = 0,
    ) -> bool:
        """Send a message to one neighbour; return whether the link accepted the frame.

        On a `netsim.Radio`, the result of ``outcome`` is set to a `Delivery` once it is known.
        """
        link_index = self.link_index_of[to]
        now, kind_id, round_number, deadline = self._begin(kind, round_number)
        frame = self._frame(to, now, kind, round_number, payload, request, is_reply, sequence)
        taken = self._offer(kind_id, frame, payload, raw_data, link_index, deadline, outcome) > 0
        if self._take is None and link_index in self.subscribers:
            self.subscribers[link_index].watch()
        return taken

    def transmit(
        self,
        to: Hashable | None,
        kind: str,
        payload: Any,
        round_number: int,
        raw_data: bool,
        event: float | None,
        outcome: asyncio.Future[Delivery],
    ) -> None:
        """Send a message over a `netsim.Radio`, to one neighbour or, with None, to all; see `send`.

        ``event`` is the time (s) of an event by the agent's own clock; the frame carries the event's age.
        """
        link_index = TO_ALL if to is None else self.link_index_of[to]
        now, kind_id, round_number, deadline = self._begin(kind, round_number)
        frame = self._frame(to, now, kind, round_number, payload, is_stamped=event is not None)
        self._offer(kind_id, frame, payload, raw_data, link_index, deadline, outcome, event)

    def _begin(self, kind: str, round_number: int) -> tuple[float, int, int, float]:
        """Count a message; return the current time (s), the kind id, the message's round, and the end of it (s)."""
        rounds, now = self._shared.rounds, self._shared.loop.now()
        self._check_and_count_send(kind, now)
        deadline = rounds.deadline(round_number)
        if now >= deadline and rounds.is_closing(round_number, now):
            round_number, deadline = 0, math.inf
        kind_id = self.kinds.get(kind)
        return now, self._kind_id(kind) if kind_id is None else kind_id, round_number, deadline

    @property
    def link_index_of(self) -> dict[Hashable, int]:
        """{neighbour: index of the link to it}."""
        # Created on first use, because an agent that only broadcasts does not need it.
        if self._link_index_of is None:
            self._link_index_of = {neighbor: index for index, neighbor in enumerate(self._wiring.neighbors)}
        return self._link_index_of

    def is_node(self, name: Hashable) -> bool:
        """Return whether a node of the network has this name."""
        return name in self._agents

    @property
    def sent(self) -> int:
        """The number of messages sent so far."""
        return self._broadcast_path.sent

    def set_link(self, to: Hashable, up: bool) -> None:
        """Take down or restore the link to a neighbour."""
        (self.down.discard if up else self.down.add)(self.link_index_of[to])
        self._choose_path()

    def settings_of(self, to: Hashable) -> Link:
        """Return the settings of the link to a neighbour."""
        return self._wiring.links[self.link_index_of[to]]

    def draws_together(self, to: Hashable) -> bool:
        """Return whether `LinkDraws` draws the losses and delays of broadcasts on the link to a neighbour."""
        return self._wiring.draws_together(self.link_index_of[to])

    def arrivals_at(self, to: Hashable) -> ArrivalQueue:
        """Return the queue into which the link to a neighbour puts frames."""
        return self._wiring.inboxes[self.link_index_of[to]].arrivals

    def change_link(self, to: Hashable, link: Link, last: float | None) -> list[Shift]:
        """Change the settings of the link to a neighbour; return the frames whose departures change.

        ``last`` is the latest arrival (s) of the link's frames in flight, if later frames must not overtake them.
        """
        index = self.link_index_of[to]
        self._wiring.change(index, link)
        self._broadcast_path.links_changed()
        # Frames may have passed the stages of the link before, so their state must follow the change, even if the fast
        # path is used.
        shifts = self._stages_of_links().change(index, link, self._shared.loop.now(), last)
        self._fast_path_allowed = self._can_use_fast_path()
        self._choose_path()
        return shifts

    def clear_link(self, to: Hashable) -> None:
        """Drop the frames that wait to leave on the link to a neighbour."""
        if self._stages is not None:
            self._stages.clear(self.link_index_of[to], self._shared.loop.now())

    def reset_order(self, to: Hashable, last: float) -> None:
        """Set the latest arrival (s) on the ``fifo`` link to a neighbour after the arrivals of its frames changed."""
        index = self.link_index_of[to]
        self._stages_of_links().set_last(index, last)
        self.bursts.reset_latest(index, last)

    def skip_numbers(self, count: int) -> None:
        """Skip the transmission numbers below ``count``, because an earlier process may have used them."""
        self._broadcast_path.sent = max(self._broadcast_path.sent, count)

    def disable_fast_path(self) -> None:
        """Disable the fast path, which assumes that all receivers' rounds close at the same time."""
        self._fast_path_allowed, self._rounds_differ = False, True
        self._choose_path()

    def begin_jitter(self, link_index: int, number: int, most: float, at: float) -> None:
        """Begin a burst of jitter (up to ``most`` s) on a link.

        ``number`` is the fault's index in the script of faults. The random delays do not depend on it, because a fault
        for another link, added to the script, would then change them. They depend on the time ``at`` (s), and on how
        many bursts have already begun on this link at this time.
        """
        wiring = self._wiring
        purpose = f"jitter {at!r} {self.bursts.count(link_index, at)}"
        key = draws.stream_keys(wiring.seed, wiring.keys[link_index : link_index + 1], purpose)
        self.bursts.begin(link_index, number, most, draws.Stream(int(key[0])), wiring.links[link_index].fifo)
        self._choose_path()

    def end_jitter(self, link_index: int, number: int) -> None:
        """End the burst of jitter that the fault ``number`` began on a link."""
        self.bursts.end(link_index, number)
        self._choose_path()

    def lose_next(self, link_index: int) -> None:
        """Make a link lose the next frame."""
        self.bursts.lose(link_index)
        self._choose_path()

    def _choose_path(self) -> None:
        self._uses_fast_path = self._fast_path_allowed and not (self.down or self.bursts.matter)

    # --- counting -----------------------------------------------------------------------------------------------------

    def _check_and_count_send(self, kind: str, now: float) -> None:
        """Count a message towards `MAX_SENDS_PER_INSTANT`, and call ``Shared.on_send`` with the agent's name.

        Raises RunOver if the run is over, and AgentError if the agent exceeds the limit.
        """
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
        number = self.kinds[name] = self._shared.tally.kind(name)
        return number

    # --- offering a frame ---------------------------------------------------------------------------------------------

    def _frame(
        self,
        to: Hashable | None,
        now: float,
        kind: str,
        round_number: int,
        payload: Any,
        request: int | None = None,
        is_reply: bool = False,
        sequence: int = 0,
        is_stamped: bool = False,
    ) -> Frame:
        """Return the frame of a message; ``is_stamped`` means that the frame carries the age of an event."""
        stack = self._shared.stack
        if stack is None:
            return self._broadcast_path.frame(now, kind, round_number, payload, request, is_reply, sequence)
        return stack.frame(kind, self._name, round_number, now, payload, to, request, is_reply, is_stamped)

    def _offer(
        self,
        kind_id: int,
        frame: Frame,
        payload: Any,
        raw_data: bool,
        link_index: int = TO_ALL,
        deadline: float = -math.inf,
        outcome: asyncio.Future[Delivery] | None = None,
        event: float | None = None,
    ) -> int:
        """Offer a frame to links, or to the MAC layer, and count it; return how many links accepted it.

        Only a frame that arrives at or after ``deadline`` (s) can be late and needs a check, which is slower.
        """
        # If receivers' rounds differ from this agent's, a receiver may close a round earlier: any frame may be late.
        deadline = -math.inf if self._rounds_differ else deadline
        path = self._broadcast_path
        if self._take is not None:
            return path.offer_to_mac(kind_id, frame, payload, raw_data, link_index, deadline, outcome, event)
        return self._stages_of_links().offer(kind_id, frame, payload, raw_data, link_index, deadline)

    def _stages_of_links(self) -> LinkStages | SharedStages:
        """Return the stages of the agent's links; they are created on first use."""
        if self._stages is None:
            common = self._broadcast_path, self._wiring, self._shared, self._agents, self.down, self.bursts
            self._stages = SharedStages(*common, subscribers=self.subscribers) if self._shares else LinkStages(*common)
        return self._stages
