"""Ortega and Jafarkhani 2023: gossiped and quantized online multi-kernel learning, figures 1 and 2 and the text."""

from functools import partial

import pandas as pd

from netsim.scenarios.papers.claim import Cell, Claim, Paper, Reader, Try
from netsim.scenarios.papers.work import Runs, Work

_FEWER = "one repetition for each seed (the paper: 100)"
_SCALED = {"unit": "each input scaled to [0, 1]", "variance": "each input scaled to variance 1"}


def _work(name: str, data: str, differs: str = "", /, **settings: object) -> Work:
    return Work.of("omkl", name, differs, data=data, repeats=1, **settings)


WORKS = (
    _work("banana", "banana", _FEWER),
    *(_work(f"banana-{scaling}", "banana", scaling=scaling) for scaling in _SCALED),
    _work("credit", "credit_default", f"{_FEWER}; 23 inputs (the paper: 'd = 2')"),
    _work("mnist", "mnist", _FEWER, rows=70_000, topologies="path,complete"),
)

_NAMES = {"banana": "Banana", "credit": "Credit card", "mnist": "MNIST"}
_OPEN = "how the inputs are scaled, and which of the three data sets figure 1 shows"


def _ends(runs: Runs, column: str, eta: float | None, *methods: str) -> "list[pd.Series[float]]":
    """Return, for each method, the final values of a column by seed, with one step, by default the smallest."""
    table = runs.table("ends")
    runs.columns(table, "eta", "method", column)
    step = table["eta"].min() if eta is None else eta
    by_method = table[table["eta"] == step].pivot(index="seed", columns="method", values=column)
    runs.columns(by_method, *methods)
    return [by_method[method] for method in methods]


def _apart(runs: Runs, eta: float, method: str, against: str, column: str = "running_loss") -> "pd.Series[float]":
    """Return, by seed, the relative excess of a method's loss over another's."""
    mine, other = _ends(runs, column, eta, method, against)
    return mine / other - 1.0


def _difference(runs: Runs, eta: float, method: str, against: str) -> "pd.Series[float]":
    """Return, by seed, the difference of a method's running loss from another's."""
    mine, other = _ends(runs, "running_loss", eta, method, against)
    return (mine - other).abs()


def _messages(runs: Runs) -> "pd.Series[float]":
    """Return, by seed, the link messages of gossip on a path divided by those of OMKL on the complete graph."""
    path, complete = _ends(runs, "link_messages", None, "gossip path 3-bit", "OMKL complete 3-bit")
    return path / complete


def _named(eta: float, *methods: str) -> tuple[str, ...]:
    """Return the names that methods with a step have in rounds.csv."""
    return tuple(f"{method}, eta {eta:g}" for method in methods)


def _compared(method: str, against: str, work: str) -> partial[Claim]:
    """Return a claim's arguments that compare two methods with the paper's step, and name other settings to try."""

    def read(eta: float, column: str = "running_loss") -> Reader:
        return lambda runs: _apart(runs, eta, method, against, column)

    both = _named(0.01, method, against)
    tries = [
        Try("eta = 0.1", work, read(0.1), _named(0.1, method, against)),
        Try("the loss of the last tenth of the rounds", work, read(0.01, "tail_loss"), both),
    ]
    if work == "omkl-banana":
        tries += [Try(what, f"{work}-{scaling}", read(0.01), both) for scaling, what in _SCALED.items()]
    return partial(Claim, work=work, read=read(0.01), of=both, tries=tuple(tries))


def _of(data: str) -> tuple[Claim, ...]:
    work, name = f"omkl-{data}", _NAMES[data]
    quantized = "gossip path 3-bit", "gossip path"
    return (
        _compared("gossip path 3-bit", "OMKL complete 3-bit", work)(
            where="figure 1",
            what=f"{name}: gossip on a path loses little to OMKL on the complete graph",
            cells=(Cell("more", high=0.01),),
            criterion="Running loss above OMKL's, at most 1 %, with eta = 0.01 and 3 bits: 'a small difference'.",
            open=_OPEN,
        ),
        Claim(
            where="figure 1",
            what=f"{name}: gossip on a path needs many fewer messages",
            work=work,
            read=_messages,
            cells=(Cell("share", high=0.2),),
            learning=False,
            criterion="Link messages over those of OMKL on all links; 19 links of 190 are 0.1.",
        ),
        _compared("gossip path 3-bit", "Koloskova path 3-bit", work)(
            where="figure 1",
            what=f"{name}: three kernels clearly beat one (Koloskova, sigma = 1)",
            cells=(Cell("more", high=-0.01),),
            criterion="Running loss relative to the single kernel's, at least 1 % below it.",
            open=_OPEN,
        ),
        _compared("gossip path", "gossip complete", work)(
            where="section IV",
            what=f"{name}: with eta = 0.01 the topology does not matter",
            cells=(Cell("more", low=-1e-3, high=1e-3),),
            criterion="Running loss of the path relative to the complete graph's, within 0.1 %.",
        ),
        Claim(
            where="section IV",
            what=f"{name}: a 3-bit quantizer changes the loss by the order of 1e-6",
            work=work,
            read=lambda runs: _difference(runs, 0.01, *quantized),
            cells=(Cell("difference", high=1e-5),),
            of=_named(0.01, *quantized),
            tries=(Try("eta = 0.1", work, lambda runs: _difference(runs, 0.1, *quantized), _named(0.1, *quantized)),),
            criterion="Difference of the running losses on the path, below 1e-5.",
        ),
    )


def _topology(better: str, worse: str) -> Claim:
    return Claim(
        where="figure 2",
        what=f"Credit card, eta = 0.1, no quantizer: {better} graph learns better than the {worse}",
        work="omkl-credit",
        read=lambda runs: _apart(runs, 0.1, f"gossip {worse}", f"gossip {better}"),
        cells=(Cell("more", low=0.0),),
        of=_named(0.1, f"gossip {worse}", f"gossip {better}"),
        criterion=f"Running loss of the {worse} relative to that of the {better}, above 0.",
        open=_OPEN,
    )


PAPER = Paper(
    name="omkl",
    title="Ortega and Jafarkhani, Gossiped and Quantized Online Multi-Kernel Learning, 2023",
    works=WORKS,
    claims=(
        *(claim for data in _NAMES for claim in _of(data)),
        _topology("complete", "ring"),
        _topology("ring", "path"),
    ),
    notes=(
        "Run with the steps, features and numbers of rounds of the paper. With eta = 0.01 our models are "
        "correct about as often as a constant answer, so most claims are void.",
    ),
    left_out=("The curves of figures 1 and 2: their numbers are not in the text.",),
)
