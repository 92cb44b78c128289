"""Classics of distributed computing, as the lessons build them: each a short agent that names its paper."""

from netsim.agents.classics.byzantine import OralMessages, Traitor
from netsim.agents.classics.crdts import AntiEntropy, GCounter, ORSet, PNCounter
from netsim.agents.classics.spanning_tree import GHS

__all__ = ["GHS", "AntiEntropy", "GCounter", "ORSet", "OralMessages", "PNCounter", "Traitor"]
