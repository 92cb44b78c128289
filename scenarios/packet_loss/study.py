"""`netsim run packet_loss`: each family with each remedy at each loss, independent or bursty; runs stay in a folder."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from netsim.coders import Uniform
from netsim.links import loss
from netsim.scenarios.packet_loss import report
from netsim.scenarios.packet_loss.remedies import CODED, FAMILIES, METHODS, NONE, REMEDIES, fits, remedied
from netsim.scenarios.tasks.baselines import BASELINES
from netsim.scenarios.tasks.batch_task import BatchSteps
from netsim.scenarios.tasks.method import names_of
from netsim.scenarios.tasks.problems import FileProblem, KernelRegression, OwnProblem
from netsim.scenarios.tasks.settings import TEXT, Channel, Published, Rows, chosen_names, names_in, numbers_in
from netsim.studies import Study, catalogue
from netsim.studies.experiment import Experiment, Method, Results, Seeds, Setup, vary
from netsim.studies.experiment.cells import Cell
from netsim.studies.experiment.study import study_of
from netsim.studies.experiment.tuning import settled
from netsim.studies.graphs import OwnTopology
from netsim.util import check

_STEPS = {"rho": "rho", "eta": "eta", "threshold": "censor.v", "decay": "censor.mu"}
"""Short names for the parameters that CTA, DKLA and COKE take from the study."""


@dataclass(frozen=True, kw_only=True)
class LossSize(OwnTopology, Published):
    """The size of the network and of the model; smaller for the synthetic data, so that all methods converge.

    Parameters
    ----------
    rounds : int
        Number of rounds; by default 300 with --task.
    agents : int
        Number of agents.
    edges : int
        Number of edges of the random graph; by default twice the number of agents with --task.
    features : int
        Number L of random features, which is also the length of a model.
    sigma : float
        Bandwidth of the Gaussian kernel; by default that of the COKE paper for the data set.
    regularizer : float
        The centre's regulariser lambda; by default the COKE paper's for tables, and 0.001 for the synthetic data.
    """

    USUAL: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "rounds": {"synthetic": 300, "other": 1500},
        "agents": {"other": 10},
        "edges": {"other": 28},
        "features": {"synthetic": 20, "other": 100},
    }

    rounds: int | None = None
    agents: int | None = None
    edges: int | None = None
    features: int | None = None
    sigma: float | None = None
    regularizer: float | None = None

    def resolved(self, data: str, conventions: str = TEXT) -> Self:
        """Return the size with all values set, except the number of edges if a graph file is used."""
        found = super().resolved(data, conventions)
        return found if self.topology is None else dataclasses.replace(found, edges=self.edges)


@dataclass(frozen=True, kw_only=True)
class LossCompared(OwnProblem):
    """The methods, remedies and losses to compare.

    Parameters
    ----------
    methods : str
        Which of CTA, DKLA, COKE, coded (COKE with coded changes), D-PSGD, EXTRA, DIGing, R-ADMM, LT-ADMM, SGP,
        Push-DIGing, FedAvg, SCAFFOLD, SCAFFOLD-states, AD-PSGD, CHOCO, LEAD, BEER, EF21 and EF21-P to run, separated by
        commas. The last five send differences with four bits per element.
    remedies : str
        Remedies, separated by commas: none, renormalised, running-sums, coded-sums, edge-duals, ack, nack, keyframe.
        The reference, none, always runs.
    bits : int
        Bits per element of the coded changes (1-16).
    lost : str
        Shares of lost frames, separated by commas. The reference, 0, always runs.
    burst : float
        Mean length of a burst of lost frames; 1: independent losses only.
    repeats : int
        Number of seeds per setting, counted from --seed; a multiple of --jobs keeps all processes busy.
    """

    methods: str = ",".join(FAMILIES)
    remedies: str = ",".join(REMEDIES)
    bits: int = 8
    lost: str = "0,0.001,0.01,0.1,0.3,0.5"
    burst: float = 5.0
    repeats: int = 6

    def shares(self) -> list[float]:
        """Return the shares of lost frames in ascending order, 0 first; raises BadInput for an unusable value."""
        allowed = "numbers >= 0 and < 1, with commas between"
        shares = sorted({0.0, *numbers_in("lost", self.lost, allowed, float)})
        if not all(0.0 <= share < 1.0 for share in shares):
            raise check.refuse("lost", self.lost, allowed)
        if len(shares) < 2:
            raise check.refuse("lost", self.lost, "one number above 0 at least")
        check.finite("burst", self.burst, low=1.0)
        for share in shares:
            if share and self.burst > 1.0:
                loss.gilbert_elliott(share, self.burst, names=("lost", "burst"))
        return shares

    def families(self, data: str) -> dict[str, Method]:
        """Return the methods to run by name: first those that send states, then those that send coded changes."""
        steps = BatchSteps(eta=0.5 if data == "synthetic" else None)
        known = {**BASELINES, **steps.resolved(data).methods()}
        coder = Uniform(check.integer("bits", self.bits, low=1, high=16))
        known[CODED] = known["COKE"].with_given(coder=coder)
        called = {CODED: f"COKE {self.bits}-bit"}
        wanted = chosen_names("methods", self.methods, METHODS)
        found = [name for name in METHODS if name in wanted]
        found.sort(key=lambda name: "coder" in known[name].given)
        return {name: known[name].with_label(family=called.get(name, name)) for name in found}

    def ordered(self) -> list[str]:
        """Return the remedies, beginning with the reference; raises BadInput for an unknown one."""
        wanted = chosen_names("remedies", self.remedies, REMEDIES)
        return [name for name in REMEDIES if name == NONE or name in wanted]


def experiment(
    *,
    data: str = "synthetic",
    settings: str | None = None,
    compared: LossCompared = LossCompared(),
    size: LossSize = LossSize(),
    rows: Rows = Rows(),
    seeds: Seeds = Seeds(),
) -> Experiment:
    """The effects of lost frames on families of algorithms, and of remedies, with their costs.

    The study runs CTA, DKLA, COKE and COKE with coded changes, without a remedy and with each applicable one, at each
    share of lost frames. Losses are independent or in bursts of the same mean. Each run is a run of the study coke;
    each seed has different data, graph and losses. Runs are stored in --folder and are not repeated, so an interrupted
    study continues when it is started again. With the defaults it takes about ten minutes on two cores.

    Parameters
    ----------
    data : str
        "synthetic" (the COKE paper's), or the NAME of a table in NETSIM_DATA or the cache, or its path.
    settings : str
        A tuned.json of `netsim tune coke --per method,loss`: each family runs with the best settings at each share.
        Several files, such as one for each remedy with --per method,loss,remedy,reliability, are separated by commas; a
        run uses the first file tuned for its conditions.
    """
    shares, remedies, burst, file = compared.shares(), compared.ordered(), compared.burst, compared.task
    count = check.integer("repeats", compared.repeats, low=2)
    rows.divided()
    whole = size.resolved(data)
    if data == "synthetic" and whole.regularizer is None:
        whole = dataclasses.replace(whole, regularizer=1e-3)
    sizes = {name: value for name, value in dataclasses.asdict(whole).items() if name != "rounds"}
    regression = KernelRegression(data=data, rows=rows, conventions=TEXT, **sizes)
    problem, known = compared.instead(regression, rows, size, edges=size.edges, but=("rounds", "edges"))
    families = compared.families(known)
    size = whole if file is None else dataclasses.replace(size, rounds=300 if size.rounds is None else size.rounds)
    if isinstance(problem, FileProblem):
        _check_own(problem, families, size.rounds or 0, seeds)
    first = seeds.seed
    numbers = range(first, first + count)
    methods = {
        method.label["family"] + ("" if remedy == NONE else f" {remedy}"): remedied(remedy, method)
        for remedy in remedies
        for name, method in families.items()
        if name in REMEDIES[remedy].families
    }
    own = {name: method for name, method in methods.items() if method.label["family"] not in BASELINES}
    grid = vary("loss", shares) * vary("burst", [1.0])
    if burst != 1.0:
        grid += vary("loss", shares[1:]) * vary("burst", [burst])

    def tell(study: Study, results: Results) -> None:
        task: Any = results.cells[0][0].setup().task
        study.record(size)
        what = f"{data} data" if file is None else f"task {task.name}"
        length = size.rounds or 0
        title = f"{what}, {len(task.nodes)} agents{rows.partition_title}, {length:,} rounds, {count} seeds"
        report.tell(study, results, task.columns, title, length, burst)

    made = Experiment(
        problem=problem,
        methods=methods,
        networks={REMEDIES[name].reliability: Channel(reliability=REMEDIES[name].reliability) for name in remedies},
        only=fits,
        grid=grid,
        seeds=[dataclasses.replace(seeds, seed=each) for each in numbers],
        rounds=size.rounds or 0,
        names={"loss": "network.loss", "burst": "network.burst", **names_of(own, _STEPS)},
        report=tell,
    )
    if settings is None:
        return made
    given = {"data": data, "conventions": TEXT, **dataclasses.asdict(size), **dataclasses.asdict(rows)}
    given |= dataclasses.asdict(seeds) | {"task": file}
    return _tuned(made, settings, {name: value for name, value in given.items() if value is not None})


packet_loss = study_of(experiment, folder="runs/packet-loss-cells")


def _check_own(problem: FileProblem, families: Mapping[str, Method], rounds: int, seeds: Seeds) -> None:
    """Raise BadInput, before anything runs, for settings that the file's problem does not allow."""
    task = problem.make(Setup(seeds, rounds))
    Channel().over(task.graph, seeds.network)  # raises BadInput for unsuitable graphs
    task.check(families.values(), rounds, report.KEYS)
    if best := task.optimum():
        task.check_above_zero(best[task.error], "the model of the least cost")


def _tuned(made: Experiment, files: str, given: Mapping[str, Any]) -> Experiment:
    """Return the experiment with tuned settings of the study coke, read from files for each condition."""
    usual = catalogue.find_study("coke").prepare(**given).settings

    def known(cell: Cell) -> dict[str, Any]:
        condition = {name: cell.columns[name] for name in ("loss", "burst")}
        return usual | condition | dict(REMEDIES[cell.columns["remedy"]].flags) | {"method": cell.columns["family"]}

    note = f"Each family at the settings that were best for its share of lost frames: {files}."
    return settled(dataclasses.replace(made, notes=[note]), names_in(files), known)
