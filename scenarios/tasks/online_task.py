"""Online learning: streams of samples, step sizes, methods, the task, and code that several studies share."""

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import networkx as nx
import numpy as np
import pandas as pd

from netsim import AgentError, BadInput, Experiment, Method, Problem, Setup
from netsim.agents import DDKL, DOKL, ODKLA, RFFDOKL, Censor, FeatureMap, OnlineCost, Squared
from netsim.agents.costs.stream import Samples
from netsim.agents.measures.regret import DynamicRegret, StaticRegret
from netsim.coders import Coder, Float, Uniform
from netsim.network import played_by
from netsim.scenarios.data.partitions import EVENLY
from netsim.scenarios.data.streams import Rows, again_and_again, by_target, in_order, owners, rounds_of, shuffled
from netsim.scenarios.data.tables import Table, check_rows, load_prepared, pooled, split_rows, synthetic
from netsim.scenarios.tasks.diagnosis import missed, silent
from netsim.scenarios.tasks.division import tell_streams
from netsim.scenarios.tasks.mapping import feature_map
from netsim.scenarios.tasks.method import Task
from netsim.scenarios.tasks.models import AgentProbe, Readings, TaskProbe, models_of, residuals
from netsim.scenarios.tasks.own_stream import StreamFile, steps_text
from netsim.scenarios.tasks.settings import TABLES, TEXT, Divided, Prepared, Published, Setting
from netsim.scenarios.tasks.theory import THEORY
from netsim.studies import Study
from netsim.studies.experiment.cells import Cell
from netsim.studies.experiment.study import Played, gives_values, study_of
from netsim.studies.outcome import may_diverge
from netsim.util import check
from netsim.util.typing import Array

Source = Callable[[], Sequence[Samples]]
"""A function that returns new iterators of every agent's samples, always the same samples."""
Tracking = Callable[[Array, int], float]
"""A function of the models, shape (N, D), and the round t that returns their distance from the truth."""

TRIAL = 500
"""The largest number of rounds of a run for tuning."""

_TIMED = 200  # the largest number of rounds whose steps are timed


# --- streams ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TableStream(Prepared):
    """The samples of a table to use, their scaling, and their order."""

    ORDERS: ClassVar[tuple[str, ...]] = ("shuffled", "time")

    rounds: int | None = None
    order: str = "shuffled"

    def load(self, data: str, agents: int, seed: int) -> Table:
        """Return the samples; raises BadInput for arguments outside their ranges, or too few samples."""
        check.one_of("order", self.order, self.ORDERS)
        check_rows(data, agents)
        return load_prepared(data, self)

    def length(self, table: Table, agents: int) -> int:
        """Return the number of rounds; raises BadInput if the samples do not suffice."""
        most = rounds_of(table, agents)
        return most if self.rounds is None else check.integer("rounds", self.rounds, low=1, high=most)

    def dealt(self, table: Table, agents: int, phi: FeatureMap, seed: int) -> Source:
        """Return a function that deals the samples, the same each time."""
        if self.order == "time":
            return lambda: in_order(table, agents, phi)
        return lambda: shuffled(table, agents, phi, seed)


