"""Classics of distributed computing, as the lessons build them: each a short agent that names its paper."""

from netsim.agents.classics.byzantine import OralMessages, Traitor
from netsim.agents.classics.clocks import Event, LamportClock, Stamped, VectorClock
from netsim.agents.classics.crdts import AntiEntropy, GCounter, ORSet, PNCounter
from netsim.agents.classics.distance_vector import DistanceVector
from netsim.agents.classics.echo import Echo
from netsim.agents.classics.mutual_exclusion import RicartAgrawala
from netsim.agents.classics.raft import Raft
from netsim.agents.classics.sliding_window import Receiver, Sender
from netsim.agents.classics.snapshots import ChandyLamport, Part
from netsim.agents.classics.spanning_tree import GHS
from netsim.agents.classics.termination import DijkstraScholten

__all__ = [
    "GHS",
    "AntiEntropy",
    "ChandyLamport",
    "DijkstraScholten",
    "DistanceVector",
    "Echo",
    "Event",
    "GCounter",
    "LamportClock",
    "ORSet",
    "OralMessages",
    "PNCounter",
    "Part",
    "Raft",
    "Receiver",
    "RicartAgrawala",
    "Sender",
    "Stamped",
    "Traitor",
    "VectorClock",
]
