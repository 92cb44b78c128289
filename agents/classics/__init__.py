"""Classics of distributed computing, as the lessons build them: each a short agent that names its paper."""

from netsim.agents.classics.distance_vector import DistanceVector
from netsim.agents.classics.mutual_exclusion import RicartAgrawala
from netsim.agents.classics.sliding_window import Receiver, Sender

__all__ = ["DistanceVector", "Receiver", "RicartAgrawala", "Sender"]
