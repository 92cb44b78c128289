"""Decentralized kernel-learning algorithms, each an agent of netsim."""

from agents.batch import COKE, CTA, DKLA
from agents.censor import Always, Censor, Geometric
from agents.features import FeatureMap, RandomFourier
from agents.local import LocalProblem, centralised
from agents.losses import Logistic, Loss, Squared
from agents.sharing import Sharing

__all__ = [
    "COKE",
    "CTA",
    "DKLA",
    "Always",
    "Censor",
    "FeatureMap",
    "Geometric",
    "LocalProblem",
    "Logistic",
    "Loss",
    "RandomFourier",
    "Sharing",
    "Squared",
    "centralised",
]
