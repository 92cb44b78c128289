"""Decentralized kernel-learning algorithms, each an agent of netsim."""

from agents.batch import COKE, CTA, DKLA
from agents.censor import Always, AtRandom, Censor, Geometric, Periodic, PowerLaw, Relative
from agents.features import FeatureMap, RandomFourier
from agents.local import LocalProblem, centralised
from agents.losses import Logistic, Loss, Squared, SquaredHinge
from agents.online import DDKL, DOKL, ODKLA, RFFDOKL, OnlineCost
from agents.sharing import Sharing

__all__ = [
    "COKE",
    "CTA",
    "DDKL",
    "DKLA",
    "DOKL",
    "ODKLA",
    "RFFDOKL",
    "Always",
    "AtRandom",
    "Censor",
    "FeatureMap",
    "Geometric",
    "LocalProblem",
    "Logistic",
    "Loss",
    "OnlineCost",
    "Periodic",
    "PowerLaw",
    "RandomFourier",
    "Relative",
    "Sharing",
    "Squared",
    "SquaredHinge",
    "centralised",
]
