"""Decentralized kernel-learning algorithms, each an agent of netsim."""

from agents.batch import COKE, CTA, DKLA
from agents.censor import Always, AtRandom, Censor, Geometric, Periodic, PowerLaw, Relative
from agents.classes import ClassProblem, OnlineClasses, centralised_classes
from agents.consensus import Diffusion, Dual, SharingAgent
from agents.deep import Deep, MultiPath, fourier_layers
from agents.dictionary import Dictionary
from agents.features import FeatureMap, RandomFourier
from agents.local import LocalProblem, centralised
from agents.losses import Hinge, Logistic, Loss, Squared, SquaredHinge
from agents.multiclass import MulticlassHinge, MulticlassLoss, OneVsRest, Softmax
from agents.multikernel import CompleteOMKL, GossipOMKL, MultiKernelCost, SideBySide
from agents.online import DDKL, DOKL, ODKLA, RFFDOKL, OnlineCost
from agents.orders import network_graph, projectors
from agents.penalty import ConstantPenalty, DoublingPenalty, GreedyPenalty
from agents.projections import Ensemble
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
    "ClassProblem",
    "CompleteOMKL",
    "ConstantPenalty",
    "Deep",
    "Dictionary",
    "Diffusion",
    "DoublingPenalty",
    "Dual",
    "Ensemble",
    "FeatureMap",
    "Geometric",
    "GossipOMKL",
    "GreedyPenalty",
    "Hinge",
    "LocalProblem",
    "Logistic",
    "Loss",
    "MultiKernelCost",
    "MultiPath",
    "MulticlassHinge",
    "MulticlassLoss",
    "OneVsRest",
    "OnlineClasses",
    "OnlineCost",
    "Periodic",
    "PowerLaw",
    "RandomFourier",
    "Relative",
    "Sharing",
    "SharingAgent",
    "SideBySide",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "centralised",
    "centralised_classes",
    "fourier_layers",
    "network_graph",
    "projectors",
]
