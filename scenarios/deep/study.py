"""RF-KL, DKL and DKL-MLP beside a network trained in all its layers: what a few trainable parameters are worth."""

import time
from collections.abc import Callable, Mapping

import networkx as nx
import numpy as np

from netsim import Network, check
from netsim.agents import DKLA
from netsim.errors import BadInput
from netsim.scenarios.data.tables import deal
from netsim.scenarios.deep.baselines import Baseline, ceiling, deep_network
from netsim.scenarios.deep.maps import Shape, choose_times, kernels_in, shapes, whole_numbers
from netsim.scenarios.deep.report import Learned, report
from netsim.scenarios.tasks.classes import DIGITS, ClassTask, RegressionTask, load, loss_of, ridge_regularizer, signs
from netsim.studies import Study

Task = ClassTask | RegressionTask

_WIDTHS = {
    "tomshardware": "100,200",
    "sensorless_subset": "200,400",
    "adult": "100,500",
    "wisdm_har": "10,20",
    "letter": "200",
}
_USUAL_WIDTHS = "50,100"
_DNN_WIDTHS = {"tomshardware": 25, "adult": 100, "wisdm_har": 10}
_ROWS = {"tomshardware": 11_000}
_TRAIN_SHARE = 0.75
_FEWEST = 10  # rows from which a ceiling can be learned


def deep(
    study: Study,
    *,
    data: str = DIGITS,
    rows: int | None = None,
    widths: str | None = None,
    layers: int = 2,
    kernels: str = "gaussian",
    criterion: str | None = None,
    one_vs_rest: bool = False,
    temperature: float = 0.1,
    regularizer: float = 1e-4,
    tune: bool = True,
    repeats: int = 3,
    ceiling_rows: int = 4000,
    seed: int = 0,
) -> None:
    """Deep kernel learning: RF-KL, DKL, DKL-MLP against a DNN (P. Xu's dissertation, ch. 5).

    One agent learns alone, so every model is the exact optimum on its features. Widths left open are as published.

    Parameters
    ----------
    data : str
        "digits" (comes with scikit-learn), or letter, tomshardware, sensorless_subset, adult, wisdm_har, or another
        NAME of NAME.csv.gz in the folder NETSIM_DATA.
    rows : int
        Use only so many rows, taken at random; tomshardware: 11,000 by default, as published.
    widths : str
        Random frequencies of a layer; several with commas between.
    layers : int
        Number of layers of DKL and DKL-MLP.
    kernels : str
        "gaussian", "laplacian" or "cauchy" for all layers, or one for each with commas between.
    criterion : str
        Loss of a classification: "logistic" (default), "hinge" or "squared". A regression has squares.
    one_vs_rest : bool
        One class against the rest, each with a loss of its own (logistic, squared hinge); squares always.
    temperature : float
        Smooths the hinge of several classes, by at most temperature x log(classes).
    regularizer : float
        The regulariser lambda.
    tune : bool
        Choose the bandwidths by cross-validated ridge regression; else they are the median distances.
    repeats : int
        Draws of the random frequencies.
    ceiling_rows : int
        The most rows from which the SVM or kernel ridge regression learns; 0 leaves it out.
    seed : int
        Seed of everything random.
    """
    given_rows = rows
    study.settings["rows"] = rows = _ROWS.get(data) if rows is None else rows
    study.settings["widths"] = widths = _WIDTHS.get(data, _USUAL_WIDTHS) if widths is None else widths
    check.integer("layers", layers, low=2)
    candidates = shapes(whole_numbers("widths", widths), layers, kernels_in(kernels, layers))
    check.integer("repeats", repeats, low=1)
    if check.integer("ceiling_rows", ceiling_rows, low=0) in range(1, _FEWEST):
        raise check.refuse("ceiling_rows", ceiling_rows, f"0 or a whole number >= {_FEWEST}")
    check.finite("regularizer", regularizer, above=0.0)
    table, classes = load(data, rows=rows, seed=seed)
    count = len(classes)
    if not count and (criterion not in (None, "squared") or one_vs_rest):
        given = f"criterion = {criterion!r}, one_vs_rest = {one_vs_rest}"
        raise BadInput(f"{given}: must be squared and False for the numbers of {data}")
    study.settings["criterion"] = criterion = criterion or ("logistic" if count else "squared")
    loss = loss_of(criterion, count, one_vs_rest=one_vs_rest, temperature=temperature) if count else None
    (part,) = deal(table, 1, train_share=_TRAIN_SHARE, seed=seed)
    targets = signs(part.train_target, count) if count else part.train_target
    times = choose_times(
        study,
        candidates,
        part.train_inputs,
        targets,
        regularizer=regularizer if loss is None else ridge_regularizer(loss, regularizer),
        tune=tune,
        seed=seed,
    )

    def task(shape: Shape, draw: int) -> Task:
        phi = shape.build(part.train_inputs, times[shape.name], seed + draw)
        if loss is None:
            return RegressionTask(part, phi, regularizer=regularizer)
        return ClassTask([part], phi, loss=loss, regularizer=regularizer)

    learned = [_learn(study, shape, draw, task, seed) for shape in candidates for draw in range(repeats)]
    units = [_DNN_WIDTHS.get(data, candidates[0].widths[0])] * layers
    baselines: dict[str, Callable[[], Baseline]] = {
        "DNN": lambda: deep_network(part, units, count, regularizer=regularizer, seed=seed)
    }
    if ceiling_rows:
        baselines["ceiling"] = lambda: ceiling(part, count, most_rows=ceiling_rows, seed=seed)
    others = _those_that_learn(study, baselines)
    if data in _WIDTHS and (given_rows is not None or set(kernels_in(kernels, layers)) != {"gaussian"}):
        study.note("Published values are of Gaussian kernels and of all the rows that the dissertation used.")
    report(study, learned, others, part, classes, len(table.target))


def _those_that_learn(study: Study, baselines: Mapping[str, Callable[[], Baseline]]) -> list[Baseline]:
    """Return what the baselines achieved; a note says which a library refused."""
    found = []
    for name, baseline in baselines.items():
        try:
            found.append(baseline())
        except ValueError as error:
            # Of some samples, such as those of one class only, our maps do learn.
            study.note(f"{name} left out: {' '.join(str(error).split())}")
    return found


def _learn(study: Study, shape: Shape, draw: int, task: Callable[[Shape, int], Task], seed: int) -> Learned:
    """Learn with one draw of a map: without neighbours one step of DKLA is the exact optimum."""
    begin = time.perf_counter()
    made = task(shape, draw)
    agent = DKLA(made.problems[0], 1, rho=1.0)
    measured: dict[str, float] = {}

    def probe(agents: object) -> dict[str, float]:
        measured.update(made.measures(agent.theta[None]))
        return measured

    name = shape.name if not draw else f"{shape.name}, draw {draw + 1}"
    study.run(name, Network(nx.empty_graph(1), seed=seed), {0: agent}, [probe], 1)
    seconds = time.perf_counter() - begin
    confusion = made.confusion(agent.theta[None]) if isinstance(made, ClassTask) else None
    return Learned(shape, draw, int(np.size(agent.theta)), measured, seconds, confusion)
