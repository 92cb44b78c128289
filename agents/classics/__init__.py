"""Classics of distributed computing, as the lessons build them: each a short agent that names its paper."""

from netsim.agents.classics.raft import Raft

__all__ = ["Raft"]
