"""A deployment: positions, moves and clocks of motes, and the walls between them; it creates a network."""

import heapq
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from netsim.errors import BadInput
from netsim.faults import ClockSkew, Fault, Faults, Join, Move
from netsim.interferers import Interference, Interferer
from netsim.network import Network
from netsim.radio import presets
from netsim.radio.pathloss import LogDistance, must_be_connected, name_keys
from netsim.radio.phy import Phy, doubt_power
from netsim.radio.settings import MOST_DBM, Radio
from netsim.site import Site, drawn
from netsim.util import check, draws

__all__ = ["Deployment"]

Place = tuple[float, ...]
Powers = dict[tuple[Any, Any], float]

REFERENCE = 8 * 50
"""The length (bits on the air) of the reference frame: nodes that can receive such a frame are neighbours."""

# Warn of positions whose longer extent (m) is below the first number, and whose distance from the origin exceeds the
# second number times that extent.
_LEAST_SIDE, _FAR = 1.0, 3.0


@check.named
@dataclass(frozen=True)
class Deployment:
    """Motes at their positions, with everything that determines reception; `network` returns a `Network` of them.

    A deployment can be one of the ``networks`` of a `netsim.Experiment`.

    Received powers follow from ``path_loss``; reception from these powers and the ``phy``. Two motes are neighbours,
    and have an edge, if one receives a frame of 50 bytes from the other with probability ``least`` or more, without
    fading and interference. For motes that move, this must hold at some time of their ``moves``. A ``roaming`` mote is
    a neighbour of all motes. An agent's ``neighbors`` therefore include motes that are out of range at present; the
    agent finds out by sending. Signals of motes that are not neighbours are sensed and interfere, unless they are too
    weak.

    Parameters
    ----------
    positions : mapping
        {node: (x, y)} or {node: (x, y, z)}: the positions of all motes in metres; for motes that move, the first
        position.
    sinks : sequence
        The motes that collect the measurements of others. The network does not treat them differently.
    path_loss : LogDistance
        Path loss, shadowing of each link, and walls. Its ``fading`` and ``sensitivity`` are ignored in favour of the
        `Phy`.
    preset : Preset
        Link and radio; default: `netsim.presets.ieee802154`.
    phy : Phy, optional
        How frames are received, and the transmit power. Default: the preset's.
    least : float
        The least probability of reception at which two motes are neighbours, in (0, 1).
    weakest_db : float
        Signals that are more than this number of dB below the noise floor are neglected. (A signal 10 dB below the
        floor raises the noise by 0.4 dB.) Larger values are more exact, and take more memory and time.
    moves : iterable of Move
        The moves of motes, as from `netsim.mobility`. The shadowing of a pair of motes does not change as they move.
    roaming : sequence
        The motes that `netsim.Network.move` may place anywhere. Give movements that are known in advance as ``moves``,
        which costs less: each broadcast of a roaming mote is a link message to every other mote, and is counted as
        `lost` at each mote that is out of range.
    power_dbm : mapping
        {node: dBm}: transmit powers of motes that do not use the power of ``phy``.
    interferers : mapping
        {name: Interferer}: sources of interference, from `netsim.interferers`. They are nodes of the network, but not
        motes: they have no neighbours, each run creates their agents, and its results omit them.
    start : float or mapping
        The times (s) at which motes are switched on: {node: time}, or one number, up to which times are drawn
        uniformly.
    warm_up : float
        Time (s) that scripts and studies let a network start up before they measure it.
    roles : mapping
        {node: role}, for scripts. The network ignores roles.
    drift_ppm, offset : float or mapping
        Errors of the clocks, as in `netsim.faults.ClockSkew`: the drift in parts per million (positive: slow), and the
        seconds by which a clock is behind. Either {node: value}, or one number: then each mote's drift is drawn
        uniformly from ±``drift_ppm``, and its offset from 0 to ``offset``.
    connected : bool
        Whether all motes must be connected. With False, the network may have several components.
    seed : int
        The seed of shadowing and clocks. It determines the site; the network's seed determines a run on this site.

    Raises
    ------
    BadInput
        If a value is outside its range.
    """

    positions: Mapping[Any, Place]
    _: KW_ONLY
    sinks: Sequence[Hashable] = ()
    path_loss: LogDistance = field(default_factory=LogDistance)
    preset: presets.Preset = field(default_factory=presets.ieee802154)
    phy: Phy | None = None
    least: float = 0.1
    weakest_db: float = 10.0
    moves: Sequence[Move] = ()
    roaming: Sequence[Hashable] = ()
    power_dbm: Mapping[Any, float] = field(default_factory=dict)
    interferers: Mapping[Any, Interferer] = field(default_factory=dict)
    start: float | Mapping[Any, float] = 0.0
    warm_up: float = 0.0
    roles: Mapping[Any, str] = field(default_factory=dict)
    drift_ppm: float | Mapping[Any, float] = 0.0
    offset: float | Mapping[Any, float] = 0.0
    connected: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.positions, Mapping) or not self.positions:
            raise check.refuse("positions", self.positions, "a mapping {node: (x, y)} in metres, not empty")
        size = len(np.atleast_1d(np.asarray(next(iter(self.positions.values())), dtype=object)))
        if size not in (2, 3):
            raise check.refuse("positions", self.positions, "a mapping {node: (x, y)} or {node: (x, y, z)} in metres")
        places = {node: _place(f"positions[{node!r}]", at, size) for node, at in self.positions.items()}
        check.instance("moves", self.moves, Iterable, "a list of netsim.faults.Move")
        moves = tuple(self.moves)
        for move in moves:
            check.instance("moves", move, Move, "a list of netsim.faults.Move")
        _doubt_places(list(places.values()))
        check.put(self, positions=places, sinks=tuple(self.sinks), moves=tuple(Faults(moves)))
        check.put(self, roaming=tuple(self.roaming))
        for name in ("sinks", "roaming", "power_dbm", "roles"):
            if name in ("power_dbm", "roles"):
                check.instance(name, getattr(self, name), Mapping, "a mapping {node: ...}")
            for node in getattr(self, name):
                self._must_be_here(f"{name}: node", node)
        for node, power in self.power_dbm.items():
            doubt_power(f"power_dbm[{node!r}]", check.finite(f"power_dbm[{node!r}]", power))
        self._check_interferers(size)
        for move in self.moves:
            self._must_be_here("Move: agent", move.agent)
            self.place(move.position, places[move.agent])
        check.instance("path_loss", self.path_loss, LogDistance, "a netsim.radio.LogDistance")
        if type(self.path_loss).powers is not LogDistance.powers:
            raise BadInput(
                "path_loss: must compute powers as LogDistance does; it may define another path_loss(distance)"
            )
        self._check_phy()
        check.fields(self, check.finite, "least", above=0)
        if self.least >= 1:
            raise check.refuse("least", self.least, "a probability in (0, 1)")
        check.fields(self, check.finite, "weakest_db", "warm_up", low=0)
        check.fields(self, check.flag, "connected")
        check.fields(self, check.integer, "seed", low=0)
        self._check_clocks()

    def _check_interferers(self, size: int) -> None:
        check.instance("interferers", self.interferers, Mapping, "a mapping {name: Interferer}")
        for name, each in self.interferers.items():
            where = f"interferers[{name!r}]"
            check.instance(where, each, Interferer, "a netsim.interferers.Interferer, such as WiFi(position=(3, 4))")
            _place(f"{where}: position", each.position, size)
            if name in self.positions:
                raise BadInput(f"{where}: must have another name; a mote has this one")

    def _check_phy(self) -> None:
        radio = self.preset.radio if isinstance(self.preset, presets.Preset) else None
        if radio is None:
            raise check.refuse("preset", self.preset, "a Preset with a radio, as netsim.presets.ieee802154()")
        phy = radio.phy if self.phy is None else self.phy
        if not isinstance(phy, Phy):
            raise check.refuse("phy", phy, "a netsim.radio.Phy, because the preset has none")
        given = self.path_loss.transmit_dbm
        if given not in (LogDistance.transmit_dbm, phy.transmit_dbm):
            allowed = f"left out, or the phy's, {phy.transmit_dbm:g} dBm"
            raise check.refuse("path_loss: transmit_dbm", given, allowed)

    def _check_clocks(self) -> None:
        for name in ("drift_ppm", "offset", "start"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                check.put(self, **{name: check.finite(name, value, low=0)})
                continue
            for node in value:
                self._must_be_here(f"{name}: node", node)
            low = 0.0 if name == "start" else -math.inf
            each = {node: check.finite(f"{name}[{node!r}]", given, low=low) for node, given in value.items()}
            check.put(self, **{name: each})

    def _must_be_here(self, name: str, node: Hashable) -> None:
        check.member(name, node, self.positions, "one that has a position")

    @classmethod
    def read(cls, path: str | Path, changes: Mapping[str, Any] | None = None, **options: Any) -> "Deployment":
        """Read positions of motes, or a whole site, from a file; ``options`` replace settings of the file.

        A site is a TOML file, ``.toml``, with these tables, all optional except the motes (docs/sites.md has an
        example):

        - seed, least, weakest_db, connected, start, warm_up: the arguments of that name; preset: "ieee802154",
          "bluetooth_low_energy", "lora" or "wifi"
        - [radio], [phy], [path_loss]: the preset's arguments and those of `Radio`, `Phy` and `LogDistance`
        - [building]: walls, the name of a csv file for `Walls.from_csv`, storey and floor_db
        - [clocks]: drift_ppm and offset
        - [motes]: file, the name of a file of motes; [motes.NAME]: at (the position), and the other columns of such a
          file
        - [interferers.NAME]: kind ("wifi", "jammer", "reactive-jammer", "network" or "busy-periods"), and the
          arguments of the class in `netsim.interferers`
        - [[moves]]: mote, to, at, until, step, as `netsim.faults.Move`; [mobility]: file, for
          `netsim.mobility.read`, and step

        File names are relative to this file's folder. The format of a file of motes is recognised by its content
        (docs/files.md):

        - csv: the columns name, x and y, in metres, or longitude and latitude, and if wanted z, sink and roaming (1 or
          yes; empty, 0 or no), role, power_dbm, drift_ppm, offset and start (empty: the default). A name that is a
          whole number is read as an int. Empty lines and lines that begin with # are skipped
        - Cooja's simulations (``.csc``); nodes of FIT IoT-LAB, as csv or in the JSON of its API
        - any graph that `netsim.topology.read` reads and whose nodes have positions
        - any trace that `netsim.mobility.read` reads: each node appears at the time and position of its first point,
          and moves

        Degrees are projected to metres. A RuntimeWarning reports the projection and omitted data.

        Parameters
        ----------
        path : str or Path
            The file.
        changes : mapping, optional
            Values that replace values of the file, keyed by path: {"radio.power_dbm": -5, "interferers.ap.at": 60}.

        Raises
        ------
        BadInput
            If the file is missing or invalid; the message names the file and the line.
        """
        site = Site(path, changes or {})
        with site.at(""):
            return cls(**(site.arguments() | options))

    # --- who hears whom -----------------------------------------------------------------------------------------------

    @property
    def sink(self) -> Any:
        """The sink; raises BadInput unless there is exactly one."""
        if len(self.sinks) != 1:
            raise check.refuse("sinks", self.sinks, "one mote")
        return self.sinks[0]

    # Derived values are not stored in fields, because `dataclasses.replace` would copy stored values without
    # recomputing them.
    @cached_property
    def _phy(self) -> Phy:
        radio = self.preset.radio
        phy = radio.phy if self.phy is None and radio is not None else self.phy
        assert phy is not None
        return phy

    @cached_property
    def _model(self) -> LogDistance:
        return replace(self.path_loss, transmit_dbm=self._phy.transmit_dbm)

    @cached_property
    def places(self) -> dict[Any, Place]:
        """The positions (m) of all nodes at the start of a run: motes, then interferers."""
        return {**self.positions, **{name: tuple(each.position) for name, each in self.interferers.items()}}

    @cached_property
    def _more_db(self) -> dict[Any, float]:
        """The difference (dB) of a node's transmit power from that of the phy, only for nodes where it is not 0."""
        own = {**self.power_dbm, **{name: each.in_band_dbm(self._phy) for name, each in self.interferers.items()}}
        more = {node: power - self._phy.transmit_dbm for node, power in own.items()}
        return {node: each for node, each in more.items() if each}

    def _powers_above(self, level: float, places: Mapping[Any, Place]) -> Powers:
        """Return the received powers (dBm) in both directions of each pair in which at least one exceeds a level."""
        usual = {node: at for node, at in places.items() if node not in self._more_db}
        found = self._model.powers_above(usual, level, seed=self.seed) if len(usual) > 1 else {}
        if len(usual) == len(places):
            return found
        # For the few nodes whose transmit power differs, compute the powers of all pairs.
        others = [node for node in places if node in self._more_db]
        pairs = {ends: None for one in others for node in places if node != one for ends in ((one, node), (node, one))}
        powers = self._powers_between(pairs, places)
        return found | {ends: power for ends, power in powers.items() if max(power, powers[ends[::-1]]) >= level}

    def _powers_between(self, pairs: Iterable[tuple[Any, Any]], places: Mapping[Any, Place]) -> Powers:
        powers = self._model.powers_between(pairs, places, seed=self.seed)
        return {ends: power + self._more_db.get(ends[0], 0.0) for ends, power in powers.items()}

    @cached_property
    def hears_dbm(self) -> float:
        """The least received power (dBm) at which two motes are neighbours."""
        return self._phy.receives_from(self.least, REFERENCE)

    @cached_property
    def powers(self) -> Powers:
        """The initial received powers, {(sender, receiver): dBm}, without pairs that are negligible both ways."""
        if len(self.places) < 2:
            return {}
        found = self._powers_above(self._weakest, self.places)
        later = [pair for edge in self.graph.edges for pair in (edge, edge[::-1]) if pair not in found]
        more = self._powers_between(later, self.places) if later else {}
        # Behind many walls the computed power can be minus infinity.
        return found | {ends: max(power, -MOST_DBM) for ends, power in more.items()}

    def reception(self, bits: int = REFERENCE) -> dict[tuple[Any, Any], float]:
        """Return the probability that a frame of ``bits`` on the air is received without interference.

        The result maps each pair of neighbours (sender, receiver) to its probability at the motes' first positions.
        """
        bits, noise = check.integer("bits", bits, low=1), self._phy.noise_dbm
        pairs = [ends for edge in self.graph.edges for ends in (edge, edge[::-1])]
        sinr = {ends: self.powers[ends] - noise for ends in pairs}
        return {ends: self._phy.success(each, bits) if each > self._phy.lock_db else 0.0 for ends, each in sinr.items()}

    @cached_property
    def graph(self) -> "nx.Graph[Any]":
        """The graph of neighbours, with each node's ``pos``; a moving mote is linked to each mote it ever meets."""
        graph: nx.Graph[Any] = nx.Graph()
        graph.add_nodes_from((node, {"pos": at}) for node, at in self.positions.items())
        if len(graph) > 1:
            heard = self._powers_above(self.hears_dbm, self.positions)
            graph.add_edges_from(ends for ends, power in heard.items() if power >= self.hears_dbm)
            graph.add_edges_from((node, other) for node in self.roaming for other in self.positions if other != node)
            graph.add_edges_from(list(self._met(graph)))
        return graph

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {node: number for number, node in enumerate(self.places)}

    @cached_property
    def _keys(self) -> draws.Keys:
        return name_keys(self.places)

    @property
    def _weakest(self) -> float:
        """The least received power (dBm) that is not neglected."""
        return min(self._phy.noise_dbm - self.weakest_db, self.hears_dbm)

    def powers_of(self, node: Hashable, places: Mapping[Any, Place]) -> Powers:
        """Return the non-negligible received powers (dBm) between a node and all others, in both directions."""
        at, names = list(places.values()), list(places)
        there, back = self._model.powers_of(self._numbers[node], at, self._keys, seed=self.seed)
        if self._more_db:
            there = there + self._more_db.get(node, 0.0)
            back = back + np.array([self._more_db.get(other, 0.0) for other in names])
        beside = np.zeros(len(names), dtype=bool)
        beside[[self._numbers[other] for other in self.graph[node]] if node in self.graph else []] = True
        matter = beside | (np.maximum(there, back) >= self._weakest)
        matter[self._numbers[node]] = False
        found: Powers = {}
        for number in np.flatnonzero(matter).tolist():
            found[node, names[number]], found[names[number], node] = float(there[number]), float(back[number])
        return found

    def must_be_neighbours(self, powers: Powers) -> None:
        """Raise BadInput if, with these powers (dBm), a mote receives another that is not its neighbour."""
        for ends, power in powers.items():
            if power >= self.hears_dbm and not self.graph.has_edge(*ends) and self.interferers.keys().isdisjoint(ends):
                raise BadInput(
                    f"move: {ends[0]!r} and {ends[1]!r} come into range ({power:.3g} dBm), but are not neighbours: "
                    "must be among the Deployment's moves, from which neighbours are found, or of a mote in its roaming"
                )

    def place(self, position: object, before: Place) -> Place:
        """Validate a position and return it; a missing height is copied from ``before``."""
        values = check.finite_array("position", position)
        if values.shape not in ((2,), (len(before),)):
            raise check.refuse("position", position, f"{len(before)} numbers in metres, as Deployment's positions are")
        return (*values.tolist(), *before[len(values) :])

    def place_of(self, node: Hashable, time: float) -> Place:
        """Return the position (m) of a mote at ``time`` (s) according to the deployment's ``moves``.

        Raises
        ------
        BadInput
            If the mote is unknown.
        """
        if node in self.interferers:
            return self.places[node]
        self._must_be_here("node", node)
        place, ways = self.positions[node], [move for move in self.moves if move.agent == node]
        for at, _, there in self._steps(0, place, ways) if ways else ():
            if at > time:
                break
            place = there
        return place

    # --- motes that move ----------------------------------------------------------------------------------------------

    def _met(self, graph: "nx.Graph[Any]") -> Iterator[tuple[Any, Any]]:
        """Yield the pairs of motes that come into range because one of them moves."""
        names, number = list(self.positions), self._numbers
        now = np.array(list(self.positions.values()))
        # For each moving mote, the motes that it has not met yet.
        unmet = {number[move.agent]: np.ones(len(names), dtype=bool) for move in self.moves}
        for node, others in unmet.items():
            others[[node, *(number[other] for other in graph[names[node]])]] = False
        moves: dict[Hashable, list[Move]] = {}
        for move in self.moves:
            moves.setdefault(move.agent, []).append(move)
        steps = [self._steps(number[name], self.positions[name], each) for name, each in moves.items()]
        for _, node, place in heapq.merge(*steps):
            now[node] = place
            others = np.flatnonzero(unmet[node])
            level = self.hears_dbm - max((self._more_db.get(name, 0.0) for name in self.power_dbm), default=0.0)
            for other in self._model.can_reach(node, others, now, self._keys, level, seed=self.seed).tolist():
                if self.power_dbm and not self._hear(names[node], names[other], now[node], now[other]):
                    continue
                unmet[node][other] = False
                if other in unmet:
                    unmet[other][node] = False
                yield names[node], names[other]

    def _hear(self, one: Hashable, other: Hashable, here: Any, there: Any) -> bool:
        powers = self._powers_between([(one, other), (other, one)], {one: here, other: there})
        return max(powers.values()) >= self.hears_dbm

    @staticmethod
    def _steps(node: int, place: Place, moves: list[Move]) -> Iterator[tuple[float, int, Place]]:
        """Yield the times (s) and positions of a moving node; a later move ends an earlier one."""
        ends = [after.at for _, after in pairwise(moves)] + [math.inf]
        for move, end in zip(moves, ends, strict=True):
            for time, there in move.way_from(place):
                if time > end:
                    break
                place = there
                yield time, node, place

    # --- a network ----------------------------------------------------------------------------------------------------

    @property
    def clocks(self) -> list[ClockSkew]:
        """The `ClockSkew` faults of the motes whose clocks have an error."""
        offsets = (drawn("offset", self.offset, node, self.seed) for node in self.positions)
        drifts = (drawn("drift_ppm", self.drift_ppm, node, self.seed) / 1e6 for node in self.positions)
        found = map(ClockSkew, self.positions, offsets, drifts)
        return [clock for clock in found if clock.offset or clock.drift]

    def network(self, *, radio: Radio | None = None, faults: Iterable[Fault] = (), **options: Any) -> Network:
        """Return the network.

        Parameters
        ----------
        radio : Radio, optional
            A radio that replaces the preset's, such as a copy by `dataclasses.replace` with a duty cycle or batteries.
            The deployment sets its powers and its phy.
        faults : iterable of Fault
            Further faults, such as `netsim.faults.Join` for a mote that is switched on later.
        **options
            The other arguments of `Network`, such as ``seed``.

        Raises
        ------
        BadInput
            If motes are not connected although ``connected`` requires it; the message names them and the distance to
            the nearest other mote.
        """
        for name in ("graph", "links", "medium", "connected"):
            if name in options:
                raise BadInput(f"{name}: must be left out: it follows from the deployment")
        radio = self.preset.radio if radio is None else radio
        if not isinstance(radio, Radio):
            raise check.refuse("radio", radio, "a netsim.Radio")
        own = self.preset.radio and self.preset.radio.phy
        if radio.phy not in (None, self._phy, own):
            raise BadInput("radio: phy: must be left out, or that of the Deployment")
        if self.connected:
            must_be_connected(self.graph, self.positions)
        happens = Faults([*self.clocks, *self.moves, *self.joins, *Faults(faults)])
        powers = {node: self._phy.transmit_dbm + more for node, more in self._more_db.items()}
        medium = replace(radio, phy=self._phy, powers=self.powers, power_dbm=powers)
        graph = self.graph
        if self.interferers:
            graph = graph.copy()
            graph.add_nodes_from((name, {"pos": self.places[name]}) for name in self.interferers)
            # Interferers have no battery and no duty cycle.
            medium = replace(medium, energy=self._of_motes(radio.energy), duty_cycle=self._of_motes(radio.duty_cycle))
        given = {"link": self.preset.link, **options}
        network = Network(graph, medium=medium, faults=happens, connected=False, **given)
        network.deployment = self
        network.scenery = {name: partial(Interference, each) for name, each in self.interferers.items()}
        return network

    def _of_motes(self, given: Any) -> Any:
        return given if given is None or isinstance(given, Mapping) else dict.fromkeys(self.positions, given)

    @property
    def joins(self) -> list[Join]:
        """The `Join` faults of the motes that are switched on after the start."""
        at = {node: drawn("start", self.start, node, self.seed) for node in self.positions}
        return [Join(node, time) for node, time in at.items() if time > 0.0]


def _doubt_places(places: list[Place]) -> None:
    """Warn if all motes are within a square metre far from the origin, because degrees were probably read as metres."""
    x, y = np.array([place[:2] for place in places], dtype=float).T
    side = max(np.ptp(x), np.ptp(y))
    if 0.0 < side < _LEAST_SIDE and min(np.abs(x).max(), np.abs(y).max()) >= _FAR * side:
        about = f"{len(places)} motes on {np.ptp(x):.2g} m x {np.ptp(y):.2g} m around ({x.mean():.6g}, {y.mean():.6g})"
        check.doubt(f"positions: {about}: must be in metres; were degrees of longitude and latitude given?")


def _place(name: str, position: object, size: int) -> Place:
    """Check that a position has ``size`` coordinates, and return it as a tuple."""
    values = check.finite_array(name, position)
    if values.shape != (size,):
        raise check.refuse(name, position, f"{size} numbers in metres, as the others are")
    return tuple(values.tolist())
