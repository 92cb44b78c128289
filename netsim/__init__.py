"""An asyncio message-passing network emulator for decentralized learning, in deterministic virtual time.

After ``import netsim`` all that ``__all__`` names is there, and every room of the package by its name, as
``netsim.latency``, ``netsim.testing``, ``netsim.agents``. A study is found by `find`:
``netsim.find("coke").execute(loss=0.1)``.
"""

import importlib
from typing import TYPE_CHECKING, Any

from netsim._version import __version__

if TYPE_CHECKING:
    from netsim import coders, faults, latency, links, loss, presets, radio, rate, results, testing, topology
    from netsim.agent import Agent
    from netsim.budget import Budget
    from netsim.core import Copies, Frame
    from netsim.count.ledger import Ledger
    from netsim.count.trace import Trace
    from netsim.errors import AgentError, BadInput, NetsimError, RunOver, Stalled, WireError
    from netsim.faults.script import Faults
    from netsim.link import Link
    from netsim.live.session import watching
    from netsim.network import Network
    from netsim.radio import Energy, Radio
    from netsim.reliability import Reliability
    from netsim.run import Run
    from netsim.sockets.merge import gather
    from netsim.sockets.mqtt import MQTT
    from netsim.sockets.transport import Transport
    from netsim.sockets.udp import UDP
    from netsim.studies.catalogue import find
    from netsim.studies.study import Study
    from netsim.studies.sweep.sweep import sweep
    from netsim.studies.verify import verify
    from netsim.transport.clock import new_loop
    from netsim.transport.heard import Heard

__all__ = [
    "MQTT",
    "UDP",
    "Agent",
    "AgentError",
    "BadInput",
    "Budget",
    "Copies",
    "Energy",
    "Faults",
    "Frame",
    "Heard",
    "Ledger",
    "Link",
    "NetsimError",
    "Network",
    "Radio",
    "Reliability",
    "Run",
    "RunOver",
    "Stalled",
    "Study",
    "Trace",
    "Transport",
    "WireError",
    "__version__",
    "coders",
    "faults",
    "find",
    "gather",
    "latency",
    "links",
    "loss",
    "new_loop",
    "presets",
    "radio",
    "rate",
    "results",
    "sweep",
    "testing",
    "topology",
    "verify",
    "watching",
]

# Where each stands. Imported when first asked for, so that the command line is there at once, and answers Ctrl-C.
_HOMES = {
    "agent": ("Agent",),
    "budget": ("Budget",),
    "core": ("Copies", "Frame"),
    "count.ledger": ("Ledger",),
    "count.trace": ("Trace",),
    "errors": ("AgentError", "BadInput", "NetsimError", "RunOver", "Stalled", "WireError"),
    "faults": ("Faults",),
    "link": ("Link",),
    "live.session": ("watching",),
    "network": ("Network",),
    "radio": ("Energy", "Radio"),
    "reliability": ("Reliability",),
    "run": ("Run",),
    "sockets.merge": ("gather",),
    "sockets.mqtt": ("MQTT",),
    "sockets.transport": ("Transport",),
    "sockets.udp": ("UDP",),
    "studies.catalogue": ("find",),
    "studies.study": ("Study",),
    "studies.sweep": ("sweep",),
    "studies.verify": ("verify",),
    "transport.clock": ("new_loop",),
    "transport.heard": ("Heard",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = globals()[name] = getattr(importlib.import_module(f"netsim.{_HOME[name]}"), name)
        return value
    try:
        return importlib.import_module(f"netsim.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"netsim.{name}":
            raise
    raise AttributeError(f"module 'netsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
