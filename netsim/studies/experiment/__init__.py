"""Experiments: problems × methods × networks × seeds as one object (`netsim.Experiment`)."""

from netsim.studies.experiment.experiment import Experiment
from netsim.studies.experiment.methods import Method, product
from netsim.studies.experiment.networks import Links
from netsim.studies.experiment.paths import Grid, NamedValue, vary
from netsim.studies.experiment.problems import Problem, Task
from netsim.studies.experiment.results import Results
from netsim.studies.experiment.setup import Ends, Setup
from netsim.studies.experiment.tuning import Between, OneOf, Tuned
from netsim.studies.outcome import Ending
from netsim.studies.seeds import Seeds

__all__ = [
    "Between",
    "Ending",
    "Ends",
    "Experiment",
    "Grid",
    "Links",
    "Method",
    "NamedValue",
    "OneOf",
    "Problem",
    "Results",
    "Seeds",
    "Setup",
    "Task",
    "Tuned",
    "product",
    "vary",
]
