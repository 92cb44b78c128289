"""DKL-MLP over a network: a deep model, a matrix for C classes, learned by DKLA, COKE and QC-ODKLA."""

from dataclasses import dataclass, replace

from netsim import check, draws
from netsim.agents import COKE, DKLA, ODKLA, Geometric
from netsim.agents.consensus.base import SharingAgent
from netsim.agents.costs.classes import ClassProblem, OnlineClasses
from netsim.agents.costs.stream import Samples
from netsim.errors import BadInput
from netsim.quantize import Uniform
from netsim.scenarios.data.tables import deal, training
from netsim.scenarios.deep.maps import Shape, choose_times, kernels_in
from netsim.scenarios.deep.network_report import Case, report
from netsim.scenarios.tasks.classes import DIGITS, ClassTask, load, loss_of, ridge_regularizer, signs
from netsim.scenarios.tasks.settings import Channel, names_in, random_graph
from netsim.studies import Study

_TRAIN_SHARE = 0.75


def deep_network(
    study: Study,
    *,
    data: str = DIGITS,
    rows: int | None = None,
    agents: int = 10,
    edges: int | None = None,
    rounds: int = 400,
    width: int = 100,
    layers: int = 2,
    kernels: str = "gaussian",
    criterion: str = "squared",
    one_vs_rest: bool = False,
    temperature: float = 0.1,
    regularizer: float = 1e-4,
    tune: bool = True,
    rho: float = 5e-4,
    threshold: float = 8.0,
    decay: float = 0.985,
    online_rho: float = 1.0,
    eta: float = 3.0,
    bits: int = 4,
    losses: str = "0,0.1",
    channel: Channel = Channel(),  # noqa: B008 (frozen)
    seed: int = 0,
) -> None:
    """DKL-MLP and RF-KL learned by DKLA, COKE, QC-ODKLA over a network (P. Xu's dissertation, section 5.6).

    RF-KL has as many random features as DKL-MLP has in all its layers, so that their models and messages are of one
    size. About a minute with the defaults.

    Parameters
    ----------
    data : str
        "digits" (comes with scikit-learn), or the NAME of NAME.csv.gz, of classes, in the folder NETSIM_DATA.
    rows : int
        Use only so many rows, taken at random.
    agents : int
        Number of agents.
    edges : int
        Number of edges of the random graph; by default two for each agent.
    rounds : int
        Number of rounds.
    width : int
        Random frequencies of a layer of DKL-MLP.
    layers : int
        Number of layers of DKL-MLP.
    kernels : str
        "gaussian", "laplacian" or "cauchy" for all layers, or one for each with commas between.
    criterion : str
        Loss: "squared", whose exact steps are products with one matrix; "logistic" and "hinge", whose steps are
        searched for, take minutes.
    one_vs_rest : bool
        One class against the rest, each with a loss of its own (logistic, squared hinge); squares always.
    temperature : float
        Smooths the hinge of several classes, by at most temperature x log(classes).
    regularizer : float
        The centre's regulariser lambda.
    tune : bool
        Choose the bandwidths by cross-validated ridge regression; else they are the median distances.
    rho : float
        Penalty of DKLA and COKE.
    threshold : float
        COKE and QC-ODKLA broadcast in round k if their change has norm >= threshold * decay^k.
    decay : float
        Decay of the threshold per round.
    online_rho : float
        Penalty of QC-ODKLA.
    eta : float
        QC-ODKLA's weight of staying where one is: the larger, the shorter the step.
    bits : int
        Bits an element of QC-ODKLA's messages (1-16), range per message.
    losses : str
        Mean probabilities that a frame is lost, with commas between; QC-ODKLA runs with the first.
    channel : Channel
        The links; their loss is given by --losses.
    seed : int
        Seed of everything random.
    """
    channels = _channels(losses, channel)
    study.settings["edges"] = edges = _edges(agents) if edges is None else edges
    graph = random_graph({"agents": agents, "edges": edges}, seed)
    networks = {lost: each.network(graph, seed) for lost, each in channels.items()}
    check.integer("rounds", rounds, low=1)
    check.integer("layers", layers, low=1)
    check.integer("width", width, low=1)
    deep = Shape("DKL-MLP", (width,) * layers, tuple(kernels_in(kernels, layers)))
    flat = Shape("RF-KL", (deep.features,), deep.kernels[:1])
    methods = _Methods(rounds, rho, Geometric(threshold, decay), online_rho, eta, Uniform(bits), seed)
    table, classes = load(data, rows=rows, seed=seed)
    if not classes:
        raise check.refuse("data", data, "a data set of classes")
    loss = loss_of(criterion, len(classes), one_vs_rest=one_vs_rest, temperature=temperature)
    parts = deal(table, agents, train_share=_TRAIN_SHARE, seed=seed)
    inputs, target = training(parts)
    times = choose_times(
        study,
        [deep, flat],
        inputs,
        signs(target, len(classes)),
        regularizer=ridge_regularizer(loss, regularizer / agents),
        tune=tune,
        seed=seed,
    )
    cases = []
    for shape in (deep, flat):
        task = ClassTask(parts, shape.build(inputs, times[shape.name], seed), loss=loss, regularizer=regularizer)
        best = task.measures(task.optimum()[None])
        study.centralised |= {f"{shape.name} {name}": value for name, value in best.items()}
        for lost, network in networks.items():
            for method in ("DKLA", "COKE", "QC-ODKLA") if lost == next(iter(networks)) else ("DKLA", "COKE"):
                case = Case(shape, method, lost, best)
                probe = task.probe(ideal=channels[lost].is_ideal)
                study.run(case.name, network, methods.agents(method, task), [probe], rounds)
                cases.append(case)
    report(study, cases, len(classes))


