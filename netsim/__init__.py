"""An asyncio message-passing network emulator for decentralized learning, in deterministic virtual time."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netsim import coders, latency, loss, topology
    from netsim.agent import Agent
    from netsim.budget import Budget
    from netsim.core import Copies, Frame
    from netsim.count.trace import Trace
    from netsim.errors import AgentError, BadInput, NetsimError, RunOver, Stalled, WireError
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
    "RunOver",
    "Stalled",
    "Trace",
    "WireError",
    "coders",
    "latency",
    "loss",
    "new_loop",
    "topology",
]

# Where each stands. Imported when first asked for, so that the command line is there at once, and answers Ctrl-C.
_HOMES = {
    "agent": ("Agent",),
    "budget": ("Budget",),
    "core": ("Copies", "Frame"),
    "count.trace": ("Trace",),
    "errors": ("AgentError", "BadInput", "NetsimError", "RunOver", "Stalled", "WireError"),
    "link": ("Link",),
    "network": ("Network",),
    "run": ("Run",),
    "transport.clock": ("new_loop",),
    "transport.heard": ("Heard",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("check", "coders", "draws", "errors", "latency", "loss", "topology")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"netsim.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'netsim' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"netsim.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
