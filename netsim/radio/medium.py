"""The shared radio medium: which nodes each transmission reaches, and whether they receive it.

In agent → outbox → link → inbox → agent this is the link. A frame's outcome is decided when its transmission ends;
until then other transmissions may interfere with it.
"""

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable, Collection, Hashable, Iterator
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

import networkx as nx

from netsim._former import former_names
from netsim.clock.clock import LocalClock, Loop
from netsim.core.records import ASLEEP, LINK_DOWN, LOST, RECEIVER_DOWN
from netsim.radio.airtime import AirtimeLog
from netsim.radio.energy import BatteryWatch, Reception
from netsim.radio.mac import Emission, Mac, PendingFrame, RadioLink
from netsim.radio.settings import Radio
from netsim.radio.signals import Signal
from netsim.transport.inbox import Inbox
from netsim.transport.shared import Shared
from netsim.transport.transmitter import time_tolerance

if TYPE_CHECKING:
    from netsim.transport.outbox import Wiring

__all__ = ["EventQueue", "Medium", "RadioLink"]

__getattr__ = former_names(__name__)

ACK = "(acknowledgement)"
"""The kind of message under which the ledger counts the bits of acknowledgements."""

Arrivals = dict[float, list[tuple[int, Mac, Signal]]]
"""Maps an arrival time (s) to (link index, receiving node, signal) of each arriving signal."""


