"""Ortega and Jafarkhani 2023: gossiped and quantized online multi-kernel learning, figures 1 and 2 and the text."""

from typing import TYPE_CHECKING, Any

from netsim.scenarios.papers.claim import Cell, Claim, Paper, Try
from netsim.scenarios.papers.reading import Measured, single
from netsim.scenarios.papers.work import Runs, Work

if TYPE_CHECKING:
    import pandas as pd

_FEWER = "one repetition for each seed (the paper: 100)"
_ONE = {"repeats": 1}
_SCALED = {"unit": "each input scaled to [0, 1]", "variance": "each input scaled to variance 1"}
WORKS = (
    Work("omkl-banana", "omkl", {"data": "banana", **_ONE}, _FEWER),
    *(Work(f"omkl-banana-{scaling}", "omkl", {"data": "banana", **_ONE, "scaling": scaling}) for scaling in _SCALED),
    Work(
        "omkl-credit",
        "omkl",
        {"data": "credit_default", **_ONE},
        f"{_FEWER}; 23 inputs (the paper: 'd = 2')",
    ),
    Work(
        "omkl-mnist",
        "omkl",
        {"data": "mnist", **_ONE, "rows": 70_000, "topologies": "path,complete"},
        _FEWER,
    ),
)

_NAMES = {"banana": "Banana", "credit": "Credit card", "mnist": "MNIST"}
_OPEN = "how the inputs are scaled, and which of the three data sets figure 1 shows"


def _losses(runs: Runs, eta: float, column: str, *methods: str) -> "pd.DataFrame":
    """Return a loss at the end with a step, by seed: a column for each of some methods."""
    table = runs.table("ends")
    runs.columns(table, "eta", "method", column)
    return runs.columns(
        table[table["eta"] == eta].pivot(index="seed", columns="method", values=column),
        *methods,
    )


def _apart(eta: float, method: str, against: str, column: str = "running_loss") -> Measured:
    """Return a measure: by seed, how much more a method's loss is than another's, relative to that."""

    def measure(runs: Runs) -> "pd.Series[float]":
        losses = _losses(runs, eta, column, method, against)
        return losses[method] / losses[against] - 1.0

    return measure


def _difference(eta: float, method: str, against: str) -> Measured:
    """Return a measure: by seed, by how much a method's running loss differs from another's."""

    def measure(runs: Runs) -> "pd.Series[float]":
        losses = _losses(runs, eta, "running_loss", method, against)
        return (losses[method] - losses[against]).abs()

    return measure


def _messages(runs: Runs) -> "pd.Series[float]":
    """Return, by seed, gossip's link messages on a path over those of OMKL on the complete graph."""
    table = runs.table("ends")
    runs.columns(table, "eta", "method", "link_messages")
    counts = table[table["eta"] == table["eta"].min()].pivot(index="seed", columns="method", values="link_messages")
    runs.columns(counts, "gossip path 3-bit", "OMKL complete 3-bit")
    share: pd.Series[float] = counts["gossip path 3-bit"] / counts["OMKL complete 3-bit"]
    return share


def _named(eta: float, *methods: str) -> tuple[str, ...]:
    """Return what methods are called in rounds.csv with a step."""
    return tuple(f"{method}, eta {eta:g}" for method in methods)


def _compared(method: str, against: str, work: str) -> dict[str, Any]:
    """Return how two methods are compared with the paper's step, and the other ways that are tried."""

    def there(label: str, eta: float, column: str = "running_loss", work: str = work) -> Try:
        return Try(label, work, single("more", _apart(eta, method, against, column)), _named(eta, method, against))

    tries = [there("eta = 0.1", 0.1), there("the loss of the last tenth of the rounds", 0.01, "tail_loss")]
    if work == "omkl-banana":
        tries += [there(what, 0.01, work=f"{work}-{scaling}") for scaling, what in _SCALED.items()]
    read = single("more", _apart(0.01, method, against))
    return {"work": work, "read": read, "of": _named(0.01, method, against), "tries": tuple(tries)}


def _of(data: str) -> tuple[Claim, ...]:
    work, name = f"omkl-{data}", _NAMES[data]
    quantized = "gossip path 3-bit", "gossip path"
    return (
        Claim(
            where="figure 1",
            what=f"{name}: gossip on a path loses little to OMKL on the complete graph",
            **_compared("gossip path 3-bit", "OMKL complete 3-bit", work),
            cells=(Cell("more", high=0.01),),
            criterion="Running loss above OMKL's, at most 1 %, with eta = 0.01 and 3 bits: 'a small difference'.",
            open=_OPEN,
        ),
        Claim(
            where="figure 1",
            what=f"{name}: gossip on a path needs many fewer messages",
            work=work,
            read=single("share", _messages),
            cells=(Cell("share", high=0.2),),
            learning=False,
            criterion="Link messages over those of OMKL on all links; 19 links of 190 are 0.1.",
        ),
        Claim(
            where="figure 1",
            what=f"{name}: three kernels clearly beat one (Koloskova, sigma = 1)",
            **_compared("gossip path 3-bit", "Koloskova path 3-bit", work),
            cells=(Cell("more", high=-0.01),),
            criterion="Running loss relative to the single kernel's, at least 1 % below it.",
            open=_OPEN,
        ),
        Claim(
            where="section IV",
            what=f"{name}: with eta = 0.01 the topology does not matter",
            **_compared("gossip path", "gossip complete", work),
            cells=(Cell("more", low=-1e-3, high=1e-3),),
            criterion="Running loss of the path relative to the complete graph's, within 0.1 %.",
        ),
        Claim(
            where="section IV",
            what=f"{name}: a 3-bit quantizer changes the loss by the order of 1e-6",
            work=work,
            read=single("difference", _difference(0.01, *quantized)),
            cells=(Cell("difference", high=1e-5),),
            of=_named(0.01, *quantized),
            tries=(
                Try("eta = 0.1", work, single("difference", _difference(0.1, *quantized)), _named(0.1, *quantized)),
            ),
            criterion="Difference of the running losses on the path, below 1e-5.",
        ),
    )


def _topology(better: str, worse: str) -> Claim:
    return Claim(
        where="figure 2",
        what=f"Credit card, eta = 0.1, no quantizer: {better} graph learns better than the {worse}",
        work="omkl-credit",
        read=single("more", _apart(0.1, f"gossip {worse}", f"gossip {better}")),
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
        "Run with the steps, features and numbers of rounds of the paper. With eta = 0.01 our models are right about "
        "as often as a constant answer is, so most claims are void.",
    ),
    left_out=("The curves of figures 1 and 2: their numbers are not in the text.",),
)
