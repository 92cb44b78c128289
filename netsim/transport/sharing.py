"""Carry frames over links between nodes with capacities, which simultaneous transfers share.

On the path agent → outbox → link → inbox → agent, this module is the link. On other links, the departure of a frame is
known as soon as it is offered. Here, later frames of other agents may delay it, so a timer follows the transfers.
"""

import asyncio
from collections.abc import Iterator
from contextvars import Context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from netsim.core.records import LOST, QUEUE_FULL
from netsim.links.capacity import Fluid, Transfer
from netsim.links.link import Link
from netsim.transport.link_stages import Leg, LinkStages
from netsim.transport.transmitter import Departure, Shift, Transmitter, time_tolerance

if TYPE_CHECKING:
    from netsim.transport.inbox import Inbox, RemoteEndpoint
    from netsim.transport.shared import Shared

__all__ = ["SharedStages", "Sharing"]


class Sharing:
    """The transfers of one run, and a timer for their next event.

    Parameters
    ----------
    fluid : Fluid
        Computes the progress of the transfers.
    shared : Shared
        The state that the run's agents share.
    context : Context
        The context in which the timer runs, because it runs for no single agent.

    Attributes
    ----------
    limited : bool array, shape (links,)
        For each link, whether at least one of its ends has a capacity.
    """

    def __init__(self, fluid: Fluid, shared: "Shared", context: Context) -> None:
        self.limited, self._fluid, self._context = fluid.limited, fluid, context
        self._loop, self._tally = shared.loop, shared.tally
        self._timer: asyncio.TimerHandle | None = None
        self._is_planned = self._is_over = False

    def is_full(self, link: int, settings: Link, bits: int, now: float) -> bool:
        """Return whether a link's queue has no room for ``bits`` more at the time ``now`` (s)."""
        self._advance(now)
        held = [transfer.bits for transfer in self._fluid.held(link, now + time_tolerance(now))]
        too_many = settings.queue is not None and len(held) >= settings.queue
        return too_many or (settings.queue_bits is not None and sum(held) + bits > settings.queue_bits)

    def offer(self, transfer: Transfer) -> None:
        """Begin a transfer, or queue it behind earlier transfers on its link."""
        self._advance(transfer.offered)
        self._fluid.offer(transfer)
        self._plan()

    def set_rate(self, link: int, settings: Link, now: float) -> None:
        """Change a link's rate from ``now`` (s) on, which changes the speed of transfers in progress."""
        self._advance(now)
        self._fluid.set_rate(link, settings, now)
        self._plan()

    def drop(self, link: int, now: float) -> list[Transfer]:
        """Remove and return all transfers of a link; a trace records ``now`` as the start of waiting transfers."""
        self._advance(now)
        dropped = self._fluid.drop(link, now)
        for transfer in dropped if self._tally.keeps else ():
            self._note(transfer, transfer.start if transfer.has_begun else now)
        self._plan()
        return dropped

    def stop(self) -> None:
        """Stop all transfers at the run's end; a trace records this time as the start of waiting transfers."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for transfer in self._fluid.under_way() if self._tally.keeps else ():
            self._note(transfer, transfer.start if transfer.has_begun else self._loop.now())

    def under_way(self) -> Iterator[tuple[int, int]]:
        """Yield (ledger key, kind id) of each frame that has not left."""
        return ((transfer.key, transfer.kind) for transfer in self._fluid.under_way())

    def _advance(self, now: float) -> None:
        # `Fluid.advance` updates all transfers before it reports departures: a frame that leaves may wake an agent,
        # which may send.
        for transfer, time in self._fluid.advance(now):
            if self._tally.keeps:
                self._note(transfer, transfer.start)
            transfer.leave(transfer, transfer.ends(time))

    def _note(self, transfer: Transfer, time: float) -> None:
        self._tally.left(time, transfer.key, transfer.number, transfer.bits)

    def _plan(self) -> None:
        """Set the timer at the end of this instant, so that all frames of this instant need only one computation."""
        if not self._is_planned:
            self._is_planned = True
            self._loop.clock.at_instant_end(self._set_timer)

    def _set_timer(self) -> None:
        self._is_planned = False
        if self._is_over:
            return
        if self._timer is not None:
            self._timer.cancel()
        # Run the timer before all other events at its time, so that frames that arrive then are already in the inboxes.
        self._timer = self._loop.call_first_at(self._fluid.next(), self._on_timer, self._context)

    def _on_timer(self) -> None:
        self._advance(self._loop.now())
        self._plan()


@dataclass(eq=False, repr=False)
class SharedStages(LinkStages):
    """Carries an agent's frames over its links, some of which share capacities with the links of other agents.

    The parameters are those of `LinkStages`, and the ``subscribers`` of the agent's outbox.
    """

    subscribers: "dict[int, Inbox | RemoteEndpoint]" = field(default_factory=dict)

    def __post_init__(self, shared: "Shared") -> None:
        super().__post_init__(shared)
        assert shared.sharing is not None
        self._sharing, first, rounds = shared.sharing, self._wiring.first, shared.rounds
        # For a link with a capacity, `Transmitter` handles only budget and fragments; `Sharing` handles rate and queue.
        bare = {id(each): each for each in self._wiring.links}
        bare = {number: replace(each, rate=None, queue=None, queue_bits=None) for number, each in bare.items()}
        self._ports = {
            index: Transmitter(bare[id(link)], rounds.period, rounds.offset)
            for index, link in enumerate(self._wiring.links)
            if self._sharing.limited[first + index]
        }

    def change(self, link_index: int, link: Link, now: float, last: float | None) -> list[Shift]:
        """Change a link's settings as `LinkStages.change` does; transfers in progress change speed immediately."""
        if link_index not in self._ports:
            return super().change(link_index, link, now, last)
        if link_index in self._paths or last is not None:
            self._path(link_index).change(link, last)
        self._sharing.set_rate(self._wiring.first + link_index, link, now)
        return []

    def clear(self, link_index: int, now: float) -> None:
        """Drop the frames that have not left a link; count them as lost if the link shares capacities."""
        if link_index not in self._ports:
            super().clear(link_index, now)
            return
        for transfer in self._sharing.drop(self._wiring.first + link_index, now):
            self._tally.ended(now, transfer.key, transfer.kind, LOST)

    def _transmit(self, now: float, link_index: int | None, size: int, number: int) -> Departure:
        port = self._ports.get(link_index or 0)
        if port is None or link_index is None or link_index in self._down:
            return super()._transmit(now, link_index, size, number)
        fragments, link = port.fragments(size), self._wiring.links[link_index]
        if self._sharing.is_full(self._wiring.first + link_index, link, sum(fragments), now):
            return Departure(QUEUE_FULL, now, (), 0)
        return self._offered(now, port, fragments, number, ends_known=False)

    def _depart(self, leg: Leg, sent: Departure, now: float) -> None:
        if sent.ends:
            super()._depart(leg, sent, now)
            return
        index, number, kind, frame, *_ = leg

        def leave(transfer: Transfer, ends: list[float]) -> None:
            LinkStages._depart(self, leg, replace(sent, start=transfer.start, ends=ends), ends[-1])
            if index in self.subscribers:
                self.subscribers[index].watch()

        key, fragments = self._frame_key(index, number), self._ports[index].fragments(frame.size())
        link = self._wiring.first + index
        self._sharing.offer(Transfer(link, fragments, sent.start, now, number, key, kind, leave))
