"""Parameters that several studies share: the links, the sizes of network and model, and a paper's settings."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

import networkx as nx

from netsim import BadInput, Link, Network, Profile, latency, loss, topology
from netsim.network import Compute, Medium
from netsim.scenarios.data.choice import Preparation
from netsim.scenarios.data.partitions import IID, Partition
from netsim.scenarios.published import published
from netsim.studies.graphs import OwnTopology
from netsim.util import check

if TYPE_CHECKING:
    from netsim.studies.experiment.setup import Setup

Number = TypeVar("Number", int, float)

TABLES, TEXT = "tables", "text"
CONVENTIONS = (TABLES, TEXT)
"""The ways to choose settings that a paper leaves open: to come close to its printed tables, or as its text reads."""


@dataclass(frozen=True, kw_only=True)
class Channel:
    """The links of a study.

    Parameters
    ----------
    loss : float
        Mean probability that a frame is lost.
    burst : float
        Mean number of frames lost in a row; 1: losses are independent.
    slot : float
        Seconds after which a channel that loses in bursts moves on, whether anything is sent or not; a burst then is of
        slots. By default it moves on with each frame, and waits while its sender is silent.
    latency : float
        Seconds that a frame is under way.
    rate : float
        Bits per second of a transmitter.
    budget : float
        Bits that a transmitter may send per round; the rest is refused.
    medium : str
        "radio": a broadcast is one transmission. "wires": one on each link.
    round_period : float
        Length of a round in seconds.
    reliability : str
        What links do about frames that do not arrive: "none"; "ack" and "nack" send them again; "keyframe": whole
        states now and then.
    profile : str
        A csv file of devices, a node's in the row of its name: uplink and downlink (bit/s; with --medium wires),
        seconds of a step, active and inactive (from when to when it is online). Also with FedScale's columns.
    """

    IDLE: ClassVar[Mapping[str, tuple[str, Any]]] = {"burst": ("loss", 0.0), "slot": ("loss", 0.0)}
    """{parameter: (other parameter, value)}: with this value of the other one, the first has no effect in a sweep."""

    loss: float = 0.0
    burst: float = 1.0
    slot: float | None = None
    latency: float = 0.0
    rate: float | None = None
    budget: float | None = None
    medium: str = "radio"
    round_period: float = 1.0
    reliability: str = "none"
    profile: str | None = None

    @property
    def ideal(self) -> bool:
        """Whether every frame arrives immediately."""
        return not (self.loss or self.latency or self.rate or self.budget or self.profile)

    def topology(self, setup: "Setup") -> None:
        """Return None: in an experiment, these links use the graph of the problem."""

    def network(self, setup: "Setup") -> Network:
        """Return the network of a run of an experiment."""
        assert setup.graph is not None
        return self.over(setup.graph, setup.seeds.network)

    @property
    def title(self) -> str:
        """The part of a figure's title about the links: ", loss 0.1, latency 0.01 s"; "" for ideal links."""
        units = {"loss": "", "latency": " s", "rate": " bit/s", "budget": " bits a round"}
        parts = [f"{name} {value:g}{unit}" for name, unit in units.items() if (value := getattr(self, name))]
        parts += [f"reliability {self.reliability}"] * (self.reliability != "none")
        parts += [f"profile {Path(self.profile).name}"] if self.profile else []
        return "".join(f", {part}" for part in parts)

    def times(self) -> Compute | None:
        """Return the compute times of the network's nodes; None, which stands for zero, in this class."""
        return None

    def over(self, graph: "nx.Graph[Any]", seed: int | tuple[int, int]) -> Network:
        """Return a network with these links on a graph; if there are two seeds, the second is for the links."""
        if self.slot is not None and self.burst == 1:
            raise BadInput(f"slot = {self.slot:g}: must go with a burst above 1; independent losses have no channel")
        losses = (
            loss.bernoulli(self.loss)
            if self.burst == 1
            else loss.gilbert_elliott(self.loss, self.burst, slot=self.slot, names=("loss", "burst"))
        )
        link = Link(loss=losses, latency=self.latency, rate=self.rate, budget=self.budget, reliability=self.reliability)
        medium = cast(Medium, check.one_of("medium", self.medium, ("radio", "wires")))
        given = {} if self.profile is None else Profile.read(self.profile).of(graph)
        if (times := self.times()) is not None:
            if "compute" in given:
                raise check.refuse("compute", times, "left out with a profile that has seconds or computation")
            given["compute"] = times
        return Network(graph, link, round_period=self.round_period, medium=medium, seed=seed, **given)


