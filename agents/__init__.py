"""Decentralized kernel-learning algorithms, each an agent of netsim."""

from netsim.agents.batch import COKE, CTA, DKLA
from netsim.agents.censor import Always, AtRandom, Censor, Geometric, Periodic, PowerLaw, Relative
from netsim.agents.classes import ClassProblem, OnlineClasses, centralised_classes
from netsim.agents.consensus import Diffusion, Dual, SharingAgent
from netsim.agents.deep import Deep, MultiPath, fourier_layers
from netsim.agents.dictionary import Dictionary
from netsim.agents.features import FeatureMap, RandomFourier
from netsim.agents.local import LocalProblem, centralised
from netsim.agents.losses import Hinge, Logistic, Loss, Squared, SquaredHinge
from netsim.agents.multiclass import MulticlassHinge, MulticlassLoss, OneVsRest, Softmax
from netsim.agents.multikernel import CompleteOMKL, GossipOMKL, MultiKernelCost, SideBySide
from netsim.agents.online import DDKL, DOKL, ODKLA, RFFDOKL, OnlineCost
from netsim.agents.orders import network_graph, projectors
from netsim.agents.penalty import ConstantPenalty, DoublingPenalty, GreedyPenalty
from netsim.agents.projections import Ensemble
from netsim.agents.sharing import Sharing

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
