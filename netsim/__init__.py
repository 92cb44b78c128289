"""An asyncio message-passing network emulator for decentralized learning, in deterministic virtual time."""

from netsim import latency, loss, quantize, topology
from netsim.agent import Agent
from netsim.clock import new_loop
from netsim.errors import AgentError, BadInput, NetsimError, Stalled, WireError
from netsim.link import Link
from netsim.network import Network
from netsim.rate import Budget
from netsim.run import Run
from netsim.trace import Trace
from netsim.wire import Frame

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
    "Stalled",
    "Trace",
    "WireError",
    "latency",
    "loss",
    "new_loop",
    "quantize",
    "topology",
]
