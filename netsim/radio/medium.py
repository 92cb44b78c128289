"""The shared radio medium, which builds the nodes' MAC layers, connects them, and switches nodes on and off.

On the path agent → outbox → link → inbox → agent, the medium is the link. The outcome of a frame is decided when its
transmission ends, because other transmissions may interfere until then. `netsim.radio.mac` handles single frames.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import networkx as nx

from netsim.clock.clock import LocalClock
from netsim.core.records import LOST
from netsim.radio.airtime import AirtimeLog
from netsim.radio.energy import BatteryWatch
from netsim.radio.events import EventQueue
from netsim.radio.mac import Mac, RadioLink
from netsim.radio.settings import MOST_DBM, Radio
from netsim.transport.inbox import Inbox
from netsim.transport.shared import Shared
from netsim.util import check
from netsim.util.compiled import compiled

if TYPE_CHECKING:
    from netsim.transport.outbox import Wiring

__all__ = ["EventQueue", "Medium", "RadioLink"]

COMPILED = compiled("radio._mac")
"""The module `_mac`, which has compiled versions of events, signals and MAC layer; None to use the Python versions."""

ACK = "(acknowledgement)"
"""The kind of message under which the ledger counts the bits of acknowledgements."""


class Medium:
    """The medium shared by the nodes of a run; ``on_death(name)`` is called when a node's battery runs out."""

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
        self.round_period, self.kinds = shared.rounds.period, shared.encoder.kinds
        # Use the Python classes if the compiled module does not have this access method.
        twins = COMPILED if COMPILED is not None and radio.accesses <= {*COMPILED.ACCESS} else None
        self.events: EventQueue = EventQueue(shared.loop) if twins is None else twins.EventQueue(shared.loop)
        self._mac: type[Mac] = Mac if twins is None else twins.Mac
        self._loop = shared.loop
        self.ack_kind = shared.tally.kind(ACK) if radio.acks else -1
        self._on_death = on_death
        self.watch = BatteryWatch(shared.loop, self._died)
        self._macs: dict[Hashable, Mac] = {}
        # Whether the energy of any node's transmissions depends on the distance to the receiver.
        self._has_distances = False
        self.airtime = AirtimeLog(names, [], [] if log else None)

    # --- building -----------------------------------------------------------------------------------------------------

    def mac(self, name: Hashable, wiring: "Wiring", inbox: Inbox, clock: LocalClock | None = None) -> Mac:
        """Create, register and return the MAC layer of the next node."""
        mac = self._macs[name] = self._mac(self, len(self._macs), name, wiring, inbox, clock)
        return mac

    def connect(self, graph: "nx.Graph[Any]") -> None:
        """Set which nodes each node's transmissions reach; call it once all nodes exist."""
        by_name, radio, disturbed = self._macs, self.radio, self._disturbed()
        for mac in by_name.values():
            understand: dict[Hashable, Mac] = {}
            for link_index, name in enumerate(mac.wiring.neighbors):
                link, other = mac.wiring.links[link_index], by_name[name]
                if link.loss_model.mean < 1:
                    delay = link.latency_model.fixed or 0.0
                    mac.reach(other, link_index, radio.power(mac.name, name), delay)
                    understand[name] = other
                else:
                    mac.reach_deaf(other, link_index)
            # With a `Phy` and without a ``sensing`` graph, nodes sense the received power, so this list stays empty.
            by_edges = list(understand) if radio.phy is None else []
            sensers = by_edges if radio.sensing is None else _neighbours_of(radio.sensing, mac.name)
            mac.sensers = [by_name[name].receiver for name in sensers]
            # `pop` frees each node's powers as soon as they are used: a network may have a million of them.
            for name, power in disturbed.pop(mac.name, ()):
                if name not in understand:
                    mac.reach(by_name[name], -1, power, 0.0)
            if mac.meter is not None and mac.meter.energy.amplifier:
                here = graph.nodes[mac.name]["pos"]
                self._has_distances = True
                mac.distances = [math.dist(here, graph.nodes[name]["pos"]) for name in mac.wiring.neighbors]

    def _disturbed(self) -> dict[Hashable, list[tuple[Hashable, float]]]:
        """Return {sender: [(node, power in mW)]} of all nodes at which each sender may interfere, even neighbours."""
        radio, found = self.radio, dict[Hashable, list[tuple[Hashable, float]]]()
        if radio.phy is None or radio.powers is None:
            for name in self._macs:
                others = _neighbours_of(radio.interference, name)
                found[name] = [(other, radio.power(name, other)) for other in others]
            return found
        weakest = radio.weakest_dbm
        for (sender, receiver), level in radio.powers.items():
            if level >= weakest and sender != receiver:
                found.setdefault(sender, []).append((receiver, 10.0 ** (level / 10.0)))
        # Sort by node number, so that a run does not depend on the order of ``Radio.powers``.
        numbers = {name: mac.number for name, mac in self._macs.items()}
        for others in found.values():
            others.sort(key=lambda each: numbers[each[0]])
        return found

    def set_powers(self, powers: Mapping[tuple[Hashable, Hashable], float], now: float) -> None:
        """Set the received powers {(sender, receiver): dBm} of signals that begin at ``now`` (s) or later.

        With a `Phy`, a sender reaches its neighbours at any power, but other nodes only if the power is at least
        ``Radio.weakest_dbm``. Without a `Phy`, the powers only decide which frame is captured.
        """
        self.events.catch_up(now)
        weakest = self.radio.weakest_dbm
        for (sender, receiver), level in powers.items():
            # Call `check.number` only for suspect values: a moving node sets many powers, and formatting the message's
            # first argument for each of them would be slow.
            if type(level) is not float or not level <= MOST_DBM:
                level = check.number(f"powers[{sender!r}, {receiver!r}]", level, high=MOST_DBM)
            mac, other = self._macs.get(sender), self._macs.get(receiver)
            if mac is None or other is None:
                raise check.refuse("powers: pair", (sender, receiver), "two nodes of the network's graph")
            strong = level >= weakest or other.number in mac.link_index_of
            mac.set_power(other, 10.0 ** (level / 10.0) if strong else 0.0)

    def set_distances(self, name: Hashable, places: Mapping[Hashable, tuple[float, ...]]) -> None:
        """After a node moved, set the distances (m) to its neighbours: the energy of sending may depend on them."""
        mac = self._macs[name]
        for link_index, other in enumerate(mac.wiring.neighbors) if self._has_distances else ():
            distance, back = math.dist(places[name], places[other]), self._macs[other]
            if mac.distances:
                mac.distances[link_index] = distance
            if back.distances:
                back.distances[back.link_index_of[mac.number]] = distance

    # --- the run ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to watch the batteries."""
        self.watch.start(list(self._macs.values()))

    def stop(self) -> None:
        """Stop all events at the end of the run and record each node's energy use."""
        self.events.stop()
        now = self._loop.now()
        for mac in self._macs.values():
            if mac.receiver.sends_until > now:
                self._count_until(mac, now)
            meter = mac.meter
            self.airtime.counts.append(mac.counts)
            if meter is None:
                self.airtime.spent.append(None)
                continue
            spent = meter.seconds(now), meter.used(now), meter.left(now), meter.died_at, meter.columns(now)
            self.airtime.spent.append(spent)
        self.airtime.events = self.events.done

    def switch(self, name: Hashable, on: bool) -> None:
        """Switch a node on or off; switching off aborts the node's transmission and receptions."""
        mac, now = self._macs[name], self._loop.now()
        if mac.on == on:
            return
        if on:
            mac.on = True
            # After a crash, the radio starts with the network's settings again: the agent's settings are lost.
            mac.listen(True, now)
            mac.tune(0, now)
            mac.gain = 1.0
            if mac.meter is not None:
                mac.meter.switch(True, now)
                self.watch.plan(mac, now)
        else:
            self._switch_off(mac, now)

    def _switch_off(self, mac: Mac, now: float) -> None:
        mac.on = False
        self._cut_short(mac, now)
        mac.flush(now)
        mac.receiver.deafen(now)
        for each in self._macs.values():
            if mac.number in each.link_index_of:
                each.on_neighbour_off(mac)
        if mac.meter is not None:
            mac.meter.switch(False, now)
            self.watch.forget(mac)

    def _cut_short(self, sender: Mac, now: float) -> None:
        """Abort a node's current emission."""
        emission = sender.emission
        if emission is None or sender.receiver.sends_until <= now:
            return
        self._count_until(sender, now)
        sender.receiver.stop(now)
        for signal in emission.reached:
            signal.end += now - emission.end
            signal.spoil(LOST)
            mac = signal.mac
            if signal.reception is not None and mac.meter is not None and mac.on:
                mac.meter.hears_no_more(signal.reception, now)
                self.watch.plan(mac, now)
        others = [each for each in self._macs.values() if each.receiver.sends_until > now]
        for receiver in sender.sensers:
            ends = [each.receiver.sends_until for each in others if receiver in each.sensers]
            receiver.senses_until(max(ends, default=now))

    def _count_until(self, sender: Mac, now: float) -> None:
        """Correct a node's counts and log entry, because its current emission is aborted at ``now`` (s)."""
        if sender.emission is not None and sender.emission.is_carrier:
            return
        sender.leave_unsent(sender.receiver.sends_until - now)
        if self.airtime.log is not None:
            log = self.airtime.log
            row = next(i for i in reversed(range(len(log))) if log[i][2] == sender.number)
            log[row] = (log[row][0], now, *log[row][2:-1], False)

    def under_way(self) -> Iterator[tuple[int, int]]:
        """Yield (ledger key, kind id) for each accepted frame on each link where its outcome is still unknown."""
        for mac in self._macs.values():
            yield from mac.under_way()

    def _died(self, mac: Mac, now: float) -> None:
        self._switch_off(mac, now)
        self._on_death(mac.name)


def _neighbours_of(graph: "nx.Graph[Any] | None", node: Hashable) -> list[Any]:
    """Return a node's neighbours (successors) in a graph; none if there is no graph or the graph lacks the node."""
    return list(graph[node]) if graph is not None and node in graph else []