@dataclass(frozen=True, kw_only=True)
class PacedChannel(Channel):
    """The links of a study, and its agents' compute times.

    Parameters
    ----------
    compute : str
        Seconds that each step of an agent takes: a number, or "lognormal:MEDIAN:SIGMA", drawn for each agent and step;
        measured ones are in a --profile. A round waits for the slowest agent, and lasts --round-period longer than it.
        By default steps take no time.
    """

    compute: str | None = None

    @property
    def title(self) -> str:
        """The part of a figure's title on non-ideal links and compute times."""
        if self.compute is None:
            return super().title
        return f"{super().title}, compute {self.compute}"

    def times(self) -> Compute | None:
        """Return the compute times; raises BadInput for an invalid text."""
        return None if self.compute is None else compute_times(self.compute)


def is_timed(network: object) -> bool:
    """Return whether devices differ in speed, so that seconds are more informative than rounds."""
    return any(getattr(network, name, None) is not None for name in ("compute", "capacity", "profile"))


def compute_times(text: str) -> Compute:
    """Return the compute times given by a text; raises BadInput for an invalid one."""
    kind, _, rest = text.partition(":")
    try:
        numbers = [float(each) for each in (rest.split(":") if rest else [text])]
    except ValueError:
        numbers = []
    if kind == "lognormal" and len(numbers) == 2:
        return latency.lognormal(*numbers)
    if len(numbers) != 1 or rest:
        raise check.refuse("compute", text, "seconds or lognormal:MEDIAN:SIGMA")
    return check.finite("compute", numbers[0], low=0)


@dataclass(frozen=True, kw_only=True)
class Published:
    """Parameters that may be left open (None), to be taken from a paper for the data set.

    A subclass names the published table and the table's column for each of its fields. The table has a row for each
    data set, and ``other`` for all others, possibly for each of the `CONVENTIONS`. The subclass defines the values of
    fields that no paper states.
    """

    TABLE: ClassVar[str] = "settings"
    COLUMNS: ClassVar[Mapping[str, str]] = {}
    USUAL: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """{field: {data set, or ``other`` for all others: value}} for values that no paper states."""

    USUAL_CONVENTIONS: ClassVar[str] = TEXT
    """The conventions whose values ``by_data`` shows."""

    def resolved(self, data: str, conventions: str = TEXT) -> Self:
        """Return the parameters for a data set; open ones are set to published or usual values."""
        paper = published_row(self.TABLE, data, conventions)
        known = {name: paper[column] for name, column in self.COLUMNS.items() if column in paper}
        known |= {name: values.get(data, values["other"]) for name, values in self.USUAL.items()}
        return dataclasses.replace(self, **{name: each for name, each in known.items() if getattr(self, name) is None})

    @classmethod
    def by_data(cls) -> dict[str, dict[str, Any]]:
        """Return {field: {data set: value}} for the fields that may be left open."""
        sets = published(cls.TABLE)["dataset"].unique()
        rows = {data: published_row(cls.TABLE, data, cls.USUAL_CONVENTIONS) for data in sets}
        found = {
            name: {data: row[column] for data, row in rows.items() if column in row}
            for name, column in cls.COLUMNS.items()
            if any(column in row for row in rows.values())
        }
        return found | {name: dict(values) for name, values in cls.USUAL.items()}