@dataclass(frozen=True, kw_only=True)
class Stream(Divided, TableStream):
    """The samples of a table to use, their scaling, their division among agents, and their order.

    Parameters
    ----------
    partition : str
        How the samples are divided among the agents. "iid": at random, evenly. "shards:S": sorted by target, in S
        shards an agent (McMahan 2017). "dirichlet:ALPHA": evenly, with shares of ten bins of the target ~ Dir(ALPHA p)
        (Hsu 2019). "size:BETA": at random, the r-th largest share ~ r^-BETA. There are as many rounds as with iid: an
        agent whose samples end before draws them again.
    rounds : int
        Number of rounds; by default as many as the data have samples for each agent.
    order : str
        "shuffled"; "time": rows in file order; "target": rows sorted by target, each agent another part of them.
    mixing : float
        With order "target": share of the rows that is dealt at random all the same.
    """

    TABLE = "online_settings"
    ORDERS = ("shuffled", "time", "target")

    mixing: float = 0.0

    def load(self, data: str, agents: int, seed: int) -> Table:
        """Return the samples of a table or of "synthetic"; raises BadInput for invalid tables and arguments."""
        check.probability("mixing", self.mixing)
        if self.divided() != EVENLY and self.order == "target":
            raise check.refuse("partition", self.partition, "iid with order = 'target', which divides the samples")
        if data != "synthetic":
            return super().load(data, agents, seed)
        check.one_of("order", self.order, self.ORDERS)
        self.check_left_out(data)
        return pooled(synthetic(20, seed=seed))

    def dealt(self, table: Table, agents: int, phi: FeatureMap, seed: int) -> Source:
        """Return a function that deals the samples, the same each time."""
        if self.divided() != EVENLY:
            parts, in_file_order = self.owners(table, agents, seed), self.order == "time"
            return lambda: again_and_again(table, parts, phi, in_order=in_file_order, seed=seed)
        if self.order == "target":
            return lambda: by_target(table, agents, phi, mixing=self.mixing, seed=seed)
        return super().dealt(table, agents, phi, seed)

    def owners(self, table: Table, agents: int, seed: int) -> list[Rows]:
        """Return the rows of each agent; raises BadInput for an impossible partition."""
        return owners(table.target, agents, self.divided(), seed)

    def tell(self, study: Study, table: Table, agents: int, seed: int, rounds: int) -> None:
        """Add the division of samples to a study, if it is not even and random."""
        if self.divided() != EVENLY:
            tell_streams(study, [table.target[own] for own in self.owners(table, agents, seed)], rounds, self)


@dataclass(frozen=True, kw_only=True)
class OnlineSetting(Setting):
    """The size of the network and of the model; values left open follow the dissertation's ch. 3."""

    TABLE = "online_settings"
    USUAL_CONVENTIONS = TABLES


# --- step sizes and methods -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OnlineSteps(Published):
    """Step sizes of online methods, and the censor; defaults are published or usual values.

    Parameters
    ----------
    rho : float
        Penalty of the ADMM methods.
    eta : float
        Weight of staying where one is, of the ADMM methods: the larger, the shorter the step.
    step : float
        Step size of RFF-DOKL.
    threshold : float
        Threshold of the censor.
    decay : float
        Its decay.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {"threshold": "threshold_v", "decay": "threshold_mu"}
    # The dissertation does not print the values of these parameters.
    USUAL: ClassVar[Mapping[str, Mapping[str, float]]] = {
        "rho": {"other": 1.0},
        "eta": {"other": 8.0},
        "step": {"other": 0.1},
    }

    rho: float | None = None
    eta: float | None = None
    step: float | None = None
    threshold: float | None = None
    decay: float | None = None

    def given(self, censor: Censor) -> dict[str, Any]:
        """Return the values that a user's method may use: the step sizes, and the censor."""
        return {name: getattr(self, name) for name in ("rho", "eta", "step")} | {"censor": censor}

    def of(self, method: Method) -> Method:
        """Return a method with these step sizes."""
        rho, eta, step = (check.finite(name, getattr(self, name)) for name in ("rho", "eta", "step"))
        if issubclass(method.kind, RFFDOKL):
            sizes = {"eta": step}
        else:
            sizes = {"rho": rho} if issubclass(method.kind, DDKL) else {"rho": rho, "eta": eta}
        return method.with_given(**sizes)


@dataclass(frozen=True, kw_only=True)
class Quantizer:
    """The range of the quantizer.

    Parameters
    ----------
    range : float
        Fixed range [-range, range) of the methods that quantize; by default a range for each message.
    saturate : bool
        What lies outside that range takes its last level. Without: the integer goes on, with the bits that it needs
        (equation 3.21 as printed).
    """

    range: float | None = None
    saturate: bool = True

    def coder(self, bits: int) -> Uniform:
        """Return the quantizer; raises BadInput for unusable numbers."""
        if self.range is None:
            if not self.saturate:
                raise BadInput("saturate = False: must go with a range; a message's own range holds all its elements")
            return Uniform(bits)
        reach = check.finite("range", self.range, above=0.0)
        return Uniform(bits, -reach, reach, saturate=self.saturate)


def methods(censor: Censor, coder: Coder) -> dict[str, Method]:
    """Return the methods by name.

    Methods without a coder send float32, as the dissertation counts; Q in a name means coded, and C or Co censored.
    """
    plain = Float(32)
    return {
        "RFF-DOKL": Method(RFFDOKL, coder=plain),
        "DOKL": Method(DOKL, coder=plain),
        "DOKL dense": Method(DOKL, coder=plain, solve="dense"),
        "ODKLA": Method(ODKLA, coder=plain),
        "QC-ODKLA": Method(ODKLA, censor=censor, coder=coder),
        "DDKL": Method(DDKL, coder=plain),
        "CoDDKL": Method(DDKL, censor=censor, coder=plain),
        "QDDKL": Method(DDKL, coder=coder),
        "QC-DDKL": Method(DDKL, censor=censor, coder=coder),
    }