@dataclass(frozen=True)
class _Methods:
    """The methods and their settings."""

    rounds: int
    rho: float
    censor: Geometric
    online_rho: float
    eta: float
    coder: Uniform
    seed: int

    def __post_init__(self) -> None:
        for name in ("rho", "online_rho", "eta"):
            check.finite(name, getattr(self, name), above=0.0)

    def agents(self, method: str, task: ClassTask) -> dict[int, SharingAgent]:
        """Return new agents, one a node."""
        if method == "QC-ODKLA":
            return {
                i: ODKLA(
                    OnlineClasses(
                        _passes(problem, self.seed, i),
                        problem.size[0],
                        loss=problem.loss,
                        regularizer=problem.regularizer,
                    ),
                    self.rounds,
                    rho=self.online_rho,
                    eta=self.eta,
                    censor=self.censor,
                    coder=self.coder,
                )
                for i, problem in enumerate(task.problems)
            }
        if method == "DKLA":
            return {i: DKLA(problem, self.rounds, rho=self.rho) for i, problem in enumerate(task.problems)}
        return {
            i: COKE(problem, self.rounds, rho=self.rho, censor=self.censor) for i, problem in enumerate(task.problems)
        }


def _passes(problem: ClassProblem, seed: int, agent: int) -> Samples:
    """Yield an agent's samples one by one, each pass over them in another random order, without end."""
    rng = draws.generator(seed, agent, "samples")
    while True:
        for row in rng.permutation(len(problem.labels)):
            yield problem.features[row], int(problem.labels[row])


def _channels(losses: str, channel: Channel) -> dict[float, Channel]:
    """Return the links by the probability of a loss."""
    if channel.loss:
        raise BadInput(f"loss = {channel.loss:g}: must be left out: --losses gives the probabilities")
    found = {}
    for each in names_in(losses):
        try:
            lost = float(each)
        except ValueError:
            raise check.refuse("losses", losses, "probabilities with commas between") from None
        found[check.probability("losses", lost)] = replace(channel, loss=lost)
    return found


def _edges(agents: int) -> int:
    """Return two edges for each agent, as far as there are pairs."""
    check.integer("agents", agents, low=1)
    return min(agents * (agents - 1) // 2, max(agents - 1, 2 * agents))
