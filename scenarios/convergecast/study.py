"""Convergecast: motes report to a sink over a tree; the share of readings that arrive, their delay and their cost."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from netsim import BadInput, Network, Radio, Run
from netsim.agents import TSCH
from netsim.radio import DutyCycle, presets
from netsim.scenarios.convergecast import measures
from netsim.scenarios.convergecast.field import Layout, SensorField
from netsim.scenarios.convergecast.figures import draw_by_hops, draw_tree
from netsim.scenarios.convergecast.mote import MACS, ROUTING, SLOT, PartsMote, Reports, Tree, TreeMote
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.scenarios.tasks.diagnosis import missed_notes
from netsim.scenarios.tasks.motes import cc2420
from netsim.scenarios.tasks.settings import numbers_in
from netsim.studies import Study
from netsim.studies.experiment import Experiment, Grid, NamedValue, Seeds, Setup
from netsim.studies.experiment.study import Played, study_of
from netsim.studies.seeds import GraphSeeds
from netsim.util import check

_CYCLES, _CYCLE = {"csma": 1.0, "tsch": 0.07}, 0.125
_SENSE_DBM = -90.0  # for ContikiMAC: the carrier-sense threshold of Contiki's CC2420 driver
_NAMES = {"xmac": "X-MAC", "contikimac": "ContikiMAC"}


@dataclass(frozen=True, kw_only=True)
class RadioUse:
    """How motes use their radios.

    Parameters
    ----------
    routing : str
        "tree": the field's best tree, known from the start; "ctp" or "rpl": motes find their routes themselves.
    mac : str
        "csma": CSMA-CA. "lpl", "xmac" or "contikimac": radios wake once in --cycle seconds, at independent times.
        "tsch": all radios wake for the same cell of 10 ms, each time on another channel.
    acks : bool
        Whether frames are acknowledged and retransmitted up to three times; by default both settings run. Routing
        protocols and MAC layers other than "csma" always use acknowledgements and their own retransmissions.
    awake : str
        "csma": shares of the time in which all radios are on together, separated by commas; 1,0.1,0.01 by default.
    cycle : float
        Wake-up interval in seconds; by default 1 with "csma", 0.07 (7 slots) with "tsch", else 0.125.
    """

    routing: str = "tree"
    mac: str = "csma"
    acks: bool | None = None
    awake: str | None = None
    cycle: float | None = None

    def resolved(self) -> "RadioUse":
        """Return the settings with defaults filled in; raises BadInput for inconsistent ones."""
        check.one_of("routing", self.routing, ("tree", *ROUTING))
        mac = check.one_of("mac", self.mac, ("csma", *MACS))
        cycle = check.finite("cycle", _CYCLES.get(mac, _CYCLE) if self.cycle is None else self.cycle, above=0.0)
        if mac == "tsch" and cycle < SLOT:
            raise check.refuse("cycle", cycle, f"at least a slot, {SLOT:g} s, with mac = 'tsch'")
        if mac in MACS and self.awake is not None:
            raise BadInput(f"awake = {self.awake!r}: must be left out with mac = {mac!r}, which wakes by itself")
        acked = self.routing if self.routing in ROUTING else mac if mac in MACS else None
        if acked is not None and self.acks is False:
            raise BadInput(f"acks = False: must be left out with {acked}, which needs acknowledgements")
        found = self if self.awake is not None or mac in MACS else replace(self, awake="1,0.1,0.01")
        return replace(found, cycle=cycle, acks=self.acks if acked is None else True)

    def ways(self) -> list["Way"]:
        """Return the runs of the study."""
        assert self.cycle is not None
        if self.mac in MACS:
            routing = f"{self.routing.upper()}, " if self.routing in ROUTING else ""
            return [Way(f"{routing}{_NAMES.get(self.mac, self.mac.upper())}, wakes every {self.cycle:g} s", None, True)]
        found = []
        shares = numbers_in("awake", str(self.awake), "shares above 0, up to 1, with commas between", float)
        shares = list(dict.fromkeys(check.share("awake", each) for each in shares))
        for share, acked in itertools.product(shares, (False, True) if self.acks is None else (self.acks,)):
            duty = None if share == 1 else DutyCycle(period=self.cycle, awake=share * self.cycle)
            kind = self.routing.upper() if self.routing in ROUTING else "acks" if acked else "no acks"
            found.append(Way(f"{kind}, awake {share:g}", duty, acked))
        return found

    def preset(self, acks: bool = False) -> presets.Preset:
        """Return the motes' preset; ContikiMAC's senses weaker signals, because its wake-ups end without energy."""
        found = presets.ieee802154(acks=acks)
        if self.mac != "contikimac":
            return found
        assert found.radio is not None
        assert found.radio.phy is not None
        phy = replace(found.radio.phy, sense_dbm=_SENSE_DBM)
        return found._replace(radio=replace(found.radio, phy=phy))

    def radio(self, way: "Way") -> Radio:
        """Return the radio of a run, without retransmissions or carrier sense where a protocol does these itself."""
        radio = self.preset(way.acked).radio
        assert radio is not None
        if self.mac in MACS:
            return replace(radio, access="aloha", max_frame_retries=0)
        retries = 0 if self.routing in ROUTING else radio.max_frame_retries
        return replace(radio, duty_cycle=way.duty, max_frame_retries=retries)

    def tries(self, radio: Radio, mote: Any) -> int | None:
        """Return the maximum number of tries per hop; None if a time limit ends the tries instead."""
        if self.mac in MACS:
            return None
        return int(mote.routing.attempts) if self.routing in ROUTING else 1 + radio.max_frame_retries * radio.acks

    def mote(self, mote: Any, layout: Layout, period: float, readings: int, acked: bool) -> Any:
        """Return a `TreeMote`, or a `PartsMote` with a routing layer and possibly a MAC layer."""
        parent, is_sink = layout.parents.get(mote), mote == layout.sink
        if self.routing not in ROUTING and self.mac not in MACS:
            return TreeMote(parent, is_sink, period, readings, acked)
        mac = None if self.mac not in MACS or self.cycle is None else MACS[self.mac](self.cycle, is_sink)
        routing = ROUTING[self.routing](is_sink) if self.routing in ROUTING else Tree(is_sink, parent)
        return PartsMote(mac=mac, routing=routing, app=Reports(period, readings))


@dataclass(frozen=True)
class Way:
    """One of the study's runs: its name, the radios' duty cycle, and whether frames are acknowledged."""

    name: str
    duty: DutyCycle | None
    acked: bool


def experiment(
    *,
    field: SensorField = SensorField(),  # noqa: B008 (frozen)
    period: float = 30.0,
    readings: int = 40,
    use: RadioUse = RadioUse(),
    battery: float = 2500.0,
    seeds: GraphSeeds = GraphSeeds(seed=1),
) -> Experiment:
    """Motes sample and report to a sink over a tree: delivery, delay, and cost.

    Radios are IEEE 802.15.4 at 250 kbit/s with CSMA-CA. The study runs with and without acknowledgements, for several
    duty cycles. The tree is known in advance or found by a routing protocol.

    Parameters
    ----------
    period : float
        Seconds between two readings of a mote.
    readings : int
        Number of readings of each mote.
    battery : float
        Capacity of a mote's battery in mAh at 3 V, to compute its lifetime.
    """
    period = check.finite("period", period, above=0.0)
    check.integer("readings", readings, low=1)
    battery = check.finite("battery", battery, above=0.0)
    use, field = use.resolved(), field.resolved()
    ways = use.ways()

    def radios(setup: Setup, way: Way = ways[0]) -> Network:
        layout, link = field.layout(use.preset(), setup.seeds.graph), presets.ieee802154().link
        return layout.network(link, use.radio(way), round_period=period, seed=setup.seeds.network)

    def motes(setup: Setup, way: Way = ways[0]) -> dict[Any, Any]:
        layout = field.layout(use.preset(), setup.seeds.graph)
        warm_up = 0.0 if layout.deployment is None else layout.deployment.warm_up
        if readings * period <= warm_up:
            raise BadInput(
                f"readings = {readings}: must be > {warm_up / period:g}, or all are taken before warm_up ends"
            )
        return {mote: use.mote(mote, layout, period, readings, way.acked) for mote in layout.graph}

    return Experiment(
        methods={"": motes},
        networks=radios,
        grid=Grid({"network.way": NamedValue(way.name, way), "method.way": NamedValue(way.name, way)} for way in ways),
        seeds=[Seeds(**asdict(seeds))],
        rounds=readings + 2,
        sample=period,
        measure=[_arrived],
        report=partial(_report, field=field, use=use, battery=battery),
    )


convergecast = study_of(experiment)


def _arrived(agents: Mapping[Any, Any]) -> dict[str, float]:
    """Return the total numbers of readings taken and received so far."""
    taken = sum(len(mote.app.taken_at) for mote in agents.values())
    heard = sum(len(mote.routing.heard) for mote in agents.values() if mote.routing.is_sink)
    return {"readings": taken, "arrived": heard}


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, played: Sequence[Played], *, field: SensorField, use: RadioUse, battery: float) -> None:
    study.record(field, use)
    layout = field.layout(use.preset(), played[0].setup.seeds.graph)
    placed = layout.deployment
    energy = cc2420()[2] if placed is None or placed.preset.energy is None else placed.preset.energy
    parts = []
    for way, (name, run) in zip(use.ways(), study.runs.items(), strict=True):
        rows = measures.by_reading(run, layout)
        if placed is not None:
            rows = rows[~(rows["taken_s"] < placed.warm_up)]
            if set(rows["mote"]) != set(layout.parents):
                raise BadInput(f"warm_up = {placed.warm_up:g}: must leave each mote a reading; more --readings do")
        table = measures.by_mote(run, rows, layout, energy, use.tries(use.radio(way), _agents(run)[layout.sink]))
        if use.routing in ROUTING or use.mac in MACS:
            # A protocol above the radio retransmits frames, so that the radio does not.
            table["retries"] = math.nan
        parts.append((table, rows, measures.losses(rows, run)))
        for part in parts[-1]:
            part.insert(0, "algorithm", name)
    motes, readings, losses = (pd.concat(each, ignore_index=True) for each in zip(*parts, strict=True))
    days = measures.lasting(motes, battery, {name: run.ended_at for name, run in study.runs.items()})
    how = f"tree by {field.tree}" if use.routing == "tree" else use.routing.upper()
    title = f"{len(layout.graph)} motes, {how}"
    study.tables |= {"by_mote": motes, "by_reading": readings}
    by_run = measures.sums(motes, readings, ["algorithm"])
    by_hops = measures.sums(motes, readings, ["algorithm", "hops"])
    by_hops = pd.concat(part.sort_values("hops") for _, part in by_hops.groupby("algorithm", sort=False))
    cost = list(by_run.columns).index("frames")
    lasting = by_run.iloc[:, [0, *range(cost, by_run.shape[1])]].merge(days, on="algorithm")
    _answer(study, by_run.set_index("algorithm"), motes)
    study.table("by_run", "What arrives", by_run.iloc[:, :cost])
    routed = use.routing in ROUTING
    over = "over the best tree" if routed else "to the sink"
    study.table(
        "by_hops", f"The same, and what it costs a mote, by hops {over}", by_hops.drop(columns=measures.QUANTILES)
    )
    study.table("energy", "What it costs a mote, and how long batteries last at this rate", lasting)
    if len(losses):
        study.table("losses", "Why readings did not arrive", losses)
    if cut := [str(mote) for mote, parent in layout.parents.items() if parent is None]:
        study.note(f"Without a path to the sink: {', '.join(cut)}.")
    study.note(*missed_notes(study.runs), *_mac_notes(study, use, layout))
    for _, row in by_run[by_run["taken"] < by_run["readings"]].iterrows():
        study.note(
            f"{row['algorithm']}: {row['readings'] - row['taken']:,} of {row['readings']:,} readings were never taken: "
            "their motes still waited for acknowledgements of what they had to pass on."
        )
    study.note(*_energy_notes(motes, by_hops))
    study.figure(
        "hops",
        partial(draw_by_hops, by_hops, title),
        f"What arrives, how late, and what its frames cost, by hops {over}"
        f"{'' if all(way.acked for way in use.ways()) else '; dashed without acknowledgements'}.",
        hero=True,
    )
    study.figure(
        "tree",
        partial(draw_tree, motes, layout, title, *(_parents(study) if routed else ())),
        f"{'The routes at the end' if routed else 'The tree'} on the map for the first and the last run, coloured by "
        f"what arrives and by the energy of frames{'; dashed where a mote had lost its route' if routed else ''}.",
    )


def _answer(study: Study, by_run: pd.DataFrame, motes: pd.DataFrame) -> None:
    """State delivery and energy of frames at the smallest duty cycle, beside the run without acknowledgements."""
    name = str(by_run.index[-1])
    per_mote = motes.loc[motes["algorithm"] == name, "delivered_%"]
    fields = {"arrived": by_run["delivered_%"][name], "mj": by_run["frames_mj"][name]}
    text = f"{name[0].upper()}{name[1:]}: {{arrived:.0f}} % of the readings arrive"
    if (plain := f"no {name}") in by_run.index:
        awake = 100 * float(name.split()[-1])
        text = (
            f"With acknowledgements and radios awake for {awake:g} % of the time, {{arrived:.0f}} % of the readings "
            "arrive, without them {less:.0f} %, for {mj:.0f} instead of {cheap:.0f} mJ of frames a mote"
        )
        fields |= {"less": by_run["delivered_%"][plain], "cheap": by_run["frames_mj"][plain]}
    else:
        text += ", for {mj:.0f} mJ of frames a mote"
    study.ask("How many readings reach the sink, and what does that cost in energy?")
    answer(
        study,
        f"{text}.",
        "Of {readings:,} readings of {motes} motes; from mote to mote {least:.0f} %. One network. "
        f"{of_one_run(study)}",
        **{"readings": by_run["readings"][name], "motes": len(per_mote), "least": (per_mote.min(), per_mote.max())},
        **fields,
    )


def _parents(study: Study) -> tuple[dict[str, dict[Any, Any]], dict[str, set[Any]]]:
    """Return, for each run, the motes' last parents, and the motes that had no parent at the end."""
    parents: dict[str, dict[Any, Any]] = {}
    lost: dict[str, set[Any]] = {}
    for name, run in study.runs.items():
        motes = {mote: each.routing for mote, each in _agents(run).items()}
        lost[name] = {mote for mote, each in motes.items() if each.parent is None and not each.is_sink}
        parents[name] = {mote: each.last_parent if mote in lost[name] else each.parent for mote, each in motes.items()}
    return parents, lost


