"""Predd, Kulkarni and Poor, kernel regression by successive orthogonal projections: the claims of the theorems."""

import pandas as pd

from netsim.scenarios.papers.claim import Cell, Claim, Paper
from netsim.scenarios.papers.reading import at_end, over_centralised, rows_of, spread
from netsim.scenarios.papers.work import Runs, Work

_ORDERS = ("token", "coloured", "random", "contention")
_FIELD = "a field of our own: the paper has no experiment"
WORKS = (
    Work("projections-sensors", "projections", {}, _FIELD),
    Work("projections-longer", "projections", {"sweeps": 160, "orders": "token,coloured"}, _FIELD),
    Work("projections-centralised", "projections", {"ensemble": "centralised", "agents": 10}, _FIELD),
)


def _growth(runs: Runs) -> "pd.Series[float]":
    """Return, by seed, the largest increase of the distance to the limit, divided by the distance in round 1.

    The maximum is over all rounds and orders of turns.
    """
    largest = []
    for order in _ORDERS:
        by_seed = rows_of(runs, order, "limit_distance").groupby("seed")["limit_distance"]
        largest.append(by_seed.apply(lambda part: float(part.diff().max() / part.iloc[0])))
    return pd.concat(largest, axis=1).max(axis=1)


def _nears(order: str) -> Claim:
    column = "limit_distance"
    return Claim(
        where="theorem 3",
        what=f"The agents go on towards the solution of the relaxed problem, order {order}",
        work="projections-longer",
        read=lambda runs: at_end(runs, order, column) / at_end(runs.beside("projections-sensors"), order, column),
        cells=(Cell("ratio", high=0.9),),
        criterion="Distance to the limit after 160 turns each over that after 40, at most 0.9: still falling.",
    )


PAPER = Paper(
    name="projections",
    title="Predd, Kulkarni and Poor, Distributed Kernel Regression: An Algorithm for Training Collaboratively, 2006",
    works=WORKS,
    claims=(
        Claim(
            where="theorem 2",
            what="No step leads away from the limit",
            work="projections-sensors",
            read=_growth,
            cells=(Cell("step", high=1e-6),),
            criterion="Largest step away over the first distance, in any of four orders; 1e-6 for rounding.",
        ),
        *(_nears(order) for order in _ORDERS[:2]),
        Claim(
            where="theorem 5",
            what="In a connected ensemble every agent comes to the centralised solution, lambda = sum of lambda_i",
            work="projections-centralised",
            read=over_centralised("token", "test_mse"),
            cells=(Cell("ratio", low=0.99, high=1.01),),
            criterion="MSE of the agents over the centralised solution's, at the end, within 1 %. All agents read all.",
        ),
        Claim(
            where="section IV",
            what="The order of turns is not essential",
            work="projections-sensors",
            read=spread("test_mse", *_ORDERS),
            cells=(Cell("ratio", high=1.1),),
            criterion="Largest test MSE of four orders over the smallest, after 40 turns each, at most 1.1.",
        ),
    ),
    left_out=("The paper has no numerical results: its experiments are in another paper.",),
)
