"""Decentralized kernel-learning algorithms and protocols of sensor networks, each an agent of netsim."""

from netsim.agents import schedule, theory
from netsim.agents.consensus.asynchronous import ADPSGD
from netsim.agents.consensus.base import Diffusion, Dual, SharingAgent
from netsim.agents.consensus.batch import COKE, CTA, DKLA
from netsim.agents.consensus.censor import Always, AtRandom, Censor, Geometric, Lazy, Periodic, PowerLaw, Relative
from netsim.agents.consensus.coded_sums import CodedSums
from netsim.agents.consensus.duals import Accumulated, Duals
from netsim.agents.consensus.edges import EdgeDuals
from netsim.agents.consensus.federated import SCAFFOLD, FedAvg
from netsim.agents.consensus.first_order import DPSGD, EXTRA, PGEXTRA
from netsim.agents.consensus.gossip import CHOCO, Gossip
from netsim.agents.consensus.lead import LEAD
from netsim.agents.consensus.local_training import LTADMM, RelaxedADMM
from netsim.agents.consensus.multikernel import CompleteOMKL, GossipOMKL
from netsim.agents.consensus.online import DDKL, DOKL, ODKLA, RFFDOKL
from netsim.agents.consensus.push import SGP, Push, PushDIGing
from netsim.agents.consensus.sharing import Sharing
from netsim.agents.consensus.star import EF21, EF21P, OverStar
from netsim.agents.consensus.sums import RunningSums
from netsim.agents.consensus.tracked import BEER, DIGing, Tracking
from netsim.agents.costs.classes import ClassProblem, OnlineClasses, centralised_classes
from netsim.agents.costs.kernels import MultiKernelCost
from netsim.agents.costs.local import LeastSquares, LocalProblem, centralised
from netsim.agents.costs.losses import Hinge, Logistic, LossFunction, Squared, SquaredHinge
from netsim.agents.costs.model import ModelCost
from netsim.agents.costs.multiclass import MulticlassHinge, MulticlassLoss, OneVsRest, Softmax
from netsim.agents.costs.nonsmooth import L1
from netsim.agents.costs.stream import OnlineCost
from netsim.agents.greedy.dictionary import Dictionary
from netsim.agents.greedy.penalty import ConstantPenalty, DoublingPenalty, GreedyPenalty
from netsim.agents.maps.deep import Deep, MultiPath, fourier_layers
from netsim.agents.maps.features import FeatureMap, RandomFourier
from netsim.agents.maps.side_by_side import SideBySide
from netsim.agents.models.layered import Layered, cnn, mlp, semi_random, softmax_regression
from netsim.agents.projections.divergences import BinaryEntropy, Divergence, Entropy, HalfSquare
from netsim.agents.projections.estimate import Ensemble
from netsim.agents.projections.orders import network_graph, projectors
from netsim.agents.protocols.collector import Collector
from netsim.agents.protocols.ctp import CTP
from netsim.agents.protocols.dissemination import Dissemination
from netsim.agents.protocols.estimator import LinkEstimator
from netsim.agents.protocols.ftsp import FTSP
from netsim.agents.protocols.glossy import Glossy
from netsim.agents.protocols.learner import Learner
from netsim.agents.protocols.lpl import LPL, ContikiMAC, XMac
from netsim.agents.protocols.neighbors import Neighbor, Neighbors
from netsim.agents.protocols.replayed import Replayed
from netsim.agents.protocols.requests import Requests
from netsim.agents.protocols.rpl import RPL
from netsim.agents.protocols.sampling import Sampler
from netsim.agents.protocols.trickle import Trickle
from netsim.agents.protocols.tsch import TSCH
from netsim.agents.schedule import Scheduled

__all__ = [
    "ADPSGD",
    "BEER",
    "CHOCO",
    "COKE",
    "CTA",
    "CTP",
    "DDKL",
    "DKLA",
    "DOKL",
    "DPSGD",
    "EF21",
    "EF21P",
    "EXTRA",
    "FTSP",
    "L1",
    "LEAD",
    "LPL",
    "LTADMM",
    "ODKLA",
    "PGEXTRA",
    "RFFDOKL",
    "RPL",
    "SCAFFOLD",
    "SGP",
    "TSCH",
    "Accumulated",
    "Always",
    "AtRandom",
    "BinaryEntropy",
    "Censor",
    "ClassProblem",
    "CodedSums",
    "Collector",
    "CompleteOMKL",
    "ConstantPenalty",
    "ContikiMAC",
    "DIGing",
    "Deep",
    "Dictionary",
    "Diffusion",
    "Dissemination",
    "Divergence",
    "DoublingPenalty",
    "Dual",
    "Duals",
    "EdgeDuals",
    "Ensemble",
    "Entropy",
    "FeatureMap",
    "FedAvg",
    "Geometric",
    "Glossy",
    "Gossip",
    "GossipOMKL",
    "GreedyPenalty",
    "HalfSquare",
    "Hinge",
    "Layered",
    "Lazy",
    "Learner",
    "LeastSquares",
    "LinkEstimator",
    "LocalProblem",
    "Logistic",
    "LossFunction",
    "ModelCost",
    "MultiKernelCost",
    "MultiPath",
    "MulticlassHinge",
    "MulticlassLoss",
    "Neighbor",
    "Neighbors",
    "OneVsRest",
    "OnlineClasses",
    "OnlineCost",
    "OverStar",
    "Periodic",
    "PowerLaw",
    "Push",
    "PushDIGing",
    "RandomFourier",
    "Relative",
    "RelaxedADMM",
    "Replayed",
    "Requests",
    "RunningSums",
    "Sampler",
    "Scheduled",
    "Sharing",
    "SharingAgent",
    "SideBySide",
    "Softmax",
    "Squared",
    "SquaredHinge",
    "Tracking",
    "Trickle",
    "XMac",
    "centralised",
    "centralised_classes",
    "cnn",
    "fourier_layers",
    "mlp",
    "network_graph",
    "projectors",
    "schedule",
    "semi_random",
    "softmax_regression",
    "theory",
]
