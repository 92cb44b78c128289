"""An asyncio message-passing network emulator for decentralized learning, in deterministic virtual time."""

from netsim import latency, loss, quantize, topology
from netsim.agent import Agent
from netsim.budget import Budget
from netsim.core import Copies, Frame
from netsim.count.trace import Trace
from netsim.errors import AgentError, BadInput, NetsimError, Stalled, WireError
from netsim.link import Link
from netsim.network import Network
from netsim.run import Run
from netsim.transport.clock import new_loop
from netsim.transport.heard import Heard

__all__ = [
    "Agent",
    "AgentError",
    "BadInput",
    "Budget",
    "Copies",
    "Frame",
    "Heard",
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
