"""Lifetime: rounds until batteries are empty, by algorithm, for radios that always listen and with duty cycles."""

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

from netsim import BadInput, Deployment, Link, Network, Radio, Run
from netsim.agents import CodedSums
from netsim.coders import Uniform
from netsim.radio import DutyCycle, Energy
from netsim.radio.energy import STATES
from netsim.scenarios.tasks.answers import answer, of_one_run
from netsim.scenarios.tasks.batch_task import BatchSteps, BatchTask
from netsim.scenarios.tasks.method import agents_of, played
from netsim.scenarios.tasks.motes import cc2420, in_turn, milliampere_hours
from netsim.scenarios.tasks.problems import KernelRegression
from netsim.scenarios.tasks.settings import Rows, Setting, chosen_names
from netsim.scenarios.tasks.site import OwnSite
from netsim.studies import Study
from netsim.studies.experiment import Method, Seeds, Setup
from netsim.studies.experiment.study import learned
from netsim.studies.figures import Figure, drawing, legend_below
from netsim.util import check

_TRIAL = 30  # rounds
_SHOWN = 1_000_000  # rounds
_SPARE = 1e-3  # s at the end of a turn
_APART = 0.08  # batteries, between curves that would coincide
_MARKS = [m * 10**k for k in range(6) for m in (1, 2, 5)]
_DAY = 86_400.0  # s
_ALWAYS, _SLEEPS = "listens always", "sleeps"


@dataclass(frozen=True, kw_only=True)
class Batteries:
    """The energy supply of nodes.

    Parameters
    ----------
    battery : float
        Energy of a battery in joules; small, so that batteries run out within the rounds. (A CR2032 holds about 2000
        J.)
    spread : float
        Relative spread of the batteries: each holds between 1 - spread and 1 + spread times this energy.
    period : float
        Seconds of a round.
    sleep : bool
        Whether radios sleep for the rest of a round after all turns to send; by default both settings run.
    """

    battery: float = 5.0
    spread: float = 0.2
    period: float = 1.0
    sleep: bool | None = None

    def check(self) -> None:
        """Raise BadInput for a number outside its range."""
        check.finite("battery", self.battery, above=0.0)
        check.finite("period", self.period, above=0.0)
        if check.probability("spread", self.spread) == 1.0:
            raise check.refuse("spread", self.spread, "a number in [0, 1)")

    def energies(self, nodes: Collection[Any], energy: Energy, seed: int) -> dict[Any, Energy]:
        """Return each node's radio powers and initial energy."""
        shares = np.random.default_rng(seed).uniform(1 - self.spread, 1 + self.spread, len(nodes))
        batteries = zip(nodes, shares, strict=True)
        return {node: dataclasses.replace(energy, battery=self.battery * share) for node, share in batteries}


