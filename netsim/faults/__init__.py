"""Scripts of faults of nodes, links and clocks at given times, which can be printed, saved and drawn at random."""

from netsim.faults import events
from netsim.faults.events import *  # noqa: F403
from netsim.faults.script import Faults
from netsim.faults.words import read

__all__ = ["Faults", "read"]
__all__ += events.__all__
