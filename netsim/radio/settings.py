"""The settings of a shared radio medium: channel access, reception, acknowledgements, energy."""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import networkx as nx

from netsim.errors import BadInput
from netsim.links.link import Link
from netsim.radio.energy import DutyCycle, Energy
from netsim.radio.phy import USUAL_RECEIVED_DBM, WEAKEST, Phy, doubt_power
from netsim.radio.powers import Powers
from netsim.util import check

__all__ = ["Airtime", "LoRaAirtime", "Radio"]

Access = Literal["aloha", "slotted_aloha", "csma"]

# Largest back-off exponent: no standard has back-offs of 2^20 units.
_MOST_EXPONENT = 20
# The shortest plausible clear channel assessment in bit times: a shorter assessment could not detect a carrier.
_LEAST_OF_A_BIT = 0.1
# The length of the shortest encoded message in bytes, without the link's header.
_SMALLEST = 6
# Limit of counts and of frame lengths in bits, because they are stored as 32-bit integers.
_MOST_COUNT = 2**31 - 1
# Largest number of preamble symbols: a LoRa radio (SX1276) counts them in 16 bits.
_MOST_SYMBOLS = 2**16 - 1
MOST_DBM = 200.0
"""Received powers must be within ±200 dBm, which is far beyond any real power."""


@runtime_checkable
class Airtime(Protocol):
    """Protocol of a model of frames' time on the air, if it is not the number of bits divided by the link's rate."""

    def seconds(self, bits: int) -> float:
        """Return the time on the air (s, above 0) of a frame or fragment of ``bits`` bits, headers included."""
        ...


@check.named
@dataclass(frozen=True, kw_only=True)
class LoRaAirtime:
    """LoRa's time on the air, for `netsim.Radio`. Source: Semtech AN1200.13, "LoRa Modem Designer's Guide", 2013.

    Parameters
    ----------
    spreading_factor : int
        SF, 7 to 12: the number of bits in a chirp.
    bandwidth : float
        Bandwidth in Hz.
    coding_rate : int
        CR, 1 to 4: a share 4/(4 + CR) of the coded bits is payload.
    preamble : int
        The number of symbols in the preamble.
    header : bool
        Whether frames have an explicit header.
    crc : bool
        Whether frames have a CRC of the payload.
    """

    spreading_factor: int = 7
    bandwidth: float = 125e3
    coding_rate: int = 1
    preamble: int = 8
    header: bool = True
    crc: bool = True

    def __post_init__(self) -> None:
        check.fields(self, check.integer, "spreading_factor", low=7, high=12)
        check.fields(self, check.finite, "bandwidth", above=0)
        check.fields(self, check.integer, "coding_rate", low=1, high=4)
        check.fields(self, check.integer, "preamble", low=0, high=_MOST_SYMBOLS)
        check.fields(self, check.flag, "header", "crc")

    @property
    def symbol(self) -> float:
        """The duration of a symbol in seconds, T_sym = 2^SF/BW."""
        return float(2**self.spreading_factor / self.bandwidth)

    @property
    def rate(self) -> float:
        """The rate of the payload's symbols, SF·4/(4 + CR)/T_sym, in bits per second."""
        return self.spreading_factor * 4 / (4 + self.coding_rate) / self.symbol

    def seconds(self, bits: int) -> float:
        """Return (n_preamble + 4.25 + 8 + max(⌈(8PL − 4SF + 28 + 16CRC − 20IH)/(4(SF − 2DE))⌉(CR + 4), 0))·T_sym.

        n_preamble is ``preamble``, and PL is the length in bytes. CRC is 1 with a CRC, else 0. IH is 1 without an
        explicit header, else 0. DE (low data rate optimization) is 1 if a symbol takes 16 ms or more, as the source
        requires, else 0.
        """
        sf, optimized = self.spreading_factor, int(self.symbol >= 16e-3)
        size = math.ceil(bits / 8)
        above = 8 * size - 4 * sf + 28 + 16 * self.crc - 20 * (not self.header)
        payload = 8 + max(math.ceil(above / (4 * (sf - 2 * optimized))) * (self.coding_rate + 4), 0)
        return (self.preamble + 4.25 + payload) * self.symbol


