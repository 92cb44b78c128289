"""`netsim run packet_loss`: family × remedy × loss, independent and in bursts, from sweeps that can be resumed."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from netsim.links import loss
from netsim.scenarios.data.files import find_table
from netsim.scenarios.packet_loss import report
from netsim.scenarios.packet_loss.work import CODED, FAMILIES, KEYS, METHODS, NONE, REMEDIES, do, tuned_notes, works
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.scenarios.tasks.batch_task import BatchSteps, BatchTask
from netsim.scenarios.tasks.method import Method, with_values
from netsim.scenarios.tasks.own import OTHER, OwnTask, check_left_out, own_task
from netsim.scenarios.tasks.settings import TEXT, Channel, OwnProblem, Repeated, Rows, chosen_names, names_in
from netsim.studies import Study
from netsim.studies.seeds import Seeds
from netsim.util import check


@dataclass(frozen=True, kw_only=True)
class LossSize(BatchSteps):
    """The size of the network and of the model, and step sizes; smaller for the synthetic data, so that all converge.

    Parameters
    ----------
    rounds : int
        Number of rounds; with --task 300 by default.
    agents : int
        Number of agents.
    edges : int
        Number of edges of the random graph; with --task two for each agent by default.
    features : int
        Number L of random features, the length of a model.
    sigma : float
        Bandwidth of the Gaussian kernel; by default the COKE paper's for the data.
    regularizer : float
        The centre's regulariser lambda; by default the COKE paper's for tables.
    """

    USUAL: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "rounds": {"synthetic": 300, "other": 1500},
        "agents": {"other": 10},
        "edges": {"other": 28},
        "features": {"synthetic": 20, "other": 100},
    }
    SYNTHETIC: ClassVar[Mapping[str, Any]] = {"eta": 0.5, "regularizer": 1e-3}

    rounds: int | None = None
    agents: int | None = None
    edges: int | None = None
    features: int | None = None
    sigma: float | None = None
    regularizer: float | None = None

    def sized(self, data: str) -> Self:
        """Return the sizes for a data set; what stays open is as published."""
        usual = {name: values.get(data, values["other"]) for name, values in self.USUAL.items()}
        usual |= self.SYNTHETIC if data == "synthetic" else {}
        return dataclasses.replace(self, **{k: value for k, value in usual.items() if getattr(self, k) is None})

    def of_own(self) -> Self:
        """Return the sizes for a problem of a file, whose agents and models are its own."""
        return dataclasses.replace(self, rounds=300 if self.rounds is None else self.rounds)

    @classmethod
    def by_data(cls) -> dict[str, dict[str, Any]]:
        """Return, for each field that may be left open, its value by data set."""
        found = super().by_data() | {name: dict(values) for name, values in cls.USUAL.items()}
        found["eta"] = {**found["eta"], "synthetic": cls.SYNTHETIC["eta"]}
        return found


@dataclass(frozen=True, kw_only=True)
class Lost:
    """Which frames are lost.

    Parameters
    ----------
    lost : str
        Shares of frames that are lost, with commas between; 0, the reference, is always among them.
    burst : float
        Mean number of frames lost in a row where losses come in bursts; 1: independent losses only.
    """

    lost: str = "0,0.001,0.01,0.1,0.3,0.5"
    burst: float = 5.0

    def shares(self) -> tuple[float, ...]:
        """Return the shares of lost frames, from small to large, 0 first; raises BadInput if a value cannot be used."""
        shares = _shares(self.lost)
        check.finite("burst", self.burst, low=1.0)
        for share in shares:
            if share and self.burst > 1.0:
                loss.gilbert_elliott(share, self.burst, names=("lost", "burst"))
        return shares


@dataclass(frozen=True, kw_only=True)
class LossCompared(OwnProblem):
    """What is compared.

    Parameters
    ----------
    methods : str
        Which of CTA, DKLA, COKE, coded (COKE with coded changes), D-PSGD, EXTRA, DIGing, R-ADMM, LT-ADMM, SGP,
        Push-DIGing, FedAvg, SCAFFOLD, SCAFFOLD-states, AD-PSGD, CHOCO, LEAD, BEER, EF21 and EF21-P to run, with commas
        between; the differences of the last five have four bits an element.
    remedies : str
        Which of none, renormalised, running-sums, coded-sums, edge-duals, ack, nack, keyframe, with commas between;
        none, the reference, is always among them.
    bits : int
        Bits an element of the coded changes (1-16).
    set : str
        Values of methods' parameters: METHOD.PARAMETER=VALUE, several with commas between, where METHOD is a name in
        runs.csv; "list" names what there is.
    settings : str
        The tuned.json of `netsim tune coke --per method,loss`: each family runs with what was best at each share. Of
        several with commas between, as of --per method,loss,remedy,reliability for each remedy, a run takes the first
        that was tuned for it.
    """

    methods: str = ",".join(FAMILIES)
    remedies: str = ",".join(REMEDIES)
    bits: int = 8
    set: str | None = None
    settings: str | None = None


@dataclass(frozen=True, kw_only=True)
class FirstSeeds(Seeds):
    """The seeds of the runs.

    Parameters
    ----------
    seed : int
        The first seed.
    """


def packet_loss(
    study: Study,
    *,
    data: str = "synthetic",
    frames: Lost = Lost(),
    families: LossCompared = LossCompared(),
    size: LossSize = LossSize(),
    rows: Rows = Rows(),
    repeated: Repeated = Repeated(folder="runs/packet-loss-sweeps"),
    seeds: FirstSeeds = FirstSeeds(),
) -> None:
    """What lost frames do to each family of algorithms, what each remedy makes of it, and what it costs.

    CTA, DKLA, COKE and COKE with coded changes, without and with each remedy that fits, at each share of lost frames:
    independent losses beside bursts of the same mean. Every run is one of the study coke, each seed with data, a graph
    and losses of its own, in a sweep whose folder stays. What is done there is not done again, so an interrupted study
    continues when it is started again. With the defaults it takes about ten minutes on two cores.

    Parameters
    ----------
    data : str
        "synthetic" (the COKE paper's), or the NAME of a table in the folder NETSIM_DATA, or its path.
    """
    shares = frames.shares()
    wanted = chosen_names("remedies", families.remedies, REMEDIES)
    ordered = [name for name in REMEDIES if name == NONE or name in wanted]
    check.integer("bits", families.bits, low=1, high=16)
    numbers = repeated.seeds(seeds.seed)
    rows.divided()
    chosen = chosen_names("methods", families.methods, METHODS)
    task, what, errors = None, f"{data} data", BatchTask.columns
    if families.task is not None:
        check_left_out(families.task, data, rows, size, but=("rounds", "edges", *BatchSteps.COLUMNS))
        size = size.of_own()
        task = _own(families.task, chosen, size, seeds)
        what, errors = f"task {task.name}", task.columns
    else:
        if data != "synthetic":
            find_table(data)
        size = size.sized(data)
    study.record(size)
    if families.set is not None:
        # It refuses unknown methods and parameters, before anything runs.
        with_values(Study(study.scenario, {"set": families.set}), _methods(chosen, size, data, families.bits))
    given = {"data": data, "conventions": TEXT, **dataclasses.asdict(size), **dataclasses.asdict(rows)}
    given |= {name: value for name, value in dataclasses.asdict(seeds).items() if name != "seed"}
    given |= {"set": families.set, "settings": families.settings, "task": families.task}
    given = {name: value for name, value in given.items() if value is not None}
    plan = list(works(ordered, shares, frames.burst, families.bits, given, chosen))
    if families.settings is not None:
        study.note(*tuned_notes(plan, families.settings, numbers))
    folder, reporter = Path(repeated.folder), study.reporter
    measured = do(plan, folder, numbers, repeated.jobs, reporter, redo=repeated.redo, errors=errors)
    agents = len(task.nodes) if task else size.agents or 0
    rounds, divided = size.rounds or 0, rows.partition_title
    about = report.ReportContext(what, agents, rounds, frames.burst, repeated.repeats, divided)
    report.tell(study, measured, about)


def _own(file: str, names: Sequence[str], size: LossSize, seeds: FirstSeeds) -> OwnTask:
    """Return the first seed's problem of a file; raises BadInput for what it cannot have, before anything runs."""
    task = own_task(file, seed=seeds.data, graph_seed=seeds.graph, edges=size.edges, ideal=False)
    Channel().over(task.graph, seeds.network)  # which refuses some graphs
    task.check(_methods(names, size, OTHER, 1), size.rounds or 0, KEYS)
    if best := task.optimum():
        task.check_above_zero(best[task.error], "the model of the least cost")
    return task


def _methods(names: Sequence[str], size: LossSize, data: str, bits: int) -> list[Method]:
    """Return the methods of some families, by their names in results."""
    known = {**BASELINES, **size.resolved(data).methods()}
    known[CODED] = dataclasses.replace(known["COKE"], name=f"COKE {bits}-bit")
    return [known[name] for name in names]


def _shares(text: str) -> tuple[float, ...]:
    """Return the shares of lost frames, from small to large, 0 first."""
    found = {0.0}
    for part in names_in(text):
        try:
            share = float(part)
        except ValueError:
            share = math.nan
        if not 0.0 <= share < 1.0:
            raise check.refuse("lost", text, "numbers >= 0 and < 1, with commas between")
        found.add(share)
    if len(found) < 2:
        raise check.refuse("lost", text, "one number above 0 at least")
    return tuple(sorted(found))