def lifetime(
    study: Study,
    *,
    data: str = "synthetic",
    algorithms: str = "CTA,DKLA,COKE,COKE 3-bit,DKLA coded-sums",
    rounds: int = 2000,
    rows: Rows = Rows(),
    steps: BatchSteps = BatchSteps(rho=1e-3),  # noqa: B008 (frozen)
    setting: Setting = Setting(agents=10),
    batteries: Batteries = Batteries(),
    site: OwnSite = OwnSite(),  # noqa: B008 (frozen)
    seeds: Seeds = Seeds(),
) -> None:
    """Rounds until the first and the median battery is empty, by algorithm, with and without a duty cycle.

    IEEE 802.15.4 at 250 kbit/s; agents send one after the other. Radios with a duty cycle are awake in each round for
    the duration of all turns; a turn lasts as long as the longest message of the algorithm's first 30 rounds. A censor
    saves frames, but not the turns reserved for them. All agents receive each other's frames without losses. On a site
    of your own the agents are its motes, with its links, radio and clocks, and received powers decide carrier sensing
    and reception.

    Parameters
    ----------
    data : str
        "synthetic" (the COKE paper's), or the NAME of a table in NETSIM_DATA or the cache, or its path.
    algorithms : str
        Algorithms to run, separated by commas: CTA, DKLA, COKE, COKE 3-bit, DKLA coded-sums.
    rounds : int
        Maximum number of rounds.
    """
    check.integer("rounds", rounds, low=1)
    problem = KernelRegression(data=data, rows=rows, **dataclasses.asdict(setting))
    site.check_set()
    placed = None if site.site is None else _placed(site, setting)
    problem = problem if placed is None else problem.on(placed.graph)
    check.integer("agents", problem.whole().agents, low=2)
    batteries.check()
    steps = steps.resolved(data)
    known = steps.methods()
    known["COKE 3-bit"] = known["COKE"].with_given(coder=Uniform(3))
    known["DKLA coded-sums"] = known["DKLA"].with_given(duals=CodedSums())
    methods = {name: known[name] for name in chosen_names("algorithms", algorithms, known)}
    task = learned(study, problem, Setup(seeds, rounds, None if placed is None else placed.graph))
    study.record(steps)
    place = _Place(task.graph, batteries, seeds, placed)
    turns = {}
    for called, method in methods.items():
        slot = place.slot(method, task)
        for sleeps in (False, True) if batteries.sleep is None else (batteries.sleep,):
            name = f"{called}, {_SLEEPS if sleeps else _ALWAYS}"
            turns[name] = len(task.graph) * slot
            network = place.network(slot, sleeps)
            # Runs end when batteries are empty; the number of rounds is only an upper limit.
            how: dict[str, Any] = {"rounds": min(rounds, _SHOWN), "watch": task.watch}
            played(study, name, method, task, network, [task.measure], rounds, **how)
    study.centralised = task.optimum()
    _report(study, task, batteries, turns, rounds)


def _placed(site: OwnSite, setting: Setting) -> Deployment:
    """Return the site of a run; raises BadInput for settings that this study excludes."""
    site.check_left_out(agents=(setting.agents, 10), edges=(setting.edges, None), topology=(setting.topology, None))
    found = site.deployment(collects=False)
    if found.warm_up:
        raise check.refuse("site: warm_up", found.warm_up, "0: batteries are used from the beginning")
    if found.joins:
        raise check.refuse("site: start", found.start, "0: all motes learn from the first round")
    if not found.connected and not nx.is_connected(found.graph):
        raise BadInput("site: connected = False: must have paths between all motes: they learn one model")
    return found


@dataclass(frozen=True)
class _Place:
    """The network of the agents: either all receive each other, or a site's links apply."""

    graph: "nx.Graph[Any]"
    batteries: Batteries
    seeds: Seeds
    site: Deployment | None

    @property
    def _preset(self) -> tuple[Link, Radio, Energy]:
        if self.site is None:
            return cc2420(acks=False)
        link, radio, energy = self.site.preset
        assert radio is not None
        assert energy is not None
        return link, dataclasses.replace(radio, acks=False), energy

    def _near(self, radio: Radio, **options: Any) -> Network:
        """Return a network in which all agents receive each other."""
        medium = dataclasses.replace(radio, sensing=nx.complete_graph(self.graph))
        return Network(self.graph, self._preset[0], medium=medium, seed=self.seeds.network, **options)

    def slot(self, method: Method, task: BatchTask) -> float:
        """Return a turn's length (s): a trial run's longest message, channel access for its fragments, and a margin."""
        radio = self._preset[1]
        run = self._near(radio, round_period=100.0).run(agents_of(method, task, _TRIAL), trace=True)
        frames = run.on_air
        seconds = (frames["end_s"] - frames["start_s"]).groupby([frames["sender"], frames["message"]])
        access = (2**radio.min_be - 1) * radio.unit_backoff + radio.cca + radio.turnaround
        return float(seconds.sum().max() + seconds.size().max() * access + _SPARE)

    def network(self, slot: float, sleeps: bool) -> Network:
        """Return a network in which agents send in turns; raises BadInput if a round is too short for all turns."""
        awake, period = len(self.graph) * slot, self.batteries.period
        if awake > period:
            raise check.refuse("period", period, f"at least {awake:.3g} s, or not all have their turn")
        duty = DutyCycle(period=period, awake=awake) if sleeps else None
        _, radio, energy = self._preset
        energies = self.batteries.energies(self.graph, energy, self.seeds.seed)
        radio = dataclasses.replace(radio, duty_cycle=duty, energy=energies)
        turns = in_turn(self.graph, slot)
        if self.site is None:
            return self._near(radio, round_period=period, faults=turns)
        return self.site.network(radio=radio, round_period=period, faults=turns, seed=self.seeds.network)


