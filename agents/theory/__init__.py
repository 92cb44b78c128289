"""Theorems about the algorithms: ranges of parameters, bounds, and exact predictions, computed from agents.

An algorithm names its theorems in the class variable ``theorems``. `ranges`, `bounds`, `probe`, `exact_rate` and
`choose` use the theorems that apply to a network's agents; `lines` gives the reasons why others do not. Where a run
contradicts a printed formula, the formula is corrected; docstrings describe the correction, and ``printed=True`` gives
the printed form. Nothing here depends on a run: a theorem takes a graph and agents, which have costs, weights, a censor
and a coder. All theorems assume lossless links: `not_ideal` checks a network for this.
"""

from netsim.agents.theory.choice import (
    admissible,
    bounds,
    choose,
    exact_rate,
    lines,
    probe,
    ranges,
    theorems_of,
    warnings,
)
from netsim.agents.theory.chosen import Chosen
from netsim.agents.theory.inputs import Contraction, Curvature, Graph, Mixing, contraction, weights_of
from netsim.agents.theory.links import not_ideal
from netsim.agents.theory.measure import MEASURED, Theory
from netsim.agents.theory.theorem import Range, Theorem

__all__ = [
    "MEASURED",
    "Chosen",
    "Contraction",
    "Curvature",
    "Graph",
    "Mixing",
    "Range",
    "Theorem",
    "Theory",
    "admissible",
    "bounds",
    "choose",
    "contraction",
    "exact_rate",
    "lines",
    "not_ideal",
    "probe",
    "ranges",
    "theorems_of",
    "warnings",
    "weights_of",
]
