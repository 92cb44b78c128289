"""The air between the stations: who hears what is sent, and what becomes of it at each.

agent → outbox → link → inbox → agent: you are on the link. A frame's fate is decided as it ends on the air; until then
others may spoil it.
"""

import math
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import networkx as nx

from netsim.clock.clock import LocalClock
from netsim.core.records import ASLEEP, LINK_DOWN, LOST, RECEIVER_DOWN
from netsim.radio.agenda import Agenda
from netsim.radio.battery import BatteryWatch
from netsim.radio.book import AirBook
from netsim.radio.energy import Hearing
from netsim.radio.job import Job
from netsim.radio.settings import Radio
from netsim.radio.signals import Ear, Signal
from netsim.radio.station import Common, Emission, Station
from netsim.transport.inbox import Inbox
from netsim.transport.path import Path
from netsim.transport.shared import Shared
from netsim.transport.transmitter import early
from netsim.transport.wiring import Wiring

__all__ = ["Medium"]

ACK = "(acknowledgement)"
"""The kind under which the ledger counts acknowledgements' bits."""

Arrivals = dict[float, list[tuple[int, Station, Signal]]]
"""By time of arrival (s): at which place, whose, and what."""


class Hearer(NamedTuple):
    """Who is reached by a node's transmissions; ``place`` is −1 for one that they only disturb."""

    station: Station
    ear: Ear
    place: int
    power: float
    delay: float


