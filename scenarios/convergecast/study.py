"""Convergecast: motes report to a sink over a tree; the share of readings that arrive, their delay and their cost."""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from netsim import Network, Run
from netsim.radio import DutyCycle, Energy, presets
from netsim.scenarios.convergecast.field import Layout, SensorField
from netsim.scenarios.convergecast.figures import draw_by_hops, draw_tree
from netsim.scenarios.convergecast.mote import Mote
from netsim.scenarios.tasks.diagnosis import missed, on_radio
from netsim.scenarios.tasks.settings import names_in
from netsim.studies import Study
from netsim.util import check


def convergecast(
    study: Study,
    *,
    field: SensorField = SensorField(),  # noqa: B008 (frozen)
    period: float = 30.0,
    readings: int = 40,
    acks: bool | None = None,
    awake: str = "1,0.1,0.01",
    cycle: float = 1.0,
    seed: int = 1,
) -> None:
    """Motes sample and report to a sink over a tree: what arrives, how late, and what it costs.

    IEEE 802.15.4 at 250 kbit/s with CSMA-CA; with and without acknowledgements, for several shares of the time awake.

    Parameters
    ----------
    period : float
        Seconds from reading to reading of a mote.
    readings : int
        Number of readings of each mote.
    acks : bool
        Whether frames are acknowledged, and sent again up to three times; by default both ways run.
    awake : str
        Shares of the time that radios are on, all at the same time, with commas between.
    cycle : float
        Seconds from waking to waking.
    seed : int
        Seed of everything random.
    """
    period = check.finite("period", period, above=0.0)
    check.integer("readings", readings, low=1)
    cycle = check.finite("cycle", cycle, above=0.0)
    check.integer("seed", seed, low=0)
    shares = _shares(awake)
    field = field.resolved()
    study.record(field)
    layout = field.layout(presets.ieee802154().link, seed)
    tables, tries = [], {}
    for share, acked in itertools.product(shares, (False, True) if acks is None else (acks,)):
        preset = presets.ieee802154(acks=acked)
        assert preset.radio is not None
        assert preset.energy is not None
        duty = None if share == 1 else DutyCycle(period=cycle, awake=share * cycle)
        radio = replace(preset.radio, duty_cycle=duty)
        network = Network(layout.graph, preset.link, links=layout.links, medium=radio, round_period=period, seed=seed)
        motes = {mote: Mote(layout.parents.get(mote), period, readings, acked) for mote in layout.graph}
        name = f"{'acks' if acked else 'no acks'}, awake {share:g}"
        run = study.run(name, network, motes, [_arrived], readings + 2, sample=period)
        tries[name] = 1 + radio.max_frame_retries if acked else 1
        tables.append(_by_mote(run, layout, preset.energy, tries[name]).assign(algorithm=name))
    _report(study, tables, layout, field)


def _shares(awake: str) -> list[float]:
    """Return the shares of time that a text lists; raises BadInput for one that is none."""
    found = []
    for each in names_in(awake):
        try:
            share = float(each)
        except ValueError:
            raise check.refuse("awake", awake, "shares above 0, up to 1, with commas between") from None
        found.append(check.share("awake", share))
    return list(dict.fromkeys(found))


def _arrived(agents: Mapping[Any, Mote]) -> dict[str, float]:
    """How many readings were taken so far, and how many arrived (a probe)."""
    motes = agents.values()
    return {"readings": sum(mote.taken for mote in motes), "arrived": sum(len(mote.heard) for mote in motes)}


# --- what is measured -------------------------------------------------------------------------------------------------