class EventQueue:
    """The medium's events in order of time, driven by a single timer of the event loop.

    Events run before the agents act at the same instant, so an agent sees everything that ended at that instant.
    The timer exists only while events are pending, so it neither hides a standstill nor outlives the run.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        # The run's context, because the medium's events belong to no agent.
        self._context = copy_context()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        # The number of events processed.
        self.done = 0

    def at(self, time: float, call: Callable[[float], None]) -> None:
        """Schedule ``call(time)`` at ``time`` (s); calls at equal times run in the order they were scheduled."""
        heapq.heappush(self._events, (time, next(self._order), call))
        if self._timer is None or time < self._timer.when():
            self._set()

    def catch_up(self, now: float) -> None:
        """Run the events due before ``now`` (s): with a wall clock, time passes while agents act."""
        events = self._events
        while events and events[0][0] < now:
            self._next()

    def stop(self) -> None:
        """Discard all events and cancel the timer."""
        self._events.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_first_at(self._events[0][0], self._due, self._context)

    def _due(self) -> None:
        self._timer = None
        events, now = self._events, self._loop.now()
        while events and events[0][0] <= now:
            self._next()
        if events and self._timer is None:
            self._set()

    def _next(self) -> None:
        time, _, call = heapq.heappop(self._events)
        self.done += 1
        call(time)


class Medium:
    """The medium shared by the nodes of a run; ``on_death`` is called with each node whose battery runs out."""

    def __init__(
        self,
        radio: Radio,
        shared: Shared,
        seed: int,
        names: list[Hashable],
        *,
        log: bool,
        on_death: Callable[[Hashable], None],
    ) -> None:
        self.radio, self.tally, self.names, self.seed = radio, shared.tally, names, seed
        self.round_period = shared.rounds.period
        self.events = EventQueue(shared.loop)
        self._loop = shared.loop
        self._captures_above = radio.captures_above
        self._ack_kind = shared.tally.kind(ACK) if radio.acks else -1
        self._on_death = on_death
        self._watch = BatteryWatch(shared.loop, self._died)
        self._macs: dict[Hashable, Mac] = {}
        self.airtime = AirtimeLog(names, [], [] if log else None)

    # --- building -----------------------------------------------------------------------------------------------------

    def mac(self, name: Hashable, wiring: "Wiring", inbox: Inbox, clock: LocalClock | None = None) -> Mac:
        """Create the next node's MAC layer, register it and return it."""
        mac = self._macs[name] = Mac(self, len(self._macs), name, wiring, inbox, clock)
        self.airtime.counts.append(mac.counts)
        return mac

    def connect(self, graph: "nx.Graph[Any]") -> None:
        """Set which nodes each node's transmissions reach; call it once all nodes exist."""
        by_name = self._macs
        for mac in by_name.values():
            for link_index, name in enumerate(mac.wiring.neighbors):
                link, other = mac.wiring.links[link_index], by_name[name]
                other.heard_from.append(mac)
                mac.link_index_of[other.number] = link_index
                if link.loss_model.mean < 1:
                    delay = link.latency_model.fixed or 0.0
                    power = self.radio.power(mac.name, name)
                    mac.links.append(RadioLink(other, other.receiver, link_index, power, delay))
                else:
                    mac.deaf[link_index] = other
            understand = {link.mac.name for link in mac.links}
            if self.radio.sensing is None:
                mac.sensers = [link.receiver for link in mac.links]
            else:
                mac.sensers = [by_name[name].receiver for name in _neighbours_of(self.radio.sensing, mac.name)]
            mac.links += [
                RadioLink(by_name[name], by_name[name].receiver, -1, self.radio.power(mac.name, name), 0.0)
                for name in _neighbours_of(self.radio.interference, mac.name)
                if name not in understand
            ]
            if mac.meter is not None and mac.meter.energy.amplifier:
                here = graph.nodes[mac.name]["pos"]
                mac.distances = [math.dist(here, graph.nodes[name]["pos"]) for name in mac.wiring.neighbors]

    # --- the run ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch the batteries."""
        self._watch.start(list(self._macs.values()))

    def stop(self) -> None:
        """Stop all events at the end of the run and record each node's energy use."""
        self.events.stop()
        self._watch.stop()
        now = self._loop.now()
        for mac in self._macs.values():
            if mac.receiver.sends_until > now:
                self._count_until(mac, now)
            meter = mac.meter
            spent = None if meter is None else (meter.seconds(now), meter.used(now), meter.left(now), meter.died_at)
            self.airtime.spent.append(spent)
        self.airtime.events = self.events.done

    def switch(self, name: Hashable, on: bool) -> None:
        """Switch a node on, or off in the middle of whatever it is doing."""
        mac, now = self._macs[name], self._loop.now()
        if mac.on == on:
            return
        if on:
            mac.on = True
            if mac.meter is not None:
                mac.meter.switch(True, now)
                self._watch.plan(mac, now)
        else:
            self._switch_off(mac, now)

    def _switch_off(self, mac: Mac, now: float) -> None:
        mac.on = False
        self._cut_short(mac, now)
        mac.flush(now)
        mac.receiver.deafen(now)
        for each in mac.heard_from:
            each.on_neighbour_off(mac)
        if mac.meter is not None:
            mac.meter.switch(False, now)
            self._watch.forget(mac)

    def _cut_short(self, sender: Mac, now: float) -> None:
        """Abort a node's current emission."""
        emission = sender.emission
        if emission is None or sender.receiver.sends_until <= now:
            return
        self._count_until(sender, now)
        sender.receiver.sends_until = now
        for mac, signal, reception in emission.reached:
            signal.end += now - emission.end
            signal.spoil(LOST)
            if reception is not None and mac.meter is not None and mac.on:
                mac.meter.hears_no_more(reception, now)
                self._watch.plan(mac, now)
        others = [each for each in self._macs.values() if each.receiver.sends_until > now]
        for receiver in sender.sensers:
            ends = [each.receiver.sends_until for each in others if receiver in each.sensers]
            receiver.senses_until(max(ends, default=now))

    def _count_until(self, sender: Mac, now: float) -> None:
        """Shorten a node's current emission to the part sent by ``now`` (s), in its counts and in the log."""
        sender.leave_unsent(sender.receiver.sends_until - now)
        if self.airtime.log is not None:
            log = self.airtime.log
            row = next(i for i in reversed(range(len(log))) if log[i][2] == sender.number)
            log[row] = (log[row][0], now, *log[row][2:])

    def under_way(self) -> Iterator[tuple[int, int]]:
        """Yield the key and kind id of each accepted link message whose outcome is still unknown."""
        for mac in self._macs.values():
            yield from mac.under_way()

    # --- on the air ---------------------------------------------------------------------------------------------------

    def transmit(self, sender: Mac, pending: PendingFrame, now: float, end: float) -> None:
        """Send the current fragment from ``now`` to ``end`` (s) and schedule its arrivals."""
        request = pending.request
        if self.tally.keeps and pending.index == pending.retries == 0:
            for each in sorted(pending.link_indices):
                self.tally.left(now, sender.key(each, pending), request.number, sum(pending.fragments))
        to = request.link_indices[0] if request.to_one else -1
        arrivals = self._emit(sender, pending, now, end, request.kind, pending.bits, to, pending.link_indices)
        for arrival, signals in arrivals.items():
            self.events.at(arrival, partial(self._arrive, sender, pending, (pending.index, sender.turn), signals))
        self.events.at(end, partial(sender.sent, pending))

    def acknowledge(self, sender: Mac, receiver: Mac, pending: PendingFrame, turn: int, now: float) -> None:
        """Send an acknowledgement from ``sender`` to ``receiver``, for the fragment the latter sent at ``turn``."""
        bits, to = self.radio.ack_bits, sender.link_index_of[receiver.number]
        end = now + self.radio.seconds(bits, sender.link)
        sender.counts.acks += 1
        sender.counts.ack_airtime_s += end - now
        arrivals = self._emit(sender, pending, now, end, self._ack_kind, bits, to, (to,))
        [(arrival, [(_, _, signal)])] = arrivals.items()
        self.events.at(arrival, partial(self._acknowledged, receiver, pending, turn, signal))

    def _emit(
        self,
        sender: Mac,
        pending: PendingFrame,
        now: float,
        end: float,
        kind: int,
        bits: int,
        to: int,
        target_links: Collection[int],
    ) -> Arrivals:
        """Emit on link ``to`` (−1: all) from ``now`` to ``end`` (s); return the arrivals on ``target_links``."""
        is_ack = kind == self._ack_kind
        joules = self._spend(sender, now, end, bits, to)
        pending.energy += 0.0 if is_ack else joules
        self.tally.aired(sender.number, kind, bits)
        if self.airtime.log is not None:
            link = sender.wiring.first + to if to >= 0 else -1
            row = (sender.number, link, kind, pending.request.number, pending.index, pending.retries, bits)
            self.airtime.log.append((now, end, *row))
        sender.receiver.send(now, end)
        width, paths = time_tolerance(now), sender.ack_paths if is_ack else sender.paths
        arrivals: Arrivals = {}
        emission = sender.emission = Emission(end, is_ack, [])
        for mac, receiver, link_index, power, delay in sender.links:
            if link_index in target_links:
                arrival, lost = paths[link_index].cross(end)
                # A transmission over a cut link interferes like any other, but is not received.
                cause = LINK_DOWN if link_index in sender.down else 0
                signal = Signal(now + (arrival - end), arrival, power, lost, cause)
                arrivals.setdefault(arrival, []).append((link_index, mac, signal))
            else:
                signal = Signal(now + delay, end + delay, power)
            awaits = is_ack and link_index in target_links
            reception = self._reach(mac, signal, now, end, bits, awaits) if link_index >= 0 else None
            receiver.hear(signal, now, width)
            emission.reached.append((mac, signal, reception))
        for link_index, mac in sender.deaf.items():
            if link_index in target_links:
                signal = Signal(now, end, 0.0, cause=LINK_DOWN if link_index in sender.down else LOST)
                if not mac.on or mac.is_battery_empty(now):
                    signal.spoil(RECEIVER_DOWN)
                # It causes no interference; it is registered because its receiver may be switched off before its end.
                mac.receiver.hear(signal, now, width)
                arrivals.setdefault(end, []).append((link_index, mac, signal))
        for receiver in sender.sensers:
            receiver.sense(now, end, width)
        return arrivals

    def _reach(self, mac: Mac, signal: Signal, now: float, end: float, bits: int, awaits: bool) -> Reception | None:
        """Start reception at a neighbour that is awake or awaits this; return the reception if energy is metered."""
        meter = mac.meter
        if not mac.on or mac.is_battery_empty(now):
            signal.spoil(RECEIVER_DOWN)
        elif not (awaits or mac.is_awake(now)):
            signal.spoil(ASLEEP)
        elif meter is not None and mac.receiver.sends_until <= now + time_tolerance(now):
            reception = meter.receive(now, end, bits)
            if meter.committed > meter.allowance:
                self._watch.plan(mac, now)
            return reception
        return None

    def _arrive(
        self,
        sender: Mac,
        pending: PendingFrame,
        sent: tuple[int, int],
        signals: list[tuple[int, Mac, Signal]],
        now: float,
    ) -> None:
        index, turn = sent
        for link_index, mac, signal in signals:
            sender.arrived(pending, index, turn, link_index, mac, signal.fate(self._captures_above), now)

    def _acknowledged(self, mac: Mac, pending: PendingFrame, turn: int, signal: Signal, now: float) -> None:
        if signal.fate(self._captures_above) == 0 and mac.inbox.up:
            mac.acknowledged(pending, turn, now)

    def _spend(self, sender: Mac, now: float, end: float, bits: int, link_index: int) -> float:
        """Charge a sender for an emission and return its energy (J); ``link_index`` −1 means all links."""
        meter = sender.meter
        if meter is None:
            return 0.0
        distances = sender.distances
        distance = 0.0 if not distances else distances[link_index] if link_index >= 0 else max(distances)
        meter.transmit(now, end, bits, distance)
        if meter.committed > meter.allowance:
            self._watch.plan(sender, now)
        return meter.energy.to_send(bits, end - now, distance)

    def _died(self, mac: Mac, now: float) -> None:
        self._switch_off(mac, now)
        self._on_death(mac.name)


def _neighbours_of(graph: "nx.Graph[Any] | None", node: Hashable) -> list[Any]:
    """Return the node's neighbours (successors) in a graph, or an empty list without graph or node."""
    return list(graph[node]) if graph is not None and node in graph else []