class Medium:
    """What the stations of one run share.

    Parameters
    ----------
    radio : Radio
        The settings.
    shared : Shared
        The run's loop and tally.
    seed : int
        The network's.
    names : list
        The agents' names, by number.
    log : bool
        Whether to keep what was on the air.
    on_death : callable
        Called with the name of a node whose battery is empty.
    """

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
        self._radio, self._tally, self._loop = radio, shared.tally, shared.loop
        self._agenda = Agenda(shared.loop)
        self._common = Common(radio, self._agenda, shared.tally, self, names, seed, shared.rounds.period)
        self._captures_above = radio.captures_above
        self._ack_kind = shared.tally.kind(ACK) if radio.acks else -1
        self._on_death = on_death
        self._watch = BatteryWatch(shared.loop, self._died)
        self._hearers: list[list[Hearer]] = []
        self._deaf: list[dict[int, Station]] = []
        self._sensers: list[list[Ear]] = []
        self._places: list[dict[int, int]] = []
        self._speakers: list[list[Station]] = []
        self._distances: list[list[float]] = []
        self.stations: list[Station] = []
        self.book = AirBook(names, [], [] if log else None)

    # --- building -----------------------------------------------------------------------------------------------------

    def station(self, name: Hashable, wiring: Wiring, inbox: Inbox, clock: LocalClock | None = None) -> Station:
        """Return the next node's radio, with its links and by its clock."""
        station = Station(self._common, len(self.stations), name, wiring, inbox, clock)
        self.stations.append(station)
        self.book.counts.append(station.counts)
        return station

    def connect(self, graph: "nx.Graph[Any]") -> None:
        """Find out who hears, senses and disturbs whom, once all stations are there."""
        by_name = {station.name: station for station in self.stations}
        self._speakers = [[] for _ in self.stations]
        for station in self.stations:
            wiring, heard, deaf = station.wiring, [], {}
            for place, name in enumerate(wiring.neighbors):
                link, other = wiring.links[place], by_name[name]
                self._speakers[other.number].append(station)
                if link.loss_model.mean < 1:
                    delay = link.latency_model.fixed or 0.0
                    heard.append(Hearer(other, other.ear, place, self._radio.power(station.name, name), delay))
                else:
                    deaf[place] = other
            ears = [hearer.ear for hearer in heard]
            understand = {hearer.station.name for hearer in heard}
            heard += [
                Hearer(by_name[name], by_name[name].ear, -1, self._radio.power(station.name, name), 0.0)
                for name in _beside(self._radio.interference, station.name)
                if name not in understand
            ]
            if self._radio.sensing is not None:
                ears = [by_name[name].ear for name in _beside(self._radio.sensing, station.name)]
            self._hearers.append(heard)
            self._deaf.append(deaf)
            self._sensers.append(ears)
            self._places.append({int(number): place for place, number in enumerate(wiring.receivers)})
            self._distances.append(_distances(graph, station))

    # --- the run ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch the batteries."""
        self._watch.start(self.stations)

    def stop(self) -> None:
        """Let nothing more happen: the run is over."""
        self._agenda.stop()
        self._watch.stop()
        now = self._loop.now()
        for station in self.stations:
            if station.ear.sends_until > now:
                self._count_until(station, now)
            meter = station.meter
            spent = None if meter is None else (meter.seconds(now), meter.used(now), meter.left(now), meter.died_at)
            self.book.spent.append(spent)
        self.book.events = self._agenda.done

    def switch(self, name: Hashable, on: bool) -> None:
        """Switch a node off, whatever it is doing, or on again."""
        station, now = next(each for each in self.stations if each.name == name), self._loop.now()
        if station.on == on:
            return
        if on:
            station.on = True
            if station.meter is not None:
                station.meter.switch(True, now)
                self._watch.plan(station, now)
        else:
            self._switch_off(station, now)

    def _switch_off(self, station: Station, now: float) -> None:
        station.on = False
        self._cut_short(station, now)
        station.flush(now)
        station.ear.deafen(now)
        for each in self._speakers[station.number]:
            each.forgotten_by(station)
        if station.meter is not None:
            station.meter.switch(False, now)
            self._watch.forget(station)

    def _cut_short(self, sender: Station, now: float) -> None:
        """End in the middle what a node sends."""
        emission = sender.emission
        if emission is None or sender.ear.sends_until <= now:
            return
        self._count_until(sender, now)
        sender.ear.sends_until = now
        for station, signal, hearing in emission.reached:
            signal.end += now - emission.end
            signal.spoil(LOST)
            if hearing is not None and station.meter is not None and station.on:
                station.meter.hears_no_more(hearing, now)
                self._watch.plan(station, now)
        others = [each for each in self.stations if each.ear.sends_until > now]
        for ear in self._sensers[sender.number]:
            ends = [each.ear.sends_until for each in others if ear in self._sensers[each.number]]
            ear.senses_until(max(ends, default=now))

    def _count_until(self, sender: Station, now: float) -> None:
        """Count of what a node sends what it has sent by now (s), and no more."""
        sender.leave_unsent(sender.ear.sends_until - now)
        if self.book.log is not None:
            log = self.book.log
            place = next(i for i in reversed(range(len(log))) if log[i][2] == sender.number)
            log[place] = (log[place][0], now, *log[place][2:])

    def under_way(self) -> Iterator[tuple[int, int]]:
        """Yield key and kind of each link message that was taken and of which the end is not known yet."""
        for station in self.stations:
            yield from station.under_way()

    def distance(self, station: Station, place: int) -> float:
        """Return how far (m) a neighbour is; without a place (−1), the farthest. 0 where nothing depends on it."""
        distances = self._distances[station.number]
        return (distances[place] if place >= 0 else max(distances, default=0.0)) if distances else 0.0

    # --- on the air ---------------------------------------------------------------------------------------------------

    def transmit(self, sender: Station, job: Job, now: float, end: float) -> None:
        """Put a fragment on the air from now to ``end`` (s)."""
        offered = job.offered
        place = offered.places[0] if offered.to_one else -1
        job.energy += self._spend(sender, now, end, job.bits, place)
        self._tally.aired(sender.number, offered.kind, job.bits)
        if self._tally.keeps and job.index == job.retries == 0:
            for each in sorted(job.places):
                self._tally.left(now, sender.key(each, job), offered.number, sum(job.fragments))
        self._log(sender, place, now, end, (offered.kind, offered.number, job.index, job.retries, job.bits))
        arrivals = self._emit(sender, now, end, job.bits, job.places, sender.paths)
        for arrival, signals in arrivals.items():
            self._agenda.at(arrival, partial(self._arrive, sender, job, (job.index, sender.turn), signals))
        self._agenda.at(end, partial(sender.sent, job))

    def acknowledge(self, sender: Station, receiver: Station, job: Job, turn: int, now: float) -> None:
        """Put an acknowledgement of what ``receiver`` has sent on the air."""
        bits, place = self._radio.ack_bits, self._places[sender.number][receiver.number]
        end = now + self._radio.seconds(bits, sender.link)
        sender.counts.acks += 1
        sender.counts.ack_airtime_s += end - now
        self._spend(sender, now, end, bits, place)
        self._tally.aired(sender.number, self._ack_kind, bits)
        self._log(sender, place, now, end, (self._ack_kind, job.offered.number, job.index, job.retries, bits))
        [(arrival, [(_, _, signal)])] = self._emit(sender, now, end, bits, (place,), sender.ack_paths).items()
        self._agenda.at(arrival, partial(self._acknowledged, receiver, job, turn, signal))

    def _emit(
        self, sender: Station, now: float, end: float, bits: int, wanted: Collection[int], paths: Sequence[Path]
    ) -> Arrivals:
        """Let all who hear a node hear it from now to ``end`` (s); return what arrives at the ``wanted`` places."""
        sender.ear.send(now, end)
        width, is_ack = early(now), paths is sender.ack_paths
        arrivals: Arrivals = {}
        emission = sender.emission = Emission(end, is_ack, [])
        for station, ear, place, power, delay in self._hearers[sender.number]:
            if place in wanted:
                arrival, lost = paths[place].cross(end)
                # What is sent over a link that is cut is there like all else, and understood by nobody.
                cause = LINK_DOWN if place in sender.down else 0
                signal = Signal(now + (arrival - end), arrival, power, lost, cause)
                arrivals.setdefault(arrival, []).append((place, station, signal))
            else:
                signal = Signal(now + delay, end + delay, power)
            awaits = is_ack and place in wanted
            hearing = self._reach(station, signal, now, end, bits, awaits) if place >= 0 else None
            ear.hear(signal, now, width)
            emission.reached.append((station, signal, hearing))
        for place, station in self._deaf[sender.number].items():
            if place in wanted:
                signal = Signal(now, end, 0.0, cause=LINK_DOWN if place in sender.down else LOST)
                if not station.on or station.is_spent(now):
                    signal.spoil(RECEIVER_DOWN)
                # It disturbs nothing; but its receiver may go off before its end.
                station.ear.hear(signal, now, width)
                arrivals.setdefault(end, []).append((place, station, signal))
        for ear in self._sensers[sender.number]:
            ear.sense(now, end, width)
        return arrivals

    def _reach(
        self, station: Station, signal: Signal, now: float, end: float, bits: int, awaits: bool
    ) -> Hearing | None:
        """Let a neighbour receive, if its radio is on, or it waits for this; return what it spends, if that is kept."""
        meter = station.meter
        if not station.on or station.is_spent(now):
            signal.spoil(RECEIVER_DOWN)
        elif not (awaits or station.is_awake(now)):
            signal.spoil(ASLEEP)
        elif meter is not None and station.ear.sends_until <= now + early(now):
            hearing = meter.receive(now, end, bits)
            if meter.committed > meter.allowance:
                self._watch.plan(station, now)
            return hearing
        return None

    def _arrive(
        self,
        sender: Station,
        job: Job,
        sent: tuple[int, int],
        signals: list[tuple[int, Station, Signal]],
        now: float,
    ) -> None:
        index, turn = sent
        for place, station, signal in signals:
            sender.arrived(job, index, turn, place, station, signal.fate(self._captures_above), now)

    def _acknowledged(self, station: Station, job: Job, turn: int, signal: Signal, now: float) -> None:
        if signal.fate(self._captures_above) == 0 and station.inbox.up:
            station.acknowledged(job, turn, now)

    def _spend(self, sender: Station, now: float, end: float, bits: int, place: int) -> float:
        """Count what a frame costs its sender, and return it, in joules."""
        meter = sender.meter
        if meter is None:
            return 0.0
        distance = self.distance(sender, place)
        meter.transmit(now, end, bits, distance)
        if meter.committed > meter.allowance:
            self._watch.plan(sender, now)
        return meter.energy.to_send(bits, end - now, distance)

    def _log(self, sender: Station, place: int, now: float, end: float, what: tuple[int, int, int, int, int]) -> None:
        if self.book.log is not None:
            link = sender.wiring.first + place if place >= 0 else -1
            self.book.log.append((now, end, sender.number, link, *what))

    def _died(self, station: Station, now: float) -> None:
        self._switch_off(station, now)
        self._on_death(station.name)


def _beside(graph: "nx.Graph[Any] | None", node: Hashable) -> list[Any]:
    """Return to whom a graph's edges lead from a node."""
    return list(graph[node]) if graph is not None and node in graph else []


def _distances(graph: "nx.Graph[Any]", station: Station) -> list[float]:
    """Return how far (m) each neighbour is, where energy depends on it."""
    meter = station.meter
    if meter is None or not meter.energy.amplifier:
        return []
    here = graph.nodes[station.name]["pos"]
    return [math.dist(here, graph.nodes[name]["pos"]) for name in station.wiring.neighbors]