# --- what is shown ----------------------------------------------------------------------------------------------------


def deaths(run: Run, period: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the rounds in which batteries ran out, sorted; infinite for those that lasted to the end."""
    return np.sort(np.ceil(run.energy["died_at_s"].to_numpy() / period))


def _report(study: Study, task: BatchTask, batteries: Batteries, turns: dict[str, float], rounds: int) -> None:
    ends = {name: deaths(run, batteries.period) for name, run in study.runs.items()}
    rows = [_row(name, run, ends[name], turns[name], batteries) for name, run in study.runs.items()]
    table = pd.DataFrame(rows)
    _answer(study, table, len(task.nodes), rounds)
    study.table("lifetime", "Rounds, and days, until batteries are empty; mJ of an agent in a round, by state", table)
    study.note(task.yardsticks(study.centralised["train_mse"]), *_notes(table, rounds))
    for name, run in study.runs.items():
        if missed := _missed_alive(run, ends[name]):
            study.note(f"{name}: while all lived {missed}.")
    title = f"{len(task.nodes)} agents, models of {task.size} elements, batteries of {batteries.battery:g} J"
    study.figure(
        "alive",
        partial(_draw, ends, rounds, title),
        "How many batteries are not empty, by round: a panel for each way that radios are used.",
        hero=True,
    )


def _answer(study: Study, table: pd.DataFrame, agents: int, rounds: int) -> None:
    """State when the first battery is empty, with and without a duty cycle; nothing if none runs out."""
    study.ask("How many rounds of learning does a battery last, and what does sleep change?")
    parts, fields = [], dict[str, Any]()
    for k, (radio, part) in enumerate(table.groupby("radio", sort=False)):
        known = part["first_death_rounds"].dropna()
        if len(known):
            fields[f"ends{k}"] = (known.min(), known.max())
            parts.append(f"after {{ends{k}:,.0f}} rounds if a radio {radio}")
        if outlast := len(part) - len(known):
            fields |= {f"outlast{k}": outlast, f"of{k}": len(part)}
            parts.append(f"with {{outlast{k}}} of {{of{k}}} algorithms not in {rounds:,} rounds if it {radio}")
    answer(
        study,
        f"The first battery is empty {', '.join(parts)}.",
        f"From algorithm to algorithm, {agents} agents. {of_one_run(study)}",
        **fields,
    )


def _missed_alive(run: Run, ends: Any) -> str:
    """Return how many frames arrived late or never before the first death, and why; "" if all arrived in time."""
    rows = run.rounds[run.rounds["round"] < ends[0]]
    if rows.empty:
        return ""
    counts = rows.iloc[-1][[cause for cause in run.ledger.causes if cause != "delivered"]].astype(int)
    return ", ".join(f"{count:,} frames ended as {cause}" for cause, count in counts.items() if count)


def _row(name: str, run: Run, ends: Any, awake: float, batteries: Batteries) -> dict[str, Any]:
    """Return a run's row: deaths in rounds and days (NaN: none), the error before the first death, energy per round."""
    method, _, radio = name.rpartition(", ")
    period, battery = batteries.period, batteries.battery
    before = run.rounds[run.rounds["round"] < ends[0]]
    first, median = (each if math.isfinite(each) else math.nan for each in (ends[0], ends[(len(ends) - 1) // 2]))
    energy = run.energy
    lived = np.minimum(energy["died_at_s"], run.ended_at).sum() / period
    row: dict[str, Any] = {
        "algorithm": method,
        "radio": radio,
        "awake_%": 100.0 if radio == _ALWAYS else 100 * awake / period,
        "first_death_rounds": first,
        "median_death_rounds": median,
        "first_death_days": first * period / _DAY,
        "median_death_days": median * period / _DAY,
        "battery_mah": milliampere_hours(battery),
        "train_mse": float(before["train_mse"].iloc[-1]) if len(before) else math.nan,
    }
    for state in STATES:
        # The sleep time is computed as a difference; for a radio that never sleeps only a rounding error remains.
        row[f"{state}_mj"] = round(1e3 * energy[f"{state}_j"].sum() / lived, 9)
    joules = 1e-3 * sum(row[f"{state}_mj"] for state in STATES)
    return row | {"mah_a_day": milliampere_hours(joules) * _DAY / period}


def _notes(table: pd.DataFrame, rounds: int) -> Iterator[str]:
    """Yield notes on how the energy is spent, and on batteries that outlast the rounds."""
    for radio, part in table.groupby("radio", sort=False):
        spent = part[[f"{state}_mj" for state in STATES]]
        shares = 100 * part["listen_mj"] / spent.sum(axis=1)
        low, high = part["first_death_rounds"].min(), part["first_death_rounds"].max()
        span = f"{low:g}" if low == high else f"{low:g} to {high:g}"
        ended = "" if math.isnan(low) else f"; the first battery is empty after {span} rounds"
        taken = " to ".join(dict.fromkeys(f"{share:.0f}" for share in (shares.min(), shares.max())))
        yield f"A radio that {radio}: idle listening takes {taken} %{ended}."
    alive = table[table["median_death_rounds"].isna()]
    if len(alive):
        names = ", ".join(alive["algorithm"] + " (" + alive["radio"] + ")")
        yield f"Half of the batteries or more outlast the {rounds} rounds: {names}."


def _draw(ends: Mapping[str, Any], rounds: int, title: str) -> Figure:
    """Draw the number of live batteries by round, from the `deaths` of each run; keys are "algorithm, radio"."""
    from matplotlib.ticker import MaxNLocator

    shown = [radio for radio in (_ALWAYS, _SLEEPS) if any(name.endswith(f", {radio}") for name in ends)]
    methods = list(dict.fromkeys(name.rpartition(", ")[0] for name in ends))
    figure, panels = drawing(max(6.5, 5.4 * len(shown)), 4.3, len(shown), title=title, sharey=True)
    finite = [each[np.isfinite(each)] for each in ends.values()]
    first = min((each[0] for each in finite if len(each)), default=rounds)
    for panel, radio in zip(panels, shown, strict=True):
        for number, method in enumerate(methods):
            all_ends = ends[f"{method}, {radio}"]
            count, dead = len(all_ends), all_ends[np.isfinite(all_ends)]
            steps = np.concatenate([[1.0], dead, [dead[-1] if len(dead) == count else rounds]])
            alive = np.concatenate([count - np.arange(len(dead) + 1), [count - len(dead)]])
            # Shifted slightly, so that coincident curves are visible.
            shifted = alive + _APART * (number - len(methods) / 2)
            style: dict[str, Any] = {"color": f"C{number}", "linestyle": ("-", "--", "-.", ":")[number % 4]}
            panel.step(steps, shifted, where="post", label=method, linewidth=1.6, **style)
        panel.set_title(f"radio {radio}", fontsize=10)
        panel.set_xscale("log")
        low, high = max(1.0, first / 2), rounds * 1.1
        shown_marks = [mark for mark in _MARKS if low <= mark <= high]
        panel.set_xticks(shown_marks, [f"{mark:,}" for mark in shown_marks])
        panel.minorticks_off()
        panel.set(xlim=(low, high), xlabel="round")
    panels[0].set_ylabel("batteries that are not empty\n(curves a little apart, to be told from each other)")
    panels[0].yaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, 5)
    return figure
