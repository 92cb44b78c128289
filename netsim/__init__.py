"""An asyncio message-passing network emulator for decentralized learning, in deterministic virtual time."""

from netsim import latency, loss, quantize, topology
from netsim.agent import Agent
from netsim.budget import Budget
from netsim.count.trace import Trace
from netsim.errors import AgentError, BadInput, NetsimError, RunOver, Stalled, WireError
from netsim.link import Link
from netsim.network import Network
from netsim.run import Run
from netsim.transport.clock import new_loop
from netsim.transport.frame import Frame

__all__ = [
    "Agent",
    "AgentError",
    "BadInput",
    "Budget",
    "Frame",
    "Link",
    "NetsimError",
    "Network",
    "Run",
    "RunOver",
    "Stalled",
    "Trace",
    "WireError",
    "latency",
    "loss",
    "new_loop",
    "quantize",
    "topology",
]