def _agents(run: Run) -> Mapping[Any, Any]:
    return run.agents


def _mac_notes(study: Study, use: RadioUse, layout: Layout) -> Iterator[str]:
    """Yield notes on the MAC layer that explain the tables."""
    if use.mac in ("lpl", "xmac", "contikimac"):
        yield "A sender calls until its receiver wakes: the frames that end as asleep are such calls."
    radio, placed = use.preset().radio, layout.deployment
    if use.mac == "contikimac" and placed is not None and radio is not None and radio.phy is not None:
        least = radio.phy.sense_dbm
        ends = [(mote, parent) for mote, parent in layout.parents.items() if parent is not None]
        if weak := [f"{a} → {b}" for a, b in ends if placed.powers[a, b] < least]:
            yield f"Links of the best tree whose signal, below {least:g} dBm, wakes no receiver: {', '.join(weak)}."
    for name, run in study.runs.items() if use.mac == "tsch" else ():
        yield _joining(name, [mote.mac for mote in _agents(run).values() if not mote.routing.is_sink])


def _joining(name: str, macs: list[TSCH]) -> str:
    """Return text on the times at which the motes joined a TSCH network."""
    joined = [each.joined_at for each in macs if each.joined_at is not None]
    again = sum(each.joins - 1 for each in macs if each.joins)
    when = f", half of them within {np.median(joined):.0f} s, the last after {max(joined):.0f} s" if joined else ""
    lost = f" Having lost it, motes joined anew {again} times." if again else ""
    return (
        f"{name}: {len(joined)} of {len(macs)} motes joined the network{when}. Until then a mote listens all the time, "
        f"and its readings wait; latency, energy and days have it all.{lost}"
    )


def _energy_notes(motes: pd.DataFrame, by_hops: pd.DataFrame) -> Iterator[str]:
    """Yield notes on the share of energy spent on listening, and on the motes that spend most on frames."""
    for name, part in motes.groupby("algorithm", sort=False):
        share = 100 * part["listen_j"].sum() / part["used_j"].sum()
        rows = by_hops[by_hops["algorithm"] == name]
        most = rows.nlargest(1, "frames_mj").iloc[0]
        hops = f"{most['hops']:g} hop{'s' if most['hops'] > 1 else ''}"
        others = 1e3 * part.loc[part["hops"] != most["hops"], "frames_j"].mean()
        rest = f"; the others {others:.0f} mJ" if math.isfinite(others) else ""
        yield (
            f"{name}: {share:.1f} % of the energy goes into idle listening. Frames cost those most that are {hops} "
            f"away, {most['frames_mj']:.0f} mJ each{rest}."
        )