@check.named
@dataclass(frozen=True, kw_only=True, eq=False)
class Radio:
    """A radio medium that all nodes share: ``Network(graph, link, medium=Radio(...))``.

    A node cannot send and receive at the same time. All neighbours of a node hear its transmissions. With a ``phy``,
    powers, interference and noise decide reception. Without a ``phy``, transmissions that overlap in time at a receiver
    are lost, unless one of them is captured (see ``capture``). Each fragment of a frame (see `Link.mtu`) contends for
    the channel, is acknowledged and is retransmitted separately. The network's `Link` sets rate, MTU, header, queue and
    budget; the link's latency is the propagation delay.

    Parameters
    ----------
    access : {"aloha", "slotted_aloha", "csma"} or mapping
        "aloha": a node sends immediately. "slotted_aloha": a node sends at the next multiple of ``slot``. "csma": a
        node sends when it has found the channel clear, by the unslotted CSMA-CA of IEEE 802.15.4-2020, 6.2.5.1. A
        mapping {node: access} sets the access of single nodes; all other nodes then use "csma".
    slot : float, optional
        The length of a slot of slotted ALOHA, in seconds.
    min_be, max_be : int
        macMinBE and macMaxBE, the first and the largest back-off exponent BE. A back-off lasts a random number of units
        from 0 to 2^BE − 1. BE grows by 1 with each assessment that finds the channel busy or, with ALOHA, with each
        further retransmission.
    max_csma_backoffs : int
        macMaxCSMABackoffs: a frame that finds the channel busy more often than this ends as ``access_failed``.
    unit_backoff : float
        aUnitBackoffPeriod, the duration of a back-off unit in seconds; with "slotted_aloha" a unit is a slot instead.
    cca : float
        Duration of the clear channel assessment, in seconds.
    turnaround : float
        aTurnaroundTime, the seconds that a radio takes to turn from receiving to sending: before an acknowledgement
        and, with "csma", before a frame. With a ``phy``, turning back takes the same time, and the radio receives
        nothing while it turns.
    lifs, sifs : float
        macLifsPeriod and macSifsPeriod, in seconds. With "csma", a node that has sent a frame waits before its next
        back-off: ``lifs`` after a long frame, ``sifs`` after a short one, counted from the end of the frame or of its
        acknowledgement.
    max_sifs_bits : int
        The length in bits on the air up to which a frame is short. Default: aMaxSifsFrameSize, 18 bytes, plus 6 of
        preamble and length.
    acks : bool
        Whether a frame to one neighbour is acknowledged, and is retransmitted if no acknowledgement arrives. Broadcasts
        are never acknowledged.
    ack_bits : int
        The length of an acknowledgement in bits on the air, headers included.
    ack_wait : float, optional
        Seconds from the end of a frame for which the sender waits for the acknowledgement. Default: macAckWaitDuration,
        the sum of ``turnaround``, the acknowledgement's time on the air and ``unit_backoff``. Links with a latency need
        a longer wait.
    max_frame_retries : int
        macMaxFrameRetries: the maximum number of retransmissions of a frame.
    sensing : networkx Graph or DiGraph, optional
        A graph with an edge from each sender to each node that senses the sender's carrier. Default: the network's
        graph or, with a ``phy``, no graph, because nodes then sense the received power.
    interference : networkx Graph or DiGraph, optional
        A graph with an edge from each sender to each further node at which the sender interferes. A sender always
        interferes at its neighbours, with one exception: at a neighbour to which the link loses every frame, the sender
        interferes only if this graph has an edge to that neighbour.
    phy : Phy, optional
        The physical layer, which decides reception by the ratio of signal to interference and noise. None: overlap in
        time and ``capture`` decide reception.
    powers : mapping, optional
        Received powers {(sender, receiver): dBm}, each from −200 to 200, for all pairs that hear or disturb each other.
        Without a ``phy``, the powers only decide captures. With a ``phy``, the receiver of each pair hears the sender,
        but frames can be addressed only to neighbours in the network. A pair that is not linked in the network is
        ignored if its power is more than 20 dB below the noise floor. Default: all neighbours, and all edges of
        ``interference``, have the same received power, 60 dB below ``phy.transmit_dbm``.
    power_dbm : mapping
        With a ``phy``: {node: dBm}, the initial transmit powers of nodes for which it is not ``phy.transmit_dbm``. The
        energy of sending follows ``Energy.transmit_at``. ``powers`` must be the received powers at these transmit
        powers.
    capture : float, optional
        A receiver captures a frame, that is, receives it despite overlapping ones, if the frame is at least this many
        dB (0 to 400) stronger than all overlapping frames together. None: no frame is captured.
    airtime : Airtime, optional
        The model of a frame's time on the air. Default: the frame's bits divided by the link's rate.
    transmit_share : float or mapping, optional
        The largest share of time for which a node sends (LoRaWAN: 0.01), or {node: share}; all other nodes send freely.
        After a frame of t seconds the node is silent for t·(1/``transmit_share`` − 1) seconds.
    transmit_bands : sequence
        Groups of channels, such as ``[{0, 1, 2}, {3}]``. ``transmit_share`` applies to each group separately; all
        channels that are in no group form one further group.
    refuses_silent : bool
        Whether a frame that would have to wait for ``transmit_share`` is dropped as ``refused`` instead. This also
        holds for retransmissions and for each of several fragments.
    duty_cycle : DutyCycle or mapping, optional
        The duty cycle of all nodes, or {node: DutyCycle}; the radios of all other nodes are always on. A frame that
        arrives at a sleeping radio is dropped as ``asleep``; a sender waits until its own radio is on.
    energy : Energy or mapping, optional
        The energy model of all nodes, or {node: Energy}; the energy of other nodes is not metered.

    Raises
    ------
    BadInput
        If a value is outside its range, or requires another value that is missing.
    """

    access: Access | Mapping[Any, Access] = "csma"
    slot: float | None = None
    min_be: int = 3
    max_be: int = 5
    max_csma_backoffs: int = 4
    unit_backoff: float = 320e-6
    cca: float = 128e-6
    turnaround: float = 192e-6
    lifs: float = 640e-6
    sifs: float = 192e-6
    max_sifs_bits: int = 8 * 24
    acks: bool = False
    ack_bits: int = 88
    ack_wait: float | None = None
    max_frame_retries: int = 3
    sensing: "nx.Graph[Any] | None" = None
    interference: "nx.Graph[Any] | None" = None
    phy: Phy | None = None
    powers: Mapping[tuple[Any, Any], float] | None = None
    power_dbm: Mapping[Any, float] = field(default_factory=dict)
    capture: float | None = None
    airtime: Airtime | None = None
    transmit_share: float | Mapping[Any, float] | None = None
    transmit_bands: Sequence[Collection[int]] = ()
    refuses_silent: bool = False
    duty_cycle: DutyCycle | Mapping[Any, DutyCycle] | None = None
    energy: Energy | Mapping[Any, Energy] | None = None

    def __post_init__(self) -> None:
        given = self.access.items() if isinstance(self.access, Mapping) else [(None, self.access)]
        for node, access in given:
            check.one_of("access" if node is None else f"access[{node!r}]", access, get_args(Access))
        self._check_access()
        self._check_hearing()
        for name in ("airtime", "duty_cycle", "energy"):
            check.called(name, getattr(self, name))
        check.instance("airtime", self.airtime, Airtime, "a netsim.radio.Airtime", optional=True)
        for cycle in self._cycles:
            check.instance("duty_cycle", cycle, DutyCycle, "a netsim.radio.DutyCycle")
        self._check_share()
        for each in self.energy.values() if isinstance(self.energy, Mapping) else [self.energy]:
            check.instance("energy", each, Energy, "a netsim.Energy", optional=True)

    def _check_share(self) -> None:
        if isinstance(self.transmit_share, Mapping):
            for node, share in self.transmit_share.items():
                check.share(f"transmit_share[{node!r}]", share)
        else:
            check.fields(self, check.share, "transmit_share", optional=True)
        check.fields(self, check.flag, "refuses_silent")
        check.instance("transmit_bands", self.transmit_bands, Sequence, "a list of groups of channels")
        seen = set[int]()
        for band in self.transmit_bands:
            check.instance("transmit_bands", band, Collection, "a list of groups of channels")
            for channel in band:
                if check.integer("transmit_bands: channel", channel, low=0) in seen:
                    raise check.refuse("transmit_bands: channel", channel, "in one group only")
                seen.add(channel)
        if self.transmit_share is None and (self.transmit_bands or self.refuses_silent):
            raise BadInput("transmit_share = None: must be given with transmit_bands and refuses_silent")

    def _check_access(self) -> None:
        if (self.slot is None) == ("slotted_aloha" in self.accesses):
            raise BadInput(f"slot = {self.slot}: must go with access = 'slotted_aloha', and that with it")
        check.fields(self, check.finite, "slot", above=0, optional=True)
        check.fields(self, check.integer, "max_be", low=0, high=_MOST_EXPONENT)
        check.fields(self, check.integer, "min_be", low=0, high=self.max_be)
        check.fields(self, check.integer, "max_csma_backoffs", "max_frame_retries", low=0, high=_MOST_COUNT)
        check.fields(self, check.integer, "ack_bits", low=1, high=_MOST_COUNT)
        # A shorter assessment could vanish in the rounding errors of times.
        check.fields(self, check.finite, "cca", low=1e-7)
        check.fields(self, check.finite, "unit_backoff", above=0)
        check.fields(self, check.finite, "turnaround", "lifs", "sifs", low=0)
        check.fields(self, check.integer, "max_sifs_bits", low=0, high=_MOST_COUNT)
        check.fields(self, check.flag, "acks")
        check.fields(self, check.finite, "ack_wait", above=0, optional=True)

    def _check_hearing(self) -> None:
        for name in ("sensing", "interference"):
            graph = getattr(self, name)
            if graph is not None and (not isinstance(graph, nx.Graph) or graph.is_multigraph()):
                raise check.refuse(name, graph, "a networkx Graph or DiGraph")
        check.called("phy", self.phy)
        if self.phy is not None:
            self._check_phy(self.phy)
        elif self.power_dbm:
            raise check.refuse("power_dbm", self.power_dbm, "left out without a phy")
        check.instance("power_dbm", self.power_dbm, Mapping, "a mapping {node: dBm}")
        for node, power in self.power_dbm.items():
            check.number(f"power_dbm[{node!r}]", power, low=-MOST_DBM, high=MOST_DBM)
        if self.capture is not None:
            check.fields(self, check.number, "capture", low=0, high=2 * MOST_DBM)
            if self.powers is None:
                raise BadInput(f"capture = {self.capture:g}: must come with powers, or nothing is the stronger")
        if self.powers is not None:
            check.instance("powers", self.powers, Mapping, "a mapping {(sender, receiver): dBm}")
            check.put(self, powers=_checked_powers(self.powers))
            if self.powers:
                ends, power = max(self.powers.items(), key=itemgetter(1))
                doubt_power(f"powers[{ends}]", power, USUAL_RECEIVED_DBM)

    def _check_phy(self, phy: Phy) -> None:
        check.instance("phy", phy, Phy, "a netsim.radio.Phy, or None")
        if self.capture is not None:
            raise BadInput(f"capture = {self.capture}: must be left out with a phy, where powers decide it")
        if self.interference is not None and self.powers is not None:
            raise BadInput("interference: must be left out with a phy and powers, which say who disturbs whom")

    # --- for one network ----------------------------------------------------------------------------------------------

    def check_network(self, graph: "nx.Graph[Any]", link: Link, links: Mapping[tuple[Any, Any], Link]) -> None:
        """Raise BadInput unless this radio suits a network with this graph and these links."""
        if link.rate is None and self.airtime is None:
            raise BadInput("medium = Radio: must go with a Link that has a rate, or a transmission takes no time")
        if not (link.rate is None or isinstance(link.rate, int | float)):
            raise check.refuse("rate", link.rate, "a number of bits per second on a Radio")
        for each in (link, *links.values()):
            if each.duplicate:
                raise check.refuse("duplicate", each.duplicate, "0 on a Radio, whose link layer drops second copies")
        for name in ("sensing", "interference"):
            for node in getattr(self, name) or ():
                check.member(f"{name}: node", node, graph, "a node of the network's graph")
        unable = [] if self.sensing is None else [node for node in graph if node not in self.sensing]
        if unable:
            raise BadInput(f"sensing: must have all nodes of the network's graph; node {unable[0]!r} is missing")
        for node in (node for cycle in self._cycles for node in cycle.offsets):
            check.member("duty_cycle: offsets: node", node, graph, "a node of the network's graph")
        for name in ("access", "energy", "duty_cycle", "power_dbm", "transmit_share"):
            each = getattr(self, name)
            for node in each if isinstance(each, Mapping) else ():
                check.member(f"{name}: node", node, graph, "a node of the network's graph")
        powers: Iterable[Any] = () if self.phy is None or self.powers is None else self.powers
        if isinstance(powers, Powers):
            # The loop below only checks that both names of each pair are nodes. A `Powers` may have a million pairs but
            # has few names, so replace its pairs by pairs of each name with itself.
            powers = zip(powers.names, powers.names, strict=True)
        for ends in powers:
            if not (isinstance(ends, tuple) and len(ends) == 2 and ends[0] in graph and ends[1] in graph):
                raise check.refuse("powers: pair", ends, "two nodes of the network's graph")
        self._check_energy(graph)
        self._doubt_times(link)

    def _doubt_times(self, link: Link) -> None:
        """Warn if the rate is too low for ``cca``, or if a window of a duty cycle is shorter than any frame."""
        rate = link.rate if self.airtime is None else None
        if isinstance(rate, int | float) and "csma" in self.accesses and rate * self.cca < _LEAST_OF_A_BIT:
            bit = f"a bit takes {1e3 / rate:g} ms, an assessment of the channel (cca) {1e3 * self.cca:g} ms"
            check.doubt(f"rate = {rate:g} bit/s: {bit}; were kbit/s meant?")
        for cycle in self._cycles:
            seconds = self.seconds(8 * _SMALLEST + link.header_bits, link)
            awake = max(length for _, length in cycle._spans())
            if awake < seconds * (1 - check.ROUNDING):
                frame = f"{_SMALLEST} bytes and their header are on the air for {seconds:g} s"
                check.doubt(f"duty_cycle: awake = {awake:g} s: is shorter than any frame; {frame}")

    def _check_energy(self, graph: "nx.Graph[Any]") -> None:
        for node in graph:
            energy = self.energy_of(node)
            if energy is None or not energy.amplifier:
                continue
            if "pos" not in graph.nodes[node]:
                raise BadInput(f"amplifier = {energy.amplifier:g}: must go with positions; node {node!r} has no pos")
            places = [graph.nodes[other]["pos"] for other in graph[node] if "pos" in graph.nodes[other]]
            farthest = max((math.dist(graph.nodes[node]["pos"], place) for place in places), default=0.0)
            if not energy.can_reach(farthest):
                allowed = f"smaller: what a bit costs over the {farthest:g} m from node {node!r} is beyond all numbers"
                raise check.refuse("exponent", energy.exponent, allowed)

    @property
    def accesses(self) -> set[Access]:
        """The channel access methods that nodes may use."""
        return {*self.access.values(), "csma"} if isinstance(self.access, Mapping) else {self.access}

    def access_of(self, node: Hashable) -> Access:
        """Return a node's channel access method."""
        return self.access.get(node, "csma") if isinstance(self.access, Mapping) else self.access

    def energy_of(self, node: Hashable) -> Energy | None:
        """Return a node's energy model; None if its energy is not metered."""
        energy = self.energy.get(node) if isinstance(self.energy, Mapping) else self.energy
        own = self.power_dbm.get(node)
        return energy if energy is None or own is None else replace(energy, transmit=energy.sends_with(own))

    def share_of(self, node: Hashable) -> float:
        """Return the largest share of time for which a node sends; 0 if it sends freely."""
        share = self.transmit_share
        return (share.get(node) if isinstance(share, Mapping) else share) or 0.0

    @property
    def band_of(self) -> dict[int, int]:
        """{channel: index of its group in ``transmit_bands``}."""
        return {channel: number for number, band in enumerate(self.transmit_bands) for channel in band}

    def power_dbm_of(self, node: Hashable) -> float:
        """Return a node's initial transmit power (dBm); 0 without a ``phy``."""
        return 0.0 if self.phy is None else self.power_dbm.get(node, self.phy.transmit_dbm)

    @property
    def _cycles(self) -> list[DutyCycle]:
        """All duty cycles in ``duty_cycle``; an empty list if it is None."""
        if isinstance(self.duty_cycle, Mapping):
            return list(self.duty_cycle.values())
        return [] if self.duty_cycle is None else [self.duty_cycle]

    def cycle_of(self, node: Hashable) -> DutyCycle | None:
        """Return a node's duty cycle; None if its radio is always on."""
        return self.duty_cycle.get(node) if isinstance(self.duty_cycle, Mapping) else self.duty_cycle

    def seconds(self, bits: int, link: Link) -> float:
        """Return the time on the air (s) of a frame or fragment of ``bits`` bits."""
        if self.airtime is not None:
            return check.finite(f"airtime.seconds({bits})", self.airtime.seconds(bits), above=0)
        assert isinstance(link.rate, int | float)
        return bits / link.rate

    def wait_for_ack(self, link: Link) -> float:
        """Return the time (s) for which a sender waits for an acknowledgement."""
        if self.ack_wait is not None:
            return self.ack_wait
        return self.turnaround + self.seconds(self.ack_bits, link) + self.unit_backoff

    def power(self, sender: Hashable, receiver: Hashable) -> float:
        """Return the power (mW) at which ``receiver`` receives ``sender``; 1 without ``powers`` and ``phy``.

        Raises
        ------
        BadInput
            If ``powers`` is given without this pair.
        """
        if self.powers is None:
            if self.phy is None:
                return 1.0
            own = self.power_dbm_of(sender) - self.phy.transmit_dbm
            return float(10.0 ** ((self.phy.default_dbm + own) / 10.0))
        if (sender, receiver) not in self.powers:
            raise BadInput(
                f"powers: must have one for each pair that hears each other; there is none for {sender!r} "
                f"→ {receiver!r}"
            )
        return float(10.0 ** (self.powers[sender, receiver] / 10.0))

    @property
    def weakest_dbm(self) -> float:
        """The power (dBm) below which signals are ignored; minus infinity without a ``phy``."""
        return -math.inf if self.phy is None else self.phy.noise_dbm - WEAKEST

    @property
    def captures_above(self) -> float:
        """The minimum ratio of a captured frame's power to the sum of the overlapping frames' powers.

        The ratio is infinite without ``capture``.
        """
        # Lower the ratio by the rounding tolerance, so that a frame that is stronger by exactly ``capture`` dB is
        # captured.
        return math.inf if self.capture is None else float(10.0 ** (self.capture / 10.0)) * (1.0 - check.ROUNDING)


def _checked_powers(powers: Mapping[Any, Any]) -> Mapping[Any, float]:
    """Return received powers (dBm) as floats, or raise BadInput."""
    if isinstance(powers, Powers) and bool((abs(powers.dbm) <= MOST_DBM).all()):
        return powers
    found = dict(powers.items())
    for ends, power in found.items():
        # Call `check.number` only for suspect values: formatting its first argument a million times would be slow.
        if type(power) is not float or not -MOST_DBM <= power <= MOST_DBM:
            found[ends] = check.number(f"powers[{ends}]", power, low=-MOST_DBM, high=MOST_DBM)
    return found