def names_of(methods: Mapping[str, Method]) -> dict[str, list[str]]:
    """Return the short names of the parameters that methods, including a user's, take from a study."""
    found: dict[str, list[str]] = {}
    for called, method in methods.items():
        given = method.given
        for name in ("rho", "eta", "step"):
            if name in given:
                short = "step" if issubclass(method.kind, RFFDOKL) else name
                found.setdefault(short, []).append(f"methods.{called}.{name}")
        if "censor" in given:
            for name, field in zip(("threshold", "decay", "squared"), dataclasses.fields(given["censor"]), strict=True):
                found.setdefault(name, []).append(f"methods.{called}.censor.{field.name}")
        if isinstance(given.get("coder"), Uniform) and not called.endswith("-bit"):
            found.setdefault("bits", []).append(f"methods.{called}.coder.bits")
    return found


def _grid(method: Method) -> list[Method]:
    """Return the variants of a method with every combination of step sizes to try."""
    known = {
        "rho": (0.03, 0.1, 0.3, 1.0, 3.0),
        "eta": (0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        "step": (0.03, 0.1, 0.2, 0.3, 0.5, 0.7),
    }
    if issubclass(method.kind, RFFDOKL):
        known["eta"] = known["step"]
    tried = {name: values for name, values in known.items() if name in method.given}
    return [method.with_given(**dict(zip(tried, each, strict=True))) for each in itertools.product(*tried.values())]


# --- the task ---------------------------------------------------------------------------------------------------------


class OnlineTask(Task):
    """One pass over the streams of all agents: the agents' costs, and the measures of their models.

    Parameters
    ----------
    samples : sequence of iterators
        Each agent's samples (φ, y).
    size : int
        Length D of a model.
    regularizer : float
        The centre's λ; each agent's is λ/N.
    graph : networkx.Graph
        With a node 0, 1, … for each agent.
    rounds : int
        The number of rounds for which every agent has a sample.
    ideal : bool
        Whether the links lose and delay no frame.
    tracking : callable, optional
        A function of the models, shape (N, D), and the round, that returns the models' distance from a known truth.

    Attributes
    ----------
    graph, rounds, size
        As given.
    cost : callable
        Returns the cost of an agent, given its name: `draw` takes the next sample and predicts it, and `gradient` and
        `argmin` refer to this sample.
    costs : list of OnlineCost
        The agents' costs, which count the errors.
    streams : Streams or None
        The streams that the task reads, from which other tasks can read the same samples.
    error
        The column of the error that reports compare.
    """

    error: ClassVar[str] = "running_mse"
    streams: "Streams | None" = None
    steps_text = staticmethod(steps_text)

    def __init__(
        self,
        samples: Sequence[Samples],
        size: int,
        regularizer: float,
        graph: "nx.Graph[int]",
        *,
        rounds: int,
        ideal: bool,
        tracking: Tracking | None = None,
    ) -> None:
        share = regularizer / len(graph)
        self.rounds, self.size = rounds, size
        self.costs = [OnlineCost(each, size, loss=Squared(), regularizer=share) for each in samples]
        super().__init__(self.costs.__getitem__, graph)
        self._static, self._dynamic = StaticRegret(size, share), DynamicRegret(size, share)
        self._ideal, self._tracking = ideal, tracking
        # The best model in hindsight takes a matrix factorisation, so it is computed only in some rounds.
        self._checked = {*np.unique(np.geomspace(1, rounds, 40).round().astype(int)).tolist(), rounds}
        self._lost = np.zeros(len(self.costs))
        self._targets = np.zeros(3)  # their number, their sum, and the sum of their squares

    def fresh(self) -> "OnlineTask":
        """Return a copy of the task for another run, with new streams."""
        return self if self.streams is None else self.streams.task()

    @property
    def told(self) -> Study | None:
        """Notes, tables and settings found when the problem was made."""
        return None if self.streams is None else self.streams.told

    def costs_of(self, agents: Mapping[Any, Any]) -> list[OnlineCost]:
        """Return the agents' costs, which count their errors; an agent without ``cost`` has the one it was given."""
        found = {name: getattr(agent, "cost", None) for name, agent in agents.items()}
        # Read the costs from the agents: agents that were merged from several processes have other cost objects.
        return [cost if isinstance(cost, OnlineCost) else self.costs[name] for name, cost in found.items()]

    @property
    def constant(self) -> dict[str, float]:
        """The running MSE of the best constant: the variance of the targets so far."""
        count, total, squares = self._targets.tolist()
        return {"running_mse": float(squares / count - (total / count) ** 2)}

    @property
    def measure(self) -> AgentProbe:
        """A probe of a round's columns: running MSE, regret, consensus error and residuals.

        The agents must have a ``theta`` and a ``cost``, and call the cost's `draw` once a round; otherwise the probe
        raises BadInput.
        """
        return TaskProbe(self)

    def read(self, agents: Mapping[Any, Any]) -> Readings:
        """Return the readings for `columns_of`: the agents' cost counts, last samples and models."""
        costs = self.costs_of(agents)
        drawn = [(cost.features, cost.target) if cost.count else (None, None) for cost in costs]
        features, targets = zip(*drawn, strict=True)
        return models_of(agents, self._ideal) | {
            "count": [cost.count for cost in costs],
            "squared_error": [cost.squared_error for cost in costs],
            "loss": [cost.loss_sum for cost in costs],
            "features": features,
            "target": targets,
        }

    def columns_of(self, readings: Readings) -> dict[str, float]:
        """Return a round's columns from the readings of all agents; called once a round."""
        counts, before = readings["count"], self._lost
        columns = {"running_mse": sum(readings["squared_error"]) / sum(counts)}
        self._lost = np.array(readings["loss"])
        features, targets = np.array(readings["features"]), np.array(readings["target"])
        with np.errstate(over="ignore", invalid="ignore"):
            lost = float(np.sum(self._lost - before))
        self._targets += len(targets), targets.sum(), targets @ targets
        self._static.take(features, targets, lost)
        self._dynamic.take(features, targets, lost)
        columns["static_regret"] = self._static.value if counts[0] in self._checked else np.nan
        columns["dynamic_regret"] = self._dynamic.value
        if self._tracking is not None:
            columns["tracking_error"] = self._tracking(np.array(readings["theta"]), counts[0])
        return columns | residuals(readings)


# --- problems ---------------------------------------------------------------------------------------------------------


@dataclass
class Streams:
    """Streams, of which each task reads a new copy for at most ``rounds`` rounds; ``trial`` has streams for tuning."""

    graph: "nx.Graph[int]"
    ideal: bool
    source: Source
    size: int
    regularizer: float
    rounds: int
    told: Study
    tracking: Tracking | None = None
    variance: float = math.nan
    trial: "Streams | None" = None

    def task(self) -> OnlineTask:
        """Return a task with new streams."""
        given = self.source(), self.size, self.regularizer, self.graph
        task = OnlineTask(*given, rounds=self.rounds, ideal=self.ideal, tracking=self.tracking)
        task.streams = self
        return task

    def with_trial(self, source: Source, most: int) -> OnlineTask:
        """Return a task that also has other streams, of at most ``most`` rounds, for tuning."""
        rounds = min(TRIAL, most)
        self.trial = dataclasses.replace(self, source=source, rounds=rounds, tracking=None, trial=None)
        return self.task()


@dataclass(frozen=True, kw_only=True)
class OnlineRegression(Problem):
    """Least squares on random features of samples that arrive one by one, a stream for each agent.

    Parameters
    ----------
    data : str
        "synthetic" (the COKE paper's), the name of a table in NETSIM_DATA or the cache, or a table's path.
    stream : TableStream
        Which samples, who sees which, and in which order. Its rounds are those of an experiment that leaves them open.
    setting : Setting
        The size of a random graph, if the network has none, and of the model.
    conventions : str
        How what is left open follows from the dissertation: "text", or "tables" to come close to its tables.

    Raises
    ------
    BadInput
        When a run is made: for an unknown or damaged table, too few samples, or a value outside its range.
    """

    data: str = "synthetic"
    stream: TableStream = Stream()
    setting: Setting = OnlineSetting()
    conventions: str = TEXT

    def whole(self) -> Self:
        """Return the problem with the values of all parameters that were left open."""
        stream = self.stream.resolved(self.data, self.conventions)
        return dataclasses.replace(self, stream=stream, setting=self.setting.resolved(self.data, self.conventions))

    def make(self, setup: Setup) -> OnlineTask:
        """Return the task of a run."""
        whole, told, seeds = self.whole(), Study("", {}), setup.seeds
        setting, stream = whole.setting, dataclasses.replace(whole.stream, rounds=setup.rounds or whole.stream.rounds)
        if setup.graph is not None:
            setting = dataclasses.replace(setting, agents=len(setup.graph))
        count = check.integer("agents", setting.agents, low=1)
        table = stream.load(self.data, count, seeds.data)
        told.note(*table.left_out)
        graph = setting.graph(seeds.graph) if setup.graph is None else setup.graph
        held, table = split_rows(table, 0.1, seed=seeds.data) if setting.tune else (table, table)
        length = stream.length(table, count)
        phi, setting = feature_map(told, setting, held.inputs, held.target, form="cos+sin", seed=seeds.seed)
        if isinstance(stream, Stream):
            stream.tell(told, table, count, seeds.data, length)
        told.record(setting, whole.stream)
        source, other = (stream.dealt(rows, count, phi, seeds.data) for rows in (table, held))
        regularizer, variance = check.finite("regularizer", setting.regularizer), float(np.var(table.target))
        given = graph, setup.ideal, source, phi.size, regularizer, length, told
        return Streams(*given, variance=variance).with_trial(other, rounds_of(held, count))


# --- the studies' shared half -----------------------------------------------------------------------------------------


def study_of_streams(make: Callable[..., Experiment]) -> Callable[..., None]:
    """Return the study of an experiment on streams, which raises BadInput if every method diverged."""
    play = study_of(make, prepare=_prepared, measures=THEORY)

    @functools.wraps(play)
    def study_of_experiment(study: Study, **given: Any) -> None:
        try:
            play(study, **given)
        except AgentError as error:
            if study.runs or not study.lost:
                raise
            last = study.notes[-1]
            raise BadInput(f"algorithms: must be such that one at least does not diverge; {last}") from error

    return study_of_experiment


def _prepared(study: Study, made: Experiment) -> Experiment:
    """Return the experiment; if tuning is requested, with the steps of least error on samples that the run omits.

    Raises
    ------
    BadInput
        If a cost of a file lacks a member that a method needs.
    """
    cell = next(iter(made.cells()))
    if isinstance(cell.problem, StreamFile):
        cell.problem.check(made.cells())
    if not isinstance(cell.problem, OnlineRegression) or not cell.problem.setting.tune:
        return made
    if gives_values(study):
        raise BadInput("tune = True: must go without --set and --settings, whose step sizes it would replace")
    rows, best = [], dict(made.methods)
    for name, method in made.methods.items():
        # A variant of QC-DDKL with another number of bits gets the steps of QC-DDKL.
        if (plain := name.rpartition(" ")[0]) and name.endswith("-bit"):
            steps = {each: value for each, value in method.given.items() if each in ("rho", "eta")}
            steps |= {each: best[plain].given[each] for each in steps if plain in best}
            best[name] = method.with_given(**steps)
            continue
        grid, errors = _grid(method), []
        with study.progress(f"tune {name}", len(grid)) as progress:
            for number, each in enumerate(grid, 1):
                errors.append(_trial_error(cell, each))
                sizes = {size: value for size, value in each.given.items() if isinstance(value, float)}
                rows.append({"algorithm": name, **sizes, "running_mse": errors[-1]})
                progress(number)
        best[name] = grid[int(np.argmin(errors))]
    table = study.tables["tuning"] = pd.DataFrame(rows)
    least = table.loc[table.groupby("algorithm", sort=False)["running_mse"].idxmin()]
    rounds = _trial(cell.setup()).rounds
    study.table("steps", f"Steps chosen on {rounds} rounds of held-back data", least)
    study.record(rho=None, eta=None, step=None)
    return dataclasses.replace(made, methods=best)


def _trial(setup: Setup) -> Setup:
    """Return the setup of a run on the tuning streams."""
    assert isinstance(setup.task, OnlineTask)
    streams = setup.task.streams
    assert streams is not None
    assert streams.trial is not None
    return dataclasses.replace(setup, task=streams.trial.task(), rounds=streams.trial.rounds)


def _trial_error(cell: Cell, method: Method) -> float:
    """Return the final running MSE on the tuning streams; infinity if the run diverged."""
    setup = _trial(cell.setup())
    assert setup.network is not None
    with may_diverge() as outcome:
        setup.network.run(agents := method.agents(setup))
    assert isinstance(setup.task, OnlineTask)
    costs = setup.task.costs_of(agents)
    mean = sum(cost.squared_error for cost in costs) / (len(costs) * setup.rounds)
    return mean if outcome.error is None and math.isfinite(mean) else math.inf


def step_seconds(played: Played) -> float:
    """Return the CPU seconds of the steps of all agents and rounds, extrapolated from the first rounds.

    For this purpose these rounds are run again, because an agent whose steps are timed cannot be batched.
    """
    setup, seconds = played.cell.setup(), [0.0]

    def timed(step: Callable[[], Array]) -> Callable[[], Array]:
        def one() -> Array:
            start = time.thread_time()
            found = step()
            seconds[0] += time.thread_time() - start
            return found

        return one

    rounds = min(setup.rounds, _TIMED)
    agents = played.cell.method.agents(dataclasses.replace(setup, rounds=rounds))
    for agent in agents.values():
        if hasattr(agent, "local_step"):
            agent.local_step = timed(agent.local_step)
    assert setup.network is not None
    # Run in this process, even if the study's runs use several processes, where this would count as another run.
    with played_by(None), may_diverge():
        setup.network.run(agents)
    return seconds[0] * setup.rounds / rounds


def notes_on(study: Study) -> Iterator[str]:
    """Yield notes on each run: frames that did not arrive, silence, clipped elements."""
    for name, run in study.runs.items():
        if frames := missed(run):
            yield f"{name}: {frames}."
        if quiet := silent(name, run):
            yield quiet
        if saturated := run.rounds["saturated"].iloc[-1]:
            yield f"{name}: {saturated:,} elements lay outside the quantizer's range and were clipped."


def ends(study: Study, reference: str, errors: Sequence[str] = ("running_mse",)) -> pd.DataFrame:
    """Return a row for each algorithm: final errors and bits, and both divided by those of a reference."""
    last = study.rounds.groupby("algorithm", sort=False).last().reset_index()
    table = last[["algorithm", "round", *errors, "transmissions", "payload_bits", "wire_bits"]].copy()
    if reference in set(table["algorithm"]):
        base = table.set_index("algorithm").loc[reference]
        called = "MSE" if errors[0] == "running_mse" else errors[0]
        table[f"{called} / {reference}"] = table[errors[0]] / base[errors[0]]
        table[f"bits / {reference}"] = table["payload_bits"] / base["payload_bits"]
    return table


# --- errors of the rounds ---------------------------------------------------------------------------------------------


def recent_error(rounds: pd.DataFrame) -> float:
    """Return a method's mean squared error over the last quarter of its rounds, from its running MSE."""
    window = len(rounds) - int(len(rounds) * 3 / 4)
    return float(recent_errors(rounds.assign(algorithm=""), window)["recent_mse"].iloc[-1])


def recent_errors(rounds: pd.DataFrame, window: int) -> pd.DataFrame:
    """Return the rounds with ``recent_mse``, each method's mean squared error over the last ``window`` rounds.

    A mean over all rounds hides a moving truth, because it includes the initial errors.
    """
    groups = rounds.groupby("algorithm", sort=False)
    total = rounds["round"] * rounds["running_mse"]
    before = total.groupby(rounds["algorithm"], sort=False).shift(window).fillna(0.0)
    start = groups["round"].shift(window).fillna(0.0)
    return rounds.assign(recent_mse=(total - before) / (rounds["round"] - start))


def apart(rounds: pd.DataFrame, column: str, reference: str) -> pd.DataFrame:
    """Return the rounds of the other methods with the column ``apart``, the excess over the reference in per cent."""
    base = rounds[rounds["algorithm"] == reference].set_index("round")[column]
    others = rounds[rounds["algorithm"] != reference]
    return others.assign(apart=100.0 * (others[column] / others["round"].map(base) - 1.0)).dropna(subset=["apart"])


def converged(rounds: pd.DataFrame, error: str = "running_mse") -> pd.DataFrame:
    """Return the rows of algorithms whose final error is at most a hundred times the best one's."""
    last = rounds.groupby("algorithm", sort=False)[error].last()
    good = last.index[(last < 100 * abs(last.min())) | (last <= 0)]
    return rounds[rounds["algorithm"].isin(good)]
