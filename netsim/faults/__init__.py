"""Faults: what happens to nodes, links and clocks at set times, as a list that can be printed, saved and drawn."""

from netsim.faults.events import ClockSkew, Crash, Fault, Jitter, Join, Leave, LinkDown, Partition, Straggler
from netsim.faults.script import Faults

__all__ = [
    "ClockSkew",
    "Crash",
    "Fault",
    "Faults",
    "Jitter",
    "Join",
    "Leave",
    "LinkDown",
    "Partition",
    "Straggler",
]