@cache
def published_row(table: str, data: str, conventions: str = TEXT) -> Mapping[str, Any]:
    """Return a data set's row of a published table without its empty cells; raises BadInput for unknown conventions."""
    check.one_of("conventions", conventions, CONVENTIONS)
    rows = published(table)
    if "conventions" in rows:
        chosen = rows[rows["conventions"] == conventions]
        # For a data set without tables in the paper, there is only a row with the text's conventions.
        rows = chosen if data in set(chosen["dataset"]) else rows[rows["conventions"] == TEXT]
    rows = rows.set_index("dataset")
    found = rows.loc[data if data in rows.index else "other"].dropna()
    row: dict[str, Any] = {str(name): value for name, value in found.items()}
    for name in {"agents", "edges", "L", "bits", "first"} & row.keys():
        row[name] = int(row[name])
    if "squared" in row:
        row["squared"] = bool(row["squared"])
    return MappingProxyType(row)


@dataclass(frozen=True, kw_only=True)
class Bandwidth:
    """The choice of a study's bandwidth, if not given (`netsim.scenarios.tasks.mapping.choose_sigma`).

    Parameters
    ----------
    median : bool
        Use the median distance between samples as the bandwidth sigma.
    tune : bool
        Choose sigma by cross-validation from a grid around that.
    """

    median: bool = False
    tune: bool = False

    def __post_init__(self) -> None:
        if self.median and self.tune:
            raise BadInput("median = True, tune = True: must be one of the two")


@dataclass(frozen=True, kw_only=True)
class Setting(OwnTopology, Bandwidth, Published):
    """The size of a study's network and of its model; defaults are those published for the data set.

    Parameters
    ----------
    agents : int
        Number of agents.
    edges : int
        Number of edges of the random graph; by default as dense as the paper's.
    features : int
        Number L of random frequencies of a layer; a model has L elements, of an online method 2L (DKL-MLP: twice that).
    map : str
        "RF-KL": random Fourier features; "DKL": two layers of them; "DKL-MLP": both layers side by side.
    sigma : float
        Bandwidth of the Gaussian kernel; inputs are scaled to [0, 1].
    median : bool
        Use the median distance between samples as the bandwidth instead.
    tune : bool
        Choose the bandwidth by cross-validation; an online method's step sizes, too, on data that the run leaves out.
    regularizer : float
        The centre's regulariser lambda.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {
        "agents": "agents",
        "features": "L",
        "sigma": "sigma",
        "regularizer": "lambda",
    }

    agents: int | None = None
    edges: int | None = None
    features: int | None = None
    map: str = "RF-KL"
    sigma: float | None = None
    regularizer: float | None = None

    def resolved(self, data: str, conventions: str = TEXT) -> Self:
        """Return the setting for a data set with all values set, and the paper's graph density.

        Raises
        ------
        BadInput
            For a number outside its range, or two ways to choose the bandwidth.
        """
        if self.sigma is not None and (self.median or self.tune):
            how = "median" if self.median else "tune"
            raise BadInput(f"sigma = {self.sigma:g}, {how} = True: must be one of the two")
        found = super().resolved(data, conventions)
        agents = check.integer("agents", found.agents, low=1)
        check.integer("features", found.features, low=1)
        check.finite("sigma", found.sigma, above=0.0)
        check.finite("regularizer", found.regularizer, low=0.0)
        if found.topology is not None:
            return dataclasses.replace(found, edges=found.edges_of(agents, found.edges))
        if found.edges is not None:
            return found
        paper = published_row(self.TABLE, data, conventions)
        pairs = agents * (agents - 1) // 2
        density = paper["edges"] / (paper["agents"] * (paper["agents"] - 1) / 2)
        return dataclasses.replace(found, edges=min(pairs, max(agents - 1, round(density * pairs))))

    def graph(self, seed: int) -> "nx.Graph[int]":
        """Return a connected random graph with that many agents and edges, or that of the file."""
        agents = check.integer("agents", self.agents, low=1)
        edges = check.integer("edges", self.edges, low=0)
        return self.graph_of(agents, partial(topology.erdos_renyi, agents, edges=edges, seed=seed))


@dataclass(frozen=True, kw_only=True)
class NetworkSize(OwnTopology):
    """The size of a random network, and how long it learns.

    Parameters
    ----------
    agents : int
        Number of agents.
    edges : int
        Number of edges of the random graph; by default two for each agent.
    rounds : int
        Number of rounds.
    """

    agents: int = 10
    edges: int | None = None
    rounds: int = 400

    def resolved(self) -> Self:
        """Return the size; if the number of edges is open, set it to two per agent, or all pairs if these are fewer."""
        agents = check.integer("agents", self.agents, low=1)
        check.integer("rounds", self.rounds, low=1)
        if self.topology is not None:
            return dataclasses.replace(self, edges=self.edges_of(agents, self.edges))
        usual = min(agents * (agents - 1) // 2, max(agents - 1, 2 * agents))
        return dataclasses.replace(self, edges=usual) if self.edges is None else self

    def graph(self, seed: int) -> "nx.Graph[int]":
        """Return the file's graph, or else a connected random graph of this size, whose values must be set."""
        draw = partial(topology.erdos_renyi, self.agents, edges=self.edges, seed=seed)
        return self.graph_of(self.agents, draw)