def _by_mote(run: Run, layout: Layout, energy: Energy, tries: int) -> pd.DataFrame:
    """Return a row for each mote but the sink: hops, readings due, taken and arrived, frames sent, and energy.

    ``expected_%`` of the readings arrive if frames never meet; ``latency_s`` is the mean of those that arrived;
    ``frames_j`` is spent to send and to hear frames.
    """
    heard = run.agents[layout.sink].heard  # type: ignore[attr-defined]
    arrived = pd.DataFrame(heard, columns=["mote", "taken_s", "arrived_s"])
    arrived = arrived.astype({"taken_s": float, "arrived_s": float})
    latency = (arrived["arrived_s"] - arrived["taken_s"]).groupby(arrived["mote"])
    air, spent = run.airtime.set_index("agent"), run.energy.set_index("agent")
    motes = list(layout.parents)
    table = pd.DataFrame({"mote": motes, "hops": [len(layout.path(mote)) for mote in motes]}, index=motes)
    table["readings"] = [run.agents[mote].readings for mote in motes]  # type: ignore[attr-defined]
    table["taken"] = [run.agents[mote].taken for mote in motes]  # type: ignore[attr-defined]
    table["arrived"] = latency.size().reindex(motes, fill_value=0)
    table["expected_%"] = [100 * layout.expected(mote, tries) for mote in motes]
    table["latency_s"] = latency.mean().reindex(motes)
    table[["frames", "retries"]] = air.loc[motes, ["frames", "retries"]]
    table["frames_j"] = energy.transmit * spent["transmit_s"] + energy.receive * spent["receive_s"]
    table["listen_j"] = energy.listen * spent["listen_s"]
    table["used_j"] = spent["used_j"]
    table["delivered_%"] = 100 * table["arrived"] / table["readings"]
    return table


def _sums(motes: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the motes' rows by group: delivery and latency of all readings, the rest as means per mote."""
    sizes = {"late": motes["latency_s"] * motes["arrived"], "due": motes["expected_%"] * motes["readings"]}
    groups = motes.assign(**sizes).groupby(by, sort=False)
    sums, means = groups.sum(numeric_only=True), groups.mean(numeric_only=True)
    return pd.DataFrame(
        {
            "motes": groups.size(),
            "readings": sums["readings"],
            "taken": sums["taken"],
            "delivered_%": 100 * sums["arrived"] / sums["readings"],
            "expected_%": sums["due"] / sums["readings"],
            "latency_s": sums["late"] / sums["arrived"].where(sums["arrived"] > 0),
            "frames": means["frames"],
            "retries": means["retries"],
            "frames_mj": 1e3 * means["frames_j"],
            "used_mj": 1e3 * means["used_j"],
        }
    ).reset_index()


# --- what is shown ----------------------------------------------------------------------------------------------------


def _report(study: Study, tables: list[pd.DataFrame], layout: Layout, field: SensorField) -> None:
    motes = pd.concat(tables, ignore_index=True)
    study.tables["by_mote"] = motes[["algorithm", *motes.columns.drop("algorithm")]]
    by_run, by_hops = _sums(motes, ["algorithm"]), _sums(motes, ["algorithm", "hops"])
    by_hops = pd.concat(part.sort_values("hops") for _, part in by_hops.groupby("algorithm", sort=False))
    study.table("by_run", "What arrives and what it costs; frames, retries and energy are a mote's", by_run)
    study.table("by_hops", "The same by hops to the sink", by_hops)
    for name, run in study.runs.items():
        if frames := missed(run):
            study.note(f"{name}: {frames}.{on_radio(run)}")
    for _, row in by_run[by_run["taken"] < by_run["readings"]].iterrows():
        study.note(
            f"{row['algorithm']}: {row['readings'] - row['taken']:,} of {row['readings']:,} readings were never taken: "
            "their motes still waited for acknowledgements of what they had to pass on."
        )
    study.note(*_energy_notes(motes, by_hops))
    title = f"{field.agents} motes, tree by {field.tree}"
    study.figure(
        "hops",
        draw_by_hops(by_hops, title),
        "What arrives, how late, and what its frames cost, by hops to the sink; dashed without acknowledgements.",
    )
    study.figure(
        "tree",
        draw_tree(motes, layout, title),
        "The tree on the map for the first and the last run, coloured by what arrives and by the energy of frames.",
    )


def _energy_notes(motes: pd.DataFrame, by_hops: pd.DataFrame) -> Iterator[str]:
    """Yield which share of the energy goes into listening, and which motes spend most on frames."""
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