def names_in(text: str | None) -> list[str]:
    """Return the names in a parameter that lists several, separated by commas; no name if the parameter is left out."""
    return [] if text is None else [each.strip() for each in text.split(",")]


def numbers_in(parameter: str, text: str, allowed: str, kind: Callable[[str], Number]) -> list[Number]:
    """Return the numbers listed by a parameter, separated by commas; raises BadInput for other text."""
    try:
        return [kind(each) for each in names_in(text)]
    except ValueError:
        raise check.refuse(parameter, text, allowed) from None


def chosen_names(parameter: str, text: str, allowed: Iterable[str]) -> list[str]:
    """Return the distinct names listed by a parameter, separated by commas; raises BadInput for an unknown one."""
    known = list(allowed)
    return [check.one_of(parameter, each, known) for each in dict.fromkeys(names_in(text))]


@dataclass(frozen=True, kw_only=True)
class Divided:
    """The division of samples among the agents.

    Parameters
    ----------
    partition : str
        "iid": at random, evenly. "shards:S": sorted by target, in S shards an agent (McMahan 2017). "dirichlet:ALPHA":
        evenly, with shares of classes (of ten bins of a number) ~ Dir(ALPHA p) (Hsu 2019). "size:BETA": at random, the
        r-th largest share ~ r^-BETA.
    """

    partition: str = IID

    def divided(self) -> Partition:
        """Return the partition; raises BadInput for an invalid text."""
        return Partition.parse(self.partition)

    @property
    def partition_title(self) -> str:
        """The part of a figure's title about the division of samples; "" if they are divided evenly at random."""
        return "" if self.partition == IID else f", partition {self.divided()}"


@dataclass(frozen=True, kw_only=True)
class Rows(Divided, Preparation):
    """The rows and columns of a table of numbers to use, their scaling, and their division among agents.

    Parameters
    ----------
    rows : int
        Use only this many rows of the table, taken at random.
    """

    rows: int | None = None


@dataclass(frozen=True, kw_only=True)
class Prepared(Published, Preparation):
    """The rows and columns of a table to use, and their scaling; the defaults reproduce published data sets.

    The rows ``tables`` of a published table record these values.
    """

    COLUMNS: ClassVar[Mapping[str, str]] = {name: name for name in ("first", "within", "scaling", "target", "drop")}
    USUAL_CONVENTIONS: ClassVar[str] = TABLES


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The methods that a study compares.

    Parameters
    ----------
    algorithms : str
        Which of the study's own to run, with commas between.
    method : str
        Also run the class that a Python file defines; several files with commas between.
    remedy : str
        How ADMM methods that send states keep their duals: "none" (as published), "running-sums", "coded-sums",
        "edge-duals".
    """

    algorithms: str = ""
    method: str | None = None
    remedy: str = "none"
